"""The checks of `checks.py`, on two ranks that gloo joins."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RANKS = 2
CHECKS = [
    *(f"gradient of row {row}" for row in range(1, 7)),
    "gradient ratio",
    "one network with batch norm",
    "history is the mean",
    *(f"evaluation of {volumes} volumes" for volumes in (7, 2, 1)),
    "shards",
    "first rank works for all",
    "files are written once",
    "best model",
    "checkpoint",
    "seeds",
    "draws of 3D training",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> list[dict[str, str | None]]:
    """What both ranks found, by check."""
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("checks.py")), str(folder)]
    processes = [
        subprocess.Popen(
            line,
            cwd=ROOT,
            env=os.environ | group | {"RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for rank in range(RANKS)
    ]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert all((folder / f"rank{rank}.json").exists() for rank in range(RANKS)), errors
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]


@pytest.mark.parametrize("check", CHECKS)
def test_check(results, check):
    for rank, result in enumerate(results):
        assert check in result, f"rank {rank} did not come so far"
        assert result[check] is None, f"rank {rank}: {result[check]}"


def test_every_check_is_reported(results):
    assert list(results[0]) == CHECKS
