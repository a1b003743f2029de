"""The server of the page: this machine alone, and nothing but the images of its album."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Lock
from typing import Any

from matplotlib.colors import to_hex

from dcl_monai.utils import DataError
from dcl_monai.utils.errors import find_user_error
from dcl_monai.visualize.overlays import UNION_COLOUR, class_colour

from .album import Album
from .volumes import NOTHING, UNION, Volume, load_volume

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
KEPT = 3
"""So many images stay in memory."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class ViewServer(ThreadingHTTPServer):
    """
    Show an album in the browser.

    A request names an image by its number in the album, never a file, so that no other file can be asked for. The
    address holds a random word: other users of this machine cannot guess it.

    Args:
        album: what there is to see.
        port: port on 127.0.0.1; 0 takes a free one.

    Raises:
        DataError: when the port is taken.
    """

    daemon_threads = True

    def __init__(self, album: Album, port: int = 0) -> None:
        self.album = album
        self.word = secrets.token_urlsafe(12)
        self.lock = Lock()
        self.load = lru_cache(maxsize=KEPT)(self.read)
        try:
            super().__init__((HOST, port), Handler)
        except (OSError, OverflowError) as error:
            raise DataError(f"--port {port}: cannot be used ({error}). Give another one, or 0 for any.") from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes a connection is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/{self.word}/"

    def read(self, number: int) -> Volume:
        """Read an image and its layers."""
        return load_volume(self.album, self.album.cases[number])

    def volume(self, number: int) -> Volume:
        """An image and its layers; several requests for one read it once."""
        with self.lock:
            return self.load(number)

    def overview(self) -> dict[str, Any]:
        """What the page shows before an image is opened."""
        classes, unions = self.album.classes, self.album.unions
        return {
            "title": self.album.title,
            "classes": [
                {"name": name, "colour": class_colour(j, len(classes)) if j else None} for j, name in enumerate(classes)
            ],
            "union": {"name": " or ".join(unions) or "one of several", "colour": to_hex(UNION_COLOUR)},
            "values": {"nothing": NOTHING, "union": UNION},
            "cases": [{"name": case.name, "note": case.note, "marked": case.marked} for case in self.album.cases],
        }

    def case(self, number: int) -> dict[str, Any]:
        """What the page must know of an image before it asks for its files."""
        layers = [{"title": layer.title, "kind": layer.kind} for layer in self.album.cases[number].layers]
        return {"start": self.volume(number).start, "layers": layers}


class Handler(BaseHTTPRequestHandler):
    """Answers to the page; see ``routes`` for all that there is."""

    server: ViewServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer, or say in one line why not."""
        try:
            kind, content = self.answer()
            status = HTTPStatus.OK
        except LookupError:
            status, kind, content = HTTPStatus.NOT_FOUND, "text/plain", b"there is no such page"
        except PermissionError:
            status, kind, content = HTTPStatus.FORBIDDEN, "text/plain", b"ask by the address that the command printed"
        except Exception as error:  # a damaged file must not end the server
            known = find_user_error(error)
            if known is None:
                logger.exception("the page could not be answered")
            reason = str(known or f"{type(error).__name__}: {error}")
            status, kind, content = HTTPStatus.UNPROCESSABLE_ENTITY, "text/plain", reason.encode()
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def answer(self) -> tuple[str, bytes]:
        """Type and content of what was asked for."""
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        if host not in (HOST, "localhost"):  # another site's name that was made to point here
            raise PermissionError
        word, _, path = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not secrets.compare_digest(word.encode(), self.server.word.encode()):
            raise PermissionError
        for pattern, route in self.routes().items():
            found = re.fullmatch(pattern, path, re.ASCII)
            if found:
                return route(*found.groups())
        raise LookupError

    def routes(self) -> dict[str, Callable[..., tuple[str, bytes]]]:
        """All that can be asked for."""
        return {
            "": lambda: ("text/html; charset=utf-8", resource("page.html")),
            r"page\.js": lambda: ("text/javascript; charset=utf-8", resource("page.js")),
            r"page\.css": lambda: ("text/css; charset=utf-8", resource("page.css")),
            r"niivue\.js": lambda: ("text/javascript; charset=utf-8", resource("niivue/niivue.umd.js")),
            "album": lambda: as_json(self.server.overview()),
            r"case/(\d{1,7})": lambda number: as_json(self.server.case(int(number))),
            r"case/(\d{1,7})/(\d{1,3})\.nii": self.nifti,
            r"case/(\d{1,7})/where/(\d{1,3})": self.where,
        }

    def nifti(self, number: str, plane: str) -> tuple[str, bytes]:
        """An image, which is plane 0, or one of its layers."""
        return "application/octet-stream", self.server.volume(int(number)).nifti(int(plane))

    def where(self, number: str, label: str) -> tuple[str, bytes]:
        """The voxel at which most is seen of a structure."""
        return as_json(self.server.volume(int(number)).where(int(label)))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: there is one for every slice."""


def resource(name: str) -> bytes:
    """A file of the page, from the package."""
    return (files(__package__) / name).read_bytes()


def as_json(content: Any) -> tuple[str, bytes]:
    """Type and content of an answer in JSON."""
    return "application/json", json.dumps(content).encode()
