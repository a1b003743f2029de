"""Fixtures shared by all areas."""

from __future__ import annotations

import locale
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
import yaml

from dcl_monai.networks import CompNet, DCLNet

ROOT = Path(__file__).parents[1]
OF_THE_USER = re.compile(re.escape(f"{ROOT}/bundles/") + r"\w+/(data|models|output)/(?!\.gitkeep)")
"""Files that a user's own runs leave in the bundles."""


def refuse_files_of_the_user(event: str, args: tuple[object, ...]) -> None:
    """No test depends on what somebody trained before in this clone: opening such a file is an error."""
    if event == "open" and isinstance(args[0], (str, Path)) and OF_THE_USER.match(os.path.abspath(args[0])):
        raise AssertionError(f"a test opens {args[0]}, which belongs to the user. Give it a path of its own.")


sys.addaudithook(refuse_files_of_the_user)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that in the end no process waits for the last of them."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session", autouse=True)
def bundles_stay_as_they_are() -> Iterator[None]:
    """The same for processes that a test starts: after the tests the bundles hold what they held before."""

    def content() -> dict[str, int]:
        files = [path for path in (ROOT / "bundles").rglob("*") if path.is_file()]
        return {str(path): path.stat().st_mtime_ns for path in files}

    before = content()
    yield
    assert content() == before, "a test wrote into bundles/. Give it --output_dir, --model_file and --dataset_dir."


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


VALUES = {"north": {0: "background", 1: "A"}, "south": {0: "background", 1: "B"}, "east": {0: "background", 1: "both"}}
SIZES = {2: ((40, 44, 5), (2.0, 2.0, 10.0)), 3: ((24, 28, 20), (1.0, 1.0, 1.0))}


@pytest.fixture(scope="session")
def hospitals(tmp_path_factory) -> Callable[[int], Path]:
    """Three hospitals that drew different structures, as slices or volumes; returns the file that describes them."""

    @cache
    def make(dims: int) -> Path:
        root, rng = tmp_path_factory.mktemp(f"hospitals{dims}"), np.random.default_rng(0)
        shape, spacing = SIZES[dims]
        for hospital in VALUES:
            for subject in range(5):
                x, y = shape[0] // 2 + rng.integers(-2, 3), shape[1] // 2 + rng.integers(-2, 3)
                label = np.zeros(shape, np.uint8)
                label[x - 8 : x, y - 6 : y + 6, 1:-1], label[x : x + 7, y - 6 : y + 6, 1:-1] = 1, 2
                drawn = {"north": label == 1, "south": label == 2, "east": label > 0}[hospital].astype(np.uint8)
                image = (rng.normal(300, 40, shape) + 200.0 * label).astype(np.float32)
                folder = root / hospital / f"p{subject}"
                folder.mkdir(parents=True)
                nib.save(nib.Nifti1Image(image, np.diag([*spacing, 1.0])), folder / "image.nii.gz")
                nib.save(nib.Nifti1Image(drawn, np.diag([*spacing, 1.0])), folder / "label.nii.gz")
        files = {"images": "{subject}/image.nii.gz", "labels": "{subject}/label.nii.gz"}
        datasets = {name: {"folder": name, **files, "values": values} for name, values in VALUES.items()}
        content = {"classes": ["background", "A", "B"], "unions": {"both": ["A", "B"]}, "split": [3, 1, 1]}
        (root / "own.yaml").write_text(yaml.safe_dump(content | {"datasets": datasets}))
        return root / "own.yaml"

    return make
