"""`next` and `audit`, by the commands that a user runs."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from dcl_monai.bundle.new import new_bundle
from dcl_monai.cli.main import main
from dcl_monai.networks import CompNet, DCLNet, save_model
from dcl_monai.visualize.viewer import find_album
from dcl_monai.visualize.viewer.volumes import load_volume


@pytest.fixture(scope="module")
def study(hospitals, tmp_path_factory) -> tuple[Path, list[str]]:
    """A folder with a datalist and a bundle, whose model has learned nothing; and words for all commands."""
    root = tmp_path_factory.mktemp("study")
    source = root / "data" / "own.yaml"
    shutil.copytree(hospitals(2).parent, source.parent)
    content = yaml.safe_load(source.read_text())
    source.write_text(yaml.safe_dump(content | {"minutes": {"A": 3, "B": 8}}))
    new_bundle(source, root / "bundle", "small", device="cpu")
    torch.manual_seed(0)
    compnet = CompNet("BasicUNet", num_classes=3, conditional=False, spatial_dims=2, features=[4, 4, 8, 8, 8, 4])
    settings = {"classes": ["background", "A", "B"], "pixdim": [2.0, 2.0, -1], "spatial_size": [32, 32, -1]}
    model = root / "bundle" / "models" / "model.pt"
    save_model(DCLNet(compnet).state_dict(), settings | {"network": compnet.settings}, model)
    return root, [str(source), "--bundle", str(root / "bundle"), "--fast"]


@pytest.fixture(scope="module")
def written(study) -> Path:
    root, words = study
    assert main(["next", "--out", str(root / "next"), "--count", "4", "--by", "structure", *words]) == 0
    assert main(["next", "--out", str(root / "images"), "--count", "4", *words]) == 0
    assert main(["audit", "--out", str(root / "audit"), "--count", "5", *words]) == 0
    return root


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_next(written):
    rows = read(written / "next" / "next.csv")
    assert [row["rank"] for row in rows] == list("1234")
    drawn = {"north": "A", "south": "B"}
    assert all(row["structure"] != drawn.get(row["dataset"]) for row in rows)
    assert {(row["structure"], row["minutes"]) for row in rows} <= {("A", "3.0"), ("B", "8.0")}
    gains = [np.prod([float(row[k]) for k in ("expected_error", "rarity", "diversity")]) for row in rows]
    assert np.allclose(gains, [float(row["gain"]) * float(row["minutes"]) for row in rows], atol=2e-3)
    page = (written / "next" / "next.html").read_text()
    assert page.count("data:image/png") == 4
    assert "http" not in page
    assert f"In the viewer: #1/{rows[0]['structure']}" in page
    album = find_album(written / "next")
    assert len(album.cases) == len({row["image"] for row in rows})
    volume = load_volume(album, album.cases[0])
    assert len(volume.planes) == 4  # image, drawn, filled, uncertainty
    known = volume.planes[1] < 254
    assert np.array_equal(volume.planes[2][known], volume.planes[1][known])


@pytest.mark.slow
def test_next_by_images(written):
    rows = read(written / "images" / "next.csv")
    assert [row["rank"] for row in rows] == list("1234")
    gains = [float(row["gain"]) for row in rows]
    assert gains == sorted(gains, reverse=True)
    assert len({(row["image"], row["gain"]) for row in rows}) == len({row["image"] for row in rows})


@pytest.mark.slow
def test_audit(written):
    rows = read(written / "audit" / "audit.csv")
    assert len({(row["image"], row["structure"]) for row in rows}) == len(rows) == 10  # a union is none of its members
    assert [float(row["score"]) for row in rows] == sorted((float(row["score"]) for row in rows), reverse=True)
    assert (written / "audit" / "audit.html").read_text().count("data:image/png") == 5
    assert find_album(written / "audit").cases


@pytest.mark.slow
def test_nothing_is_overwritten(written, study, capsys):
    _, words = study
    before = (written / "next" / "next.csv").stat().st_mtime_ns
    for command in ("next", "audit"):
        assert main([command, "--out", str(written / "next"), *words]) == 1
        assert "next: exists already. Give another --out" in capsys.readouterr().err
    assert (written / "next" / "next.csv").stat().st_mtime_ns == before
    (written / "file").write_text("")
    assert main(["next", "--out", str(written / "file" / "below"), *words]) == 1
    assert main(["next", "--out", str(written / "n"), "--minutes", "A", *words]) == 1
    assert main(["next", "--out", str(written / "n"), "--minutes", "C=1", *words]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert "cannot be written" in errors[0]
    assert "such as RV=6" in errors[1]
    assert "C=1.0: give one of A, B" in errors[2]
    assert not (written / "n").exists()
