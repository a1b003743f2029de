"""Tests of the acquisition."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import binary_erosion

from dcl_monai.data.phantom import LABELS
from dcl_monai.data.phantom.acquisition import Scanner, acquire, draw_scanner


def test_noise_is_rician():
    scanner = Scanner(np.ones((1, 200, 200), dtype=np.float32), blur=0.7, noise=0.05, gain=1000.0)
    signal = np.zeros((2, 200, 200), dtype=np.float32)
    signal[1] = 1.0
    empty, blood = acquire(np.random.default_rng(0), signal, scanner)
    assert empty.dtype == np.int16
    np.testing.assert_allclose(empty.mean(), 50 * np.sqrt(np.pi / 2), rtol=0.02)
    np.testing.assert_allclose(blood.mean(), 1000, rtol=0.01)
    np.testing.assert_allclose(blood.std(), 50, rtol=0.05)


def test_scanner_is_smooth():
    for seed in range(20):
        scanner = draw_scanner(np.random.default_rng(seed), 160, 180)
        assert scanner.coil.shape == (1, 160, 180)
        assert scanner.coil.min() > 0
        assert np.abs(np.diff(np.log(scanner.coil), axis=1)).max() < 0.03
        assert 0.5 <= scanner.blur <= 0.9
        assert 0.02 <= scanner.noise <= 0.055
        assert 90 <= scanner.gain <= 320


def test_blood_pools_are_equally_bright_and_muscle_is_dark(subjects):
    differences = []
    for subject in subjects:
        image, labels = subject.images["ED"].astype(float), subject.labels["ED"]
        structure = np.ones((3, 3, 1), dtype=bool)
        left, right, muscle = (
            np.median(image[binary_erosion(labels == LABELS[name], structure, iterations=1)])
            for name in ("LV", "RV", "MYO")
        )
        assert muscle < 0.75 * min(left, right)
        differences.append((left - right) / (0.5 * (left + right) - muscle))
    # The coil's sensitivity varies over the heart, so single subjects differ, to either side.
    assert np.max(np.abs(differences)) < 0.6
    assert abs(np.mean(differences)) < 0.2
