"""Running, skipping, failing, stopping and resuming, with small commands in place of trainings."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from helpers import Forked
from rich.console import Console

from dcl_monai.studies.progress import Display
from dcl_monai.studies.runner import run_study
from dcl_monai.studies.runs import Run, Step
from dcl_monai.utils import DataError

COUNT = """
import pathlib, sys
folder = pathlib.Path(sys.argv[1])
calls = folder / "calls"
calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
"""
EPOCHS = (
    COUNT
    + """
import time
done = folder / "history.csv"
epoch = int(done.read_text().split()[-1]) if done.exists() else 0
while epoch < 4:
    epoch += 1
    done.write_text(f"epoch\\n{epoch}\\n")
    if epoch == 2 and not (folder / "go").exists():
        time.sleep(60)
(folder / "test_dice.csv").write_text("done")
"""
)
GOOD = COUNT + '(folder / "test_dice.csv").write_text("done")'
BAD = COUNT + 'print("first line"); sys.exit("error: patient7: no such file. Add it.")'


@dataclass(frozen=True)
class Script(Step):
    script: str = ""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-c", self.script, str(self.folder)]


def make(folder: Path, script: str, name: str = "dcl_ce", seed: int = 0, before: tuple[str, ...] = ()) -> Run:
    folder = folder / name / f"seed{seed}"
    steps = [
        Script(f"step{k}", folder, "", (), {"k": k}, folder / f"result{k}", script=text)
        for k, text in enumerate(before)
    ]
    last = Script("training", folder, "", (), {"seed": seed}, folder / "test_dice.csv", epochs=4, script=script)
    return Run(name, seed, folder, (*steps, last), folder.parents[1])


def with_config(run: Run, path: Path) -> Run:
    return replace(run, steps=tuple(replace(step, files=(str(path),)) for step in run.steps))


def calls(run: Run) -> int:
    path = run.folder / "calls"
    return len(path.read_text()) if path.exists() else 0


def quiet(runs: list[Run]) -> Display:
    return Display(runs, 1, Console(quiet=True))


def run_all(*runs: Run, jobs: int = 2):
    return run_study(runs, jobs, 1, quiet(list(runs)))


def test_complete(tmp_path):
    runs = [make(tmp_path, GOOD, seed=seed) for seed in range(3)]
    assert run_all(*runs) == ([], [])
    for run in runs:
        record = json.loads((run.folder / "run.json").read_text())
        assert record["status"] == "complete"
        assert record["versions"]["torch"]
        assert record["commands"]["training"][0] == sys.executable
        (attempt,) = record["attempts"]
        assert attempt["cpu_seconds"] > 0
        assert attempt["max_rss_mb"] > 1
        assert json.loads((run.folder / "training.json").read_text()) == {"seed": run.seed}


def test_complete_runs_are_skipped(tmp_path):
    run = make(tmp_path, GOOD)
    run_all(run)
    run_all(run)
    assert calls(run) == 1
    (run.folder / "test_dice.csv").unlink()  # the record alone is not enough
    run_all(run)
    assert calls(run) == 2


def test_failure_is_told_and_the_others_go_on(tmp_path):
    bad, good = make(tmp_path, BAD, "unet_p"), make(tmp_path, GOOD)
    _, (failure,) = run_all(bad, good, jobs=1)
    assert good.is_complete()
    assert bad.record()["status"] == "failed"
    text = failure.describe()
    assert "unet_p seed 0: training failed with exit code 1" in text
    assert "error: patient7: no such file. Add it." in text
    assert str(bad.log) in text
    mended = make(tmp_path, GOOD, "unet_p")
    assert run_all(mended) == ([], [])
    assert [a["outcome"] for a in mended.record()["attempts"]] == ["exit code 1", "complete"]


def test_steps_that_are_done_are_not_repeated(tmp_path):
    first = COUNT + '(folder / "result0").write_text("")'
    run = make(tmp_path, BAD, before=(first,))
    run_all(run)
    assert calls(run) == 2
    run_all(make(tmp_path, GOOD, before=(first,)))
    assert calls(run) == 3, "the first step once, the last one twice"


def test_a_run_that_somebody_works_on_is_left_alone(tmp_path):
    run = make(tmp_path, GOOD)
    run.folder.mkdir(parents=True)
    script = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True)"
    holder = Forked("-c", f"{script}; time.sleep(60)", run.folder / ".lock")
    try:
        holder.until(lambda: holder.printed("stdout"))
        assert run_all(run) == ([run], [])
        assert calls(run) == 0
    finally:
        holder.kill()
        holder.wait()
    assert run_all(run) == ([], [])


def test_a_run_of_another_recipe_is_refused(tmp_path):
    """Complete or not, it would stand beside rows of the recipe of today."""
    config = tmp_path / "mine.json"
    config.write_text('{"prior_weight": 0.3}')
    run = with_config(make(tmp_path, GOOD), config)
    run.check()
    run_all(run)
    run.check()
    config.write_text('{"prior_weight": 0.4}')
    with pytest.raises(DataError, match=r"seed0: was started with another mine.json, .* --out, or delete this folder"):
        run.check()
    with pytest.raises(DataError, match=r"was started with another mine.json"):  # an overlay that is gone
        make(tmp_path, GOOD).check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_leaves_a_run_that_can_go_on(tmp_path, number):
    """Ctrl-C, and what a scheduler sends."""
    run = make(tmp_path, EPOCHS)
    me = Path(__file__)
    script = (
        f"import sys, importlib.util, pathlib\n"
        f"spec = importlib.util.spec_from_file_location('me', {str(me)!r})\n"
        f"me = importlib.util.module_from_spec(spec); sys.modules['me'] = me; spec.loader.exec_module(me)\n"
        f"run = me.make(pathlib.Path({str(tmp_path)!r}), me.EPOCHS)\n"
        f"try:\n    me.run_study([run], 1, 1, me.quiet([run]))\n"
        f"except KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    process, history = Forked("-c", script), run.folder / "history.csv"
    process.until(lambda: history.exists() and history.read_text().split()[-1:] == ["2"])
    os.kill(process.pid, number)
    assert process.wait().returncode == 130
    record = run.record()
    assert record["status"] == "stopped"
    assert record["attempts"][0]["epochs"] == 2
    assert not (run.folder / "test_dice.csv").exists(), "the training was ended, too"
    (run.folder / "go").touch()
    assert run_all(run) == ([], [])
    assert run.epochs_done() == 4
    assert [a["epochs"] for a in run.record()["attempts"]] == [2, 2]


def test_display(tmp_path):
    run, waiting = make(tmp_path, GOOD), make(tmp_path, GOOD, seed=1)
    run.folder.mkdir(parents=True)
    display = Display([run, waiting], 1, Console(quiet=True))
    display.told(run, "running")
    (run.folder / "history.csv").write_text("epoch,val_dice\n1,0.8123\n2,0.8234\n")
    display.started[run.folder] = (time.monotonic() - 120, 0)  # a minute per epoch
    assert display.run_seconds_left(run) == pytest.approx(120, abs=2)
    assert display.seconds_left() == pytest.approx(360, abs=4)
    console = Console(width=100, record=True, quiet=False, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(display.table())
    text = console.export_text()
    assert "about 6 min left" in text
    assert "2/4" in text
    assert "0.823" in text
