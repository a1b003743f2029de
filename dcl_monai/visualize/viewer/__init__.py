"""A page in the browser that shows images and what is drawn on them, slice by slice; see ``dcl-monai view``."""

from .album import VIEW_FILE, Album, Case, Layer, find_album, write_album
from .server import ViewServer

__all__ = ["VIEW_FILE", "Album", "Case", "Layer", "ViewServer", "find_album", "write_album"]
