"""The real MONAI Label server in its own environment: segment, store partial labels, train, segment again."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
from helpers import run_bundle

from dcl_monai.networks import CompNet, DCLNet, load_model
from dcl_monai.synthetic import write_synthetic_acdc, write_synthetic_mmwhs
from dcl_monai.transforms import stored_annotation

ROOT = Path(__file__).parents[2]
ENVIRONMENT = Path(os.environ.get("DCL_LABEL_ENV", ROOT / "serve" / ".venv-label")).absolute()
PATIENCE = 240
CLASSES = {"RV": 1, "MYO": 2, "LV": 3}
SMALL = {"split": [8, 1, 3], "pixdim": [5.0, 5.0, -1], "spatial_size": [40, 40, -1], "bank_size": 6}
SMALL |= {"stage1_epochs": 6, "stage2_epochs": 0, "learning_rate": 0.004, "device": "$torch.device('cpu')"}
SMALL |= {"network_def#compnet#features": [8, 8, 16, 16, 16, 8]}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ENVIRONMENT / "dcl-label-ready").is_file(),
        reason=f"{ENVIRONMENT} is not an environment of MONAI Label. Make it (some minutes, 2 GB) and run this file "
        "again: bash serve/label/install.sh --torchvision tests/serve/torchvision",
    ),
]


def quiet_environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "DCL_LABEL_ENV": str(ENVIRONMENT)}


def start(
    bundle: Path, studies: Path, workspace: Path, port: int, *words: str, **options: Any
) -> subprocess.Popen[str]:
    line = ["bash", "serve/label/start.sh", "--bundle", bundle, "--studies", studies, "--workspace", workspace]
    log = options.pop("stdout", None) or (workspace.parent / f"{workspace.name}.log").open("w")
    return subprocess.Popen(
        [*map(str, line), "--port", str(port), *words],
        cwd=ROOT,
        env=quiet_environment(),
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **options,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server that runs while the context is open."""

    def __init__(self, bundle: Path, studies: Path, workspace: Path) -> None:
        self.studies, self.workspace, self.port = studies, workspace, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.model = workspace / "app" / "model" / bundle.name / "models" / "model.pt"
        self.process = start(bundle, studies, workspace, self.port)

    def __enter__(self) -> Server:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/info/", timeout=60).read()
                return self
            except OSError:
                time.sleep(0.5)
        self.__exit__()
        raise AssertionError(f"no answer: {(self.workspace.parent / f'{self.workspace.name}.log').read_text()[-3000:]}")

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(30)

    def steps(self, *steps: list[Any]) -> list[Any]:
        """Let MONAI Label's client take these steps; see client.py."""
        # not the server's folder: a client gives a result the server's name for it, which the server removes
        received = self.workspace.with_name(f"{self.workspace.name}.received")
        done = subprocess.run(
            [ENVIRONMENT / "bin" / "python", ROOT / "tests" / "serve" / "client.py", self.url, received],
            input=json.dumps(steps),
            env={key: value for key, value in quiet_environment().items() if key != "PYTHONPATH"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        request = urllib.request.Request(self.url + path, body, method=method, headers=headers)
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        return answer.status, answer.read()

    def status(self, method: str, path: str, **headers: str) -> int:
        return self.ask(method, path, **headers)[0]

    def put(self, path: str, field: str, content: bytes) -> tuple[int, str]:
        """Upload a file."""
        head = f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="a.nii.gz"\r\n\r\n'.encode()
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        status, answer = self.ask("PUT", path, head + content + b"\r\n--x--\r\n", **kind)
        return status, answer.decode()


def voxels(path: Path) -> np.ndarray:
    return np.asanyarray(nib.load(path).dataobj)


def dice(predicted: Path, truth: Path) -> dict[str, float]:
    y, t = voxels(predicted), voxels(truth)
    return {name: 2 * ((y == j) & (t == j)).sum() / ((y == j).sum() + (t == j).sum()) for name, j in CLASSES.items()}


def systole(path: Path) -> Path:
    """The file of the same patient's end of systole."""
    number = re.search(r"^ES: (\d+)$", (path.parent / "Info.cfg").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return path.with_name(path.name.replace("frame01", f"frame{int(number[1]):02d}"))


def wait_for_images(server: Server, number: int) -> None:
    """Until the server has seen that many files."""
    deadline = time.monotonic() + PATIENCE
    while json.load(urllib.request.urlopen(f"{server.url}/datastore/?output=stats"))["total"] < number:
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.fixture(scope="module")
def hearts(tmp_path_factory) -> Path:
    return write_synthetic_acdc(tmp_path_factory.mktemp("hearts"), num_subjects=12, progress=False)


@pytest.fixture(scope="module")
def acdc(hearts, tmp_path_factory) -> tuple[Path, list[tuple[Path, Path]]]:
    """A bundle whose model has begun to learn, and three images that it has not seen, with their truth."""
    folder = tmp_path_factory.mktemp("bundle") / "acdc"
    folder.mkdir()
    (folder / "configs").symlink_to(ROOT / "bundles" / "acdc" / "configs")
    (folder / "models").mkdir()
    paths = {"dataset_dir": str(hearts), "output_dir": str(folder / "output")}
    paths |= {"model_file": str(folder / "models" / "model.pt"), "config_file": "bundles/acdc/train.json"}
    run_bundle("run", "training", **paths, **SMALL)
    listed = json.loads((folder / "output" / "datalist.json").read_text(encoding="utf-8"))["test"]
    unseen = [item for item in listed if item["phase"] == "ED"]
    files = [[Path(os.path.normpath(folder / "output" / item[key])) for key in ("image", "label")] for item in unseen]
    return folder, [(image, label) for image, label in files]


@pytest.fixture(scope="module")
def server(acdc, tmp_path_factory) -> Iterator[Server]:
    bundle, images = acdc
    studies = tmp_path_factory.mktemp("studies")
    for image, _ in images:
        (studies / image.name).write_bytes(image.read_bytes())
    with Server(bundle, studies, tmp_path_factory.mktemp("label") / "workspace") as running:
        yield running


def image_id(path: Path) -> str:
    return path.name.removesuffix(".nii.gz")


def assert_same_labels(served: Path, folder: Path) -> None:
    a, b = nib.load(served), nib.load(folder)
    assert a.shape == b.shape
    np.testing.assert_allclose(a.affine, b.affine, atol=1e-3)
    assert len(np.unique(voxels(folder))) > 1
    assert (voxels(served) != voxels(folder)).mean() <= 1e-4


def test_same_voxels_as_folder_inference_in_2d(server, acdc, tmp_path):
    bundle, images = acdc
    paths = {"dataset_dir": str(server.studies), "output_dir": str(tmp_path / "folder"), "contact_sheet": "false"}
    model = str(bundle / "models" / "model.pt")
    run_bundle("run", config_file="bundles/acdc/configs/inference.json", model_file=model, pattern="*.nii.gz", **paths)
    names = [image_id(image) for image, _ in images]
    server.steps(*(["infer", name, str(tmp_path / f"{name}.nii.gz")] for name in names))
    for name in names:
        assert_same_labels(tmp_path / f"{name}.nii.gz", tmp_path / "folder" / f"{name}_seg.nii.gz")


def test_same_voxels_as_folder_inference_in_3d(tmp_path):
    """The 3D network is of random weights: it draws all classes everywhere, the hardest case for equality."""
    bundle = tmp_path / "mmwhs"
    bundle.mkdir()
    (bundle / "configs").symlink_to(ROOT / "bundles" / "mmwhs" / "configs")
    (bundle / "models").mkdir()
    model = bundle / "models" / "model.pt"
    write_random_mmwhs(model)
    studies = tmp_path / "studies"
    studies.mkdir()
    image = next(iter(sorted(write_synthetic_mmwhs(tmp_path / "hearts", 1, progress=False).rglob("*_image.nii.gz"))))
    (studies / image.name).write_bytes(image.read_bytes())
    paths = {"dataset_dir": str(studies), "output_dir": str(tmp_path / "folder"), "contact_sheet": "false"}
    run_bundle(
        "run", config_file="bundles/mmwhs/configs/inference.json", model_file=str(model), pattern="*.nii.gz", **paths
    )
    name = image_id(image)
    with Server(bundle, studies, tmp_path / "workspace") as running:
        info, _ = running.steps(["info"], ["infer", name, str(tmp_path / "served.nii.gz")])
    assert info["labels"] == ["lv", "myo", "rv", "la", "ra", "ao", "pa"]
    assert_same_labels(tmp_path / "served.nii.gz", tmp_path / "folder" / f"{name}_seg.nii.gz")


def test_two_channels_in_one_file(tmp_path, small_bundle, write_noise):
    """Segmented as folder inference does it, and trained with a 3D label; another number of channels is refused."""
    bundle, studies, shape = small_bundle("acdc", "T1", "T2"), tmp_path / "studies", (40, 36, 5)
    grid = (3.0, 3.0, 8.0), (0.4, 0.7)
    image = write_noise(studies / "both.nii.gz", (*shape, 2), *grid, seed=4)
    write_noise(studies / "one.nii.gz", shape, *grid, seed=0)
    three = write_noise(tmp_path / "three.nii.gz", (*shape, 3), *grid, seed=0)
    paths = {"dataset_dir": str(studies), "output_dir": str(tmp_path / "folder"), "contact_sheet": "false"}
    model, label = str(bundle / "models" / "model.pt"), tmp_path / "label.nii.gz"
    run_bundle(
        "run", config_file=str(bundle / "configs/inference.json"), model_file=model, pattern="both.nii.gz", **paths
    )
    nib.save(nib.Nifti1Image(np.indices(shape)[0] // 20, nib.load(image).affine, dtype=np.uint8), label)
    with Server(bundle, studies, tmp_path / "workspace") as running:
        for status, text in (
            running.ask("POST", "/infer/acdc?image=one"),
            running.put("/datastore/image?image=three", "file", three.read_bytes()),
            running.put("/datastore/label?image=one", "label", label.read_bytes()),
        ):
            assert (status, "but the model takes 2 channel(s) (T1, T2)" in str(text)) == (422, True)
        note = {"label_info": [{"name": "rv", "idx": 1}]}
        served = ["infer", "both", str(tmp_path / "served.nii.gz")]
        *_, trained = running.steps(served, ["store", "both", str(label), note], ["train", 1])
        log = (running.workspace / "app" / "logs" / "app.log").read_text()
    assert_same_labels(tmp_path / "served.nii.gz", tmp_path / "folder" / "both_seg.nii.gz")
    assert trained["status"] == "DONE", log[-3000:]
    assert json.loads((running.model.parent / "decision.json").read_text())["epochs"] == 1


def write_random_mmwhs(path: Path) -> None:
    torch.manual_seed(0)
    classes = ["background", "LV", "MYO", "RV", "LA", "RA", "AO", "PA"]
    settings = {
        "kernel_size": [3] * 4,
        "strides": [1, 2, 2, 2],
        "upsample_kernel_size": [2] * 3,
        "filters": [4, 4, 8, 8],
    }
    settings |= {"deep_supervision": True, "deep_supr_num": 1}
    compnet = CompNet("DynUNet", len(classes), divisor=8, spatial_dims=3, **settings)
    network = DCLNet(compnet)
    size = (16, 16, 16)
    network.bank.fill(torch.rand(8, 2, 1, *size), torch.rand(8, 2, *size) > 0.5, torch.ones(8, 2) > 0)
    grid = {"pixdim": [8.0, 8.0, 8.0], "spatial_size": list(size), "network": compnet.settings}
    torch.save({"model": network.state_dict(), "settings": {"classes": classes} | grid}, path)


class TestGuard:
    """That the guard stands before the real server; all that it does is tested in test_guard.py."""

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/model/acdc", 403),
            ("GET", "/logs/", 403),
            ("GET", "/", 403),
            ("POST", "/infer/acdc?image=/etc/passwd", 400),
            ("POST", "/infer/acdc?image=nobody", 404),
            ("GET", "/datastore/?output=stats", 200),
        ],
    )
    def test_endpoints(self, server, method, path, status):
        assert server.status(method, path) == status

    def test_web_pages_and_other_names(self, server):
        assert server.status("GET", "/info/", Origin="https://example.org") == 403
        assert server.status("GET", "/info/", Host="example.org") == 403

    def test_listens_on_this_machine_only(self, server):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing; says by which address others would reach us
            address = probe.getsockname()[0]
        if address.startswith("127."):
            pytest.skip("this machine has no other address")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((address, server.port), timeout=10)

    def test_dcl_monai_of_this_checkout(self, server):
        code = "import dcl_monai; print(dcl_monai.__file__)"
        found = subprocess.check_output([ENVIRONMENT / "bin" / "python", "-I", "-c", code], text=True).strip()
        assert found == str(ROOT / "dcl_monai" / "__init__.py")


class TestRefusals:
    """Garbage is refused when it comes, with a reason that names no path of the server."""

    @pytest.fixture(autouse=True)
    def no_paths(self, server):
        self.answers: list[str] = []
        yield
        for text in self.answers:
            assert str(server.workspace) not in text
            assert str(server.studies) not in text

    def test_garbage_as_a_label(self, server, acdc):
        name = image_id(acdc[1][0][0])
        path = f"/datastore/label?image={name}"
        status, text = server.put(path, "label", b"garbage")
        self.answers.append(text)
        assert (status, "cannot be read" in text) == (422, True)
        other = nib.Nifti1Image(np.ones((3, 4, 5), np.uint8), np.eye(4)).to_bytes()
        status, text = server.put(path, "label", gzip.compress(other))
        self.answers.append(text)
        assert (status, "shape (3, 4, 5) differs" in text) == (422, True)
        assert server.status("HEAD", f"/datastore/label?image={name}&tag=final") == 404  # nothing was stored

    def test_garbage_as_an_image(self, server):
        status, text = server.put("/datastore/image?image=garbage", "file", b"garbage")
        self.answers.append(text)
        assert (status, "cannot be read" in text) == (422, True)
        assert not list(server.studies.glob("garbage*"))

    def test_image_that_cannot_be_read(self, server, acdc):
        (server.studies / "broken.nii.gz").write_bytes(acdc[1][0][0].read_bytes()[:2000])
        try:
            wait_for_images(server, len(acdc[1]) + 1)
            status, text = server.ask("POST", "/infer/acdc?image=broken")
            self.answers.append(text.decode())
            assert (status, b"broken" in text) == (422, True)
        finally:
            (server.studies / "broken.nii.gz").unlink()
            time.sleep(2)

    def test_unknown_model(self, server, acdc):
        assert server.status("POST", f"/infer/other?image={image_id(acdc[1][0][0])}") == 404

    def test_answers_hold_no_path(self, server):
        for path in ("/info/", "/datastore/?output=all", "/datastore/?output=train", "/datastore/image?image=nobody"):
            self.answers.append(server.ask("GET", path)[1].decode())
        self.answers.append(server.ask("POST", "/activelearning/first")[1].decode())


class TestLimits:
    def test_headers_that_never_end(self, server):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(b"GET /info/ HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            began = time.monotonic()
            assert client.recv(100) == b""  # the server hangs up
            assert time.monotonic() - began < 30

    def test_length_in_two_ways(self, server):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            lines = ["POST /train/acdc HTTP/1.1", "Host: 127.0.0.1", "Content-Length: 5", "Transfer-Encoding: chunked"]
            client.sendall(
                "\r\n".join([*lines, "", "0", "", "GET /info/ HTTP/1.1", "Host: 127.0.0.1", "", ""]).encode()
            )
            answer = b""
            while chunk := client.recv(10000):
                answer += chunk
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1") == 1  # what follows is not taken for a request

    def test_many_connections(self, server):
        clients = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(80)]
        try:
            assert server.status("GET", "/info/") == 503
        finally:
            for client in clients:
                client.close()
        time.sleep(2)
        assert server.status("GET", "/info/") == 200

    def test_proxy_that_names_its_client(self, server):
        assert server.status("GET", "/info/", **{"X-Forwarded-For": "10.1.2.3"}) == 200
        deadline = time.monotonic() + 20
        entries: list[dict] = []
        while not entries and time.monotonic() < deadline:  # a line is written after the answer was sent
            time.sleep(0.05)
            lines = (server.workspace / "access.log").read_text(encoding="utf-8").splitlines()
            entries = [entry for entry in map(json.loads, lines) if entry.get("forwarded_for") == "10.1.2.3"]
        assert [(entry["path"], entry["status"]) for entry in entries] == [("/info/", 200)]


class TestStart:
    def refusal(self, bundle: Path, studies: Path, workspace: Path, port: int, *words: str) -> str:
        process = start(bundle, studies, workspace, port, *words, stdout=subprocess.PIPE)
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        return output

    def test_port_in_use(self, server, acdc, tmp_path):
        output = self.refusal(acdc[0], server.studies, tmp_path / "workspace", server.port)
        assert f"error: --port {server.port}: cannot be used" in output

    def test_workspace_in_use(self, server, acdc):
        before = server.model.read_bytes()
        output = self.refusal(acdc[0], server.studies, server.workspace, free_port(), "--fresh")
        assert f"error: {server.workspace}: another server uses it" in output
        assert server.model.read_bytes() == before

    def test_truncated_model(self, server, acdc, tmp_path):
        (tmp_path / "configs").symlink_to(ROOT / "bundles" / "acdc" / "configs")
        (tmp_path / "models").mkdir()
        content = (acdc[0] / "models" / "model.pt").read_bytes()
        (tmp_path / "models" / "model.pt").write_bytes(content[: len(content) // 2])
        output = self.refusal(tmp_path, server.studies, tmp_path / "workspace", free_port())
        assert "cannot be read as a model" in output
        assert "Traceback" not in output


def test_training_ends_with_its_server(acdc, tmp_path):
    """Killed or stopped, a server leaves no training behind, and the next one on its workspace knows of it."""
    bundle, images = acdc
    studies, workspace = tmp_path / "studies", tmp_path / "workspace"
    studies.mkdir()
    for image, truth in images[:2]:
        (studies / image.name).write_bytes(image.read_bytes())
        (studies / "labels" / "final").mkdir(parents=True, exist_ok=True)
        (studies / "labels" / "final" / image.name).write_bytes(truth.read_bytes())
    for number in (signal.SIGKILL, signal.SIGTERM):
        with Server(bundle, studies, workspace) as running:
            if number == signal.SIGTERM:
                status = json.loads(running.ask("GET", "/train/")[1])
                assert (status["status"], "the server ended" in status["details"][0]) == ("STOPPED", True)
            before = running.model.read_bytes()
            assert running.ask("POST", "/train/acdc", b'{"max_epochs": 10000, "val_split": 0}')[0] == 200
            pid = running.process.pid
            (child,) = wait_for(lambda pid=pid: children(pid))
            assert running.status("POST", "/train/acdc") == 429
            os.kill(pid, number)
            running.process.wait(60)
            wait_for(lambda child=child: not Path(f"/proc/{child}").exists())
            assert running.model.read_bytes() == before
    assert json.loads((workspace / "trainings.json").read_text(encoding="utf-8"))[-1]["status"] == "STOPPED"


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(child) for child in found.split()]


def test_training_from_two_partial_labels(server, acdc, tmp_path):
    """
    The right ventricle drawn in one image, the left in another, both stored as Slicer does, as the value 1: each is
    learned as what it is, images that nobody drew in are not segmented worse, and the myocardium is still there.

    Of a model that has just begun, a single unseen image says nothing: its Dice moves by 0.1 either way with the
    starting weights. What was drawn moves by 0.3, and so is told from chance; of the unseen images the mean counts.
    """
    (first, first_truth), (second, second_truth), (third, third_truth) = acdc[1]
    before = server.model.read_bytes()
    drawn = [(first, first_truth, "RV"), (second, second_truth, "LV")]
    unseen = [(third, third_truth), *((systole(image), systole(truth)) for image, truth in acdc[1])]
    for image, _ in unseen[1:]:
        (server.studies / image.name).write_bytes(image.read_bytes())
    wait_for_images(server, len(acdc[1]) + len(unseen) - 1)

    def segment(when: str) -> list[list[Any]]:
        images = [image for image, *_ in drawn + unseen]
        return [["infer", image_id(image), str(tmp_path / f"{when}_{image.name}")] for image in images]

    steps = segment("before")
    for image, truth, name in drawn:
        label = tmp_path / image.name
        nib.save(nib.Nifti1Image((voxels(truth) == CLASSES[name]).astype(np.uint8), nib.load(truth).affine), label)
        steps.append(["store", image_id(image), str(label), {"label_info": [{"name": name.lower(), "idx": 1}]}])
    results = server.steps(*steps, ["next"], ["train", 40], *segment("after"))
    sample, status = results[len(steps) : len(steps) + 2]
    assert sample["id"] in [image_id(image) for image, _ in unseen]  # one without a label
    assert status["status"] == "DONE", status

    for image, truth, name in drawn:
        then, now = (dice(tmp_path / f"{when}_{image.name}", truth)[name] for when in ("before", "after"))
        assert now > then + 0.1, (name, then, now)
    then, now = (
        np.mean([list(dice(tmp_path / f"{when}_{image.name}", truth).values()) for image, truth in unseen], axis=0)
        for when in ("before", "after")
    )
    print(f"mean Dice (RV, MYO, LV) of {len(unseen)} images that nobody drew in: before {then}, after {now}")
    assert now.mean() > then.mean() - 0.02, (then, now)
    assert now[1] > then[1] - 0.2, (then, now)

    old, new = (load_model(file) for file in (acdc[0] / "models" / "model.pt", server.model))
    assert old["settings"] == new["settings"]
    assert old["model"].keys() == new["model"].keys()
    for name, value in old["model"].items():
        if name.startswith("bank."):
            assert torch.equal(value, new["model"][name]), name
    assert any(not torch.equal(value, new["model"][name]) for name, value in old["model"].items())
    (kept,) = (server.model.parent / "previous").iterdir()
    assert kept.read_bytes() == before == (acdc[0] / "models" / "model.pt").read_bytes()


def test_replaced_label_is_kept(server, acdc, tmp_path):
    """A person's work is never lost: with what its client said about it, and only what was replaced."""
    image, truth = acdc[1][0]
    folder = server.workspace / "previous_labels" / "final" / image_id(image)
    drawn, kept = [], [set(folder.glob("*.nii.gz"))]
    for name in ("RV", "LV"):
        drawn.append((voxels(truth) == CLASSES[name]).astype(np.uint8))
        nib.save(nib.Nifti1Image(drawn[-1], nib.load(truth).affine), tmp_path / "label.nii.gz")
        note = {"label_info": [{"name": name.lower(), "idx": 1}]}
        server.steps(["store", image_id(image), str(tmp_path / "label.nii.gz"), note])
        kept.append(set(folder.glob("*.nii.gz")))
    (replaced,) = kept[2] - kept[1]
    assert len(kept[1] - kept[0]) <= 1  # what another test stored
    assert np.array_equal(voxels(replaced), drawn[0])
    assert '"rv"' in replaced.with_name(replaced.name.replace(".nii.gz", ".json")).read_text()


def test_union_absent_and_scribbles(server, acdc, tmp_path):
    """By names of Slicer's segments and by a script's note; a training takes them, a name nobody knows is refused."""
    sent = [
        ([("RV (absent)", 1), ("LV", 2)], {}, {3: 2}),
        ([("RV+MYO+LV (union)", 1)], {}, {1: 1, 2: 1, 3: 1}),
        ([("RV", 1), ("background", 2)], {"scribbles": True}, {1: 1, 0: 2}),
    ]
    meant = [
        {"values": {0: 0, 1: 1, 2: 3}, "annotated": [1, 3]},
        {"values": {0: 0, 1: (1, 2, 3)}, "annotated": [(1, 2, 3)]},
        {"values": {1: 1, 2: 0}, "annotated": [1, 2, 3], "unlabelled": [0]},
    ]
    for (image, truth), (segments, more, values), meaning in zip(acdc[1], sent, meant, strict=True):
        drawn = np.zeros(voxels(truth).shape, np.uint8)
        for j, value in values.items():
            drawn[voxels(truth) == j] = value
        if more:
            drawn[np.arange(len(drawn)) % 8 > 0] = 0  # strokes
        nib.save(nib.Nifti1Image(drawn, nib.load(truth).affine), tmp_path / image.name)
        note = more | {"label_info": [{"name": name, "idx": idx} for name, idx in segments]}
        server.steps(["store", image_id(image), str(tmp_path / image.name), note])
        assert stored_annotation(server.studies / "labels" / "final" / image.name, ["background", *CLASSES]) == meaning
    wrong = [
        "store",
        image_id(image),
        str(tmp_path / image.name),
        {"label_info": [{"name": "heart (union)", "idx": 1}]},
    ]
    with pytest.raises(AssertionError, match=r"422; .*heart.*A\+B \(union\)"):
        server.steps(wrong)
    (status,) = server.steps(["train", 2])
    assert status["status"] == "DONE", status
