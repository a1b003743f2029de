"""Tests of ``python -m dcl_monai bank``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
import yaml
from matplotlib.image import imread

from dcl_monai.cli import main
from dcl_monai.networks import CompNet, DCLNet, load_model, load_weights

CONFIG = Path(__file__).parents[2] / "bundles" / "acdc" / "configs" / "train.json"
CLASSES = ["background", "MYO", "LV"]
NETWORK = {"num_classes": 3, "spatial_dims": 2, "features": [4, 4, 8, 8, 8, 4], "norm": "batch"}


@pytest.fixture
def datalist(tmp_path) -> Path:
    """Eight subjects of two slices, in which the heart grows from one to the next."""
    for k in range(8):
        folder = tmp_path / "data" / f"p{k}"
        folder.mkdir(parents=True)
        label = np.zeros((24, 24, 2), np.uint8)
        label[4 : 12 + k, 4 : 12 + k] = 1
        label[6 : 10 + k, 6 : 10 + k] = 2
        image = 100 * label + np.random.default_rng(k).integers(0, 20, label.shape)
        for name, array in (("image", image.astype(np.int16)), ("label", label)):
            nib.save(nib.Nifti1Image(array, np.diag([2, 2, 8, 1])), folder / f"{name}.nii.gz")
    return write_datalist(tmp_path / "other.yaml")


def write_datalist(path: Path, classes: list[str] = CLASSES) -> Path:
    entry = {"folder": "data", "images": "{subject}/image.nii.gz", "labels": "{subject}/label.nii.gz"}
    entry |= {"values": dict(enumerate(classes))}
    path.write_text(yaml.safe_dump({"classes": classes, "split": [6, 1, 1], "datasets": {"hearts": entry}}))
    return path


def write_model(path: Path, conditional: bool = True, **change) -> Path:
    torch.manual_seed(0)
    net = DCLNet(CompNet("BasicUNet", conditional=conditional, **NETWORK))
    if conditional:
        net.bank.fill(torch.randn(3, 2, 1, 16, 16), torch.rand(3, 2, 16, 16) > 0.5, torch.ones(3, 2) > 0)
    settings = {"classes": CLASSES, "pixdim": [3.0, 3.0, -1], "spatial_size": [16, 16, -1]} | change
    torch.save({"model": net.state_dict(), "settings": settings | {"network": net.compnet.settings}}, path)
    return path


@pytest.fixture
def model(tmp_path) -> Path:
    return write_model(tmp_path / "model.pt")


@pytest.fixture
def bank(capsys) -> Callable[..., tuple[int, str, str]]:
    """Run the command; return the exit code and what it prints on both streams."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        code = main(["bank", *map(str, words), "--config_file", str(CONFIG)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_new_bank(bank, model, datalist, tmp_path):
    """Other images, the same weights and settings, and a model that works."""
    code, printed, _ = bank(model, "--datalist", datalist, "--size", 3, "--out", tmp_path / "new.pt")
    assert code == 0
    assert "9 images of 16 x 16" in printed
    assert "background 3, MYO 3, LV 3" in printed
    old, new = load_model(model), load_model(tmp_path / "new.pt")
    assert new["settings"] == old["settings"]
    for name, value in old["model"].items():
        assert name.startswith("bank.") or torch.equal(value, new["model"][name])
    images, masks = new["model"]["bank.images"], new["model"]["bank.masks"]
    assert images.shape == (3, 3, 1, 16, 16)
    for j in range(3):
        assert len(torch.unique(images[j].flatten(1), dim=0)) == 3
    bright = images[2, :, 0] > images[2, :, 0].mean((1, 2), keepdim=True)
    assert (bright | (masks[2] == 0)).float().mean() > 0.95, "the LV is bright"
    net = DCLNet(CompNet.from_settings(new["settings"]["network"])).eval()
    load_weights(net, new, "new.pt")
    with torch.no_grad():
        assert net(torch.randn(2, 1, 20, 20)).isfinite().all()


def test_a_name_is_no_code(bank, model, datalist, tmp_path, monkeypatch):
    """It enters a configuration of MONAI, which runs what begins with a dollar."""
    monkeypatch.chdir(tmp_path)
    name = "$open('ran', 'w') and 'other.yaml'#.yaml"
    datalist.rename(name)
    assert bank(model, "--datalist", name, "--out", "new#1.pt")[0] == 0
    assert not Path("ran").exists()
    assert Path("new#1.pt").is_file()


def test_show(bank, model, tmp_path):
    code, printed, _ = bank(model, "--show", tmp_path / "bank.png")
    assert code == 0
    assert "6 images of 16 x 16" in printed
    assert "Anyone who has the model has these images" in printed
    assert imread(tmp_path / "bank.png").std() > 0.05


def test_model_itself_is_kept(bank, model, datalist):
    before = model.read_bytes()
    code, _, message = bank(model, "--datalist", datalist, "--out", model)
    assert code == 1
    assert "exists already" in message
    assert model.read_bytes() == before
    assert bank(model, "--datalist", datalist, "--out", model, "--force")[0] == 0
    assert model.read_bytes() != before


class TestMistakes:
    def refused(self, result, *words):
        code, _, message = result
        assert code == 1
        assert message.startswith("error: ")
        assert message.strip().count("\n") == 0
        assert all(word in message for word in words), message

    def test_half_an_order(self, bank, model, tmp_path):
        self.refused(bank(model, "--out", tmp_path / "new.pt"), "--datalist")

    def test_no_model(self, bank, tmp_path):
        self.refused(bank(tmp_path / "nowhere.pt"), "no such model")

    def test_no_datalist(self, bank, model, tmp_path):
        self.refused(bank(model, "--datalist", "nowhere.yaml", "--out", tmp_path / "new.pt"), "nowhere.yaml")

    def test_size(self, bank, model, datalist, tmp_path):
        self.refused(bank(model, "--datalist", datalist, "--size", 0, "--out", tmp_path / "new.pt"), "--size 0")

    def test_other_classes(self, bank, model, datalist, tmp_path):
        other = write_datalist(tmp_path / "swapped.yaml", ["background", "LV", "MYO"])
        self.refused(bank(model, "--datalist", other, "--out", tmp_path / "new.pt"), "swapped.yaml", "its classes are")

    def test_unconditional(self, bank, tmp_path):
        self.refused(bank(write_model(tmp_path / "plain.pt", conditional=False)), "without conditions")

    def test_mistake_in_the_data(self, bank, model, datalist, tmp_path):
        (tmp_path / "data" / "p3" / "label.nii.gz").write_bytes(b"broken")
        self.refused(bank(model, "--datalist", datalist, "--out", tmp_path / "new.pt"), "p3", "cannot be read")
        assert not (tmp_path / "new.pt").exists()

    def test_no_bank(self, bank, tmp_path):
        net = DCLNet(CompNet("BasicUNet", **NETWORK))
        torch.save({"model": net.state_dict()}, tmp_path / "empty.pt")
        self.refused(bank(tmp_path / "empty.pt"), "carries no conditional bank")
