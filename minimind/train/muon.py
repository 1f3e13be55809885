"""Muon: a matrix moves by its momentum with all singular values made about equal (Jordan et al. 2024).

AdamW scales every entry of a gradient by itself. Muon takes a weight matrix for what it is, a map: it moves it equally
far in every direction that the momentum points to, the strong and the weak ones.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic a x + b x^3 + c x^5: applied again and again, it drives every x in (0, 1] to about 1."""


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal, times the rate.

    torch.optim.Muon computes the same movement in bfloat16, one matrix after another. This one computes in fp32 on a
    CPU, where bfloat16 is emulated or coarse, and takes all matrices of one shape in a single product.

    Args:
        matrices: parameters of two dimensions.
        lr: how far a matrix moves, as the size of each of its singular values; times sqrt(rows / columns) when it is
            taller than wide.
        weight_decay: decoupled, times the rate.
        momentum: decay of the running average of the gradient.
        ns_steps: Newton-Schulz iterations.

    Raises:
        ValueError: a parameter that is not a matrix.
    """

    def __init__(
        self,
        matrices: Iterable[Tensor],
        lr: float,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        ns_steps: int = 5,
    ):
        settings = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "ns_steps": ns_steps}
        super().__init__(matrices, settings)
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(f"Muon moves matrices, and this parameter has the shape {tuple(p.shape)}.")

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # there is no closure, and no loss
        """Moves every matrix that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            same_shape: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                average = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                average.lerp_(p.grad, 1 - momentum)
                ahead = p.grad.lerp(average, momentum)  # Nesterov: look where the average will be
                wide = ahead if ahead.size(0) <= ahead.size(1) else ahead.T
                same_shape.setdefault(tuple(wide.shape), []).append((p, wide))
            for members in same_shape.values():
                moved = orthogonalised(torch.stack([wide for _, wide in members]), group["ns_steps"])
                for (p, _), wide in zip(members, moved, strict=True):
                    rows, columns = p.shape
                    direction = wide if rows <= columns else wide.T
                    p.mul_(1 - lr * group["weight_decay"])
                    p.add_(direction.to(p.dtype), alpha=-lr * max(1.0, rows / columns) ** 0.5)


def orthogonalised(wide_NRC: Tensor, steps: int) -> Tensor:
    """N matrices with their singular values driven to about 1 (0.7 to 1.2 after five steps), their directions kept.

    Args:
        wide_NRC: R <= C, so that the products are R x R.
        steps: Newton-Schulz iterations; a quintic applied to a matrix acts on its singular values alone.
    """
    a, b, c = COEFFICIENTS
    x = wide_NRC.bfloat16() if wide_NRC.is_cuda else wide_NRC.float()
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value above 1
    for _ in range(steps):
        square_NRR = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square_NRR, square_NRR, square_NRR, beta=b, alpha=c), x, beta=a)
    return x
