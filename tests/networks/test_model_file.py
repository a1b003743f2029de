"""A model file is read as if a stranger had sent it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest
import torch
from helpers import refusal

from dcl_monai.networks import CompNet, DCLNet, check_model, load_model, load_trained, load_weights, save_model
from dcl_monai.utils import DataError


class Malicious:
    def __reduce__(self):
        return os.mkdir, ("was-here",)


def network(**change):
    settings = {"num_classes": 3, "spatial_dims": 2, "features": [4, 4, 8, 8, 8, 4], "norm": "batch"} | change
    return DCLNet(CompNet("BasicUNet", **settings))


def test_what_training_writes(conditional_model, conditional_net):
    content = load_model(conditional_model)
    assert content["settings"]["classes"] == ["background", "MYO", "LV"]
    other = DCLNet(CompNet.from_settings(content["settings"]["network"])).eval()
    load_weights(other, content, conditional_model)
    image = torch.randn(2, 1, 32, 32)
    with torch.no_grad():
        assert torch.equal(other(image), conditional_net(image))


def test_equal_weights_give_equal_files(conditional_model, tmp_path):
    """Whatever the name, and also if they were read from a file before."""
    content = load_model(conditional_model)
    for name in ("one.pt", "folder/other.pt"):
        save_model(content["model"], content["settings"], tmp_path / name)
    again = load_model(tmp_path / "one.pt")
    save_model(again["model"], again["settings"], tmp_path / "again.pt")
    digests = {
        hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("one.pt", "folder/other.pt", "again.pt")
    }
    assert len(digests) == 1


class TestFlat:
    """What is written today: a plain state dict, with the settings as one more tensor."""

    @pytest.fixture
    def flat(self, tmp_path, conditional_model) -> Path:
        content = load_model(conditional_model)
        save_model(content["model"], content["settings"], tmp_path / "flat.pt")
        return tmp_path / "flat.pt"

    def test_is_the_same_model(self, flat, conditional_model):
        old, new = load_model(conditional_model), load_model(flat)
        assert old["settings"] == new["settings"]
        assert old["model"].keys() == new["model"].keys()
        assert all(torch.equal(value, new["model"][name]) for name, value in old["model"].items())

    def test_loads_strictly_and_travels_on(self, flat, tmp_path):
        """Into MONAI's tools and out of them: TorchScript keeps the settings, too."""
        state = torch.load(flat, weights_only=True)
        net = network().eval()
        net.load_state_dict(state)
        assert json.loads(bytes(net.settings_json.tolist())) == load_model(flat)["settings"]
        torch.jit.script(net).save(tmp_path / "model.ts")
        scripted = torch.jit.load(tmp_path / "model.ts").state_dict()
        assert torch.equal(scripted["settings_json"], state["settings_json"])

    def test_an_older_state_dict_loads_strictly(self, conditional_net):
        state = conditional_net.state_dict()
        del state["settings_json"]
        network().load_state_dict(state)

    @pytest.mark.parametrize("packed", [[1, 2, 3], [255, 254], list(b"[1]"), list(b'{"classes": 3}')])
    def test_damaged_settings(self, flat, packed):
        state = torch.load(flat, weights_only=True)
        torch.save(state | {"settings_json": torch.tensor(packed, dtype=torch.uint8)}, flat)
        TestDamaged().refused(flat, "settings are damaged")


def test_plain_state_dict(tmp_path, conditional_net):
    torch.save(conditional_net.state_dict(), tmp_path / "model.pt")
    content = load_model(tmp_path / "model.pt")
    assert content["settings"] == {}
    load_weights(network(), content, "model.pt")


def test_evaluated_for_the_classes_it_was_trained_for(conditional_model, conditional_net):
    loaded = load_trained(network(), conditional_model, ("background", "MYO", "LV"))
    assert torch.equal(loaded.state_dict()["bank.images"], conditional_net.state_dict()["bank.images"])
    for others in (["background", "LV", "MYO"], ["background", "MYO"]):
        with pytest.raises(DataError, match=f"segments background, MYO, LV, but the data has {', '.join(others)}[.]"):
            load_trained(network(), conditional_model, others)


NAN, INF = float("nan"), float("inf")
SCALED = {"clip": [-5, 5], "mean": 0.0, "std": 1.0}
DAMAGED = [
    *({"classes": value} for value in (None, ["background"], ["background", "MYO", "MYO"], ["background", "MYO", ""])),
    *({"spatial_size": value} for value in ([1.5], [32, -32, -1], [32, 0, -1], [10**9, 32, -1], [])),
    *({"pixdim": value} for value in ("1.8", *([first, 4.0, -1] for first in (0.0, -4.0, NAN, INF, True)))),
    *({"single_parts": value} for value in ("LV", [["LV"]], ["background"])),
    *({"intensity": SCALED | value} for value in ({"clip": [5, -5]}, {"std": 0.0}, {"mean": NAN}, {"mean": "0"})),
    *({"intensity": [0, 1]}, {"intensity": [None, None]}, {"spacing": [4.0, 4.0, -1]}, {"network": []}),
    {"channels": ["T1", "T2"]},
]


def rewrite(path: Path, **change: object) -> None:
    """Change settings within a model file."""
    content = torch.load(path, weights_only=True)
    content["settings"] |= change
    torch.save(content, path)


class TestDamaged:
    def refused(self, path, word):
        message = refusal(check_model, path)
        assert message.startswith(str(path))
        assert re.search(word, message)

    def test_missing(self, tmp_path):
        check_model(tmp_path / "model.pt")
        with pytest.raises(DataError, match="no such model"):
            load_model(tmp_path / "model.pt")

    @pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
    def test_truncated(self, conditional_model, keep):
        content = conditional_model.read_bytes()
        conditional_model.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
        self.refused(conditional_model, "cannot be read as a model")

    def test_one_bit_flipped(self, conditional_model):
        content = bytearray(conditional_model.read_bytes())
        content[len(content) // 2] ^= 1
        conditional_model.write_bytes(content)
        self.refused(conditional_model, "wrong checksum")

    @pytest.mark.parametrize("where", ["model", "settings", "top"])
    def test_code_is_not_run(self, tmp_path, monkeypatch, where):
        monkeypatch.chdir(tmp_path)
        content = {"model": {"weight": torch.zeros(1)}}
        torch.save(Malicious() if where == "top" else content | {where: {"x": Malicious()}}, "model.pt")
        self.refused("model.pt", "cannot be read as a model")
        assert not (tmp_path / "was-here").exists()

    @pytest.mark.parametrize("content", [[1, 2], {"model": {}}, {"model": 3}, {"model": {"a": "b"}}, {"epoch": 3}])
    def test_no_weights(self, tmp_path, content):
        torch.save(content, tmp_path / "model.pt")
        self.refused(tmp_path / "model.pt", "holds no weights")

    @pytest.mark.parametrize("change", DAMAGED, ids=str)
    def test_settings(self, conditional_model, change):
        rewrite(conditional_model, **change)
        self.refused(conditional_model, "settings are damaged")

    @pytest.mark.parametrize("intensity", [None, {"clip": [-5, 5.5], "mean": 0.0, "std": 1}])
    def test_intensity_of_a_plan(self, conditional_model, intensity):
        rewrite(conditional_model, intensity=intensity)
        assert load_model(conditional_model)["settings"]["intensity"] == intensity

    def test_of_an_earlier_version(self, conditional_model, conditional_net):
        rewrite(conditional_model, network=conditional_net.compnet.settings | {"propagation": 8})
        self.refused(conditional_model, "was trained by an earlier version .* Retrain the model")

    @pytest.mark.parametrize(
        "change", [{"pretrained": True}, {"pretrained_url": "evil"}, {"act": ["relu", {"file": "http://evil.org/x"}]}]
    )
    def test_network_that_would_load_something(self, conditional_model, conditional_net, change):
        rewrite(conditional_model, network=conditional_net.compnet.settings | change)
        self.refused(conditional_model, "settings are damaged")


class TestOtherNetwork:
    @pytest.mark.parametrize(
        ("change", "word"),
        [
            ({"num_classes": 4}, "does not fit the conditional network of 4 classes"),
            ({"conditional": False}, "does not fit the unconditional network of 3 classes"),
            ({"features": [4, 4, 8, 8, 8, 8]}, "does not fit"),
            ({"norm": "instance"}, "does not fit"),
        ],
    )
    def test_says_what_differs(self, conditional_model, change, word):
        with pytest.raises(DataError, match=word) as raised:
            load_weights(network(**change), load_model(conditional_model), conditional_model)
        assert "a conditional model of 3 classes" in str(raised.value)
        assert "\n" not in str(raised.value)

    def test_unconditional_file(self, tmp_path):
        torch.save({"model": network(conditional=False).state_dict()}, tmp_path / "model.pt")
        with pytest.raises(DataError, match="a model without conditions"):
            load_weights(network(), load_model(tmp_path / "model.pt"), "model.pt")

    def test_no_bank(self, tmp_path):
        torch.save({"model": network().state_dict()}, tmp_path / "model.pt")
        with pytest.raises(DataError, match="carries no conditional bank"):
            load_weights(network(), load_model(tmp_path / "model.pt"), "model.pt")

    @pytest.mark.parametrize("name", ["images", "masks", "valid", "descriptors"])
    def test_bank_that_does_not_fit_together(self, conditional_model, name):
        content = load_model(conditional_model)
        content["model"][f"bank.{name}"] = content["model"][f"bank.{name}"][:2]
        with pytest.raises(DataError, match="bank is inconsistent"):
            load_weights(network(), content, conditional_model)
