"""How good is it? Loss on held-out text; on the small world, well-formed sentences and exact answers."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast

from minimind.data.loader import BatchSource
from minimind.model.transformer import MiniMindForCausalLM
from minimind.serve.generate import answer_chats, continue_prompts
from minimind.train.step import Objective
from minimind.world import STORY_OPENINGS, Question, check_document, question


@torch.no_grad()
def mean_loss(model: nn.Module, source: BatchSource, objective: Objective, device: torch.device) -> float:
    """Loss sum / weight over one whole pass, in nats; dropout off, the training mode restored."""
    was_training = model.training
    model.eval()
    loss_sum, weight = 0.0, 0
    for index in range(source.batches_per_epoch()):
        batch = source.batch(0, index).to(device)
        loss_sum += float(objective.loss(model, batch))
        weight += int(objective.weight(batch))
    model.train(was_training)
    return loss_sum / weight


@dataclass(frozen=True)
class WorldScore:
    """What the checker of the small world says of texts that a model wrote.

    Attributes:
        texts: how many were checked.
        sentences: in all of them.
        valid_sentences: those that some rule of the world could have produced.
        consistent_texts: texts all of whose sentences are valid and contradict nothing said before.
    """

    texts: int
    sentences: int
    valid_sentences: int
    consistent_texts: int

    @property
    def valid_share(self) -> float:
        """Valid sentences / sentences."""
        return self.valid_sentences / max(1, self.sentences)

    def __str__(self) -> str:
        return (
            f"{self.valid_sentences} of {self.sentences} sentences valid ({self.valid_share:.1%}), "
            f"{self.consistent_texts} of {self.texts} texts consistent"
        )


def world_prompts(count: int) -> list[str]:
    """The beginnings of stories, English and Chinese in turn, to be continued."""
    openings = [text for pair in zip(STORY_OPENINGS["en"], STORY_OPENINGS["zh"], strict=True) for text in pair]
    return [openings[index % len(openings)] for index in range(count)]


def score_world_texts(texts: Sequence[str]) -> WorldScore:
    """Parses and replays each text; a text without a sentence counts as one invalid sentence."""
    verdicts = [check_document(text) for text in texts]
    return WorldScore(
        texts=len(texts),
        sentences=sum(max(1, verdict.sentences) for verdict in verdicts),
        valid_sentences=sum(verdict.valid_sentences for verdict in verdicts),
        consistent_texts=sum(verdict.consistent for verdict in verdicts),
    )


def score_world(
    model: MiniMindForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    temperature: float = 0.7,
    seed: int = 0,
) -> WorldScore:
    """Lets the model continue each prompt and has the world's checker judge the whole texts."""
    texts = continue_prompts(model, tokenizer, prompts, max_new_tokens=120, temperature=temperature, seed=seed)
    return score_world_texts(texts)


HELD_OUT = "sum never trained"
"""The kind of a question for one of the sums that no training text contains."""


def world_questions(per_kind: int, seed: int, held_out: bool = False) -> list[Question]:
    """Questions about facts, sums and stories in turn, so many of each; drawn as the training questions are.

    Args:
        per_kind: how many of each kind.
        seed: of the draw; no seed gives the questions of training.
        held_out: add as many sums that no training text contains.
    """
    rng = random.Random(f"questions to measure with, {seed}")
    asked = []
    for _ in range(per_kind):
        asked += [question(rng, kinds=(kind,)) for kind in ("fact", "sum", "story")]
        if held_out:
            asked.append(replace(question(rng, kinds=("sum",), held_out_sums=True), kind=HELD_OUT))
    return asked


@dataclass(frozen=True)
class ExactMatch:
    """How many answers equal the expected ones, character by character.

    Attributes:
        answers: what the model said, in the order of the questions.
        right: by kind, how many were exact.
        asked: by kind, how many were asked.
    """

    answers: tuple[str, ...]
    right: dict[str, int]
    asked: dict[str, int]

    @property
    def share(self) -> float:
        """Exact answers / questions."""
        return sum(self.right.values()) / max(1, sum(self.asked.values()))

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {self.right[kind]} of {count}" for kind, count in self.asked.items())
        total, right = sum(self.asked.values()), sum(self.right.values())
        return f"{right} of {total} answers exact ({self.share:.1%}): {kinds}"


def exact_match(
    model: MiniMindForCausalLM, tokenizer: PreTrainedTokenizerFast, questions: Sequence[Question]
) -> ExactMatch:
    """Asks each question by itself and compares the likeliest answer with the expected one.

    Kinds are those of the questions; the three kinds of story questions count as one.
    """
    answers = answer_chats(
        model, tokenizer, [[{"role": "user", "content": each.user}] for each in questions], max_new_tokens=32
    )
    asked: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for each, answer in zip(questions, answers, strict=True):
        kind = each.kind.split("-")[0]
        asked[kind] += 1
        right[kind] += answer == each.assistant
    return ExactMatch(tuple(answers), {kind: right[kind] for kind in asked}, dict(asked))
