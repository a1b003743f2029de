"""Exported models: the target alone in, class probabilities out, without this package, on images of any size."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from helpers import PLANNED_NET
from monai.bundle import onnx_export
from monai.networks.utils import convert_to_onnx, convert_to_torchscript

from dcl_monai.networks import CompNet, DCLNet, make_program, save_model

pytestmark = pytest.mark.slow

BUNDLE = Path(__file__).parents[2] / "bundles" / "acdc"
M = 3
SIZES = {
    2: [(1, 9, 40), (1, 40, 40), (2, 97, 113), (1, 212, 212), (3, 33, 70)],
    3: [(1, 16, 8, 21), (1, 32, 32, 32), (2, 33, 40, 21)],
}
TOLERANCE = 1e-4
NETWORKS: dict[str, dict[str, Any]] = {
    "default": {"norm": "batch"},
    "instance": {"norm": "instance"},
    "unconditional": {"conditional": False},
    "3d": {"spatial_dims": 3},
    "unet_plus": {"backbone": "UNetPlus", "spatial_dims": 2, "features": [4, 4, 8, 8, 8]},
    "planned": PLANNED_NET,
}
# MONAI's DynUNet with deep supervision is beyond TorchScript (it assigns to an optional list); ONNX and torch.export do
NETWORKS["anisotropic"] = NETWORKS["planned"] | {"deep_supervision": False}
SCRIPTABLE = [name for name in NETWORKS if name != "planned"]


def make(name: str) -> DCLNet:
    torch.manual_seed(0)
    basic = {"backbone": "BasicUNet", "spatial_dims": 2, "features": [4, 4, 8, 8, 8, 4]}
    settings = NETWORKS[name] if "strides" in NETWORKS[name] else basic | NETWORKS[name]
    net = DCLNet(CompNet(num_classes=M, zero_conditions=False, **settings))
    if net.conditional:
        images = torch.randn(M, 4, 1, *([40, 37, 18][: dimensions(name)]))  # no multiple of the rule's grid
        net.bank.fill(images, images[:, :, 0] > 0, torch.ones(M, 4, dtype=torch.bool))
    return net.eval()


def dimensions(name: str) -> int:
    return NETWORKS[name].get("spatial_dims", 2)


def inputs(name: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(batch, 1, *size, generator=generator) for batch, *size in SIZES[dimensions(name)]]


def example(name: str) -> tuple[torch.Tensor, list[int]]:
    """An image to export with, and the axes whose size shall be free."""
    dims = dimensions(name)
    return torch.randn(2, 1, *([64, 48, 32][:dims])), [0, *range(2, dims + 2)]


def assert_agrees(name: str, run: Callable[[torch.Tensor], Any]) -> None:
    net = make(name)
    with torch.no_grad():
        for image in inputs(name):
            expected, found = net(image).numpy(), np.asarray(run(image))
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)


def save_torchscript(path: Path) -> None:
    convert_to_torchscript(make("default"), filename_or_obj=str(path))


def save_onnx(path: Path) -> None:
    """By MONAI's command with the bundle's own arguments; the network is the one that the model was trained with."""
    net, checkpoint = make("default"), str(path.with_name("checkpoint.pt"))
    settings = {"classes": ["background", "a", "b"], "pixdim": [2.0, 2.0, -1], "spatial_size": [40, 37, -1]}
    settings |= {"network": net.compnet.settings}
    save_model(net.state_dict(), settings, checkpoint)
    args = str(BUNDLE / "configs" / "onnx_export.json")
    onnx_export(args_file=args, filepath=str(path), ckpt_file=checkpoint, model_file=checkpoint)


def save_program(path: Path) -> None:
    torch.export.save(program("default"), path)


def program(name: str) -> torch.export.ExportedProgram:
    return make_program(make(name), example(name)[0])


@pytest.mark.parametrize("name", SCRIPTABLE)
def test_torchscript(name):
    assert_agrees(name, convert_to_torchscript(make(name)))


@pytest.mark.parametrize("name", ["unconditional", "3d", "unet_plus", "planned"])
def test_onnx(name):
    image, free = example(name)
    model = convert_to_onnx(make(name), [image], input_names=["image"], dynamic_axes={"image": free}, use_trace=False)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert_agrees(name, lambda image: session.run(None, {"image": image.numpy()})[0])


@pytest.mark.parametrize("name", ["instance", "3d", "unet_plus", "planned"])
def test_torch_export(name):
    assert_agrees(name, program(name).module())


SCRIPT = """
import sys
import numpy as np
sys.modules["dcl_monai"] = sys.modules["monai"] = None  # whoever imports them, fails
path, inputs, outputs = sys.argv[1:]
{loader}
np.savez(outputs, **{{key: run(image) for key, image in np.load(inputs).items()}})
"""
TORCHSCRIPT = """
import torch
import torch.fx.experimental._config
net = torch.jit.load(path)
run = lambda image: net(torch.from_numpy(image)).detach().numpy()
"""
ONNX = """
import onnxruntime
net = onnxruntime.InferenceSession(path)
assert [put.name for put in net.get_inputs()] == ["image"] and [put.name for put in net.get_outputs()] == ["pred"]
run = lambda image: net.run(None, {"image": image})[0]
"""
PROGRAM = """
import torch
import torch.fx.experimental._config
net = torch.export.load(path).module()
run = lambda image: net(torch.from_numpy(image)).detach().numpy()
"""


@pytest.mark.parametrize(
    ("file", "save", "loader"),
    [
        ("model.ts", save_torchscript, TORCHSCRIPT),
        ("model.onnx", save_onnx, ONNX),
        ("model.pt2", save_program, PROGRAM),
    ],
)
def test_runs_where_this_package_is_not_installed(tmp_path, monkeypatch, file, save, loader):
    monkeypatch.chdir(BUNDLE)
    save(tmp_path / file)
    np.savez(tmp_path / "in.npz", **{str(index): image.numpy() for index, image in enumerate(inputs("default"))})
    script = SCRIPT.format(loader=loader)
    files = [str(tmp_path / name) for name in (file, "in.npz", "out.npz")]
    subprocess.run([sys.executable, "-I", "-c", script, *files], check=True, cwd=tmp_path)
    outputs = iter(np.load(tmp_path / "out.npz").values())
    assert_agrees("default", lambda image: next(outputs))
