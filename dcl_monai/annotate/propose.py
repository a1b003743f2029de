"""Which structure in which image to draw next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dcl_monai.datalist import Item
from dcl_monai.datalist.items import decided_classes
from dcl_monai.utils import DataError
from dcl_monai.utils.tables import write_table
from dcl_monai.visualize.overlays import class_colour
from dcl_monai.visualize.viewer.volumes import read_image

from .crossfit import CrossFit
from .gain import Choice, choose_images, choose_next, expected_error, image_entropy, image_features, undrawn_structures
from .output import Row, case_name, draw_slice, new_folder, write_page, write_view

COLUMNS = ["rank", "dataset", "case", "subject", "image", "structure", "gain", "expected_error", "rarity", "diversity"]
COLUMNS += ["minutes", "slice"]


def propose(
    crossfit: CrossFit, out: Path, count: int = 20, minutes: Mapping[str, float] | None = None, by: str = "image"
) -> list[Choice]:
    """
    Rank structures of training images that are not drawn, and write ``next.csv``, ``next.html`` and the viewer's files.

    Args:
        crossfit: the predictions.
        out: folder to write; must not exist, but for one that an interrupted run left.
        count: number of structures.
        minutes: name of a structure -> minutes that it takes; default: those of the datalist file.
        by: ``"image"``: whole images, the least certain first; ``"structure"``: single structures, by expected gain per
            minute.

    Returns:
        the choices, the best first; their case is the place in the training images of the datalist.

    Raises:
        DataError: when the folder exists, or everything is drawn.
    """
    classes, items = crossfit.classes, crossfit.datalist["training"]
    given = {**crossfit.datalist.get("minutes", {}), **(minutes or {})}
    for name, value in given.items():
        if name not in classes[1:] or not value > 0:
            raise DataError(f"minutes {name}={value}: give one of {', '.join(classes[1:])} and a number above 0.")
    with new_folder(out):
        crossfit.train()
        errors, features, entropies = dict[tuple[int, int], float](), list[np.ndarray](), list[float]()
        for case, item in enumerate(tqdm(items, desc="predicting", unit="image", disable=None)):
            prediction = crossfit.predict(item)
            expected = expected_error(prediction.within_sets().numpy())
            errors |= {(case, j): float(expected[j]) for j in undrawn_structures(prediction.candidates.numpy())}
            entropies.append(image_entropy(prediction.probabilities.numpy()))
            features.append(image_features(first_frame(item), prediction.probabilities.numpy()))
        if not errors:
            raise DataError(f"{crossfit.source}: every structure is drawn in every training image: nothing to propose.")
        drawn = [(case, j) for case, item in enumerate(items) for j in decided_classes(item, len(classes)) if j]
        costs = {classes.index(name): value for name, value in given.items()}
        if by == "image":
            choices = choose_images(errors, np.stack(features), drawn, count, entropies, costs)
        else:
            choices = choose_next(errors, np.stack(features), drawn, count, costs)
        write_choices(crossfit, choices, out, by)
    return choices


def write_choices(crossfit: CrossFit, choices: list[Choice], out: Path, by: str) -> None:
    """Write table, page, and the files of the viewer."""
    classes, items = crossfit.classes, crossfit.datalist["training"]
    table, rows, shown = list[dict[str, Any]](), list[Row](), dict[int, Any]()
    for rank, choice in enumerate(choices, 1):
        item, name = items[choice.case], classes[choice.structure]
        prediction = crossfit.predict(item)
        axis = prediction.slice_axis
        within = prediction.within_sets()[choice.structure].numpy()
        point = telling_point(within, axis)
        numbers = {k: round(v, 4) for k, v in asdict(choice).items() if k not in ("case", "structure", "error")}
        entry = {"rank": rank, "dataset": item.get("dataset", ""), "case": item.get("case", ""), "structure": name}
        entry |= {"subject": item["subject"], "image": item["image"], "slice": point[axis] + 1, **numbers}
        table.append(entry | {"expected_error": round(choice.error, 4)})
        details = f"expected error {choice.error:.2f}, rarity {choice.rarity:.2f}, diversity {choice.diversity:.2f}, "
        masks = {f"{name}, as the model sees it": (within > 0.5, class_colour(choice.structure, len(classes)), "solid")}
        image, affine = first_frame(item), prediction.affine.numpy()
        picture = draw_slice(image, masks, point, axis, affine, heat=4 * within * (1 - within))
        title, text = f"{name} in {case_name(item)}", f"Draw {name} in all slices; where there is none, say absent."
        before = f"{shown[choice.case][1]}, " if choice.case in shown else "draw "
        shown[choice.case] = (prediction, f"{before}{name} ({rank})", rank <= 10, point)
        details += f"{choice.minutes:g} minutes. In the viewer: #{[*shown].index(choice.case) + 1}/{name}"
        rows.append(Row(title, text, details, picture))
    write_table(out / "next.csv", [COLUMNS, *([row[name] for name in COLUMNS] for row in table)])
    write_view(out, "what to draw next", crossfit.datalist, list(shown.values()), within=True)
    order = {
        "image": "the images of which the model is least certain, with all that is not drawn there",
        "structure": "expected error x rarity x diversity per minute",
    }
    summary = f"{len(choices)} structures, best first: {order[by]}."
    notes = (
        [] if not crossfit.fast else ["Of the bundle's own model, which may have seen some of these images (--fast)."]
    )
    write_page(out / "next.html", "What to draw next", summary, rows, out, notes)


def telling_point(within: np.ndarray, axis: int) -> list[int]:
    """The voxel in the slice in which most of a structure is seen, at its centre."""
    across = tuple(other for other in range(3) if other != axis)
    at = int((within**2).sum(across).argmax())
    weights = within.take(at, axis) ** 2 + 1e-9
    indices = np.indices(weights.shape)
    centre = [float((index * weights).sum() / weights.sum()) for index in indices]
    return [round(float(p)) for p in np.insert(centre, axis, at)]


def first_frame(item: Item) -> np.ndarray:
    """Grey values of an image, (H, W, D)."""
    return read_image(Path(item["image"]))[0][..., 0]
