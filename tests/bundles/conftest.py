from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import write_squares
from monai.bundle import ConfigParser

from dcl_monai.synthetic import write_synthetic_acdc

ROOT = Path(__file__).parents[2]
SUBJECTS = 12
SMALL = {"split": [8, 2, 2], "pixdim": [5.0, 5.0, -1], "spatial_size": [40, 40, -1], "batch_size": 4, "bank_size": 3}
SMALL |= {"stage1_epochs": 1, "stage2_epochs": 1, "val_interval": 1, "device": "$torch.device('cpu')"}
SMALL |= {"network_def#compnet#features": [4, 4, 8, 8, 8, 4]}


@pytest.fixture(scope="session")
def synthetic_acdc(tmp_path_factory) -> Path:
    return write_synthetic_acdc(tmp_path_factory.mktemp("acdc"), num_subjects=SUBJECTS, progress=False)


@pytest.fixture(scope="session")
def small_settings() -> dict[str, Any]:
    return dict(SMALL)


@pytest.fixture(scope="session")
def squares(tmp_path_factory) -> Path:
    """In place of hearts, where a test reads all files and learns nothing."""
    return write_squares(tmp_path_factory.mktemp("squares"), SUBJECTS, depth=3)


@pytest.fixture
def parse(squares, tmp_path, monkeypatch) -> Callable[..., ConfigParser]:
    """Parse the training configuration of a bundle with overlays of `configs/`, small enough for a test."""
    monkeypatch.chdir(ROOT)

    def make(*overlays: str, bundle: str = "acdc", **override: Any) -> ConfigParser:
        parser = ConfigParser()
        parser.read_config([f"bundles/{bundle}/configs/train.json", *overlays])
        parser.update(SMALL | {"pixdim": [1.0, 1.0, -1], "spatial_size": [32, 32, -1], "dataset_dir": str(squares)})
        parser.update({"output_dir": str(tmp_path / "output")})
        parser.update({"model_file": str(tmp_path / "model.pt")} | override)
        return parser

    return make
