"""All bundles as their user runs them: the same ids, commands and overlays."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from helpers import open_workflow, run_bundle
from monai.bundle import ConfigParser

from dcl_monai.handlers import GradientRatio
from dcl_monai.synthetic import write_synthetic_acdc, write_synthetic_mmwhs, write_synthetic_mscmr

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CLASSES = {
    "acdc": ["RV", "MYO", "LV", "whole heart"],
    "mscmr": ["RV", "MYO", "LV", "whole heart"],
    "mmwhs": ["LV", "MYO", "RV", "LA", "RA", "AO", "PA", "whole heart"],
}
COMMON = {"split": [8, 1, 1], "stage1_epochs": 1, "stage2_epochs": 1, "bank_size": 2, "device": "$torch.device('cpu')"}
COMMON |= {"iterations_per_epoch": 4}
SLICES = {"spatial_size": [40, 40, -1], "network_def#compnet#features": [4, 4, 8, 8, 8, 4]}
SMALL = {
    "acdc": COMMON | SLICES | {"pixdim": [5.0, 5.0, -1]},
    "mscmr": COMMON | SLICES | {"pixdim": [6.0, 6.0, -1]},
    "mmwhs": COMMON | {"pixdim": [8.0] * 3, "spatial_size": [16] * 3, "network_def#compnet#filters": [4, 4, 8, 8]},
}
every_bundle = pytest.mark.parametrize("bundle", SMALL)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    writers = {"acdc": write_synthetic_acdc, "mscmr": write_synthetic_mscmr, "mmwhs": write_synthetic_mmwhs}
    return {name: write(tmp_path_factory.mktemp(name), 10, progress=False) for name, write in writers.items()}


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory) -> dict[str, Path]:
    """A small training of each bundle by the README's command."""
    outputs = {name: tmp_path_factory.mktemp(f"trained_{name}") for name in SMALL}
    for name, output in outputs.items():
        paths = {"dataset_dir": str(data[name]), "output_dir": str(output), "model_file": str(output / "model.pt")}
        run_bundle("run", "training", config_file=f"bundles/{name}/train.json", **paths, **SMALL[name])
    return outputs


@every_bundle
def test_training(trained, bundle):
    with (trained[bundle] / "test_dice.csv").open() as file:
        row, *others = csv.DictReader(file)
    assert len(others) == (bundle == "acdc")  # its two phases
    assert set(CLASSES[bundle]) < set(row)
    assert row["whole heart"]
    assert (trained[bundle] / "overlays.png").exists()
    history = (trained[bundle] / "history.csv").read_text(encoding="utf-8").splitlines()
    assert len(history) == 3
    state = torch.load(trained[bundle] / "model.pt", weights_only=True)
    assert state["bank.valid"].shape == (len(CLASSES[bundle]), 2)  # with background, without the whole heart


@every_bundle
def test_metadata(bundle):
    """Classes are those of the configuration."""
    folder = ROOT / "bundles" / bundle
    metadata = json.loads((folder / "configs" / "metadata.json").read_text(encoding="utf-8"))
    output = metadata["network_data_format"]["outputs"]["pred"]
    assert list(output["channel_def"].values()) == ["background", *CLASSES[bundle][:-1]]
    assert output["num_channels"] == len(CLASSES[bundle])
    for name in ("metadata.json", "train.json", "inference.json", "logging.conf"):  # the way in, beside the config file
        assert (folder / name).resolve() == folder / "configs" / name


@every_bundle
def test_ckpt_export_equals_the_python_model(trained, bundle, tmp_path, monkeypatch):
    """TorchScript that takes the target alone, deep supervision or not; the bank travels with it."""
    monkeypatch.chdir(ROOT)
    model, exported = str(trained[bundle] / "model.pt"), str(tmp_path / "model.ts")
    configs = f"bundles/{bundle}/configs"
    files = {"meta_file": f"{configs}/metadata.json", "config_file": f"{configs}/inference.json"}
    # model_file brings its network's settings along
    run_bundle("ckpt_export", "network_def", filepath=exported, ckpt_file=model, model_file=model, **files)
    parser = ConfigParser()
    parser.read_config(files["config_file"])
    parser.update({"model_file": model})
    network = parser.get_parsed_content("network_def").eval()
    network.load_state_dict(torch.load(model, weights_only=True))
    sizes = [(16, 16, 16), (21, 17, 19)] if bundle == "mmwhs" else [(40, 40), (53, 37), (112, 112)]
    inputs = [torch.randn(2, 1, *size) for size in sizes]
    if bundle == "acdc":  # in a process that never heard of dcl_monai
        torch.save(inputs, tmp_path / "inputs.pt")
        script = (
            "import sys, torch; net = torch.jit.load(sys.argv[1]).eval();"
            "torch.save([net(image).detach() for image in torch.load(sys.argv[2])], sys.argv[3]);"
            "assert 'dcl_monai' not in sys.modules and 'monai' not in sys.modules"
        )
        files = [exported, tmp_path / "inputs.pt", tmp_path / "outputs.pt"]
        subprocess.run([sys.executable, "-c", script, *map(str, files)], check=True, cwd=tmp_path)
        outputs = torch.load(tmp_path / "outputs.pt")
    else:
        scripted = torch.jit.load(exported).eval()
        outputs = [scripted(image) for image in inputs]
    with torch.no_grad():
        for image, output in zip(inputs, outputs, strict=True):
            torch.testing.assert_close(output.detach(), network(image), atol=1e-5, rtol=0)


def run_overlay(run_id: str, bundle: str, overlay: str, **override: object) -> None:
    """Run something else than the training, by the training's configuration and an overlay."""
    run_bundle("run", run_id, config_file=f"['bundles/{bundle}/configs/train.json','{overlay}']", **override)


def paths_of(trained: dict[str, Path], data: dict[str, Path], bundle: str, output: Path) -> dict[str, str]:
    """Options that name the data, the model of the training and where to write."""
    model = trained[bundle] / "model.pt"
    return {"dataset_dir": str(data[bundle]), "model_file": str(model), "output_dir": str(output)}


@every_bundle
def test_evaluate_gives_the_table_of_the_training(trained, data, bundle, tmp_path):
    """The model file brings grid and network along."""
    same = {"split": COMMON["split"], "device": COMMON["device"]}
    paths = paths_of(trained, data, bundle, tmp_path)
    run_overlay("evaluating", bundle, f"bundles/{bundle}/configs/evaluate.json", **paths, **same)
    assert (tmp_path / "test_dice.csv").read_text() == (trained[bundle] / "test_dice.csv").read_text()


@every_bundle
def test_relabelling_completes_the_labels_of_the_training(trained, data, bundle, tmp_path):
    """The saved network has no heads of deep supervision, which the one that trains may have."""
    paths = paths_of(trained, data, bundle, tmp_path)
    run_overlay("relabelling", bundle, "configs/relabel.json", **paths, **SMALL[bundle])
    training = json.loads((tmp_path / "pseudo" / "datalist.json").read_text(encoding="utf-8"))["training"]
    labels = [np.asarray(nib.load(tmp_path / "pseudo" / item["label"]).dataobj) for item in training]
    assert len(labels) == (16 if bundle == "acdc" else 8)
    assert all(set(np.unique(label)) <= set(range(len(CLASSES[bundle]))) for label in labels)


@every_bundle
def test_inference_keeps_the_geometry(trained, data, bundle, tmp_path):
    paths = paths_of(trained, data, bundle, tmp_path)
    run_bundle("run", config_file=f"bundles/{bundle}/configs/inference.json", contact_sheet="false", **paths)
    masks = sorted(tmp_path.rglob("*_seg.nii.gz"))
    assert len(masks) == (20 if bundle == "acdc" else 10)
    name = str(masks[0].relative_to(tmp_path)).replace("_seg", "")
    image, mask = nib.load(data[bundle] / name), nib.load(masks[0])
    assert mask.shape == image.shape
    np.testing.assert_allclose(mask.affine, image.affine, atol=1e-4)
    assert mask.get_data_dtype() == np.uint8
    assert set(np.unique(mask.dataobj)) <= set(range(len(CLASSES[bundle])))


@every_bundle
@pytest.mark.parametrize("kind", ["train", "inference", "evaluate"])
def test_properties(bundle, kind, data, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    folder = ROOT / "bundles" / bundle / "configs"
    files = [folder / f"{name}.json" for name in (("train", kind) if kind == "evaluate" else (kind,))]
    paths = {"dataset_dir": str(data[bundle]), "output_dir": str(tmp_path), "model_file": str(tmp_path / "model.pt")}
    settings = {} if kind == "inference" else SMALL[bundle]
    meta = str(folder / "metadata.json")
    workflow = open_workflow("train" if kind == "train" else "infer", *files, meta_file=meta, **paths, **settings)
    assert workflow.check_properties() == []


@every_bundle
def test_every_dice_knows_the_unions(bundle):
    """Or a set that is drawn in unions alone would end the training with an error."""

    def metrics(entry):
        children = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else []
        own = [entry] if isinstance(entry, dict) and str(entry.get("_target_")).endswith("PartialMeanDice") else []
        return own + [found for child in children for found in metrics(child)]

    config = json.loads((ROOT / "bundles" / bundle / "configs" / "train.json").read_text(encoding="utf-8"))
    (metric,) = metrics(config)
    assert metric["unions"] == "@unions"
    assert config["unions"] == "$@data['unions']"


@pytest.mark.parametrize("bundle", ["mscmr", "mmwhs"])
def test_same_ids_as_acdc(bundle):
    """What differs between the bundles is data, grid and network, and how 3D patches are drawn; nothing else."""

    def ids(name: str) -> set[str]:
        parser = ConfigParser()
        parser.read_config(ROOT / "bundles" / name / "configs" / "train.json")
        config = parser.get()
        nested = {f"{key}#{inner}" for key in ("train", "validate", "test") for inner in config[key]}
        return set(config) | nested

    assert ids(bundle) == ids("acdc")


@pytest.mark.parametrize("overlay", ["channels_last", "compile"])
def test_overlays_in_3d(data, overlay, tmp_path, monkeypatch):
    """A step of stage 2 with deep supervision."""
    monkeypatch.chdir(ROOT)
    parser = ConfigParser()
    parser.read_config(["bundles/mmwhs/configs/train.json", f"configs/{overlay}.json"])
    parser.update(SMALL["mmwhs"] | {"dataset_dir": str(data["mmwhs"]), "output_dir": str(tmp_path)})
    if overlay == "compile":
        parser.update({"train#trainer#compile_kwargs": {"backend": "aot_eager"}})
    trainer = parser.get_parsed_content("train#trainer")
    weights = [p for p in parser.get_parsed_content("primnet").parameters() if p.dim() == 5]
    last = all(p.is_contiguous(memory_format=torch.channels_last_3d) for p in weights)
    assert last == (overlay == "channels_last")
    trainer.dual, trainer.state.output = True, {}
    trainer.state.batch = next(iter(trainer.data_loader))
    (output,) = trainer._iteration(trainer, trainer.state.batch)
    assert torch.isfinite(output["loss"])
    assert output["pred"].dim() == 6  # heads of deep supervision
    GradientRatio()(trainer)
    assert trainer.state.metrics["gradient_ratio"] >= 0
