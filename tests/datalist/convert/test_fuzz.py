"""Whatever stands in a ``dataset.json``: it is converted, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dcl_monai.cli.main import main

pytestmark = pytest.mark.slow

DECATHLON = {
    "name": "a",
    "modality": {"0": "MRI"},
    "labels": {"0": "background", "1": "a", "2": "b"},
    "training": [{"image": f"imagesTr/{n}_0000.nii.gz", "label": f"labelsTr/{n}.nii.gz"} for n in range(5)],
}
NNUNET = {
    "channel_names": {"0": "CT"},
    "labels": {"background": 0, "kidney": [1, 2, 3], "masses": [2, 3], "tumor": 2},
    "regions_class_order": [1, 3, 2],
    "file_ending": ".nii.gz",
}
NAMES = st.sampled_from(["0", "1", "background", "ignore", "image", "images", "label", "a"]) | st.text(max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.text(st.characters(), max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
LABELS = st.dictionaries(NAMES, st.integers(0, 4) | st.lists(st.integers(0, 4), max_size=3), max_size=4)
FUZZ = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def convert(tmp_path, add, capsys):
    for n in range(5):
        add(f"imagesTr/{n}_0000.nii.gz")
        add(f"labelsTr/{n}.nii.gz", [0, 1, 2])

    def run(layout: str, content: dict[str, Any]) -> None:
        Path(tmp_path, "dataset.json").write_text(json.dumps(content))
        for name in ("out.yaml", "out.json"):
            code = main(["convert", layout, str(tmp_path), str(tmp_path / name), "--force"])
            shown = capsys.readouterr()
            assert (code, shown.err) == (0, "") or (code, shown.err.count("\n")) == (1, 1), shown.err

    return run


@FUZZ
@given(st.sampled_from(["name", "labels", "modality", "training", "test", "classes", "unions", "split", "seed"]), JSON)
@example("name", "a")
@example("training", ["\n", "\0", "a" * 300])
@example("labels", {"0": "background", "1": "\ud800"})
def test_decathlon(convert, key, value):
    convert("decathlon", DECATHLON | {key: value})


@FUZZ
@given(
    st.sampled_from(["labels", "channel_names", "regions_class_order", "file_ending", "dataset", "modality"]),
    JSON | LABELS.map(lambda labels: {"background": 0} | labels),
)
@example("channel_names", {"0": "CT"})
@example("dataset", {"\n": {"images": ["a" * 300], "label": "\0"}})
@example("labels", {"background": 0, "\ud800": 1})
def test_nnunet(convert, key, value):
    convert("nnunet", NNUNET | {key: value})
