"""A case that is unlike the images of the bank is pointed out, and one like them is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dcl_monai.conditions import ConditionBank
from dcl_monai.conditions.bank import UNKNOWN
from dcl_monai.utils.plausibility import Plausibility

CLASSES = ["background", "MYO", "LV"]
SIZE = 32


def heart(centre: int, radius: int) -> tuple[torch.Tensor, torch.Tensor]:
    """An image (1, H, W) of a ring with a bright middle on a bright chest, and its classes (H, W)."""
    x = torch.arange(SIZE) - centre
    distance = (x[:, None] ** 2 + x[None] ** 2).sqrt()
    label = (distance < radius + 3).int() + (distance < radius).int()
    image = torch.tensor([0.0, -1.0, 2.0])[label.long()] + 0.3 * torch.linspace(-1, 1, SIZE)
    return image[None], label


@pytest.fixture
def plausibility() -> Plausibility:
    entries = [heart(15 + k % 2, 5 + k // 2) for k in range(4)]
    images = torch.stack([torch.stack([image for image, _ in entries])] * 3)
    masks = torch.stack([torch.stack([label == j for _, label in entries]) for j in range(3)])
    bank = ConditionBank()
    bank.fill(images, masks, torch.ones(3, 4, dtype=torch.bool))
    return Plausibility(bank, CLASSES)


def volume(centre: int = 16, radius: int = 5, depth: int = 3) -> tuple[torch.Tensor, np.ndarray]:
    image, label = heart(centre, radius)
    return image[..., None].repeat(1, 1, 1, depth), label[..., None].repeat(1, 1, depth).numpy()


def test_one_like_the_others(plausibility):
    assert plausibility.notes(*volume()) == []


def test_noise(plausibility):
    """A blank image with noise on it gave a plausible heart."""
    noise = torch.randn(1, SIZE, SIZE, 3, generator=torch.Generator().manual_seed(0))
    found = plausibility.notes(noise, volume()[1])
    assert any("does not look like the training images" in note for note in found)


def test_other_grey_values(plausibility):
    image, label = volume()
    assert plausibility.notes(100 * image + 1000, label) == [
        "image: its grey values differ from those of the training images"
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda label: np.where(label == 2, 0, label), ["LV: found nowhere"]),
        (lambda label: volume(radius=11)[1], ["LV: 3.4 times as large"]),
        (lambda label: volume(radius=2)[1], ["LV: 0.1"]),
        (lambda label: volume(centre=5)[1], ["MYO: reaches the border of the network's grid"]),
    ],
    ids=["nowhere", "large", "small", "border"],
)
def test_structures(plausibility, change, words):
    image, label = volume()
    found = plausibility.notes(image, change(label))
    assert all(any(note.startswith(word) for note in found) for word in words), found


def test_many_parts(plausibility):
    image, label = volume()
    label[2:12:2, 2, 1] = 2
    assert plausibility.notes(image, label) == ["LV: has 6 parts, in the training images at most 1"]


def test_what_is_known_in_part_is_not_measured(plausibility):
    """Scribbles say nothing about sizes; and without descriptors nothing is said about likeness."""
    bank = plausibility.bank
    bank.masks[2, 0, 0, 0] = UNKNOWN
    bank.descriptors = torch.zeros_like(bank.descriptors)
    image, label = volume()
    assert Plausibility(bank, CLASSES).notes(torch.flip(image, [1]), np.where(label == 2, 0, label)) == []


def test_volumes():
    """Of a 3D network the volume is measured as a whole."""
    images = torch.randn(2, 3, 1, 8, 8, 8)
    masks = torch.zeros(2, 3, 8, 8, 8)
    masks[:, :, 2:6, 2:6, 2:6] = 1
    bank = ConditionBank()
    bank.fill(images, masks, torch.ones(2, 3, dtype=torch.bool))
    labels = masks[1, 0].numpy().astype(int)
    checked = Plausibility(bank, ["background", "LA"])
    assert checked.notes(images[0, 0], labels) == []
    labels[0, 3, 3] = 1
    assert checked.notes(images[0, 0], labels) == ["LA: reaches the border of the network's grid and may be cut off"]
