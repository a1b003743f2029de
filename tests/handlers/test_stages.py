from __future__ import annotations

import copy

import pytest
import torch
from ignite.engine import Engine, Events
from torch import nn

from dcl_monai.handlers import BestModel, DCLEvents, DualWeightAverage, DualWeightSync, StageSwitch


class FakeTrainer(Engine):
    """An engine with what the stage handlers touch, whose epochs change PrimNet."""

    def __init__(self, dual: bool = True) -> None:
        super().__init__(lambda engine, batch: self.step())
        self.network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        self.dual_network = copy.deepcopy(self.network) if dual else None
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.1)
        self.dual = False
        self.seen: list[tuple[int, bool]] = []

    def step(self) -> None:
        self.seen.append((self.state.epoch, self.dual))
        self.network(torch.randn(4, 2)).pow(2).sum().backward()
        self.optimizer.step()


def evaluator(score: float) -> Engine:
    engine = Engine(lambda e, b: None)
    engine.add_event_handler(Events.EPOCH_COMPLETED, lambda e: e.state.metrics.update(val_dice=score))
    return engine


def weights(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(network: nn.Module, state: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, state[name]) for name, value in network.state_dict().items())


class TestBestModel:
    def test_keeps_the_best_and_fires(self):
        network = nn.Linear(1, 1)
        best = BestModel(network)
        fired = []
        kept = {}
        for score in (0.5, 0.4, 0.6, 0.6):
            nn.init.constant_(network.weight, score)
            engine = evaluator(score)
            best.attach(engine)
            engine.add_event_handler(DCLEvents.NEW_BEST, lambda e: fired.append(e.state.metrics["val_dice"]))
            engine.run([0])
            kept[score] = best.weights["weight"].item()
        assert fired == [0.5, 0.6]
        torch.testing.assert_close(torch.tensor(list(kept.values())), torch.tensor([0.5, 0.5, 0.6]))

    def test_copy_is_not_a_view(self):
        network = nn.Linear(1, 1)
        best = BestModel(network)
        engine = evaluator(0.5)
        best.attach(engine)
        engine.run([0])
        nn.init.constant_(network.weight, 7.0)
        assert best.weights["weight"].item() != 7.0

    def test_state_round_trip(self):
        best = BestModel(nn.Linear(1, 1))
        engine = evaluator(0.25)
        best.attach(engine)
        engine.run([0])
        other = BestModel(nn.Linear(1, 1))
        other.load_state_dict(best.state_dict())
        assert other.score == 0.25
        other.load_into(other.network)
        assert same(other.network, best.weights)


class TestStageSwitch:
    def test_second_stage_starts_from_the_best_with_a_fresh_optimizer(self):
        trainer = FakeTrainer()
        best = BestModel(trainer.network)
        StageSwitch(best, stage1_epochs=2).attach(trainer)
        recorded = {}

        @trainer.on(Events.EPOCH_COMPLETED(once=1))
        def best_after_first_epoch(engine):
            best.score, best.weights = 0.5, weights(trainer.network)

        @trainer.on(Events.EPOCH_STARTED)
        def note(engine):
            recorded[engine.state.epoch] = (weights(trainer.network), len(trainer.optimizer.state))

        trainer.run([0, 1], max_epochs=4)
        assert [dual for _, dual in trainer.seen] == [False] * 4 + [True] * 4
        start, states = recorded[3]
        assert all(torch.equal(start[name], best.weights[name]) for name in start)
        assert states == 0, "Adam's moments of stage 1 must be gone"
        assert recorded[4][1] > 0, "but stage 2 keeps its own"
        assert not same(trainer.network, start)
        assert same(trainer.dual_network, start), "DualNet stays where stage 2 began"

    def test_without_dualnet_there_is_one_stage(self):
        trainer = FakeTrainer(dual=False)
        best = BestModel(trainer.network)
        best.weights = {name: torch.zeros_like(value) for name, value in trainer.network.state_dict().items()}
        StageSwitch(best, stage1_epochs=1).attach(trainer)
        trainer.run([0], max_epochs=3)
        assert not any(dual for _, dual in trainer.seen)
        assert not same(trainer.network, best.weights)

    def test_resumed_in_stage_two(self):
        """The dual loop is on again, and nothing is reset."""
        trainer = FakeTrainer()
        best = BestModel(trainer.network)
        best.weights = {name: torch.zeros_like(value) for name, value in trainer.network.state_dict().items()}
        StageSwitch(best, stage1_epochs=1).attach(trainer)
        trainer.load_state_dict({"epoch_length": 1, "max_epochs": 3, "iteration": 2})
        before = weights(trainer.network)
        first = {}
        trainer.add_event_handler(Events.EPOCH_STARTED, lambda e: first.update(weights(trainer.network)))
        trainer.run([0])
        assert trainer.seen == [(3, True)]
        assert all(torch.equal(first[name], before[name]) for name in first)


class TestDualWeightSync:
    def test_copies_weights_and_buffers_at_a_new_best_only(self):
        prim, dual = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
        best = BestModel(prim)
        for score, synced in ((0.5, True), (0.3, False), (0.7, True)):
            nn.init.constant_(prim.weight, score)
            prim.running_mean.fill_(score)
            engine = evaluator(score)
            best.attach(engine)
            DualWeightSync(prim, dual).attach(engine)
            engine.run([0])
            assert same(dual, prim.state_dict()) == synced

    def test_nothing_to_do_without_dualnet(self):
        prim = nn.Linear(1, 1)
        best = BestModel(prim)
        engine = evaluator(0.5)
        best.attach(engine)
        DualWeightSync(prim, None).attach(engine)
        engine.run([0])
        assert best.score == 0.5


class TestDualWeightAverage:
    def test_follows_in_the_second_stage_only(self):
        trainer = FakeTrainer()
        start = weights(trainer.dual_network)
        DualWeightAverage(trainer.network, trainer.dual_network, decay=0.75).attach(trainer)
        trainer.run([0])
        assert same(trainer.dual_network, start)
        trainer.dual = True
        trainer.run([0], max_epochs=2)
        for name, value in trainer.dual_network.state_dict().items():
            now = trainer.network.state_dict()[name]
            expected = 0.75 * start[name] + 0.25 * now if value.is_floating_point() else now
            torch.testing.assert_close(value, expected)
        assert not same(trainer.dual_network, start)

    def test_without_dualnet(self):
        trainer = FakeTrainer(dual=False)
        trainer.dual = True
        DualWeightAverage(trainer.network, None).attach(trainer)
        trainer.run([0])

    def test_impossible_decay(self):
        with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
            DualWeightAverage(nn.Linear(1, 1), None, decay=1.5)
