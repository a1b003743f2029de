"""The command line as such."""

from __future__ import annotations

import pytest
from helpers import Forked

from dcl_monai.cli import main
from dcl_monai.cli.main import COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"python -m dcl_monai {command}" in capsys.readouterr().out


def test_a_mistake_is_one_line(tmp_path, capsys):
    assert main(["check", str(tmp_path / "nowhere.yaml")]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert message.startswith("error: ")
    assert "nowhere.yaml" in message


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "dataset.json").write_text("{}")
    assert main(["convert", "decathlon", str(tmp_path), str(tmp_path / "file" / "out.yaml")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_module_runs():
    done = Forked("-m", "dcl_monai", "--help").wait()
    assert done.returncode == 0
    assert all(command in done.stdout for command in COMMANDS)
