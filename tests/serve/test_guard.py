"""The guard before MONAI Label, without MONAI Label: what gets through, and as what."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl

import pytest

SOURCE = Path(__file__).parents[2] / "serve" / "label" / "guard.py"
FORM = "multipart/form-data; boundary=limit"


def load_guard() -> Any:
    specification = importlib.util.spec_from_file_location("dcl_label_guard", SOURCE)
    module = importlib.util.module_from_spec(specification)
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


class Call:
    """One request through the guard; ``seen`` is what the application behind it got."""

    def __init__(self, studies: Path, method: str, path: str, body: bytes = b"", chunk: int = 1000, **options: Any):
        self.seen: dict[str, Any] | None = None
        path, _, query = path.partition("?")
        headers = {"host": "127.0.0.1:8000"} | options.get("headers", {})
        scope = {
            "type": options.get("type", "http"),
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": options.get("client", ("127.0.0.1", 5000)),
        }
        parts = [body[start : start + chunk] for start in range(0, len(body), chunk)] or [b""]
        messages = [
            {"type": "http.request", "body": part, "more_body": place < len(parts)}
            for place, part in enumerate(parts, 1)
        ]
        self.sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            self.sent.append(message)

        async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
            message = await receive()
            self.seen = scope | {"body": message.get("body", b""), "headers": dict(scope["headers"])}
            await send({"type": "http.response.start", "status": 200, "headers": []})

        asyncio.run(guard.Guard(app, studies)(scope, receive, send))

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.seen["query_string"].decode(), keep_blank_values=True))


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
    ("method", "path"),
    [
        ("GET", "/info/"),
        ("GET", "/datastore/?output=all"),
        ("GET", "/datastore/image?image=heart_1"),
        ("HEAD", "/datastore/image?image=heart_1"),
        ("GET", "/datastore/label?label=heart_1&tag=original"),
        ("GET", "/train/?check_if_running=true"),
        ("DELETE", "/train/"),
        ("POST", "/activelearning/first"),
    ],
)
def test_what_a_client_needs_is_open(studies, method, path):
    call = Call(studies, method, path)
    assert call.status == 200
    assert call.seen["path"] == path.partition("?")[0]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/model/acdc"),
        ("PUT", "/model/acdc"),
        ("DELETE", "/model/acdc"),
        ("GET", "/model/info/acdc"),
        ("PUT", "/session/"),
        ("GET", "/session/x?image=true"),
        ("GET", "/logs/"),
        ("GET", "/proxy/dicom/wado/x"),
        ("GET", "/ohif/"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/static/x"),
        ("POST", "/reload"),
        ("POST", "/batch/infer/acdc"),
        ("POST", "/scoring/x"),
        ("POST", "/infer/wsi/acdc"),
        ("POST", "/train/"),
        ("DELETE", "/datastore/?id=heart_1"),
        ("DELETE", "/datastore/image?id=heart_1"),
        ("DELETE", "/datastore/label?id=heart_1&tag=final"),
        ("GET", "/datastore/dataset"),
        ("PUT", "/datastore/label/info?label=heart_1&tag=final"),
        ("GET", "/info/../model/acdc"),
        ("OPTIONS", "/info/"),
        ("TRACE", "/info/"),
    ],
)
def test_all_else_is_closed(studies, method, path):
    call = Call(studies, method, path)
    assert call.status == 403
    assert call.seen is None


class TestWhoMayAsk:
    @pytest.mark.parametrize("client", [("192.168.1.7", 1), ("10.0.0.1", 1), ("::ffff:10.0.0.1", 1), ("unknown", 1)])
    def test_other_machines_are_refused(self, studies, client):
        call = Call(studies, "GET", "/info/", client=client)
        assert call.status == 403
        assert call.seen is None

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

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:8000"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
        ],
    )
    def test_web_pages_are_refused(self, studies, headers):
        call = Call(studies, "POST", "/train/acdc", b"{}", headers=headers)
        assert call.status == 403
        assert "web pages" in json.loads(call.sent[1]["body"])["detail"]

    def test_websockets_are_refused(self, studies):
        call = Call(studies, "GET", "/info/", type="websocket")
        assert call.sent == [{"type": "websocket.close", "code": 1008}]
        assert call.seen is None


class TestImages:
    """Label takes whatever exists for an image: a path in the address, or in the parameters."""

    @pytest.mark.parametrize(
        ("name", "status"),
        [
            ("/etc/passwd", 400),
            ("../secret", 400),
            ("..%2Fsecret", 400),
            ("%2e%2e%2fsecret", 400),
            ("..", 400),
            (".lock", 400),
            ("", 400),
            ("heart_1%00", 400),
            ("a\\b", 400),
            ("heart_2", 404),
            ("heart_1.nii.gz", 404),
            ("datastore_v2", 404),
            ("link", 403),
        ],
    )
    @pytest.mark.parametrize("path", ["/infer/acdc?image=", "/datastore/image?image="])
    def test_only_those_of_the_studies_folder(self, studies, path, name, status):
        method = "POST" if "infer" in path else "GET"
        call = Call(studies, method, path + name)
        assert call.status == status
        assert call.seen is None

    def test_a_file_in_the_working_directory_is_no_image(self, studies):
        Path("heart_1").write_text("Label would take this")
        assert Call(studies, "POST", "/infer/acdc?image=heart_1").status == 403

    def test_the_last_of_two_names_counts_for_guard_and_label_alike(self, studies):
        assert Call(studies, "POST", "/infer/acdc?image=heart_1&image=/etc/passwd").status == 400
        call = Call(studies, "POST", "/infer/acdc?image=/etc/passwd&image=heart_1")
        assert call.seen["query_string"] == b"image=heart_1"


class TestInfer:
    def test_what_slicer_sends(self, studies):
        """All options that the server offers come back, and what is no business of a client is dropped."""
        params = {
            "device": "NVIDIA RTX A6000",
            "model_filename": "../../other.pt",
            "image": "/etc/passwd",
            "label": "/etc/passwd",
            "model": "other",
            "save_label": True,
            "result_extension": ".nrrd",
            "result_dtype": "uint8",
            "client_id": "user-xyz",
        }
        path = "/infer/acdc?image=heart_1&session_id=1&output=image"
        call = Call(studies, "POST", path, form(params), headers={"content-type": FORM, "content-length": "1"})
        assert call.status == 200
        assert call.query == {"image": "heart_1", "output": "image"}
        assert json.loads(parse_qs(call.seen["body"].decode())["params"][0]) == {
            "device": "NVIDIA RTX A6000",
            "result_extension": ".nrrd",
            "result_dtype": "uint8",
            "client_id": "user-xyz",
        }
        assert call.seen["headers"][b"content-length"] == str(len(call.seen["body"])).encode()

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
        assert call.status == 400
        assert call.seen is None

    @pytest.mark.parametrize("name", ["file", "label"])
    def test_no_files(self, studies, name):
        body = form({}, **{name: ("x.nii.gz", b"x")})
        assert Call(studies, "POST", "/infer/acdc?image=heart_1", body, headers={"content-type": FORM}).status == 403

    def test_urlencoded_parameters(self, studies):
        headers = {"content-type": "application/x-www-form-urlencoded"}
        body = b"params=%7B%22image%22%3A%22%2Fetc%2Fpasswd%22%7D"
        call = Call(studies, "POST", "/infer/acdc?image=heart_1", body, headers=headers)
        assert parse_qs(call.seen["body"].decode())["params"] == ["{}"]

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

    def test_too_large(self, studies, monkeypatch):
        monkeypatch.setattr(guard, "REQUEST_LIMIT", 100)
        body = form({"client_id": "x" * 200})
        assert Call(studies, "POST", "/infer/acdc?image=heart_1", body, headers={"content-type": FORM}).status == 413


class TestUploads:
    def put(self, studies: Path, path: str, *args: Any, **kwargs: Any) -> Call:
        return Call(studies, "PUT", path, form(*args, **kwargs), headers={"content-type": FORM})

    def test_label(self, studies):
        content = bytes(range(256)) * 20 + b"\r\n\r\n--limi\r\n"
        params = {
            "label_info": [{"name": "rv", "idx": 1}],
            "annotated": ["RV"],
            "client_id": "me",
            "ts": 1,
            "name": "/x",
        }
        call = self.put(studies, "/datastore/label?image=heart_1&user=x", params, label=("/tmp/a b/x.nii.gz", content))
        assert call.status == 200
        assert call.query == {"image": "heart_1"}
        # what Label sees is a form of the guard's own, which the guard can read again
        kind = call.seen["headers"][b"content-type"].decode()
        again = Call(
            studies, "PUT", "/datastore/label?image=heart_1", call.seen["body"], headers={"content-type": kind}
        )
        assert again.seen["body"] == call.seen["body"]
        assert b'filename="upload.nii.gz"' in call.seen["body"]
        assert b"/tmp" not in call.seen["body"]
        assert content in call.seen["body"]
        kept = json.loads(call.seen["body"].split(b"\r\n\r\n")[1].split(b"\r\n")[0])
        assert kept == {key: params[key] for key in ("label_info", "annotated", "client_id")}

    def test_image(self, studies):
        call = self.put(studies, "/datastore/?image=heart_2", {}, file=("x.nii", b"new"))
        assert call.status == 200
        assert call.query == {"image": "heart_2"}

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
        call = self.put(studies, path, {}, **files)
        assert call.status == status
        assert call.seen is None

    def test_too_large(self, studies, monkeypatch):
        monkeypatch.setattr(guard, "UPLOAD_LIMIT", 5000)
        assert self.put(studies, "/datastore/label?image=heart_1", {}, label=("x.nii", b"x" * 6000)).status == 413

    def test_cut_short(self, studies):
        body = form({}, label=("x.nii", b"content"))[:-20]
        call = Call(studies, "PUT", "/datastore/label?image=heart_1", body, headers={"content-type": FORM})
        assert call.status == 400


class TestTrain:
    def test_what_slicer_sends(self, studies):
        params = {
            "device": "cpu",
            "pretrained": True,
            "max_epochs": 5,
            "val_split": 0.2,
            "multi_gpu": True,
            "gpus": "all",
            "tracking": "mlflow",
            "tracking_uri": "http://evil.example",
            "tracking_experiment_name": "",
            "run_id": "",
            "model_filename": "/tmp/evil.pt",
        }
        call = Call(studies, "POST", "/train/acdc?run_sync=true", json.dumps(params).encode())
        assert json.loads(call.seen["body"]) == {"max_epochs": 5, "val_split": 0.2, "device": "cpu", "multi_gpu": False}
        assert call.seen["query_string"] == b""
        assert call.seen["headers"][b"content-type"] == b"application/json"

    @pytest.mark.parametrize(
        "params",
        [
            {"max_epochs": 0},
            {"max_epochs": "$print('hello')"},
            {"max_epochs": True},
            {"val_split": 1},
            {"val_split": "0.2"},
            {"val_split": -1},
            {"device": "$print('hello')"},
            [],
        ],
    )
    def test_values_that_make_no_sense(self, studies, params):
        assert Call(studies, "POST", "/train/acdc", json.dumps(params).encode()).status == 400
