"""Rehearsal: a trained model that learns from new images sees those of its own bank again."""

from __future__ import annotations

import hashlib

import torch
from torch.utils.data import Dataset

from dcl_monai.candidates import all_classes
from dcl_monai.samples import Sample

from .bank import UNKNOWN, ConditionBank


class BankDataset(Dataset):
    """
    The images of a conditional bank as training items, each a partial label: one class is annotated, as in the bank.

    A network that continues training with a few new labels forgets the structures that nobody drew in them. The bank
    holds images of every class, and travels with the model: mixed with the new images they keep what was learned.

    The bank does not say whose images it holds. Images that are alike to the last bit, as those of a subject with two
    annotated classes, are one subject; any others count as subjects of their own.

    Args:
        bank: the bank; an empty one, of an unconditional model, gives no items.
    """

    def __init__(self, bank: ConditionBank) -> None:
        self.bank = bank
        self.places: list[tuple[int, int]] = bank.valid.nonzero().tolist() if bank.valid.dim() == 2 else []
        self.subjects = [hashlib.sha256(bank.images[j, k].cpu().numpy().tobytes()).hexdigest() for j, k in self.places]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Sample:
        j, k = self.places[index]
        mask = self.bank.masks[j, k].long().cpu()  # 0 outside class j, 1 inside, 2 where nobody knows
        everything = all_classes(len(self.bank.images))
        meaning = (everything & ~(1 << j), 1 << j, everything)
        # code 0 is the set of a voxel outside the image: unknown for scribbles, else background
        order = (2, 0, 1) if (mask == UNKNOWN).any() else (1, 0) if j == 0 else (0, 1)
        code = torch.zeros(3)
        code[list(order)] = torch.arange(len(order), dtype=torch.float32)
        return {
            "image": self.bank.images[j, k].cpu(),
            "label": code[mask][None],
            "sets": tuple(meaning[value] for value in order),
            "subject": f"bank/{self.subjects[index]}",
        }
