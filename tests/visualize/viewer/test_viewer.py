"""Tests of the page that shows images slice by slice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPConnection
from importlib.resources import files
from threading import Thread
from urllib.request import urlopen

import nibabel as nib
import numpy as np
import pytest
from browser import CHROMIUM, Browser
from helpers import Forked
from matplotlib.colors import to_rgb

from dcl_monai.utils import DataError
from dcl_monai.visualize.viewer import Album, Case, Layer, ViewServer, find_album
from dcl_monai.visualize.viewer.volumes import NOTHING, UNION, as_short, load_volume


@contextmanager
def served(album: Album) -> Iterator[ViewServer]:
    with ViewServer(album) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def plane(server: ViewServer, number: int, layer: int) -> np.ndarray:
    """A layer as the page gets it; 0 is the image."""
    image = nib.Nifti1Image.from_bytes(urlopen(f"{server.url}case/{number}/{layer}.nii").read())
    assert np.allclose(image.affine, np.diag([-1, -1, 4, 1]))
    return image.get_fdata()[..., 0]


def test_layers_say_what_is_drawn_filled_and_unsure(completed, hearts):
    source = nib.load(hearts.parent / "data/s0_gt.nii.gz")
    label = np.asarray(source.dataobj)
    with served(find_album(completed)) as server:
        case = json.load(urlopen(server.url + "case/0"))
        assert case["start"] == [5, 6, 2]
        image = nib.load(hearts.parent / "data/s0.nii.gz")
        assert np.abs(plane(server, 0, 0) - image.get_fdata()).max() < 1e-3
        # RV alone is annotated: beside it anything else may be, and the file's LV was not meant
        assert np.array_equal(plane(server, 0, 1), np.where(label == 1, 1, NOTHING))
        assert np.array_equal(plane(server, 0, 2), np.where(label == 1, NOTHING, label))
        unsure = plane(server, 0, 3)
        assert np.allclose(unsure[:, :, 3], 0.25)
        assert not unsure[:, :, :3].any()
        assert json.load(urlopen(server.url + "case/0/where/2"))[2] == 3
        assert json.load(urlopen(server.url + "case/0/where/200")) == case["start"]
    with served(find_album(hearts)) as server:
        assert np.array_equal(plane(server, 1, 1), np.where(label > 0, UNION, 0))
        assert json.load(urlopen(server.url + "case/2"))["layers"] == []


@pytest.mark.parametrize("values", [[0, 40, -1000, 3071], [0, 0.25, 1e-3, 1], [-4e4, 4e4, 7, 0], [3, 3, 3, 3]])
def test_grey_values_in_16_bit(values):
    image = np.asarray(values, np.float32)
    short, (slope, intercept) = as_short(image)
    assert short.dtype == np.int16
    assert np.abs(short * slope + intercept - image).max() <= np.ptp(image) / 65000


def test_frames_of_a_cine(tmp_path, write_nifti):
    image = np.random.default_rng(0).normal(size=(8, 8, 2, 3)).astype(np.float32)
    label = np.zeros(image.shape, np.uint8)
    label[..., 2] = 1
    affine = np.diag([-1.0, -1.0, 1.0, 1.0])
    write_nifti("in/x.nii.gz", image, affine)
    write_nifti("out/x_seg.nii.gz", label, affine)
    report = {
        "run": {"dataset_dir": str(tmp_path / "in"), "model": {"classes": ["background", "LV"]}},
        "files": {
            "x.nii.gz": {"status": "done", "outputs": {"segmentation": "x_seg.nii.gz"}, "unusual": ["LV: small"]},
            "y.nii.gz": {"status": "failed", "error": "damaged"},
        },
    }
    (tmp_path / "out/report.json").write_text(json.dumps(report))
    album = find_album(tmp_path / "out")
    assert [(case.name, case.note, case.marked) for case in album.cases] == [("x.nii.gz", "LV: small", True)]
    volume = load_volume(album, album.cases[0])
    frames, drawn = (nib.Nifti1Image.from_bytes(volume.nifti(number)).get_fdata() for number in range(2))
    assert frames.shape == drawn.shape == (8, 8, 2, 3)
    assert [drawn[..., frame].max() for frame in range(3)] == [0, 0, 1]
    assert not np.allclose(frames[..., 0], frames[..., 1])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 403),
        ("/album", 403),
        ("/{word}/../../etc/passwd", 404),
        ("/{word}/%2e%2e/%2e%2e/etc/passwd", 404),
        ("/{word}/album.py", 404),
        ("/{word}/case/7", 404),
        ("/{word}/case/-1", 404),
        ("/{word}/case/0/9.nii", 404),
        ("/{word}/case/7/0.nii", 404),
        ("/{word}/case/0/-1.nii", 404),
        ("/{word}/case/7/where/1", 404),
        ("/{word}/niivue/LICENSE.txt", 404),
        ("/guessed/niivue.js", 403),
        ("/{word}/niivue.js", 200),
        ("/{word}/album", 200),
    ],
)
def test_nothing_but_the_album_is_served(hearts, path, status):
    with served(find_album(hearts)) as server:
        connection = HTTPConnection(*server.server_address)
        connection.request("GET", path.format(word=server.word))
        assert connection.getresponse().status == status


def test_loopback_and_its_names_alone(hearts):
    with served(find_album(hearts)) as server:
        assert server.server_address[0] == "127.0.0.1"
        for host, status in (("evil.example:80", 403), ("localhost:80", 200)):
            connection = HTTPConnection(*server.server_address)
            connection.request("GET", f"/{server.word}/album", headers={"Host": host})
            assert connection.getresponse().status == status
        with pytest.raises(DataError, match=r"--port \d+: cannot be used .* Give another one"):
            ViewServer(server.album, server.server_address[1])


def test_a_damaged_file_is_told_on_the_page_and_the_others_are_shown(hearts):
    album = find_album(hearts)
    (hearts.parent / "data/s0.nii.gz").write_bytes(b"no image")
    with served(album) as server:
        connection = HTTPConnection(*server.server_address)
        connection.request("GET", f"/{server.word}/case/0")
        answer = connection.getresponse()
        assert answer.status == 422
        assert b"s0.nii.gz: cannot be read as NIfTI" in answer.read()
        assert plane(server, 1, 1).any()


@pytest.mark.parametrize("content", [None, "[]", '{"view_version": 9}', '{"view_version": 1, "title": 3}'])
def test_folders_that_show_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "view.json").write_text(content)
    with pytest.raises(DataError, match=rf"{tmp_path}.*(Give the output folder|Run the command again|Check the name)"):
        find_album(tmp_path)


def test_niivue_is_as_it_was_published():
    folder = files("dcl_monai.visualize.viewer") / "niivue"
    assert sha256((folder / "niivue.umd.js").read_bytes()).hexdigest() in (folder / "LICENSE.txt").read_text()


@pytest.mark.slow
def test_the_command_ends_with_ctrl_c(hearts):
    process = Forked("-m", "dcl_monai", "view", hearts, "--no-browser")
    line, *_ = process.until(lambda: process.printed("stdout").rpartition("\n")[0].splitlines())
    assert line.startswith("3 image(s) to see at http://127.0.0.1:")
    assert b"page.js" in urlopen(line.split()[-1]).read()
    os.kill(process.pid, signal.SIGINT)
    done = process.wait()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "stopped.")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_in_a_browser(completed, tmp_path):
    """Drawn, filled and unsure voxels have their styles, and the keys do what the page says."""
    shown, blue, gold = "document.body?.dataset.shown", to_rgb("tab:blue"), to_rgb("gold")
    with served(find_album(completed)) as server, Browser(tmp_path / "profile") as page:
        page.call("Page.navigate", url=server.url)
        page.wait(shown, "0/2/2/0")  # the point of the case
        assert page.run("document.querySelector('#cases button').innerText").startswith("s0 <b>")  # a name is no markup
        words = page.run("document.querySelector('#place').textContent").split(" · ")
        grey = float(words.pop(2).removeprefix("grey value "))
        assert grey == pytest.approx(nib.load(completed.parent / "data/s0.nii.gz").get_fdata()[5, 6, 2], abs=1e-3)
        assert words == ["slice 3 of 6", "voxel 6, 7, 3", "drawn: RV", "filled: as drawn", "unsure: 0"]
        first = page.picture("canvas")
        assert 0.01 < part_of(first, blue, 0.5) < 0.2
        assert part_of(first, gold, 1) == 0

        page.press("ArrowUp")
        page.wait(shown, "0/2/3/0")
        second = page.picture("canvas")
        assert np.abs(first - second).mean() > 0.02  # another slice, and unsure throughout
        page.run("document.querySelectorAll('#layers input')[2].click()")
        third = page.picture("canvas")
        assert np.abs(third - second).mean() > 0.02
        # RV is drawn: plain. LV is filled in: fainter, with an outline in its full colour
        assert part_of(third, blue, 0.5) > 0.01
        assert part_of(third, blue, 1) == 0
        assert part_of(third, gold, 0.25) > 0.01
        assert 0 < part_of(third, gold, 1) < 0.01
        # as radiologists look at it: what is right and in front is on the left and above
        rows, columns = np.nonzero(tinted(third[:, : int(0.68 * third.shape[1])], blue, 0.5))
        assert rows.mean() < 0.45 * third.shape[0]
        assert columns.mean() < 0.45 * 0.68 * third.shape[1]

        page.press(" ")
        assert np.ptp(page.picture("canvas")[40:-40, 40:-40], axis=-1).max() < 0.2  # layers and cross are off
        page.press(" ")
        page.press("ArrowDown")
        page.wait(shown, "0/2/2/0")
        page.run("location.hash = '#1/LV'")
        page.wait(shown, "0/2/3/0")  # where most of LV is

        asked = [event["request"]["url"] for event in page.of_kind("Network.requestWillBeSent")]
        assert all(url.startswith((server.url, "data:")) for url in asked)
        assert not page.of_kind("Log.entryAdded")  # nothing that the Content-Security-Policy refuses
        page.call("Page.navigate", url=server.url.replace(server.word, "guessed"))
        page.wait("document.body?.textContent", "ask by the address that the command printed")
        page.call("Page.addScriptToEvaluateOnNewDocument", source="HTMLCanvasElement.prototype.getContext = () => null")
        page.call("Page.navigate", url=server.url)
        page.wait(shown, "error")
        assert "turn on its graphics acceleration" in page.run("document.querySelector('#note').textContent")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_files_of_any_orientation_look_alike(completed, tmp_path):
    points = {"LPS": (5, 6, 2), "RAS": (18, 13, 2), "SRA": (2, 18, 13), "PIL": (6, 3, 5)}  # the same voxel
    cases = []
    for codes, point in points.items():
        files = [tmp_path / f"{codes}_{name}.nii.gz" for name in ("image", "label")]
        for path, name in zip(files, ("s0", "s0_gt"), strict=True):
            source = nib.load(completed.parent / f"data/{name}.nii.gz")
            target = nib.orientations.axcodes2ornt(codes)
            turn = nib.orientations.ornt_transform(nib.io_orientation(source.affine), target)
            nib.save(source.as_reoriented(turn), path)
        cases.append(Case(codes, files[0], [Layer("seen", "prediction", files[1])], point=point))
    seen = []
    album = Album("", ["background", "RV", "LV"], cases)
    with served(album) as server, Browser(tmp_path / "profile") as page:
        page.call("Page.navigate", url=server.url)
        for number, (codes, point) in enumerate(points.items()):
            words = "document.querySelector('#note')?.textContent + document.querySelector('#place')?.textContent"
            slice_number = point[codes.index("S") if "S" in codes else codes.index("I")] + 1
            voxel = ", ".join(str(index + 1) for index in point)
            expected = f"{codes}slice {slice_number} of 6 · voxel {voxel} · grey value 1.229 · seen: RV"
            page.wait(words, expected)
            seen.append(page.picture("canvas"))
            page.press("ArrowRight")
            assert np.abs(seen[number] - seen[0]).max() < 0.02
    assert part_of(seen[0], to_rgb("tab:blue"), 1) > 0  # outlines


def tinted(pixels: np.ndarray, colour: tuple[float, float, float], opacity: float) -> np.ndarray:
    """Which pixels are grey values under a colour."""
    if opacity == 1:
        return np.abs(pixels - colour).max(-1) < 0.02
    grey = (pixels - opacity * np.asarray(colour)) / (1 - opacity)
    return (np.ptp(grey, axis=-1) < 0.03) & (grey.min(-1) > -0.05) & (grey.max(-1) < 1.05)


def part_of(pixels: np.ndarray, colour: tuple[float, float, float], opacity: float) -> float:
    """Part of the picture that is grey values under a colour."""
    return float(tinted(pixels, colour, opacity).mean())
