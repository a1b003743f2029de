"""Tests of the acquisition."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import binary_erosion

from dcl_monai.synthetic.acquisition import Scanner, acquire, draw_scanner
from dcl_monai.synthetic.short_axis import LABELS


def test_noise_is_rician():
    scanner = Scanner(np.ones((1, 200, 200), dtype=np.float32), blur=0.7, noise=0.05, gain=1000.0)
    signal = np.zeros((2, 200, 200), dtype=np.float32)
    signal[1] = 1.0
    empty, blood = acquire(np.random.default_rng(0), signal, scanner)
    assert empty.dtype == np.int16
    np.testing.assert_allclose(empty.mean(), 50 * np.sqrt(np.pi / 2), rtol=0.02)
    np.testing.assert_allclose(blood.mean(), 1000, rtol=0.01)
    np.testing.assert_allclose(blood.std(), 50, rtol=0.05)


def test_blur_along_the_chosen_axes():
    scanner = Scanner(np.ones((1, 9, 9), dtype=np.float32), blur=0.7, noise=0.0, gain=1000.0)
    signal = np.zeros((9, 9, 9), dtype=np.float32)
    signal[4, 4, 4] = 1.0
    flat = acquire(np.random.default_rng(0), signal, scanner)
    round_ = acquire(np.random.default_rng(0), signal, scanner, axes=(0, 1, 2))
    assert flat[4, 4, 5] > 50
    assert flat[5, 4, 4] == 0
    assert round_[5, 4, 4] == round_[4, 5, 4] == round_[4, 4, 5] > 20


def test_scanner_is_smooth():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scanner = draw_scanner(rng, 160, 180, blur=(0.5, 0.9), noise=(0.02, 0.055), gain=(90, 320))
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
