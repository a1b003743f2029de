from __future__ import annotations

import pytest

from dcl_monai.datalist import load_datalist, prediction_name, pseudo_datalist
from dcl_monai.datalist.items import decided_classes
from dcl_monai.utils import DataError

CLASSES = ["background", "RV", "MYO", "LV"]


def item(subject: str, **more) -> dict:
    known = {"label": f"/d/{subject}_gt.nii", "values": {0: [0], 7: [1]}, "annotated": [1], "drawn": [1, 2, 3]}
    return {"image": f"/d/{subject}.nii", "subject": subject, "dataset": "A", "case": f"{subject}/1", **known, **more}


def test_training_labels_are_the_predictions(tmp_path):
    training = [item("a", phase="ED"), {"image": "/d/b.nii", "subject": "b", "dataset": "A", "case": "b/1"}]
    datalist = {"classes": CLASSES, "unions": {}, "training": training, "validation": [item("c")], "test": [item("d")]}
    for entry in training:
        (tmp_path / prediction_name(entry)).touch()
    pseudo = pseudo_datalist(datalist, tmp_path)
    assert [decided_classes(entry, 4) for entry in pseudo["training"]] == [(0, 1, 2, 3)] * 2
    assert pseudo["training"][0]["label"] == str(tmp_path / "A_a_1.nii.gz")
    assert pseudo["training"][0]["phase"] == "ED"
    assert "drawn" not in pseudo["training"][0]
    assert pseudo["validation"] == datalist["validation"]
    again = load_datalist(tmp_path / "datalist.json")
    assert again["training"][0]["label"] == str(tmp_path / "A_a_1.nii.gz")
    assert again["test"][0]["annotated"] == [1]


def test_missing_prediction(tmp_path):
    datalist = {"classes": CLASSES, "unions": {}, "training": [item("a")], "validation": [], "test": []}
    with pytest.raises(DataError, match=r"A_a_1.nii.gz: the prediction of /d/a.nii is missing"):
        pseudo_datalist(datalist, tmp_path)
