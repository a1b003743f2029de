"""Three images: one drawn in part, one drawn within a union, one not annotated."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import yaml


@pytest.fixture
def hearts(tmp_path, write_nifti) -> Path:
    affine = np.diag([-1.0, -1.0, 4.0, 1.0])  # the axes go left, back, head: as the page has them
    image = np.random.default_rng(0).normal(size=(24, 20, 6)).astype(np.float32)
    label = np.zeros(image.shape, np.uint8)
    label[4:10, 5:9, 2:4] = 1
    label[14:20, 10:16, 3] = 2
    for k in range(3):
        write_nifti(f"data/s{k}.nii.gz", image, affine)
    write_nifti("data/s0_gt.nii.gz", label, affine)
    write_nifti("data/s1_gt.nii.gz", label, affine)
    values = {0: "background", 1: "RV", 2: "LV"}
    heart = {0: "background", 1: "heart", 2: "heart"}

    def dataset(index: int, **entries: object) -> dict[str, object]:
        label = {"label": f"s{index}_gt.nii.gz"} if entries else {}
        return {"folder": "data", "training": [{"image": f"s{index}.nii.gz", **label}], "split": "training", **entries}

    content = {
        "classes": ["background", "RV", "LV"],
        "unions": {"heart": ["RV", "LV"]},
        "datasets": {
            "a rv": dataset(0, values=values, annotated=["RV"]),
            "b whole": dataset(1, values=heart),
            "c none": dataset(2),
        },
    }
    path = tmp_path / "hearts.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@pytest.fixture
def completed(hearts, write_nifti) -> Path:
    """A folder of filled labels, with uncertainty, of the first image."""
    from dcl_monai.datalist import load_datalist
    from dcl_monai.visualize.viewer import Case, Layer, write_album

    datalist = load_datalist(hearts)
    folder = hearts.parent / "completed"
    source = nib.load(hearts.parent / "data/s0_gt.nii.gz")
    uncertainty = np.zeros((*source.shape, 3), np.float32)
    uncertainty[:, :, 3, 1] = 0.25
    full = Path(write_nifti("completed/s0_full.nii.gz", np.asarray(source.dataobj), source.affine))
    spread = Path(write_nifti("completed/s0_uncertainty.nii.gz", uncertainty, source.affine))
    layers = [Layer("drawn", "drawn"), Layer("filled", "filled", full), Layer("unsure", "uncertainty", spread)]
    image = hearts.parent / "data/s0.nii.gz"
    write_album(folder, "completed", datalist, [Case("s0 <b>", image, layers, "look at LV", True, (5, 6, 2))])
    return folder
