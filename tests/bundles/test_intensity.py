"""Grey values: one setting for training, test and inference; inference by MONAI's own transforms, for other servers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from monai.bundle import ConfigParser
from monai.transforms import Compose

ROOT = Path(__file__).parents[2]
CT = {"clip": [-100.0, 300.0], "mean": 50.0, "std": 25.0}


def last_steps(bundle: str, config: str, path: str, intensity: dict | None) -> Compose:
    """What a bundle does to an image that has its grid."""
    parser = ConfigParser()
    parser.read_config(ROOT / "bundles" / bundle / "configs" / config)
    steps = parser[path]["transforms"]
    number = 3 if config == "inference.json" else 1
    assert ["Intensity" in step["_target_"] for step in steps] == [False] * (len(steps) - number) + [True] * number
    parser[path] = {"_target_": "Compose", "transforms": steps[-number:]}
    parser["intensity"] = intensity
    return parser.get_parsed_content(path)


@pytest.mark.parametrize("bundle", ["acdc", "mscmr", "mmwhs"])
@pytest.mark.parametrize(
    ("config", "path"),
    [("train.json", "train#preprocessing"), ("train.json", "test#preprocessing"), ("inference.json", "preprocessing")],
)
class TestIntensity:
    def test_every_frame_by_itself(self, bundle, config, path):
        image = torch.tensor([[[0.0, 2.0]], [[10.0, 30.0]]])
        done = last_steps(bundle, config, path, None)({"image": image})["image"]
        torch.testing.assert_close(torch.as_tensor(done), torch.tensor([[[-1.0, 1.0]], [[-1.0, 1.0]]]))

    def test_by_the_data_set(self, bundle, config, path):
        image = torch.tensor([[[-1000.0, -100.0, 50.0]], [[75.0, 300.0, 2000.0]]])
        done = last_steps(bundle, config, path, CT)({"image": image})["image"]
        torch.testing.assert_close(torch.as_tensor(done), torch.tensor([[[-6.0, -6.0, 0.0]], [[1.0, 10.0, 10.0]]]))
