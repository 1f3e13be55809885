"""Two configurations: what the model is (`MiniMindConfig`) and what one run does (`RunConfig`).

`MiniMindConfig` is a transformers config whose saved form says `qwen3`, because the architecture is Qwen3's and
any library that loads Qwen3 then loads our folders. Unlike its parent it refuses a field that it does not know.
`RunConfig` is frozen, flat and typed: its fields are the command line, the presets and the TOML files.
"""

import dataclasses
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import tomli_w
from transformers import PreTrainedConfig

# Fields that a Qwen3 folder may carry and that name something this model does not have. Each is accepted at the
# one value that means "not used", so that our own and other people's plain Qwen3 folders load.
_QWEN3_UNUSED: dict[str, tuple[Any, ...]] = {
    "attention_bias": (False,),
    "attention_dropout": (0, 0.0),
    "use_sliding_window": (False,),
    "sliding_window": (None,),
}
_QWEN3_IGNORED = ("max_window_layers",)  # says where sliding attention starts; there is none
# What transformers itself passes to every config, over and above the declared fields.
_LIBRARY_FIELDS = frozenset(
    (
        "name_or_path _name_or_path _commit_hash torch_dtype num_labels attn_implementation output_attentions "
        "experts_implementation use_return_dict model_type"
    ).split()
)


class MiniMindConfig(PreTrainedConfig):
    """The shape of a MiniMind model.

    The defaults are the 64M model: `MiniMindForCausalLM(MiniMindConfig())` has 63,912,192 parameters.

    Attributes:
        vocab_size: entries of the tokenizer (V).
        hidden_size: width of the residual stream (D).
        intermediate_size: inner width of the feed-forward network; None means ceil(hidden_size * pi / 64) * 64.
        num_hidden_layers: number of transformer blocks.
        num_attention_heads: query heads (H).
        num_key_value_heads: key/value heads (K); H must be a multiple of K.
        head_dim: width of one head (C), even; None means hidden_size // num_attention_heads.
        hidden_act: activation of the gate; only "silu".
        rms_norm_eps: added to the mean square before the root.
        rope_parameters: `{"rope_type": "default", "rope_theta": 1e6}`; `rope_theta=...` may be given instead.
        max_position_embeddings: longest sequence that is promised, in tokens.
        initializer_range: standard deviation of the initial weights.
        tie_word_embeddings: whether the output head is the embedding matrix.
        dropout: probability of dropping an attention weight or a value of a block's output while training.

    Raises:
        ValueError: an unknown field, or a value that cannot make a model; the message names both.
    """

    model_type: ClassVar[str] = "qwen3"
    default_theta = 1e6
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["cache", "past_key_values"]

    vocab_size: int = 6400
    hidden_size: int = 768
    intermediate_size: int | None = None
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int | None = None
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    rope_parameters: dict[str, Any] | None = None
    max_position_embeddings: int = 32768
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    dropout: float = 0.0
    use_cache: bool = True
    layer_types: list[str] | None = None
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self, **kwargs: Any) -> None:
        self._refuse_unknown(kwargs)
        self._check_sizes()
        if self.head_dim is None:
            self.head_dim = self.hidden_size // self.num_attention_heads
        if self.intermediate_size is None:
            self.intermediate_size = math.ceil(self.hidden_size * math.pi / 64) * 64
        if self.layer_types is None:
            self.layer_types = ["full_attention"] * self.num_hidden_layers
        theta = kwargs.pop("rope_theta", None)
        if self.rope_parameters is None:
            self.rope_parameters = {"rope_type": "default", "rope_theta": theta or self.default_theta}
        super().__post_init__(**kwargs)
        self._check_rope_and_layers()

    def _refuse_unknown(self, kwargs: dict[str, Any]) -> None:
        known = {field.name for field in dataclasses.fields(self)} | _LIBRARY_FIELDS | {"rope_theta", "rope_scaling"}
        for name in list(kwargs):
            if name in _QWEN3_IGNORED:
                kwargs.pop(name)
            elif name in _QWEN3_UNUSED:
                value = kwargs.pop(name)
                if value not in _QWEN3_UNUSED[name]:
                    raise ValueError(
                        f"MiniMindConfig: field '{name}' is {value!r}, which this architecture does not have; "
                        f"load this folder with transformers, or set it to {_QWEN3_UNUSED[name][0]!r}."
                    )
            elif name not in known:
                raise ValueError(
                    f"MiniMindConfig has no field '{name}' (given {kwargs[name]!r}); the fields are "
                    f"{', '.join(sorted(self.__class__.__annotations__))}."
                )

    def _check_sizes(self) -> None:
        for name in (
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
        ):
            _require_positive_int("MiniMindConfig", name, getattr(self, name))
        for name in ("intermediate_size", "head_dim", "max_position_embeddings"):
            if getattr(self, name) is not None:
                _require_positive_int("MiniMindConfig", name, getattr(self, name))
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads={self.num_attention_heads} is not a multiple of "
                f"num_key_value_heads={self.num_key_value_heads}; each key/value head serves a whole group of query "
                f"heads, so choose a divisor of {self.num_attention_heads}."
            )
        if self.head_dim is None and self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} does not divide into num_attention_heads="
                f"{self.num_attention_heads} equal heads; change one of them, or give head_dim yourself."
            )
        head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        if head_dim % 2:
            raise ValueError(f"head_dim={head_dim} is odd; rotary embeddings turn pairs, so head_dim must be even.")
        if self.hidden_act != "silu":
            raise ValueError(f"hidden_act={self.hidden_act!r} is not supported; the gate uses 'silu'.")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout={self.dropout} is not a probability in [0, 1).")

    def _check_rope_and_layers(self) -> None:
        rope = self.rope_parameters or {}
        if rope.get("rope_type", "default") != "default":
            raise ValueError(
                f"rope_parameters asks for rope_type={rope['rope_type']!r}; this model turns by plain RoPE only "
                "('default')."
            )
        assert self.layer_types is not None
        if len(self.layer_types) != self.num_hidden_layers or set(self.layer_types) != {"full_attention"}:
            raise ValueError(
                f"layer_types={self.layer_types!r} does not fit: every one of the {self.num_hidden_layers} layers "
                "is 'full_attention'. Leave the field out."
            )

    @property
    def rope_theta(self) -> float:
        """Base of the geometric row of rotary frequencies."""
        assert self.rope_parameters is not None
        return float(self.rope_parameters["rope_theta"])

    def to_dict(self) -> dict[str, Any]:
        """The saved form, which names the architecture that other libraries know."""
        saved: dict[str, Any] = super().to_dict()
        saved["architectures"] = ["Qwen3ForCausalLM"]
        return saved


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


def _require_positive_int(owner: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{owner}: {name}={value!r} must be a whole number of at least 1.")


@dataclass(frozen=True)
class RunConfig:
    """Everything that one pretraining run is told. Frozen: a run never changes its own orders.

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
        data_path: 'world' (the generated small world), a shipped corpus (tang5, plays), or a .jsonl or .txt file.
        world_documents: how many documents of the small world to generate.
        validation_documents: documents held out of training to measure validation loss; 0 for none.
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
        warmup_steps: updates over which the rate rises from 0; 0 is MiniMind's own schedule.
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
        samples: continuations to print before and after training.

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
        if self.max_steps and self.warmup_steps >= self.max_steps:
            raise ValueError(
                f"warmup_steps={self.warmup_steps} leaves no update at the full rate in max_steps={self.max_steps}; "
                "make one larger or the other smaller."
            )

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


PRESETS: dict[str, RunConfig] = {
    "lesson": RunConfig(),
    # Single steps whose every printed number must hold on another machine: AdamW, since Muon computes in bf16.
    "lab": RunConfig(
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=0,
        intermediate_size=0,
        tokenizer="minimind-6400",
        data_path="tang5",
        validation_documents=0,
        max_seq_len=48,
        max_steps=8,
        batch_size=2,
        optimizer="adamw",
        learning_rate=5e-4,
        warmup_steps=0,
        threads=1,
        save_weight="lab",
        save_interval=0,
        log_interval=1,
        eval_interval=0,
        samples=0,
    ),
}


def preset(name: str) -> RunConfig:
    """The run that a preset names.

    Raises:
        ValueError: there is no such preset; the message lists those that exist.
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; choose one of {', '.join(sorted(PRESETS))}.")
    return PRESETS[name]
