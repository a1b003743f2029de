"""Settings as they come from a command line."""

from __future__ import annotations

from .errors import DataError

__all__ = ["as_bool"]


def as_bool(value: bool | str) -> bool:
    """
    Read a switch: MONAI's command line passes ``--resume false`` on as a string, which Python takes for true.

    Raises:
        DataError: for anything but true and false.
    """
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false"):
        raise DataError(f"{value!r} is neither true nor false: write --<setting> true or --<setting> false.")
    return str(value).lower() == "true"
