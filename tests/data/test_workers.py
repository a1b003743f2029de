"""How many processes load data, by cores, device and shared memory."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from dcl_monai.data import workers


@pytest.fixture
def machine(monkeypatch, tmp_path):
    def make(cores=8, threads=None, room=2**33, quota="max 100000", ranks=None):
        monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads or cores)
        monkeypatch.setattr(workers, "SHARED", tmp_path)
        monkeypatch.setattr(workers.shutil, "disk_usage", lambda _: SimpleNamespace(free=room))
        monkeypatch.setattr(workers, "QUOTA", tmp_path / "cpu.max")
        workers.QUOTA.write_text(quota)
        monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
        if ranks:
            monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))

    return make


@pytest.mark.parametrize(
    ("settings", "on_cpu", "on_gpu"),
    [
        *(({"cores": cores}, cpu, gpu) for cores, cpu, gpu in ((1, 0, 0), (2, 1, 1), (8, 2, 4), (64, 4, 4))),
        ({"cores": 8, "threads": 1}, 0, 4),  # a run of several on this machine
        ({"cores": 64, "quota": "150000 100000"}, 0, 0),
        ({"cores": 64, "quota": "50000 100000"}, 0, 0),
        ({"cores": 64, "quota": "800000 100000"}, 2, 4),
        ({"cores": 8, "ranks": 4}, 1, 1),
        ({"cores": 8, "ranks": 8}, 0, 0),
        ({"cores": 8, "room": 64 * 2**20}, 0, 0),
    ],
    ids=str,
)
def test_workers(machine, settings, on_cpu, on_gpu):
    machine(**settings)
    assert workers.default_workers("cpu") == on_cpu
    assert workers.default_workers(torch.device("cuda:0")) == on_gpu


def test_no_container(machine):
    machine(cores=2)
    workers.QUOTA.unlink()
    assert workers.default_workers("cpu") == 1
