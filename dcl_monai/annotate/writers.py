"""Completed labels as other tools read them: nnU-Net v2, the Medical Segmentation Decathlon, one mask per structure."""

from __future__ import annotations

import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from dcl_monai.datalist import Datalist, Item, prediction_name
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.transforms.files import read_image
from dcl_monai.utils import DataError
from dcl_monai.utils.files import replace_atomic, write_atomic
from dcl_monai.utils.images import is_nifti, save_like
from dcl_monai.utils.tables import write_table

ENDING = ".nii.gz"


class Writer(ABC):
    """
    Writes the labels of every image, and in the end what describes them.

    Args:
        out: folder of the data set.
        datalist: the images.
        name: of the data set.
        modality: ``"CT"`` or another, as nnU-Net and the Decathlon tell it.
        number: of the data set, for nnU-Net.

    Raises:
        DataError: when two images would get the same name.
    """

    def __init__(self, out: Path, datalist: Datalist, name: str, modality: str = "MR", number: int = 1) -> None:
        self.out, self.datalist, self.name, self.modality, self.number = out, datalist, name, modality, number
        self.classes = datalist["classes"]
        self.split_of: dict[str, str] = {}
        for split in SPLITS:
            for item in datalist[split]:
                if case_name(item) in self.split_of:
                    raise DataError(f"{item['image']}: another image is called {case_name(item)!r}, too. Rename one.")
                self.split_of[case_name(item)] = split

    @abstractmethod
    def write(self, item: Item, labels: np.ndarray, ignored: np.ndarray) -> dict[str, str]:
        """
        Write one image's labels.

        Args:
            item: the image.
            labels: class indices (H, W, D).
            ignored: voxels that are to be left out, (H, W, D).

        Returns:
            what was written: kind -> path relative to :attr:`out`.
        """

    def finish(self, ignoring: bool) -> None:  # noqa: B027  # masks need none
        """Write what describes the data set; ``ignoring``: voxels may have been left out."""

    def link(self, image: str, path: Path) -> None:
        """Put an image in place: a link where the file has the right form, else a compressed copy."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # of an interrupted run
        if image.lower().endswith(ENDING):
            try:
                path.symlink_to(os.path.abspath(image))
            except OSError:  # a disk without links
                replace_atomic(path, lambda temporary: shutil.copyfile(image, temporary))
        else:
            source = open_geometry(image)
            save_like(source, np.asarray(source.dataobj), path, "dcl-monai image")


class DecathlonWriter(Writer):
    """The Decathlon's ``imagesTr``, ``labelsTr`` and ``dataset.json``, which ``--datalist`` takes as it is."""

    channel = ""

    @property
    def root(self) -> Path:
        """Folder of ``dataset.json``."""
        return self.out

    def paths(self, item: Item) -> dict[str, str]:
        """Where image and label of an item are, relative to :attr:`root`."""
        case = case_name(item)
        part = "Ts" if self.split_of[case] == "test" else "Tr"
        return {"image": f"images{part}/{case}{self.channel}{ENDING}", "label": f"labels{part}/{case}{ENDING}"}

    def write(self, item: Item, labels: np.ndarray, ignored: np.ndarray) -> dict[str, str]:
        written = {kind: self.root / path for kind, path in self.paths(item).items()}
        self.link(item["image"], written["image"])
        save_labels(item, np.where(ignored, len(self.classes), labels), written["label"])
        return {kind: path.relative_to(self.out).as_posix() for kind, path in written.items()}

    def content(self, ignoring: bool) -> dict[str, Any]:
        """What describes the data set."""
        values = dict(enumerate(self.classes)) | ({len(self.classes): "unlabelled"} if ignoring else {})
        return {
            "name": self.name,
            "modality": {"0": self.modality},
            "classes": self.classes,
            "labels": {str(value): name for value, name in values.items()},
            **{s: [{**self.paths(item), "subject": item["subject"]} for item in self.datalist[s]] for s in SPLITS},
        }

    def finish(self, ignoring: bool) -> None:
        text = json.dumps(self.content(ignoring), indent=1, ensure_ascii=False)
        write_atomic(self.root / "dataset.json", text + "\n")


class NNUNetWriter(DecathlonWriter):
    """nnU-Net v2, the same in ``DatasetNNN_name``: other names of images, and another ``dataset.json``."""

    channel = "_0000"

    @property
    def root(self) -> Path:
        letters = "".join(letter if letter.isalnum() else "_" for letter in self.name)
        return self.out / f"Dataset{self.number:03d}_{letters}"

    def content(self, ignoring: bool) -> dict[str, Any]:
        labels = {name: j for j, name in enumerate(["background", *self.classes[1:]])}
        return {
            "channel_names": {"0": self.modality},
            "labels": labels | ({"ignore": len(self.classes)} if ignoring else {}),
            "numTraining": sum(split != "test" for split in self.split_of.values()),
            "file_ending": ENDING,
        }


class MaskWriter(Writer):
    """One mask per structure, ``CASE/STRUCTURE.nii.gz``, as TotalSegmentator writes them."""

    def write(self, item: Item, labels: np.ndarray, ignored: np.ndarray) -> dict[str, str]:
        written = {}
        for j, name in enumerate(self.classes[1:], start=1):
            file = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
            written[name] = f"{case_name(item)}/{file}{ENDING}"
            save_labels(item, (labels == j) & ~ignored, self.out / written[name])
        if len(set(written.values())) < len(written):
            raise DataError(f"{self.out}: two of the classes give the same file name. Choose another --format.")
        return written


WRITERS: Mapping[str, type[Writer]] = {"nnunet": NNUNetWriter, "decathlon": DecathlonWriter, "masks": MaskWriter}
"""Writers by the name of their format."""


def case_name(item: Item) -> str:
    """Name of an image among the completed ones."""
    return prediction_name(item).removesuffix(ENDING)


def open_geometry(image: str) -> nib.Nifti1Image:
    """An image with its geometry, of NIfTI or of another format."""
    if is_nifti(image):
        return nib.load(image)  # type: ignore[return-value]  # nibabel's types know less
    loaded = read_image(image)
    return nib.Nifti1Image(loaded[0].numpy(), loaded.affine.numpy())


def save_labels(item: Item, labels: np.ndarray, path: Path) -> None:
    """Write labels with the geometry of their image."""
    source = open_geometry(item["image"])
    dtype = np.uint8 if labels.max(initial=0) < 256 else np.uint16
    save_like(source, labels.astype(dtype).reshape(source.shape), path, "dcl-monai completed")


def write_work_list(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write what a person should look at first, the least confident first."""
    head = ("image", "subject", "structure", "confidence", "volume_ml", "label")
    ranked = sorted(rows, key=lambda row: (row["confidence"], str(row["image"]), str(row["structure"])))
    write_table(path, [("rank", *head), *((k, *(row[name] for name in head)) for k, row in enumerate(ranked, 1))])
