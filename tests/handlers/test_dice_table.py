from __future__ import annotations

import csv
import logging
import re
import warnings
from pathlib import Path

import pytest
import torch
from monai.data import DataLoader, Dataset
from monai.engines import SupervisedEvaluator
from monai.networks import one_hot
from torch import nn

from dcl_monai.handlers import DiceTable, PartialMeanDice
from dcl_monai.transforms import EncodeCandidates, ExpandCandidates

CLASSES = ["background", "RV", "MYO", "LV"]
UNIONS = {"whole heart": [1, 2, 3]}
TRUTH = [0, 0, 1, 2, 2, 3]
GOOD = TRUTH  # every Dice is 1
POOR = [0, 0, 0, 2, 1, 1]  # RV 0, MYO 2/3, LV 0; whole heart 6/7
DASH = "\N{EN DASH}"


def volume(pred: list[int], annotated: list | None = None, **noted: str) -> dict:
    """An item of one row of voxels, whose image tells the network what to predict."""
    label = ExpandCandidates(4)(EncodeCandidates(4)(torch.tensor([[TRUTH]]), annotated))
    return {"image": torch.tensor([[pred]]), "label": label, **noted}


@pytest.fixture
def table(tmp_path, caplog):
    """Evaluate volumes; return the lines of the logged table and the rows of the CSV file."""

    class Told(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return one_hot(x, 4)

    def evaluate(items: list[dict], unions: dict | None = UNIONS) -> tuple[list[str], list[dict[str, str]]]:
        path = tmp_path / "made" / "dice.csv"
        dice = PartialMeanDice(
            CLASSES, unions, lambda batch: tuple([i[key] for i in batch] for key in ("pred", "label"))
        )
        evaluator = SupervisedEvaluator(
            "cpu",
            DataLoader(Dataset(items), batch_size=1),
            Told(),
            key_val_metric={"test_dice": dice},
            val_handlers=[DiceTable(CLASSES, str(path), unions=unions)],
        )
        with caplog.at_level(logging.INFO), warnings.catch_warnings():
            warnings.filterwarnings("error", category=RuntimeWarning)  # "Mean of empty slice"
            evaluator.run()
        text = next(r.getMessage() for r in caplog.records if r.getMessage().startswith("test results"))
        with path.open(newline="", encoding="utf-8") as file:
            return text.splitlines()[1:], list(csv.DictReader(file))

    return evaluate


def cells(lines: list[str]) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


def test_hospitals(table):
    """One drew the RV, one the myocardium, one only the whole heart."""
    lines, _ = table(
        [
            volume(GOOD, [1], subject="north/1", dataset="north"),
            volume(POOR, [1], subject="north/2", dataset="north"),
            volume(POOR, [2], subject="south/1", dataset="south"),
            volume(POOR, [[1, 2, 3]], subject="east/1", dataset="east"),
        ]
    )
    assert cells(lines) == [
        ["Dice", "volumes", "RV", "MYO", "LV", "mean", "whole heart"],
        ["east", "1", DASH, DASH, DASH, DASH, "0.857 ± 0.000"],
        ["north", "2", "0.500 ± 0.500", DASH, DASH, "0.500", DASH],
        ["south", "1", DASH, "0.667 ± 0.000", DASH, "0.667", DASH],
        ["all", "4", "0.500 ± 0.500", "0.667 ± 0.000", DASH, "0.583", "0.857 ± 0.000"],
    ]
    assert len({len(line) for line in lines}) == 1, "the columns are in line"


def test_phases(table):
    lines, rows = table([volume(GOOD, subject="p1", phase="ES"), volume(POOR, subject="p1", phase="ED")], unions=None)
    assert cells(lines) == [
        ["Dice", "volumes", "RV", "MYO", "LV", "mean"],
        ["ED", "1", "0.000 ± 0.000", "0.667 ± 0.000", "0.000 ± 0.000", "0.222"],
        ["ES", "1", "1.000 ± 0.000", "1.000 ± 0.000", "1.000 ± 0.000", "1.000"],
        ["all", "2", "0.500 ± 0.500", "0.833 ± 0.167", "0.500 ± 0.500", "0.611"],
    ]
    assert list(rows[0]) == ["subject", "phase", "RV", "MYO", "LV"]


def test_data_sets_and_phases_of_some(table):
    """A data set without phases is in no row of a phase."""
    lines, _ = table(
        [
            volume(GOOD, subject="a/1", dataset="a", phase="ED"),
            volume(POOR, subject="a/1", dataset="a", phase="ES"),
            volume(POOR, subject="b/1", dataset="b"),
        ]
    )
    assert [row[:3] for row in cells(lines)[1:]] == [
        ["a", "2", "0.500 ± 0.500"],
        ["b", "1", "0.000 ± 0.000"],
        ["ED", "1", "1.000 ± 0.000"],
        ["ES", "1", "0.000 ± 0.000"],
        ["all", "3", "0.333 ± 0.471"],
    ]


def test_one_data_set_needs_no_row(table):
    lines, _ = table([volume(GOOD, subject=name, dataset="a") for name in ("1", "2")])
    assert [row[0] for row in cells(lines)] == ["Dice", "all"]


def test_unknown_unions_have_no_column(table):
    lines, rows = table([volume(POOR, [1], subject="1")])
    assert cells(lines)[0] == ["Dice", "volumes", "RV", "MYO", "LV", "mean"]
    assert rows[0]["whole heart"] == ""


def test_csv(table):
    _, rows = table(
        [
            volume(POOR, subject="a/1", dataset="a", case="1/x.nii.gz", phase="ED"),
            volume(POOR, [[1, 2, 3]], subject="b/1", dataset="b", case="y.nii.gz"),
        ]
    )
    assert rows == [
        {"dataset": "a", "subject": "a/1", "phase": "ED", "case": "1/x.nii.gz"}
        | {"RV": "0.000000", "MYO": "0.666667", "LV": "0.000000", "whole heart": "0.857143"},
        {"dataset": "b", "subject": "b/1", "phase": "", "case": "y.nii.gz"}
        | {"RV": "", "MYO": "", "LV": "", "whole heart": "0.857143"},
    ]


def test_wide_tables_go_on_below(tmp_path: Path):
    classes = [f"{name}_of_the_left_heart" for name in "abcdefgh"]
    handler = DiceTable(["background", *classes], str(tmp_path / "dice.csv"), unions={"whole heart": [1, 2]})
    handler.cases = [{"subject": "1", "dataset": "north"}, {"subject": "2", "dataset": "hospital_of_the_east"}]
    blocks = handler.summary(torch.full((2, 9), 0.5).numpy()).split("\n\n")
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 120
    assert all(cells(block.splitlines())[0][0] == "Dice" for block in blocks)
    assert all(cells(block.splitlines())[2][0] == "north" for block in blocks)
    headers = [name for block in blocks for name in cells(block.splitlines())[0][1:]]
    assert headers == ["volumes", *classes, "mean", "whole heart"]
    values = [cell for block in blocks for cell in cells(block.splitlines())[-1][1:]]
    assert values == ["2", *["0.500 ± 0.000"] * 8, "0.500", "0.500 ± 0.000"]
