"""Datalists: who is in which split, and which classes are annotated in whom.

A datalist is a dictionary with the keys ``classes``, ``training``, ``validation`` and ``test``, each of the last three
a list of items in the manner of the Decathlon's ``dataset.json``: ``image``, ``label``, ``subject`` and, where not
every class is annotated, ``annotated``: the indices of the classes that are.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcl_monai.utils import DataError
from dcl_monai.utils.files import write_atomic

__all__ = ["datalist_hash", "partial_datalist", "simulate_partial", "split_subjects"]

SPLITS = ("training", "validation", "test")
logger = logging.getLogger(__name__)


def split_subjects(
    items: Sequence[Mapping[str, Any]], parts: Sequence[float], seed: int = 0
) -> dict[str, list[dict[str, Any]]]:
    """
    Divide items into training, validation and test by subject, so that no subject stands in two of them.

    Args:
        items: items with a ``subject``.
        parts: sizes of the three splits in proportion to each other: (60, 20, 20) for the paper's ACDC experiments.
        seed: seed of the random division.

    Raises:
        DataError: when a split would be empty.
    """
    subjects = sorted({item["subject"] for item in items})
    order = np.random.default_rng(seed).permutation(len(subjects))
    edges = np.rint(np.cumsum([0.0, *parts]) / sum(parts) * len(subjects)).astype(int)
    datalist = {}
    for name, start, stop in zip(SPLITS, edges[:-1], edges[1:], strict=True):
        chosen = {subjects[index] for index in order[start:stop]}
        if not chosen:
            raise DataError(
                f"{len(subjects)} subject(s) leave none for {name} at a split of {list(parts)}: add subjects."
            )
        datalist[name] = [dict(item) for item in items if item["subject"] in chosen]
    return datalist


def simulate_partial(
    items: Sequence[Mapping[str, Any]], num_classes: int, per_subject: int = 1, seed: int = 0
) -> list[dict[str, Any]]:
    """
    Hide classes of fully labelled items: every subject shows ``per_subject`` random classes, in all its images.

    Every class is shown equally often (once more at most), as in the paper.

    Args:
        items: items with a ``subject``.
        num_classes: number of classes m, background included.
        per_subject: annotated classes per subject; m means full annotation.
        seed: seed of the random choice.

    Returns:
        the items with ``annotated``, a sorted list of class indices.
    """
    if not 1 <= per_subject <= num_classes:
        raise DataError(f"{per_subject} annotated classes per subject do not fit {num_classes} classes.")
    rng = np.random.default_rng(seed)
    shown = np.zeros(num_classes, dtype=int)
    annotated: dict[str, list[int]] = {}
    for subject in rng.permutation(sorted({item["subject"] for item in items})):
        # the classes shown least so far, ties broken at random
        order = sorted(range(num_classes), key=lambda j: (shown[j], rng.random()))
        annotated[str(subject)] = sorted(order[:per_subject])
        shown[order[:per_subject]] += 1
    return [dict(item) | {"annotated": annotated[str(item["subject"])]} for item in items]


def as_single_labels(items: Sequence[Mapping[str, Any]], num_classes: int, per_item: int = 1) -> list[dict[str, Any]]:
    """
    Use fully labelled items as several partial ones, each showing ``per_item`` of the classes (the paper's DCL on full
    annotation: four single-label images of four classes, four dual-label images of eight).
    """
    groups = [list(range(start, min(start + per_item, num_classes))) for start in range(0, num_classes, per_item)]
    return [dict(item) | {"annotated": group} for item in items for group in groups]


def partial_datalist(
    items: Sequence[Mapping[str, Any]],
    classes: Sequence[str],
    split: Sequence[float] = (60, 20, 20),
    annotation: str = "partial",
    per_subject: int = 1,
    partial_validation: bool = False,
    seed: int = 0,
    root: str | Path | None = None,
    output: str | Path | None = None,
) -> dict[str, Any]:
    """
    Split fully labelled items by subject and make the training part partial; the test part keeps its labels.

    Args:
        items: items with ``image``, ``label`` and ``subject``.
        classes: class names, in the order of the label values.
        split: sizes of training, validation and test in proportion to each other.
        annotation: what the training images show: ``"partial"``, classes hidden per subject; ``"full"``, everything;
            ``"single"``, everything, but as several partial images.
        per_subject: annotated classes per subject (or per image, for ``"single"``).
        partial_validation: whether classes are hidden in the validation images too, so that no image of training is
            labelled in full.
        seed: seed of the split and of the hiding.
        root: folder that file names are written relative to in the hash, so that it is the same on every machine.
        output: file the datalist is written to.

    Returns:
        the datalist; its hash is logged.
    """
    datalist: dict[str, Any] = {"classes": list(classes), **split_subjects(items, split, seed)}
    if annotation == "partial":
        datalist["training"] = simulate_partial(datalist["training"], len(classes), per_subject, seed)
    elif annotation == "single":
        datalist["training"] = as_single_labels(datalist["training"], len(classes), per_subject)
    elif annotation != "full":
        raise DataError(f"annotation {annotation!r} is unknown; choose 'partial', 'full' or 'single'.")
    if partial_validation:
        datalist["validation"] = simulate_partial(datalist["validation"], len(classes), per_subject, seed)
    digest = datalist_hash(datalist, root)
    counts = ", ".join(f"{len({i['subject'] for i in datalist[name]})} {name}" for name in SPLITS)
    logger.info(
        f"datalist {digest[:12]}: {counts} subjects, {annotation} annotation" + (f", {output}" if output else "")
    )
    if output is not None:
        write_atomic(output, json.dumps({"hash": digest, **datalist}, indent=1))
    return datalist


def datalist_hash(datalist: Mapping[str, Any], root: str | Path | None = None) -> str:
    """
    SHA-256 of a datalist, so that two papers can say that they used the same partial data.

    Args:
        datalist: classes and splits.
        root: folder that file names are taken relative to.
    """

    def canonical(item: Mapping[str, Any]) -> dict[str, Any]:
        files = {
            key: os.path.relpath(item[key], root) for key in ("image", "label") if root is not None and key in item
        }
        return dict(sorted((dict(item) | files).items()))

    content = {name: [canonical(item) for item in datalist[name]] for name in SPLITS} | {"classes": datalist["classes"]}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
