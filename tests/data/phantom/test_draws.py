"""Tests of the random draws."""

from __future__ import annotations

import numpy as np
import pytest

from dcl_monai.data.phantom.draws import harmonics, smooth_noise


@pytest.mark.parametrize("shared", [0.0, 0.75])
def test_noise_is_smooth_and_of_unit_variance(shared):
    noise = smooth_noise(np.random.default_rng(0), (40, 60, 50), 3.0, shared)
    assert noise.shape == (40, 60, 50)
    assert noise.dtype == np.float32
    np.testing.assert_allclose(noise.var(), 1.0, atol=0.15)
    assert np.abs(np.diff(noise, axis=1)).mean() < 0.3
    between_slices = np.mean(noise[:20] * noise[20:])
    np.testing.assert_allclose(between_slices, shared, atol=0.15)


def test_harmonics():
    rows = harmonics(np.random.default_rng(0), (2, 5), 0.1)
    assert rows.shape == (2, 3)
    np.testing.assert_array_equal(rows[:, 0], [2, 5])
    assert (np.abs(rows[:, 2]) <= np.pi).all()
