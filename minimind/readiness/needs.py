"""What a run needs, counted from its real parts on torch's meta device, which has shapes and no memory.

Weights, gradients and the optimizer's state are exact. What the forward pass keeps for the way back is an estimate:
which attention kernel runs, and what it keeps, differs between devices.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, inf

import torch
from torch import Tensor

from minimind.config import MiniMindConfig, RunConfig
from minimind.data.batch import Batch
from minimind.model.transformer import MiniMindForCausalLM
from minimind.objectives.next_token import NextToken
from minimind.tokenizer import load_tokenizer
from minimind.train.optim import state_tensors
from minimind.train.stage import make_optimizers

PROGRAM_BYTES = 500 * 2**20
"""Python with torch and transformers loaded, before any model: about so much (on a GPU, its context)."""
SMALL_FILES_BYTES = 2**20
"""Tokenizer, config, random states, manifest, headers: all that lies beside the tensors of one folder, at most."""


@dataclass(frozen=True)
class Needs:
    """What one run needs.

    Attributes:
        parameters: of the model; a tied head counts once.
        weight_bytes: the parameters in fp32; autocast to bfloat16 leaves them so.
        gradient_bytes: one for each parameter.
        optimizer_bytes: what the optimizer remembers after its first step.
        activation_bytes: kept by the forward pass of one micro-batch, and the gradient of its logits (estimate).
        checkpoints: so many stand in checkpoint_dir at once, the one that is being written included.
        steps: updates to make; None when the data decides (max_steps=0).
        positions: token positions in one update, padding included.
        flops: floating-point operations of one update.
    """

    parameters: int
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    checkpoints: int
    steps: int | None
    positions: int
    flops: int

    @property
    def memory_bytes(self) -> int:
        """All that is in memory at the fullest moment of a step, the program included (estimate)."""
        held = self.weight_bytes + self.gradient_bytes + self.optimizer_bytes
        return PROGRAM_BYTES + held + self.activation_bytes

    @property
    def checkpoint_bytes(self) -> int:
        """Tensors of one checkpoint: the weights, and what the optimizer remembers."""
        return self.weight_bytes + self.optimizer_bytes

    @property
    def save_dir_bytes(self) -> int:
        """Free room for the weights."""
        return self.weight_bytes + SMALL_FILES_BYTES

    @property
    def checkpoint_dir_bytes(self) -> int:
        """Free room for the resume state. An old checkpoint goes only when the new one is verified."""
        return self.checkpoints * (self.checkpoint_bytes + SMALL_FILES_BYTES)


def needs_of(run: RunConfig, vocab_size: int | None = None) -> Needs:
    """Counts what a run needs, without building it in memory.

    Args:
        run: the run.
        vocab_size: entries of its tokenizer; None loads the tokenizer to ask.

    Raises:
        ValueError: the sizes make no model, or there is no such tokenizer.
    """
    config = run.model_config(vocab_size or len(load_tokenizer(run.tokenizer)))
    with torch.device("meta"):
        model = MiniMindForCausalLM(config)
    model.train()
    parameters = list(model.parameters())
    activation_bytes = _kept_by_forward(model, run)
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    saves = 1 if not run.save_interval else ceil(run.max_steps / run.save_interval) if run.max_steps else inf
    return Needs(
        parameters=sum(p.numel() for p in parameters),
        weight_bytes=_size(parameters),
        gradient_bytes=_size([p.grad for p in parameters if p.grad is not None]),
        optimizer_bytes=_remembered_by_optimizer(model, run),
        activation_bytes=activation_bytes,
        checkpoints=int(min(saves, run.keep_checkpoints + 1)),
        steps=run.max_steps or None,
        positions=run.batch_size * run.accumulation_steps * run.max_seq_len,
        flops=flops_of_update(run, config, sum(p.numel() for p in parameters)),
    )


def flops_of_update(run: RunConfig, config: MiniMindConfig, parameters: int) -> int:
    """Operations of one update: 6 for each parameter and position, and those of attention."""
    attention = 12 * config.num_hidden_layers * config.hidden_size * run.max_seq_len
    return run.batch_size * run.accumulation_steps * run.max_seq_len * (6 * parameters + attention)


def _remembered_by_optimizer(model: MiniMindForCausalLM, run: RunConfig) -> int:
    """Bytes of the optimizer's state after a real step, on the meta device."""
    optimizers = make_optimizers(run, model)
    for group in optimizers.groups():
        if "fused" in group:
            group["fused"] = False  # the fused kernel wants real memory; the state is the same
    optimizers.step()
    return _size(state_tensors(optimizers, model)[0].values())


def _kept_by_forward(model: MiniMindForCausalLM, run: RunConfig) -> int:
    """Bytes that autograd keeps in one micro-batch, and the gradient of its logits, with which the way back begins."""
    ids = torch.zeros(run.batch_size, run.max_seq_len, dtype=torch.long, device="meta")
    batch = Batch(ids, ids.clone(), None, None, None, sample_ids=tuple(range(run.batch_size)))
    own = {p.untyped_storage()._cdata for p in model.parameters()}
    kept: dict[int, Tensor] = {}  # the tensors are held, so that no storage is freed and its number used again

    def keep(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage()._cdata not in own:
            kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = NextToken().loss(model, batch)
    del loss
    logits = 4 * ids.numel() * model.config.vocab_size
    return logits + sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)
