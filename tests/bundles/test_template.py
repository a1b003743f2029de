"""The bundles of the repository are made from one template, and stay readable."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from monai.bundle import ConfigParser

from dcl_monai.bundle.template import BUNDLES, LINKS, main, render_bundle

ROOT = Path(__file__).parents[2]
every_bundle = pytest.mark.parametrize("bundle", BUNDLES)


def test_written_anew_they_are_the_same(tmp_path):
    """Byte for byte: edit the template or the settings, then `python -m dcl_monai.bundle.template bundles`."""
    assert main([str(tmp_path)]) == 0
    for name in BUNDLES:
        written = {path.name: path.read_bytes() for path in (tmp_path / name / "configs").iterdir()}
        kept = {path.name: path.read_bytes() for path in (ROOT / "bundles" / name / "configs").iterdir()}
        assert written == kept
        for link in LINKS:
            assert (tmp_path / name / link).readlink() == (ROOT / "bundles" / name / link).readlink()


@every_bundle
def test_every_file_is_complete(bundle):
    files = render_bundle(BUNDLES[bundle])
    assert set(files) == {
        "evaluate.json",
        "inference.json",
        "logging.conf",
        "metadata.json",
        "onnx_export.json",
        "train.json",
    }
    for name, text in files.items():
        assert "~" not in text, "a placeholder is left"
        if name.endswith(".json"):
            json.loads(text)


@every_bundle
def test_training_is_readable(bundle):
    text = render_bundle(BUNDLES[bundle])["train.json"]
    assert text.count("\n") <= 300
    assert len(re.findall(r'"\$', text)) <= 60
    for name in ("PartialMeanDice", "DiceEvaluator"):
        assert text.count(name) == 1, "a metric and an evaluator are written once"


@every_bundle
def test_classes_are_those_of_the_data(bundle, tmp_path):
    """What the metadata says is what the reader of the data says."""
    parser = ConfigParser()
    parser.read_config(ROOT / "bundles" / bundle / "configs" / "train.json")
    parser["dataset_dir#folder"] = str(tmp_path)
    parser["dataset_dir#num_subjects"] = 2
    document = parser.get_parsed_content("datalist#source")
    assert list(document["classes"]) == list(BUNDLES[bundle].classes)
