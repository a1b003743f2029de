"""Calibrating the bounds of a model, on images in which a structure was drawn and that its folds did not see."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from dcl_monai.datalist.items import annotations_of, decided_classes
from dcl_monai.metrics import Measured, calibrate_bounds, measure_structures
from dcl_monai.networks import load_model, save_model
from dcl_monai.utils import DataError
from dcl_monai.utils.images import voxel_ml

from .crossfit import CrossFit
from .writers import open_geometry

logger = logging.getLogger(__name__)


def calibrate_model(crossfit: CrossFit, model_file: str | Path, level: float = 0.9) -> dict[str, Any]:
    """
    Calibrate the bounds of a bundle's model, and write them into it.

    Test images of the datalist are left out, so that the bounds can be tested on them.

    Args:
        crossfit: models that did not see the images; the bundle's model, trained like them on more, keeps their bounds.
        model_file: the bundle's model; its weights stay as they are.
        level: probability with which every bound is to hold.

    Returns:
        the bounds, see :func:`~dcl_monai.metrics.calibrate_bounds`.

    Raises:
        DataError: when there is no model, or it was trained for other classes.
    """
    if not 0.5 <= level < 1:
        raise DataError(f"--level {level}: must be at least 0.5 and below 1. Choose one such as 0.9.")
    if crossfit.fast:
        raise DataError("--fast: bounds need models that did not see the images. Leave --fast out.")
    content = load_model(model_file)
    if content["settings"].get("classes", crossfit.classes) != crossfit.classes:
        trained = ", ".join(content["settings"]["classes"])
        raise DataError(
            f"{model_file}: segments {trained}, but {crossfit.source} has {', '.join(crossfit.classes)}. Give the "
            "datalist of its training."
        )
    crossfit.train()
    measured: dict[str, list[Measured]] = {name: [] for name in crossfit.classes[1:]}
    items = [item for split in ("training", "validation") for item in crossfit.datalist[split]]  # type: ignore[literal-required]
    number = len(crossfit.classes)
    drawn = [item for item in items if annotations_of(item) and set(decided_classes(item, number)) - {0}]
    for item in tqdm(drawn, desc="calibrating", unit="image", disable=None):
        voxel = voxel_ml(open_geometry(item["image"]))
        found = crossfit.predict(item)
        cases = measure_structures(found.probabilities, found.labels(), found.candidates, voxel, item["subject"])
        for j, case in cases.items():
            measured[crossfit.classes[j]].append(case)
    bounds = calibrate_bounds(measured, level)
    state = {name: value for name, value in content["model"].items() if isinstance(value, torch.Tensor)}
    save_model(state, {**content["settings"], "bounds": bounds}, model_file)
    return bounds
