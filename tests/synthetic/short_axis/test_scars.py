"""Tests of the scars."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import binary_dilation

from dcl_monai.synthetic.short_axis import GROUPS, LABELS
from dcl_monai.synthetic.short_axis.anatomy import Anatomy, draw_anatomy
from dcl_monai.synthetic.short_axis.heart import render_heart
from dcl_monai.synthetic.short_axis.heart_shape import Region, draw_region, shape_heart
from dcl_monai.synthetic.short_axis.scars import Scar, draw_scars, paint_scars
from dcl_monai.synthetic.short_axis.sequences import LATE_ENHANCEMENT

SECTOR = Scar(angle=0.5, width=0.8, level=0.5, height=0.4, inner=-1.0, outer=2.0, value=1.0)


@pytest.fixture(scope="module")
def anatomy() -> Anatomy:
    return draw_anatomy(np.random.default_rng(5), "NOR", LATE_ENHANCEMENT)


@pytest.fixture(scope="module")
def region(anatomy: Anatomy) -> Region:
    return draw_region(np.random.default_rng(5), anatomy)


def painted(anatomy: Anatomy, region: Region, *scars: Scar) -> np.ndarray:
    """How much of the wall the scars take, ``(D, w, h)``; NaN outside the wall."""
    heart = shape_heart(anatomy, region, "ED")
    wall = np.zeros_like(region.flow)
    paint_scars(wall, region._replace(flow=0 * region.flow, grain=0 * region.grain), heart, scars)
    return np.where((heart.left.endo > 0) & (heart.left.epi < 0), wall, np.nan)


def test_scars_change_the_wall_only(anatomy, region):
    thorax = np.zeros(anatomy.shape, dtype=np.float32)
    bare, labels = render_heart(anatomy, region, thorax, "ED")
    scarred, same_labels = render_heart(anatomy, region, thorax, "ED", [SECTOR])
    np.testing.assert_array_equal(labels, same_labels)
    changed = np.abs(scarred - bare) > 0.3
    assert changed.sum() > 500
    muscle = binary_dilation(labels == LABELS["MYO"], np.ones((1, 3, 3), dtype=bool), iterations=4)  # with trabeculae
    assert muscle[changed].mean() > 0.99
    np.testing.assert_array_equal(render_heart(anatomy, region, thorax, "ED", [])[0], bare)


def test_scar_lies_where_it_should(anatomy, region):
    heart = shape_heart(anatomy, region, "ED")
    wall = painted(anatomy, region, SECTOR)
    angle = np.abs(np.angle(np.exp(1j * (region.theta - SECTOR.angle - heart.turn[:, None, None]))))
    level = np.broadcast_to(np.abs(heart.level - SECTOR.level)[:, None, None], wall.shape)
    inside, outside = (angle < 0.3) & (level < 0.15), (angle > 0.9) | (level > 0.45)
    assert np.nanmin(wall[inside]) > 0.99, "transmural in its middle"
    assert np.nanmax(wall[outside]) == 0.0


@pytest.mark.parametrize("transmurality", [0.3, 0.5, 0.8])
def test_transmurality(anatomy, region, transmurality):
    heart = shape_heart(anatomy, region, "ED")
    wall = painted(anatomy, region, SECTOR._replace(outer=transmurality))
    angle = np.abs(np.angle(np.exp(1j * (region.theta - SECTOR.angle - heart.turn[:, None, None]))))
    core = (angle < 0.2) & (np.abs(heart.level - SECTOR.level) < 0.1)[:, None, None]
    np.testing.assert_allclose(np.nanmean(wall[core]), transmurality, atol=0.12)
    depth = heart.left.endo / (heart.left.endo - heart.left.epi)
    assert np.nanmean(wall[core & (depth < 0.1)]) > 0.9 > 0.1 > np.nanmean(wall[core & (depth > 0.95)])


def test_later_scars_cover_earlier_ones(anatomy, region):
    wall = painted(anatomy, region, SECTOR, SECTOR._replace(width=0.3, height=0.2, value=0.2))
    for value in (0.0, 0.2, 1.0):
        assert np.isclose(wall, value, atol=1e-3).sum() > 100


def test_scars_go_with_the_diagnosis():
    number = {}
    for group in GROUPS:
        anatomies = [draw_anatomy(np.random.default_rng(seed), group, LATE_ENHANCEMENT) for seed in range(20)]
        scars = [draw_scars(np.random.default_rng(seed), each, group) for seed, each in enumerate(anatomies)]
        number[group] = [len(each) for each in scars]
        for anatomy, each in zip(anatomies, scars, strict=True):
            assert all(0.9 <= scar.value <= 1.5 for scar in each[:1])
            if group == "MINF":
                assert each[0].angle == anatomy.thinning_angle
                assert each[0].inner < 0, "an infarct begins at the endocardium"
            if group == "DCM":
                assert all(0 < scar.inner < scar.outer < 1 for scar in each), "a stripe lies in the middle of the wall"
    assert sum(number["NOR"]) == 0
    assert set(number["MINF"]) == {1, 2}
    assert set(number["DCM"]) == {0, 1}
    assert set(number["HCM"]) == {1, 2, 3}
    assert set(number["RV"]) == {0, 2}
