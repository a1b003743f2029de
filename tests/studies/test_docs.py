"""docs/how-to/studies.md names the studies and rows that there are."""

from __future__ import annotations

import re
from pathlib import Path

from dcl_monai.studies.tables import STUDIES

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "studies.md").read_text(encoding="utf-8")


def test_every_study_is_shown():
    table = PAGE[PAGE.index("| study | rows |") : PAGE.index("A row is a *recipe*")]
    assert re.findall(r"^\| `(\w+)`", table, re.M) == [*STUDIES, "all"]


def test_array_job_trains_every_row_of_the_ablation():
    (rows,) = re.findall(r"^rows=\((.*)\)$", PAGE, re.M)
    assert rows.split() == [row.recipe for row in STUDIES["ablation"].rows]
    assert f"--array=0-{3 * len(rows.split()) - 1}\n" in PAGE
