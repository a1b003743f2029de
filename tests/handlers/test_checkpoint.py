from __future__ import annotations

import pytest
import torch
from monai.engines import SupervisedTrainer
from torch import nn

from dcl_monai.handlers import RunCheckpoint
from dcl_monai.utils import DataError


def make(path, epochs: int, resume: bool, width: int = 1, **extra: object) -> tuple[SupervisedTrainer, nn.Module]:
    torch.manual_seed(0)
    network = nn.Linear(1, width)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    batches = [{"image": torch.full((2, 1), float(i)), "label": torch.ones(2, width)} for i in (1, 2)]
    handler = RunCheckpoint(str(path), {"network": network, "optimizer": optimizer, **extra}, resume)
    trainer = SupervisedTrainer(
        "cpu", epochs, batches, network, optimizer, nn.MSELoss(), train_handlers=[handler], decollate=False
    )
    return trainer, network


def test_resumed_run_ends_as_the_whole_one(tmp_path):
    whole, expected = make(tmp_path / "whole.pt", 5, resume=False)
    whole.run()
    make(tmp_path / "cut.pt", 2, resume=False)[0].run()
    saved = torch.load(tmp_path / "cut.pt", weights_only=True)
    saved["trainer"]["max_epochs"] = 5  # what a run of five epochs would have written after its second
    torch.save(saved, tmp_path / "cut.pt")
    resumed, network = make(tmp_path / "cut.pt", 5, resume=True)
    assert resumed.state.epoch == 2
    resumed.run()
    for a, b in zip(network.parameters(), expected.parameters(), strict=True):
        assert torch.equal(a, b)


def test_resume_without_a_file_starts_again(tmp_path):
    trainer, _ = make(tmp_path / "none.pt", 1, resume=True)
    trainer.run()
    assert (tmp_path / "none.pt").exists()


def test_fresh_run_keeps_the_old_checkpoint(tmp_path):
    make(tmp_path / "run.pt", 1, resume=False)[0].run()
    old = (tmp_path / "run.pt").read_bytes()
    make(tmp_path / "run.pt", 1, resume=False)
    assert (tmp_path / "run_previous.pt").read_bytes() == old


def test_absent_objects_are_left_out(tmp_path):
    make(tmp_path / "run.pt", 1, resume=False, dualnet=None)[0].run()
    assert set(torch.load(tmp_path / "run.pt", weights_only=True)) == {"trainer", "network", "optimizer", "settings"}


@pytest.mark.parametrize("change", [{"width": 2}, {"dualnet": nn.Linear(1, 1)}])
def test_other_configuration_is_refused(tmp_path, change):
    make(tmp_path / "run.pt", 1, resume=False)[0].run()
    with pytest.raises(DataError, match=r"run\.pt.*resume with the"):
        make(tmp_path / "run.pt", 1, resume=True, **change)


def test_killed_while_writing_keeps_the_last_complete_checkpoint(tmp_path, monkeypatch):
    trainer, _ = make(tmp_path / "run.pt", 1, resume=False)
    trainer.run()
    complete = (tmp_path / "run.pt").read_bytes()

    def dies(content, path):
        path.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", dies)
    with pytest.raises(KeyboardInterrupt):
        RunCheckpoint(str(tmp_path / "run.pt"), {})(trainer)
    assert (tmp_path / "run.pt").read_bytes() == complete
    assert [p.name for p in tmp_path.iterdir()] == ["run.pt"]


def test_changed_settings_are_named(tmp_path):
    trainer, network = make(tmp_path / "run.pt", 1, resume=False)
    RunCheckpoint(str(tmp_path / "run.pt"), {"network": network}, settings={"seed": 0, "batch_size": 8}).attach(trainer)
    trainer.run()
    other, network = make(tmp_path / "none.pt", 1, resume=False)
    same = RunCheckpoint(str(tmp_path / "run.pt"), {"network": network}, True, settings={"seed": 0, "batch_size": 8})
    same.attach(other)
    changed = RunCheckpoint(str(tmp_path / "run.pt"), {"network": network}, True, settings={"seed": 0, "batch_size": 4})
    with pytest.raises(DataError, match="started with batch_size 8, now 4: resume with"):
        changed.attach(other)


def test_scale_of_mixed_precision_is_saved(tmp_path):
    """Without it, a resumed run would start again from the largest scale, and skip steps."""
    trainer, _ = make(tmp_path / "run.pt", 1, resume=False)
    handler = RunCheckpoint(str(tmp_path / "amp.pt"), {})
    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    handler.attach(trainer)
    trainer.run()
    other, _ = make(tmp_path / "other.pt", 2, resume=False)
    other.scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    RunCheckpoint(str(tmp_path / "amp.pt"), {}, resume=True).attach(other)
    assert other.scaler.get_scale() == 8.0


class TestDamaged:
    """A damaged checkpoint is never resumed."""

    @pytest.mark.parametrize("content", [b"", b"a text", bytes(5000)])
    def test_empty_and_foreign(self, tmp_path, content):
        (tmp_path / "run.pt").write_bytes(content)
        with pytest.raises(DataError, match=r"run\.pt: cannot be read as a checkpoint .* start again without --resume"):
            make(tmp_path / "run.pt", 1, resume=True)

    @pytest.mark.parametrize("content", [[1], {"model": {"weight": torch.ones(1)}}])
    def test_another_kind_of_file(self, tmp_path, content):
        torch.save(content, tmp_path / "run.pt")
        with pytest.raises(DataError, match=r"run\.pt: is not a checkpoint"):
            make(tmp_path / "run.pt", 1, resume=True)

    def test_weights_that_are_not_finite(self, tmp_path):
        trainer, network = make(tmp_path / "run.pt", 1, resume=False)
        trainer.run()
        network.weight.data.fill_(float("nan"))
        RunCheckpoint(str(tmp_path / "run.pt"), {"trainer": trainer, "network": network})(trainer)
        with pytest.raises(DataError, match=r"run\.pt: weight holds values that are not finite: start again"):
            make(tmp_path / "run.pt", 2, resume=True)
