"""What is drawn next, by hand-made numbers."""

from __future__ import annotations

import numpy as np
import pytest

from dcl_monai.annotate.gain import (
    choose_images,
    choose_next,
    expected_error,
    image_entropy,
    image_features,
    undrawn_structures,
)


def test_expected_error_of_a_prediction():
    probabilities = np.array([[0.1, 0.6, 1.0, 1.0], [0.9, 0.4, 0.0, 0.0]]).reshape(2, 4, 1, 1)
    # class 1: one voxel is seen; 2 * 0.9 / (1.3 + 1)
    assert expected_error(probabilities)[1] == pytest.approx(1 - 1.8 / 2.3)
    assert expected_error(np.stack([1 - probabilities[1], 0 * probabilities[1]]))[1] == 0  # nothing is expected
    sure = np.array([[0.0, 1.0], [1.0, 0.0]]).reshape(2, 2, 1, 1)
    assert expected_error(sure)[1] == 0


def test_undrawn_structures_are_those_in_doubt():
    candidates = np.array([[1, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 0]], bool).reshape(4, 3, 1, 1)
    assert undrawn_structures(candidates) == [2, 3]


FEATURES = np.array([[0.0], [0.1], [5.0], [5.1]])


def order(errors, drawn=(), **options):
    choices = choose_next(errors, FEATURES, drawn, 9, **options)
    return [(choice.case, choice.structure) for choice in choices]


def test_the_largest_error_comes_first():
    assert order({(0, 1): 0.2, (2, 1): 0.4})[0] == (2, 1)


def test_a_rare_structure_comes_first():
    assert order({(0, 1): 0.3, (0, 2): 0.3}, drawn=[(2, 1), (3, 1)])[0] == (0, 2)


def test_an_image_unlike_the_drawn_ones_comes_first():
    assert order({(1, 1): 0.3, (2, 1): 0.3}, drawn=[(0, 1)]) == [(2, 1), (1, 1)]


def test_like_images_are_not_chosen_together():
    assert order({(0, 1): 0.30, (1, 1): 0.29, (2, 1): 0.25})[:2] == [(0, 1), (2, 1)]


def test_a_quick_structure_comes_first():
    assert order({(0, 1): 0.3, (0, 2): 0.2}, minutes={1: 10, 2: 2})[0] == (0, 2)
    (first, *_) = choose_next({(0, 1): 0.3}, FEATURES, [], 1, {1: 10})
    assert first.gain == pytest.approx(0.03)


def test_features_are_those_of_an_image_whatever_its_grey_values():
    random = np.random.default_rng(0)
    image, probabilities = random.normal(size=(20, 18, 4)), random.random((3, 20, 18, 4))
    features = image_features(image, probabilities)
    assert np.allclose(features, image_features(3 * image + 100, probabilities), atol=1e-5)
    assert features.shape == image_features(random.normal(size=(64, 50, 12)), probabilities).shape


def test_whole_images_by_their_entropy():
    errors = {(0, 1): 0.9, (0, 2): 0.1, (1, 2): 0.3, (2, 1): 0.2, (2, 2): 0.4}
    choices = choose_images(errors, FEATURES, [(1, 1)], 4, [0.1, 0.3, 0.2])
    assert [(choice.case, choice.structure) for choice in choices] == [(1, 2), (2, 2), (2, 1), (0, 1)]
    assert [choice.gain for choice in choices] == [0.3, 0.2, 0.2, 0.1]


def test_entropy_of_what_is_seen():
    probabilities = np.array([[0.5, 1.0, 0.0], [0.5, 0.0, 0.0]]).reshape(2, 3, 1, 1)  # the last is not seen
    assert image_entropy(probabilities) == pytest.approx(np.log(2) / 2)
