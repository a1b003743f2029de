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
        shown = {f"dcl_monai/bundle/{path.relative_to(ROOT)}" for path in (ROOT / top).rglob("configs/*.json")}
        assert shown <= names
    assert not [name for name in names if name.endswith((".pt", ".nii.gz"))]


def test_the_command_runs_without_a_clone(installed, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(installed / "site")}
    command = [sys.executable, str(installed / "site" / "bin" / "dcl-monai"), "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: dcl-monai ")
    code = "from dcl_monai.bundle.resources import *; print(overlay_folder(), is_installed(bundle_folder()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [str(installed / "site" / "dcl_monai" / "bundle" / "configs"), "True"]
