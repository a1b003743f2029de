from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch

from dcl_monai.annotate import CrossFit, Prediction
from dcl_monai.annotate.predict import load_candidates

BUNDLES = Path(__file__).parents[2] / "bundles"


class KnownModels(CrossFit):
    """Instead of networks: probabilities from the grey values, which are the truth and noise."""

    calls = 0
    stop_at = -1

    def train(self) -> None:
        """Nothing to train."""

    def described(self) -> Mapping[str, Any]:
        return {"models": {"known": "0"}, "cross_fitted": True}

    def predict(self, item) -> Prediction:
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        grey = torch.from_numpy(np.asarray(nib.load(item["image"]).dataobj, dtype=np.float32))
        levels = torch.tensor([300.0, 500.0, 700.0]).reshape(3, 1, 1, 1)
        probabilities = torch.softmax(-(((grey - levels) / 60) ** 2), 0)
        candidates = load_candidates(item, self.classes)
        return Prediction(item, probabilities, candidates.as_tensor(), candidates.affine, {"known": "0"}, True)


@pytest.fixture
def no_pictures(monkeypatch) -> None:
    """They take most of the time."""
    monkeypatch.setattr("dcl_monai.annotate.complete.draw_first", lambda *_: None)


@pytest.fixture
def known_models(hospitals) -> Callable[[], KnownModels]:
    return lambda: KnownModels(hospitals(2), BUNDLES / "acdc", 2)
