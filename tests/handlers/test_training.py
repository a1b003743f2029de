from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from ignite.engine import Engine, Events
from monai.engines import Evaluator
from torch import nn

from dcl_monai.handlers import BestModel, ClipGradients, EpochSeed, LossProgress, SaveNetwork, StageValidation
from dcl_monai.losses import CompatibleLoss, FillLoss
from dcl_monai.networks import CompNet, DCLNet


class Draws:
    """A dataset that only notes its epoch."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def drawn(seed: int, epochs: range) -> dict[int, tuple[float, float, float, int]]:
    engine = Engine(lambda e, b: None)
    dataset, values = Draws(), {}
    EpochSeed(seed, dataset).attach(engine)

    @engine.on(Events.ITERATION_COMPLETED)
    def draw(e):
        values[e.state.epoch] = (torch.rand(1).item(), np.random.rand(), random.random(), dataset.epoch)

    engine.load_state_dict({"epoch_length": 1, "max_epochs": epochs.stop - 1, "iteration": epochs.start - 1})
    engine.run([0])
    return values


def test_epoch_seed_is_the_same_however_a_run_came_to_the_epoch():
    whole, resumed = drawn(3, range(1, 5)), drawn(3, range(3, 5))
    assert {epoch: whole[epoch] for epoch in (3, 4)} == resumed
    assert whole[1][:3] != whole[2][:3]
    assert drawn(4, range(1, 2)) != {1: whole[1]}
    assert [value[3] for value in whole.values()] == [1, 2, 3, 4]


def test_epoch_seed_leaves_cudnn_as_it_is(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    drawn(0, range(1, 2))
    assert not torch.backends.cudnn.deterministic
    assert torch.backends.cudnn.benchmark


class Counter(Evaluator):
    """An evaluator that only notes when it runs."""

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def run(self, global_epoch: int = 1) -> None:
        self.epochs.append(global_epoch)


@pytest.mark.parametrize(
    ("interval", "stage1", "epochs", "expected"),
    [(2, 9, 13, [2, 4, 6, 8, 9, 10, 12, 13]), (1, 2, 3, [1, 2, 3]), (5, 2, 4, [2, 4]), (3, 6, 6, [3, 6])],
)
def test_the_end_of_each_stage_is_validated(interval, stage1, epochs, expected):
    validator, engine = Counter(), Engine(lambda e, b: None)
    StageValidation(validator, interval, stage1).attach(engine)
    engine.run([0], max_epochs=epochs)
    assert validator.epochs == expected


def test_loss_progress_counts_iterations_of_stage_one():
    loss = CompatibleLoss(3)
    seen = []
    engine = Engine(lambda e, b: seen.append(loss.averaging.progress))
    LossProgress(loss, epochs=2).attach(engine)
    engine.run([0, 1], max_epochs=3)
    assert seen == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


def test_loss_progress_of_stage_two():
    fill = FillLoss(3)
    seen = []
    engine = Engine(lambda e, b: seen.append(fill.progress))
    LossProgress(fill, epochs=2, start=1).attach(engine)
    LossProgress(None, epochs=2).attach(engine)
    engine.run([0, 1], max_epochs=4)
    assert seen == [0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


def test_loss_progress_without_a_first_stage():
    loss = CompatibleLoss(3)
    engine = Engine(lambda e, b: None)
    LossProgress(loss, epochs=0).attach(engine)
    engine.run([0])
    assert loss.averaging.progress == 1.0


def test_clip_gradients_before_the_step():
    weight = nn.Parameter(torch.zeros(4))

    class Trainer(Engine):
        optimizer = torch.optim.SGD([weight], lr=1.0)

    def step(engine: Trainer, batch: int) -> None:
        weight.grad = torch.full((4,), 10.0)
        engine.optimizer.step()

    trainer = Trainer(step)
    ClipGradients(1.0).attach(trainer)
    trainer.run([0])
    assert weight.norm().item() == pytest.approx(1.0, rel=1e-4)


def test_save_network_at_a_new_best(tmp_path):
    network = DCLNet(CompNet(lambda **_: nn.Linear(1, 1), 2, conditional=False))
    weight = network.compnet.backbone.weight
    path = tmp_path / "models" / "model.pt"
    best = BestModel(network)
    for score, saved in ((0.5, 0.5), (0.2, 0.5), (0.8, 0.8)):
        nn.init.constant_(weight, score)
        engine = Engine(lambda e, b: None)
        engine.add_event_handler(Events.EPOCH_COMPLETED, lambda e, s=score: e.state.metrics.update(val_dice=s))
        best.attach(engine)
        SaveNetwork(network, str(path)).attach(engine)
        engine.run([0])
        state = torch.load(path, weights_only=True)
        assert state["compnet.backbone.weight"].item() == pytest.approx(saved)
    assert [p.name for p in path.parent.iterdir()] == ["model.pt"]
