"""Tests of the random draws."""

from __future__ import annotations

import numpy as np
import pytest

from dcl_monai.synthetic.draws import harmonics, smooth_field, smooth_noise


@pytest.mark.parametrize("shared", [0.0, 0.75])
def test_noise_is_smooth_and_of_unit_variance(shared):
    noise = smooth_noise(np.random.default_rng(0), (40, 60, 50), 3.0, shared)
    assert noise.shape == (40, 60, 50)
    assert noise.dtype == np.float32
    np.testing.assert_allclose(noise.var(), 1.0, atol=0.15)
    assert np.abs(np.diff(noise, axis=1)).mean() < 0.3
    between_slices = np.mean(noise[:20] * noise[20:])
    np.testing.assert_allclose(between_slices, shared, atol=0.15)


def test_field_is_smooth_along_each_axis_as_told():
    field = smooth_field(np.random.default_rng(0), (60, 50, 70), (2.0, 4.0, 8.0))
    assert field.shape == (60, 50, 70)
    assert field.dtype == np.float32
    np.testing.assert_allclose(field.var(), 1.0, atol=0.3)
    steps = [np.diff(field, axis=axis).std() for axis in range(3)]
    # The derivative of such noise has the standard deviation 1 / (sqrt(2) * correlation).
    np.testing.assert_allclose(steps, [0.354, 0.177, 0.088], rtol=0.2)


def test_harmonics():
    rows = harmonics(np.random.default_rng(0), (2, 5), 0.1)
    assert rows.shape == (2, 3)
    np.testing.assert_array_equal(rows[:, 0], [2, 5])
    assert (np.abs(rows[:, 2]) <= np.pi).all()
