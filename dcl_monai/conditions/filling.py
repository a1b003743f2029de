"""Choosing what the conditional bank of a model holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from dcl_monai.candidates import class_rows
from dcl_monai.samples import Sample

from .bank import UNKNOWN, ConditionBank


class DescribedImages(Protocol):
    """What is asked of a training set to choose images from: a :class:`~dcl_monai.data.ConditionalDataset` has it."""

    conditional: bool
    num_classes: int
    seed: int
    items: Sequence[Sample]
    descriptors: torch.Tensor
    """Descriptors of the items by the rule, (N, d)."""
    annotated: Sequence[np.ndarray]
    """For every class the items in which it is annotated."""


def fill_bank(bank: ConditionBank, dataset: DescribedImages, size: int = 16, choice: str = "similar") -> None:
    """
    Fill a bank with images of the training set: for every class ``size`` of those in which it is annotated.

    For conditions that are similar to the target, the images are chosen to differ from each other as much as they can:
    the first is the one nearest to the mean, each further one the farthest from all taken (farthest-point sampling over
    the rule's descriptors), so the choice is the same on every machine.

    Args:
        bank: the bank to fill.
        dataset: the training set, whose rule describes the images; a dataset without conditions leaves the bank empty.
        size: images per class at most.
        choice: ``"similar"``, or ``"random"`` for images drawn at random, one of which is picked at random for every
            target, as in the paper.

    Raises:
        ValueError: for another choice.
    """
    if choice not in ("similar", "random"):
        raise ValueError(f"conditions are 'similar' or 'random', got {choice!r}.")
    if not dataset.conditional:
        return
    if choice == "random":
        rng = np.random.default_rng((dataset.seed, size))
        chosen = [rng.permutation(entries)[:size].tolist() for entries in dataset.annotated]
    else:
        chosen = [farthest_points(dataset.descriptors[entries], entries, size) for entries in dataset.annotated]
    width = max(len(entries) for entries in chosen)
    shape = dataset.items[0]["image"].shape
    images = torch.zeros(dataset.num_classes, width, *shape)
    masks = torch.zeros(dataset.num_classes, width, *shape[1:], dtype=torch.uint8)
    valid = torch.zeros(dataset.num_classes, width, dtype=torch.bool)
    for j, entries in enumerate(chosen):
        for k, index in enumerate(entries):
            item = dataset.items[index]
            images[j, k] = item["image"]
            mask, decided = class_rows(item["label"][0], item["sets"], j)
            masks[j, k] = mask.byte()
            masks[j, k][~decided] = UNKNOWN
            valid[j, k] = True
    bank.fill(images, masks, valid, describe=choice == "similar")


def farthest_points(descriptors: torch.Tensor, entries: Sequence[int] | np.ndarray, size: int) -> list[int]:
    """Return up to ``size`` of the entries, spread over their descriptors (N, d)."""
    if not len(entries):
        return []
    distance = torch.cdist(descriptors, descriptors.mean(0, keepdim=True))[:, 0]
    taken = [int(distance.argmin())]
    nearest = torch.cdist(descriptors, descriptors[taken])[:, 0]
    while len(taken) < min(size, len(entries)):
        nearest[taken] = -1.0  # none twice, however many are alike
        taken.append(int(nearest.argmax()))
        nearest = torch.minimum(nearest, torch.cdist(descriptors, descriptors[taken[-1:]])[:, 0])
    return [int(entries[index]) for index in taken]
