"""Tests of the solids."""

from __future__ import annotations

import numpy as np
import pytest

from dcl_monai.synthetic.whole_heart.fields import (
    apart,
    dot,
    ellipsoid,
    half_space,
    intersection,
    smooth_path,
    tube,
    union,
    vector,
)


@pytest.fixture(scope="module")
def points() -> np.ndarray:
    """A grid of 1 mm from -30 to 30."""
    axis = np.arange(-30, 31, dtype=np.float32)
    return np.stack(np.meshgrid(axis, axis, axis, indexing="ij"))


def at(field: np.ndarray, x: int, y: int, z: int) -> float:
    return float(field[x + 30, y + 30, z + 30])


def test_dot():
    np.testing.assert_array_equal(dot(vector(1, -2, 3), np.array([[1.0, 0.0], [0.0, 5.0], [2.0, 1.0]])), [7.0, -7.0])


def test_sphere_has_exact_distances(points):
    sphere = ellipsoid(points, vector(5, 0, 0), vector(10, 10, 10))
    np.testing.assert_allclose(
        sphere, np.linalg.norm(points - vector(5, 0, 0)[:, None, None, None], axis=0) - 10, atol=1e-3
    )


def test_ellipsoid_follows_its_axes(points):
    turned = ellipsoid(points, vector(0, 0, 0), vector(20, 10, 5), np.eye(3, dtype=np.float32)[[2, 0, 1]])
    for place in ((10, 0, 0), (0, 5, 0), (0, 0, 20)):
        assert abs(at(turned, *place)) < 1e-4
    np.testing.assert_allclose((turned < 0).sum(), 4 / 3 * np.pi * 20 * 10 * 5, rtol=0.03)
    np.testing.assert_allclose(at(turned, 13, 0, 0), 3.0, atol=0.8)


def test_tube_with_changing_radius(points):
    bent = tube(points, np.stack([vector(-20, 0, 0), vector(0, 0, 0), vector(0, 20, 0)]), vector(4, 6, 2))
    expected = {(-20, 0, 4): 0.0, (-10, 0, 5): 0.0, (0, 10, 6): 2.0, (0, 20, 0): -2.0, (0, 24, 0): 2.0}
    for place, distance in expected.items():
        np.testing.assert_allclose(at(bent, *place), distance, atol=1e-4)
    assert bent.dtype == np.float32
    assert at(bent, 30, -30, 30) == bent.max() == 15.0, "far away it is constant"


def test_smooth_path_goes_through_its_corners():
    corners = np.array([(0, 0, 0), (10, 0, 0), (10, 10, 0)], dtype=np.float32)
    path = smooth_path(corners, 4)
    assert path.shape == (9, 3)
    np.testing.assert_allclose(path[::4], corners, atol=1e-5)
    turns = np.diff(path, axis=0)
    cosines = (turns[1:] * turns[:-1]).sum(1) / np.linalg.norm(turns[1:], axis=1) / np.linalg.norm(turns[:-1], axis=1)
    assert cosines.min() > 0.8


def test_half_space(points):
    plane = half_space(points, vector(0, 0, 5), vector(0, 0, 2))
    assert at(plane, 3, 4, 5) == 0.0
    assert at(plane, 0, 0, 9) == 4.0
    assert at(plane, 0, 0, 0) == -5.0


def test_union_fills_the_edge_and_intersection_rounds_it(points):
    one, two = (
        half_space(points, vector(0, 0, 0), vector(1, 0, 0)),
        half_space(points, vector(0, 0, 0), vector(0, 1, 0)),
    )
    assert at(union(one, two, 4.0), 0, 0, 0) == -1.0
    assert at(intersection(one, two, 4.0), 0, 0, 0) == 1.0
    for place in ((-10, 3, 0), (7, -2, 0)):
        assert at(union(one, two, 4.0), *place) == min(at(one, *place), at(two, *place))
        assert at(intersection(one, two, 4.0), *place) == max(at(one, *place), at(two, *place))


def test_apart_keeps_a_gap_to_all_others(points):
    left, right = (
        half_space(points, vector(-5, 0, 0), vector(1, 0, 0)),
        half_space(points, vector(5, 0, 0), vector(-1, 0, 0)),
    )
    inside = apart(ellipsoid(points, vector(0, 0, 0), vector(20, 20, 20)), left, right, gap=2.0) <= 0
    x = points[0][inside]
    assert (x.min(), x.max()) == (-3.0, 3.0)
