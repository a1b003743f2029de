"""Tests of the records: what is known of every class, read once, by one process or many."""

from __future__ import annotations

import os
from dataclasses import fields

import itk
import numpy as np
import pytest
from helpers import FORKS

from dcl_monai.check import State, inspect_datalist, reading
from dcl_monai.transforms import files

from .conftest import SHAPE, blocks, inspect_item

PRESENT, ABSENT, STROKES, UNION, UNKNOWN = list(State)[:5]


class TestStates:
    @pytest.mark.parametrize(
        ("annotated", "states"),
        [
            ([[0], [1], [2]], (PRESENT, PRESENT, PRESENT)),
            ([0, 1, 2], (PRESENT, PRESENT, PRESENT)),
            (None, (PRESENT, PRESENT, PRESENT)),
            ([[1]], (UNKNOWN, PRESENT, UNKNOWN)),
            ([[1, 2]], (PRESENT, UNION, UNION)),
            ([[0]], (PRESENT, UNION, UNION)),
            ([], (UNKNOWN, UNKNOWN, UNKNOWN)),
        ],
    )
    def test_annotated(self, make_item, annotated, states):
        assert inspect_item(make_item("a", annotated=annotated)).states == states

    @pytest.mark.parametrize(
        ("annotated", "states"),
        [([[1]], (UNKNOWN, ABSENT, UNKNOWN)), ([[1, 2]], (PRESENT, ABSENT, ABSENT)), (None, (PRESENT, ABSENT, ABSENT))],
    )
    def test_empty_label(self, make_item, annotated, states):
        item = make_item("a", np.zeros(SHAPE, np.uint8), annotated=annotated)
        assert inspect_item(item).states == states

    def test_strokes(self, make_item):
        label = np.full(SHAPE, 9, np.uint8)
        label[0, 0], label[1, 0] = 0, 1
        item = make_item("a", label, unlabelled=[9])
        assert inspect_item(item).states == (STROKES, STROKES, UNKNOWN)

    def test_without_label(self, make_item):
        item = {key: value for key, value in make_item("a").items() if key in ("image", "subject")}
        record = inspect_item(item)
        assert record.states == (UNKNOWN,) * 3
        assert record.files.labels == ()

    def test_two_annotations_add_up(self, make_item):
        other = make_item("b", blocks())
        item = make_item("a", blocks(), annotated=[[1]])
        item["further_labels"] = [{key: other[key] for key in ("label", "values", "unlabelled")} | {"annotated": [[2]]}]
        assert inspect_item(item).states == (PRESENT, PRESENT, PRESENT)

    def test_label_values_are_mapped(self, make_item):
        item = make_item("a", np.where(blocks() == 1, 5, 0).astype(np.uint8), values={0: [0], 5: [2]}, annotated=[[2]])
        record = inspect_item(item)
        assert record.states == (UNKNOWN, UNKNOWN, PRESENT)
        assert record.volumes[2] == pytest.approx(9 / 1000)  # nine voxels of 1 mm


class TestFiles:
    def test_geometry(self, make_item, write_nifti):
        item = make_item("a")
        affine = np.diag([-1.5, -1.25, 8, 1])
        item["image"] = write_nifti("image.nii.gz", np.arange(168, dtype=np.float32).reshape(SHAPE), affine)
        item["label"] = write_nifti("label.nii.gz", blocks(), affine)
        record = inspect_item(item, "test")
        assert (record.split, record.dataset, record.case, record.subject) == ("test", "north", "a", "a")
        assert record.files.shape == SHAPE
        assert record.files.spacing == (1.5, 1.25, 8.0)
        assert record.files.orientation == "LPS"
        assert record.volumes[1] == pytest.approx(9 * 15 / 1000)

    @pytest.mark.parametrize("extension", ["nrrd", "mha", "mhd"])
    def test_formats_of_itk(self, make_item, tmp_path, extension):
        item = make_item("a")
        pixels = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
        for key, array in (("image", pixels), ("label", blocks())):
            image = itk.image_from_array(np.ascontiguousarray(array.T))
            image.SetSpacing((1.5, 1.5, 8.0))
            item[key] = str(tmp_path / f"{key}.{extension}")
            itk.imwrite(image, item[key])
        record = inspect_item(item)
        assert record.files.problems == ()
        assert record.files.shape == SHAPE
        assert record.files.spacing == (1.5, 1.5, 8.0)
        assert record.states == (PRESENT, PRESENT, PRESENT)

    @pytest.mark.parametrize("series", [1, 2])
    def test_folder_of_dicom_files(self, tmp_path, series):
        folder = tmp_path / "series"
        folder.mkdir()
        for k in range(3):
            slice_ = itk.image_from_array(np.full((1, 7, 8), 10 * k + 1, np.int16))
            slice_.SetOrigin((0.0, 0.0, float(k)))
            tags = slice_.GetMetaDataDictionary()
            for tag, value in {
                "0008|0060": "MR",
                "0020|000d": "1.2.3",
                "0020|000e": f"1.2.3.{min(k + 1, series)}",
                "0020|0013": str(k),
                "0020|0032": f"0\\0\\{k}",
                "0020|0037": "1\\0\\0\\0\\1\\0",
            }.items():
                tags[tag] = value
            slice_.SetMetaDataDictionary(tags)
            writer = itk.GDCMImageIO.New(KeepOriginalUID=True)
            itk.imwrite(slice_, str(folder / f"{k}.dcm"), imageio=writer)
        files = inspect_item({"image": str(folder), "subject": "a"}).files
        if series == 1:
            assert files.problems == ()
            assert files.shape == SHAPE
        else:
            assert files.problems[0].message.startswith(f"{folder}: cannot be read (more than one DICOM series")


class TestDatalist:
    def test_one_record_per_item_in_order(self, datalist):
        records = inspect_datalist(datalist, progress=False)
        assert [record.case for record in records] == ["train0", "train1", "train2", "train3", "val", "test"]
        assert [record.split for record in records] == ["training"] * 4 + ["validation", "test"]

    def test_files_of_repeated_items_are_read_once(self, datalist, monkeypatch):
        read = []
        load = files.read_image
        monkeypatch.setattr(
            files, "read_image", lambda path, *a, **k: read.append(os.path.basename(path)) or load(path, *a, **k)
        )
        datalist["training"] = [item | {"annotated": [j]} for item in datalist["training"] for j in range(3)]
        records = inspect_datalist(datalist, progress=False)
        assert len(records) == 14
        assert records[0].states == (PRESENT, UNION, UNION)
        assert records[1].states == (UNKNOWN, PRESENT, UNKNOWN)
        assert len(read) == len(set(read)) == 12

    def test_processes_give_the_same(self, datalist, monkeypatch):
        os.truncate(datalist["training"][1]["image"], 100)
        alone = inspect_datalist(datalist, workers=1, progress=False)
        started = []
        pool = reading.ProcessPoolExecutor
        monkeypatch.setattr(reading, "ProcessPoolExecutor", lambda *args: started.append(args[0]) or pool(*args))
        assert inspect_datalist(datalist, workers=2, progress=False) == alone
        assert started == []  # six small files are no work for two
        monkeypatch.setattr(reading, "get_context", lambda method: FORKS)  # they need not import everything first
        monkeypatch.setattr(reading, "WORTHWHILE", 0.0)
        monkeypatch.setattr(reading, "CHUNK", 2)
        assert inspect_datalist(datalist, workers=2, progress=False) == alone
        assert started == [2]

    def test_records_hold_no_arrays(self, datalist):
        for record in inspect_datalist(datalist, progress=False):
            held = [getattr(part, field.name) for part in (record, record.files) for field in fields(part)]
            assert {type(value) for value in held} <= {str, tuple, bool, int, dict, type(record.files)}
            assert len(record.files.voxels) <= 3
