"""`exec` into a hostile container: nothing of the host leaks into it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer, Probe
from tests.support.runtime import Result, execute


def leaking(running: Container, fd: int, *words: str) -> Result:
    """Run ``exec`` by a caller that has leaked the host's root as descriptor ``fd``."""
    script = f'exec "$0" "$@" {fd}</'
    return execute(["/bin/sh", "-c", script, *running.runtime.command("exec", *words)])


@pytest.mark.parametrize("way", ["", "/../..", "/../../etc"])
@pytest.mark.parametrize("fd", [3, 7, 8])
def test_leaked_directory_is_no_way_out(container: MakeContainer, fd: int, way: str) -> None:
    """CVE-2024-21626: neither as working directory nor as the program's path."""
    running = container().started()
    as_cwd = leaking(running, fd, f"--cwd=/proc/self/fd/{fd}{way}", running.id, "ls", "/")
    as_program = leaking(running, fd, running.id, f"/proc/self/fd/{fd}/bin/sh", "-c", "true")
    listed = leaking(running, fd, running.id, "ls", "/proc/self/fd").ok().out.split()
    assert as_cwd.status == 255
    assert as_program.status == 255
    assert listed == ["0", "1", "2", "3"]  # the last is ls's own


def test_working_directory_swapped_for_a_link(container: MakeContainer) -> None:
    """A link at the working directory's path is only followed in the container."""
    running = container().started()
    (running.bundle.rootfs / "work").symlink_to("/proc/1/cwd/../../..")
    assert running.exec("--cwd=/work", "pwd", "-P").ok().out == "/\n"


def test_program_of_the_runtime_is_out_of_reach(container: MakeContainer) -> None:
    """CVE-2019-5736: /proc/self/exe as interpreter is the program, or sealed memory."""
    running = container().started()
    script = running.bundle.rootfs / "bin" / "self"
    script.write_text("#!/proc/self/exe\n")
    script.chmod(0o755)
    before = [path.read_bytes() for path in programs()]
    assert running.exec("/bin/self").status != 0
    running.exec("/proc/self/exe")
    assert [path.read_bytes() for path in programs()] == before


def programs() -> list[Path]:
    package = Path(__file__).resolve().parents[2] / "ociruntime"
    return sorted(package.glob("executor/_executor"))


WATCH = """
cd /proc
while :; do
    for pid in [0-9]*; do
        [ $pid = 1 ] || [ $pid = $$ ] && continue
        name=$(cat $pid/comm 2>/dev/null)
        [ "$name" = ociruntime-init ] || continue
        cat $pid/status >>/tmp/seen 2>/dev/null
        ls -l $pid/fd $pid/exe $pid/cwd >>/tmp/reached 2>/dev/null
    done
done
"""


def test_nobody_sees_privileges_on_the_way(container: MakeContainer, bundle: MakeBundle) -> None:
    """CVE-2016-9962: container root cannot trace a process that joins it with privileges.

    When it can trace it, the process has only the program's capabilities.
    """
    watcher = container(bundle("sh", "-c", WATCH).capabilities("CAP_KILL")).started()
    for _ in range(30):
        watcher.exec("true").ok()
    rootfs = watcher.bundle.rootfs
    seen = rootfs / "tmp" / "seen"
    text = seen.read_text() if seen.exists() else ""
    for line in text.splitlines():
        if line.startswith("CapEff:"):
            assert int(line.split()[1], 16) == 1 << 5
    reached = rootfs / "tmp" / "reached"
    for line in reached.read_text().splitlines() if reached.exists() else ():
        link, arrow, target = line.partition(" -> ")
        # Its standard streams, once it has become the program; nothing before.
        if arrow:
            assert link.split()[-1] in {"0", "1", "2"} or target in {"/", "/bin/busybox"}, line


def test_inheritable_capabilities_stay_empty(container: MakeContainer) -> None:
    """CVE-2022-29162, and runc's meaning of --cap: capabilities are added."""
    made = container()
    made.bundle.capabilities("CAP_KILL")
    running = made.started()
    status = running.exec("--cap=CAP_NET_RAW", "cat", "/proc/self/status").ok().out
    sets = {line[3:6]: int(line[8:], 16) for line in status.splitlines() if line[:3] == "Cap"}
    granted = 1 << 5 | 1 << 13
    assert sets == {"Inh": 0, "Prm": granted, "Eff": granted, "Bnd": granted, "Amb": 0}


@judge_by("ociruntime")
def test_an_unknown_capability_is_left_out(container: MakeContainer) -> None:
    """With a warning, as in config.json."""
    done = container().started().exec("--cap=CAP_KIL", "true").ok()
    assert "level=warning" in done.err
    assert "did you mean" in done.err


USERS = [
    "abc",
    "0x0",
    "-1",
    "4294967295",
    "4294967296",
    " 1",
    "1 ",
    "+1",
    "\uff11",
    ":2",
    "1:",
    "1:x",
]


@pytest.mark.parametrize("user", USERS)
def test_users_are_numbers(container: MakeContainer, user: str) -> None:
    """CVE-2016-3697, CVE-2026-30892: anything but a number is refused, never taken for root."""
    running = container().started()
    (running.bundle.rootfs / "etc").mkdir(exist_ok=True)
    (running.bundle.rootfs / "etc" / "passwd").write_text("abc:x:0:0::/:/bin/sh\n")
    refused = running.exec(f"--user={user}", "id", "-u")
    assert (refused.status, refused.out) == (255, "")
    assert "--user" in refused.err


def test_killed_in_the_middle(container: MakeContainer, work: Path) -> None:
    """A runtime killed while the process starts leaves a working container."""
    running = container().started()
    for pause in range(0, 30, 3):
        command = running.runtime.popen("exec", running.id, "true")
        time.sleep(pause / 1000)
        command.kill()
        command.wait()
    running.exec("true").ok()
    processes.reap_orphans()
    assert running.status == "running"


def test_facts_are_those_of_the_first_process(probe: Probe, container: MakeContainer) -> None:
    """The same, except for values that differ between processes and containers.

    (The first line of /proc/self/cgroup is that of the hierarchy mounted last on the host.)
    """
    own = probe()
    executed = json.loads(container().started().exec("/bin/probe", "facts").ok().out)
    different = {key for key in own if own[key] != executed.get(key)}
    assert different <= {*"argv cgroup fds keyring namespaces pgid pid root_inode sid".split()}, {
        key: (own[key], executed.get(key)) for key in different
    }
    assert sorted(own["fds"]) == sorted(executed["fds"])
