"""Tests of the shape, the labels and the signal of the heart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import binary_dilation
from scipy.ndimage import label as connected_components

from dcl_monai.synthetic.volume import SyntheticVolume
from dcl_monai.synthetic.whole_heart import LABELS


def touching(volume: SyntheticVolume, one: str, two: str) -> int:
    """Number of voxels of the second structure that share a face with the first."""
    return int((binary_dilation(volume.labels == LABELS[one]) & (volume.labels == LABELS[two])).sum())


def centre(volume: SyntheticVolume, name: str) -> np.ndarray:
    """Centre of a structure in mm: left, back, up."""
    return np.argwhere(volume.labels == LABELS[name]).mean(0) * volume.spacing


def test_each_structure_is_one_piece(whole_hearts):
    for volume in whole_hearts:
        for value in LABELS.values():
            assert connected_components(volume.labels == value)[1] == 1


@pytest.mark.parametrize(
    ("one", "two"), [("LA", "LV"), ("RA", "RV"), ("LV", "AO"), ("RV", "PA"), ("LV", "MYO"), ("MYO", "RV")]
)
def test_neighbours_touch(whole_hearts, one, two):
    assert min(touching(volume, one, two) for volume in whole_hearts) >= 15


@pytest.mark.parametrize(
    ("one", "two"), [("LV", "RV"), ("LV", "RA"), ("LV", "PA"), ("RV", "LA"), ("LA", "PA"), ("RA", "PA")]
)
def test_the_two_circulations_are_separate(whole_hearts, one, two):
    assert max(touching(volume, one, two) for volume in whole_hearts) == 0


def test_thin_walls_lie_between_the_atria_and_the_arteries(whole_hearts):
    for one, two in (("LA", "RA"), ("AO", "PA")):
        assert max(touching(volume, one, two) for volume in whole_hearts) < 25


def test_muscle_encloses_the_ventricle_but_for_its_base(whole_hearts):
    for volume in whole_hearts:
        cavity = volume.labels == LABELS["LV"]
        around = volume.labels[binary_dilation(cavity) & ~cavity]
        share = {name: np.mean(around == value) for name, value in LABELS.items()}
        assert share["MYO"] > 0.75
        assert share["LA"] > 0.02
        assert share["AO"] > 0.01
        assert np.mean(around == 0) < 0.12
        towards_apex = centre(volume, "LV") - centre(volume, "LA")
        along = (np.argwhere(volume.labels > 0) * volume.spacing) @ towards_apex
        tip = np.argwhere(volume.labels > 0)[along.argmax()]
        assert volume.labels[tuple(tip)] == LABELS["MYO"], "the apex is closed"


def test_positions(whole_hearts):
    left, back, up = range(3)
    for volume in whole_hearts:
        at = {name: centre(volume, name) for name in LABELS}
        assert (at["RV"] - at["LV"])[left] < -10
        assert (at["RV"] - at["LV"])[back] < -10
        assert (at["LA"] - at["LV"])[back] > 10
        assert (at["LA"] - at["LV"])[up] > 5
        assert (at["RA"] - at["RV"])[left] < -20
        assert (at["RA"] - at["RV"])[up] > 3
        assert (at["RA"] - at["LA"])[left] < -15
        assert (at["AO"] - at["LV"])[up] > 20
        assert (at["PA"] - at["AO"])[left] > 10
        assert (at["LA"] - at["AO"])[back] > 10
        assert max(at.values(), key=lambda place: place[back]) is at["LA"]
        assert min(at.values(), key=lambda place: place[left]) is at["RA"]


def test_pulmonary_artery_crosses_in_front_of_the_aorta(whole_hearts):
    for volume in whole_hearts:
        artery, aorta = (np.argwhere(volume.labels == LABELS[name]) for name in ("PA", "AO"))
        low, high = (
            artery[artery[:, 2] <= np.percentile(artery[:, 2], 25)],
            artery[artery[:, 2] >= np.percentile(artery[:, 2], 75)],
        )
        assert low[:, 1].mean() < aorta[:, 1].mean(), "its valve lies in front of the aorta"
        assert high[:, 1].mean() > low[:, 1].mean() + 3, "it runs backwards on its way up"


def test_volumes_are_those_of_hearts(whole_hearts):
    limits = {"LV": (40, 130), "MYO": (40, 140), "RV": (45, 140), "LA": (15, 100), "RA": (25, 120)}
    limits |= {"AO": (7, 40), "PA": (7, 40)}
    for volume in whole_hearts:
        for name, (low, high) in limits.items():
            millilitres = (volume.labels == LABELS[name]).sum() * np.prod(volume.spacing) / 1000
            assert low < millilitres < high, name
