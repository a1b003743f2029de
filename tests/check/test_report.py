"""Tests of the page and of what the terminal shows."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from rich.console import Console

from dcl_monai.check import find_problems, inspect_datalist
from dcl_monai.check.report import print_report, write_report
from dcl_monai.check.summary import Summary
from dcl_monai.utils import DataError

from .conftest import SHAPE


class Page(HTMLParser):
    """Text and pictures of a page; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text, self.pictures, self.tags = "", [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "img":
            data = dict(attrs)["src"].removeprefix("data:image/png;base64,")
            self.pictures.append(imread(io.BytesIO(base64.b64decode(data)), format="png"))
        if tag not in ("img", "meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data


def summarize(datalist) -> Summary:
    records = inspect_datalist(datalist, progress=False)
    return Summary("my.yaml", datalist, records, find_problems(datalist, records))


@pytest.fixture
def page(tmp_path):
    def make(datalist) -> Page:
        write_report(summarize(datalist), tmp_path / "report.html")
        return Page((tmp_path / "report.html").read_text(encoding="utf-8"))

    return make


class TestPage:
    def test_clean_set(self, datalist, page):
        shown = page(datalist)
        for part in ("Ready to train", "6 images of 6 subjects", "4 (4 subjects)", "8 x 7 x 3", "present"):
            assert part in shown.text
        assert "Errors" not in shown.text
        assert "Warnings" not in shown.text
        assert {"table", "details", "figure"} <= shown.tags
        assert "script" not in shown.tags
        assert len(shown.pictures) == 5  # the matrix, and four examples of the only data set

    def test_needs_no_other_file(self, datalist, tmp_path):
        write_report(summarize(datalist), tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert not re.search(r"https?://|<link|@import", text)

    def test_errors_come_first(self, datalist, page):
        path = Path(datalist["training"][0]["label"])
        path.unlink()
        text = page(datalist).text
        assert text.index("Not ready: 1 error") < text.index(f"{path}: cannot be read") < text.index("Which class")
        assert "presenterror" in "".join(text.split())  # the heads of the table

    def test_many_of_a_kind_are_folded(self, datalist, page):
        for item in datalist["training"]:
            Path(item["label"]).unlink()
        text = page(datalist).text
        assert "File cannot be read (4 times)" in text
        assert "1 more" in text
        assert all(item["label"] in text for item in datalist["training"])

    def test_names_are_escaped(self, datalist, make_item, tmp_path, page):
        datalist["classes"] = ["background", "R<V> & $x_", "_L$V"]
        datalist["training"].append(make_item("<b>&x", np.full(SHAPE, 7, np.uint8), dataset="<i>south & $west$"))
        shown = page(datalist)
        assert "<b>&x_gt.nii.gz: label value(s) [7]" in shown.text
        assert "<i>south & $west$" in shown.text
        assert "R<V> & $x_" in shown.text
        assert not {"b", "i"} & (shown.tags - {"b"})
        assert "<b>&x" not in (tmp_path / "report.html").read_text(encoding="utf-8")

    def test_all_kinds_of_labels(self, datalist, make_item, page):
        strokes = np.full(SHAPE, 9, np.uint8)
        strokes[1:3, 2] = 1
        bare = make_item("bare", dataset="bare")
        datalist["training"] += [
            make_item("one", dataset="partial", annotated=[[1]]),
            make_item("two", dataset="union", annotated=[[1, 2]]),
            make_item("three", strokes, dataset="strokes", unlabelled=[9]),
            {key: bare[key] for key in ("image", "subject", "dataset", "case")},
        ]
        shown = page(datalist)
        parts = ["not annotated: background or LV", "heart: RV or LV, not distinguished", "known in part"]
        parts += ["in a union only", "not annotated: nothing is known", "one, training, slice 2 of 3"]
        assert all(part in shown.text for part in (*parts, "bare, training, slice 2 of 3")), shown.text
        assert len(shown.pictures) == 9

    def test_overlay_is_coloured_where_a_class_is_known(self, datalist, page):
        datalist["training"] = [item | {"annotated": [[1]]} for item in datalist["training"]]
        datalist["validation"], datalist["test"] = [], []
        picture = page(datalist).pictures[1][..., :3]
        coloured = np.ptp(picture, axis=-1) > 0.05
        half = picture.shape[1] // 2
        assert not coloured[:, : half - 5].any()  # the image alone
        assert 0.02 < coloured[:, half:].mean() < 0.5

    def test_nothing_to_show(self, datalist, page):
        for split in ("training", "validation", "test"):
            datalist[split] = []
        assert "Not ready: 2 errors" in page(datalist).text

    def test_place_that_cannot_be_written(self, datalist, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match="cannot be written"):
            write_report(summarize(datalist), tmp_path / "file" / "report.html")


class TestTerminal:
    def show(self, datalist, width: int = 80) -> str:
        console = Console(file=io.StringIO(), width=width)
        print_report(summarize(datalist), console)
        return console.file.getvalue()

    def test_clean_set(self, datalist):
        text = self.show(datalist)
        assert all(part in text for part in ("Ready to train", "datalist hash", "4 (4 subjects)", "present")), text

    def test_names_of_files_stay_whole(self, datalist):
        for item in datalist["training"]:
            Path(item["label"]).unlink()
        lines = self.show(datalist, width=40).splitlines()
        for item in datalist["training"][:3]:
            assert any(f"{item['label']}: cannot be read" in line for line in lines)
        assert any("and 1 more of this kind" in line for line in lines)

    def test_names_are_no_markup(self, datalist, make_item):
        datalist["classes"] = ["background", "[red]RV", "[/]LV"]
        datalist["training"].append(make_item("[bold]x", np.full(SHAPE, 7, np.uint8)))
        text = self.show(datalist, width=200)
        assert "[bold]x_gt.nii.gz" in text
        assert "[/]LV" in text

    def test_never_together(self, datalist):
        datalist["training"] = [item | {"annotated": [1 + k % 2]} for k, item in enumerate(datalist["training"])]
        assert "RV is never annotated together with background or LV" in self.show(datalist)
