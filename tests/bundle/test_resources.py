from __future__ import annotations

import zipfile
from pathlib import Path

from dcl_monai.bundle.resources import bundle_folder, is_installed, overlay_folder

ROOT = Path(__file__).parents[2]


def test_a_checkout_has_them_at_its_top():
    assert overlay_folder() == ROOT / "configs"
    assert bundle_folder() == ROOT / "bundles"
    assert not is_installed(bundle_folder())


def test_a_wheel_carries_what_the_repository_shows(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for top in ("configs", "bundles"):
        paths = [path for path in (ROOT / top).rglob("*.json") if not {"data", "output"} & set(path.parts)]
        shown = {f"dcl_monai/bundle/{path.relative_to(ROOT)}" for path in paths if not path.is_symlink()}
        assert shown
        assert shown <= names
    viewer = "dcl_monai/visualize/viewer"
    pages = ("page.html", "page.css", "page.js", "niivue/niivue.umd.js", "niivue/LICENSE.txt")
    assert {f"{viewer}/{name}" for name in pages} <= names
    assert not [name for name in names if name.endswith((".pt", ".nii.gz"))]
