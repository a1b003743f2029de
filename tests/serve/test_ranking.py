"""The ranking of `dcl-monai next` as a strategy of MONAI Label."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from dcl_monai.utils import DataError

FILE = Path(__file__).parents[2] / "serve" / "label" / "ranking.py"
SPEC = importlib.util.spec_from_file_location("ranking", FILE)
ranking: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ranking)

CLASSES = ["background", "RV", "LV"]


class Store:
    """The part of MONAI Label's datastore that a strategy asks, on a folder that Label wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes = folder, dict[str, dict]()

    def list_images(self) -> list[str]:
        return ["b", "a"]

    def get_image_uri(self, image: str) -> str:
        return f"{self.folder}/{image}.nii.gz"

    def get_labels_by_image_id(self, image: str) -> dict[str, str]:
        return {"final": image} if image in self.notes else {}

    def get_label_uri(self, label: str, tag: str) -> str:
        return f"{self.folder}/labels/{tag}/{label}.nii.gz"

    def draw(self, image: str, annotated: list[str]) -> None:
        self.notes[image] = {"ext": ".nii.gz", "info": {"annotated": annotated}}
        objects = {name: {"labels": {"final": note}} for name, note in self.notes.items()}
        (self.folder / "labels" / "final").mkdir(parents=True, exist_ok=True)
        (self.folder / "datastore_v2.json").write_text(json.dumps({"objects": objects}))
        nib.save(nib.Nifti1Image(np.zeros((4, 4, 2), np.uint8), np.eye(4)), self.get_label_uri(image, "final"))


def write(path: Path, *rows: tuple[str, str]) -> Path:
    path.write_text("\n".join(["rank,image,structure", *(f"1,{image},{name}" for image, name in rows)]) + "\n")
    return path


def test_what_is_not_drawn_yet_comes_in_order(tmp_path):
    rows = [("/far/a.nii.gz", "LV"), ("/far/x.nii.gz", "RV"), ("b.nii", "RV"), ("/far/a.nii.gz", "RV")]
    file = write(tmp_path / "next.csv", *rows)
    strategy, store = ranking.Ranking(file, CLASSES), Store(tmp_path)
    assert strategy({}, store) == {"id": "a", "structure": "LV", "rank": 1}
    store.draw("a", ["LV"])
    assert strategy({}, store) == {"id": "b", "structure": "RV", "rank": 3}
    store.draw("b", ["RV", "LV"])
    assert strategy({"label_tag": "final"}, store) == {"id": "a", "structure": "RV", "rank": 4}
    store.draw("a", ["LV", "RV"])
    assert strategy({}, store) is None


def test_images_of_one_name_are_told_apart_by_their_place(tmp_path):
    file = write(tmp_path / "next.csv", ("/p1/a.nii.gz", "LV"), ("/p2/a.nii.gz", "RV"))
    assert ranking.Ranking(file, CLASSES)({}, Store(tmp_path)) is None
    file = write(tmp_path / "next.csv", ("/p1/a.nii.gz", "LV"), (f"{tmp_path}/a.nii.gz", "RV"))
    assert ranking.Ranking(file, CLASSES)({}, Store(tmp_path)) == {"id": "a", "structure": "RV", "rank": 2}


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", "rank,image,structure\n1,a.nii.gz,MYO\n"])
def test_files_of_something_else_are_refused(tmp_path, content):
    (tmp_path / "next.csv").write_text(content)
    with pytest.raises(DataError, match=r"next.csv: (is not a ranking|ranks)"):
        ranking.Ranking(tmp_path / "next.csv", CLASSES)
    with pytest.raises(DataError, match="ranks nothing"):
        ranking.Ranking(tmp_path / "none.csv", CLASSES)
