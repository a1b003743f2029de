from __future__ import annotations

import pytest

from dcl_monai.bundle.verdict import give_verdict
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


def test_what_no_volume_shows_and_no_test(tmp_path):
    write(tmp_path, [["a", "p1", 0.9, "", ""]])
    assert "LV not measured: no volume has it annotated on its own" in give_verdict(tmp_path, CLASSES)
    (tmp_path / "test_dice.csv").unlink()
    assert give_verdict(tmp_path, CLASSES).startswith("verdict: validation Dice 0.848, no test; LV not measured")
    (tmp_path / "history.csv").unlink()
    assert give_verdict(tmp_path, CLASSES).startswith("verdict: nothing was measured")
