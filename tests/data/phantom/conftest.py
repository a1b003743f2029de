"""Synthetic subjects, made once for all tests of the generator."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from dcl_monai.data.phantom import GROUPS, SyntheticSubject, synthesize_subject, write, write_synthetic_acdc

make_once = functools.cache(synthesize_subject)


@pytest.fixture(scope="session")
def subjects() -> list[SyntheticSubject]:
    """Twenty subjects, four of each group; tests must not change them."""
    return [make_once(100 + i, GROUPS[i % len(GROUPS)]) for i in range(20)]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Record what the writer asks the generator for; no subject is computed twice in a session."""
    calls: list[tuple[int, str]] = []

    def make(seed: int, group: str) -> SyntheticSubject:
        calls.append((seed, group))
        return make_once(seed, group)

    monkeypatch.setattr(write, "synthesize_subject", make)
    return calls


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of six subjects, seed 3; tests must not change it."""
    root = tmp_path_factory.mktemp("acdc") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "synthesize_subject", make_once)
        return write_synthetic_acdc(root, num_subjects=6, seed=3, progress=False)
