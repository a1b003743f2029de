"""Locks on the folders of runs."""

from __future__ import annotations

import os
import threading

import pytest

from dcl_monai.utils.locks import NAME, is_locked, take_lock

fcntl = pytest.importorskip("fcntl")


def test_one_process_at_a_time(tmp_path):
    """Who comes second gets nothing until the first lets go."""
    lock = take_lock(tmp_path)
    assert lock is not None
    assert is_locked(tmp_path)
    assert take_lock(tmp_path) is None
    os.close(lock)
    assert not is_locked(tmp_path)
    again = take_lock(tmp_path)
    assert again is not None
    os.close(again)


def test_asking_leaves_nothing(tmp_path):
    """A folder that nobody worked on is not locked, and is not written to."""
    assert not is_locked(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_may_ask_at_once(tmp_path):
    """Who asks while another asks is not told that somebody works there."""
    os.close(take_lock(tmp_path))
    asking = os.open(tmp_path / NAME, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    assert not is_locked(tmp_path)
    os.close(asking)


def test_asking_does_not_turn_a_worker_away(tmp_path):
    """A worker that starts while `--list` looks waits for that moment instead of leaving the run alone."""
    os.close(take_lock(tmp_path))
    asking = os.open(tmp_path / NAME, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    release = threading.Timer(0.1, os.close, [asking])
    release.start()
    lock = take_lock(tmp_path)
    release.join()
    assert lock is not None
    os.close(lock)
