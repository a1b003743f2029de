"""Tests of ``python -m dcl_monai plan``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from dcl_monai.cli import main
from dcl_monai.datalist import load_datalist


@pytest.fixture
def document(tmp_path, write_nifti) -> Path:
    """Seven volumes with two structures."""
    rng = np.random.default_rng(0)
    label = np.zeros((20, 18, 16), np.uint8)
    label[4:9, 4:9, 4:9], label[10:16, 4:9, 4:9] = 1, 2
    for k in range(7):
        write_nifti(f"data/s{k}.nii.gz", (label + rng.normal(0, 0.3, label.shape)).astype(np.float32))
        write_nifti(f"data/s{k}_gt.nii.gz", label)
    classes = ["background", "RV", "LV"]
    entry = {"folder": "data", "images": "{subject}.nii.gz", "labels": "{subject}_gt.nii.gz"}
    entry |= {"values": dict(enumerate(classes))}
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump({"classes": classes, "datasets": {"north": entry}}))
    return path


def test_overlay_and_table(document, capsys):
    assert main(["plan", str(document), "--memory", "4", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    overlay = json.loads(document.with_name("my_plan.json").read_text(encoding="utf-8"))
    assert overlay["spatial_size"] == [20, 20, 16]
    assert overlay["intensity"] is None
    table = document.with_name("my_plan.txt").read_text(encoding="utf-8")
    assert table in printed
    assert re.search(r"^training: 3 \+ 4 epochs by default, about 14 steps; about \d+ minutes here$", printed, re.M)
    assert "3D, for bundles/mmwhs" in table
    assert f"\"['bundles/mmwhs/train.json','{document.with_name('my_plan.json')}']\" --datalist {document}" in printed


def test_options(document, tmp_path, capsys):
    out = tmp_path / "there" / "slices.json"
    words = ["--dims", "2", "--modality", "ct", "--device", "cuda", "--memory", "2", "--out", str(out)]
    assert main(["plan", str(document), *words]) == 0
    overlay = json.loads(out.read_text(encoding="utf-8"))
    assert overlay["plan"]["spatial_dims"] == 2
    assert overlay["plan"]["device"] == "cuda"
    assert overlay["spatial_size"][2] == -1
    assert 0 < overlay["intensity"]["clip"][0] < overlay["intensity"]["mean"] < overlay["intensity"]["clip"][1]
    assert out.with_suffix(".txt").exists()
    assert "measured here" in capsys.readouterr().out or torch.cuda.is_available()


def test_nothing_is_replaced_unasked(document, capsys):
    document.with_name("my_plan.txt").write_text("mine")
    assert main(["plan", str(document)]) == 1
    assert "my_plan.txt: exists already" in capsys.readouterr().err
    assert document.with_name("my_plan.txt").read_text() == "mine"
    assert not document.with_name("my_plan.json").exists()


@pytest.mark.parametrize(
    ("out", "message"), [("plan.yaml", "ends in .json"), ("my.json", "the file that describes the data")]
)
def test_impossible_outputs(document, out, message, capsys):
    source = document
    if out == "my.json":
        source = document.with_name(out)
        source.write_text(json.dumps(yaml.safe_load(document.read_text())))
    assert main(["plan", str(source), "--force", "--out", str(document.with_name(out))]) == 1
    assert message in capsys.readouterr().err


def test_too_few_subjects_in_the_words_of_check(document, capsys):
    content = yaml.safe_load(document.read_text())
    first = load_datalist(document)["training"][0]["subject"]
    content["datasets"]["north"]["annotated"] = {first: ["LV"], "*": ["RV"]}
    document.write_text(yaml.safe_dump(content))
    assert main(["plan", str(document), "--device", "cpu"]) == 1
    error = capsys.readouterr().err
    assert "seen in 1 training subject(s); the default method needs two" in error
    assert error.count("\n") == 1
    assert not document.with_name("my_plan.json").exists()


@pytest.mark.parametrize("memory", ["0", "-1", "nan", "much"])
def test_impossible_memory(document, memory, capsys):
    with pytest.raises(SystemExit):
        main(["plan", str(document), "--memory", memory])
    assert "--memory" in capsys.readouterr().err
