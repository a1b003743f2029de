"""What a segmentation measures: volumes by structure, and the ejection fraction where both phases are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcl_monai.datalist.convert.acdc import read_info

CAVITIES = ("LV", "RV")
"""Names of the classes that have an ejection fraction; the first decides what is end of diastole and of systole."""
FROM_INFO = "frames named in Info.cfg"
FROM_VOLUMES = "frames with the largest and the smallest LV volume"


def volumes_ml(labels: np.ndarray, classes: Sequence[str], voxel_ml: float) -> dict[str, list[float]]:
    """Volumes in ml of every structure, without the background, in every frame of class indices (H, W, D, T)."""
    frames = np.moveaxis(labels, -1, 0).reshape(labels.shape[-1], -1)
    counts = np.stack([np.bincount(frame, minlength=len(classes)) for frame in frames])
    return {name: [round(float(n) * voxel_ml, 3) for n in counts[:, j]] for j, name in enumerate(classes) if j > 0}


def ejection_fractions(files: Mapping[str, Mapping[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """
    Find pairs of end-diastolic and end-systolic volumes, and compute ejection fractions.

    ``Info.cfg`` of an ACDC patient says which frames they are, for files named ``..._frameNN`` and for frames of a
    cine. For a cine without it, they are taken to be the frames with the largest and the smallest LV volume.

    Returns:
        for each pair its two sides (``ED`` and ``ES``, each with its ``file`` and, in a cine, its ``frame``, counted
        from 1), ``ejection_fraction`` by structure (``None`` where the end-diastolic volume is zero), and how the
        phases are known, ``phases``.
    """
    results = []
    numbered = {(str(Path(name).parent), number): name for name in files if (number := frame_number(name)) is not None}
    for parent in sorted({parent for parent, _ in numbered}):
        phases = info_phases(folder / parent)
        if phases and all((parent, number) in numbered for number in phases):
            results.append(_pair(files, [(numbered[parent, number], None) for number in phases], FROM_INFO))
    for name, entry in files.items():
        volumes = entry["volumes_ml"].get(CAVITIES[0], [])
        if len(volumes) < 2:
            continue
        phases, known = info_phases((folder / name).parent), FROM_INFO
        if not phases or max(phases) > len(volumes):
            phases, known = (int(np.argmax(volumes)) + 1, int(np.argmin(volumes)) + 1), FROM_VOLUMES
        results.append(_pair(files, [(name, number) for number in phases], known))
    return [result for result in results if result["ejection_fraction"]]


def frame_number(name: str) -> int | None:
    """The number in the name of a single frame of ACDC, ``patient001_frame01.nii.gz``."""
    found = re.search(r"_frame(\d+)\.nii(\.gz)?$", name)
    return int(found[1]) if found else None


def info_phases(folder: Path) -> tuple[int, int] | None:
    """Frames of end of diastole and end of systole by the ``Info.cfg`` of an ACDC patient, if there is one."""
    if not (folder / "Info.cfg").is_file():
        return None
    info = read_info(folder / "Info.cfg")
    numbers = [int(info[phase]) for phase in ("ED", "ES") if info.get(phase, "").isdigit()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 and min(numbers) > 0 else None


def _pair(files: Mapping[str, Any], sides: Sequence[tuple[str, int | None]], known: str) -> dict[str, Any]:
    """The entry of a pair: file and frame of end of diastole and of end of systole; no frame means the only one."""
    diastole, systole = (
        {k: v[(frame or 1) - 1] for k, v in files[name]["volumes_ml"].items()} for name, frame in sides
    )
    shown = [{"file": name} | ({"frame": frame} if frame else {}) for name, frame in sides]
    fractions = {
        name: round(1 - systole[name] / diastole[name], 4) if diastole[name] > 0 else None
        for name in CAVITIES
        if name in diastole
    }
    return {"ED": shown[0], "ES": shown[1], "ejection_fraction": fractions, "phases": known}
