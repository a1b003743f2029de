"""Fixtures shared by all areas."""

from __future__ import annotations

import locale
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch

torch.set_num_threads(1)  # the networks of the tests are tiny: more threads only get into each other's way


@pytest.fixture(autouse=True)
def utf8() -> None:
    """ITK sets the locale of the process to C when it reads NRRD, and torch.compile then cannot read its own files."""
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8")


@pytest.fixture
def write_nifti(tmp_path: Path) -> Callable[..., str]:
    """Write an array as a NIfTI file of the test's own folder and return its path."""

    def write(name: str, array: np.ndarray, affine: np.ndarray | None = None) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nib.save(nib.Nifti1Image(array, np.eye(4) if affine is None else affine), path)
        return str(path)

    return write
