"""Training by several processes: joining them, sharing out work, and doing once what must be done once.

Without a process group every function here does what a single process would do.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import ignite.distributed as idist
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _set_pg_timeout

from .errors import DataError

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE = timedelta(hours=2)
"""How long ranks wait for each other but in training: rank 0 checks all data while the others wait."""


def start_process_group() -> None:
    """
    Join the processes that ``torchrun`` started: by nccl, with a GPU for each, or by gloo where there is no GPU.

    From now on rank 0 alone writes to the log and to standard output; each rank reports its own errors.

    Raises:
        DataError: when the process was not started by ``torchrun``, or the machine has fewer GPUs than processes.
    """
    local_rank = int(os.environ.get("LOCAL_RANK", -1))
    if local_rank < 0:
        raise DataError(
            "configs/multi_gpu.json is for several processes: start them by torchrun --nproc_per_node=<number> "
            "-m monai.bundle run ..., or leave the overlay out."
        )
    gpus = torch.cuda.device_count()
    if gpus:
        if local_rank >= gpus:
            raise DataError(
                f"{local_rank + 1} processes or more, but {gpus} GPU(s): give torchrun --nproc_per_node={gpus}."
            )
        torch.cuda.set_device(local_rank)
    store, rank, world_size = next(dist.rendezvous("env://", timeout=PATIENCE))
    dist.init_process_group(
        "nccl" if gpus else "gloo",
        timeout=PATIENCE,
        store=dist.PrefixStore(_attempt(world_size), store),
        rank=rank,
        world_size=world_size,
    )
    idist.sync()  # ignite asks all ranks about the group, so let it be here, where all of them are
    if rank > 0:
        for handler in logging.getLogger().handlers:
            handler.setLevel(logging.ERROR)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)


def _attempt(world_size: int) -> str:
    """
    Name the part of ``torchrun``'s store that the ranks of this attempt use.

    The store outlives a restart, and what dead ranks left in it misleads the new ones (issue 135712 of PyTorch). On
    several machines the number of restarts need not be the same; there ``torchrun`` itself needs the option for a new
    store, by ``TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1``.
    """
    one_machine = os.environ.get("LOCAL_WORLD_SIZE") == str(world_size)
    return f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0) if one_machine else 0}"


def leave_process_group() -> None:
    """
    Leave the processes that :py:func:`start_process_group` joined; the last thing that a process does.

    A thread of gloo lets go of a message a moment after the message has arrived, and needs Python for it. Were the
    interpreter ending by then, the process would be aborted although its work is done (issue 190489 of PyTorch), so
    the threads are given that moment.
    """
    time.sleep(0.5)
    dist.destroy_process_group()


def set_rank_timeout(timeout: timedelta) -> None:
    """Set how long ranks wait for each other from now on; all ranks call it, and are waited for as before."""
    if idist.get_world_size() > 1:
        idist.barrier()
        _set_pg_timeout(timeout)  # torch has no public name for it


def average(value: torch.Tensor) -> torch.Tensor:
    """Return the mean of a tensor over the ranks."""
    return cast(torch.Tensor, idist.all_reduce(value.clone())) / idist.get_world_size()


def gather(items: list[T]) -> list[T]:
    """Return the items of all ranks, in the order of the ranks."""
    return [item for part in cast(list[list[T]], idist.all_gather(items)) for item in part]


def on_first_rank(function: Callable[P, T]) -> Callable[P, T]:
    """
    Let rank 0 alone call a function, while the others wait, and give what it returns to all.

    If the function raises, rank 0 tells the error and the others just exit. Ignite's ``one_rank_only`` gives nothing to
    the others, and would let them go on, or wait for ever, after an error.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return _call_on(0, lambda: function(*args, **kwargs))

    return call


def rank_by_rank(function: Callable[P, T]) -> Callable[P, T]:
    """
    Let the ranks call a function one after the other, each on its own behalf.

    For writing files that are left alone once they are complete: they are written once, be it per machine or on a disk
    that the machines share.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        results = [_call_on(rank, lambda: function(*args, **kwargs)) for rank in range(idist.get_world_size())]
        return results[idist.get_rank()]

    return call


def _call_on(rank: int, function: Callable[[], T]) -> T:
    """Call a function on one rank and return its result on all."""
    if idist.get_world_size() == 1:
        return function()
    if idist.get_rank() == rank:
        try:
            result = function()
        except Exception:
            dist.broadcast_object_list([True, None], src=rank)
            raise
        dist.broadcast_object_list([False, result], src=rank)
        return result
    received: list[Any] = [None, None]
    dist.broadcast_object_list(received, src=rank)
    failed, result = received
    if failed:
        raise SystemExit(1)
    return result


def shard(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """
    Return the items that this rank evaluates: shards of consecutive items whose sizes differ by one at most.

    What the ranks make of them, gathered in the order of the ranks, is in the order of the items, each once. A rank
    that would get none still has to take part in every gathering, so it gets the bare image of the last item: nothing
    is known of it, and so it counts nowhere.

    Args:
        items: items of a datalist.
    """
    if not items:
        return []
    rank, ranks = idist.get_rank(), idist.get_world_size()
    if len(items) < ranks:
        return [items[rank] if rank < len(items) else {"image": items[-1]["image"]}]
    return list(items[rank * len(items) // ranks : (rank + 1) * len(items) // ranks])
