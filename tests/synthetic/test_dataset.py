"""Tests of the folder of a data set, with subjects that cost nothing."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import nibabel as nib
import numpy as np
import pytest

from dcl_monai.synthetic import MARKER_NAME, acdc
from dcl_monai.synthetic.acdc import ACDC
from dcl_monai.synthetic.dataset import Layout, write_dataset
from dcl_monai.synthetic.pairs import MMWHS, MSCMR
from dcl_monai.synthetic.short_axis import PHASES, SyntheticSubject
from dcl_monai.synthetic.volume import SyntheticVolume
from dcl_monai.utils import DataError


class Kind(NamedTuple):
    """A layout whose subjects are tiny."""

    layout: Layout
    made: list[int]  # the seeds that it was asked for
    fail_after: Callable[[int], None]

    def write(self, root: Path, num_subjects: int, seed: int = 3, **changes: int) -> Path:
        return write_dataset(replace(self.layout, **changes), root, num_subjects, seed, progress=False)


@pytest.fixture(params=["acdc", "mscmr", "mmwhs"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    made: list[int] = []
    limit = [1000]

    def make_volume(index: int, seed: int) -> SyntheticVolume:
        if len(made) >= limit[0]:
            raise KeyboardInterrupt
        made.append(seed)
        rng = np.random.default_rng(seed)
        image = rng.integers(0, 300, (5, 4, 3), dtype=np.int16)
        return SyntheticVolume(image, rng.integers(0, 4, (5, 4, 3), dtype=np.uint8), (1.0, 1.0, 2.0))

    def make_subject(seed: int, group: str) -> SyntheticSubject:
        image, labels, spacing = make_volume(0, seed)
        images, maps = dict.fromkeys(PHASES, image), dict.fromkeys(PHASES, labels)
        return SyntheticSubject(images, maps, spacing, {"ED": 1, "ES": 2 + seed % 9}, group, 20, 170.0, 70.0)

    monkeypatch.setattr(acdc, "synthesize_subject", make_subject)
    layouts = {"acdc": ACDC, "mscmr": replace(MSCMR, make=make_volume), "mmwhs": replace(MMWHS, make=make_volume)}
    return Kind(layouts[request.param], made, lambda number: limit.__setitem__(0, number))


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def subject_files(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(root).items() if name != MARKER_NAME}


def test_marker(kind, tmp_path):
    assert kind.write(tmp_path / "new", 2) == tmp_path / "new"
    assert json.loads((tmp_path / "new" / MARKER_NAME).read_text()) == {
        "generator": kind.layout.generator,
        "version": kind.layout.version,
        "seed": 3,
        "num_subjects": 2,
    }


def test_subjects_depend_on_the_seed_and_their_number_only(kind, tmp_path):
    kind.write(tmp_path / "one", 3)
    kind.write(tmp_path / "two", 3)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert kind.made[:3] == kind.made[3:]
    kind.write(tmp_path / "three", 3, seed=4)
    assert len(set(kind.made)) == 6


def test_growing_keeps_the_first_subjects(kind, tmp_path):
    reference = subject_files(kind.write(tmp_path / "large", 3))
    kind.write(tmp_path / "grown", 2)
    small = subject_files(tmp_path / "grown")
    assert len(small) == len(reference) * 2 // 3
    assert all(reference[name] == data for name, data in small.items())
    kind.made.clear()
    kind.write(tmp_path / "grown", 3)
    assert len(kind.made) == 1
    assert json.loads((tmp_path / "grown" / MARKER_NAME).read_text())["num_subjects"] == 3
    assert subject_files(tmp_path / "grown") == reference


def test_finished_data_set_is_left_alone(kind, tmp_path, monkeypatch):
    def fail(*args):
        raise AssertionError("nothing must be written")

    kind.write(tmp_path, 3)
    monkeypatch.setattr(os, "replace", fail)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert kind.write(str(tmp_path), 3) == tmp_path
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_interrupted_data_set_is_finished(kind, tmp_path):
    reference = contents(kind.write(tmp_path / "whole", 3))
    kind.made.clear()
    kind.fail_after(2)
    with pytest.raises(KeyboardInterrupt):
        kind.write(tmp_path / "broken", 3)
    assert not (tmp_path / "broken" / MARKER_NAME).exists()
    assert (tmp_path / "broken" / "phantom.incomplete.json").exists()
    kind.fail_after(1000)
    kind.write(tmp_path / "broken", 3)
    assert len(kind.made) == 3
    assert contents(tmp_path / "broken") == reference


def test_lost_file_is_restored(kind, tmp_path):
    reference = contents(kind.write(tmp_path, 2))
    for name in reference:
        if name != MARKER_NAME:
            (tmp_path / name).unlink()
            kind.write(tmp_path, 2)
            assert contents(tmp_path) == reference


def test_no_half_written_file_stays(kind, tmp_path, monkeypatch):
    class Broken(gzip.GzipFile):
        def close(self):
            super().close()
            raise OSError("disk full")

    monkeypatch.setattr(gzip, "GzipFile", Broken)
    with pytest.raises(OSError, match="disk full"):
        kind.write(tmp_path, 1)
    assert list(contents(tmp_path)) == ["phantom.incomplete.json"]


def test_other_parameters_replace_the_data_set(kind, tmp_path):
    reference = contents(kind.write(tmp_path / "wanted", 1))
    root = kind.write(tmp_path / "changed", 2, seed=4)
    last = root / sorted(subject_files(root))[-1]
    (last.parent / "notes.txt").write_text("mine")
    (last.parent / f".{last.name}.123.tmp").write_text("left by a process that was killed")
    kind.write(root, 1)
    written = contents(root)
    notes = {name: written.pop(name) for name in list(written) if name.endswith("notes.txt")}
    assert list(notes.values()) == [b"mine"]
    assert written == reference


def test_other_generator_version_replaces_the_data_set(kind, tmp_path):
    kind.write(tmp_path, 1)
    image = next(tmp_path.rglob("*.nii.gz"))
    image.write_bytes(b"of an older version")
    kind.write(tmp_path, 1, version=kind.layout.version + 1)
    assert nib.load(image).shape == (5, 4, 3)
    assert json.loads((tmp_path / MARKER_NAME).read_text())["version"] == kind.layout.version + 1


@pytest.mark.parametrize("marked", [False, True])
def test_foreign_subjects_are_never_touched(kind, tmp_path, marked):
    if marked:
        kind.write(tmp_path, 1)
    name = sorted(kind.layout.names(6))[0]
    (tmp_path / name).write_text("a real patient")
    before = contents(tmp_path)
    with pytest.raises(DataError, match=rf"{name}.*choose an empty or new folder") as error:
        kind.write(tmp_path, 8)
    assert str(tmp_path) in str(error.value)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("content", ['{"seed": 0}', '{"generator": "%s"}', '{"generator": "other"}', "[]", "no json"])
@pytest.mark.parametrize("name", [MARKER_NAME, "phantom.incomplete.json"])
def test_foreign_marker_is_refused(kind, tmp_path, name, content):
    content = content.replace("%s", kind.layout.generator)
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match="not written by"):
        kind.write(tmp_path, 1)
    assert contents(tmp_path) == {name: content.encode()}


def test_kinds_do_not_mix():
    assert len({layout.generator for layout in (ACDC, MSCMR, MMWHS)}) == 3


def test_bad_arguments(kind, tmp_path):
    with pytest.raises(ValueError, match="num_subjects"):
        kind.write(tmp_path / "new", 0)
    with pytest.raises(ValueError, match="seed"):
        kind.write(tmp_path / "new", 1, seed=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        kind.write(tmp_path / "file", 1)
    assert not (tmp_path / "new").exists()


def test_no_progress_bar_without_a_terminal(kind, tmp_path, capsys):
    write_dataset(kind.layout, tmp_path, 1, 3, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "", "a bar is for a terminal, not for a log file"
