"""Tests of finding the images of a data set."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from helpers import refusal

from dcl_monai.datalist import load_datalist
from dcl_monai.datalist.schema import DatasetEntry
from dcl_monai.datalist.sources import Pattern, list_items, merge_annotations
from dcl_monai.utils import DataError

WHERE = "my.yaml: data set 'north'"


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def items_of(root: Path, **entry):
    return list_items("north", DatasetEntry.model_validate(entry), root, WHERE)[0]


def fails(root: Path, **entry) -> str:
    message = refusal(items_of, root, **entry)
    assert WHERE in message
    return message


class TestPatterns:
    def test_images_and_labels(self, tmp_path):
        touch(
            tmp_path, *(f"p{i}/p{i}_frame{f}{end}.nii.gz" for i in (2, 1) for f in ("01", "12") for end in ("", "_gt"))
        )
        touch(tmp_path, "p1/p2_frame01.nii.gz", "p1/p1_4d.nii.gz", "readme.txt")
        stem = "{subject}/{subject}_frame{frame}"
        items = items_of(tmp_path, images=stem + ".nii.gz", labels=stem + "_gt.nii.gz")
        assert items[0] == {
            "image": str(tmp_path / "p1/p1_frame01.nii.gz"),
            "label": str(tmp_path / "p1/p1_frame01_gt.nii.gz"),
            "subject": "p1",
            "frame": "01",
            "case": "p1/p1_frame01",
            "dataset": "north",
            "split": None,
        }
        assert [item["case"] for item in items] == ["p1/p1_frame01", "p1/p1_frame12", "p2/p2_frame01", "p2/p2_frame12"]

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("*.nii", ["a.nii", "b[1].nii"]),
            ("{subject}.nii", ["a.nii", "b[1].nii"]),
            ("?.nii", ["a.nii"]),
            ("b[1].nii", ["b[1].nii"]),
            ("./x//{subject}.nii", ["x/c.nii"]),
            ("**/{subject}.nii", ["a.nii", "b[1].nii", "x/c.nii", "x/y/d.nii"]),
            ("x/**/{subject}.nii", ["x/c.nii", "x/y/d.nii"]),
            ("x/{subject}/", ["x/c.nii", "x/y"]),
            ("../{subject}/a.nii", ["a.nii"]),
        ],
    )
    def test_wildcards(self, tmp_path, pattern, expected):
        """Hidden files, as macOS leaves them in archives, are no images."""
        root = tmp_path / "root"
        touch(root, "a.nii", "._a.nii", "b[1].nii", "x/c.nii", "x/y/d.nii")
        assert [os.path.relpath(item["image"], root) for item in items_of(root, images=pattern)] == expected

    @pytest.mark.parametrize(
        "pattern", ["{", "}", "{}", "{a", "a}", "{{a}}", "{a b}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:3}", "/x/{a}"]
    )
    def test_odd_braces(self, tmp_path, pattern):
        message = fails(tmp_path, images=pattern)
        assert f"`images`: {pattern!r} is not a pattern" in message
        assert "imagesTr/{subject}.nii.gz" in message

    def test_a_field_must_say_whose_image_it_is(self, tmp_path):
        touch(tmp_path, "p1/ED.nii", "p1/ES.nii")
        message = fails(tmp_path, images="{patient}/{phase}.nii")
        assert "no field {subject} says whose image it is" in message
        assert "{subject}/{phase}.nii" in message

    def test_no_match_shows_what_is_there(self, tmp_path):
        touch(tmp_path, "p1.nrrd")
        message = fails(tmp_path, images="{subject}.nii")
        assert "'{subject}.nii'" in message
        assert "the folder holds p1.nrrd" in message

    def test_image_as_its_own_label(self, tmp_path):
        touch(tmp_path, "a.nii")
        assert "as its own label" in fails(tmp_path, training=[{"image": "a.nii", "label": "a.nii"}], values={0: "x"})

    def test_label_without_an_image(self, tmp_path, caplog):
        touch(tmp_path, "a/im.nii", "a/label.nii", "b/label.nii")
        pair = {"images": "{subject}/im.nii", "labels": "{subject}/label.nii", "values": {0: "x"}}
        assert len(items_of(tmp_path, **pair)) == 1
        assert "1 file(s) fit `labels` but belong to no image; the first is b/label.nii" in caplog.text

    @pytest.mark.parametrize("field", ["image", "label", "values", "split", "further_labels", "Subject", "subjekt"])
    def test_reserved_field(self, tmp_path, field):
        assert f"{{{field}}} cannot be a field" in fails(tmp_path, images=f"{{{field}}}.nii")

    @pytest.mark.parametrize(
        "pattern", [".", "..", "*", "a" * 300, "~/{subject}", "~nobody/{subject}", "**", "a**b/{subject}", "[", "\\"]
    )
    def test_patterns_that_find_nothing_or_something(self, tmp_path, pattern):
        try:
            assert items_of(tmp_path, images=pattern)
        except DataError as error:
            message = str(error)
        else:
            return
        assert "no image in" in message

    def test_missing_label(self, tmp_path):
        touch(tmp_path, "a.nii", "b.nii", "labels/a.nii")
        entry = {"images": "{subject}.nii", "labels": "labels/{subject}.nii"}
        message = fails(tmp_path, **entry)
        for part in (str(tmp_path / "labels/b.nii"), str(tmp_path / "b.nii"), "allow_missing_labels"):
            assert part in message
        items = items_of(tmp_path, **entry, allow_missing_labels=True)
        assert ["label" in item for item in items] == [True, False]

    @pytest.mark.parametrize("allow", [True, False])
    def test_label_without_image_is_no_image(self, tmp_path, allow):
        touch(tmp_path, "a.nii", "a_gt.nii", "b_gt.nii")
        message = fails(tmp_path, images="{subject}.nii", labels="{subject}_gt.nii", allow_missing_labels=allow)
        assert message.startswith(f"{tmp_path / 'b_gt.nii'}: looks like a label")

    @pytest.mark.parametrize("labels", ["{other}.nii", "{subject}_*.nii", "?.nii"])
    def test_labels_have_no_text_of_their_own(self, tmp_path, labels):
        touch(tmp_path, "a.nii")
        assert "`labels`" in fails(tmp_path, images="{subject}.nii", labels=labels)

    @pytest.mark.parametrize("name", [b"two\nlines.nii", b"Z\xfcrich.nii"])
    def test_odd_file_name(self, tmp_path, name):
        Path(os.fsdecode(os.fsencode(tmp_path / "x")[:-1] + name)).touch()
        assert "has an odd file name. Rename it" in fails(tmp_path, images="*.nii")

    def test_nothing_found(self, tmp_path):
        assert f"no image in {tmp_path} fits" in fails(tmp_path, images="{subject}.nii")

    @pytest.mark.parametrize("folder", ["nowhere", "file", "a" * 300, "~nobody/x", "/nowhere"])
    def test_no_folder(self, tmp_path, folder):
        touch(tmp_path, "file")
        assert "`folder`" in fails(tmp_path, folder=folder, images="*")

    def test_filled(self):
        pattern = Pattern("{a}/{b}_{a}.nii", "here")
        assert pattern.fill({"a": "x", "b": "y"}) == "x/y_x.nii"
        assert pattern.expression.fullmatch("x/y_z.nii") is None

    @pytest.mark.parametrize(("split", "expected"), [("test", "test"), ([1, 1, 1], None), (None, None)])
    def test_split(self, tmp_path, split, expected):
        touch(tmp_path, "a.nii")
        assert items_of(tmp_path, images="*.nii", split=split)[0]["split"] == expected


class TestLists:
    def test_only_training_is_divided_later(self, tmp_path):
        """The Decathlon's test images have no labels: they are left out."""
        touch(tmp_path, "a.nii", "b.nii", "t.nii")
        items = items_of(tmp_path, training=[{"image": "./a.nii", "label": "b.nii", "age": 7}], test=["t.nii"])
        (item,) = items
        assert item == {
            "image": str(tmp_path / "a.nii"),
            "label": str(tmp_path / "b.nii"),
            "age": 7,
            "subject": "a",
            "case": "a",
            "dataset": "north",
            "split": None,
        }

    def test_lists_are_splits(self, tmp_path):
        touch(tmp_path, "a.nii", "b.nii", "c.nii")
        lists = {"training": ["a.nii"], "validation": ["b.nii"], "test": ["c.nii"]}
        assert [item["split"] for item in items_of(tmp_path, **lists)] == ["training", "validation", "test"]
        assert {item["split"] for item in items_of(tmp_path, **lists, split="test")} == {"test"}
        assert "`split`" in fails(tmp_path, **lists, split=[60, 20, 20])

    @pytest.mark.parametrize("key", ["image", "label"])
    def test_missing_file(self, tmp_path, key):
        touch(tmp_path, "image.nii", "label.nii")
        item = {"image": "image.nii", "label": "label.nii"} | {key: "lost.nii"}
        message = fails(tmp_path, training=[item])
        assert message.startswith(f"{tmp_path / 'lost.nii'}: no such file")
        assert f"lists it as {key}" in message

    def test_names_do_not_depend_on_where_the_data_lies(self, tmp_path):
        found = []
        for place in ("x", "y/z"):
            touch(tmp_path / place, "s1/a.nii.gz", "s2/a.nrrd")
            absolute = [str(tmp_path / place / name) for name in ("s1/a.nii.gz", "s2/a.nrrd")]
            (tmp_path / "lists").mkdir(exist_ok=True)
            found.append([item["case"] for item in items_of(tmp_path / "lists", training=absolute)])
        assert found[0] == found[1] == ["s1/a", "s2/a"]

    @pytest.mark.parametrize("ending", [".nii.gz", ".NII", ".nrrd", ".mha", "", ".v2"])
    def test_case_is_the_name_without_extension(self, tmp_path, ending):
        touch(tmp_path, f"scans/a{ending}")
        expected = "scans/a.v2" if ending == ".v2" else "scans/a"
        assert items_of(tmp_path, training=[f"scans/a{ending}"])[0]["case"] == expected


class TestDecathlon:
    LIST = {"name": "Hippocampus", "description": "Left and right", "reference": "", "licence": "CC", "release": "1.0"}
    LIST |= {"tensorImageSize": "3D", "modality": {"0": "MRI"}, "numTraining": 1, "numTest": 0, "test": []}
    LIST |= {"labels": {"0": "background", "1": "Anterior", "10": "Posterior"}}
    LIST |= {"training": [{"image": "./a.nii", "label": "./b.nii"}]}

    def listed(self, tmp_path, change=None, **entry):
        touch(tmp_path, "data/a.nii", "data/b.nii")
        (tmp_path / "data/dataset.json").write_text(json.dumps(self.LIST | (change or {})))
        return list_items("north", DatasetEntry(list="data/dataset.json", **entry), tmp_path, WHERE)

    def test_as_it_is(self, tmp_path):
        items, entry = self.listed(tmp_path)
        assert items[0]["image"] == str(tmp_path / "data/a.nii")
        assert entry.values == {0: ["background"], 1: ["Anterior"], 10: ["Posterior"]}

    def test_what_the_user_says_comes_first(self, tmp_path):
        change = {"annotated": ["Posterior"]}
        _, entry = self.listed(tmp_path, change, values={0: "background", 1: "RV"}, annotated=["RV"], split="test")
        assert (entry.values, entry.annotated, entry.split) == ({0: ["background"], 1: ["RV"]}, {"*": ["RV"]}, "test")
        assert self.listed(tmp_path, change)[1].annotated == {"*": ["Posterior"]}

    @pytest.mark.parametrize(
        ("change", "part"),
        [
            ({"labels": {"background": 0, "Anterior": 1}}, "convert nnunet"),
            ({"labels": {"1": "a", "01": "b"}}, "given twice"),
            ({"labels": {"0": 5}}, "`values[0][0]`: must be a text, got 5"),
            ({"anotated": ["Anterior"]}, "'anotated' is unknown; do you mean 'annotated'?"),
            ({"annotation": ["Anterior"]}, "'annotation' is unknown; do you mean 'annotated'?"),
            ({"Training": []}, "do you mean 'training'?"),
            ({"training": [{"image": "./a.nii", "anotated": [1]}]}, "'anotated' is unknown"),
            ({"training": {}}, "give either"),
            ({"training": 5}, "`training`: must be a list"),
        ],
    )
    def test_mistakes(self, tmp_path, change, part):
        message = refusal(self.listed, tmp_path, change)
        assert message.startswith(str(tmp_path / "data/dataset.json"))
        assert part in message

    def test_missing_list(self, tmp_path):
        with pytest.raises(DataError, match=r"lost\.json: cannot be read"):
            list_items("north", DatasetEntry(list="lost.json"), tmp_path, WHERE)


class TestMerge:
    def item(self, tmp_path, image="a.nii", label: str | None = "r1.nii", **other):
        touch(tmp_path, "a.nii", "r1.nii", "r2.nii")
        item = {"image": str(tmp_path / image), "subject": "s", "dataset": "north", "split": None}
        if label:
            item |= {"label": str(tmp_path / label), "values": {0: [0], 1: [1]}, "annotated": [1]}
        return item | other

    def test_two_labels(self, tmp_path):
        (merged,) = merge_annotations([self.item(tmp_path), self.item(tmp_path, label="r2.nii", unlabelled=[9])])
        assert merged["label"].endswith("r1.nii")
        further = {"label": str(tmp_path / "r2.nii"), "values": {0: [0], 1: [1]}, "annotated": [1], "unlabelled": [9]}
        assert merged["further_labels"] == [further]

    @pytest.mark.parametrize("order", [1, -1])
    def test_without_label_in_one_of_them(self, tmp_path, order):
        items = [self.item(tmp_path, label=None, dataset="south"), self.item(tmp_path)]
        (merged,) = merge_annotations(items[::order])
        assert merged["label"].endswith("r1.nii")
        assert "further_labels" not in merged

    def test_link_to_the_same_image(self, tmp_path):
        touch(tmp_path, "a.nii")
        (tmp_path / "link.nii").symlink_to(tmp_path / "a.nii")
        assert len(merge_annotations([self.item(tmp_path), self.item(tmp_path, "link.nii", "r2.nii")])) == 1

    @pytest.mark.parametrize("label", ["r1.nii", None])
    @pytest.mark.parametrize("dataset", ["north", "south"])
    def test_duplicate(self, tmp_path, label, dataset):
        items = [self.item(tmp_path, label=label), self.item(tmp_path, label=label, dataset=dataset)]
        with pytest.raises(DataError, match=rf"a\.nii: is listed twice.*'north' and '{dataset}'.*Take one entry out"):
            merge_annotations(items)

    def test_same_label_that_says_more(self, tmp_path):
        """The same file, of which two data sets say different things, is no duplicate."""
        (merged,) = merge_annotations([self.item(tmp_path), self.item(tmp_path, annotated=[0], dataset="south")])
        assert [other["annotated"] for other in merged["further_labels"]] == [[0]]

    @pytest.mark.parametrize(("first", "second"), [("training", "test"), (None, "validation")])
    def test_two_splits(self, tmp_path, first, second):
        items = [self.item(tmp_path, split=first), self.item(tmp_path, label="r2.nii", split=second, dataset="south")]
        message = refusal(merge_annotations, items)
        for part in (str(tmp_path / "a.nii"), first or "to be divided", second, "'north'", "'south'", "Choose one"):
            assert part in message

    def test_two_subjects(self, tmp_path):
        items = [self.item(tmp_path), self.item(tmp_path, label="r2.nii", subject="t")]
        with pytest.raises(DataError, match=r"of subjects 's' and 't'\. Choose one"):
            merge_annotations(items)


RV = {"masks": {"RV": "{subject}/rv.nii"}}


class TestForms:
    """Mistakes in the entries that say more than label values do: one line with file, name and remedy."""

    @pytest.fixture
    def root(self, tmp_path):
        touch(tmp_path, *(f"{s}/{name}.nii" for s in ("p1", "p2") for name in ("im", "gt", "rv", "lv")))
        return tmp_path

    def load(self, root, **entry):
        common = {"images": "{subject}/im.nii", "split": "training"}
        return load_datalist({"classes": ["background", "RV", "LV"], "datasets": {"north": common | entry}}, root)

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ({"masks": {"RV": "{subject}/vr.nii"}}, "no file fits '{subject}/vr.nii', the pattern of 'RV'. Correct it"),
            ({"masks": {"RV": "{subject}/r*.nii"}}, "`masks`, 'RV': `images` does not say what * stands for"),
            (
                {"masks": {"rv": "{subject}/rv.nii", "left": "{subject}/lv.nii"}},
                "'rv' is unknown, known are background, RV, LV (do you mean 'RV'?); 'left' is unknown",
            ),
            (
                {"masks": {"RV": "{subject}/rv.nii", "x": "{subject}/lv.nii"}, "names": {"x": "RV"}},
                "'RV' and 'x' are both RV. Merge the masks",
            ),
            (RV | {"labels": "{subject}/gt.nii"}, "and no `labels`"),
            (RV | {"values": {0: "background"}}, "leave `values` and `annotated` out"),
            (RV | {"overlap": "last"}, "must be error, first or either, got 'last'"),
            ({"overlap": "first"}, "`overlap` needs `masks`, but there are none"),
            ({"annotated_slices": "drawn"}, "`annotated_slices` needs labels, but `labels` or `masks` is missing"),
            (RV | {"annotated_slices": [0]}, "slice numbers from 1, like [3, 7]"),
            (RV | {"annotated_slices": {"p3": [1]}}, "no image is left for the entry 'p3'"),
            (RV | {"uncertain_border": -1}, "must be a distance in mm, 0 to 100, got -1"),
            (RV | {"names": {"x": "Lv"}}, "do you mean 'LV'?"),
            (RV | {"names": {"RV": "LV"}}, "'RV' is a name of the file itself"),
            (RV | {"names": {"LV": "left"}}, "Write 'left': 'LV'"),
            ({"masks": {"RV": "p1/rv.nii"}}, "`masks`, `RV`: 'p1/rv.nii' is one file for all 2 images"),
            ({"labels": "p1/gt.nii"}, "`labels`: 'p1/gt.nii' is one file for all 2 images"),
            (RV | {"pixel_size": 0.5}, "p1/im.nii is no picture"),
            ({"labels": "{subject}"}, "p1: is no RTSTRUCT or SEG, nor a folder with a single one. Correct `labels`"),
        ],
    )
    def test_mistakes(self, root, entry, message):
        assert message in refusal(self.load, root, **entry)

    def test_missing_masks_are_not_annotated(self, root):
        (root / "p2/lv.nii").unlink()
        masks = {"RV": "{subject}/rv.nii", "LV": "{subject}/lv.nii"}
        first, second = self.load(root, masks=masks)["training"]
        assert (first["annotated"], first["further_labels"][0]["annotated"]) == ([1], [2])
        assert second["annotated"] == [1]
        assert "further_labels" not in second
