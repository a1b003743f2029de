from __future__ import annotations

import pytest
from monai.bundle import ConfigParser

from dcl_monai.utils import DataError, as_bool, as_literal


@pytest.mark.parametrize("value", [True, "true", "True", "TRUE", "yes", 1])
def test_true(value):
    assert as_bool(value) is True


@pytest.mark.parametrize("value", [False, "false", "False", "no", 0])
def test_false(value):
    assert as_bool(value) is False


@pytest.mark.parametrize("value", ["", "maybe", None, 2, 0.5])
def test_neither(value):
    with pytest.raises(DataError, match="neither true nor false"):
        as_bool(value)


@pytest.mark.parametrize(
    "text",
    [
        "plain/out",
        "out#1",
        "$__import__('os').getpid()",
        "@id",
        "a@id#b",
        "%file.json",
        'it\'s "#" \\ ü$',
        "x\n#",
        "\\#",
    ],
)
def test_a_parser_gives_a_literal_back(text):
    parser = ConfigParser({"id": 1, "path": as_literal(text), "below": "$@path + '/x'"})
    assert parser.get_parsed_content("path") == text
    assert parser.get_parsed_content("below") == f"{text}/x"
