"""Mistakes in the model and in its loss."""

from tests.mutate.mutation import Mutation

MODEL, LOSS = "minimind/model/transformer.py", "minimind/objectives/next_token.py"
_ALONE = "tests/model/test_transformer.py::test_a_padded_batch_gives_each_row_what_it_gets_alone"
_PACKED = "tests/model/test_transformer.py::test_a_packed_document_gets_what_it_gets_alone"
_CAUSAL = "tests/model/test_transformer.py::test_no_token_changes_what_was_said_before_it"
_CACHE = "tests/model/test_transformer.py::test_with_a_cache_the_logits_are_those_without_one"
_QWEN3 = "tests/parity/test_qwen3.py::test_logits_agree"
_NORM = "tests/model/test_transformer.py::test_a_norm_measures_in_fp32_whatever_it_is_given"
_LOSS = "tests/objectives/test_next_token.py::test_loss_and_weight_equal_a_loop_over_positions"

MUTATIONS = (
    # --- attention
    Mutation(
        "the mask of pairs lets the next token be seen",
        MODEL,
        "allowed = (key_places <= query_places)[None, None]",
        "allowed = (key_places <= query_places + 1)[None, None]",
        (_ALONE,),
    ),
    Mutation(
        "eager attention sees the next token", MODEL, ".tril(diagonal=S - T)", ".tril(diagonal=S - T + 1)", (_CAUSAL,)
    ),
    Mutation("fused attention sees the future", MODEL, "is_causal=causal", "is_causal=False", (_CAUSAL,)),
    Mutation(
        "the mask is turned round",
        MODEL,
        "masked_fill(~allowed_B1TS,",
        "masked_fill(allowed_B1TS,",
        (_CAUSAL,),
    ),
    Mutation(
        "padding is attended to",
        MODEL,
        "attention_mask_BS[:, None, None, :].bool()",
        "(attention_mask_BS[:, None, None, :] >= 0)",
        (_ALONE,),
    ),
    Mutation(
        "packed documents see those before them",
        MODEL,
        "(document_ids_BT[:, None, :, None] == document_ids_BT[:, None, None, :])",
        "(document_ids_BT[:, None, :, None] >= document_ids_BT[:, None, None, :])",
        (_PACKED,),
    ),
    Mutation(
        "scores are divided by the width of a head, not by its root",
        MODEL,
        "k_BHSC.transpose(-1, -2) / C**0.5",
        "k_BHSC.transpose(-1, -2) / C",
        ("tests/model/test_transformer.py::test_both_attention_backends_give_the_same_logits_and_gradients",),
    ),
    Mutation(
        "query heads are dealt to the key heads in turn, not in groups",
        MODEL,
        "k_BHSC = k_BKSC.repeat_interleave(self.groups, dim=1)\n"
        "        v_BHSC = v_BKSC.repeat_interleave(self.groups, dim=1)",
        "k_BHSC = k_BKSC.repeat(1, self.groups, 1, 1)\n        v_BHSC = v_BKSC.repeat(1, self.groups, 1, 1)",
        (_QWEN3,),
    ),
    Mutation(
        "the norm on each head's query is missing",
        MODEL,
        "rotate(self.q_norm(self.q_proj(x_BTD).view(B, T, -1, self.head_dim)), *angles)",
        "rotate(self.q_proj(x_BTD).view(B, T, -1, self.head_dim), *angles)",
        (_QWEN3,),
    ),
    # --- positions
    Mutation(
        "rotary positions turn backwards", MODEL, "torch.cat((-second, first)", "torch.cat((second, -first)", (_QWEN3,)
    ),
    Mutation("the rotary base of the config is ignored", MODEL, "(theta**exponents)", "(1e4**exponents)", (_QWEN3,)),
    Mutation(
        "positions begin anew after the cache",
        MODEL,
        "torch.arange(past, past + T, device=device)",
        "torch.arange(0, T, device=device)",
        (_CACHE,),
    ),
    # --- norms, blocks, head
    Mutation("RMSNorm forgets eps", MODEL, "keepdim=True) + self.eps)", "keepdim=True))", (_QWEN3,)),
    Mutation("RMSNorm sums the squares", MODEL, "square().mean(dim=-1", "square().sum(dim=-1", (_QWEN3,)),
    Mutation("RMSNorm measures in the dtype it is given", MODEL, "x_fp32 = x.float()", "x_fp32 = x", (_NORM,)),
    Mutation(
        "what attention adds replaces the residual stream",
        MODEL,
        "x_BTD = x_BTD + self.dropout(self.self_attn(",
        "x_BTD = self.dropout(self.self_attn(",
        (_QWEN3,),
    ),
    Mutation(
        "gate and value change places",
        MODEL,
        "F.silu(self.gate_proj(x_BTD)) * self.up_proj(x_BTD)",
        "F.silu(self.up_proj(x_BTD)) * self.gate_proj(x_BTD)",
        (_QWEN3,),
    ),
    Mutation(
        "the last norm is missing", MODEL, "last_hidden_state=self.norm(x_BTD)", "last_hidden_state=x_BTD", (_QWEN3,)
    ),
    Mutation(
        "the tied head is a matrix of its own",
        MODEL,
        '_tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}',
        "_tied_weights_keys: dict[str, str] = {}",
        ("tests/model/test_transformer.py::test_an_untied_head_is_a_second_matrix",),
    ),
    Mutation(
        "the initial spread of the config is ignored",
        MODEL,
        "normal_(0.0, self.config.initializer_range)",
        "normal_(0.0, 0.02)",
        ("tests/model/test_transformer.py::test_matrices_begin_at_the_stated_spread_and_norms_at_one",),
    ),
    Mutation(
        "attention drops weights in use too",
        MODEL,
        "self.dropout if self.training else 0.0",
        "self.dropout",
        ("tests/model/test_transformer.py::test_dropout_acts_in_training_and_not_in_use",),
    ),
    Mutation(
        "the first logits are kept instead of the last",
        MODEL,
        "slice(-logits_to_keep, None)",
        "slice(0, logits_to_keep or None)",
        ("tests/model/test_transformer.py::test_embeddings_in_place_of_ids_and_fewer_logits",),
    ),
    Mutation(
        "the spread of the initial weights is another by default",
        "minimind/config/model.py",
        "initializer_range: float = 0.02",
        "initializer_range: float = 0.01",
        lab="trace_pretrain_step",
    ),
    # --- loss
    Mutation("labels are not shifted", LOSS, "targets = labels_BT[:, 1:]", "targets = labels_BT[:, :-1]", (_LOSS,)),
    Mutation(
        "labels are shifted twice",
        LOSS,
        "predictions = logits_BTV[:, :-1].flatten(0, 1).float()\n    targets = labels_BT[:, 1:].flatten()",
        "predictions = logits_BTV[:, :-2].flatten(0, 1).float()\n    targets = labels_BT[:, 2:].flatten()",
        (_LOSS,),
    ),
    Mutation("the first label of a row counts", LOSS, "(batch.labels[:, 1:] != IGN", "(batch.labels != IGN", (_LOSS,)),
    Mutation("the loss is a mean and not a sum", LOSS, 'reduction="sum"', 'reduction="mean"', (_LOSS,)),
    Mutation(
        "padding is learned",
        LOSS,
        "targets = labels_BT[:, 1:].flatten()",
        "targets = labels_BT[:, 1:].flatten().clamp(min=0)",
        (_LOSS,),
    ),
    Mutation(
        "the borders of packed documents do not reach the model",
        LOSS,
        '{"document_ids": batch.document_ids}',
        "{}",
        ("tests/objectives/test_next_token.py::test_a_packed_row_is_the_sum_of_its_documents",),
    ),
    Mutation(
        "the loss is computed in the dtype of the logits",
        LOSS,
        ".flatten(0, 1).float()",
        ".flatten(0, 1)",
        ("tests/objectives/test_next_token.py::test_the_loss_is_computed_in_fp32",),
    ),
)
