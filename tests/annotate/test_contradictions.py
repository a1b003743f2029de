"""Planted mistakes are found, and named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from dcl_monai.annotate.contradictions import best_shift, find_contradictions, find_signs, rim, spreads
from dcl_monai.annotate.protocols import find_protocols

SHAPE = (48, 40, 8)


def truth(random: np.random.Generator) -> np.ndarray:
    """Class indices: a box of A beside a box of B."""
    label = np.zeros(SHAPE, np.uint8)
    x, y = 20 + random.integers(-2, 3), 18 + random.integers(-2, 3)
    label[x - 8 : x, y - 6 : y + 6, 1:-1] = 1
    label[x : x + 9, y - 6 : y + 6, 1:-1] = 2
    return label


def predicted(label: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Class probabilities, unsure at the edges, (3, H, W, D)."""
    parts = [ndimage.gaussian_filter((label == j).astype(float), (1, 1, 0.3)) for j in range(3)]
    noisy = np.stack(parts) + 0.05 * random.random((3, *SHAPE))
    return noisy / noisy.sum(0)


def sets(label: np.ndarray, *shown: int) -> np.ndarray:
    """Candidate sets where these structures are annotated."""
    candidates = np.ones((3, *label.shape), bool)
    for j in shown:
        candidates[j] = False
        candidates[:, label == j] = False
    for j in shown:
        candidates[j, label == j] = True
    return candidates


def mistake(label: np.ndarray, kind: str) -> np.ndarray:
    label, drawn = label.copy(), label == 1
    if kind == "name":
        return np.array([0, 2, 1], np.uint8)[label]
    if kind == "forgotten":
        label[..., 3:5][drawn[..., 3:5]] = 0
    elif kind == "moved":
        label[drawn] = 0
        label[np.roll(drawn, -1, 1)] = 1
    elif kind == "stray":
        label[40:44, 30:34, 4] = 1
    else:
        label[ndimage.binary_dilation(drawn, np.ones((3, 3, 1)))] = 1
    return label


@pytest.mark.parametrize("kind", ["name", "forgotten", "moved", "stray", "size"])
def test_a_mistake_comes_first_and_is_named(kind):
    random, signs = np.random.default_rng(0), {}
    for case in range(12):
        label = truth(random)
        probabilities = predicted(label, random)
        label = mistake(label, kind) if case == 7 else label
        for j in (1, 2):
            signs[case, j] = find_signs(probabilities, sets(label, 1, 2), j)
    rows = find_contradictions(signs)
    assert len(rows) == 24
    assert (rows[0].case, rows[0].kind) == (7, kind)
    assert rows[0].score > 4
    assert max(row.score for row in rows if row.case != 7) < 4
    if kind == "forgotten":
        assert rows[0].signs.point[2] in (3, 4)
    if kind == "moved":
        assert rows[0].signs.shift == (0, 1, 0)
    if kind == "name":
        assert rows[0].signs.other == 3 - rows[0].structure


def test_what_is_not_annotated_is_not_judged():
    random = np.random.default_rng(0)
    label = truth(random)
    probabilities, nothing = predicted(label, random), np.zeros(SHAPE, np.uint8)
    assert find_signs(probabilities, sets(label, 1), 2) is None
    scribble = np.ones((3, *SHAPE), bool)
    scribble[[0, 2], 18, 18, 3] = False
    assert find_signs(probabilities, scribble, 1) is None
    union = np.ones((3, *SHAPE), bool)
    union[0, label > 0] = union[1:, label == 0] = False
    assert find_signs(probabilities, union, 1) is None
    # annotated, absent, and the model sees it: forgotten altogether
    forgotten = find_signs(probabilities, sets(nothing, 1), 1)
    assert forgotten.values["forgotten"] == pytest.approx(6, abs=1)
    assert find_signs(np.stack([1.0 + nothing, *2 * [0.0 * nothing]]), sets(nothing, 1), 1) is None


def test_best_shift_of_a_single_voxel():
    drawn, own = np.zeros((9, 9, 1), bool), np.zeros((9, 9, 1))
    drawn[4, 4], own[5, 2] = True, 1
    assert best_shift(drawn, own, axis=2) == (1, (1, -2, 0))
    assert best_shift(drawn, drawn.astype(float), axis=2) == (0, (0, 0, 0))


def test_rim_counts_the_edge_and_not_the_volume():
    shape = (50, 50, 3)
    true, x = np.zeros(shape, bool), np.indices(shape)[0]
    true[10:30, 10:30] = True
    in_slices = np.ones((3, 3, 1), bool)
    larger, smaller = ndimage.binary_dilation(true, in_slices), ndimage.binary_erosion(true, in_slices)
    assert [rim(drawn, true.astype(float), axis=2) for drawn in (true, larger, smaller)] == [0, 1, -1]
    unsure = ndimage.gaussian_filter(true.astype(float), (1.0, 1.0, 0))
    assert abs(rim(true, unsure, axis=2)) < 0.1
    assert rim(larger, unsure, axis=2) > 0.6
    spilt = true.astype(float)
    spilt[30:46, 11:29] = 1  # the model fills a neighbour: 72% more volume, and one side of four
    assert abs(rim(true, spilt, axis=2)) < 0.15
    assert rim(larger, spilt, axis=2) > 0.75
    # an edge that is nowhere near says nothing here, and any axis may count slices
    assert rim(true, (true & (x < 3)).astype(float), axis=2) == 0
    assert rim(larger.transpose(2, 0, 1), true.transpose(2, 0, 1).astype(float), axis=0) == 1


def test_a_rim_is_found_where_models_spill():
    """Models fill a neighbour by chance, so volumes say little; a mask that is one voxel larger still comes first."""
    random, signs = np.random.default_rng(1), {}
    for case in range(20):
        label = truth(random)
        seen, (x, y, _) = label.copy(), np.argwhere(label == 1).max(0) + 1
        seen[x - 8 : x, y : y + random.integers(12), 1:-1] = 1
        probabilities = predicted(seen, random)
        signs[case, 1] = find_signs(probabilities, sets(mistake(label, "size") if case == 7 else label, 1), 1)
    first = find_contradictions(signs)[0]
    assert (first.case, first.kind) == (7, "size")
    assert abs(spreads(np.array([sign.values["size"] for sign in signs.values()]), 0.03))[7] < 2


def test_spreads_have_a_floor():
    assert np.allclose(spreads(np.array([1.0, 1, 1, 2]), 0.5), [0, 0, 0, 2])
    assert np.allclose(spreads(np.array([0.0, 1, 2]), 0.1), [-1.645, 0, 1.645])


def test_data_sets_of_different_protocols():
    """West calls a rim of A what is B elsewhere: a difference between data sets, and no contradiction."""
    random, signs, items = np.random.default_rng(0), {}, []
    for case in range(16):
        label = truth(random)
        probabilities = predicted(label, random)
        west = case % 2
        if west:
            label[1:][(label[:-1] == 1) & (label[1:] == 2)] = 1
            label[1:][(label[:-1] == 1) & (label[1:] == 2)] = 1
        item = {"image": "x", "label": "y", "subject": str(case), "dataset": "west" if west else "east"}
        items.append({**item, "values": {0: [0], 5: [1], 6: [2]}, "annotated": [1, 2]})
        for j in (1, 2):
            signs[case, j] = find_signs(probabilities, sets(label, 1, 2), j)
    (first, *others) = find_protocols(signs, items, ["background", "A", "B"])
    assert (first.structure, first.larger, first.smaller) == (1, "west", "east")
    assert first.ratio == pytest.approx(10 / 8, abs=0.05)
    assert first.line == "values: {5: [A, B]}"
    assert [(other.structure, other.larger) for other in others] == [(2, "east")]
    groups = {case: item["dataset"] for case, item in enumerate(items)}
    assert max(abs(row.score) for row in find_contradictions(signs, groups) if row.kind == "size") < 4
    assert (
        find_protocols({key: sign for key, sign in signs.items() if key[0] < 8}, items, ["background", "A", "B"]) == []
    )


@pytest.mark.slow
def test_twenty_mistakes_among_a_hundred_structures():
    """With predictions that err as networks do: moved, of another size, shorter or longer by a slice."""
    random, signs, kinds = np.random.default_rng(0), {}, ["name", "forgotten", "moved", "stray", "size"]
    wrong = {case: kinds[k % 5] for k, case in enumerate(random.permutation(50)[:20].tolist())}
    for case in range(50):
        label = truth(random)
        probabilities = predicted(unsteady(label, random), random)
        label = mistake(label, wrong[case]) if case in wrong else label
        for j in (1, 2):
            signs[case, j] = find_signs(probabilities, sets(label, 1, 2), j)
    rows = find_contradictions(signs)
    found = {row.case for row in rows[:40] if row.structure == 1 or wrong.get(row.case) == "name"} & set(wrong)
    assert len(found) >= 18
    assert sum(row.case in wrong for row in rows[:20]) >= 16


def unsteady(label: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """What a network might draw instead: class indices (H, W, D)."""
    centre = np.array(label.shape[:2]) / 2
    scale = random.normal(1, 0.05)
    offset = np.append(centre - scale * centre + random.normal(0, 0.6, 2), 0)
    moved = ndimage.affine_transform(label, [scale, scale, 1], offset, order=0)
    end, inner = (0, 1) if random.random() < 0.5 else (-1, -2)
    if random.random() < 0.5:
        moved[..., end] = moved[..., inner]
    else:
        moved[..., inner] = 0
    return moved
