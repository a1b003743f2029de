"""Deep supervision around the losses of partial labels."""

from __future__ import annotations

import pytest
import torch
from helpers import DEEP_NET

from dcl_monai.losses import ConditionalCompatibleLoss, ConventionalCELoss, DeepSupervision
from dcl_monai.networks import CompNet

M = 3


@pytest.fixture
def batch() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    candidates = torch.rand(2, M, 4, 4, 4) < 0.5
    candidates[:, 0] |= ~candidates.any(1)
    mask = torch.rand(2, M, 4, 4, 4) < 0.3
    return candidates, mask, torch.ones_like(mask)


def test_heads_count_half_as_much_as_the_one_before(batch):
    heads = torch.randn(2, 3, 2 * M, 4, 4, 4)
    loss = ConditionalCompatibleLoss(M)
    parts = [loss(heads[:, k], *batch) for k in range(3)]
    expected = (4 * parts[0] + 2 * parts[1] + parts[2]) / 7
    deep = DeepSupervision(loss)
    torch.testing.assert_close(deep(heads, *batch), expected)
    assert set(deep.terms(heads, *batch)) == {"positive", "negative", "prior"}


def test_a_single_output_is_the_loss_itself(batch):
    """As in evaluation mode, in which DualNet runs."""
    logits = torch.randn(2, 2 * M, 4, 4, 4)
    loss = ConditionalCompatibleLoss(M)
    torch.testing.assert_close(DeepSupervision(loss)(logits, *batch), loss(logits, *batch))


def test_a_loss_without_terms(batch):
    heads, loss = torch.randn(2, 2, M, 4, 4, 4), ConventionalCELoss(M)
    expected = (2 * loss(heads[:, 0], batch[0]) + loss(heads[:, 1], batch[0])) / 3
    torch.testing.assert_close(DeepSupervision(loss)(heads, batch[0]), expected)


def test_network_with_heads(batch):
    """The routing head acts on every head; the finest one is the output of evaluation mode."""
    net = CompNet(num_classes=M, **DEEP_NET)
    image, cond_image = torch.randn(2, 1, 10, 8, 8), torch.randn(2, M, 10, 8, 8)
    mask = torch.rand(2, M, 10, 8, 8) < 0.3
    heads = net(image, cond_image, mask)
    assert heads.shape == (2, 2, 2 * M, 10, 8, 8)
    torch.testing.assert_close(net.eval()(image, cond_image, mask), heads[:, 0])
