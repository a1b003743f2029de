"""The zoo's checks: bundles of the repository pass, broken ones fail with one line each."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from monai.bundle import ConfigParser

from dcl_monai.bundle.template import BUNDLES
from dcl_monai.bundle.verify import verify_bundle
from dcl_monai.cli import main
from dcl_monai.networks import CompNet, DCLNet, save_model

ROOT = Path(__file__).parents[2]


def copy_bundle(name: str, folder: Path) -> Path:
    """A copy of a bundle of the repository, without what was trained in it."""
    kept = shutil.ignore_patterns("data", "output", "*.pt", "*.ts")
    return Path(shutil.copytree(ROOT / "bundles" / name, folder / name, ignore=kept))


def save(folder: Path, classes: Sequence[str], dims: int = 2) -> None:
    """A model as training writes it."""
    settings = {"num_classes": len(classes), "spatial_dims": dims, "features": [4, 4, 8, 8, 8, 4]}
    net = DCLNet(CompNet("BasicUNet", **settings))
    bank = torch.randn(len(classes), 2, 1, *[32] * dims)
    net.bank.fill(bank, bank[:, :, 0] > 0, torch.ones(len(classes), 2) > 0)
    free = [-1] * (3 - dims)
    grid = {"pixdim": [2.0] * dims + free, "spatial_size": [32] * dims + free, "intensity": None}
    content = {"classes": classes, "network": net.compnet.served_settings(), **grid}
    save_model(net.served_state(), content, folder / "models" / "model.pt")


@pytest.fixture
def bundle(tmp_path) -> Path:
    """A copy of a bundle, with a small model."""
    folder = copy_bundle("acdc", tmp_path)
    save(folder, BUNDLES["acdc"].classes)
    return folder


def problems(folder: Path) -> dict[str, str]:
    return {name: problem for name, problem in verify_bundle(folder) if problem is not None}


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", BUNDLES)
def test_bundles_of_the_repository(name, trained, tmp_path, monkeypatch, capsys):
    """By this project's command and by the zoo's; neither fills a bank first."""
    folder = copy_bundle(name, tmp_path)
    if trained:
        save(folder, BUNDLES[name].classes, BUNDLES[name].spatial_dims)
    monkeypatch.chdir(tmp_path)
    assert main(["verify", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("ok ") for line in lines] == ([True] * 8 if trained else [True] * 6 + [False])

    monkeypatch.chdir(folder)
    files = ["--meta_file", "configs/metadata.json", "--config_file", "configs/inference.json"]
    monkeypatch.setattr("sys.argv", ["monai.bundle", "verify_net_in_out", "network_def", *files])
    runpy.run_module("monai.bundle", run_name="__main__")


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


def edit_config(name: str, **change: object) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "configs" / name, **change)


NETWORK, MODEL, EXPORT = "network, untrained (verify_net_in_out)", "model (verify_net_in_out)", "export (ckpt_export)"
ORGANS = ["background", "liver", "spleen", "kidney"]
METADATA = "metadata and changelog"
BROKEN = {
    "channels": (wrong_channels, {NETWORK, MODEL}, "`4` doesn't"),
    "licence": (lambda folder: (folder / "LICENSE").unlink(), {"required files"}, "LICENSE is missing"),
    "version": (edit_config("metadata.json", version="0.2.0"), {METADATA}, "version 0.2.0 is not in the changelog"),
    "network": (other_network, {MODEL, EXPORT}, "final_conv.bias"),
    "another bundle": (lambda folder: save(folder, ORGANS), {MODEL}, "segments background, liver"),
    "import": (edit_config("evaluate.json", imports=["$import pandas"]), {"imports"}, "package pandas"),
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
