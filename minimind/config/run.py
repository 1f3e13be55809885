"""What one run does: frozen, flat and typed; its fields are the command line, the presets and the TOML files."""

import dataclasses
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import tomli_w

from minimind.config.model import MiniMindConfig

_MOST = {
    "hidden_size": 65_536,
    "num_hidden_layers": 1_024,
    "num_attention_heads": 1_024,
    "head_dim": 1_024,
    "intermediate_size": 1_048_576,
    "max_seq_len": 32_768,  # the positions that MiniMindConfig promises
    "batch_size": 1_000_000,
    "accumulation_steps": 100_000,
    "world_documents": 100_000_000,
    "threads": 1_024,
    "seed": 2**32 - 1,
}
"""Beyond these a value is a slip of the keyboard, and would end in a full memory instead of a sentence."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that one training run is told. Frozen: a run never changes its own orders.

    The defaults are those of the `lesson` preset, which trains on the small world in under a minute on a CPU.

    Args:
        hidden_size: width of the residual stream.
        num_hidden_layers: number of transformer blocks.
        num_attention_heads: query heads.
        num_key_value_heads: key/value heads; must divide num_attention_heads.
        head_dim: width of one head; 0 means hidden_size // num_attention_heads.
        intermediate_size: inner width of the feed-forward network; 0 means ceil(hidden_size * pi / 64) * 64.
        dropout: dropout probability while training.
        tokenizer: name of a shipped tokenizer (world-800, minimind-6400) or a folder.
        data_path: 'world' (the generated small world), a shipped corpus (tang5, plays), or a .jsonl or .txt file; in
            sft 'world' or a .jsonl file of conversations.
        world_documents: how many documents of the small world to generate; in sft, how many questions.
        validation_documents: documents (in sft, conversations) held out to measure validation loss; 0 for none.
        lenient: 1 drops and counts unreadable rows of data_path instead of refusing the file.
        max_seq_len: tokens in a row; longer documents are cut (or continued, when packing).
        packing: 1 puts documents end to end so that no position is padding; 0 gives each document a row.
        epochs: passes over the data; used when max_steps is 0.
        max_steps: updates to make; 0 means as many as `epochs` give.
        batch_size: rows of one micro-batch.
        accumulation_steps: micro-batches summed into one update.
        optimizer: 'adamw', or 'muon' (Muon for hidden matrices, AdamW for the rest).
        learning_rate: peak rate of AdamW.
        muon_learning_rate: peak rate of Muon.
        weight_decay: decoupled weight decay, on matrices only.
        beta1: AdamW's decay of the gradient average.
        beta2: AdamW's decay of the squared-gradient average.
        grad_clip: largest global gradient norm let through; 0 never clips.
        warmup_steps: updates over which the rate rises from 0, fewer in a run that is not longer; 0 is MiniMind's own
            schedule.
        dtype: 'float32', or 'bfloat16' for autocast where the chip has it.
        device: 'cpu', 'cuda', 'mps', or 'auto' for the best of them.
        threads: CPU threads; 0 chooses by model size (small models are faster with one).
        seed: of the weights, the order of the data and the dropout.
        save_dir: folder for weights that a later stage loads.
        save_weight: name of this run: weights go to save_dir/save_weight.
        checkpoint_dir: folder for resume state; this run's goes to checkpoint_dir/save_weight.
        from_weight: 'none' to start from scratch, else a name in save_dir or a folder of weights.
        from_resume: 0 off, 1 newest verified checkpoint, or the step to continue from.
        save_interval: updates between two checkpoints; 0 saves only at the end.
        keep_checkpoints: how many checkpoints to keep, at least 2.
        log_interval: updates between two lines of metrics.
        eval_interval: updates between two validation measurements; 0 measures only at the end.
        samples: continuations (in sft, answers) to print before and after training; 0 measures nothing there.

    Raises:
        ValueError: a value outside its range; the message names field, value and remedy.
    """

    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    intermediate_size: int = 160
    dropout: float = 0.0
    tokenizer: str = "world-800"
    data_path: str = "world"
    world_documents: int = 14000
    validation_documents: int = 200
    lenient: Literal[0, 1] = 0
    max_seq_len: int = 160
    packing: Literal[0, 1] = 0
    epochs: int = 1
    max_steps: int = 460
    batch_size: int = 16
    accumulation_steps: int = 1
    optimizer: Literal["adamw", "muon"] = "muon"
    learning_rate: float = 1e-2
    muon_learning_rate: float = 0.05
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.95
    grad_clip: float = 1.0
    warmup_steps: int = 20
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "cpu"
    threads: int = 0
    seed: int = 42
    save_dir: str = "out"
    save_weight: str = "pretrain"
    checkpoint_dir: str = "checkpoints"
    from_weight: str = "none"
    from_resume: int = 0
    save_interval: int = 230
    keep_checkpoints: int = 2
    log_interval: int = 10
    eval_interval: int = 115
    samples: int = 4

    def __post_init__(self) -> None:
        self._check_types()
        at_least = {
            1: "hidden_size num_hidden_layers num_attention_heads num_key_value_heads epochs batch_size "
            "accumulation_steps log_interval",
            0: "head_dim intermediate_size validation_documents max_steps grad_clip warmup_steps threads seed "
            "from_resume save_interval eval_interval samples learning_rate muon_learning_rate weight_decay dropout",
            2: "max_seq_len keep_checkpoints world_documents",
        }
        for minimum, names in at_least.items():
            for name in names.split():
                if not getattr(self, name) >= minimum:  # written so that NaN fails too
                    raise ValueError(f"{name}={getattr(self, name)} must be at least {minimum}.")
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                raise ValueError(f"{name}={getattr(self, name):,} is beyond {most:,}, the most that is allowed.")
        if len(self.save_weight) > 100:
            raise ValueError(f"save_weight is {len(self.save_weight)} characters long; use at most 100.")
        for name in ("beta1", "beta2", "dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name}={getattr(self, name)} must lie in [0, 1).")
        choices = {"optimizer": ("adamw", "muon"), "dtype": ("float32", "bfloat16")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(allowed)}.")
        for name in ("lenient", "packing"):
            if getattr(self, name) not in (0, 1):
                raise ValueError(f"{name}={getattr(self, name)} must be 0 (off) or 1 (on).")
        if "/" in self.save_weight or "\\" in self.save_weight or self.save_weight in ("", ".", "..", "none"):
            raise ValueError(f"save_weight={self.save_weight!r} must be a plain name; set the folder with save_dir.")

    def _check_types(self) -> None:
        for field in dataclasses.fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
            if not fits or isinstance(value, bool):
                raise ValueError(f"{field.name}={value!r} must be of type {kind.__name__}.")
            if kind is float:
                if not math.isfinite(value):
                    raise ValueError(f"{field.name}={value!r} must be a finite number.")
                object.__setattr__(self, field.name, float(value))

    def model_config(self, vocab_size: int) -> MiniMindConfig:
        """The model that these sizes describe, for a tokenizer of `vocab_size` entries."""
        return MiniMindConfig(
            vocab_size=vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size or None,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads,
            head_dim=self.head_dim or None,
            dropout=self.dropout,
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; a field that does not exist is refused by name."""
        unknown = set(changes) - {field.name for field in dataclasses.fields(self)}
        if unknown:
            raise ValueError(f"RunConfig has no field '{sorted(unknown)[0]}'; see `minimind pretrain --help`.")
        return dataclasses.replace(self, **changes)

    def to_toml(self) -> str:
        """This run as TOML; `merged_with_toml` reads it back."""
        return tomli_w.dumps(dataclasses.asdict(self))

    def merged_with_toml(self, path: Path) -> Self:
        """This run with the fields that a TOML file names; `RunConfig().merged_with_toml(...)` inverts `to_toml`.

        Raises:
            ValueError: not TOML, or an unknown field; the message names the file.
        """
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
            return self.replace(**values)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
        except ValueError as error:  # of TOML, of UTF-8, or of a field
            raise ValueError(f"{path}: {error}") from error
