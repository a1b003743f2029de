"""Patches of volumes, and how often each is drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dcl_monai.candidates import candidate_label
from dcl_monai.data import CandidateSampler, PatchDataset
from dcl_monai.data.patches import _starts


def volume(shape: tuple[int, ...], subject: str = "s") -> dict:
    image = torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(1, *shape)
    return {"image": image, "label": candidate_label(torch.zeros(1, *shape), [0b110]), "subject": subject}


@pytest.mark.parametrize(
    ("size", "patch", "overlap", "expected"),
    [
        (8, 8, 0.5, [0]),
        (9, 8, 0.5, [0, 1]),
        (16, 8, 0.5, [0, 4, 8]),
        (16, 8, 0.0, [0, 8]),
        (20, 8, 0.0, [0, 6, 12]),
    ],
)
def test_starts_reach_both_borders(size, patch, overlap, expected):
    assert _starts(size, patch, overlap) == expected


def test_a_volume_smaller_than_the_patch_is_refused():
    with pytest.raises(ValueError, match="smaller than the patch"):
        PatchDataset([volume((4, 8, 8))], (8, 8, 8))


def test_patches_are_cut_from_their_places():
    volumes = [volume((8, 8, 12), "a"), volume((8, 8, 8), "b")]
    patches = PatchDataset(volumes, (8, 8, 8))
    assert [patches[k]["subject"] for k in range(len(patches))] == ["a", "a", "b"]
    assert torch.equal(patches[1]["image"], volumes[0]["image"][..., 4:])
    assert patches[1]["label"].shape == (1, 8, 8, 8)
    assert patches[1]["sets"] == (0b110,)


class TestSampler:
    def make(self, **kwargs) -> CandidateSampler:
        """Ninety items that show class 0, and one each that shows class 1 and class 2."""
        zero = {"label": torch.zeros(1, 2), "sets": (0b001,)}
        one = {"label": torch.ones(1, 2), "sets": (0b101, 0b010)}
        two = {"label": torch.tensor([[0.0, 1.0]]), "sets": (0b111, 0b100)}
        return CandidateSampler([zero] * 90 + [one, two], 3, **kwargs)

    def test_rare_classes_are_drawn_often(self):
        counts = np.bincount(list(self.make(num_samples=3000)), minlength=92)
        # half of the draws choose a class first: a sixth of all draws each
        assert counts[90:].min() > 400
        assert counts[:90].min() > 0

    def test_epochs_differ_and_repeat_with_the_seed(self):
        sampler = self.make()
        torch.manual_seed(3)
        first, second = list(sampler), list(sampler)
        assert len(first) == len(sampler) == 92
        assert first != second
        torch.manual_seed(3)
        assert [list(sampler), list(sampler)] == [first, second]

    def test_unlabelled_items_alone(self):
        nothing = {"label": torch.zeros(1, 2), "sets": (0b111,)}
        assert set(CandidateSampler([nothing] * 5, 3, num_samples=200)) == set(range(5))
