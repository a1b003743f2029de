"""Small models with an answer worth comparing, images worth segmenting, and the way into MONAI Deploy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.bundle import ConfigParser, ckpt_export
from scipy.ndimage import gaussian_filter

from dcl_monai.networks import DCLNet, save_model

ROOT = Path(__file__).parents[2]
OF_THE_USER = shutil.ignore_patterns("data", "output", "*.pt", "*.ts", "*.onnx")
"""What a user's own runs leave in a bundle."""
UNET = {"features": [4, 4, 8, 8, 8, 4]}
DYNUNET = {"kernel_size": [3, 3, 3], "strides": [1, 2, 2], "upsample_kernel_size": [2, 2], "filters": [4, 4, 8]}
SMALL: dict[str, dict[str, Any]] = {
    "acdc": {"pixdim": [4.0, 4.0, -1], "spatial_size": [32, 32, -1], "network": UNET, "last": "final_conv"},
    "mmwhs": {"pixdim": [6.0] * 3, "spatial_size": [16] * 3, "network": DYNUNET, "last": "output_block.conv.conv"},
}


def smooth_noise(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Something with structure in it, and values between about 0 and 1000."""
    noise = gaussian_filter(np.random.default_rng(seed).normal(size=shape), [2.0] * 2 + [0.7] * (len(shape) - 2))
    return (np.clip(noise / noise.std(), -3, 3) * 160 + 500).astype(np.int16)


def turned(spacing: tuple[float, float, float], angles: tuple[float, float]) -> np.ndarray:
    """An affine of voxels of that size, turned about two axes."""
    (c, d), (s, t) = np.cos(angles), np.sin(angles)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.array([[1, 0, 0], [0, d, -t], [0, t, d]])
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * np.array(spacing), (-40.0, 25.0, 7.0)
    return affine


@pytest.fixture(scope="session")
def write_noise() -> Callable[..., Path]:
    """Write an image of smooth noise, with voxels of a size in mm, turned by two angles."""

    def write(
        path: Path, shape: tuple[int, ...], spacing: tuple[float, float, float], angles: tuple[float, float], seed: int
    ) -> Path:
        image = nib.Nifti1Image(smooth_noise(shape, seed), turned(spacing, angles))
        image.header.set_xyzt_units("mm", "sec")
        image.set_qform(image.affine, code=1)
        image.set_sform(image.affine, code=1)
        path.parent.mkdir(parents=True, exist_ok=True)
        nib.save(image, path)
        return path

    return write


@torch.no_grad()
def spread_classes(net: DCLNet, last: str, image: torch.Tensor) -> None:
    """Make the last layer of an untrained network speak up, and shift its biases until all classes are found."""
    layer = net.compnet.backbone.get_submodule(last)
    seen: list[torch.Tensor] = []
    hook = layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
    net(image)
    hook.remove()
    spread = seen[0].transpose(0, 1).flatten(1).std(dim=1)
    layer.weight *= (3 / spread).reshape([-1] + [1] * (layer.weight.dim() - 1))
    for _ in range(40):
        share = net(image).mean(dim=[0, *range(2, image.dim())])
        layer.bias[: net.num_classes] -= 0.5 * (share.clamp_min(1e-3) * net.num_classes).log()


@pytest.fixture(scope="session")
def small_bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A copy of a bundle with ``models/model.pt`` and ``models/model.ts`` of a small network with a filled bank."""

    @cache
    def make(task: str, *channels: str) -> Path:
        names = list(channels) or ["image"]
        small, folder = SMALL[task], tmp_path_factory.mktemp("bundle") / task
        shutil.copytree(ROOT / "bundles" / task, folder, symlinks=True, ignore=OF_THE_USER)
        parser = ConfigParser()
        parser.read_config(str(folder / "configs" / "inference.json"))
        parser.update({"model_file": "none", "channels": names, "network_def#compnet#zero_conditions": False})
        parser.update({f"network_def#compnet#{key}": value for key, value in small["network"].items()})
        classes = parser.get_parsed_content("classes")
        size = [length for length in small["spatial_size"] if length > 0]
        torch.manual_seed(0)
        net: DCLNet = parser.get_parsed_content("network_def").eval()
        bank = np.stack([[smooth_noise(tuple(size), 10 * j + k) for k in range(3)] for j in range(len(classes))])
        images = torch.from_numpy((bank - 500) / 160).float().unsqueeze(2)
        images = torch.cat([images * (-1) ** c for c in range(len(names))], dim=2)
        net.bank.fill(images, images[:, :, 0] > 0.5, torch.ones(len(classes), 3, dtype=torch.bool))
        spread_classes(net, small["last"], images[:, 0])
        settings = {"classes": classes, "channels": names, "network": net.compnet.settings}
        settings |= {key: small[key] for key in ("pixdim", "spatial_size")}
        save_model(net.state_dict(), settings, folder / "models" / "model.pt")
        metadata = folder / "configs" / "metadata.json"
        text = metadata.read_text(encoding="utf-8").replace('"num_channels": 1,', f'"num_channels": {len(names)},')
        metadata.write_text(text, encoding="utf-8")
        export_torchscript(folder)
        return folder

    return make


def export_torchscript(bundle: Path) -> None:
    """By MONAI's command, as the docs say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(bundle)
        ckpt_export(
            "network_def",
            filepath="models/model.ts",
            ckpt_file="models/model.pt",
            meta_file="configs/metadata.json",
            config_file="configs/inference.json",
        )


@pytest.fixture(scope="session")
def deploy_env() -> Path:
    """MONAI Deploy's own environment."""
    folder = Path(os.environ.get("DCL_DEPLOY_ENV", ROOT / "serve" / ".venv-deploy"))
    if not (folder / "installed.lock").is_file():
        pytest.skip(f"no MONAI Deploy at {folder} (2 GB). Run `bash serve/deploy/run.sh --install --cpu` first")
    return folder


@pytest.fixture(scope="session")
def deploy(deploy_env: Path) -> Callable[..., tuple[subprocess.CompletedProcess, dict]]:
    """Run the application, from a folder that has nothing to do with it; return the process and its report."""

    def run(bundle: Path, source: Path, output: Path, *words: str) -> tuple[subprocess.CompletedProcess, dict]:
        line = ["bash", str(ROOT / "serve" / "deploy" / "run.sh"), "--bundle", bundle, "--input", source]
        done = subprocess.run(
            [*map(str, line), "--output", str(output), *words],
            cwd=deploy_env,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=os.environ | {"OMP_NUM_THREADS": "1", "DCL_DEPLOY_ENV": str(deploy_env)},
        )
        path = output / "report.json"
        return done, json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    return run


@pytest.fixture(scope="session")
def dicom_files(deploy_env: Path) -> Callable[..., None]:
    """Run ``dicom_files.py``, where pydicom is."""

    def run(*words: object) -> None:
        line = [deploy_env / "bin" / "python", Path(__file__).with_name("dicom_files.py"), *words]
        done = subprocess.run([*map(str, line)], capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr[-3000:]

    return run
