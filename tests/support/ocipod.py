"""Run ``ocipod`` with a separate data directory, and remove everything that a test leaves in it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.support import cgroupfs, leaks, network_host, processes
from tests.support.runtime import Result, execute

REPOSITORY = Path(__file__).resolve().parent.parent.parent
RUNTIME = Path(
    os.environ.get("OCIRUNTIME_UNDER_TEST") or REPOSITORY / ".venv" / "bin" / "ociruntime"
)
PROGRAM = RUNTIME.with_name("ocipod")
PHASES = ("embryo", "prepare", "prepared", "run", "exited-garbage", "garbage")
FAULT = "OCIPOD_FAULT"
STATE_ROOT = Path("/run/ocipod")


def states(uuid: str) -> list[Path]:
    """Return what the runtimes store about a pod's containers."""
    return sorted(STATE_ROOT.glob(f"*/*{uuid}*"))


class PodResult(Result):
    """The result of a command of ``ocipod``."""

    def failed(self, *words: str) -> PodResult:
        """Assert exit status 254, nothing on stdout, and each word in the error."""
        assert self.status == 254, self
        assert self.out == "", self
        for word in words:
            assert word in self.err, f"{word!r} is not in the error of {self}"
        return self

    def ok(self) -> PodResult:
        super().ok()
        return self

    @property
    def json(self) -> Any:  # noqa: ANN401 - a JSON document
        """Standard output as JSON."""
        return json.loads(self.out)


class Ocipod:
    """Runs ``ocipod --dir DIRECTORY --runtime RUNTIME --insecure-options=image ...``."""

    def __init__(self, directory: Path, runtime: Path | None = None, *options: str) -> None:
        self.directory = directory
        self.runtime = runtime or RUNTIME
        self.program = PROGRAM
        self.options = options
        self.seen: set[str] = set()  # UUIDs that were ever in the directory while we looked
        self.started: list[subprocess.Popen[bytes]] = []

    def command(self, *args: str) -> list[str]:
        return [
            str(self.program),
            f"--dir={self.directory}",
            f"--runtime={self.runtime}",
            "--insecure-options=image",
            *self.options,
            *args,
        ]

    def __call__(
        self,
        *args: str,
        fault: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        timeout: float = 90,
    ) -> PodResult:
        """Run a command to its end; ``fault`` is the value of OCIPOD_FAULT."""
        self.look()
        try:
            done = execute(
                self.command(*args),
                cwd=cwd,
                env=self.environment(fault, env),
                stdin=stdin,
                pass_fds=pass_fds,
                timeout=timeout,
            )
        finally:
            self.look()
        return PodResult(done.command, done.status, done.out, done.err)

    def popen(
        self,
        *args: str,
        fault: str = "",
        env: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        start_new_session: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a command and do not wait; it is killed after the test."""
        self.look()
        process = subprocess.Popen(
            self.command(*args),
            env=self.environment(fault, env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=start_new_session,
        )
        self.started.append(process)
        return process

    def together(self, *commands: Sequence[str], timeout: float = 60) -> list[PodResult]:
        """Run commands concurrently; return their results in the same order."""
        running = [
            self.popen(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for args in commands
        ]
        results = []
        for process, args in zip(running, commands, strict=True):
            out, err = process.communicate(timeout=timeout)
            self.started.remove(process)
            status = process.returncode
            results.append(PodResult(self.command(*args), status, out.decode(), err.decode()))
        self.look()
        return results

    @staticmethod
    def environment(fault: str, env: Mapping[str, str] | None) -> dict[str, str]:
        whole = {name: value for name, value in os.environ.items() if name != FAULT}
        whole.update(env or {})
        if fault:
            whole[FAULT] = fault
        return whole

    # --- what is in the directory ---

    def pods(self, phase: str = "") -> list[str]:
        """Return the UUIDs of the pods in that phase, or in any, sorted."""
        found: set[str] = set()
        for name in (phase,) if phase else PHASES:
            place = self.directory / "pods" / name
            if place.is_dir():
                found.update(os.listdir(place))
        return sorted(found)

    def phase(self, uuid: str) -> str:
        """Return the phase of the pod; "" if it does not exist.

        Checks in the order in which pods move.
        """
        for name in PHASES:
            if (self.directory / "pods" / name / uuid).exists():
                return name
        return ""

    def path(self, uuid: str) -> Path:
        """Return the pod's directory, which must exist."""
        phase = self.phase(uuid)
        assert phase, f"no pod {uuid}"
        return self.directory / "pods" / phase / uuid

    def status(self, uuid: str) -> dict[str, str]:
        """Return the lines that ``status`` prints."""
        lines = self("status", uuid).ok().out.splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    def state(self, uuid: str) -> str:
        return self.status(uuid)["state"]

    def wait_for(self, uuid: str, *states: str, seconds: float = 60) -> str:
        """Poll until the pod is in one of the states; fail with its last state."""
        last = ""

        def there() -> bool:
            nonlocal last
            last = self.state(uuid) if self.phase(uuid) else "gone"
            return last in states

        assert processes.until(there, seconds), f"pod {uuid} is {last}, not {' or '.join(states)}"
        return last

    def wait_for_phase(self, phase: str, count: int = 1, seconds: float = 60) -> list[str]:
        """Poll until that many pods are in the phase; return their UUIDs."""
        assert processes.until(lambda: len(self.pods(phase)) >= count, seconds), self.pods()
        return self.pods(phase)

    def monitor(self, uuid: str) -> dict[str, Any]:
        """Return the content of the pod's monitor.json, {} without one."""
        try:
            value: dict[str, Any] = json.loads((self.path(uuid) / "monitor.json").read_text())
        except (OSError, ValueError, AssertionError):
            return {}
        return value

    def look(self) -> None:
        """Record which pods exist."""
        self.seen.update(name for name in self.pods() if len(name) == 36)

    # --- the end ---

    def finish(self) -> None:
        """End what still runs and remove every pod; assert nothing."""
        self.look()
        self.end_started()
        for uuid in self.pods("run"):
            self._end_monitor(uuid)
        self("gc", "--grace-period=0s", "--expire-prepared=0s")
        self("gc", "--grace-period=0s", "--expire-prepared=0s")
        for uuid in (*self.pods("prepared"), *self.pods("run")):  # which gc is to keep
            self("rm", uuid)
        self.look()

    def end_started(self) -> None:
        """Kill the commands that were not waited for."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def _end_monitor(self, uuid: str) -> None:
        """Kill a monitor by its recorded pids, each of which must still be the same process."""
        noted = self.monitor(uuid)
        pids: set[int] = set()
        for pid, started in (("pid", "start_time"), ("init_pid", "init_start_time")):
            number = int(noted.get(pid) or 0)
            if number > 1 and _start_time(number) == noted.get(started):
                pids.add(number)
        for number in pids:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._wait_for_lock(uuid)

    def _wait_for_lock(self, uuid: str) -> None:
        import fcntl

        try:
            fd = os.open(self.path(uuid), os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, AssertionError):
            return
        deadline = time.monotonic() + 30
        try:
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    # The pod's init has not exited before its orphans are reaped.
                    processes.reap_orphans()
                    time.sleep(0.02)
                else:
                    return
        finally:
            os.close(fd)

    def left(self, mounts_before: Mapping[str, str], processes_before: frozenset[int]) -> list[str]:
        """Return a line for everything of this directory's pods that still exists."""
        mounts = leaks.mount_table()
        found = [f"mount {m}" for key, m in mounts.items() if key not in mounts_before]
        found += [f"cgroup {place}" for uuid in self.seen for place in self.cgroups(uuid)]
        found += [f"state {entry}" for uuid in self.seen for entry in states(uuid)]
        found += [f"pod {self.path(uuid)}" for uuid in self.pods()]
        found += self._in_networks()
        left = processes.descendants() - processes_before
        return sorted(found + [f"process {processes.describe(pid)}" for pid in left])

    def _in_networks(self) -> list[str]:
        """Return devices, rules and addresses in this thread's namespace that name the pods."""
        place = self.directory / "net"
        if not place.exists():
            return []  # none of them was in a network
        names = [name for _, name in socket.if_nameindex()]
        found = [f"link {n}" for n in names if any(uuid[:8] in n for uuid in self.seen)]
        rules = network_host.rule_lines()
        found += [f"rule {r}" for r in rules if any(uuid[:8] in r for uuid in self.seen)]
        leases = network_host.leases(place)
        return found + [f"lease {one}" for one in leases if _names_any(place / one, self.seen)]

    @staticmethod
    def cgroups(uuid: str) -> list[Path]:
        """Return the existing cgroups of a pod, in each hierarchy."""
        places = {top / f"ocipod-{uuid}" for top in cgroupfs.hierarchies().values()}
        return sorted(place for place in places if place.exists())


def _names_any(lease: Path, uuids: set[str]) -> bool:
    """Return whether the file, an address or record of a pod, belongs to one of them."""
    text = lease.name + lease.read_text(encoding="utf-8", errors="replace")
    return any(uuid in text for uuid in uuids)


def _start_time(pid: int) -> int:
    """Field 22 of /proc/PID/stat, 0 if the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def after(ocipod: Ocipod, check: Callable[[], list[str]]) -> list[str]:
    """Return what is left once everything has had time to vanish."""

    def clean() -> bool:
        processes.reap_orphans()
        return not check()

    processes.until(clean, 20)
    ocipod.look()
    return check()
