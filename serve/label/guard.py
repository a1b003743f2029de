"""
A guard before MONAI Label: a Starlette application with the few requests that an annotator's client needs.

MONAI Label trusts whoever reaches it. It has no login, answers every web page (CORS ``*``), takes paths of the server
where it expects the name of an image (in the address and again in ``params``), writes uploads where their names lead,
and hands out the model, in which the conditional bank holds patient images. Its own application is not served. Behind
this guard

- only this machine reaches the server: other clients, hosts and every request of a web page are refused;
- an image is a file of the studies folder, named without its ending; a link that leads out of the folder is refused;
- settings of a request that are not listed here are dropped before Label sees them, which would take more of them for
  paths, and ``device`` for Python code;
- every other endpoint is closed: models, sessions, logs, proxies, batches, deletion of images and labels;
- Label works in threads, so that a long inference keeps nobody waiting who asks for something else;
- answers hold no path of the server, and every request is noted in the access log.

It needs Starlette alone, not MONAI Label: see ``tests/serve/test_guard.py``.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import json
import logging
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.datastructures import Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

__all__ = ["EXTENSIONS", "Guard", "Label", "Limits", "Refused", "without_paths"]

EXTENSIONS = (".nii.gz", ".nii", ".nrrd")
"""Endings of images and labels."""
HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names by which a client may call the server; any other was put there by somebody else (DNS rebinding)."""
DEVICE = re.compile(r"[\w ()./:-]{1,80}")
"""Label names GPUs by product. It puts what it gets into MONAI's configuration, where a ``$`` begins Python code."""
TAG = re.compile("final|original")
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
PATH = re.compile(r"(?<![\w./:-])/(?:[^\s/'\",:;()\[\]]+/)+([^\s/'\",:;()\[\]]+)")
"""An absolute path in a text."""

logger = logging.getLogger(__name__)
access = logging.getLogger("dcl_label.access")


class Refused(Exception):
    """A request that does not get through."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Label(Protocol):
    """What the guard needs of MONAI Label. All methods may block; answers are JSON or a response."""

    models: Collection[str]
    trainers: Collection[str]
    strategies: Collection[str]

    def stop(self) -> None: ...
    def info(self) -> Any: ...
    def datastore(self, output: str) -> Any: ...
    def image(self, image: str) -> Any: ...
    def label(self, image: str, tag: str) -> Any: ...
    def save_image(self, image: str, file: UploadFile, ending: str, params: Mapping[str, Any]) -> Any: ...
    def save_label(self, image: str, tag: str, file: UploadFile, ending: str, params: Mapping[str, Any]) -> Any: ...
    def infer(self, model: str, image: str, output: str, params: Mapping[str, Any]) -> Any: ...
    def next_sample(self, strategy: str, params: Mapping[str, Any]) -> Any: ...
    def train(self, model: str, params: Mapping[str, Any]) -> Any: ...
    def train_status(self, running: bool) -> Any: ...
    def stop_training(self) -> Any: ...


@dataclass(frozen=True)
class Limits:
    """How much a client may ask for."""

    request: int = 2**20  # bytes of a request without a file
    upload: int = 2**29  # bytes of a request with a file
    name: int = 200  # bytes in the name of an image; file systems end at 255, with ending and temporary names
    uploads: int = 4  # files that are received at the same time
    waiting: int = 8  # inferences that wait for the one that runs
    silence: float = 30.0  # seconds without a byte of a body
    body: float = 900.0  # seconds for a whole body
    quota: int = 100 * 2**30  # bytes of all images and labels
    reserve: int = 2**30  # bytes of the disk that are left free


class Guard:
    """
    An ASGI application that stands before MONAI Label.

    Args:
        label: MONAI Label.
        studies: folder of the images.
        limits: how much a client may ask for.
    """

    def __init__(self, label: Label, studies: str | Path, limits: Limits | None = None) -> None:
        self.backend = label
        self.studies = Path(studies).resolve()
        self.limits = limits or Limits()
        self.receiving = 0
        self.inferences = 0
        self.one_inference = anyio.CapacityLimiter(1)
        self.one_at_a_time = anyio.CapacityLimiter(1)  # Label's datastore knows no threads
        self.app = Starlette(
            routes=[
                Route("/info/", self.info),
                Route("/datastore/", self.datastore),
                Route("/datastore/image", self.image),
                Route("/datastore/label", self.label),
                Route("/datastore/label", self.store_label, methods=["PUT"]),
                Route("/datastore/", self.store_image, methods=["PUT"]),
                Route("/datastore/image", self.store_image, methods=["PUT"]),
                Route("/infer/{model}", self.infer, methods=["POST"]),
                Route("/activelearning/{strategy}", self.next_sample, methods=["POST"]),
                Route("/train/", self.train_status),
                Route("/train/", self.stop_training, methods=["DELETE"]),
                Route("/train/{model}", self.train, methods=["POST"]),
            ],
            exception_handlers={
                Refused: refusal,
                404: closed,
                405: closed,
                HTTPException: lambda _, error: answer(error.status_code, f"the form cannot be read: {error.detail}"),
                ClientDisconnect: lambda _, error: answer(400, "the request is not complete"),
                Exception: lambda _, error: answer(500, "the server failed: see app.log in its workspace"),
            },
            lifespan=self.lifespan,
        )
        self.app.router.redirect_slashes = False

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Let no training outlive the server."""
        yield
        await anyio.to_thread.run_sync(self.backend.stop)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and note it."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":  # Label has no websockets
            return await send({"type": "websocket.close", "code": 1008})
        began, status = time.monotonic(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            limit = self.limits.upload if scope["method"] == "PUT" else self.limits.request
            admit(scope, limit)
            body = Body(receive, limit, self.limits)
            await self.app(scope | {"body": body}, body, noted)
        except Refused as refused:
            await answer(refused.status, str(refused))(scope, receive, noted)
        except Exception:  # Starlette has answered with 500 already
            logger.exception("%s %s failed", scope["method"], scope["path"])
        finally:
            note(scope, status, time.monotonic() - began)

    async def work(
        self, function: Callable[..., Any], *words: Any, limiter: anyio.CapacityLimiter | None = None
    ) -> Any:
        """Let Label work in a thread; what it raises becomes an answer with a reason."""
        try:
            result = await anyio.to_thread.run_sync(function, *words, limiter=limiter or self.one_at_a_time)
        except Refused:
            raise
        except Exception as error:
            logger.exception("MONAI Label failed")
            raise Refused(500, f"the server failed ({reason(error)}): see app.log in its workspace") from error
        return result if isinstance(result, Response) else JSONResponse(without_paths(result))

    async def info(self, request: Request) -> Response:
        """What the server can do."""
        return await self.work(self.backend.info)

    async def datastore(self, request: Request) -> Response:
        """The images and labels."""
        query = self.query(request, output=re.compile("stats|all|train"))
        return await self.work(self.backend.datastore, query.get("output", "stats"))

    async def image(self, request: Request) -> Response:
        """An image, or whether it is there."""
        query = self.query(request, required=("image",), image=self.known_image)
        return await self.work(self.backend.image, query["image"])

    async def label(self, request: Request) -> Response:
        """A label, or whether it is there. Label's client names the image ``label`` when it asks for the file."""
        name = "image" if request.method == "HEAD" else "label"
        query = self.query(request, required=(name, "tag"), tag=TAG, **{name: self.known_image})
        return await self.work(self.backend.label, query[name], query["tag"])

    async def infer(self, request: Request) -> Response:
        """Segment an image of the studies folder. Slicer sends all options of the server back: most are dropped."""
        model = known(request.path_params["model"], self.backend.models, "model")
        query = self.query(request, required=("image",), image=self.known_image, output=re.compile("image|json|all"))
        async with request.form(max_files=1, max_fields=1, max_part_size=self.limits.request) as form:
            fields = await unique(request, form)
            if fields.keys() - {"params"}:
                raise Refused(403, "only images of the studies folder are segmented: upload the image first")
            params = kept(
                parameters(fields),
                client_id=str,
                device=DEVICE,
                result_extension=re.compile(r"\.(nii|nii\.gz|nrrd|seg\.nrrd)"),
                result_dtype=re.compile("u?int(8|16|32)"),
                result_compress=bool,
            )
        if self.inferences > self.limits.waiting:
            raise Refused(503, f"{self.inferences} images wait to be segmented already: try again later")
        with self.counted("inferences"):
            words = model, query["image"], query.get("output", "all"), params
            return await self.work(self.backend.infer, *words, limiter=self.one_inference)

    async def store_label(self, request: Request) -> Response:
        """Store a label of an image."""
        query = self.query(request, required=("image",), image=self.known_image, tag=re.compile("final|original|"))
        words = query["image"], query.get("tag") or "final"
        rules = {"client_id": str, "label_info": list, "annotated": list, "scribbles": bool, "unions": dict}
        return await self.upload(request, "label", rules, self.backend.save_label, *words)

    async def store_image(self, request: Request) -> Response:
        """Add an image to the studies folder; none that is there is replaced."""
        query = self.query(request, required=("image",), image=self.new_image)
        return await self.upload(request, "file", {"client_id": str}, self.backend.save_image, query["image"])

    async def upload(
        self, request: Request, name: str, rules: Mapping[str, Any], save: Callable[..., Any], *words: Any
    ) -> Response:
        """A form with one file, which Starlette writes to the disk as it comes in, and ``params``."""
        if self.receiving >= self.limits.uploads:
            raise Refused(503, f"{self.receiving} files are being received already: try again later")
        with self.counted("receiving"):
            await anyio.to_thread.run_sync(self.room, int(request.headers.get("content-length", 0)))
            async with request.form(max_files=1, max_fields=1, max_part_size=self.limits.request) as form:
                fields = await unique(request, form)
                file = fields.get(name)
                if fields.keys() - {name, "params"} or not isinstance(file, UploadFile):
                    raise Refused(400, f"a form with the file {name!r} is needed, with 'params' if you like")
                given = Path(file.filename or "").name
                ending = next((ending for ending in EXTENSIONS if given.lower().endswith(ending)), None)
                if ending is None:
                    raise Refused(400, f"{given[:80]!r} does not end in {', '.join(EXTENSIONS)}")
                return await self.work(save, *words, file, ending, kept(parameters(fields), **rules))

    def room(self, size: int) -> None:
        """Refuse a file for which there is no room."""
        if shutil.disk_usage(self.studies).free - size < self.limits.reserve:
            raise Refused(507, "the disk of the server is full: ask the person who runs it")
        used = sum(path.lstat().st_size for path in self.studies.rglob("*") if path.is_file())
        if used + size > self.limits.quota:
            raise Refused(507, f"the studies folder is full ({self.limits.quota} bytes): ask the person who runs it")

    async def next_sample(self, request: Request) -> Response:
        """Choose an image to annotate."""
        strategy = known(request.path_params["strategy"], self.backend.strategies, "strategy")
        return await self.work(self.backend.next_sample, strategy, kept(await json_object(request), client_id=str))

    async def train_status(self, request: Request) -> Response:
        """How the last training went, or goes."""
        query = self.query(request, check_if_running=re.compile("(?i:true|false)"))
        return await self.work(self.backend.train_status, query.get("check_if_running", "").lower() == "true")

    async def stop_training(self, request: Request) -> Response:
        """End the training that runs."""
        return await self.work(self.backend.stop_training)

    async def train(self, request: Request) -> Response:
        """
        Train a model on the labels.

        Not for clients: ``model_filename`` (a path), ``run_id`` (anything in the configuration), ``tracking_uri`` (any
        address), and several GPUs, for which the bundles have no configuration that Label would take.
        """
        if not self.backend.trainers:
            raise Refused(403, "this server does not train: it was started with --no-training")
        model = known(request.path_params["model"], self.backend.trainers, "model")
        params = kept(
            await json_object(request), client_id=str, max_epochs=range(1, 10001), val_split=float, device=DEVICE
        )
        if not 0 <= params.get("val_split", 0) < 1:
            raise Refused(400, f"val_split {params['val_split']} is not in [0, 1)")
        return await self.work(self.backend.train, model, params | {"multi_gpu": False})

    def query(self, request: Request, required: tuple[str, ...] = (), **allowed: Any) -> dict[str, str]:
        """The allowed entries of a query, each checked by a pattern or a function; of two, the last counts."""
        given = {name: request.query_params[name] for name in allowed if name in request.query_params}
        missing = [name for name in required if name not in given]
        if missing:
            raise Refused(400, f"{missing[0]!r} is missing in the address")
        for name, value in given.items():
            check = allowed[name]
            if callable(check):
                check(value)
            elif not check.fullmatch(value):
                raise Refused(400, f"{name} {value[:80]!r} is not allowed")
        return given

    def known_image(self, name: str) -> None:
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
        if len(name.encode("utf-8", "replace")) > self.limits.name:
            raise Refused(400, f"{name[:20]!r}... is longer than {self.limits.name} bytes: choose a shorter name")
        if not name or name.startswith(".") or re.search(r"[/\\\x00-\x1f\ud800-\udfff]", name):
            raise Refused(400, f"{name!r} is not the name of an image in the studies folder, without its ending")
        if Path(name).exists():  # Label would take it for a path, relative to its working directory
            raise Refused(403, f"{name!r} is a file in the working directory of the server: rename the image")
        return [file for ending in EXTENSIONS if (file := self.studies / (name + ending)).is_file()]

    @contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """Count what is under way."""
        setattr(self, name, getattr(self, name) + 1)
        try:
            yield
        finally:
            setattr(self, name, getattr(self, name) - 1)


class Body:
    """The messages of a request's body, up to a size and for a limited time."""

    def __init__(self, receive: Receive, limit: int, limits: Limits) -> None:
        self.receive, self.limit, self.silence = receive, limit, limits.silence
        self.deadline = time.monotonic() + limits.body
        self.size, self.more = 0, True

    async def __call__(self) -> Message:
        if not self.more:
            return await self.receive()  # the end of the connection
        try:
            patience = min(self.silence, self.deadline - time.monotonic())
            message = await asyncio.wait_for(self.receive(), max(patience, 0))
        except asyncio.TimeoutError as error:
            raise Refused(408, "the request took too long: send it faster") from error
        self.size += len(message.get("body", b""))
        self.more = message["type"] == "http.request" and message.get("more_body", False)
        if self.size > self.limit:
            raise Refused(413, f"the request is larger than {self.limit} bytes")
        return message


def admit(scope: Scope, limit: int) -> None:
    """Look at who asks, and from where."""
    headers = Headers(scope=scope)
    client = scope.get("client")
    if client and not is_loopback(client[0]):
        raise Refused(403, "this server answers its own machine only: put a proxy with a login in front of it")
    hosts = headers.getlist("host")
    if len(hosts) != 1 or re.sub(r":\d+$", "", hosts[0]).lower() not in HOSTS:
        raise Refused(403, f"this server is not called {', '.join(hosts)!r}: use http://127.0.0.1 and its port")
    if "origin" in headers or headers.get("sec-fetch-site", "none") not in ("", "none", "same-origin"):
        raise Refused(403, "this server does not answer web pages")
    length = headers.get("content-length")
    if length is not None and "transfer-encoding" in headers:
        raise Refused(400, "Content-Length and Transfer-Encoding contradict each other: send one of them")
    if length is not None and (not re.fullmatch("[0-9]{1,18}", length) or int(length) > limit):
        raise Refused(413, f"the request is larger than {limit} bytes")


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def note(scope: Scope, status: int, seconds: float) -> None:
    """
    Write a line of the access log: who, what, when. Of the query only the ids of images and labels are kept.

    A proxy before the server says who it lets in, by ``X-Forwarded-For`` and by the name in the login that it passes
    on. Nobody checks these names for programs that run on this machine themselves.
    """
    headers = Headers(scope=scope)
    query = Request(scope).query_params
    entry = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "client": (scope.get("client") or ("local",))[0],
        "forwarded_for": headers.get("x-forwarded-for"),
        "user": user_name(headers.get("authorization", "")),
        "method": scope["method"],
        "path": scope["path"][:200],
        "id": next((query[name][:200] for name in ("image", "label") if name in query), None),
        "status": status,
        "seconds": round(seconds, 3),
    }
    access.info(json.dumps({key: value for key, value in entry.items() if value is not None}))


def user_name(authorization: str) -> str | None:
    """The name in a login by ``Basic``, without the password."""
    kind, _, content = authorization.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(content, validate=True).decode().partition(":")[0][:80]
    except (binascii.Error, UnicodeDecodeError):
        return None


def answer(status: int, text: str) -> Response:
    """An answer with a reason."""
    return JSONResponse({"detail": without_paths(text)}, status, headers={"connection": "close"})


async def refusal(request: Request, error: Exception) -> Response:
    """Answer a request that does not get through."""
    return answer(getattr(error, "status", 500), str(error))


async def closed(request: Request, error: Exception) -> Response:
    """Answer whatever has no route."""
    text = f"{request.method} {request.url.path[:200]} is closed on this server"
    return JSONResponse({"detail": text}, 403, headers={"connection": "close"})


def without_paths(value: Any) -> Any:
    """The same without paths of the server: of an absolute path in a text the last name stays."""
    if isinstance(value, str):
        return PATH.sub(r"\1", value)
    if isinstance(value, Mapping):
        return {without_paths(key): without_paths(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(entry) for entry in value]
    return value


def reason(error: BaseException) -> str:
    """An error in a line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def known(name: str, names: Collection[str], what: str) -> str:
    """Refuse the name of something that is not there."""
    if name not in names:
        raise Refused(404, f"there is no {what} {name[:80]!r}: this server has {', '.join(sorted(names)) or 'none'}")
    return name


async def unique(request: Request, form: Any) -> dict[str, str | UploadFile]:
    """The fields of a form, each of which may come once."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in FORMS and await request.body():
        raise Refused(400, "a form (multipart/form-data) is needed")
    fields = dict(form.multi_items())
    if len(fields) < len(form.multi_items()):
        raise Refused(400, "the form has two fields of one name")
    if kind in FORMS and not fields and request.scope["body"].size:
        raise Refused(400, "the form is not complete")
    return fields


def parameters(fields: Mapping[str, str | UploadFile]) -> dict[str, Any]:
    """The field ``params`` of a form."""
    text = fields.get("params") or "{}"
    if not isinstance(text, str):
        raise Refused(400, "'params' is not a JSON object")
    return parsed_object(text, "'params'")


async def json_object(request: Request) -> dict[str, Any]:
    """The body of a request as JSON."""
    return parsed_object(await request.body() or b"{}", "the body")


def parsed_object(text: str | bytes, what: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Refused(400, f"{what} is not a JSON object, or too deep")
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
            raise Refused(400, f"{name} {str(value)[:80]!r} is not allowed")
        result[name] = value
    return result
