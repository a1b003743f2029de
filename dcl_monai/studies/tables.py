"""The tables of the paper: which recipe stands in which row, and with which other row it is compared."""

from __future__ import annotations

from dataclasses import dataclass

from dcl_monai.utils import DataError


@dataclass(frozen=True)
class Row:
    """
    A row of a table.

    Args:
        recipe: what is trained.
        label: name of the row; ``{net}`` is the backbone's name in the paper, UNet+ or nnUNet.
        against: recipe that it is tested against; ``None`` for a row that stands alone.
        group: heading above the row, where a new group begins.
        marks: what the row has, of the study's columns of marks.
    """

    recipe: str
    label: str
    against: str | None = None
    group: str = ""
    marks: str = ""


@dataclass(frozen=True)
class Study:
    """
    A table.

    Args:
        title: what it shows.
        question: what it answers, in a sentence.
        rows: its rows.
        columns: columns of marks, each a letter of ``Row.marks``.
    """

    title: str
    question: str
    rows: tuple[Row, ...]
    columns: tuple[tuple[str, str], ...] = ()


PARTS = (
    ("c", "L_ce"),
    ("p", "L_P"),
    ("n", "L_comp"),
    ("x", "x^c"),
    ("r", "L_prior"),
    ("d", "dual"),
    ("f", "fill"),
    ("m", "MMEE later"),
    ("g", "region"),
)
"""The parts of a method, as columns of marks."""

STUDIES: dict[str, Study] = {
    "ladder": Study(
        "The paper's ladder",
        "Does each part of the paper's DCL bring what it brings in the paper? #2 to #6 are tested against the row "
        "above, ours against #6.",
        (
            Row("paper_1", "#1", group="the paper's DCL, as printed", marks="c"),
            Row("paper_2", "#2", "paper_1", marks="p"),
            Row("paper_3", "#3", "paper_2", marks="n"),
            Row("paper_4", "#4", "paper_3", marks="nx"),
            Row("paper_5", "#5", "paper_4", marks="nxr"),
            Row("paper_6", "#6", "paper_5", marks="nxrd"),
            Row("paper_restart", "#6 without the dual loss, in two stages", "paper_6", group="control", marks="nxr"),
            Row("self_training", "our default without conditions", "paper_6", group="ours", marks="nfmg"),
            Row("dcl", "our default", "paper_6", marks="nxrdfmg"),
            Row("unet_f", "CE", "dcl", group="all labels", marks="n"),
            Row("unet_f_region", "CE, Dice of structures", "dcl", marks="ng"),
            Row("unet_f_staged", "the default's losses", "dcl", marks="nmg"),
        ),
        PARTS,
    ),
    "ablation": Study(
        "Ablation",
        "What does each part of our default bring? Rows are tested against the row above, a default without a part "
        "against the default.",
        (
            Row("conventional_ce", "conventional CE", marks="c"),
            Row("unet_p", "positive part of CE", "conventional_ce", marks="p"),
            Row("compatible_ce", "compatible CE", "unet_p", marks="n"),
            Row("region", "compatible CE, Dice of structures", "compatible_ce", marks="ng"),
            Row("dcl", "our default", "region", marks="nxrdfmg"),
            Row("no_dual", "no dual loss", "dcl", group="our default without one part", marks="nxrfmg"),
            Row("no_filling", "no filling", "dcl", marks="nxrdmg"),
            Row("no_mmee", "CE in stage 2, too", "dcl", marks="nxrdfg"),
            Row("no_region", "no Dice of structures", "dcl", marks="nxrdfm"),
            Row("self_training", "no conditions, so no prior and dual loss", "dcl", marks="nfmg"),
        ),
        PARTS,
    ),
    "sensitivity": Study(
        "Data sensitivity",
        "What do more full labels bring? Full : part of the training subjects; tested against the row above.",
        (
            Row("dcl", "DCL 0:100", group="DCL, the default"),
            Row("dcl_full_20", "DCL 20:80", "dcl"),
            Row("dcl_full_40", "DCL 40:60", "dcl_full_20"),
            Row("dcl_full_60", "DCL 60:40", "dcl_full_40"),
            Row("dcl_full_80", "DCL 80:20", "dcl_full_60"),
            Row("dcl_full", "DCL 100:0", "dcl_full_80"),
            Row("unet_f", "{net}_F 100:0", "dcl_full", group="all labels, without DCL"),
        ),
    ),
    "losses": Study(
        "Loss functions",
        "Does the method help whatever the loss? With DCL is tested against the same loss without.",
        (
            Row("paper_6", "the paper's DCL, CE", "unet_p", group="with DCL"),
            Row("paper_dcl_mmee", "the paper's DCL, MMEE", "mmee"),
            Row("dcl", "our default", "mmee"),
            Row("unet_p", "CE", group="without DCL (CE and CE+Dice: where known, as in the paper)"),
            Row("ce_dice", "CE+Dice"),
            Row("mmee", "MMEE"),
            Row("compatible_ce", "CE, compatible"),
        ),
    ),
    "baselines": Study(
        "Comparison",
        "Is it better than what one would do otherwise? Every row is tested against our default.",
        (
            Row("unet_p", "{net}_P", "dcl", group="partial labels"),
            Row("nnunet_ignore", "nnU-Net-style ignore", "dcl"),
            Row("compatible_ce", "compatible CE", "dcl"),
            Row("mmee", "MMEE", "dcl"),
            Row("pseudo", "pseudo-labelling", "dcl"),
            Row("paper_6", "the paper's DCL_ce", "dcl"),
            Row("paper_dcl_mmee", "the paper's DCL_MMEE", "dcl"),
            Row("dcl", "our default"),
            Row("unet_f_sixth", "{net}_F, a sixth of the subjects", "dcl", group="full labels"),
            Row("unet_f_few", "{net}_F, as many labels", "dcl"),
            Row("unet_f", "{net}_F, all labels", "dcl"),
            Row("unet_f_region", "{net}_F, all labels, Dice of structures", "dcl"),
            Row("dcl_full", "our default, all labels as single ones", "dcl"),
        ),
    ),
}


def recipes_of(study: str, only: list[str] | None = None) -> list[str]:
    """
    Recipes that a study trains, in the order of its rows.

    Args:
        study: its name, or ``all``.
        only: recipes or labels of rows to keep; default: all.
    """
    rows = [row for name, table in STUDIES.items() if study in (name, "all") for row in table.rows]
    if only:
        unknown = [word for word in only if not any(fits(word, row) for row in rows)]
        if unknown:
            shown = ", ".join(dict.fromkeys(row.recipe for row in rows))
            raise DataError(f"--only {unknown[0]}: no such row in this study; choose from {shown}.")
        rows = [row for row in rows if any(fits(word, row) for word in only)]
    return list(dict.fromkeys(row.recipe for row in rows))


def fits(word: str, row: Row) -> bool:
    """Whether a word of the command line means a row."""
    return word in (row.recipe, row.label, row.label.removeprefix("#"))
