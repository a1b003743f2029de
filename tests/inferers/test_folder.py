"""A folder of NIfTI files in, a folder of label maps and a report out."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
from helpers import Forked, command_line
from matplotlib.image import imread
from monai.bundle import ConfigParser
from monai.data import MetaTensor
from torch import nn

from dcl_monai.inferers import FolderSegmenter, find_images
from dcl_monai.inferers.names import output_name
from dcl_monai.utils import DataError
from dcl_monai.utils.errors import find_user_error
from dcl_monai.utils.locks import take_lock
from dcl_monai.utils.plausibility import Plausibility

CONFIG = Path(__file__).parents[2] / "bundles" / "acdc" / "configs" / "inference.json"
CLASSES = ["background", "MYO", "LV"]
SETTINGS = {"classes": CLASSES, "pixdim": [4.0, 4.0, -1], "spatial_size": [32, 32, -1]}
OBLIQUE = np.array([[3.1, 0.4, 0.2, -50], [-0.5, 3.0, 0.9, 20], [0.1, -0.6, 8.0, 7], [0, 0, 0, 1]])
SHAPE = (40, 36, 3)


class Threshold(nn.Module):
    """A network whose answer is known: bright is LV, and MYO is nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.tensor(1.5))
        self.num_classes, self.conditional, self.shift = 3, False, 0

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        bright = torch.sigmoid(20 * (image - self.level))
        return torch.cat([1 - bright, torch.zeros_like(bright), bright], dim=1)


def ball(shape: tuple[int, int, int], centre: tuple[float, float], radius: float) -> np.ndarray:
    """A bright cylinder through all slices."""
    x, y = np.ogrid[: shape[0], : shape[1]]
    disc = (x - centre[0]) ** 2 + (y - centre[1]) ** 2 <= radius**2
    return np.repeat(disc[:, :, None], shape[2], axis=2)


def write_image(path: Path, bright: np.ndarray, affine: np.ndarray | None = None) -> nib.Nifti1Image:
    """Write an image that is bright where the array is true, with a header that is worth keeping."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 20, bright.shape)
    image = nib.Nifti1Image(
        (100 + 400 * bright + noise).astype(np.int16), np.diag([3, 3, 8, 1]) if affine is None else affine
    )
    image.header.set_xyzt_units("mm", "sec")
    image.set_qform(image.affine, code=1)
    image.set_sform(image.affine, code=2)
    nib.save(image, path)
    return nib.load(path)


@pytest.fixture
def threshold_model(tmp_path) -> Path:
    path = tmp_path / "threshold.pt"
    torch.save({"model": Threshold().state_dict()}, path)
    return path


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    (tmp_path / "in").mkdir()
    return tmp_path / "in", tmp_path / "out"


@pytest.fixture
def make(folders, threshold_model) -> Callable[..., FolderSegmenter]:
    """The bundle's own configuration, with a network whose answer is known."""

    def parse(stub: bool = True, **override: Any) -> FolderSegmenter:
        parser = ConfigParser()
        parser.read_config(str(CONFIG))
        parser.update({"dataset_dir": str(folders[0]), "output_dir": str(folders[1]), "device": "$torch.device('cpu')"})
        if stub:
            parser.update(SETTINGS | {"model_file": str(threshold_model), "network_def": Threshold()})
        parser.update({"contact_sheet": False} | override)
        return parser.get_parsed_content("evaluator")

    return parse


def report(out: Path) -> dict:
    return json.loads((out / "report.json").read_text())


def dice(a: np.ndarray, b: np.ndarray) -> float:
    return 2 * (a & b).sum() / (a.sum() + b.sum())


class TestGeometry:
    @pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
    @pytest.mark.parametrize("affine", [None, OBLIQUE], ids=["straight", "oblique"])
    @pytest.mark.parametrize("shape", [SHAPE, (51, 28, 1)], ids=["volume", "slice"])
    def test_label_lies_where_the_structure_is(self, make, folders, name, affine, shape):
        bright = ball(shape, (shape[0] * 0.6, shape[1] * 0.4), 7)
        image = write_image(folders[0] / name, bright, affine)
        make().run()
        label = nib.load(folders[1] / output_name(name, "seg"))
        assert label.shape == shape
        assert label.get_data_dtype() == np.uint8
        assert set(np.unique(label.dataobj)) == {0, 2}
        assert dice(np.asarray(label.dataobj) == 2, bright) > 0.95
        assert_same_header(label, image)

    def test_cine(self, make, folders):
        """Every frame for itself: the structure moves and shrinks."""
        bright = np.stack([ball(SHAPE, (12 + 5 * t, 18), 8 - t) for t in range(4)], axis=3)
        image = write_image(folders[0] / "cine.nii.gz", bright, OBLIQUE)
        make().run()
        label = nib.load(folders[1] / "cine_seg.nii.gz")
        assert label.shape == (*SHAPE, 4)
        for t in range(4):
            assert dice(np.asarray(label.dataobj)[..., t] == 2, bright[..., t]) > 0.9
        assert_same_header(label, image)

    def test_a_frame_is_segmented_as_if_it_came_alone(self, make, folders):
        bright = np.stack([ball(SHAPE, (20, 18), 8), ball(SHAPE, (20, 18), 3)], axis=3)
        image = write_image(folders[0] / "cine.nii.gz", bright)
        for t in range(2):
            nib.save(image.slicer[..., t], folders[0] / f"alone{t}.nii.gz")
        make().run()
        cine = np.asarray(nib.load(folders[1] / "cine_seg.nii.gz").dataobj)
        for t in range(2):
            assert np.array_equal(cine[..., t], nib.load(folders[1] / f"alone{t}_seg.nii.gz").dataobj)

    def test_one_frame_in_four_dimensions(self, make, folders):
        write_image(folders[0] / "a.nii.gz", ball(SHAPE, (20, 18), 8)[..., None])
        make().run()
        assert nib.load(folders[1] / "a_seg.nii.gz").shape == (*SHAPE, 1)

    def test_beyond_the_network_grid_is_background(self, make, folders):
        bright = ball((80, 80, 2), (40, 40), 8) | ball((80, 80, 2), (3, 3), 3)
        write_image(folders[0] / "a.nii.gz", bright)
        make().run()
        label = np.asarray(nib.load(folders[1] / "a_seg.nii.gz").dataobj)
        assert label[40, 40, 0] == 2
        assert (label[:10, :10] == 0).all()

    def test_affine_and_pixdim_disagree(self, make, folders):
        """As in ACDC's own files: both are kept, pixdim counts, and the report says so."""
        bright = ball(SHAPE, (24, 15), 8)
        image = write_image(folders[0] / "a.nii.gz", bright)
        image.header["pixdim"][1:4] = 3, 3, 8
        image.set_sform(np.diag([-1, -1, 1, 1]), code=2, update_affine=True)
        image.header["qform_code"] = 0
        nib.save(image, folders[0] / "a.nii.gz")
        make().run()
        label = nib.load(folders[1] / "a_seg.nii.gz")
        assert_same_header(label, nib.load(folders[0] / "a.nii.gz"))
        entry = report(folders[1])["files"]["a.nii.gz"]
        assert "the affine gives voxels of 1 x 1 x 1 mm, pixdim of 3 x 3 x 8 mm" in entry["note"]
        assert entry["volumes_ml"]["LV"] == [pytest.approx((np.asarray(label.dataobj) == 2).sum() * 0.072, abs=1e-3)]


def assert_same_header(label: nib.Nifti1Image, image: nib.Nifti1Image) -> None:
    """Bit for bit, but for what describes the values."""
    values = {"datatype", "bitpix", "scl_slope", "scl_inter", "cal_min", "cal_max", "descrip", "vox_offset"}
    for key in set(image.header.keys()) - values:
        assert label.header[key].tobytes() == image.header[key].tobytes(), key
    assert np.array_equal(label.affine, image.affine)


class TestFolder:
    def test_mirrors_the_folder(self, make, folders):
        for name in ("a/x.nii.gz", "a/b/x.nii", "a/b/x.nii.gz", "a/x_gt.nii.gz", "a/.hidden.nii.gz"):
            write_image(folders[0] / name, ball(SHAPE, (20, 18), 8))
        (folders[0] / "notes.txt").write_text("")
        make().run()
        found = {str(path.relative_to(folders[1])) for path in folders[1].rglob("*.*")}
        assert found == {"a/x_seg.nii.gz", "a/b/x_seg.nii", "a/b/x_seg.nii.gz", "report.json", ".lock"}

    def test_output_within_the_input(self, make, folders):
        write_image(folders[0] / "x.nii.gz", ball(SHAPE, (20, 18), 8))
        for _ in range(2):
            make(output_dir=str(folders[0] / "out")).run()
        assert list(report(folders[0] / "out")["files"]) == ["x.nii.gz"]

    def test_pattern(self, folders):
        for name in ("p1/x.nii.gz", "p2/x.nii.gz", "x.nii"):
            write_image(folders[0] / name, ball(SHAPE, (20, 18), 8))

        def names(*args):
            return [str(Path(item["image"]).relative_to(folders[0])) for item in find_images(folders[0], *args)]

        assert names() == ["p1/x.nii.gz", "p2/x.nii.gz", "x.nii"]
        assert names("p1/*") == ["p1/x.nii.gz"]
        assert names("**/*.nii*", ["*.nii"]) == ["p1/x.nii.gz", "p2/x.nii.gz"]

    def test_label_files_are_no_images(self, tmp_path):
        names = ["s1", "s1_gt", "s1_scribble", "s1_DE_manual", "s1-mask", "s1_labels", "labelsTr/s1", "masks2/s1"]
        names += ["s2/label", "s2/image"]
        for name in names:
            (tmp_path / f"{name}.nii.gz").parent.mkdir(exist_ok=True)
            (tmp_path / f"{name}.nii.gz").touch()

        def found(exclude):
            items = find_images(tmp_path, exclude=exclude)
            return {Path(item["image"]).relative_to(tmp_path).as_posix().removesuffix(".nii.gz") for item in items}

        assert found(["*_prob*"]) == {"s1", "masks2/s1", "s2/image"}
        assert found([]) == {*names}

    @pytest.mark.parametrize(
        ("folder", "pattern", "word"),
        [
            ("nowhere", "**/*.nii*", "no such folder"),
            ("in", "**/*.nii*", "no NIfTI image fits"),
            ("in", "/*", "pattern"),
        ],
    )
    def test_nothing_to_do(self, folders, folder, pattern, word):
        with pytest.raises(DataError, match=word):
            find_images(folders[0].parent / folder, pattern)

    def test_empty_folder_through_the_configuration(self, make):
        with pytest.raises(RuntimeError) as raised:
            make()
        assert "Set --dataset_dir" in str(find_user_error(raised.value))

    def test_one_run_at_a_time(self, make, folders):
        """Two of them reported `complete` with half of the files."""
        write_image(folders[0] / "x.nii.gz", ball(SHAPE, (20, 18), 8))
        lock = take_lock(folders[1])
        with pytest.raises(DataError, match="another run is writing to it"):
            make().run()
        assert not (folders[1] / "report.json").exists()
        os.close(lock)
        make().run()
        os.close(take_lock(folders[1]))  # is free again

    def test_capital_letters(self, make, folders):
        write_image(folders[0] / "x.nii.gz", ball(SHAPE, (20, 18), 8))
        (folders[0] / "x.nii.gz").rename(folders[0] / "X.NII.GZ")
        (folders[0] / "X_GT.NII.GZ").write_bytes(b"a label")
        make().run()
        assert nib.load(folders[1] / "X_seg.NII.GZ").shape == SHAPE

    def test_output_is_not_the_input(self, make, folders):
        write_image(folders[0] / "x.nii.gz", ball(SHAPE, (20, 18), 8))
        with pytest.raises(DataError, match="Set --output_dir to another"):
            make(output_dir=str(folders[0])).run()

    def test_broken_files_are_reported_and_the_rest_goes_on(self, make, folders):
        for name in ("a.nii.gz", "c.nii.gz", "d.nii.gz"):
            write_image(folders[0] / name, ball(SHAPE, (20, 18), 8))
        (folders[0] / "b.nii.gz").write_bytes(b"no image")
        nib.save(nib.Nifti1Image(np.full(SHAPE, np.nan, np.float32), np.diag([3, 3, 8, 1])), folders[0] / "c.nii.gz")
        with pytest.raises(
            DataError, match=r"2 of 4 file\(s\) could not be segmented.*report.json.*b.nii.gz: cannot be"
        ):
            make().run()
        files = report(folders[1])["files"]
        assert {name: entry["status"] for name, entry in files.items()} == {
            "a.nii.gz": "done",
            "b.nii.gz": "failed",
            "c.nii.gz": "failed",
            "d.nii.gz": "done",
        }
        assert "not finite" in files["c.nii.gz"]["error"]
        assert report(folders[1])["complete"]

    def test_files_outside_the_folder_are_refused(self, make, folders):
        write_image(folders[0] / "a.nii.gz", ball(SHAPE, (20, 18), 8))
        write_image(folders[0].parent / "secret.nii.gz", ball(SHAPE, (20, 18), 8))
        (folders[0] / "link.nii.gz").symlink_to(folders[0].parent / "secret.nii.gz")
        (folders[0] / "inside.nii.gz").symlink_to(folders[0] / "a.nii.gz")
        with pytest.raises(DataError, match=r"1 of 3 .*link.nii.gz: leads out of"):
            make().run()
        assert not (folders[1] / "link_seg.nii.gz").exists()
        with pytest.raises(DataError, match="leads out of"):
            make(pattern="../secret*").run()
        assert not list(folders[0].parent.glob("*_seg*"))

    def test_tensors_do_not_pile_up(self, make, folders):
        for index in range(12):
            write_image(folders[0] / f"{index}.nii.gz", ball(SHAPE, (20, 18), 8))
        segmenter, alive = make(), []
        for index in range(12):
            segmenter.attempt(index, f"{index}.nii.gz")
            if index in (1, 11):
                gc.collect()
                alive.append(sum(type(thing) in (torch.Tensor, MetaTensor) for thing in gc.get_objects()))
        assert alive[1] <= alive[0]


@pytest.mark.slow
class TestCommand:
    """As the user sees it: MONAI's own command, in a process of its own."""

    def run(self, folders, model):
        paths = {"dataset_dir": str(folders[0]), "output_dir": str(folders[1]), "model_file": str(model)}
        return Forked(*command_line("run", config_file=str(CONFIG), **paths)).wait()

    def test_broken_file(self, folders, conditional_model):
        """One line and exit code 1, after all is written; the model brings its settings along."""
        write_image(folders[0] / "good.nii.gz", ball(SHAPE, (20, 18), 8))
        (folders[0] / "broken.nii.gz").write_bytes(b"no image")
        done = self.run(folders, conditional_model)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert [line for line in done.stderr.splitlines() if line.startswith("error: 1 of 2 file(s)")]
        assert "segmenting" not in done.stderr, "no progress bar where there is no terminal"
        assert nib.load(folders[1] / "good_seg.nii.gz").shape == SHAPE
        assert (folders[1] / "contact_sheet_01.png").exists()

    def test_from_another_folder(self, folders, conditional_model, tmp_path):
        """The bundle is found by its configuration, also where the working directory is another bundle."""
        bundle, other = tmp_path / "bundle", tmp_path / "other"
        for folder in (bundle, other):
            shutil.copytree(CONFIG.parent, folder / "configs")
        (bundle / "models").mkdir()
        shutil.copy(conditional_model, bundle / "models" / "model.pt")
        write_image(folders[0] / "good.nii.gz", ball(SHAPE, (20, 18), 8))
        line = [sys.executable, "-W", "ignore", "-m", "monai.bundle", "run", "--dataset_dir", str(folders[0])]
        line += ["--output_dir", str(folders[1]), f"--config_file={bundle / 'configs' / 'inference.json'}"]
        done = subprocess.run(line, capture_output=True, text=True, cwd=other)
        assert done.returncode == 0, done.stderr[-2000:]
        assert nib.load(folders[1] / "good_seg.nii.gz").shape == SHAPE

    def test_network_of_slices_in_a_bundle_of_volumes(self, folders, conditional_model):
        """It was an error of einsum for every file."""
        write_image(folders[0] / "a.nii.gz", ball((40, 40, 4), (20, 20), 8))
        parser = ConfigParser()
        parser.read_config(str(CONFIG.parents[2] / "mmwhs" / "configs" / "inference.json"))
        parser.update({"dataset_dir": str(folders[0]), "output_dir": str(folders[1])})
        parser.update({"model_file": str(conditional_model), "device": "$torch.device('cpu')"})
        with pytest.raises(DataError, match=r"conditional\.pt: is a 2D network, but this bundle runs 3D networks"):
            parser.get_parsed_content("evaluator").run()
        assert not folders[1].exists()

    def test_damaged_model(self, folders, conditional_model):
        write_image(folders[0] / "good.nii.gz", ball(SHAPE, (20, 18), 8))
        conditional_model.write_bytes(conditional_model.read_bytes()[:5000])
        done = self.run(folders, conditional_model)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert f"error: {conditional_model}: cannot be read as a model" in done.stderr


class TestContinuing:
    @pytest.fixture
    def images(self, folders):
        for name in ("a.nii.gz", "b.nii.gz", "c.nii.gz"):
            write_image(folders[0] / name, ball(SHAPE, (20, 18), 8))

    def redone(self, make, **override) -> list[str]:
        """Run again, and say which files were done again."""
        segmenter, names = make(**override), []
        segment = segmenter.segment
        segmenter.segment = lambda index, name: names.append(name) or segment(index, name)
        segmenter.run()
        return names

    def test_interrupted_run_goes_on_where_it_stopped(self, make, folders, images):
        segmenter = make()
        segment = segmenter.segment

        def stop(index, name):
            if name == "b.nii.gz":
                raise KeyboardInterrupt
            return segment(index, name)

        segmenter.segment = stop
        with pytest.raises(KeyboardInterrupt):
            segmenter.run()
        assert list(report(folders[1])["files"]) == ["a.nii.gz"]
        assert not report(folders[1])["complete"]
        assert self.redone(make) == ["b.nii.gz", "c.nii.gz"]
        assert report(folders[1])["complete"]
        assert self.redone(make) == []

    def test_another_model_does_all_again(self, make, folders, images, threshold_model):
        make().run()
        before = report(folders[1])["run"]["model"]["sha256"]
        torch.save({"model": {"level": torch.tensor(1.2)}}, threshold_model)
        assert len(self.redone(make)) == 3
        assert report(folders[1])["run"]["model"]["sha256"] != before

    def test_other_settings_do_all_again(self, make, images):
        make().run()
        assert len(self.redone(make, save_probabilities="true")) == 3
        assert len(self.redone(make, single_parts=["LV"])) == 3

    def test_changed_image_and_lost_output(self, make, folders, images):
        make().run()
        write_image(folders[0] / "a.nii.gz", ball(SHAPE, (20, 18), 5))
        (folders[1] / "c_seg.nii.gz").unlink()
        assert self.redone(make) == ["a.nii.gz", "c.nii.gz"]

    def test_failed_files_are_tried_again(self, make, folders, images):
        good = (folders[0] / "b.nii.gz").read_bytes()
        (folders[0] / "b.nii.gz").write_bytes(good[:300])
        with pytest.raises(DataError, match=r"1 of 3"):
            make().run()
        (folders[0] / "b.nii.gz").write_bytes(good)
        assert self.redone(make) == ["b.nii.gz"]

    def test_nothing_is_drawn_twice(self, make, folders, images):
        """Drawing all pages again took most of the time of a run that had nothing else to do."""
        make(contact_sheet=True).run()
        page = folders[1] / "contact_sheet_01.png"
        before = page.stat().st_mtime_ns
        make(contact_sheet=True).run()
        assert page.stat().st_mtime_ns == before
        write_image(folders[0] / "a.nii.gz", ball(SHAPE, (20, 18), 5))
        make(contact_sheet=True).run()
        assert page.stat().st_mtime_ns != before

    def test_damaged_report(self, make, folders, images):
        make().run()
        (folders[1] / "report.json").write_text("{")
        assert len(self.redone(make)) == 3


class TestReport:
    def test_content(self, make, folders, conditional_model):
        write_image(folders[0] / "a.nii.gz", ball(SHAPE, (20, 18), 8))
        make(stub=False, model_file=str(conditional_model)).run()
        found = report(folders[1])
        assert found["run"]["model"]["classes"] == CLASSES
        assert found["run"]["model"]["bank"] == {"background": 4, "MYO": 4, "LV": 4}
        assert len(found["run"]["model"]["sha256"]) == 64
        assert found["versions"]["torch"] == torch.__version__
        assert {"dcl_monai", "monai"} <= set(found["versions"])
        entry = found["files"]["a.nii.gz"]
        label = np.asarray(nib.load(folders[1] / entry["outputs"]["segmentation"]).dataobj)
        assert entry["volumes_ml"] == {
            name: [pytest.approx((label == j).sum() * 0.072, abs=1e-3)] for j, name in enumerate(CLASSES) if j
        }
        assert entry["shape"] == list(SHAPE)
        assert entry["spacing_mm"] == [3, 3, 8]
        assert entry["seconds"] > 0

    def test_what_is_unusual_is_reported_and_marked(self, make, folders, conditional_model, monkeypatch):
        monkeypatch.setattr(Plausibility, "notes", lambda self, image, labels: ["LV: found nowhere"])
        write_image(folders[0] / "a.nii.gz", ball(SHAPE, (20, 18), 8))
        write_image(folders[0] / "cine.nii.gz", np.stack([ball(SHAPE, (20, 18), 8)] * 2, axis=3))
        make(stub=False, model_file=str(conditional_model), contact_sheet=True).run()
        files = report(folders[1])["files"]
        assert files["a.nii.gz"]["unusual"] == ["LV: found nowhere"]
        assert files["cine.nii.gz"]["unusual"] == ["frame 1: LV: found nowhere", "frame 2: LV: found nowhere"]
        page = imread(folders[1] / "contact_sheet_01.png")
        assert ((page[..., 0] > 0.8) & (page[..., 1] < 0.3) & (page[..., 2] < 0.3)).sum() > 50, "names in red"

    def test_ejection_fraction_of_a_cine(self, make, folders):
        bright = np.stack([ball(SHAPE, (20, 18), radius) for radius in (8, 10, 5, 7)], axis=3)
        write_image(folders[0] / "cine.nii.gz", bright)
        make().run()
        found = report(folders[1])
        volumes = found["files"]["cine.nii.gz"]["volumes_ml"]["LV"]
        assert len(volumes) == 4
        (pair,) = found["ejection_fraction"]
        assert pair["ED"] == {"file": "cine.nii.gz", "frame": 2}
        assert pair["ES"] == {"file": "cine.nii.gz", "frame": 3}
        assert pair["ejection_fraction"] == {"LV": pytest.approx(1 - volumes[2] / volumes[1], abs=1e-4)}
        assert "largest and the smallest" in pair["phases"]

    def test_contact_sheet(self, make, folders):
        for index in range(9):
            write_image(folders[0] / f"{index}.nii.gz", ball(SHAPE, (20, 18), 8))
        make(contact_sheet="true").run()
        pages = sorted(folders[1].glob("contact_sheet_*.png"))
        assert [page.name for page in pages] == ["contact_sheet_01.png", "contact_sheet_02.png"]
        red = imread(pages[0])[..., :3] @ [1, -0.5, -0.5]
        assert (red > 0.3).any(), "outlines"
        shutil.rmtree(folders[0])
        write_image(folders[0] / "only.nii.gz", np.zeros((40, 36, 1), bool))
        make(contact_sheet="true", output_dir=str(folders[1])).run()
        assert [page.name for page in folders[1].glob("contact_sheet_*.png")] == ["contact_sheet_01.png"]


class TestMaps:
    @pytest.fixture(autouse=True)
    def image(self, folders):
        write_image(folders[0] / "a.nii.gz", ball(SHAPE, (20, 18), 8))

    def load(self, folders, kind: str) -> np.ndarray:
        return np.asarray(nib.load(folders[1] / f"a_{kind}.nii.gz").dataobj)

    def test_probabilities_and_uncertainty(self, make, folders, conditional_model):
        override = {"model_file": str(conditional_model), "save_probabilities": "true", "save_uncertainty": "true"}
        make(stub=False, num_sets=3, **override).run()
        probabilities, spread = self.load(folders, "probabilities"), self.load(folders, "uncertainty")
        assert probabilities.shape == spread.shape == (*SHAPE, 3)
        assert probabilities.dtype == spread.dtype == np.float32
        np.testing.assert_allclose(probabilities.sum(3), 1, atol=1e-5)
        assert np.array_equal(probabilities.argmax(3), self.load(folders, "seg"))
        assert 0 < spread.mean() < 0.5

    def test_of_a_cine(self, make, folders, conditional_model):
        write_image(folders[0] / "a.nii.gz", np.stack([ball(SHAPE, (20, 18), 8)] * 2, axis=3))
        make(stub=False, model_file=str(conditional_model), save_probabilities=True).run()
        probabilities = self.load(folders, "probabilities")
        assert probabilities.shape == (*SHAPE, 2, 3)
        assert np.array_equal(probabilities.argmax(4), self.load(folders, "seg"))

    @pytest.mark.parametrize(
        ("override", "word"),
        [
            ({"num_sets": 5}, "1 to 4 set"),
            ({"num_sets": 0}, "1 to 4 set"),
            ({"save_uncertainty": "true"}, "add --num_sets 4"),
        ],
    )
    def test_settings_that_make_no_sense(self, make, conditional_model, override, word):
        with pytest.raises(DataError, match=word):
            make(stub=False, model_file=str(conditional_model), **override).run()

    def test_unconditional_model_has_one_set(self, make):
        with pytest.raises(DataError, match=r"1 to 1 set"):
            make(num_sets=2).run()
