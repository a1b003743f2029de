"""Tests of the shape and the labels of the heart."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import binary_dilation
from scipy.ndimage import label as connected_components

from dcl_monai.synthetic.short_axis import LABELS, PHASES, SyntheticSubject
from dcl_monai.synthetic.short_axis.anatomy import draw_anatomy
from dcl_monai.synthetic.short_axis.heart import render_heart
from dcl_monai.synthetic.short_axis.heart_shape import draw_region
from dcl_monai.synthetic.short_axis.sequences import CINE
from dcl_monai.synthetic.short_axis.thorax import render_thorax

RV, MYO, LV = LABELS["RV"], LABELS["MYO"], LABELS["LV"]


def volume(subject: SyntheticSubject, phase: str, label: int) -> float:
    return float((subject.labels[phase] == label).sum() * np.prod(subject.spacing) / 1000)


def middle_slices(labels: np.ndarray) -> list[int]:
    """Slices with all three structures, without the first and the last of them."""
    full = [k for k in range(labels.shape[2]) if all((labels[:, :, k] == value).any() for value in (RV, MYO, LV))]
    return full[1:-1]


def wall_thickness(subject: SyntheticSubject, phase: str) -> float:
    """Mean thickness in mm of the wall as a ring of the same areas in the middle slices."""
    labels = subject.labels[phase]
    thickness = []
    for k in middle_slices(labels):
        cavity, muscle = ((labels[:, :, k] == value).sum() * subject.spacing[0] ** 2 for value in (LV, MYO))
        thickness.append(np.sqrt((cavity + muscle) / np.pi) - np.sqrt(cavity / np.pi))
    return float(np.mean(thickness))


def test_blood_pools_have_one_signal_before_acquisition():
    anatomy = draw_anatomy(np.random.default_rng(5), "NOR", CINE)
    thorax = render_thorax(np.random.default_rng(5), anatomy)
    before = thorax.copy()
    signal, labels = render_heart(anatomy, draw_region(np.random.default_rng(5), anatomy), thorax, "ED")
    np.testing.assert_array_equal(thorax, before)
    left, right = (np.median(signal[labels == value]) for value in (LV, RV))
    muscle = np.median(signal[labels == MYO])
    assert abs(left - right) < 0.1 * (left - muscle)


def test_muscle_encloses_the_cavity(subjects):
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=bool)
    checked = 0
    for subject in subjects:
        for phase in PHASES:
            labels = subject.labels[phase]
            for k in range(labels.shape[2]):
                cavity = labels[:, :, k] == LV
                ring = binary_dilation(cavity, cross) & ~cavity
                assert (labels[:, :, k][ring] == MYO).all()
                checked += bool(cavity.any())
    assert checked > 200


def test_right_ventricle_lies_beside_the_septum(subjects):
    for subject in subjects:
        labels = subject.labels["ED"]
        slices = middle_slices(labels)
        assert len(slices) >= 2
        for k in slices:
            plane = labels[:, :, k]
            assert (binary_dilation(plane == RV) & (plane == MYO)).sum() >= 4
            assert connected_components(plane == RV)[1] == 1
            towards = np.argwhere(plane == RV).mean(0) - np.argwhere(plane == LV).mean(0)
            angle = np.degrees(np.arctan2(towards[1], towards[0])) % 360
            assert 100 < angle < 230
        areas = [(labels[:, :, k] == RV).sum() for k in slices]
        assert areas[0] > areas[-1], "the RV must get smaller towards the apex"


def test_contraction(subjects):
    for subject in subjects:
        assert volume(subject, "ES", LV) < 0.95 * volume(subject, "ED", LV)
        assert volume(subject, "ES", RV) < volume(subject, "ED", RV)
        assert wall_thickness(subject, "ES") > wall_thickness(subject, "ED")
        assert 0.7 < volume(subject, "ES", MYO) / volume(subject, "ED", MYO) < 1.3


def test_groups_differ_as_named(subjects):
    def mean(group, measure):
        return np.mean([measure(subject) for subject in subjects if subject.group == group])

    def ejection(subject):
        return 1 - volume(subject, "ES", LV) / volume(subject, "ED", LV)

    assert mean("DCM", lambda s: volume(s, "ED", LV)) > 1.3 * mean("NOR", lambda s: volume(s, "ED", LV))
    assert mean("DCM", ejection) < mean("MINF", ejection) < mean("NOR", ejection)
    assert mean("HCM", lambda s: wall_thickness(s, "ED")) > 1.2 * mean("NOR", lambda s: wall_thickness(s, "ED"))
    ratio = {g: mean(g, lambda s: volume(s, "ED", RV) / volume(s, "ED", LV)) for g in ("NOR", "RV")}
    assert ratio["RV"] > 1.2 * ratio["NOR"]
