"""
All bundles are made from one template, the files of ``template/`` with a few values filled in: those of the repository,
which simulate partial annotation, and those of a user's own data (:mod:`dcl_monai.bundle.new`).

The template is text, as Python's :py:class:`string.Template` reads it with ``~`` for its ``$``, which MONAI's
expressions need. To change all bundles, edit the template; to change one, edit :data:`BUNDLES`. Then write them again::

    python -m dcl_monai.bundle.template bundles
"""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from dcl_monai import __version__
from dcl_monai.utils.files import write_atomic

FORMS: dict[int, dict[str, Any]] = {
    2: {
        "fit": "ResizeWithPadOrCropd",
        "items": {"_target_": "dcl_monai.data.SliceDataset", "volumes": "@train#dataset"},
        "axes": [0, 1],
        "shear_range": [0.2, 0.2],
        "scale_range": [0.3, 0.3],
        "translate_range": [12, 12],
        "smoothing": {"sigma_x": [0.5, 1.2], "sigma_y": [0.5, 1.2]},
        "sampler": {"_target_": "dcl_monai.data.DrawSampler", "items": "@train#conditional_dataset"},
        "inferer": {
            "_target_": "SliceInferer",
            "roi_size": "$@spatial_size[:2]",
            "spatial_dim": 2,
            "sw_batch_size": 16,
        },
        "spatial_shape": ["32*n", "32*n"],
        "is_patch_data": False,
        "export_shape": [2, 1, 64, 64],
        "export_axes": [0, 2, 3],
    },
    3: {
        "fit": "SpatialPadd",
        "items": {
            "_target_": "dcl_monai.data.PatchDataset",
            "volumes": "@train#dataset",
            "patch_size": "@spatial_size",
        },
        "axes": [0, 1, 2],
        "shear_range": [0.1] * 6,
        "scale_range": [0.2, 0.2, 0.2],
        "translate_range": [2, 2, 2],
        "smoothing": {"sigma_x": [0.5, 1.2], "sigma_y": [0.5, 1.2], "sigma_z": [0.5, 1.2]},
        "sampler": {
            "_target_": "dcl_monai.data.CandidateSampler",
            "items": "@train#items",
            "num_classes": "@num_classes",
        },
        "inferer": {
            "_target_": "SlidingWindowInferer",
            "roi_size": "@spatial_size",
            "sw_batch_size": 4,
            "overlap": 0.25,
            "mode": "gaussian",
        },
        "is_patch_data": True,
        "export_axes": [0, 2, 3, 4],
    },
}
"""What depends on the dimensions of a network alone: slices are cut to size and drawn one by one, volumes are cut into
patches."""

ROOT = (
    "$next((p for p in (*sys.path[1:2], *(os.path.dirname(os.path.dirname(word.split('=')[-1])) for word in sys.argv), "
    "{places}) if os.path.isfile(p + '/configs/metadata.json')), '.')"
)
"""The folder of a bundle from any working directory: ``monai.bundle run`` puts it on Python's path, other commands name
config files in it. Without dcl-monai, which a program that runs an exported model may lack."""

SIMULATED = """\
    "split_seed": "@seed",
    "fold": 0,
    "split": ~split,
    "annotation": "partial",
    "annotated_per_subject": ~annotated_per_subject,
    "full_fraction": 0.0,
    "partial_validation": false,
    "datalist": {
        "_target_": "dcl_monai.datalist.simulate_datalist",
        "source": {"_target_": ~source, "root": "@dataset_dir"},
        "split": "@split",
        "annotation": "@annotation",
        "per_subject": "@annotated_per_subject",
        "partial_validation": "@partial_validation",
        "seed": "@seed",
        "split_seed": "@split_seed",
        "fold": "@fold",
        "full_fraction": "@full_fraction"
    },"""
"""The data of a bundle of the repository: fully labelled, of which a part is hidden."""

OWN_DATA: dict[str, str] = {
    # MONAI's --tracking would take the folder for an expression, and make another one to save the configuration in
    "output_dir": '{"_target_": "dcl_monai.bundle.run_folder", "bundle_root": "@bundle_root"},\n'
    '    "save_execute_config": false',
    "dataset_dir": "\"$@bundle_root + '/data'\"",
    "datalist": '    "datalist": "$@dataset_dir + \'/datalist.json\'",',
    "saved_model": "\"$@output_dir + '/model.pt'\"",
    "install": '        {"_target_": "dcl_monai.bundle.install_model", "source": "$@validate#save.path", '
    '"model_file": "@model_file"},\n',
    "evaluation": '    "output_dir": "$@bundle_root + \'/evaluation\'",\n',
    "example": "",
    "predictions": "predictions",
}
"""Placeholders of a bundle of a user's own data: the list of its files lies in it, every training has its own folder,
and the model of a training that is complete is put in place."""

TESTED = {
    "monai": "1.6.1",
    "torch": "2.13.0",
    "numpy": "2.4.6",
    "pytorch-ignite": "0.5.5",
    "nibabel": "5.4.2",
    "scikit-image": "0.26.0",
    "dcl-monai": __version__,
}
"""Versions that ``metadata.json`` of a bundle names."""

LINKS = ("inference.json", "logging.conf", "metadata.json", "train.json")
"""Config files that the folder of a bundle links to."""


@dataclass(frozen=True)
class BundleSettings:
    """What makes one bundle differ from another."""

    name: str  # name of the folder
    title: str  # name of the model in ``metadata.json``
    task: str  # what it does, in a sentence
    description: str  # how it was made, in a sentence
    classes: tuple[str, ...]  # class names, background first
    spatial_dims: int  # 2 for slices or 3 for volumes
    pixdim: tuple[float, ...]  # voxel size in mm of the network's grid, -1 where it stays as it is
    spatial_size: tuple[int, ...]  # size of an image or patch on that grid, -1 where it stays as it is
    batch_size: int  # images or patches per step
    rotate_range: float | tuple[float, ...]  # largest random rotation in radians, of the image or about every axis
    stage1_epochs: int  # epochs of stage 1
    stage2_epochs: int  # epochs of stage 2
    backbone: str  # name of MONAI's network
    network: Mapping[str, Any]  # further arguments of :class:`~dcl_monai.networks.CompNet`
    # path of the function that writes the synthetic data into a folder; a bundle without it trains on its own
    # ``data/datalist.json``, and the next three are not used
    synthetic: str = ""
    source: str = ""  # path of the function that describes a folder of data as a datalist
    split: tuple[int, ...] = ()  # sizes of training, validation and test
    annotated_per_subject: int = 1  # classes that a training subject shows
    averaging: str | Mapping[str, Any] = "anneal"  # average of the losses, see :mod:`dcl_monai.losses.averaging`
    # ``clip``, ``mean`` and ``std`` of the data set; ``None``: every image by its own
    intensity: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = field(default=None)
    modality: str = "MR"  # as ``metadata.json`` names it
    channels: tuple[str, ...] = ("image",)  # names of the channels of an image
    label_files: str = "*_label.nii*"  # pattern of files that inference must not take for images
    example: str = ""  # folder below the synthetic data that inference segments by default
    iterations_per_epoch: int | None = None  # steps of an epoch; ``None``: as many as the data gives
    val_interval: int = 1  # epochs from one validation to the next
    bank_size: int = 16  # images per class in the conditional bank
    authors: str = "The dcl-monai developers"  # who made the bundle
    copyright: str = "Copyright (c) The dcl-monai developers"  # whose it is
    data_card: Mapping[str, Any] = field(default_factory=dict)  # further entries of ``metadata.json`` about the data
    # versions of the packages that it was made with
    versions: Mapping[str, str] = field(default_factory=lambda: TESTED)


CARDIAC: dict[str, Any] = {
    "description": "One 2D network for all structures, trained by Deep Compatible Learning on images that each show "
    "one annotated structure",
    "classes": ("background", "RV", "MYO", "LV"),
    "spatial_dims": 2,
    "pixdim": (1.8, 1.8, -1),
    "spatial_size": (112, 112, -1),
    "batch_size": 8,
    "rotate_range": 0.7,
    "stage1_epochs": 6,
    "stage2_epochs": 14,
    "backbone": "BasicUNet",
    "network": {"features": [16, 16, 32, 64, 128, 16], "norm": "batch"},
}
"""Short-axis stacks of the heart."""

BUNDLES: dict[str, BundleSettings] = {
    "acdc": BundleSettings(
        **CARDIAC,
        name="acdc",
        title="DCL cardiac segmentation (ACDC)",
        task="Segmentation of the right ventricle, myocardium and left ventricle in short-axis cine MR from partial "
        "labels",
        synthetic="dcl_monai.synthetic.write_synthetic_acdc",
        source="dcl_monai.datalist.acdc_document",
        split=(60, 20, 20),
        label_files="*_gt.nii*",
        example="/patient001",
    ),
    "mscmr": BundleSettings(
        **CARDIAC,
        name="mscmr",
        title="DCL cardiac segmentation (MSCMRseg)",
        task="Segmentation of the right ventricle, myocardium and left ventricle in late-enhancement short-axis MR "
        "from partial labels",
        synthetic="dcl_monai.synthetic.write_synthetic_mscmr",
        source="dcl_monai.datalist.convert_mscmr",
        split=(25, 5, 15),
        label_files="*_manual.nii*",
    ),
    "mmwhs": BundleSettings(
        name="mmwhs",
        title="DCL whole-heart segmentation (MM-WHS)",
        task="Segmentation of the seven large structures of the heart in 3D MR from partial labels",
        description="One 3D network for all structures, trained by Deep Compatible Learning on images that each show "
        "two annotated classes",
        classes=("background", "LV", "MYO", "RV", "LA", "RA", "AO", "PA"),
        synthetic="dcl_monai.synthetic.write_synthetic_mmwhs",
        source="dcl_monai.datalist.convert_mmwhs",
        split=(20, 10, 30),
        spatial_dims=3,
        pixdim=(3.0, 3.0, 3.0),
        spatial_size=(40, 40, 32),
        batch_size=2,
        rotate_range=(0.3, 0.3, 0.3),
        stage1_epochs=3,
        stage2_epochs=4,
        backbone="DynUNet",
        network={
            "divisor": 8,
            "kernel_size": [3, 3, 3, 3],
            "strides": [1, 2, 2, 2],
            "upsample_kernel_size": [2, 2, 2],
            "filters": [16, 32, 64, 96],
            "deep_supervision": True,
            "deep_supr_num": 1,
        },
        annotated_per_subject=2,
        averaging={"_target_": "dcl_monai.losses.AnnealedMean", "class_balanced": True},
    ),
}
"""The bundles of the repository, by name."""


class FileTemplate(string.Template):
    """A file of the template: ``~name`` is replaced."""

    delimiter = "~"


def values_of(settings: BundleSettings) -> dict[str, str]:
    """The text of every placeholder of the template."""
    served = {name: value for name, value in settings.network.items() if not name.startswith("deep_sup")}
    packages = dict(settings.versions)
    form = FORMS[settings.spatial_dims]
    values: dict[str, Any] = {
        "spatial_shape": settings.spatial_size,
        "export_shape": [2, len(settings.channels), *settings.spatial_size],
        **form,
        **vars(settings),
        "num_channels": len(settings.channels),
        "image_channel_def": {str(index): name for index, name in enumerate(settings.channels)},
        "num_classes": len(settings.classes),
        "channel_def": {str(index): name for index, name in enumerate(settings.classes)},
        "monai_version": packages.pop("monai"),
        "pytorch_version": packages.pop("torch"),
        "numpy_version": packages.pop("numpy"),
        "packages": packages,
        "bundle_root": ROOT.format(places=f"'.', 'bundles/{settings.name}'" if settings.synthetic else "'.'"),
    }
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    # those that stand inside of a string or an object, and those of several lines
    texts |= {
        "class_names": str(list(settings.classes)),  # inside of a Python expression
        "channel_names": str(list(settings.channels)),
        "network_arguments": json.dumps(settings.network)[1:-1],
        "served_arguments": json.dumps(served)[1:-1],
        "smoothing": json.dumps(form["smoothing"])[1:-1],
        "sampler": json.dumps(form["sampler"])[1:-1],
        "without_heads": '\n    "network_def#compnet#deep_supervision": false,' if served != settings.network else "",
        "data_card": "".join(
            f"    {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)},\n"
            for name, value in settings.data_card.items()
        ),
    }
    if not settings.synthetic:
        # a network that was planned for its size need not take smaller ones
        size = list(settings.spatial_size[: settings.spatial_dims])
        shapes = {
            "spatial_shape": json.dumps(size),
            "export_shape": json.dumps([2, len(settings.channels), *size]),
            "translate_range": json.dumps([round((0.1 if len(size) == 2 else 0.05) * length) for length in size]),
        }
        return texts | OWN_DATA | shapes
    return texts | {
        "output_dir": "\"$@bundle_root + '/output'\"",
        "dataset_dir": f'{{"_target_": "{settings.synthetic}", "folder": "$@bundle_root + \'/data/synthetic\'"}}',
        "datalist": FileTemplate(SIMULATED).substitute(texts),
        "saved_model": '"@model_file"',
        "install": "",
        "evaluation": "",
        "example": f"/synthetic{settings.example}",
        "predictions": "output/predictions",
    }


def render_bundle(settings: BundleSettings) -> dict[str, str]:
    """Name -> text of every config file of a bundle."""
    values = values_of(settings)
    template = files("dcl_monai.bundle") / "template"
    return {
        file.name: FileTemplate(file.read_text(encoding="utf-8")).substitute(values)
        for file in sorted(template.iterdir(), key=lambda file: file.name)
    }


def write_configs(settings: BundleSettings, folder: Path) -> None:
    """Write the config files of a bundle, and replace those that its folder has."""
    for name, text in render_bundle(settings).items():
        write_atomic(folder / "configs" / name, text)


def write_bundle(settings: BundleSettings, folder: str | Path) -> None:
    """Write the config files of a bundle, and the links to them; licence and docs are written by hand."""
    folder = Path(folder)
    write_configs(settings, folder)
    for name in LINKS:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("configs") / name)


def main(words: Sequence[str]) -> int:
    """Write the bundles of the repository again, below the folder that is given."""
    if len(words) != 1:
        print("usage: python -m dcl_monai.bundle.template FOLDER (bundles, in the repository)", file=sys.stderr)
        return 2
    for name, settings in BUNDLES.items():
        write_bundle(settings, Path(words[0]) / name)
        print(f"{Path(words[0]) / name}: written from the template.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
