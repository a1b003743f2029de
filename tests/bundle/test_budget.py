from __future__ import annotations

import pytest

from dcl_monai.bundle.budget import LEAST, MOST_EPOCHS, divide_time, fit_schedule
from dcl_monai.utils import DataError


@pytest.mark.parametrize("left", [60.0, 300.0, 3600.0, 86400.0])
@pytest.mark.parametrize(("steps", "validating"), [((0.1, 0.3), 2.0), ((0.5, 0.8), 30.0), ((0.02, 0.02), 0.0)])
def test_the_time_is_used_and_no_more(left, steps, validating):
    if left < LEAST * sum(steps) + 2 * validating:
        pytest.skip("refused before")
    stage1, stage2, iterations = divide_time(left, steps, validating)
    used = stage1 * (iterations * steps[0] + validating) + stage2 * (iterations * steps[1] + validating)
    assert used <= left
    assert used + stage1 * steps[0] + stage2 * steps[1] > left  # one step more would be too long
    assert stage1 + stage2 <= MOST_EPOCHS
    assert min(stage1, stage2) * iterations >= 0.3 * LEAST
    if stage1 + stage2 > 2:
        assert (stage1 + stage2) * validating <= 0.3 * left


@pytest.mark.parametrize("minutes", [0, -3, "ten", True, float("nan")])
def test_no_time(minutes, tmp_path):
    with pytest.raises(DataError, match="give a number of minutes"):
        fit_schedule(minutes, str(tmp_path), None, 1, None, None, None, [], [])  # type: ignore[arg-type]
