"""Full labels from partial ones: what was drawn stays, the rest is filled within the candidate sets."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import ndimage
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from dcl_monai.candidates import known
from dcl_monai.inferers.report import RunReport, stamp
from dcl_monai.inferers.sheet import Case, draw_contact_sheets
from dcl_monai.metrics import expected_dice
from dcl_monai.utils import DataError
from dcl_monai.utils.errors import first_line, remedy
from dcl_monai.utils.images import voxel_ml
from dcl_monai.utils.locks import take_lock
from dcl_monai.visualize.viewer import Case as ViewCase
from dcl_monai.visualize.viewer import Layer, write_album

from .crossfit import CrossFit
from .predict import Prediction
from .writers import WRITERS, Writer, case_name, open_geometry, write_work_list

logger = logging.getLogger(__name__)
LOW = 0.7
"""Confidence below which a filled structure is pointed out."""
SHEET = 16
"""So many images, those with the least confident structures, are drawn."""


def fill_labels(prediction: Prediction) -> torch.Tensor:
    """
    Complete the label of an image: of every voxel the likeliest candidate.

    Of a structure of which the model keeps the largest part alone, other parts that hold nothing drawn go to the next
    candidate.

    Args:
        prediction: of the image.

    Returns:
        class indices, (H, W, D).
    """
    within = prediction.within_sets().masked_fill(~prediction.candidates, -1.0)
    labels, drawn = within.argmax(0), prediction.drawn
    for j in prediction.single_parts:
        parts, number = ndimage.label((labels == j).numpy())
        if number < 2:
            continue
        sizes = np.bincount(parts.ravel(), minlength=number + 1)
        sizes[0] = 0
        kept = {int(sizes.argmax()), *np.unique(parts[drawn.numpy()]).tolist()}
        stray = torch.from_numpy((parts > 0) & ~np.isin(parts, sorted(kept)))
        others = within.clone()
        others[j] = -1.0
        labels = torch.where(stray, others.argmax(0), labels)
    return labels


def complete_datalist(
    crossfit: CrossFit, out: str | Path, form: str = "nnunet", ignore: float | None = None, number: int = 1
) -> RunReport:
    """
    Complete the labels of all images, and write them as a data set with ``report.json`` and ``work_list.csv``.

    A run that was interrupted goes on. Nothing of another run is replaced.

    Args:
        crossfit: the models.
        out: folder to write.
        form: ``"nnunet"``, ``"decathlon"`` or ``"masks"``.
        ignore: voxels that are filled with this probability or less get nnU-Net's ignore label (the Decathlon's list:
            ``unlabelled``); 1: all that nobody drew; default: none.
        number: of nnU-Net's data set.

    Returns:
        the report.

    Raises:
        DataError: when the folder belongs to something else, or an image cannot be completed.
    """
    out = Path(out)
    if form == "masks" and ignore is not None:
        raise DataError("--ignore: masks have no value for it. Choose --format nnunet or decathlon.")
    if ignore is not None and not 0 < ignore <= 1:
        raise DataError(f"--ignore {ignore}: is not a probability. Choose a number above 0, up to 1.")
    writer = WRITERS[form](out, crossfit.datalist, Path(crossfit.source).stem, modality_of(crossfit.bundle), number)
    if not crossfit.items:
        raise DataError(f"{crossfit.source}: names no image. Add images to complete.")
    refuse_other(out)
    try:
        lock = take_lock(out)
    except OSError as error:
        raise DataError(f"{out}: cannot be written ({first_line(error)}). {remedy(error)}") from error
    if lock is None:
        raise DataError(f"{out}: another run is writing to it. Wait until it ends, or set another --out.")
    try:
        crossfit.train()
        settings = {"format": form, "ignore": ignore, "number": number, **crossfit.described()}
        report = open_report(out, settings)
        complete_all(crossfit, writer, report, ignore)
        return report
    finally:
        os.close(lock)


def refuse_other(out: Path) -> None:
    """Refuse a folder with files of something else; what is of another run is found later, by its report."""
    if out.exists() and not out.is_dir():
        raise DataError(f"{out}: is a file. Choose another --out.")
    if out.is_dir() and any(path.name != ".lock" for path in out.iterdir()) and not (out / "report.json").is_file():
        raise DataError(f"{out}: is not empty and was not written by this command. Choose another --out.")


def open_report(out: Path, settings: dict[str, Any]) -> RunReport:
    """The report of this run, or of its interrupted start."""
    file = out / "report.json"
    if file.is_file():
        try:
            earlier = json.loads(file.read_text(encoding="utf-8"))["run"]
        except (ValueError, KeyError, TypeError):
            earlier = None
        if earlier != json.loads(json.dumps(settings)):
            raise DataError(f"{out}: was made from other data, models or settings. Choose another --out.")
    report = RunReport(out, settings)
    report.write()
    return report


def modality_of(bundle: Path) -> str:
    """``"CT"`` or ``"MR"``, as the metadata of a bundle has it."""
    try:
        content = json.loads((bundle / "configs" / "metadata.json").read_text(encoding="utf-8"))
        return str(content["network_data_format"]["inputs"]["image"]["modality"])
    except (OSError, ValueError, KeyError, TypeError):
        return "MR"


def complete_all(crossfit: CrossFit, writer: Writer, report: RunReport, ignore: float | None) -> None:
    """Complete what the report does not have, then write what describes the whole."""
    items = {case_name(item): item for item in crossfit.items}
    with logging_redirect_tqdm():
        for name, item in tqdm(items.items(), desc="completing", unit="image", disable=None):
            if not report.is_done(name, Path(item["image"])):
                before = stamp(Path(item["image"]))
                entry = complete_one(crossfit.predict(item), writer, ignore)
                report.add(name, {"status": "done", "image": item["image"], "input": before, **entry})
    writer.finish(ignore is not None)
    rows = [
        {"image": entry["image"], "subject": entry["subject"], "structure": structure, **found}
        | {"label": entry["outputs"].get("label", entry["outputs"].get(structure))}
        for entry in report.done().values()
        for structure, found in entry["structures"].items()
        if found["from"] != "drawn"
    ]
    write_work_list(report.output_dir / "work_list.csv", rows)
    draw_first(report, crossfit.classes)
    write_view(report, crossfit)
    report.complete = True
    report.write()
    logger.info(
        f"{len(items)} image(s) completed, {sum(row['confidence'] < LOW for row in rows)} of {len(rows)} filled "
        f"structures with a confidence below {LOW}: see {report.output_dir / 'work_list.csv'}"
    )


def complete_one(prediction: Prediction, writer: Writer, ignore: float | None) -> dict[str, Any]:
    """Complete one image, and return what the report says of it."""
    item, within = prediction.item, prediction.within_sets()
    labels, drawn = fill_labels(prediction), prediction.drawn
    if not bool(prediction.candidates.gather(0, labels[None]).all()):
        raise AssertionError(f"{item['image']}: filled against what is known")
    chosen = within.gather(0, labels[None])[0]
    ignored = ~drawn & (chosen <= ignore) if ignore is not None else torch.zeros_like(drawn)
    outputs = writer.write(item, labels.numpy().astype(np.uint16), ignored.numpy())
    decided = known(prediction.candidates, dim=0).flatten(1).all(1).tolist()
    confidence, ml = expected_dice(within, labels), voxel_ml(open_geometry(item["image"]))
    structures = {
        name: {
            "from": "drawn" if decided[j] else "drawn in part" if bool((drawn & (labels == j)).any()) else "filled",
            "confidence": 1.0 if decided[j] else round(confidence[j], 4),
            "volume_ml": round(float((labels == j).sum()) * ml, 3),
        }
        for j, name in enumerate(writer.classes)
        if j > 0
    }
    return {
        "subject": item["subject"],
        "annotations": [item["label"]] if "label" in item else [],
        "outputs": outputs,
        "voxels": {
            "drawn": int(drawn.sum()),
            "filled": int((~drawn & ~ignored).sum()),
            "ignored": int(ignored.sum()),
        },
        "structures": structures,
        "models": prediction.models,
        "cross_fitted": prediction.cross_fitted,
    }


def least_confident(entry: Mapping[str, Any]) -> tuple[float, str]:
    """Confidence of the filled structure with the lowest one, and what to say of it; 1 and nothing if all is drawn."""
    filled = {s: found["confidence"] for s, found in entry["structures"].items() if found["from"] != "drawn"}
    if not filled:
        return 1.0, ""
    worst = min(filled, key=lambda structure: filled[structure])
    return filled[worst], f"{worst}: confidence {filled[worst]:.2f}"


def write_view(report: RunReport, crossfit: CrossFit) -> None:
    """Write what the viewer shows: the images that a person should look at first come first."""
    shown = sorted((*least_confident(entry), name, entry) for name, entry in report.done().items())
    cases = []
    for confidence, words, name, entry in shown:
        layers = [Layer("drawn", "drawn")] if entry["annotations"] else []
        if "label" in entry["outputs"]:  # not a mask per structure
            layers.append(Layer("filled", "filled", report.output_dir / entry["outputs"]["label"]))
        cases.append(ViewCase(name, Path(entry["image"]), layers, words, confidence < LOW))
    write_album(report.output_dir, "completed labels", crossfit.datalist, cases)


def draw_first(report: RunReport, classes: list[str]) -> None:
    """Draw the images that a person should look at first."""
    least: list[tuple[float, str, str]] = []
    for name, entry in report.done().items():
        confidence, words = least_confident(entry)
        if words and {"image", "label"} <= set(entry["outputs"]):
            least.append((confidence, name, words))
    cases = []
    for _, name, words in sorted(least)[:SHEET]:
        outputs = report.files[name]["outputs"]
        cases.append(Case(name, report.output_dir / outputs["image"], report.output_dir / outputs["label"], [words]))
    draw_contact_sheets(cases, classes, report.output_dir)
