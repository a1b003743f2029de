"""How many processes load data."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch

SHARED = Path("/dev/shm")
ROOM = 512 * 2**20
"""Bytes of shared memory that batches on their way from workers need at most; containers often have 64 MB."""
QUOTA = Path("/sys/fs/cgroup/cpu.max")
MOST = 4


def default_workers(device: torch.device | str) -> int:
    """
    How many processes load data for a training, if nobody says: as many as keep it from waiting.

    On a GPU that is up to four. On a CPU it is one for every four threads of the training step, at least one: the step
    takes as long as a worker needs for a batch or longer. It is none where a worker would take the only core, and where
    there is little shared memory for its batches.

    Args:
        device: where the network is.
    """
    cores = available_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    on_cpu = torch.device(device).type == "cpu"
    if on_cpu:
        cores = min(cores, torch.get_num_threads())  # whoever allows one thread has one core to give
    if cores < 2 or (SHARED.is_dir() and shutil.disk_usage(SHARED).free < ROOM):
        return 0
    return min(MOST, max(1, cores // 4) if on_cpu else cores - 1)


def available_cores() -> int:
    """The cores that this process may use: schedulers give some of a machine, containers a share of its time."""
    # macOS cannot tell
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text().split()
        return min(cores, int(quota) // int(period)) or 1
    except (OSError, ValueError):  # no container, or no limit ("max")
        return cores
