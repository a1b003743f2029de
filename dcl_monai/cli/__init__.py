"""The command line: ``python -m dcl_monai <command>``."""

from .main import main

__all__ = ["main"]
