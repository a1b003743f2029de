"""Split a folder in ACDC layout into three "hospitals", each of which drew something else.

    python docs/examples/split_acdc.py ACDC_FOLDER OUT

north drew the right ventricle, as 5; south the myocardium, as 1; east the whole heart, as 1. The images are linked, not
copied.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import nibabel as nib
import numpy as np

from dcl_monai.datalist import acdc_items

RV, MYO = 1, 2  # of ACDC
HOSPITALS = {
    "north": lambda label: 5 * (label == RV),
    "south": lambda label: 1 * (label == MYO),
    "east": lambda label: 1 * (label > 0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("acdc", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    items = acdc_items(arguments.acdc)
    subjects = sorted({item["subject"] for item in items})
    for item in items:
        hospital = list(HOSPITALS)[subjects.index(item["subject"]) % len(HOSPITALS)]
        folder = arguments.out / hospital / item["subject"]
        folder.mkdir(parents=True, exist_ok=True)
        image = folder / f"{item['phase']}.nii.gz"
        image.unlink(missing_ok=True)
        image.symlink_to(Path(item["image"]).resolve())
        label = nib.load(item["label"])
        drawn = HOSPITALS[hospital](np.asarray(label.dataobj)).astype(np.uint8)
        # with its header: the affine of some ACDC files lacks the spacing, which then stands in the header alone
        copy = nib.Nifti1Image(drawn, label.affine, label.header, dtype=np.uint8)
        nib.save(copy, folder / f"{item['phase']}_label.nii.gz")


if __name__ == "__main__":
    main()
