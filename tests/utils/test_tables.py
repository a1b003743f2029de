"""Tests of CSV files that a spreadsheet shows as they are meant."""

from __future__ import annotations

import csv

import pytest

from dcl_monai.utils.tables import read_table, write_table


@pytest.mark.parametrize("text", ["=1+1", "+x", "-lesion", "@SUM(A1)", "\tx", "=HYPERLINK('http://a.org')"])
def test_no_cell_is_a_formula(tmp_path, text):
    write_table(tmp_path / "a.csv", [["subject", text], [text, "0.5"]])
    with (tmp_path / "a.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert cells == ["subject", f"'{text}", f"'{text}", "0.5"]
    assert read_table(tmp_path / "a.csv") == [{"subject": text, text: "0.5"}]


@pytest.mark.parametrize("cell", ["-0.5", "+1", "-inf", "1e-3", "patient-1", "'quoted", "", -0.5, 3, "a,b\nc"])
def test_numbers_and_plain_text_stay(tmp_path, cell):
    write_table(tmp_path / "a.csv", [["value"], [cell, "x"]])
    with (tmp_path / "a.csv").open(newline="") as file:
        assert list(csv.reader(file))[1][0] == str(cell)
    assert read_table(tmp_path / "a.csv")[0]["value"] == str(cell)


def test_no_file_and_empty_file(tmp_path):
    assert read_table(tmp_path / "a.csv") == []
    (tmp_path / "a.csv").touch()
    assert read_table(tmp_path / "a.csv") == []
