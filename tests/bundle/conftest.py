from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")


@dataclass(frozen=True)
class Installed:
    """Where the wheel is installed: its programs, and the variables with which they find it."""

    python: Path
    command: Path
    variables: dict[str, str]

    def start(self, *words: str | Path, cwd: Path) -> subprocess.Popen[str]:
        """Start ``dcl-monai`` or, by ``-m`` or ``-c``, Python, in a folder outside of the clone."""
        program = [] if str(words[0]).startswith("-") else [self.command]
        command = [self.python, "-W", "ignore", *program, *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
        return subprocess.Popen(list(map(str, command)), cwd=cwd, env=self.variables, **pipes)

    def run(self, *words: str | Path, cwd: Path) -> str:
        """Run it to its end, and return what it prints."""
        process = self.start(*words, cwd=cwd)
        printed, _ = process.communicate()
        assert process.returncode == 0, printed[-4000:]
        return printed


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    kept = ("dcl_monai", "configs", "bundles", "pyproject.toml", "README.md", "LICENSE")
    subprocess.run(["cp", "-r", *(str(ROOT / name) for name in kept), str(source)], check=True)
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(request) -> Installed:
    """An installation of the wheel: the virtual environment ``DCL_WHEEL_ENV``, else a folder beside its wheel."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    environment = Path(os.environ.get("DCL_WHEEL_ENV", "none")).absolute()
    if environment.is_dir():
        return Installed(environment / "bin" / "python", environment / "bin" / "dcl-monai", variables)
    built = request.getfixturevalue("wheel")
    site = built.parent / "site"
    subprocess.run([*PIP, "install", "--no-deps", "--target", str(site), str(built)], check=True)
    return Installed(Path(sys.executable), site / "bin" / "dcl-monai", variables | {"PYTHONPATH": str(site)})
