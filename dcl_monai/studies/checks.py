"""What can be checked of a study before it trains anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from monai.bundle import ConfigParser

from dcl_monai.bundle.command_line import overlap
from dcl_monai.bundle.resources import overlay_folder
from dcl_monai.datalist import load_datalist
from dcl_monai.datalist.simulate import require_full_test
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError
from dcl_monai.utils.errors import find_user_error

from .recipes import RECIPES
from .runs import RUN_IDS, Run
from .settings import StudySettings

LABELS = ("annotation", "full_fraction", "annotated_per_subject", "partial_validation")
"""Ids of simulated labels."""
SHARED = ("averaging",)
"""Ids that rows set, too, but that a study may set for all of them: the paper's sum needs long budgets."""


def check_ids(settings: StudySettings, runs: Sequence[Run]) -> None:
    """
    Refuse ids for all runs that the bundle does not have, which MONAI silently accepts, or that a row or the study
    itself sets, which would make it another row.
    """
    if settings.as_is:
        for run in runs:
            labels = [name for name in ids_of(run) if name in LABELS]
            if labels:
                raise DataError(
                    f"{run.recipe}: this row sets {labels[0]}, but labels are used as they are. Leave it out by --only."
                )
    parser = ConfigParser()
    parser.read_config([settings.bundle_dir / "configs" / "train.json", *settings.overlay_files])
    known = parser.get()
    for name in settings.settings:
        root = name.partition("#")[0]
        if root not in known:
            raise DataError(f"--set {name}: the bundle {settings.task} has no id {root!r}; see its configs/train.json.")
        for run in runs:
            own = [other for other in ids_of(run) if overlap(name, other) and name not in SHARED]
            if own:
                raise DataError(
                    f"--set {name}: the row {run.recipe} sets {own[0]} itself. Leave it out by --only, or give an "
                    "--overlay, which rows may change."
                )
        if any(overlap(name, other) for other in RUN_IDS):
            raise DataError(f"--set {name}: each run sets this itself; see the options of study.")


def ids_of(run: Run) -> list[str]:
    """Ids that the recipe of a run sets."""
    recipe = RECIPES[run.recipe]
    files = [overlay_folder() / overlay for overlay in (*recipe.overlays, *recipe.teacher)]
    return [*recipe.settings, *(name for file in files for name in json.loads(file.read_text(encoding="utf-8")))]


def count_subjects(run: Run) -> Mapping[str, int]:
    """
    Divide the subjects as a run will, and return their number by split; refuse a division that leaves a split empty.
    """
    step = run.steps[0]
    parser = ConfigParser()
    parser.read_config(step.files)
    parser.update(dict(step.settings))
    try:
        datalist = parser.get_parsed_content("datalist")
        if isinstance(datalist, str):  # of a user's own bundle
            datalist = load_datalist(datalist)
            require_full_test(datalist)
    except Exception as error:
        mistake = find_user_error(error)
        if mistake is None:
            raise
        raise mistake from None
    counts: dict[str, int] = {split: len({item["subject"] for item in datalist[split]}) for split in SPLITS}
    empty = next((split for split, count in counts.items() if not count), None)
    if empty is not None:
        raise DataError(f"no subject is left for {empty}: a study needs all three. Give another --split.")
    return counts
