"""Commands on stub pods, each in a forked process: hundreds of them in a few seconds.

They do what the commands of ``ocipod`` do, without starting an interpreter.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import ClassVar

from ociruntime.base.errors import RuntimeFailure
from ociruntime.base.fault_injection import VARIABLE
from ociruntime.pods.garbage import garbage_collection
from ociruntime.pods.store import phases
from ociruntime.pods.store.pod_status import describe
from tests.support import stub_pod

FAILED = 254
CODE = "7"  # of the only app of a stub that ends orderly


class Command:
    """A forked process: its messages (``said``) and its exit status (``status``)."""

    unfinished: ClassVar[set[Command]] = set()

    def __init__(self, work: Callable[[Command], int], fault: str = "") -> None:
        self.fault = fault
        self.status: int | None = None
        self.said = ""
        self._hears, tells = os.pipe()
        self._ends, self._end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._tells = tells
            os.close(self._hears)
            os.close(self._end)
            self._be_child(work)
        os.close(tells)
        os.close(self._ends)
        Command.unfinished.add(self)

    def _be_child(self, work: Callable[[Command], int]) -> None:
        status = 99
        try:
            os.environ[VARIABLE] = self.fault
            status = work(self)
        except RuntimeFailure as failure:
            self.say(f"!{failure}")
            status = FAILED
        except BaseException as error:  # noqa: BLE001 - a fork of the test must end here
            self.say(f"!!{error!r}")
        finally:
            os._exit(status)

    # --- in the child ---

    def say(self, text: str) -> None:
        os.write(self._tells, text.encode())

    def wait_for_end(self) -> None:
        """Wait until the test ends the process."""
        os.read(self._ends, 1)

    # --- in the test ---

    def settled(self, *, stops: bool) -> bool:
        """Return whether it has exited, stopped itself, or sent a message and continues."""
        if self.status is None:
            flags = os.WNOHANG | (os.WUNTRACED if stops else 0)
            pid, status = os.waitpid(self.pid, flags)
            if pid and os.WIFSTOPPED(status):
                return True
            if pid:
                self._ended(status)
        return self.status is not None

    def wait(self) -> int:
        """Return its exit status, negative for a signal."""
        if self.status is None:
            self._ended(os.waitpid(self.pid, 0)[1])
        assert self.status is not None
        return self.status

    def listen(self) -> str:
        """Wait for its first message; return its messages so far."""
        if not self.said:
            self.said = os.read(self._hears, 4096).decode()
        return self.said

    def _ended(self, status: int) -> None:
        Command.unfinished.discard(self)
        self.status = os.waitstatus_to_exitcode(status)
        while part := os.read(self._hears, 4096):
            self.said += part.decode()
        os.close(self._hears)
        os.close(self._end)

    def go_on(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGCONT)

    def end(self, *, orderly: bool) -> None:
        """End a pod's monitor."""
        if orderly:
            os.write(self._end, b"x")
        else:
            os.kill(self.pid, signal.SIGKILL)
        self.wait()


def prepare(directory: str, fault: str = "") -> Command:
    def work(command: Command) -> int:
        with phases.new_pod(directory) as pod:
            stub_pod.fill(pod)
            phases.to_prepared(pod)
            command.say(pod.uuid)
        return 0

    return Command(work, fault)


def run_prepared(directory: str, uuid: str, fault: str = "") -> Command:
    """Send ``running``, then act as the pod's monitor."""

    def work(command: Command) -> int:
        with phases.open_pod(directory, uuid) as pod:
            phases.to_run(pod)
            command.say("running")
            command.wait_for_end()
            with open(f"/proc/self/fd/{pod.fd}/apps/{stub_pod.APP}/status", "w") as file:
                file.write(CODE)
        return 0

    return Command(work, fault)


def collect(
    directory: str, grace: float, expiry: float, mark_only: bool, fault: str = ""
) -> Command:
    def work(command: Command) -> int:
        for kind, uuid, text in garbage_collection.collect(
            directory, grace, expiry, mark_only=mark_only
        ):
            command.say(f"{kind} {uuid} {text}\n")
        return 0

    return Command(work, fault)


def remove(directory: str, uuid: str, fault: str = "") -> Command:
    def work(command: Command) -> int:
        with phases.open_pod(directory, uuid) as pod:
            for kind, _, text in garbage_collection.discard(pod):
                command.say(f"{kind} {uuid} {text}\n")
        return 0

    return Command(work, fault)


def status(directory: str, uuid: str) -> Command:
    def work(command: Command) -> int:
        with phases.open_pod(directory, uuid) as pod:
            command.say(describe(pod)["state"])
        return 0

    return Command(work)


def let_all_end(commands: list[Command], *, keep: Callable[[Command], bool]) -> None:
    """Wait for the processes that neither stop themselves nor are kept; continue the others."""
    stopping = [one for one in commands if one.fault.endswith(":stop")]
    for one in commands:
        if one in stopping or not keep(one):
            _until_settled(one, stops=one in stopping)
    for one in commands:
        if not keep(one):
            _until_settled(one, stops=False)
    for one in stopping:
        one.go_on()


def _until_settled(one: Command, *, stops: bool) -> None:
    deadline = time.monotonic() + 20
    while not one.settled(stops=stops):
        assert time.monotonic() < deadline, f"it does not end: {one.fault} {one.said}"
        if not stops:
            # Again and again: a collector stops itself at every pod.
            one.go_on()
        time.sleep(0.001)


def end_all() -> None:
    """Kill the processes that a failed test has left."""
    for one in list(Command.unfinished):
        os.kill(one.pid, signal.SIGKILL)
        one.wait()
