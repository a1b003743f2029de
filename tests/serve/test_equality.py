"""One image, one answer: folder inference, TorchScript alone, ONNX Runtime and MONAI Deploy draw the same label map."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import monai.bundle
import nibabel as nib
import numpy as np
import pytest

pytestmark = pytest.mark.slow

LIMIT = 1e-4
"""Share of voxels that may differ: 0.01%."""
SHAPES = {"acdc": (80, 72, 5), "mmwhs": (26, 30, 24)}
HEADERS = {  # voxel size in mm, and angles
    "plain": {"acdc": ((1.5, 1.5, 8.0), (0, 0)), "mmwhs": ((4.0, 4.0, 4.0), (0, 0))},
    "oblique": {"acdc": ((1.1, 1.7, 9.0), (0.4, 0.7)), "mmwhs": ((3.1, 4.4, 5.2), (-0.6, 0.3))},
}
every_image = pytest.mark.parametrize("header", HEADERS)
every_task = pytest.mark.parametrize("task", SHAPES)


@pytest.fixture(scope="module")
def images(tmp_path_factory, write_noise) -> dict[str, Path]:
    """A folder of images for each bundle."""
    folders = {task: tmp_path_factory.mktemp(task) for task in SHAPES}
    for seed, (header, entry) in enumerate(HEADERS.items()):
        for task, geometry in entry.items():
            write_noise(folders[task] / f"{header}.nii.gz", SHAPES[task], *geometry, seed=seed)
    return folders


@pytest.fixture(scope="module")
def by_folder(tmp_path_factory, images, small_bundle) -> dict[str, Path]:
    """The way that the others are compared with: ``python -m monai.bundle run``."""
    outputs = {task: tmp_path_factory.mktemp("folder") for task in SHAPES}
    for task, output in outputs.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(small_bundle(task))
            monai.bundle.run(
                config_file="configs/inference.json",
                dataset_dir=str(images[task]),
                output_dir=str(output),
                device="$torch.device('cpu')",
                contact_sheet=False,
            )
    return outputs


@pytest.fixture(scope="module")
def by_export(tmp_path_factory, images, small_bundle) -> Callable[[str], dict[str, Path]]:
    """The exported files of all bundles, run in a process that knows nothing of dcl-monai."""
    outputs = {(task, kind): tmp_path_factory.mktemp(kind) for task in SHAPES for kind in ("ts", "onnx")}
    jobs = []
    for (task, kind), output in outputs.items():
        bundle = small_bundle(task)
        if kind == "onnx":
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(bundle)
                monai.bundle.onnx_export(args_file="configs/onnx_export.json")
        model = bundle / "models" / f"model.{kind}"
        jobs += [[bundle, model, images[task] / f"{name}.nii.gz", output / f"{name}_seg.nii.gz"] for name in HEADERS]
    path = tmp_path_factory.mktemp("jobs") / "jobs.json"
    path.write_text(json.dumps(jobs, default=str))
    script = Path(__file__).with_name("exported.py")
    done = subprocess.run([sys.executable, "-I", "-W", "ignore", script, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return lambda kind: {task: outputs[task, kind] for task in SHAPES}


@pytest.fixture(scope="module")
def by_deploy(tmp_path_factory, images, small_bundle, deploy) -> dict[str, Path]:
    outputs = {task: tmp_path_factory.mktemp("deploy") for task in SHAPES}
    for task, output in outputs.items():
        done, _ = deploy(small_bundle(task), images[task], output)
        assert done.returncode == 0, done.stderr[-3000:]
    return outputs


def label(outputs: dict[str, Path], task: str, header: str) -> np.ndarray:
    return np.asarray(nib.load(outputs[task] / f"{header}_seg.nii.gz").dataobj)


@every_task
@every_image
def test_the_answer_is_worth_comparing(by_folder, task, header):
    """At least three classes, none of them nearly everywhere."""
    shares = np.bincount(label(by_folder, task, header).ravel()) / np.prod(SHAPES[task])
    assert (shares > 0.02).sum() >= 3
    assert shares.max() < 0.8


@every_task
@every_image
@pytest.mark.parametrize("way", ["ts", "onnx", "deploy"])
def test_same_label_map(request, by_folder, task, header, way):
    outputs = request.getfixturevalue("by_deploy") if way == "deploy" else request.getfixturevalue("by_export")(way)
    expected, found = label(by_folder, task, header), label(outputs, task, header)
    assert found.shape == expected.shape
    assert (found != expected).mean() <= LIMIT


@every_task
@every_image
def test_deploy_keeps_the_header(by_folder, by_deploy, task, header):
    ours, theirs = (nib.load(outputs[task] / f"{header}_seg.nii.gz") for outputs in (by_folder, by_deploy))
    assert theirs.get_data_dtype() == np.uint8
    for key in set(ours.header.keys()) - {"descrip"}:
        assert theirs.header[key].tobytes() == ours.header[key].tobytes(), key
