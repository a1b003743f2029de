"""Running a study: several runs at a time, each in a process of its own that may be stopped at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from dcl_monai.utils.locks import take_lock
from dcl_monai.utils.provenance import git_state

from .progress import Display
from .runs import Run, Step

TAIL = 15
"""Lines of the log that are shown of a run that failed."""
POLL_SECONDS = 0.25


@dataclass
class Failure:
    """A run that failed."""

    run: Run  # the run
    step: Step  # the command that failed
    code: int  # its exit code

    def describe(self) -> str:
        """What is wrong and where to read on."""
        text = self.run.log.read_text(encoding="utf-8", errors="replace") if self.run.log.exists() else ""
        tail = "\n".join(f"    {line}" for line in text.splitlines()[-TAIL:])
        return f"{self.run.name}: {self.step.name} failed with exit code {self.code}; end of {self.run.log}:\n{tail}"


@dataclass
class Active:
    """A run that is being worked on: its process, its lock, and what it used so far."""

    run: Run
    lock: int
    steps: list[Step]
    process: subprocess.Popen | None = None
    started: float = field(default_factory=time.time)
    first_epoch: int = 0
    cpu_seconds: float = 0.0
    max_rss_mb: float = 0.0

    def attempt(self, outcome: str) -> dict[str, Any]:
        """The entry of ``run.json``."""
        return {
            "started": datetime.fromtimestamp(self.started, timezone.utc).isoformat(timespec="seconds"),
            "wall_seconds": round(time.time() - self.started, 1),
            "cpu_seconds": round(self.cpu_seconds, 2),
            "max_rss_mb": round(self.max_rss_mb),
            "host": socket.gethostname(),
            "epochs": self.run.epochs_done() - self.first_epoch,
            "outcome": outcome,
            "git": git_state(),
        }


def run_study(
    runs: Sequence[Run], jobs: int = 1, threads: int = 1, display: Display | None = None
) -> tuple[list[Run], list[Failure]]:
    """
    Do all runs that are not complete yet. A run that fails does not stop the others.

    Stopping (Ctrl-C, or SIGTERM as schedulers send it) ends the processes and leaves every run so that the next call
    goes on with it.

    Args:
        runs: the runs.
        jobs: how many at a time.
        threads: threads of each.
        display: shows what goes on.

    Returns:
        runs that somebody else is working on, and runs that failed.

    Raises:
        KeyboardInterrupt: when stopped.
    """
    display = display or Display(runs, jobs)
    pending = [run for run in runs if not run.is_complete()]
    active: list[Active] = []
    elsewhere: list[Run] = []
    failures: list[Failure] = []
    environment = os.environ | {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with display, terminated_as_interrupt():
        try:
            while pending or active:
                while pending and len(active) < jobs:
                    run = pending.pop(0)
                    lock = take_lock(run.folder)
                    if lock is None:
                        elsewhere.append(run)
                        display.told(run, "running elsewhere")
                    elif run.is_complete():  # by somebody else, since this study began
                        os.close(lock)
                    else:
                        run.note("running")
                        # the last step draws pictures after its table, and so is done only when the run is
                        steps = [step for step in run.steps if step is run.steps[-1] or not step.result.is_file()]
                        active.append(Active(run, lock, steps, first_epoch=run.epochs_done()))
                        display.told(run, "running")
                for work in list(active):
                    code = advance(work, environment)
                    if code is not None:
                        active.remove(work)
                        if code:
                            failures.append(Failure(work.run, work.steps[0], code))
                        end(work, "failed" if code else "complete", f"exit code {code}" if code else "complete")
                        display.told(work.run, "failed" if code else "complete")
                display.update()
                if active:
                    time.sleep(POLL_SECONDS)
        except BaseException:
            for work in active:
                stop(work)
                display.told(work.run, "stopped")
            raise
    return elsewhere, failures


def advance(work: Active, environment: Mapping[str, str]) -> int | None:
    """Look after the process of a run, start the next one; return the exit code when the run has ended."""
    if work.process is not None:
        pid, status, usage = os.wait4(work.process.pid, os.WNOHANG)
        if pid == 0:
            return None
        account(work, usage)
        code = os.waitstatus_to_exitcode(status)
        work.process.returncode = code
        work.process = None
        if code != 0:
            return code
        work.steps.pop(0)
    if not work.steps:
        return 0
    step = work.steps[0]
    step.write()
    with work.run.log.open("ab") as log:
        log.write(f"\n=== {datetime.now().isoformat(timespec='seconds')} {step.name}\n".encode())
        log.flush()
        work.process = subprocess.Popen(
            step.command,
            cwd=work.run.cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,  # Ctrl-C reaches us alone, and we end the process and its workers
            pass_fds=(work.lock,),  # the lock lasts as long as anybody works on the run
        )
    return None


def account(work: Active, usage: Any) -> None:
    """Add what a process used."""
    work.cpu_seconds += usage.ru_utime + usage.ru_stime
    work.max_rss_mb = max(work.max_rss_mb, usage.ru_maxrss / 1024)


def end(work: Active, status: str, outcome: str) -> None:
    """Write down how a run ended, and give its lock back."""
    work.run.note(status, work.attempt(outcome))
    os.close(work.lock)


def stop(work: Active) -> None:
    """End the process of a run, so that it can be resumed."""
    if work.process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(work.process.pid, signal.SIGTERM)
        with contextlib.suppress(ChildProcessError):
            _, status, usage = os.wait4(work.process.pid, 0)
            work.process.returncode = os.waitstatus_to_exitcode(status)
            account(work, usage)
    end(work, "stopped", "stopped")


@contextlib.contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    try:
        earlier = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)
