"""Supervised fine-tuning: what `minimind sft` runs, and what a notebook may call.

The loop, the step and the loss are those of pretraining. What differs is the data: conversations, in which only the
assistant's words have labels.
"""

from transformers import PreTrainedTokenizerFast

from minimind.config import RunConfig
from minimind.data.sources import load_conversations, sft_data
from minimind.evaluate import ExactMatch, exact_match, world_questions
from minimind.model.transformer import MiniMindForCausalLM
from minimind.serve.generate import answer_chats
from minimind.trace.events import Emit, no_op
from minimind.train.report import Say
from minimind.train.stage import StageResult, run_stage

SftResult = StageResult[ExactMatch]
"""Its scores count exact answers to questions of the small world; None off the small world."""

QUESTIONS_PER_KIND = 32


def sft(run: RunConfig, say: Say = print, show_bar: bool = True, emit: Emit = no_op) -> SftResult:
    """Teaches a model that continues text to answer.

    Args:
        run: every setting; from_weight names the pretrained weights.
        say: takes each line of output.
        show_bar: whether to draw a progress bar.
        emit: listens to every training step.

    Raises:
        ValueError: a setting, a file or a checkpoint that does not fit; the message says what to do.
        NonFiniteError: training diverged.
    """
    return run_stage(run, sft_data, _answers, say, show_bar, emit)


def _answers(
    run: RunConfig, model: MiniMindForCausalLM, tokenizer: PreTrainedTokenizerFast, when: str, say: Say
) -> ExactMatch | None:
    """Prints a few answers; on the small world also how many of a larger number are exact."""
    say(f"answers {when} training:")
    if run.data_path != "world":
        opening = [messages[:1] for messages in load_conversations(run)[0][: run.samples]]
        for messages, answer in zip(opening, answer_chats(model, tokenizer, opening, 64), strict=True):
            _say_turn(messages[0]["content"], answer, say)
        return None
    questions = world_questions(QUESTIONS_PER_KIND, run.seed)
    score = exact_match(model, tokenizer, questions)
    for question, answer in list(zip(questions, score.answers, strict=True))[:: max(1, len(questions) // run.samples)]:
        _say_turn(question.user, answer, say)
    say(f"  {score}")
    return score


def _say_turn(question: str, answer: str, say: Say) -> None:
    say("  | " + " ".join(question.split())[-100:] + "  ->  " + " ".join(answer.split())[:80])
