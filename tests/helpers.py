"""What tests of several rooms share, beside the fixtures of `conftest.py`."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.bundle import ConfigWorkflow
from monai.data import MetaTensor

from dcl_monai.candidates import candidate_sets, from_bits
from dcl_monai.utils import DataError

ROOT = Path(__file__).parents[1]
DEEP_NET: dict[str, Any] = {
    "backbone": "DynUNet",
    "spatial_dims": 3,
    "kernel_size": [3, 3, 3],
    "strides": [1, 2, 2],
    "upsample_kernel_size": [2, 2],
    "filters": [4, 4, 8],
    "divisor": 4,
    "deep_supervision": True,
    "deep_supr_num": 1,
}
"""A small network with heads of deep supervision."""
PLANNED_NET: dict[str, Any] = DEEP_NET | {
    "kernel_size": [[3, 3, 1], [3, 3, 3], [3, 3, 3]],
    "strides": [[1, 1, 1], [2, 2, 1], [2, 2, 2]],
    "upsample_kernel_size": [[2, 2, 1], [2, 2, 2]],
    "filters": [4, 8, 8],
    "divisor": [4, 4, 2],
}
"""The same as a plan would have it: one axis is halved less often than the others."""


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["dcl_monai.bundle", "dcl_monai.handlers", "torch._dynamo", "torch.utils.tensorboard"])


class Forked(FORKS.Process):
    """`python -W ignore` with these words, from a process that has imported what takes seconds; started in `cwd`."""

    def __init__(self, *words: object, cwd: Path = ROOT, **variables: str) -> None:
        super().__init__()
        self.words, self.cwd, self.variables = [*map(str, words)], str(cwd), variables
        self.folder = tempfile.mkdtemp()
        self.start()
        atexit.register(self.kill)  # Python waits for it otherwise, if a test failed

    def run(self) -> None:
        """In the new process."""
        for number, name in enumerate(("stdout", "stderr"), start=1):
            os.dup2(os.open(f"{self.folder}/{name}", os.O_WRONLY | os.O_CREAT), number)
        os.chdir(self.cwd)
        os.environ.update(self.variables)
        multiprocessing.set_start_method(multiprocessing.get_all_start_methods()[0], force=True)
        # a suite in the background of a shell hands down that Ctrl-C is ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        # workflows of other tests have left their bundles on Python's path
        sys.path[:] = [self.cwd, *(path for path in sys.path if not os.path.isfile(f"{path}/configs/metadata.json"))]
        first, *rest = self.words
        sys.argv = rest if first in ("-m", "-c") else self.words
        try:
            if first == "-m":
                runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
            elif first == "-c":
                exec(rest[0], {"__name__": "__main__"})
            else:
                sys.path.insert(0, os.path.dirname(first))
                runpy.run_path(first, run_name="__main__")
        except Exception:
            sys.excepthook(*sys.exc_info())
            sys.exit(1)

    def wait(self) -> subprocess.CompletedProcess[str]:
        """How it ended, and what it printed."""
        self.join(600)
        assert self.exitcode is not None, "it hangs"
        printed = self.printed("stdout"), self.printed("stderr")
        shutil.rmtree(self.folder)
        atexit.unregister(self.kill)
        return subprocess.CompletedProcess(self.words, self.exitcode, *printed)

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for something that it does; returns what the condition gives."""
        deadline = time.monotonic() + 240
        while not (found := condition()):
            assert self.is_alive(), self.printed("stderr")[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return found

    def printed(self, stream: str) -> str:
        """What it has printed so far."""
        path = Path(self.folder) / stream
        return path.read_text(encoding="utf-8") if path.exists() else ""


def command_line(*words: str, **options: object) -> list[str]:
    """What follows `python`: `-m monai.bundle` with these words and options."""
    given = [(f"--{key}", value if isinstance(value, str) else json.dumps(value)) for key, value in options.items()]
    return ["-m", "monai.bundle", *words, *chain.from_iterable(given)]


def run_bundle(*words: str, cwd: Path = ROOT, **options: object) -> str:
    """Run `python -m monai.bundle` to a good end; returns what it prints."""
    done = Forked(*command_line(*words, **options), cwd=cwd).wait()
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def refused_bundle(*words: str, **options: object) -> str:
    """The one line of error that `python -m monai.bundle` ends with."""
    done = Forked(*command_line(*words, **options)).wait()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return error


def refusal(call: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    """The one line of the error that a call ends in."""
    with pytest.raises(DataError) as error:
        call(*args, **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


def voxel_sets(label: MetaTensor) -> list[tuple[int, ...]]:
    """The candidate set of every voxel, in order."""
    sets = candidate_sets(label)
    return [from_bits(sets[int(code)]) for code in label.flatten().tolist()]


def open_workflow(kind: str, *files: str | Path, **settings: Any) -> ConfigWorkflow:
    """A workflow of MONAI of these config files, initialized in this process."""
    workflow = ConfigWorkflow(config_file=[*map(str, files)], logging_file=False, workflow_type=kind, **settings)
    workflow.initialize()
    return workflow


def write_squares(root: Path, patients: int, depth: int) -> Path:
    """A folder like ACDC: nested squares whose place and size differ."""
    rng = np.random.default_rng(0)
    for patient in range(patients):
        folder = root / f"patient{patient + 1:03d}"
        folder.mkdir(parents=True)
        (folder / "Info.cfg").write_text("ED: 1\nES: 2\nGroup: NOR\n")
        for frame in (1, 2):
            label = np.zeros((32, 32, depth), np.uint8)
            x, y, half = rng.integers(13, 19), rng.integers(13, 19), rng.integers(7, 11)
            for value, size in ((1, half), (2, half - 3), (3, half - 5)):
                label[x - size : x + size, y - size : y + size] = value
            image = (100 * label + rng.normal(0, 10, label.shape) + 200).astype(np.int16)
            stem = folder / f"{folder.name}_frame{frame:02d}"
            nib.save(nib.Nifti1Image(image, np.eye(4)), f"{stem}.nii.gz")
            nib.save(nib.Nifti1Image(label, np.eye(4)), f"{stem}_gt.nii.gz")
    return root


def assert_same(a: object, b: object, where: str) -> None:
    """Whether two states are equal, tensor by tensor and bit for bit."""
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for index, pair in enumerate(zip(a, b, strict=True)):
            assert_same(*pair, f"{where}/{index}")
    else:
        assert a == b, where
