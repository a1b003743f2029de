from __future__ import annotations

import pytest
import torch
from ignite.engine import State
from monai.engines import SupervisedEvaluator
from torch import nn

from dcl_monai.handlers import PartialMeanDice

CLASSES = ["background", "a", "b"]


def evaluate(labels: list[torch.Tensor], unions: dict[str, list[int]] | None = None) -> State:
    """The prediction is class 1 in the left half and class 0 in the right half of 1 x 4 pixels."""
    prediction = torch.tensor([[[[0.0, 0, 1, 1]], [[1, 1, 0, 0]], [[0, 0, 0, 0]]]])

    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return prediction

    batches = [{"image": torch.zeros(1, 1, 1, 4), "label": label} for label in labels]
    metric = PartialMeanDice(
        CLASSES, unions, output_transform=lambda items: ([i["pred"] for i in items], [i["label"] for i in items])
    )
    evaluator = SupervisedEvaluator("cpu", batches, Fixed(), key_val_metric={"val_dice": metric})
    evaluator.run()
    return evaluator.state


def only(annotated: int | list[int], inside: list[bool]) -> torch.Tensor:
    """Candidate sets where one class, or one union, is drawn."""
    own = torch.isin(torch.arange(3), torch.tensor(annotated))
    columns = [own if there else ~own for there in inside]
    return torch.stack(columns, dim=1)[None, :, None, :]


def test_class_counts_only_where_it_is_annotated():
    metrics = evaluate([only(1, [True, False, False, False]), only(1, [True, True, False, False])]).metrics
    assert metrics["val_dice_a"] == pytest.approx((2 / 3 + 1) / 2)
    assert "val_dice_b" not in metrics, "nobody annotated b: neither 0 nor nan"
    assert metrics["val_dice"] == metrics["val_dice_a"]


def test_missed_class_is_zero_when_it_is_annotated():
    metrics = evaluate([only(1, [True, True, False, False]), only(2, [False, False, False, True])]).metrics
    assert metrics["val_dice_a"] == 1.0
    assert metrics["val_dice_b"] == 0.0
    assert metrics["val_dice"] == 0.5


def test_unions_stand_beside_the_classes():
    labels = [only(1, [True, False, False, False]), only([1, 2], [True, True, True, True])]
    state = evaluate(labels, {"both": [1, 2], "never drawn": [0, 1]})
    assert state.metrics == {
        "val_dice_a": pytest.approx(2 / 3),
        "val_dice_both": pytest.approx(2 * 2 / (2 + 4)),
        "val_dice": pytest.approx(2 / 3),
    }
    nan = float("nan")
    expected = torch.tensor([[2 / 3, nan, nan, nan], [nan, nan, 2 / 3, nan]])
    torch.testing.assert_close(state.metric_details["val_dice"], expected, equal_nan=True)


def test_union_alone_gives_a_score():
    metrics = evaluate([only([1, 2], [True, True, True, True])], {"both": [1, 2]}).metrics
    assert metrics == {"val_dice_both": pytest.approx(2 / 3), "val_dice": pytest.approx(2 / 3)}
