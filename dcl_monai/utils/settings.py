"""Settings on their way into and out of a configuration."""

from __future__ import annotations

import re
from pathlib import Path

from .errors import DataError

__all__ = ["as_bool", "as_literal"]


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


def as_literal(text: str | Path) -> str:
    """
    Write a path so that a ``ConfigParser`` of MONAI gives it back as it is.

    The parser runs what begins with ``$``, looks up what begins with ``@`` or ``%``, and turns every ``#`` into ``::``.

    >>> as_literal("out/run1")
    'out/run1'
    >>> as_literal("out#1")
    "$'out\\\\x231'"
    """
    text = str(text)
    if not re.search(r"[$@%#]", text):
        return text
    return "$" + re.sub(r"[$@%#]", lambda found: f"\\x{ord(found[0]):02x}", ascii(text))
