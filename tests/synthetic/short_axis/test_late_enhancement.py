"""Tests of the subjects imaged by late enhancement."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import binary_erosion

from dcl_monai.synthetic.pairs import MSCMR
from dcl_monai.synthetic.short_axis import GROUPS, LABELS, synthesize_late_enhancement, synthesize_subject

RV, MYO, LV = LABELS["RV"], LABELS["MYO"], LABELS["LV"]


def test_is_determined_by_its_arguments(stacks):
    again = synthesize_late_enhancement(102, GROUPS[2])
    np.testing.assert_array_equal(again.image, stacks[2].image)
    np.testing.assert_array_equal(again.labels, stacks[2].labels)
    assert again.spacing == stacks[2].spacing
    assert again.image.shape != stacks[7].image.shape or (again.image != stacks[7].image).any()


def test_subjects_are_not_those_of_cine(stacks, subjects):
    volumes = [
        [(v == LV).sum() for v in labels]
        for labels in ([s.labels for s in stacks], [s.labels["ED"] for s in subjects[:10]])
    ]
    assert abs(np.corrcoef(*volumes)[0, 1]) < 0.9
    assert synthesize_subject(100).images["ED"].shape[:2] != stacks[0].image.shape[:2]


@pytest.mark.parametrize(
    ("index", "mean", "counts"), [(0, 32.370, [36150, 41107, 40872]), (3, 58.709, [25186, 22719, 38090])]
)
def test_voxels_of_this_generator_version(stacks, index, mean, counts):
    assert MSCMR.version == 1, "with a new version come new numbers"
    np.testing.assert_allclose(stacks[index].image.mean(), mean, rtol=1e-4)
    np.testing.assert_allclose(np.bincount(stacks[index].labels.ravel())[1:], counts, atol=8)


@pytest.mark.parametrize(("seed", "group"), [(0, "nor"), (-1, "NOR")])
def test_rejects_bad_arguments(seed, group):
    with pytest.raises(ValueError, match=r"group|seed"):
        synthesize_late_enhancement(seed, group)


def test_arrays_and_field_of_view(stacks):
    for stack in stacks:
        width, height, depth = stack.image.shape
        assert 210 <= width <= 260
        assert 210 <= height <= 260
        assert 10 <= depth <= 18
        assert 0.85 <= stack.spacing[0] == stack.spacing[1] <= 1.0
        assert stack.spacing[2] == 5.0
        assert stack.image.dtype == np.int16
        assert stack.labels.dtype == np.uint8
        assert stack.image.shape == stack.labels.shape
        assert stack.image.min() >= 0
        assert set(np.unique(stack.labels)) == {0, RV, MYO, LV}
        border = np.ones(stack.labels.shape, dtype=bool)
        border[2:-2, 2:-2] = False
        assert not stack.labels[border].any(), "the heart must lie inside the field of view"


def level(stack, label: int, percentile: float) -> float:
    inside = binary_erosion(stack.labels == label, np.ones((3, 3, 1), dtype=bool), iterations=2)
    return float(np.percentile(stack.image[inside], percentile))


def test_blood_is_bright_and_healthy_muscle_is_nulled(stacks):
    ratios = []
    for stack in stacks:
        blood = 0.5 * (level(stack, LV, 50) + level(stack, RV, 50))
        assert level(stack, MYO, 25) < 0.4 * blood
        ratios.append(level(stack, LV, 50) / level(stack, RV, 50))
    assert 0.8 < np.exp(np.mean(np.log(ratios))) < 1.25, "the blood pools are equally bright but for the coil"


def test_scars_are_labelled_as_myocardium_and_as_bright_as_blood(stacks):
    enhanced = {group: [] for group in GROUPS}
    for group, stack in zip(GROUPS * 2, stacks, strict=True):
        muscle = binary_erosion(stack.labels == MYO, np.ones((3, 3, 1), dtype=bool))
        enhanced[group].append(np.mean(stack.image[muscle] > 0.7 * level(stack, LV, 50)))
    assert max(enhanced["NOR"]) < 0.001
    assert min(enhanced["HCM"]) > 0.003
    assert min(enhanced["MINF"]) > 0.02


def test_noisier_than_cine(stacks, subjects):
    def noise(image, labels):
        inside = binary_erosion(labels == LV, np.ones((3, 3, 1), dtype=bool), iterations=3)
        both = inside[1:] & inside[:-1]
        return np.std(np.diff(image.astype(float), axis=0)[both]) / np.median(image[inside])

    late = [noise(stack.image, stack.labels) for stack in stacks]
    cine = [noise(subject.images["ED"], subject.labels["ED"]) for subject in subjects]
    assert np.median(late) > 1.3 * np.median(cine)


def test_intensity_alone_does_not_segment(stacks, intensity_dice):
    pairs = [(stack.image.astype(float), stack.labels) for stack in stacks]
    scores = intensity_dice(pairs[:6], pairs[6:])
    assert max(scores.values()) < 0.5, scores
    assert max(scores.values()) > 0.05, "the reference classifier itself must work"
