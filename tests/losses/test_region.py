"""Dice of whole structures under partial labels."""

from __future__ import annotations

import pytest
import torch

from dcl_monai.losses import CompatibleLoss, ConditionalCompatibleLoss, RegionDiceLoss

SMOOTH = 10.0


def item(*sets: tuple[int, ...], num_classes: int = 3) -> torch.Tensor:
    """Candidate sets of one item, a voxel each: (1, m, n)."""
    return torch.tensor([[[j in members for members in sets] for j in range(num_classes)]])


def probabilities(*voxels: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(voxels).T.unsqueeze(0).log()


def dice_loss(both: float, sizes: float) -> float:
    return 1 - (2 * both + SMOOTH) / (sizes + SMOOTH)


def test_hand_computed_value():
    """Class 2 is drawn; of four voxels one is class 2."""
    candidates = item((2,), (0, 1), (0, 1), (0, 1))
    logits = probabilities((0.1, 0.2, 0.7), (0.5, 0.25, 0.25), (0.9, 0.05, 0.05), (0.8, 0.1, 0.1))
    p = 0.7 + 0.25 + 0.05 + 0.1
    of_class = dice_loss(0.7, p + 1)
    of_rest = dice_loss(0.75 + 0.95 + 0.9, (4 - p) + 3)
    assert float(RegionDiceLoss(3)(logits, candidates)) == pytest.approx(of_class + of_rest)


def test_background_tells_the_outline_of_all_structures():
    """How the structures share the inside is not said: only the sum counts."""
    candidates = item((0,), (1, 2), (1, 2), (0,))
    loss = RegionDiceLoss(3)
    one = probabilities((0.9, 0.05, 0.05), (0.2, 0.7, 0.1), (0.2, 0.6, 0.2), (0.7, 0.2, 0.1))
    other = probabilities((0.9, 0.02, 0.08), (0.2, 0.1, 0.7), (0.2, 0.2, 0.6), (0.7, 0.1, 0.2))
    worse = probabilities((0.9, 0.05, 0.05), (0.4, 0.5, 0.1), (0.2, 0.6, 0.2), (0.7, 0.2, 0.1))
    torch.testing.assert_close(loss(one, candidates), loss(other, candidates))
    assert loss(worse, candidates) > loss(one, candidates)


@pytest.mark.parametrize("sets", [((0, 1, 2), (0, 1, 2)), ((2,), (0, 1, 2)), ((0, 1), (0, 1, 2))])
def test_silent_where_no_class_is_decided_everywhere(sets):
    """No annotation, or scribbles."""
    logits = torch.randn(1, 3, 2, requires_grad=True)
    loss = RegionDiceLoss(3)(logits, item(*sets))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert not logits.grad.any()


def volume(*, known: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A ball of class 2 in a volume, of which the other classes are not told apart: candidates and where it is."""
    x, y, z = torch.meshgrid(*[torch.arange(-4, 5)] * 3, indexing="ij")
    ball = x**2 + y**2 + z**2 < 10
    return torch.stack([~ball | ~known, ~ball | ~known, ball | ~known])[None], ball


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_annotated_slices_of_a_volume_count(axis):
    """Dice of a volume of which three slices are known is that of the three slices alone."""
    torch.manual_seed(0)
    known = torch.zeros(9, 9, 9, dtype=torch.bool).movedim(axis, 0)
    known[[2, 3, 6]] = True
    candidates, _ = volume(known=known.movedim(0, axis))
    logits = torch.randn(1, 3, 9, 9, 9, requires_grad=True)
    loss = RegionDiceLoss(3)
    kept = [tensor.movedim(2 + axis, 2)[:, :, [2, 3, 6]] for tensor in (logits, candidates)]
    value = loss(logits, candidates)
    torch.testing.assert_close(value, loss(*kept))
    value.backward()
    assert (logits.grad.movedim(2 + axis, 2).flatten(3).any(3)[0].any(0)).nonzero().flatten().tolist() == [2, 3, 6]


def test_uncertain_borders_are_left_out():
    torch.manual_seed(0)
    _, ball = volume(known=torch.ones(9, 9, 9, dtype=torch.bool))
    candidates, _ = volume(known=~(ball & ~ball.roll(1, 0)))
    truth = torch.stack([~ball, torch.zeros_like(ball), ball])[None] * 200.0
    for axes in ((), (0,)):  # in 3D, and slice by slice
        logits, sets = (t.movedim(2, 0)[:, 0] if axes else t for t in (truth, candidates))
        assert float(RegionDiceLoss(3)(logits, sets)) == pytest.approx(0, abs=1e-5)
        assert float(RegionDiceLoss(3)(-logits, sets)) > 0.5


def test_sums_run_over_the_items_that_decide_the_class():
    torch.manual_seed(0)
    drawn, empty = item((2,), (0, 1), (0, 1)), item((0, 1), (0, 1), (0, 1))  # both say where class 2 is
    other = item((1,), (0, 2), (1,))
    logits = torch.randn(3, 3, 3)
    loss = RegionDiceLoss(3)
    as_one = torch.cat([drawn, empty], dim=2), torch.cat([logits[:1], logits[1:2]], dim=2)
    expected = (loss(as_one[1], as_one[0]) + loss(logits[2:], other)) / 2
    torch.testing.assert_close(loss(logits, torch.cat([drawn, empty, other])), expected)


def test_small_structures_count_as_much_as_large_ones():
    """Half of a structure missed: ten times the size costs a little more, in a sum over voxels ten times as much."""

    def missed_half(size: int) -> float:
        is_class = torch.arange(4000) < size
        candidates = torch.stack([~is_class, is_class])[None]
        found = torch.arange(4000) < size // 2
        return float(RegionDiceLoss(2)(torch.stack([~found, found])[None] * 200.0, candidates))

    assert missed_half(100) < missed_half(1000) < 1.5 * missed_half(100)


@pytest.mark.parametrize("make", [CompatibleLoss, ConditionalCompatibleLoss])
def test_a_term_of_the_compatible_loss(make):
    torch.manual_seed(0)
    candidates = item((2,), (0, 1), (0, 1)).expand(2, -1, -1)
    logits = torch.randn(2, 6, 3)
    args = (logits, candidates) if make is CompatibleLoss else (logits, candidates, torch.rand(2, 3, 3) < 0.5)
    terms = make(3, region_weight=0.5).terms(*args)
    torch.testing.assert_close(terms.pop("region"), 0.5 * RegionDiceLoss(3)(logits, candidates))
    torch.testing.assert_close(terms, make(3).terms(*args))
