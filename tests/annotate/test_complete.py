"""Completed labels keep what was drawn, and other tools read them."""

from __future__ import annotations

import csv
import json

import nibabel as nib
import numpy as np
import pytest
import torch

from dcl_monai.annotate import Prediction, complete_datalist, fill_labels
from dcl_monai.candidates import known_positive
from dcl_monai.datalist import load_datalist
from dcl_monai.datalist.convert.nnunet import convert_nnunet
from dcl_monai.utils import DataError
from dcl_monai.visualize.viewer import find_album
from dcl_monai.visualize.viewer.volumes import load_volume


def test_stray_parts_go_to_the_next_candidate_unless_drawn():
    #                      background, then A in three parts: drawn, large, stray
    probabilities = torch.zeros(3, 1, 9, 1)
    probabilities[0], probabilities[2] = 0.3, 0.1
    probabilities[1, 0, [0, 2, 3, 4, 6]] = 0.6
    probabilities[2, 0, 6] = 0.4
    candidates = torch.ones(3, 1, 9, 1, dtype=torch.bool)
    candidates[[0, 2], 0, 0] = False
    prediction = Prediction({"image": "", "subject": ""}, probabilities, candidates, torch.eye(4), {}, True, (1,))
    assert fill_labels(prediction).flatten().tolist() == [1, 0, 1, 1, 1, 0, 2, 0, 0]


def test_drawn_voxels_stay_and_nnunet_reads_the_rest(known_models, tmp_path):
    crossfit, out = known_models(), tmp_path / "out"
    report = complete_datalist(crossfit, out)
    folder = out / "Dataset001_own"
    document = convert_nnunet(folder)
    assert document["classes"] == ["background", "A", "B"]
    assert json.loads((folder / "dataset.json").read_text())["numTraining"] == 12
    assert len(list((folder / "imagesTs").iterdir())) == len(crossfit.datalist["test"]) == 3
    for item in crossfit.items:
        entry = report.files["_".join((item["dataset"], *item["case"].split("/")))]
        completed, image = nib.load(out / entry["outputs"]["label"]), nib.load(item["image"])
        assert (completed.affine == image.affine).all()
        candidates = crossfit.predict(item).candidates
        labels = torch.from_numpy(np.asarray(completed.dataobj).astype(np.int64))
        drawn = known_positive(candidates, dim=0)
        assert (labels[drawn.any(0)] == drawn.int().argmax(0)[drawn.any(0)]).all()
        assert candidates.gather(0, labels[None]).all()
        assert entry["voxels"]["drawn"] == int(drawn.sum())
        assert entry["structures"]["A"]["from"] == ("drawn" if item["dataset"] == "north" else "filled")
        assert entry["structures"]["A"]["confidence"] > 0.8
    with (out / "work_list.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 + 5 + 2 * 5  # what north, south and east did not draw
    confidence = [float(row["confidence"]) for row in rows]
    assert confidence == sorted(confidence)
    assert (out / "contact_sheet_01.png").is_file()
    album = find_album(out)
    assert len(album.cases) == 15
    assert album.cases[0].note == f"{rows[0]['structure']}: confidence {confidence[0]:.2f}"
    assert [plane.shape for plane in load_volume(album, album.cases[0]).planes] == 3 * [(40, 44, 5, 1)]


def test_an_interrupted_run_goes_on(no_pictures, known_models, tmp_path):
    crossfit = known_models()
    crossfit.stop_at = 4
    with pytest.raises(KeyboardInterrupt):
        complete_datalist(crossfit, tmp_path / "out")
    first = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nii.gz")}
    again = known_models()
    report = complete_datalist(again, tmp_path / "out")
    assert again.calls == 15 - 3
    assert report.complete
    assert all(path.stat().st_mtime_ns == time for path, time in first.items())


def test_nothing_else_is_replaced(no_pictures, known_models, tmp_path, caplog):
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(DataError, match="is not empty and was not written by this command"):
        complete_datalist(known_models(), tmp_path)
    with pytest.raises(DataError, match=r"mine\.txt: is a file"):
        complete_datalist(known_models(), tmp_path / "mine.txt")
    complete_datalist(known_models(), tmp_path / "out", "masks")
    with caplog.at_level("INFO"), pytest.raises(DataError, match="was made from other data, models or settings"):
        complete_datalist(known_models(), tmp_path / "out", "decathlon")
    assert "segmented again" not in caplog.text


def test_a_target_that_cannot_be_written_and_a_list_without_images_end_in_one_line(known_models):
    crossfit = known_models()
    with pytest.raises(DataError, match="cannot be written"):
        complete_datalist(crossfit, "/proc/no/such")
    crossfit.items = []
    with pytest.raises(DataError, match="names no image"):
        complete_datalist(crossfit, "/proc/no/such")


def test_unsure_voxels_can_be_left_out(no_pictures, known_models, tmp_path):
    crossfit = known_models()
    report = complete_datalist(crossfit, tmp_path / "all", "decathlon", ignore=1)
    assert all(entry["voxels"]["filled"] == 0 for entry in report.files.values())
    datalist = load_datalist(tmp_path / "all" / "dataset.json")
    assert [len(datalist[split]) for split in ("training", "validation", "test")] == [9, 3, 3]
    assert datalist["training"][0]["unlabelled"] == [3]
    some = complete_datalist(crossfit, tmp_path / "some", "nnunet", ignore=0.9)
    filled, ignored = (sum(entry["voxels"][kind] for entry in some.files.values()) for kind in ("filled", "ignored"))
    assert filled > ignored > 0
    described = json.loads((tmp_path / "some" / "Dataset001_own" / "dataset.json").read_text())
    assert described["labels"]["ignore"] == 3
    with pytest.raises(DataError, match="masks have no value for it"):
        complete_datalist(crossfit, tmp_path / "masks", "masks", ignore=0.5)


def test_masks(no_pictures, known_models, tmp_path):
    crossfit = known_models()
    complete_datalist(crossfit, tmp_path / "out", "masks")
    masks = sorted(path.name for path in (tmp_path / "out" / "north_p0_image").iterdir())
    assert masks == ["A.nii.gz", "B.nii.gz"]
    assert set(np.unique(nib.load(tmp_path / "out" / "north_p0_image" / "A.nii.gz").dataobj)) == {0, 1}
