"""Bounds by hand, and their coverage where the assumptions hold and where they do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dcl_monai.metrics import (
    Measured,
    calibrate_bounds,
    conformal_quantile,
    expected_dice,
    measure_structures,
    structure_bounds,
)


def test_expected_dice_by_hand():
    probabilities = torch.tensor([[0.1, 0.3, 1.0, 1.0], [0.9, 0.7, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    labels = torch.tensor([1, 1, 0, 0])
    #             background: 2 * 2 / (2 + 2.4), class 1: 2 * 1.6 / (2 + 1.6), class 2 is nowhere for sure
    assert expected_dice(probabilities, labels) == pytest.approx([4 / 4.4, 3.2 / 3.6, 1.0])


def test_measured_where_it_was_drawn():
    probabilities = torch.eye(3)[:, [0, 1, 1, 2, 0]]
    candidates = torch.tensor([[1, 0, 1, 1, 1], [0, 1, 0, 0, 0], [1, 0, 1, 1, 1]]).bool()  # class 1 was drawn
    (found,) = measure_structures(probabilities, probabilities.argmax(0), candidates, 0.5, "a").items()
    assert found == (1, Measured("a", 1.0, pytest.approx(2 / 3), 1.0, 0.5))


@pytest.mark.parametrize(("number", "expected"), [(8, None), (9, 9), (19, 18), (99, 90)])
def test_quantile_counts_the_new_subject(number, expected):
    scores = list(range(1, number + 1))
    assert conformal_quantile(scores, scores, 0.9) == expected


def test_subjects_count_alike_however_many_images_they_have():
    scores, subjects = [1.0] * 100 + [2.0] * 9, ["one"] * 100 + list("abcdefghi")
    assert conformal_quantile(scores, subjects, 0.9) == 2.0
    assert conformal_quantile(scores, subjects, 0.05) == 1.0


def population(number: int, seed: int, hard: bool = False) -> list[Measured]:
    """Subjects of whom the network promises more than it keeps, more so of hard ones."""
    rng = np.random.default_rng(seed)
    difficulty = rng.uniform(0.5 if hard else 0, 1, number)
    confidence = 0.95 - 0.1 * difficulty
    dice = np.clip(confidence - difficulty * rng.exponential(0.1, number), 0, 1)
    true = rng.lognormal(4, 0.4, number)
    predicted = true * np.exp(difficulty * rng.normal(0, 0.2, number))
    columns = zip(confidence, dice, predicted, true, strict=True)
    return [Measured(k, *map(float, values)) for k, values in enumerate(columns)]


def coverage(calibration: list[Measured], test: list[Measured]) -> np.ndarray:
    """Part of the test subjects for whom the bound of Dice and the interval of volume hold."""
    bounds = calibrate_bounds({"LV": calibration})
    held = []
    for case in test:
        bound = structure_bounds(bounds, "LV", case.confidence, case.predicted_ml)
        assert bound is not None
        low, high = bound["volume_ml"]
        held.append((case.dice >= bound["dice"] - 5e-4, low - 1e-3 <= case.true_ml <= high + 1e-3))
    return np.mean(held, axis=0)


def test_bounds_hold_as_often_as_promised_and_not_on_other_subjects():
    held = np.mean([coverage(population(40, seed), population(500, 1000 + seed)) for seed in range(20)], axis=0)
    assert (abs(held - 0.9) < 0.03).all()
    hard = np.mean([coverage(population(40, seed), population(500, 1000 + seed, True)) for seed in range(20)], axis=0)
    assert (hard < 0.88).all()


def test_too_few_subjects_have_no_bounds():
    bounds = calibrate_bounds({"LV": population(8, 0), "RV": []})
    assert bounds["structures"] == {"LV": {"subjects": 8, "images": 8}, "RV": {"subjects": 0, "images": 0}}
    assert structure_bounds(bounds, "LV", 0.9, 100.0) is None
    assert structure_bounds(bounds, "MYO", 0.9, 100.0) is None


def test_what_is_unlike_the_calibration_is_marked():
    bounds = calibrate_bounds({"LV": population(20, 0)})
    assert structure_bounds(bounds, "LV", 0.9, 60.0)["unlike"] == []
    first, second = structure_bounds(bounds, "LV", 0.5, 1.0)["unlike"]
    assert first.startswith("confidence 0.50, at calibration 0.8")
    assert second.startswith("1 ml, at calibration ")
    assert structure_bounds(bounds, "LV", 0.9, 0.0)["dice"] == 0.0
