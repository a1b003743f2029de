"""What all runs of a study share: data, split, budget and backbone, written down once in ``study.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from monai.bundle import ConfigParser

from dcl_monai.bundle.resources import bundle_folder, is_installed, overlay_folder
from dcl_monai.datalist import load_datalist
from dcl_monai.datalist.simulate import is_partial
from dcl_monai.utils import DataError, as_literal
from dcl_monai.utils.files import write_atomic

NAME = "study.json"

BUDGETS = {"smoke": (1, 1, 10), "short": (9, 21, 75), "paper": (200, 50, 150)}
"""Epochs of stage 1 and of stage 2, and iterations per epoch, by name."""


@dataclass(frozen=True)
class StudySettings:
    """
    What all runs of a study share.

    Args:
        bundle: name of a bundle of this project, or folder of another.
        dataset_dir: folder of the data in the layout that the bundle reads; ``None`` if there is a datalist.
        datalist: file of a fully labelled datalist, instead.
        split: sizes of training, validation and test; ``None``: the bundle's.
        split_seed: seed of the division of the subjects. The classes that a subject shows are drawn by the seed of a
            run.
        fold: which of the divisions of that seed: folds test other subjects, until all have been tested.
        epochs: epochs of stage 1 and of stage 2. A recipe without a second stage trains for as many in all.
        iterations: iterations per epoch, so that recipes with fewer images do not train less.
        overlays: further config files for all runs, before those of the recipe.
        settings: further ids for all runs.
        as_is: whether training images keep the labels that they have, since they are partial already or the bundle is
            one of a user's own data; nothing is simulated then.
    """

    bundle: str
    dataset_dir: str | None = None
    datalist: str | None = None
    split: tuple[float, ...] | None = None
    split_seed: int = 0
    fold: int = 0
    epochs: tuple[int, int] = BUDGETS["short"][:2]
    iterations: int = BUDGETS["short"][2]
    overlays: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    as_is: bool = False

    @property
    def steps(self) -> int:
        """Steps of a run."""
        return sum(self.epochs) * self.iterations

    @property
    def is_short(self) -> bool:
        """Whether it is a smoke test, whose numbers say nothing."""
        return self.steps < FEWEST_STEPS

    @property
    def is_own(self) -> bool:
        """Whether the bundle is one of a user's own data (``dcl-monai new``), which knows its split."""
        config = json.loads((self.bundle_dir / "configs" / "train.json").read_text(encoding="utf-8"))
        return isinstance(config.get("datalist"), str)  # a list of its own: nothing is simulated

    @property
    def division(self) -> tuple[int, int]:
        """What decides who is tested: the seed of the split, and the fold."""
        return self.split_seed, self.fold

    @property
    def val_interval(self) -> int:
        """Epochs from one validation to the next, unless ``settings`` say otherwise: two where both stages are long."""
        return 2 if min(self.epochs) >= min(BUDGETS["short"][:2]) else 1

    @property
    def task(self) -> str:
        """Name of the bundle."""
        return Path(self.bundle).name

    @property
    def bundle_dir(self) -> Path:
        """Folder of the bundle, on this machine."""
        return bundle_folder() / self.bundle  # an absolute path stays as it is

    @property
    def overlay_files(self) -> list[Path]:
        """Files of the overlays, on this machine."""
        return [overlay_folder() / overlay for overlay in self.overlays]


FEWEST_STEPS = 500
"""Steps of a run below which nothing is interpreted: compatible CE needed 1,200 to come near its final order."""

PLACES = ("dataset_dir", "datalist")
"""Where the data lies may differ from machine to machine; that it is the same data is checked by its hash."""


def open_study(out: str | Path, asked: Mapping[str, Any]) -> StudySettings:
    """
    Take up the study of a folder, or plan one; nothing is written, see :func:`save_study`.

    Args:
        out: folder of the study.
        asked: settings that the user gave; those left out are as the study has them, or as they are by default.

    Raises:
        DataError: when the folder holds a study with other settings: its runs could not be compared.
    """
    path = Path(out) / NAME
    if not path.exists():
        return resolve(StudySettings(**{"bundle": "acdc", **asked}), Path(out))
    stored = read_study(out)
    if any(name in asked for name in PLACES):
        stored = replace(stored, dataset_dir=None, datalist=None)
    wanted = resolve(replace(stored, **asked), Path(out))
    different = [name for name in asked if name not in PLACES and getattr(wanted, name) != getattr(stored, name)]
    if different:
        name = different[0]
        raise DataError(
            f"{path}: this study has {name} {getattr(stored, name)!r}, not {getattr(wanted, name)!r}. Leave the option "
            "out, or give another --out: runs of different settings cannot be compared."
        )
    return wanted


def save_study(out: str | Path, settings: StudySettings) -> None:
    """Write the settings of a study that begins; one that has begun keeps its own."""
    path = Path(out) / NAME
    if not path.exists():
        write_atomic(path, json.dumps(asdict(settings), indent=2) + "\n")


def read_study(out: str | Path) -> StudySettings:
    """Read the settings of a study; refuse a folder that holds none."""
    path = Path(out) / NAME
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in content.items()}
        return StudySettings(**values)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Name the --out folder of a study, or start one.") from None
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: is not a description of a study ({error}). Start a new study.") from error


def read_divisions(outs: Sequence[str | Path]) -> list[StudySettings]:
    """Read the settings of studies; refuse those that do not differ in the division of their subjects alone."""
    studies = [read_study(out) for out in outs]
    first, seen = studies[0], dict[tuple[int, int], str | Path]()
    for out, study in zip(outs, studies, strict=True):
        for name in asdict(first):
            if name not in (*PLACES, "split_seed", "fold") and getattr(study, name) != getattr(first, name):
                raise DataError(
                    f"{out}: this study has {name} {getattr(study, name)!r}, {outs[0]} {getattr(first, name)!r}. "
                    "Report studies together that differ only in --split_seed or --fold."
                )
        if study.division in seen:
            raise DataError(
                f"{out}: has split seed {study.split_seed} and fold {study.fold}, as {seen[study.division]} has. Copy "
                "the runs of one division into one folder."
            )
        seen[study.division] = out
    return studies


def resolve(settings: StudySettings, out: Path) -> StudySettings:
    """Find everything that is named, and write the synthetic data if no other is given."""
    bundle = portable(settings.bundle, bundle_folder())
    if bundle is None or not (bundle_folder() / bundle / "configs" / "train.json").is_file():
        raise DataError(f"{settings.bundle}: no bundle (it has no configs/train.json). Choose acdc, mscmr or mmwhs.")
    overlays = []
    for overlay in settings.overlays:
        found = portable(overlay, overlay_folder())
        if found is None:
            raise DataError(f"--overlay {overlay}: no such file, here or in configs/. Correct the path.")
        overlays.append(found)
    settings = replace(settings, bundle=bundle, overlays=tuple(overlays))
    own = bundle_folder() / bundle / "data" / "datalist.json" if settings.is_own else None
    if settings.datalist is not None or own is not None:
        source = Path(settings.datalist or str(own))
        if not source.is_file():
            raise DataError(f"--datalist {source}: no such file. Correct the path.")
        if own is not None and (settings.split or settings.split_seed or settings.fold or settings.dataset_dir):
            raise DataError(
                f"{bundle}: is a bundle of your own data, which is divided already. Leave out --split, "
                "--split_seed, --fold and --dataset_dir."
            )
        as_is = own is not None or is_partial(load_datalist(source))
        return replace(settings, datalist=str(source.resolve()), as_is=as_is)
    directory = settings.dataset_dir or synthetic_data(settings.bundle_dir, out)
    if not Path(directory).is_dir():
        raise DataError(f"--dataset_dir {directory}: no such folder. Correct the path.")
    return replace(settings, dataset_dir=str(Path(directory).resolve()))


def portable(name: str, home: Path) -> str | None:
    """A file or folder by its name within ``home`` if it lies there, else by its absolute path; ``None`` if missing."""
    inside = [path.resolve() for path in (home / name, Path(name)) if path.exists()]
    if not inside:
        return None
    return str(inside[0].relative_to(home)) if inside[0].is_relative_to(home) else str(inside[0])


def synthetic_data(bundle: Path, out: Path) -> str:
    """
    Write the synthetic data of a bundle, once and before several runs would, and return its folder.

    It lies in the bundle, or with the study where the bundle is part of an installed package.
    """
    parser = ConfigParser()
    parser.read_config(bundle / "configs" / "train.json")
    parser["bundle_root"] = as_literal(out if is_installed(bundle) else bundle)
    return str(parser.get_parsed_content("dataset_dir"))
