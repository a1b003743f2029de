"""What the overlay pictures show of partial labels."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.image import imread

from dcl_monai.candidates import candidate_label
from dcl_monai.visualize.overlays import Example, annotation_title, class_map, plot_overlays, telling_slice, unhidden

CLASSES = ["background", "RV", "MYO", "LV"]


def test_class_map():
    """Known class, known background, within a union of structures, all but one class, nothing known."""
    label = candidate_label(torch.arange(5.0)[None], [0b0100, 0b0001, 0b1110, 0b1101, 0b1111])
    assert class_map(label, 4).tolist() == [2, 0, 4, -1, -1]


def test_titles():
    assert annotation_title({"label": "a", "annotated": [1, [1, 2]]}, CLASSES) == "RV, RV+MYO"
    assert annotation_title({"image": "a"}, CLASSES) == "nothing"


def test_what_was_hidden_is_shown_as_truth():
    item = {"annotated": [1], "drawn": [1, 2], "further_labels": [{"annotated": [], "drawn": [3]}]}
    shown = unhidden(item)
    assert shown["annotated"] == [1, 2]
    assert shown["further_labels"][0]["annotated"] == [3]
    assert item["annotated"] == [1]


class TestSlice:
    def maps(self) -> tuple[np.ndarray, np.ndarray]:
        """A large structure in the middle, a small one at the end; told is the small one alone."""
        truth = np.zeros((8, 8, 6), int)
        truth[1:7, 1:7, 1:4] = 1
        truth[2:4, 2:4, 3:6] = 2
        truth[2, 2, 5] = 0
        told = np.where(truth == 2, 2, -1)
        return told, truth

    def test_shows_what_was_told(self):
        told, truth = self.maps()
        assert telling_slice(told, truth) == 3
        told[..., 3] = -1
        assert telling_slice(told, truth) == 4

    def test_shows_as_many_structures_as_it_can(self):
        """Not the slice with most voxels, which shows one of them."""
        _, truth = self.maps()
        truth[6, 1:7, 3] = 0
        assert (truth > 0).sum((0, 1)).argmax() == 1
        assert telling_slice(truth) == 3

    def test_of_slices_that_show_what_was_told_the_one_that_shows_most_else(self):
        """The LV is largest at the base, where the RV is not drawn any more."""
        truth = np.zeros((8, 8, 4), int)
        truth[2:6, 2:6, 0], truth[2:5, 2:6, 1], truth[2:4, 2:4, 2] = 3, 3, 3
        truth[6:8, 2:6, 1:] = 1
        assert telling_slice(np.where(truth == 3, 3, -1), truth) == 1

    def test_nothing_or_background_told(self):
        told, truth = self.maps()
        assert telling_slice(np.minimum(told, 0), truth) == telling_slice(truth)
        assert telling_slice(np.full((4, 4, 5), -1), np.zeros((4, 4, 5), int)) == 2


def test_rows_without_truth_or_label(tmp_path):
    image, known = np.random.default_rng(0).normal(size=(16, 16)), np.full((16, 16), 4)
    rows = [Example("a", image, known, None, known % 4), Example("b", image, None, known % 4, known % 4)]
    plot_overlays(rows, CLASSES, tmp_path / "overlays.png")
    assert imread(tmp_path / "overlays.png").std() > 0.01
