"""How good is it? Loss on held-out text, and on the small world the share of sentences that are well formed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast

from minimind.data.loader import BatchSource
from minimind.model.transformer import MiniMindForCausalLM
from minimind.serve.generate import continue_prompts
from minimind.train.step import Objective
from minimind.world import STORY_OPENINGS, check_document


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
