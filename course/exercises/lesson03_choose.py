"""Lesson 3, first exercise: choose the next token.

The checker lets the student's function draw many times from one small distribution and looks at the frequencies: they
say what was done to the logits, however it is written. Then the function chooses in the loop that generates, beside
transformers' `generate` at the same seed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from course.exercises._lesson03_mistakes import MISTAKES, answer_with, distribution
from course.kit.exercises import Exercise, Verdict, WrongAnswer
from minimind.config import MiniMindConfig
from minimind.model.transformer import MiniMindForCausalLM
from minimind.serve.sampling import generate_by_hand

Choose = Callable[[Tensor, float, int, float, torch.Generator | None], Any]

DRAWS = 20_000
NEAR = 0.015
"""Four standard errors of the frequency of an even chance in so many draws."""

# Not in order of size, so that a place is not mistaken for a rank.
SIX = torch.tensor([0.10, 0.40, 0.04, 0.25, 0.06, 0.15]).log()
TIED = torch.tensor([0.4, 0.2, 0.2, 0.2]).log()


@dataclass(frozen=True)
class Case:
    """Logits, settings, and what they test."""

    logits: Tensor
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __str__(self) -> str:
        return f"temperature {self.temperature:g}, top_k {self.top_k}, top_p {self.top_p:g}"


CASES = (
    Case(SIX),
    Case(SIX, temperature=0.5),
    Case(SIX, temperature=2.0),
    Case(SIX, top_k=3),
    Case(SIX, top_k=1),
    Case(SIX, top_k=100),
    Case(SIX, top_p=0.5),
    Case(SIX, top_p=0.75),
    Case(SIX, top_p=1e-9),
    Case(SIX, temperature=2.0, top_p=0.75),
    Case(SIX, top_k=3, top_p=0.75),
    Case(TIED, top_k=2),
    Case(SIX, temperature=0.7, top_k=4, top_p=0.9),
)


def choose(
    logits_BV: Tensor, temperature: float, top_k: int, top_p: float, generator: torch.Generator | None
) -> Tensor:
    """The reference answer, with top-p counted from the likeliest down."""
    if temperature == 0:
        return logits_BV.argmax(dim=-1)
    logits_BV = logits_BV / temperature
    if top_k > 0:
        smallest_kept = logits_BV.topk(min(top_k, logits_BV.shape[-1])).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < smallest_kept, -torch.inf)
    if top_p < 1:
        ordered, order = logits_BV.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities
        let_go = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, before >= top_p)
        logits_BV = logits_BV.masked_fill(let_go, -torch.inf)
    return torch.multinomial(logits_BV.softmax(dim=-1), 1, generator=generator)[:, 0]


def check_choose(answer: Choose) -> Verdict:
    """Says whether a choice is the library's, and if not, what was done to the logits instead."""
    checks = (_wrong_form, _wrong_at_zero, _wrong_distribution, _wrong_rows, _wrong_draw, _wrong_in_the_loop)
    try:
        problem = next((found for check in checks if (found := check(answer)) is not None), None)
    except RuntimeError as error:
        problem = _nothing_left(error)
    if problem is not None:
        return Verdict.wrong(problem)
    return Verdict.correct(
        f"Your function draws from the distributions of transformers' own filters in {len(CASES)} settings, and in the "
        "loop it writes the ids that `generate` writes at the same seed. Servers choose tokens with these lines."
    )


def library_distribution(case: Case) -> Tensor:
    """What transformers' filters leave, as probabilities (V,)."""
    filters = LogitsProcessorList([TemperatureLogitsWarper(case.temperature)])
    if case.top_k > 0:
        filters.append(TopKLogitsWarper(case.top_k))
    if case.top_p < 1:
        filters.append(TopPLogitsWarper(case.top_p))
    scores: Any = filters(None, case.logits[None])  # type: ignore[arg-type]
    return scores.softmax(dim=-1)[0]


def _wrong_form(answer: Choose) -> str | None:
    logits = SIX.repeat(3, 1)
    chosen = answer(logits.clone(), 1.0, 0, 1.0, _generator())
    if not isinstance(chosen, Tensor):
        return f"Return a tensor with one id for each row; this returned a `{type(chosen).__name__}`."
    if chosen.is_floating_point():
        return (
            "Return ids, which are whole numbers; this returned numbers with a fraction. Draw with `torch.multinomial`."
        )
    if tuple(chosen.shape) == (3, 1):
        return "The ids have shape (3, 1); `torch.multinomial` gives a column. Take its only entry: `[:, 0]`."
    if tuple(chosen.shape) != (3,):
        return f"For logits of shape (3, 6) the ids have shape {tuple(chosen.shape)}; one id for each row makes (3,)."
    given = logits.clone()
    answer(given, 0.5, 2, 0.5, _generator())
    if not torch.equal(given, logits):
        return (
            "The function changes the logits that it was given, which belong to the caller. Make new ones: "
            "`logits / temperature` in place of `logits /= temperature`."
        )
    return None


def _wrong_at_zero(answer: Choose) -> str | None:
    try:
        chosen = answer(torch.stack((SIX, SIX.flip(0))), 0.0, 0, 1.0, _generator()).tolist()
    except RuntimeError as error:
        if "inf" not in str(error):
            raise
        return (
            "At temperature 0 the logits were divided by 0, and nothing can be drawn from `inf` and `nan`. Take the "
            "largest logit (`argmax`) before you come to the division."
        )
    if chosen == [1, 4]:
        return None
    if chosen == [2, 3]:
        return "At temperature 0 the least likely token was chosen; take the largest logit (`argmax`)."
    return f"At temperature 0 the likeliest token of each row has to be chosen, here [1, 4]; this chose {chosen}."


def _wrong_distribution(answer: Choose) -> str | None:
    """Compares frequencies with the library's probabilities, and names the mistake that explains them.

    A mistake that would have shown in a case before is no explanation of a later one.
    """
    suspects = list(MISTAKES)
    for case in CASES:
        settings = (case.temperature, case.top_k, case.top_p)
        try:
            chosen = answer(case.logits.repeat(DRAWS, 1), *settings, _generator())
        except RuntimeError as error:
            if "out of range" not in str(error):
                raise
            return f"top_k is {case.top_k} and there are {len(case.logits)} tokens: keep the smaller of the two."
        found = torch.bincount(chosen, minlength=len(case.logits)) / DRAWS
        right = library_distribution(case)
        wrong = {each: distribution(case.logits[None], *settings, each)[0] for each in suspects}
        if not _near(found, right):
            for mistake in suspects:
                if _near(found, wrong[mistake]):
                    return f"With {case}: {MISTAKES[mistake]}"
            return (
                f"With {case}, from probabilities {_shown(case.logits.softmax(-1))}, your function draws "
                f"{_shown(found)}; it should draw {_shown(right)}."
            )
        suspects = [each for each in suspects if _near(wrong[each], right)]
    return None


def _wrong_rows(answer: Choose) -> str | None:
    """Rows that differ: each has its own distribution."""
    other = 0.5 * SIX.flip(0) + 3  # other places, other values: a threshold of one row does not fit the other
    logits = torch.stack((SIX, other)).repeat(DRAWS // 2, 1)
    chosen = answer(logits, 1.0, 4, 0.8, _generator())
    for row, case in enumerate((Case(SIX, top_k=4, top_p=0.8), Case(other, top_k=4, top_p=0.8))):
        found = torch.bincount(chosen[row::2], minlength=6) / (DRAWS // 2)
        if not _near(found, library_distribution(case)):
            return (
                "When the rows of a batch differ, some are drawn from another row's distribution. Each row is a reply "
                "of its own: sort, sum and compare along the last dimension, and draw from every row."
            )
    return None


def _nothing_left(error: RuntimeError) -> str:
    """What torch's complaint about impossible probabilities means here; any other complaint is raised again."""
    if not any(sign in str(error) for sign in ("inf", "nan", "sum of probabilities")):
        raise error
    return (
        "Nothing was left to draw from: in some row every token was let go. The token that crosses the border of top-p "
        "stays, so that one always does; and marks made in sorted order have to be put back where the tokens stand "
        "(`scatter`), or they hit the wrong ones."
    )


def _wrong_draw(answer: Choose) -> str | None:
    logits = SIX.repeat(64, 1)
    generator = _generator()
    before = generator.get_state()
    chosen = answer(logits, 1.0, 0, 1.0, generator)
    if torch.equal(generator.get_state(), before):
        return (
            "The distribution is right, but the random numbers do not come from `generator`, so a seed cannot repeat a "
            "reply. Hand it on: `torch.multinomial(probabilities, 1, generator=generator)`."
        )
    if not torch.equal(chosen, torch.multinomial(logits.softmax(-1), 1, generator=_generator())[:, 0]):
        return (
            "The distribution is right, but at the same seed the ids are not the library's: it draws once, with "
            "`torch.multinomial(probabilities, 1, generator=generator)`."
        )
    return None


def _wrong_in_the_loop(answer: Choose) -> str | None:
    """The same loop, the same seed: the ids of `generate`."""
    config = MiniMindConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = MiniMindForCausalLM(config).eval()
        for parameter in model.parameters():
            parameter.data *= 8 if parameter.dim() == 2 else 1  # so that some tokens are likelier than others
        prompt = torch.randint(3, 64, (2, 5))
        for temperature, top_k, top_p in ((0.0, 0, 1.0), (1.0, 0, 1.0), (0.7, 12, 1.0), (1.3, 0, 0.8), (0.9, 20, 0.9)):
            options: dict[str, Any] = {"do_sample": True, "temperature": temperature, "top_k": top_k, "top_p": top_p}
            torch.manual_seed(3)
            theirs = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=16,
                pad_token_id=0,
                **(options if temperature else {"do_sample": False}),
            )[:, 5:]
            ours = generate_by_hand(
                model,
                prompt,
                max_new_tokens=16,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                stop_ids=[2],
                generator=_generator(),
                choose=answer,
            )[:, 5:]
            if not torch.equal(ours, theirs):
                row = int((ours != theirs).any(dim=1).nonzero()[0]) if ours.shape == theirs.shape else 0
                return (
                    f"In the loop, with temperature {temperature:g}, top_k {top_k} and top_p {top_p:g}, the ids of row "
                    f"{row} leave those of `generate`: yours {ours[row].tolist()}, its {theirs[row].tolist()}."
                )
    return None


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def _near(found: Tensor, expected: Tensor) -> bool:
    impossible = expected == 0
    return bool((found - expected).abs().max() < NEAR) and not bool(found[impossible].any())


def _shown(probabilities: Tensor) -> str:
    return "[" + ", ".join(f"{p:.2f}" for p in probabilities.tolist()) + "]"


def _global_generator(logits: Tensor, temperature: float, top_k: int, top_p: float, generator: Any) -> Tensor:
    return choose(logits, temperature, top_k, top_p, None)


def _in_place(logits: Tensor, temperature: float, top_k: int, top_p: float, generator: Any) -> Tensor:
    if temperature:
        logits /= temperature
    return choose(logits, 1.0 if temperature else 0.0, top_k, top_p, generator)


def _a_column(*arguments: Any) -> Tensor:
    return choose(*arguments)[:, None]


def _least_likely(logits: Tensor, temperature: float, *others: Any) -> Tensor:
    return choose(logits, temperature, *others) if temperature else logits.argmin(dim=-1)


def _first_row(logits: Tensor, *others: Any) -> Tensor:
    return choose(logits[:1].expand_as(logits), *others) if others[0] else choose(logits, *others)


def _threshold_of_first_row(logits: Tensor, temperature: float, top_k: int, *others: Any) -> Tensor:
    if temperature and top_k > 0:
        scaled = logits / temperature
        smallest_kept = scaled.topk(min(top_k, logits.shape[-1])).values[0, -1]
        return choose(scaled.masked_fill(scaled < smallest_kept, -torch.inf), 1.0, 0, *others)
    return choose(logits, temperature, top_k, *others)


def _marks_in_sorted_order(logits: Tensor, temperature: float, top_k: int, top_p: float, generator: Any) -> Tensor:
    if temperature == 0 or top_p == 1:
        return choose(logits, temperature, top_k, top_p, generator)
    ordered = (logits / temperature).sort(dim=-1, descending=True).values.softmax(dim=-1)
    kept = logits.masked_fill(ordered.cumsum(dim=-1) > top_p, -torch.inf)
    return choose(kept, temperature, top_k, 1.0, generator)


def _none_may_cross(logits: Tensor, temperature: float, top_k: int, top_p: float, generator: Any) -> Tensor:
    if temperature == 0 or top_p == 1:
        return choose(logits, temperature, top_k, top_p, generator)
    ordered, order = (logits / temperature).sort(dim=-1, descending=True)
    beyond = ordered.softmax(dim=-1).cumsum(dim=-1) > top_p
    let_go = torch.zeros_like(beyond).scatter(-1, order, beyond)
    return choose(logits.masked_fill(let_go, -torch.inf), temperature, top_k, 1.0, generator)


def _divides_by_zero(logits: Tensor, temperature: float, top_k: int, top_p: float, generator: Any) -> Tensor:
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]


def _top_k_too_large(logits: Tensor, temperature: float, top_k: int, top_p: float, generator: Any) -> Tensor:
    if top_k:
        logits.topk(top_k)
    return choose(logits, temperature, top_k, top_p, generator)


def _probabilities(logits: Tensor, *others: Any) -> Tensor:
    return logits.softmax(-1)


def _samples_twice(logits: Tensor, temperature: float, top_k: int, top_p: float, generator: Any) -> Tensor:
    if temperature:
        choose(logits, temperature, top_k, top_p, generator)
    return choose(logits, temperature, top_k, top_p, generator)


def _likeliest_within_top_p(logits: Tensor, temperature: float, top_k: int, top_p: float, generator: Any) -> Tensor:
    return logits.argmax(-1)


def _wrong(name: str, mistake: str, expect: str) -> WrongAnswer:
    return WrongAnswer(name, answer_with(mistake), expect)


CHOOSE = Exercise(
    key="03-choose",
    title="Choose the next token",
    task=(
        "Write `choose(logits, temperature, top_k, top_p, generator)`: from logits (B, V) one id for each row, "
        "shape (B,). Temperature 0 takes the largest logit. Otherwise divide by the temperature, keep the `top_k` "
        "largest (0 keeps all; what equals the k-th stays), of these keep the likeliest that together reach `top_p`, "
        "and draw with `torch.multinomial(probabilities, 1, generator=generator)`."
    ),
    check=check_choose,
    reference=choose,
    wrong_answers=(
        _wrong("probabilities divided by the temperature", "temperature has no effect", "has no effect"),
        _wrong("softmax before the temperature", "softmax twice", "softmax of a softmax"),
        _wrong("logits times the temperature", "times", "divide by it"),
        _wrong("top-k ignored", "no top-k", "all tokens were drawn"),
        _wrong("top-k drops the k-th", "top-k drops the k-th", "the k-th is gone"),
        _wrong("top-k one too many", "top-k one too many", "one token too many"),
        _wrong("top-k of the smallest", "top-k of the smallest", "smallest logits"),
        _wrong("top-k filled with 0", "filled with 0", "`-inf`"),
        _wrong("top-k drops ties", "top-k drops ties", "equals the k-th"),
        _wrong("top-p ignored", "no top-p", "top_p has no effect"),
        _wrong("top-p drops the token that crosses", "top-p drops the crossing", "crosses the border"),
        _wrong("top-p one too many", "top-p one too many", "after the border"),
        _wrong("top-p from the least likely", "top-p of the least likely", "least likely"),
        _wrong("top-p on unscaled probabilities", "top-p unscaled", "after the temperature"),
        _wrong("top-p before top-k", "top-p before top-k", "what top-k has left"),
        _wrong("filter after sampling", "filtered after drawing", "filter first"),
        WrongAnswer("always the likeliest", _likeliest_within_top_p, "likeliest token every time"),
        WrongAnswer("the least likely at 0", _least_likely, "`argmax`"),
        WrongAnswer("divides by 0", _divides_by_zero, "divided by 0"),
        WrongAnswer("top-k beyond the vocabulary", _top_k_too_large, "the smaller of the two"),
        WrongAnswer("every row from the first", _first_row, "another row's"),
        WrongAnswer("top-k of every row by the threshold of the first", _threshold_of_first_row, "another row's"),
        WrongAnswer("top-p marks left in sorted order", _marks_in_sorted_order, "`scatter`"),
        WrongAnswer("top-p lets the first token go as well", _none_may_cross, "crosses the border"),
        WrongAnswer("torch's own generator", _global_generator, "do not come from `generator`"),
        WrongAnswer("draws twice", _samples_twice, "it draws once"),
        WrongAnswer("logits changed in place", _in_place, "belong to the caller"),
        WrongAnswer("a column", _a_column, "[:, 0]"),
        WrongAnswer("probabilities returned", _probabilities, "Return ids"),
    ),
    hints=(
        "In this order: temperature 0, divide, top-k, top-p, softmax, draw. A token that is let go gets the logit "
        "`-torch.inf`; softmax makes it 0 and shares its probability among the others.",
        "Top-k: the smallest logit that stays is `logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]`; "
        "`masked_fill` what is smaller.",
        "Top-p: sort descending, softmax, cumulative sum. A token goes if the sum *before* it has reached `top_p` "
        "already, so the one that crosses the border stays. `torch.zeros_like(order, dtype=torch.bool).scatter(-1, "
        "order, let_go)` brings the marks back from sorted order to the places of the ids.",
    ),
)

EXERCISES = (CHOOSE,)
