"""Faults and bad settings in training, as a user meets them: one line that names the cause, and nothing lost.

Every training is a process of its own, forked from this one: what it needs is imported once.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
import torch._dynamo
from helpers import write_squares
from monai.bundle import run as run_bundle
from torch.utils._pytree import tree_flatten

import dcl_monai.bundle
import dcl_monai.handlers  # noqa: F401 (imported once for all trainings)
from dcl_monai.utils.locks import take_lock

ROOT = Path(__file__).parents[2]
SETTINGS = {"split": [5, 1, 1], "annotated_per_subject": 2, "pixdim": [1.0, 1.0, -1], "spatial_size": [32, 32, -1]}
SETTINGS |= {"batch_size": 4, "bank_size": 2, "stage1_epochs": 1, "stage2_epochs": 1, "largest_parts": "false"}
SETTINGS |= {"device": "$torch.device('cpu')", "network_def#compnet#features": [4, 4, 8, 8, 8, 4]}
KILLS = int(os.environ.get("DCL_KILLS", 0))
"""How often a training is killed: DCL_KILLS=100 pytest tests/bundles/test_faults.py -k killed, of a night."""
COST: list[float] = []
"""Seconds of the processor that a training takes which nothing disturbs."""
WRITES = 11
"""Files that it puts in place."""


class Training(multiprocessing.get_context("fork").Process):
    """`python -m monai.bundle run training` with these settings; what it prints goes to `log`."""

    def __init__(self, data: Path, output: Path, before: Callable[[], object] | None = None, **override: Any) -> None:
        super().__init__()
        paths = {"dataset_dir": str(data), "output_dir": str(output), "model_file": str(output / "model.pt")}
        self.settings = SETTINGS | paths | override
        self.before = before
        self.log = output.parent / f"{output.name}.{time.monotonic_ns()}.log"
        self.start()

    def run(self) -> None:
        torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
        signal.signal(signal.SIGINT, signal.default_int_handler)
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
        sys.excepthook = traceback.print_exception
        os.chdir(ROOT)
        try:
            if self.before is not None:
                self.before()
            run_bundle(run_id="training", config_file="bundles/acdc/configs/train.json", **self.settings)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)

    def wait(self) -> str:
        """What it printed."""
        self.join(600)
        assert self.exitcode is not None, "it hangs"
        return self.log.read_text(encoding="utf-8")

    def error(self) -> str:
        """The one line of a training that failed."""
        text = self.wait()
        assert self.exitcode == 1, text[-3000:]
        assert "Traceback" not in text, text[-3000:]
        (line,) = [line for line in text.splitlines() if line.startswith(("error: ", "stopped"))]
        assert "next: python -m" not in text
        return line

    def cpu_seconds(self) -> float:
        """Seconds of the processor that it has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_for(self, path: Path) -> None:
        """Wait until a file is there."""
        deadline = time.monotonic() + 120
        while not path.exists():
            assert time.monotonic() < deadline
            assert self.is_alive(), self.wait()[-3000:]
            time.sleep(0.01)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_squares(tmp_path_factory.mktemp("data"), patients=7, depth=2)


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory) -> Path:
    """A training that nothing disturbs."""
    output = tmp_path_factory.mktemp("whole") / "out"
    before = children_cpu_seconds()
    training = Training(data, output)
    text = training.wait()
    COST.append(children_cpu_seconds() - before)
    assert training.exitcode == 0, text[-3000:]
    assert "next: python -m" in text
    return output


def children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def assert_same_run(output: Path, expected: Path) -> None:
    """Bit for bit; bytes of a checkpoint depend on which of its words were read from a file before."""
    for name in ("model.pt", "history.csv", "test_dice.csv"):
        assert (output / name).read_bytes() == (expected / name).read_bytes(), name
    ours, theirs = (torch.load(folder / "checkpoint.pt", weights_only=True) for folder in (output, expected))
    assert ours["settings"] == theirs["settings"]
    (found, names), (wanted, others) = tree_flatten(ours), tree_flatten(theirs)
    assert names == others
    assert all(torch.equal(*map(torch.as_tensor, pair)) for pair in zip(found, wanted, strict=True) if numeric(*pair))
    assert not list(output.glob(".*.tmp"))


def numeric(*values: object) -> bool:
    return all(isinstance(value, torch.Tensor | int | float) for value in values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"batch_size": 0}, "--batch_size is 0, but it must be greater than 0."),
        ({"batch_size": 1000}, "20 training image(s) or slices per epoch do not fill a batch of 1000. Set a smaller"),
        ({"iterations_per_epoch": 0}, "--iterations_per_epoch is 0, but it must be greater than 0."),
        ({"learning_rate": -1}, "--learning_rate is -1, but it must be greater than 0."),
        ({"learning_rate": float("nan")}, "--learning_rate is nan, but it must be a finite number."),
        ({"learning_rate": "fast"}, "--learning_rate is 'fast', but it must be a valid number."),
        ({"stage1_epochs": 0}, "--stage1_epochs is 0, but it must be greater than 0."),
        ({"val_interval": 0}, "--val_interval is 0, but it must be greater than 0."),
        ({"output_dir": "/dev/null/out"}, "/dev/null/out: cannot be written (Not a directory). Choose a folder"),
        ({"output_dir": "/proc/out"}, "/proc/out: cannot be written (No such file or directory). Choose a folder"),
        ({"model_file": "/dev/null/model.pt"}, "/dev/null/model.pt: cannot be written (File exists). Choose a folder"),
    ],
    ids=str,
)
def test_settings(data, tmp_path, change, words):
    assert words in Training(data, tmp_path / "out", **change).error()


class TestBreakdown:
    """It stops at the first loss that is not finite, and the best model so far is kept."""

    def test_learning_rate(self, data, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "model.pt").write_bytes(b"before")
        line = Training(data, tmp_path / "out", learning_rate=1e30, warmup_steps=0, max_gradient_norm=None).error()
        assert "training broke down in epoch 1, iteration" in line
        assert "patient00" in line
        assert "Lower --learning_rate" in line
        assert (tmp_path / "out" / "model.pt").read_bytes() == b"before"
        assert not (tmp_path / "out" / "checkpoint.pt").exists()

    def test_image(self, data, tmp_path):
        spoilt = Path(shutil.copytree(data, tmp_path / "data"))
        training = json.loads((Path(self.datalist(spoilt, tmp_path))).read_text())["training"]
        path = tmp_path / "list" / training[0]["image"]
        image = nib.load(path)
        nib.save(nib.Nifti1Image(image.get_fdata(dtype=np.float32) * np.float32(1e35), image.affine), path)
        line = Training(spoilt, tmp_path / "out").error()
        assert training[0]["subject"] in line
        assert "too large to compute with" in line
        assert not (tmp_path / "out" / "model.pt").exists()

    def datalist(self, data: Path, folder: Path) -> Path:
        """The list of the training, from a run that ends at once."""
        Training(data, folder / "list", batch_size=1000).error()
        return folder / "list" / "datalist.json"


@pytest.mark.slow
def test_validation_less_often_than_a_stage_is_long(data, tmp_path):
    """The last epoch of either stage is validated all the same, in a resumed run too."""
    training = Training(data, tmp_path / "out", val_interval=5)
    training.wait_for(tmp_path / "out" / "checkpoint.pt")
    training.kill()
    training.join()
    again = Training(data, tmp_path / "out", val_interval=5, resume=True)
    text = again.wait()
    assert again.exitcode == 0, text[-3000:]
    assert "resumed from" in text
    assert text.count("val_dice") >= 1
    assert (tmp_path / "out" / "model.pt").exists()


class TestOneFolder:
    def test_two_trainings(self, data, tmp_path):
        lock = take_lock(tmp_path / "out", ".training.lock")
        try:
            assert f"{tmp_path / 'out'}: another training is writing to it" in Training(data, tmp_path / "out").error()
        finally:
            os.close(lock)
        assert [path.name for path in (tmp_path / "out").iterdir()] == [".training.lock"]

    @pytest.mark.slow
    def test_label_changed_before_a_resume(self, data, whole, tmp_path):
        changed = Path(shutil.copytree(data, tmp_path / "data"))
        shutil.copytree(whole, tmp_path / "out")
        path = changed / "patient002" / "patient002_frame01_gt.nii.gz"
        label = nib.load(path)
        array = np.asarray(label.dataobj)
        array[16, 16, 0] = 1
        nib.save(nib.Nifti1Image(array, label.affine), path)
        line = Training(changed, tmp_path / "out", resume=True).error()
        assert f"{path}: has changed since the run of {tmp_path / 'out' / 'checkpoint.pt'} was started" in line

    @pytest.mark.slow
    def test_data_that_moved_is_the_same(self, data, whole, tmp_path):
        moved = Path(shutil.copytree(data, tmp_path / "data"))
        shutil.copytree(whole, tmp_path / "out")
        training = Training(moved, tmp_path / "out", resume=True)
        text = training.wait()
        assert training.exitcode == 0, text[-3000:]
        assert "this run is complete" in text


def test_interrupted(data, tmp_path):
    training = Training(data, tmp_path / "out", stage1_epochs=50)
    training.wait_for(tmp_path / "out" / "history.csv")
    for _ in range(3):  # Python drops what a signal raises within a destructor; one presses Ctrl-C again then
        os.kill(training.pid, signal.SIGINT)
        training.join(10)
        if not training.is_alive():
            break
    assert training.error() == "stopped. --resume true continues a training from its last complete epoch."


def test_full_disk(data, tmp_path):
    """No file may grow beyond a limit that the checkpoint exceeds."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    line = Training(data, tmp_path / "out", before=limit).error()
    assert "cannot be written (File too large). Make room on the disk" in line


def test_deleted_folder(data, tmp_path):
    """Whoever deletes the folder of a run does not want it."""
    training = Training(data, tmp_path / "out", stage1_epochs=50)
    training.wait_for(tmp_path / "out" / "checkpoint.pt")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert f"{tmp_path / 'out'}/tensorboard/" in (line := training.error())
    assert "cannot be written (No such file or directory). Choose a folder that exists" in line


def kill_in_write(number: int, moment: str) -> Callable[[], None]:
    """End the process by SIGKILL at the n-th file that is put in place: half-written, before or after its rename."""

    def patch() -> None:
        replace, count = os.replace, iter(range(10**6))

        def dies(source: Path, target: Path) -> None:
            if next(count) == number:
                if moment == "half":
                    os.truncate(source, os.path.getsize(source) // 2)
                elif moment == "after":
                    replace(source, target)
                os.kill(os.getpid(), signal.SIGKILL)
            replace(source, target)

        os.replace = dies

    return patch


def resumed(data: Path, output: Path, whole: Path) -> None:
    """Resume a run that was killed, and compare its end."""
    training = Training(data, output, resume=True)
    text = training.wait()
    assert training.exitcode == 0, text[-3000:]
    assert_same_run(output, whole)


SOME_WRITES = [(1, "half"), (2, "after"), (3, "half"), (5, "before")]
ALL_WRITES = [(number, moment) for number in range(WRITES) for moment in ("half", "before", "after")]
NO_WRITE = (WRITES, "before")
"""It is not reached, so all writes are among the others."""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "moment"), [*ALL_WRITES, NO_WRITE] if KILLS else SOME_WRITES)
def test_killed_inside_a_write_and_resumed(data, whole, tmp_path, number, moment):
    """The end is that of the uninterrupted run: the first writes are datalist, record, model, history, checkpoint."""
    killed = Training(data, tmp_path / "out", before=kill_in_write(number, moment), resume=True)
    killed.join(600)
    assert killed.exitcode == (-signal.SIGKILL if number < WRITES else 0), killed.wait()[-3000:]
    resumed(data, tmp_path / "out", whole)


@pytest.mark.slow
@pytest.mark.parametrize("draw", range(KILLS or 2))
def test_killed_at_any_moment_and_resumed(data, whole, tmp_path, draw):
    """Moments are drawn from the time of the processor: on a busy machine, too, they are spread over the training."""
    killed = Training(data, tmp_path / "out", resume=True)
    moment = random.Random(draw).uniform(0.0, 1.0) * COST[0]
    while killed.is_alive() and killed.cpu_seconds() < moment:
        time.sleep(0.002)
    killed.kill()
    killed.join()
    resumed(data, tmp_path / "out", whole)
