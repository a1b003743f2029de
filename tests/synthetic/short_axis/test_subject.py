"""Tests of the subjects imaged by cine."""

from __future__ import annotations

import numpy as np
import pytest

from dcl_monai.synthetic.acdc import ACDC
from dcl_monai.synthetic.short_axis import LABELS, PHASES, SyntheticSubject, synthesize_subject

RV, MYO, LV = LABELS["RV"], LABELS["MYO"], LABELS["LV"]


def test_is_determined_by_its_arguments(subjects):
    state = np.random.get_state()[1].copy()
    one, two, other = subjects[2], synthesize_subject(102, "HCM"), subjects[7]
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    assert one.group == other.group == "HCM"
    for name in ("spacing", "frames", "group", "num_frames", "height", "weight"):
        assert getattr(one, name) == getattr(two, name)
    for phase in PHASES:
        np.testing.assert_array_equal(one.images[phase], two.images[phase])
        np.testing.assert_array_equal(one.labels[phase], two.labels[phase])
    assert one.images["ED"].shape != other.images["ED"].shape or (one.images["ED"] != other.images["ED"]).any()


@pytest.mark.parametrize(
    ("index", "phase", "mean", "counts"),
    [
        (0, "ED", 53.240, [4550, 5413, 4728]),
        (0, "ES", 52.180, [1926, 5802, 1837]),
        (4, "ED", 76.190, [6200, 3923, 3578]),
        (4, "ES", 75.402, [4227, 3827, 1650]),
    ],
)
def test_voxels_of_this_generator_version(subjects, index, phase, mean, counts):
    assert ACDC.version == 1, "with a new version come new numbers"
    subject = subjects[index]
    # Processors differ in the last bit of a sine: a voxel on an edge may change its label.
    np.testing.assert_allclose(subject.images[phase].mean(), mean, rtol=1e-4)
    np.testing.assert_allclose(np.bincount(subject.labels[phase].ravel())[1:], counts, atol=5)


@pytest.mark.parametrize(("seed", "group"), [(0, "nor"), (0, ""), (-1, "NOR")])
def test_rejects_bad_arguments(seed, group):
    with pytest.raises(ValueError, match=r"group|seed"):
        synthesize_subject(seed, group)


def test_arrays_and_field_of_view(subjects):
    for subject in subjects:
        width, height, depth = subject.images["ED"].shape
        assert 150 <= width <= 230
        assert 150 <= height <= 230
        assert 6 <= depth <= 11
        assert 1.3 <= subject.spacing[0] == subject.spacing[1] <= 1.9
        assert 5 <= subject.spacing[2] <= 10
        assert subject.frames["ED"] == 1 < subject.frames["ES"] <= subject.num_frames
        for phase in PHASES:
            image, labels = subject.images[phase], subject.labels[phase]
            assert image.dtype == np.int16
            assert labels.dtype == np.uint8
            assert image.shape == labels.shape == (width, height, depth)
            assert image.min() >= 0
            assert image.max() < 3000
            assert set(np.unique(labels)) == {0, RV, MYO, LV}
            border = np.ones(labels.shape, dtype=bool)
            border[2:-2, 2:-2] = False
            assert not labels[border].any(), "the heart must lie inside the field of view"


def test_variety(subjects):
    offsets, angles, contrasts, gains = [], [], [], []
    for subject in subjects:
        image, labels = subject.images["ED"].astype(float), subject.labels["ED"]
        left, right = (np.argwhere(labels == value).mean(0)[:2] * subject.spacing[0] for value in (LV, RV))
        offsets.append(left - 0.5 * np.array(labels.shape[:2]) * subject.spacing[0])
        angles.append(np.degrees(np.arctan2(right[1] - left[1], right[0] - left[0])) % 360)
        gains.append(np.median(image[labels == LV]))
        contrasts.append(np.median(image[labels == MYO]) / gains[-1])
    assert (np.std(offsets, axis=0) > 8).all()
    assert np.abs(offsets).max() < 45
    assert np.std(angles) > 8
    assert np.ptp(contrasts) > 0.12
    assert max(gains) > 2 * min(gains)
    assert len({subject.images["ED"].shape for subject in subjects}) > 15
    lv_volumes = [(subject.labels["ED"] == LV).sum() * np.prod(subject.spacing) for subject in subjects]
    assert max(lv_volumes) > 2.5 * min(lv_volumes)
    absent = [
        bool((subject.labels[phase] == value).any((0, 1)).all())
        for subject in subjects
        for phase in PHASES
        for value in (RV, LV)
    ]
    assert 0 < np.mean(absent) < 1, "some structures must be absent from some first or last slices"


def pairs(subject: SyntheticSubject, crop: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images and label maps of both phases, whole or 200 mm around the image's centre."""
    box = tuple(
        slice(max(int(n / 2 - 100 / s), 0), int(n / 2 + 100 / s)) if crop else slice(None)
        for n, s in zip(subject.images["ED"].shape[:2], subject.spacing, strict=False)
    )
    return [(subject.images[phase][box].astype(float), subject.labels[phase][box]) for phase in PHASES]


@pytest.mark.parametrize("crop", [False, True])
def test_intensity_alone_does_not_segment(subjects, intensity_dice, crop):
    train, test = (
        [pair for subject in some for pair in pairs(subject, crop)] for some in (subjects[:12], subjects[12:])
    )
    scores = intensity_dice(train, test)
    assert max(scores.values()) < 0.5, scores
    assert max(scores.values()) > 0.05, "the reference classifier itself must work"
