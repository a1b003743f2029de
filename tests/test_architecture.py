"""The page and the picture of the architecture show the rooms as the import contract has them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def contract() -> list[set[str]]:
    """The layers of pyproject.toml, from top to bottom."""
    layers = re.search(r"^layers = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M | re.S)
    assert layers
    rows = [set(row.split(" | ")) for row in re.findall(r'"(.+?)"', layers[1])]
    assert rows[0] == {"__main__"}  # no room, but the command's way in
    return rows[1:]


def test_page_shows_the_contract():
    page = (ROOT / "docs" / "concepts" / "architecture.md").read_text(encoding="utf-8")
    table = page[page.index("| rooms |") : page.index("## The way of a batch")]
    assert [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.splitlines()[2:] if row] == contract()


def test_picture_shows_the_contract():
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs" / "figures" / "architecture.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert [set(row) for row in module.ROOMS] == contract()
