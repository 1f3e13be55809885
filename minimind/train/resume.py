"""`--from_resume`: which checkpoint a run continues from, and whether it is still the same run."""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from minimind.config import RunConfig
from minimind.train.checkpoint import CheckpointError, Snapshot, list_checkpoints, load, newest_verified

# Changing one of these makes another model, other data or another order: the continuation would be of neither run.
REFUSED = frozenset(
    (
        "hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim intermediate_size "
        "tokenizer data_path world_documents validation_documents lenient max_seq_len packing batch_size "
        "accumulation_steps optimizer seed"
    ).split()
)
# The checkpoint's own weights are what the run goes on with.
IGNORED = frozenset({"from_weight"})
# Not part of a run: how this process was asked to continue.
NOT_COMPARED = frozenset({"from_resume"})


@dataclass(frozen=True)
class Resume:
    """A verified checkpoint that this run may continue from, and what there is to say about it."""

    path: Path
    snapshot: Snapshot
    notes: list[str] = field(default_factory=list)


def find_resume(run: RunConfig) -> Resume | None:
    """The checkpoint that `run.from_resume` means; None when it is 0.

    Raises:
        CheckpointError: nothing usable is there, or the run is not the one that was saved. Never from scratch.
    """
    if run.from_resume == 0:
        return None
    root = Path(run.checkpoint_dir) / run.save_weight
    notes = []
    if run.from_resume == 1:
        path, rejected = newest_verified(root)
        notes += [f"rejected   {rejection.path}: {rejection.reason}" for rejection in rejected]
    else:
        there = dict(list_checkpoints(root))
        if run.from_resume not in there:
            steps = ", ".join(str(step) for step in there) or "none"
            raise CheckpointError(
                f"from_resume={run.from_resume}: {root} has no checkpoint of that step (it has {steps}). Name one of "
                "these, or 1 for the newest."
            )
        path = there[run.from_resume]
    try:
        snapshot = load(path)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error} Use --from_resume 1, which falls back to the newest good checkpoint."
        ) from error
    notes.append(f"resuming   {path} (step {snapshot.step})")
    notes += _differences(path, snapshot.documents["trainer"]["run"], settings_of(run))
    return Resume(path, snapshot, notes)


def settings_of(run: RunConfig) -> dict[str, Any]:
    """The settings that belong to a run, as a checkpoint keeps them."""
    return {name: value for name, value in asdict(run).items() if name not in NOT_COMPARED}


def _differences(path: Path, saved: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """One line for every setting that changed.

    Raises:
        CheckpointError: a setting changed that may not; all of them are named.
    """
    notes, refused = [], []
    for name in sorted(saved.keys() | ours.keys()):
        before, now = saved.get(name, "absent"), ours.get(name, "absent")
        if before == now:
            continue
        if name in REFUSED or "absent" in (before, now):
            refused.append(f"{name} was {before!r} and is {now!r}")
        elif name in IGNORED:
            notes.append(f"ignored    {name}: {before!r} -> {now!r} (the checkpoint's weights are used)")
        else:
            notes.append(f"applied    {name}: {before!r} -> {now!r}")
    if refused:
        raise CheckpointError(
            f"{path} is of another run: {'; '.join(refused)}. Continue with the settings it began with, or start a "
            "new run with another --save_weight."
        )
    return notes


def set_aside(run: RunConfig, resume: Resume | None) -> list[str]:
    """Moves checkpoints that this run will not continue from out of its way, and says so; none is deleted.

    A new run sets aside all that an earlier one of its name left; a run that goes on from an older step, those of
    later steps.
    """
    root = Path(run.checkpoint_dir) / run.save_weight
    step = -1 if resume is None else resume.snapshot.step
    later = [path for saved, path in list_checkpoints(root) if saved > step]
    if not later:
        return []
    number = 1
    while (aside := root.with_name(f"{root.name}.before-{number}")).exists():
        number += 1
    if resume is None:
        os.rename(root, aside)
        return [f"kept       the resume state of an earlier run {run.save_weight!r} as {aside}"]
    aside.mkdir()
    for path in later:
        os.rename(path, aside / path.name)
    return [f"kept       {', '.join(path.name for path in later)} of before as {aside}"]
