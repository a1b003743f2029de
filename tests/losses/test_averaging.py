"""Each average on literal values, and the course of the annealed one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dcl_monai.losses import (
    AnnealedMean,
    Averaging,
    BalancedMean,
    ClassMean,
    CompatibleLoss,
    ConditionalCompatibleLoss,
    PriorLoss,
    SumMean,
    set_progress,
)
from dcl_monai.transforms import EncodeCandidates, ExpandCandidates

# Three items of 2 channels x 4 voxels: four entries count in the first, one in the second, none in the third.
VALUES = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]).repeat(3, 1, 1)
MASK = torch.zeros(3, 2, 4, dtype=torch.bool)
MASK[0, 0, :3] = MASK[0, 1, 3] = MASK[1, 1, 1] = True
SUM = [(1 + 2 + 3 + 8) / 4, 6 / 4, 0.0]
BALANCED = [(1 + 2 + 3 + 8) / 4, 6 / 1, 0.0]


def test_sum_is_divided_by_voxels():
    assert SumMean()(VALUES, MASK).tolist() == SUM


def test_balanced_is_divided_by_its_own_entries():
    assert BalancedMean()(VALUES, MASK).tolist() == BALANCED


@pytest.mark.parametrize("shape", [(8,), (2, 2, 2)], ids=str)
def test_any_spatial_shape(shape):
    values, mask = torch.arange(8.0).reshape(1, 1, *shape), torch.ones(1, 1, *shape, dtype=torch.bool)
    assert SumMean()(values, mask).tolist() == BalancedMean()(values, mask).tolist() == [28 / 8]


def test_soft_weights():
    values, weights = torch.tensor([[[2.0, 4.0, 8.0, 16.0]]]), torch.tensor([[[1.0, 0.5, 0.0, 0.5]]])
    weighted = 2 * 1 + 4 * 0.5 + 16 * 0.5
    assert SumMean()(values, weights).tolist() == [weighted / 4]
    assert BalancedMean()(values, weights).tolist() == [weighted / (1 + 0.5 + 0.5)]


def test_few_soft_weights_do_not_blow_up():
    assert BalancedMean()(torch.full((1, 1, 2), 3.0), torch.full((1, 1, 2), 0.01)).item() == pytest.approx(3 * 0.02)


def test_number_of_soft_entries_has_no_gradient():
    weights = torch.tensor([[[1.0, 0.5, 0.5]]], requires_grad=True)
    BalancedMean()(torch.tensor([[[2.0, 4.0, 8.0]]]), weights).sum().backward()
    assert weights.grad.flatten().tolist() == [2 / 2, 4 / 2, 8 / 2]


@pytest.mark.parametrize("average", [SumMean(), BalancedMean(), AnnealedMean()])
def test_what_is_masked_out_counts_for_nothing(average):
    """However large it is."""
    mask = torch.tensor([[[False, True]]])
    values = torch.tensor([[[1e38, 3.0]]], requires_grad=True)
    result = average(values, mask)
    result.sum().backward()
    assert result == average(torch.tensor([[[0.0, 3.0]]]), mask) > 0
    assert values.grad[0, 0, 0] == 0 != values.grad[0, 0, 1]


@pytest.mark.parametrize(("progress", "weight"), [(0.0, 0.0), (0.25, 0.0), (0.425, 0.5), (0.6, 1.0), (1.0, 1.0)])
def test_annealed_course(progress, weight):
    average = AnnealedMean()
    set_progress(average, progress)
    assert average.weight == pytest.approx(weight)
    expected = [(1 - weight) * b + weight * 3.0 * s for b, s in zip(BALANCED, SUM, strict=True)]
    assert average(VALUES, MASK).tolist() == pytest.approx(expected)


class TestClassBalanced:
    def test_classes_count_alike(self):
        """In the first item (1 + 2 + 3) / 3 of one class and 8 of the other; one class in the second, then none."""
        expected = [(2 + 8) / 2, 6.0, 0.0]
        assert ClassMean()(VALUES, MASK).tolist() == expected
        assert AnnealedMean(class_balanced=True).positive(VALUES, MASK).tolist() == expected

    def test_other_parts_are_as_ever(self):
        assert AnnealedMean(class_balanced=True)(VALUES, MASK).tolist() == BALANCED
        assert AnnealedMean().positive(VALUES, MASK).tolist() == BALANCED

    @pytest.mark.parametrize(("progress", "weight"), [(0.425, 0.5), (0.6, 1.0)])
    def test_course(self, progress, weight):
        average = AnnealedMean(class_balanced=True)
        set_progress(average, progress)
        expected = [(1 - weight) * b + weight * 3.0 * s for b, s in zip([5.0, 6.0, 0.0], SUM, strict=True)]
        assert average.positive(VALUES, MASK).tolist() == pytest.approx(expected)

    @pytest.mark.parametrize(("annotated", "same"), [([2], True), ([1, 2], False)])
    def test_loss(self, annotated, same):
        """Nothing changes where one class is annotated per image; where two are, the small one counts more."""
        label = torch.ones(1, 8, 8)
        label[:, :2, :2] = 2
        candidates = ExpandCandidates(4)(EncodeCandidates(4)(label, annotated))[None]
        logits = torch.randn(1, 8, 8, 8, generator=torch.Generator().manual_seed(0))
        pooled, balanced = CompatibleLoss(4), CompatibleLoss(4, averaging=AnnealedMean(class_balanced=True))
        terms, changed = pooled.terms(logits, candidates), balanced.terms(logits, candidates)
        assert torch.equal(terms["negative"], changed["negative"])
        assert torch.allclose(terms["positive"], changed["positive"]) == same


def test_annealed_course_of_ones_own():
    average = AnnealedMean(start=0.0, end=2.0, scale=10.0)
    set_progress(average, 0.5)
    expected = [0.75 * b + 0.25 * 10 * s for b, s in zip(BALANCED, SUM, strict=True)]
    assert average(VALUES, MASK).tolist() == pytest.approx(expected)


def test_annealed_starts_balanced():
    assert AnnealedMean()(VALUES, MASK).tolist() == BALANCED


def test_progress_reaches_nested_losses():
    loss = ConditionalCompatibleLoss(3)
    outer = nn.ModuleList([nn.Sequential(loss), CompatibleLoss(3, averaging="sum")])
    set_progress(outer, 0.6)
    averages = [module for module in outer.modules() if isinstance(module, AnnealedMean)]
    assert loss.compatible.averaging in averages
    assert loss.prior.averaging in averages
    assert [average.weight for average in averages] == [1.0, 1.0]


def test_progress_changes_the_loss():
    logits, candidates = torch.zeros(1, 2, 4), torch.tensor([[[True, True, True, True], [False, True, True, True]]])
    loss = CompatibleLoss(2)
    early = loss(logits, candidates)
    set_progress(loss, 1.0)
    torch.testing.assert_close(loss(logits, candidates), early * 3 / 4)  # one entry among four voxels


@pytest.mark.parametrize(("name", "kind"), [("sum", SumMean), ("balanced", BalancedMean), ("anneal", AnnealedMean)])
@pytest.mark.parametrize("make", [CompatibleLoss, PriorLoss])
def test_names(make, name, kind):
    assert type(make(3, averaging=name).averaging) is kind
    assert type(make(3).averaging) is AnnealedMean


def test_an_average_of_ones_own():
    class Largest(Averaging):
        def forward(self, values, mask):
            return values.masked_fill(~mask, 0.0).flatten(1).amax(1)

    candidates = torch.tensor([[[True, True], [False, True]]])
    loss = CompatibleLoss(2, positive=["ta_ce"], negative=[], averaging=Largest())
    logits = torch.tensor([[[0.25, 0.5], [0.75, 0.5]]]).log()
    assert loss(logits, candidates).item() == pytest.approx(torch.tensor(4.0).log().item())


@pytest.mark.parametrize("make", [CompatibleLoss, PriorLoss, ConditionalCompatibleLoss])
def test_unknown_name_is_refused(make):
    with pytest.raises(ValueError, match=r"unknown averaging 'mean', choose one of \['anneal', 'balanced', 'sum'\]"):
        make(3, averaging="mean")


@pytest.mark.parametrize(("start", "end"), [(0.6, 0.25), (0.5, 0.5), (-0.1, 0.5)])
def test_bad_course_is_refused(start, end):
    with pytest.raises(ValueError, match="start to change before it ends"):
        AnnealedMean(start=start, end=end)
