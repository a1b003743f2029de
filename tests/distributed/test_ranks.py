"""The checks of `checks.py`, on two ranks that gloo joins."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from helpers import Forked

from .checks import RANKS, checks

pytestmark = pytest.mark.slow

CHECKS = list(checks(Path()))


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> list[dict[str, str | None]]:
    """What both ranks found, by check."""
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS)}
    program = Path(__file__).with_name("checks.py")
    processes = [Forked(program, folder, RANK=str(rank), LOCAL_RANK=str(rank), **group) for rank in range(RANKS)]
    errors = [process.wait().stderr for process in processes]
    assert all((folder / f"rank{rank}.json").exists() for rank in range(RANKS)), errors
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]


@pytest.mark.parametrize("check", CHECKS)
def test_check(results, check):
    for rank, result in enumerate(results):
        assert check in result, f"rank {rank} did not come so far"
        assert result[check] is None, f"rank {rank}: {result[check]}"


def test_every_check_is_reported(results):
    assert list(results[0]) == CHECKS
