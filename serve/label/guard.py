"""
A guard before MONAI Label: an ASGI application that lets through what an annotator's client needs, and nothing else.

MONAI Label trusts whoever reaches it. It has no login, answers every web page (CORS ``*``), takes paths of the server
where it expects the name of an image (in the address and again in ``params``), writes uploads where their names lead,
and hands out the model, in which the conditional bank holds patient images. Behind this guard

- only this machine reaches the server: other clients, hosts and every request of a web page are refused;
- an image is a file of the studies folder, named without its ending; a link that leads out of the folder is refused;
- settings of a request that are not listed here are dropped before Label sees them, which would take more of them for
  paths, and ``device`` for Python code;
- every other endpoint is closed: models, sessions, logs, proxies, batches, deletion of images and labels.

Each request is taken apart and written again from what was understood, so that Label cannot read it otherwise.

Standard library alone: see ``tests/serve/test_guard.py``.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

__all__ = ["EXTENSIONS", "Guard"]

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

EXTENSIONS = (".nii.gz", ".nii", ".nrrd")
"""Endings of images and labels."""
HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names by which a client may call the server; any other was put there by somebody else (DNS rebinding)."""
DEVICE = re.compile(r"[\w ()./:-]{1,80}")
"""Label names GPUs by product. It puts what it gets into MONAI's configuration, where a ``$`` begins Python code."""
REQUEST_LIMIT = 2**20
UPLOAD_LIMIT = 2**29
BOUNDARY = b"dcl-monai-label-guard-6c1f0e"


class Refused(Exception):
    """A request that does not get through."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Part(NamedTuple):
    """A field of a form: what it holds, and the name of the file if it is one."""

    content: bytes
    filename: str | None


class Guard:
    """
    Wrap MONAI Label's application.

    Args:
        app: the application.
        studies: folder of the images.
    """

    def __init__(self, app: Application, studies: str | Path) -> None:
        self.app = app
        self.studies = Path(studies).resolve()
        word = r"[\w.-]+"
        self.routes: list[tuple[str, str, Callable[[Scope, Receive], Awaitable[tuple[Scope, Receive]]]]] = [
            ("GET", "/info/", self.plain()),
            ("GET", "/datastore/", self.plain(output=re.compile("stats|all|train"))),
            ("GET|HEAD", "/datastore/image", self.plain(image=self.image)),
            ("HEAD", "/datastore/label", self.plain(image=self.image, tag=re.compile("final|original"))),
            ("GET", "/datastore/label", self.plain(label=self.image, tag=re.compile("final|original"))),
            ("PUT", "/datastore/label", self.store_label),
            ("PUT", "/datastore/(image)?", self.store_image),
            ("POST", f"/infer/{word}", self.infer),
            ("POST", f"/activelearning/{word}", self.next_sample),
            ("GET", "/train/", self.plain(check_if_running=re.compile("(?i:true|false)"))),
            ("POST", f"/train/{word}", self.train),
            ("DELETE", "/train/", self.plain()),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":  # Label has no websockets
            await send({"type": "websocket.close", "code": 1008})
        else:
            try:
                scope, receive = await self.admit(scope, receive)
            except Refused as refused:
                body = json.dumps({"detail": str(refused)}).encode()
                headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
                await send({"type": "http.response.start", "status": refused.status, "headers": headers})
                await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})
                return
            await self.app(scope, receive, send)

    async def admit(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        """Return the request as Label may see it, or raise :class:`Refused`."""
        client = scope.get("client")
        if client and not is_loopback(client[0]):
            raise Refused(403, "this server answers its own machine only: put a proxy with a login before it")
        host = header(scope, b"host")
        if re.sub(r":\d+$", "", host).lower() not in HOSTS:
            raise Refused(403, f"this server is not called {host!r}: use http://127.0.0.1 and its port")
        if header(scope, b"origin") or header(scope, b"sec-fetch-site") not in ("", "none", "same-origin"):
            raise Refused(403, "this server does not answer web pages")
        for methods, path, handle in self.routes:
            if re.fullmatch(methods, scope["method"]) and re.fullmatch(path, scope["path"]):
                return await handle(scope, receive)
        raise Refused(403, f"{scope['method']} {scope['path']} is closed on this server")

    def plain(self, **allowed: Any) -> Callable[[Scope, Receive], Awaitable[tuple[Scope, Receive]]]:
        """Requests without a body: the names of the query, each with its values or a function that checks one."""

        async def handle(scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
            return rewritten(scope, receive, self.query(scope, **allowed), b"", "")

        return handle

    async def infer(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        """Segment an image of the studies folder. Slicer sends all options of the server back: most are dropped."""
        query = self.query(scope, required=("image",), image=self.image, output=re.compile("image|json|all"))
        form = await fields(scope, receive, REQUEST_LIMIT)
        if form.keys() - {"params"}:
            raise Refused(403, "only images of the studies folder are segmented: upload the image first")
        clean = kept(
            parameters(form),
            client_id=str,
            device=DEVICE,
            result_extension=re.compile(r"\.(nii|nii\.gz|nrrd|seg\.nrrd)"),
            result_dtype=re.compile("u?int(8|16|32)"),
            result_compress=bool,
        )
        body = urlencode({"params": json.dumps(clean)}).encode()
        return rewritten(scope, receive, query, body, "application/x-www-form-urlencoded")

    async def store_label(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        """Store a label of an image."""
        query = self.query(scope, required=("image",), image=self.image, tag=re.compile("final|original|"))
        return await self.upload(scope, receive, query, "label", client_id=str, label_info=list, annotated=list)

    async def store_image(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        """Add an image to the studies folder; none that is there is replaced."""
        query = self.query(scope, required=("image",), image=self.new_image)
        return await self.upload(scope, receive, query, "file", client_id=str)

    async def upload(
        self, scope: Scope, receive: Receive, query: dict[str, str], name: str, **allowed: Any
    ) -> tuple[Scope, Receive]:
        """A form with one file and ``params``."""
        form = await fields(scope, receive, UPLOAD_LIMIT)
        file = form.get(name)
        if form.keys() - {name, "params"} or file is None or file.filename is None:
            raise Refused(400, f"a form with the file {name!r} is needed, with 'params' if you like")
        ending = next((ending for ending in EXTENSIONS if file.filename.lower().endswith(ending)), None)
        if ending is None:
            raise Refused(400, f"{Path(file.filename).name!r} does not end in {', '.join(EXTENSIONS)}")
        params = json.dumps(kept(parameters(form), **allowed)).encode()
        head = b'--%s\r\nContent-Disposition: form-data; name="%s"'
        body = b"\r\n".join(
            [
                head % (BOUNDARY, b"params"),
                b"",
                params,
                head % (BOUNDARY, name.encode()) + b'; filename="upload%s"' % ending.encode(),
                b"Content-Type: application/octet-stream",
                b"",
                file.content,
                b"--%s--" % BOUNDARY,
                b"",
            ]
        )
        return rewritten(scope, receive, query, body, f"multipart/form-data; boundary={BOUNDARY.decode()}")

    async def next_sample(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        """Which image to annotate next."""
        clean = kept(await json_object(scope, receive), client_id=str)
        return rewritten(scope, receive, {}, json.dumps(clean).encode(), "application/json")

    async def train(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        """
        Train in the background.

        Not for clients: ``model_filename`` (a path), ``run_id`` (anything in the configuration), ``tracking_uri`` (any
        address), and several GPUs, for which the bundles have no configuration that Label would take.
        """
        clean = kept(
            await json_object(scope, receive),
            client_id=str,
            max_epochs=range(1, 10001),
            val_split=float,
            device=DEVICE,
        )
        if not 0 <= clean.get("val_split", 0) < 1:
            raise Refused(400, f"val_split {clean['val_split']} is not in [0, 1)")
        body = json.dumps(clean | {"multi_gpu": False}).encode()
        return rewritten(scope, receive, {}, body, "application/json")

    def query(self, scope: Scope, required: tuple[str, ...] = (), **allowed: Any) -> dict[str, str]:
        """The allowed entries of a query, checked."""
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        missing = [name for name in required if name not in given]
        if missing:
            raise Refused(400, f"{missing[0]!r} is missing in the address")
        for name, check in allowed.items():
            if name in given and not callable(check) and not check.fullmatch(given[name]):
                raise Refused(400, f"{name} {given[name]!r} is not allowed")
            if name in given and callable(check):
                check(given[name])
        return {name: given[name] for name in allowed if name in given}

    def image(self, name: str) -> None:
        """Refuse anything but an image of the studies folder."""
        files = self.files(name)
        if not files:
            raise Refused(404, f"there is no image {name!r} in the studies folder")
        if not all(file.resolve().is_relative_to(self.studies) for file in files):
            raise Refused(403, f"the image {name!r} is a link that leads out of the studies folder: copy it there")

    def new_image(self, name: str) -> None:
        """Refuse anything but the name of an image that is not there yet."""
        if self.files(name):
            raise Refused(409, f"there is an image {name!r} already: choose another name")

    def files(self, name: str) -> list[Path]:
        """Files of the studies folder with this name and the ending of an image."""
        if not name or name.startswith(".") or re.search(r"[/\\\x00-\x1f]", name):
            raise Refused(400, f"{name!r} is not the name of an image in the studies folder, without its ending")
        if Path(name).exists():  # Label would take it for a path, relative to its working directory
            raise Refused(403, f"{name!r} is a file in the working directory of the server: rename the image")
        return [file for ending in EXTENSIONS if (file := self.studies / (name + ending)).is_file()]


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def header(scope: Scope, name: bytes) -> str:
    """A header of a request, or nothing."""
    return ", ".join(value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name)


async def read(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The body of a request."""
    chunks, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(400, "the request is not complete")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            raise Refused(413, f"the request is larger than {limit} bytes")
        more = message.get("more_body", False)
    return b"".join(chunks)


async def json_object(scope: Scope, receive: Receive) -> dict[str, Any]:
    """The body of a request as JSON."""
    return parsed_object(await read(scope, receive, REQUEST_LIMIT) or b"{}", "the body")


async def fields(scope: Scope, receive: Receive, limit: int) -> dict[str, Part]:
    """The fields of a form."""
    kind = HeaderParser().parsestr(f"Content-Type: {header(scope, b'content-type')}")
    body = await read(scope, receive, limit)
    if not body:
        return {}
    if kind.get_content_type() == "application/x-www-form-urlencoded":
        return {name: Part(text.encode(), None) for name, text in parse_qsl(body.decode("latin-1"))}
    boundary = kind.get_param("boundary")
    if kind.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise Refused(400, "a form (multipart/form-data) is needed")
    sections = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"))
    if len(sections) < 2 or not sections[-1].startswith(b"--"):
        raise Refused(400, "the form is not complete")
    form: dict[str, Part] = {}
    for section in sections[1:-1]:
        head, _, content = section.partition(b"\r\n\r\n")
        headers = HeaderParser().parsestr(head.decode("utf-8", "replace").strip())
        name = headers.get_param("name", header="content-disposition")
        if not isinstance(name, str) or name in form:
            raise Refused(400, "the form has a field without a name, or two of one name")
        form[name] = Part(content, headers.get_filename())
    return form


def parameters(form: Mapping[str, Part]) -> dict[str, Any]:
    """The field ``params`` of a form."""
    return parsed_object(form["params"].content or b"{}", "'params'") if "params" in form else {}


def parsed_object(text: bytes, what: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Refused(400, f"{what} is not a JSON object")
    return value


def kept(params: Mapping[str, Any], **allowed: Any) -> dict[str, Any]:
    """The allowed entries, each a match of a pattern, within a range, or of a type; all others are dropped."""
    result = {}
    for name, rule in allowed.items():
        value = params.get(name)
        if value is None:
            continue
        if isinstance(rule, re.Pattern):
            fits = isinstance(value, str) and rule.fullmatch(value) is not None
        elif isinstance(rule, range):
            fits = isinstance(value, int) and not isinstance(value, bool) and value in rule
        elif rule is float:
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        else:
            fits = isinstance(value, rule)
        if not fits:
            raise Refused(400, f"{name} {value!r} is not allowed")
        result[name] = value
    return result


def rewritten(
    scope: Scope, receive: Receive, query: Mapping[str, str], body: bytes, kind: str
) -> tuple[Scope, Receive]:
    """The request with another query and body, and without the headers that describe the old ones."""
    dropped = (b"content-length", b"content-type", b"transfer-encoding", b"content-encoding")
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in dropped]
    headers += [(b"content-length", str(len(body)).encode())] + ([(b"content-type", kind.encode())] if kind else [])
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()  # the end of the connection
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return scope | {"headers": headers, "query_string": urlencode(query).encode()}, replay
