"""Gradients -> movements: which parameter is moved by which optimizer, at which rate, with which decay."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from minimind.train.muon import Muon


class Optimizers:
    """One or two torch optimizers that step together under one schedule.

    Args:
        parts: by name; the name is part of the saved state.
    """

    def __init__(self, parts: dict[str, torch.optim.Optimizer]):
        self.parts = parts
        self._peaks = {name: float(part.param_groups[0]["lr"]) for name, part in parts.items()}

    def groups(self) -> Iterator[dict[str, Any]]:
        """Every parameter group, AdamW's first."""
        for part in self.parts.values():
            yield from part.param_groups

    def set_rate(self, factor: float) -> float:
        """Sets each group's rate to `factor` x its optimizer's peak; returns the first group's."""
        for name, part in self.parts.items():
            for group in part.param_groups:
                group["lr"] = self._peaks[name] * factor
        return float(next(self.groups())["lr"])

    def step(self) -> None:
        """Moves every parameter that has a gradient."""
        for part in self.parts.values():
            part.step()

    def zero_grad(self) -> None:
        """Forgets the gradients, so that the next update starts from nothing."""
        for part in self.parts.values():
            part.zero_grad(set_to_none=True)


def adamw(
    model: nn.Module,
    learning_rate: float,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.95),
) -> Optimizers:
    """AdamW (arXiv 1711.05101) over all parameters: decay on matrices, none on the vectors of the norms.

    A decayed norm weight would pull a layer's scale towards zero, which regularises nothing.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    return Optimizers({"adamw": _adamw(trained, learning_rate, weight_decay, betas)})


def muon_and_adamw(
    model: nn.Module,
    learning_rate: float,
    muon_learning_rate: float,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.95),
) -> Optimizers:
    """Muon (Jordan et al. 2024) for the matrices inside the blocks, AdamW for embedding, head and norms.

    Muon replaces a matrix's momentum by the nearest matrix with equal singular values, which asks for a matrix that
    maps one width to another; an embedding is a table of rows and gets AdamW.
    """
    inner = [p for name, p in _trained(model) if p.dim() == 2 and not _is_table(name)]
    chosen = {id(p) for p in inner}
    rest = [p for _, p in _trained(model) if id(p) not in chosen]
    return Optimizers(
        {
            "adamw": _adamw(rest, learning_rate, weight_decay, betas),
            "muon": Muon(inner, lr=muon_learning_rate, weight_decay=weight_decay),
        }
    )


def _adamw(
    parameters: list[nn.Parameter], learning_rate: float, weight_decay: float, betas: tuple[float, float]
) -> torch.optim.AdamW:
    matrices = [p for p in parameters if p.dim() >= 2]
    vectors = [p for p in parameters if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=learning_rate, betas=betas, fused=True)


def _trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def _is_table(name: str) -> bool:
    return "embed_tokens" in name or "lm_head" in name


def state_tensors(optimizers: Optimizers, model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimizers' state as named tensors and a JSON object, without pickle.

    Returns:
        tensors: `<part>/<parameter name>/<field>`, such as `adamw/model.norm.weight/exp_avg`.
        document: for each part, the settings of its groups and the names of their parameters.
    """
    names = {id(p): name for name, p in model.named_parameters()}
    tensors: dict[str, Tensor] = {}
    document: dict[str, Any] = {}
    for part_name, part in optimizers.parts.items():
        for parameter, fields in part.state.items():
            for field, value in fields.items():
                assert isinstance(value, Tensor), f"{part_name}: state {field} is not a tensor"
                tensors[f"{part_name}/{names[id(parameter)]}/{field}"] = value
        document[part_name] = [
            {
                "parameters": [names[id(p)] for p in group["params"]],
                "settings": {k: v for k, v in group.items() if k != "params"},
            }
            for group in part.param_groups
        ]
    return tensors, document


def load_state_tensors(
    optimizers: Optimizers, model: nn.Module, tensors: dict[str, Tensor], document: dict[str, Any]
) -> None:
    """Puts back what `state_tensors` took.

    Raises:
        ValueError: the state belongs to other optimizers or other parameters; the message names the first.
    """
    parameters = dict(model.named_parameters())
    if set(document) != set(optimizers.parts):
        raise ValueError(
            f"the saved state is of {' + '.join(sorted(document))} and this run uses "
            f"{' + '.join(sorted(optimizers.parts))}; continue with the optimizer that the run began with."
        )
    names = {id(p): name for name, p in parameters.items()}
    for part_name, part in optimizers.parts.items():
        saved_groups = document[part_name]
        ours = [[names[id(p)] for p in group["params"]] for group in part.param_groups]
        theirs = [group["parameters"] for group in saved_groups]
        if ours != theirs:
            missing = sorted({n for g in ours for n in g} ^ {n for g in theirs for n in g})
            raise ValueError(
                f"the saved {part_name} state does not fit this model: it groups other parameters"
                + (f", for instance {missing[0]!r}." if missing else " in another order.")
            )
        part.state.clear()
    for key, tensor in tensors.items():
        part_name, name, field = key.split("/")
        parameter = parameters[name]
        # AdamW counts its steps in a fp32 scalar that stays on the CPU unless fused on a GPU.
        place = tensor if tensor.dim() == 0 and field == "step" else tensor.to(parameter.device)
        optimizers.parts[part_name].state[parameter][field] = place.clone()
