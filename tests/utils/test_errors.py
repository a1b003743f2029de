"""Tests of the one kind of error for a user's mistake, in a process of its own where the hook matters."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers import Forked

from dcl_monai.utils import DataError, report_user_errors
from dcl_monai.utils.errors import find_user_error


def run(body: str) -> subprocess.CompletedProcess[str]:
    program = f"from dcl_monai.utils import DataError, report_user_errors\nreport_user_errors()\n{body}\n"
    return Forked("-c", program).wait()


WRAPPED = """
try:
    raise DataError("a.nii: mend it")
except DataError as error:
    raise RuntimeError("applying transform failed") from error
"""
WRAPPED_TWICE = """
try:
    try:
        raise DataError("a.nii: mend it")
    except DataError as error:
        raise RuntimeError("inner") from error
except RuntimeError:
    raise KeyError("outer")
"""


@pytest.mark.parametrize(
    "body", ['raise DataError("a.nii: mend it")', WRAPPED, WRAPPED_TWICE], ids=["raised", "wrapped", "wrapped twice"]
)
def test_user_error_is_one_line(body):
    process = run(body)
    assert process.returncode == 1
    assert process.stderr == "error: a.nii: mend it\n"
    assert process.stdout == ""


IN_WORKER = """
import torch
class Broken(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        try:
            {}
        except ValueError as error:
            raise RuntimeError("applying transform failed") from error
list(torch.utils.data.DataLoader(Broken(), num_workers=1))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "line"),
    [
        ('raise DataError("a.nii: mend it")', "a.nii: mend it"),
        (
            'raise OSError(28, "No space left on device", "/out/a")',
            "/out/a: cannot be written (No space left on device). Make room on the disk, or choose another folder.",
        ),
    ],
)
def test_error_of_a_worker_is_one_line(error, line):
    process = run(IN_WORKER.format(error))
    assert process.returncode == 1
    assert process.stderr == f"error: {line}\n"


def test_other_errors_keep_their_traceback():
    process = run('raise ValueError("a bug")')
    assert process.returncode == 1
    assert "Traceback (most recent call last)" in process.stderr
    assert process.stderr.endswith("ValueError: a bug\n")
    assert not process.stderr.startswith("error:")


def test_hook_before_is_kept(monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "excepthook", lambda *details: shown.append(details))
    report_user_errors()
    bug = ValueError("a bug")
    sys.excepthook(ValueError, bug, None)
    sys.excepthook(DataError, DataError("mend it"), None)
    assert shown == [(ValueError, bug, None)]


class TestFindUserError:
    def test_none(self):
        assert find_user_error(None) is None
        assert find_user_error(ValueError("a bug")) is None

    def test_the_outermost_is_found(self):
        inner, outer = DataError("inner"), DataError("outer")
        outer.__cause__ = inner
        wrapper = RuntimeError("wrapper")
        wrapper.__cause__ = outer
        assert find_user_error(wrapper) is outer

    def test_circle_of_causes_ends(self):
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        assert find_user_error(first) is None

    def test_is_a_value_error(self):
        assert issubclass(DataError, ValueError)


class TestRefusals:
    """What the system refuses is one line as well, wherever it is met."""

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ('raise OSError(28, "No space left on device", "/out/a")', "/out/a: cannot be written (No space"),
            ('raise PermissionError(13, "Permission denied", b"/out/a")', "/out/a: cannot be written (Permission"),
            ('open("/nowhere/at/all", "w")', "/nowhere/at/all: cannot be written (No such file or directory). Choose"),
            ("raise KeyboardInterrupt", "stopped. --resume true continues"),
        ],
    )
    def test_one_line(self, body, words, monkeypatch, capsys):
        monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
        report_user_errors()
        try:
            exec(body)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        shown = capsys.readouterr().err
        assert shown.removeprefix("error: ").startswith(words)
        assert shown.count("\n") == 1

    def test_a_missing_file_in_a_folder_that_is_there_is_a_bug(self, monkeypatch, capsys, tmp_path):
        monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
        report_user_errors()
        try:
            (tmp_path / "nothing").read_text()
        except FileNotFoundError:
            sys.excepthook(*sys.exc_info())
        assert "Traceback" in capsys.readouterr().err
