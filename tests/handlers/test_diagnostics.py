from __future__ import annotations

import pytest
import torch
from ignite.engine import Engine

from dcl_monai.engines import DCLTrainer
from dcl_monai.handlers import GradientRatio, ShuffleConditions
from dcl_monai.losses import ConditionalCompatibleLoss
from dcl_monai.networks import CompNet, DCLNet

CLASSES = 3


def make_net(zero_conditions: bool) -> CompNet:
    torch.manual_seed(0)
    return CompNet(
        "BasicUNet", CLASSES, spatial_dims=2, features=(4,) * 6, norm="batch", zero_conditions=zero_conditions
    )


def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    mask = torch.rand(2, CLASSES, 32, 32) > 0.5
    label = torch.rand(2, CLASSES, 32, 32) > 0.3
    label[:, 0] |= ~label.any(1)
    return {
        "image": torch.randn(2, 1, 32, 32),
        "label": label,
        "cond_image": torch.randn(2, CLASSES, 32, 32),
        "cond_mask": mask,
        "cond_known": torch.ones_like(mask),
        "dual_class": torch.tensor([0, 2]),
        "dual_apart": torch.ones(2, CLASSES, dtype=torch.bool),
        "dual_image": torch.randn(2, 1, 32, 32),
        "dual_label": label.flip(0),
    }


def run(zero_conditions: bool, dual: bool) -> tuple[DCLTrainer, CompNet]:
    network, frozen = make_net(zero_conditions), make_net(zero_conditions)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
    loss = ConditionalCompatibleLoss(CLASSES, prior_weight=0.0)
    handlers = [GradientRatio()]
    trainer = DCLTrainer("cpu", 1, [batch()], network, optimizer, loss, frozen, train_handlers=handlers)
    trainer.dual = dual
    trainer.run()
    return trainer, network


def test_ratio_is_zero_when_conditions_are_ignored():
    """Beside the prior's soft weights, the dual gradient flows through the condition channel alone."""
    ignored = run(zero_conditions=True, dual=True)[0].state.metrics["gradient_ratio"]
    used = run(zero_conditions=False, dual=True)[0].state.metrics["gradient_ratio"]
    assert ignored < 1e-6
    assert used > 1e-4


def test_measuring_changes_nothing():
    _, with_sign = run(zero_conditions=False, dual=True)
    assert with_sign.training
    plain = make_net(False)
    loss = ConditionalCompatibleLoss(CLASSES)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.0)
    trainer = DCLTrainer("cpu", 1, [batch()], plain, optimizer, loss, make_net(False))
    trainer.dual = True
    trainer.run()
    for a, b in zip(with_sign.state_dict().values(), plain.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_no_ratio_in_stage_one():
    assert "gradient_ratio" not in run(zero_conditions=False, dual=False)[0].state.metrics


def test_conditions_are_shuffled_during_the_run_only():
    network = DCLNet(make_net(False))
    network.bank.fill(
        torch.randn(CLASSES, 4, 1, 32, 32), torch.rand(CLASSES, 4, 32, 32) > 0.5, torch.ones(CLASSES, 4) > 0
    )
    network.eval()
    image = torch.randn(1, 1, 32, 32)
    usual, during = network(image), []
    engine = Engine(lambda e, b: during.append(network(image)))
    ShuffleConditions(network).attach(engine)
    engine.run([0])
    assert not torch.equal(during[0], usual)
    assert torch.equal(network(image), usual)

    def fails(e: Engine, b: int) -> None:
        raise ZeroDivisionError

    broken = Engine(fails)
    ShuffleConditions(network).attach(broken)
    with pytest.raises(ZeroDivisionError):
        broken.run([0])
    assert torch.equal(network(image), usual)


def test_ratio_is_measured_in_the_precision_of_training(monkeypatch):
    trainer, _ = run(zero_conditions=False, dual=True)
    trainer.amp, seen = True, []
    losses = trainer.losses

    def watched(*args):
        seen.append(torch.is_autocast_enabled("cpu"))
        return losses(*args)

    monkeypatch.setattr(trainer, "losses", watched)
    GradientRatio()(trainer)
    assert seen == [True]
