"""What `bounds` says of a structure."""

from __future__ import annotations

import pytest

from dcl_monai.cli.bounds import describe


@pytest.mark.parametrize(("margin", "text"), [(0.026, "confidence - 0.026,"), (-0.103, "confidence + 0.103,")])
def test_the_bound_is_below_or_above_the_confidence(margin, text):
    entry = {"images": 4, "subjects": 4, "dice_margin": margin, "volume_factor": 1.7}
    assert f"Dice at least {text}" in describe(entry, 0.9)
