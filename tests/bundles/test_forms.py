"""The examples of docs/reference/datalist_examples.md: written, checked, trained, and against a naive reference."""

from __future__ import annotations

import csv
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
import yaml
from monai.bundle import ConfigParser
from monai.utils import set_determinism
from PIL import Image

from dcl_monai.candidates import candidate_sets, from_bits
from dcl_monai.cli.main import main
from dcl_monai.datalist import load_datalist
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.transforms import LoadCandidatesd, LoadImagesd

ROOT = Path(__file__).parents[2]
CLASSES = ["background", "RV", "MYO", "LV"]
EVERYTHING = frozenset(range(4))
SPACING = (1.5, 1.5, 8.0)
SUBJECTS = [f"s{k}" for k in range(1, 6)]
SHAPE = (40, 40, 4)


def truth(subject: str) -> np.ndarray:
    """The LV in the ring of the myocardium, the RV beside it; nothing in the first slice."""
    rng = np.random.default_rng(int(subject[1:]))
    x, y = np.indices(SHAPE[:2])
    i, j = 16 + rng.integers(-2, 3, 2)
    label = np.zeros(SHAPE, np.uint8)
    label[(abs(x - i - 10) < 7) & (abs(y - j) < 6), 1:] = 1
    label[np.hypot(x - i, y - j) < 8, 1:] = 2
    label[np.hypot(x - i, y - j) < 5, 1:] = 3
    return label


def strokes(label: np.ndarray, blank: int, background: int) -> np.ndarray:
    result = np.full_like(label, blank)
    for value in (1, 2, 3):
        line = (label == value) & (np.arange(SHAPE[1]) % 8 == 0)[:, None]
        result[line] = value
    result[3:37, 2] = background
    return result


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(array, np.diag([*SPACING, 1])), path)


def examples() -> dict[str, dict[str, Any]]:
    """The files of the docs: one of all data sets whose images have one channel, and the others."""
    text = (ROOT / "docs/reference/datalist_examples.md").read_text(encoding="utf-8")
    shown = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    blocks = [yaml.safe_load(block) for block in shown]
    one = {name: entry for block in blocks if "datasets" not in block for name, entry in block.items()}
    others = {name: block for block in blocks if "datasets" in block for name in block["datasets"]}
    return {"one channel": {"datasets": one}} | others


def write_labels(root: Path) -> None:
    """The files that the examples speak of."""
    for subject in SUBJECTS:
        label = truth(subject)
        rng = np.random.default_rng(int(subject[1:]) + 50)

        def image(name: str, label=label, rng=rng) -> None:
            save(root / name, (label * 50 + rng.normal(0, 20, SHAPE)).astype(np.float32))

        image(f"masks/{subject}/image.nii.gz")
        for value, name in enumerate(("rv", "myo", "lv"), start=1):
            mask = label == value
            if name == "rv":
                mask |= np.roll(mask, -1, 0)  # reaches into the myocardium
            if (subject, name) != ("s2", "lv"):
                save(root / f"masks/{subject}/{name}.nii.gz", (mask * 255).astype(np.uint8))
        for folder in ("slices", "borders", "names"):
            image(f"{folder}/{subject}.nii.gz")
        only = label * np.isin(np.arange(4), [1, 3]).astype(np.uint8)
        save(root / f"slices/{subject}_gt.nii.gz", only)
        save(root / f"borders/{subject}_gt.nii.gz", label)
        save(root / f"names/{subject}_gt.nii.gz", np.array([0, 7, 9, 8], np.uint8)[label])
        image(f"raters/{subject}/image.nii.gz")
        save(root / f"raters/{subject}/rater1.nii.gz", label)
        save(root / f"raters/{subject}/rater2.nii.gz", np.roll(label, 1, 1))
        for folder, numbers in (("scribbles", (0, 4)), ("other scribbles", (4, 0))):
            image(f"{folder}/{subject}.nii.gz")
            save(root / f"{folder}/{subject}_scribble.nii.gz", strokes(label, *numbers))
        for name in ("t1", "t2"):
            image(f"channels/{subject}_{name}.nii.gz")
        save(root / f"channels/{subject}_gt.nii.gz", label)
        (root / "pictures").mkdir(exist_ok=True)
        colours = label[..., 1].T[..., None] * 50 + rng.integers(0, 60, (*SHAPE[1::-1], 3))
        Image.fromarray(colours.astype(np.uint8)).save(root / f"pictures/{subject}.png")
        mask = label[..., 1].T.copy()
        mask[0] = 255
        Image.fromarray(mask).save(root / f"pictures/{subject}_mask.png")


def write_regions(root: Path) -> None:
    """Series with regions that other programs wrote; see tests/transforms/make_dicom_regions.py."""
    with zipfile.ZipFile(ROOT / "tests/transforms/dicom_regions.zip") as archive:
        archive.extractall(root)
    for number, folder in enumerate(sorted(root.iterdir())):
        (folder / "regions").mkdir()
        shutil.move(folder / ("seg.dcm" if number % 2 else "rtstruct.dcm"), folder / "regions")


def expected(dataset: str, subject: str) -> dict[tuple[int, ...], frozenset[int]]:
    """Candidate sets, a voxel at a time."""
    label, other = truth(subject), np.roll(truth(subject), 1, 1)
    rv = (label == 1) | np.roll(label == 1, -1, 0)
    line, places = strokes(label, 0, 4), range(4)
    result = {}
    for voxel in product(*map(range, SHAPE)):
        x, y, z = voxel
        value = int(label[voxel])
        if dataset == "masks":
            rest = {0, 3} if subject == "s2" else {0}
            told = {1} if rv[voxel] else {2} if value == 2 else {3} if value == 3 and subject != "s2" else rest
        elif dataset == "slices":
            drawn = value if z in (1, 3) else 0
            told = {drawn} if z in ((1, 2) if subject == "s1" else (1, 3)) else EVERYTHING
        elif dataset == "rater 1":
            told = {value, int(other[voxel])}
        elif dataset == "borders":
            near = [(x, y), (x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
            told = {int(label[i, j, z]) for i, j in near if 0 <= i < SHAPE[0] and 0 <= j < SHAPE[1]}
        elif dataset == "pictures":
            told = {int(label[x, y, 1])} if y else EVERYTHING
        elif "scribbles" in dataset:
            told = {0} if line[voxel] == 4 else set(places) if line[voxel] == 0 else {int(line[voxel])}
        else:
            told = {value}
        result[voxel] = frozenset(told)
    return result


FILES = {
    "one channel": ["masks", "slices", "rater 1", "borders", "names", "scribbles", "other scribbles", "dicom"],
    "channels": ["channels"],
    "pictures": ["pictures"],
}
"""The data sets of every file, after those with the same images have become one."""


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> dict[str, Path]:
    pytest.importorskip("highdicom")
    root = tmp_path_factory.mktemp("forms")
    write_labels(root)
    write_regions(root / "dicom")
    common = {"classes": CLASSES, "unions": {"whole heart": CLASSES[1:]}, "split": [3, 1, 1]}
    for name, content in examples().items():
        (root / f"{name}.yaml").write_text(yaml.safe_dump(common | content, sort_keys=False))
    return {name: root / f"{name}.yaml" for name in examples()}


@pytest.mark.parametrize("name", FILES)
def test_candidate_sets(documents, name):
    datalist = load_datalist(documents[name])
    items = [item for split in SPLITS for item in datalist[split]]
    assert {item["dataset"] for item in items} == {*FILES[name]}
    assert len(items) == sum(4 if dataset == "dicom" else len(SUBJECTS) for dataset in FILES[name])
    for item in items[::2]:
        loaded = LoadCandidatesd("label", 4)(LoadImagesd("image")(dict(item)))
        sets = np.array(candidate_sets(loaded["label"]))[loaded["label"][0].numpy().astype(int)]
        if item["dataset"] == "dicom":
            from ..transforms.test_dicom import expected as of_regions

            np.testing.assert_array_equal(sets, of_regions(Path(item["image"]).parent, loaded["image"]))
            continue
        wanted = expected(item["dataset"], item["subject"].rpartition("/")[2])
        told = {int(bits): frozenset(from_bits(int(bits))) for bits in np.unique(sets)}
        found = {voxel: told[bits] for voxel, bits in np.ndenumerate(sets)}
        assert found == {voxel: wanted[voxel] for voxel in found}, item["image"]


@pytest.fixture
def train(small_settings, monkeypatch) -> Iterator[Callable[[Path, Path], None]]:
    """Train the bundle of slices for a few steps with a datalist; into a folder."""
    monkeypatch.chdir(ROOT)

    def run(datalist: Path, out: Path) -> None:
        parser = ConfigParser()
        parser.read_config("bundles/acdc/configs/train.json")
        parser.update(small_settings | {"pixdim": [1.5, 1.5, -1], "batch_size": 3, "datalist": str(datalist)})
        parser.update({"output_dir": str(out), "model_file": str(out / "model.pt")})
        set_determinism(0)
        parser.get_parsed_content("training")

    yield run
    set_determinism(None)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_check_and_train(documents, name, train, tmp_path, capsys):
    """All of them together; the right scribbles are silent."""
    assert main(["check", str(documents[name]), "--workers", "1"]) == 0
    printed = capsys.readouterr().out
    assert "Ready to train" in printed
    assert "thin strokes" not in printed
    train(documents[name], tmp_path)
    with (tmp_path / "test_dice.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["dataset"] for row in rows} == {*FILES[name]}


@pytest.mark.slow
def test_masks_train_as_annotated(tmp_path, train):
    """A third of the masks deleted: the numbers of label maps with `annotated`, bit for bit."""
    subjects = [f"s{k}" for k in range(10, 24)]  # in the order of their names
    pairs = list(product(subjects, CLASSES[1:]))
    deleted = {pairs[k] for k in np.random.default_rng(25).permutation(len(pairs))[: len(pairs) // 3]}
    listed = []
    for subject in subjects:
        label, rng = truth(subject), np.random.default_rng(int(subject[1:]))
        save(tmp_path / f"im/{subject}.nii.gz", (label * 50 + rng.normal(0, 20, SHAPE)).astype(np.float32))
        save(tmp_path / f"gt/{subject}.nii.gz", label)
        kept = [name for name in CLASSES[1:] if (subject, name) not in deleted]
        for name in kept:
            save(tmp_path / name / f"{subject}.nii.gz", (label == CLASSES.index(name)).astype(np.uint8))
        item = {"image": f"im/{subject}.nii.gz", "subject": subject}
        listed.append(item | ({"label": f"gt/{subject}.nii.gz", "annotated": kept} if kept else {}))
    assert {len(item.get("annotated", [])) for item in listed} == {0, 1, 2, 3}
    entries = {
        "annotated": {"training": listed, "values": dict(enumerate(CLASSES))},
        "masks": {"images": "im/{subject}.nii.gz", "masks": {n: f"{n}/{{subject}}.nii.gz" for n in CLASSES[1:]}},
    }
    left = []
    for form, entry in entries.items():
        path, out = tmp_path / f"{form}.yaml", tmp_path / f"out {form}"
        path.write_text(yaml.safe_dump({"classes": CLASSES, "split": [10, 2, 2], "datasets": {"all": entry}}))
        train(path, out)
        weights = torch.load(out / "model.pt", weights_only=True)
        left.append(((out / "history.csv").read_bytes(), (out / "test_dice.csv").read_bytes(), weights))
    (history, dice, weights), (other_history, other_dice, other_weights) = left
    assert history == other_history
    assert dice == other_dice
    assert dice.count(b".") > 2
    tensors = [key for key, value in weights.items() if torch.is_tensor(value)]
    assert tensors
    assert all(torch.equal(weights[key], other_weights[key]) for key in tensors)


def test_all_forms_say_the_same(tmp_path):
    """One set of full and partial labels, written in every form that can express it."""
    for subject in SUBJECTS[:3]:
        label = truth(subject)
        save(tmp_path / f"im/{subject}.nii.gz", label.astype(np.float32))
        save(tmp_path / f"full/{subject}.nii.gz", label)
        save(tmp_path / f"other/{subject}.nii.gz", np.array([9, 3, 4, 5], np.uint8)[label])
        for value, name in ((1, "RV"), (3, "LV")):
            save(tmp_path / f"masks/{name}/{subject}.nii.gz", (label == value).astype(np.uint8))
    drawn = ["RV", "LV"]
    masks = {name: f"masks/{name}/{{subject}}.nii.gz" for name in drawn}
    full = {"labels": "full/{subject}.nii.gz", "values": dict(enumerate(CLASSES)), "annotated": drawn}
    own = {9: "rest", 3: "right", 4: "wall", 5: "left"}
    names = {"rest": "background", "right": "RV", "wall": "MYO", "left": "LV"}
    listed = [
        {
            "image": f"im/{s}.nii.gz",
            "subject": s,
            "masks": {"left": f"masks/LV/{s}.nii.gz", "RV": f"masks/RV/{s}.nii.gz"},
        }
        for s in SUBJECTS[:3]
    ]
    forms: dict[str, list[dict[str, Any]]] = {
        "label map": [full],
        "masks": [{"masks": masks}],
        "masks that may overlap": [{"masks": masks, "overlap": "either"}],
        "a list of masks": [{"training": listed, "names": names, "images": None}],
        "other numbers and names": [
            {"labels": "other/{subject}.nii.gz", "values": own, "names": names, "annotated": ["right", "left"]}
        ],
        "two data sets": [full | {"annotated": ["RV"]}, {"masks": {"LV": masks["LV"]}}],
        "two raters who agree": [full | {"disagreement": "either"}, {"masks": masks}],
        "all slices named": [full | {"annotated_slices": [1, 2, 3, 4]}],
        "no border": [full | {"uncertain_border": 0}],
        "rest left open": [
            {
                "labels": "full/{subject}.nii.gz",
                "values": {0: ["background", "MYO"], 1: "RV", 2: ["background", "MYO"], 3: "LV"},
            }
        ],
    }
    found = {}
    for form, entries in forms.items():
        common = {"images": "im/{subject}.nii.gz", "split": "training"}
        sets = {
            str(k): {key: value for key, value in (common | entry).items() if value is not None}
            for k, entry in enumerate(entries)
        }
        items = load_datalist({"classes": CLASSES, "datasets": sets}, tmp_path)["training"]
        found[form] = []
        for item in items:
            label = LoadCandidatesd("label", 4)(LoadImagesd("image")(dict(item)))["label"]
            found[form].append(np.array(candidate_sets(label))[label[0].numpy().astype(int)])
    first = found["label map"]
    assert [set(np.unique(sets)) for sets in first] == [{0b0010, 0b1000, 0b0101}] * 3
    for form, sets in found.items():
        assert np.array_equal(sets, first), form
