from __future__ import annotations

import pytest

from dcl_monai.utils import DataError, as_bool


@pytest.mark.parametrize("value", [True, "true", "True", "TRUE"])
def test_true(value):
    assert as_bool(value) is True


@pytest.mark.parametrize("value", [False, "false", "False"])
def test_false(value):
    assert as_bool(value) is False


@pytest.mark.parametrize("value", ["yes", "", "0", None, 1])
def test_neither(value):
    with pytest.raises(DataError, match="neither true nor false"):
        as_bool(value)
