"""Fixtures shared by all areas."""

from __future__ import annotations

import locale
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch

from dcl_monai.networks import CompNet, DCLNet

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


@pytest.fixture
def conditional_net() -> DCLNet:
    torch.manual_seed(0)
    compnet = CompNet(
        "BasicUNet", num_classes=3, zero_conditions=False, spatial_dims=2, features=[4, 4, 8, 8, 8, 4], norm="batch"
    )
    net = DCLNet(compnet)
    net.bank.fill(torch.randn(3, 4, 1, 32, 32), torch.rand(3, 4, 32, 32) > 0.5, torch.ones(3, 4) > 0)
    return net.eval()


@pytest.fixture
def conditional_model(tmp_path, conditional_net) -> Path:
    """An older model file: three classes, another network and another grid than the bundle's default."""
    path = tmp_path / "conditional.pt"
    settings = {"classes": ["background", "MYO", "LV"], "pixdim": [4.0, 4.0, -1], "spatial_size": [32, 32, -1]}
    settings |= {"network": conditional_net.compnet.settings}
    torch.save({"model": conditional_net.state_dict(), "settings": settings}, path)
    return path
