"""`Recorder` turns a step's events into a `Record`, and listens to tensors inside any `nn.Module`.

It reads and copies and never writes, so that a training run gives the same bits with and without it.
"""

import platform
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from minimind.trace.record import ParameterRecord, Record, StepRecord


class Recorder:
    """Listens to a training step; a context manager.

        with Recorder(model, lab="my lab", tensors=("model.layers.0",)) as recorder:
            train_step(state, microbatches, objective, emit=recorder.emit)
        print(recorder.record.table())

    Args:
        model: the module that is trained; ours, transformers', or any other.
        lab: name to put on the record.
        tensors: qualified names of modules whose output to keep; "" is the model itself. The first forward pass
            after entering is kept in `self.tensors` (detached copies) and its shapes go to the record.
        arguments: what to write down as the lab's arguments.

    Raises:
        ValueError: the model is compiled (its forward hooks would not run, and the record would be empty), or a
            name in `tensors` is not a module of the model.
    """

    def __init__(
        self,
        model: nn.Module,
        lab: str = "",
        tensors: Iterable[str] = (),
        arguments: dict[str, Any] | None = None,
    ):
        if any(_is_compiled(module) for module in model.modules()):
            raise ValueError(
                "Recorder was given a compiled module, on which hooks do not run, so it would record nothing; "
                "give it the module from before torch.compile, and train that one."
            )
        self.model = model
        self.tensor_names = tuple(tensors)
        modules = dict(model.named_modules())
        for name in self.tensor_names:
            if name not in modules:
                raise ValueError(f"Recorder: the model has no module {name!r}; it has {_some(modules)}.")
        self.tensors: dict[str, Tensor] = {}
        self.record = Record(lab=lab, arguments=dict(arguments or {}), environment=environment())
        self._hooks: list[Any] = []
        self._begun_s = 0.0
        self._trained: dict[str, nn.Parameter] = {}
        self._before: dict[str, Tensor] = {}
        self._sample_ids: list[int] = []
        self._micro: list[tuple[Tensor, Tensor]] = []
        self._grad_norms: dict[str, Tensor] = {}
        self._norm_before = self._norm_after = torch.zeros(())

    def __enter__(self) -> Self:
        modules = dict(self.model.named_modules())
        for name in self.tensor_names:
            self._hooks.append(modules[name].register_forward_hook(self._tensor_hook(name)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def emit(self, name: str, /, **payload: Any) -> None:
        """Takes one event; those without a listener below are none of this recorder's business."""
        listener = getattr(self, "_on_" + name.replace(".", "_"), None)
        if listener is not None:
            with torch.no_grad():
                listener(**payload)

    def keep(self, name: str, tensor: Tensor) -> None:
        """Keeps a copy of a tensor under a name, and its shape and dtype in the record."""
        self.tensors[name] = tensor.detach().clone()
        self.record.shapes[name] = list(tensor.shape)
        self.record.dtypes[name] = str(tensor.dtype).removeprefix("torch.")

    def _tensor_hook(self, name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            named = getattr(module, "named_tensors", None)
            found = named(*inputs) if named is not None else dict(_named_outputs(name, output))
            for key, tensor in found.items():
                full = f"{name.removesuffix('.tap')}.{key}" if named is not None else key
                if full not in self.tensors:
                    self.keep(full, tensor)

        return hook

    def _on_step_start(self, step: int, model: nn.Module) -> None:
        self._begun_s = time.perf_counter()
        self._sample_ids, self._micro = [], []
        self._trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        if self._before.keys() != self._trained.keys():
            self._before = {name: torch.empty_like(p) for name, p in self._trained.items()}
        # Into the memory of the step before: fresh pages would cost more than the copy.
        torch._foreach_copy_(list(self._before.values()), [p.detach() for p in self._trained.values()])

    def _on_batch(self, index: int, batch: Any) -> None:
        self._sample_ids += [int(i) for i in batch.sample_ids]
        if "input_ids" not in self.record.shapes:
            self.keep("input_ids", batch.input_ids)
            self.keep("labels", batch.labels)

    def _on_micro_loss(self, index: int, loss_sum: Tensor, weight: Tensor) -> None:
        self._micro.append((loss_sum.detach().clone(), weight.detach().clone()))

    def _on_grads_ready(self, model: nn.Module, grad_norm: Tensor) -> None:
        self._norm_before = grad_norm.detach().clone()
        grads = {name: p.grad for name, p in self._trained.items() if p.grad is not None}
        self._grad_norms = {name: _norm(grad) for name, grad in grads.items()}

    def _on_grads_clipped(self, model: nn.Module) -> None:
        grads = [p.grad for p in self._trained.values() if p.grad is not None]
        self._norm_after = torch.nn.utils.get_total_norm(grads)  # as the clip measures

    def _on_step_end(self, result: Any) -> None:
        total = sum(float(weight) for _, weight in self._micro)
        self.record.steps.append(
            StepRecord(
                step=int(result.step),
                loss=float(result.loss),
                learning_rate=float(result.learning_rate),
                grad_norm_before_clip=float(self._norm_before),
                grad_norm_after_clip=float(self._norm_after),
                tokens=int(result.tokens),
                micro_losses=[float(loss_sum) / total for loss_sum, _ in self._micro],
                sample_ids=self._sample_ids,
                parameters=self._movements(),
                time_s=time.perf_counter() - self._begun_s,
                memory_bytes=torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
            )
        )

    def _movements(self) -> dict[str, ParameterRecord]:
        names = list(self._before)
        before = list(self._before.values())
        before_norms = torch.stack([_norm(b) for b in before]).tolist()
        torch._foreach_sub_(before, [self._trained[n].detach() for n in names])  # now the movements, signs reversed
        rows = zip(
            names,
            torch.stack([_largest(d) for d in before]).tolist(),
            torch.stack([_norm(d) for d in before]).tolist(),
            before_norms,
            torch.stack([self._grad_norms.get(n, before[0].new_zeros(())) for n in names]).tolist(),
            strict=True,
        )
        return {
            name: ParameterRecord(
                shape=list(self._before[name].shape),
                grad_norm=grad_norm,
                delta_max=delta_max,
                delta_rms=delta_norm / self._before[name].numel() ** 0.5,
                update_ratio=delta_norm / before_norm if before_norm else 0.0,
            )
            for name, delta_max, delta_norm, before_norm, grad_norm in rows
        }


def environment() -> dict[str, str]:
    """Versions that explain a difference between two records; no path and no host name."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
    }


def _norm(tensor: Tensor) -> Tensor:
    """Euclidean norm as a dot product, which costs a CPU a fifth of torch's norm."""
    flat = tensor.detach().flatten()
    return flat.dot(flat).sqrt()


def _largest(tensor: Tensor) -> Tensor:
    """Largest absolute entry, in one pass and without a copy."""
    low, high = tensor.aminmax()
    return torch.maximum(-low, high)


def _is_compiled(module: nn.Module) -> bool:
    compiled_class = hasattr(module, "_orig_mod")
    compiled_in_place = getattr(module, "_compiled_call_impl", None) is not None
    return compiled_class or compiled_in_place


def _some(modules: dict[str, nn.Module]) -> str:
    names = [name for name in modules if name]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _named_outputs(name: str, output: Any) -> Iterable[tuple[str, Tensor]]:
    """The tensors of a module's output: itself, the fields of a model output, or the members of a tuple."""
    if isinstance(output, Tensor):
        yield name or "output", output
    elif hasattr(output, "items"):
        for key, value in output.items():
            if isinstance(value, Tensor):
                yield f"{name}.{key}" if name else key, value
    elif isinstance(output, tuple):
        for index, value in enumerate(output):
            if isinstance(value, Tensor):
                yield f"{name}[{index}]", value
