"""The files inside a checkpoint: tensors as safetensors, documents as JSON, the manifest that lists them.

In: named tensors, or a JSON object. Out: a file that is safely on the disk, its size and its sha256, hashed
while it was written. There is no pickle anywhere: reading a checkpoint can never run code. `checkpoint.py`
builds whole checkpoints from these.
"""

import hashlib
import json
import math
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

JsonObject = dict[str, Any]

FORMAT_VERSION = 1
MANIFEST_NAME = "MANIFEST.json"
CHUNK_BYTES = 4 * 1024 * 1024

# The name of each dtype in a safetensors header.
DTYPE_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class CheckpointError(ValueError):
    """A checkpoint that cannot be written or must not be read; the message names the file and the reason."""


@dataclass(frozen=True)
class FileRecord:
    """What the manifest says of one file: its size in bytes and its sha256 as 64 hexadecimal digits."""

    bytes: int
    sha256: str


class Disk:
    """Every change that a commit makes on the disk, one method each.

    Training uses this class as it is. A test overrides `event` to fail, or to kill the process, at a chosen
    change; since nothing is changed in any other way, it can do so at every one of them.
    """

    def event(self, name: str, path: Path) -> None:
        """Announce the change `name` of `path` just before it is made; the real disk does nothing here."""

    def make_folder(self, path: Path) -> None:
        """Create the folder `path`, whose parent exists."""
        self.event("make_folder", path)
        path.mkdir()

    def write(self, file: BinaryIO, path: Path, piece: bytes | memoryview) -> None:
        """Append `piece` to the open `file` that stands at `path`."""
        self.event("write", path)
        file.write(piece)
        file.flush()

    def sync_file(self, file: BinaryIO, path: Path) -> None:
        """Wait until what was written to `file` would survive a power cut."""
        self.event("sync_file", path)
        os.fsync(file.fileno())

    def sync_folder(self, path: Path) -> None:
        """Wait until the names inside the folder `path` would survive a power cut."""
        self.event("sync_folder", path)
        if os.name == "nt":  # Windows has no such call; NTFS journals names by itself
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """Give `old` the name `new` in one step: a reader sees the one or the other, never half."""
        self.event("rename", old)
        os.rename(old, new)

    def remove_tree(self, path: Path) -> None:
        """Remove the folder `path` and what is in it, file by file: never call it on a checkpoint's name."""
        self.event("remove_tree", path)
        shutil.rmtree(path)


REAL_DISK = Disk()


def write_file(disk: Disk, path: Path, pieces: Iterable[bytes | memoryview]) -> FileRecord:
    """Write a new file piece by piece, hash the same pieces on the way, and wait until it is on the disk.

    Raises:
        OSError: the disk refused; what was written so far stays for the caller to remove.
    """
    with open(path, "xb") as file:
        record = hash_pieces(_written(disk, file, path, pieces))
        disk.sync_file(file, path)
    return record


def _written(
    disk: Disk, file: BinaryIO, path: Path, pieces: Iterable[bytes | memoryview]
) -> Iterator[bytes | memoryview]:
    for piece in pieces:
        disk.write(file, path, piece)
        yield piece


def hash_pieces(pieces: Iterable[bytes | memoryview]) -> FileRecord:
    """The size and sha256 of a file made of these pieces."""
    digest = hashlib.sha256()
    size_bytes = 0
    for piece in pieces:
        digest.update(piece)
        size_bytes += len(piece)
    return FileRecord(size_bytes, digest.hexdigest())


def hash_file(path: Path) -> FileRecord:
    """The size and sha256 of the file at `path`, as it is read now."""
    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return FileRecord(file.tell(), sha256)


def check_tensors(file_name: str, tensors: Mapping[str, Tensor]) -> None:
    """Refuse what a safetensors file cannot give back exactly.

    Non-contiguous, expanded, tied and overlapping tensors are fine: each name is written by value, with bytes
    of its own. That two names were tied is not recorded; the model that loads them ties them again.

    Raises:
        CheckpointError: names the file and the tensor.
    """
    for name, tensor in tensors.items():
        where = f"tensor {name!r} of {file_name}"
        if not isinstance(name, str) or name == "__metadata__":
            raise CheckpointError(f"{where} needs another name: a string other than '__metadata__'.")
        # A subclass such as DTensor holds only a part of the values, or wraps them.
        if type(tensor) not in (Tensor, torch.nn.Parameter):
            kind = type(tensor).__name__
            raise CheckpointError(f"{where} is a {kind}: pass a plain Tensor (a DTensor's full_tensor()).")
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            raise CheckpointError(
                f"{where} has layout {tensor.layout} on device {tensor.device}: only dense tensors with "
                "values can be saved; convert it with to_dense() or leave it out."
            )
        if tensor.dtype not in DTYPE_NAMES:
            allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPE_NAMES)
            raise CheckpointError(f"{where} has dtype {tensor.dtype}: convert it to one of {allowed}.")


def tensor_pieces(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """A safetensors file, piece by piece: 8 bytes of header length, the JSON header, the values in chunks.

    The library's own `save` builds the file in memory first (twice its size for a moment) and can be hashed
    only afterwards. The format is small enough to stream; only what is not contiguous on the CPU is copied.
    """
    # Wide dtypes first keeps every tensor aligned; the caller's order is kept in the header.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())
    header: JsonObject = {"__metadata__": {"order": json.dumps(list(tensors))}}
    start = 0
    for name, tensor in ordered:
        end = start + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in ordered:
        plain = tensor.detach().resolve_neg().cpu().contiguous()
        # Not reshape(-1): a dimension of size 1 may keep a stride that view(torch.uint8) refuses.
        flat = plain.as_strided((plain.numel(),), (1,))
        values: memoryview = flat.view(torch.uint8).numpy().data
        for offset in range(0, len(values), CHUNK_BYTES):
            yield values[offset : offset + CHUNK_BYTES]


def tensor_names(path: Path) -> list[str]:
    """The names in a safetensors file in the order in which they were saved; reads the header only.

    Raises:
        CheckpointError: the file is not a safetensors file that this package wrote.
    """
    try:
        with safe_open(path, framework="pt") as file:
            names: list[str] = json.loads((file.metadata() or {}).get("order", "[]"))
            complete = sorted(names) == sorted(file.keys())
    except (SafetensorError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}.") from error
    if not complete:
        raise CheckpointError(f"{path} does not list the order of its tensors: another program saved it.")
    return names


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file on the CPU, in the order in which they were saved.

    Each has memory of its own: without the copy they would be windows into the file and change with it.

    Raises:
        CheckpointError: as `tensor_names`.
    """
    names = tensor_names(path)
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name).clone() for name in names}


def check_document(file_name: str, document: JsonObject) -> None:
    """Refuse what JSON cannot give back exactly. A tuple is the one exception: it comes back as a list.

    Raises:
        CheckpointError: names the file and the field, as in `trainer.json: history[3].loss`.
    """
    if not isinstance(document, dict):
        raise CheckpointError(f"{file_name} must hold a JSON object, not a {type(document).__name__}.")
    _check_value(file_name, "", document)


def _check_value(file_name: str, field: str, value: Any) -> None:
    where = f"{file_name}: {field}"
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise CheckpointError(f"{where}[{key!r}] has a key that is not a string; write {str(key)!r}.")
            _check_value(file_name, f"{field}.{key}" if field else key, inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check_value(file_name, f"{field}[{index}]", inner)
    elif isinstance(value, float) and not math.isfinite(value):
        raise CheckpointError(f"{where} is {value}: only finite numbers can be saved; stop the run instead.")
    elif value is not None and not isinstance(value, str | int | float):
        kind = type(value).__name__
        raise CheckpointError(f"{where} is a {kind}, which JSON cannot hold; tensors go into `tensors`.")


def document_pieces(document: JsonObject) -> Iterator[bytes]:
    """The one piece of a JSON file."""
    yield json.dumps(document, allow_nan=False).encode() + b"\n"


def read_document(path: Path) -> JsonObject:
    """The JSON object in a file.

    Raises:
        CheckpointError: not JSON, not an object, or a number that is not finite.
    """
    try:
        document = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # a decoding error of the text is a ValueError too
        raise CheckpointError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(document, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not a {type(document).__name__}.")
    return document


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a finite number")


@dataclass(frozen=True)
class Manifest:
    """The table of contents of one checkpoint; `files` maps a relative path such as rng/rank-00000.json."""

    step: int
    world_size: int
    identity: dict[str, str]
    files: dict[str, FileRecord]

    def to_bytes(self) -> bytes:
        """The file as it stands on the disk. Its last field is the sha256 of all the others."""
        body: JsonObject = {"format_version": FORMAT_VERSION, **asdict(self)}
        body["sha256"] = hashlib.sha256(json.dumps(body).encode()).hexdigest()
        return json.dumps(body, indent=1).encode()


def folder_name(step: int) -> str:
    """The name of the checkpoint folder of `step`."""
    return f"step-{step:08d}"


def check_structure(path: Path) -> Manifest:
    """The manifest of a folder whose name, list of files and sizes agree with it; opens nothing else.

    Raises:
        CheckpointError: names the file and the reason.
        OSError: the disk refused.
    """
    if path.is_symlink() or not path.is_dir():
        raise CheckpointError(f"{path} is not a folder of its own (a file, a symbolic link, or nothing).")
    found: dict[str, int] = {}
    folders: set[str] = set()
    for entry in _walk(path):
        name = entry.relative_to(path).as_posix()
        status = entry.lstat()
        if stat.S_ISDIR(status.st_mode):
            folders.add(name)
        elif stat.S_ISREG(status.st_mode):
            found[name] = status.st_size
        else:
            raise CheckpointError(f"{entry} is unexpected: a link or special file; it was not opened.")
    if MANIFEST_NAME not in found:
        raise CheckpointError(f"{path / MANIFEST_NAME} is missing.")
    manifest = _read_manifest(path / MANIFEST_NAME)
    if path.name != folder_name(manifest.step):
        raise CheckpointError(
            f"{path / MANIFEST_NAME} is that of step {manifest.step}, but its folder is named {path.name}; "
            "folders were renamed or swapped."
        )
    parents = {str(parent) for name in manifest.files for parent in PurePosixPath(name).parents}
    unexpected = sorted((found.keys() - manifest.files.keys() - {MANIFEST_NAME}) | (folders - parents))
    if unexpected:
        raise CheckpointError(f"{path / unexpected[0]} is unexpected: not in the manifest, so not opened.")
    for name, record in manifest.files.items():
        if name not in found:
            raise CheckpointError(f"{path / name} is missing.")
        if found[name] != record.bytes:
            raise CheckpointError(f"{path / name} has {found[name]} bytes instead of {record.bytes}.")
    return manifest


def _walk(path: Path) -> Iterator[Path]:
    for entry in sorted(path.iterdir()):
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)


def check_file(path: Path, record: FileRecord) -> None:
    """Read every byte of one listed file and compare it with its record.

    Raises:
        CheckpointError: names the file and the reason.
        OSError: the disk refused.
    """
    found = hash_file(path)
    if found != record:
        raise CheckpointError(
            f"{path} has sha256 {found.sha256[:12]}... instead of {record.sha256[:12]}...: it was damaged, "
            "or comes from another checkpoint."
        )
    # The content is what was saved; it must also be what `load` can read.
    if path.suffix == ".json":
        read_document(path)
    else:
        tensor_names(path)


def _read_manifest(path: Path) -> Manifest:
    text = path.read_bytes()
    document = read_document(path)
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {version!r}, but this version of minimind reads {FORMAT_VERSION}; "
            "use the version that saved it."
        )
    try:
        files = {name: FileRecord(**record) for name, record in document["files"].items()}
        identity = dict(document["identity"])
        manifest = Manifest(int(document["step"]), int(document["world_size"]), identity, files)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{path} lacks a field or has one of the wrong type: {error}.") from error
    # Written again it must give the same bytes, its own checksum included.
    if manifest.to_bytes() != text:
        raise CheckpointError(f"{path} was changed after it was written: its checksum does not agree.")
    return manifest
