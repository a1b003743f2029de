from __future__ import annotations

import time

import pytest
import torch
from monai.transforms import Compose, OneOf, RandAffined, RandAxisFlipd, RandGaussianNoised, Randomizable, RandZoomd

from dcl_monai.data.seeding import _ALIKE, seed_transform, states


def augmentation(*others: Randomizable) -> Compose:
    return Compose(
        [
            RandAffined("image", prob=0.5, rotate_range=0.5, translate_range=2),
            RandAxisFlipd("image", prob=0.5),
            RandGaussianNoised("image", prob=0.5),
            *others,
        ]
    )


def drawn(transform: Compose) -> torch.Tensor:
    return transform({"image": torch.arange(64.0).reshape(1, 8, 8)})["image"].as_tensor()


class OwnNoise(Randomizable):
    """A transform of a user's own, with a generator that MONAI does not know."""

    def set_random_state(self, seed=None, state=None):
        self.generator = torch.Generator().manual_seed(seed)
        return super().set_random_state(seed, state)

    def __call__(self, data):
        return {"image": data["image"] + torch.rand(1, generator=self.generator)}


@pytest.mark.parametrize(
    ("others", "alike"),
    [
        ([], True),
        ([Compose([RandZoomd("image", prob=1.0)])], True),
        ([OneOf([RandZoomd("image", prob=1.0), RandAxisFlipd("image", prob=1.0)])], True),
        ([OwnNoise()], False),
    ],
)
def test_the_same_as_monai(others, alike):
    ours, theirs = augmentation(*others), augmentation(*others)
    for seed in (3, 3, 5, 2**31 - 1, 0, 3):
        seed_transform(ours, seed)
        state, result = states(ours), drawn(ours)
        theirs.set_random_state(seed=seed)
        assert states(theirs) == state
        assert torch.equal(drawn(theirs), result)
    assert _ALIKE[ours] == alike


def test_sooner():
    transform = augmentation()
    seed_transform(transform, 0)
    ours, theirs = [], []
    for seed in range(20):
        start = time.perf_counter()
        seed_transform(transform, seed)
        middle = time.perf_counter()
        transform.set_random_state(seed=seed)
        ours.append(middle - start)
        theirs.append(time.perf_counter() - middle)
    assert min(ours) < 0.5 * min(theirs)
