"""The rules against nnU-Net's own answers, which were taken from its version 2.8 by running it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dcl_monai.planning.rules import features, initial_patch, is_anisotropic, pooling, shrink, target_spacing


def per_axis(*rows: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, row)) for row in rows)


class TestPooling:
    def test_cubes(self):
        topology = pooling([1.0, 1.0, 1.0], [35, 50, 35])
        assert topology.patch_size == (40, 56, 40)
        assert topology.strides == per_axis("111", "222", "222", "222")
        assert topology.kernels == per_axis("333", "333", "333", "333")
        assert topology.divisor == (8, 8, 8)

    def test_thick_slices(self):
        """ACDC: the coarse axis is neither halved nor convolved along before the others have caught up."""
        topology = pooling([1.5625, 1.5625, 5.0], [208, 234, 16])
        assert topology.patch_size == (224, 256, 16)
        assert topology.strides == per_axis("111", "221", "222", "222", "221", "221")
        assert topology.kernels == per_axis("331", "333", "333", "333", "333", "333")
        assert topology.divisor == (32, 32, 4)

    def test_slices(self):
        topology = pooling([1.5625, 1.5625], [208, 234])
        assert topology.patch_size == (224, 256)
        assert topology.strides == per_axis("11", "22", "22", "22", "22", "22")

    @pytest.mark.parametrize(("edge", "stages"), [(7, 1), (8, 1), (11, 1), (12, 2), (24, 3)])
    def test_a_single_axis_needs_twelve_voxels(self, edge, stages):
        assert len(pooling([1.0, 1.0], [edge, 4]).strides) == stages

    def test_any_patch(self):
        rng = np.random.default_rng(0)
        for _ in range(200):
            spacing, patch = rng.uniform(0.3, 8, 3), rng.integers(4, 200, 3)
            topology = pooling(spacing.tolist(), patch.tolist())
            bottom = np.array(topology.patch_size) / topology.divisor
            assert (bottom == bottom.astype(int)).all()
            assert (bottom >= 4).all()
            assert (np.array(topology.patch_size) >= patch).all()
            assert (np.array(topology.patch_size) < patch + topology.divisor).all()
            assert len(topology.kernels) == len(topology.strides)


class TestTargetSpacing:
    def test_median(self):
        spacings = np.array([[1.0, 2.0, 3.0], [1.0, 4.0, 3.0], [2.0, 6.0, 3.0]])
        assert target_spacing(spacings, np.full((3, 3), 50)).tolist() == [1.0, 4.0, 3.0]

    def test_tenth_percentile_of_a_coarse_axis(self):
        spacings = np.array([[1.0, 1.0, size] for size in (10.0, 10.0, 10.0, 6.0, 5.0)])
        shapes = np.tile([200, 200, 9], (5, 1))
        assert target_spacing(spacings, shapes)[2] == pytest.approx(np.percentile([10, 10, 10, 6, 5], 10))

    def test_never_finer_than_the_others(self):
        spacings = np.array([[2.0, 2.0, size] for size in (10.0, 10.0, 10.0, 0.5, 0.5)])
        assert target_spacing(spacings, np.tile([200, 200, 9], (5, 1))).tolist() == [2.0, 2.0, 2.0]

    def test_many_coarse_voxels_are_not_anisotropic(self):
        assert is_anisotropic([1, 1, 4], [200, 200, 20])
        assert not is_anisotropic([1, 1, 4], [200, 200, 100])
        assert not is_anisotropic([1, 1, 2.9], [200, 200, 20])


def test_initial_patch_is_a_cube_in_mm_within_the_images():
    assert initial_patch([1.0, 1.0, 1.0], [500, 500, 500]) == [256, 256, 256]
    assert initial_patch([1.0, 1.0, 4.0], [1000, 1000, 1000]) == [406, 406, 102]
    assert initial_patch([1.0, 1.0, 1.0], [500, 100.5, 500]) == [256, 100, 256]


def test_shrink_goes_through_nnunets_sizes():
    """ACDC at 4 and at 2 GB: nnU-Net ends with (256, 224, 16) and (192, 160, 14)."""
    spacing, median = [1.5625, 1.5625, 5.0], [233.5, 207.5, 16.0]
    topology = pooling(spacing, initial_patch(spacing, median))
    sizes = [topology.patch_size]
    while min(sizes[-1][:2]) > 160:
        topology = shrink(spacing, topology, median)
        sizes.append(topology.patch_size)
    assert sizes[0] == (256, 224, 16)
    assert (192, 160, 14) in sizes
    assert all(np.prod(b) < np.prod(a) for a, b in pairwise(sizes))


def test_features():
    assert features(6, 3) == [32, 64, 128, 256, 320, 320]
    assert features(6, 2) == [32, 64, 128, 256, 512, 512]
