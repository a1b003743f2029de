"""Tests of the picture of which class is annotated in which image."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from dcl_monai.check import CaseRecord, FileRecord, State
from dcl_monai.check.matrix import STATE_COLOURS, draw_states
from dcl_monai.check.summary import Summary


def picture(patterns: list[tuple[State, ...]], classes: int) -> np.ndarray:
    records = [
        CaseRecord("training", "north", f"case{i}", f"{i}", FileRecord(f"{i}", ()), states, (0.0,) * classes)
        for i, states in enumerate(patterns)
    ]
    datalist = {"classes": [f"$class_{j}" for j in range(classes)], "unions": {}}
    data = base64.b64decode(draw_states(Summary("x", datalist, records, [])))
    return imread(io.BytesIO(data), format="png")[..., :3]


def share(shown: np.ndarray, state: State) -> float:
    return float((np.abs(shown - to_rgb(STATE_COLOURS[state])).max(-1) < 0.01).mean())


@pytest.mark.parametrize("number", [1, 10, 1000])
def test_every_state_has_its_share(number):
    half = (State.PRESENT, State.UNKNOWN), (State.ABSENT, State.UNKNOWN)
    shown = picture([half[i % 2] for i in range(2 * number)], 2)
    assert share(shown, State.PRESENT) == pytest.approx(share(shown, State.ABSENT), rel=0.15)
    assert share(shown, State.UNKNOWN) == pytest.approx(2 * share(shown, State.PRESENT), rel=0.2)
    assert share(shown, State.UNION) == 0


def test_one_rare_image_of_a_thousand_is_seen():
    shown = picture([(State.UNKNOWN, State.PRESENT)] * 999 + [(State.STROKES, State.PRESENT)], 2)
    legend = picture([(State.UNKNOWN, State.PRESENT)], 2)[:40]
    assert (np.abs(shown[len(legend) :] - to_rgb(STATE_COLOURS[State.STROKES])).max(-1) < 0.01).any()
