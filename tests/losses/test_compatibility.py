"""Propositions 1-3 and their kin on random inputs: the ground truth is among the minimisers, and unknown is unknown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from dcl_monai.candidates import known, known_positive
from dcl_monai.losses import (
    COMBINATIONS,
    CompatibleLoss,
    ConditionalCompatibleLoss,
    ConventionalCELoss,
    LogProbabilities,
    PriorLoss,
    set_progress,
)
from dcl_monai.losses.compatibility import (
    ANNOTATION_KINDS,
    certain_logits,
    one_hot_classes,
    other_predictions,
    random_candidates,
)
from dcl_monai.losses.terms import NEGATIVE, POSITIVE

M = 4
SPATIAL = {"2D": (4, 5), "3D": (3, 4, 2)}
KINDS = ANNOTATION_KINDS


def own_positive(prob, candidates):
    return (1.0 - prob.prob) ** 2, known_positive(candidates)


def own_negative(prob, candidates):
    return prob.prob**3, ~candidates


def square(prob):
    return prob.prob**2


LOSSES: dict[str, dict] = {
    **{name: {"combination": name} for name in COMBINATIONS},
    **{f"only L_P {name}": {"positive": [name], "negative": []} for name in POSITIVE},
    **{f"only L_N {name}": {"positive": [], "negative": [name]} for name in NEGATIVE},
    "own": {"positive": [own_positive], "negative": [own_negative]},
    "weighted": {"combination": "mmee", "positive_weight": 0.3, "negative_weight": 2.0},
    "region": {"combination": "ce", "region_weight": 0.5},
    "mixed": {"positive": ["ta_ce", "dice"], "negative": ["ex_dice", "ce", own_negative]},
}
AVERAGES = ("sum", "balanced", "anneal 0.4", "anneal 1")  # at progress 0 it is the balanced mean

every_loss = pytest.mark.parametrize("loss_name", LOSSES)
every_average = pytest.mark.parametrize("average", AVERAGES)
every_dimension = pytest.mark.parametrize("spatial", SPATIAL.values(), ids=SPATIAL)
both_outputs = pytest.mark.parametrize("channels", [M, 2 * M], ids=["m", "2m"])


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def build(make: Callable, average: str, **kwargs):
    name, _, progress = average.partition(" ")
    loss = make(num_classes=M, averaging=name, **kwargs)
    set_progress(loss, float(progress or 0))
    return loss


def one_hot(label: torch.Tensor, channels: int = M) -> torch.Tensor:
    return one_hot_classes(label, channels)


def random_truth(rng, spatial, items: int = 1) -> torch.Tensor:
    return torch.randint(M, (items, *spatial), generator=rng)


def candidate_sets(kind: str, truth: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return random_candidates(kind, truth, M, rng)


def split(truth: torch.Tensor, cond_mask: torch.Tensor) -> torch.Tensor:
    """g of Eq. 5: intersection of the truth (B[HWD]) and the conditional label, and the extra; boolean B(2m)[HWD]."""
    exact = one_hot(truth)
    return torch.cat([exact & cond_mask, exact & ~cond_mask], dim=1)


def assert_truth_minimises(loss: Callable[[torch.Tensor], torch.Tensor], truth_logits: torch.Tensor, rng) -> None:
    at_truth = loss(truth_logits)
    for number, logits in enumerate(other_predictions(truth_logits, rng)):
        assert at_truth <= loss(logits) + 1e-12, f"prediction {number} is better than the ground truth"


# (a) The ground truth is among the minimisers: Propositions 2 and 3, Appendix A.


@every_loss
@every_average
@every_dimension
@both_outputs
def test_truth_minimises_compatible_loss(loss_name, average, spatial, channels, rng):
    loss = build(CompatibleLoss, average, **LOSSES[loss_name])
    for kind in KINDS:
        truth = random_truth(rng, spatial)
        candidates = candidate_sets(kind, truth, rng)
        assert candidates.gather(1, truth.unsqueeze(1)).all()
        shared = torch.rand(candidates.shape, generator=rng) < 0.5  # a conditional label
        of_truth = one_hot(truth) if channels == M else split(truth, shared)
        assert_truth_minimises(lambda logits, c=candidates: loss(logits, c), certain_logits(of_truth), rng)


@pytest.mark.parametrize("negative", ["ce", "dice", "ex_ce", "ex_dice", square])
@every_average
@every_dimension
def test_truth_minimises_prior(negative, average, spatial, rng):
    loss = build(PriorLoss, average, negative=[negative])
    for _ in range(3):
        truth = random_truth(rng, spatial)
        cond_mask, cond_known = (torch.rand(one_hot(truth).shape, generator=rng) < share for share in (0.5, 0.7))
        for is_known in (None, cond_known):
            assert_truth_minimises(
                lambda logits, y=cond_mask, k=is_known: loss(logits, y, k), certain_logits(split(truth, cond_mask)), rng
            )


@pytest.mark.parametrize("combination", COMBINATIONS)
@every_average
@every_dimension
def test_truth_minimises_conditional_compatible_loss(combination, average, spatial, rng):
    loss = build(ConditionalCompatibleLoss, average, combination=combination, prior_weight=0.3)
    for kind in KINDS:
        truth = random_truth(rng, spatial)
        cond_mask, cond_known = (torch.rand(one_hot(truth).shape, generator=rng) < share for share in (0.5, 0.7))
        args = candidate_sets(kind, truth, rng), cond_mask, cond_known
        assert_truth_minimises(lambda logits, a=args: loss(logits, *a), certain_logits(split(truth, cond_mask)), rng)


@every_average
@pytest.mark.parametrize("loss_name", [name for name in LOSSES if "only L_P" not in name])
def test_a_prediction_that_contradicts_the_label_costs(loss_name, average, rng):
    """Zero would satisfy (a) too."""
    truth = random_truth(rng, (4, 5))
    candidates = candidate_sets("annotated", truth, rng)
    loss = build(CompatibleLoss, average, **LOSSES[loss_name])
    excluded = one_hot((~candidates).int().argmax(1))
    assert loss(certain_logits(excluded), candidates) > loss(certain_logits(one_hot(truth)), candidates) + 0.1


# (b) Conventional losses are not compatible (Proposition 1), nor are the equations as printed.


def conventional_dice(logits: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """The paper's Dice loss, the sum of 1 - 2 y y_hat / (y + y_hat), against the vector with p = 1 / (m - q)."""
    prob, vector = torch.softmax(logits, dim=1), candidates / candidates.sum(1, keepdim=True)
    return (1 - 2 * vector * prob / (vector + prob)).sum()


@pytest.mark.parametrize("loss", [ConventionalCELoss(3), conventional_dice], ids=["ce", "dice"])
def test_conventional_loss_prefers_an_even_guess_to_the_truth(loss):
    """One voxel, known not to be class 0; it is class 1."""
    candidates = torch.tensor([[[False], [True], [True]]])
    truth, even = (torch.tensor([row], dtype=torch.float64).unsqueeze(2) for row in ([-50, 0, -50], [-50, 0, 0]))
    assert loss(even, candidates) < loss(truth, candidates) - 0.3
    compatible = CompatibleLoss(3, "ce+dice")
    assert compatible(even, candidates) >= compatible(truth, candidates) - 1e-12


@pytest.mark.parametrize("loss", [ConventionalCELoss(M), conventional_dice], ids=["ce", "dice"])
def test_conventional_loss_is_found_out(loss, rng):
    """The check of (a) can fail."""
    truth = random_truth(rng, (4, 5))
    candidates = candidate_sets("scribble", truth, rng)
    with pytest.raises(AssertionError, match="better than the ground truth"):
        assert_truth_minimises(lambda logits: loss(logits, candidates), certain_logits(one_hot(truth)), rng)


def eq15_as_printed(prob, candidates):
    """The merged term has the other sign."""
    values = prob.log_sum(candidates)
    single = candidates.sum(1, keepdim=True) == 1
    return torch.where(single, -values, values), ~candidates.all(1, keepdim=True)


def eq17_as_printed(prob, candidates):
    """For c_q = {0, 1}: at annotated voxels the merged term sums over c_q, and counts m times."""
    annotated = candidates.sum(1, keepdim=True) == 1
    merged = torch.log1p(prob.prob[:, :2].sum(1, keepdim=True)).expand_as(prob.prob)
    return torch.cat([torch.log1p(prob.prob), merged], 1), torch.cat([~candidates, annotated.expand_as(candidates)], 1)


@pytest.mark.parametrize("parts", [([eq15_as_printed], []), ([], [eq17_as_printed])], ids=["Eq. 15", "Eq. 17"])
def test_equations_as_printed_are_not_compatible(parts, rng):
    truth = random_truth(rng, (4, 5))
    exact, annotated = one_hot(truth), torch.tensor([True, True, False, False]).reshape(1, M, 1, 1)
    candidates = torch.where((exact & annotated).any(1, keepdim=True), exact, ~annotated)
    loss = CompatibleLoss(M, positive=parts[0], negative=parts[1], averaging="sum")
    with pytest.raises(AssertionError, match="better than the ground truth"):
        assert_truth_minimises(lambda logits: loss(logits, candidates), certain_logits(exact), rng)


# (c), (d) Derivatives by the class probabilities.


def leaf_probabilities(spatial, rng) -> torch.Tensor:
    logits = 3 * torch.randn(1, M, *spatial, generator=rng, dtype=torch.float64)
    return torch.softmax(logits, dim=1).requires_grad_()


def value(loss: CompatibleLoss, prob: LogProbabilities, candidates: torch.Tensor) -> torch.Tensor:
    return sum(loss.of_probabilities(prob, candidates).values())


@pytest.mark.parametrize("combination", ["ce", "dice", "ce+dice"])
@pytest.mark.parametrize("kind", KINDS)
@every_average
def test_unknown_entries_have_no_derivative(combination, kind, average, rng):
    candidates = candidate_sets(kind, random_truth(rng, (4, 5)), rng)
    leaf = leaf_probabilities((4, 5), rng)
    prob = LogProbabilities(leaf.log())
    # An entry's own complement, as in Eq. 12: computed from the other entries, as it is for the sake of accuracy, it is
    # the same function of the logits, but has other partial derivatives (test_stability.py compares the gradients).
    prob.log_not = torch.log1p(-leaf)
    value(build(CompatibleLoss, average, combination=combination), prob, candidates).backward()
    is_known = known(candidates)
    assert (leaf.grad[~is_known] == 0).all()
    assert (leaf.grad[is_known] != 0).all()


@pytest.mark.parametrize("combination", ["ce", "dice", "ce+dice"])
@pytest.mark.parametrize("kind", KINDS)
def test_unknown_entries_may_trade_probability(combination, kind, rng):
    """The same without any help: no derivative along changes that stay within a voxel's unknown entries."""
    candidates = candidate_sets(kind, random_truth(rng, (4, 5)), rng)
    leaf = leaf_probabilities((4, 5), rng)
    value(CompatibleLoss(M, combination), LogProbabilities(leaf.log()), candidates).backward()
    unknown = ~known(candidates)
    trade = torch.randn(leaf.shape, generator=rng, dtype=torch.float64) * unknown
    trade = trade - unknown * trade.sum(1, keepdim=True) / unknown.sum(1, keepdim=True).clamp_min(1)
    assert torch.allclose((leaf.grad * trade).sum(1), torch.zeros(()).double(), atol=1e-12)


@pytest.mark.parametrize("part", ["ta_ce", "ta_dice"])
@pytest.mark.parametrize("kind", KINDS)
@every_average
def test_candidates_share_one_derivative(part, kind, average, rng):
    candidates = candidate_sets(kind, random_truth(rng, (4, 5)), rng)
    leaf = leaf_probabilities((4, 5), rng)
    loss = build(CompatibleLoss, average, positive=[part], negative=[])
    value(loss, LogProbabilities(leaf.log()), candidates).backward()
    says_something = ~candidates.all(1, keepdim=True)
    shared = leaf.grad.masked_fill(~candidates, -torch.inf).amax(1, keepdim=True)
    torch.testing.assert_close(leaf.grad, shared * candidates)
    assert (shared[says_something] < 0).all()
    assert (shared[~says_something] == 0).all()


# (e) Full labels: the ordinary losses.


@every_dimension
@both_outputs
def test_full_labels_give_binary_cross_entropy(spatial, channels, rng):
    truth = random_truth(rng, spatial, items=3)
    exact, logits = one_hot(truth), torch.randn(3, channels, *spatial, generator=rng, dtype=torch.float64)
    prob = logits.softmax(1).unflatten(1, (-1, M)).sum(1)
    entries = F.binary_cross_entropy(prob, exact.double(), reduction="none")
    torch.testing.assert_close(CompatibleLoss(M, "ce", averaging="sum")(logits, exact), entries.sum() / truth.numel())
    balanced = entries[exact].mean() + entries[~exact].mean()
    torch.testing.assert_close(CompatibleLoss(M, "ce", averaging="balanced")(logits, exact), balanced)


@every_dimension
@pytest.mark.parametrize("average", ["sum", "balanced"])
def test_full_labels_give_cross_entropy(spatial, average, rng):
    truth = random_truth(rng, spatial, items=3)
    logits = torch.randn(3, M, *spatial, generator=rng, dtype=torch.float64)
    for positive in ("ta_ce", "ce"):
        loss = CompatibleLoss(M, positive=[positive], negative=[], averaging=average)
        torch.testing.assert_close(loss(logits, one_hot(truth)), F.cross_entropy(logits, truth))


def test_all_but_one_class_annotated_is_a_full_label(rng):
    """q = m - 1: the class left over is known by elimination."""
    truth = random_truth(rng, (4, 5))
    exact, annotated = one_hot(truth), torch.tensor([True, True, False, True]).reshape(1, M, 1, 1)
    candidates = torch.where((exact & annotated).any(1, keepdim=True), exact, ~annotated)
    logits = torch.randn(1, M, 4, 5, generator=rng)
    for loss in (build(CompatibleLoss, "balanced", **kwargs) for kwargs in LOSSES.values()):
        assert loss(logits, candidates) == loss(logits, exact)


# (f) Items do not depend on their batch mates, but for the Dice of whole structures.


@pytest.mark.parametrize("loss_name", [name for name in LOSSES if name != "region"])
@every_average
@both_outputs
def test_batch_is_the_mean_of_its_items(loss_name, average, channels, rng):
    truth = random_truth(rng, (4, 5), items=len(KINDS))
    candidates = torch.cat([candidate_sets(kind, truth[i : i + 1], rng) for i, kind in enumerate(KINDS)])
    logits = torch.randn(len(KINDS), channels, 4, 5, generator=rng, dtype=torch.float64)
    loss = build(CompatibleLoss, average, **LOSSES[loss_name])
    alone = [loss(logits[i : i + 1], candidates[i : i + 1]) for i in range(len(KINDS))]
    torch.testing.assert_close(loss(logits, candidates), torch.stack(alone).mean())


@pytest.mark.parametrize("combination", COMBINATIONS)
@every_average
def test_conditional_batch_is_the_mean_of_its_items(combination, average, rng):
    truth = random_truth(rng, (4, 5), items=len(KINDS))
    candidates = torch.cat([candidate_sets(kind, truth[i : i + 1], rng) for i, kind in enumerate(KINDS)])
    share = torch.linspace(0.1, 0.9, len(KINDS)).reshape(-1, 1, 1, 1)  # unlike numbers of entries in each item
    cond_mask, cond_known = (torch.rand(candidates.shape, generator=rng) < share for _ in range(2))
    args = torch.randn(len(KINDS), 2 * M, 4, 5, generator=rng, dtype=torch.float64), candidates, cond_mask, cond_known
    loss = build(ConditionalCompatibleLoss, average, combination=combination)
    alone = [loss(*(arg[i : i + 1] for arg in args)) for i in range(len(KINDS))]
    torch.testing.assert_close(loss(*args), torch.stack(alone).mean())


# (g) The conditional label: unknown, or soft.


@pytest.mark.parametrize("combination", COMBINATIONS)
@every_average
def test_unknown_conditional_labels_have_no_effect(combination, average, rng, monkeypatch):
    loss = build(PriorLoss, average, negative=COMBINATIONS[combination][1])
    is_known = torch.rand(2, M, 4, 5, generator=rng) < 0.6
    mask = torch.rand(2, M, 4, 5, generator=rng) < 0.5
    prob = torch.softmax(torch.randn(2, 2 * M, 4, 5, generator=rng, dtype=torch.float64), dim=1)
    values, gradients = [], []
    for cond_mask in (mask, torch.where(is_known, mask, ~mask)):
        leaf = prob.clone().requires_grad_()
        channels = LogProbabilities(leaf.log())
        cap, delta = leaf.chunk(2, dim=1)

        def either(is_delta, cap=cap, delta=delta):
            share = LogProbabilities(torch.where(is_delta, delta, cap).log())
            share.log_not = torch.log1p(-torch.where(is_delta, delta, cap))  # as in test_unknown_entries_...
            return share

        monkeypatch.setattr(channels, "either", either)
        values.append(loss.of_probabilities(channels, cond_mask, is_known))
        gradients.append(*torch.autograd.grad(values[-1], leaf))
    assert values[0] == values[1] > 0
    assert torch.equal(*gradients)
    counted = torch.cat([is_known & ~mask, is_known & mask], dim=1)
    assert torch.equal(gradients[0] != 0, counted)


def test_nothing_known_of_the_conditions(rng):
    logits, mask = torch.randn(2, 2 * M, 4, 5, generator=rng), torch.ones(2, M, 4, 5)
    assert PriorLoss(M)(logits, mask, torch.zeros(2, M, 4, 5, dtype=torch.bool)) == 0


def test_conditions_are_known_everywhere_by_default(rng):
    logits, mask = torch.randn(2, 2 * M, 4, 5, generator=rng), torch.rand(2, M, 4, 5, generator=rng) < 0.5
    loss = PriorLoss(M)
    assert loss(logits, mask) == loss(logits, mask, torch.ones_like(mask)) > 0


@pytest.mark.parametrize("masked", [False, True])
def test_soft_conditional_labels_weight_both_terms(masked, rng):
    logits = torch.randn(2, 2 * M, 4, 5, generator=rng, dtype=torch.float64)
    soft = torch.rand(2, M, 4, 5, generator=rng, dtype=torch.float64).requires_grad_()
    is_known = torch.rand(2, M, 4, 5, generator=rng) < 0.6 if masked else torch.ones(2, M, 4, 5, dtype=torch.bool)
    loss = PriorLoss(M, ["ce"], averaging="sum")(logits, soft, is_known)
    cap, delta = (-torch.log1p(-logits.softmax(1))).chunk(2, dim=1)
    expected = (((1 - soft) * cap + soft * delta) * is_known).sum() / 40
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, soft)  # which the dual pass needs
    torch.testing.assert_close(gradient, (delta - cap) * is_known / 40)
