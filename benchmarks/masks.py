"""The same partial labels, as one mask per structure and as label maps with ``annotated``: do they train the same?

    python benchmarks/masks.py write /data/Task04_Hippocampus work
    for form in annotated masks; do
        dcl-monai train bundles/mmwhs --datalist work/$form.yaml --output_dir work/$form --model_file work/$form.pt \\
            --pixdim "[1,1,1]" --spatial_size "[40,56,40]" --network_def#compnet#filters "[8,16,32,64]" \\
            --iterations_per_epoch 30 --stage1_epochs 2 --stage2_epochs 2
    done
    python benchmarks/masks.py compare work

``write`` writes a mask for every structure of a Decathlon task, leaves a third of all masks out, and writes the two
datalists. ``compare`` compares histories, test Dice and weights, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import torch
import yaml

FORMS = ("annotated", "masks")


def write(source: Path, out: Path, seed: int = 0) -> None:
    """Write two thirds of the masks of a Decathlon task, and both datalists."""
    content = json.loads((source / "dataset.json").read_text(encoding="utf-8"))
    names = [name for _, name in sorted(content["labels"].items(), key=lambda pair: int(pair[0]))]
    labels = {Path(item["label"]).name: str(source.resolve() / item["label"]) for item in content["training"]}
    pairs = list(product(sorted(labels), names[1:]))
    deleted = {pairs[k] for k in np.random.default_rng(seed).permutation(len(pairs))[: len(pairs) // 3]}
    listed = []
    for file, path in sorted(labels.items()):
        label, kept = nib.load(path), [name for name in names[1:] if (file, name) not in deleted]
        for name in kept:
            (out / "structures" / name).mkdir(parents=True, exist_ok=True)
            mask = np.asarray(label.dataobj) == names.index(name)
            nib.save(nib.Nifti1Image(mask.astype(np.uint8), label.affine), out / "structures" / name / file)
        item: dict[str, Any] = {"image": f"imagesTr/{file}", "subject": file.removesuffix(".nii.gz")}
        listed.append(item | ({"label": path, "annotated": kept} if kept else {}))
    root = os.path.relpath(out.resolve() / "structures", source.resolve())
    patterns = {name: f"{root}/{name}/{{subject}}.nii.gz" for name in names[1:]}
    entries = {
        "annotated": {"training": listed, "values": dict(enumerate(names))},
        "masks": {"images": "imagesTr/{subject}.nii.gz", "masks": patterns},
    }
    for form, entry in entries.items():
        document = {"classes": names, "datasets": {"task": {"folder": str(source.resolve())} | entry}}
        (out / f"{form}.yaml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    print(f"{len(pairs) - len(deleted)} of {len(pairs)} masks written")


def compare(out: Path) -> None:
    """Compare what two trainings left."""
    for name in ("history.csv", "test_dice.csv"):
        one, other = ((out / form / name).read_bytes() for form in FORMS)
        print(f"{name}: {'equal' if one == other else 'DIFFERENT'}")
    weights = [torch.load(out / f"{form}.pt", map_location="cpu", weights_only=True) for form in FORMS]
    same = all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0] if torch.is_tensor(weights[0][key]))
    print(f"weights: {'equal' if same else 'DIFFERENT'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    writing = verbs.add_parser("write")
    writing.add_argument("source", type=Path)
    for verb in (writing, verbs.add_parser("compare")):
        verb.add_argument("out", type=Path)
    arguments = parser.parse_args()
    if arguments.verb == "write":
        write(arguments.source, arguments.out)
    else:
        compare(arguments.out)


if __name__ == "__main__":
    main()
