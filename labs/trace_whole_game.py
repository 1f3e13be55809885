"""Which stages turn text into a model that answers?

python labs/trace_whole_game.py
python labs/trace_whole_game.py --pretrain_steps 100 --plot game.png
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedTokenizerFast

from labs.lab import command_line
from minimind import evaluate
from minimind.config import RunConfig, preset
from minimind.data.batch import Batch
from minimind.data.sft import ConversationBatches, Conversations
from minimind.data.sources import Batches, StageData, pretrain_data, question_messages, sft_data
from minimind.model.hub import load_weights
from minimind.model.transformer import MiniMindForCausalLM
from minimind.objectives.next_token import NextToken
from minimind.serve.generate import answer_chats, continue_prompts
from minimind.tokenizer import load_tokenizer
from minimind.trace import Record
from minimind.trace.events import no_op
from minimind.trace.recorder import environment
from minimind.train.device import resolve_device
from minimind.train.pretrain import pretrain
from minimind.train.sft import sft
from minimind.train.stage import run_stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "Which stages turn text into a model that answers?"

OPENING, ASKED = "Tom was in the", "What color is snow?"
"""What the model is given at each moment, to be continued and to be answered."""

MOMENTS = {"untrained": "untrained", "pretrained": "pretrained", "fine_tuned": "fine-tuned"}
"""When the model is measured, in order: the name in the record, and in words."""

MEASURES = {
    "document_loss": "loss on documents",
    "answer_loss": "loss on answers",
    "valid_sentences": "sentences that are valid",
    "exact_facts": "facts answered exactly",
    "exact_sums": "sums answered exactly",
    "exact_stories": "questions on a story answered exactly",
    "exact_sums_never_trained": "sums never trained, answered exactly",
}
"""What is measured of the model, in words. Losses are in nats per token, the others are shares from 0 to 1."""

BANDS = {
    "document_loss_pretrained": 0.15,
    "document_loss_fine_tuned": 0.6,
    "answer_loss_pretrained": 0.25,
    "answer_loss_fine_tuned": 0.8,
    "valid_sentences_pretrained": 0.1,
    "valid_sentences_fine_tuned": 1.0,
    "exact_facts_fine_tuned": 0.25,
    "exact_sums_fine_tuned": 0.6,
    "exact_stories_fine_tuned": 0.6,
    "exact_sums_never_trained_fine_tuned": 1.0,
}
"""How far a number may be from the reference on another CPU: hundreds of updates make a last bit large. At 1 it may be
anything, and the statements at the end of the record say what must be so."""

HELD_OUT_DOCUMENTS = 128
QUESTIONS_PER_KIND = 32
STORIES = 32
MAX_SEQ_LEN = 160


@dataclass(frozen=True)
class Training:
    """What a stage took in, and how it went.

    Attributes:
        batch: the first one.
        supervised_share: of all tokens of the stage's data, those that the model was asked to predict.
        losses: of each update, in nats per supervised token.
        supervised_tokens: of each update.
        time_s: wall time of the stage, without the measurements after it.
        code: what ran, from the package: the stage, its data, its batches.
    """

    batch: Batch
    supervised_share: float
    losses: list[float]
    supervised_tokens: list[int]
    time_s: float
    code: list[str]


@dataclass(frozen=True)
class Moment:
    """The model at one moment of the game.

    Attributes:
        name: one of `MOMENTS`.
        model: with the weights of that moment.
        document_loss: on documents held out of pretraining, in nats per token.
        answer_loss: on the answers to `Game.questions`, in nats per token of the assistant.
        score: what the world's checker says of stories that the model wrote.
        exact: which answers were exact.
        continued: `OPENING` and what the model wrote after it, the likeliest token each time.
        answered: what the model said to `ASKED`.
        training: of the stage that led here; None for the untrained model.
    """

    name: str
    model: MiniMindForCausalLM
    document_loss: float
    answer_loss: float
    score: evaluate.WorldScore
    exact: evaluate.ExactMatch
    continued: str
    answered: str
    training: Training | None

    def measures(self) -> dict[str, float]:
        """The numbers of this moment, under the names of `MEASURES`."""
        share = {kind: self.exact.right[kind] / asked for kind, asked in self.exact.asked.items()}
        numbers = (
            self.document_loss,
            self.answer_loss,
            self.score.valid_share,
            *(share[kind] for kind in ("fact", "sum", "story", evaluate.HELD_OUT)),
        )
        return dict(zip(MEASURES, numbers, strict=True))


class Game:
    """The whole game on the small world, one stage at a call. It writes into a temporary folder, which goes with it.

    Args:
        pretrain_steps: updates on documents.
        sft_steps: updates on questions and answers.
        seed: of the weights, of the order of the data, and of the questions asked.
        device: 'cpu', 'cuda', 'mps', or 'auto' for the best of them.

    Raises:
        ValueError: an argument that cannot be; the message names it.
    """

    def __init__(self, pretrain_steps: int = 300, sft_steps: int = 600, seed: int = 42, device: str = "cpu") -> None:
        for name, steps in (("pretrain_steps", pretrain_steps), ("sft_steps", sft_steps)):
            if steps < 1:
                raise ValueError(f"{name}={steps} trains nothing; give at least 1.")
        self._folder = tempfile.TemporaryDirectory(prefix="whole-game-")
        shared: dict[str, Any] = {
            "seed": seed,
            "device": device,
            "save_dir": str(Path(self._folder.name, "out")),
            "checkpoint_dir": str(Path(self._folder.name, "checkpoints")),
            "save_interval": 0,
            "eval_interval": 0,
            "samples": 0,
        }
        self.pretrain_run = _with_steps(preset("lesson").replace(**shared), pretrain_steps, HELD_OUT_DOCUMENTS)
        self.sft_run = _with_steps(preset("lesson", "sft").replace(muon_learning_rate=0.03, **shared), sft_steps, 0)
        self.device = resolve_device(device)
        self.tokenizer = load_tokenizer(self.pretrain_run.tokenizer)
        self.documents = pretrain_data(self.pretrain_run, self.tokenizer)
        self.questions = evaluate.world_questions(QUESTIONS_PER_KIND, seed, held_out=True)
        trained_kinds = [question_messages(each) for each in self.questions if each.kind != evaluate.HELD_OUT]
        self._answers = ConversationBatches(
            Conversations.from_messages(trained_kinds, self.tokenizer, MAX_SEQ_LEN),
            batch_size=32,
            seed=0,
            pad=self.tokenizer.pad_token_id,
        )

    def untrained(self) -> Moment:
        """The model that pretraining begins from: its parameters are random numbers."""
        torch.manual_seed(self.pretrain_run.seed)
        model = MiniMindForCausalLM(self.pretrain_run.model_config(len(self.tokenizer)))
        return self._look("untrained", model, None)

    def pretrain(self, show_bar: bool = False) -> Moment:
        """The first stage: continue documents."""
        begun_s = time.perf_counter()
        result = pretrain(self.pretrain_run, say=_nothing, show_bar=show_bar)
        took_s = time.perf_counter() - begun_s
        training = _training(self.pretrain_run, self.documents.train, took_s, [pretrain, pretrain_data])
        return self._look("pretrained", load_weights(result.weights), training)

    def fine_tune(
        self,
        steps: int = 0,
        make_data: Callable[[RunConfig, PreTrainedTokenizerFast], StageData] = sft_data,
        show_bar: bool = False,
    ) -> Moment:
        """The second stage: answer questions. It begins from the weights that `pretrain` left.

        Args:
            steps: updates; 0 makes as many as the game was told.
            make_data: makes the batches. A lesson passes a broken one here.
            show_bar: whether to draw a progress bar.

        Raises:
            ValueError: nothing is pretrained yet.
        """
        if not Path(self.sft_run.save_dir, self.sft_run.from_weight).exists():
            raise ValueError("there are no pretrained weights to fine-tune yet; call pretrain() first.")
        run = _with_steps(self.sft_run, steps, 0) if steps else self.sft_run
        begun_s = time.perf_counter()
        if make_data is sft_data:
            weights = sft(run, say=_nothing, show_bar=show_bar).weights
        else:
            weights = run_stage(run, make_data, _no_measure, _nothing, show_bar, no_op).weights
        took_s = time.perf_counter() - begun_s
        training = _training(run, make_data(run, self.tokenizer).train, took_s, [sft, make_data])
        return self._look("fine_tuned", load_weights(weights), training)

    def record(self, *moments: Moment) -> Record:
        """What was measured at the three moments, with the statements that must hold on every machine."""
        assert [moment.name for moment in moments] == list(MOMENTS), "the three moments, in order"
        record = WholeGameRecord(
            "trace_whole_game",
            arguments={
                "pretrain_steps": self.pretrain_run.max_steps,
                "sft_steps": self.sft_run.max_steps,
                "seed": self.pretrain_run.seed,
            },
            environment=environment(),
            values={"parameters": sum(p.numel() for p in moments[0].model.parameters())},
            bands=dict(BANDS),
        )
        for stage, moment in (("pretrain", moments[1]), ("sft", moments[2])):
            _write_training(record, stage, moment.training)
        for name in MEASURES:
            for moment in moments:
                record.values[f"{name}_{moment.name}"] = moment.measures()[name]
        for moment in moments:
            record.environment[f"{moment.name} continued"] = moment.continued
            record.environment[f"{moment.name} answered"] = moment.answered
        record.values |= _statements(*moments)
        return record

    def _look(self, name: str, model: MiniMindForCausalLM, training: Training | None) -> Moment:
        model.to(self.device)  # type: ignore[arg-type]  # the library's signature loses nn.Module.to's
        assert self.documents.validation is not None
        return Moment(
            name=name,
            model=model,
            document_loss=evaluate.mean_loss(model, self.documents.validation, NextToken(), self.device),
            answer_loss=evaluate.mean_loss(model, self._answers, NextToken(), self.device),
            score=evaluate.score_world(model, self.tokenizer, evaluate.world_prompts(STORIES)),
            exact=evaluate.exact_match(model, self.tokenizer, self.questions),
            continued=continue_prompts(model, self.tokenizer, [OPENING], max_new_tokens=40, temperature=0.0)[0],
            answered=answer_chats(model, self.tokenizer, [[{"role": "user", "content": ASKED}]], max_new_tokens=24)[0],
            training=training,
        )


@dataclass
class WholeGameRecord(Record):
    """A record that prints the measures side by side."""

    def table(self, parameters: int = 5) -> str:
        """Each stage, then what was measured before and after it, then the statements."""
        lines = [f"parameters = {self.values['parameters']:,}", ""]
        for stage in ("pretrain", "sft"):
            for name, shape in self.shapes.items():
                if name.startswith(f"{stage}."):
                    lines.append(f"{name}.shape = {tuple(shape)}")
            for name in ("steps", "tokens"):
                lines.append(f"{stage}_{name} = {self.values[f'{stage}_{name}']:,}")
            lines.append(f"{stage}_supervised_share = {self.values[f'{stage}_supervised_share']:.1%}")
            lines.append(f"{stage}_code = {', '.join(self.values[f'{stage}_code'])}")  # type: ignore[arg-type]
            lines.append(f"{stage} took {self.values[f'{stage}.time_s']:.0f} s\n")
        lines.append(f"{'':38}" + "".join(f"{words:>12}" for words in MOMENTS.values()))
        for name, words in MEASURES.items():
            shown = [as_words(name, self.values[f"{name}_{moment}"]) for moment in MOMENTS]
            lines.append(f"{words:38}" + "".join(f"{each:>12}" for each in shown))
        lines += ["", *(f"{name} = {value}" for name, value in self.values.items() if isinstance(value, bool))]
        return "\n".join(lines)


def as_words(measure: str, value: Any) -> str:
    """A measure as it is printed: a loss with two decimals, a share in per cent."""
    return f"{value:.2f}" if measure.endswith("_loss") else f"{value:.0%}"


def _with_steps(run: RunConfig, steps: int, held_out: int) -> RunConfig:
    """A run of so many updates, with as much of the small world as they need."""
    needed = run.batch_size * steps + held_out
    return run.replace(max_steps=steps, world_documents=needed, validation_documents=held_out)


def _training(run: RunConfig, batches: Batches, time_s: float, ran: list[Callable[..., Any]]) -> Training:
    path = Path(run.checkpoint_dir, run.save_weight, "metrics.jsonl")
    updates = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    updates = [each for each in updates if "loss" in each]  # the others are of validation
    epoch = batches.statistics(0)
    return Training(
        batch=batches.batch(0, 0),
        supervised_share=epoch.supervised_tokens / epoch.real_tokens,
        losses=[each["loss"] for each in updates],
        supervised_tokens=[each["tokens"] for each in updates],
        time_s=time_s,
        code=[f"{each.__module__}.{each.__name__}" for each in (*ran, type(batches))],
    )


def _write_training(record: Record, stage: str, training: Training | None) -> None:
    assert training is not None
    for name in ("input_ids", "labels"):
        tensor = getattr(training.batch, name)
        record.shapes[f"{stage}.{name}"] = list(tensor.shape)
        record.dtypes[f"{stage}.{name}"] = str(tensor.dtype).removeprefix("torch.")
    record.values |= {
        f"{stage}_steps": len(training.losses),
        f"{stage}_tokens": sum(training.supervised_tokens),
        f"{stage}_supervised_share": training.supervised_share,
        f"{stage}_code": training.code,
        f"{stage}.time_s": training.time_s,  # a name that is never compared
    }


def _statements(untrained: Moment, pretrained: Moment, tuned: Moment) -> dict[str, Any]:
    right = {kind: count / tuned.exact.asked[kind] for kind, count in tuned.exact.right.items()}
    return {
        "pretraining_halves_the_document_loss": pretrained.document_loss < untrained.document_loss / 2,
        "pretrained_writes_valid_sentences": pretrained.score.valid_share >= 0.8,
        "pretrained_answers": pretrained.exact.share > 0.05,
        "fine_tuned_answers_most_facts": right["fact"] > 0.5,
        "fine_tuned_answers_some_sums_and_stories": min(right["sum"], right["story"]) > 0.2,
        "fine_tuned_does_most_sums_never_trained": right[evaluate.HELD_OUT] > 0.5,
        "fine_tuning_doubles_the_document_loss": tuned.document_loss > 2 * pretrained.document_loss,
    }


def _no_measure(*_: Any) -> None:
    """The game measures by itself."""


def _nothing(_: str) -> None:
    """Says nothing: the lines of a run name its temporary folder."""


def run(pretrain_steps: int = 300, sft_steps: int = 600, seed: int = 42, device: str = "cpu") -> Record:
    """Pretrains and fine-tunes a small model in about a minute, and measures it before and after each stage.

    Args:
        pretrain_steps: updates on documents.
        sft_steps: updates on questions and answers.
        seed: of the weights, of the order of the data, and of the questions asked.
        device: 'cpu', 'cuda', 'mps', or 'auto' for the best of them.

    Returns:
        The record.

    Raises:
        ValueError: an argument that cannot be; the message names it.
    """
    threads = torch.get_num_threads()
    show_bar = sys.stderr.isatty()  # a minute is long for somebody who waits in a terminal
    try:
        game = Game(pretrain_steps, sft_steps, seed, device)
        torch.set_num_threads(1)  # a model so small is slower with more
        return game.record(game.untrained(), game.pretrain(show_bar), game.fine_tune(show_bar=show_bar))
    finally:
        torch.set_num_threads(threads)


def draw(record: Record) -> "Figure":
    """The model before, between and after the two stages: what it writes, and what was measured."""
    from labs.whole_game_figure import draw_game

    return draw_game(record)


def main() -> int:
    """Runs the lab from the command line."""
    return command_line(run, draw)


if __name__ == "__main__":
    sys.exit(main())
