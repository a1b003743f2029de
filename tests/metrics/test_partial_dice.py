"""Tests of Dice that counts a class only where it is annotated."""

from __future__ import annotations

import pytest
import torch
from monai.metrics import DiceMetric
from monai.networks import one_hot

from dcl_monai.metrics import PartialDiceMetric, compute_partial_dice
from dcl_monai.transforms import EncodeCandidates, ExpandCandidates
from dcl_monai.utils import DataError

NAN = float("nan")
TRUTH = [0, 1, 1, 2]
PRED = [0, 1, 2, 2]  # Dice: 0 -> 1, 1 -> 2/3, 2 -> 2/3, 3 -> absent and not predicted
HEART = {"heart": (1, 2, 3)}


def encode(voxels, annotated=None, num_classes=4, **kwargs):
    """Candidate sets BNHW of one image."""
    label = EncodeCandidates(num_classes, **kwargs)(torch.tensor([[voxels]]), annotated)
    return ExpandCandidates(num_classes)(label)[None]


def predict(values, num_classes=4):
    return one_hot(torch.tensor([[[values]]]), num_classes)


def check(dice, expected):
    torch.testing.assert_close(dice, torch.tensor(expected, dtype=torch.float32), equal_nan=True, rtol=0, atol=1e-6)


class TestComputePartialDice:
    @pytest.mark.parametrize(
        ("annotated", "expected"),
        [
            pytest.param(None, [1, 2 / 3, 2 / 3, NAN], id="full"),
            pytest.param([1], [NAN, 2 / 3, NAN, NAN], id="one class"),
            pytest.param([0], [1, NAN, NAN, NAN], id="background alone"),
            pytest.param([1, 2], [NAN, 2 / 3, 2 / 3, NAN], id="two classes"),
            pytest.param([3], [NAN, NAN, NAN, NAN], id="annotated and absent"),
            pytest.param([], [NAN, NAN, NAN, NAN], id="nothing"),
            pytest.param([0, 1, 2], [1, 2 / 3, 2 / 3, NAN], id="m - 1"),
        ],
    )
    def test_annotated(self, annotated, expected):
        check(compute_partial_dice(predict(PRED), encode(TRUTH, annotated)), [expected])

    def test_missed_and_absent_are_different(self):
        """A class that is there and not predicted scores 0; one that is absent is not measured."""
        check(compute_partial_dice(predict([0, 0]), encode([0, 1])), [[2 / 3, 0, NAN, NAN]])

    def test_false_positives_count_where_the_class_is_annotated(self):
        """Outside class 1 nothing else is known, but that it is not 1 is."""
        check(compute_partial_dice(predict([1, 1, 1, 1]), encode([1, 0, 2, 3], [1])), [[NAN, 0.4, NAN, NAN]])

    def test_scribbles(self):
        """Only voxels on strokes count: 1 is hit once and missed once there, 2 is predicted once too often."""
        truth = encode([9, 9, 1, 1, 2, 0], unlabelled=9)
        dice = compute_partial_dice(predict([3, 1, 1, 2, 2, 0]), truth)
        check(dice, [[1, 2 / 3, 2 / 3, NAN]])

    def test_items_are_independent(self):
        truth = torch.cat([encode(TRUTH, [1]), encode(TRUTH, [2]), encode(TRUTH)])
        dice = compute_partial_dice(predict(PRED).repeat(3, 1, 1, 1), truth)
        check(dice, [[NAN, 2 / 3, NAN, NAN], [NAN, NAN, 2 / 3, NAN], [1, 2 / 3, 2 / 3, NAN]])

    @pytest.mark.parametrize("shape", [(3, 1, 9, 8), (2, 1, 5, 6, 4)])
    def test_full_labels_are_monais_dice(self, shape):
        generator = torch.Generator().manual_seed(0)
        truth, pred = (torch.randint(0, 5, shape, generator=generator) for _ in range(2))
        truth[0][truth[0] == 4] = 0
        encoder, expand = EncodeCandidates(5), ExpandCandidates(5)
        candidates = torch.stack([expand(encoder(item)) for item in truth])
        reference = DiceMetric(include_background=True, reduction="none")(one_hot(pred, 5), one_hot(truth, 5))
        assert reference.isnan().sum() == 1
        torch.testing.assert_close(compute_partial_dice(one_hot(pred, 5), candidates), reference, equal_nan=True)

    def test_shapes_must_agree(self):
        with pytest.raises(ValueError, match=r"\(1, 4, 1, 2\).*\(1, 4, 1, 3\)"):
            compute_partial_dice(predict([0, 1]), encode([0, 1, 2]))


class TestUnions:
    """Four voxels are in the heart; four are predicted to be, three of them rightly: Dice 2 * 3 / (4 + 4)."""

    TRUTH = [0, 0, 1, 2, 3, 1]
    PRED = [0, 3, 2, 2, 1, 0]

    def heart(self, candidates, pred=PRED, unions=HEART):
        return compute_partial_dice(predict(pred), candidates, unions)[:, 4:]

    @pytest.mark.parametrize(
        ("annotated", "expected"),
        [
            pytest.param(None, 3 / 4, id="full"),
            pytest.param([[1, 2, 3]], 3 / 4, id="the union alone"),
            pytest.param([0], 3 / 4, id="what is not in it"),
            pytest.param([[1, 2, 3], 2], 3 / 4, id="the union and one of its classes"),
            pytest.param([[1, 2], 3], 3 / 4, id="a part and the rest"),
            pytest.param([1, 2], NAN, id="some of its classes"),
            pytest.param([1], NAN, id="one of its classes"),
            pytest.param([[1, 2]], NAN, id="a part"),
            pytest.param([[0, 1]], NAN, id="another union that straddles it"),
            pytest.param([], NAN, id="nothing"),
        ],
    )
    def test_annotated(self, annotated, expected):
        check(self.heart(encode(self.TRUTH, annotated)), [[expected]])

    def test_only_the_union_is_drawn(self):
        """None of its classes is known, but the background is: 1 of 2 voxels is found, 1 is predicted wrongly."""
        truth = encode([7, 7, 9, 9, 9, 9], values={7: 0, 9: [1, 2, 3]})
        check(compute_partial_dice(predict(self.PRED), truth, HEART), [[1 / 2, NAN, NAN, NAN, 3 / 4]])

    def test_classes_are_what_they_are_without_unions(self):
        dice = compute_partial_dice(predict(PRED), encode(TRUTH), {"a": (1, 2), "b": (2, 3)})
        check(dice[:, :4], [[1, 2 / 3, 2 / 3, NAN]])
        check(dice[:, 4:], [[1, 2 / 3]])

    def test_scribbles(self):
        """Off the strokes nothing counts; on them 1 of 2 voxels is found, 1 is predicted wrongly."""
        truth = encode([9, 9, 1, 2, 0, 0], unlabelled=9)
        check(self.heart(truth, [1, 2, 2, 0, 3, 0]), [[1 / 2]])

    def test_ignored_region(self):
        truth = encode([9, 9, 5, 5, 0, 0], values={5: [1, 2, 3], 0: 0}, unlabelled=9)
        check(self.heart(truth, [1, 2, 2, 0, 3, 0]), [[1 / 2]])

    def test_partly_drawn_union_is_not_measured_on_the_drawn_part(self):
        """All of class 1 is found, and nobody knows whether the rest of the prediction is right: no Dice of 1."""
        check(self.heart(encode([1, 1, 0, 0], [1]), [1, 1, 2, 3]), [[NAN]])

    def test_one_straddling_voxel_is_enough(self):
        truth = encode([0, 4, 1, 2], values={0: 0, 1: 1, 2: 2, 4: [0, 3]})
        check(self.heart(truth, [0, 3, 1, 2], HEART | {"two": (1, 2)}), [[NAN, 1]])

    def test_missed_and_absent_are_different(self):
        check(self.heart(encode([1, 0], [[1, 2, 3]]), [0, 0]), [[0]])
        check(self.heart(encode([0, 0], [[1, 2, 3]]), [1, 0]), [[NAN]])

    def test_images_are_independent(self):
        truth = torch.cat([encode(self.TRUTH, [1]), encode(self.TRUTH, [[1, 2, 3]]), encode(self.TRUTH)])
        dice = compute_partial_dice(predict(self.PRED).repeat(3, 1, 1, 1), truth, HEART)
        check(dice[:, 4:], [[NAN], [3 / 4], [3 / 4]])

    def test_full_labels_are_monais_dice_of_the_mask(self):
        generator = torch.Generator().manual_seed(0)
        truth, pred = (torch.randint(0, 5, (2, 1, 5, 6, 4), generator=generator) for _ in range(2))
        candidates = torch.stack([ExpandCandidates(5)(EncodeCandidates(5)(item)) for item in truth])
        dice = compute_partial_dice(one_hot(pred, 5), candidates, {"union": (2, 4)})
        masks = [torch.isin(volume, torch.tensor([2, 4])).float() for volume in (pred, truth)]
        torch.testing.assert_close(dice[:, 5:], DiceMetric(reduction="none")(*masks))


class TestPartialDiceMetric:
    def measure(self, *pairs, include_background=False, unions=None):
        metric = PartialDiceMetric(include_background, unions)
        for pred, truth in pairs:
            metric(pred, truth)
        return metric

    def test_full(self):
        metric = self.measure((predict(PRED), encode(TRUTH)))
        assert metric.aggregate() == pytest.approx(2 / 3)
        assert metric.by_class()[1] == [pytest.approx(2 / 3), pytest.approx(2 / 3), None]

    def test_background(self):
        metric = self.measure((predict(PRED), encode(TRUTH)), include_background=True)
        assert metric.aggregate() == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
        assert metric.by_class()[1] == [1, pytest.approx(2 / 3), pytest.approx(2 / 3), None]

    def test_wholly_partial_set(self):
        """Every image shows one class: each class is the mean over its own images, then come the classes."""
        metric = self.measure(
            (predict([0, 1, 1, 2]), encode([0, 1, 1, 2], [1])),  # 1: perfect
            (predict([0, 1, 0, 0]), encode([0, 1, 1, 2], [1])),  # 1: 2/3
            (predict([0, 1, 1, 0]), encode([0, 1, 1, 2], [2])),  # 2: missed
        )
        mean, classes = metric.by_class()
        assert classes == [pytest.approx(5 / 6), 0, None]
        assert mean == metric.aggregate() == pytest.approx(5 / 12)

    def test_class_that_nobody_annotated_changes_nothing(self):
        shown = (predict(PRED), encode(TRUTH, [1]))
        alone = self.measure(shown).aggregate()
        assert alone == pytest.approx(2 / 3)
        unseen = (predict([3, 3, 3, 3]), encode([0, 3, 3, 0], [0]))
        assert self.measure(shown, unseen).aggregate() == alone

    def test_absent_class_is_not_counted(self):
        present, absent = (predict([1, 0]), encode([1, 0], [1])), (predict([1, 0]), encode([0, 0], [1]))
        assert self.measure(present, absent).aggregate() == 1

    def test_equals_monai_on_full_labels(self):
        generator = torch.Generator().manual_seed(1)
        metric, reference = PartialDiceMetric(), DiceMetric(include_background=False, reduction="mean_batch")
        for _ in range(3):
            truth, pred = (torch.randint(0, 4, (2, 1, 6, 7), generator=generator) for _ in range(2))
            candidates = torch.stack([ExpandCandidates(4)(EncodeCandidates(4)(item)) for item in truth])
            metric(one_hot(pred, 4), candidates)
            reference(one_hot(pred, 4), one_hot(truth, 4))
        mean, classes = metric.by_class()
        assert classes == pytest.approx(reference.aggregate().tolist())
        assert mean == pytest.approx(float(reference.aggregate().mean()))

    def test_decollated_items(self):
        batch = self.measure((predict(PRED).repeat(2, 1, 1, 1), encode(TRUTH).repeat(2, 1, 1, 1)))
        items = self.measure(([predict(PRED)[0]] * 2, [encode(TRUTH)[0]] * 2))
        assert torch.equal(batch.get_buffer().nan_to_num(-1), items.get_buffer().nan_to_num(-1))

    @pytest.mark.parametrize("annotated", [[], [0], [3]], ids=["nothing", "background alone", "absent class"])
    def test_nothing_to_measure(self, annotated):
        metric = self.measure((predict(PRED), encode(TRUTH, annotated)))
        with pytest.raises(ValueError, match="nothing can be measured"):
            metric.aggregate()

    def test_unions_do_not_enter_the_mean(self):
        images = [(predict(PRED), encode(TRUTH, [1])), (predict([0, 1, 2, 3]), encode([0, 1, 2, 0], [[1, 2, 3]]))]
        metric = self.measure(*images, unions=HEART | {"part": (1, 2)})
        assert metric.aggregate() == pytest.approx(2 / 3)
        assert metric.by_class()[1] == [pytest.approx(2 / 3), None, None, pytest.approx(4 / 5), None]
        assert metric.get_buffer().shape == (2, 5)

    def test_mean_over_unions_when_no_class_is_shown(self):
        images = [
            (predict([0, 1, 2, 3]), encode([0, 1, 2, 0], [[1, 2, 3]])),  # heart: 4/5
            (predict([0, 1, 0, 0]), encode([0, 1, 2, 3], [[1, 2]])),  # part: 2/3
        ]
        metric = self.measure(*images, unions=HEART | {"part": (1, 2), "never drawn": (0, 1)})
        assert metric.by_class()[1] == [None, None, None, pytest.approx(4 / 5), pytest.approx(2 / 3), None]
        assert metric.aggregate() == pytest.approx((4 / 5 + 2 / 3) / 2)

    def test_union_does_not_help_where_it_is_not_drawn(self):
        metric = self.measure((predict(PRED), encode(TRUTH, [3])), unions=HEART)
        with pytest.raises(DataError, match="nothing can be measured"):
            metric.aggregate()

    def test_reset(self):
        metric = self.measure((predict([0, 2]), encode([0, 1])))
        assert metric.aggregate() == 0
        metric.reset()
        metric(predict([0, 1]), encode([0, 1]))
        assert metric.aggregate() == 1

    def test_candidates_are_needed(self):
        with pytest.raises(ValueError, match="candidate sets"):
            PartialDiceMetric()(predict(PRED))
