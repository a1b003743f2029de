from __future__ import annotations

import csv
import json
import math
import shutil

import pytest

from dcl_monai.datalist import load_datalist, write_datalist
from dcl_monai.studies.results import read_results
from dcl_monai.utils import DataError


def test_patient_is_the_unit(made_up_study):
    """Seeds and phases are averaged within a patient: 8 patients, not 8 x 2 phases x 2 seeds."""
    out = made_up_study({"paper_6": lambda k, seed: 0.5 + 0.01 * k + 0.1 * seed})
    found = read_results(out).recipes["paper_6"]
    patients = found.by_patient(["RV", "MYO", "LV"])
    assert patients == pytest.approx({("A", f"test{k}"): 0.55 + 0.01 * k for k in range(8)})
    assert found.by_patient(["RV"], "ED") == pytest.approx(patients)
    assert found.seed_deviation(["RV"]) == pytest.approx(0.1 / 2**0.5)  # means .535 and .635


def test_missed_structures_are_counted_and_not_averaged(made_up_study):
    out = made_up_study({"paper_1": lambda k, seed: 0.5})
    found = read_results(out).recipes["paper_1"]
    assert found.missed("RV") == (4, 32)  # patient 0, two phases, two seeds
    assert found.missed("LV") == (0, 32)
    distances = found.by_patient(["RV"], table="hd95")
    assert ("A", "test0") not in distances
    assert set(distances.values()) == {5.0}


def test_structures_that_a_volume_does_not_show(made_up_study):
    """An empty cell is no zero."""
    out = made_up_study({"paper_6": lambda k, seed: 0.6})
    for path in out.glob("runs/*/*/test_dice.csv"):
        lines = list(csv.reader(path.open()))
        for line in lines[1:]:
            if line[1] == "test3":
                line[4] = ""
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(lines)
    found = read_results(out).recipes["paper_6"]
    assert len(found.by_patient(["RV"])) == 7
    assert found.by_patient(["RV", "LV"])["A", "test3"] == pytest.approx(0.6)


def test_labels_and_pairs(made_up_study):
    out = made_up_study({"paper_6": lambda k, seed: 0.6, "unet_f": lambda k, seed: 0.7})
    recipes = read_results(out).recipes
    partial, full = recipes["paper_6"].runs[0], recipes["unet_f"].runs[0]
    assert partial.labels() == 8  # subjects, one class each
    assert full.labels() == 32
    assert len(partial.never_together()) == 12  # all ordered pairs of 4 classes
    assert full.never_together() == set()
    assert partial.cost("wall_seconds") == 120


def test_unfinished_runs_do_not_count(made_up_study):
    out = made_up_study({"paper_6": lambda k, seed: 0.6})
    record = out / "runs" / "paper_6" / "seed1" / "run.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"status": "running"}))
    results = read_results(out)
    assert len(results.recipes["paper_6"].runs) == 1
    assert results.unfinished == ["paper_6 seed 1 (running)"]
    shutil.rmtree(out / "runs" / "paper_6" / "seed0")
    with pytest.raises(DataError, match="no complete run yet"):
        read_results(out)


def test_different_test_sets_are_refused(made_up_study):
    out = made_up_study({"paper_6": lambda k, seed: 0.6, "paper_2": lambda k, seed: 0.5}, seeds=(0,))
    path = out / "runs" / "paper_2" / "seed0" / "test_dice.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(DataError, match="tested on other volumes"):
        read_results(out)


def test_nothing_is_nan(made_up_study):
    results = read_results(made_up_study({"paper_6": lambda k, seed: 0.6}))
    assert results.structures == ["RV", "MYO", "LV"]
    assert results.phases == ["ED", "ES"]
    values = results.recipes["paper_6"].by_patient(results.structures, table="shuffled").values()
    assert not any(map(math.isnan, values))


def test_divisions_count_alike(made_up_study):
    """A patient of two divisions is one patient, and three seeds of one do not outweigh one seed of the other."""
    one = made_up_study({"dcl": lambda k, seed: 0.6 + 0.1 * seed}, seeds=(0, 1, 2))
    other = made_up_study({"dcl": lambda k, seed: 0.5}, seeds=(0,), split_seed=1)
    results = read_results(one, other)
    patients = results.recipes["dcl"].by_patient(["RV"])
    assert patients == pytest.approx({("A", f"test{k}"): 0.7 if k < 4 else 0.6 if k < 8 else 0.5 for k in range(12)})
    assert results.patients == set(patients)
    assert results.recipes["dcl"].seed_deviation(["RV"]) == pytest.approx(0.1)  # within the first division


def test_rows_that_not_every_division_has(made_up_study):
    """They would be compared on other patients."""
    both = {"dcl": lambda k, seed: 0.6, "paper_2": lambda k, seed: 0.5}
    one = made_up_study(both, seeds=(0,))
    other = made_up_study({"dcl": both["dcl"]}, seeds=(0,), split_seed=1)
    results = read_results(one, other)
    assert list(results.recipes) == ["dcl"]
    assert results.unfinished == ["paper_2 (in 1 of 2 divisions)"]
    with pytest.raises(DataError, match="no row that is complete in all"):
        read_results(made_up_study({"paper_2": both["paper_2"]}, seeds=(0,)), other)


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"split_seed": 0}, "split seed 0 and fold 0, as .* has"), ({"iterations": 6}, "iterations 6, .* 500. Report")],
)
def test_studies_that_differ_in_more_are_refused(made_up_study, changed, message):
    one = made_up_study({"dcl": lambda k, seed: 0.6}, seeds=(0,))
    other = made_up_study({"dcl": lambda k, seed: 0.6}, seeds=(0,), split_seed=1)
    path = other / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(DataError, match=message):
        read_results(one, other)


def test_other_classes_are_refused(made_up_study):
    one = made_up_study({"dcl": lambda k, seed: 0.6}, seeds=(0,))
    other = made_up_study({"dcl": lambda k, seed: 0.6}, seeds=(0,), split_seed=1)
    path = other / "runs" / "dcl" / "seed0" / "datalist.json"
    content = load_datalist(path)
    write_datalist({**content, "classes": ["background", "RA", "MYO", "LV"]}, path)
    with pytest.raises(DataError, match="has other classes than"):
        read_results(one, other)
