"""One stage of training, from a `RunConfig` to weights on disk.

Stages differ in where their batches come from and in what they measure before and after; the rest is the same, and
stands here once.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from minimind.config import RunConfig
from minimind.data.sources import StageData
from minimind.evaluate import mean_loss
from minimind.folders import require_folder
from minimind.model.hub import find_weights, load_weights, require_replaceable, save_weights
from minimind.model.transformer import MiniMindForCausalLM
from minimind.objectives.next_token import NextToken
from minimind.tokenizer import load_tokenizer
from minimind.trace.events import Emit
from minimind.train.checkpoint import commit
from minimind.train.device import good_threads, make_autocast, resolve_device
from minimind.train.loop import LoopPlan, StepMetrics, train
from minimind.train.optim import Optimizers, adamw, muon_and_adamw
from minimind.train.report import MetricsFile, Progress, Say
from minimind.train.resume import Resume, find_resume, set_aside, settings_of
from minimind.train.schedule import warmup_cosine
from minimind.train.state import capture, restore, sha256_of
from minimind.train.step import TrainState

M = TypeVar("M")

Measure = Callable[[RunConfig, MiniMindForCausalLM, PreTrainedTokenizerFast, str, Say], M | None]
"""Says what the model writes "before" or "after" training, and returns a score where there is one."""


@dataclass(frozen=True)
class StageResult(Generic[M]):
    """What a run leaves behind.

    Attributes:
        weights: folder of weights, for the next stage.
        checkpoint: newest resume state.
        last: numbers of the last update; None when the resumed run had none left to make.
        validation_loss: after the last update, in nats per token; None without held-out samples.
        before: the stage's score before training; None where it has none.
        after: the same after training.
    """

    weights: Path
    checkpoint: Path
    last: StepMetrics | None
    validation_loss: float | None
    before: M | None
    after: M | None


def run_stage(
    run: RunConfig,
    make_data: Callable[[RunConfig, PreTrainedTokenizerFast], StageData],
    measure: Measure[M],
    say: Say,
    show_bar: bool,
    emit: Emit,
) -> StageResult[M]:
    """Trains as `run` says, and says what it does.

    Args:
        run: every setting.
        make_data: batches for the tokenizer that the run names.
        measure: called before and after, unless run.samples is 0.
        say: takes each line of output.
        show_bar: whether to draw a progress bar.
        emit: listens to every training step.

    Raises:
        ValueError: a setting, a file or a checkpoint that does not fit; the message says what to do.
        NonFiniteError: training diverged.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("training runs in one process here; start it without torchrun.")
    require_folder("save_dir", run.save_dir)
    require_folder("checkpoint_dir", run.checkpoint_dir)
    require_replaceable(Path(run.save_dir) / run.save_weight)
    device = resolve_device(run.device)
    autocast = make_autocast(run.dtype, device)
    tokenizer = load_tokenizer(run.tokenizer)
    data = make_data(run, tokenizer)
    resume = find_resume(run)

    for seed in (random.seed, np.random.seed, torch.manual_seed):  # all of them are part of a checkpoint
        seed(run.seed)
    model = _make_model(run, tokenizer)
    model.train()
    model.to(device)  # type: ignore[arg-type]  # the library's signature loses nn.Module.to's
    parameters = sum(p.numel() for p in model.parameters())
    if device.type == "cpu":
        torch.set_num_threads(run.threads or good_threads(parameters))

    total_steps = run.max_steps or run.epochs * data.train.batches_per_epoch()
    warmup_steps = min(run.warmup_steps, total_steps - 1)
    state = TrainState(
        model=model,
        optimizers=make_optimizers(run, model),
        schedule=warmup_cosine(total_steps, warmup_steps),
        grad_clip=run.grad_clip,
        autocast=autocast,
    )
    identity = {
        "config": sha256_of(model.config.to_diff_dict()),
        "data": data.train.fingerprint(),
        "tokenizer": sha256_of(tokenizer.get_vocab()),
    }
    say(f"model      {parameters:,} parameters on {device} in {run.dtype}")
    say(f"data       {data.description}")
    if warmup_steps < run.warmup_steps:
        say(f"warm-up    {warmup_steps} updates, not {run.warmup_steps}: the run has only {total_steps}")
    if resume is not None:
        for line in resume.notes:
            say(line)
        restore(state, data.train, resume.snapshot)
        if state.step > total_steps:
            raise ValueError(
                f"max_steps={total_steps}: {resume.path} is {state.step - total_steps} steps further already; ask for "
                "more steps, or resume from an earlier checkpoint."
            )
        if state.step == total_steps:
            say(f"finished   step {state.step} of {total_steps} was the last: nothing is left to train")
    for line in set_aside(run, resume):
        say(line)
    if resume is None and (weights := Path(run.save_dir) / run.save_weight).exists():
        say(f"replaces   {weights}, the weights of an earlier run, at the end; another --save_weight keeps them")
    return _train(run, tokenizer, data, state, total_steps, identity, resume, measure, say, show_bar, emit)


def _train(
    run: RunConfig,
    tokenizer: PreTrainedTokenizerFast,
    data: StageData,
    state: TrainState,
    total_steps: int,
    identity: dict[str, str],
    resume: Resume | None,
    measure: Measure[M],
    say: Say,
    show_bar: bool,
    emit: Emit,
) -> StageResult[M]:
    model = state.model
    assert isinstance(model, MiniMindForCausalLM)
    device = next(model.parameters()).device
    folder = Path(run.checkpoint_dir) / run.save_weight
    before = measure(run, model, tokenizer, "before", say) if run.samples else None

    metrics = MetricsFile(folder / "metrics.jsonl", state.step)
    progress = Progress(total_steps, state.step, metrics, run.log_interval, show_bar, say)
    validation_loss: float | None = None
    checkpoint = resume.path if resume is not None else folder

    def on_validate(step: int) -> None:
        nonlocal validation_loss
        if data.validation is not None:
            validation_loss = mean_loss(model, data.validation, NextToken(), device)
            metrics.write(step=step, validation_loss=validation_loss)
            progress.say(f"step {step:<6d} validation loss {validation_loss:.3f}")

    def on_save(step: int) -> str:
        nonlocal checkpoint
        checkpoint = commit(folder, capture(state, data.train, settings_of(run), identity), run.keep_checkpoints)
        return str(checkpoint)

    try:
        plan = LoopPlan(total_steps, run.accumulation_steps, run.log_interval, run.eval_interval, run.save_interval)
        train(
            state,
            data.train,
            NextToken(),
            plan,
            on_metrics=progress.update,
            on_validate=on_validate,
            on_save=on_save,
            last_saved=str(resume.path) if resume is not None else "",
            emit=emit,
        )
    except KeyboardInterrupt:
        saved = checkpoint if checkpoint != folder else None
        say(
            f"interrupted at step {state.step}; "
            + (f"--from_resume 1 goes on from {saved}" if saved else "nothing was saved yet: see --save_interval")
        )
        raise
    finally:
        progress.close()
    last = progress.last
    if last is not None:
        say(f"trained    {state.step:,} steps, {state.tokens:,} tokens, loss {last.loss:.3f}")
    # Before the samples: whatever may go wrong while printing, the weights are safe.
    weights = save_weights(model, tokenizer, Path(run.save_dir) / run.save_weight)
    after = measure(run, model, tokenizer, "after", say) if run.samples else None
    say(f"weights    {weights}   (a later stage, `minimind generate` or `minimind chat` loads these)")
    say(f"checkpoint {checkpoint}   (an interrupted run continues from here: --from_resume 1)")
    return StageResult(weights, checkpoint, last, validation_loss, before, after)


def _make_model(run: RunConfig, tokenizer: PreTrainedTokenizerFast) -> MiniMindForCausalLM:
    config = run.model_config(len(tokenizer))
    if run.from_weight == "none":
        return MiniMindForCausalLM(config)
    return load_weights(find_weights(run.from_weight, run.save_dir), expected=config, tokenizer=tokenizer)


def make_optimizers(run: RunConfig, model: MiniMindForCausalLM) -> Optimizers:
    """The optimizers that a run names, over all parameters of the model."""
    betas = (run.beta1, run.beta2)
    if run.optimizer == "adamw":
        return adamw(model, run.learning_rate, run.weight_decay, betas)
    return muon_and_adamw(model, run.learning_rate, run.muon_learning_rate, run.weight_decay, betas)
