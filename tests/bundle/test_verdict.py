from __future__ import annotations

import json

import pytest
import torch

from dcl_monai.bundle.verdict import give_verdict, print_summary
from dcl_monai.utils.tables import write_table

CLASSES = ["background", "RV", "LV"]


def write(folder, rows, right=0.848, shuffled=0.843) -> None:
    write_table(folder / "test_dice.csv", [["dataset", "subject", "RV", "LV", "heart"], *rows])
    head = ["epoch", "val_dice", "val_dice_RV", "shuffled_dice"]
    write_table(folder / "history.csv", [head, [1, 0.5, 0.5, 0.6], [2, "", "", ""], [3, right, 0.8, shuffled]])


@pytest.mark.parametrize(("shuffled", "said"), [(0.843, "conditions hardly matter"), (0.6, "conditions matter")])
def test_one_line(tmp_path, shuffled, said):
    write(tmp_path, [["a", "p1", 0.9, 0.7, ""], ["a", "p2", 0.7, "", 0.95]], shuffled=shuffled)
    verdict = give_verdict(tmp_path, CLASSES)
    assert verdict.startswith("verdict: test Dice 0.750 (RV 0.800, LV 0.700), 2 volumes; heart 0.950; ")
    assert f"validation Dice 0.848, with shuffled conditions {shuffled:.3f}: " in verdict
    assert said in verdict
    assert "\n" not in verdict
    assert "ALARM" not in verdict


def test_alarm(tmp_path):
    write(tmp_path, [["a", "p1", 0.9, 0.03, 0.9], ["a", "p2", 0.8, 0.01, 0.9]])
    assert "ALARM: LV was not found." in give_verdict(tmp_path, CLASSES)
    write(tmp_path, [["a", "p1", 0.02, 0.03, 0.9]])
    assert "ALARM: RV, LV were not found." in give_verdict(tmp_path, CLASSES)


def test_what_no_volume_shows_and_no_test(tmp_path):
    write(tmp_path, [["a", "p1", 0.9, "", ""]])
    assert "LV not measured: no volume has it annotated on its own" in give_verdict(tmp_path, CLASSES)
    (tmp_path / "test_dice.csv").unlink()
    assert give_verdict(tmp_path, CLASSES).startswith("verdict: validation Dice 0.848, no test; LV not measured")
    (tmp_path / "history.csv").unlink()
    assert give_verdict(tmp_path, CLASSES).startswith("verdict: nothing was measured")


@pytest.mark.parametrize("conditional", [True, False])
def test_a_model_with_a_bank_carries_images(tmp_path, capsys, conditional):
    write(tmp_path, [["a", "p1", 0.9, 0.7, ""]])
    (tmp_path / "datalist.json").write_text(json.dumps({"classes": CLASSES}))
    images = torch.zeros(3, 2, 1, 4, 4) if conditional else torch.zeros(0)
    torch.save({"weight": torch.zeros(1), "bank.images": images}, tmp_path / "model.pt")
    print_summary(str(tmp_path), str(tmp_path / "model.pt"), "bundle")
    first, *_ = capsys.readouterr().out.splitlines()
    carries = " (contains training images: its conditional bank)" if conditional else ""
    assert first == f"model: {tmp_path / 'model.pt'}{carries}"
