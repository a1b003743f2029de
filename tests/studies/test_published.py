"""The numbers of docs/results.md are those of the patients in docs/results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_table_of_the_results():
    """Every line that table.py prints stands in the page as it is."""
    line = [sys.executable, DOCS / "results" / "table.py", DOCS / "results" / "acdc_longer.csv"]
    done = subprocess.run(line, capture_output=True, text=True, encoding="utf-8", check=True)
    page = (DOCS / "results.md").read_text(encoding="utf-8").splitlines()
    printed = done.stdout.splitlines()
    assert len(printed) > 7
    assert [text for text in printed if text not in page] == []
