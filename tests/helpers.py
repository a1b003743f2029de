"""What tests of several rooms share, beside the fixtures of `conftest.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

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


def run_bundle(*words: str, **override: object) -> str:
    """Run `python -m monai.bundle` in the repository; returns what it prints."""
    line = [sys.executable, "-W", "ignore", "-m", "monai.bundle", *words]
    for key, value in override.items():
        line += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
    done = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


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
