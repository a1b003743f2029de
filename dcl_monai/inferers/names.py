"""The images of a folder, and the names of their outputs."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dcl_monai.datalist.sources import Pattern, filled_pattern
from dcl_monai.transforms.images import is_picture
from dcl_monai.utils import DataError
from dcl_monai.utils.images import is_nifti

logger = logging.getLogger(__name__)

NIFTI = "**/*.[nN][iI][iI]*"
"""All NIfTI files of a folder and those below it; some scanners write capital letters."""
LABELS = ("gt", "manual", "scribble*", "label*", "mask", "masks", "segmentation", "seg")
"""How names of label files end."""
LABEL_FOLDERS = ("labels", "labelstr", "labelsts", "segmentations", "masks")


def is_label(name: str) -> bool:
    """Whether a file, named relative to the folder and in lower case, is a label by its name."""
    *folders, last = Path(name).parts
    endings = any(fnmatch.fnmatch(f"_{last}", f"*[_-]{ending}.*") for ending in LABELS)
    return endings or any(folder in LABEL_FOLDERS for folder in folders)


def find_images(
    folder: str | Path,
    pattern: str | Sequence[str] = NIFTI,
    exclude: Sequence[str] = (),
    pixel_size: float | Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """
    List the images of a folder: NIfTI files, or pictures where the pattern says so. Hidden files are left out, and
    links to folders are not followed.

    Args:
        folder: the folder.
        pattern: which files, relative to the folder; ``**`` stands for any number of folders. Or a list of patterns,
            one per channel, as in a datalist: ``["{subject}_t1.nii.gz", "{subject}_t2.nii.gz"]``.
        exclude: patterns of file names that are no images, such as earlier outputs. Files that are labels by their
            names or folders (:func:`is_label`) are left out, too, unless there is no pattern at all.
        pixel_size: of pictures, mm per pixel, or width and height; default: as their files say, or 1 mm.

    Returns:
        items with the path of an ``image``, sorted; those of its other channels are its ``further_images``.

    Raises:
        DataError: when the folder is missing, or nothing in it fits.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root}: no such folder. Give the folder of the images (--dataset_dir).")
    size = [float(pixel_size)] * 2 if isinstance(pixel_size, (int, float)) else pixel_size
    known = {} if size is None else {"pixel_size": list(size)}
    if not isinstance(pattern, str):
        items = channel_files(root, pattern)
        return [item | known for item in items if not _left_out(Path(item["image"]), exclude)]
    try:
        found = sorted(path for path in root.glob(pattern) if is_nifti(path) or is_picture(path))
    except (NotImplementedError, ValueError) as error:
        raise DataError(f"--pattern {pattern!r}: {error}. Give a pattern like 'patient*/*.nii.gz'.") from error
    images = [path for path in found if not _left_out(path, exclude)]
    labels = {path for path in images if exclude and is_label(path.relative_to(root).as_posix().lower())}
    chosen = [path for path in images if path not in labels]
    if labels:
        logger.info(
            f"{len(labels)} file(s) are labels by their names and left out; the first is {min(labels)}. --exclude '[]' "
            "takes all files."
        )
    if not chosen:
        raise DataError(
            f"{root}: no NIfTI image fits --pattern {pattern!r} ({len(found)} left out by --exclude {list(exclude)}). "
            "Set --dataset_dir to a folder of .nii or .nii.gz files."
        )
    pictures = [path.with_suffix("") for path in chosen if is_picture(path)]
    if len(set(pictures)) < len(pictures):
        twice = next(name for name in pictures if pictures.count(name) > 1)
        raise DataError(f"{twice}: several pictures have this name, and would have one output. Narrow --pattern.")
    return [{"image": str(path)} | known for path in chosen]


def channel_files(root: Path, patterns: Sequence[str]) -> list[dict[str, Any]]:
    """Images of which every channel is a file, by a pattern for each."""
    first = Pattern(patterns[0], "--pattern")
    others = [filled_pattern(pattern, first, "--pattern") for pattern in patterns[1:]]
    items = []
    for name, fields in sorted(first.matches(str(root)).items()):
        further = [root / other.fill(fields) for other in others]
        missing = [path for path in further if not path.is_file()]
        if missing:
            raise DataError(f"{missing[0]}: no such file, though {root / name} should have this channel. Add it.")
        items.append({"image": str(root / name), "further_images": [str(path) for path in further]})
    if not items:
        raise DataError(
            f"{root}: no image fits --pattern {patterns[0]!r}. Give a pattern like '{{subject}}_t1.nii.gz'."
        )
    return items


def _left_out(path: Path, exclude: Sequence[str]) -> bool:
    """Whether a file is hidden, or no image by its name."""
    return path.name.startswith(".") or any(fnmatch.fnmatch(path.name.lower(), word.lower()) for word in exclude)


def output_name(name: str, suffix: str) -> str:
    """Name of an output: ``a/x.nii.gz`` becomes ``a/x_seg.nii.gz``, and ``a/x.jpg`` ``a/x_seg.png``."""
    if is_picture(name):
        return f"{name[: name.rindex('.')]}_{suffix}{'.png' if suffix == 'seg' else '.nii.gz'}"
    place = name.lower().rindex(".nii")
    return f"{name[:place]}_{suffix}{name[place:]}"
