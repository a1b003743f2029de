"""The report of a made-up study: its numbers, and that the page needs nothing but itself."""

from __future__ import annotations

import csv
import json
import re
from base64 import b64encode
from html.parser import HTMLParser

import pytest

from dcl_monai.cli import main
from dcl_monai.studies.report import write_report
from dcl_monai.studies.report.tables import number

DICE = {
    "paper_1": lambda k, seed: 0.40 + 0.01 * k,
    "paper_2": lambda k, seed: 0.60 + 0.013 * k + 0.02 * seed,
    "paper_3": lambda k, seed: 0.70 + 0.011 * k,
    "paper_6": lambda k, seed: 0.70 + 0.011 * k + (0.01 if k % 2 else -0.01),
    "unet_f": lambda k, seed: 0.85 + 0.005 * k,
}


class Page(HTMLParser):
    """Rows of all tables as text, and addresses that the page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.addresses: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data

    def cells(self, label: str) -> list[list[str]]:
        return [[re.sub(r"\s+", "", cell) for cell in row[1:]] for row in self.rows if row and row[0].strip() == label]


@pytest.fixture(scope="module")
def report(made_up_study):
    out = made_up_study(DICE)
    page = write_report(out)
    return out, page.read_text(encoding="utf-8")


def lines(path, recipe: str) -> dict[str, dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return {line["place"]: line for line in csv.DictReader(file) if line["recipe"] == recipe}


def test_page_has_the_numbers_of_the_csv(report):
    out, text = report
    page = Page(text)
    places = ["ED RV", "ED MYO", "ED LV", "ES RV", "ES MYO", "ES LV"]
    for label, recipe in (("#1", "paper_1"), ("#2", "paper_2"), ("#3", "paper_3"), ("#6", "paper_6")):
        found = lines(out / "report" / "ladder.csv", recipe)
        cells, summary = page.cells(label)
        for place in places:
            mean, deviation = (number(float(found[place][key])) for key in ("mean", "deviation"))
            assert any(re.fullmatch(re.escape(f"{mean}±{deviation}") + r"[*↓]?", cell) for cell in cells), (
                label,
                place,
            )
        average = found["average"]
        assert any(cell.rstrip("*↓") == number(float(average["mean"])) for cell in cells)
        assert f"{number(float(average['ci_low']))}to{number(float(average['ci_high']))}" in summary
        full = lines(out / "report" / "baselines.csv", "unet_f")["average"]
        assert summary[4] == number(float(average["mean"]) / float(full["mean"]))


def test_means_and_deviations_by_hand(report):
    out, _ = report
    found = lines(out / "report" / "ladder.csv", "paper_2")["average"]
    assert float(found["mean"]) == pytest.approx(0.61 + 0.013 * 3.5, abs=1e-4)
    assert float(found["deviation"]) == pytest.approx(0.013 * 6**0.5, abs=1e-4)  # 0 to 7: variance 6
    assert (found["patients"], found["runs"], found["labels"]) == ("8", "2", "8")


def test_stars(report):
    """Eight patients that all gain have p = 2 / 2**8. Two rows are tested: two averages, and twelve single places."""
    out, _ = report
    better = lines(out / "report" / "ladder.csv", "paper_2")
    assert float(better["average"]["p"]) == pytest.approx(2 / 256)
    assert better["average"]["against"] == "paper_1"
    assert float(better["average"]["p_holm"]) == pytest.approx(2 * 2 / 256)  # significant
    assert float(better["ED RV"]["p_holm"]) == pytest.approx(12 * 2 / 256)  # not
    same = lines(out / "report" / "ladder.csv", "paper_6")["average"]
    assert same["against"] == "", "#5 has no run, so #6 cannot be tested against it"


def test_paper_stands_apart(report):
    out, text = report
    (cells,) = Page(text).cells("the paper's #2")
    assert ".778" in cells
    assert ".742±.185" in cells
    assert lines(out / "report" / "ladder.csv", "paper_2")["ED RV"]["paper_mean"] == "0.742"


def test_groups_whose_first_row_is_missing(made_up_study):
    """Without DCL stays without DCL, though the row that opens the group has no run."""
    out = made_up_study({name: DICE[name] for name in ("paper_6",)} | {"compatible_ce": DICE["paper_3"]}, seeds=(0,))
    page = Page(write_report(out).read_text(encoding="utf-8"))
    labels = [row[0].strip() for row in page.rows if row]
    first = labels.index("the paper's DCL, CE")
    group = next(label for label in labels if label.startswith("without DCL"))
    assert labels[first - 1] == "with DCL"
    assert first < labels.index(group) < labels.index("CE, compatible")
    assert lines(out / "report" / "losses.csv", "compatible_ce")["average"]["group"] == group


def test_page_needs_nothing_else(report):
    _, text = report
    page = Page(text)
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    assert len(page.addresses) >= 5  # cases by table, labels, three overlays
    assert "<script" not in text
    assert "http" not in text
    assert "@import" not in text


def test_plots_are_files_too(report):
    """Those of the page, but no picture of a patient."""
    out, text = report
    plots = {path.stem: b64encode(path.read_bytes()).decode() for path in (out / "report").glob("*.png")}
    assert set(plots) == {*(path.stem for path in (out / "report").glob("*.tex")), "labels"}
    assert all(f'"data:image/png;base64,{plot}"' in text for plot in plots.values())


def test_page_tells_what_is_missing_and_missed(report):
    _, text = report
    missing = ["#4", "#5", "#6 without the dual loss, in two stages", "our default without conditions", "our default"]
    missing += ["CE, Dice of structures", "the default&#39;s losses"]
    assert f"No complete run yet: {'; '.join(missing)}." in " ".join(text.split())
    rows = {row[0].strip(): row for row in Page(text).rows if row and any("4 of 32" in cell for cell in row)}
    assert list(rows) == ["paper_1"]


def test_conditions_and_false_positives(report):
    _, text = report
    page = Page(text)
    row = next(cells for cells in page.cells("paper_6") if ".030" in cells)
    assert row[2].startswith(".100[")
    # 9 ml of every other class, of a true volume of 90 + 3 x 9: background 7.7%, two other structures 15.4%
    assert any(cells[:2] == ["7.7%", "15.4%"] for cells in page.cells("unet_f"))


def test_latex(report):
    out, _ = report
    text = (out / "report" / "ladder.tex").read_text(encoding="utf-8")
    assert text.count("{") == text.count("}")
    assert r"\#3" in text
    columns = text.split(r"\begin{tabular}{")[1].split("}")[0]
    body = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(body) == 6
    assert all(line.count("&") == len(columns) - 1 for line in body)


def test_images_elsewhere(made_up_study, caplog):
    """A report can be made on a machine without the data."""
    out = made_up_study({"paper_2": DICE["paper_2"]}, seeds=(0,))
    for path in (out.parent / "data").glob("*_image.nii.gz"):
        path.unlink()
    text = write_report(out).read_text(encoding="utf-8")
    assert "Best, median and worst cases" not in text
    assert "cannot be drawn" in caplog.text


def test_page_tells_of_recipes_that_changed(made_up_study):
    out = made_up_study({"paper_2": DICE["paper_2"]})
    for seed in (0, 1):
        record = out / "runs" / "paper_2" / f"seed{seed}" / "run.json"
        hashes = {"train.json": f"{seed}", "baselines/unet_p.json": "0"}
        record.write_text(json.dumps(json.loads(record.read_text()) | {"configs": hashes}))
    text = write_report(out).read_text(encoding="utf-8")
    assert "Not one recipe: train.json changed" in text


def test_command(made_up_study, capsys):
    out = made_up_study({"paper_2": DICE["paper_2"]}, seeds=(0,))
    assert main(["report", str(out)]) == 0
    assert "report.html" in capsys.readouterr().out
    assert main(["report", str(out.parent)]) == 1
    assert "study.json: no such file" in capsys.readouterr().err


def test_divisions_together(made_up_study, tmp_path, capsys):
    """Twelve patients of two divisions, a table by division, and pictures of patients that only one of them tests."""
    rows = {"unet_p": DICE["paper_2"], "dcl": lambda k, seed: 0.80 + 0.01 * k}
    one, other = made_up_study(rows), made_up_study(rows, seeds=(0,), split_seed=1)
    assert main(["report", str(one), str(other)]) == 1
    assert "--out" in capsys.readouterr().err
    assert main(["report", str(one), str(other), "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the 12 test patients" in re.sub(r"\s+", " ", page)
    assert "8 test in each of 2 divisions; split seeds (and folds) 0 (0), 1 (0)" in page
    assert ["dcl", ".835", ".875"] in [[cell.strip() for cell in row] for row in Page(page).rows]
    assert page.count("of dcl: A test") == 3 * 2  # text and alternative text of three pictures
    found = lines(tmp_path / "report" / "baselines.csv", "unet_p")["average"]
    assert (found["patients"], found["runs"]) == ("12", "3")
    assert not (one / "report.html").exists()


def test_a_smoke_test_is_not_interpreted(made_up_study):
    out = made_up_study({name: DICE[name] for name in ("paper_1", "paper_2")}, iterations=5)
    text = write_report(out).read_text(encoding="utf-8")
    assert "Too short to interpret" in text
    assert "<sup>*</sup>" not in text
    assert lines(out / "report" / "ladder.csv", "paper_2")["average"]["p"] == ""
