"""The numbers of a report, shared by the terminal and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dcl_monai.datalist import Datalist, datalist_hash
from dcl_monai.datalist.splits import SPLITS

from .records import ANNOTATED, SEEN, CaseRecord, Problem, State


@dataclass
class Summary:
    """A datalist, what its files hold, and what is wrong with them."""

    name: str  # the file that describes the data
    datalist: Datalist
    records: Sequence[CaseRecord]  # one per item, from inspect_datalist
    problems: Sequence[Problem]  # from find_problems

    @property
    def classes(self) -> list[str]:
        """Class names, background first."""
        return list(self.datalist["classes"])

    @property
    def hash(self) -> str:
        """Hash of the datalist."""
        return datalist_hash(self.datalist)

    @cached_property
    def datasets(self) -> dict[str, list[CaseRecord]]:
        """Records by data set."""
        found: dict[str, list[CaseRecord]] = {}
        for record in self.records:
            found.setdefault(record.dataset, []).append(record)
        return found

    def of(self, severity: str) -> dict[str, list[str]]:
        """Messages of the errors, or of the warnings, by kind."""
        found: dict[str, list[str]] = {}
        for problem in self.problems:
            if problem.severity == severity:
                found.setdefault(problem.kind, []).append(problem.message)
        return found

    @property
    def errors(self) -> int:
        """Number of errors."""
        return sum(problem.severity == "error" for problem in self.problems)

    @property
    def verdict(self) -> str:
        """The answer to the question that a user asks first."""
        warnings = len(self.problems) - self.errors
        also = _counted(warnings, "warning")
        if self.errors:
            return f"Not ready: {_counted(self.errors, 'error')}" + (f", {also}" if warnings else "")
        refused = any("needs two" in problem.message for problem in self.problems)
        ready = "Ready to train without conditions only" if refused else "Ready to train"
        return ready + (f", with {also}" if warnings else "")

    @property
    def facts(self) -> str:
        """The data in one line."""
        images, subjects = _counted(_images(self.records), "image"), _counted(_subjects(self.records), "subject")
        among = _counted(len(self.datasets), "data set")
        return f"{images} of {subjects} in {among}; {len(self.classes)} classes: {', '.join(self.classes)}."

    def numbers(self) -> list[list[str]]:
        """Per data set: name, and images and subjects of every split."""
        return [
            [name, *(_number([record for record in records if record.split == split]) for split in SPLITS)]
            for name, records in self.datasets.items()
        ]

    def sizes(self) -> list[list[str]]:
        """Per data set: name, smallest and largest spacing and shape, and orientations, the most frequent first."""
        rows = []
        for name, records in self.datasets.items():
            files = [record.files for record in records if record.files.shape]
            spacing, shape = [record.spacing for record in files], [record.shape for record in files]
            orientations = [code for code, _ in Counter(record.orientation for record in files).most_common()]
            rows.append([name, ranges(spacing, "{:.3g}"), ranges(shape, "{}"), ", ".join(orientations)])
        return rows

    @cached_property
    def used(self) -> list[State]:
        """The states that occur."""
        return [state for state in State if any(state in record.states for record in self.records)]

    def states(self, dataset: str | None = None, split: str | None = None) -> list[list[str]]:
        """Per class: name, and the number of items in every state used, of one data set and split, or of all."""
        chosen = [r for r in self.records if dataset in (None, r.dataset) and split in (None, r.split)]
        rows = []
        for j, name in enumerate(self.classes):
            counts = Counter(record.states[j] for record in chosen)
            rows.append([name, *(str(counts[state]) if counts[state] else "-" for state in self.used)])
        return rows

    def totals(self) -> list[list[str]]:
        """
        Per class: name, training subjects in which it is seen, the part of a labelled image that is known, and the
        number of items in every state used.
        """
        training = [record for record in self.records if record.split == "training"]
        subjects = [_subjects([r for r in training if r.states[j] in SEEN]) for j in range(len(self.classes))]
        rows = zip(self.states(), subjects, self.known_parts(), strict=True)
        return [[name, str(number), known, *counts] for (name, *counts), number, known in rows]

    def known_parts(self) -> list[str]:
        """Per class: the mean part of a training image of which it is known whether it is of the class."""
        told = [r.known for r in self.records if r.split == "training" and any(r.known) and not r.problems]
        means = [sum(parts) / len(told) for parts in zip(*told, strict=True)] if told else []
        return [f"{100 * mean:.0f} %" if mean in (0, 1) else f"{100 * mean:.1f} %" for mean in means] or [
            "-" for _ in self.classes
        ]

    def never_together(self) -> list[tuple[str, list[str]]]:
        """Per class that is annotated: the classes that no training image annotates beside it, if there are any."""
        training = [record.states for record in self.records if record.split == "training"]
        patterns = {tuple(j for j, state in enumerate(states) if state in ANNOTATED) for states in training}
        rows = []
        for j, name in enumerate(self.classes):
            met = {other for pattern in patterns if j in pattern for other in pattern}
            apart = [other for k, other in enumerate(self.classes) if met and k not in met]
            if apart:
                rows.append((name, apart))
        return rows


def _images(records: Sequence[CaseRecord]) -> int:
    return len({record.files.image for record in records})


def _subjects(records: Sequence[CaseRecord]) -> int:
    return len({record.subject for record in records})


def _number(records: Sequence[CaseRecord]) -> str:
    """Images and subjects; entries too, where an image is listed several times."""
    if not records:
        return "-"
    images = _images(records)
    entries = f", listed {len(records)} times" if len(records) != images else ""
    return f"{images} ({_counted(_subjects(records), 'subject')}){entries}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def ranges(sizes: Sequence[Sequence[float]], form: str) -> str:
    """Smallest and largest size along every axis."""
    axes = []
    for axis in zip(*sizes, strict=False):
        low, high = form.format(min(axis)), form.format(max(axis))
        axes.append(low if low == high else f"{low}-{high}")
    return " x ".join(axes)
