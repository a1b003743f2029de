"""The zoo's checks: bundles of the repository pass, broken ones fail with one line each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from monai.bundle import ConfigParser

from dcl_monai.bundle.template import BUNDLES
from dcl_monai.bundle.verify import verify_bundle
from dcl_monai.cli import main
from dcl_monai.networks import CompNet, DCLNet, save_model

ROOT = Path(__file__).parents[2]


def save(folder: Path, classes: list[str], **change: object) -> None:
    """A model as training writes it."""
    settings = {"num_classes": len(classes), "spatial_dims": 2, "features": [4, 4, 8, 8, 8, 4]} | change
    net = DCLNet(CompNet("BasicUNet", **settings))
    bank = torch.randn(len(classes), 2, 1, 32, 32)
    net.bank.fill(bank, bank[:, :, 0] > 0, torch.ones(len(classes), 2) > 0)
    grid = {"pixdim": [2.0, 2.0, -1], "spatial_size": [32, 32, -1], "intensity": None}
    content = {"classes": classes, "network": net.compnet.served_settings(), **grid}
    save_model(net.served_state(), content, folder / "models" / "model.pt")


@pytest.fixture
def bundle(tmp_path) -> Path:
    """A copy of a bundle, with a small model."""
    folder = tmp_path / "acdc"
    kept = shutil.ignore_patterns("data", "output", "*.pt", "*.ts")
    shutil.copytree(ROOT / "bundles" / "acdc", folder, ignore=kept)
    save(folder, list(BUNDLES["acdc"].classes))
    return folder


def problems(folder: Path) -> dict[str, str]:
    return {name: problem for name, problem in verify_bundle(folder) if problem is not None}


@pytest.mark.parametrize("name", BUNDLES)
def test_bundles_of_the_repository_before_training(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / name
    shutil.copytree(ROOT / "bundles" / name, folder, ignore=shutil.ignore_patterns("data", "output", "*.pt", "*.ts"))
    assert problems(folder) == {}


def test_a_trained_one(bundle, capsys):
    assert main(["verify", str(bundle)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 8
    assert all(line.startswith("ok ") for line in printed)


def edit(path: Path, **change: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


def wrong_channels(folder: Path) -> None:
    path = folder / "configs" / "metadata.json"
    content = json.loads(path.read_text())
    content["network_data_format"]["outputs"]["pred"]["num_channels"] = 3
    path.write_text(json.dumps(content))


def other_network(folder: Path) -> None:
    path = folder / "models" / "model.pt"
    state = torch.load(path, weights_only=True)
    state.pop("compnet.backbone.final_conv.bias")
    torch.save(state, path)


BROKEN = {
    "channels": (
        wrong_channels,
        {"network, untrained (verify_net_in_out)", "model (verify_net_in_out)"},
        "`4` doesn't",
    ),
    "licence": (lambda folder: (folder / "LICENSE").unlink(), {"required files"}, "LICENSE is missing"),
    "version": (
        lambda folder: edit(folder / "configs" / "metadata.json", version="0.2.0"),
        {"metadata and changelog"},
        "version 0.2.0 is not in the changelog",
    ),
    "network": (other_network, {"model (verify_net_in_out)", "export (ckpt_export)"}, "final_conv.bias"),
    "another bundle": (
        lambda folder: save(folder, ["background", "liver", "spleen", "kidney"]),
        {"model (verify_net_in_out)"},
        "draws background, liver",
    ),
    "import": (
        lambda folder: edit(folder / "configs" / "evaluate.json", imports=["$import pandas"]),
        {"imports"},
        "package pandas",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_one_fails_with_one_line(bundle, name):
    breaks, failing, words = BROKEN[name]
    breaks(bundle)
    found = problems(bundle)
    assert set(found) == failing
    for problem in found.values():
        assert "\n" not in problem
    assert words in next(iter(found.values()))


def test_a_missing_id(bundle):
    path = bundle / "configs" / "train.json"
    content = json.loads(path.read_text())
    del content["train"]["inferer"]
    path.write_text(json.dumps(content))
    assert "has no id 'train#inferer'" in problems(bundle)["workflow properties"]


def test_a_large_file(bundle, monkeypatch):
    monkeypatch.setattr("dcl_monai.bundle.verify.LARGEST", 1000)
    assert "List it in large_files.yml" in problems(bundle)["file sizes"]


def test_no_bundle(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 1
    assert "is not a bundle" in capsys.readouterr().err


def test_an_older_model_file_still_works(bundle):
    """With the weights under ``model`` and the settings beside them."""
    path = bundle / "models" / "model.pt"
    state = torch.load(path, weights_only=True)
    settings = json.loads(bytes(state.pop("settings_json").tolist()))
    torch.save({"model": state, "settings": settings}, path)
    parser = ConfigParser()
    parser.read_config(str(bundle / "configs" / "inference.json"))
    parser["bundle_root"] = str(bundle)
    assert parser.get_parsed_content("settings") == settings
    assert set(problems(bundle)) == {"export (ckpt_export)"}  # MONAI then wants --key_in_ckpt model
