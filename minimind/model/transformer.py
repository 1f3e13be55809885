"""The MiniMind transformer, in the order in which a token meets it.

Shapes are written into names; the letters are
    B batch, T positions of this call, S positions seen so far (cache included), D hidden width,
    H query heads, K key/value heads, G = H / K query heads per group, C head width, V vocabulary.

The architecture is Qwen3's (arXiv 2505.09388): pre-norm blocks, RMSNorm, grouped-query attention with a norm on each
head's query and key, rotary positions, a SwiGLU feed-forward network, no biases. The module names are Qwen3's too,
so that a saved folder is a Qwen3 folder.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Cache, DynamicCache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

from minimind.config import MiniMindConfig
from minimind.trace.taps import AttentionTap

# transformers renamed the field between two releases that we support.
_CACHE_FIELD = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"


class RMSNorm(nn.Module):
    """x / rms(x) * weight, with the root mean square taken in fp32 (arXiv 1910.07467)."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., width), any float dtype -> the same shape and dtype."""
        x_fp32 = x.float()
        inverse_rms = torch.rsqrt(x_fp32.square().mean(dim=-1, keepdim=True) + self.eps)
        return self.weight * (x_fp32 * inverse_rms).to(x.dtype)


def rotary_angles(position_ids_BT: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position's angles (arXiv 2104.09864).

    They are computed at each call instead of kept in a buffer: a buffer that is not saved comes back from
    `from_pretrained` without its values.

    Returns:
        cos, sin: (B, T, C) fp32; entry i and entry i + C/2 turn together, so each half holds the same angles.
    """
    exponents = torch.arange(0, head_dim, 2, device=position_ids_BT.device, dtype=torch.float32) / head_dim
    inverse_frequencies = 1.0 / (theta**exponents)
    half_angles = position_ids_BT[..., None].float() * inverse_frequencies
    angles = torch.cat((half_angles, half_angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x_BTHC: Tensor, cos_BTC: Tensor, sin_BTC: Tensor) -> Tensor:
    """Turns each pair (x[i], x[i + C/2]) of every head by its position's angle. Lengths stay as they are."""
    first, second = x_BTHC.chunk(2, dim=-1)
    quarter_turned = torch.cat((-second, first), dim=-1)
    cos, sin = cos_BTC[:, :, None].to(x_BTHC.dtype), sin_BTC[:, :, None].to(x_BTHC.dtype)
    return x_BTHC * cos + quarter_turned * sin


def allowed_pairs(
    T: int,
    S: int,
    device: torch.device,
    attention_mask_BS: Tensor | None,
    document_ids_BT: Tensor | None,
) -> Tensor | None:
    """Which query may look at which key: True at (B, 1, T, S) where it may; None when plain causal says it all.

    The T queries are the last T of the S positions. A query sees keys up to its own place that are not padding and,
    when rows are packed, that belong to its own document. Every query may see itself, so that a padding row's
    softmax stays finite; nothing reads what it computes.
    """
    if attention_mask_BS is None and document_ids_BT is None and (T == S or T == 1):
        return None
    query_places = torch.arange(S - T, S, device=device)[:, None]
    key_places = torch.arange(S, device=device)[None, :]
    allowed = (key_places <= query_places)[None, None]
    if attention_mask_BS is not None:
        allowed = allowed & attention_mask_BS[:, None, None, :].bool()
    if document_ids_BT is not None:
        allowed = allowed & (document_ids_BT[:, None, :, None] == document_ids_BT[:, None, None, :])
    return allowed | (key_places == query_places)


def eager_attention(
    q_BHTC: Tensor, k_BHSC: Tensor, v_BHSC: Tensor, allowed_B1TS: Tensor | None, dropout: float
) -> Tensor:
    """softmax(q k^T / sqrt(C)) v with every intermediate in the open. Same signature as `sdpa_attention`."""
    T, S, C = q_BHTC.shape[-2], k_BHSC.shape[-2], q_BHTC.shape[-1]
    scores_BHTS = q_BHTC @ k_BHSC.transpose(-1, -2) / C**0.5
    if allowed_B1TS is None:
        allowed_B1TS = torch.ones(T, S, dtype=torch.bool, device=q_BHTC.device).tril(diagonal=S - T)
    scores_BHTS = scores_BHTS.masked_fill(~allowed_B1TS, torch.finfo(scores_BHTS.dtype).min)
    weights_BHTS = F.softmax(scores_BHTS, dim=-1, dtype=torch.float32).to(q_BHTC.dtype)
    return F.dropout(weights_BHTS, dropout) @ v_BHSC


def sdpa_attention(
    q_BHTC: Tensor, k_BHSC: Tensor, v_BHSC: Tensor, allowed_B1TS: Tensor | None, dropout: float
) -> Tensor:
    """The same by torch's fused kernel, which never writes the scores to memory."""
    causal = allowed_B1TS is None and q_BHTC.shape[-2] > 1
    return F.scaled_dot_product_attention(
        q_BHTC, k_BHSC, v_BHSC, attn_mask=allowed_B1TS, dropout_p=dropout, is_causal=causal
    )


class Attention(nn.Module):
    """Grouped-query attention (arXiv 2305.13245): G query heads share one key/value head."""

    def __init__(self, config: MiniMindConfig, layer_index: int):
        super().__init__()
        D, H, K, C = (
            config.hidden_size,
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        assert C is not None
        self.config, self.layer_index = config, layer_index
        self.head_dim, self.groups, self.dropout = C, H // K, config.dropout
        self.q_proj = nn.Linear(D, H * C, bias=False)
        self.k_proj = nn.Linear(D, K * C, bias=False)
        self.v_proj = nn.Linear(D, K * C, bias=False)
        self.o_proj = nn.Linear(H * C, D, bias=False)
        self.q_norm = RMSNorm(C, config.rms_norm_eps)
        self.k_norm = RMSNorm(C, config.rms_norm_eps)
        self.tap = AttentionTap()

    def forward(
        self,
        x_BTD: Tensor,
        angles: tuple[Tensor, Tensor],
        allowed_B1TS: Tensor | None,
        cache: Cache | None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D): what each position gathered from those before it."""
        B, T, _ = x_BTD.shape
        q_BTHC = rotate(self.q_norm(self.q_proj(x_BTD).view(B, T, -1, self.head_dim)), *angles)
        k_BTKC = rotate(self.k_norm(self.k_proj(x_BTD).view(B, T, -1, self.head_dim)), *angles)
        v_BTKC = self.v_proj(x_BTD).view(B, T, -1, self.head_dim)

        q_BHTC, k_BKSC, v_BKSC = (x.transpose(1, 2) for x in (q_BTHC, k_BTKC, v_BTKC))
        if cache is not None:
            k_BKSC, v_BKSC = cache.update(k_BKSC, v_BKSC, self.layer_index)
        self.tap(q_BHTC, k_BKSC, allowed_B1TS)
        k_BHSC = k_BKSC.repeat_interleave(self.groups, dim=1)
        v_BHSC = v_BKSC.repeat_interleave(self.groups, dim=1)

        attention = eager_attention if self.config._attn_implementation == "eager" else sdpa_attention
        out_BHTC = attention(q_BHTC, k_BHSC, v_BHSC, allowed_B1TS, self.dropout if self.training else 0.0)
        return self.o_proj(out_BHTC.transpose(1, 2).reshape(B, T, -1))


class FeedForward(nn.Module):
    """SwiGLU (arXiv 2002.05202): one projection proposes, a gate decides how much of it passes."""

    def __init__(self, config: MiniMindConfig):
        super().__init__()
        D, inner = config.hidden_size, config.intermediate_size
        assert inner is not None
        self.gate_proj = nn.Linear(D, inner, bias=False)
        self.up_proj = nn.Linear(D, inner, bias=False)
        self.down_proj = nn.Linear(inner, D, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D), each position on its own."""
        return self.down_proj(F.silu(self.gate_proj(x_BTD)) * self.up_proj(x_BTD))


class Block(nn.Module):
    """Attention, then feed-forward; each reads a normed copy of the residual stream and adds to it."""

    def __init__(self, config: MiniMindConfig, layer_index: int):
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer_index)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x_BTD: Tensor,
        angles: tuple[Tensor, Tensor],
        allowed_B1TS: Tensor | None,
        cache: Cache | None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D): the residual stream, with two things added to it."""
        x_BTD = x_BTD + self.dropout(self.self_attn(self.input_layernorm(x_BTD), angles, allowed_B1TS, cache))
        return x_BTD + self.dropout(self.mlp(self.post_attention_layernorm(x_BTD)))


class MiniMindPreTrainedModel(PreTrainedModel):
    """What transformers needs to know to initialise, save, load and move a MiniMind."""

    config_class = MiniMindConfig
    base_model_prefix = "model"
    _no_split_modules = ["Block"]
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """N(0, initializer_range) for matrices, 1 for norms.

        transformers also calls this while loading, for whatever the file did not hold, so it must leave alone
        what has been loaded: such parameters carry a mark, which `nn.init` as wrapped by the library respects.
        """
        if isinstance(module, nn.Linear | nn.Embedding):
            if not getattr(module.weight, "_is_hf_initialized", False):
                module.weight.normal_(0.0, self.config.initializer_range)
        elif isinstance(module, RMSNorm) and not getattr(module.weight, "_is_hf_initialized", False):
            module.weight.fill_(1.0)


class MiniMindModel(MiniMindPreTrainedModel):
    """Token ids -> hidden states."""

    def __init__(self, config: MiniMindConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, index) for index in range(config.num_hidden_layers)])
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        document_ids: Tensor | None = None,
    ) -> BaseModelOutputWithPast:
        """See `MiniMindForCausalLM.forward` for the arguments."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both.")
        x_BTD: Tensor = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        B, T, _ = x_BTD.shape
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        past = int(cache.get_seq_length()) if cache is not None else 0
        if document_ids is not None and past:
            raise ValueError("document_ids describe whole packed rows; they cannot be used with a filled cache.")

        allowed: Tensor | None
        if attention_mask is not None and attention_mask.dim() == 4:  # made by generate() for a static cache
            allowed = attention_mask if attention_mask.dtype == torch.bool else attention_mask >= 0
        else:
            if attention_mask is not None and attention_mask.shape != (B, past + T):
                raise ValueError(
                    f"attention_mask has shape {tuple(attention_mask.shape)}, but batch, cached and new positions "
                    f"make {(B, past + T)}; give one entry for every position, cached ones too."
                )
            allowed = allowed_pairs(T, past + T, x_BTD.device, attention_mask, document_ids)
        if position_ids is None:
            position_ids = _positions(B, T, past, x_BTD.device, attention_mask)
        assert self.config.head_dim is not None
        angles = rotary_angles(position_ids, self.config.head_dim, self.config.rope_theta)

        for layer in self.layers:
            x_BTD = layer(x_BTD, angles, allowed, cache)
        output = BaseModelOutputWithPast(last_hidden_state=self.norm(x_BTD))
        if use_cache:
            output[_CACHE_FIELD] = cache
        return output


def _positions(B: int, T: int, past: int, device: torch.device, attention_mask: Tensor | None) -> Tensor:
    """0, 1, 2 ... from the first real token of each row; padding before it stays at 0."""
    if attention_mask is None or attention_mask.dim() != 2:
        return torch.arange(past, past + T, device=device).expand(B, T)
    return (attention_mask.long().cumsum(dim=-1) - 1).clamp(min=0)[:, past:]


class MiniMindForCausalLM(MiniMindPreTrainedModel, GenerationMixin):
    """Token ids -> logits over the next token."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: MiniMindConfig):
        super().__init__(config)
        self.model = MiniMindModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        document_ids: Tensor | None = None,
        cache: Cache | None = None,
        **loss_arguments: Any,
    ) -> CausalLMOutputWithPast:
        """One pass over a batch.

        Args:
            input_ids: (B, T) token ids.
            attention_mask: (B, past + T), 1 for a real token and 0 for padding; None when nothing is padded.
            position_ids: (B, T); None counts real tokens from 0.
            past_key_values: the older name of `cache`.
            inputs_embeds: (B, T, D) in place of input_ids.
            labels: (B, T), not shifted, -100 where not trained. Gives `.loss`, the mean over labels, for trainers
                that expect it; `minimind.train` computes its own loss from the logits.
            use_cache: whether to return the cache, extended by these T positions.
            logits_to_keep: compute logits of only the last so many positions; 0 computes all.
            document_ids: (B, T), which document of a packed row each token belongs to, -1 on padding; tokens of
                different documents do not see each other.
            cache: keys and values of the positions before these.
            loss_arguments: passed to transformers' loss, such as num_items_in_batch.

        Returns:
            logits (B, T or logits_to_keep, V), and loss and cache when asked for.

        Raises:
            ValueError: inputs that contradict each other; the message says which.
        """
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            cache=cache if cache is not None else past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            document_ids=document_ids,
        )
        hidden_BTD = outputs.last_hidden_state
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits_BTV = self.lm_head(hidden_BTD[:, kept])
        result = CausalLMOutputWithPast(logits=logits_BTV)
        if labels is not None:
            result["loss"] = self.loss_function(
                logits=logits_BTV, labels=labels, vocab_size=self.config.vocab_size, **loss_arguments
            )
        if use_cache:
            result[_CACHE_FIELD] = outputs[_CACHE_FIELD]
        return result
