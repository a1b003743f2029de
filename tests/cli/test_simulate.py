"""Tests of ``python -m dcl_monai simulate``."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import yaml

from dcl_monai import __version__
from dcl_monai.cli import main
from dcl_monai.datalist import load_datalist
from dcl_monai.datalist.items import decided_classes
from dcl_monai.datalist.splits import SPLITS

CLASSES = ["background", "RV", "MYO", "LV"]


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """Twenty patients of two phases, labelled in full; the images are tiny."""
    label = np.zeros((24, 24, 2), dtype=np.uint8)
    label[4:10, 4:20], label[10:20, 4:10], label[10:20, 10:20] = 1, 2, 3
    for k in range(20):
        folder = tmp_path / "here" / "data" / f"p{k:02d}"
        folder.mkdir(parents=True)
        for phase in ("ed", "es"):
            nib.save(nib.Nifti1Image(np.zeros(label.shape, np.int16), np.eye(4)), folder / f"{phase}.nii.gz")
            nib.save(nib.Nifti1Image(label, np.eye(4)), folder / f"{phase}_gt.nii.gz")
    return write_document(tmp_path / "here" / "full.yaml")


def write_document(path: Path, **change: Any) -> Path:
    entry = {"folder": "data", "images": "{subject}/{phase}.nii.gz", "labels": "{subject}/{phase}_gt.nii.gz"}
    entry |= {"values": dict(enumerate(CLASSES))} | change
    path.write_text(yaml.safe_dump({"classes": CLASSES, "datasets": {"hearts": entry}}), encoding="utf-8")
    return path


@pytest.fixture
def simulate(capsys) -> Callable[..., tuple[int, str, str]]:
    """Run the command; return the exit code and what it prints on both streams."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        code = main(["simulate", *map(str, words)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def subjects(items: list[dict[str, Any]]) -> set[str]:
    return {item["subject"] for item in items}


def test_report(full, simulate):
    out = full.with_name("partial.json")
    code, printed, _ = simulate(full, out, "--seed", "3")
    assert code == 0
    digest = json.loads(out.read_text())["hash"]
    assert re.search(r"training +12 subjects, 24 images\nvalidation +4 subjects, 8 images\ntest +4 subj", printed)
    assert "background: 3, RV: 3, MYO: 3, LV: 3 training subjects" in printed
    assert f"SHA-256     {digest}\n" in printed
    assert (
        f"Partial annotations: dcl-monai {__version__}, seed 3, 1 of 4 classes per subject, split 12/4/4 subjects "
        f"(training/validation/test), datalist SHA-256 {digest}." in printed
    )
    assert printed.endswith(f"python -m dcl_monai check {out}\n")


def test_written_datalist(full, simulate):
    out = full.with_name("partial.json")
    simulate(full, out)
    text = out.read_text()
    assert str(full.parent) not in text, "paths are relative"
    assert '"annotated": [\n    "MYO"' in text, "classes stand there by name"
    datalist = load_datalist(out)
    shown = {item["subject"]: item["annotated"] for item in datalist["training"]}
    assert sorted(shown.values()) == sorted([[0], [1], [2], [3]] * 3)
    assert all(item["annotated"] == shown[item["subject"]] for item in datalist["training"])
    assert all(decided_classes(item, 4) == (0, 1, 2, 3) for name in SPLITS[1:] for item in datalist[name])
    assert all(Path(item["label"]).is_file() for item in datalist["training"])


@pytest.mark.parametrize("options", [(), ("--scribbles",), ("--scribbles", "--classes-per-subject", "2")])
def test_same_hash_wherever_the_data_lies(full, simulate, tmp_path, options, monkeypatch):
    simulate(full, full.with_name("a.json"), *options)
    there = tmp_path / "another" / "machine"
    shutil.copytree(full.parent / "data", there / "data")
    shutil.copy(full, there)
    monkeypatch.chdir(there)
    simulate("full.yaml", "b.json", *options)
    simulate("full.yaml", "c.json", *options, "--seed", "1")
    hashes = [
        json.loads(path.read_text())["hash"] for path in (full.with_name("a.json"), Path("b.json"), Path("c.json"))
    ]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("options", "sizes", "per_subject"),
    [
        (("--task", "acdc"), (12, 4, 4), 1),
        (("--task", "mscmr"), (11, 2, 7), 1),
        (("--task", "mmwhs"), (7, 3, 10), 2),
        (("--task", "acdc", "--classes-per-subject", "3"), (12, 4, 4), 3),
        (("--split", "8", "1", "1"), (16, 2, 2), 1),
        (("--split", "0.5", "0", "0.5", "--classes-per-subject", "4"), (10, 0, 10), 4),
    ],
)
def test_split_and_classes_per_subject(full, simulate, options, sizes, per_subject):
    out = full.with_name("partial.json")
    assert simulate(full, out, *options)[0] == 0
    datalist = load_datalist(out)
    assert tuple(len(subjects(datalist[name])) for name in SPLITS) == sizes
    assert {len(item["annotated"]) for item in datalist["training"]} == {per_subject}


def test_partial_validation(full, simulate):
    out = full.with_name("partial.json")
    simulate(full, out, "--partial-validation")
    datalist = load_datalist(out)
    assert sorted(item["annotated"] for item in datalist["validation"][::2]) == [[0], [1], [2], [3]]
    assert all(decided_classes(item, 4) == (0, 1, 2, 3) for item in datalist["test"])


class TestScribbles:
    def strokes(self, item: dict[str, Any]) -> np.ndarray:
        return np.asarray(nib.load(item["label"]).dataobj)

    def test_all_classes(self, full, simulate):
        out = full.with_name("partial.json")
        code, printed, _ = simulate(full, out, "--scribbles", "--task", "acdc")
        assert code == 0
        assert "background: 12, RV: 12, MYO: 12, LV: 12 training subjects" in printed
        assert re.search(r"strokes +cover background: \d+\.\d%, RV: .* LV: \d+\.\d% of the class", printed)
        assert "Scribbles: dcl-monai" in printed
        assert "all 4 classes per subject" in printed
        datalist = load_datalist(out)
        files = {Path(item["label"]).resolve() for item in datalist["training"]}
        assert files == set((full.parent / "partial_scribbles").resolve().iterdir())
        for item in datalist["training"]:
            truth = np.asarray(nib.load(item["image"].replace(".nii.gz", "_gt.nii.gz")).dataobj)
            strokes = self.strokes(item)
            assert set(np.unique(strokes)) == {0, 1, 2, 3, 255}
            assert np.array_equal(strokes[strokes != 255], truth[strokes != 255])
        assert all(item["label"].endswith("_gt.nii.gz") for name in SPLITS[1:] for item in datalist[name])

    def test_some_classes(self, full, simulate):
        out = full.with_name("partial.json")
        simulate(full, out, "--scribbles", "--classes-per-subject", "1", "--partial-validation")
        datalist = load_datalist(out)
        for name in ("training", "validation"):
            for item in datalist[name]:
                assert set(np.unique(self.strokes(item))) == {*item["annotated"], 255}
                assert len(item["annotated"]) == 1
        assert all(item["label"].endswith("_gt.nii.gz") for item in datalist["test"])

    def test_data_are_left_alone(self, full, simulate):
        def content() -> dict[Path, bytes]:
            return {path: path.read_bytes() for path in (full.parent / "data").rglob("*.nii.gz")}

        before = content()
        simulate(full, full.with_name("partial.json"), "--scribbles")
        assert content() == before
        names = {"data", "full.yaml", "partial.json", "partial_scribbles"}
        assert {path.name for path in full.parent.iterdir()} == names


class TestMistakes:
    """Each is one line, with exit code 1, and writes nothing."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--classes-per-subject", "0"), "0 annotated classes per subject do not fit 4 classes"),
            (("--classes-per-subject", "5"), "5 annotated classes per subject do not fit 4 classes"),
            (("--seed", "-1"), "seed -1"),
            (("--split", "0", "0", "0"), "invalid"),
            (("--split", "3", "14", "3"), "none of the 3 training subject(s)"),
        ],
    )
    def test_options(self, full, simulate, options, message):
        code, printed, error = simulate(full, full.with_name("partial.json"), *options)
        assert (code, printed, error.count("\n")) == (1, "", 1)
        assert message in error
        assert not full.with_name("partial.json").exists()

    @pytest.mark.parametrize("options", [(), ("--scribbles",)])
    def test_output_exists(self, full, simulate, options):
        out = full.with_name("partial.json")
        out.write_text("mine")
        code, _, error = simulate(full, out, *options)
        assert (code, error) == (1, f"error: {out}: exists already. Choose another name, or replace it with --force.\n")
        assert out.read_text() == "mine"
        assert simulate(full, out, *options, "--force")[0] == 0
        first = out.read_text()
        assert simulate(full, out, *options, "--force")[0] == 0
        assert out.read_text() == first

    def test_folder_of_strokes_exists(self, full, simulate):
        full.with_name("partial_scribbles").mkdir()
        code, _, error = simulate(full, full.with_name("partial.json"), "--scribbles")
        assert code == 1
        assert "partial_scribbles: exists already" in error

    @pytest.mark.parametrize("name", ["partial.yaml", "partial"])
    def test_output_is_json(self, full, simulate, name):
        code, _, error = simulate(full, full.with_name(name))
        assert code == 1
        assert "Give a name that ends in .json" in error

    def test_output_is_the_source(self, full, simulate):
        simulate(full, full.with_name("partial.json"))
        before = full.with_name("partial.json").read_text()
        code, _, error = simulate(full.with_name("partial.json"), full.with_name("partial.json"), "--force")
        assert code == 1
        assert "is the file that describes the data" in error
        assert full.with_name("partial.json").read_text() == before

    def test_hidden_twice(self, full, simulate):
        simulate(full, full.with_name("partial.json"))
        code, _, error = simulate(full.with_name("partial.json"), full.with_name("again.json"))
        assert (code, error.count("\n")) == (1, 1)
        assert "only full labels can be made partial" in error

    @pytest.mark.parametrize("options", [(), ("--scribbles",)])
    def test_not_labelled_in_full(self, full, simulate, options):
        write_document(full, values={0: "background", 1: "RV", 2: "MYO"})
        code, _, error = simulate(full, full.with_name("partial.json"), *options)
        assert (code, error.count("\n")) == (1, 1)
        assert re.search(r"e[ds]\.nii\.gz: .* lacks background, LV\. Take the image out", error)

    def test_damaged_label(self, full, simulate):
        for path in (full.parent / "data").rglob("*_gt.nii.gz"):
            path.write_bytes(b"no image")
        code, _, error = simulate(full, full.with_name("partial.json"), "--scribbles")
        assert (code, error.count("\n")) == (1, 1)
        assert "cannot be read" in error
        assert {path.name for path in full.parent.iterdir()} == {"data", "full.yaml"}
