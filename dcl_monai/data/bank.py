"""Choosing what the conditional bank of a model holds."""

from __future__ import annotations

import torch

from dcl_monai.candidates import expand, known, known_positive
from dcl_monai.networks.bank import UNKNOWN, ConditionBank

from .dataset import ConditionalDataset

__all__ = ["fill_bank"]


def fill_bank(bank: ConditionBank, dataset: ConditionalDataset, size: int = 16) -> None:
    """
    Fill a bank with images of the training set: for every class ``size`` of those in which it is annotated, chosen to
    differ from each other as much as they can.

    The first is the one nearest to the mean, each further one the farthest from all taken (farthest-point sampling over
    the rule's descriptors), so the choice is the same on every machine.

    Args:
        bank: the bank to fill.
        dataset: the training set, whose rule describes the images; a dataset without conditions leaves the bank empty.
        size: images per class at most.
    """
    if not dataset.conditional:
        return
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
            candidates = expand(item["label"][0], item["sets"], dataset.num_classes)
            masks[j, k] = known_positive(candidates, dim=0)[j].byte()
            masks[j, k][~known(candidates, dim=0)[j]] = UNKNOWN
            valid[j, k] = True
    bank.fill(images, masks, valid)


def farthest_points(descriptors: torch.Tensor, entries: list[int], size: int) -> list[int]:
    """Return up to ``size`` of the entries, spread over their descriptors (N, d)."""
    if not entries:
        return []
    distance = torch.cdist(descriptors, descriptors.mean(0, keepdim=True))[:, 0]
    taken = [int(distance.argmin())]
    nearest = torch.cdist(descriptors, descriptors[taken])[:, 0]
    while len(taken) < min(size, len(entries)):
        nearest[taken] = -1.0  # none twice, however many are alike
        taken.append(int(nearest.argmax()))
        nearest = torch.minimum(nearest, torch.cdist(descriptors, descriptors[taken[-1:]])[:, 0])
    return [entries[index] for index in taken]
