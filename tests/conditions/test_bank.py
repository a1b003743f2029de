"""Tests of the conditional bank and of the rule that picks from it."""

from __future__ import annotations

import pytest
import torch

from dcl_monai.conditions import ConditionBank, SimilarityRule
from dcl_monai.conditions.bank import centre_fit

M, K = 3, 4


def random_bank(size=(24, 30), channels=1, seed=0, valid=None):
    """A bank of random images, in which the mask of an entry is the image thresholded: pairs can be told apart."""
    images = torch.randn(M, K, channels, *size, generator=torch.Generator().manual_seed(seed))
    valid = torch.ones(M, K, dtype=torch.bool) if valid is None else torch.tensor(valid)
    bank = ConditionBank()
    bank.fill(images, images[:, :, 0] > 0, valid)
    return bank, images


class TestCentreFit:
    @pytest.mark.parametrize(
        ("values", "size", "expected"),
        [
            ([1, 2, 3], 3, [1, 2, 3]),
            ([1, 2, 3, 4, 5], 3, [2, 3, 4]),
            ([1, 2, 3], 5, [0, 1, 2, 3, 0]),
            ([1, 2, 3, 4], 2, [2, 3]),
            ([1, 2], 4, [0, 1, 2, 0]),
        ],
    )
    def test_literal(self, values, size, expected):
        image = torch.tensor(values).reshape(1, 1, -1, 1)
        assert centre_fit(image, [size, 1]).flatten().tolist() == expected

    @pytest.mark.parametrize(("size", "wanted"), [((5, 8), (7, 4)), ((4, 6, 9), (9, 6, 4))])
    def test_shape(self, size, wanted):
        image = torch.rand(2, 3, *size)
        assert centre_fit(image, list(wanted)).shape == (2, 3, *wanted)

    def test_identity(self):
        image = torch.rand(2, 1, 5, 6)
        assert torch.equal(centre_fit(image, [5, 6]), image)

    @pytest.mark.parametrize("small", [3, 4, 5, 6])
    @pytest.mark.parametrize("large", [6, 7, 8])
    def test_grids_lie_on_each_other(self, small, large):
        """What is cropped lies, padded back, where it was: a condition from another size is not shifted."""
        image = torch.arange(1, large + 1).reshape(1, 1, -1, 1)
        back = centre_fit(centre_fit(image, [small, 1]), [large, 1])
        assert (back > 0).sum() == small
        assert ((back == 0) | (back == image)).all()

    @pytest.mark.parametrize("middle", [5, 6, 7])
    def test_one_step_or_two(self, middle):
        """Cropping by way of a size in between gives the same."""
        image = torch.arange(1, 9).reshape(1, 1, -1, 1)
        assert torch.equal(centre_fit(centre_fit(image, [middle, 1]), [4, 1]), centre_fit(image, [4, 1]))


class TestSimilarityRule:
    @pytest.mark.parametrize("shape", [(2, 1, 20, 33), (2, 2, 64, 64), (1, 1, 20, 18, 9)])
    def test_descriptors_have_unit_length(self, shape):
        described = SimilarityRule(grid=8).describe(torch.rand(shape))
        assert described.shape == (shape[0], shape[1] * 8 ** (len(shape) - 2))
        torch.testing.assert_close(described.norm(dim=1), torch.ones(shape[0]))

    def test_brightness_and_contrast_do_not_matter(self):
        image = torch.rand(1, 1, 32, 32)
        rule = SimilarityRule()
        torch.testing.assert_close(rule.describe(3 * image + 5), rule.describe(image), atol=1e-4, rtol=0)

    def test_centre_counts_more_than_the_rim(self):
        image = torch.randn(1, 1, 64, 64, generator=torch.Generator().manual_seed(0))
        centre, rim = image.clone(), image.clone()
        centre[..., 28:36, 28:36] += 2
        rim[..., :8, :8] += 2
        rule = SimilarityRule()
        same, near, far = (rule.describe(x)[0] @ rule.describe(image)[0] for x in (image, rim, centre))
        assert far < near < same

    def test_constant_image_has_no_nan(self):
        assert torch.equal(SimilarityRule(grid=4).describe(torch.full((1, 1, 8, 8), 7.0)), torch.zeros(1, 16))

    def test_nearest_is_picked(self):
        entries = torch.tensor([[[1.0, 0], [0, 1], [-1, 0]], [[0, -1], [0.6, 0.8], [0.8, 0.6]]])
        described = torch.tensor([[1.0, 0], [0, 1]])
        allowed = torch.ones(2, 2, 3, dtype=torch.bool)
        assert SimilarityRule()(described, entries, allowed).tolist() == [[0, 2], [1, 1]]

    def test_entries_without_descriptors_are_picked_at_random(self):
        """Each about equally often, in every class its own, and the same whenever a target comes again."""
        described = SimilarityRule().describe(torch.randn(600, 1, 20, 20, generator=torch.Generator().manual_seed(0)))
        allowed = torch.tensor([[True] * 4, [True, True, True, False], [True, False, False, False]])
        rule, entries = SimilarityRule(), torch.zeros(3, 4, described.shape[1])
        picked = rule(described, entries, allowed.expand(600, -1, -1))
        assert torch.equal(picked, rule(described, entries, allowed.expand(600, -1, -1)))
        for j, count in enumerate((4, 3, 1)):
            share = torch.bincount(picked[:, j], minlength=4) / 600
            assert share[count:].sum() == 0
            assert (share[:count] - 1 / count).abs().max() < 0.08
        assert 0.1 < (picked[:, 0] == picked[:, 1]).float().mean() < 0.5

    def test_only_allowed_entries_are_picked(self):
        entries = torch.tensor([[[1.0, 0], [0, 1], [-1, 0]]])
        described = torch.tensor([[1.0, 0]]).expand(3, -1)
        allowed = torch.tensor([[[True, True, True]], [[False, True, True]], [[False, False, True]]])
        assert SimilarityRule()(described, entries, allowed).tolist() == [[0], [1], [2]]


class TestConditionBank:
    @pytest.mark.parametrize("size", [(24, 30), (20, 22, 18)])
    def test_a_target_in_the_bank_is_its_own_condition(self, size):
        bank, images = random_bank(size)
        for k in range(K):
            target = images[:, k]  # one target per class
            cond_image, cond_mask = bank(target)
            for j in range(M):
                assert torch.equal(cond_image[j, j], target[j, 0])
                assert torch.equal(cond_mask[j, j], (target[j, 0] > 0).float())
            own = bank.descriptors[torch.arange(M), k]
            similarity = (bank.rule.describe(target) * own).sum(1)
            torch.testing.assert_close(similarity, torch.ones(M))

    def test_image_and_mask_are_a_pair(self):
        bank, images = random_bank()
        cond_image, cond_mask = bank(torch.randn(5, 1, 24, 30))
        assert cond_image.shape == cond_mask.shape == (5, M, 24, 30)
        assert torch.equal(cond_mask, (cond_image > 0).float())
        for b in range(5):
            for j in range(M):
                assert any(torch.equal(cond_image[b, j], images[j, k, 0]) for k in range(K))

    def test_several_channels(self):
        bank, images = random_bank(channels=2)
        cond_image, cond_mask = bank(images[1, 2][None])
        assert cond_image.shape == (1, 2 * M, 24, 30)
        assert cond_mask.shape == (1, M, 24, 30)
        assert torch.equal(cond_image[0, 2:4], images[1, 2])  # in the order of the classes

    @pytest.mark.parametrize("size", [(24, 30), (23, 33), (40, 17)])
    def test_condition_lies_on_the_grid_of_the_target(self, size):
        bank, images = random_bank()
        target = centre_fit(images[1, 2][None], list(size))
        cond_image, cond_mask = bank(target)
        assert cond_image.shape == cond_mask.shape == (1, M, *size)
        assert torch.equal(cond_image[0, 1], target[0, 0])

    def test_invalid_entries_are_never_picked(self):
        bank, images = random_bank(valid=[[True, False, True, False]] * M)
        cond_image, _ = bank(images[:, 1])  # each target is the image of an invalid entry
        for j in range(M):
            assert not torch.equal(cond_image[j, j], images[j, 1, 0])
            assert any(torch.equal(cond_image[j, j], images[j, k, 0]) for k in (0, 2))

    @pytest.mark.parametrize("shift", [1, 2, 3])
    def test_shift_gives_another_entry(self, shift):
        bank, images = random_bank()
        shifted, masks = bank(images[:, 2], shift)
        for j in range(M):
            assert torch.equal(shifted[j, j], images[j, (2 + shift) % K, 0])
        assert torch.equal(masks, (shifted > 0).float())

    @pytest.mark.parametrize("shift", [1, 2])
    def test_shift_stays_within_the_valid_entries(self, shift):
        valid = [True, True, True, False]
        bank, images = random_bank(valid=[valid] * M)
        for k in (k for k in range(K) if valid[k]):
            shifted, _ = bank(images[:, k], shift)
            for j in range(M):
                found = [i for i in range(K) if torch.equal(shifted[j, j], images[j, i, 0])]
                assert found != [k]
                assert valid[found[0]]

    @pytest.mark.parametrize("turn", [1, 2])
    def test_conditions_of_the_wrong_class(self, turn):
        bank, _ = random_bank()
        target = torch.randn(2, 1, 24, 30, generator=torch.Generator().manual_seed(5))
        for right, wrong in zip(bank(target), bank(target, turn=turn), strict=True):
            assert torch.equal(wrong, right.roll(-turn, 1))

    def test_batch_mates_do_not_matter(self):
        bank, _ = random_bank()
        targets = torch.randn(4, 1, 24, 30)
        for b, whole in enumerate(bank(targets)[0]):
            assert torch.equal(bank(targets[b : b + 1])[0][0], whole)

    def test_type_of_the_target(self):
        bank, _ = random_bank()
        assert [tensor.dtype for tensor in bank(torch.randn(1, 1, 24, 30).bfloat16())] == [torch.bfloat16] * 2

    @pytest.mark.parametrize("before", [None, (10, 12)], ids=["empty", "other size"])
    def test_state_dict_brings_its_shapes(self, before):
        bank, images = random_bank()
        other = ConditionBank() if before is None else random_bank(before, seed=9)[0]
        other.load_state_dict(bank.state_dict())
        assert {name: value.shape for name, value in other.state_dict().items()} == {
            "images": (M, K, 1, 24, 30),
            "masks": (M, K, 24, 30),
            "valid": (M, K),
            "descriptors": (M, K, 256),
        }
        assert other.masks.dtype == torch.uint8
        assert other.valid.dtype == torch.bool
        for mine, theirs in zip(bank(images[0]), other(images[0]), strict=True):
            assert torch.equal(mine, theirs)
        other.images.zero_()
        assert bank.images.abs().sum() > 0

    def test_state_of_an_empty_bank_empties(self):
        bank, images = random_bank()
        bank.load_state_dict(ConditionBank().state_dict())
        with pytest.raises(RuntimeError, match="bank is empty"):
            bank(images[0])

    def test_empty_bank(self):
        with pytest.raises(RuntimeError, match=r"bank is empty.*fill it"):
            ConditionBank()(torch.rand(1, 1, 8, 8))

    def test_no_weights_to_train(self):
        assert list(random_bank()[0].parameters()) == []

    @pytest.mark.parametrize("size", [(24, 30), (27, 21)])
    def test_script(self, size):
        bank, _ = random_bank()
        scripted = torch.jit.script(bank)
        target = torch.randn(2, 1, *size)
        for shift in (0, 1):
            for eager, graph in zip(bank(target, shift), scripted(target, shift), strict=True):
                assert torch.equal(eager, graph)
