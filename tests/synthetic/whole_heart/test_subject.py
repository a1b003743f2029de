"""Tests of the whole-heart subjects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import binary_dilation, binary_erosion

from dcl_monai.synthetic.pairs import MMWHS
from dcl_monai.synthetic.volume import SyntheticVolume
from dcl_monai.synthetic.whole_heart import LABELS, synthesize_whole_heart

POOLS = [name for name in LABELS if name != "MYO"]


def test_is_determined_by_its_seed(whole_hearts):
    state = np.random.get_state()[1].copy()
    again = synthesize_whole_heart(102)
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    np.testing.assert_array_equal(again.image, whole_hearts[2].image)
    np.testing.assert_array_equal(again.labels, whole_hearts[2].labels)
    with pytest.raises(ValueError, match="seed"):
        synthesize_whole_heart(-1)


@pytest.mark.parametrize(
    ("index", "mean", "counts"),
    [(0, 46.146, [3696, 4740, 4299, 2495, 4954, 851, 1017]), (5, 74.220, [6054, 5271, 5650, 2800, 4033, 1130, 999])],
)
def test_voxels_of_this_generator_version(whole_hearts, index, mean, counts):
    assert MMWHS.version == 1, "with a new version come new numbers"
    np.testing.assert_allclose(whole_hearts[index].image.mean(), mean, rtol=1e-4)
    np.testing.assert_allclose(np.bincount(whole_hearts[index].labels.ravel())[1:], counts, atol=8)


def test_arrays_and_field_of_view(whole_hearts):
    for volume in whole_hearts:
        width, height, depth = volume.image.shape
        assert 64 <= width <= 76
        assert 64 <= height <= 76
        assert 48 <= depth <= 54
        assert 2.1 <= volume.spacing[0] == volume.spacing[1] <= 2.4
        assert 2.2 <= volume.spacing[2] <= 2.5
        assert volume.image.dtype == np.int16
        assert volume.labels.dtype == np.uint8
        assert volume.image.shape == volume.labels.shape
        assert 0 <= volume.image.min() < volume.image.max() < 3000
        assert set(np.unique(volume.labels)) == {0, *LABELS.values()}
        inside = volume.labels[1:-1, 1:-1, 1:-1]
        assert (inside > 0).sum() > 0.97 * (volume.labels > 0).sum(), "the heart must lie in the field of view"


def test_variety(whole_hearts):
    def spread(measure):
        return np.std([measure(volume) for volume in whole_hearts], axis=0)

    def centre(volume: SyntheticVolume, name: str) -> np.ndarray:
        return np.argwhere(volume.labels == LABELS[name]).mean(0) * volume.spacing

    def direction(volume: SyntheticVolume) -> np.ndarray:
        axis = centre(volume, "LV") - centre(volume, "LA")
        return axis / np.linalg.norm(axis)

    assert (spread(lambda v: centre(v, "LV")) > 2).all()
    assert (spread(direction) > 0.05).all(), "the hearts must be turned differently"
    for name in LABELS:
        volumes = [(v.labels == LABELS[name]).sum() * np.prod(v.spacing) for v in whole_hearts]
        assert max(volumes) > 1.4 * min(volumes)
    contrast = [np.median(v.image[v.labels == 2]) / np.median(v.image[v.labels == 1]) for v in whole_hearts]
    assert np.std(contrast) > 0.04
    assert len({v.image.shape for v in whole_hearts}) > 8


def test_blood_pools_are_equally_bright_and_muscle_is_darker(whole_hearts):
    relative = []
    for volume in whole_hearts:
        levels = {
            name: np.median(volume.image[binary_erosion(volume.labels == value)]) for name, value in LABELS.items()
        }
        assert levels["MYO"] < 0.85 * levels["LV"]
        relative.append([levels[name] / levels["LV"] for name in POOLS])
    # The coil's sensitivity varies over the heart, so single subjects differ, to either side.
    np.testing.assert_allclose(np.exp(np.log(relative).mean(0)), 1.0, atol=0.25)


def test_bright_vessels_without_label(whole_hearts):
    for volume in whole_hearts:
        away = ~binary_dilation(volume.labels > 0, iterations=2)
        blood = np.median(volume.image[volume.labels == LABELS["LV"]])
        assert (volume.image[away] > 0.75 * blood).mean() > 0.005


def test_lungs_are_dark(whole_hearts):
    for volume in whole_hearts:
        blood = np.median(volume.image[volume.labels > 2])
        assert (volume.image < 0.25 * blood).mean() > 0.2


def test_intensity_alone_does_not_segment(whole_hearts, intensity_dice):
    pairs = [(volume.image.astype(float), volume.labels) for volume in whole_hearts]
    scores = intensity_dice(pairs[:7], pairs[7:])
    assert max(scores.values()) < 0.5, scores
    assert max(scores.values()) > 0.05, "the reference classifier itself must work"
