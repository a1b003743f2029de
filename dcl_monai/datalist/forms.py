"""Forms of annotation that a table of label values does not tell: single slices, raters who disagree, borders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from dcl_monai.utils import DataError

from .items import ListedItem, UndividedItem, annotations_of
from .schema import DatasetEntry


def add_forms(items: Iterable[UndividedItem], entry: DatasetEntry, where: str) -> list[UndividedItem]:
    """
    Say of every annotation of a data set which slices count, how wide its borders are, and whether it may be disputed.

    Messages name ``where`` in the user's file it is described.
    """
    items, slices, chosen = list(items), entry.annotated_slices or {}, []
    for item in items:
        own = item.pop("annotated_slices", None)
        if own is not None and item.get("label") is None:
            raise DataError(f"{where}: {item['image']} has `annotated_slices` but no label. Add it.")
        pattern = entry_for(item, slices)
        chosen.append(pattern)
        forms = {
            "annotated_slices": slices[pattern] if own is None and pattern is not None else own,
            "uncertain_border": entry.uncertain_border or None,
            "disagreement": None if entry.disagreement == "error" else entry.disagreement,
        }
        said = {name: form for name, form in forms.items() if form is not None}
        for annotation in annotations_of(item):
            annotation.update(said)  # type: ignore[typeddict-item]
    refuse_unused(slices, chosen, f"{where}, `annotated_slices`")
    return items


def entry_for(item: ListedItem | UndividedItem, entries: Iterable[str]) -> str | None:
    """The entry that is for an item, by its subject or its name within the data set: of those that fit, the longest."""
    return max((pattern for pattern in entries if fits(pattern, item)), key=letters, default=None)


def refuse_unused(entries: Iterable[str], used: Sequence[str | None], where: str) -> None:
    """Refuse entries that are for no image; one that spells out nothing may be left over."""
    unused = [pattern for pattern in entries if letters(pattern) and pattern not in used]
    if unused:
        raise DataError(
            f"{where}: no image is left for the entry {unused[0]!r}. Compare it with the subjects and file names; of "
            "several entries that fit, the one with most letters counts. Wildcards are * and ? only."
        )


def letters(pattern: str) -> int:
    """How much of a name an entry spells out."""
    return len(pattern) - pattern.count("*") - pattern.count("?")


def fits(pattern: str, item: ListedItem | UndividedItem) -> bool:
    """Whether an entry is for an item."""
    pattern = pattern.replace("[", "[[]")  # but for * and ?, names are what they are
    return fnmatchcase(item["subject"], pattern) or fnmatchcase(item["case"], pattern)
