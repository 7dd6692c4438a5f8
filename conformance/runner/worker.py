"""Run one case in its own process: isolated, with a timeout, and with cleanup afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import NoReturn

from conformance import children, isolation
from conformance.case import Case, Failed, Skipped
from conformance.clauses import version_key
from conformance.context import Context
from conformance.driver import Result, Runtime
from conformance.runner.outcome import ERROR, FAIL, PASS, SKIP, Outcome

# Extra time for the cleanup after the case's own timeout.
CLEANUP_SECONDS = 25.0
OUTPUT_KEPT = 2000


class TimeIsUp(BaseException):
    """The case's timeout; a BaseException, so that cases do not catch it."""


def _alarm(_number: int, _frame: FrameType | None) -> NoReturn:
    raise TimeIsUp


def _clear_up(context: Context) -> list[str]:
    """Clean up; a SIGALRM from the runner does not interrupt it before CLEANUP_SECONDS."""
    end = time.monotonic() + CLEANUP_SECONDS

    def alarm(_number: int, _frame: FrameType | None) -> None:
        if time.monotonic() >= end - 1:
            raise TimeIsUp

    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, CLEANUP_SECONDS)
    try:
        return context.finish()
    except TimeIsUp:
        context.clear()
        return [*context.left, f"the cleanup timed out after {CLEANUP_SECONDS:g} s"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run(
    case: Case, runtime: Runtime, directory: Path, probe: Path, limits: tuple[float, float]
) -> Outcome:
    """Run the case in this process, which must exit afterwards (it changes its namespaces).

    ``limits``: timeouts in seconds of the case, and of one command of the runtime.
    """
    outcome = Outcome(runtime.label, case.path, case.clauses, PASS)
    started = time.monotonic()
    signal.signal(signal.SIGALRM, _alarm)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Without the runner nothing can be reported, but the cleanup is still due.
    isolation.tell_of_parents_end(signal.SIGALRM)
    children.install()
    isolation.become_subreaper()
    if os.geteuid() == 0:
        isolation.separate()
    directory.mkdir(mode=0o755)
    version = runtime.config_version(case.since)
    context = Context(runtime, directory, probe, version, limits[1])
    try:
        signal.setitimer(signal.ITIMER_REAL, limits[0])
        _call(case, context, outcome)
    except TimeIsUp:
        outcome.status, outcome.message = FAIL, f"the case timed out after {limits[0]:g} s"
    finally:
        outcome.left = _clear_up(context)
    if outcome.status == FAIL and version_key(version) < version_key(case.since):
        # The config declares a version that does not define what the case needs.
        outcome.status = SKIP
        outcome.message = f"the runtime refuses configs of version {case.since}; {outcome.message}"
    outcome.seconds = round(time.monotonic() - started, 3)
    if outcome.left:
        failed = any(not one.ok for one in context.shell.history)
        outcome.blamed = "RT-ERR-01" if failed else "RT-DELETE-04"
    if outcome.bad:
        outcome.commands = [_shortened(one) for one in context.shell.history]
    return outcome


def _call(case: Case, context: Context, outcome: Outcome) -> None:
    try:
        case.function(context)
        context.need_sound()
    except Failed as failure:
        outcome.status, outcome.message = FAIL, str(failure)
    except Skipped as reason:
        outcome.status, outcome.message = SKIP, str(reason)
    except Exception as error:  # noqa: BLE001  a broken case must not hide the others
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        outcome.status = ERROR
        outcome.message = f"{type(error).__name__}: {error} ({where})"


def _shortened(result: Result) -> dict[str, object]:
    return {
        "command": list(result.command),
        "status": result.status,
        "out": result.out[:OUTPUT_KEPT],
        "err": result.err[:OUTPUT_KEPT],
        "seconds": round(result.seconds, 3),
    }


def main(
    case: Case,
    runtime: Runtime,
    directory: Path,
    probe: Path,
    limits: tuple[float, float],
    reply: int,
    keep: bool,
) -> NoReturn:
    """Run the case in the forked process, write its outcome as JSON to ``reply``, and exit."""
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        high = os.dup2(reply, 63, inheritable=False)
        os.closerange(3, high)
        os.closerange(high + 1, 1 << 16)
        outcome = run(case, runtime, directory, probe, limits)
        with os.fdopen(high, "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(outcome.as_json(), file)
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  the parent learns it from the empty reply
        try:
            os.write(63, json.dumps({"broken": repr(error)}).encode())
        except OSError:
            pass
    finally:
        os._exit(1)
