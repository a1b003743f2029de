"""
The MONAI Deploy application as its user starts it, in an environment where dcl-monai is not installed.

One run over a folder of good and bad files, since a start takes seconds; the tests look at what came of it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.bundle import ConfigParser

from dcl_monai.candidates import candidate_sets
from dcl_monai.datalist import load_datalist
from dcl_monai.transforms import LoadCandidatesd, LoadImagesd
from dcl_monai.utils import DataError
from dcl_monai.utils.images import check_values, open_image

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LIMIT = 1e-4
SHAPE = (40, 36, 5)
PLAIN, OBLIQUE = ((3.0, 3.0, 8.0), (0, 0)), ((2.1, 3.3, 9.0), (0.4, 0.7))
RLE, DEFLATED = "1.2.840.10008.1.2.5", "1.2.840.10008.1.2.1.99"
NIFTI = {  # what is wrong with a file -> what is said
    "huge.nii.gz": "100000 x 100000 x 1000 voxels",
    "short.nii.gz": "shorter than its header says",
    "notes.nii.gz": "bytes between header and voxels",
    "torn.nii.gz": "cannot be read as NIfTI|shorter",
    "nan.nii.gz": "not finite",
    "blank.nii.gz": "is nearly constant",
    "metres.nii.gz": "If these are metres",
    "link.nii.gz": "leads out of",
    "pipe.nii.gz": "no regular file",
}
ANONYMOUS = ["PatientName", "PatientID", "PatientBirthDate", "PatientSex", "StudyID", "AccessionNumber", "StudyTime"]
DICOM = {
    "gap": "not an even stack",
    "mixed": "neither TemporalPositionIdentifier nor TriggerTime tells them apart",
    "ct": "modality is CT, but the model takes MR",
    "evil": "is not a UID",
    "deflated": "deflated as a whole",
    "frames": "holds 7 frames",
    "lying": "shorter than its header says",
    "text": "is not a DICOM file",
    "sex": r"_seg.nii.gz is written, but no DICOM SEG \(.*'X'",
}


@dataclass
class Run:
    """What went in and what came out."""

    source: Path
    output: Path
    done: subprocess.CompletedProcess
    cases: dict[str, dict]

    def label(self, name: str, suffix: str = "") -> nib.Nifti1Image:
        """The label map of a NIfTI file, or of the one series in a folder."""
        if name.endswith(".nii.gz"):
            return nib.load(self.output / name.replace(".nii.gz", "_seg.nii.gz"))
        (path,) = (self.output / name).glob(f"*{suffix}_seg.nii.gz")
        return nib.load(path)


def lie(path: Path, target: Path, change: Callable[[bytearray], object], kind: type = nib.Nifti1Image) -> None:
    """Write an image with a changed header."""
    image = nib.load(path)
    content = bytearray(kind(np.asarray(image.dataobj), image.affine).to_bytes())
    change(content)
    target.write_bytes(gzip.compress(bytes(content)))


@pytest.fixture(scope="module")
def ran(tmp_path_factory, write_noise, small_bundle, deploy, dicom_files) -> Run:
    root = tmp_path_factory.mktemp("deploy")
    source, output = root / "in", root / "out"
    plain = write_noise(source / "plain.nii.gz", SHAPE, *PLAIN, seed=0)
    write_noise(source / "oblique.nii.gz", SHAPE, *OBLIQUE, seed=1)
    write_noise(source / "cine.nii.gz", (*SHAPE, 3), *OBLIQUE, seed=2)
    write_noise(source / "signed.nii.gz", SHAPE, *PLAIN, seed=3)
    signed = nib.load(source / "signed.nii.gz")  # values below zero, but not in the first slice
    array = np.asarray(signed.dataobj) - np.array([0, 700, 700, 700, 700], dtype=np.int16)
    nib.save(nib.Nifti1Image(array, signed.affine, signed.header), source / "signed.nii.gz")

    bad = source / "bad"
    bad.mkdir()
    lie(plain, bad / "huge.nii.gz", lambda c: struct.pack_into("<4q", c, 16, 3, 10**5, 10**5, 10**3), nib.Nifti2Image)
    lie(plain, bad / "short.nii.gz", lambda c: struct.pack_into("<4h", c, 40, 3, 400, 400, 1000))
    lie(plain, bad / "notes.nii.gz", lambda c: struct.pack_into("<f", c, 108, 2.0**30))
    (bad / "torn.nii.gz").write_bytes(plain.read_bytes()[:200])
    nib.save(nib.Nifti1Image(np.full(SHAPE, np.nan, np.float32), np.eye(4)), bad / "nan.nii.gz")
    nib.save(nib.Nifti1Image(np.zeros(SHAPE, np.float32), np.eye(4)), bad / "blank.nii.gz")
    lie(plain, bad / "metres.nii.gz", lambda c: struct.pack_into("<3f", c, 80, 0.003, 0.003, 0.008))
    os.mkfifo(bad / "pipe.nii.gz")
    os.mkfifo(bad / "pipe")
    shutil.copy(plain, root / "secret.nii.gz")
    (bad / "link.nii.gz").symlink_to(root / "secret.nii.gz")

    series = [
        {"nifti": plain, "folder": source / "dicom" / "plain", "shuffle": True},
        {"nifti": source / "oblique.nii.gz", "folder": source / "dicom" / "oblique", "shuffle": True},
        {"nifti": source / "signed.nii.gz", "folder": source / "dicom" / "signed"},
        {"nifti": plain, "folder": source / "dicom" / "rle", "syntax": RLE},
        {"nifti": source / "cine.nii.gz", "folder": source / "dicom" / "cine", "phase_tag": "TriggerTime"},
        {"nifti": plain, "folder": source / "dicom" / "one", "drop": [1, 2, 3, 4]},
        {"nifti": source / "cine.nii.gz", "folder": bad / "mixed"},
        {"nifti": plain, "folder": bad / "gap", "drop": [2]},
        {"nifti": plain, "folder": bad / "ct", "tags": {"Modality": "CT"}},
        {"nifti": plain, "folder": bad / "evil", "uid": "../../../evil", "drop": [1, 2, 3, 4]},
        {"nifti": plain, "folder": bad / "deflated", "file_syntax": DEFLATED, "drop": [1, 2, 3, 4]},
        {"nifti": plain, "folder": bad / "frames", "tags": {"NumberOfFrames": 7}, "drop": [1, 2, 3, 4]},
        {"nifti": plain, "folder": bad / "lying", "tags": {"Rows": 60000, "Columns": 60000}, "drop": [1, 2, 3, 4]},
    ]
    series += [
        {"nifti": plain, "folder": source / "dicom" / "nameless", "without": ["PatientName", "FrameOfReferenceUID"]},
        {"nifti": plain, "folder": source / "dicom" / "anonymous", "without": ANONYMOUS, "tags": {"StudyDate": ""}},
        {"nifti": plain, "folder": bad / "sex", "tags": {"PatientSex": "X"}},
        {"nifti": plain, "folder": source / "dicom" / "bare", "preamble": "none"},
        {"nifti": plain, "folder": source / "dicom" / "short", "preamble": "meta"},
    ]
    shutil.copy(plain, source / "CAPITAL.NII.GZ")
    (root / "series.json").write_text(json.dumps(series, default=str))
    dicom_files("write", root / "series.json")
    (bad / "text").mkdir()
    (bad / "text" / "notes.dcm").write_text("no image " * 30)
    (source / "dicom" / "readme.txt").write_text("passed over")
    done, report = deploy(small_bundle("acdc"), source, output)
    return Run(source, output, done, report.get("cases", {}))


def same(first: nib.Nifti1Image, second: nib.Nifti1Image) -> bool:
    return (np.asarray(first.dataobj) != np.asarray(second.dataobj)).mean() <= LIMIT


def test_dcl_monai_is_not_there(deploy_env):
    line = [deploy_env / "bin" / "python", "-s", "-c", "import dcl_monai"]
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(line, capture_output=True, text=True, cwd=deploy_env, env=clean)
    assert "No module named 'dcl_monai'" in done.stderr


def test_all_that_is_good_is_segmented(ran):
    assert ran.done.returncode == 1, ran.done.stderr[-3000:]  # because of the bad ones
    failed = [name for name, case in ran.cases.items() if case["status"] == "failed" and not name.startswith("bad/")]
    assert not failed, ran.done.stderr[-3000:]
    assert sum(case["status"] == "done" for case in ran.cases.values()) == 5 + 9 + 3
    assert "Traceback" not in ran.done.stderr
    written = {path.relative_to(ran.output).as_posix() for path in ran.output.rglob("*") if path.is_file()}
    assert written == {"report.json"} | {name for case in ran.cases.values() for name in case.get("outputs", [])}


@pytest.mark.parametrize("name", ["plain", "oblique", "signed"])
def test_a_series_gives_what_its_nifti_gives(ran, name):
    """Files in any order, pixels that are not square, values below zero."""
    nifti, dicom = ran.label(f"{name}.nii.gz"), ran.label(f"dicom/{name}")
    assert dicom.shape == nifti.shape
    np.testing.assert_allclose(dicom.affine, nifti.affine, atol=1e-4)
    assert same(dicom, nifti)
    assert len(np.unique(nifti.dataobj)) >= 3


@pytest.mark.parametrize("name", ["nameless", "anonymous", "bare", "short"])
def test_a_header_that_lacks_something(ran, name):
    """A missing name or frame of reference lost all results, and files without a preamble were passed over."""
    assert same(ran.label(f"dicom/{name}"), ran.label("plain.nii.gz"))
    assert len(list((ran.output / "dicom" / name).glob("*_seg.dcm"))) == 1


def test_capital_letters(ran):
    assert same(nib.load(ran.output / "CAPITAL_seg.NII.GZ"), ran.label("plain.nii.gz"))


def test_seg_names_the_very_model(ran, dicom_files, tmp_path):
    (path,) = (ran.output / "dicom" / "plain").glob("*_seg.dcm")
    dicom_files("read", path, tmp_path / "seg.npz")
    equipment = json.loads(str(np.load(tmp_path / "seg.npz")["header"]))["equipment"]
    sha256 = json.loads((ran.output / "report.json").read_text())["model"]["sha256"]
    assert equipment["versions"][-1] == sha256
    assert equipment["device"] == f"2.25.{int(sha256[:32], 16)}"


def test_what_is_unusual_is_told(ran, dicom_files, tmp_path):
    """In the report and in the SEG, by the bank of the exported model."""
    (name,) = (name for name in ran.cases if name.startswith("dicom/plain/"))
    unusual = ran.cases[name]["unusual"]
    assert unusual == ran.cases["plain.nii.gz"]["unusual"] != []
    assert f"{ran.source / name}: unusual, look at it. {unusual[0]}" in ran.done.stderr
    assert ran.cases["cine.nii.gz"]["unusual"][0].startswith("frame 1: ")
    (path,) = (ran.output / "dicom" / "plain").glob("*_seg.dcm")
    dicom_files("read", path, tmp_path / "seg.npz")
    words = json.loads(str(np.load(tmp_path / "seg.npz")["header"]))["words"]
    assert "UNUSUAL" in words["SeriesDescription"]
    assert words["ImageComments"] == "; ".join(unusual)
    assert words["ContentDescription"][:60] == unusual[0][:60]


@pytest.mark.skipif(shutil.which("dciodvfy") is None, reason="needs dciodvfy: apt-get install dicom3tools")
@pytest.mark.parametrize("name", ["plain", "oblique", "nameless", "anonymous", "bare"])
def test_seg_is_valid(ran, name):
    """By the validator of David Clunie's dicom3tools."""
    (path,) = (ran.output / "dicom" / name).glob("*_seg.dcm")
    done = subprocess.run(["dciodvfy", "-new", path], capture_output=True, text=True, errors="replace")
    lines = (done.stdout + done.stderr).splitlines()
    assert not [line for line in lines if line.startswith("Error")]
    # an older validator does not know that this sequence may have a DeviceUID; an empty one is another warning
    assert not [line for line in lines if "DeviceUID" in line and "not present in standard DICOM IOD" not in line]


def test_one_slice(ran):
    """As thick as its header says."""
    label = ran.label("dicom/one")
    assert label.shape == (*SHAPE[:2], 1)
    np.testing.assert_allclose(label.affine, ran.label("plain.nii.gz").affine, atol=1e-4)


def test_compressed_series(ran):
    assert same(ran.label("dicom/rle"), ran.label("plain.nii.gz"))


def test_phases_are_kept_apart(ran):
    cine = ran.label("cine.nii.gz")
    assert cine.shape == (*SHAPE, 3)
    for t in range(3):
        assert same(ran.label("dicom/cine", f"phase{t + 1:02d}"), cine.slicer[..., t])


@pytest.mark.parametrize(
    ("name", "suffix"), [("dicom/plain", ""), ("dicom/oblique", ""), ("dicom/cine", "_phase02")], ids=lambda word: word
)
def test_seg_lies_where_the_label_map_is(ran, dicom_files, tmp_path, name, suffix):
    """Voxel by voxel in space, by the headers of the SEG's own frames."""
    (path,) = (ran.output / name).glob(f"*{suffix}_seg.dcm")
    dicom_files("read", path, tmp_path / "seg.npz")
    seg, label = np.load(tmp_path / "seg.npz"), ran.label(name, suffix)
    index = nib.affines.apply_affine(np.linalg.inv(label.affine), seg["points"])
    np.testing.assert_allclose(index, np.round(index), atol=1e-3)
    found = np.zeros(label.shape, dtype=int)
    found[tuple(np.round(index).astype(int).T)] = seg["labels"]
    assert np.array_equal(found, np.asarray(label.dataobj))
    header = json.loads(str(seg["header"]))
    assert (header["patient"], header["modality"], header["sources"]) == ("1", "SEG", SHAPE[2])
    assert [(s["number"], s["label"], s["value"], s["scheme"], s["category"]) for s in header["segments"]] == [
        (1, "RV", "53085002", "SCT", "91723000"),
        (2, "MYO", "49848007", "SCT", "91723000"),
        (3, "LV", "87878005", "SCT", "91723000"),
    ]


@pytest.mark.parametrize("name", ["plain", "oblique", "rle", "one"])
def test_seg_is_read_as_a_label(ran, name):
    """Corrected results become training data: a series, and the folder with its results."""
    pytest.importorskip("highdicom")
    entry = {
        "folder": str(ran.source.parent),
        "training": [{"image": f"in/dicom/{name}", "label": f"out/dicom/{name}"}],
    }
    classes = ["background", "RV", "MYO", "LV"]
    (item,) = load_datalist({"classes": classes, "datasets": {"corrected": entry | {"split": "training"}}})["training"]
    loaded = LoadCandidatesd("label", 4)(LoadImagesd("image")(dict(item)))
    sets = np.array(candidate_sets(loaded["label"]))[loaded["label"][0].numpy().astype(int)]
    label = ran.label(f"dicom/{name}")
    index = (
        np.linalg.inv(loaded["image"].affine.numpy()) @ label.affine @ np.c_[np.argwhere(sets >= 0), [1] * sets.size].T
    )
    np.testing.assert_allclose(index, np.round(index), atol=1e-2)
    found = sets[tuple(np.round(index[:3]).astype(int))]
    np.testing.assert_array_equal(found, 1 << np.asarray(label.dataobj).ravel().astype(int))
    assert len(np.unique(found)) >= 3


@pytest.mark.parametrize("name", NIFTI)
def test_bad_nifti_is_refused(ran, name):
    case = ran.cases[f"bad/{name}"]
    assert case["status"] == "failed"
    assert re.search(NIFTI[name], case["error"])


@pytest.mark.parametrize("name", DICOM)
def test_bad_dicom_is_refused(ran, name):
    (case,) = (case for key, case in ran.cases.items() if key.startswith(f"bad/{name}/"))
    assert case["status"] == "failed"
    assert re.search(DICOM[name], case["error"])


def test_label_map_is_kept_where_no_seg_can_be_written(ran):
    (case,) = (case for key, case in ran.cases.items() if key.startswith("bad/sex/"))
    assert [Path(name).suffix for name in case["outputs"]] == [".gz"]
    assert same(ran.label("bad/sex"), ran.label("plain.nii.gz"))


@pytest.mark.parametrize("name", [name for name in NIFTI if name not in ("link.nii.gz",)])
def test_folder_inference_says_the_same(ran, name):
    """Both use dcl_monai.utils.images."""
    path = ran.source / "bad" / name
    with pytest.raises(DataError) as raised:
        check_values(path, np.asarray(open_image(path, [4.0, 4.0, -1]).dataobj))
    assert ran.cases[f"bad/{name}"]["error"] == str(raised.value)


def test_two_channels_in_one_file(tmp_path, write_noise, small_bundle, deploy, dicom_files):
    """The fourth axis holds channels, and the label map is one volume, that of folder inference."""
    bundle, source, output = small_bundle("acdc", "T1", "T2"), tmp_path / "in", tmp_path / "out"
    both = write_noise(source / "both.nii.gz", (*SHAPE, 2), *OBLIQUE, seed=4)
    one = write_noise(source / "one.nii.gz", SHAPE, *PLAIN, seed=0)
    write_noise(source / "three.nii.gz", (*SHAPE, 3), *PLAIN, seed=0)
    (tmp_path / "series.json").write_text(json.dumps([{"nifti": str(one), "folder": str(source / "dicom")}]))
    dicom_files("write", tmp_path / "series.json")
    _, report = deploy(bundle, source, output)
    (series,) = (name for name in report["cases"] if name.startswith("dicom/"))
    assert "holds one channel, but the model takes 2" in report["cases"].pop(series)["error"]
    words = {name: case.get("error", "") for name, case in report["cases"].items()}
    assert words == {
        "both.nii.gz": "",
        **{
            f"{name}.nii.gz": f"{source / name}.nii.gz: holds {number} channel(s), but the model takes 2. Put all of "
            "them into one file, along its fourth axis."
            for name, number in (("one", 1), ("three", 3))
        },
    }
    parser = ConfigParser()
    parser.read_config(str(bundle / "configs" / "inference.json"))
    folders = {"dataset_dir": str(source), "output_dir": str(tmp_path / "folder"), "pattern": "both.nii.gz"}
    parser.update({"bundle_root": str(bundle), "contact_sheet": False} | folders)
    parser.get_parsed_content("run")
    found, wanted = nib.load(output / "both_seg.nii.gz"), nib.load(tmp_path / "folder" / "both_seg.nii.gz")
    assert found.shape == SHAPE
    np.testing.assert_array_equal(found.affine, nib.load(both).affine)
    assert same(found, wanted)
    assert len(np.unique(found.dataobj)) >= 3
    (entry,) = json.loads((tmp_path / "folder" / "report.json").read_text())["files"].values()
    assert report["cases"]["both.nii.gz"]["unusual"] == entry["unusual"]


def test_container_has_all_that_is_imported(deploy_env, tmp_path):
    """No engine is needed for that: the files are copied as the Dockerfile says."""
    lines = (ROOT / "serve" / "deploy" / "Dockerfile").read_text().splitlines()
    for line in lines:
        if line.startswith("COPY "):
            *sources, target = line.split()[1:]
            for source in (path for pattern in sources for path in ROOT.glob(pattern)):
                if source.is_dir():
                    shutil.copytree(source, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    (tmp_path / target).mkdir(exist_ok=True)
                    shutil.copy(source, tmp_path / target)
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    line = [deploy_env / "bin" / "python", "-s", "-W", "ignore", "app", "--help"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=clean)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "--bundle" in done.stdout


CHECKS = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from bundle import open_bundle
from errors import DataError
results = {}
for folder, sha256 in json.loads(sys.argv[2]):
    os.chdir(folder)
    try:
        found = open_bundle(Path(folder), sha256)
        results[folder] = " ".join(found.classes)
    except DataError as error:
        results[folder] = str(error)
from codes import STRUCTURES, segment_descriptions
results["codes"] = {name: code.value for name, code in STRUCTURES.items()}
try:
    segment_descriptions(["background", "LV", "liver"], {}, "name", "1")
except DataError as error:
    results["liver"] = str(error)
print(json.dumps(results))
"""


class TestModels:
    """Models that were changed on their way, looked at in one process."""

    @pytest.fixture(scope="class")
    def folders(self, deploy_env, tmp_path_factory, small_bundle) -> dict[str, Path]:
        good, root = small_bundle("acdc"), tmp_path_factory.mktemp("models")
        names = ("good", "alone", "missing", "cut", "changed", "packed", "stale", "torn", "hash", "grid", "channels")
        folders = {name: shutil.copytree(good, root / name, symlinks=True) for name in names}
        model = {name: folder / "models" / "model.ts" for name, folder in folders.items()}
        model["missing"].unlink()
        model["cut"].write_bytes(model["cut"].read_bytes()[:-5000])
        content = bytearray(model["changed"].read_bytes())
        with zipfile.ZipFile(model["changed"]) as archive:
            largest = max(archive.infolist(), key=lambda entry: entry.file_size)
        content[largest.header_offset + largest.file_size // 2] ^= 1
        model["changed"].write_bytes(content)
        with zipfile.ZipFile(model["packed"], "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("model/extra/zeros", bytes(2**26 + 1))
        weights = torch.load(folders["stale"] / "models" / "model.pt", weights_only=True)
        weights["compnet.backbone.final_conv.bias"] += 1
        torch.save(weights, folders["stale"] / "models" / "model.pt")
        torn = folders["torn"] / "models" / "model.pt"
        torn.write_bytes(torn.read_bytes()[:-5000])
        for name in ("alone", "grid"):  # without model.pt, classes and grid are those of inference.json
            (folders[name] / "models" / "model.pt").unlink()
        metadata = folders["channels"] / "configs" / "metadata.json"
        metadata.write_text(metadata.read_text().replace('"num_channels": 1,', '"num_channels": 2,'))
        config = folders["alone"] / "configs" / "inference.json"
        text = config.read_text(encoding="utf-8").replace("[112, 112, -1]", "[32, 32, -1]")
        config.write_text(text, encoding="utf-8")
        return folders

    @pytest.fixture(scope="class")
    def results(self, folders, deploy_env) -> dict[str, str]:
        jobs = json.dumps([[str(folder), "00" if name == "hash" else ""] for name, folder in folders.items()])
        line = [deploy_env / "bin" / "python", "-W", "ignore", "-c", CHECKS, ROOT / "serve" / "deploy" / "app", jobs]
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run([*map(str, line)], capture_output=True, text=True, encoding="utf-8", env=clean)
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        return {name: found[str(folder)] for name, folder in folders.items()} | {
            name: found[name] for name in ("codes", "liver")
        }

    @pytest.mark.parametrize(
        ("name", "word"),
        [
            ("good", "^background RV MYO LV$"),
            ("alone", "^background RV MYO LV$"),
            ("missing", "no such model. Export one"),
            ("cut", "cannot be read as a model"),
            ("changed", "cannot be read as a model .*(checksum|CRC)"),
            ("torn", "model.pt: cannot be read as a model"),
            ("packed", "it unpacks to [0-9]+ bytes"),
            ("stale", "is not made from .*final_conv.bias differs"),
            ("hash", "but 00 was asked for"),
            ("grid", r"a grid of \[32, 32\], but the configuration says 4 and \[112, 112, -1\]"),
            ("channels", r"takes 1 channel\(s\), but configs/metadata.json says 2"),
        ],
    )
    def test_model(self, results, name, word):
        assert re.search(word, results[name])

    def test_codes(self, results):
        codes = {"LV": "87878005", "MYO": "49848007", "RV": "53085002", "LA": "82471001", "RA": "73829009"}
        assert results["codes"] == codes | {"AO": "15825003", "PA": "81040000"}
        assert "no code for the class(es) liver" in results["liver"]
        assert "--codes FILE" in results["liver"]
