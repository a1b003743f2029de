"""Split a folder in ACDC layout into three "hospitals", each of which drew something else.

    python docs/examples/split_acdc.py ACDC_FOLDER OUT

north drew the right ventricle, as 5; south the myocardium, as 1; east the whole heart, as 1. Every fifth patient is
held out for testing, with all labels. The images are linked, not copied. OUT/hearts.yaml describes it all.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import nibabel as nib
import numpy as np
import yaml

from dcl_monai.datalist import acdc_items

RV, MYO = 1, 2  # of ACDC
HOSPITALS = {
    "north": lambda label: 5 * (label == RV),
    "south": lambda label: 1 * (label == MYO),
    "east": lambda label: 1 * (label > 0),
}
HELD_OUT = {
    "folder": "held out",
    "images": "{subject}/{phase}.nii.gz",
    "labels": "{subject}/{phase}_label.nii.gz",
    "values": {0: "background", 1: "RV", 2: "MYO", 3: "LV"},
    "split": "test",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("acdc", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    items = acdc_items(arguments.acdc)
    subjects = sorted({item["subject"] for item in items})
    held_out = subjects[4::5]  # ACDC's numbers go by diagnosis, so some of each
    shared = [subject for subject in subjects if subject not in held_out]
    places = {subject: list(HOSPITALS)[number % len(HOSPITALS)] for number, subject in enumerate(shared)}
    for item in items:
        hospital = places.get(item["subject"], "held out")
        folder = arguments.out / hospital / item["subject"]
        folder.mkdir(parents=True, exist_ok=True)
        image = folder / f"{item['phase']}.nii.gz"
        image.unlink(missing_ok=True)
        image.symlink_to(Path(item["image"]).resolve())
        label = nib.load(item["label"])
        full = np.asarray(label.dataobj)
        drawn = (full if hospital == "held out" else HOSPITALS[hospital](full)).astype(np.uint8)
        # with its header: the affine of some ACDC files lacks the spacing, which then stands in the header alone
        copy = nib.Nifti1Image(drawn, label.affine, label.header, dtype=np.uint8)
        nib.save(copy, folder / f"{item['phase']}_label.nii.gz")
    content = yaml.safe_load(Path(__file__).with_name("hearts.yaml").read_text(encoding="utf-8"))
    content |= {"split": [85, 15, 0], "datasets": content["datasets"] | {"held out": HELD_OUT}}
    (arguments.out / "hearts.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
