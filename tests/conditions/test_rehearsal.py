"""The images of a bank as training items."""

from __future__ import annotations

import pytest
import torch

from dcl_monai.candidates import expand, from_bits, known, known_positive
from dcl_monai.conditions import BankDataset, ConditionBank, fill_bank
from dcl_monai.data import ConditionalDataset

M = 3


@pytest.fixture
def bank() -> ConditionBank:
    bank = ConditionBank()
    images = torch.rand(M, 2, 1, 20, 20)
    images[2, 0] = images[1, 0]  # a subject with two annotated classes
    masks = torch.zeros(M, 2, 20, 20)
    masks[0] = 1
    masks[:, :, 5:9, 5:9] = torch.tensor([0, 1, 1])[:, None, None, None]
    valid = torch.tensor([[True, True], [True, True], [True, False]])
    bank.fill(images, masks, valid)
    return bank


def test_each_image_tells_of_its_class_alone(bank):
    dataset = BankDataset(bank)
    assert len(dataset) == 5
    for index, (j, k) in enumerate(dataset.places):
        item = dataset[index]
        assert torch.equal(item["image"], bank.images[j, k])
        candidates = expand(item["label"][0], item["sets"], M)
        assert torch.equal(known_positive(candidates, dim=0)[j], bank.masks[j, k] == 1)
        assert known(candidates, dim=0)[j].all()
        others = [i for i in range(M) if i != j]
        assert candidates[others].equal((bank.masks[j, k] == 0)[None].expand(M - 1, -1, -1))


def test_padding_is_background(bank):
    """Code 0 is what augmentation fills in."""
    dataset = BankDataset(bank)
    assert [from_bits(dataset[index]["sets"][0]) for index in range(5)] == [(0,), (0,), (0, 2), (0, 2), (0, 1)]


def test_same_image_is_same_subject(bank):
    dataset = BankDataset(bank)
    subjects = {place: dataset[index]["subject"] for index, place in enumerate(map(tuple, dataset.places))}
    assert subjects[1, 0] == subjects[2, 0]
    assert len(set(subjects.values())) == 4


def test_empty_bank():
    assert len(BankDataset(ConditionBank())) == 0


def test_scribbles_stay_scribbles():
    """Off the strokes nothing is known: the bank remembers it, and the condition is the stroke."""
    everything = 0b111
    items = [
        {
            "image": torch.rand(1, 20, 20),
            "label": torch.zeros(1, 20, 20),
            "sets": (everything, 0b001, 0b010, 0b100),
            "subject": str(number),
        }
        for number in range(4)
    ]
    for item in items:
        for code in (1, 2, 3):
            item["label"][0, 4 * code, 4:9] = code
    bank = ConditionBank()
    fill_bank(bank, ConditionalDataset(items, M), size=2)
    dataset = BankDataset(bank)
    item = dataset[dataset.places.index([1, 0])]
    candidates = expand(item["label"][0], item["sets"], M)
    assert candidates[:, 8, 4:9].equal(torch.tensor([False, True, False])[:, None].expand(3, 5))
    assert candidates[:, 4, 4:9].equal(torch.tensor([True, False, True])[:, None].expand(3, 5))  # another's stroke
    assert candidates[:, 0, 0].all()
    assert from_bits(item["sets"][0]) == (0, 1, 2)
    _, masks = bank(item["image"][None])
    assert masks[0, 1].sum() == 5
    assert set(masks.unique().tolist()) == {0.0, 1.0}
