from __future__ import annotations

import pytest
import torch
from ignite.engine import Engine, Events
from monai.engines import SupervisedTrainer
from torch import nn
from torch.utils.data import DataLoader, Dataset

from dcl_monai.data import DrawSampler
from dcl_monai.handlers import BestModel, RankTimeout, StopOnBreakdown
from dcl_monai.handlers.breakdown import non_finite
from dcl_monai.utils import DataError


class Items(Dataset):
    """Eight subjects, of whom some have an image that is not finite, or a label that makes the loss infinite."""

    def __init__(self, image: int | None = None, label: int | None = None) -> None:
        self.items = [{"image": torch.ones(1), "label": torch.ones(1), "subject": f"p{n}"} for n in range(8)]
        if image is not None:
            self.items[image]["image"] = torch.tensor([float("nan")])
        if label is not None:
            self.items[label]["label"] = torch.tensor([float("inf")])

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {key: self.items[index][key] for key in ("image", "label")}


def train(items: Items, rate: float = 0.1, **options) -> tuple[SupervisedTrainer, list[int]]:
    network = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    loader = DataLoader(items, batch_size=2, sampler=DrawSampler(items.items))
    handler = StopOnBreakdown(network, **options)
    trainer = SupervisedTrainer(
        "cpu", 2, loader, network, optimizer, nn.MSELoss(), train_handlers=[handler], decollate=False
    )
    validated: list[int] = []
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: validated.append(engine.state.epoch))
    return trainer, validated


def test_sound_training_is_left_alone():
    trainer, validated = train(Items())
    trainer.run()
    assert validated == [1, 2]


@pytest.mark.parametrize("subject", range(8))
def test_names_the_image(subject):
    trainer, validated = train(Items(image=subject))
    with pytest.raises(DataError, match=rf"the loss is nan.*The image of p{subject} is not finite after") as raised:
        trainer.run()
    order = list(trainer.data_loader.sampler)
    assert f"epoch 1, iteration {order.index(subject) // 2 + 1}:" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert validated == []


def test_names_the_batch():
    trainer, _ = train(Items(label=3))
    with pytest.raises(DataError, match=r"the loss is inf, with images of p\d, p\d\. Lower --learning_rate") as raised:
        trainer.run()
    assert "p3" in str(raised.value)


def test_losses_that_are_looked_at_later(monkeypatch):
    """As on a GPU: at an interval, and before an epoch ends; the batch is still the first that broke."""
    trainer, validated = train(Items(label=3), interval=10)
    handler = next(h[0].__self__ for h in trainer._event_handlers[Events.EPOCH_COMPLETED] if hasattr(h[0], "__self__"))
    monkeypatch.setattr(type(handler), "__call__", lambda self, engine: self.losses.append(engine.state.output["loss"]))
    with pytest.raises(DataError, match="p3") as raised:
        trainer.run()
    assert f"iteration {list(trainer.data_loader.sampler).index(3) // 2 + 1}:" in str(raised.value)
    assert validated == []


def test_weights_at_the_end_of_an_epoch():
    """The last step of an epoch may spoil them after the last loss was sound."""
    trainer, validated = train(Items(), rate=0.0)
    trainer.add_event_handler(
        Events.ITERATION_COMPLETED(once=4), lambda _: trainer.network.weight.data.fill_(float("inf"))
    )
    with pytest.raises(DataError, match="iteration 4: weight is not finite"):
        trainer.run()
    assert validated == []


def test_best_that_is_not_finite_is_never_kept():
    network = nn.Linear(1, 1)
    best = BestModel(network, "dice")
    engine = Engine(lambda *_: None)
    best.attach(engine)
    engine.state.metrics = {"dice": 0.5}
    engine.add_event_handler(Events.STARTED, lambda e: e.state.metrics.update(dice=0.5))
    engine.run([0])
    network.bias.data.fill_(float("nan"))
    engine.add_event_handler(Events.STARTED, lambda e: e.state.metrics.update(dice=0.9))
    with pytest.raises(DataError, match="training broke down: bias is not finite"):
        engine.run([0])
    assert best.score == 0.5
    assert non_finite(best.weights) is None


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 10**6, "soon"])
def test_time_out_that_is_none(seconds):
    with pytest.raises(DataError, match="--rank_timeout is"):
        RankTimeout(seconds)


def test_time_out_is_told_in_one_line():
    def hangs(engine: Engine, batch: object) -> None:
        raise RuntimeError("[gloo] Timed out waiting 5000ms for recv operation to complete")

    engine = Engine(hangs)
    RankTimeout(5).attach(engine)
    with pytest.raises(DataError, match=r"another rank did not answer within 5 s in epoch 1.*--resume true"):
        engine.run([0])
    other = Engine(lambda *_: 1 / 0)
    RankTimeout(5).attach(other)
    with pytest.raises(ZeroDivisionError):
        other.run([0])
