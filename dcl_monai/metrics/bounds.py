"""A number to trust: what Dice and volume of a segmentation are at least, with a stated probability.

Split conformal prediction. A prediction of a model that did not see the image has a confidence, the Dice that its own
probabilities promise (:func:`expected_dice`). Where the structure was drawn, the true Dice is known, too. How much the
promise was too high there, at the quantile that the level demands, is taken off every later promise.

Images of one subject resemble each other, so that the subjects count alike and not the images (Lee, Barber and Willett,
Distribution-free inference with hierarchical data, 2023). The bound holds for new subjects that are like those of the
calibration, on average over them, and not for each kind of subject.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from dcl_monai.candidates import known, known_positive

OFFSET = 0.05
"""Part of the median volume that is added to volumes before they are compared: those near zero have no ratio."""


class Measured(NamedTuple):
    """
    A structure of a calibration image, where it was drawn: who it is, the Dice that the probabilities promise, the true
    Dice, and the volumes of the prediction and of what was drawn.
    """

    subject: Hashable
    confidence: float
    dice: float
    predicted_ml: float
    true_ml: float


def expected_dice(probabilities: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """
    Dice of every class that the probabilities promise: twice the probability inside, over the size of both.

    Args:
        probabilities: class probabilities, (m, \\*spatial).
        labels: class indices of the prediction, (\\*spatial).

    Returns:
        a number per class; for one that the prediction does not have, the probability that it is nowhere, taken from
        the voxel where it is likeliest.
    """
    labels = labels.as_subclass(torch.Tensor)  # the bookkeeping of MetaTensor is slow
    result = []
    for j, probability in enumerate(probabilities.as_subclass(torch.Tensor)):
        inside = labels == j
        size = float(inside.sum())
        total = size + float(probability.double().sum())
        promised = 2 * float(probability[inside].double().sum()) / total if size else 1 - float(probability.max())
        result.append(min(max(promised, 0.0), 1.0))
    return result


def measure_structures(
    probabilities: torch.Tensor, labels: torch.Tensor, candidates: torch.Tensor, voxel: float, subject: Hashable
) -> dict[int, Measured]:
    """
    Compare a prediction with what was drawn.

    Args:
        probabilities: class probabilities, made as if nothing were drawn, (m, \\*spatial).
        labels: class indices of the prediction, (\\*spatial).
        candidates: boolean candidate sets, (m, \\*spatial).
        voxel: volume of a voxel in ml.
        subject: who it is.

    Returns:
        class -> what was measured, for structures that are annotated in the whole image, and there.
    """
    labels = labels.as_subclass(torch.Tensor)
    candidates = candidates.as_subclass(torch.Tensor).to(labels.device)
    decided, true = known(candidates, dim=0).flatten(1).all(1), known_positive(candidates, dim=0)
    confidence = expected_dice(probabilities, labels)
    found = {}
    for j in range(1, len(true)):
        size, predicted = float(true[j].sum()), labels == j
        if decided[j] and size:
            drawn = float(predicted.sum())
            dice = 2 * float((predicted & true[j]).sum()) / (drawn + size)
            found[j] = Measured(subject, confidence[j], dice, drawn * voxel, size * voxel)
    return found


def conformal_quantile(scores: Sequence[float], subjects: Sequence[Hashable], level: float) -> float | None:
    """
    The score that a new subject's stays below with a probability of at least ``level``.

    Args:
        scores: of the calibration images.
        subjects: whose they are; all subjects together count as many times as their number, one more is the new one.
        level: the probability.

    Returns:
        the score; ``None`` if there are too few subjects for the level: 9 are needed for 90%.
    """
    images = Counter(subjects)
    reached = 0.0
    for score, subject in sorted(zip(scores, subjects, strict=True), key=lambda pair: pair[0]):
        reached += 1 / (images[subject] * (len(images) + 1))
        if reached >= level - 1e-9:
            return score
    return None


def calibrate_bounds(measured: Mapping[str, Sequence[Measured]], level: float = 0.9) -> dict[str, Any]:
    """
    Calibrate.

    Args:
        measured: structure -> its calibration images.
        level: probability with which each bound is to hold.

    Returns:
        what :func:`structure_bounds` needs, of plain numbers: the settings of a model can hold it. A structure with
        too few subjects has their number alone.
    """
    structures: dict[str, Any] = {}
    for name, cases in measured.items():
        subjects = [case.subject for case in cases]
        entry: dict[str, Any] = {"subjects": len(set(subjects)), "images": len(cases)}
        volumes = sorted(case.true_ml for case in cases)
        offset = OFFSET * volumes[len(volumes) // 2] if volumes else 0.0
        margin = conformal_quantile([case.confidence - case.dice for case in cases], subjects, level)
        ratios = [abs(math.log((case.true_ml + offset) / (case.predicted_ml + offset))) for case in cases]
        factor = conformal_quantile(ratios, subjects, level)
        if margin is not None and factor is not None:
            predicted = [case.predicted_ml for case in cases]
            entry |= {
                "dice_margin": margin,
                "volume_factor": math.exp(factor),
                "volume_offset_ml": offset,
                "least_confidence": min(case.confidence for case in cases),
                "least_ml": min(predicted),
                "most_ml": max(predicted),
            }
        structures[name] = entry
    return {"level": level, "structures": structures}


def structure_bounds(
    bounds: Mapping[str, Any], name: str, confidence: float, volume_ml: float
) -> dict[str, Any] | None:
    """
    Bounds of a structure of a new image.

    Args:
        bounds: of :func:`calibrate_bounds`.
        name: the structure.
        confidence: Dice that the probabilities promise.
        volume_ml: predicted volume.

    Returns:
        ``dice``, the lower bound; ``volume_ml``, the interval; ``unlike``, what differs from all calibration images, so
        that the bounds need not hold; ``None`` for a structure with too few calibration subjects.
    """
    entry = bounds["structures"].get(name, {})
    if "dice_margin" not in entry:
        return None
    offset, factor = entry["volume_offset_ml"], entry["volume_factor"]
    unlike = []
    if confidence < entry["least_confidence"]:
        unlike.append(f"confidence {confidence:.2f}, at calibration {entry['least_confidence']:.2f} or more")
    if not entry["least_ml"] <= volume_ml <= entry["most_ml"]:
        limits = f"{entry['least_ml']:.3g} to {entry['most_ml']:.3g} ml"
        unlike.append(f"{volume_ml:.3g} ml, at calibration {limits}")
    dice = min(max(confidence - entry["dice_margin"], 0.0), 1.0) if volume_ml > 0 else 0.0
    low, high = (volume_ml + offset) / factor - offset, (volume_ml + offset) * factor - offset
    outward = [math.floor(max(low, 0.0) * 1e3) / 1e3, math.ceil(high * 1e3) / 1e3]
    return {"dice": math.floor(dice * 1e3) / 1e3, "volume_ml": outward, "unlike": unlike}
