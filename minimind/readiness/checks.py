"""Checks of one run on one machine, and the report of everything."""

import shlex
from pathlib import Path

import torch

from minimind.config import RunConfig, preset
from minimind.data.corpora import CORPORA
from minimind.folders import require_folder
from minimind.model.hub import find_weights, load_weights, require_replaceable
from minimind.readiness.environment import (
    check_corpus,
    check_packages,
    check_python,
    check_tests,
    check_torch_build,
)
from minimind.readiness.finding import Finding, as_command, gib
from minimind.readiness.machine import Accelerator, Machine, this_machine
from minimind.readiness.needs import Needs, needs_of
from minimind.tokenizer import SHIPPED_VOCAB_SIZES, load_tokenizer
from minimind.train.device import SMALL_MODEL_PARAMETERS
from minimind.train.resume import find_resume

_SIZES = "hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim intermediate_size".split()


def report(run: RunConfig | None = None, machine: Machine | None = None, stage: str = "pretrain") -> list[Finding]:
    """Everything that must exist before a run's first step, looked at once. Nothing is changed or fetched.

    Args:
        run: what is to be run; None is the `lesson` preset of the stage.
        machine: where; None is this one. Another one may be described, to ask what would be missing there.
        stage: the command that is to run it: a key of `minimind.config.STAGES`.

    Returns:
        One finding for each check, always in the same order and under the same names.
    """
    run = run or preset("lesson", stage)
    machine = machine or this_machine(run)
    needs = needs_of(run, _vocab_size(run))
    return [
        check_python(),
        *check_packages(),
        check_torch_build(machine, torch.__version__),
        check_device(run, machine, stage),
        check_precision(run, machine, stage),
        check_threads(run, machine, needs, stage),
        check_memory(run, machine, needs, stage),
        *check_folders(run, stage),
        *check_disks(run, machine, needs, stage),
        *(_needed_by(run, check_corpus(name)) for name in CORPORA),
        check_data(run, stage),
        check_tokenizer(run, stage),
        check_weights(run, stage),
        check_checkpoint(run, stage),
        *check_tests(),
    ]


def check_device(run: RunConfig, machine: Machine, stage: str = "pretrain") -> Finding:
    """Whether the device that the run names is here."""
    found = ", ".join([f"cpu with {machine.cores} cores", *(f"{a.device} ({a.name})" for a in machine.accelerators)])
    if run.device in ("cpu", "auto") or accelerator_of(run, machine) is not None:
        return Finding("device", found, run.device)
    return Finding("device", found, run.device, "missing", as_command(run.replace(device="auto"), stage))


def check_precision(run: RunConfig, machine: Machine, stage: str = "pretrain") -> Finding:
    """Whether the chip computes in the run's dtype by instructions of its own."""
    accelerator = accelerator_of(run, machine)
    bfloat16 = machine.bfloat16 if accelerator is None else accelerator.bfloat16
    found = "float32 and bfloat16" if bfloat16 else "float32; bfloat16 only emulated"
    if run.dtype == "float32" or bfloat16:
        return Finding("precision", found, run.dtype)
    # On a CPU torch emulates it, correctly and slowly; on a GPU `make_autocast` refuses.
    on_cpu = accelerator is None
    fix = as_command(run.replace(dtype="float32"), stage)
    return Finding("precision", found, run.dtype, "degraded" if on_cpu else "missing", fix)


def check_threads(run: RunConfig, machine: Machine, needs: Needs, stage: str = "pretrain") -> Finding:
    """Whether the run asks for more threads than there are cores, or than a small model can use."""
    found = f"{machine.cores} core{'s' if machine.cores != 1 else ''}"
    small = needs.parameters < SMALL_MODEL_PARAMETERS
    good = 1 if small else machine.cores
    if run.threads <= good:
        return Finding("threads", found, f"{run.threads or good} thread{'s' if (run.threads or good) != 1 else ''}")
    needed = f"at most {good}, and the run asks for {run.threads}{': the model is small' if small else ''}"
    return Finding("threads", found, needed, "degraded", as_command(run.replace(threads=0), stage))


def check_memory(run: RunConfig, machine: Machine, needs: Needs, stage: str = "pretrain") -> Finding:
    """Whether weights, gradients, optimizer and activations fit."""
    accelerator = accelerator_of(run, machine)
    has = machine.memory_bytes if accelerator is None else accelerator.memory_bytes
    where = "" if accelerator is None else f" on {accelerator.device}"
    needed = f"about {gib(needs.memory_bytes)} (estimate)"
    if has is None:
        return Finding("memory", "not known on this system", needed)
    if needs.memory_bytes <= has:
        return Finding("memory", f"{gib(has)} free{where}", needed)
    return Finding("memory", f"{gib(has)} free{where}", needed, "missing", as_command(_smaller(run, needs, has), stage))


def check_folders(run: RunConfig, stage: str = "pretrain") -> list[Finding]:
    """Whether the two folders may be written, and whether the weights of this name may be replaced."""
    elsewhere = run.replace(save_dir="~/minimind/out", checkpoint_dir="~/minimind/checkpoints")
    findings = []
    for field in ("save_dir", "checkpoint_dir"):
        name, needed = f"folder {field}", f"a folder that may be written: {getattr(run, field)}"
        # The shell puts the home folder for ~ only where it is not quoted.
        fix = as_command(run.replace(**{field: getattr(elsewhere, field)}), stage).replace("'~/", "~/'")
        try:
            require_folder(field, getattr(run, field))
            if field == "save_dir":
                fix = as_command(run.replace(save_weight=f"{run.save_weight}-2"), stage)
                require_replaceable(Path(run.save_dir) / run.save_weight)
            findings.append(Finding(name, "may be written", needed))
        except ValueError as error:
            findings.append(Finding(name, f"{error}", needed, "missing", fix))
    return findings


def check_disks(run: RunConfig, machine: Machine, needs: Needs, stage: str = "pretrain") -> list[Finding]:
    """Whether weights and checkpoints fit where they go; folders on one disk share its room."""
    rooms = {
        "save_dir": (machine.save_disk, needs.save_dir_bytes),
        "checkpoint_dir": (machine.checkpoint_disk, needs.checkpoint_dir_bytes),
    }
    kept = f"{needs.checkpoints} checkpoint{'s' if needs.checkpoints != 1 else ''}"
    words = {"save_dir": "the weights", "checkpoint_dir": f"{kept} of {gib(needs.checkpoint_bytes)}"}
    fewer = run.replace(save_interval=0)
    findings = []
    for field, (disk, own_bytes) in rooms.items():
        needed = f"{gib(own_bytes)}: {words[field]}"
        found = f"{gib(disk.free_bytes)} free"
        if sum(size for other, size in rooms.values() if other.identity == disk.identity) <= disk.free_bytes:
            findings.append(Finding(f"disk {field}", found, needed))
            continue
        fewer_needs = needs_of(fewer, _vocab_size(run))
        both = machine.save_disk.identity == machine.checkpoint_disk.identity
        less = fewer_needs.checkpoint_dir_bytes + (fewer_needs.save_dir_bytes if both else 0)
        helps = field == "checkpoint_dir" or both
        # Else only another disk helps, and df lists them with their room.
        fix = as_command(fewer, stage) if helps and less <= disk.free_bytes else "df -h"
        findings.append(Finding(f"disk {field}", found, needed, "missing", fix))
    return findings


def check_data(run: RunConfig, stage: str = "pretrain") -> Finding:
    """Whether the run's text is there. Its rows are read when the run starts, before the first step."""
    if run.data_path == "world":
        return Finding("data", "the small world, generated", "data_path world")
    if run.data_path in CORPORA and stage == "pretrain":
        return Finding("data", f"shipped, see corpus {run.data_path}", f"data_path {run.data_path}")
    path = Path(run.data_path.replace("\0", ""))
    if run.data_path.strip() and path.is_file() and path.stat().st_size:
        return Finding("data", f"{gib(path.stat().st_size)} of text", f"data_path {run.data_path}")
    found = "an empty file" if path.is_file() and run.data_path.strip() else "no such file"
    return Finding(
        "data", found, f"data_path {run.data_path}", "missing", as_command(run.replace(data_path="world"), stage)
    )


def check_tokenizer(run: RunConfig, stage: str = "pretrain") -> Finding:
    """Whether the run's tokenizer can be read, and has the size that it should."""
    shipped = SHIPPED_VOCAB_SIZES.get(run.tokenizer)
    needed = f"tokenizer {run.tokenizer}" + (f" of {shipped:,} entries" if shipped else "")
    fix = "git restore minimind/tokenizers"
    if not shipped:
        taken = Path(run.tokenizer.replace("\0", "")).exists()  # and not to be overwritten
        train = shlex.join(["minimind", "tokenizer", "train", "--save_dir", run.tokenizer])
        fix = as_command(run.replace(tokenizer="world-800"), stage) if taken else train
    try:
        size = len(load_tokenizer(run.tokenizer))
    except ValueError as error:
        return Finding("tokenizer", f"{error}", needed, "missing", fix)
    if shipped not in (None, size):
        return Finding("tokenizer", f"{size:,} entries", needed, "missing", fix)
    return Finding("tokenizer", f"{size:,} entries", needed)


def check_weights(run: RunConfig, stage: str = "pretrain") -> Finding:
    """Whether the weights that the run begins from are there, whole, and of its sizes and tokenizer."""
    needed = f"from_weight {run.from_weight}"
    if run.from_weight == "none":
        return Finding("weights", "begins from scratch", needed)
    try:
        folder = find_weights(run.from_weight, run.save_dir)
        tokenizer = load_tokenizer(run.tokenizer)
        model = load_weights(folder, run.model_config(len(tokenizer)), tokenizer)
    except ValueError as error:
        return Finding("weights", f"{error}", needed, "missing", _command_for_weights(run, stage))
    return Finding("weights", f"{sum(p.numel() for p in model.parameters()):,} parameters", needed)


def _command_for_weights(run: RunConfig, stage: str) -> str:
    """Fits the run to weights that are whole but of another model or tokenizer; trains those that are not there."""
    try:
        folder = find_weights(run.from_weight, run.save_dir)
        config = load_weights(folder).config
        load_tokenizer(folder)
    except ValueError:
        kept = {name: getattr(run, name) for name in ("tokenizer", "save_dir", "checkpoint_dir", "device", *_SIZES)}
        named = Path(run.from_weight)
        if named.parent != Path("."):
            kept["save_dir"] = str(named.parent)
        return as_command(RunConfig().replace(**kept, save_weight=named.name))
    # Training them anew would overwrite good weights.
    fitting = {name: getattr(config, name) for name in _SIZES}
    return as_command(run.replace(**fitting, tokenizer=str(folder)), stage)


def check_checkpoint(run: RunConfig, stage: str = "pretrain") -> Finding:
    """Whether the resume state that the run goes on from is there, whole, and of this run."""
    needed = f"from_resume {run.from_resume}"
    if run.from_resume == 0:
        return Finding("checkpoint", "does not resume", needed)
    try:
        resume = find_resume(run)
    except ValueError as error:
        return Finding("checkpoint", f"{error}", needed, "missing", as_command(run.replace(from_resume=0), stage))
    assert resume is not None
    return Finding("checkpoint", f"step {resume.snapshot.step}, verified", needed)


def accelerator_of(run: RunConfig, machine: Machine) -> Accelerator | None:
    """The GPU that the run would use; None for the CPU, and for one that is not there."""
    if run.device == "auto":
        return next(iter(machine.accelerators), None)
    wanted = "cuda:0" if run.device == "cuda" else run.device
    return next((each for each in machine.accelerators if each.device == wanted), None)


def _smaller(run: RunConfig, needs: Needs, has_bytes: int) -> RunConfig:
    """The same update in smaller micro-batches, if that fits; else the smallest preset."""
    fixed = needs.memory_bytes - needs.activation_bytes
    rows, pieces = run.batch_size, run.accumulation_steps
    while rows % 2 == 0 and fixed + needs.activation_bytes * rows / run.batch_size > has_bytes:
        rows, pieces = rows // 2, pieces * 2
    if fixed + needs.activation_bytes * rows / run.batch_size <= has_bytes:
        return run.replace(batch_size=rows, accumulation_steps=pieces)
    return RunConfig()


def _vocab_size(run: RunConfig) -> int:
    """Entries of the run's tokenizer; when it cannot be read, those it should have, so that the rest can be said."""
    try:
        return len(load_tokenizer(run.tokenizer))
    except ValueError:
        return SHIPPED_VOCAB_SIZES.get(run.tokenizer, 6400)


def _needed_by(run: RunConfig, corpus: Finding) -> Finding:
    """A broken corpus that the run does not read stops labs and lessons, and not this run."""
    if corpus.status == "missing" and corpus.name != f"corpus {run.data_path}":
        return Finding(corpus.name, corpus.found, corpus.needed, "degraded", corpus.fix)
    return corpus
