from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dcl_monai.bundle.resources import bundle_folder, is_installed, overlay_folder

ROOT = Path(__file__).parents[2]


def test_a_checkout_has_them_at_its_top():
    assert overlay_folder() == ROOT / "configs"
    assert bundle_folder() == ROOT / "bundles"
    assert not is_installed(bundle_folder())


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the wheel in it, built from a copy so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    kept = ("dcl_monai", "configs", "bundles", "pyproject.toml", "README.md", "LICENSE")
    subprocess.run(["cp", "-r", *(str(ROOT / name) for name in kept), str(source)], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")
    install = [*pip, "install", "--no-deps", "--target", str(folder / "site"), str(wheel)]
    subprocess.run(install, check=True)
    return folder


def test_a_wheel_carries_what_the_repository_shows(installed):
    (wheel,) = installed.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for top in ("configs", "bundles"):
        paths = [path for path in (ROOT / top).rglob("*.json") if not {"data", "output"} & set(path.parts)]
        shown = {f"dcl_monai/bundle/{path.relative_to(ROOT)}" for path in paths if not path.is_symlink()}
        assert shown
        assert shown <= names
    assert not [name for name in names if name.endswith((".pt", ".nii.gz"))]


def test_a_bundle_is_made_without_a_clone(installed, hospitals, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(installed / "site"), "OMP_NUM_THREADS": "1"}

    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    command = str(installed / "site" / "bin" / "dcl-monai")
    assert run(command, "--help").startswith("usage: dcl-monai ")
    run(command, "new", str(hospitals(2)), "hearts", "--size", "small", "--device", "cpu", "--workers", "1")
    assert {path.name for path in (tmp_path / "hearts").iterdir()} == {"LICENSE", "configs", "data", "docs", "models"}
    code = "from dcl_monai.bundle.resources import *; print(overlay_folder(), is_installed(bundle_folder()))"
    assert run("-c", code).split() == [str(installed / "site" / "dcl_monai" / "bundle" / "configs"), "True"]
