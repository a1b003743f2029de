"""The losses of other methods: literal values, MONAI as reference, and what they do at unknown voxels."""

from __future__ import annotations

from math import log

import pytest
import torch
from monai.losses import DiceCELoss
from monai.networks.utils import one_hot
from torch.nn import functional as F

from dcl_monai.losses import ConventionalCELoss, IgnoreDiceCELoss

# One item of three voxels: known to be 0, known to be 2, and not 0.
PROBABILITIES = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.2, 0.7, 0.1]], dtype=torch.float64).T.unsqueeze(0)
CANDIDATES = torch.tensor([[[True, False, False], [False, False, True], [False, True, True]]]).transpose(1, 2)


def full_labels(num_classes: int, shape: tuple[int, ...], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random logits and labels (B1[HWD])."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(shape[0], num_classes, *shape[1:], generator=generator, dtype=torch.float64)
    return logits, torch.randint(num_classes, (shape[0], 1, *shape[1:]), generator=generator)


def test_conventional_ce():
    """Against (1, 0, 0), (0, 0, 1) and (0, 1/2, 1/2)."""
    first = -log(0.6) - log(1 - 0.3) - log(1 - 0.1)
    second = -log(1 - 0.2) - log(1 - 0.3) - log(0.5)
    third = -log(1 - 0.2) - (log(0.7) + log(1 - 0.7)) / 2 - (log(0.1) + log(1 - 0.1)) / 2
    value = ConventionalCELoss(3)(PROBABILITIES.log(), CANDIDATES)
    assert float(value) == pytest.approx((first + second + third) / 3)


def test_conventional_ce_of_nothing_known():
    """Even where all classes are candidates it asks for an even guess: p = 1/m."""
    value = ConventionalCELoss(4)(torch.zeros(2, 4, 5), torch.ones(2, 4, 5, dtype=torch.bool))
    assert float(value) == pytest.approx(-4 * (0.25 * log(0.25) + 0.75 * log(0.75)))


def test_conventional_ce_of_full_labels():
    logits, label = full_labels(4, (2, 5, 6))
    truth = one_hot(label, 4)
    expected = F.binary_cross_entropy(logits.softmax(1), truth.double(), reduction="sum") / label.numel()
    torch.testing.assert_close(ConventionalCELoss(4)(logits, truth.bool()), expected)


def test_ignore_dice_ce():
    """Over the first two voxels only; Dice of the classes 1 and 2, the background left out."""
    ce = (-log(0.6) - log(0.5)) / 2
    smooth = 1e-5
    dice_1 = smooth / (0.3 + 0.3 + 0 + smooth)
    dice_2 = (2 * 0.5 + smooth) / (0.1 + 0.5 + 1 + smooth)
    value = IgnoreDiceCELoss(3)(PROBABILITIES.log(), CANDIDATES)
    assert float(value) == pytest.approx(ce + 1 - (dice_1 + dice_2) / 2)


@pytest.mark.parametrize("shape", [(3, 6, 5), (2, 4, 5, 3)], ids=["2D", "3D"])
def test_ignore_dice_ce_of_full_labels_is_monais(shape):
    logits, label = full_labels(4, shape)
    reference = DiceCELoss(include_background=False, to_onehot_y=True, softmax=True)
    truth = one_hot(label, 4).bool()
    torch.testing.assert_close(IgnoreDiceCELoss(4)(logits, truth), reference(logits, label))


@pytest.mark.parametrize("loss", [ConventionalCELoss(3), IgnoreDiceCELoss(3)], ids=lambda loss: type(loss).__name__)
def test_intersections_and_extras_are_added(loss):
    halves = torch.cat([0.25 * PROBABILITIES, 0.75 * PROBABILITIES], dim=1)
    torch.testing.assert_close(loss(halves.log(), CANDIDATES), loss(PROBABILITIES.log(), CANDIDATES))


@pytest.mark.parametrize("known_share", [0.0, 0.3])
def test_ignored_voxels_have_no_gradient(known_share):
    logits, label = full_labels(4, (2, 6, 6))
    ignored = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(1)) >= known_share
    candidates = one_hot(label, 4).bool() | ignored
    logits.requires_grad_()
    IgnoreDiceCELoss(4)(logits, candidates).backward()
    assert (logits.grad[ignored.expand_as(logits)] == 0).all()
    assert (logits.grad[~ignored.expand_as(logits)] != 0).all()


def test_several_candidates_are_ignored_too():
    """That a voxel is not class 0 is lost on this loss, as on nnU-Net's."""
    logits = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    candidates = torch.tensor([False, True, True]).reshape(1, 3, 1).expand(1, 3, 4)
    loss = IgnoreDiceCELoss(3)(logits, candidates)
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-7)
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("loss", [ConventionalCELoss(4), IgnoreDiceCELoss(4)], ids=lambda loss: type(loss).__name__)
def test_items_do_not_depend_on_their_batch_mates(loss):
    logits, label = full_labels(4, (3, 6, 6))
    unknown = torch.arange(36).reshape(1, 1, 6, 6) < torch.tensor([0, 12, 30]).reshape(3, 1, 1, 1)  # unlike shares
    candidates = one_hot(label, 4).bool() | unknown
    alone = [loss(logits[i : i + 1], candidates[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(loss(logits, candidates), torch.stack(alone).mean())
