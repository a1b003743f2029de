"""Tests of writing files in one step."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import zipfile
from pathlib import Path

import pytest
import torch
from helpers import Forked, refusal

from dcl_monai.utils import DataError
from dcl_monai.utils.files import (
    copy_atomic,
    file_hash,
    load_checked,
    remove_stale,
    replace_atomic,
    save_atomic,
    write_atomic,
)


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

        with pytest.raises(error):
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


class TestWriteError:
    """One line that names the true cause."""

    def test_full_disk(self, tmp_path):
        """As a process sees it whose files may not grow: torch itself says `unexpected pos 704 vs 598`."""
        program = (
            "import resource, sys, torch\n"
            "from dcl_monai.utils import report_user_errors\n"
            "from dcl_monai.utils.files import save_atomic\n"
            "report_user_errors()\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, 10**5))\n"
            "save_atomic({'a': torch.zeros(10**6)}, sys.argv[1])\n"
        )
        path = tmp_path / "model.pt"
        path.write_bytes(b"before")
        done = Forked("-c", program, path).wait()
        assert done.returncode == 1
        assert done.stderr == (
            f"error: {path}: cannot be written (File too large). Make room on the disk, or choose another folder.\n"
        )
        assert files(tmp_path) == {"model.pt": b"before"}

    @pytest.mark.parametrize(
        ("number", "words"),
        [
            (errno.ENOSPC, "No space left on device). Make room"),
            (errno.EROFS, "Read-only file system). Choose a folder"),
            (errno.EACCES, "Permission denied). Choose a folder"),
        ],
    )
    def test_says_what_the_system_says(self, tmp_path, number, words):
        def fail(temporary: Path) -> None:
            raise OSError(number, os.strerror(number), str(temporary))

        message = refusal(replace_atomic, tmp_path / "a.txt", fail)
        assert message.startswith(f"{tmp_path / 'a.txt'}: cannot be written ({words}")

    def test_folder_that_is_a_file(self, tmp_path):
        (tmp_path / "output").write_text("")
        with pytest.raises(DataError, match=r"output/a\.txt: cannot be written .(Not a directory|File exists)"):
            write_atomic(tmp_path / "output" / "a.txt", "text")


def test_content_is_on_the_disk_before_its_name(tmp_path, monkeypatch):
    """A power cut after the rename would otherwise leave an empty file under the good name."""
    done = []
    fsync, replace = os.fsync, os.replace
    names = {}

    def note_fsync(descriptor: int) -> None:
        done.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def note_replace(source: Path, target: Path) -> None:
        names["temporary"] = Path(source).name
        done.append(("replace", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_atomic(tmp_path / "a.txt", "text")
    assert done == [("fsync", names["temporary"]), ("replace", "a.txt"), ("fsync", tmp_path.name)]


def test_stale_files_are_removed(tmp_path):
    for name in (".model.pt.123.tmp", ".history.csv.9.tmp", ".mine.tmp", "a.5.tmp", "model.pt"):
        (tmp_path / name).write_text("")
    remove_stale(tmp_path, "model.pt")
    assert ".history.csv.9.tmp" in files(tmp_path)
    remove_stale(tmp_path)
    assert sorted(files(tmp_path)) == [".mine.tmp", "a.5.tmp", "model.pt"]
    remove_stale(tmp_path / "nowhere")


def test_equal_content_gives_equal_files(tmp_path):
    """Whatever the process and the name: the hash of a model names its weights."""
    program = (
        "import sys, torch\nfrom dcl_monai.utils.files import save_atomic\n"
        "save_atomic({'w': torch.arange(9.0), 'settings': {'classes': ['a', 'b']}}, sys.argv[1])"
    )
    paths = [tmp_path / "one.pt", tmp_path / "folder" / "other.pt"]
    for path in paths:
        assert Forked("-c", program, path).wait().returncode == 0
    assert len({hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}) == 1


def test_digest(tmp_path):
    (tmp_path / "file").write_text("ab")
    assert file_hash(tmp_path / "file") == hashlib.sha256(b"ab").hexdigest()


class TestLoadChecked:
    CONTENT = {"weights": {"a": torch.arange(40.0), "b": torch.ones(3, 3)}, "steps": [1, 2.5, "x"], "n": None}

    @pytest.fixture
    def path(self, tmp_path) -> Path:
        save_atomic(self.CONTENT, tmp_path / "file.pt")
        return tmp_path / "file.pt"

    def load(self, path):
        return load_checked(path, "a model", "copy it again")

    def refused(self, path, words):
        with pytest.raises(DataError, match=words) as raised:
            self.load(path)
        assert "\n" not in str(raised.value)
        assert str(raised.value).startswith(f"{path}: ")
        assert str(raised.value).endswith("copy it again.")

    def test_whole(self, path):
        assert str(self.load(path)) == str(self.CONTENT)

    def test_no_flipped_bit_changes_what_is_read(self, path):
        """Every bit in turn takes minutes: 200 at random, and those that make torch take a tensor for a folder."""
        whole, draw = path.read_bytes(), random.Random(0)
        places = [(draw.randrange(len(whole)), draw.randrange(8)) for _ in range(200)]
        for name in (b"archive/data/0", b"archive/data/1"):  # in the table at the end
            places.append((whole.rindex(name) - 8, 4))
        refused = []
        for place, bit in places:
            content = bytearray(whole)
            content[place] ^= 1 << bit
            path.write_bytes(content)
            try:
                assert str(self.load(path)) == str(self.CONTENT), (place, bit)
            except DataError as error:
                refused.append(str(error))
        assert len(refused) > 100
        assert not any("\n" in message for message in refused)

    @pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all", bytes(1000)])
    def test_foreign(self, path, content):
        path.write_bytes(content)
        self.refused(path, "cannot be read as a model")

    def test_truncated(self, path):
        whole = path.read_bytes()
        for keep in range(0, len(whole), len(whole) // 20):
            path.write_bytes(whole[:keep])
            self.refused(path, "cannot be read as a model")

    def test_zip_of_something_else(self, path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("letter.txt", "hello")
        self.refused(path, "cannot be read as a model")

    def test_bomb(self, path):
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data/999", bytes(10**7))
        self.refused(path, "unpacks to more than its own size")

    def test_missing_and_folder(self, tmp_path):
        self.refused(tmp_path / "nothing.pt", "no such file")
        self.refused(tmp_path, "no such file")

    @pytest.mark.parametrize("where", [{"a": {"b": [0]}}, {"b": (0,)}, [{"b": 0}]], ids=["deep", "tuple", "list"])
    def test_numbers_that_are_not_finite(self, path, where):
        def put(entry, value):
            if isinstance(entry, dict):
                return {key: put(part, value) for key, part in entry.items()}
            return [put(part, value) for part in entry] if isinstance(entry, list | tuple) else value

        save_atomic(put(where, torch.tensor([1.0, float("inf")])), path)
        self.refused(path, "b holds values that are not finite")
        save_atomic({"b": torch.zeros(1).expand(10**6, 10**6)}, path)
        self.refused(path, "b claims to be larger than the file")
