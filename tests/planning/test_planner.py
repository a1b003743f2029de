"""Plans of made-up data."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from dcl_monai.losses import ConditionalCompatibleLoss, DeepSupervision
from dcl_monai.networks import CompNet
from dcl_monai.planning import Fingerprint, make_plan
from dcl_monai.planning.planner import intensity_of, planned_dims, shrinking
from dcl_monai.planning.rules import pooling
from dcl_monai.utils import DataError


def fingerprint(shape=(40, 48, 40), spacing=(1.0, 1.0, 1.0), images=20, classes=3, **more: Any) -> Fingerprint:
    content: dict[str, Any] = {
        "classes": ("background", *map(str, range(1, classes))),
        "shapes": np.tile(shape, (images, 1)),
        "spacings": np.tile(np.array(spacing, dtype=float), (images, 1)),
        "reaches": np.full((images, 3), 5.0),
        "minima": np.zeros((images, 1)),
        "foreground": np.linspace(0.0, 1000.0, 1001)[None],
    }
    return Fingerprint(**content | more)


@pytest.fixture
def quick(monkeypatch) -> None:
    """Memory by a rule of thumb, for tests of everything else: 1 kB per voxel, and 0.5 GB."""

    def thumb(network: Any, patch_size: Any, batch_size: int, bank_size: int, device: str) -> int:
        return int(5e8 + 1e3 * batch_size * np.prod(patch_size))

    monkeypatch.setattr("dcl_monai.planning.planner.training_bytes", thumb)


@pytest.mark.parametrize(
    ("shape", "spacing", "dims"),
    [
        ((200, 200, 10), (1.5, 1.5, 10), 2),
        ((200, 200, 1), (1.5, 1.5, 1.5), 2),
        ((200, 200, 60), (1.5, 1.5, 3), 3),
        ((10, 200, 200), (10, 1.5, 1.5), 3),  # the bundles cut slices along the last axis
    ],
)
def test_slices_or_volumes(shape, spacing, dims):
    assert planned_dims(fingerprint(shape, spacing)) == dims


@pytest.mark.usefixtures("quick")
class TestMemory:
    def test_much_of_it(self):
        plan = make_plan(fingerprint(images=200), 16, "cuda")
        assert plan.topology.patch_size == (40, 48, 40)
        assert plan.memory <= plan.budget
        assert plan.batch_size == 10  # 5% of 200 volumes
        assert plan.batch_reason == "limited to 5% of the data"

    def test_all_of_it(self):
        plan = make_plan(fingerprint(images=2000), 2, "cuda")
        assert plan.batch_reason == "limited by memory"
        assert plan.batch_size == 19  # 1.5 GB of 76.8 MB each
        assert plan.memory == 1_959_200_000

    def test_little_of_it(self):
        plan = make_plan(fingerprint(), 0.56, "cpu")  # 30,000 voxels
        sizes = shrinking([1.0, 1.0, 1.0], pooling([1.0, 1.0, 1.0], [40, 48, 40]), [40, 48, 40])
        assert plan.topology == next(size for size in sizes if np.prod(size.patch_size) <= 30_000)
        assert plan.batch_size == 2
        assert plan.memory <= plan.budget

    def test_too_little(self):
        with pytest.raises(DataError, match=r"--memory 0.4: even a patch of .* Give more memory"):
            make_plan(fingerprint(), 0.4, "cpu")

    def test_images_too_small(self):
        with pytest.raises(DataError, match="too small for a U-Net"):
            make_plan(fingerprint((10, 10, 10)), 8, "cpu")


def test_counted_memory_decides():
    """With the real count: 35 x 50 x 36 with three classes needs more than 2 GB on a CPU, and is cut for 1.4."""
    plan = make_plan(fingerprint((35, 50, 36)), 1.4, "cpu")
    assert 0.7 * plan.budget < plan.memory <= plan.budget
    assert plan.topology.patch_size == (32, 40, 32)


def test_smaller_patches_in_order():
    sizes = shrinking([1.0, 1.0, 1.0], pooling([1.0, 1.0, 1.0], [40, 48, 40]), [40, 48, 40])
    assert sizes[0].patch_size == (40, 48, 40)
    assert all(np.prod(b.patch_size) < np.prod(a.patch_size) for a, b in pairwise(sizes))
    assert all(len(size.strides) >= 3 for size in sizes)


@pytest.mark.usefixtures("quick")
class TestSlices:
    def test_patch_is_that_of_slices(self):
        plan = make_plan(fingerprint((60, 64, 10), (2, 2, 10)), 4, "cuda")
        assert plan.dims == 2
        assert plan.topology.patch_size == (64, 64)
        assert plan.median_shape == (60, 64, 10)  # slices stay as they are

    def test_what_is_annotated_fits(self):
        """Slices are cropped about their middle: nothing annotated may be lost for a median of small images."""
        reaches = np.full((20, 3), 5.0)
        reaches[3] = [100.0, 5.0, 5.0]  # mm: 50 voxels from the middle
        plan = make_plan(fingerprint((60, 64, 10), (2, 2, 10), reaches=reaches), 4, "cuda")
        assert plan.topology.patch_size[0] >= 100
        assert plan.topology.patch_size[1] == 64
        assert plan.cut == 0

    def test_what_does_not_fit_is_counted(self):
        reaches = np.full((20, 3), 5.0)
        reaches[3] = [200.0, 200.0, 5.0]
        plan = make_plan(fingerprint((60, 64, 10), (2, 2, 10), reaches=reaches), 0.52, "cuda")
        assert plan.cut == 1


@pytest.mark.usefixtures("quick")
class TestIntensity:
    def test_mr_is_scaled_image_by_image(self):
        assert make_plan(fingerprint(), 8, "cuda").intensity is None
        assert intensity_of(fingerprint(), ct=False) is None

    def test_ct_by_the_data_set(self):
        found = make_plan(fingerprint(minima=np.full((20, 1), -1000.0)), 8, "cuda").intensity
        assert found == {"clip": [5.0, 995.0], "mean": 500.0, "std": pytest.approx(288.96, abs=0.01)}

    def test_one_image_without_air(self):
        minima = np.array([[-1000.0]] * 19 + [[0.0]])
        assert fingerprint(minima=minima).looks_like_ct == [False]
        assert make_plan(fingerprint(minima=minima), 8, "cuda", ct=True).intensity is not None

    def test_by_channel(self):
        """PET and CT: one is scaled image by image, the other by its own numbers."""
        grey = np.stack([np.linspace(0.0, 9.0, 1001), np.linspace(0.0, 1000.0, 1001)])
        data = fingerprint(minima=np.array([[0.0, -1000.0]] * 20), foreground=grey, channels=("PET", "CT"))
        first, second = make_plan(data, 8, "cuda").intensity
        assert first is None
        assert second["clip"] == [5.0, 995.0]
        assert make_plan(data, 8, "cuda", ct=False).intensity is None

    @pytest.mark.parametrize("values", [np.zeros((1, 0)), np.full((1, 50), 7.0)])
    def test_nothing_to_go_by(self, values):
        with pytest.raises(DataError, match="--modality mr"):
            intensity_of(fingerprint(foreground=values), ct=True)


@pytest.mark.parametrize(
    ("shape", "spacing", "dims", "heads"),
    [((16, 16, 16), (1, 1, 1), 3, 2), ((48, 48, 8), (1, 1, 4), 3, 2), ((64, 70, 8), (1, 1, 8), 2, 3)],
)
def test_planned_network_trains_with_compatible_losses(quick, shape, spacing, dims, heads):
    """Deep supervision of as many heads as planned, and a gradient for every weight."""
    plan = make_plan(fingerprint(shape, spacing), 4, "cpu", dims)
    torch.manual_seed(0)
    small = plan.network | {"filters": [4] * len(plan.topology.strides)}
    net = CompNet(num_classes=3, zero_conditions=False, **small)
    image = torch.randn(1, 1, *plan.topology.patch_size)
    masks = torch.rand(1, 3, *plan.topology.patch_size) > 0.5
    logits = net(image, image.expand(-1, 3, *[-1] * dims), masks)
    assert logits.shape == (1, heads, 6, *plan.topology.patch_size)
    candidates = masks | (~masks).all(dim=1, keepdim=True)
    criterion = DeepSupervision(ConditionalCompatibleLoss(3))
    loss = criterion(logits, candidates, masks, torch.ones_like(masks))
    loss.backward()
    assert loss.isfinite()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in net.parameters())
