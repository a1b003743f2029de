from __future__ import annotations

import csv
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.data import DataLoader, Dataset, MetaTensor
from monai.engines import SupervisedEvaluator
from monai.networks import one_hot
from torch import nn

from dcl_monai.datalist import prediction_name
from dcl_monai.handlers import ConfusionTable, SavePredictions, SurfaceTable
from dcl_monai.transforms import EncodeCandidates, ExpandCandidates

CLASSES = ["background", "RV", "LV"]
AFFINE = torch.diag(torch.tensor([2.0, 2.0, 5.0, 1.0], dtype=torch.float64))
TRUTH = torch.zeros(8, 8, 3, dtype=torch.int64)
TRUTH[1:4, 1:6, 1], TRUTH[5:7, 1:6, 1] = 1, 2
WRONG = torch.where(TRUTH == 2, 1, TRUTH)  # the LV is taken for the RV


def volume(pred: torch.Tensor, subject: str, annotated: list | None = None) -> dict:
    label = ExpandCandidates(3)(EncodeCandidates(3)(TRUTH.unsqueeze(0), annotated))
    image = MetaTensor(pred.unsqueeze(0).float(), affine=AFFINE)
    return {"image": image, "label": label, "subject": subject, "dataset": "A", "case": f"{subject}/1", "phase": "ED"}


@pytest.fixture
def tables(tmp_path):
    class Told(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return one_hot(x, 3)

    def evaluate(*items: dict) -> dict[str, list[dict[str, str]]]:
        paths = {name: tmp_path / "out" / f"{name}.csv" for name in ("surface", "confusion")}
        SupervisedEvaluator(
            "cpu",
            DataLoader(Dataset(list(items)), batch_size=1),
            Told(),
            val_handlers=[
                SurfaceTable(CLASSES, str(paths["surface"])),
                ConfusionTable(CLASSES, str(paths["confusion"])),
                SavePredictions(str(tmp_path / "predictions")),
            ],
        ).run()
        return {name: list(csv.DictReader(path.open(encoding="utf-8"))) for name, path in paths.items()}

    return evaluate


def test_surface(tables):
    lines = tables(volume(TRUTH, "good"), volume(WRONG, "bad"))["surface"]
    found = {(line["subject"], line["structure"]): (line["hd95"], line["assd"]) for line in lines}
    assert found["good", "RV"] == found["good", "LV"] == ("0.0000", "0.0000")
    assert found["bad", "LV"] == ("inf", "inf")
    assert float(found["bad", "RV"][0]) > 2.0, "in mm"
    assert {line["case"] for line in lines} == {"good/1", "bad/1"}


def test_what_is_not_known_has_no_line(tables):
    lines = tables(volume(TRUTH, "partial", annotated=[1]))["surface"]
    assert [line["structure"] for line in lines] == ["RV"]


def test_confusion(tables):
    lines = tables(volume(WRONG, "bad"))["confusion"]
    found = {(line["truth"], line["predicted"]): float(line["ml"]) for line in lines}
    assert len(found) == 9
    voxel = 2 * 2 * 5 / 1000
    assert found["RV", "RV"] == pytest.approx(15 * voxel)
    assert found["LV", "RV"] == pytest.approx(10 * voxel)
    assert found["LV", "LV"] == 0
    assert sum(found.values()) == pytest.approx(TRUTH.numel() * voxel)


def test_confusion_counts_known_voxels_only(tables):
    lines = tables(volume(WRONG, "partial", annotated=[1]))["confusion"]
    assert sum(float(line["ml"]) for line in lines) == pytest.approx(15 * 0.02)


def test_predictions(tables, tmp_path):
    item = volume(WRONG, "p/../1")
    tables(item)
    (path,) = (tmp_path / "predictions").iterdir()
    assert path.name == prediction_name(item)
    assert Path(path.name).name == path.name
    image = nib.load(path)
    assert np.array_equal(np.asarray(image.dataobj), WRONG.numpy())
    assert image.header.get_zooms() == (2.0, 2.0, 5.0)
