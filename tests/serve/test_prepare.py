"""What is looked at before the server starts, and the copy that it serves; without MONAI Label itself."""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import Forked
from monai.bundle import ConfigParser

from dcl_monai.networks import CompNet, DCLNet
from dcl_monai.utils import DataError

ROOT = Path(__file__).parents[2]
SERVE = ROOT / "serve" / "label"


@pytest.fixture(scope="module")
def prepare() -> Any:
    sys.path.insert(0, str(SERVE))  # as PYTHONPATH in start.sh
    try:
        specification = importlib.util.spec_from_file_location("dcl_label_prepare", SERVE / "prepare.py")
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    finally:
        sys.path.remove(str(SERVE))
    return module


def write_model(path: Path, seed: int = 0, **settings: Any) -> None:
    torch.manual_seed(seed)
    classes = ["background", "RV", "Scar"]
    network = DCLNet(CompNet("BasicUNet", 3, spatial_dims=2, features=[4, 4, 4, 4, 4, 4], divisor=16))
    network.bank.fill(torch.rand(3, 2, 1, 32, 32), torch.rand(3, 2, 32, 32) > 0.5, torch.ones(3, 2) > 0)
    grid = {"pixdim": [2.0, 2.0, -1], "spatial_size": [32, 32, -1], "network": network.compnet.settings}
    content = {"model": network.state_dict(), "settings": {"classes": classes} | grid | settings}
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "hospital"
    shutil.copytree(ROOT / "bundles" / "acdc" / "configs", folder / "configs")
    write_model(folder / "models" / "model.pt")
    return folder


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "monaibundle"
    folder.mkdir()
    (folder / "main.py").write_text("stock app")
    return folder


class TestCopy:
    def test_serves_a_copy(self, prepare, bundle, app, tmp_path):
        copy = prepare.prepare(bundle, tmp_path / "space", app)
        assert copy == tmp_path / "space" / "app" / "model" / "hospital"
        served = copy / "models" / "model.pt"
        assert served.read_bytes() == (bundle / "models" / "model.pt").read_bytes()
        assert (tmp_path / "space" / "app" / "main.py").read_text() == "stock app"
        metadata = json.loads((copy / "configs" / "metadata.json").read_text())
        shown = metadata["network_data_format"]["outputs"]["pred"]
        assert shown["channel_def"] == {"0": "background", "1": "RV", "2": "Scar"}  # of the model, not of the bundle
        assert shown["num_channels"] == 3
        assert (tmp_path / "space").stat().st_mode & 0o077 == 0

    def test_what_was_trained_on_the_server_stays(self, prepare, bundle, app, tmp_path, capsys):
        served = prepare.prepare(bundle, tmp_path / "space", app) / "models" / "model.pt"
        write_model(served, seed=1)
        trained = served.read_bytes()
        (bundle / "models" / "model.pt").unlink()
        prepare.prepare(bundle, tmp_path / "space", app)
        assert served.read_bytes() == trained
        assert "trained on this server" in capsys.readouterr().out

    def test_fresh_takes_the_model_of_the_bundle(self, prepare, bundle, app, tmp_path, capsys):
        served = prepare.prepare(bundle, tmp_path / "space", app) / "models" / "model.pt"
        write_model(served, seed=1)
        trained = served.read_bytes()
        prepare.prepare(bundle, tmp_path / "space", app, fresh=True)
        assert served.read_bytes() == (bundle / "models" / "model.pt").read_bytes()
        (kept,) = (served.parent / "previous").iterdir()
        assert kept.read_bytes() == trained
        assert str(kept) in capsys.readouterr().out

    def test_says_that_the_bundle_has_another_model(self, prepare, bundle, app, tmp_path, capsys):
        prepare.prepare(bundle, tmp_path / "space", app)
        write_model(bundle / "models" / "model.pt", seed=1)
        prepare.prepare(bundle, tmp_path / "space", app)
        assert "--fresh serves it" in capsys.readouterr().out


class TestRefusals:
    def test_no_model_yet(self, prepare, bundle, app, tmp_path):
        (bundle / "models" / "model.pt").unlink()
        with pytest.raises(DataError, match=r"no model yet\. Train one first: python -m monai\.bundle run training"):
            prepare.prepare(bundle, tmp_path / "space", app)

    def test_no_bundle(self, prepare, app, tmp_path):
        with pytest.raises(DataError, match="is not a bundle"):
            prepare.prepare(tmp_path, tmp_path / "space", app)

    @pytest.mark.parametrize("served", [False, True], ids=["bundle", "copy"])
    def test_truncated_model(self, prepare, bundle, app, tmp_path, served):
        path = bundle / "models" / "model.pt"
        if served:
            path = prepare.prepare(bundle, tmp_path / "space", app) / "models" / "model.pt"
        path.write_bytes(path.read_bytes()[:-1000])
        with pytest.raises(DataError, match="cannot be read as a model"):
            prepare.prepare(bundle, tmp_path / "space", app)

    def test_model_that_runs_code(self, prepare, bundle, app, tmp_path):
        class Evil:
            def __reduce__(self) -> tuple[Any, ...]:
                return print, ("evil",)

        torch.save({"model": Evil()}, bundle / "models" / "model.pt")
        with pytest.raises(DataError, match="cannot be read as a model"):
            prepare.prepare(bundle, tmp_path / "space", app)

    def test_model_of_another_network(self, prepare, bundle, app, tmp_path):
        other = CompNet("BasicUNet", 3, spatial_dims=2, features=[8, 8, 8, 8, 8, 8]).settings
        write_model(bundle / "models" / "model.pt", network=other)
        with pytest.raises(DataError, match="does not fit"):
            prepare.prepare(bundle, tmp_path / "space", app)

    def test_model_without_settings(self, prepare, bundle, app, tmp_path):
        path = bundle / "models" / "model.pt"
        torch.save(torch.load(path, weights_only=True)["model"], path)
        with pytest.raises(DataError, match="no settings"):
            prepare.prepare(bundle, tmp_path / "space", app)

    def test_port_in_use(self, prepare):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            with pytest.raises(DataError, match="Stop the server that has it"):
                prepare.check_port(other.getsockname()[1])

    def test_studies(self, prepare, tmp_path, capsys):
        with pytest.raises(DataError, match="no such folder"):
            prepare.check_studies(tmp_path / "nowhere")
        studies = tmp_path / "studies"
        (studies / "patient1").mkdir(parents=True)
        (studies / "patient1" / "a.nii.gz").touch()
        prepare.check_studies(studies)
        assert "images in folders below are not seen" in capsys.readouterr().out
        (studies / "link.nii.gz").symlink_to(tmp_path / "elsewhere.nii.gz")
        with pytest.raises(DataError, match="leads out"):
            prepare.check_studies(studies)

    def test_no_port(self, prepare):
        with pytest.raises(DataError, match="--port 0: is not a port"):
            prepare.check_port(0)


def approve(workspace: Path) -> subprocess.CompletedProcess[str]:
    """What `start.sh --approve` runs."""
    return Forked(SERVE / "approve.py", "--workspace", workspace).wait()


def test_approved_by_one_command(tmp_path):
    """The candidate takes over, what was served stays; a damaged candidate, or none, is refused in one line."""
    models = tmp_path / "app" / "model" / "hospital" / "models"
    served, candidate = models / "model.pt", models / "candidates" / "20260101T000000_000000Z.pt"
    write_model(served, seed=0)
    assert approve(tmp_path).stderr.startswith(f"error: {tmp_path}: one model with a candidate is needed")
    write_model(candidate, seed=1)
    before, content = served.read_bytes(), candidate.read_bytes()
    candidate.write_bytes(content[:-1000])
    refused = approve(tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
    assert served.read_bytes() == before
    candidate.write_bytes(content)
    done = approve(tmp_path)
    assert "is served from the next request on" in done.stdout, done.stderr
    assert served.read_bytes() == content
    assert [path.read_bytes() for path in (models / "previous").iterdir()] == [before]


@pytest.mark.parametrize("name", ["acdc", "mscmr", "mmwhs"])
def test_training_overlay_fits_every_bundle(name):
    """No id of the bundle that makes or reads a datalist is left, so that nothing but the server's data is used."""
    content = ConfigParser.load_config_files([f"{ROOT}/bundles/{name}/configs/train.json", f"{SERVE}/train.json"])
    text = json.dumps({key: content[key] for key in content if key not in ("data", "datalist", "dataset_dir", "test")})
    for word in ("@datalist", "@dataset_dir", "@data['classes']", "@data['training']", "@data['validation']"):
        assert word not in text, word
    assert content["train"]["conditional_dataset"]["items"] == "@train#rehearsed"
