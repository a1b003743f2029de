"""Tests of the painting of regions and ellipsoids."""

from __future__ import annotations

import numpy as np
import pytest

from dcl_monai.synthetic.painting import Ellipsoid, Grid, blend, cover, paint_ellipsoids


def test_cover_has_a_linear_edge():
    np.testing.assert_allclose(cover(np.array([-5.0, -0.5, 0.0, 0.5, 5.0]), 2.0), [1, 0.75, 0.5, 0.25, 0])


def test_blend_paints_in_place():
    image = np.array([1.0, 1.0, 1.0])
    blend(image[1:], 3.0, np.array([0.5, 1.0]))
    np.testing.assert_allclose(image, [1, 2, 3])


@pytest.mark.parametrize("masked", [False, True])
def test_ellipsoid_has_the_volume_it_should(masked):
    x, y = (40 - 0.5 * 159 + np.arange(160.0), -0.5 * 119 + np.arange(120.0))
    z = np.arange(-30.0, 31.0)
    shape = (len(z), len(x), len(y))
    grid = Grid(np.broadcast_to(x[:, None], shape), np.broadcast_to(y, shape), z, 1.0)
    image = np.zeros(shape)
    mask = (grid.x > 60).astype(float) if masked else None
    paint_ellipsoids(image, grid, [Ellipsoid(60.5, -5.0, 2.0, 30, 15, 20, 0.0, 2.0)], mask)
    expected = 2.0 * 4 / 3 * np.pi * 30 * 15 * 20
    np.testing.assert_allclose(image.sum(), expected / 2 if masked else expected, rtol=0.03)
    if not masked:
        centre = [
            np.average(axis, weights=image) for axis in (grid.x, grid.y, np.broadcast_to(z[:, None, None], shape))
        ]
        np.testing.assert_allclose(centre, [60.5, -5.0, 2.0], atol=0.1)
