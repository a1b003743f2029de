"""Every image is predicted by models that did not see its subject, and the models are trained once."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import Forked

from dcl_monai.annotate import CrossFit, Prediction, crossfit
from dcl_monai.bundle import commands
from dcl_monai.bundle.new import new_bundle
from dcl_monai.cli import main
from dcl_monai.datalist import fold_subjects
from dcl_monai.utils import DataError

BUNDLES = Path(__file__).parents[2] / "bundles"
SHORT = {"stage1_epochs": "1", "stage2_epochs": "0", "iterations_per_epoch": "2", "bank_size": "1"}
SHORT |= {"conditional": "false"}
PLAIN = ["baselines/compatible_ce.json"]


def item(subject: str, *annotated: int) -> dict:
    values = {0: 0, 1: 1, 2: 2}
    return {"image": f"{subject}.nii", "label": "x", "subject": subject, "values": values, "annotated": annotated}


def test_folds_have_every_kind_of_annotation_alike():
    items = [item(f"{j}{n}", j) for j in (1, 2) for n in range(6)] * 2
    folds = fold_subjects(items, 3, 3)
    assert Counter((subject[0], fold) for subject, fold in folds.items()) == {(j, k): 2 for j in "12" for k in range(3)}
    assert folds == fold_subjects(items[::-1], 3, 3)
    assert folds != fold_subjects(items, 3, 3, seed=1)


def test_no_model_learns_from_test_images(hospitals):
    fit = CrossFit(hospitals(2), BUNDLES / "acdc", 2)
    tested = {image["subject"] for image in fit.datalist["test"]}
    assert tested
    learnt = [fit.training_list(fold) for fold in range(2)]
    assert not tested & {i["subject"] for part in learnt for i in (*part["training"], *part["validation"])}


def test_within_sets():
    probabilities = torch.tensor([[0.5, 0.0, 0.0, 0.2], [0.3, 0.0, 0.0, 0.7], [0.2, 0.0, 1.0, 0.1]]).reshape(3, 4, 1, 1)
    candidates = torch.tensor([[0, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0]]).bool().reshape(3, 4, 1, 1)
    prediction = Prediction(item("a"), probabilities, candidates, torch.eye(4), {}, True)
    expected = torch.tensor([[0, 1, 0, 0], [0.6, 0, 0, 1], [0.4, 0, 1, 0]]).reshape(3, 4, 1, 1)
    torch.testing.assert_close(prediction.within_sets(), expected)
    assert prediction.drawn.flatten().tolist() == [False, False, False, True]


def test_outside_of_the_field_of_view_a_union_is_shared():
    candidates = torch.tensor([False, True, True]).reshape(3, 1, 1, 1)
    prediction = Prediction(item("a"), torch.zeros(3, 1, 1, 1), candidates, torch.eye(4), {}, True)
    assert prediction.within_sets().flatten().tolist() == [0, 0.5, 0.5]


@pytest.mark.slow
def test_from_partial_labels_to_full_ones_and_bounds(hospitals, tmp_path, capsys, monkeypatch):
    for module in (crossfit, commands):
        monkeypatch.setattr(module, "run_command", lambda words: Forked(*words[1:]).wait().returncode)
    source = hospitals(2)
    bundle = new_bundle(source, tmp_path / "own", "small", device="cpu")
    short = [word for name, value in SHORT.items() for word in (f"--{name}", value)]
    how = ["--bundle", str(bundle), "--folds", "2"]
    training = ["--training", *short, "--overlay", *PLAIN]
    assert main(["complete", str(source), *how, "--out", str(tmp_path / "full"), "--format", "masks", *training]) == 0
    assert (tmp_path / "full" / "north_p0_image" / "B.nii.gz").is_file()

    # no model saw the subject, and they are trained once
    fit = CrossFit(source, bundle, 2, words=short, overlays=PLAIN)
    times = [fit.model_file(fold).stat().st_mtime_ns for fold in range(2)]
    assert CrossFit(source, bundle, 3, words=short, overlays=PLAIN).key != fit.key
    for image in fit.items[:12:5]:  # the last three are test images, which all models predict
        prediction = fit.predict(image)
        (model,) = prediction.models
        listed = json.loads((fit.cache / model.split("/")[-2] / "datalist.json").read_text())
        seen = {entry["subject"] for split in ("training", "validation", "test") for entry in listed[split]}
        assert image["subject"] not in seen
        assert len(seen) == 6  # half of the subjects that are not test subjects
        within = prediction.within_sets()
        assert not within[~prediction.candidates].any()
        np.testing.assert_allclose(within.sum(0), 1, atol=1e-5)
        assert (within.argmax(0) == prediction.candidates.int().argmax(0))[prediction.drawn].all()

    model = bundle / "models" / "model.pt"
    shutil.copyfile(fit.model_file(0), model)
    assert main(["bounds", str(source), *how, "--level", "0.8", *training]) == 0
    assert "B: Dice at least confidence " in capsys.readouterr().out
    assert [fit.model_file(fold).stat().st_mtime_ns for fold in range(2)] == times
    commands.predict(bundle, source.parent / "north" / "p0", tmp_path / "out")
    entry = json.loads((tmp_path / "out" / "report.json").read_text())["files"]["image.nii.gz"]
    assert set(entry["bounds"]) == {"A", "B"}
    low, high = entry["bounds"]["A"][0]["volume_ml"]
    assert low <= entry["volumes_ml"]["A"][0] <= high
    commands.evaluate(bundle)
    with (bundle / "evaluation" / "test_bounds.csv").open() as file:
        assert {row["structure"] for row in csv.DictReader(file)} == {"A", "B"}


def test_mistakes_end_in_one_line(hospitals, tmp_path):
    source = hospitals(2)
    with pytest.raises(DataError, match="is not a bundle"):
        CrossFit(source, tmp_path)
    with pytest.raises(DataError, match="too few for 9 folds"):
        CrossFit(source, tmp_path, 9)
