"""Tests of the synthetic heart generator."""

from __future__ import annotations

import json
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy.ndimage import binary_dilation, binary_erosion
from scipy.ndimage import label as connected_components

from dcl_monai.data import phantom
from dcl_monai.data.phantom import (
    GROUPS,
    LABELS,
    MARKER_NAME,
    PHASES,
    SyntheticSubject,
    synthesize_subject,
    write_synthetic_acdc,
)

RV, MYO, LV = LABELS["RV"], LABELS["MYO"], LABELS["LV"]


@pytest.fixture(scope="module")
def subjects() -> list[SyntheticSubject]:
    """Twenty subjects, four of each group."""
    return [synthesize_subject(100 + i, GROUPS[i % len(GROUPS)]) for i in range(20)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of six subjects; tests must not change it."""
    return write_synthetic_acdc(tmp_path_factory.mktemp("acdc") / "data", num_subjects=6, seed=3, progress=False)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def first_subjects(root: Path, number: int) -> dict[str, bytes]:
    names = {f"patient{i + 1:03d}" for i in range(number)}
    return {name: data for name, data in contents(root).items() if Path(name).parts[0] in names}


def volume(subject: SyntheticSubject, phase: str, label: int) -> float:
    return float((subject.labels[phase] == label).sum() * np.prod(subject.spacing) / 1000)


def middle_slices(labels: np.ndarray) -> list[int]:
    """Slices with all three structures, without the first and the last of them."""
    full = [k for k in range(labels.shape[2]) if all((labels[:, :, k] == value).any() for value in (RV, MYO, LV))]
    return full[1:-1]


def wall_thickness(subject: SyntheticSubject, phase: str) -> float:
    """Mean thickness in mm of the wall as a ring of the same areas in the middle slices."""
    labels = subject.labels[phase]
    thickness = []
    for k in middle_slices(labels):
        cavity, muscle = ((labels[:, :, k] == value).sum() * subject.spacing[0] ** 2 for value in (LV, MYO))
        thickness.append(np.sqrt((cavity + muscle) / np.pi) - np.sqrt(cavity / np.pi))
    return float(np.mean(thickness))


class TestSubject:
    def test_is_determined_by_its_arguments(self):
        state = np.random.get_state()[1].copy()
        one, two, other = synthesize_subject(7, "HCM"), synthesize_subject(7, "HCM"), synthesize_subject(8, "HCM")
        np.testing.assert_array_equal(np.random.get_state()[1], state)
        assert (one.spacing, one.frames, one.group) == (two.spacing, two.frames, two.group)
        for phase in PHASES:
            np.testing.assert_array_equal(one.images[phase], two.images[phase])
            np.testing.assert_array_equal(one.labels[phase], two.labels[phase])
        assert one.images["ED"].shape != other.images["ED"].shape or (one.images["ED"] != other.images["ED"]).any()

    @pytest.mark.parametrize(("seed", "group"), [(0, "nor"), (0, ""), (-1, "NOR")])
    def test_rejects_bad_arguments(self, seed, group):
        with pytest.raises(ValueError, match=r"group|seed"):
            synthesize_subject(seed, group)

    def test_arrays_and_field_of_view(self, subjects):
        for subject in subjects:
            width, height, depth = subject.images["ED"].shape
            assert 150 <= width <= 230
            assert 150 <= height <= 230
            assert 6 <= depth <= 11
            assert 1.3 <= subject.spacing[0] == subject.spacing[1] <= 1.9
            assert 5 <= subject.spacing[2] <= 10
            assert subject.frames["ED"] == 1 < subject.frames["ES"] <= subject.num_frames
            for phase in PHASES:
                image, labels = subject.images[phase], subject.labels[phase]
                assert image.dtype == np.int16
                assert labels.dtype == np.uint8
                assert image.shape == labels.shape == (width, height, depth)
                assert image.min() >= 0
                assert image.max() < 3000
                assert set(np.unique(labels)) == {0, RV, MYO, LV}
                border = np.ones(labels.shape, dtype=bool)
                border[2:-2, 2:-2] = False
                assert not labels[border].any(), "the heart must lie inside the field of view"

    def test_blood_pools_are_equally_bright_and_muscle_is_dark(self, subjects):
        differences = []
        for subject in subjects:
            image, labels = subject.images["ED"].astype(float), subject.labels["ED"]
            structure = np.ones((3, 3, 1), dtype=bool)
            left, right, muscle = (
                np.median(image[binary_erosion(labels == value, structure, iterations=1)]) for value in (LV, RV, MYO)
            )
            assert muscle < 0.75 * min(left, right)
            differences.append((left - right) / (0.5 * (left + right) - muscle))
        # The coil's sensitivity varies over the heart, so single subjects differ, to either side.
        assert np.max(np.abs(differences)) < 0.6
        assert abs(np.mean(differences)) < 0.2

    def test_blood_pools_have_one_signal_before_acquisition(self):
        anatomy = phantom._draw_anatomy(np.random.default_rng(5), "NOR")
        thorax = phantom._render_thorax(np.random.default_rng(5), anatomy)
        signal, labels = phantom._render_heart(np.random.default_rng(5), anatomy, "ED", thorax)
        left, right = (np.median(signal[labels == value]) for value in (LV, RV))
        muscle = np.median(signal[labels == MYO])
        assert abs(left - right) < 0.1 * (left - muscle)

    def test_muscle_encloses_the_cavity(self, subjects):
        cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=bool)
        checked = 0
        for subject in subjects:
            for phase in PHASES:
                labels = subject.labels[phase]
                for k in range(labels.shape[2]):
                    cavity = labels[:, :, k] == LV
                    ring = binary_dilation(cavity, cross) & ~cavity
                    assert (labels[:, :, k][ring] == MYO).all()
                    checked += bool(cavity.any())
        assert checked > 200

    def test_right_ventricle_lies_beside_the_septum(self, subjects):
        for subject in subjects:
            labels = subject.labels["ED"]
            slices = middle_slices(labels)
            assert len(slices) >= 2
            for k in slices:
                plane = labels[:, :, k]
                assert (binary_dilation(plane == RV) & (plane == MYO)).sum() >= 4
                assert connected_components(plane == RV)[1] == 1
                towards = np.argwhere(plane == RV).mean(0) - np.argwhere(plane == LV).mean(0)
                angle = np.degrees(np.arctan2(towards[1], towards[0])) % 360
                assert 100 < angle < 230
            areas = [(labels[:, :, k] == RV).sum() for k in slices]
            assert areas[0] > areas[-1], "the RV must get smaller towards the apex"

    def test_contraction(self, subjects):
        for subject in subjects:
            assert volume(subject, "ES", LV) < 0.95 * volume(subject, "ED", LV)
            assert volume(subject, "ES", RV) < volume(subject, "ED", RV)
            assert wall_thickness(subject, "ES") > wall_thickness(subject, "ED")
            assert 0.7 < volume(subject, "ES", MYO) / volume(subject, "ED", MYO) < 1.3

    def test_groups_differ_as_named(self, subjects):
        def mean(group, measure):
            return np.mean([measure(subject) for subject in subjects if subject.group == group])

        def ejection(subject):
            return 1 - volume(subject, "ES", LV) / volume(subject, "ED", LV)

        assert mean("DCM", lambda s: volume(s, "ED", LV)) > 1.3 * mean("NOR", lambda s: volume(s, "ED", LV))
        assert mean("DCM", ejection) < mean("MINF", ejection) < mean("NOR", ejection)
        assert mean("HCM", lambda s: wall_thickness(s, "ED")) > 1.2 * mean("NOR", lambda s: wall_thickness(s, "ED"))
        ratio = {g: mean(g, lambda s: volume(s, "ED", RV) / volume(s, "ED", LV)) for g in ("NOR", "RV")}
        assert ratio["RV"] > 1.2 * ratio["NOR"]

    def test_variety(self, subjects):
        offsets, angles, contrasts, gains = [], [], [], []
        for subject in subjects:
            image, labels = subject.images["ED"].astype(float), subject.labels["ED"]
            left, right = (np.argwhere(labels == value).mean(0)[:2] * subject.spacing[0] for value in (LV, RV))
            offsets.append(left - 0.5 * np.array(labels.shape[:2]) * subject.spacing[0])
            angles.append(np.degrees(np.arctan2(right[1] - left[1], right[0] - left[0])) % 360)
            gains.append(np.median(image[labels == LV]))
            contrasts.append(np.median(image[labels == MYO]) / gains[-1])
        assert (np.std(offsets, axis=0) > 8).all()
        assert np.abs(offsets).max() < 45
        assert np.std(angles) > 8
        assert np.ptp(contrasts) > 0.12
        assert max(gains) > 2 * min(gains)
        assert len({subject.images["ED"].shape for subject in subjects}) > 15
        lv_volumes = [volume(subject, "ED", LV) for subject in subjects]
        assert max(lv_volumes) > 2.5 * min(lv_volumes)
        absent = [
            bool((subject.labels[phase] == value).any((0, 1)).all())
            for subject in subjects
            for phase in PHASES
            for value in (RV, LV)
        ]
        assert 0 < np.mean(absent) < 1, "some structures must be absent from some first or last slices"


def intensity_classifier_dice(
    train: list[SyntheticSubject], test: list[SyntheticSubject], crop: bool
) -> dict[str, float]:
    """Mean Dice over LV, MYO and RV of histogram classifiers of the z-scored intensity, by decision rule."""
    edges = np.linspace(-3, 6, 91)

    def pairs(subject):
        for phase in PHASES:
            image, labels = subject.images[phase].astype(float), subject.labels[phase]
            if crop:  # 200 mm around the image's centre
                box = tuple(
                    slice(max(int(n / 2 - 100 / s), 0), int(n / 2 + 100 / s))
                    for n, s in zip(image.shape[:2], subject.spacing, strict=False)
                )
                image, labels = image[box], labels[box]
            yield np.digitize((image - image.mean()) / image.std(), edges), labels

    counts = np.zeros((4, len(edges) + 1))
    for subject in train:
        for bins, labels in pairs(subject):
            for value in range(4):
                counts[value] += np.bincount(bins[labels == value], minlength=counts.shape[1])
    rules = {"posterior": counts.argmax(0), "likelihood": (counts / counts.sum(1, keepdims=True)).argmax(0)}
    scores: dict[str, float] = {}
    volumes = [pair for subject in test for pair in pairs(subject)]

    def dice(prediction, target):
        return 2 * (prediction & target).sum() / (prediction.sum() + target.sum())

    for rule, table in rules.items():
        scores[rule] = np.mean([dice(table[b] == value, t == value) for b, t in volumes for value in (RV, MYO, LV)])
    # For each class the set of intensities with the best Dice on the training subjects, overlaps allowed.
    best = []
    for value in (RV, MYO, LV):
        order = np.argsort(-counts[value] / np.maximum(counts.sum(0), 1))
        hits, size = np.cumsum(counts[value][order]), np.cumsum(counts.sum(0)[order])
        chosen = np.zeros(counts.shape[1], dtype=bool)
        chosen[order[: np.argmax(2 * hits / (size + counts[value].sum())) + 1]] = True
        best += [dice(chosen[b], t == value) for b, t in volumes]
    scores["best set"] = np.mean(best)
    return scores


@pytest.mark.parametrize("crop", [False, True])
def test_intensity_alone_does_not_segment(subjects, crop):
    scores = intensity_classifier_dice(subjects[:12], subjects[12:], crop)
    assert max(scores.values()) < 0.5, scores
    assert max(scores.values()) > 0.05, "the reference classifier itself must work"


class TestDataset:
    def test_layout(self, dataset):
        assert sorted(path.name for path in dataset.iterdir()) == [f"patient00{i}" for i in range(1, 7)] + [MARKER_NAME]
        groups = []
        for folder in sorted(dataset.glob("patient*")):
            lines = (folder / "Info.cfg").read_text().splitlines()
            info = dict(line.split(": ") for line in lines)
            assert list(info) == ["ED", "ES", "Group", "Height", "NbFrame", "Weight"]
            assert int(info["ED"]) == 1 < int(info["ES"]) <= int(info["NbFrame"])
            assert 140 <= float(info["Height"]) <= 205
            assert 30 <= float(info["Weight"]) <= 170
            groups.append(info["Group"])
            expected = {"Info.cfg"}
            for phase in PHASES:
                stem = f"{folder.name}_frame{int(info[phase]):02d}"
                expected |= {f"{stem}.nii.gz", f"{stem}_gt.nii.gz"}
                image, target = nib.load(folder / f"{stem}.nii.gz"), nib.load(folder / f"{stem}_gt.nii.gz")
                assert image.get_data_dtype() == np.int16
                assert target.get_data_dtype() == np.uint8
                assert image.shape == target.shape
                np.testing.assert_array_equal(image.affine, target.affine)
                zooms = image.header.get_zooms()
                np.testing.assert_allclose(image.affine, np.diag([-zooms[0], -zooms[1], zooms[2], 1]), rtol=1e-6)
                np.testing.assert_allclose(image.get_qform(), image.get_sform(), rtol=1e-6)
                assert image.header.get_xyzt_units()[0] == "mm"
                assert image.header["qform_code"] > 0
                assert image.header["sform_code"] > 0
            assert {path.name for path in folder.iterdir()} == expected
        assert groups == [*GROUPS, GROUPS[0]]
        assert json.loads((dataset / MARKER_NAME).read_text()) == {
            "generator": "dcl_monai.data.phantom",
            "version": phantom.GENERATOR_VERSION,
            "seed": 3,
            "num_subjects": 6,
        }

    def test_growing_keeps_the_first_subjects(self, dataset, tmp_path, monkeypatch):
        reference = first_subjects(dataset, 3)
        write_synthetic_acdc(tmp_path, num_subjects=2, seed=3, progress=False)
        small = contents(tmp_path)
        small.pop(MARKER_NAME)
        assert len(small) == 10
        assert all(reference[name] == data for name, data in small.items())
        made = []
        make = phantom.synthesize_subject
        monkeypatch.setattr(phantom, "synthesize_subject", lambda *args: made.append(args) or make(*args))
        write_synthetic_acdc(tmp_path, num_subjects=3, seed=3, progress=False)
        assert len(made) == 1
        assert json.loads((tmp_path / MARKER_NAME).read_text())["num_subjects"] == 3
        assert first_subjects(tmp_path, 40) == reference

    def test_finished_data_set_is_left_alone(self, dataset, monkeypatch):
        def fail(*args):
            raise AssertionError("nothing must be written")

        monkeypatch.setattr(phantom, "_write_atomically", fail)
        before = {path: path.stat().st_mtime_ns for path in dataset.rglob("*")}
        assert write_synthetic_acdc(str(dataset), num_subjects=6, seed=3, progress=False) == dataset
        assert {path: path.stat().st_mtime_ns for path in dataset.rglob("*")} == before

    def test_interrupted_data_set_is_finished(self, dataset, tmp_path, monkeypatch):
        make = phantom.synthesize_subject
        made = []

        def interrupted(*args):
            if len(made) == 2:
                raise KeyboardInterrupt
            made.append(args)
            return make(*args)

        monkeypatch.setattr(phantom, "synthesize_subject", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_synthetic_acdc(tmp_path, num_subjects=3, seed=3, progress=False)
        assert not (tmp_path / MARKER_NAME).exists()
        monkeypatch.setattr(phantom, "synthesize_subject", make)
        (tmp_path / "patient001" / "Info.cfg").unlink()
        write_synthetic_acdc(tmp_path, num_subjects=3, seed=3, progress=False)
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [MARKER_NAME]
        assert first_subjects(tmp_path, 40) == first_subjects(dataset, 3)

    def test_lost_volume_is_restored(self, dataset, tmp_path):
        write_synthetic_acdc(tmp_path, num_subjects=2, seed=3, progress=False)
        lost = next((tmp_path / "patient002").glob("*_gt.nii.gz"))
        lost.unlink()
        write_synthetic_acdc(tmp_path, num_subjects=2, seed=3, progress=False)
        assert lost.read_bytes() == (dataset / "patient002" / lost.name).read_bytes()

    def test_no_half_written_file_stays(self, tmp_path, monkeypatch):
        save = nib.save

        def broken(image, path):
            save(image, path)
            raise OSError("disk full")

        monkeypatch.setattr(phantom.nib, "save", broken)
        with pytest.raises(OSError, match="disk full"):
            write_synthetic_acdc(tmp_path, num_subjects=1, progress=False)
        assert not list(tmp_path.rglob("*.nii.gz"))

    def test_other_parameters_replace_the_data_set(self, dataset, tmp_path):
        write_synthetic_acdc(tmp_path, num_subjects=2, seed=4, progress=False)
        (tmp_path / "patient002" / "notes.txt").write_text("mine")
        write_synthetic_acdc(tmp_path, num_subjects=1, seed=3, progress=False)
        written = contents(tmp_path)
        assert written.pop("patient002/notes.txt") == b"mine"
        assert json.loads(written.pop(MARKER_NAME))["num_subjects"] == 1
        assert written == first_subjects(dataset, 1)

    def test_other_generator_version_replaces_the_data_set(self, tmp_path, monkeypatch):
        write_synthetic_acdc(tmp_path, num_subjects=1, progress=False)
        monkeypatch.setattr(phantom, "GENERATOR_VERSION", phantom.GENERATOR_VERSION + 1)
        image = next((tmp_path / "patient001").glob("*_frame01.nii.gz"))
        image.write_bytes(b"of an older version")
        write_synthetic_acdc(tmp_path, num_subjects=1, progress=False)
        assert nib.load(image).shape[2] >= 6
        assert json.loads((tmp_path / MARKER_NAME).read_text())["version"] == phantom.GENERATOR_VERSION

    @pytest.mark.parametrize("marked", [False, True])
    def test_foreign_patients_are_never_touched(self, tmp_path, marked):
        if marked:
            write_synthetic_acdc(tmp_path, num_subjects=1, progress=False)
        (tmp_path / "patient007").mkdir()
        (tmp_path / "patient007" / "Info.cfg").write_text("ED: 1\n")
        before = contents(tmp_path)
        with pytest.raises(ValueError, match=r"(?s)patient007.*choose an empty or new folder") as error:
            write_synthetic_acdc(tmp_path, num_subjects=8, progress=False)
        assert str(tmp_path) in str(error.value)
        assert contents(tmp_path) == before

    def test_foreign_marker_is_refused(self, tmp_path):
        (tmp_path / MARKER_NAME).write_text('{"seed": 0}')
        with pytest.raises(ValueError, match="not written by"):
            write_synthetic_acdc(tmp_path, num_subjects=1, progress=False)
        assert list(contents(tmp_path)) == [MARKER_NAME]

    def test_bad_arguments(self, tmp_path):
        with pytest.raises(ValueError, match="num_subjects"):
            write_synthetic_acdc(tmp_path / "new", num_subjects=0)
        with pytest.raises(ValueError, match="seed"):
            write_synthetic_acdc(tmp_path / "new", seed=-1)
        (tmp_path / "file").write_text("")
        with pytest.raises(ValueError, match="is a file"):
            write_synthetic_acdc(tmp_path / "file")
        assert not (tmp_path / "new").exists()

    def test_progress_bar_goes_to_stderr(self, tmp_path, capsys):
        write_synthetic_acdc(tmp_path, num_subjects=1)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "synthetic hearts" in captured.err
