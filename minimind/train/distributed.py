"""What a step needs to know of other processes; with one process every function here does nothing.

DDP averages gradients over ranks. A step wants their sum, since it has divided by the weight of all ranks
already; it therefore multiplies its loss by `world_size()`.
"""

from contextlib import AbstractContextManager, nullcontext

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def world_size() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def sum_over_ranks(tensor: Tensor) -> Tensor:
    """The sum of a scalar over all ranks; the same tensor when there is one."""
    if world_size() > 1:
        dist.all_reduce(tensor)
    return tensor


def synchronised(model: nn.Module, is_last: bool) -> AbstractContextManager[object]:
    """Lets DDP exchange gradients only in the last micro-batch's backward pass: once for each update."""
    if isinstance(model, DistributedDataParallel) and not is_last:
        return model.no_sync()
    return nullcontext()
