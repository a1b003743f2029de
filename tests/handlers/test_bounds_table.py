"""A table of whether the bounds of a model hold on test volumes."""

from __future__ import annotations

import csv

import pytest
import torch
from ignite.engine import Engine

from dcl_monai.handlers import BoundsTable
from dcl_monai.metrics import Measured, calibrate_bounds

BOUNDS = calibrate_bounds({"LV": [Measured(k, 0.9, 0.9 - 0.01 * k, 4e-3, 4e-3) for k in range(9)]})


def outputs(probability: float) -> list[dict[str, torch.Tensor]]:
    """Four voxels of the LV, of which the prediction finds three and a wrong one."""
    true = torch.tensor([0, 1, 1, 1, 1, 0])
    pred = torch.tensor([1, 1, 1, 1, 0, 0])
    one_hot, label = (torch.nn.functional.one_hot(x, 2).T.reshape(2, 6, 1, 1) for x in (pred, true))
    probabilities = one_hot * probability + (1 - one_hot) * (1 - probability)
    return [{"pred": one_hot.float(), "label": label.bool(), "probabilities": probabilities}]


@pytest.mark.parametrize(("probability", "holds"), [(0.7, "1"), (1.0, "0")])
def test_table(tmp_path, probability, holds):
    engine = Engine(lambda _, batch: outputs(probability))
    BoundsTable(["background", "LV"], str(tmp_path / "bounds.csv"), BOUNDS).attach(engine)
    engine.run([[{"subject": "a", "case": "x"}]])
    with (tmp_path / "bounds.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["subject"], row["structure"], float(row["dice"])) == ("a", "LV", 0.75)
    assert float(row["confidence"]) == pytest.approx(
        2 * 4 * probability / (4 + 4 * probability + 2 * (1 - probability)), abs=1e-4
    )
    assert float(row["dice_bound"]) == pytest.approx(float(row["confidence"]) - 0.08, abs=2e-3)
    assert (row["dice_holds"], row["volume_holds"]) == (holds, "1")


def test_a_model_without_bounds_has_no_table(tmp_path):
    engine = Engine(lambda _, batch: outputs(1.0))
    BoundsTable(["background", "LV"], str(tmp_path / "bounds.csv"), None).attach(engine)
    engine.run([[{"subject": "a"}]])
    assert not (tmp_path / "bounds.csv").exists()
