"""An ordinary user's containers as units of the user's own systemd."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes, systemd
from tests.support.plugin import TAG, MakeBundle
from tests.support.runtime import Result, Runtime, execute

UID = 1  # a user that every host has: daemon
MANAGER = f"user@{UID}.service"
GROUP = Path(f"/sys/fs/cgroup/user.slice/user-{UID}.slice/{MANAGER}")
UNIT = f"{TAG}-one.scope"


@pytest.fixture(scope="module")
def manager(runtime: Runtime) -> Iterator[None]:
    systemd.systemctl("start", MANAGER)
    yield
    systemd.systemctl("stop", MANAGER)


def as_user(*words: str) -> Result:
    """Run outside the tests' mount namespace, whose /run leads only root to systemd."""
    ids = ("--reuid", str(UID), "--regid", str(UID), "--clear-groups")
    env = {
        "PATH": os.environ["PATH"],
        "USER": "daemon",
        "XDG_RUNTIME_DIR": f"/run/user/{UID}",
    }
    return execute(["nsenter", "--mount=/proc/1/ns/mnt", "setpriv", *ids, *words], env=env)


@pytest.mark.usefixtures("manager")
@pytest.mark.parametrize("namespace", [(), ("unshare", "--user", "--map-root-user")])
def test_a_whole_life(
    runtime: Runtime, bundle: MakeBundle, work: Path, namespace: tuple[str, ...]
) -> None:
    """In a user namespace, systemd does not know its uids."""
    place = bundle().path
    (place / "config.json").unlink(missing_ok=True)
    os.chmod(place, 0o777)
    root = work / "state"
    root.mkdir(0o700)
    os.chown(root, UID, UID)
    command = (*namespace, str(runtime.path), "--root", str(root), "--systemd-cgroup")
    as_user(*namespace, str(runtime.path), "spec", "--rootless", "--bundle", str(place)).ok()
    config = json.loads((place / "config.json").read_text())
    config["process"].update(terminal=False, args=["sleep", "100"])
    config["linux"]["cgroupsPath"] = f":{TAG}:one"
    config["linux"]["resources"] = {"pids": {"limit": 9}, "memory": {"limit": 64 << 20}}
    (place / "config.json").write_text(json.dumps(config))
    try:
        as_user(*command, "run", "-d", "--bundle", str(place), "one").silent()
        group = GROUP / "user.slice" / UNIT
        assert (group / "pids.max").read_text() == "9\n"
        assert (group / "memory.max").read_text() == f"{64 << 20}\n"
        shown = as_user("systemctl", "--user", "show", UNIT, "-p", "TasksMax,MemoryMax").ok()
        assert set(shown.out.split()) == {"TasksMax=9", f"MemoryMax={64 << 20}"}
        assert len((group / "cgroup.procs").read_text().split()) == 1
        own = f"0::{str(group).removeprefix('/sys/fs/cgroup')}\n"
        if not namespace:  # each call has one of its own, and no power over the other's
            as_user(*command, "exec", "one", "true").silent()
            words = ("exec", "--detach", f"--pid-file={place}/pid", "one", "sleep", "50")
            as_user(*command, *words).silent()
            executed = int((place / "pid").read_text())
            assert Path(f"/proc/{executed}/cgroup").read_text() == own
            os.kill(executed, signal.SIGKILL)
            os.waitpid(executed, 0)
            as_user("mkdir", str(group / "inner")).silent()
            below = ("exec", "--cgroup=inner", "one", "cat", "/proc/self/cgroup")
            assert as_user(*command, *below).ok().out.endswith("/inner\n")
        as_user(*command, "update", "--pids-limit=8", "one").silent()
        assert (group / "pids.max").read_text() == "8\n"
    finally:
        deleted = as_user(*command, "delete", "--force", "one")
    deleted.silent()
    assert not group.exists()
    listed = as_user("systemctl", "--user", "list-units", "--all", "--no-legend", UNIT).ok()
    assert listed.out == ""
    processes.reap_orphans()
