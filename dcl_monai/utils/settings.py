"""Settings on their way into and out of a configuration."""

from __future__ import annotations

import re
from pathlib import Path

from monai.utils import str2bool

from .errors import DataError


def as_bool(value: bool | str | int) -> bool:
    """
    Read a switch: MONAI's command line passes ``--resume false`` on as a string, which Python takes for true.

    This is :py:func:`monai.utils.str2bool` with a message for users. It also takes the numbers 0 and 1, which the
    command line does not pass on as strings.

    Raises:
        DataError: for anything that is neither true nor false.
    """
    try:
        return str2bool(str(value))
    except ValueError:
        raise DataError(f"{value!r} is neither true nor false: write --<setting> true or --<setting> false.") from None


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
