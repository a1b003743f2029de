"""What a bundle says about its data: how many subjects, and who drew what."""

from __future__ import annotations

from typing import Any

from dcl_monai import __version__
from dcl_monai.datalist import Datalist, datalist_hash
from dcl_monai.datalist.items import annotations_of, channels_of, shown_classes
from dcl_monai.datalist.splits import SPLITS

from .template import BundleSettings


def subjects(datalist: Datalist) -> dict[str, dict[str, set[str]]]:
    """Subjects by data set and split."""
    found: dict[str, dict[str, set[str]]] = {}
    for split in SPLITS:
        for item in datalist[split]:
            splits = found.setdefault(item["dataset"], {name: set() for name in SPLITS})
            splits[split].add(item["subject"])
    return found


def drawn(datalist: Datalist) -> dict[str, dict[str, dict[str, set[str]]]]:
    """Subjects by data set, structure that somebody drew in them, and split; unions by their names."""
    classes = datalist["classes"]
    names = {tuple(members): union for union, members in datalist.get("unions", {}).items()}
    found: dict[str, dict[str, dict[str, set[str]]]] = {}
    for split, item in ((name, item) for name in SPLITS for item in datalist[name]):
        shown = dict.fromkeys(classes[j] for j in sorted(shown_classes(item, len(classes))) if j)
        for annotation in annotations_of(item):
            for entry in annotation.get("annotated") or ():
                if not isinstance(entry, int):
                    members = tuple(sorted(entry))
                    shown[names.get(members, " or ".join(classes[j] for j in members))] = None
        structures = found.setdefault(item["dataset"], {})
        for name in shown:
            structures.setdefault(name, {each: set() for each in SPLITS})[split].add(item["subject"])
    order = [*classes, *names.values()]
    return {
        dataset: dict(sorted(structures.items(), key=lambda entry: [*order, entry[0]].index(entry[0])))
        for dataset, structures in found.items()
    }


def card_entries(datalist: Datalist) -> dict[str, Any]:
    """Entries of ``metadata.json`` about the data, by the model zoo's names."""
    told, names = drawn(datalist), channels_of(datalist)
    counts = {name: len(set().union(*splits.values())) for name, splits in subjects(datalist).items()}
    return {
        "data_source": "; ".join(f"{name}: {count} subjects" for name, count in counts.items())
        + f" (datalist SHA-256 {datalist_hash(datalist)})",
        "data_type": "nibabel",
        "image_classes": f"{len(names)} channels: {', '.join(names)}" if len(names) > 1 else "single-channel images",
        "label_classes": "; ".join(f"{name}: {', '.join(told[name]) or 'nothing drawn'}" for name in counts),
        "pred_classes": ", ".join(f"{j}: {name}" for j, name in enumerate(datalist["classes"])),
        "intended_use": "Research. Not a medical device.",
    }


def write_readme(settings: BundleSettings, datalist: Datalist, digest: str, size: str) -> str:
    """The README of a new bundle of a size, ``"small"`` or ``"full"``, and of data with a hash."""
    dims = settings.spatial_dims
    sizes = " x ".join(map(str, settings.spatial_size[:dims]))
    grid = " x ".join(f"{length:g}" for length in settings.pixdim[:dims])
    steps = (settings.stage1_epochs + settings.stage2_epochs) * (settings.iterations_per_epoch or 0)
    told, rows = drawn(datalist), []
    for name, splits in subjects(datalist).items():
        counts = " | ".join(str(len(splits[split])) for split in SPLITS)
        structures = ", ".join(
            f"{structure} ({' / '.join(str(len(who[split])) for split in SPLITS)})"
            for structure, who in told[name].items()
        )
        rows.append(f"| {name} | {counts} | {structures or 'nothing'} |")
    intensity = "zero mean, unit variance per image"
    if settings.intensity:
        intensity = (
            "scaled by the data set (CT)" if isinstance(settings.intensity, dict) else "scaled channel by channel"
        )
    channels = f"{len(settings.channels)} channels ({', '.join(settings.channels)})"
    if len(settings.channels) == 1:
        channels = "1 channel"
    epochs = f"{settings.stage1_epochs} + {settings.stage2_epochs} epochs"
    table = "\n".join(rows)
    return f"""# {settings.name}

{settings.task}. {settings.description}. Made by dcl-monai {__version__} (`new`, size `{size}`).

| | |
|---|---|
| input | {"one slice" if dims == 2 else "a patch"}, {channels}, {grid} mm, {sizes}, {intensity} |
| output | probabilities of {", ".join(settings.classes)} |
| network | CompNet around MONAI's {settings.backbone}, features {"-".join(map(str, settings.network["filters"]))} |
| training | {epochs} of {settings.iterations_per_epoch} steps: {steps} steps of {settings.batch_size} |

The reasons are in `docs/plan.txt`.

## Commands

```bash
dcl-monai train .                # every training has its own folder in runs/; the best model goes to models/model.pt
dcl-monai evaluate .
dcl-monai predict . IN OUT       # segment a folder of NIfTI files
dcl-monai export .               # models/model.ts
dcl-monai verify .               # the model zoo's checks
```

Each prints the `python -m monai.bundle` command that it runs.

## Data

Subjects, and in how many of them (training / validation / test) each structure was drawn. Datalist SHA-256 `{digest}`.

| data set | training | validation | test | structures |
|---|---|---|---|---|
{table}

`data/datalist.json` names the files of this machine. Leave `data/` and `runs/` out when you share the bundle.

## What the model carries

`models/model.pt` holds the weights **and up to {settings.bank_size} training images per class with their masks**.
Anyone who has the model has these images. Share it only if you may share them, or replace the bank:
`dcl-monai bank`.

## Limits

Research only, not a medical device. Licence of the data: `data_license.txt`.
"""


def write_licence(datalist: Datalist) -> str:
    """The licence of the data, for its owner to complete."""
    lines = [f"Data set {name}: state its licence here, and who permitted its use." for name in subjects(datalist)]
    note = "A model carries images of its training data in its conditional bank: its use falls under the same terms."
    return "\n".join([*lines, "", note, ""])
