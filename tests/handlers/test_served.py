"""Training where the model is served."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from ignite.engine import Engine
from torch import nn

from dcl_monai.conditions import BankDataset, ConditionBank
from dcl_monai.handlers import FreezeStatistics, UpdateServedModel
from dcl_monai.handlers.served import approve
from dcl_monai.networks import load_model
from dcl_monai.utils import DataError

SETTINGS = {"classes": ["background", "RV"], "pixdim": [1.0, 1.0, -1], "spatial_size": [8, 8, -1]}
SETTINGS |= {"network": {"num_classes": 2}}


class Examiner:
    """An evaluator that gives these scores, one a run."""

    def __init__(self, *scores: float) -> None:
        self.scores = list(scores)
        self.state = SimpleNamespace(metrics={}, key_metric_name="val_dice")

    def run(self) -> None:
        self.state.metrics["val_dice"] = self.scores.pop(0)


def run(network: nn.Module, path, process=lambda engine, batch: None, scores=(0.5, 0.5), rehearsal=None) -> dict:
    engine = Engine(process)
    validator = Examiner(*scores) if scores else None
    UpdateServedModel(network, path, SETTINGS, validator, rehearsal).attach(engine)
    engine.run([0], max_epochs=2)
    return json.loads((path.parent / "decision.json").read_text(encoding="utf-8"))


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


class TestApproval:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "models" / "model.pt"
        path.parent.mkdir()
        path.write_bytes(b"before")
        return path

    def test_worse_on_labels_kept_back(self, path, caplog):
        with caplog.at_level("INFO"):
            decision = run(nn.Linear(2, 2), path, scores=(0.9, 0.8))
        assert path.read_bytes() == b"before"
        assert not (path.parent / "previous").exists()
        assert (decision["taken"], decision["reason"]) == (False, "it is worse on the labels kept back")
        assert (decision["before"], decision["after"]) == ({"labels kept back": 0.9}, {"labels kept back": 0.8})
        assert "is not taken: it is worse on the labels kept back" in caplog.text
        assert "0.900 to 0.800" in caplog.text

    @pytest.mark.parametrize("scores", [(0.5, float("nan")), ()])
    def test_nothing_speaks_for_it(self, path, scores):
        assert run(nn.Linear(2, 2), path, scores=scores)["taken"] is False
        assert path.read_bytes() == b"before"

    def test_approved_by_a_person(self, path):
        network = nn.Linear(2, 2)
        with pytest.raises(DataError, match="no model waits"):
            approve(path)
        decision = run(network, path, scores=(0.9, 0.8))
        assert approve(path).name == decision["candidate"]
        assert torch.equal(load_model(path)["model"]["weight"], network.weight)
        (previous,) = (path.parent / "previous").iterdir()
        assert previous.read_bytes() == b"before"
        with pytest.raises(DataError, match="no model waits"):
            approve(path)

    def test_worse_on_rehearsal_images(self, path):
        """Better on the labels kept back, but it has forgotten what its bank shows."""
        network, rehearsal = Threshold(), bank()
        decision = run(network, path, network.forget, (0.5, 0.6), rehearsal)
        assert (decision["taken"], decision["reason"]) == (False, "it is worse on the rehearsal images")
        assert (decision["before"]["rehearsal images"], decision["after"]["rehearsal images"]) == (1.0, 0.0)
        network = Threshold()
        decision = run(network, path, scores=(0.5, 0.6), rehearsal=rehearsal)
        assert decision["taken"] is True
        assert decision["reason"] == "it is not worse on the labels kept back and the rehearsal images"
        assert network.shift == 0


class Threshold(nn.Module):
    """Segments what is bright, until it forgets; refuses to look at the condition that is the image itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bias", torch.zeros(()))
        self.shift = 0

    def forget(self, engine: Engine, batch: object) -> None:
        self.bias -= 100

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        assert self.shift == 1
        assert not self.training
        bright = (image[:, :1] + self.bias > 0.5).float()
        return torch.cat([1 - bright, bright], 1)


def bank() -> BankDataset:
    content = ConditionBank()
    images = torch.rand(2, 3, 1, 8, 8)
    masks = torch.stack([images[0, :, 0] <= 0.5, images[1, :, 0] > 0.5])
    content.fill(images, masks, torch.ones(2, 3, dtype=torch.bool))
    return BankDataset(content)


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
