"""Training where the model is served."""

from __future__ import annotations

import json

import pytest
import torch
from ignite.engine import Engine
from torch import nn

from dcl_monai.handlers import FreezeStatistics, UpdateServedModel
from dcl_monai.utils import DataError

SETTINGS = {"classes": ["background", "RV"]}


def run(network: nn.Module, path, process=lambda engine, batch: None) -> None:
    engine = Engine(process)
    UpdateServedModel(network, path, SETTINGS).attach(engine)
    engine.run([0], max_epochs=2)


def test_replaces_the_model_and_keeps_the_one_before(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"before")
    network = nn.Linear(2, 2)
    run(network, path)
    saved = torch.load(path, weights_only=True)
    assert json.loads(bytes(saved["settings_json"].tolist())) == SETTINGS
    assert torch.equal(saved["weight"], network.weight)
    (previous,) = (tmp_path / "previous").iterdir()
    assert previous.read_bytes() == b"before"
    assert [file.name for file in tmp_path.glob("*.pt")] == ["model.pt"]  # Label would offer others to its clients
    run(network, path)
    assert len(list((tmp_path / "previous").iterdir())) == 2


def test_a_training_that_breaks_down_changes_nothing(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"before")
    network = nn.Linear(2, 2)
    network.weight.data[0, 0] = torch.nan
    with pytest.raises(DataError, match="weight is not finite"):
        run(network, path)

    def fail(engine, batch):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        run(nn.Linear(2, 2), path, fail)
    assert path.read_bytes() == b"before"
    assert not (tmp_path / "previous").exists()


def test_statistics_of_batch_norm_stay(tmp_path):
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))

    def process(engine, batch):
        network.train()  # as the trainer does
        network(batch).sum().backward()

    engine = Engine(process)
    FreezeStatistics(network).attach(engine)
    image = torch.rand(2, 1, 4, 4)
    before, expected = network[1].running_mean.clone(), network.eval()(image)
    engine.run([image], max_epochs=2)
    assert torch.equal(network[1].running_mean, before)
    assert network[1].weight.grad is not None
    assert torch.allclose(network.train()(image), expected)  # by the running statistics, not by the batch's
