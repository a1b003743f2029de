"""What a teacher may fill in."""

from __future__ import annotations

import math

import pytest
import torch

from dcl_monai.losses import FillLoss, set_progress


def voxels(*rows: list[float]) -> torch.Tensor:
    """One item (1, m, n) of n voxels, a row each."""
    return torch.tensor(rows).T.unsqueeze(0)


def test_hand_computed_value():
    candidates = voxels([0, 1, 1], [1, 0, 0]).bool()  # the first may be 1 or 2, the second is known
    teacher = voxels([0.5, 0.3, 0.2], [0.1, 0.1, 0.8])
    student = voxels([0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3])
    # class 0 is excluded: the teacher's 0.3 and 0.2 become 0.6 and 0.4; two voxels divide the sum
    expected = 3.0 * -(0.6 * math.log(0.4) + 0.4 * math.log(0.4)) / 2
    assert float(FillLoss(3)(student.log(), teacher, candidates)) == pytest.approx(expected)


@pytest.mark.parametrize(("progress", "share"), [(0.0, 1.0), (0.3, 1.0), (0.575, 0.5), (0.85, 0.0), (1.0, 0.0)])
def test_it_fades_out(progress, share):
    torch.manual_seed(0)
    candidates = torch.ones(1, 3, 5, dtype=torch.bool)
    teacher, logits = torch.rand(1, 3, 5).softmax(1), torch.randn(1, 3, 5)
    fading, full = FillLoss(3), FillLoss(3)
    set_progress(fading, progress)
    assert fading.weight == pytest.approx(3.0 * share)
    torch.testing.assert_close(fading(logits, teacher, candidates), share * full(logits, teacher, candidates))


def test_bad_course_is_refused():
    with pytest.raises(ValueError, match=r"fade before it ends: start=0\.9, end=0\.5"):
        FillLoss(3, start=0.9, end=0.5)


def test_nothing_is_taught_where_the_class_is_known_or_the_teacher_gives_the_candidates_nothing():
    candidates = voxels([1, 0, 0], [0, 1, 1]).bool()
    teacher = voxels([0.0, 0.0, 1.0], [1.0, 0.0, 0.0])
    logits = torch.randn(1, 3, 2, requires_grad=True)
    loss = FillLoss(3)(logits, teacher, candidates)
    loss.backward()
    assert float(loss) == 0.0
    assert not logits.grad.any()


def test_an_excluded_class_is_never_raised():
    candidates = voxels([0, 1, 1]).bool()
    logits = torch.zeros(1, 3, 1, requires_grad=True)
    FillLoss(3)(logits, voxels([0.9, 0.05, 0.05]), candidates).backward()
    assert logits.grad[0, 0, 0] > 0  # a step against the gradient lowers it
    assert (logits.grad[0, 1:, 0] < 0).all()


def test_the_teacher_itself_is_the_minimum():
    torch.manual_seed(0)
    candidates = torch.ones(2, 4, 5, 5, dtype=torch.bool)
    teacher = torch.rand(2, 4, 5, 5).softmax(1)
    loss = FillLoss(4)
    least = loss(teacher.log(), teacher, candidates)
    for _ in range(20):
        assert loss(teacher.log() + 0.1 * torch.randn(2, 4, 5, 5), teacher, candidates) > least


def test_intersection_and_extra_count_as_their_sum():
    torch.manual_seed(0)
    candidates = torch.rand(2, 3, 4, 4) < 0.7
    teacher = torch.rand(2, 3, 4, 4).softmax(1)
    logits = torch.randn(2, 6, 4, 4)
    split = logits.softmax(1)
    merged = (split[:, :3] + split[:, 3:]).log()
    torch.testing.assert_close(FillLoss(3)(logits, teacher, candidates), FillLoss(3)(merged, teacher, candidates))


def test_an_item_does_not_depend_on_its_batch_mates():
    torch.manual_seed(0)
    candidates = torch.rand(3, 3, 4, 4) < 0.7
    teacher, logits = torch.rand(3, 3, 4, 4).softmax(1), torch.randn(3, 3, 4, 4)
    loss = FillLoss(3)
    alone = [loss(logits[i : i + 1], teacher[i : i + 1], candidates[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(loss(logits, teacher, candidates), torch.stack(alone).mean())
