"""Tests of the outlines given as radius per angle."""

from __future__ import annotations

import numpy as np

from dcl_monai.synthetic.short_axis.contours import THETA, across, away, bump, contour, lookup, taper


def test_lookup_reads_each_slice_at_its_angle():
    table = np.stack([THETA, 10 + THETA])
    theta = np.array([[[-3.0, 0.0]], [[1.5, np.pi]]], dtype=np.float32)
    expected = np.array([[[-3.0, 0.0]], [[11.5, 10 - np.pi]]])  # +pi is -pi
    np.testing.assert_allclose(lookup(table, theta), expected, atol=np.pi / len(THETA) + 1e-4)


def test_contour_turns_with_the_twist():
    harmonics = np.array([[3, 0.5, 0.2], [1, 0.1, 0.0]], dtype=np.float32)
    still, turned = contour(harmonics, np.array([0.0, np.pi / 2], dtype=np.float32))
    np.testing.assert_allclose(still, 0.5 * np.cos(3 * THETA + 0.2) + 0.1 * np.cos(THETA), atol=1e-5)
    np.testing.assert_allclose(np.roll(still, len(THETA) // 4), turned, atol=1e-5)


def test_away_wraps_around():
    (delta,) = away(np.array([np.pi - 0.1], dtype=np.float32))
    np.testing.assert_allclose(delta[0], 0.1, atol=1e-5)
    assert np.abs(delta).max() <= np.pi + 1e-5


def test_bump_wraps_around():
    (values,) = bump(np.array([np.pi], dtype=np.float32), 0.5)
    np.testing.assert_allclose(values[0], 1.0, atol=1e-5)
    np.testing.assert_allclose(values[1:], values[:0:-1], atol=1e-4)
    assert values[len(THETA) // 2] < 1e-6


def test_taper_falls_from_base_to_apex():
    radius = taper(np.linspace(-0.5, 1.5, 50, dtype=np.float32))
    assert radius[0] == 1.0
    assert radius[-1] == 0.0
    assert (np.diff(radius) <= 0).all()


def test_across():
    x, y = np.array([[[1.0, 0.0]]]), np.array([[[0.0, 2.0]]])
    np.testing.assert_allclose(across(x, y, np.array([0.0])), [[[0.0, 2.0]]], atol=1e-6)
    np.testing.assert_allclose(across(x, y, np.array([np.pi / 2])), [[[-1.0, 0.0]]], atol=1e-6)
