"""The worked examples of CONTRIBUTING.md work as written."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from helpers import open_workflow

from dcl_monai.cli import main
from dcl_monai.networks import load_model

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def examples(tmp_path, monkeypatch) -> Path:
    """A working directory with the files that the page tells to write."""
    for text in blocks("python"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    for name, text in zip(("my_loss.json", "my_network.json"), blocks("json"), strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert name in TEXT
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("my_losses", "discs"):
        sys.modules.pop(name, None)


def test_loss_is_compatible(examples, capsys):
    assert main(["check-loss", "my_losses:SetCELoss", "--trials", "2"]) == 0
    assert "no counterexample" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("overlay", "backbone"), [("my_loss", "BasicUNet"), ("my_network", "SegResNet")])
def test_task_trains_with_each_overlay(examples, overlay, backbone):
    import discs  # written by the fixture

    discs.write_bundle(discs.DISCS, "bundles/discs")
    short = {"stage1_epochs": 1, "stage2_epochs": 1, "iterations_per_epoch": 2, "bank_size": 2, "device": "cpu"}
    files = ["bundles/discs/train.json", f"{overlay}.json"]
    open_workflow("train", *files, meta_file="bundles/discs/metadata.json", run_id="training", **short).run()
    settings = load_model("bundles/discs/models/model.pt")["settings"]
    assert settings["classes"] == ["background", "dark", "bright"]
    assert settings["network"]["backbone"] == backbone
    assert Path("bundles/discs/output/test_dice.csv").exists()
