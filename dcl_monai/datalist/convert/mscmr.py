"""MSCMR: late-enhancement MR ``subjectN_DE``, labels ``subjectN_DE_manual``, strokes ``subjectN_DE_scribble``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError
from dcl_monai.utils.errors import in_a_line

from .files import Note, described, described_unlabelled, existing_folder, files_by_subject, log, refuse_unpaired
from .ring import Ring, find_ring

CLASSES = ["background", "RV", "MYO", "LV"]
ORIGINAL = {0: "background", 200: "MYO", 500: "LV", 600: "RV"}
REDUCED = (0, 1, 2, 3)
BLANK = {4: 0, 0: 4}
"""Value of a scribble file that is left where nobody drew -> value of the strokes in the background."""
FOLDERS = {"training": r"train\w*", "validation": r"val\w*", "test": r"test\w*"}
"""Names of folders that say in which split an image is."""


def convert_mscmr(
    root: str | Path, unlabelled: bool = False, order: str | None = None, note: Note = log
) -> dict[str, Any]:
    """
    Describe the late-enhancement images of MSCMR; other sequences are ignored.

    Label values are the original ones (200 MYO, 500 LV, 600 RV) or 1 to 3 in some order. The anatomy tells which: the
    blood pool that the myocardium encloses is the LV. All label files are read, and all must agree.

    Folders named like ``train``, ``val`` and ``TestSet`` are the splits. Without such folders the labelled images are
    split 25/5/15 as in the paper.

    Args:
        root: folder that holds images and labels, at any depth.
        unlabelled: whether images without a label are used for training, too.
        order: what the values 1, 2, 3 are, like ``RV,MYO,LV``, where the files do not tell.
        note: called with a sentence about what is left out or assumed.

    Raises:
        DataError: when a file is missing, files disagree about the label values, or labels of one subject lie in two
            splits.
    """
    root = existing_folder(root, "subject1_DE.nii.gz, subject1_DE_manual.nii.gz, ...")
    found = {
        kind: files_by_subject(root, rf"(?P<subject>subject\d+)_DE{ending}\.nii(\.gz)?")
        for kind, ending in (("image", ""), ("manual", "_manual"), ("scribble", "_scribble"))
    }
    images, manual = found["image"], found["manual"]
    if not images:
        raise DataError(f"{root}: no subjectN_DE.nii.gz below it. Give the folder that holds the images of MSCMR.")
    scribbles = {subject: path for subject, path in found["scribble"].items() if subject not in manual}
    twice = len(found["scribble"]) - len(scribbles)
    if twice:
        note(f"{twice} scribble file(s) are left out: their subjects have manual labels.")
    labels = {**manual, **scribbles}
    refuse_unpaired(root, images, labels)
    meanings = find_meanings(root, manual.values(), found["scribble"].values(), order, note)
    for subject in found["scribble"].keys() & manual:
        refuse_other_strokes(found["scribble"][subject], manual[subject], meanings[1])
    datasets: dict[str, Any] = {}
    splits = {subject: split_of(path, root) for subject, path in images.items()}
    for name, files, values in (("MSCMR", manual, meanings[0]), ("MSCMR scribbles", scribbles, meanings[1])):
        for split in (None, *SPLITS):
            members = {subject: path for subject, path in files.items() if splits[subject] == split}
            if members and split is None:
                datasets[name] = described(root, images, members, values=dict(values))
            elif members:
                datasets[f"{name} {split}"] = described(root, images, members, values=dict(values), split=split)
    refuse_mixture(root, images, labels, splits, note)
    blank = {subject: path for subject, path in images.items() if subject not in labels}
    usable = [subject for subject in blank if splits[subject] in (None, "training")]
    datasets |= described_unlabelled("MSCMR", root, blank, usable, unlabelled, note)
    return {
        "classes": list(CLASSES),
        "unions": {"whole heart": CLASSES[1:]},
        "split": [25, 5, 15],
        "datasets": datasets,
    }


def split_of(path: Path, root: Path) -> str | None:
    """The split that the folders of a file name, if they do."""
    for folder in path.relative_to(root).parts[:-1]:
        for split, expression in FOLDERS.items():
            if re.fullmatch(expression, folder, re.IGNORECASE):
                return split
    return None


def refuse_mixture(
    root: Path, images: Mapping[str, Path], labels: Mapping[str, Path], splits: Mapping[str, str | None], note: Note
) -> None:
    """Say which splits the folders name; refuse images and labels in different ones, and images in none."""
    for subject, label in labels.items():
        if split_of(label, root) != splits[subject]:
            raise DataError(
                f"{label}: lies in the folder of {split_of(label, root) or 'no split'}, but its image "
                f"{images[subject]} in that of {splits[subject] or 'no split'}. Put both into one."
            )
    named = {subject: splits[subject] for subject in labels if splits[subject]}
    if named and len(named) < len(labels):
        alone = next(images[subject] for subject in labels if subject not in named)
        raise DataError(
            f"{alone}: is in no folder of training, validation or test, but others below {root} are. Move it into one "
            "of them."
        )
    if named:
        counts = Counter(named.values())
        told = ", ".join(f"{counts[split]} {split}" for split in SPLITS)
        note(f"The splits are those of the folders: {told}.")
        if not counts["validation"]:
            note(
                "There is no folder of validation images: set `split: [80, 20, 0]` instead of `training`, for example."
            )


def find_meanings(
    root: Path, manual: Iterable[Path], scribbles: Iterable[Path], order: str | None, note: Note
) -> tuple[dict[int, str], dict[int, str]]:
    """Say what the values of the manual labels mean, and those of the scribbles."""
    manual, scribbles = list(manual), list(scribbles)
    rings, present = dict[Ring, Path](), dict[int, Path]()
    for path in manual:
        label = read_label(path)
        values = set(np.unique(label).tolist())
        check_values(path, values, present)
        present = dict.fromkeys(values, path) | present
        if (ring := find_ring(label)) is not None:
            rings.setdefault(ring, path)
        if len(rings) > 1:
            ((one, witness), (two, _)) = rings.items()
            raise DataError(
                f"{path}: value {two[0]} encloses {two[1]}, but in {witness} value {one[0]} encloses {one[1]}: the "
                "files use different label values. Use the same values in all files."
            )
    if manual and present.keys() <= {0}:
        raise DataError(f"{root}: all labels are empty. Give label files in which something is drawn.")
    ring, witness = next(iter(rings.items()), (None, root))
    if present.keys() & {200, 500, 600}:
        names = dict(ORIGINAL)
        if ring not in (None, (200, 500)):
            raise DataError(
                f"{witness}: value {ring[0]} encloses {ring[1]}, but 200 is MYO, which encloses 500, LV. This copy "
                "may use other label values. Correct the files."
            )
    else:
        names = {0: "background"} | reduced_names(ring, witness, order, note)
    if not scribbles:
        return names, {}
    return names, scribble_values(scribbles, names, note)


def check_values(path: Path, values: set[int], others: Mapping[int, Path]) -> None:
    """Refuse values of neither numbering, and a mixture of both."""
    for value in sorted(values):
        if value not in ORIGINAL and value not in REDUCED:
            raise DataError(
                f"{path}: label value {value} is not one of MSCMR: original are 200, 500, 600, reduced 1, 2, 3. "
                "Correct the file."
            )
    both = sorted({*values, *others} - {0})
    if any(value in REDUCED for value in both) and any(value in ORIGINAL for value in both):
        odd = max(values - {0}, key=lambda value: value not in others)
        other = next(value for value in both if (value in REDUCED) != (odd in REDUCED))
        raise DataError(
            f"{path}: holds label value {odd}, but {others.get(other, path)} holds {other}: original and reduced "
            "values mix. Use the same values in all files."
        )


def reduced_names(ring: Ring | None, witness: Path, order: str | None, note: Note) -> dict[int, str]:
    """What the values 1 to 3 mean, by the ring that a file shows, the witness, or by the user's word."""
    said = None if order is None else dict(enumerate(map(str.strip, order.split(",")), start=1))
    if said is not None and sorted(said.values()) != sorted(CLASSES[1:]):
        raise DataError(
            f"--order {order}: name {', '.join(CLASSES[1:])}, each once, in the order of the values 1, 2, 3."
        )
    if ring is None:
        if said is None:
            raise DataError(
                f"{witness}: the files do not show what the values 1, 2 and 3 mean, as no structure encloses another. "
                "Say it with --order RV,MYO,LV, for example."
            )
        return said
    (other,) = {1, 2, 3} - {*ring}
    found = dict(sorted({ring[0]: "MYO", ring[1]: "LV", other: "RV"}.items()))
    told = ", ".join(f"{value} {name}" for value, name in found.items())
    if said not in (None, found):
        raise DataError(
            f"{witness}: value {ring[0]} encloses {ring[1]}, so the values are {told}, but --order says {order}. Leave "
            "--order out."
        )
    note(f"The label values are {told}: {ring[0]} encloses {ring[1]}, as the myocardium encloses the LV.")
    return found


def scribble_values(scribbles: Iterable[Path], names: Mapping[int, str], note: Note) -> dict[int, str]:
    """What the values of scribble files mean; the value that covers nearly everything is where nobody drew."""
    most: Counter[int] = Counter()
    for path in scribbles:
        values, counts = np.unique(read_label(path), return_counts=True)
        odd = sorted({*values.tolist()} - {*names, 0, 4})
        if odd:
            raise DataError(
                f"{path}: value {odd[0]} is not a known stroke; known are {sorted({*names, 0, 4})}. Correct the file."
            )
        blank = int(values[counts.argmax()])
        if blank not in BLANK:
            raise DataError(f"{path}: its most frequent value is {blank}, but strokes are thin. Is it a full label?")
        most[blank] += 1
        if len(most) > 1:
            raise DataError(
                f"{path}: is left blank with {blank}, other scribble files with {4 - blank}. Use one value."
            )
    (blank,) = most
    note(f"Scribbles: {blank} covers most of every image and is where nobody drew; {BLANK[blank]} is background.")
    return {blank: "unlabelled", BLANK[blank]: "background"} | {v: name for v, name in names.items() if v}


def refuse_other_strokes(scribble: Path, manual: Path, names: Mapping[int, str]) -> None:
    """Refuse strokes most of which lie in another structure of the manual label of the same subject."""
    strokes, label = read_label(scribble), read_label(manual)
    if strokes.shape != label.shape:
        raise DataError(f"{scribble}: its shape {strokes.shape} differs from {label.shape} of {manual}. Correct one.")
    for value in (value for value, name in names.items() if value and name in CLASSES[1:]):
        below, counts = np.unique(label[strokes == value], return_counts=True)
        if counts.size and int(below[counts.argmax()]) != value:
            most = int(below[counts.argmax()])
            raise DataError(
                f"{scribble}: strokes with value {value} lie mostly in value {most} of {manual}: the two "
                "use different label values. Use the same values in both."
            )


def read_label(path: Path) -> np.ndarray:
    """Whole-numbered values of a NIfTI file."""
    try:
        label = np.asanyarray(nib.Nifti1Image.from_filename(path).dataobj)
    except Exception as error:  # nibabel raises whatever it likes
        raise DataError(f"{path}: cannot be read as NIfTI ({in_a_line(error)}). Fetch the file again.") from error
    odd = label[~np.isfinite(label) | (label != np.rint(label))] if label.dtype.kind == "f" else label[:0]
    if odd.size:
        raise DataError(f"{path}: label value {odd.flat[0]:g} is not a whole number. Correct the file.")
    return label.astype(np.int64)
