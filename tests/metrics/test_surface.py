from __future__ import annotations

import math
import warnings

import pytest
import torch
from monai.metrics import compute_average_surface_distance, compute_hausdorff_distance
from monai.networks import one_hot

from dcl_monai.metrics import compute_surface_distances
from dcl_monai.transforms import EncodeCandidates, ExpandCandidates


def volumes(label: torch.Tensor, annotated: list | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """One-hot map and candidate sets of a label map (H, W, D) of three classes."""
    sets = ExpandCandidates(3)(EncodeCandidates(3)(label.unsqueeze(0), annotated))
    return one_hot(label[None, None], 3)[0], sets


def boxes(shift: int = 0) -> torch.Tensor:
    label = torch.zeros(20, 18, 4, dtype=torch.int64)
    label[4 + shift : 10 + shift, 5:12, 1:3] = 1
    label[12 + shift : 16 + shift, 5:12, 1:3] = 2
    return label


def test_a_shift_by_hand():
    """All faces along the first axis are two voxels of 1.5 mm away; the largest distance is that, the mean less."""
    pred, _ = volumes(boxes(2))
    _, truth = volumes(boxes())
    found = compute_surface_distances(pred, truth, (1.5, 1.5, 10.0))
    assert found.shape == (2, 2)
    assert found[0, 0] == pytest.approx(3.0)
    assert 0 < found[0, 1] < 3.0


def test_thick_slices_count_by_their_thickness():
    label = torch.zeros(12, 12, 4, dtype=torch.int64)
    label[3:9, 3:9, 1] = 1
    pred, _ = volumes(label.roll(1, dims=2))
    _, truth = volumes(label)
    assert compute_surface_distances(pred, truth, (1.0, 1.0, 10.0))[0].tolist() == [10.0, 10.0]
    assert compute_surface_distances(pred, truth, (1.0, 1.0, 2.0))[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("far", [False, True])
def test_same_as_monai(far):
    """In one box, by distance transforms; and far apart, by trees."""
    rng = torch.Generator().manual_seed(0)
    label = boxes()
    noisy = torch.where(torch.rand(label.shape, generator=rng) < 0.03, 1, label)
    if far:
        label, noisy = (torch.nn.functional.pad(part, (0, 20, 0, 60, 0, 60)) for part in (label, noisy))
        noisy[-1, -1, -1] = noisy[0, -1, 0] = 2
    pred, _ = volumes(noisy)
    exact, truth = volumes(label)
    spacing = (1.2, 1.4, 8.0)
    found = compute_surface_distances(pred, truth, spacing)
    args = {"spacing": spacing, "include_background": False}
    hd95 = compute_hausdorff_distance(pred[None], exact[None], percentile=95, **args)
    assd = compute_average_surface_distance(pred[None], exact[None], symmetric=True, **args)
    torch.testing.assert_close(found[:, 0].double(), hd95[0].double(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[:, 1].double(), assd[0].double(), rtol=1e-5, atol=1e-5)


def test_nothing_fills_the_log(recwarn):
    """MONAI's own surfaces warn for every structure of every volume."""
    compute_surface_distances(volumes(boxes(1))[0], volumes(boxes())[1], (1, 1, 1))
    # what Python says of the garbage of other tests may come at any time
    assert [str(warning.message) for warning in recwarn if warning.category is not ResourceWarning] == []


def test_missed_and_absent_are_different():
    label = boxes()
    pred, _ = volumes(torch.where(label == 2, 0, label))
    _, truth = volumes(label)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # "the prediction of class 2 is all 0"
        missed = compute_surface_distances(pred, truth, (1, 1, 1))
        assert missed[0].tolist() == [0.0, 0.0]
        assert missed[1].tolist() == [math.inf, math.inf]
        absent = compute_surface_distances(volumes(label)[0], volumes(torch.where(label == 2, 0, label))[1], (1, 1, 1))
    assert absent[1].isnan().all()


def test_partial_labels():
    """Only class 1 is drawn: nothing can be said of class 2."""
    found = compute_surface_distances(volumes(boxes(1))[0], volumes(boxes(), [1])[1], (1, 1, 1))
    assert found[0, 0] == 1.0
    assert found[1].isnan().all()


def test_shapes_must_fit():
    with pytest.raises(ValueError, match="differ in shape"):
        compute_surface_distances(torch.zeros(3, 4, 4), torch.zeros(3, 4, 5, dtype=torch.bool), (1, 1))
