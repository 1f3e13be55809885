"""Two processes that share an update make the update of one."""

import os
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from minimind.objectives.next_token import NextToken
from minimind.train.optim import adamw
from minimind.train.step import TrainState, train_step
from tests import tiny

RANKS, MICROBATCHES, UPDATES = 2, 2, 3
LENGTHS = (9, 8, 9, 7, 2, 3, 2, 4)  # rank 0 has three times the tokens of rank 1


def state_of(model) -> TrainState:
    return TrainState(model, adamw(model, 1e-2, 0.1), lambda step: 1.0 / (1 + step), grad_clip=0.5)


def tensors_of(model, results) -> dict[str, torch.Tensor]:
    kept = {name: p.detach().clone() for name, p in model.named_parameters()}
    for field in ("loss", "grad_norm", "tokens"):
        kept[field] = torch.stack([getattr(result, field) for result in results]).double()
    return kept


def rank_main(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    inner = tiny.model()
    model = DistributedDataParallel(inner)
    exchanges: list[tuple[int, int]] = []  # (update, micro-batch) in which gradients were exchanged
    place = [0, 0]

    def count(state, bucket):
        exchanges.append((place[0], place[1]))
        return allreduce_hook(None, bucket)

    def follow(name: str, /, **payload) -> None:
        if name == "micro.loss":
            place[1] = payload["index"]

    model.register_comm_hook(None, count)
    state, results = state_of(model), []
    for update in range(UPDATES):
        place[0] = update
        mine = tiny.batch(LENGTHS, seed=update).split(RANKS)[rank]
        results.append(train_step(state, mine.split(MICROBATCHES), NextToken(), follow))
    kept = tensors_of(inner, results)
    save_file({**kept, "exchanges": torch.tensor(exchanges)}, Path(folder) / f"rank-{rank}.safetensors")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict[str, torch.Tensor]]:
    folder = str(tmp_path_factory.mktemp("ranks"))
    # A new interpreter imports everything again, which takes seconds; only Linux can be trusted to do without.
    how = "fork" if sys.platform == "linux" else "spawn"
    mp.start_processes(rank_main, args=(folder,), nprocs=RANKS, start_method=how)
    return [load_file(Path(folder) / f"rank-{rank}.safetensors") for rank in range(RANKS)]


@pytest.fixture(scope="module")
def one() -> dict[str, torch.Tensor]:
    model = tiny.model()
    state = state_of(model)
    batches = [tiny.batch(LENGTHS, seed=update) for update in range(UPDATES)]
    return tensors_of(model, [train_step(state, [batch], NextToken()) for batch in batches])


def test_two_ranks_make_the_update_that_one_makes_with_the_whole_batch(ranks, one):
    for name, expected in one.items():
        for rank in ranks:
            torch.testing.assert_close(rank[name], expected, rtol=1e-6, atol=1e-6, msg=name)


def test_both_ranks_hold_the_same_bits(ranks, one):
    assert all(torch.equal(ranks[0][name], ranks[1][name]) for name in one)


def test_gradients_are_exchanged_once_an_update_after_the_last_microbatch(ranks):
    expected = [[update, MICROBATCHES - 1] for update in range(UPDATES)]
    assert ranks[0]["exchanges"].tolist() == ranks[1]["exchanges"].tolist() == expected


def test_no_process_group_is_left_behind():
    assert not dist.is_initialized()
    assert "WORLD_SIZE" not in os.environ
