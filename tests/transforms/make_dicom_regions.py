"""
Make ``dicom_regions.zip``: series in four orientations, with RTSTRUCT and SEG that other programs wrote than those that
read them. Run by hand, in an environment that also has rt-utils (RTSTRUCT) and dcmqi (SEG, a program in C++)::

    pip install rt-utils opencv-python-headless dcmqi nibabel
    python make_dicom_regions.py ../serve dicom_regions.zip
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import dcmqi
import nibabel as nib
import numpy as np
import rt_utils
from scipy.spatial.transform import Rotation

SHAPE, SPACING = (20, 16, 9), (1.5, 1.5, 3.0)  # rt-utils mixes up the two pixel sizes of a slice where they differ
TURNED = Rotation.from_euler("xyz", [20, 30, -40], degrees=True).as_matrix()
ORIENTATIONS = {
    "straight": np.diag([-1.0, -1, 1]),
    "flipped": np.diag([-1.0, -1, -1]),
    "sagittal": np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]]),
    "oblique": TURNED @ np.diag([-1.0, -1, 1]),
}
CODE = {"CodeValue": "80891009", "CodingSchemeDesignator": "SCT", "CodeMeaning": "Heart"}
ANATOMY = {"CodeValue": "123037004", "CodingSchemeDesignator": "SCT", "CodeMeaning": "Anatomical Structure"}


def regions() -> dict[str, np.ndarray]:
    """Two that overlap, the first with a hole in one slice and a single voxel apart; and one that is empty."""
    x, y, z = np.indices(SHAPE)
    heart = ((x - 8) ** 2 + (y - 7) ** 2 < 25) & (z > 1) & (z < 7)
    heart &= ~(((x - 8) ** 2 + (y - 7) ** 2 < 4) & (z == 4))
    heart[15, 12, 3] = True
    left = ((x - 10) ** 2 + (y - 8) ** 2 < 5) & (z > 1) & (z < 4)
    return {"whole heart": heart, "Ventricle_L": left}


def write_rtstruct(folder: Path, affine: np.ndarray, out: Path) -> None:
    """By rt-utils, which takes masks of rows, columns and slices in its own order."""
    file = rt_utils.RTStructBuilder.create_new(dicom_series_path=str(folder))
    slices = []
    for data in file.series_data:
        place = np.array([*data.ImagePositionPatient, 1.0]) * [-1, -1, 1, 1]
        slices.append(int(np.rint(np.linalg.inv(affine) @ place)[2]))
    for name, mask in regions().items():
        file.add_roi(mask=mask[:, :, slices].transpose(1, 0, 2), name=name)
    file.save(str(out))


def write_seg(folder: Path, affine: np.ndarray, out: Path, work: Path) -> None:
    """By dcmqi."""
    segments, files = [], []
    for name, mask in regions().items():
        files.append(str(work / f"{name}.nii.gz"))
        nib.save(nib.Nifti1Image(mask.astype(np.uint8), affine), files[-1])
        segment = {"labelID": 1, "SegmentDescription": name, "SegmentLabel": name, "SegmentAlgorithmType": "MANUAL"}
        codes = {"SegmentedPropertyCategoryCodeSequence": ANATOMY, "SegmentedPropertyTypeCodeSequence": CODE}
        segments.append([segment | codes])
    description = {"SeriesDescription": "regions", "SeriesNumber": "300", "InstanceNumber": "1"}
    description |= {
        "ContentCreatorName": "test",
        "ContentLabel": "X",
        "ContentDescription": "x",
        "BodyPartExamined": "",
    }
    description |= {"ClinicalTrialSeriesID": "1", "ClinicalTrialTimePointID": "1", "segmentAttributes": segments}
    (work / "meta.json").write_text(json.dumps(description))
    program = Path(dcmqi.__file__).parent / "bin" / "itkimage2segimage"
    arguments = ["--inputImageList", ",".join(files), "--inputDICOMDirectory", folder, "--outputDICOM", out]
    subprocess.run([program, *arguments, "--inputMetadata", work / "meta.json"], check=True, stdout=subprocess.DEVNULL)


def main(helpers: str, out: str) -> None:
    """Make all files and pack them."""
    sys.path.insert(0, helpers)
    from dicom_files import write_series  # of tests/serve

    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        root, rng = Path(name), np.random.default_rng(0)
        for orientation, axes in ORIENTATIONS.items():
            folder, work = root / orientation, root / "work"
            work.mkdir(exist_ok=True)
            affine = np.eye(4)
            affine[:3, :3], affine[:3, 3] = axes @ np.diag(SPACING), (10, -20, 30)
            image = nib.Nifti1Image((100 * rng.normal(size=SHAPE)).astype(np.int16), affine)
            nib.save(image, work / "image.nii")
            write_series({"nifti": str(work / "image.nii"), "folder": str(folder / "series"), "shuffle": True})
            write_rtstruct(folder / "series", affine, folder / "rtstruct.dcm")
            write_seg(folder / "series", affine, folder / "seg.dcm", work)
            np.savez_compressed(folder / "truth.npz", affine=affine, **regions())
            for file in sorted(folder.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(root))


if __name__ == "__main__":
    main(*sys.argv[1:])
