"""Pretraining: what `minimind pretrain` runs, and what a notebook may call."""

from transformers import PreTrainedTokenizerFast

from minimind import evaluate
from minimind.config import RunConfig
from minimind.data.sources import pretrain_data
from minimind.model.transformer import MiniMindForCausalLM
from minimind.serve.generate import continue_prompts
from minimind.trace.events import Emit, no_op
from minimind.train.report import Say
from minimind.train.stage import StageResult, run_stage

PretrainResult = StageResult[evaluate.WorldScore]
"""Its scores are what the small world's checker said of samples; None off the small world."""


def pretrain(run: RunConfig, say: Say = print, show_bar: bool = True, emit: Emit = no_op) -> PretrainResult:
    """Teaches a model to continue text.

    Args:
        run: every setting.
        say: takes each line of output.
        show_bar: whether to draw a progress bar.
        emit: listens to every training step.

    Raises:
        ValueError: a setting, a file or a checkpoint that does not fit; the message says what to do.
        NonFiniteError: training diverged.
    """
    return run_stage(run, pretrain_data, _samples, say, show_bar, emit)


def _samples(
    run: RunConfig, model: MiniMindForCausalLM, tokenizer: PreTrainedTokenizerFast, when: str, say: Say
) -> evaluate.WorldScore | None:
    """Prints a few continuations; on the small world also how many sentences of a larger number are valid."""
    on_world = run.data_path == "world"
    prompts = evaluate.world_prompts(64) if on_world else [""] * run.samples
    texts = continue_prompts(model, tokenizer, prompts, max_new_tokens=120 if on_world else 64, seed=run.seed)
    say(f"samples {when} training:")
    step = max(1, len(texts) // run.samples)
    for text in texts[::step][: run.samples]:
        say("  | " + " ".join(text.split())[:160])
    if not on_world:
        return None
    score = evaluate.score_world_texts(texts)
    say(f"  {score}")
    return score
