"""What the label values of a data set mean, by class name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, cast

from dcl_monai.candidates import from_bits
from dcl_monai.utils import DataError

from .dicom import label_file, region_names
from .forms import entry_for, refuse_unused
from .items import Annotation, ListedItem, UndividedItem, annotation_table
from .schema import UNLABELLED, unknown_name

Names = Sequence[str]


class LabelMeaning:
    """
    The label values of one data set, and what is annotated in its images.

    Where a data set does not say what is annotated, everything that its values name is, but the background: the value
    that is left where nobody drew means "none of the structures drawn here", and that is the background only if every
    other class is drawn.

    Args:
        classes: class names of the model, background first.
        unions: names of unions and their classes.
        values: label value -> names it stands for.
        annotated: names that are annotated, by subject or file name (``*`` and ``?`` stand for any text; of the
            entries that fit the one with most letters counts, so their order means nothing); default: see above.
        where: place in the user's file, for messages.
        aliases: names that the data set has for classes and unions.
        overlap: what becomes of voxels that lie in several masks, see :func:`~dcl_monai.candidates.agreed`.

    Raises:
        DataError: when a name is unknown, or a class has no label value that an annotator could have given it.
    """

    def __init__(
        self,
        classes: Names,
        unions: Mapping[str, Names],
        values: Mapping[int, Names] | None,
        annotated: Mapping[str, Names] | None,
        where: str,
        aliases: Mapping[str, str] | None = None,
        overlap: str = "error",
    ) -> None:
        self.classes = list(classes)
        self.unions = unions
        self.overlap = overlap
        self.aliases = dict(aliases or {})
        known = [*self.classes, *self.unions, UNLABELLED]
        for alias, name in self.aliases.items():
            if name not in known and alias in known:
                raise DataError(f"{where}, `names`: is the wrong way round. Write {name!r}: {alias!r}.")
            if name not in known:
                raise DataError(f"{where}, `names`, {alias!r}: {unknown_name(name, known)}.")
            if alias in known and alias != name:
                raise DataError(f"{where}, `names`: {alias!r} is a name of the file itself. Take it out of `names`.")
        self.by_name = annotated
        self.where = where
        self.values: dict[int, list[int]] = {}
        self.unlabelled: list[int] = []
        for value, names in (values or {}).items():
            place = f"`values`, value {value}"
            names = [self.aliases.get(name, name) for name in names]
            if UNLABELLED in names and len(names) > 1:
                raise DataError(f"{where}, {place}: is {UNLABELLED} and something else. Choose one.")
            if UNLABELLED in names:
                self.unlabelled.append(value)
                continue
            self.values[value] = self.members(names, place)
            if len(self.values[value]) == len(self.classes):
                raise DataError(f"{where}, {place}: means every class, so nothing is known. Write {UNLABELLED}.")
        if values and not self.values:
            raise DataError(f"{where}, `values`: no value stands for a class. Name one, or leave the labels out.")
        if values and not self.unlabelled and not any(0 in members for members in self.values.values()):
            raise DataError(
                f"{where}, `values`: no value stands for {self.classes[0]}. Add it, like 0: {self.classes[0]}, even if "
                "no image shows it."
            )
        # A value that may be background is the one left where nobody drew, unless there is no other.
        meant = [list(members) for members in sorted({tuple(members) for members in self.values.values()})]
        self.default = [members for members in meant if 0 not in members] or meant

    def members(self, names: Iterable[str], place: str) -> list[int]:
        """Class indices of names of classes and unions."""
        members: set[int] = set()
        for name in (self.aliases.get(name, name) for name in names):
            if name not in self.unions and name not in self.classes:
                raise DataError(f"{self.where}, {place}: {unknown_name(name, [*self.classes, *self.unions])}.")
            members |= {self.classes.index(member) for member in self.unions.get(name, [name])}
        if not members:
            raise DataError(f"{self.where}, {place}: no name is given. Name what the value stands for.")
        return sorted(members)

    def sets(self, annotated: Iterable[str | int], place: str) -> list[list[int]]:
        """Turn names (or label values) that are annotated into sets of class indices that the values can show."""
        result: list[list[int]] = []
        for name in annotated:
            if isinstance(name, int) and name not in self.values:
                raise DataError(
                    f"{self.where}, {place}: no label value {name}; the values are {sorted(self.values)}. Numbers are "
                    "label values of the data set; names are safer."
                )
            members = self.values[name] if isinstance(name, int) else self.members([name], place)
            inside = [value for value, meant in self.values.items() if set(meant) <= set(members)]
            across = [v for v, meant in self.values.items() if v not in inside and set(meant) & set(members)]
            if across:
                raise DataError(
                    f"{self.where}, {place}: {name!r} cannot be distinguished: label value {across[0]} stands for "
                    f"{self.names(self.values[across[0]])} at once. Say that the union is annotated instead."
                )
            if not inside:
                raise DataError(
                    f"{self.where}, {place}: {name!r} is annotated, but no label value stands for it. Add its value to "
                    "`values`, even if no image shows it."
                )
            if members not in result:
                result.append(members)
        self.require_place(result, place)
        return result

    def require_place(self, annotated: Sequence[Sequence[int]], place: str) -> None:
        """Refuse an annotation that leaves voxels of some class without a label value, as they would be mislabelled."""
        named = {j for members in self.values.values() for j in members}
        annotation: Annotation = {"values": self.values, "unlabelled": self.unlabelled, "annotated": annotated}
        table = annotation_table(annotation, len(self.classes))
        left = {j for value, bits in table.items() if 0 in self.values.get(value, [0]) for j in from_bits(bits)}
        lost = sorted(set(range(len(self.classes))) - named - left)
        if lost:
            raise DataError(
                f"{self.where}, {place}: no label value can mean {self.names(lost)}, because {self.classes[0]} has a "
                "value of its own. If it may be where nobody drew, list in `annotated` only what was drawn, without "
                f"{self.classes[0]}; otherwise add its value to `values`, even if no image shows it."
            )

    def names(self, members: Iterable[int]) -> str:
        """Class names, for messages."""
        return ", ".join(self.classes[j] for j in members)

    def annotate(self, items: Iterable[ListedItem]) -> list[UndividedItem]:
        """Say what the labels of the items mean; their own ``annotated`` comes before that of the data set."""
        result, used = [], []
        for item in items:
            fitting = entry_for(item, self.by_name or ())
            used += [fitting] if fitting is not None else []
            result.append(self._annotated(item, fitting))
        refuse_unused(self.by_name or (), used, f"{self.where}, `annotated`")
        return result

    def _annotated(self, item: ListedItem, pattern: str | None) -> UndividedItem:
        own = item.get("annotated")
        result = cast(UndividedItem, {key: value for key, value in item.items() if key not in ("annotated", "masks")})
        regions = label_file(item["label"]) if "label" in item else None
        masks = self.mask_annotations(item.get("masks", {}), f"{self.where}, `masks`")
        if regions is not None:
            if own is not None or pattern is not None or self.values:
                raise DataError(
                    f"{regions}: its regions say by their names what is annotated. Leave `values` and `annotated` of "
                    f"{self.where} out; `names` has other names for classes."
                )
            result.pop("label")
            masks = self.region_annotations(regions)
        if masks:
            result.update(masks[0])  # type: ignore[typeddict-item]
        if masks[1:]:
            result["further_labels"] = masks[1:]
        if masks or regions is not None:
            return result
        if "label" not in item:
            if own is not None:
                raise DataError(f"{self.where}: {item['image']} is `annotated` but has no label. Add it.")
            return result
        if not self.values:
            if Path(item["label"]).is_dir() or item["label"].lower().endswith(".dcm"):
                raise DataError(
                    f"{item['label']}: is no RTSTRUCT or SEG, nor a folder with a single one. Correct `labels` of "
                    f"{self.where}; for other labels add `values`."
                )
            raise DataError(
                f"{self.where}: `values` is missing; say what each label value means, like values: {{0: "
                f"{self.classes[0]}, 1: {self.classes[1]}}}."
            )
        if own is not None:
            sets = self.sets(own, f"`annotated` of {item['image']}")
        elif self.by_name is None:
            sets = self.default
            self.require_place(sets, "`values`")
        elif pattern is not None:
            sets = self.sets(self.by_name[pattern], "`annotated`" if pattern == "*" else f"`annotated`, {pattern!r}")
        else:
            raise DataError(
                f"{self.where}, `annotated`: no entry fits subject {item['subject']!r} (case {item['case']!r}). Add "
                "it, or an entry '*' for all others."
            )
        result["values"] = self.values
        result["annotated"] = [members[0] if len(members) == 1 else members for members in sets]
        if self.unlabelled:
            result["unlabelled"] = self.unlabelled
        return result

    def region_annotations(self, path: str) -> list[Annotation]:
        """What the regions of an RTSTRUCT or SEG say; those that ``names`` calls unlabelled say nothing."""
        names = [name for name in region_names(path) if self.aliases.get(name) != UNLABELLED]
        found = self.mask_annotations(dict.fromkeys(names, path), f"{path}, of {self.where}")
        return [{**annotation, "region": name} for annotation, name in zip(found, names, strict=True)]

    def mask_annotations(self, masks: Mapping[str, str], place: str) -> list[Annotation]:
        """What the masks of an image, by structure, say: inside is the structure, outside everything else."""
        known = [*self.classes, *self.unions, *self.aliases]
        unknown = [name for name in masks if name not in known]
        if unknown:
            told = "; ".join(unknown_name(name, known[: len(self.classes) + len(self.unions)]) for name in unknown)
            raise DataError(f"{place}: {told}. Say in `names` what a name stands for, or take it out.")
        result: list[Annotation] = []
        seen: dict[tuple[int, ...], str] = {}
        for name, path in masks.items():
            if self.aliases.get(name) == UNLABELLED:
                raise DataError(f"{place}: {name!r} is {UNLABELLED}. Leave the mask out.")
            members = self.members([name], "`masks`")
            other = seen.setdefault(tuple(members), name)
            if other != name:
                raise DataError(
                    f"{place}: {other!r} and {name!r} are both {self.names(members)}. Merge the masks, "
                    "or make two classes of them and a union."
                )
            outside = [j for j in range(len(self.classes)) if j not in members]
            annotation: Annotation = {
                "label": path,
                "values": {0: outside, 1: members, 255: members},
                "annotated": [members[0] if len(members) == 1 else members],
                "rater": 0,
            }
            if self.overlap != "error":
                annotation["overlap"] = cast(Literal["first", "either"], self.overlap)
            result.append(annotation)
        return result
