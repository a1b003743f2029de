"""A bundle for a user's own data: checked, planned, and written from the template."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from dcl_monai import __version__
from dcl_monai.datalist import Datalist, datalist_hash, load_datalist, write_datalist
from dcl_monai.datalist.items import channels_of
from dcl_monai.planning import Fingerprint, Plan, as_table, make_overlay, make_plan, say_time, take_fingerprint
from dcl_monai.utils import DataError
from dcl_monai.utils.files import write_atomic

from .data_card import card_entries, write_licence, write_readme
from .resources import bundle_folder
from .template import TESTED, BundleSettings, write_configs

CONFIGURED = ("backbone", "condition_scale", "spatial_dims")
"""Arguments of a planned network that the template sets itself."""


@dataclass(frozen=True)
class Schedule:
    """How long a bundle trains."""

    stage1_epochs: int  # epochs of stage 1
    stage2_epochs: int  # epochs of stage 2
    iterations: int  # steps of an epoch
    val_interval: int  # epochs from one validation to the next

    @property
    def steps(self) -> tuple[int, int]:
        """Steps of either stage."""
        return self.stage1_epochs * self.iterations, self.stage2_epochs * self.iterations


SCHEDULES = {"small": Schedule(18, 42, 100, 3), "full": Schedule(60, 140, 250, 5)}
"""By size. Few labels need many steps: compatible CE from three labelled patients per class had a Dice of .786, .814
and .850 after 1,200, 2,400 and 7,800 steps."""


@dataclass(frozen=True)
class NewBundle:
    """A bundle that can be written."""

    folder: Path  # where
    source: Path  # the file that describes the data
    size: str  # ``"small"`` or ``"full"``
    datalist: Datalist  # the data
    fingerprint: Fingerprint  # what it looks like
    plan: Plan  # what was decided
    settings: BundleSettings  # values of the template

    @property
    def table(self) -> str:
        """The plan as a table."""
        return as_table(self.plan, self.fingerprint, str(self.source), str(self.folder))

    def time_said(self) -> str:
        """How long the training takes, see :func:`~dcl_monai.planning.say_time`."""
        settings = self.settings
        return say_time(self.plan, len(settings.classes), len(settings.channels), SCHEDULES[self.size].steps)


def new_bundle(
    datalist: str | Path,
    folder: str | Path,
    size: str | None = None,
    force: bool = False,
    **options: Any,
) -> Path:
    """
    Check data, plan a training, and write the bundle for it.

    Args:
        datalist: YAML or JSON file that describes the data.
        folder: folder of the bundle, which is returned; its name is the bundle's.
        size: see :func:`prepare_bundle`.
        force: whether files of an earlier bundle there may be replaced; its models and runs stay.
        **options: further arguments of :func:`prepare_bundle`.
    """
    refuse_folder(Path(folder), force)
    write_new_bundle(prepare_bundle(datalist, folder, size, **options))
    return Path(folder)


def prepare_bundle(
    datalist: str | Path,
    folder: str | Path,
    size: str | None = None,
    memory_gb: float = 8.0,
    device: str | None = None,
    dims: int | None = None,
    modality: str | None = None,
    authors: str = "not given",
    workers: int = 1,
) -> NewBundle:
    """
    Check the data and decide everything; nothing is written.

    Args:
        datalist: YAML or JSON file that describes the data.
        folder: folder of the bundle.
        size: ``"small"``: a coarse grid and a small network, for CPUs; ``"full"``: the planned grid and a network of
            nnU-Net's size, for a GPU; default: by the device.
        memory_gb: memory of the device that trains.
        device: ``"cpu"`` or ``"cuda"``; default: CUDA if this machine has it.
        dims: 2 or 3; default: 2 if slices are thick and few.
        modality: ``"ct"`` or ``"mr"``; default: by the data.
        authors: authors of the bundle, for ``metadata.json``.
        workers: processes that read the data.
    """
    folder = Path(folder).resolve()
    if not re.fullmatch(r"[\w.-]+", folder.name):
        raise DataError(f"{folder}: its name is the bundle's name. Use letters, digits, '-' and '_'.")
    content = load_datalist(datalist)
    fingerprint = take_fingerprint(content, workers)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    size = size or ("full" if device == "cuda" else "small")
    ct = None if modality is None else modality == "ct"
    plan = make_plan(fingerprint, memory_gb, device, dims, ct, small=size == "small")
    settings = settings_of(folder.name, content, plan, SCHEDULES[size], authors)
    return NewBundle(folder, Path(datalist).resolve(), size, content, fingerprint, plan, settings)


def settings_of(name: str, datalist: Datalist, plan: Plan, schedule: Schedule, authors: str) -> BundleSettings:
    """The values of the template."""
    overlay = make_overlay(plan, datalist_hash(datalist))
    classes: Sequence[str] = datalist["classes"]
    volumes = plan.dims == 3
    return BundleSettings(
        name=name,
        title=name,
        task=f"Segmentation of {', '.join(classes[1:])} from partial labels",
        description=f"One {plan.dims}D network for all structures, trained by Deep Compatible Learning on images "
        "that may each show only some of them",
        classes=tuple(classes),
        spatial_dims=plan.dims,
        pixdim=tuple(overlay["pixdim"]),
        spatial_size=tuple(overlay["spatial_size"]),
        batch_size=plan.batch_size,
        rotate_range=overlay.get("rotate_range", (0.3, 0.3, 0.3) if volumes else 0.7),
        stage1_epochs=schedule.stage1_epochs,
        stage2_epochs=schedule.stage2_epochs,
        iterations_per_epoch=schedule.iterations,
        val_interval=schedule.val_interval,
        backbone=plan.network["backbone"],
        network={key: value for key, value in plan.network.items() if key not in CONFIGURED},
        averaging={"_target_": "dcl_monai.losses.AnnealedMean", "class_balanced": True} if volumes else "anneal",
        intensity=plan.intensity,
        modality="CT" if isinstance(plan.intensity, dict) else "MR",
        channels=tuple(channels_of(datalist)),
        bank_size=plan.bank_size,
        authors=authors,
        copyright=f"Copyright (c) {authors}",
        data_card=card_entries(datalist),
        versions={package: installed_version(package) for package in TESTED},
    )


def installed_version(package: str) -> str:
    """Version of a package, without what says how it was built."""
    return __version__ if package == "dcl-monai" else version(package).partition("+")[0]


def refuse_folder(folder: Path, force: bool) -> None:
    """Refuse a folder that holds anything, unless it may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: is a file. Choose another name for the bundle.")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise DataError(f"{folder}: exists and is not empty. Choose another folder, or replace its configs by --force.")


def write_new_bundle(bundle: NewBundle) -> None:
    """Write all files of a bundle; models and runs that its folder has stay as they are."""
    folder = bundle.folder
    write_configs(bundle.settings, folder)
    # with absolute paths: the bundle may be copied anywhere, the data stays where it is
    digest = write_datalist(bundle.datalist, folder / "data" / "datalist.json", absolute=True)
    write_atomic(folder / "docs" / "plan.txt", bundle.table)
    write_atomic(folder / "docs" / "README.md", write_readme(bundle.settings, bundle.datalist, digest, bundle.size))
    licence = folder / "docs" / "data_license.txt"
    if not licence.exists():  # it is completed by hand
        write_atomic(licence, write_licence(bundle.datalist))
    if not (folder / "LICENSE").exists():
        shutil.copyfile(bundle_folder() / "acdc" / "LICENSE", folder / "LICENSE")
    (folder / "models").mkdir(exist_ok=True)
