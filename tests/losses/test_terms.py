"""Every equation of the losses on four voxels, with the arithmetic spelled out."""

from __future__ import annotations

from math import log

import pytest
import torch

from dcl_monai.losses import (
    BalancedMean,
    CompatibleLoss,
    ConditionalCompatibleLoss,
    LogProbabilities,
    PriorLoss,
    SumMean,
    class_probabilities,
)
from dcl_monai.losses.terms import NEGATIVE, POINTWISE_NEGATIVE, POSITIVE, joined

A, B, C, D = range(4)
PROBABILITIES = [
    (0.1, 0.2, 0.3, 0.4),  # A
    (0.5, 0.25, 0.125, 0.125),  # B
    (0.7, 0.1, 0.1, 0.1),  # C
    (0.05, 0.8, 0.1, 0.05),  # D: wrong, and above 1/2
]
SETS = [(2,), (0, 3), (0, 1, 2, 3), (0,)]

# {(channel, voxel): value} of the entries that count; the last channel of Eq. 17-18 holds the merged terms.
EXPECTED = {
    "Eq. 11": (POSITIVE["ce"], {(2, A): -log(0.3), (0, D): -log(0.05)}),
    "Eq. 12": (
        NEGATIVE["ce"],
        {
            **{(0, A): -log(1 - 0.1), (1, A): -log(1 - 0.2), (3, A): -log(1 - 0.4)},
            **{(1, B): -log(1 - 0.25), (2, B): -log(1 - 0.125)},
            **{(1, D): -log(1 - 0.8), (2, D): -log(1 - 0.1), (3, D): -log(1 - 0.05)},
        },
    ),
    "Eq. 13": (POSITIVE["dice"], {(2, A): 1 - 2 * 0.3 / (1 + 0.3), (0, D): 1 - 2 * 0.05 / (1 + 0.05)}),
    "Eq. 14": (
        NEGATIVE["dice"],
        {
            **{(0, A): 2 * 0.1 / 1.1, (1, A): 2 * 0.2 / 1.2, (3, A): 2 * 0.4 / 1.4},
            **{(1, B): 2 * 0.25 / 1.25, (2, B): 2 * 0.125 / 1.125},
            **{(1, D): 2 * 0.8 / 1.8, (2, D): 2 * 0.1 / 1.1, (3, D): 2 * 0.05 / 1.05},
        },
    ),
    "Eq. 15": (POSITIVE["ta_ce"], {(0, A): -log(0.3), (0, B): -log(0.5 + 0.125), (0, D): -log(0.05)}),
    "Eq. 16": (
        POSITIVE["ta_dice"],
        {
            (0, A): 1 - 2 * 0.3 / (1 + 0.3),
            (0, B): 1 - 2 * (0.5 + 0.125) / (1 + 0.5 + 0.125),
            (0, D): 1 - 2 * 0.05 / (1 + 0.05),
        },
    ),
    "Eq. 17": (
        NEGATIVE["ex_ce"],
        {
            **{(0, A): log(0.1 + 1), (1, A): log(0.2 + 1), (3, A): log(0.4 + 1), (4, A): log(0.1 + 0.2 + 0.4 + 1)},
            **{(1, B): log(0.25 + 1), (2, B): log(0.125 + 1)},
            **{(1, D): log(0.8 + 1), (2, D): log(0.1 + 1), (3, D): log(0.05 + 1), (4, D): log(0.8 + 0.1 + 0.05 + 1)},
        },
    ),
    "Eq. 18": (
        NEGATIVE["ex_dice"],
        {
            **{(0, A): 2 * 0.1 / 1.1, (1, A): 2 * 0.2 / 1.2, (3, A): 2 * 0.4 / 1.4, (4, A): 2 * 0.7 / 1.7},
            **{(1, B): 2 * 0.25 / 1.25, (2, B): 2 * 0.125 / 1.125},
            **{(1, D): 2 * 0.8 / 1.8, (2, D): 2 * 0.1 / 1.1, (3, D): 2 * 0.05 / 1.05, (4, D): 2 * 0.95 / 1.95},
        },
    ),
}


def voxels(rows) -> torch.Tensor:
    """One item of voxels in a row: probabilities per voxel to shape (1, channels, voxels)."""
    return torch.tensor(rows, dtype=torch.float64).T.unsqueeze(0)


def candidates(sets, num_classes: int = 4) -> torch.Tensor:
    return torch.tensor([[[j in members for members in sets] for j in range(num_classes)]])


@pytest.mark.parametrize("equation", EXPECTED)
@pytest.mark.parametrize("spatial", [(4,), (2, 2), (2, 1, 2)], ids=str)
def test_equation(equation, spatial):
    part, expected = EXPECTED[equation]
    prob = LogProbabilities(voxels(PROBABILITIES).log().unflatten(2, spatial))
    values, mask = part(prob, candidates(SETS).unflatten(2, spatial))
    assert values.shape == mask.shape == (1, mask.shape[1], *spatial)
    values, mask = values.flatten(2)[0], mask.flatten(2)[0]
    assert {(k, i) for k, i in mask.nonzero().tolist()} == set(expected)
    for entry, value in expected.items():
        assert float(values[entry]) == pytest.approx(value, rel=1e-12), entry


@pytest.mark.parametrize("equation", EXPECTED)
def test_equation_from_logits(equation):
    """Logits are free by a constant per voxel."""
    part, expected = EXPECTED[equation]
    logits = voxels(PROBABILITIES).log() + torch.tensor([7.0, -3.0, 0.0, 40.0])
    values, mask = part(LogProbabilities.of_classes(logits, 4), candidates(SETS))
    assert float((values * mask).sum()) == pytest.approx(sum(expected.values()), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "f_n"),
    [
        ("ce", lambda p: -log(1 - p)),
        ("dice", lambda p: 2 * p / (1 + p)),
        ("ex_ce", lambda p: log(p + 1)),
        ("ex_dice", lambda p: 2 * p / (p + 1)),
    ],
)
def test_pointwise_negative(name, f_n):
    values = POINTWISE_NEGATIVE[name](LogProbabilities(voxels(PROBABILITIES).log()))
    expected = voxels([[f_n(p) for p in row] for row in PROBABILITIES])
    torch.testing.assert_close(values, expected)


@pytest.mark.parametrize(
    ("names", "passes"), [(("ce", "dice"), 1), (("ex_ce", "ex_dice"), 1), (("ce", "ex_ce", "dice"), 2)]
)
@pytest.mark.parametrize("average", [SumMean(), BalancedMean()])
def test_joined_parts_are_the_same_loss(names, passes, average):
    args = LogProbabilities(voxels(PROBABILITIES).log()), candidates(SETS)
    parts = [NEGATIVE[name] for name in names]
    fewer = joined(parts)
    assert len(fewer) == passes
    torch.testing.assert_close(sum(average(*p(*args)) for p in fewer), sum(average(*p(*args)) for p in parts))


def test_parts_of_ones_own_stay_apart():
    def own(prob, candidates):
        return prob.prob**2, ~candidates

    assert joined([own, NEGATIVE["ce"], own])[1:] == (own, own)


def test_weighted_sum_of_parts():
    """Eq. 2 with the paper's sum, divided by the four voxels."""
    loss = CompatibleLoss(4, "ce", positive_weight=0.25, negative_weight=3.0, averaging="sum")
    terms = loss.terms(voxels(PROBABILITIES).log(), candidates(SETS))
    positive, negative = (sum(EXPECTED[eq][1].values()) / 4 for eq in ("Eq. 11", "Eq. 12"))
    assert float(terms["positive"]) == pytest.approx(0.25 * positive)
    assert float(terms["negative"]) == pytest.approx(3.0 * negative)
    total = loss(voxels(PROBABILITIES).log(), candidates(SETS))
    assert float(total) == pytest.approx(0.25 * positive + 3.0 * negative)


@pytest.mark.parametrize(
    ("combination", "equations"),
    [
        ("ce", ("Eq. 11", "Eq. 12")),
        ("dice", ("Eq. 13", "Eq. 14")),
        ("ce+dice", ("Eq. 11", "Eq. 13", "Eq. 12", "Eq. 14")),
        ("mmee", ("Eq. 15", "Eq. 16", "Eq. 17", "Eq. 18")),
    ],
)
def test_combinations(combination, equations):
    loss = CompatibleLoss(4, combination, averaging="sum")
    expected = sum(sum(EXPECTED[eq][1].values()) for eq in equations) / 4
    assert float(loss(voxels(PROBABILITIES).log(), candidates(SETS))) == pytest.approx(expected)


# Intersections, then extras, of three classes. Class probabilities: A (.4, .3, .3), B (.55, .25, .2).
SPLIT = [(0.1, 0.2, 0.1, 0.3, 0.1, 0.2), (0.5, 0.05, 0.1, 0.05, 0.2, 0.1)]
CONDITIONS = [(0, 1, 0), (1, 0, 0)]


def test_intersection_and_extra_are_added_as_probabilities():
    logits = voxels(SPLIT).log() + 5.0
    expected = voxels([(0.1 + 0.3, 0.2 + 0.1, 0.1 + 0.2), (0.5 + 0.05, 0.05 + 0.2, 0.1 + 0.1)])
    torch.testing.assert_close(class_probabilities(logits, 3), expected)
    prob = LogProbabilities.of_classes(logits, 3)
    torch.testing.assert_close(prob.prob, expected)
    torch.testing.assert_close(prob.log_not, torch.log(1 - expected))
    logits_summed = torch.softmax(sum(logits.chunk(2, dim=1)), dim=1)
    assert (logits_summed - expected).abs().min() > 0.005  # what the sum of logits would have given


@pytest.mark.parametrize("combination", ["ce", "dice", "mmee"])
def test_compatible_loss_sees_the_sum_only(combination):
    """Eq. 6: L_comp of z is L_comp of y."""
    loss = CompatibleLoss(3, combination, averaging="sum")
    sets = candidates([(1,), (0, 2)], 3)
    merged = voxels([(0.4, 0.3, 0.3), (0.55, 0.25, 0.2)]).log()
    torch.testing.assert_close(loss(voxels(SPLIT).log(), sets), loss(merged, sets))


@pytest.mark.parametrize(
    ("negative", "f_n"),
    [("ce", lambda p: -log(1 - p)), ("dice", lambda p: 2 * p / (1 + p)), ("ex_ce", lambda p: log(1 + p))],
)
def test_prior(negative, f_n):
    """Eq. 7: the intersection where y^c = 0, the extra where y^c = 1."""
    loss = PriorLoss(3, (negative,), averaging="sum")
    inclusiveness = f_n(0.1) + f_n(0.1) + f_n(0.05) + f_n(0.1)
    exclusiveness = f_n(0.1) + f_n(0.05)
    value = loss(voxels(SPLIT).log(), voxels(CONDITIONS))
    assert float(value) == pytest.approx((inclusiveness + exclusiveness) / 2)


@pytest.mark.parametrize("negative", [("ce",), ("dice",), ("ex_ce", "ex_dice")], ids=str)
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_prior_of_a_drawn_label_is_that_of_a_probability(negative, scale):
    """Where the label is 0 or 1, one share of every entry is looked at instead of both; known here and there."""
    generator = torch.Generator().manual_seed(0)
    logits = (scale * torch.randn(2, 6, 5, generator=generator, dtype=torch.float64)).requires_grad_()
    mask, known = (torch.rand(2, 3, 5, generator=generator) < 0.6 for _ in range(2))
    loss = PriorLoss(3, negative)
    drawn, soft = loss(logits, mask, known), loss(logits, mask.double(), known)
    torch.testing.assert_close(drawn, soft)
    torch.testing.assert_close(*(torch.autograd.grad(value, logits)[0] for value in (drawn, soft)))


def test_prior_adds_its_functions():
    both, ce, dice = (PriorLoss(3, names, averaging="sum") for names in (("ce", "dice"), ("ce",), ("dice",)))
    args = voxels(SPLIT).log(), voxels(CONDITIONS)
    torch.testing.assert_close(both(*args), ce(*args) + dice(*args))


@pytest.mark.parametrize(
    ("combination", "negative"), [("ce", ("ce",)), ("ce+dice", ("ce", "dice")), ("mmee", ("ex_ce", "ex_dice"))]
)
def test_conditional_compatible_loss(combination, negative):
    """Eq. 8, with f_N of the combination in the prior."""
    logits, sets, conditions = voxels(SPLIT).log(), candidates([(1,), (0, 2)], 3), voxels(CONDITIONS)
    loss = ConditionalCompatibleLoss(3, combination, prior_weight=0.1, averaging="sum")
    terms = loss.terms(logits, sets, conditions)
    expected = CompatibleLoss(3, combination, averaging="sum").terms(logits, sets)
    expected["prior"] = 0.1 * PriorLoss(3, negative, averaging="sum")(logits, conditions)
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value)
    torch.testing.assert_close(loss(logits, sets, conditions), sum(expected.values()))


def test_no_prior_at_weight_zero():
    loss = ConditionalCompatibleLoss(3, prior_weight=0.0)
    terms = loss.terms(voxels(SPLIT).log(), candidates([(1,), (0, 2)], 3), voxels(CONDITIONS))
    assert set(terms) == {"positive", "negative"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CompatibleLoss(4, "bce"), "unknown combination 'bce'"),
        (lambda: CompatibleLoss(4, positive=["ex_ce"]), "unknown part 'ex_ce'"),
        (lambda: CompatibleLoss(4, negative=["ta_ce"]), "unknown part 'ta_ce'"),
        (lambda: CompatibleLoss(4, positive=[], negative=[]), "positive or a negative part"),
        (lambda: PriorLoss(4, ["ta_ce"]), "unknown f_N 'ta_ce'"),
        (lambda: ConditionalCompatibleLoss(4, "bce"), "unknown combination 'bce'"),
    ],
)
def test_unknown_names_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_shapes_are_refused():
    sets = candidates(SETS)
    with pytest.raises(ValueError, match="need 4 or 8 channels, got 6"):
        CompatibleLoss(4)(torch.zeros(1, 6, 4), sets)
    with pytest.raises(ValueError, match="differ"):
        CompatibleLoss(4)(torch.zeros(1, 4, 5), sets)
    with pytest.raises(ValueError, match="prior needs 8 channels, got 4"):
        PriorLoss(4)(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4))
