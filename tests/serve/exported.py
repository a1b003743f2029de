"""
Segment with an exported model where dcl-monai is not, for test_equality.py.

    python -I exported.py jobs.json     # [[bundle, model file, image, output], ...]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import torch
from monai.bundle import ConfigParser
from monai.data import MetaTensor

sys.modules["dcl_monai"] = None  # type: ignore[assignment]  # whoever imports it, fails


def load(model: str) -> Callable[[torch.Tensor], torch.Tensor]:
    if model.endswith(".ts"):
        return torch.jit.load(model).eval()
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return lambda image: torch.from_numpy(session.run(None, {"image": image.numpy()})[0])


@torch.no_grad()
def segment(bundle: str, model: str, image: str, output: str) -> None:
    parser = ConfigParser()
    parser.read_config(f"{bundle}/configs/inference.json")
    parser.update({"model_file": f"{bundle}/models/model.pt"})
    before, inferer, after = map(parser.get_parsed_content, ("preprocessing", "inferer", "postprocessing"))
    data = before({"image": image})
    network = load(model)
    data["pred"] = MetaTensor(inferer(data["image"].as_tensor()[None], network)[0])
    label = after(data)["pred"][0].numpy().astype(np.uint8)
    nib.save(nib.Nifti1Image(label, nib.load(image).affine), output)


for job in json.loads(Path(sys.argv[1]).read_text()):
    segment(*job)
