"""A loss for each stage."""

from __future__ import annotations

import pytest
import torch

from dcl_monai.losses import CompatibleLoss, ConditionalCompatibleLoss, DeepSupervision, StagedLoss, set_progress

M = 3


@pytest.fixture
def batch() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    candidates = torch.rand(2, M, 6, 6) < 0.5
    candidates[:, 0] |= ~candidates.any(1)
    mask = torch.rand(2, M, 6, 6) < 0.3
    return candidates, mask, torch.ones_like(mask)


@pytest.mark.parametrize(("progress", "combination"), [(0.0, "ce"), (0.5, "ce"), (0.999, "ce"), (1.0, "mmee")])
def test_stage_2_begins_where_stage_1_ends(batch, progress, combination):
    logits = torch.randn(2, 2 * M, 6, 6)
    loss = StagedLoss(ConditionalCompatibleLoss(M, "ce"), ConditionalCompatibleLoss(M, "mmee"))
    expected = ConditionalCompatibleLoss(M, combination)
    for module in (loss, expected):
        set_progress(module, progress)
    torch.testing.assert_close(loss(logits, *batch), expected(logits, *batch))
    torch.testing.assert_close(loss.terms(logits, *batch), expected.terms(logits, *batch))
    torch.testing.assert_close(DeepSupervision(loss)(logits, *batch), expected(logits, *batch))


def test_without_conditions(batch):
    logits = torch.randn(2, M, 6, 6)
    loss = StagedLoss(CompatibleLoss(M, "ce"), CompatibleLoss(M, "mmee"))
    torch.testing.assert_close(loss(logits, batch[0]), CompatibleLoss(M, "ce")(logits, batch[0]))


def test_both_stages_learn_their_progress():
    """The annealed average of stage 2 is where that of stage 1 ended, so nothing jumps but the form of the loss."""
    loss = StagedLoss(CompatibleLoss(M, "ce"), CompatibleLoss(M, "mmee"))
    set_progress(loss, 1.0)
    assert loss.current is loss.stage2
    assert loss.stage1.averaging.weight == loss.stage2.averaging.weight == 1.0
