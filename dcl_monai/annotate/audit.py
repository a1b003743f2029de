"""Which drawn labels to look at again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dcl_monai.utils import DataError
from dcl_monai.utils.tables import write_table
from dcl_monai.visualize.overlays import class_colour

from .contradictions import KINDS, SIGNS, Finding, Signs, find_contradictions, find_signs
from .crossfit import CrossFit
from .output import Row, case_name, draw_slice, new_folder, write_page, write_view
from .propose import first_frame
from .protocols import Protocol, find_protocols

LOUD = 4
"""Spreads by which a label differs from the others before the viewer marks it."""
COLUMNS = ["rank", "dataset", "case", "subject", "image", "structure", "kind", "score", "slice", *SIGNS, "says"]


def audit(crossfit: CrossFit, out: Path, count: int = 40) -> tuple[list[Finding], list[Protocol]]:
    """
    Rank drawn structures contradicted by models that did not see them, and write ``audit.csv`` (all of them),
    ``audit.html`` and the viewer's files.

    Args:
        crossfit: the predictions.
        out: folder to write; must not exist, but for one that an interrupted run left.
        count: number of structures on the page.

    Returns:
        all findings, the strongest first (their case is the place in ``crossfit.annotated``), and differences between
        data sets.

    Raises:
        DataError: when the folder exists, or no structure is annotated in whole images.
    """
    classes, items = crossfit.classes, crossfit.annotated
    with new_folder(out):
        crossfit.train()
        signs: dict[tuple[int, int], Signs] = {}
        for case, item in enumerate(tqdm(items, desc="comparing", unit="image", disable=None)):
            prediction = crossfit.predict(item)
            axis = prediction.slice_axis
            for j in range(1, len(classes)):
                found = find_signs(prediction.probabilities.numpy(), prediction.candidates.numpy(), j, axis)
                if found is not None:
                    signs[case, j] = found
        if not signs:
            raise DataError(
                f"{crossfit.source}: no image has a whole structure to audit (scribbles are not audited). Annotate "
                "whole structures."
            )
        findings = find_contradictions(signs, {case: item.get("dataset", "") for case, item in enumerate(items)})
        protocols = find_protocols(signs, items, classes)
        write_findings(crossfit, findings, protocols, out, count)
    return findings, protocols


def say(finding: Finding, classes: Sequence[str]) -> str:
    """What is probably wrong, in words."""
    signs = finding.signs
    other = classes[signs.other] if signs.other is not None else "another structure"
    larger = max(signs.values["size"], signs.values["rim"], key=abs) > 0
    text = KINDS[finding.kind].format(other=other, larger="larger" if larger else "smaller")
    if finding.kind == "moved":
        text += f" Try {', '.join(f'{step:+d}' for step in signs.shift)} voxels."
    return text


def write_findings(
    crossfit: CrossFit, findings: Sequence[Finding], protocols: Sequence[Protocol], out: Path, count: int
) -> None:
    """Write table, page, and the files of the viewer."""
    classes, items = crossfit.classes, crossfit.annotated
    table, rows, shown = list[dict[str, Any]](), list[Row](), dict[int, Any]()
    for rank, finding in enumerate(findings, 1):
        item, name, signs = items[finding.case], classes[finding.structure], finding.signs
        says = say(finding, classes)
        entry = {"rank": rank, "dataset": item.get("dataset", ""), "case": item.get("case", ""), "structure": name}
        entry |= {"subject": item["subject"], "image": item["image"], "kind": finding.kind, "says": says}
        entry |= {kind: round(value, 4) for kind, value in signs.values.items()}
        table.append(entry | {"score": round(finding.score, 2)})
        if rank > count:
            table[-1]["slice"] = ""
            continue
        prediction = crossfit.predict(item)
        axis = prediction.slice_axis
        table[-1]["slice"] = signs.point[axis] + 1
        sets, colour = prediction.candidates.numpy(), class_colour(finding.structure, len(classes))
        masks = {
            f"{name}, drawn": (sets[finding.structure] & (sets.sum(0) == 1), colour, "solid"),
            "model": (prediction.probabilities.argmax(0).numpy() == finding.structure, "white", "dashed"),
        }
        picture = draw_slice(first_frame(item), masks, signs.point, axis, prediction.affine.numpy())
        note = f"{rank}. {name}: {says}"
        if finding.case in shown:
            note = f"{shown[finding.case][1]} {note}"
            shown[finding.case] = (prediction, note, *shown[finding.case][2:])
        else:
            shown[finding.case] = (prediction, note, finding.score >= LOUD, signs.point)
        details = f"score {finding.score:.1f}. In the viewer: #{[*shown].index(finding.case) + 1}/{name}"
        rows.append(Row(f"{name} in {case_name(item)}", says, details, picture))
    write_table(out / "audit.csv", [COLUMNS, *([row[name] for name in COLUMNS] for row in table)])
    write_view(out, "labels to look at again", crossfit.datalist, list(shown.values()), within=False)
    notes = [describe(protocol, classes) for protocol in protocols]
    if crossfit.fast:
        notes.insert(
            0, "Of the bundle's own model, which may have learned from these labels, mistakes included (--fast)."
        )
    summary = (
        f"{len(rows)} of {len(findings)} drawn structures, most contradicted first. A model may be wrong, too. "
        f"The score says by how many spreads a label differs from the others; below {LOUD} it is as good as most."
    )
    write_page(out / "audit.html", "Labels to look at again", summary, rows, out, notes)


def describe(protocol: Protocol, classes: Sequence[str]) -> str:
    """A difference between data sets, and what to write in the datalist."""
    text = (
        f"{protocol.larger} draws {classes[protocol.structure]} {protocol.ratio:.2f} times as large as "
        f"{protocol.smaller} (p = {protocol.p:.2g})."
    )
    if not protocol.line:
        return text
    return f"{text} If this is its protocol, say so in the datalist, data set {protocol.larger}: {protocol.line}"
