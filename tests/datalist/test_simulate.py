"""Tests of hiding classes: who shows what, and that nothing else is told."""

from __future__ import annotations

import copy
import logging
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from dcl_monai.candidates import from_bits
from dcl_monai.datalist import datalist_hash, load_datalist, simulate_datalist, simulate_partial, write_datalist
from dcl_monai.datalist.items import annotation_table, annotations_of, decided_classes
from dcl_monai.datalist.simulate import as_single_labels, show_only
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError

CLASSES = ["background", "RV", "MYO", "LV"]
DRAWN = [[1], [2], [3]]


def make_items(count: int, first: int = 0) -> list[dict[str, Any]]:
    """End-diastole and end-systole of each subject, labelled in full, as :func:`load_datalist` gives them."""
    items = []
    for number, phase in product(range(first, first + count), ("ED", "ES")):
        subject = f"patient{number:03d}"
        case = f"{subject}/{phase}"
        item = {"image": f"/data/{case}.nii.gz", "label": f"/data/{case}_gt.nii.gz", "subject": subject, "case": case}
        item |= {"dataset": "ACDC", "phase": phase, "values": {0: [0], 1: [1], 2: [2], 3: [3]}}
        items.append(item | {"unlabelled": [], "annotated": DRAWN})
    return items


def make_datalist(training: int = 12, validation: int = 4, test: int = 4) -> dict[str, Any]:
    splits = {
        "training": make_items(training),
        "validation": make_items(validation, 100),
        "test": make_items(test, 200),
    }
    return {"classes": CLASSES, "unions": {}, **splits}


def subjects(items) -> set[str]:
    return {item["subject"] for item in items}


class TestSimulatePartial:
    @pytest.mark.parametrize("count", [4, 7, 20, 61])
    @pytest.mark.parametrize("per_subject", [1, 2, 3, 4])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_balanced(self, count, per_subject, seed):
        """Every class is shown equally often, or once more."""
        partial = simulate_partial(make_items(count), 4, per_subject, seed)
        shown = {item["subject"]: item["annotated"] for item in partial}
        counts = Counter(j for annotated in shown.values() for j in annotated)
        assert set(counts) == {0, 1, 2, 3}
        assert max(counts.values()) - min(counts.values()) <= 1
        for annotated in shown.values():
            assert len(set(annotated)) == per_subject
            assert annotated == sorted(annotated)

    def test_both_phases_show_the_same(self):
        partial = simulate_partial(make_items(30), 4)
        for ed, es in zip(partial[::2], partial[1::2], strict=True):
            assert ed["subject"] == es["subject"]
            assert ed["annotated"] == es["annotated"]
        assert len({tuple(item["annotated"]) for item in partial}) == 4

    def test_seed(self):
        items = make_items(30)
        assert simulate_partial(items, 4, seed=1) == simulate_partial(items, 4, seed=1)
        assert simulate_partial(items, 4, seed=1) != simulate_partial(items, 4, seed=2)

    def test_order_of_the_items_does_not_matter(self):
        items = make_items(30)
        assert simulate_partial(items[::-1], 4)[::-1] == simulate_partial(items, 4)

    def test_not_a_fixed_pattern(self):
        """Neighbours in the list do not simply take turns."""
        order = [item["annotated"][0] for item in simulate_partial(make_items(40)[::2], 4)]
        assert any(order[k] != order[k + 4] for k in range(36))

    def test_items_are_left_alone(self):
        items = make_items(4)
        before = copy.deepcopy(items)
        partial = simulate_partial(items, 4)
        assert items == before
        assert all(item.pop("drawn") == DRAWN for item in partial)
        assert [item | {"annotated": DRAWN} for item in partial] == before

    def test_numbered_subjects(self):
        items = [{"subject": i, "label": "gt.nii"} for i in range(8)]
        assert Counter(item["annotated"][0] for item in simulate_partial(items, 4)) == {0: 2, 1: 2, 2: 2, 3: 2}

    @pytest.mark.parametrize("hide", [simulate_partial, as_single_labels])
    @pytest.mark.parametrize("number", [0, 5, -1])
    def test_impossible_number(self, hide, number):
        with pytest.raises(DataError, match=f"^{number} annotated classes .* 4 classes: choose 1 to 4"):
            hide(make_items(4), 4, number)


@pytest.mark.parametrize(
    ("num_classes", "per_item", "groups"),
    [(4, 1, [[0], [1], [2], [3]]), (8, 2, [[0, 1], [2, 3], [4, 5], [6, 7]]), (5, 2, [[0, 1], [2, 3], [4]])],
)
def test_single_labels(num_classes, per_item, groups):
    items = [{"image": f"{k}.nii", "label": f"{k}_gt.nii", "subject": str(k)} for k in range(2)]
    single = as_single_labels(items, num_classes, per_item)
    assert [item["annotated"] for item in single] == groups * len(items)
    assert Counter(item["image"] for item in single) == {item["image"]: len(groups) for item in items}


class TestShowOnly:
    def table(self, annotation) -> dict[int, tuple[int, ...]]:
        return {value: from_bits(bits) for value, bits in annotation_table(annotation, 4).items()}

    @pytest.mark.parametrize(
        ("shown", "table"),
        [
            ([2], {0: (0, 1, 3), 1: (0, 1, 3), 2: (2,), 3: (0, 1, 3)}),
            ([0], {0: (0,), 1: (1, 2, 3), 2: (1, 2, 3), 3: (1, 2, 3)}),
            ([1, 3], {0: (0, 2), 1: (1,), 2: (0, 2), 3: (3,)}),
            ([0, 1, 2, 3], {0: (0,), 1: (1,), 2: (2,), 3: (3,)}),
        ],
    )
    def test_tells_of_the_shown_classes_alone(self, shown, table):
        assert self.table(show_only(make_items(1)[0], shown, 4)) == table

    def test_several_annotations(self):
        """A file that leaves the myocardium out says nothing of it, though its zeros are called background."""
        item = make_items(1)[0] | {"values": {0: [0], 1: [1]}, "annotated": [[1]]}
        other = {"label": "b.nii", "values": {0: [0], 1: [2], 2: [3]}, "unlabelled": [], "annotated": [[2], [3]]}
        item["further_labels"] = [other, {**other, "label": "c.nii", "values": {0: [0], 7: [0, 1], 8: [2, 3]}}]
        item["further_labels"][1]["annotated"] = [[0]]
        shown = show_only(item, [2], 4)
        rv, rest, _ = annotations_of(shown)
        assert self.table(rv) == {0: (0, 1, 2, 3), 1: (0, 1, 2, 3)}
        assert self.table(rest) == {0: (0, 1, 3), 1: (2,), 2: (0, 1, 3)}
        assert decided_classes(shown, 4) == (2,)
        assert [annotation["drawn"] for annotation in annotations_of(shown)] == [[[1]], [[2], [3]], [[0]]]
        assert item["further_labels"][0] == other


class TestSimulateDatalist:
    def test_training_alone_is_partial(self):
        full = make_datalist()
        partial = simulate_datalist(full)
        assert all(len(item["annotated"]) == 1 for item in partial["training"])
        assert all(partial[name] == full[name] for name in ("classes", "validation", "test"))
        assert full == make_datalist()

    def test_partial_validation(self):
        partial = simulate_datalist(make_datalist(), partial_validation=True)
        assert {len(item["annotated"]) for item in partial["training"] + partial["validation"]} == {1}
        assert {item["annotated"][0] for item in partial["validation"]} == {0, 1, 2, 3}
        assert partial["test"] == make_datalist()["test"]

    def test_full(self):
        assert simulate_datalist(make_datalist(), annotation="full") == make_datalist()

    @pytest.mark.parametrize(("per_subject", "times"), [(1, 4), (2, 2)])
    def test_single(self, per_subject, times):
        datalist = simulate_datalist(make_datalist(), annotation="single", per_subject=per_subject)
        assert len(datalist["training"]) == 24 * times
        assert len(datalist["validation"]) == 8

    @pytest.mark.parametrize("annotation", ["partial", "full"])
    def test_divided_anew(self, annotation):
        datalist = simulate_datalist(make_datalist(), split=(2, 1, 1), annotation=annotation)
        groups = [subjects(datalist[name]) for name in SPLITS]
        assert [len(group) for group in groups] == [10, 5, 5]
        assert len(set.union(*groups)) == 20
        assert groups[0] == subjects(simulate_datalist(make_datalist(), split=(2, 1, 1))["training"])
        assert groups[0] != subjects(simulate_datalist(make_datalist(), split=(2, 1, 1), seed=1)["training"])
        assert all(item["annotated"] == DRAWN for name in ("validation", "test") for item in datalist[name])

    def test_every_data_set_is_divided(self):
        full = make_datalist(20, 0, 0)
        for item in full["training"][:20]:
            item["dataset"] = "north"
        datalist = simulate_datalist(full, split=(60, 20, 20))
        for dataset in ("north", "ACDC"):
            counts = [len(subjects(i for i in datalist[name] if i["dataset"] == dataset)) for name in SPLITS]
            assert counts == [6, 2, 2]

    def test_unlabelled_images_are_left_out_of_a_new_division(self, caplog):
        full = make_datalist(20, 0, 0)
        full["training"][0] = {"image": "/data/x.nii", "subject": "x", "dataset": "ACDC", "case": "x"}
        with caplog.at_level(logging.WARNING):
            datalist = simulate_datalist(full, split=(60, 20, 20))
        assert sum(len(datalist[name]) for name in SPLITS) == 39
        assert "1 image(s) without a label are left out" in caplog.text

    @pytest.mark.parametrize(
        ("change", "lacking"),
        [
            ({"annotated": [[1]]}, "background, MYO, LV"),
            ({"annotated": [[2, 3], [1]]}, "MYO, LV"),
            ({"unlabelled": [9]}, "background, RV, MYO, LV"),
            ({"label": None}, "background, RV, MYO, LV"),
            ({"drawn": DRAWN}, "classes that were hidden before"),
        ],
    )
    @pytest.mark.parametrize("split", ["training", "validation"])
    def test_not_labelled_in_full(self, split, change, lacking):
        full = make_datalist()
        full[split][3] |= change
        with pytest.raises(DataError, match=rf"^{full[split][3]['image']}: .* lacks {lacking}\. Take"):
            simulate_datalist(full, partial_validation=True)
        if split == "validation":
            assert simulate_datalist(full)["validation"] == full["validation"]

    def test_too_few_subjects_to_show_every_class(self):
        with pytest.raises(DataError, match=r"^none of the 3 training .*, with 1 of 4 classes each, shows \w+\. Add"):
            simulate_datalist(make_datalist(3))
        assert simulate_datalist(make_datalist(3), per_subject=2)["training"]

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ({"annotation": "half"}, r"'half' is unknown; choose 'partial', 'full', 'single', 'few' or 'given'"),
            ({"seed": -1}, r"^seed -1: "),
            ({"per_subject": 5}, r"^5 annotated classes"),
            ({"split": (1, 1)}, r"is invalid"),
        ],
    )
    def test_impossible_setting(self, setting, message):
        with pytest.raises(DataError, match=message):
            simulate_datalist(make_datalist(), **setting)

    def test_document(self, write_nifti, tmp_path):
        """The description of a data set can be given instead of the datalist, as the bundles do."""
        for k in range(20):
            for name in (f"{k:02d}.nii", f"{k:02d}_gt.nii"):
                write_nifti(name, np.zeros((2, 2, 2), np.uint8))
        listed = [{"image": f"{k:02d}.nii", "label": f"{k:02d}_gt.nii", "subject": f"{k:02d}"} for k in range(20)]
        dataset = {"folder": str(tmp_path), "values": dict(enumerate(CLASSES)), "training": listed}
        datalist = simulate_datalist({"classes": CLASSES, "datasets": {"x": dataset}}, split=(60, 20, 20))
        assert [len(datalist[name]) for name in SPLITS] == [12, 4, 4]

    @pytest.mark.parametrize("annotation", ["partial", "single"])
    def test_file(self, tmp_path, annotation):
        partial = simulate_datalist(make_datalist(), annotation=annotation)
        digest = write_datalist(partial, tmp_path / "partial.json")
        loaded = load_datalist(tmp_path / "partial.json")
        assert digest == datalist_hash(partial) == datalist_hash(loaded)
        for key in ("subject", "case", "values", "annotated", "drawn"):
            assert [item[key] for item in loaded["training"]] == [item[key] for item in partial["training"]]

    def test_hash_tells_what_is_shown(self):
        digests = [datalist_hash(simulate_datalist(make_datalist(), seed=seed)) for seed in (5, 5, 6)]
        digests += [datalist_hash(make_datalist()), datalist_hash(simulate_datalist(make_datalist(), per_subject=2))]
        assert digests[0] == digests[1]
        assert len(set(digests)) == 4


class TestStudies:
    def test_split_and_hiding_have_seeds_of_their_own(self):
        full = make_datalist(24)
        one, two = (simulate_datalist(full, [60, 20, 20], seed=seed, split_seed=5) for seed in (0, 1))
        for split in SPLITS:
            assert subjects(one[split]) == subjects(two[split])
        assert [i["annotated"] for i in one["training"]] != [i["annotated"] for i in two["training"]]
        alone = simulate_datalist(full, [60, 20, 20], seed=5)
        assert subjects(alone["test"]) == subjects(one["test"]), "the split seed is the seed, if there is no other"

    def test_folds_test_other_subjects(self):
        first, second = (simulate_datalist(make_datalist(24), [60, 20, 20], split_seed=5, fold=fold) for fold in (0, 1))
        assert not subjects(first["test"]) & subjects(second["test"])
        with pytest.raises(DataError, match="fold -1"):
            simulate_datalist(make_datalist(24), [60, 20, 20], fold=-1)

    @pytest.mark.parametrize(("training", "per_subject", "kept"), [(60, 1, 15), (25, 1, 7), (20, 2, 10), (3, 1, 1)])
    def test_few(self, training, per_subject, kept):
        """As many labels as the partial annotation shows, rounded up to whole subjects, labelled in full."""
        few = simulate_datalist(make_datalist(training), annotation="few", per_subject=per_subject)["training"]
        assert len(subjects(few)) == kept
        assert all(decided_classes(item, 4) == (0, 1, 2, 3) for item in few)
        other = simulate_datalist(make_datalist(training), annotation="few", per_subject=per_subject, seed=3)
        assert training < 5 or subjects(few) != subjects(other["training"])

    def test_few_by_fraction(self):
        few = simulate_datalist(make_datalist(30), annotation="few", full_fraction=1 / 6)["training"]
        assert len(subjects(few)) == 5

    def test_full_fraction(self):
        shares = {}
        for fraction in (0.0, 0.2, 0.6, 1.0):
            training = simulate_datalist(make_datalist(15), full_fraction=fraction)["training"]
            shown: dict[str, set[int]] = {}
            for item in training:
                assert len(item["annotated"]) == 1, "full labels are used as several partial images"
                shown.setdefault(item["subject"], set()).update(item["annotated"])
            shares[fraction] = {subject for subject, classes in shown.items() if len(classes) == 4}
            assert len(shown) == 15
            assert len(shares[fraction]) == round(fraction * 15)
        assert shares[0.2] < shares[0.6] < shares[1.0]

    def test_full_fraction_of_none_changes_nothing(self):
        assert simulate_datalist(make_datalist(), full_fraction=0.0) == simulate_datalist(make_datalist())

    @pytest.mark.parametrize("fraction", [-0.1, 1.5])
    def test_impossible_fraction(self, fraction):
        with pytest.raises(DataError, match="full_fraction"):
            simulate_datalist(make_datalist(), full_fraction=fraction)
