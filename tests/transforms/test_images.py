"""Images of several files, and pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import Forked
from monai.data import MetaTensor
from PIL import Image

from dcl_monai.check import find_problems, inspect_datalist
from dcl_monai.datalist import load_datalist, write_datalist
from dcl_monai.datalist.items import channels_of
from dcl_monai.transforms import LoadCandidatesd, LoadImagesd, StandardizeIntensity
from dcl_monai.transforms.files import read_label
from dcl_monai.transforms.images import pixel_size_of, read_picture, stack_channels, write_picture
from dcl_monai.utils import DataError

VALUES = {"0": "background", "1": "A"}


def described(tmp_path, images, subjects=6, **entries):
    """A datalist of files in the test's folder; top-level entries in capitals."""
    top = {key.lower(): entries.pop(key) for key in [*entries] if key.isupper()}
    dataset = {"folder": str(tmp_path), "images": images, "labels": "{subject}_gt.nii.gz", "values": VALUES} | entries
    content = {"classes": ["background", "A"], "split": [subjects - 2, 1, 1], "datasets": {"all": dataset}}
    return content | top


def problems(datalist):
    return [(p.kind, p.message) for p in find_problems(datalist, inspect_datalist(datalist, progress=False))]


@pytest.fixture
def two_channels(tmp_path, write_nifti):
    """Six subjects with two files each; the second lies on a grid of half the voxel size."""
    rng = np.random.default_rng(0)
    for k in range(6):
        ramp = np.indices((8, 6, 4))[0] * 10.0 + k
        write_nifti(f"s{k}_t1.nii.gz", (rng.normal(size=(8, 6, 4)) + k).astype(np.float32), np.diag([2, 2, 2, 1.0]))
        fine = np.repeat(ramp, 2, axis=0).astype(np.float32)
        fine_affine = np.diag([1.0, 2, 2, 1])
        fine_affine[0, 3] = -0.5
        write_nifti(f"s{k}_t2.nii.gz", fine, fine_affine)
        label = np.zeros((8, 6, 4), np.uint8)
        label[2:4, 2:4] = 1
        write_nifti(f"s{k}_gt.nii.gz", label, np.diag([2, 2, 2, 1.0]))
    return ["{subject}_t1.nii.gz", "{subject}_t2.nii.gz"]


def test_no_complaint_about_a_missing_gpu():
    """A command printed it for every reader that it made."""
    program = "import warnings; warnings.simplefilter('default', UserWarning)\n"
    done = Forked("-c", f"{program}from dcl_monai.transforms import LoadImagesd; LoadImagesd('image')").wait()
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


class TestChannels:
    def test_further_files_are_resampled_onto_the_first(self, tmp_path, two_channels):
        datalist = load_datalist(described(tmp_path, two_channels, CHANNELS=["T1", "T2"]))
        assert channels_of(datalist) == ["T1", "T2"]
        loaded = LoadCandidatesd("label", 2)(LoadImagesd("image")(dict(datalist["training"][0])))
        image, k = loaded["image"], int(datalist["training"][0]["subject"][1])
        assert image.shape == (2, 8, 6, 4)
        torch.testing.assert_close(image[1, :, 0, 0].as_tensor(), 10.0 * torch.arange(8) + k)
        assert loaded["label"].shape == (1, 8, 6, 4)
        ((kind, message),) = problems(datalist)
        assert kind == "Channels on different grids"
        assert "_t1.nii.gz and 5 more" in message

    def test_a_channel_axis_is_the_same(self, tmp_path, two_channels, write_nifti):
        both = load_datalist(described(tmp_path, two_channels))
        assert channels_of(both) == ["channel 1", "channel 2"]
        for split in ("training", "validation", "test"):
            for item in both[split]:
                stacked = LoadImagesd("image")(dict(item))["image"]
                write_nifti(
                    f"{item['subject']}_all.nii.gz", np.moveaxis(stacked.numpy(), 0, -1), stacked.affine.numpy()
                )
        one = load_datalist(described(tmp_path, "{subject}_all.nii.gz", CHANNELS=["T1", "T2"]))
        assert problems(one) == []
        for first, second in zip(both["training"], one["training"], strict=True):
            first, second = (LoadImagesd("image")(dict(item))["image"] for item in (first, second))
            torch.testing.assert_close(first.as_tensor(), second.as_tensor())
        unnamed = load_datalist(described(tmp_path, "{subject}_all.nii.gz"))
        assert "holds 2 frames or channels" in problems(unnamed)[0][1]
        assert "name them: `channels: [A, B]`" in problems(unnamed)[0][1]

    def test_written_and_read_again(self, tmp_path, two_channels):
        datalist = load_datalist(described(tmp_path, two_channels, CHANNELS=["T1", "T2"]))
        (tmp_path / "made").mkdir()
        write_datalist(datalist, tmp_path / "made" / "list.json")
        assert load_datalist(tmp_path / "made" / "list.json") == datalist

    @pytest.mark.parametrize(
        ("images", "top", "words"),
        [
            (["{subject}_t1.nii.gz", "{subject}_t3.nii.gz"], {}, r"_t3.nii.gz: no such file, .*have this channel"),
            (["{subject}_t1.nii.gz", "{other}_t2.nii.gz"], {}, r"does not say what \{other\} stands for"),
            (["{subject}_t1.nii.gz"] * 2, {}, "as two channels of one image"),
            (["{subject}_t1.nii.gz", "{subject}_t2.nii.gz"], {"CHANNELS": ["T1"] * 2}, "given twice among `channels`"),
            (["{subject}_t1.nii.gz", "{subject}_t2.nii.gz"], {"CHANNELS": ["a", "b", "c"]}, "names 3, .* 2 files"),
        ],
    )
    def test_mistakes(self, tmp_path, two_channels, images, top, words):
        with pytest.raises(DataError, match=words):
            load_datalist(described(tmp_path, images, **top))

    def test_intensities_by_channel(self):
        image = torch.stack([torch.arange(8.0), torch.linspace(-1000, 1000, 8)])[..., None]
        done = StandardizeIntensity([None, {"clip": [-100.0, 100.0], "mean": 0.0, "std": 50.0}])(image)
        assert done[0].mean().abs() < 1e-6
        assert done[1].min() == -2
        assert done[1].max() == 2

    def test_one_image_stays_itself(self):
        image = MetaTensor(torch.rand(1, 3, 3, 2))
        assert stack_channels([image]) is image


def save(path, array, **options):
    Image.fromarray(array).save(path, **options)
    return path


class TestPictures:
    @pytest.mark.parametrize("ending", ["png", "tif", "bmp"])
    def test_axes_and_size(self, tmp_path, ending):
        """The second row, third column becomes [2, 1]; 254 dots per inch are 0.1 mm."""
        pixels = np.zeros((4, 6), np.uint8)
        pixels[1, 2] = 9
        path = save(tmp_path / f"a.{ending}", pixels, dpi=(254, 127))
        loaded = LoadImagesd("image")({"image": str(path)})["image"]
        assert loaded.shape == (1, 6, 4, 1)
        assert loaded[0, 2, 1, 0] == 9
        assert loaded.pixdim.tolist() == pytest.approx([0.1, 0.2, 1.0], rel=1e-3)
        assert LoadImagesd("image")({"image": str(path), "pixel_size": [0.5, 0.5]})["image"].pixdim[0] == 0.5

    def test_size_unknown(self, tmp_path):
        assert pixel_size_of(save(tmp_path / "a.png", np.zeros((4, 6), np.uint8))) is None
        assert pixel_size_of(save(tmp_path / "b.png", np.zeros((4, 6), np.uint8), dpi=(72, 72))) is None

    def test_colours(self, tmp_path):
        pixels = np.random.default_rng(0).integers(0, 255, (4, 6, 3)).astype(np.uint8)
        loaded = read_picture(save(tmp_path / "a.png", pixels))
        np.testing.assert_array_equal(loaded.numpy()[..., 0], pixels.transpose(2, 1, 0))
        opaque = np.concatenate([pixels, np.full((4, 6, 1), 255, np.uint8)], axis=2)
        np.testing.assert_array_equal(read_picture(save(tmp_path / "b.png", opaque)), loaded)

    def test_indexed_mask(self, tmp_path):
        """The indices count, not the colours; what was written as a result can be read as a label."""
        indices = np.array([[0, 1, 2], [255, 0, 1]], np.uint8)
        write_picture(indices.T, ["#ff0000", "#00ff00"], tmp_path / "a.png")
        label = read_label(str(tmp_path / "a.png"))
        np.testing.assert_array_equal(label[0, :, :, 0], indices.T)
        assert read_picture(tmp_path / "a.png").shape[0] == 3
        save(tmp_path / "b.png", np.repeat(indices[..., None], 3, axis=2))
        np.testing.assert_array_equal(read_label(str(tmp_path / "b.png")), label)

    @pytest.mark.parametrize("fault", ["alpha", "pages", "jpeg", "broken"])
    def test_refused(self, tmp_path, fault):
        pixels = np.zeros((4, 6, 4), np.uint8)
        path = tmp_path / {"alpha": "a.png", "pages": "a.tif", "jpeg": "a.jpg", "broken": "b.png"}[fault]
        if fault == "broken":
            path.write_bytes(b"no picture")
        elif fault == "pages":
            Image.fromarray(pixels[..., 0]).save(path, save_all=True, append_images=[Image.fromarray(pixels[..., 0])])
        else:
            save(path, pixels if fault == "alpha" else pixels[..., 0])
        words = {"alpha": "transparent", "pages": "2 pages", "jpeg": "JPEG changes", "broken": "cannot be read"}
        with pytest.raises(DataError, match=rf"{words[fault]}[^\n]*$"):
            read_label(str(path))

    def test_datalist_with_an_ignore_value(self, tmp_path):
        rng = np.random.default_rng(0)
        for k in range(6):
            pixels = rng.integers(0, 255, (16, 12, 3)).astype(np.uint8)
            save(tmp_path / f"s{k}.png", pixels)
            label = np.zeros((16, 12), np.uint8)
            label[4:8, 4:8], label[0] = 1, 255
            save(tmp_path / f"s{k}_gt.png", label)
        values = {"0": "background", "1": "A", "255": "unlabelled"}
        entries = {"labels": "{subject}_gt.png", "values": values, "annotated": ["background", "A"]}
        content = described(tmp_path, "{subject}.png", CHANNELS=["R", "G", "B"], **entries)
        datalist = load_datalist(content)
        assert "Pixel size unknown" in dict(problems(datalist))
        content["datasets"]["all"]["pixel_size"] = 0.25
        datalist = load_datalist(content)
        assert "Pixel size unknown" not in dict(problems(datalist))
        loaded = LoadCandidatesd("label", 2)(LoadImagesd("image")(dict(datalist["training"][0])))
        assert loaded["image"].shape == (3, 12, 16, 1)
        assert loaded["image"].pixdim[:2].tolist() == [0.25, 0.25]
        sets = np.array(loaded["label"].meta["candidate_sets"])[loaded["label"].numpy().astype(int)]
        assert (sets[0, :, 0] == 3).all()  # row 0: nothing is known
        assert (sets[0, 4:8, 4:8] == 2).all()
        grey = load_datalist({key: value for key, value in content.items() if key != "channels"})
        assert "holds 3 frames or channels" in problems(grey)[0][1]
