"""Datalists whose training labels are predictions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from dcl_monai.utils import DataError

from .items import SPECIFICATION, Datalist, Item
from .load import write_datalist

NAME = "datalist.json"


def prediction_name(item: Item) -> str:
    """Name of the file with the prediction of an item: its data set and case, without what a path may not hold."""
    name = "_".join(part for part in (item.get("dataset"), item.get("case")) if part) or item["subject"]
    return re.sub(r"[^\w.+-]+", "_", name) + ".nii.gz"


def pseudo_datalist(datalist: Datalist, folder: str | Path) -> Datalist:
    """
    Replace the labels of the training images by predictions, and write the datalist beside them.

    Args:
        datalist: the datalist the predictions were made of.
        folder: folder with the predictions, value j for class j, named by :func:`prediction_name`; for pseudo-labels
            they are compatible with what is known (:class:`~dcl_monai.transforms.RestrictToCandidates`).

    Returns:
        the datalist, with training labels that look full.

    Raises:
        DataError: when a prediction is missing.
    """
    classes = list(range(len(datalist["classes"])))
    training: list[Item] = []
    for item in datalist["training"]:
        label = Path(folder) / prediction_name(item)
        if not label.is_file():
            raise DataError(f"{label}: the prediction of {item['image']} is missing. Make the predictions again.")
        kept = cast(Item, {key: value for key, value in item.items() if key not in SPECIFICATION})
        training.append({**kept, "label": str(label), "values": {j: [j] for j in classes}, "annotated": classes})
    result: Datalist = {**datalist, "training": training}
    write_datalist(result, Path(folder) / NAME)
    return result
