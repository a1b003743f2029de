"""Tests of the page that shows images slice by slice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Thread
from urllib.request import urlopen

import nibabel as nib
import numpy as np
import pytest
from helpers import Forked
from matplotlib.colors import to_rgb
from PIL import Image

from dcl_monai.utils import DataError
from dcl_monai.visualize.viewer import Album, Case, ViewServer, find_album
from dcl_monai.visualize.viewer.volumes import NOTHING, UNION, load_volume

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


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


def plane(server: ViewServer, number: int, layer: int, axis: int = 2, index: int = 3) -> np.ndarray:
    """A layer of a slice as the page gets it, (rows, columns); 0 is the image."""
    shape = json.load(urlopen(f"{server.url}case/{number}"))["shape"]
    columns, rows = (shape[other] for other in range(3) if other != axis)
    content = urlopen(f"{server.url}slice/{number}/{axis}/{index}/0").read()
    return np.frombuffer(content, np.uint8).reshape(-1, rows, columns)[layer]


def test_layers_say_what_is_drawn_filled_and_unsure(completed, hearts):
    label = np.asarray(nib.load(hearts.parent / "data/s0_gt.nii.gz").dataobj)[:, :, 3].T
    with served(find_album(completed)) as server:
        assert json.load(urlopen(server.url + "case/0"))["start"] == [5, 6, 2]
        # RV alone is annotated: beside it anything else may be, and the file's LV was not meant
        assert np.array_equal(plane(server, 0, 1), np.where(label == 1, 1, NOTHING))
        assert np.array_equal(plane(server, 0, 2), label)
        assert (plane(server, 0, 3) == 255).all()
        assert not plane(server, 0, 3, index=2).any()
        assert json.load(urlopen(server.url + "case/0"))["layers"][2]["largest"] == 0.25
    with served(find_album(hearts)) as server:
        assert np.array_equal(plane(server, 1, 1), np.where(label > 0, UNION, 0))
        assert json.load(urlopen(server.url + "case/2"))["layers"] == []
        # heads are up: the last slice along the third axis is the first row
        assert np.array_equal(plane(server, 1, 1, axis=0, index=15)[::-1][3], np.where(label > 0, UNION, 0)[:, 15])


def test_files_of_any_orientation_look_alike(completed, write_nifti):
    folder = completed.parent
    source = nib.load(folder / "data/s0.nii.gz")
    target = nib.orientations.axcodes2ornt(("S", "R", "A"))
    turned = source.as_reoriented(nib.orientations.ornt_transform(nib.io_orientation(source.affine), target))
    path = folder / "turned.nii.gz"
    nib.save(turned, path)
    before = load_volume(Album("", ["a"], []), Case("s0", folder / "data/s0.nii.gz", point=(5, 6, 2)))
    after = load_volume(Album("", ["a"], []), Case("turned", path, point=(2, 18, 13)))  # the same voxel there
    assert np.array_equal(before.planes[0], after.planes[0])
    assert (before.spacing, before.start) == ((1, 1, 4), (5, 6, 2)) == (after.spacing, after.start)


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
    assert volume.shape == (8, 8, 2, 3)
    frames = [np.frombuffer(volume.slice(2, 0, frame), np.uint8).reshape(2, 8, 8) for frame in range(3)]
    assert [int(frame[1].max()) for frame in frames] == [0, 0, 1]
    assert not np.array_equal(frames[0][0], frames[1][0])


ABSENT = "../../etc/passwd %2e%2e/%2e%2e/etc/passwd album.py case/7 case/-1 slice/0/3/0/0 slice/0/2/99/0 slice/0/2/0/9"
STATUS = {"/": 403, "/album": 403, "/{word}/album": 200} | {f"/{{word}}/{path}": 404 for path in ABSENT.split()}


@pytest.mark.parametrize(("path", "status"), STATUS.items())
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
    """Drawn, filled and unsure voxels have their colours, and a name is no markup."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1100,700", "--virtual-time-budget=8000"]
    picture = tmp_path / "page.png"
    with served(find_album(completed)) as server:
        shot = [CHROMIUM, *options, f"--screenshot={picture}", server.url]
        subprocess.run(shot, check=True, timeout=120, capture_output=True)
        dump = [CHROMIUM, *options, "--dump-dom", server.url]
        page = subprocess.run(dump, check=True, timeout=120, capture_output=True, text=True).stdout
    assert 'data-shown="0/2/2/0"' in page
    assert "s0 &lt;b&gt;" in page
    pixels = np.asarray(Image.open(picture).convert("RGB"), float)[:, 280:850] / 255
    assert coloured(pixels, "tab:blue") > 0.01  # RV is drawn in slice 3


def coloured(pixels: np.ndarray, colour: str) -> float:
    """Part of the picture that is grey values under a colour of 55%."""
    grey = (pixels - 0.55 * np.asarray(to_rgb(colour))) / 0.45
    return float(((np.ptp(grey, axis=-1) < 0.03) & (grey.min(-1) > -0.05) & (grey.max(-1) < 1.05)).mean())
