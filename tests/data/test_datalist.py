"""Tests of datalists: who is in which split, and which classes are annotated in whom."""

from __future__ import annotations

import copy
import json
import logging
from collections import Counter
from itertools import chain

import pytest

from dcl_monai.data import datalist_hash, partial_datalist, simulate_partial, split_subjects
from dcl_monai.data.datalist import SPLITS, as_single_labels
from dcl_monai.utils import DataError

CLASSES = ("background", "RV", "MYO", "LV")


def make_items(count: int, root: str = "/data", phases: tuple[str, ...] = ("ED", "ES")) -> list[dict[str, str]]:
    return [
        {
            "image": f"{root}/patient{i:03d}/{phase}.nii.gz",
            "label": f"{root}/patient{i:03d}/{phase}_gt.nii.gz",
            "subject": f"patient{i:03d}",
            "phase": phase,
        }
        for i in range(count)
        for phase in phases
    ]


def subjects(items) -> set[str]:
    return {item["subject"] for item in items}


class TestSplitSubjects:
    @pytest.mark.parametrize(
        ("count", "parts", "sizes"),
        [
            (100, (60, 20, 20), (60, 20, 20)),
            (150, (60, 20, 20), (90, 30, 30)),
            (5, (60, 20, 20), (3, 1, 1)),
            (10, (0.6, 0.2, 0.2), (6, 2, 2)),
            (45, (25, 5, 15), (25, 5, 15)),
        ],
    )
    def test_proportions(self, count, parts, sizes):
        splits = split_subjects(make_items(count), parts)
        assert tuple(splits) == SPLITS
        assert tuple(len(subjects(splits[name])) for name in SPLITS) == sizes

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_disjoint_and_complete(self, seed):
        items = make_items(23)
        splits = split_subjects(items, (60, 20, 20), seed)
        every = [subjects(splits[name]) for name in SPLITS]
        assert sum(map(len, every)) == len(set.union(*every)) == 23
        assert sorted(chain(*splits.values()), key=lambda item: item["image"]) == items

    def test_deterministic(self):
        items = make_items(20)
        assert split_subjects(items, (60, 20, 20), 3) == split_subjects(items, (60, 20, 20), 3)
        assert split_subjects(items, (60, 20, 20), 3) != split_subjects(items, (60, 20, 20), 4)

    def test_order_of_the_items_does_not_matter(self):
        items = make_items(20)
        one, other = split_subjects(items, (60, 20, 20)), split_subjects(items[::-1], (60, 20, 20))
        assert all(subjects(one[name]) == subjects(other[name]) for name in SPLITS)

    @pytest.mark.parametrize(("count", "missing"), [(2, "validation|test"), (0, "training")])
    def test_too_few_subjects(self, count, missing):
        with pytest.raises(DataError, match=rf"{count} subject\(s\) leave none for ({missing}).*\[60, 20, 20\].*add"):
            split_subjects(make_items(count), (60, 20, 20))


class TestSimulatePartial:
    @pytest.mark.parametrize("count", [4, 7, 20, 61])
    @pytest.mark.parametrize("per_subject", [1, 2, 3, 4])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_balanced(self, count, per_subject, seed):
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

    def test_not_a_fixed_pattern(self):
        """Neighbours in the list do not simply take turns."""
        order = [item["annotated"][0] for item in simulate_partial(make_items(40, phases=("ED",)), 4)]
        assert any(order[k] != order[k + 4] for k in range(36))

    def test_items_are_left_alone(self):
        items = make_items(4)
        before = copy.deepcopy(items)
        partial = simulate_partial(items, 4)
        assert items == before
        assert [{k: v for k, v in item.items() if k != "annotated"} for item in partial] == before

    def test_numbered_subjects(self):
        items = [{"subject": i} for i in range(8)]
        assert Counter(item["annotated"][0] for item in simulate_partial(items, 4)) == {0: 2, 1: 2, 2: 2, 3: 2}

    @pytest.mark.parametrize("per_subject", [0, 5, -1])
    def test_impossible_number(self, per_subject):
        with pytest.raises(DataError, match=f"{per_subject} annotated classes .* 4 classes"):
            simulate_partial(make_items(4), 4, per_subject)

    def test_written_as_json(self):
        partial = simulate_partial(make_items(4), 4)
        assert json.loads(json.dumps(partial)) == partial


@pytest.mark.parametrize(
    ("num_classes", "per_item", "groups"),
    [
        (4, 1, [[0], [1], [2], [3]]),
        (8, 2, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (5, 2, [[0, 1], [2, 3], [4]]),
    ],
)
def test_single_labels(num_classes, per_item, groups):
    items = make_items(2)
    single = as_single_labels(items, num_classes, per_item)
    assert [item["annotated"] for item in single] == groups * len(items)
    assert Counter(item["image"] for item in single) == {item["image"]: len(groups) for item in items}


class TestHash:
    def datalist(self, root="/data", seed=0):
        return partial_datalist(make_items(20, root), CLASSES, seed=seed)

    def test_is_sha256(self):
        digest = datalist_hash(self.datalist(), "/data")
        assert len(digest) == 64
        int(digest, 16)

    def test_path_of_the_machine_does_not_matter(self):
        here, there = self.datalist("/data"), self.datalist("/home/me/acdc")
        assert datalist_hash(here, "/data") == datalist_hash(there, "/home/me/acdc")
        assert datalist_hash(here) != datalist_hash(there)

    def test_order_of_the_keys_does_not_matter(self):
        datalist = self.datalist()
        turned = {name: datalist[name] for name in reversed(list(datalist))}
        turned["training"] = [dict(reversed(list(item.items()))) for item in datalist["training"]]
        assert datalist_hash(turned, "/data") == datalist_hash(datalist, "/data")

    @pytest.mark.parametrize("change", ["annotation", "split", "classes", "file", "annotation of validation"])
    def test_every_change_shows(self, change):
        datalist = self.datalist()
        before = datalist_hash(datalist, "/data")
        if change == "annotation":
            datalist["training"][3]["annotated"] = [(datalist["training"][3]["annotated"][0] + 1) % 4]
        elif change == "split":
            datalist["test"].append(datalist["validation"].pop())
        elif change == "classes":
            datalist["classes"] = ["background", "MYO", "RV", "LV"]
        elif change == "file":
            datalist["test"][0]["label"] = "/data/other.nii.gz"
        else:
            datalist["validation"][0]["annotated"] = [1]
        assert datalist_hash(datalist, "/data") != before


class TestPartialDatalist:
    def test_training_alone_is_partial(self):
        datalist = partial_datalist(make_items(20), CLASSES)
        assert datalist["classes"] == list(CLASSES)
        assert [len(subjects(datalist[name])) for name in SPLITS] == [12, 4, 4]
        assert all(len(item["annotated"]) == 1 for item in datalist["training"])
        assert not any("annotated" in item for name in ("validation", "test") for item in datalist[name])

    def test_full(self):
        datalist = partial_datalist(make_items(20), CLASSES, annotation="full")
        assert not any("annotated" in item for name in SPLITS for item in datalist[name])
        assert subjects(datalist["training"]) == subjects(partial_datalist(make_items(20), CLASSES)["training"])

    @pytest.mark.parametrize(("per_subject", "times"), [(1, 4), (2, 2)])
    def test_single(self, per_subject, times):
        datalist = partial_datalist(make_items(20), CLASSES, annotation="single", per_subject=per_subject)
        assert len(datalist["training"]) == 24 * times
        assert len(datalist["validation"]) == 8

    def test_unknown_annotation(self):
        with pytest.raises(DataError, match=r"'half' is unknown.*'partial', 'full' or 'single'"):
            partial_datalist(make_items(20), CLASSES, annotation="half")

    @pytest.mark.parametrize("annotation", ["partial", "full", "single"])
    def test_file_is_what_was_returned(self, tmp_path, annotation, caplog):
        output = tmp_path / "new" / "datalist.json"
        with caplog.at_level(logging.INFO):
            datalist = partial_datalist(make_items(20), CLASSES, annotation=annotation, root="/data", output=output)
        written = json.loads(output.read_text())
        digest = written.pop("hash")
        assert written == datalist
        assert digest == datalist_hash(datalist, "/data")
        assert digest[:12] in caplog.text
        assert "12 training, 4 validation, 4 test subjects" in caplog.text

    def test_seed(self):
        make = [partial_datalist(make_items(20), CLASSES, seed=seed) for seed in (5, 5, 6)]
        assert make[0] == make[1] != make[2]


def test_partial_validation():
    items = [{"image": f"{s}.nii", "label": f"{s}_gt.nii", "subject": f"s{s:02d}"} for s in range(20)]
    hidden = partial_datalist(items, ["background", "a", "b"], partial_validation=True)
    assert {len(item["annotated"]) for item in hidden["training"] + hidden["validation"]} == {1}
    assert {item["annotated"][0] for item in hidden["validation"]} == {0, 1, 2}
    assert all("annotated" not in item for item in hidden["test"])
    assert all("annotated" not in item for item in partial_datalist(items, ["background", "a", "b"])["validation"])
