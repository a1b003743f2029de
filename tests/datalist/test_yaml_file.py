"""Tests of reading a YAML or JSON file: every mistake is told in one line."""

from __future__ import annotations

import json
import os
import time

import pytest
import yaml
from helpers import refusal

from dcl_monai.datalist.schema import parse_document
from dcl_monai.datalist.yaml_file import read_file
from dcl_monai.utils import DataError

DOCUMENT = {"classes": ["background", "RV"], "datasets": {"north": {"values": {0: "background", 5: "RV"}}}}


def read_fails(path) -> str:
    message = refusal(read_file, path)
    assert message.startswith(str(path))
    return message


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.txt", "a"])
def test_yaml(tmp_path, name):
    (tmp_path / name).write_text(yaml.safe_dump(DOCUMENT))
    assert read_file(tmp_path / name) == DOCUMENT


def test_json(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(DOCUMENT))
    assert read_file(tmp_path / "a.json") == json.loads(json.dumps(DOCUMENT))


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_byte_order_mark_of_windows(tmp_path, name):
    (tmp_path / name).write_text('{"seed": 1}', encoding="utf-8-sig")
    assert read_file(tmp_path / name) == {"seed": 1}


TEXTS = {text: text for text in ("no", "on", "010", "12:30", "2020-01-01", "1_000")}
TEXTS |= {"true": True, "False": False, "null": None, "": None, "-5": -5, "1.5": 1.5, "'1'": "1"}


@pytest.mark.parametrize(("text", "value"), TEXTS.items())
def test_only_numbers_are_numbers(tmp_path, text, value):
    (tmp_path / "a.yaml").write_text(f"key: {text}")
    assert read_file(tmp_path / "a.yaml") == {"key": value}


def test_merge_keys(tmp_path):
    """A key may override one that is merged in; that is no key given twice."""
    text = "base: &base {a: 1, b: 2}\nfirst: &first {<<: *base, a: 3}\nsecond: {<<: *first, b: 4}"
    (tmp_path / "a.yaml").write_text(text)
    content = read_file(tmp_path / "a.yaml")
    assert (content["first"], content["second"]) == ({"a": 3, "b": 2}, {"a": 3, "b": 4})


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("a.yaml", "seed: 1\nclasses: [a, b\nunions: {}", [", line 3: is not YAML"]),
        ("a.yaml", "seed: 1\nseed: 2", [", line 2: is not YAML (the key 'seed' is given twice)"]),
        ("a.yaml", "datasets:\n  a: {values: {1: b, 1: c}}", ["line 2: is not YAML (the key '1' is given twice)"]),
        ("a.yaml", "? [a]\n: 1", ["is not YAML"]),
        ("a.yaml", "a: *b", ["line 1: is not YAML (found undefined alias 'b')"]),
        ("a.yaml", "a: !!python/object:os.system {}", ["is not YAML", "could not determine a constructor"]),
        ("a.yaml", "a: !!int ''", ["is not YAML"]),
        ("a.yaml", "a: !!bool x", ["is not YAML"]),
        ("a.yaml", "a: !!timestamp x", ["is not YAML"]),
        ("a.yaml", "a: \x07", ["is not YAML", "special characters are not allowed"]),
        ("a.yaml", "[" * 2000, ["nested too deeply"]),
        ("a.yaml", "&a {b: *a}", []),
        ("a.yaml", "", ["holds no entries"]),
        ("a.yaml", "- a", ["holds no entries"]),
        ("a.json", '{"seed": 1,\n}', [", line 2: is not JSON"]),
        ("a.json", '{"seed": 1, "seed": 2}', ["the key 'seed' is given twice"]),
        ("a.json", "[" * 100_000, ["nested too deeply"]),
        ("a.json", "1" * 5000, ["is not JSON"]),
        ("a.json", "5", ["holds no entries"]),
    ],
)
def test_mistakes(tmp_path, name, text, parts):
    (tmp_path / name).write_text(text)
    if not parts:  # a mapping that holds itself is one; its entries are refused
        with pytest.raises(DataError, match=r"the entry 'b' is unknown|holds itself|`classes` is missing"):
            parse_document(read_file(tmp_path / name), "a.yaml")
        return
    message = read_fails(tmp_path / name)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
def test_impossible_name(tmp_path, name):
    read_fails(tmp_path / name)


def test_no_text(tmp_path):
    (tmp_path / "a.yaml").write_bytes("name: Zürich".encode("latin-1"))
    assert "is not text in UTF-8" in read_fails(tmp_path / "a.yaml")
    assert "(No such file or directory)" in read_fails(tmp_path / "b.yaml")
    assert "(Is a directory)" in read_fails(tmp_path)


@pytest.mark.parametrize("merge", [True, False], ids=["merge", "alias"])
def test_bomb(tmp_path, merge):
    """Some lines that would become 10 ** 12 entries."""
    lines = ["a0: &a0 {x: 1, y: 2}"]
    for depth in range(1, 13):
        before = ", ".join([f"*a{depth - 1}"] * 10)
        lines.append(f"a{depth}: &a{depth} " + (f"{{<<: [{before}], k{depth}: 1}}" if merge else f"[{before}]"))
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines))
    start = time.perf_counter()
    with pytest.raises(DataError, match=f"^{path}.*its aliases make [0-9]+ entries"):
        read_file(path)
    assert time.perf_counter() - start < 5


def test_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (tmp_path / "pipe.yaml", "/dev/zero"):
        assert "no regular file" in read_fails(path)
