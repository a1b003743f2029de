"""Mistakes and oddities of a datalist, found in the records of its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from dcl_monai.candidates import indistinct_classes
from dcl_monai.datalist.items import Datalist, annotations_of, channels_of, item_sets, shown_classes
from dcl_monai.datalist.splits import SPLITS

from .records import ANNOTATED, SEEN, CaseRecord, Problem, State

THICK, COVERING = 0.1, 0.5
"""Structures of which a smaller part lies deep inside are strokes; background is suspicious that covers more."""
FEW_SUBJECTS = 4
"""Fewer training subjects than these show a class to few conditions."""
SPACING_RATIO = 3.0
"""Data sets whose voxels differ by more look as if a header were wrong."""
VOLUME_RATIO, VOLUME_DEVIATIONS, VOLUME_CASES = 4.0, 6.0, 10
"""A volume is odd that differs from the median by this ratio and by so many robust standard deviations (of the
logarithm), if the data set has so many cases."""


def find_problems(datalist: Datalist, records: Sequence[CaseRecord]) -> list[Problem]:
    """
    Find what is wrong with a datalist.

    Args:
        datalist: the datalist.
        records: what its files hold, from :func:`inspect_datalist`.

    Returns:
        all errors, then all warnings.
    """
    classes = datalist["classes"]
    found = [
        *_empty_splits(datalist),
        *dict.fromkeys(problem for record in records for problem in (*record.files.problems, *record.problems)),
        *_strokes_in_background(datalist, records),
        *_nothing_known(records),
        *_channels(datalist, records),
        *_subjects_in_two_splits(records),
        *_duplicates(records),
        *_classes_never_shown(datalist),
        *_validation_shows_nothing(datalist, records),
        *_always_empty(classes, records),
        *_too_few_conditions(datalist, records),
        *_odd_volumes(classes, records),
        *_different_spacings(records),
    ]
    return sorted(found, key=lambda problem: problem.severity != "error")


def first_of(problems: Sequence[Problem]) -> str:
    """The message of the first of several problems, and how many more there are."""
    more = f" (and {len(problems) - 1} more, see python -m dcl_monai check)" if len(problems) > 1 else ""
    return problems[0].message + more


def _empty_splits(datalist: Datalist) -> Iterator[Problem]:
    for split, items in (("training", datalist["training"]), ("validation", datalist["validation"])):
        if not items:  # one may train without a test
            yield Problem("error", "Empty list", f"the {split} list is empty: add images to it.")


def _strokes_in_background(datalist: Datalist, records: Sequence[CaseRecord]) -> Iterator[Problem]:
    """Scribbles of which the value that is left where nobody drew is taken for background."""
    items = [item for split in SPLITS for item in datalist[split]]
    for dataset in dict.fromkeys(record.dataset for record in records):
        found = [(r, i) for r, i in zip(records, items, strict=True) if r.dataset == dataset and r.files.strokes[0]]
        if not found or sum(r.files.strokes[1] for r, _ in found) > THICK * sum(r.files.strokes[0] for r, _ in found):
            continue
        for record, item in found:
            counts: Counter[int] = Counter()
            for choices, number in record.files.voxels.items():
                counts.update({drawing[0]: number for choice in choices[:1] for drawing in choice[:1]})
            value, number = counts.most_common(1)[0]
            annotation = annotations_of(item)[0]
            blank = [other for other in annotation.get("unlabelled", ()) if other in counts]
            meant = annotation.get("values", {}).get(value)
            if blank and meant in (0, [0]) and number > COVERING * counts.total():
                yield Problem(
                    "warning",
                    "Strokes in background",
                    f"{record.files.labels[0]}: its structures are thin strokes, but {number / counts.total():.0%} of "
                    f"the image are labelled as background (value {value}). If nobody drew there, write {value}: "
                    f"unlabelled, {blank[0]}: background in `values` of data set {dataset!r}.",
                )
                break


def _nothing_known(records: Sequence[CaseRecord]) -> Iterator[Problem]:
    blank = [r for r in records if r.files.labels and r.files.voxels and not r.problems and not any(r.known)]
    if blank:
        yield Problem(
            "warning",
            "Nothing is known",
            f"{', '.join(blank[0].files.labels[:2])}: nothing is known of any voxel ({len(blank)} such label(s)). "
            "Check that they are not empty, and `values`, `annotated`, `annotated_slices` and `uncertain_border`.",
        )


def _channels(datalist: Datalist, records: Sequence[CaseRecord]) -> Iterator[Problem]:
    names = channels_of(datalist)
    files = {record.files.image: record.files for record in records if record.files.shape}
    for image, file in files.items():
        if file.channels != len(names):
            named = ", ".join("ABC"[: file.channels]) + ", ..." * (file.channels > 3)
            remedy = (
                f"If these are channels and no frames, name them: `channels: [{named}]`; "
                "otherwise pick one and save it as a file of its own."
                if len(names) == 1
                else "Correct `channels` or the file."
            )
            yield Problem(
                "error",
                "Several frames or channels",
                f"{image}: holds {file.channels} frames or channels of size {file.shape}, but the list has "
                f"{len(names)} channel{'s' * (len(names) > 1)}. {remedy}",
            )
    unsized = "the picture does not say how large a pixel is, 1 mm is assumed. Give `pixel_size` of the data set in mm."
    resampled = (
        "further channels lie on another grid than the first and are resampled onto it. Look at the pictures: do they "
        "fit?"
    )
    for kind, found, told in (
        ("Pixel size unknown", [image for image, file in files.items() if file.unsized], unsized),
        ("Channels on different grids", [image for image, file in files.items() if file.resampled], resampled),
    ):
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            yield Problem("warning", kind, f"{found[0]}{more}: {told}")


def _subjects_in_two_splits(records: Sequence[CaseRecord]) -> Iterator[Problem]:
    first: dict[str, CaseRecord] = {}
    told = set()
    for record in records:
        other = first.setdefault(record.subject, record)
        if other.split != record.split and (record.subject, record.split) not in told:
            told.add((record.subject, record.split))
            yield Problem(
                "error",
                "Subject in two splits",
                f"{record.files.image} ({record.split}): its subject {record.subject!r} is also in {other.split} "
                f"({other.files.image}). Put all images of a subject into one split.",
            )


def _duplicates(records: Sequence[CaseRecord]) -> Iterator[Problem]:
    alike: dict[str, dict[tuple[str, str], CaseRecord]] = {}
    for record in records:
        if record.files.content and not record.files.constant:
            alike.setdefault(record.files.content, {})[record.split, record.files.image] = record
    for copies in alike.values():
        first, *others = copies.values()
        for other in others:
            across = other.split != first.split
            yield Problem(
                "error" if across else "warning",
                "Same image in two splits" if across else "Same image twice",
                f"{other.files.image} ({other.split}): holds the same pixels as {first.files.image} ({first.split}). "
                + ("Remove one of them from the list." if across else "Remove one, or list it with two labels."),
            )


def _classes_never_shown(datalist: Datalist) -> Iterator[Problem]:
    classes = datalist["classes"]
    shown = {j for item in datalist["training"] for j in shown_classes(item, len(classes))}
    told = {bits for item in datalist["training"] for bits in item_sets(item, len(classes))}
    if not datalist["training"]:
        return
    # of two classes that nothing tells apart, the latter is named: the background is what it would be taken for
    mixed = {later: earlier for earlier, later in reversed(indistinct_classes(told, len(classes)))}
    for j in sorted(set(range(len(classes))) - shown):
        if j in mixed:
            yield Problem(
                "error",
                "Class annotated nowhere",
                f"class {classes[j]!r} is annotated in no training image, and no label distinguishes it from "
                f"{classes[mixed[j]]!r}: add images that show it, or remove it from `classes`.",
            )
        elif j not in mixed.values():
            yield Problem(
                "warning",
                "Class never drawn on its own",
                f"no training image has class {classes[j]!r} annotated on its own: it is learned by exclusion, without "
                "conditions. If you can, annotate it in some images.",
            )


def _validation_shows_nothing(datalist: Datalist, records: Sequence[CaseRecord]) -> Iterator[Problem]:
    classes, items = datalist["classes"], datalist["validation"]
    if not items:
        return
    if not any(shown_classes(item, len(classes)) for item in items):
        yield Problem(
            "error",
            "Validation shows nothing",
            f"no class is annotated on its own in any of the {len(items)} validation image(s), so no model can be "
            f"chosen (the first is {items[0]['image']}). Add labelled images.",
        )
        return
    states = [record.states for record in records if record.split == "validation"]
    told = {state for case in states for state in case[1:]}
    if not told & {*SEEN, State.UNION, State.UNREAD}:
        yield Problem(
            "error",
            "Validation shows nothing",
            f"no structure is drawn in any of the {len(items)} validation label(s), so no model can be chosen (the "
            f"first is of {items[0]['image']}). Check that the label files are not empty, or add labelled images.",
        )
        return
    if State.PRESENT not in told and State.STROKES in told:
        yield Problem(
            "warning",
            "Validation by strokes",
            "the validation labels are known in part only (scribbles, ignored regions, single slices): Dice is "
            "measured where they are, and is not the Dice of whole structures. Add a few images labelled in full, if "
            "you can.",
        )
    blind = [name for j, name in enumerate(classes) if j and not any(state[j] in SEEN for state in states)]
    if blind and not any(State.UNREAD in state for state in states):
        yield Problem(
            "warning",
            "Class not seen in validation",
            f"no validation image shows {', '.join(blind)}: the model is chosen without looking at it. Add images that "
            "show it.",
        )


def _always_empty(classes: Sequence[str], records: Sequence[CaseRecord]) -> Iterator[Problem]:
    for dataset in dict.fromkeys(record.dataset for record in records):
        for j, name in enumerate(classes):
            annotated = [r for r in records if r.dataset == dataset and r.states[j] in ANNOTATED]
            if annotated and not any(record.states[j] in SEEN for record in annotated):
                yield Problem(
                    "warning",
                    "Class always empty",
                    f"data set {dataset!r}: class {name!r} is annotated in {len(annotated)} image(s) and empty in all "
                    f"of them (the first is {annotated[0].files.image}). If it was not drawn there, correct `values` "
                    "or `annotated`.",
                )


def _too_few_conditions(datalist: Datalist, records: Sequence[CaseRecord]) -> Iterator[Problem]:
    shown = {j for item in datalist["training"] for j in shown_classes(item, len(datalist["classes"]))}
    training = [record for record in records if record.split == "training"]
    if any(State.UNREAD in record.states for record in training):
        return
    few = {j: len({record.subject for record in training if record.states[j] in SEEN}) for j in sorted(shown)}
    for number in sorted({number for number in few.values() if number < FEW_SUBJECTS}):
        names = ", ".join(datalist["classes"][j] for j in few if few[j] == number)
        remedy = (
            "the default method needs two, so that every image can be shown another one with this class, and will "
            "refuse it: add images that show it, or train without conditions (configs/self_training.json)."
            if number < 2
            else f"{FEW_SUBJECTS} or more are better. Add images that show it, if you can."
        )
        yield Problem(
            "warning", "Class seen in few subjects", f"{names}: seen in {number} training subject(s); {remedy}"
        )


def _odd_volumes(classes: Sequence[str], records: Sequence[CaseRecord]) -> Iterator[Problem]:
    for dataset in dict.fromkeys(record.dataset for record in records):
        for j, name in enumerate(classes[1:], start=1):
            cases = {r.files.image: r for r in records if r.dataset == dataset and r.states[j] is State.PRESENT}
            if len(cases) < VOLUME_CASES:
                continue
            logarithms = np.log([record.volumes[j] for record in cases.values()])
            distances = np.abs(logarithms - np.median(logarithms))
            limit = max(np.log(VOLUME_RATIO), VOLUME_DEVIATIONS * 1.4826 * np.median(distances))
            usual = f"{np.exp(np.median(logarithms)):.3g} ml are usual in data set {dataset!r}. Look at the label."
            for record, distance in zip(cases.values(), distances, strict=True):
                if distance > limit:
                    found = f"{', '.join(record.files.labels)}: {name} has {record.volumes[j]:.3g} ml"
                    yield Problem("warning", "Unusual volume", f"{found}, while {usual}")


def _different_spacings(records: Sequence[CaseRecord]) -> Iterator[Problem]:
    spacings: dict[str, list[tuple[float, ...]]] = {}
    for record in records:
        if record.files.voxels:
            spacings.setdefault(record.dataset, []).append(record.files.spacing)
    # data sets may mix 2D and 3D images: only the axes that all have are compared
    medians = {
        dataset: [float(np.median(axis)) for axis in zip(*found, strict=False)] for dataset, found in spacings.items()
    }
    for (one, first), (other, second) in combinations(medians.items(), 2):
        if any(max(a, b) > SPACING_RATIO * min(a, b) for a, b in zip(first, second, strict=False)):
            yield Problem(
                "warning",
                "Very different voxel sizes",
                f"data sets {one!r} and {other!r}: their voxels are {_size(first)} and {_size(second)}. Check the "
                "headers; if they are right, bring all images to one voxel size when loading them.",
            )


def _size(spacing: Sequence[float]) -> str:
    return " x ".join(f"{size:.3g}" for size in spacing) + " mm"
