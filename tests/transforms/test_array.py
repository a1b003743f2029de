"""Tests of the partial-label transforms on arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import refusal, voxel_sets
from monai.data import MetaTensor

from dcl_monai.candidates import all_classes, annotated_classes, candidate_label, candidate_sets, from_bits, to_bits
from dcl_monai.transforms import (
    EncodeCandidates,
    ExpandCandidates,
    IntersectCandidates,
    RestrictToCandidates,
    RestrictToCandidatesd,
)
from dcl_monai.utils import DataError

ALL = (0, 1, 2, 3)


def outside(label: MetaTensor) -> tuple[int, ...]:
    """The candidate set of the voxels that padding adds."""
    return from_bits(candidate_sets(label)[0])


def named(values: list[int], name: str) -> MetaTensor:
    return MetaTensor(torch.tensor([values]), meta={"filename_or_obj": name})


class TestEncodeCandidates:
    @pytest.mark.parametrize(
        ("values", "annotated", "expected", "fill"),
        [
            pytest.param([0, 1, 2, 3], None, [(0,), (1,), (2,), (3,)], (0,), id="full"),
            pytest.param([3, 3, 1], None, [(3,), (3,), (1,)], (0,), id="full, background absent"),
            pytest.param([0, 1, 2, 3], [2], [(0, 1, 3), (0, 1, 3), (2,), (0, 1, 3)], (0, 1, 3), id="one class"),
            pytest.param([0, 1, 3], [2], [(0, 1, 3)] * 3, (0, 1, 3), id="one class, absent"),
            pytest.param([2, 2], [2], [(2,), (2,)], (0, 1, 3), id="one class, nothing else"),
            pytest.param([0, 1, 2, 3], [1, 3], [(0, 2), (1,), (0, 2), (3,)], (0, 2), id="two classes"),
            pytest.param([0, 1, 2, 3], [0], [(0,), (1, 2, 3), (1, 2, 3), (1, 2, 3)], (0,), id="background alone"),
            pytest.param([0, 1, 2, 3], [0, 2], [(0,), (1, 3), (2,), (1, 3)], (0,), id="background and one"),
            pytest.param([0, 1, 2, 3], [1, 2, 3], [(0,), (1,), (2,), (3,)], (0,), id="m - 1 is full"),
            pytest.param([0, 1, 2, 3], [0, 1, 2], [(0,), (1,), (2,), (3,)], (0,), id="m - 1 with background is full"),
            pytest.param([0, 1, 2, 3], [0, 1, 2, 3], [(0,), (1,), (2,), (3,)], (0,), id="m"),
            pytest.param([0, 1, 2, 3], [], [ALL] * 4, ALL, id="nothing annotated"),
        ],
    )
    def test_annotated_classes(self, values, annotated, expected, fill):
        label = EncodeCandidates(4)(torch.tensor([values]), annotated)
        assert voxel_sets(label) == expected
        assert outside(label) == fill

    @pytest.mark.parametrize(
        ("values", "annotated", "expected"),
        [
            pytest.param([4, 0, 2, 4], None, [ALL, (0,), (2,), ALL], id="strokes"),
            pytest.param([4, 4], None, [ALL, ALL], id="blank"),
            pytest.param([0, 2], None, [(0,), (2,)], id="strokes everywhere"),
            pytest.param([4, 0, 2], [2], [ALL, (0, 1, 3), (2,)], id="strokes of one class"),
        ],
    )
    def test_scribbles(self, values, annotated, expected):
        label = EncodeCandidates(4, unlabelled=4)(torch.tensor([values]), annotated)
        assert voxel_sets(label) == expected
        assert outside(label) == ALL

    def test_unlabelled_zero(self):
        """A scribble file whose blank value is 0 and whose background stroke is another value."""
        encode = EncodeCandidates(3, values={1: 1, 2: 2, 3: 0}, unlabelled=0)
        label = encode(torch.tensor([[0, 1, 2, 3]]))
        assert voxel_sets(label) == [(0, 1, 2), (1,), (2,), (0,)]
        assert outside(label) == (0, 1, 2)

    @pytest.mark.parametrize(
        ("mapping", "annotated", "expected", "fill"),
        [
            pytest.param({0: 0, 1: [1, 2, 3]}, None, [(0,), (1, 2, 3)], (0,), id="whole heart"),
            pytest.param({0: [0, 3], 1: [1, 2]}, None, [(0, 3), (1, 2)], (0,), id="outside is several classes"),
            pytest.param({0: 0, 1: [1, 2]}, [[1, 2]], [(0, 3), (1, 2)], (0, 3), id="union annotated, rest hidden"),
            pytest.param({0: 1, 1: 2}, [[1, 2]], [(1, 2), (1, 2)], (0, 3), id="only the union of two values shown"),
            pytest.param({0: 0, 1: [1, 2]}, [0], [(0,), (1, 2, 3)], (0,), id="union hidden"),
            pytest.param({0: 0, 1: [2]}, None, [(0,), (2,)], (0,), id="list of one"),
        ],
    )
    def test_unions(self, mapping, annotated, expected, fill):
        label = EncodeCandidates(4, values=mapping)(torch.tensor([[0, 1]]), annotated)
        assert voxel_sets(label) == expected
        assert outside(label) == fill

    def test_union_of_shown_and_hidden_classes_keeps_the_truth(self):
        """A voxel drawn as "1 or 2" may be 1, also where only 1 is annotated."""
        label = EncodeCandidates(4, values={0: 0, 1: [1, 2]})(torch.tensor([[0, 1]]), annotated=[1])
        assert voxel_sets(label)[0] == (0, 2, 3)
        assert {1, 2} <= set(voxel_sets(label)[1])

    def test_values_mapping(self):
        """The label values of MSCMR: 0, 200, 500, 600."""
        encode = EncodeCandidates(4, values={0: 0, 200: 2, 500: 3, 600: 1})
        assert voxel_sets(encode(torch.tensor([[600, 500, 200, 0]]))) == [(1,), (3,), (2,), (0,)]
        with pytest.raises(DataError, match=r"\[1\] in 1 voxel"):
            encode(torch.tensor([[0, 1]]))

    @pytest.mark.parametrize(
        ("background", "annotated", "fill"),
        [(2, None, (2,)), (2, [2], (2,)), (2, [0], (1, 2, 3)), (None, None, ALL), (None, [1], ALL)],
    )
    def test_background(self, background, annotated, fill):
        label = EncodeCandidates(4, background=background)(torch.tensor([[0, 1]]), annotated)
        assert outside(label) == fill

    @pytest.mark.parametrize("annotated", [[], [0], [2], [1, 3], [0, 1, 2]])
    @pytest.mark.parametrize("present", [[0], [0, 1], [0, 2, 3], [0, 1, 2, 3]])
    def test_annotation_can_be_read_back(self, annotated, present):
        """Absent and not annotated are never confused."""
        label = EncodeCandidates(4)(torch.tensor([present]), annotated)
        # where background is annotated and all there is, the absence of every other class is known too
        everything = len(annotated) == 3 or (0 in annotated and set(present) <= set(annotated))
        expected = ALL if everything else tuple(annotated)
        assert annotated_classes(candidate_sets(label), 4) == expected

    @pytest.mark.parametrize("m", [2, 5, 62, 70])
    @pytest.mark.parametrize("container", [list, np.array], ids=["list", "array"])
    def test_truth_is_always_a_candidate(self, m, container):
        values = torch.arange(m).reshape(1, -1)
        annotated = container([m - 1, 0])
        label = EncodeCandidates(m)(values, annotated)
        rest = tuple(range(1, m - 1)) if m > 2 else None
        assert voxel_sets(label) == [(j,) if j in (0, m - 1) else rest for j in range(m)]

    @pytest.mark.parametrize(
        "label", [np.array([[0, 1]], np.uint8), np.array([[0.0, 1.0]]), torch.tensor([[0, 1]], dtype=torch.int16)]
    )
    def test_input_types(self, label):
        coded = EncodeCandidates(2)(label)
        assert isinstance(coded, MetaTensor)
        assert coded.dtype == torch.float32
        assert voxel_sets(coded) == [(0,), (1,)]

    def test_metadata_is_kept_and_the_input_untouched(self):
        label = MetaTensor(torch.tensor([[[1, 0]]]), affine=3 * torch.eye(4), meta={"filename_or_obj": "a.nii"})
        coded = EncodeCandidates(2)(label, annotated=[1])
        assert coded.shape == label.shape
        assert torch.equal(coded.affine, label.affine)
        assert coded.meta["filename_or_obj"] == "a.nii"
        assert "candidate_sets" not in label.meta
        assert label.tolist() == [[[1, 0]]]

    def test_unknown_value_is_named(self):
        message = refusal(EncodeCandidates(3), named([0, 7, 7, 2, -1], "case7.nii.gz"))
        for part in ("case7.nii.gz", "[-1, 7]", "3 voxel(s)", "[0, 1, 2]", "Correct the file"):
            assert part in message

    @pytest.mark.parametrize("value", [0.5, float("nan"), float("inf")])
    def test_fraction_is_refused(self, value):
        label = MetaTensor(torch.tensor([[0.0, value]]), meta={"filename_or_obj": "image.nii.gz"})
        with pytest.raises(DataError, match=r"image\.nii\.gz.*whole numbers"):
            EncodeCandidates(3)(label)

    @pytest.mark.parametrize("annotated", [[3], [-1], [0, 9]])
    def test_annotated_class_that_does_not_exist(self, annotated):
        message = refusal(EncodeCandidates(3), named([0, 1], "case7.nii.gz"), annotated)
        assert all(part in message for part in ("case7.nii.gz", str(annotated), "0..2")), message

    @pytest.mark.parametrize("mapping", [{0: 0, 5: 3}, {0: 0, 5: -1}, {0: 0, 5: [1, 3]}, {0: 0, 5: []}])
    def test_value_of_a_class_that_does_not_exist(self, mapping):
        with pytest.raises(ValueError, match=r"value 5 .* outside 0\.\.2"):
            EncodeCandidates(3, values=mapping)


class TestIntersectCandidates:
    @pytest.mark.parametrize(
        ("first", "second", "expected", "fill"),
        [
            pytest.param([1], [2], [(0, 3), (1,), (2,), (0, 3)], (0, 3), id="two classes by two raters"),
            pytest.param([1, 2], [3], [(0,), (1,), (2,), (3,)], (0,), id="together full"),
            pytest.param([1], None, [(0,), (1,), (2,), (3,)], (0,), id="partial and full"),
            pytest.param([1], [1], [(0, 2, 3), (1,), (0, 2, 3), (0, 2, 3)], (0, 2, 3), id="the same twice"),
            pytest.param([0], [1], [(0,), (1,), (2, 3), (2, 3)], (0,), id="background by one of them"),
            pytest.param([1], [], [(0, 2, 3), (1,), (0, 2, 3), (0, 2, 3)], (0, 2, 3), id="second says nothing"),
        ],
    )
    @pytest.mark.parametrize("swap", [False, True])
    def test_results(self, first, second, expected, fill, swap):
        encode, values = EncodeCandidates(4), torch.tensor([[0, 1, 2, 3]])
        pair = [encode(values, first), encode(values, second)]
        merged = IntersectCandidates()(*(pair[::-1] if swap else pair))
        assert voxel_sets(merged) == expected
        assert outside(merged) == fill

    def test_scribble_and_label(self):
        scribble = EncodeCandidates(4, unlabelled=9)(torch.tensor([[9, 9, 3, 0]]))
        label = EncodeCandidates(4)(torch.tensor([[0, 1, 0, 0]]), annotated=[1])
        merged = IntersectCandidates()(scribble, label)
        assert voxel_sets(merged) == [(0, 2, 3), (1,), (3,), (0,)]
        assert outside(merged) == (0, 2, 3)

    def test_union_and_part(self):
        union = EncodeCandidates(4, values={0: 0, 1: [1, 2, 3]})(torch.tensor([[0, 1, 1]]))
        part = EncodeCandidates(4)(torch.tensor([[0, 2, 0]]), annotated=[2])
        merged = IntersectCandidates()(union, part)
        assert voxel_sets(merged) == [(0,), (2,), (1, 3)]

    def test_conflict_outside_the_image_alone_is_no_conflict(self):
        first = candidate_label(torch.tensor([[1.0]]), [0b001, 0b110])
        second = candidate_label(torch.tensor([[1.0]]), [0b010, 0b010])
        merged = IntersectCandidates()(first, second)
        assert voxel_sets(merged) == [(1,)]
        assert outside(merged) == (0, 1)

    def test_sixty_two_classes(self):
        values, encode = torch.arange(62).reshape(1, -1), EncodeCandidates(62)
        merged = IntersectCandidates()(encode(values, range(0, 31)), encode(values, range(31, 61)))
        assert voxel_sets(merged) == [(j,) for j in range(62)]

    def test_metadata_is_that_of_the_first(self):
        encode = EncodeCandidates(3)
        first, second = encode(named([0, 1], "a.nii"), [1]), encode(named([0, 1], "b.nii"), [2])
        merged = IntersectCandidates()(first, second)
        assert merged.meta["filename_or_obj"] == "a.nii"
        assert merged.dtype == torch.float32
        assert candidate_sets(first) == (0b101, 0b010)

    def test_conflict_is_rejected(self):
        encode = EncodeCandidates(4)
        first, second = encode(named([1, 1, 0, 0], "a.nii.gz"), [1]), encode(named([2, 2, 0, 2], "b.nii.gz"), [2])
        message = refusal(IntersectCandidates(), first, second)
        for part in ("a.nii.gz", "b.nii.gz", "2 voxel(s)", "(1,)", "(2,)", "Correct one of them"):
            assert part in message

    def test_conflict_counts_every_voxel(self):
        """Two voxels are 1 against 2, three are 2 against 1: the raters disagree in five."""
        encode = EncodeCandidates(3)
        first, second = encode(named([1, 1, 2, 2, 2, 0], "a.nii")), encode(named([2, 2, 1, 1, 1, 0], "b.nii"))
        with pytest.raises(DataError, match=r"5 voxel\(s\)"):
            IntersectCandidates()(first, second)

    def test_shapes_must_agree(self):
        encode = EncodeCandidates(2)
        first, second = encode(named([0, 1], "a.nii.gz")), encode(named([0, 1, 1], "b.nii.gz"))
        with pytest.raises(DataError, match=r"a\.nii\.gz and b\.nii\.gz .*\(1, 2\) and \(1, 3\).*resample"):
            IntersectCandidates()(first, second)

    def test_label_without_sets_is_refused(self):
        with pytest.raises(ValueError, match="no candidate sets"):
            IntersectCandidates()(EncodeCandidates(2)(torch.zeros(1, 2)), MetaTensor(torch.zeros(1, 2)))


class TestExpandCandidates:
    @pytest.mark.parametrize("shape", [(1, 2, 2), (1, 2, 1, 2)])
    def test_literal(self, shape):
        label = EncodeCandidates(4)(torch.tensor([0, 1, 2, 3]).reshape(shape), annotated=[2])
        members = ExpandCandidates(4)(label)
        expected = torch.tensor([[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
        assert torch.equal(members, expected.reshape(4, *shape[1:]))
        assert type(members) is torch.Tensor

    def test_table_wider_than_the_image(self):
        label = candidate_label(torch.tensor([[[2.0, 0.0]]]), [all_classes(3), to_bits([0]), to_bits([1, 2])])
        assert ExpandCandidates(3)(label)[:, 0].tolist() == [[False, True], [True, True], [True, True]]

    def test_label_without_sets_is_refused(self):
        with pytest.raises(ValueError, match="no candidate sets"):
            ExpandCandidates(2)(torch.zeros(1, 2, 2))


class TestRestrictToCandidates:
    def test_pseudo_label(self):
        """Of the candidates the likeliest; the annotated class where it is known, however unlikely it seems."""
        label = torch.tensor([[[0, 2, 1, 0]]])
        candidates = ExpandCandidates(3)(EncodeCandidates(3)(label, [2]))
        prob = torch.tensor([[0.1, 0.5, 0.2, 0.0], [0.2, 0.4, 0.2, 0.0], [0.7, 0.1, 0.6, 1.0]]).reshape(3, 1, 4)
        restricted = RestrictToCandidates()(prob, candidates)
        assert restricted.argmax(0).tolist() == [[1, 2, 0, 0]]
        assert torch.equal(restricted[candidates], prob[candidates])
        assert (restricted[~candidates] == -1).all()

    def test_dictionary_form(self):
        candidates = torch.tensor([[[True]], [[False]]])
        data = {"pred": torch.tensor([[[0.2]], [[0.8]]]), "sets": candidates}
        assert RestrictToCandidatesd("pred", "sets")(data)["pred"].argmax(0).item() == 0
        assert data["pred"].argmax(0).item() == 1, "the input is left alone"
