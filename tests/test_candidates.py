"""Tests of candidate sets, the one representation of every kind of partial label."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from monai.data import MetaTensor

from dcl_monai.candidates import (
    CANDIDATE_SETS,
    all_classes,
    annotated_classes,
    candidate_label,
    candidate_sets,
    expand,
    from_bits,
    indistinct_classes,
    known,
    known_positive,
    to_bits,
)

# One column per voxel: full label 2; outside the annotated class 1; nobody looked; union {2, 3}.
SETS = [0b0100, 0b1101, 0b1111, 0b1100]
MEMBERS = torch.tensor([[0, 1, 1, 0], [0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 1, 1]], dtype=torch.bool)
KNOWN = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 1], [1, 0, 0, 0], [1, 0, 0, 0]], dtype=torch.bool)
POSITIVE = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)


class TestBits:
    @given(st.sets(st.integers(0, 200)))
    def test_round_trip_from_classes(self, classes):
        assert from_bits(to_bits(classes)) == tuple(sorted(classes))

    @given(st.integers(0, 2**200))
    def test_round_trip_from_bits(self, bits):
        assert to_bits(from_bits(bits)) == bits

    @given(st.sets(st.integers(0, 100)), st.sets(st.integers(0, 100)))
    def test_operators_are_those_of_sets(self, a, b):
        assert from_bits(to_bits(a) & to_bits(b)) == tuple(sorted(a & b))
        assert from_bits(to_bits(a) | to_bits(b)) == tuple(sorted(a | b))

    @pytest.mark.parametrize(
        ("classes", "bits"), [([], 0), ([0], 1), ([0, 2], 0b101), ([3, 1, 3], 0b1010), ([70], 2**70)]
    )
    def test_literal(self, classes, bits):
        assert to_bits(classes) == bits

    def test_numpy_classes_beyond_64(self):
        assert to_bits(np.array([1, 70])) == 2**70 + 2

    @pytest.mark.parametrize(("num_classes", "bits"), [(1, 0b1), (4, 0b1111), (62, 2**62 - 1), (100, 2**100 - 1)])
    def test_all_classes(self, num_classes, bits):
        assert all_classes(num_classes) == bits
        assert from_bits(bits) == tuple(range(num_classes))


class TestExpand:
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
    def test_literal(self, dtype):
        assert torch.equal(expand(torch.arange(4, dtype=dtype), SETS, 4), MEMBERS)

    def test_float_codes_are_rounded(self):
        codes = torch.tensor([0.0001, 0.9999, 2.0001, 2.9999])
        assert torch.equal(expand(codes, SETS, 4), MEMBERS)

    @pytest.mark.parametrize("shape", [(4,), (2, 2), (2, 1, 2)])
    def test_shape(self, shape):
        members = expand(torch.arange(4).reshape(shape), SETS, 4)
        assert torch.equal(members, MEMBERS.reshape(4, *shape))

    def test_more_classes_than_an_int64_has_bits(self):
        members = expand(torch.tensor([0, 1, 2]), [1 << 99, all_classes(100), 1], 100)
        assert members.sum(0).tolist() == [1, 100, 1]
        assert members[99].tolist() == [True, True, False]
        assert members[0].tolist() == [False, True, True]

    def test_code_without_a_set_is_refused(self):
        with pytest.raises(IndexError):
            expand(torch.tensor([4]), SETS, 4)


class TestKnown:
    @pytest.mark.parametrize("dim", [0, 1])
    def test_literal(self, dim):
        members, expected_known, expected_positive = MEMBERS, KNOWN, POSITIVE
        if dim == 1:
            members, expected_known, expected_positive = members[None], expected_known[None], expected_positive[None]
        assert torch.equal(known(members, dim), expected_known)
        assert torch.equal(known_positive(members, dim), expected_positive)

    def test_default_is_the_channel_dimension(self):
        assert torch.equal(known(MEMBERS[None]), KNOWN[None])
        assert torch.equal(known_positive(MEMBERS[None]), POSITIVE[None])

    @given(st.lists(st.integers(1, 31), min_size=1, max_size=8))
    def test_paper_vector(self, sets):
        """y = 1 where S = {j}; y = 0 where j is not in S; unknown elsewhere."""
        members = expand(torch.arange(len(sets)), sets, 5)
        for voxel, bits in enumerate(sets):
            classes = from_bits(bits)
            for j in range(5):
                assert bool(known_positive(members, 0)[j, voxel]) == (classes == (j,))
                assert bool(known(members, 0)[j, voxel]) == (classes == (j,) or j not in classes)


class TestAnnotatedClasses:
    @pytest.mark.parametrize(
        ("sets", "annotated"),
        [
            pytest.param([0b0001, 0b0010, 0b0100, 0b1000], (0, 1, 2, 3), id="full"),
            pytest.param([0b0001, 0b0010], (0, 1, 2, 3), id="full, 2 and 3 absent"),
            pytest.param([0b1101, 0b0010], (1,), id="1 annotated and present"),
            pytest.param([0b1101], (1,), id="1 annotated and absent"),
            pytest.param([0b1110, 0b0001], (0,), id="background annotated"),
            pytest.param([0b1001, 0b0010, 0b0100], (1, 2), id="1 and 2 annotated"),
            pytest.param([0b1001, 0b0010], (1, 2), id="1 and 2 annotated, 2 absent"),
            pytest.param([0b1111], (), id="blank scribble"),
            pytest.param([0b1111, 0b0001, 0b0100], (), id="strokes annotate no class everywhere"),
            pytest.param([0b0001, 0b1110], (0,), id="union of 1, 2, 3 decides the background alone"),
        ],
    )
    def test_literal(self, sets, annotated):
        assert annotated_classes(sets, 4) == annotated

    @given(st.data())
    def test_absent_is_not_unannotated(self, data):
        """The annotated classes come back whichever classes the image holds."""
        m = data.draw(st.integers(2, 70))
        annotated = data.draw(st.sets(st.integers(0, m - 1), max_size=m - 2))
        present = data.draw(st.sets(st.integers(0, m - 1)))
        rest = all_classes(m) & ~to_bits(annotated)
        sets = {rest} | {1 << j for j in present & annotated}
        assert annotated_classes(sets, m) == tuple(sorted(annotated))

    def test_takes_any_iterable_once(self):
        assert annotated_classes(iter([0b101, 0b010]), 3) == (1,)


class TestLabel:
    def test_table_is_carried(self):
        label = candidate_label(torch.tensor([0, 1]), [0b101, 0b010])
        assert candidate_sets(label) == (0b101, 0b010)
        assert label.tolist() == [0, 1]

    def test_metadata_is_copied_not_shared(self):
        like = MetaTensor(torch.zeros(1, 2, 2), affine=2 * torch.eye(4), meta={"filename_or_obj": "a.nii"})
        label = candidate_label(torch.zeros(1, 2, 2), [1], like=like)
        assert label.meta["filename_or_obj"] == "a.nii"
        assert torch.equal(label.affine, like.affine)
        assert CANDIDATE_SETS not in like.meta

    @pytest.mark.parametrize("label", [torch.zeros(2), MetaTensor(torch.zeros(2))])
    def test_label_that_was_never_encoded_is_refused(self, label):
        with pytest.raises(ValueError, match=r"no candidate sets.*EncodeCandidates"):
            candidate_sets(label)


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        pytest.param([], [(0, 1), (0, 2), (1, 2)], id="nothing known"),
        pytest.param([0b111], [(0, 1), (0, 2), (1, 2)], id="unlabelled"),
        pytest.param([0b001, 0b110], [(1, 2)], id="a union"),
        pytest.param([0b010, 0b101], [(0, 2)], id="one class of three"),
        pytest.param([0b001, 0b110, 0b010, 0b101], [], id="a union, and one of its classes"),
        pytest.param([0b001, 0b010, 0b100], [], id="full"),
    ],
)
def test_indistinct_classes(sets, expected):
    assert indistinct_classes(sets, 3) == expected
