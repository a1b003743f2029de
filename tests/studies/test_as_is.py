"""Partial data of one's own is compared as it is, if validation and test show everything."""

from __future__ import annotations

import shutil

import pytest

from dcl_monai.bundle.new import new_bundle
from dcl_monai.datalist import load_datalist, simulate_datalist, write_datalist
from dcl_monai.studies import open_study
from dcl_monai.studies.checks import check_ids, count_subjects
from dcl_monai.studies.runs import make_run
from dcl_monai.utils import DataError


@pytest.fixture
def partial(hospitals, tmp_path):
    """The labels of one hospital stand for full ones; then classes are hidden in training."""
    datalist = load_datalist(hospitals(2))
    for split in ("training", "validation", "test"):
        kept = [item for item in datalist[split] if item["dataset"] == "north"]
        datalist[split] = [{**item, "values": {0: [0], 1: [1], 2: [2]}, "annotated": [1, 2]} for item in kept]  # type: ignore
    datalist["unions"] = {}
    write_datalist(datalist, tmp_path / "full.json", absolute=True)
    hidden = simulate_datalist(tmp_path / "full.json", annotation="partial")
    write_datalist(hidden, tmp_path / "partial.json", absolute=True)
    return tmp_path / "partial.json"


def test_labels_stay_as_they_are(partial, tmp_path):
    settings = open_study(tmp_path / "study", {"datalist": str(partial), "epochs": (1, 1), "iterations": 10})
    assert settings.as_is
    assert settings.is_short
    run = make_run(tmp_path / "study", settings, "dcl", 0)
    check_ids(settings, [run])
    assert run.steps[0].settings["annotation"] == "given"
    assert run.steps[0].settings["split"] is None
    assert count_subjects(run) == {"training": 3, "validation": 1, "test": 1}
    assert simulate_datalist(partial, annotation="given") == load_datalist(partial)
    with pytest.raises(DataError, match="unet_f: this row sets annotation, but labels are used as they are"):
        check_ids(settings, [make_run(tmp_path / "study", settings, "unet_f", 0)])
    assert not open_study(tmp_path / "other", {"datalist": str(partial.with_name("full.json"))}).as_is


def test_a_bundle_of_ones_own(partial, hospitals, tmp_path):
    bundle = new_bundle(hospitals(2), tmp_path / "hearts", "small", device="cpu")
    shutil.copyfile(partial, bundle / "data" / "datalist.json")
    settings = open_study(tmp_path / "study", {"bundle": str(bundle)})
    run = make_run(tmp_path / "study", settings, "compatible_ce", 0)
    assert "split" not in run.steps[0].settings or run.steps[0].settings["split"] is None
    assert count_subjects(run) == {"training": 3, "validation": 1, "test": 1}
    with pytest.raises(DataError, match="which is divided already"):
        open_study(tmp_path / "study", {"bundle": str(bundle), "split": (1.0, 1.0, 1.0)})


def test_a_test_that_does_not_show_all(hospitals, tmp_path):
    settings = open_study(tmp_path / "study", {"datalist": str(hospitals(2))})
    with pytest.raises(DataError, match="methods are compared on full labels, but this validation or test image lacks"):
        count_subjects(make_run(tmp_path / "study", settings, "dcl", 0))
