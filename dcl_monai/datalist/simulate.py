"""Making partial annotations of full ones, as the paper does, in a way that others can repeat."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from dcl_monai.candidates import annotated_classes
from dcl_monai.utils import DataError, as_bool

from .items import Annotation, Datalist, Item, Split, annotation_sets, annotations_of, decided_classes
from .load import load_datalist
from .splits import SPLITS, split_subjects

PAPER_TASKS = {"acdc": ((60, 20, 20), 1), "mscmr": ((25, 5, 15), 1), "mmwhs": ((20, 10, 30), 2)}
"""The paper's split and annotated classes per subject, by task."""

logger = logging.getLogger(__name__)


def simulate_datalist(
    source: str | Path | Datalist | Mapping[str, Any],
    split: Sequence[float] | None = None,
    annotation: str = "partial",
    per_subject: int = 1,
    partial_validation: bool | str = False,
    seed: int = 0,
    split_seed: int | None = None,
    full_fraction: float = 0.0,
    fold: int = 0,
) -> Datalist:
    """
    Hide classes of the training images of a fully labelled datalist; the test images keep their labels.

    Args:
        source: the datalist, or the file or document that describes it.
        split: sizes of training, validation and test in proportion to each other, by which the subjects of every data
            set are divided again (images without a label are left out then); default: as the source has it.
        annotation: what the training images show: ``"partial"``, classes hidden per subject; ``"full"``, everything;
            ``"single"``, everything, but as several partial images; ``"few"``, everything, but in fewer subjects: as
            many labels as ``"partial"`` shows, rounded up to whole subjects; ``"given"``, what they show: nothing is
            hidden, but validation and test images must be labelled in full.
        per_subject: annotated classes per subject (or per image, for ``"single"``).
        partial_validation: whether classes are hidden in the validation images too, so that no image of training is
            labelled in full.
        seed: seed of the hiding, and of the choice of subjects.
        split_seed: seed of the division, default: ``seed``. Repeated runs keep it, so that all are tested on the same
            subjects.
        full_fraction: part of the training subjects that ``"partial"`` leaves labelled in full; they are used as
            several partial images, as in the paper. A larger fraction holds the subjects of a smaller one. For
            ``"few"`` the part of the subjects that is kept, instead of as many labels as ``"partial"`` shows.
        fold: which of the divisions of ``split_seed``, see :func:`~dcl_monai.datalist.split_subjects`.

    Returns:
        the partial datalist.

    Raises:
        DataError: when an image in which classes are to be hidden is not labelled in full, or there are too few
            subjects to show every class.
    """
    partial_validation = as_bool(partial_validation)
    split_seed = seed if split_seed is None else split_seed
    if min(seed, split_seed) < 0:
        raise DataError(f"seed {min(seed, split_seed)}: a seed must not be negative.")
    if fold < 0:
        raise DataError(f"fold {fold}: a fold must not be negative.")
    if not 0.0 <= full_fraction <= 1.0:
        raise DataError(f"full_fraction {full_fraction}: give a number between 0 and 1.")
    if isinstance(source, Mapping) and "datasets" not in source:
        datalist = cast(Datalist, dict(source))
    else:
        datalist = load_datalist(source)
    classes = datalist["classes"]
    if split is not None:
        for name, items in divide_anew(datalist, split, split_seed, fold).items():
            datalist[name] = items
    if annotation == "given":
        require_full_test(datalist)
        return datalist
    require_full_labels(datalist["training"], classes)
    if annotation == "partial":
        full, rest = choose_subjects(datalist["training"], full_fraction, seed)
        datalist["training"] = [
            *as_single_labels(full, len(classes), per_subject),
            *simulate_partial(rest, len(classes), per_subject, seed),
        ]
        require_every_class(datalist["training"], classes, per_subject)
    elif annotation == "single":
        datalist["training"] = as_single_labels(datalist["training"], len(classes), per_subject)
    elif annotation == "few":
        require_within(per_subject, len(classes))
        kept = full_fraction or per_subject / len(classes)
        datalist["training"], _ = choose_subjects(datalist["training"], kept, seed)
    elif annotation != "full":
        raise DataError(f"annotation {annotation!r} is unknown; choose 'partial', 'full', 'single', 'few' or 'given'.")
    if partial_validation:
        require_full_labels(datalist["validation"], classes)
        datalist["validation"] = simulate_partial(datalist["validation"], len(classes), per_subject, seed)
    return datalist


def simulate_partial(items: Sequence[Item], num_classes: int, per_subject: int = 1, seed: int = 0) -> list[Item]:
    """
    Hide classes of fully labelled items: every subject shows ``per_subject`` random classes, in all its images.

    Every class is shown equally often (once more at most), as in the paper.

    Args:
        items: items with a ``subject`` and a ``label``.
        num_classes: number of classes m, background included.
        per_subject: annotated classes per subject; m means full annotation.
        seed: seed of the random choice.

    Returns:
        the items with ``annotated``, a sorted list of class indices.

    Raises:
        DataError: when ``per_subject`` is not within 1 and m.
    """
    require_within(per_subject, num_classes)
    rng = np.random.default_rng(seed)
    shown = np.zeros(num_classes, dtype=int)
    annotated: dict[str, list[int]] = {}
    for subject in rng.permutation(sorted({item["subject"] for item in items})):
        # the classes shown least so far, ties broken at random
        order = sorted(range(num_classes), key=lambda j: (shown[j], rng.random()))
        annotated[str(subject)] = sorted(order[:per_subject])
        shown[order[:per_subject]] += 1
    return [show_only(item, annotated[str(item["subject"])], num_classes) for item in items]


def choose_subjects(items: Sequence[Item], fraction: float, seed: int) -> tuple[list[Item], list[Item]]:
    """Divide items into those of a random part of the subjects, rounded up, and the others."""
    subjects = sorted({item["subject"] for item in items})
    order = np.random.default_rng((seed, len(subjects))).permutation(len(subjects))
    count = math.ceil(round(fraction * len(subjects), 6))  # 0.2 * 15 is a little more than 3
    chosen = {subjects[index] for index in order[:count]}
    return (
        [item.copy() for item in items if item["subject"] in chosen],
        [item.copy() for item in items if item["subject"] not in chosen],
    )


def as_single_labels(items: Sequence[Item], num_classes: int, per_item: int = 1) -> list[Item]:
    """
    Use fully labelled items as several partial ones, each showing ``per_item`` of the classes (the paper's DCL on full
    annotation: four single-label images of four classes, four dual-label images of eight).
    """
    require_within(per_item, num_classes)
    groups = [list(range(start, min(start + per_item, num_classes))) for start in range(0, num_classes, per_item)]
    return [show_only(item, group, num_classes) for item in items for group in groups]


def show_only(item: Item, classes: Sequence[int], num_classes: int) -> Item:
    """
    Hide all but some ``classes`` of an item; ``drawn`` keeps what its files show.

    Where an image has several annotations, each goes on to show those of the classes that it decides.
    """

    def hide(annotation: Annotation) -> Annotation:
        decided = annotated_classes(annotation_sets([annotation], num_classes), num_classes)
        return {
            "annotated": [j for j in classes if j in decided],
            "drawn": annotation.get("annotated", list(range(num_classes))),
        }

    result: Item = {**item, **hide(item)} if item.get("label") is not None else item.copy()
    if "further_labels" in item:
        result["further_labels"] = [{**other, **hide(other)} for other in item["further_labels"]]
    return result


def divide_anew(datalist: Datalist, parts: Sequence[float], seed: int, fold: int) -> dict[Split, list[Item]]:
    """Divide the labelled images of every data set of a datalist into new splits."""
    items = [item for name in SPLITS for item in datalist[name]]
    labelled = [item for item in items if annotations_of(item)]
    if len(labelled) < len(items):
        logger.warning(
            f"{len(items) - len(labelled)} image(s) without a label are left out: they have nothing to hide."
        )
    divided = [
        split_subjects(
            [item for item in labelled if item.get("dataset") == dataset], parts, seed, f"data set {dataset!r}", fold
        )
        for dataset in dict.fromkeys(item.get("dataset") for item in labelled)
    ]
    return {name: [item for part in divided for item in part[name]] for name in SPLITS}


def require_within(per_subject: int, num_classes: int) -> None:
    """Refuse a number of annotated classes that cannot be."""
    if not 1 <= per_subject <= num_classes:
        raise DataError(
            f"{per_subject} annotated classes per subject do not fit {num_classes} classes: choose 1 to {num_classes}."
        )


def undecided(item: Item, classes: Sequence[str]) -> str:
    """Names of the classes that the annotations of an item do not decide everywhere."""
    decided = decided_classes(item, len(classes))
    return ", ".join(name for j, name in enumerate(classes) if j not in decided)


def require_full_labels(items: Sequence[Item], classes: Sequence[str]) -> None:
    """Refuse items in which something is hidden already: what is unknown cannot be hidden, nor shown."""
    for item in items:
        lacking = undecided(item, classes)
        if lacking or "drawn" in item:
            raise DataError(
                f"{item['image']}: only full labels can be made partial, but this image lacks "
                f"{lacking or 'classes that were hidden before'}. Take the image out, or train from the list as it is."
            )


def is_partial(datalist: Datalist) -> bool:
    """Whether some training image is not labelled in full."""
    return any(undecided(item, datalist["classes"]) for item in datalist["training"])


def require_full_test(datalist: Datalist) -> None:
    """Refuse validation and test images without full labels: methods are compared by them."""
    for item in (*datalist["validation"], *datalist["test"]):
        lacking = undecided(item, datalist["classes"])
        if lacking:
            raise DataError(
                f"{item['image']}: methods are compared on full labels, but this validation or test image lacks "
                f"{lacking}. Let fully labelled images validate and test (`split:` of their data set)."
            )


def require_every_class(items: Sequence[Item], classes: Sequence[str], per_subject: int) -> None:
    """Refuse partial items that never show some class: no network could learn it."""
    shown = {j for item in items for j in decided_classes(item, len(classes))}
    missing = [name for j, name in enumerate(classes) if j not in shown]
    if missing:
        raise DataError(
            f"none of the {len({item['subject'] for item in items})} training subject(s), with {per_subject} of "
            f"{len(classes)} classes each, shows {', '.join(missing)}. Add subjects, or show more classes per subject."
        )
