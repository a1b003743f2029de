"""Caches of preprocessed volumes: how much they keep, and what they must not use."""

from __future__ import annotations

import os
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.data import CacheDataset, Dataset, MetaTensor, PersistentDataset
from monai.transforms import Compose, LoadImaged, NormalizeIntensityd, ScaleIntensityd, Spacingd

from dcl_monai.candidates import candidate_sets
from dcl_monai.data import ConditionalDataset, SliceDataset, cached_dataset
from dcl_monai.data.cache import DiskCacheDataset, transforms_key
from dcl_monai.transforms import LoadCandidatesd, drawings
from dcl_monai.utils import DataError

M = 3
MEGABYTES = 8 * 8 * 4 * 4 * 2 / 1e6  # of one preprocessed volume: image and label, float32


@pytest.fixture
def items(tmp_path) -> list[dict]:
    rng = np.random.default_rng(0)
    made = []
    for k in range(4):
        image, label = rng.normal(size=(8, 8, 4)).astype(np.float32), rng.integers(0, M, (8, 8, 4)).astype(np.uint8)
        paths = [str(tmp_path / f"{name}{k}.nii.gz") for name in ("image", "label")]
        for path, array in zip(paths, (image, label), strict=True):
            nib.save(nib.Nifti1Image(array, np.eye(4)), path)
        annotated = [k % M, (k + 1) % M]
        made.append({"image": paths[0], "label": paths[1], "subject": f"s{k}", "annotated": annotated})
    return made


def preprocessing(factor: float = 1.0, **more) -> Compose:
    """Preprocessing like that of the bundles."""
    return Compose(
        [
            LoadImaged("image", ensure_channel_first=True),
            LoadCandidatesd("label", M),
            Spacingd(["image", "label"], pixdim=[factor] * 3, mode=["bilinear", "nearest"]),
            NormalizeIntensityd("image"),
        ]
    )


def counted(monkeypatch) -> list[str]:
    """Files of labels, in the order in which they are read."""
    read: list[str] = []
    load = drawings.read_label
    monkeypatch.setattr(drawings, "read_label", lambda path: read.append(Path(path).name) or load(path))
    return read


def assert_same_volumes(a, b) -> None:
    assert len(a) == len(b)
    for one, other in zip((a[k] for k in range(len(a))), (b[k] for k in range(len(b))), strict=True):
        assert set(one) == set(other)
        for key in ("image", "label"):
            assert torch.equal(torch.as_tensor(one[key]), torch.as_tensor(other[key]))
            torch.testing.assert_close(one[key].affine, other[key].affine)
        assert candidate_sets(one["label"]) == candidate_sets(other["label"])
        assert one["subject"] == other["subject"]


def test_kinds(items, tmp_path):
    assert type(cached_dataset(items, preprocessing())) is Dataset
    assert isinstance(cached_dataset(items, preprocessing(), memory=1.0), CacheDataset)
    assert isinstance(cached_dataset(items, preprocessing(), 1.0, tmp_path / "cache"), PersistentDataset)


@pytest.mark.parametrize("kind", ["memory", "some memory", "disk"])
def test_every_cache_gives_what_is_read_without(items, tmp_path, kind):
    memory = {"memory": 1.0, "some memory": 2.5 * MEGABYTES / 1e3, "disk": 0.0}[kind]
    cached = cached_dataset(items, preprocessing(), memory, tmp_path / "cache" if kind == "disk" else None)
    for _ in range(2):
        assert_same_volumes(cached, cached_dataset(items, preprocessing()))


class TestMemory:
    @pytest.mark.parametrize(("volumes", "kept"), [(0.5, 0), (2.5, 2), (4.5, 4)])
    def test_as_many_as_fit(self, items, monkeypatch, caplog, volumes, kept):
        read = counted(monkeypatch)
        dataset = cached_dataset(items, preprocessing(), volumes * MEGABYTES / 1e3)
        assert ("fit into" in caplog.text) == (kept < 4)
        read.clear()
        for _ in range(2):
            for index in range(4):
                dataset[index]
        assert read == [f"label{k}.nii.gz" for k in range(kept, 4)] * 2

    def test_message(self, items, caplog):
        cached_dataset(items, preprocessing(), 2.5 * MEGABYTES / 1e3)
        assert "2 of 4 volumes fit into" in caplog.text
        assert "--cache_memory" in caplog.text


class TestDisk:
    @pytest.fixture
    def make(self, items, tmp_path, monkeypatch):
        """Read all items through the cache, and say which were read from their own files."""
        read = counted(monkeypatch)

        def make(**settings) -> list[str]:
            read.clear()
            dataset = DiskCacheDataset(items, preprocessing(**settings), tmp_path / "cache")
            for index in range(4):
                dataset[index]
            return list(read)

        return make

    everything = [f"label{k}.nii.gz" for k in range(4)]

    def test_used_by_a_later_run(self, make):
        assert make() == self.everything
        assert make() == []

    def test_other_settings_are_another_cache(self, make):
        make()
        assert make(factor=2.0) == self.everything
        assert make() == make(factor=2.0) == []

    @pytest.mark.parametrize("name", ["image1.nii.gz", "label1.nii.gz"])
    def test_a_changed_file_is_read_again(self, make, tmp_path, name):
        make()
        stat = (tmp_path / name).stat()
        os.utime(tmp_path / name, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
        assert make() == ["label1.nii.gz"]

    def test_another_annotation_is_read_again(self, make, items):
        make()
        items[2]["annotated"] = [1]
        assert make() == ["label2.nii.gz"]

    @pytest.mark.parametrize("spoil", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 99])
    def test_a_damaged_file_is_made_anew(self, make, tmp_path, caplog, spoil):
        make()
        path = sorted((tmp_path / "cache").iterdir())[0]
        path.write_bytes(spoil(path.read_bytes()))
        assert len(make()) == 1
        assert f"{path}: damaged" in caplog.text
        assert make() == []

    def test_no_file_is_ever_half_written(self, make, tmp_path, monkeypatch):
        def killed(content, path):
            path.write(b"half")
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(torch, "save", killed)
            with pytest.raises(KeyboardInterrupt):
                make()
        assert list((tmp_path / "cache").iterdir()) == []

    def test_nothing_in_it_runs_code(self, make, tmp_path):
        make()
        for path in (tmp_path / "cache").iterdir():
            torch.load(path, weights_only=True)

    def test_a_folder_that_cannot_be_written(self, items, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(DataError, match=r"file/cache: cannot be made .* Set --cache_dir to another folder"):
            DiskCacheDataset(items, preprocessing(), tmp_path / "file" / "cache")

    def test_a_full_disk(self, make, monkeypatch):
        def full(content, path):
            raise OSError("No space left on device")

        monkeypatch.setattr(torch, "save", full)
        with pytest.raises(DataError, match=r"cannot be written \(No space left on device\)\. Make room"):
            make()


def test_transforms_are_named_by_their_settings_alone(items):
    """Not by what they have done before, nor by where they lie in memory."""
    used, fresh = preprocessing(), preprocessing()
    used(dict(items[0]))
    assert transforms_key(used.transforms) == transforms_key(fresh.transforms)
    keys = {transforms_key(preprocessing(factor).transforms) for factor in (1.0, 2.0)}
    keys |= {transforms_key([NormalizeIntensityd("image")]), transforms_key([NormalizeIntensityd("label")])}
    keys |= {transforms_key([ScaleIntensityd("image")])}
    assert len(keys) == 5


def test_training_without_a_cache_reads_no_volume_twice_for_one_item(items, monkeypatch):
    """The target's volume and those of its conditions, of which several may come from one."""
    items = [item | {"annotated": [0, 1, 2]} for item in items[:2]]
    dataset = ConditionalDataset(SliceDataset(cached_dataset(items, preprocessing())), M)
    read = counted(monkeypatch)
    for index in range(len(dataset)):
        read.clear()
        dataset[index]
        assert len(read) == len(set(read)) <= 2


def test_metadata_survives_the_disk(items, tmp_path):
    dataset = DiskCacheDataset(items, preprocessing(2.0), tmp_path / "cache")
    dataset[0]
    volume = dataset[0]
    assert isinstance(volume["image"], MetaTensor)
    assert volume["label"].meta["filename_or_obj"].endswith("label0.nii.gz")
    assert torch.diagonal(volume["image"].affine).tolist() == [2, 2, 2, 1]
