"""The ACDC bundle on two processes, by the command of the README."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import assert_same, write_squares
from monai.bundle import ConfigParser

from dcl_monai.utils import DataError
from dcl_monai.utils.distributed import start_process_group

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STEPS = 6  # of each rank in an epoch: 8 subjects x 2 phases x 3 slices, shared by 2 ranks, in batches of 4
SETTINGS = {"split": [8, 1, 2], "pixdim": [1.0, 1.0, -1], "spatial_size": [32, 32, -1], "batch_size": 4}
SETTINGS |= {"bank_size": 2, "stage1_epochs": 1, "stage2_epochs": 1, "warmup_steps": 0, "learning_rate": 0.01}
SETTINGS |= {"plain_epochs": 0, "network_def#compnet#features": [4, 4, 8, 8, 8, 4], "device": "$torch.device('cpu')"}
# one volume for two ranks, and three
SETTINGS |= {
    "validate#dataset#data": "$shard(@data['validation'][:1])",
    "test#dataset#data": "$shard(@data['test'][:3])",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_squares(tmp_path_factory.mktemp("acdc"), patients=11, depth=3)


@pytest.fixture(scope="module")
def torchrun(data) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Train on two processes; `handlers` are added to the trainer's."""

    def run(output: Path, *options: str, handlers: list[dict[str, Any]], **override: object):
        overlay = output / "handlers.json"
        overlay.write_text(json.dumps({"+imports": ["$import observers"], "+train#handlers": handlers}))
        line = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
        line += [*options, "-m", "monai.bundle", "run", "training", "--config_file"]
        line += [f"['bundles/acdc/train.json','configs/multi_gpu.json','{overlay}']"]
        paths = {"dataset_dir": str(data), "output_dir": str(output), "model_file": str(output / "model.pt")}
        for key, value in (SETTINGS | paths | override).items():
            line += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
        folders = f"{ROOT}{os.pathsep}{Path(__file__).parent}"
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": folders}
        return subprocess.run(
            line, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=300
        )

    return run


def witness(output: Path) -> dict[str, Any]:
    states = {name: f"@{name}" for name in ("primnet", "dualnet", "best", "optimizer")}
    return {"_target_": "observers.Witness", "folder": str(output), "loader": "@train#dataloader", **states}


@pytest.fixture(scope="module")
def trained(torchrun, tmp_path_factory) -> tuple[Path, str]:
    """A run that nothing disturbs."""
    output = tmp_path_factory.mktemp("trained")
    done = torchrun(output, handlers=[witness(output)])
    assert done.returncode == 0, done.stderr[-5000:]
    return output, done.stdout


@pytest.fixture(scope="module")
def ranks(trained) -> list[dict[str, Any]]:
    return [torch.load(trained[0] / f"rank{rank}.pt", weights_only=True) for rank in range(2)]


def test_ranks_end_with_the_same_networks_and_decisions(ranks):
    """Weights, running statistics, best model, DualNet, optimizer and diagnostics."""
    for name in ("primnet", "dualnet", "best", "optimizer", "metrics"):
        assert_same(ranks[0][name], ranks[1][name], name)
    assert ranks[0]["best"]["epoch"] > 0
    assert ranks[0]["metrics"]["gradient_ratio"] > 0


def test_ranks_share_out_the_training_images(ranks):
    """No image on both ranks, nearly all of them in use, in another order every epoch."""
    for mine, other in zip(ranks[0]["seen"], ranks[1]["seen"], strict=True):
        assert len(mine) == len(other) == 4 * STEPS
        assert len({*mine, *other}) == 8 * STEPS
    assert ranks[0]["seen"][0] != ranks[0]["seen"][1]


def test_files_are_those_of_rank_0(trained):
    output, log = trained
    for name in ("model.pt", "checkpoint.pt", "history.csv", "curves.png", "overlays.png", "datalist.json"):
        assert (output / name).exists(), name
    assert len({path.name.split(".")[-2] for path in (output / "tensorboard").iterdir()}) == 1, "one process"
    assert log.count("contains training images: its conditional bank") == 1
    assert log.count("epoch 2/2 stage 2") == 1
    assert log.count("both networks start from stage 1's best") == 1
    assert not list(output.rglob("*.tmp"))


def test_results_are_those_of_one_process(trained, data, tmp_path, monkeypatch):
    """The model scores the same, volume by volume, when one process tests it; so does the validation."""
    output, _ = trained
    monkeypatch.chdir(ROOT)
    parser = ConfigParser()
    parser.read_config("bundles/acdc/configs/train.json")
    parser.update(SETTINGS | {"dataset_dir": str(data), "output_dir": str(tmp_path)})
    parser.update({"validate#dataset#data": "$@data['validation'][:1]", "test#dataset#data": "$@data['test'][:3]"})
    parser.update({"validate#evaluator#val_handlers": []})
    network = parser.get_parsed_content("network")
    network.load_state_dict(torch.load(output / "model.pt", weights_only=True))
    parser.get_parsed_content("test#evaluator").run()
    assert (tmp_path / "test_dice.csv").read_text() == (output / "test_dice.csv").read_text()
    assert (output / "test_dice.csv").read_text().count("\n") == 4

    validation = parser.get_parsed_content("validate#evaluator")
    validation.run()
    with (output / "history.csv").open() as file:
        scores = [float(row["val_dice"]) for row in csv.DictReader(file)]
    assert max(scores) == pytest.approx(validation.state.metrics["val_dice"], abs=1e-6)
    assert max(scores) > 0.05, "it must have learned something for this to mean anything"


def test_a_crashed_rank_is_restarted_and_the_run_goes_on(trained, torchrun, tmp_path):
    """In the middle of epoch 2, which is done again from the checkpoint: the end is the same, bit for bit."""
    crash = {"_target_": "observers.CrashOnce", "folder": str(tmp_path), "rank": 1, "iteration": STEPS + 3}
    done = torchrun(tmp_path, "--max_restarts=1", handlers=[witness(tmp_path), crash], resume="true")
    assert done.returncode == 0, done.stderr[-5000:]
    assert (tmp_path / "happened").exists()
    assert "nothing to resume" in done.stdout
    assert "after epoch 1" in done.stdout
    for name in ("model.pt", "checkpoint.pt"):
        expected = torch.load(trained[0] / name, weights_only=True)
        assert_same(torch.load(tmp_path / name, weights_only=True), expected, name)
    for name in ("history.csv", "test_dice.csv"):
        assert (tmp_path / name).read_text() == (trained[0] / name).read_text()


def test_a_rank_that_hangs_does_not_hold_the_others(torchrun, tmp_path):
    """It would for two hours; torchrun ends it once the other has given up."""
    hang = {"_target_": "observers.HangOnce", "folder": str(tmp_path), "rank": 1, "iteration": 3}
    done = torchrun(tmp_path, handlers=[hang], rank_timeout=10)
    assert done.returncode != 0
    assert (tmp_path / "happened").exists()
    (line,) = [line for line in done.stderr.splitlines() if "error: " in line]
    assert "another rank did not answer within 10 s in epoch 1: it hangs or has ended" in line


def test_without_torchrun(monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with pytest.raises(DataError, match=r"multi_gpu\.json is for several processes: start them by torchrun"):
        start_process_group()


def test_more_processes_than_gpus(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(DataError, match=r"2 GPU\(s\): give torchrun --nproc_per_node=2"):
        start_process_group()
