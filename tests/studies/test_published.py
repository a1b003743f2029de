"""The published numbers are those of the patients in docs/results."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import Forked

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_table_of_the_results():
    """Every line that table.py prints stands in the page as it is."""
    done = Forked(DOCS / "results" / "table.py", DOCS / "results" / "acdc_longer.csv").wait()
    page = (DOCS / "research" / "acdc_30_epochs.md").read_text(encoding="utf-8").splitlines()
    printed = done.stdout.splitlines()
    assert len(printed) > 7
    assert [text for text in printed if text not in page] == []


def test_short_table():
    """The rows of the results page repeat Dice, interval and ratio of the long table."""
    rows = {}
    for line in (DOCS / "research" / "acdc_30_epochs.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("| `") and len(cells) == 13:
            rows[cells[1]] = cells[4:7]
    page = (DOCS / "results.md").read_text(encoding="utf-8").splitlines()
    shown = [line.replace("*", "").split("|") for line in page if "(`" in line and line.startswith("| ")]
    assert len(shown) == 8
    for cells in shown:
        assert [cell.strip() for cell in cells[4:7]] == rows[f"`{cells[1].split('`')[1]}`"]
