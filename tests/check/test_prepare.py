"""Tests of the check that runs before a training: the first error is raised, warnings are logged."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from helpers import refusal

from dcl_monai.check import check_datalist
from dcl_monai.utils import DataError


def test_good_data_is_returned(datalist, caplog):
    assert check_datalist(datalist, progress=False) is datalist
    assert not caplog.records


def test_minimal_items(datalist):
    for split in ("training", "validation", "test"):
        datalist[split] = [{key: item[key] for key in ("image", "label", "subject")} for item in datalist[split]]
    assert check_datalist(datalist, progress=False) is datalist


def test_no_progress_bar_without_a_terminal(datalist, capsys):
    check_datalist(datalist)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize(("number", "more"), [(1, ""), (3, " (and 2 more, see python -m dcl_monai check)")])
def test_first_error_and_how_many_more(datalist, number, more):
    for item in datalist["training"][:number]:
        Path(item["label"]).unlink()
    message = refusal(check_datalist, datalist, progress=False)
    assert message.startswith(
        f"{datalist['training'][0]['label']}: cannot be read as NIfTI (No such file or directory)"
    )
    assert message.endswith(f"Replace the file.{more}")


def test_size_on_the_grid_of_the_network(datalist):
    """Before anything is resampled."""
    with pytest.raises(DataError, match="on the network's grid"):
        check_datalist(datalist, progress=False, pixdim=[0.001, 0.001, 0.001])


def test_warnings_take_one_line(datalist, caplog):
    for item in datalist["training"][1:3]:
        shutil.copy(datalist["training"][0]["image"], item["image"])
    with caplog.at_level(logging.WARNING):
        assert check_datalist(datalist, progress=False) is datalist
    assert len(caplog.messages) == 1
    assert datalist["training"][1]["image"] in caplog.messages[0]
    assert "and 1 more" in caplog.messages[0]
