"""A misspelt id is an error with a suggestion, as the user sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import refused_bundle

from dcl_monai.bundle.command_line import check_command_line, check_ids, check_overlays, options
from dcl_monai.utils import DataError

ROOT = Path(__file__).parents[2]
PROGRAM = "/somewhere/site-packages/monai/bundle/__main__.py"
CONFIG = {
    "batch_size": 8,
    "network_def": {"compnet": {"_target_": "dcl_monai.networks.CompNet", "features": [4, 4]}},
    "loss": {"_target_": "dcl_monai.losses.FillLoss", "num_classes": 4},
    "train": {"trainer": {"_target_": "DCLTrainer", "amp": False}, "handlers": [{"seed": 0}]},
    "device": "$torch.device('cpu')",
}


EVALUATE = "['bundles/acdc/configs/train.json','bundles/acdc/configs/evaluate.json']"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["training", "--config_file", "bundles/acdc/train.json", "--bacth_size", "8"], "--batch_size"),
        (["evaluating", "--config_file", EVALUATE, "--model_fiel", "x.pt"], "--model_file"),
        (["--config_file", "bundles/mmwhs/configs/inference.json", "--num_set=4"], "--num_sets"),
    ],
)
def test_as_the_user_sees_it(words, suggestion):
    assert f"(did you mean {suggestion}?)" in refused_bundle("run", *words)


KNOWN = """
batch_size network_def#compnet#features network_def#compnet#any_argument_of_the_backbone network_def::compnet::features
loss#weight train#trainer#amp train#handlers#0#seed +train#handlers device config_file tracking tracking_uri
"""


@pytest.mark.parametrize("name", KNOWN.split())
def test_known(name):
    check_ids([name], CONFIG, "train.json")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("bacth_size", "batch_size"),
        ("loss#wieght", "loss#weight"),
        ("train#trainr#amp", "train#trainer"),
        ("network_def#compnet2#features", "network_def#compnet"),
    ],
)
def test_unknown(name, suggestion):
    with pytest.raises(DataError, match=f"train.json has no id '{name}' .did you mean --{suggestion}.."):
        check_ids([name], CONFIG, "train.json")


def test_nothing_alike():
    with pytest.raises(DataError, match=r"has no id 'xyz'\. Correct"):
        check_ids(["xyz"], CONFIG, "train.json")


def test_options_as_fire_reads_them():
    words = ["training", "--a-b", "1", "--c=[1, 2]", "--d", "--e", "-1", "-f", "x", "--", "--verbose"]
    assert options(words) == {"a_b": 1, "c": [1, 2], "d": True, "e": -1, "f": "x"}


@pytest.mark.parametrize(
    "words",
    [
        ["/usr/bin/monailabel", "start_server", "--app", "x"],
        [PROGRAM, "ckpt_export", "--bacth_size", "8"],
        [PROGRAM, "run", "training"],
    ],
)
def test_other_programs_are_left_alone(words):
    check_command_line(words)


def test_settings_of_an_args_file(tmp_path):
    (tmp_path / "config.json").write_text('{"batch_size": 8}')
    (tmp_path / "args.json").write_text(f'{{"config_file": "{tmp_path}/config.json", "bacth_size": 4}}')
    with pytest.raises(DataError, match="did you mean --batch_size"):
        check_command_line([PROGRAM, "run", "--args_file", str(tmp_path / "args.json")])


@pytest.mark.parametrize("word", ["--output_dir=out#1", "--datalist=./a#b.yaml"])
def test_a_path_that_monai_would_change(word):
    """Results landed in ``out::1``, or in ``out``."""
    with pytest.raises(DataError, match="Use a path without it"):
        check_command_line([PROGRAM, "run", "--config_file", str(ROOT / "bundles/acdc/configs/train.json"), word])


class TestOverlays:
    @pytest.mark.parametrize(
        ("first", "second", "id_"),
        [
            ("paper/ablation_5.json", "paper/ablation_6.json", "dual"),
            ("paper/ablation_6.json", "losses/mmee.json", "combination"),
            ("paper/cpu_scale.json", "paper/paper_scale.json", "pixdim"),
        ],
    )
    @pytest.mark.parametrize("order", [1, -1])
    def test_contradiction(self, first, second, id_, order):
        words = ["run", "training", "--config_file"]
        files = [f"configs/{name}" for name in (first, second)][::order]
        with pytest.raises(DataError, match=f"^{files[0]} and {files[1]} both set {id_}. Leave one of them out"):
            check_command_line([PROGRAM, *words, str([str(ROOT / file) for file in files])])

    def test_entry_and_part_of_it(self, tmp_path, monkeypatch):
        monkeypatch.setattr("dcl_monai.bundle.command_line.overlay_folder", lambda: tmp_path)
        (tmp_path / "a.json").write_text('{"loss": {"weight": 1.0}}')
        (tmp_path / "b.json").write_text('{"loss#weight": 2.0}')
        with pytest.raises(DataError, match="both set loss#weight"):
            check_overlays([tmp_path / "a.json", tmp_path / "b.json"])

    def test_what_goes_together(self, tmp_path):
        own = tmp_path / "mine.json"
        own.write_text('{"prior_weight": 0.5}')
        bundle = ROOT / "bundles/acdc/configs/train.json"
        paper = [ROOT / "configs/paper" / name for name in ("ablation_6.json", "cpu_scale.json")]
        check_overlays([bundle, *paper, own])
        check_overlays([bundle, *paper, paper[0]])
        check_overlays([ROOT / "configs" / name for name in ("multi_gpu.json", "relabel.json")])  # both add to a list
