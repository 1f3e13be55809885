"""How do arguments become one parameter update?

python labs/trace_pretrain_step.py
python labs/trace_pretrain_step.py --hidden_size 96 --num_hidden_layers 3 --plot step.png
"""

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from labs.lab import command_line
from minimind.config import RunConfig, preset
from minimind.data.batch import Batch
from minimind.data.documents import Documents
from minimind.data.loader import order
from minimind.data.pretrain import PretrainDataset
from minimind.data.sources import load_texts
from minimind.model.transformer import MiniMindForCausalLM
from minimind.objectives.next_token import NextToken
from minimind.tokenizer import load_tokenizer
from minimind.trace import Record, Recorder
from minimind.train.device import resolve_device
from minimind.train.optim import Optimizers, adamw
from minimind.train.schedule import warmup_cosine
from minimind.train.step import Objective, TrainState, train_step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "How do arguments become one parameter update?"

FIRST_PARAMETER = "model.embed_tokens.weight"
"""The parameter whose movement the lab prints: the embedding, which is also the output head."""


def run(
    hidden_size: int = 64,
    num_hidden_layers: int = 2,
    batch_size: int = 2,
    max_seq_len: int = 48,
    accumulation_steps: int = 1,
    steps: int = 8,
    learning_rate: float = 5e-4,
    grad_clip: float = 1.0,
    data_path: str = "tang5",
    device: str = "cpu",
    seed: int = 42,
    objective: Objective | None = None,
    optimizers: Callable[[torch.nn.Module, float], Optimizers] = adamw,
    step: Callable[..., Any] = train_step,
) -> Record:
    """Makes a few updates of the real training step on shipped text, and writes down all that moved.

    Args:
        hidden_size: width of the residual stream.
        num_hidden_layers: number of transformer blocks.
        batch_size: rows of one micro-batch.
        max_seq_len: tokens in a row; shorter texts are padded, longer ones cut.
        accumulation_steps: micro-batches summed into one update.
        steps: updates to make.
        learning_rate: peak rate of AdamW.
        grad_clip: largest global gradient norm let through; 0 never clips.
        data_path: a shipped corpus (tang5, plays, udhr), 'world', or a .jsonl or .txt file.
        device: 'cpu', 'cuda', 'mps', or 'auto' for the best of them.
        seed: of the weights and of the order of the data.
        objective: what is trained; the language loss by default. A lesson passes a broken one here.
        optimizers: makes the optimizers from the model and the rate; AdamW by default.
        step: makes one update; `train_step` by default. An exercise passes a student's own.

    Returns:
        The record; its first lines are the shapes and numbers of the first update.

    Raises:
        ValueError: an argument that cannot be; the message names it.
    """
    if steps < 1:
        raise ValueError(f"steps={steps} makes no update, so there is nothing to trace; give at least 1.")
    config = preset("lab").replace(
        hidden_size=hidden_size,
        num_hidden_layers=num_hidden_layers,
        batch_size=batch_size,
        max_seq_len=max_seq_len,
        accumulation_steps=accumulation_steps,
        max_steps=steps,
        learning_rate=learning_rate,
        grad_clip=grad_clip,
        data_path=data_path,
        device=device,
        seed=seed,
    )
    place = resolve_device(config.device)
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        dataset, batches = _batches(config)
        torch.manual_seed(config.seed)
        model = MiniMindForCausalLM(config.model_config(vocab_size=6400))
        model.to(place)  # type: ignore[arg-type]
        state = TrainState(
            model=model,
            optimizers=optimizers(model, config.learning_rate),
            schedule=warmup_cosine(config.max_steps),
            grad_clip=config.grad_clip,
        )
        watched = ("model.embed_tokens", *(f"model.layers.{i}" for i in range(num_hidden_layers)), "model.norm", "")
        with Recorder(model, "trace_pretrain_step", watched, _shown(config)) as recorder:
            for batch in batches:
                microbatches = batch.to(place).split(config.accumulation_steps)
                step(state, microbatches, objective or NextToken(), emit=recorder.emit)
    finally:
        torch.set_num_threads(threads)
    return _finish(recorder.record, model, dataset)


def _shown(config: RunConfig) -> dict[str, Any]:
    """The settings that a reader may want to see beside the record."""
    shown = (
        "hidden_size num_hidden_layers batch_size max_seq_len accumulation_steps max_steps learning_rate grad_clip "
        "data_path seed"
    )
    return {name: getattr(config, name) for name in shown.split()}


def _batches(config: RunConfig) -> tuple[PretrainDataset, list[Batch]]:
    """The dataset, and the global batches of the first updates, in the order that the seed gives."""
    tokenizer = load_tokenizer(config.tokenizer)
    texts, _ = load_texts(config)
    rows = config.batch_size * config.accumulation_steps
    needed = rows * config.max_steps
    if len(texts) < needed:
        raise ValueError(
            f"data_path={config.data_path!r} has {len(texts)} documents, and {config.max_steps} steps of {rows} rows "
            f"need {needed}; ask for fewer steps or rows."
        )
    chosen = order(config.seed, 0, len(texts))[:needed]
    documents = Documents.from_texts([texts[i] for i in chosen], tokenizer)
    dataset = PretrainDataset(
        documents,
        config.max_seq_len,
        bos=tokenizer.bos_token_id,
        eos=tokenizer.eos_token_id,
        pad=tokenizer.pad_token_id,
    )
    batches = []
    for first in range(0, needed, rows):
        samples = [dataset[first + row] for row in range(rows)]
        batches.append(
            Batch(
                input_ids=torch.stack([sample["input_ids"] for sample in samples]),
                labels=torch.stack([sample["labels"] for sample in samples]),
                attention_mask=None,  # padding stands after the text, where a causal model's text cannot see it
                document_ids=None,
                position_ids=None,
                sample_ids=tuple(int(i) for i in chosen[first : first + rows]),
            )
        )
    return dataset, batches


def _finish(record: Record, model: MiniMindForCausalLM, dataset: PretrainDataset) -> Record:
    first = record.steps[0]
    for step in record.steps:
        if not (math.isfinite(step.loss) and math.isfinite(step.grad_norm_before_clip)):
            raise ValueError(
                f"step {step.step}: loss {step.loss}, gradient norm {step.grad_norm_before_clip}; the run diverged. "
                "Try a smaller learning_rate."
            )
    record.values = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "learning_rate": first.learning_rate,
        "supervised_tokens": first.tokens,
        "loss": first.loss,
        "grad_norm_before_clip": first.grad_norm_before_clip,
        "grad_norm_after_clip": first.grad_norm_after_clip,
        "max_first_param_delta_after_step": first.parameters[FIRST_PARAMETER].delta_max,
        "documents_cut": dataset.cut_documents,
    }
    return record


def draw(record: Record) -> "Figure":
    """The step as a flow with shapes, and where the parameters moved."""
    from labs.figures import draw_step

    return draw_step(record)


def main() -> int:
    """Runs the lab from the command line."""
    return command_line(run, draw, not_options=frozenset({"objective", "optimizers", "step"}))


if __name__ == "__main__":
    sys.exit(main())
