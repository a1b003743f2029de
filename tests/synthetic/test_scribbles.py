"""Tests of scribbles: inside their masks, connected, the same everywhere, and nothing else told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from scipy import ndimage

from dcl_monai.candidates import from_bits
from dcl_monai.datalist import datalist_hash, load_datalist, write_datalist
from dcl_monai.datalist.items import annotation_table, shown_classes
from dcl_monai.datalist.simulate import show_only
from dcl_monai.synthetic.scribbles import draw_scribbles, file_names, scribble_items
from dcl_monai.utils import DataError

CLASSES = ["background", "RV", "MYO", "LV"]
AFFINE = np.diag([1.5, 1.5, 8.0, 1.0])
AFFINE[:3, 3] = -40, 30, 7


def heart(shape: tuple[int, int] = (96, 88), radius: float = 14) -> np.ndarray:
    """A slice with a disk (LV) in a ring (MYO) beside a crescent (RV)."""
    rows, columns = np.indices(shape)
    from_lv = np.hypot(rows - shape[0] / 2, columns - shape[1] / 2)
    from_rv = np.hypot(rows - shape[0] / 2, columns - shape[1] / 2 + radius + 6)
    result = np.zeros(shape, dtype=int)
    result[from_rv < radius + 2] = 1
    result[from_lv < radius + 6] = 2
    result[from_lv < radius] = 3
    return result


@pytest.fixture(scope="module")
def volume() -> np.ndarray:
    """Four slices of a heart; the last one shows none."""
    return np.stack([heart(radius=16), heart(), heart(radius=7), np.zeros((96, 88), dtype=int)], axis=-1)


@pytest.fixture
def items(volume, write_nifti) -> list[dict[str, Any]]:
    """Two items labelled in full, as :func:`load_datalist` gives them; values are not class indices."""
    result = []
    for k, case in enumerate(("s1/ed", "s2/ed")):
        label = np.array([0, 5, 6, 7], dtype=np.uint8)[np.roll(volume, k, axis=0)]
        image = write_nifti(f"{case}.nii.gz", np.zeros(volume.shape, np.int16), AFFINE)
        item = {"image": image, "label": write_nifti(f"{case}_gt.nii.gz", label, AFFINE), "subject": case[:2]}
        item |= {"dataset": "ACDC", "case": case, "values": {0: [0], 5: [1], 6: [2], 7: [3]}}
        result.append(item | {"unlabelled": [], "annotated": [[1], [2], [3]]})
    return result


class TestDrawScribbles:
    @pytest.mark.parametrize("seed", range(5))
    def test_inside_the_masks(self, volume, seed):
        strokes = draw_scribbles(volume, range(4), seed)
        assert strokes.shape == volume.shape
        assert set(np.unique(strokes)) == {0, 1, 2, 3, 255}
        drawn = strokes != 255
        assert np.array_equal(strokes[drawn], volume[drawn])

    @pytest.mark.parametrize("seed", range(3))
    def test_noise(self, seed):
        """Masks of any shape are drawn in: crumbs, lines, full slices, classes at the border of the image."""
        class_map = np.random.default_rng(seed).integers(0, 4, (13, 9, 4))
        class_map[..., 1] = 2
        class_map[..., 2] = np.eye(13, 9)
        strokes = draw_scribbles(class_map, range(4), seed)
        drawn = strokes != 255
        assert np.array_equal(strokes[drawn], class_map[drawn])
        for k in range(4):
            assert set(np.unique(strokes[..., k])) - {255} == set(np.unique(class_map[..., k]))

    @pytest.mark.parametrize("sigma", [1.5, 3, 5])
    def test_blobs(self, sigma):
        """Strokes stay inside where structures are narrow, ragged or full of holes."""
        noise = np.random.default_rng(0).normal(size=(80, 80, 12))
        class_map = np.argmax(
            [ndimage.gaussian_filter(np.roll(noise, 4 * k, axis=-1), (sigma, sigma, 0)) for k in range(3)], axis=0
        )
        strokes = draw_scribbles(class_map, range(3), 0)
        drawn = strokes != 255
        assert np.array_equal(strokes[drawn], class_map[drawn])

    @pytest.mark.parametrize("seed", range(5))
    def test_one_thin_curve_per_structure(self, volume, seed):
        strokes = draw_scribbles(volume, range(4), seed)
        for k in range(volume.shape[-1]):
            for j in np.unique(volume[..., k]):
                stroke = strokes[..., k] == j
                assert 1 <= ndimage.label(stroke, np.ones((3, 3)))[1] <= (1 if j else 8), "far rings leave the slice"
                assert not ndimage.binary_erosion(stroke, np.ones((3, 3))).any(), "three pixels wide"

    @pytest.mark.parametrize("seed", range(5))
    def test_small_share_of_the_structure(self, volume, seed):
        strokes = draw_scribbles(volume, range(4), seed)
        for j, most in enumerate((0.05, 0.2, 0.25, 0.15)):  # a stroke along a thin ring covers more of it
            assert 0.001 < (strokes == j).sum() / (volume == j).sum() < most

    @pytest.mark.parametrize("seed", range(5))
    def test_strokes_keep_away_from_the_border(self, volume, seed):
        strokes = draw_scribbles(volume, (1, 2, 3), seed)[..., 0]
        for j in (1, 2, 3):
            depth = ndimage.distance_transform_edt(volume[..., 0] == j)
            assert depth[strokes == j].mean() > depth[volume[..., 0] == j].mean()

    @pytest.mark.parametrize("seed", range(5))
    def test_ring_is_followed_round(self, volume, seed):
        """The path between two far points of a ring would be a half of it."""
        rows, columns = np.nonzero(draw_scribbles(volume, (2,), seed)[..., 0] == 2)
        angles = np.degrees(np.arctan2(rows - 48, columns - 44)) % 360
        assert len(np.unique(angles // 30)) >= 7

    @pytest.mark.parametrize("seed", range(5))
    def test_background_runs_around_the_foreground_near_and_far(self, volume, seed):
        strokes = draw_scribbles(volume, (0,), seed)
        distance = ndimage.distance_transform_edt(volume[..., 0] == 0)
        drawn = distance[strokes[..., 0] == 0]
        assert 1 < drawn.min() < 20
        assert drawn.max() > 0.35 * distance.max()
        assert (strokes[..., 3] == 0).sum() > 10, "a slice without foreground has a stroke as well"

    def test_parts_of_a_structure(self):
        """A large second part gets a stroke of its own, a crumb does not."""
        mask = np.zeros((60, 60), dtype=int)
        mask[5:25, 5:25] = mask[35:55, 35:50] = mask[5:7, 50:53] = 1
        stroke = draw_scribbles(mask, (1,), 0) == 1
        assert stroke[5:25, 5:25].any()
        assert stroke[35:55, 35:50].any()
        assert not stroke[5:7, 50:53].any()

    def test_class_is_drawn_alike_whatever_else_is_shown(self, volume):
        every = draw_scribbles(volume, range(4), 3)
        for j in range(4):
            alone = draw_scribbles(volume, (j,), 3)
            assert set(np.unique(alone)) == {j, 255}
            assert np.array_equal(alone == j, every == j)

    def test_seed(self, volume):
        one, same, other = (draw_scribbles(volume, range(4), seed) for seed in (1, 1, 2))
        assert np.array_equal(one, same)
        for j in range(4):
            assert not np.array_equal(one == j, other == j)

    def test_slices_differ(self, volume):
        twice = np.stack([volume[..., 0]] * 2, axis=-1)
        strokes = draw_scribbles(twice, range(4), 0)
        assert not np.array_equal(strokes[..., 0], strokes[..., 1])

    def test_2d_and_many_classes(self, volume):
        strokes = draw_scribbles(volume[..., 0] + 300, (300, 303), 0, blank=304)
        assert strokes.shape == volume.shape[:2]
        assert set(np.unique(strokes)) == {300, 303, 304}


class TestScribbleItems:
    def read(self, item) -> np.ndarray:
        return np.asarray(nib.load(item["label"]).dataobj)

    def test_files(self, items, volume, tmp_path):
        """Whatever the label values of the source are, the strokes lie in the right class, at the image's place."""
        scribbled, coverage = scribble_items(items, 4, tmp_path / "new" / "strokes")
        for k, item in enumerate(scribbled):
            image = nib.load(item["label"])
            strokes, truth = self.read(item), np.roll(volume, k, axis=0)
            assert np.allclose(image.affine, AFFINE)
            assert set(np.unique(strokes)) == {0, 1, 2, 3, 255}
            assert np.array_equal(strokes[strokes != 255], truth[strokes != 255])
        names = sorted(path.name for path in (tmp_path / "new").rglob("*.nii.gz"))
        assert names == ["ACDC_s1_ed.nii.gz", "ACDC_s2_ed.nii.gz"]
        shares = [[(self.read(i) == j).sum() / (volume == j).sum() for i in scribbled] for j in range(4)]
        assert np.allclose(coverage, np.mean(shares, axis=1))

    def test_meaning(self, items, tmp_path):
        """On a stroke the class is known, elsewhere nothing is."""
        item = scribble_items(items, 4, tmp_path / "strokes")[0][0]
        table = {value: from_bits(bits) for value, bits in annotation_table(item, 4).items()}
        assert table == {0: (0,), 1: (1,), 2: (2,), 3: (3,), 255: (0, 1, 2, 3)}
        assert all(item[key] == items[0][key] for key in ("image", "subject", "dataset", "case"))
        assert "drawn" not in item

    def test_shown_classes_alone(self, items, tmp_path):
        every, _ = scribble_items(items, 4, tmp_path / "every")
        hidden = [show_only(items[0], [2], 4), show_only(items[1], [0, 3], 4)]
        some, coverage = scribble_items(hidden, 4, tmp_path / "some")
        for item, full, shown in zip(some, every, ((2,), (0, 3)), strict=True):
            strokes, all_strokes = self.read(item), self.read(full)
            assert np.array_equal(strokes, np.where(np.isin(all_strokes, shown), all_strokes, 255))
            assert shown_classes(item, 4) == shown
            assert "drawn" not in item
        assert np.array_equal(np.isnan(coverage), [False, True, False, False])

    def test_several_annotations(self, items, volume, write_nifti, tmp_path):
        """Masks that are spread over two files are put together first."""
        rest = {
            "label": write_nifti("rest.nii", np.array([0, 0, 1, 2], dtype=np.uint8)[volume], AFFINE),
            "values": {0: [0], 1: [2], 2: [3]},
            "unlabelled": [],
            "annotated": [[2], [3]],
        }
        crescent = {"values": {0: [0], 5: [1], 6: [0], 7: [0]}, "annotated": [[1]]}
        (item,), _ = scribble_items([items[0] | crescent | {"further_labels": [rest]}], 4, tmp_path / "strokes")
        strokes = self.read(item)
        assert set(np.unique(strokes)) == {0, 1, 2, 3, 255}  # what is in none of the masks is background
        assert np.array_equal(strokes[strokes != 255], volume[strokes != 255])
        assert "further_labels" not in item

    def test_hash_covers_the_strokes(self, items, tmp_path):
        def digest(seed: int, folder: str) -> str:
            scribbled, _ = scribble_items(items, 4, tmp_path / folder, seed)
            datalist = {"classes": CLASSES, "training": scribbled, "validation": [], "test": []}
            assert datalist_hash(load_datalist_again(datalist, tmp_path / f"{folder}.json")) == datalist_hash(datalist)
            return datalist_hash(datalist)

        assert digest(0, "a") == digest(0, "b") != digest(1, "c")

    def test_originals_are_safe(self, items, tmp_path):
        before = Path(items[0]["label"]).read_bytes()
        target = Path(items[0]["label"]).with_name("ACDC_s1_ed.nii.gz")
        Path(items[0]["label"]).rename(target)
        items[0]["label"] = str(target)
        with pytest.raises(DataError, match=r"ACDC_s1_ed.nii.gz: would be overwritten"):
            scribble_items(items, 4, target.parent)
        assert target.read_bytes() == before

    @pytest.mark.parametrize("damaged", ["image", "label"])
    def test_nothing_is_left_of_a_failure(self, items, tmp_path, damaged):
        Path(items[1][damaged]).write_bytes(b"damaged")
        with pytest.raises(DataError, match=rf"^{items[1][damaged]}: cannot be read"):
            scribble_items(items, 4, tmp_path / "strokes")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["s1", "s2"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"annotated": [[1]]}, "some voxels have no class"),
            ({"values": {0: [0], 5: [1], 6: [2]}}, r"label value\(s\) \[7\]"),
        ],
    )
    def test_not_labelled_in_full(self, items, tmp_path, change, message):
        items[0] |= change
        with pytest.raises(DataError, match=message):
            scribble_items(items, 4, tmp_path / "strokes")


def load_datalist_again(datalist: dict[str, Any], path: Path) -> dict[str, Any]:
    write_datalist({"unions": {}, **datalist}, path)
    return load_datalist(path)


def test_file_names():
    cases = ["p1/p1_01", "P1/p1_01", "p1/p1_01_3", "../p1 01", "p1/p1_01", "p1/p1_01", "é"]
    names = list(file_names([{"dataset": "A/B", "case": case} for case in cases]))
    assert names[0] == "A_B_p1_p1_01"
    assert len({name.casefold() for name in names}) == len(cases)
    assert not any("/" in name or ".." in name for name in names)
