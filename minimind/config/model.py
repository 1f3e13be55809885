"""What the model is: a transformers config whose saved form says `qwen3`.

The architecture is Qwen3's, and any library that loads Qwen3 then loads our folders. Unlike its parent the config
refuses a field that it does not know.
"""

import dataclasses
import math
from typing import Any, ClassVar

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


def _require_positive_int(owner: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{owner}: {name}={value!r} must be a whole number of at least 1.")
