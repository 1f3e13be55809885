"""Checkpoints that survive a kill, a full disk and a flipped bit.

In: a `Snapshot` (tensors, JSON documents, hashes of what the run was started with). Out: one folder per step,

    <root>/step-00000010/
      MANIFEST.json         format version, step, world size, identity, and bytes + sha256 of every file
      <stem>.safetensors    for each entry of `Snapshot.tensors`; a stem may hold a folder: rng/rank-00000
      <stem>.json           for each entry of `Snapshot.documents`

A folder with such a name is complete: it is built under a `.tmp-` name, forced to the disk, and renamed as a
whole. Once there it is never written again. Readers trust nothing: a folder is used only after every size and
every hash in its manifest agrees. One process commits to a root at a time (rank 0 of a distributed run).
"""

import errno
import logging
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from minimind.train.checkpoint_files import (
    MANIFEST_NAME,
    REAL_DISK,
    CheckpointError,
    Disk,
    FileRecord,
    JsonObject,
    Manifest,
    check_document,
    check_file,
    check_structure,
    check_tensors,
    document_pieces,
    folder_name,
    hash_pieces,
    read_document,
    read_tensors,
    tensor_pieces,
    write_file,
)

__all__ = [
    "CheckpointError",
    "Disk",
    "FileRecord",
    "Manifest",
    "Rejection",
    "Snapshot",
    "commit",
    "list_checkpoints",
    "load",
    "newest_verified",
    "verify",
]

STEP_FOLDER = re.compile(r"step-(\d{8,})")
TEMPORARY_FOLDER = re.compile(r"\.tmp-\d+-(?P<pid>\d+)-[0-9a-f]+")
# Lower case only, so that two stems never meet on a file system that ignores case.
STEM = re.compile(r"[a-z0-9_-]+(/[a-z0-9_-]+)*")

logger = logging.getLogger(__name__)


@dataclass
class Snapshot:
    """Everything that a run needs to go on, at one update boundary.

    Attributes:
        step: Optimizer updates done, 0 or more.
        tensors: File stem -> tensor name -> tensor ("model", "optim", "rng/rank-00000").
        documents: File stem -> JSON object with finite numbers ("optim", "schedule", "trainer").
        identity: What the run is made of -> sha256 ("config", "data", "tokenizer").
        world_size: Processes that trained together, 1 or more.
    """

    step: int
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    documents: dict[str, JsonObject] = field(default_factory=dict)
    identity: dict[str, str] = field(default_factory=dict)
    world_size: int = 1


@dataclass(frozen=True)
class Rejection:
    """A checkpoint that was passed over, and why."""

    path: Path
    reason: str


def commit(root: Path, snapshot: Snapshot, keep: int = 2, *, disk: Disk = REAL_DISK) -> Path:
    """Write a checkpoint so that at every moment, a power cut included, the newest good one can be found.

    Committing a step that is already there, verified, with the same content does nothing. A step that is
    there but damaged is set aside as `step-00000010.rejected-<random>`, for a person to look at.

    Args:
        root: The folder of the run; created when missing.
        snapshot: What to save.
        keep: Verified checkpoints to keep, this one included, at least 2. Only older steps are ever removed,
            and only after this one was read back and verified.
        disk: Where the changes are made; tests pass one that fails.

    Returns:
        The folder of the checkpoint.

    Raises:
        ValueError: `keep` is below 2.
        CheckpointError: the snapshot cannot be saved exactly, the step exists with other content, or the disk
            failed. Older checkpoints are all still there.
    """
    if keep < 2:
        raise ValueError(f"keep is {keep}: at least 2 checkpoints are kept, in case the newest is damaged.")
    _check_snapshot(snapshot)
    root = Path(root)
    path = root / folder_name(snapshot.step)
    try:
        _make_folders(disk, root)
        _remove_leftovers(disk, root)
        damaged = None
        if os.path.lexists(path):
            damaged = _compare_with_existing(path, snapshot)
            if damaged is None:
                disk.sync_folder(root)  # whoever wrote it may have been killed before this
                return path
        manifest = _write_folder(disk, path, snapshot, damaged)
        disk.sync_folder(root)
        if verify(path) != manifest:
            raise CheckpointError(f"{path} was replaced by another process while it was committed.")
    except OSError as error:
        raise _disk_error(path, snapshot, error) from error
    _prune(disk, root, snapshot.step, keep)
    return path


def verify(path: Path) -> Manifest:
    """Read every byte of a checkpoint and compare it with the manifest. Nothing that is not listed is opened.

    Raises:
        CheckpointError: names the file and the reason.
    """
    path = Path(path)
    try:
        manifest = check_structure(path)
        for name, record in manifest.files.items():
            check_file(path / name, record)
    except OSError as error:
        where = error.filename or path
        raise CheckpointError(f"{where} cannot be read: {error.strerror or error}.") from error
    return manifest


def newest_verified(root: Path) -> tuple[Path, list[Rejection]]:
    """The newest checkpoint that verifies, and each newer one that does not, newest first.

    Raises:
        CheckpointError: there is none, or none verifies; each is listed with its reason. A caller that was
            asked to resume must stop then: a run that begins from scratch without a word is a lost run.
    """
    rejections = []
    for _, path in reversed(list_checkpoints(root)):
        try:
            verify(path)
        except CheckpointError as error:
            rejections.append(Rejection(path, str(error)))
        else:
            return path, rejections
    if not rejections:
        raise CheckpointError(
            f"{root} holds no checkpoint (a folder such as {folder_name(10)}): check the path, or start a "
            "new run without resuming."
        )
    reasons = "\n".join(f"  {rejection.path.name}: {rejection.reason}" for rejection in rejections)
    raise CheckpointError(
        f"{root} holds no usable checkpoint; all {len(rejections)} were rejected:\n{reasons}\n"
        "Restore one from a backup, or start a new run in another folder."
    )


def load(path: Path) -> Snapshot:
    """Verify a checkpoint, then read it: tensors on the CPU with memory of their own, all orders as saved.

    Raises:
        CheckpointError: as `verify`.
    """
    path = Path(path)
    manifest = verify(path)
    snapshot = Snapshot(manifest.step, identity=manifest.identity, world_size=manifest.world_size)
    for name in manifest.files:
        stem, _, kind = name.rpartition(".")
        if kind == "json":
            snapshot.documents[stem] = read_document(path / name)
        else:
            snapshot.tensors[stem] = read_tensors(path / name)
    return snapshot


def list_checkpoints(root: Path) -> list[tuple[int, Path]]:
    """(step, path) of everything under `root` that has the name of a checkpoint, oldest first, unverified.

    Raises:
        CheckpointError: the folder cannot be listed.
    """
    root = Path(root)
    if not root.is_dir():
        return []
    try:
        matches = [(STEP_FOLDER.fullmatch(path.name), path) for path in root.iterdir()]
    except OSError as error:
        raise CheckpointError(f"{root} cannot be listed: {error.strerror or error}.") from error
    found = [(int(match[1]), path) for match, path in matches if match]
    return sorted((step, path) for step, path in found if path.name == folder_name(step))


def _temporary_path(root: Path, step: int) -> Path:
    return root / f".tmp-{step}-{os.getpid()}-{secrets.token_hex(4)}"


def _check_snapshot(snapshot: Snapshot) -> None:
    """Find out before anything is touched on the disk that a snapshot would not come back as it is."""
    for name, count, least in (("step", snapshot.step, 0), ("world_size", snapshot.world_size, 1)):
        if type(count) is not int or count < least:
            raise CheckpointError(f"{name} is {count!r}: it must be a whole number of at least {least}.")
    for stem in (*snapshot.tensors, *snapshot.documents):
        if not STEM.fullmatch(stem) or stem == "manifest":
            raise CheckpointError(
                f"{stem!r} cannot name a file of a checkpoint: use lower-case letters, digits, '-' and '_', "
                "with '/' between folders, and not 'manifest'."
            )
    for stem, tensors in snapshot.tensors.items():
        check_tensors(f"{stem}.safetensors", tensors)
    for stem, document in snapshot.documents.items():
        check_document(f"{stem}.json", document)
    for name, value in snapshot.identity.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise CheckpointError(f"identity[{name!r}] is {value!r}: names and hashes must be strings.")


def _contents(snapshot: Snapshot) -> Iterator[tuple[str, Iterator[bytes | memoryview]]]:
    for stem, tensors in snapshot.tensors.items():
        yield f"{stem}.safetensors", tensor_pieces(tensors)
    for stem, document in snapshot.documents.items():
        yield f"{stem}.json", document_pieces(document)


def _make_folders(disk: Disk, path: Path) -> None:
    """Create a folder and its missing parents; each new name is forced to the disk before the next."""
    if path.is_dir():
        return
    _make_folders(disk, path.parent)
    disk.make_folder(path)
    disk.sync_folder(path.parent)


def _compare_with_existing(path: Path, snapshot: Snapshot) -> str | None:
    """None when the verified checkpoint at `path` equals `snapshot`; the reason when it is damaged."""
    try:
        existing = verify(path)
    except CheckpointError as error:
        return str(error)
    files = {name: hash_pieces(pieces) for name, pieces in _contents(snapshot)}
    wanted = Manifest(snapshot.step, snapshot.world_size, snapshot.identity, files)
    if existing == wanted:
        return None
    fields = [name for name in ("world_size", "identity") if getattr(existing, name) != getattr(wanted, name)]
    names = sorted(existing.files.keys() | files.keys())
    fields += [name for name in names if existing.files.get(name) != files.get(name)]
    raise CheckpointError(
        f"{path} is already a good checkpoint of step {snapshot.step} with other content (different: "
        f"{', '.join(fields)}). A committed step is never written again: resume from it, or save this run in "
        "another folder."
    )


def _write_folder(disk: Disk, path: Path, snapshot: Snapshot, damaged: str | None) -> Manifest:
    """Build the checkpoint under a temporary name, manifest last, and give it its name in one step."""
    temporary = _temporary_path(path.parent, snapshot.step)
    try:
        disk.make_folder(temporary)
        files = {}
        for name, pieces in _contents(snapshot):
            _make_folders(disk, (temporary / name).parent)
            files[name] = write_file(disk, temporary / name, pieces)
        for folder in sorted({(temporary / name).parent for name in files} - {temporary}):
            disk.sync_folder(folder)
        manifest = Manifest(snapshot.step, snapshot.world_size, dict(snapshot.identity), files)
        write_file(disk, temporary / MANIFEST_NAME, [manifest.to_bytes()])
        disk.sync_folder(temporary)
        if damaged is not None:
            aside = path.with_name(f"{path.name}.rejected-{secrets.token_hex(4)}")
            disk.rename(path, aside)
            logger.warning("The damaged checkpoint %s was set aside as %s: %s", path, aside.name, damaged)
        disk.rename(temporary, path)
    finally:
        # Also after Ctrl-C. Once renamed, nothing is left under the temporary name.
        if os.path.lexists(temporary):
            _try_to_remove(disk, temporary)
    return manifest


def _disk_error(path: Path, snapshot: Snapshot, error: OSError) -> CheckpointError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        tensors = [tensor for group in snapshot.tensors.values() for tensor in group.values()]
        needed_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        remedy = f"About {needed_bytes / 1e6:.1f} MB are needed: free some space, or save in another folder."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "Make the folder writable, or save in another one."
    else:
        remedy = "Check the disk and the path, or save in another folder."
    where = f" (at {error.filename})" if error.filename else ""
    return CheckpointError(
        f"{path} could not be saved: {error.strerror or error}{where}. {remedy} Nothing older was removed."
    )


def _prune(disk: Disk, root: Path, step: int, keep: int) -> None:
    """Remove what is older than the newest `keep` verified checkpoints up to `step`.

    A damaged one does not count as kept, and stays while it is among the newest. The checkpoint is already
    safe here, so a disk that refuses is reported and does not stop the run.
    """
    kept = 1  # the one of `step`, verified just now
    for older_step, path in reversed(list_checkpoints(root)):
        if older_step >= step:
            continue
        try:
            if kept < keep:
                verify(path)
                kept += 1
                continue
            check_structure(path)  # a folder that holds anything else is not ours to remove
            aside = _temporary_path(root, older_step)
            disk.rename(path, aside)  # so that no half-removed checkpoint has a checkpoint's name
            disk.sync_folder(root)
        except (CheckpointError, OSError) as error:
            logger.warning("The older checkpoint %s was left in place: %s", path, error)
            continue
        if _try_to_remove(disk, aside):
            logger.info("The older checkpoint %s was removed; %d newer ones are kept.", path, kept)


def _remove_leftovers(disk: Disk, root: Path) -> None:
    """Remove the temporary folders of processes that died while saving; they may fill the disk."""
    removed = 0
    for path in sorted(root.iterdir()):
        match = TEMPORARY_FOLDER.fullmatch(path.name)
        if match and not _is_another_live_process(int(match["pid"])):
            removed += _try_to_remove(disk, path)
    if removed:
        logger.warning("%s: removed %d unfinished checkpoint(s) of dead processes.", root, removed)


def _is_another_live_process(pid: int) -> bool:
    # This process has nothing unfinished when a commit begins: such a folder is from an earlier process with
    # the same number, as in a container that was started again.
    if pid == os.getpid():
        return False
    if os.name == "nt":  # there, asking in this way would end the process
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _try_to_remove(disk: Disk, path: Path) -> bool:
    try:
        disk.remove_tree(path)
    except OSError as error:
        logger.warning("The temporary folder %s could not be removed: %s", path, error)
        return False
    return True
