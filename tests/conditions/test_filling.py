"""Tests of choosing what the conditional bank holds."""

from __future__ import annotations

import pytest
import torch

from dcl_monai.candidates import candidate_sets
from dcl_monai.conditions import ConditionBank, SimilarityRule, fill_bank
from dcl_monai.conditions.filling import farthest_points
from dcl_monai.data import ConditionalDataset
from dcl_monai.transforms import EncodeCandidates

M = 3
COUNTS = (8, 8, 4)  # images that show class 0, 1 and 2


def make_items(dims=2, channels=1):
    """Ten subjects of two images, each with one class annotated; the images are all different."""
    items = []
    for s, shown in enumerate([0, 1, 0, 1, 0, 1, 0, 1, 2, 2]):
        for k in range(2):
            generator = torch.Generator().manual_seed(10 * s + k)
            size = (12, 14, 10)[:dims]
            values = torch.randint(0, M, (1, *size), generator=generator)
            label = EncodeCandidates(M)(values, [shown])
            image = torch.randn(channels, *size, generator=generator)
            sets = candidate_sets(label)
            items.append({"image": image, "label": label.as_tensor(), "sets": sets, "subject": f"s{s}"})
            items[-1] |= {"values": values, "shown": shown}
    return items


def fill(items, size, **kwargs) -> ConditionBank:
    bank = ConditionBank()
    fill_bank(bank, ConditionalDataset(items, M, **kwargs), size)
    return bank


@pytest.mark.parametrize(("dims", "channels"), [(2, 1), (2, 2), (3, 1)])
def test_entries_are_images_that_show_their_class(dims, channels):
    items = make_items(dims, channels)
    bank = fill(items, 5)
    assert bank.images.shape == (M, 5, *items[0]["image"].shape)
    for j in range(M):
        for k in range(int(bank.valid[j].sum())):
            source = [item for item in items if torch.equal(item["image"], bank.images[j, k])]
            assert [item["shown"] for item in source] == [j]
            assert torch.equal(bank.masks[j, k].bool(), source[0]["values"][0] == j)


@pytest.mark.parametrize("size", [1, 3, 5, 8, 50])
def test_size_and_coverage(size):
    bank = fill(make_items(), size)
    expected = [min(size, count) for count in COUNTS]
    assert bank.valid.sum(1).tolist() == expected
    assert bank.valid.shape == (M, max(expected))
    for j in range(M):
        assert bank.valid[j, : expected[j]].all()
        assert len(torch.unique(bank.images[j, : expected[j]].flatten(1), dim=0)) == expected[j]


def test_default_size():
    assert fill(make_items(), 16).valid.sum(1).tolist() == list(COUNTS)


def test_deterministic():
    one, other = fill(make_items(), 3, seed=1), fill(make_items(), 3, seed=2, pool=1)
    torch.manual_seed(99)
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])


def test_smaller_bank_is_the_beginning_of_a_larger_one():
    small, large = fill(make_items(), 2), fill(make_items(), 4)
    assert torch.equal(small.images, large.images[:, :2])


def test_entries_are_described_by_the_rule_of_the_bank():
    bank = fill(make_items(), 3)
    torch.testing.assert_close(bank.descriptors[1], SimilarityRule().describe(bank.images[1]))


def test_without_conditions_the_bank_stays_empty():
    bank = fill(make_items(), 3, conditional=False)
    assert bank.images.numel() == 0


class TestFarthestPoints:
    @pytest.mark.parametrize(
        ("size", "expected"), [(1, [7]), (2, [7, 8]), (3, [7, 8, 5]), (4, [7, 8, 5, 6]), (9, [7, 8, 5, 6])]
    )
    def test_literal(self, size, expected):
        """The mean of 0, 1, 2, 10 is 3.25: 2 is nearest; 10 is farthest from it; then 0; then 1."""
        assert farthest_points(torch.tensor([[0.0], [1], [2], [10]]), [5, 6, 7, 8], size) == expected

    @pytest.mark.parametrize("points", [[0, 0, 0], [0, 0, 5]])
    def test_no_entry_twice(self, points):
        """Images that look the same to the rule are still different images."""
        chosen = farthest_points(torch.tensor(points, dtype=torch.float32)[:, None], [4, 5, 6], 3)
        assert sorted(chosen) == [4, 5, 6]
