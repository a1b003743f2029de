"""Locks on the folders of runs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dcl_monai.utils import DataError
from dcl_monai.utils.locks import NAME, is_locked, lock_outputs, take_lock

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


class Training(multiprocessing.get_context("fork").Process):
    """A process that locks its outputs and holds them; `said` is its error, if any."""

    def __init__(self, output_dir: Path, model_file: Path, worker: bool = False) -> None:
        super().__init__()
        self.arguments = (output_dir, model_file)
        self.worker = worker
        self.mine, self.yours = multiprocessing.Pipe()
        self.start()
        self.said = self.mine.recv()

    def run(self) -> None:
        os.setsid()
        try:
            lock_outputs(*self.arguments)
        except DataError as error:
            self.yours.send(str(error))
            return
        if self.worker and os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        self.yours.send("")
        time.sleep(60)


class TestLockOutputs:
    def test_one_training_at_a_time(self, tmp_path):
        """Neither two in one folder nor two that write one model; a killed one leaves no lock behind."""
        first = Training(tmp_path / "a", tmp_path / "model.pt")
        assert first.said == ""
        stale = tmp_path / "a" / ".checkpoint.pt.123.tmp"
        stale.write_text("half")
        assert Training(tmp_path / "a", tmp_path / "other.pt").said == (
            f"{tmp_path / 'a'}: another training is writing to it. Wait until it ends, or set another --output_dir."
        )
        assert stale.exists(), "whoever has no lock removes nothing"
        assert Training(tmp_path / "b", tmp_path / "model.pt").said == (
            f"{tmp_path / 'model.pt'}: another training is writing to it. Wait until it ends, or set another "
            "--model_file."
        )
        first.kill()
        first.join()
        last = Training(tmp_path / "a", tmp_path / "model.pt")
        last.kill()
        assert last.said == ""
        assert not stale.exists()

    def test_again_in_one_process(self, tmp_path):
        for _ in range(2):
            lock_outputs(tmp_path, tmp_path / "model.pt")

    def test_workers_do_not_keep_it(self, tmp_path):
        """A worker that outlives a killed training for some seconds does not keep it from being resumed."""
        first = Training(tmp_path, tmp_path / "model.pt", worker=True)
        try:
            first.kill()
            first.join()
            second = Training(tmp_path, tmp_path / "model.pt")
            second.kill()
            assert second.said == ""
        finally:
            os.killpg(first.pid, signal.SIGKILL)  # the worker

    def test_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match=r"file/out: cannot be written \(Not a directory\)\. Choose a folder"):
            lock_outputs(tmp_path / "file" / "out", tmp_path / "model.pt")
