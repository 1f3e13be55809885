"""The orthogonal step, against torch's own Muon and against a singular value decomposition."""

import pytest
import torch

from minimind.train.muon import Muon, orthogonalised

SHAPES = [(64, 64), (64, 160), (160, 64), (8, 200)]


def matrices() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES for _ in range(2)]


@pytest.mark.parametrize("steps", [3, 5])
def test_three_updates_are_those_of_torch_s_muon(steps):
    ours, theirs = matrices(), matrices()
    start = [p.detach().clone() for p in ours]
    one = Muon(ours, lr=0.05, weight_decay=0.1, momentum=0.95, ns_steps=steps)
    other = torch.optim.Muon(theirs, lr=0.05, weight_decay=0.1, momentum=0.95, ns_steps=steps)
    for update in range(3):
        torch.manual_seed(update)
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        one.step()
        other.step()
    for p, q, begin in zip(ours, theirs, start, strict=True):
        assert (p - q).norm() < 0.02 * (q - begin).norm(), tuple(p.shape)  # theirs is rounded to bfloat16


def test_every_singular_value_becomes_about_one_and_no_direction_changes():
    torch.manual_seed(0)
    x = torch.randn(3, 32, 80)
    y = orthogonalised(x, steps=5)
    values = torch.linalg.svdvals(y)
    assert values.min() > 0.65 and values.max() < 1.25
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    inner = u.mT @ y @ v.mT  # diagonal when the directions are the same
    assert (inner - torch.diag_embed(inner.diagonal(dim1=1, dim2=2))).abs().max() < 1e-3


def test_a_matrix_without_a_gradient_stays_and_a_vector_is_refused():
    p = torch.nn.Parameter(torch.ones(2, 3))
    Muon([p], lr=0.1).step()
    assert torch.equal(p, torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"\(3,\)"):
        Muon([torch.nn.Parameter(torch.ones(3))], lr=0.1)
