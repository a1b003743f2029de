"""Finite values, and gradients that still push, where probabilities round to 0 and 1."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from dcl_monai.losses import (
    COMBINATIONS,
    CompatibleLoss,
    ConditionalCompatibleLoss,
    ConventionalCELoss,
    IgnoreDiceCELoss,
    LogProbabilities,
    PriorLoss,
    class_probabilities,
    log_space,
)
from dcl_monai.losses.log_space import LogAdd
from dcl_monai.losses.terms import NEGATIVE, POINTWISE_NEGATIVE, POSITIVE

M = 3
PARTS = {
    **{f"L_P {name}": part for name, part in POSITIVE.items()},
    **{f"L_N {name}": part for name, part in NEGATIVE.items()},
}
# Four voxels: class 0, class 0 or 1, class 0 again, and nothing known.
CANDIDATES = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 0], [1, 1, 1]]).bool().T.unsqueeze(0)
WRONG = torch.tensor([2, 2, 1, 2])  # a class outside the set, but for the last voxel

PRECISION = {
    "float32": (torch.float32, nullcontext),
    "float16 logits": (torch.float16, nullcontext),
    "bfloat16 logits": (torch.bfloat16, nullcontext),
    "autocast": (torch.float32, lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "autocast, bfloat16 logits": (torch.bfloat16, lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
}
every_precision = pytest.mark.parametrize("precision", PRECISION)
both_outputs = pytest.mark.parametrize("channels", [M, 2 * M], ids=["m", "2m"])
sizes = pytest.mark.parametrize("size", [20.0, 200.0, 1e4])  # 1 - p rounds to 0; p underflows; far beyond


def certain(classes: torch.Tensor, channels: int, size: float, dtype: torch.dtype) -> torch.Tensor:
    """Logits of +size for one class of every voxel (in its intersection, if it has one) and -size for the others."""
    logits = torch.full((1, channels, len(classes)), -size, dtype=dtype)
    logits[0, classes, torch.arange(len(classes))] = size
    return logits.requires_grad_()


# log(1 - p).


def log_not_reference(logits: torch.Tensor, num_classes: int) -> torch.Tensor:
    """log(1 - p) in float64 as the log of the summed probability of all other classes."""
    log = torch.log_softmax(logits.double(), dim=1).unflatten(1, (-1, num_classes)).logsumexp(1)
    others = [[k for k in range(num_classes) if k != j] for j in range(num_classes)]
    return torch.stack([log[:, index].logsumexp(1) for index in others], dim=1)


def test_log_add_gradient():
    a, b = (5 * torch.randn(3, 4, dtype=torch.float64) for _ in range(2))
    assert torch.autograd.gradcheck(LogAdd.apply, (a.requires_grad_(), b.requires_grad_()))


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 100.0, 1e4])
@pytest.mark.parametrize(("num_classes", "channels"), [(2, 2), (2, 4), (4, 4), (4, 8), (9, 18)])
def test_log_not(scale, num_classes, channels):
    logits = scale * torch.randn(200, channels, 5, generator=torch.Generator().manual_seed(0))
    result = LogProbabilities.of_classes(logits, num_classes).log_not
    assert result.dtype == torch.float32
    assert result.isfinite().all()
    # The reference sums up to nearly 1 where p is tiny, so it is good to 1e-15 there.
    torch.testing.assert_close(result.double(), log_not_reference(logits, num_classes), rtol=1e-5, atol=1e-15)


@pytest.mark.parametrize("num_classes", [2, 4])
def test_log_not_of_ties(num_classes):
    """
    Two classes of 1/2 each: the probabilities of both may round to a little more, and neither is log(1 - 1) = -inf.

    Intersection and extra of one class are those of the other, swapped.
    """
    first, second = 6 * torch.rand(2, 20000, generator=torch.Generator().manual_seed(0)) - 3
    logits = torch.full((20000, 2 * num_classes), -30.0)
    logits[:, 0] = logits[:, num_classes + 1] = first
    logits[:, 1] = logits[:, num_classes] = second
    result = LogProbabilities.of_classes(logits, num_classes).log_not
    torch.testing.assert_close(result[:, :2], torch.full((20000, 2), 0.5).log())


@both_outputs
def test_log_not_gradient_by_logits(channels):
    """Which of the equal forms of 1 - p is used does not show in the gradient of the logits."""
    logits = 3 * torch.randn(50, channels, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.randn(50, M, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits.requires_grad_()
    (result,) = torch.autograd.grad((weights * LogProbabilities.of_classes(logits, M).log_not).sum(), logits)
    prob = logits.softmax(1).unflatten(1, (-1, M)).sum(1)
    (expected,) = torch.autograd.grad((weights * torch.log(1 - prob)).sum(), logits)
    torch.testing.assert_close(result, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_sums_that_stand_and_sums_of_logs_are_the_same(combination, monkeypatch):
    """What a CPU adds up as it stands, and what a GPU adds up by the logs."""
    generator = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(2, 2 * M, 6, 6, generator=generator)).requires_grad_()
    candidates = (torch.rand(2, M, 6, 6, generator=generator) < 0.5) | (torch.arange(M) == 0).reshape(M, 1, 1)
    loss = ConditionalCompatibleLoss(M, combination)
    values = []
    for safe in (log_space.SAFE, torch.inf):
        monkeypatch.setattr(log_space, "SAFE", safe)
        values.append(loss(logits, candidates, torch.rand(2, M, 6, 6, generator=generator.manual_seed(1)) < 0.5))
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*(torch.autograd.grad(value, logits)[0] for value in values))


# Saturated predictions.


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("average", ["sum", "balanced", "anneal"])
@sizes
@both_outputs
@every_precision
def test_saturated_wrong_prediction(combination, average, size, channels, precision):
    """Value and gradient are finite; every combination with a logarithm still pushes the wrong class down."""
    dtype, context = PRECISION[precision]
    logits = certain(WRONG, channels, size, dtype)
    with context():
        loss = CompatibleLoss(M, combination, averaging=average)(logits, CANDIDATES)
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    assert loss > 0.5
    loss.backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[..., 3] == 0).all()  # nothing is known there
    if combination != "dice":  # Dice saturates with the softmax: that is what it is
        voxels = torch.arange(3)
        assert (logits.grad[0, WRONG[:3], voxels] > 1e-3).all()
        true = logits.grad[0].unflatten(0, (-1, M)).sum(0)[0, :3]  # the intersection and the extra of class 0
        assert (true < -1e-3).all()


@pytest.mark.parametrize("combination", COMBINATIONS)
@sizes
@both_outputs
def test_saturated_right_prediction(combination, size, channels):
    logits = certain(torch.tensor([0, 1, 0, 2]), channels, size, torch.float32)
    loss = CompatibleLoss(M, combination)(logits, CANDIDATES)
    loss.backward()
    assert 0 <= loss < 1e-6
    assert logits.grad.abs().max() < 1e-6


@pytest.mark.parametrize("part", PARTS)
@sizes
@both_outputs
def test_parts_of_saturated_predictions(part, size, channels):
    """Not even the entries that do not count are inf or nan: masked they would turn into nan in the gradient."""
    logits = certain(WRONG, channels, size, torch.float32)
    values, _ = PARTS[part](LogProbabilities.of_classes(logits, M), CANDIDATES)
    values.sum().backward()
    assert values.isfinite().all()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("negative", POINTWISE_NEGATIVE)
@pytest.mark.parametrize("soft", [False, True])
@sizes
@every_precision
def test_saturated_prior(negative, soft, size, precision):
    """Intersections outside the conditional label: f_N with a logarithm of 1 - p pushes them down, all are finite."""
    dtype, context = PRECISION[precision]
    logits = certain(WRONG, 2 * M, size, dtype)
    cond_mask = torch.full((1, M, 4), 0.25 if soft else 0.0, requires_grad=soft)
    with context():
        loss = PriorLoss(M, [negative])(logits, cond_mask)
    loss.backward()
    assert loss.isfinite()
    assert loss > 0
    assert logits.grad.isfinite().all()
    if soft:
        assert cond_mask.grad.isfinite().all()
    if negative == "ce":
        assert (logits.grad[0, WRONG, torch.arange(4)] > 1e-3).all()


@pytest.mark.parametrize("loss", [ConventionalCELoss(M), IgnoreDiceCELoss(M)], ids=lambda loss: type(loss).__name__)
@sizes
@both_outputs
@every_precision
def test_saturated_baselines(loss, size, channels, precision):
    dtype, context = PRECISION[precision]
    logits = certain(WRONG, channels, size, dtype)
    with context():
        value = loss(logits, CANDIDATES)
    value.backward()
    assert value.isfinite()
    assert logits.grad.isfinite().all()
    assert logits.grad[0, 2, 0] > 1e-3 > -1e-3 > logits.grad[0, 0, 0]


@sizes
@both_outputs
@every_precision
def test_class_probabilities(size, channels, precision):
    dtype, context = PRECISION[precision]
    with context():
        prob = class_probabilities(certain(WRONG, channels, size, dtype), M)
    assert prob.dtype == torch.float32
    assert prob.argmax(1).flatten().tolist() == WRONG.tolist()
    torch.testing.assert_close(prob.sum(1), torch.ones(1, 4))


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_precision_of_the_logits_is_all_that_autocast_changes(combination):
    generator = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(2, 2 * M, 6, 6, generator=generator)
    candidates = (torch.rand(2, M, 6, 6, generator=generator) < 0.5) | (torch.arange(M) == 0).reshape(M, 1, 1)
    cond_mask = torch.rand(2, M, 6, 6, generator=generator) < 0.5
    loss = ConditionalCompatibleLoss(M, combination)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = loss(logits, candidates, cond_mask)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, loss(logits, candidates, cond_mask))


# Items of which nothing is known.


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("average", ["sum", "balanced", "anneal"])
@pytest.mark.parametrize("scale", [1.0, 1e4])
@both_outputs
def test_item_without_known_entries(combination, average, scale, channels):
    logits = (scale * torch.randn(1, channels, 5, 5, generator=torch.Generator().manual_seed(0))).requires_grad_()
    loss = CompatibleLoss(M, combination, averaging=average)(logits, torch.ones(1, M, 5, 5, dtype=torch.bool))
    loss.backward()
    assert loss == 0
    assert (logits.grad == 0).all()


# Gradients against finite differences.


@pytest.mark.parametrize("part", PARTS)
@both_outputs
def test_gradcheck_of_parts(part, channels):
    logits = 2 * torch.randn(1, channels, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def masked(x: torch.Tensor) -> torch.Tensor:
        values, mask = PARTS[part](LogProbabilities.of_classes(x, M), CANDIDATES)
        return values[mask]

    assert masked(logits).numel() > 0
    assert torch.autograd.gradcheck(masked, logits.requires_grad_())


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("average", ["sum", "balanced"])
def test_gradcheck_of_conditional_loss(combination, average):
    """By the logits; and by a soft conditional label for the plain sum (the balanced mean counts without gradient)."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 2 * M, 4, generator=generator, dtype=torch.float64).requires_grad_()
    soft = torch.rand(1, M, 4, generator=generator, dtype=torch.float64).requires_grad_(average == "sum")
    loss = ConditionalCompatibleLoss(M, combination, averaging=average)
    assert torch.autograd.gradcheck(lambda x, y: loss(x, CANDIDATES, y), (logits, soft))


@pytest.mark.parametrize("loss", [CompatibleLoss(3), CompatibleLoss(3, "mmee"), ConventionalCELoss(3)])
def test_empty_candidate_sets_are_an_error(loss):
    """They gave nan and 1e37."""
    candidates = torch.ones(2, 3, 4, 4, dtype=torch.bool)
    candidates[1, :, 0, :2] = False
    with pytest.raises(ValueError, match=r"2 voxel\(s\) have an empty candidate set, in item\(s\) \[1\]"):
        loss(torch.zeros(2, 3, 4, 4), candidates)
