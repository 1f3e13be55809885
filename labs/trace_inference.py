"""How does a sentence become a reply?

python labs/trace_inference.py
python labs/trace_inference.py --question "What does a fox eat?" --temperature 1 --top_k 20 --plot reply.png
python labs/trace_inference.py --template no_head
"""

import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import findfont, get_font
from matplotlib.patches import FancyBboxPatch
from transformers import PreTrainedTokenizerFast

from labs.figures import DATA, FAINT, INK, LINE, MODEL
from labs.lab import command_line
from labs.shipped import world_chat
from minimind.chat import encode_chat
from minimind.serve.sampling import Choose, DecodingStep, decoding_steps, next_token_probabilities, sample
from minimind.serve.stream import StreamDecoder
from minimind.tokenizer import decode, encode_text
from minimind.trace import Record
from minimind.trace.recorder import environment
from minimind.train.device import resolve_device

QUESTION = "How does a sentence become a reply?"

CANDIDATES = 5
"""How many of the likeliest tokens a step writes down."""
DRAWN_STEPS = 12
FONT = "DejaVu Sans"

Template = Literal["chat", "no_head", "other_role", "none"]


@dataclass
class InferenceRecord(Record):
    """A record whose table is read from the sentence down to the reply."""

    def table(self, parameters: int = 5) -> str:
        """The prompt, the shapes, one line a step, the reply."""
        lines = ["the prompt, as text:", ""]
        lines += [f"    {line}" for line in str(self.values["template"]).splitlines()]
        lines += ["", *(f"{name}.shape = {tuple(shape)}" for name, shape in self.shapes.items()), ""]
        lines.append(
            f"step  reads  {'chosen':>14}  {'probability':>11}  {'best other':>14}  cache    bytes  reply so far"
        )
        for step in reply_steps(self):
            other = next(c["token"] for c in step["candidates"] if c["id"] != step["id"])
            text = shown(step["text"])
            lines.append(
                f"{step['step']:4}  {step['read']:5}  {_wide(shown(step['token']), 14)}  {step['probability']:11.4f}  "
                f"{_wide(shown(other), 14)}  {step['cache_length']:5}  {step['cache_bytes']:7,}  "
                + (text if len(text) <= 40 else "…" + text[-39:])
            )
        return "\n".join([*lines, "", f"reply: {self.values['reply']}", f"ended by: {self.values['ended_by']}"])


def run(
    question: str = "What is 6 + 3?",
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    max_new_tokens: int = 24,
    seed: int = 0,
    template: Template = "chat",
    stop: Literal["end", "pad"] = "end",
    device: str = "cpu",
    choose: Choose = sample,
) -> Record:
    """Asks a small trained model one question, and writes down every step from the sentence to the reply.

    Args:
        question: what the user says.
        temperature: 0 takes the likeliest token every time; 1 draws from the model's own distribution.
        top_k: draw from so many of the likeliest; 0 draws from all.
        top_p: draw from the likeliest that together reach this probability; 1 draws from all.
        max_new_tokens: at most so many steps.
        seed: of the drawing.
        template: 'chat' as in training; 'no_head' without the beginning of the assistant's turn; 'other_role' with a
            role that the model has never seen, 'bot'; 'none' gives the question alone.
        stop: 'end' stops at the token that ends a turn; 'pad' waits for the padding token, which never comes.
        device: 'cpu', 'cuda', 'mps', or 'auto' for the best of them.
        choose: makes ids from logits; `minimind.serve.sampling.sample` by default. An exercise passes a student's own.

    Returns:
        The record; `values["reply_steps"]` has an entry for each new token.

    Raises:
        ValueError: an argument that cannot be; the message names it.
    """
    model, tokenizer = world_chat()
    place = resolve_device(device)
    model.to(place)  # type: ignore[arg-type]
    ids = prompt_ids(tokenizer, question, template)
    input_ids = torch.tensor([ids], device=place)
    attention_mask = torch.ones_like(input_ids)
    steps = decoding_steps(
        model,
        input_ids,
        attention_mask,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        stop_ids=[tokenizer.eos_token_id if stop == "end" else tokenizer.pad_token_id],
        pad_id=tokenizer.pad_token_id,
        generator=torch.Generator(place).manual_seed(seed),
        choose=choose,
        logits_to_keep=0,  # all of them, to show that only the last is used
    )
    record = InferenceRecord(
        "trace_inference",
        arguments={
            "question": question,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "max_new_tokens": max_new_tokens,
            "seed": seed,
            "template": template,
            "stop": stop,
        },
        environment=environment(),
        values={
            "parameters": sum(p.numel() for p in model.parameters()),
            "template": decode(tokenizer, ids),
            "input_ids": ids,
            "tokens": [decode(tokenizer, [i]) for i in ids],
            "attention_mask": attention_mask[0].tolist(),
        },
    )
    _keep_shape(record, "input_ids", input_ids)
    _keep_shape(record, "attention_mask", attention_mask)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _follow(record, steps, tokenizer, (temperature, top_k, top_p))
    finally:
        torch.set_num_threads(threads)
    return record


def prompt_ids(tokenizer: PreTrainedTokenizerFast, question: str, template: Template = "chat") -> list[int]:
    """The ids that the model reads first; all templates but 'chat' are mistakes to look at."""
    if template == "none":
        return [tokenizer.bos_token_id, *encode_text(tokenizer, question)]
    messages = [{"role": "user", "content": question}]
    if template == "other_role":
        head = [tokenizer.bos_token_id, *encode_text(tokenizer, "bot\n")]
        return encode_chat(tokenizer, messages).input_ids + head
    return encode_chat(tokenizer, messages, answer_follows=template == "chat").input_ids


def _follow(
    record: Record,
    steps: Iterator[DecodingStep],
    tokenizer: PreTrainedTokenizerFast,
    settings: tuple[float, int, float],
) -> None:
    """Makes the steps, and writes each down."""
    decoder, text, kept, ended = StreamDecoder(tokenizer), "", [], False
    for number, step in enumerate(steps, start=1):
        logits_V = step.logits_BTV[0, -1].float()
        probabilities_V = logits_V.softmax(dim=-1)
        chances_V = next_token_probabilities(logits_V[None], *settings)[0]
        chosen, ended = int(step.next_B[0]), bool(step.ended_B[0])
        if not ended:
            text += decoder.put(chosen)
        layers: Any = step.cache.layers  # whose keys are None until something is in them
        cache_bytes = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
        kept.append(
            {
                "step": number,
                "read": step.read_BT.shape[1],
                "logits_shape": list(step.logits_BTV.shape),
                "candidates": [
                    {
                        "id": i,
                        "token": decode(tokenizer, [i]),
                        "probability": float(probabilities_V[i]),
                        "chance": float(chances_V[i]),
                    }
                    for i in logits_V.topk(CANDIDATES).indices.tolist()
                ],
                "id": chosen,
                "token": decode(tokenizer, [chosen]),
                "probability": float(probabilities_V[chosen]),
                "chance": float(chances_V[chosen]),
                "cache_length": step.cache.get_seq_length(),
                "cache_bytes": cache_bytes,
                "text": text,
            }
        )
        if number == 1:
            _keep_shape(record, "logits (step 1)", step.logits_BTV)
        elif number == 2:
            _keep_shape(record, "logits (each later step)", step.logits_BTV)
    _keep_shape(record, "keys of a layer (last step)", layers[0].keys)
    record.values["reply_steps"] = kept
    record.values["reply"] = text + decoder.end()
    record.values["reply_ids"] = [step["id"] for step in kept]
    record.values["ended_by"] = f"the stop token, {kept[-1]['token']}" if ended else "max_new_tokens"


def _keep_shape(record: Record, name: str, tensor: torch.Tensor) -> None:
    record.shapes[name] = list(tensor.shape)
    record.dtypes[name] = str(tensor.dtype).removeprefix("torch.")


def reply_steps(record: Record) -> list[dict[str, Any]]:
    """What a record of this lab holds of each step: chosen token, candidates, cache, text so far."""
    return cast(list[dict[str, Any]], record.values["reply_steps"])


def shown(token: str) -> str:
    """A token so that its spaces and line feeds are seen."""
    return token.replace(" ", "␣").replace("\n", "↵")


def _wide(text: str, width: int) -> str:
    """Right-aligned in a terminal, where a Chinese character takes two columns."""
    columns = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return " " * (width - columns) + text


def draw(record: Record) -> Figure:
    """A sentence becomes a reply: the prompt, the likeliest tokens of every step, and the growing cache."""
    steps = reply_steps(record)
    drawn = steps[:DRAWN_STEPS]
    with mpl.rc_context({"font.size": 9, "font.family": FONT, "text.color": INK, "axes.labelcolor": INK}):
        figure = Figure(figsize=(max(7.5, 1.35 + 1.12 * len(drawn)), 7.4), layout="constrained")
        more = f" (the first {len(drawn)} of {len(steps)} steps)" if len(steps) > len(drawn) else ""
        question = _shortened(_drawable(str(record.arguments["question"])), 40)
        reply = _shortened(_drawable(str(record.values["reply"])), 40)
        figure.suptitle(f"“{question}” becomes “{reply}”{more}", fontsize=13, fontweight="bold", x=0.01, ha="left")
        parts = cast(Sequence[SubFigure], figure.subfigures(3, 1, height_ratios=[0.75, 2.0, 1.35]))
        _draw_prompt(parts[0].subplots(), record)
        _draw_candidates(parts[1], drawn, drawn_at_random=record.arguments["temperature"] != 0)
        _draw_cache(parts[2].subplots(), drawn, steps)
    return figure


def _draw_prompt(axes: Axes, record: Record) -> None:
    """The prompt's tokens as boxes that wrap like text, the id under each."""
    tokens = cast(list[str], record.values["tokens"])
    ids = cast(list[int], record.values["input_ids"])
    axes.set_title(f"The prompt: {len(ids)} tokens and their ids, all read in step 1", loc="left", fontweight="bold")
    axes.set_xlim(0, 100)
    axes.axis("off")
    labels = [shown(_token_label(token, i)) for token, i in zip(tokens, ids, strict=True)]
    widths = [max(3.4, 1.0 * len(label) + 1.4) for label in labels]
    x, y = 0.0, 0.0
    for label, i, width in zip(labels, ids, widths, strict=True):
        if x + width > 100:
            x, y = 0.0, y - 1
        axes.add_patch(
            FancyBboxPatch(
                (x + 0.15, y + 0.06), width - 0.3, 0.84, boxstyle="round,pad=0,rounding_size=0.2", facecolor=DATA,
                edgecolor=INK, linewidth=0.7,
            )
        )  # fmt: skip
        axes.text(x + width / 2, y + 0.64, label, ha="center", va="center", fontsize=8, fontweight="bold")
        axes.text(x + width / 2, y + 0.28, str(i), ha="center", va="center", fontsize=7, color=FAINT)
        x += width
    axes.set_ylim(y - 0.02, 1.0)


def _draw_candidates(figure: SubFigure, steps: Sequence[Mapping[str, Any]], drawn_at_random: bool) -> None:
    """One small bar chart a step; the chosen token is dark."""
    columns = cast(Sequence[Axes], figure.subplots(1, len(steps), squeeze=False)[0])
    labels = []
    for axes, step in zip(columns, steps, strict=True):
        candidates = list(step["candidates"])
        if step["id"] not in [c["id"] for c in candidates]:  # drawn from further down
            candidates[-1] = step
        for place, candidate in enumerate(candidates):
            chosen = candidate["id"] == step["id"]
            labels.append(shown(_token_label(candidate["token"], candidate["id"])))
            axes.barh(
                place, candidate["probability"], height=0.36, color=LINE["grad"] if chosen else MODEL, edgecolor=INK,
                linewidth=0.6,
            )  # fmt: skip
            if drawn_at_random:
                axes.plot(
                    candidate["chance"], place, color=INK, marker="|", markersize=11, markeredgewidth=2, clip_on=False
                )
            axes.text(
                0.03, place - 0.24, labels[-1], ha="left", va="bottom", fontsize=8,
                fontweight="bold" if chosen else "normal",
            )  # fmt: skip
            axes.text(
                1, place - 0.24, f"{candidate['probability']:.2f}", ha="right", va="bottom", fontsize=7, color=FAINT
            )
        axes.set_xlim(0, 1)
        axes.set_ylim(len(candidates) - 0.6, -0.75)
        axes.set_xticks([0, 1])
        axes.tick_params(labelsize=7, length=2)
        axes.set_yticks([])
        axes.set_title(f"step {step['step']}\nreads {step['read']}", fontsize=8.5)
        axes.spines[["top", "right"]].set_visible(False)
    columns[len(columns) // 2].set_xlabel("probability", fontsize=8)
    title = "What the model found likely at each step, and what was chosen (dark)"
    if drawn_at_random:
        title += "; the ticks are the chances after temperature, top-k and top-p"
    figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    if any(label.startswith("#") for label in labels):
        figure.supxlabel(
            "# with a number: a token that these letters cannot write, by its id", fontsize=7.5, x=0.01, ha="left"
        )


def _draw_cache(axes: Axes, steps: Sequence[Mapping[str, Any]], all_steps: Sequence[Mapping[str, Any]]) -> None:
    """What the cache holds after each step: the prompt, and a position more each time."""
    prompt = all_steps[0]["cache_length"]
    places = range(len(steps))
    axes.bar(places, [prompt] * len(steps), width=0.62, color=DATA, edgecolor=INK, linewidth=0.7, label="the prompt")
    axes.bar(
        places, [step["cache_length"] - prompt for step in steps], width=0.62, bottom=prompt, color=MODEL,
        edgecolor=INK, linewidth=0.7, hatch="///", label="tokens of the reply",
    )  # fmt: skip
    for place, step in enumerate(steps):
        axes.text(
            place, step["cache_length"], f"{step['cache_length']}\n{step['cache_bytes'] / 1024:.1f} KiB", ha="center",
            va="bottom", fontsize=7.5,
        )  # fmt: skip
    axes.set_xlim(-0.5, len(steps) - 0.5)
    axes.set_ylim(0, max(step["cache_length"] for step in steps) * 1.5)
    axes.set_xticks(list(places), [_so_far(step, number == len(all_steps)) for number, step in enumerate(steps, 1)])
    axes.tick_params(axis="x", length=0, labelsize=8)
    axes.set_ylabel("positions")
    axes.set_title("Keys and values in the cache after each step; the reply so far", loc="left", fontweight="bold")
    axes.legend(frameon=False, ncols=2, loc="upper right", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _so_far(step: Mapping[str, Any], last: bool) -> str:
    text = _drawable(step["text"]).replace("\n", "↵")
    return (text if len(text) <= 14 else "…" + text[-13:]) + ("\n(end)" if last else "")


def _token_label(token: str, token_id: int) -> str:
    """The token, or its id where the font has no such characters, or where it is half a character."""
    if _drawable(token) != token or "\ufffd" in token:
        return f"#{token_id}"
    return {"<|im_start|>": "<start>", "<|im_end|>": "<end>"}.get(token, token)


def _drawable(text: str) -> str:
    """The text, with '?' for each character that the font of the figures cannot draw."""
    known = get_font(findfont(FONT)).get_charmap()
    return "".join(c if c.isspace() or ord(c) in known else "?" for c in text)


def main() -> int:
    """Runs the lab from the command line."""
    return command_line(run, draw, not_options=frozenset({"choose"}))


if __name__ == "__main__":
    sys.exit(main())
