from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import yaml

VALUES = {"north": {0: "background", 1: "A"}, "south": {0: "background", 1: "B"}, "east": {0: "background", 1: "both"}}
SIZES = {2: ((40, 44, 5), (2.0, 2.0, 10.0)), 3: ((24, 28, 20), (1.0, 1.0, 1.0))}


@pytest.fixture(scope="session")
def hospitals(tmp_path_factory) -> Callable[[int], Path]:
    """Three hospitals that drew different structures, as slices or volumes; returns the file that describes them."""

    @cache
    def make(dims: int) -> Path:
        root, rng = tmp_path_factory.mktemp(f"hospitals{dims}"), np.random.default_rng(0)
        shape, spacing = SIZES[dims]
        for hospital in VALUES:
            for subject in range(5):
                x, y = shape[0] // 2 + rng.integers(-2, 3), shape[1] // 2 + rng.integers(-2, 3)
                label = np.zeros(shape, np.uint8)
                label[x - 8 : x, y - 6 : y + 6, 1:-1], label[x : x + 7, y - 6 : y + 6, 1:-1] = 1, 2
                drawn = {"north": label == 1, "south": label == 2, "east": label > 0}[hospital].astype(np.uint8)
                image = (rng.normal(300, 40, shape) + 200.0 * label).astype(np.float32)
                folder = root / hospital / f"p{subject}"
                folder.mkdir(parents=True)
                nib.save(nib.Nifti1Image(image, np.diag([*spacing, 1.0])), folder / "image.nii.gz")
                nib.save(nib.Nifti1Image(drawn, np.diag([*spacing, 1.0])), folder / "label.nii.gz")
        files = {"images": "{subject}/image.nii.gz", "labels": "{subject}/label.nii.gz"}
        datasets = {name: {"folder": name, **files, "values": values} for name, values in VALUES.items()}
        content = {"classes": ["background", "A", "B"], "unions": {"both": ["A", "B"]}, "split": [3, 1, 1]}
        (root / "own.yaml").write_text(yaml.safe_dump(content | {"datasets": datasets}))
        return root / "own.yaml"

    return make
