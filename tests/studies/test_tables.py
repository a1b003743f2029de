"""Rows and recipes: everything they name exists, and every recipe fits every bundle."""

from __future__ import annotations

import json

import pytest
from monai.bundle import ConfigParser

from dcl_monai.bundle.resources import bundle_folder, overlay_folder
from dcl_monai.studies.paper import PAPER, PAPER_PLACES, paper_scores
from dcl_monai.studies.recipes import RECIPES
from dcl_monai.studies.runs import RUN_IDS, halves, make_run
from dcl_monai.studies.settings import BUDGETS, StudySettings
from dcl_monai.studies.tables import STUDIES, recipes_of
from dcl_monai.utils import DataError

BUNDLES = ("acdc", "mscmr", "mmwhs")


def test_rows_name_recipes():
    for study in STUDIES.values():
        recipes = [row.recipe for row in study.rows]
        assert set(recipes) <= set(RECIPES)
        assert len(recipes) == len(set(recipes)), "a recipe stands once in a table"
        assert all(row.against is None or row.against in recipes for row in study.rows)
        letters = {letter for letter, _ in study.columns}
        assert all(set(row.marks) <= letters for row in study.rows)


def test_every_recipe_is_shown():
    assert {row.recipe for study in STUDIES.values() for row in study.rows} == set(RECIPES)


@pytest.mark.parametrize("bundle", BUNDLES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_parses(bundle, recipe):
    """The files exist and merge, and every id that a recipe changes is one that the bundle has."""
    configs = overlay_folder()
    train = bundle_folder() / bundle / "configs" / "train.json"
    content = RECIPES[recipe]
    plain = ConfigParser()
    plain.read_config(train)
    for overlays in filter(None, (content.overlays, content.teacher)):
        files = [configs / overlay for overlay in overlays]
        for file in files:
            assert {name.partition("#")[0] for name in json.loads(file.read_text(encoding="utf-8"))} <= set(plain.get())
        parser = ConfigParser()
        parser.read_config([train, *files])
        parser.parse()
        assert parser["train"]["trainer"]["_target_"].endswith("DCLTrainer")
    assert set(content.settings) <= set(plain.get())


@pytest.mark.parametrize("bundle", BUNDLES)
def test_ids_that_every_run_sets_exist(bundle):
    """MONAI silently accepts a misspelt id."""
    parser = ConfigParser()
    parser.read_config(bundle_folder() / bundle / "configs" / "train.json")
    ids = {"dataset_dir", "output_dir", "model_file", "seed", "split_seed", "fold", "split", "resume", "test_details"}
    assert ids | {"stage1_epochs", "stage2_epochs", "iterations_per_epoch", "val_interval"} <= set(parser.get())
    assert "source" in parser["datalist"]


def test_ids_of_a_run_are_its_own(tmp_path):
    """What --set must not touch is what every run sets; how often to validate is the only suggestion."""
    run = make_run(tmp_path, StudySettings("acdc", dataset_dir="d", datalist="l", split=(1.0, 1.0, 1.0)), "dcl", 0)
    assert set(run.steps[0].settings) == {*RUN_IDS, "val_interval"}


@pytest.mark.parametrize(
    ("epochs", "asked", "expected"),
    [
        (BUDGETS["short"][:2], {}, 2),
        ((40, 9), {}, 2),
        ((6, 14), {}, 1),
        ((30, 0), {}, 1),
        ((9, 21), {"val_interval": 3}, 3),
    ],
)
def test_validations(tmp_path, epochs, asked, expected):
    """Every second epoch of a long training, so that each stage still has several; --set decides otherwise."""
    settings = StudySettings("acdc", dataset_dir="d", epochs=epochs, settings=asked)
    assert make_run(tmp_path, settings, "dcl", 0).steps[0].settings["val_interval"] == expected


def test_only():
    assert recipes_of("ladder", ["3"]) == recipes_of("ladder", ["#3"]) == ["paper_3"]
    assert recipes_of("ladder", ["paper_6", "paper_2"]) == ["paper_2", "paper_6"]
    assert len(recipes_of("all")) == len(RECIPES)
    with pytest.raises(DataError, match=r"--only 7: no such row.*paper_6"):
        recipes_of("ladder", ["7"])


def test_paper_numbers_are_whole():
    for task, recipes in PAPER.items():
        for recipe in recipes:
            assert recipe in RECIPES
            scores = paper_scores(task, recipe)
            assert list(scores)[: len(PAPER_PLACES[task])] == list(PAPER_PLACES[task])
            assert all(0 < mean < 1 for mean, _ in scores.values())


@pytest.mark.parametrize(("task", "tolerance"), [("acdc", 0.003), ("mscmr", 0.0011)])
def test_paper_averages_are_those_of_its_structures(task, tolerance):
    """A slip of the pen in copying the tables would show here; the paper itself rounds, and is off by up to .0027."""
    for recipe in PAPER[task]:
        scores = paper_scores(task, recipe)
        average = scores.pop("average")[0]
        assert sum(mean for mean, _ in scores.values()) / len(scores) == pytest.approx(average, abs=tolerance), recipe


def test_paper_does_not_have_every_recipe():
    assert paper_scores("acdc", "pseudo") == {}
    assert paper_scores("hippocampus", "paper_6") == {}


@pytest.mark.parametrize(
    ("epochs", "first", "second"),
    [((16, 4), (8, 2), (8, 2)), ((1, 1), (1, 0), (1, 0)), ((2, 1), (1, 0), (1, 1)), ((5, 0), (2, 0), (3, 0))],
)
def test_halves_of_a_budget(epochs, first, second):
    assert halves(epochs, "pseudo") == (first, second)
    assert sum(first) + sum(second) == sum(epochs)


def test_half_of_one_epoch():
    with pytest.raises(DataError, match="one epoch is too few"):
        halves((1, 0), "pseudo")
