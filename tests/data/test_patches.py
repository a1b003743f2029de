"""Patches of volumes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dcl_monai.candidates import candidate_label
from dcl_monai.data import PatchDataset
from dcl_monai.data.patches import _starts


def volume(shape: tuple[int, ...], subject: str = "s") -> dict:
    image = torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(1, *shape)
    return {"image": image, "label": candidate_label(torch.zeros(1, *shape), [0b110]), "subject": subject}


@pytest.mark.parametrize(
    ("size", "patch", "overlap", "expected"),
    [(8, 8, 0.5, [0]), (9, 8, 0.5, [0, 1]), (16, 8, 0.5, [0, 4, 8]), (16, 8, 0.0, [0, 8]), (20, 8, 0.0, [0, 6, 12])],
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


def test_every_volume_is_read_once_per_pass_and_none_is_kept():
    """What is not cached is read again, but not for every patch."""
    read = []

    class Volumes:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> dict:
            read.append(index)
            return volume((8, 8, 16), str(index))

    patches = PatchDataset(Volumes(), (8, 8, 8))
    assert read == [0, 1, 2]
    assert [patches[k]["subject"] for k in range(9)] == list("000111222")
    assert read == [0, 1, 2] * 2
