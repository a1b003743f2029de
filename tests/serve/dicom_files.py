"""
Make DICOM series and read DICOM SEG, for test_deploy.py; run by the python of MONAI Deploy's environment.

    python dicom_files.py write spec.json
    python dicom_files.py read SEG.dcm out.npz
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
from pydicom import Dataset, FileMetaDataset, dcmread
from pydicom.uid import UID, ExplicitVRLittleEndian, MRImageStorage, generate_uid

FLIP = np.diag([-1.0, -1.0, 1.0, 1.0])  # DICOM's patient axes are left and posterior, NIfTI's are right and anterior


def write_series(entry: dict) -> None:
    """
    Write a NIfTI volume, or a cine, as a series with the same place in space.

    Entry: ``nifti``, ``folder``; ``tags``, which replace others in all files; ``phase_tag``, which tells frames apart;
    ``slope``, by slice (default 1 for all); ``drop`` and ``shuffle``, slices to leave out and whether files are in
    disorder; ``syntax``, a transfer syntax to compress with; ``file_syntax``, one for the whole file; ``uid``;
    ``without``, tags to leave out; ``preamble``: ``meta`` leaves out the first 132 bytes, ``none`` the file meta too.
    """
    image = nib.load(entry["nifti"])
    array = np.asarray(image.dataobj)
    frames = array[..., None] if array.ndim == 3 else array
    affine = FLIP @ image.affine
    columns, rows, depth = np.linalg.norm(affine[:3, :3], axis=0)
    folder = Path(entry["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    study, space, series = generate_uid(), generate_uid(), entry.get("uid") or generate_uid()
    slices = [k for k in range(frames.shape[2]) if k not in entry.get("drop", [])]
    names = np.arange(len(slices) * frames.shape[3])
    if entry.get("shuffle"):
        np.random.default_rng(0).shuffle(names)
    for number, (k, t) in enumerate((k, t) for k in slices for t in range(frames.shape[3])):
        slope = entry.get("slope", [1.0] * frames.shape[2])[k]
        data = Dataset()
        data.file_meta = FileMetaDataset()
        data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        data.SOPClassUID = data.file_meta.MediaStorageSOPClassUID = MRImageStorage
        data.SOPInstanceUID = data.file_meta.MediaStorageSOPInstanceUID = generate_uid()
        data.StudyInstanceUID, data.SeriesInstanceUID, data.FrameOfReferenceUID = study, series, space
        data.Modality, data.PatientID, data.PatientName, data.PatientBirthDate = "MR", "1", "Test^Heart", "19700101"
        data.PatientSex, data.StudyID, data.AccessionNumber = "O", "1", "1"
        data.StudyDate = data.SeriesDate = data.ContentDate = "20200101"
        data.StudyTime = data.SeriesTime = data.ContentTime = "120000"
        data.ReferringPhysicianName, data.Manufacturer, data.SeriesDescription = "", "test", "short axis"
        data.SeriesNumber, data.InstanceNumber, data.ImageType = 1, number + 1, ["ORIGINAL", "PRIMARY", "M"]
        data.PositionReferenceIndicator, data.Laterality = "", ""
        data.ImagePositionPatient = [f"{v:.10g}" for v in (affine @ [0, 0, k, 1])[:3]]
        directions = [*(affine[:3, 0] / columns), *(affine[:3, 1] / rows)]
        data.ImageOrientationPatient = [f"{v:.10g}" for v in directions]
        data.PixelSpacing = [f"{rows:.10g}", f"{columns:.10g}"]  # distance of the rows, then of the columns
        data.SliceThickness = f"{depth:.10g}"
        data.Rows, data.Columns = frames.shape[1], frames.shape[0]
        data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
        data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 16, 15, 1
        data.RescaleSlope, data.RescaleIntercept, data.RescaleType = str(slope), "0", "US"
        data.PixelData = np.ascontiguousarray(frames[:, :, k, t].T / slope).astype("<i2").tobytes()
        if entry.get("phase_tag"):
            setattr(data, entry["phase_tag"], t * 40 + k + 1)  # trigger times differ from slice to slice
        for tag, value in entry.get("tags", {}).items():
            setattr(data, tag, value)
        if entry.get("syntax"):
            data.compress(UID(entry["syntax"]))
        if entry.get("file_syntax"):
            data.file_meta.TransferSyntaxUID = UID(entry["file_syntax"])
        for tag in entry.get("without", []):
            delattr(data, tag)
        path = folder / f"{names[number]:04d}.dcm"
        data.save_as(path, enforce_file_format=True)
        if entry.get("preamble") == "meta":
            path.write_bytes(path.read_bytes()[132:])
        elif entry.get("preamble") == "none":
            del data.file_meta
            data.save_as(path, implicit_vr=True, little_endian=True)


def read_seg(path: str, output: str) -> None:
    """Write where the voxels of each segment lie, in mm, RAS, by the frames' own headers; and what the segments are."""
    seg = dcmread(path)
    shared = seg.SharedFunctionalGroupsSequence[0]
    orientation = np.array(shared.PlaneOrientationSequence[0].ImageOrientationPatient, dtype=float)
    between_rows, between_columns = map(float, shared.PixelMeasuresSequence[0].PixelSpacing)
    pixels = seg.pixel_array.reshape(-1, seg.Rows, seg.Columns)
    points, labels = [], []
    for frame, groups in zip(pixels, seg.PerFrameFunctionalGroupsSequence, strict=True):
        position = np.array(groups.PlanePositionSequence[0].ImagePositionPatient, dtype=float)
        row, column = np.nonzero(frame)
        place = position + np.outer(column * between_columns, orientation[:3])
        points.append((place + np.outer(row * between_rows, orientation[3:])) @ FLIP[:3, :3])
        labels.append(np.full(len(row), groups.SegmentIdentificationSequence[0].ReferencedSegmentNumber))
    described = [
        {
            "number": int(segment.SegmentNumber),
            "label": segment.SegmentLabel,
            "value": segment.SegmentedPropertyTypeCodeSequence[0].CodeValue,
            "scheme": segment.SegmentedPropertyTypeCodeSequence[0].CodingSchemeDesignator,
            "category": segment.SegmentedPropertyCategoryCodeSequence[0].CodeValue,
            "algorithm": segment.SegmentAlgorithmName,
        }
        for segment in seg.SegmentSequence
    ]
    sources = [item.ReferencedSOPInstanceUID for item in seg.ReferencedSeriesSequence[0].ReferencedInstanceSequence]
    about = {"patient": str(seg.PatientID), "study": str(seg.StudyInstanceUID), "modality": seg.Modality}
    equipment = seg.ContributingEquipmentSequence[0]
    about["equipment"] = {"versions": list(equipment.SoftwareVersions), "device": str(equipment.DeviceUID)}
    about["words"] = {
        tag: str(seg.get(tag, "")) for tag in ("SeriesDescription", "ContentDescription", "ImageComments")
    }
    header = json.dumps(about | {"segments": described, "sources": len(sources)})
    np.savez(output, points=np.concatenate(points), labels=np.concatenate(labels), header=header)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "write":
        for item in json.loads(Path(words[0]).read_text()):
            write_series(item)
    else:
        read_seg(*words)
