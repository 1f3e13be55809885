"""Training state <-> snapshot: everything that decides what the next update will be, and nothing else.

The organs are: fp32 weights, the optimizers' averages, the step (from which the schedule and the place in the data
follow), and the random state (from which dropout follows). Take one away and the continued run is another run.
"""

import hashlib
import json
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minimind.data.loader import BatchSource
from minimind.train.checkpoint import CheckpointError, Snapshot
from minimind.train.optim import load_state_tensors, state_tensors
from minimind.train.step import TrainState


def capture(state: TrainState, source: BatchSource, run: dict[str, Any], identity: dict[str, str]) -> Snapshot:
    """The state after an update. Tensors are shared with the model, so write the snapshot before the next update.

    Args:
        state: what to keep.
        source: gives the place in the data and the fingerprint that a resume must match.
        run: the run's settings, kept for comparison.
        identity: hashes of what the run is made of.
    """
    optimizer_tensors, optimizer_document = state_tensors(state.optimizers, state.model)
    epoch, index = divmod(state.step, source.batches_per_epoch())
    random_tensors, random_document = _random_state()
    return Snapshot(
        step=state.step,
        tensors={
            "model": {name: p.detach() for name, p in state.model.named_parameters()},
            "optim": optimizer_tensors,
            "rng/rank-00000": random_tensors,
        },
        documents={
            "optim": optimizer_document,
            "schedule": {"step": state.step, "factor": state.schedule(state.step)},
            "data": {"epoch": epoch, "batches_done": index, "fingerprint": source.fingerprint()},
            "trainer": {"step": state.step, "tokens": state.tokens, "run": run},
            "rng/rank-00000": random_document,
        },
        identity=identity,
    )


def restore(state: TrainState, source: BatchSource, snapshot: Snapshot) -> None:
    """Puts a snapshot back into a state built for the same run.

    Raises:
        CheckpointError: the snapshot is of other data or another model; the message says which.
    """
    saved, ours = snapshot.documents["data"]["fingerprint"], source.fingerprint()
    if saved != ours:
        raise CheckpointError(
            f"the checkpoint of step {snapshot.step} was trained on other data or in another order (fingerprint "
            f"{saved[:12]}, this run's is {ours[:12]}); resume with the data, tokenizer, batch size, length and seed "
            "that it began with."
        )
    parameters = dict(state.model.named_parameters())
    weights = snapshot.tensors["model"]
    for name in sorted(parameters.keys() | weights.keys()):
        if name not in weights or name not in parameters or weights[name].shape != parameters[name].shape:
            there = tuple(weights[name].shape) if name in weights else "absent"
            here = tuple(parameters[name].shape) if name in parameters else "absent"
            raise CheckpointError(
                f"parameter {name} is {there} in the checkpoint of step {snapshot.step} and {here} in this run; "
                "resume with the model sizes that it began with."
            )
    try:
        load_state_tensors(state.optimizers, state.model, snapshot.tensors["optim"], snapshot.documents["optim"])
    except ValueError as error:
        raise CheckpointError(f"the checkpoint of step {snapshot.step} does not fit: {error}") from error
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
    state.step = snapshot.step
    state.tokens = snapshot.documents["trainer"]["tokens"]
    _restore_random_state(snapshot.tensors["rng/rank-00000"], snapshot.documents["rng/rank-00000"])


def sha256_of(value: Any) -> str:
    """Hash of a JSON value, the same on every machine."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _random_state() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """torch's, Python's and numpy's generators; torch's as tensors, the others as JSON."""
    tensors = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["cuda"] = torch.cuda.get_rng_state()
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return tensors, {
        "python": [version, list(words), gauss],
        "numpy": [str(kind), [int(key) for key in keys], int(position), int(has_gauss), float(cached)],
    }


def _restore_random_state(tensors: dict[str, Tensor], document: dict[str, Any]) -> None:
    torch.set_rng_state(tensors["torch"])
    if "cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["cuda"])
    version, words, gauss = document["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, position, has_gauss, cached = document["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
