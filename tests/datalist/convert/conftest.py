"""What the tests of the converters share: tiny images, refusals, and what a label value turns into."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import refusal

from dcl_monai.candidates import candidate_sets, from_bits
from dcl_monai.datalist.convert import CONVERTERS
from dcl_monai.datalist.load import load_datalist
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.transforms import EncodeCandidates


@pytest.fixture
def add(write_nifti) -> Callable[..., str]:
    """Write an image, or a label that shows the given values, one per voxel."""

    def write(name: str, values: Iterable[int] = (7, 8, 9)) -> str:
        return write_nifti(name, np.array(list(values), dtype=np.int16)[:, None, None])

    return write


@pytest.fixture
def add_json(tmp_path) -> Callable[..., None]:
    def write(**content: Any) -> None:
        (tmp_path / "dataset.json").write_text(json.dumps(content))

    return write


@pytest.fixture
def refuse() -> Callable[..., str]:
    """Return the one line with which a converter refuses a folder."""

    def convert(layout: str, root: Path, **options: Any) -> str:
        return refusal(CONVERTERS[layout], root, **options)

    return convert


@pytest.fixture
def meaning(tmp_path) -> Callable[[dict[str, Any], Iterable[int]], list[set[str]]]:
    """The candidate classes of label values in a converted data set, all of whose labelled images must agree."""

    def candidates(document: dict[str, Any], values: Iterable[int]) -> list[set[str]]:
        datalist = load_datalist(document, tmp_path)
        classes = datalist["classes"]
        told = []
        for item in (item for split in SPLITS for item in datalist[split] if "label" in item):
            encode = EncodeCandidates(len(classes), item["values"], item.get("unlabelled"))
            label = encode(np.array(list(values)), item["annotated"])
            sets = candidate_sets(label)
            told.append([{classes[j] for j in from_bits(sets[int(code)])} for code in label])
        assert all(other == told[0] for other in told)
        return told[0]

    return candidates
