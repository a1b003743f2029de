"""The guard before MONAI Label, without MONAI Label: what gets through, and as what."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

SOURCE = Path(__file__).parents[2] / "serve" / "label" / "guard.py"
FORM = "multipart/form-data; boundary=limit"


def load_guard() -> Any:
    specification = importlib.util.spec_from_file_location("dcl_label_guard", SOURCE)
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # its dataclasses look for it
    specification.loader.exec_module(module)
    return module


guard = load_guard()


def form(params: object = None, boundary: str = "limit", **files: tuple[str, bytes]) -> bytes:
    """A form as monailabel.client writes it."""
    lines: list[bytes] = []
    if params is not None:
        text = params if isinstance(params, str) else json.dumps(params)
        lines += [f"--{boundary}".encode(), b'Content-Disposition: form-data; name="params"', b"", text.encode()]
    for name, (filename, content) in files.items():
        lines.append(f"--{boundary}".encode())
        lines.append(f'Content-Disposition: form-data; name="{name}"; filename="{filename}"'.encode())
        lines += [b"Content-Type: application/octet-stream", b"", content]
    return b"\r\n".join([*lines, f"--{boundary}--".encode(), b""]) + b"\r\n"


class FakeLabel:
    """MONAI Label as the guard sees it; ``seen`` is the last that it was asked for."""

    models = trainers = ["acdc"]
    strategies = ["first"]

    def __init__(self) -> None:
        self.seen: tuple[Any, ...] | None = None

    def __getattr__(self, name: str) -> Any:
        def method(*words: Any) -> dict[str, Any]:
            self.seen = (name, *(word.file.read() if hasattr(word, "file") else word for word in words))
            return {}

        return method


class Call:
    """One request through the guard; ``seen`` is what was asked of MONAI Label."""

    def __init__(self, studies: Path, method: str, path: str, body: bytes = b"", chunk: int = 1000, **options: Any):
        path, _, query = path.partition("?")
        headers = {"host": "127.0.0.1:8000"} | options.get("headers", {})
        scope = {
            "type": options.get("type", "http"),
            "method": method,
            "path": unquote(path),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": options.get("client", ("127.0.0.1", 5000)),
        }
        parts = [body[start : start + chunk] for start in range(0, len(body), chunk)] or [b""]
        messages = [
            {"type": "http.request", "body": part, "more_body": place < len(parts) or options.get("silent", False)}
            for place, part in enumerate(parts, 1)
        ]
        self.sent: list[dict[str, Any]] = []
        self.label = options.get("label") or FakeLabel()

        async def receive() -> dict[str, Any]:
            if not messages and options.get("silent"):
                await asyncio.sleep(60)
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            self.sent.append(message)

        self.guard = options.get("guard") or guard.Guard(self.label, studies, options.get("limits"))
        asyncio.run(self.guard(scope, receive, send))

    @property
    def seen(self) -> tuple[Any, ...] | None:
        return self.label.seen

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def outcome(self) -> tuple[int, tuple[Any, ...] | None]:
        return self.status, self.seen

    @property
    def answer(self) -> Any:
        return json.loads(b"".join(message.get("body", b"") for message in self.sent[1:]))


@pytest.fixture
def studies(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "heart_1.nii.gz").write_bytes(b"image")
    (folder / "datastore_v2.json").write_text("{}")
    (tmp_path / "secret.nii.gz").write_bytes(b"secret")
    (folder / "link.nii.gz").symlink_to(tmp_path / "secret.nii.gz")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return folder


@pytest.mark.parametrize(
    ("method", "path", "seen"),
    [
        ("GET", "/info/", ("info",)),
        ("GET", "/datastore/?output=all", ("datastore", "all")),
        ("GET", "/datastore/", ("datastore", "stats")),
        ("GET", "/datastore/image?image=heart_1", ("image", "heart_1")),
        ("HEAD", "/datastore/image?image=heart_1", ("image", "heart_1")),
        ("GET", "/datastore/label?label=heart_1&tag=original", ("label", "heart_1", "original")),
        ("HEAD", "/datastore/label?image=heart_1&tag=final", ("label", "heart_1", "final")),
        ("GET", "/train/?check_if_running=true", ("train_status", True)),
        ("GET", "/train/", ("train_status", False)),
        ("DELETE", "/train/", ("stop_training",)),
        ("POST", "/activelearning/first", ("next_sample", "first", {})),
    ],
)
def test_what_a_client_needs_is_open(studies, method, path, seen):
    assert Call(studies, method, path).outcome == (200, seen)


CLOSED = {
    "GET": "/ /model/acdc /model/info/acdc /session/x?image=true /logs/ /proxy/dicom/wado/x /ohif/ /docs /openapi.json "
    "/static/x /datastore/dataset /info/../model/acdc",
    "PUT": "/model/acdc /session/ /datastore/label/info?label=heart_1&tag=final",
    "POST": "/reload /batch/infer/acdc /scoring/x /infer/wsi/acdc /train/",
    "DELETE": "/model/acdc /datastore/?id=heart_1 /datastore/image?id=heart_1 /datastore/label?id=heart_1&tag=final",
    "OPTIONS": "/info/",
    "TRACE": "/info/",
}


@pytest.mark.parametrize(("method", "path"), [(method, path) for method in CLOSED for path in CLOSED[method].split()])
def test_all_else_is_closed(studies, method, path):
    assert Call(studies, method, path).outcome == (403, None)


class TestWhoMayAsk:
    @pytest.mark.parametrize("client", [("192.168.1.7", 1), ("10.0.0.1", 1), ("::ffff:10.0.0.1", 1), ("unknown", 1)])
    def test_other_machines_are_refused(self, studies, client):
        assert Call(studies, "GET", "/info/", client=client).outcome == (403, None)

    @pytest.mark.parametrize("client", [("127.0.0.1", 1), ("::1", 1), None])
    def test_this_machine_is_not(self, studies, client):
        assert Call(studies, "GET", "/info/", client=client).status == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "127.0.0.1:80:1"]
    )
    def test_other_host_names_are_refused(self, studies, host):
        """A page whose name was made to lead here would otherwise be of our own origin."""
        assert Call(studies, "GET", "/info/", headers={"host": host}).status == 403

    @pytest.mark.parametrize("host", ["localhost:8000", "LOCALHOST", "[::1]:8000", "127.0.0.1"])
    def test_own_names(self, studies, host):
        assert Call(studies, "GET", "/info/", headers={"host": host}).status == 200

    PAGES = [("origin", "https://evil.example"), ("origin", "null"), ("origin", "http://127.0.0.1:8000")]
    PAGES += [("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site")]

    @pytest.mark.parametrize("header", PAGES)
    def test_web_pages_are_refused(self, studies, header):
        call = Call(studies, "POST", "/train/acdc", b"{}", headers=dict([header]))
        assert call.status == 403
        assert "web pages" in call.answer["detail"]

    def test_websockets_are_refused(self, studies):
        call = Call(studies, "GET", "/info/", type="websocket")
        assert call.sent == [{"type": "websocket.close", "code": 1008}]
        assert call.seen is None


class TestImages:
    """Label takes whatever exists for an image: a path in the address, or in the parameters."""

    STATUS = dict.fromkeys(("/etc/passwd", "../secret", "..%2Fsecret", "%2e%2e%2fsecret"), 400)
    STATUS |= dict.fromkeys(("..", ".lock", "", "heart_1%00", "a\\b"), 400)
    STATUS |= {"heart_2": 404, "heart_1.nii.gz": 404, "datastore_v2": 404, "link": 403}

    @pytest.mark.parametrize(("name", "status"), STATUS.items())
    @pytest.mark.parametrize("path", ["/infer/acdc?image=", "/datastore/image?image="])
    def test_only_those_of_the_studies_folder(self, studies, path, name, status):
        method = "POST" if "infer" in path else "GET"
        assert Call(studies, method, path + name).outcome == (status, None)

    def test_a_file_in_the_working_directory_is_no_image(self, studies):
        Path("heart_1").write_text("Label would take this")
        assert Call(studies, "POST", "/infer/acdc?image=heart_1").status == 403

    def test_the_last_of_two_names_counts_for_guard_and_label_alike(self, studies):
        assert Call(studies, "POST", "/infer/acdc?image=heart_1&image=/etc/passwd").status == 400
        call = Call(studies, "POST", "/infer/acdc?image=/etc/passwd&image=heart_1")
        assert call.seen[2] == "heart_1"


class TestInfer:
    def test_what_slicer_sends(self, studies):
        """All options that the server offers come back, and what is no business of a client is dropped."""
        params = {"device": "NVIDIA RTX A6000", "model_filename": "../../other.pt", "image": "/etc/passwd"}
        params |= {"label": "/etc/passwd", "model": "other", "save_label": True, "client_id": "user-xyz"}
        params |= {"result_extension": ".nrrd", "result_dtype": "uint8"}
        path = "/infer/acdc?image=heart_1&session_id=1&output=image"
        call = Call(studies, "POST", path, form(params), headers={"content-type": FORM})
        kept = {key: params[key] for key in ("client_id", "device", "result_extension", "result_dtype")}
        assert call.outcome == (200, ("infer", "acdc", "heart_1", "image", kept))

    @pytest.mark.parametrize(
        "params",
        [
            {"device": "$__import__('os').system('id')"},
            {"device": "@bundle_root"},
            {"device": "%other.json#device"},
            {"device": ["cpu"]},
            {"result_extension": "/../../x.nii"},
            {"result_dtype": "object"},
        ],
    )
    def test_values_that_would_reach_too_far(self, studies, params):
        call = Call(studies, "POST", "/infer/acdc?image=heart_1", form(params), headers={"content-type": FORM})
        assert call.outcome == (400, None)

    @pytest.mark.parametrize("name", ["file", "label"])
    def test_no_files(self, studies, name):
        body = form({}, **{name: ("x.nii.gz", b"x")})
        assert Call(studies, "POST", "/infer/acdc?image=heart_1", body, headers={"content-type": FORM}).status == 403

    def test_urlencoded_parameters(self, studies):
        headers = {"content-type": "application/x-www-form-urlencoded"}
        body = b"params=%7B%22image%22%3A%22%2Fetc%2Fpasswd%22%7D"
        call = Call(studies, "POST", "/infer/acdc?image=heart_1", body, headers=headers)
        assert call.seen == ("infer", "acdc", "heart_1", "all", {})

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            ("text/plain", b"params={}"),
            ("multipart/form-data", b"x"),
            (FORM, b"--limit\r\n"),
            (FORM, form("[]")),
            (FORM, form("{")),
            (FORM, form({}).replace(b"--limit--", form({}))),
        ],
    )
    def test_forms_that_cannot_be_read(self, studies, kind, body):
        call = Call(studies, "POST", "/infer/acdc?image=heart_1", body, headers={"content-type": kind})
        assert call.status == 400

    @pytest.mark.parametrize("declared", [{}, {"content-length": "9999"}])
    def test_too_large(self, studies, declared):
        headers = {"content-type": FORM} | declared
        words = studies, "POST", "/infer/acdc?image=heart_1", form({"client_id": "x" * 200})
        assert Call(*words, headers=headers, limits=guard.Limits(request=100)).status == 413


class TestUploads:
    def put(self, studies: Path, path: str, *args: Any, **kwargs: Any) -> Call:
        return Call(studies, "PUT", path, form(*args, **kwargs), headers={"content-type": FORM})

    def test_label(self, studies):
        content = bytes(range(256)) * 20 + b"\r\n\r\n--limi\r\n"
        params = {"label_info": [{"name": "rv", "idx": 1}], "annotated": ["RV"], "scribbles": False}
        params |= {"unions": {"heart": ["RV", "LV"]}, "client_id": "me", "ts": 1, "name": "/x"}
        call = self.put(studies, "/datastore/label?image=heart_1&user=x", params, label=("/tmp/a b/x.nii.gz", content))
        kept = {key: params[key] for key in ("client_id", "label_info", "annotated", "scribbles", "unions")}
        assert call.outcome == (200, ("save_label", "heart_1", "final", content, ".nii.gz", kept))

    def test_image(self, studies):
        call = self.put(studies, "/datastore/?image=heart_2", {}, file=("x.nii", b"new"))
        assert call.seen == ("save_image", "heart_2", b"new", ".nii", {})

    @pytest.mark.parametrize(
        ("path", "files", "status"),
        [
            ("/datastore/label?image=heart_9", {"label": ("x.nii", b"")}, 404),
            ("/datastore/label?image=../x", {"label": ("x.nii", b"")}, 400),
            ("/datastore/label?image=heart_1&tag=../../x", {"label": ("x.nii", b"")}, 400),
            ("/datastore/label?image=heart_1", {"label": ("x.json", b"")}, 400),
            ("/datastore/label?image=heart_1", {"label": ("x", b"")}, 400),
            ("/datastore/label?image=heart_1", {}, 400),
            ("/datastore/label?image=heart_1", {"label": ("x.nii", b""), "more": ("y.nii", b"")}, 400),
            ("/datastore/label", {"label": ("x.nii", b"")}, 400),
            ("/datastore/?image=heart_1", {"file": ("x.nii", b"")}, 409),
            ("/datastore/?image=../x", {"file": ("x.nii", b"")}, 400),
            ("/datastore/?image=datastore_v2", {"file": ("x.json", b"{}")}, 400),
            ("/datastore/image", {"file": ("x.nii", b"")}, 400),
        ],
    )
    def test_what_would_be_written_elsewhere(self, studies, path, files, status):
        assert self.put(studies, path, {}, **files).outcome == (status, None)

    def test_too_large(self, studies):
        words = studies, "PUT", "/datastore/label?image=heart_1", form({}, label=("x.nii", b"x" * 6000))
        assert Call(*words, headers={"content-type": FORM}, limits=guard.Limits(upload=5000)).status == 413

    def test_cut_short(self, studies):
        body = form({}, label=("x.nii", b"content"))[:-20]
        call = Call(studies, "PUT", "/datastore/label?image=heart_1", body, headers={"content-type": FORM})
        assert call.status == 400


class TestTrain:
    def test_what_slicer_sends(self, studies):
        params = {"device": "cpu", "pretrained": True, "max_epochs": 5, "val_split": 0.2, "multi_gpu": True}
        params |= {"gpus": "all", "tracking": "mlflow", "tracking_uri": "http://evil.example", "run_id": ""}
        params |= {"tracking_experiment_name": "", "model_filename": "/tmp/evil.pt"}
        call = Call(studies, "POST", "/train/acdc?run_sync=true", json.dumps(params).encode())
        kept = {"max_epochs": 5, "val_split": 0.2, "device": "cpu", "multi_gpu": False}
        assert call.seen == ("train", "acdc", kept)

    WRONG = [{"max_epochs": value} for value in (0, "$print('hello')", True)]
    WRONG += [{"val_split": value} for value in (1, "0.2", -1)]

    @pytest.mark.parametrize("params", [*WRONG, {"device": "$print('hello')"}, []])
    def test_values_that_make_no_sense(self, studies, params):
        assert Call(studies, "POST", "/train/acdc", json.dumps(params).encode()).status == 400

    def test_closed(self, studies):
        label = FakeLabel()
        label.trainers = []
        call = Call(studies, "POST", "/train/acdc", b"{}", label=label)
        assert (call.status, call.seen) == (403, None)
        assert "--no-training" in call.answer["detail"]


class TestReasons:
    """Whatever a client does wrong is a 4xx with a reason."""

    @pytest.mark.parametrize("path", ["/infer/other?image=heart_1", "/train/other", "/activelearning/other"])
    def test_unknown_names(self, studies, path):
        call = Call(studies, "POST", path)
        assert (call.status, call.seen) == (404, None)
        assert "there is no" in call.answer["detail"]

    @pytest.mark.parametrize("length", [201, 300, 5000])
    def test_long_names(self, studies, length):
        call = Call(studies, "POST", f"/infer/acdc?image={'x' * length}")
        assert call.status == 400
        assert "shorter name" in call.answer["detail"]

    @pytest.mark.parametrize("text", ["[" * 100000, '{"a":' * 100000])
    def test_deep_json(self, studies, text):
        assert Call(studies, "POST", "/train/acdc", text.encode()).status == 400
        words = studies, "POST", "/infer/acdc?image=heart_1", form(text)
        assert Call(*words, headers={"content-type": FORM}).status == 400

    def test_failure_of_label(self, studies):
        label = FakeLabel()

        def infer(*words: Any) -> None:
            raise RuntimeError(f"{studies}/heart_1.nii.gz: out of memory")

        label.infer = infer
        call = Call(studies, "POST", "/infer/acdc?image=heart_1", label=label)
        assert call.status == 500
        assert "heart_1.nii.gz: out of memory" in call.answer["detail"]
        assert str(studies) not in call.answer["detail"]

    def test_refusal_of_label(self, studies):
        label = FakeLabel()

        def save(*words: Any) -> None:
            raise guard.Refused(422, "the label is refused")

        label.save_label = save
        words = studies, "PUT", "/datastore/label?image=heart_1", form({}, label=("x.nii", b"x"))
        assert Call(*words, headers={"content-type": FORM}, label=label).status == 422

    @pytest.mark.parametrize(
        ("text", "result"),
        [
            ("/home/me/studies/a.nii.gz", "a.nii.gz"),
            ("cannot read '/srv/x/a.nii' (no file)", "cannot read 'a.nii' (no file)"),
            ('File "/opt/env/lib/x.py", line 3', 'File "x.py", line 3'),
            ("http://127.0.0.1:8000/info/", "http://127.0.0.1:8000/info/"),
            ("GET /info/", "GET /info/"),
            ("1/2 and a/b", "1/2 and a/b"),
        ],
    )
    def test_no_path_in_answers(self, text, result):
        assert guard.without_paths({"a": [text]}) == {"a": [result]}


def test_inference_keeps_nobody_waiting(studies):
    """A second inference waits for the first; all other requests are answered meanwhile."""
    label, running, release = FakeLabel(), threading.Event(), threading.Event()
    most = 0

    def infer(*words: Any) -> dict[str, Any]:
        nonlocal most
        most += 1
        assert most == 1
        running.set()
        assert release.wait(20)
        most -= 1
        return {}

    label.infer = infer
    stands = guard.Guard(label, studies)

    async def ask(method: str, path: str) -> int:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        path, _, query = path.partition("?")
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
        await stands(scope | {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)}, receive, send)
        return sent[0]["status"]

    async def both() -> list[int]:
        inferences = [asyncio.create_task(ask("POST", "/infer/acdc?image=heart_1")) for _ in range(2)]
        while not running.is_set():
            await asyncio.sleep(0.01)
        info = await asyncio.wait_for(ask("GET", "/info/"), 10)
        assert not any(task.done() for task in inferences)
        release.set()
        return [info, *await asyncio.gather(*inferences)]

    assert asyncio.run(both()) == [200, 200, 200]


class TestLimits:
    def test_length_in_two_ways(self, studies):
        headers = {"content-length": "2", "transfer-encoding": "chunked"}
        call = Call(studies, "POST", "/train/acdc", b"{}", headers=headers)
        assert (call.status, call.seen) == (400, None)
        assert (b"connection", b"close") in call.sent[0]["headers"]

    @pytest.mark.parametrize("limits", [{"silence": 0.05}, {"body": 0.05}])
    def test_slow_body(self, studies, limits):
        body = form({}, label=("x.nii", b"x" * 5000))
        options = {"headers": {"content-type": FORM}, "silent": True, "limits": guard.Limits(**limits)}
        assert Call(studies, "PUT", "/datastore/label?image=heart_1", body[:2000], **options).status == 408

    @pytest.mark.parametrize("limits", [{"quota": 10}, {"reserve": 2**60}])
    def test_no_room(self, studies, limits):
        body, headers = form({}, file=("x.nii", b"x" * 50)), {"content-type": FORM, "content-length": "50"}
        call = Call(studies, "PUT", "/datastore/?image=new", body, headers=headers, limits=guard.Limits(**limits))
        assert (call.status, call.seen) == (507, None)

    def test_parallel_uploads(self, studies):
        stands = guard.Guard(FakeLabel(), studies, guard.Limits(uploads=2))
        stands.receiving = 2
        words = studies, "PUT", "/datastore/?image=new", form({}, file=("x.nii", b"x"))
        assert Call(*words, headers={"content-type": FORM}, guard=stands).status == 503
        assert stands.receiving == 2

    def test_waiting_inferences(self, studies):
        stands = guard.Guard(FakeLabel(), studies, guard.Limits(waiting=1))
        stands.inferences = 2
        assert Call(studies, "POST", "/infer/acdc?image=heart_1", guard=stands).status == 503

    def test_memory_of_an_upload(self, studies):
        """A file goes to the disk as it comes in."""
        body = form({}, file=("x.nii", bytes(2**25)))
        tracemalloc.start()
        label = FakeLabel()
        label.save_image = lambda *words: {}
        call = Call(studies, "PUT", "/datastore/?image=new", body, 2**16, headers={"content-type": FORM}, label=label)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert call.status == 200
        assert peak < 2 * 2**25  # the test's own pieces of the body, and little more


class TestAccessLog:
    def entries(self, caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
        return [json.loads(record.message) for record in caplog.records if record.name == "dcl_label.access"]

    def test_who_what_when(self, studies, caplog):
        login = base64.b64encode(b"alice:secret").decode()
        headers = {"x-forwarded-for": "10.1.2.3", "authorization": f"Basic {login}"}
        with caplog.at_level("INFO", logger="dcl_label.access"):
            call = Call(studies, "POST", "/infer/acdc?image=heart_1&patient=Doe", headers=headers)
        assert call.status == 200  # a proxy on this machine that names its client is none of the other machines
        (entry,) = self.entries(caplog)
        assert entry.pop("time").endswith("Z")
        assert entry.pop("seconds") >= 0
        assert entry == {
            "client": "127.0.0.1",
            "forwarded_for": "10.1.2.3",
            "user": "alice",
            "method": "POST",
            "path": "/infer/acdc",
            "id": "heart_1",
            "status": 200,
        }

    def test_refusals(self, studies, caplog):
        with caplog.at_level("INFO", logger="dcl_label.access"):
            Call(studies, "GET", "/model/acdc", client=("10.0.0.1", 1))
        assert self.entries(caplog)[0]["status"] == 403


def test_training_ends_with_the_server(studies):
    label, sent = FakeLabel(), []
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    asyncio.run(guard.Guard(label, studies)({"type": "lifespan"}, receive, send))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert label.seen == ("stop",)
