from __future__ import annotations

import csv
import logging

import torch
from ignite.engine import Engine, Events
from matplotlib.image import imread

from dcl_monai.handlers import History


class FakeTrainer(Engine):
    def __init__(self) -> None:
        self.values = iter([1.0, 3.0, 5.0, 7.0, 2.0, 2.0])
        super().__init__(self.step)
        self.dual = False
        self.optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)

    def step(self, engine: Engine, batch: int) -> dict[str, torch.Tensor]:
        value = next(self.values)
        return {"loss": torch.tensor(value), "positive": torch.tensor(value / 2)}


def run(tmp_path, epochs: int = 2) -> History:
    trainer, evaluator = FakeTrainer(), Engine(lambda e, b: None)
    evaluator.add_event_handler(
        Events.EPOCH_COMPLETED, lambda e: e.state.metrics.update(val_dice=0.7, val_dice_LV=0.75, shuffled_dice=0.6)
    )

    @trainer.on(Events.EPOCH_COMPLETED(every=2))
    def validate(engine):
        evaluator.run([0])

    @trainer.on(Events.EPOCH_STARTED)
    def stage(engine):
        engine.dual = engine.state.epoch > 1

    history = History(str(tmp_path), [evaluator])
    history.attach(trainer)
    trainer.run([0, 1], max_epochs=epochs)
    return history


def test_rows_are_means_over_the_epoch(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    history = run(tmp_path)
    assert [row["loss"] for row in history.rows] == [2.0, 6.0]
    assert [row["positive"] for row in history.rows] == [1.0, 3.0]
    assert [row["stage"] for row in history.rows] == [1, 2]
    assert "val_dice" not in history.rows[0]
    assert history.rows[1]["val_dice_LV"] == 0.75
    assert (
        "epoch 2/2 stage 2 | loss 6.0000 positive 3.0000 | val_dice 0.700 LV 0.750 shuffled_dice 0.600" in caplog.text
    )


def test_files(tmp_path):
    run(tmp_path, epochs=3)
    with (tmp_path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["loss"] for row in rows] == ["2.0", "6.0", "2.0"]
    assert rows[0]["val_dice"] == ""
    picture = imread(tmp_path / "curves.png")
    assert picture.shape[1] > 1000
    assert picture.std() > 0.01


def test_resumed_run_goes_on_with_its_table(tmp_path):
    """The table may be one epoch ahead of the checkpoint that the run goes on from."""
    whole = run(tmp_path, epochs=3).rows
    trainer = FakeTrainer()
    trainer.values = iter([2.0, 2.0])
    trainer.dual = True
    resumed = History(str(tmp_path), [])
    resumed.attach(trainer)
    trainer.load_state_dict({"epoch_length": 2, "max_epochs": 3, "iteration": 4})
    trainer.run([0, 1])
    assert resumed.rows == whole
