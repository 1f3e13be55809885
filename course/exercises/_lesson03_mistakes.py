"""What students do to logits in place of the three filters, one name for each mistake, and what to say about it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# In the order in which they are suspected. Where two give the same distribution, the first is named.
MISTAKES = {
    "greedy": "this took the likeliest token every time. It has to be drawn, except at temperature 0.",
    "softmax twice": (
        "this is a softmax of a softmax, which makes all tokens nearly equal. Divide the *logits* by the temperature, "
        "and take the softmax once, at the end."
    ),
    "temperature has no effect": (
        "the temperature has no effect. Divide the logits by it, before the softmax: probabilities that are all "
        "divided by one number keep their proportions."
    ),
    "times": "the logits were multiplied by the temperature; divide by it, so that below 1 the differences grow.",
    "no top-k": "all tokens were drawn; top_k has no effect.",
    "top-k drops the k-th": "the k-th is gone too: let go of what is *smaller* than the k-th largest logit.",
    "top-k one too many": "there is one token too many; keep the `top_k` largest.",
    "top-k of the smallest": "the smallest logits were kept; keep the largest.",
    "filled with 0": (
        "tokens that were let go are still drawn. A logit of 0 is no small one: its weight is exp(0) = 1. Fill with "
        "`-inf`."
    ),
    "top-k drops ties": "a logit that equals the k-th was let go; the library compares values and keeps it.",
    "no top-p": "top_p has no effect.",
    "top-p drops the crossing": (
        "the token that crosses the border is gone, so what stays does not reach top_p. Keep a token if the sum "
        "*before* it is still below top_p; then one always stays."
    ),
    "top-p one too many": "a token after the border stayed; stop with the one that reaches top_p.",
    "top-p of the least likely": "the least likely tokens were kept; count from the likeliest down.",
    "top-p unscaled": (
        "top-p was counted on the model's own probabilities; count after the temperature, which changes how many "
        "tokens it takes to reach top_p."
    ),
    "top-p before top-k": (
        "top-p was counted on all tokens; count on what top-k has left, whose probabilities are then larger."
    ),
    "filtered after drawing": (
        "the draw came first, and what the filters do not allow was replaced by the likeliest token, which now comes "
        "too often. Draw last: filter first."
    ),
}


def distribution(logits_BV: Tensor, temperature: float, top_k: int, top_p: float, mistake: str = "") -> Tensor:
    """The probabilities (B, V) that tokens are drawn from, with one thing done differently."""
    own_BV = logits_BV.softmax(-1)
    likeliest_BV = torch.zeros_like(own_BV).scatter(-1, logits_BV.argmax(-1, keepdim=True), 1.0)
    if mistake == "greedy":
        return likeliest_BV
    if mistake == "softmax twice":
        scaled_BV = own_BV / temperature
    elif mistake == "temperature has no effect":
        scaled_BV = logits_BV
    else:
        scaled_BV = logits_BV * temperature if mistake == "times" else logits_BV / temperature
    by_top_k_BV = _let_go_by_top_k(scaled_BV, top_k, mistake)
    filtered_BV = scaled_BV.masked_fill(by_top_k_BV, 0.0 if mistake == "filled with 0" else -torch.inf)
    counted_BV = {"top-p unscaled": logits_BV, "top-p before top-k": scaled_BV}.get(mistake, filtered_BV)
    by_top_p_BV = _let_go_by_top_p(counted_BV, top_p, mistake)
    filtered_BV = filtered_BV.masked_fill(by_top_p_BV, -torch.inf)
    if mistake == "filtered after drawing":
        allowed_BV = scaled_BV.softmax(-1) * (filtered_BV > -torch.inf)
        return allowed_BV + likeliest_BV * (1 - allowed_BV.sum(-1, keepdim=True))
    return filtered_BV.softmax(-1)


def _let_go_by_top_k(logits_BV: Tensor, top_k: int, mistake: str) -> Tensor:
    V = logits_BV.shape[-1]
    nothing_BV = torch.zeros_like(logits_BV, dtype=torch.bool)
    if top_k == 0 or mistake == "no top-k":
        return nothing_BV
    kept = min(top_k + (mistake == "top-k one too many"), V)
    if mistake == "top-k drops ties":
        return ~nothing_BV.scatter(-1, logits_BV.topk(kept).indices, True)
    if mistake == "top-k of the smallest":
        return logits_BV > logits_BV.topk(kept, largest=False).values[:, -1:]
    border_B1 = logits_BV.topk(kept).values[:, -1:]
    if mistake == "top-k drops the k-th" and kept > 1:
        return logits_BV <= border_B1
    return logits_BV < border_B1


def _let_go_by_top_p(logits_BV: Tensor, top_p: float, mistake: str) -> Tensor:
    nothing_BV = torch.zeros_like(logits_BV, dtype=torch.bool)
    if top_p == 1 or mistake == "no top-p":
        return nothing_BV
    ordered_BV, order_BV = logits_BV.sort(dim=-1, descending=mistake != "top-p of the least likely")
    probabilities_BV = ordered_BV.softmax(-1)
    with_it_BV = probabilities_BV.cumsum(-1)
    let_go_BV = with_it_BV - probabilities_BV >= top_p
    if mistake == "top-p drops the crossing":
        let_go_BV = with_it_BV > top_p
        let_go_BV[:, 0] = False
    elif mistake == "top-p one too many":
        let_go_BV = torch.cat((nothing_BV[:, :1], let_go_BV[:, :-1]), dim=-1)
    return nothing_BV.scatter(-1, order_BV, let_go_BV)


def answer_with(mistake: str) -> Callable[..., Any]:
    """A student's function with one mistake."""

    def choose(logits_BV: Tensor, temperature: float, top_k: int, top_p: float, generator: Any) -> Tensor:
        if temperature == 0:
            return logits_BV.argmax(-1)
        probabilities_BV = distribution(logits_BV, temperature, top_k, top_p, mistake)
        return torch.multinomial(probabilities_BV, 1, generator=generator)[:, 0]

    return choose
