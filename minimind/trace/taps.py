"""Places inside a module that a recorder can listen to although no submodule's output passes there."""

import torch
from torch import Tensor, nn


class AttentionTap(nn.Module):
    """Is handed what attention is about to compute with, and does nothing. A forward hook on it sees it all."""

    def forward(self, q_BHTC: Tensor, k_BKSC: Tensor, allowed_B1TS: Tensor | None) -> None:
        """Nothing: the values are the hook's arguments."""

    @staticmethod
    @torch.no_grad()
    def named_tensors(q_BHTC: Tensor, k_BKSC: Tensor, allowed_B1TS: Tensor | None) -> dict[str, Tensor]:
        """What there is to record: rotated queries and keys, and the attention pattern they make.

        The pattern (B, H, T, S) is computed here, in fp32 and without gradient, so that it is there whichever
        attention backend the model runs.
        """
        groups = q_BHTC.shape[1] // k_BKSC.shape[1]
        q, k = q_BHTC.detach().float(), k_BKSC.detach().float().repeat_interleave(groups, dim=1)
        T, S = q.shape[-2], k.shape[-2]
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if allowed_B1TS is None:
            allowed_B1TS = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(diagonal=S - T)
        pattern = scores.masked_fill(~allowed_B1TS, float("-inf")).softmax(dim=-1)
        return {"q_rope": q_BHTC.detach(), "k_rope": k_BKSC.detach(), "pattern": pattern}
