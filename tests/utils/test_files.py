"""Tests of writing files in one step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dcl_monai.utils.files import copy_atomic, replace_atomic, save_atomic, write_atomic


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestReplaceAtomic:
    @pytest.mark.parametrize("before", [None, b"old"])
    @pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
    def test_failing_writer_changes_nothing(self, tmp_path, before, error):
        path = tmp_path / "file.txt"
        if before is not None:
            path.write_bytes(before)

        def fail(temporary: Path) -> None:
            temporary.write_bytes(b"half")
            raise error("disk full")

        with pytest.raises(error, match="disk full"):
            replace_atomic(path, fail)
        assert files(tmp_path) == ({} if before is None else {"file.txt": before})

    def test_old_file_stays_until_the_new_one_is_complete(self, tmp_path):
        path = tmp_path / "file.txt"
        path.write_bytes(b"old")

        def write(temporary: Path) -> None:
            assert temporary.parent == path.parent  # a rename between file systems would not be one step
            temporary.write_bytes(b"new")
            assert path.read_bytes() == b"old"

        replace_atomic(path, write)
        assert files(tmp_path) == {"file.txt": b"new"}


@pytest.mark.parametrize("kind", [str, Path])
def test_text(tmp_path, kind):
    path = tmp_path / "new" / "folder" / "file.txt"
    for text in ("first", "zweite Zeile: ä\n", ""):
        write_atomic(kind(path), text)
        assert files(tmp_path) == {"new/folder/file.txt": text.encode("utf-8")}


class TestSaveAtomic:
    def test_round_trip(self, tmp_path):
        save_atomic({"model": torch.arange(3)}, tmp_path / "model.pt")
        assert torch.equal(torch.load(tmp_path / "model.pt", weights_only=True)["model"], torch.arange(3))
        assert list(files(tmp_path)) == ["model.pt"]

    def test_what_cannot_be_saved_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "model.pt"
        save_atomic({"model": torch.arange(3)}, path)
        before = files(tmp_path)
        with pytest.raises(Exception, match="pickle"):
            save_atomic({"model": torch.arange(4), "function": lambda: None}, path)
        assert files(tmp_path) == before


class TestCopyAtomic:
    def test_copies(self, tmp_path):
        (tmp_path / "a").write_bytes(b"content")
        copy_atomic(tmp_path / "a", tmp_path / "folder" / "b")
        assert (tmp_path / "folder" / "b").read_bytes() == b"content"

    def test_what_cannot_be_read_leaves_the_old_file(self, tmp_path):
        (tmp_path / "b").write_bytes(b"before")
        with pytest.raises(FileNotFoundError):
            copy_atomic(tmp_path / "nothing", tmp_path / "b")
        assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("b", b"before")]
