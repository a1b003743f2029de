"""Synthetic subjects, made once for all tests of the generators."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from dcl_monai.synthetic.short_axis import GROUPS, SyntheticSubject, synthesize_late_enhancement, synthesize_subject
from dcl_monai.synthetic.volume import SyntheticVolume
from dcl_monai.synthetic.whole_heart import synthesize_whole_heart

make_once = functools.cache(synthesize_subject)


@pytest.fixture(scope="session")
def subjects() -> list[SyntheticSubject]:
    """Twenty subjects imaged by cine, four of each group; tests must not change them."""
    return [make_once(100 + i, GROUPS[i % len(GROUPS)]) for i in range(20)]


@pytest.fixture(scope="session")
def stacks() -> list[SyntheticVolume]:
    """Ten subjects imaged by late enhancement, two of each group; tests must not change them."""
    return [synthesize_late_enhancement(100 + i, GROUPS[i % len(GROUPS)]) for i in range(10)]


@pytest.fixture(scope="session")
def whole_hearts() -> list[SyntheticVolume]:
    """Twelve whole hearts; tests must not change them."""
    return [synthesize_whole_heart(100 + i) for i in range(12)]


Pair = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="session")
def intensity_dice() -> Callable[[list[Pair], list[Pair]], dict[str, float]]:
    """Train histogram classifiers of the z-scored intensity and test them, see below."""

    def dice(prediction: np.ndarray, target: np.ndarray) -> float:
        return 2 * (prediction & target).sum() / (prediction.sum() + target.sum())

    def classify(train: list[Pair], test: list[Pair]) -> dict[str, float]:
        """Mean Dice over the structures, by decision rule; pairs are image and label map."""
        edges = np.linspace(-3, 6, 91)

        def binned(image: np.ndarray) -> np.ndarray:
            return np.digitize((image - image.mean()) / image.std(), edges)

        structures = range(1, 1 + max(labels.max() for _, labels in train))
        counts = np.zeros((1 + len(structures), len(edges) + 1))
        for image, labels in train:
            bins = binned(image)
            for value in (0, *structures):
                counts[value] += np.bincount(bins[labels == value], minlength=counts.shape[1])
        volumes = [(binned(image), labels) for image, labels in test]
        rules = {"posterior": counts.argmax(0), "likelihood": (counts / counts.sum(1, keepdims=True)).argmax(0)}
        scores = {
            rule: float(np.mean([dice(table[b] == value, t == value) for b, t in volumes for value in structures]))
            for rule, table in rules.items()
        }
        # For each class the set of intensities with the best Dice on the training subjects, overlaps allowed.
        best = []
        for value in structures:
            order = np.argsort(-counts[value] / np.maximum(counts.sum(0), 1))
            hits, size = np.cumsum(counts[value][order]), np.cumsum(counts.sum(0)[order])
            chosen = np.zeros(counts.shape[1], dtype=bool)
            chosen[order[: np.argmax(2 * hits / (size + counts[value].sum())) + 1]] = True
            best += [dice(chosen[b], t == value) for b, t in volumes]
        scores["best set"] = float(np.mean(best))
        return scores

    return classify
