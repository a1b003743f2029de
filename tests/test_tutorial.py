"""The tutorial notebook runs from top to bottom, and the network learns what nobody drew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorial.ipynb"


def code_cells() -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_holds_no_outputs():
    """They would grow the repository with every run."""
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code_cells())


@pytest.mark.slow
def test_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, Any] = {}
    with plt.rc_context({"backend": "Agg"}):
        for cell in code_cells():
            exec("".join(cell["source"]), names)
        plt.close("all")
    assert names["scores"]["LV"] > 0.5
    assert names["history"][-1] < 0.7 * names["history"][0]
