"""What an app with CAP_SYS_PTRACE can reach through the pod's init: /proc/1/exe and /proc/1/fd."""

from __future__ import annotations

import os
from pathlib import Path

from ociruntime.pods.monitor.pod_processes import PROGRAM
from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.peers import judge_by
from tests.support.pod_images import busybox, shell

pytestmark = judge_by("ociruntime")

POWERS = "--caps-retain=CAP_SYS_PTRACE,CAP_FOWNER,CAP_DAC_OVERRIDE,CAP_CHOWN"
ATTACK = """
    chmod 777 /proc/1/exe
    echo forged >/proc/1/exe
    for each in /proc/1/fd/*; do
        chmod 600 $each
        chown 33:34 $each
        touch -d 2001-02-03 $each
    done
    echo tried
    exec sleep 100
"""


def helpers(one: Ocipod) -> dict[str, int]:
    """Return the pids of the pod's init and lock holder, by their names."""
    found = {}
    for pid in processes.descendants():
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        if name in ("ocipod-init", "ocipod-lock"):
            found[name] = pid
    assert set(found) == {"ocipod-init", "ocipod-lock"}
    return found


def descriptors(pid: int) -> dict[int, str]:
    directory = Path(f"/proc/{pid}/fd")
    return {int(each.name): os.readlink(each) for each in directory.iterdir()}


def test_the_host_is_not_there(ocipod: Ocipod, work: Path) -> None:
    """The app tries to reach them; the canary checks the program and the null device."""
    before = os.stat(PROGRAM)
    ocipod("run", "--detach", "--net=none", busybox(work), POWERS, *shell(ATTACK)).ok()
    (uuid,) = ocipod.pods()
    assert processes.until(lambda: "tried" in ocipod("logs", uuid).out)
    after = os.stat(PROGRAM)
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)
    init = helpers(ocipod)["ocipod-init"]
    assert os.readlink(f"/proc/{init}/exe").startswith("/memfd:")
    for number, target in descriptors(init).items():
        assert target.startswith("pipe:"), (number, target)


def test_descriptors_of_the_caller(ocipod: Ocipod, work: Path) -> None:
    """Neither the init nor the lock holder inherits open descriptors of ocipod's caller."""
    secret = work / "secret"
    secret.write_text("of the host")
    kept = os.open(secret, os.O_RDONLY)
    os.set_inheritable(kept, True)
    ocipod("app", "sandbox", "--detach", "--net=none", pass_fds=[kept]).ok()
    os.close(kept)
    for name, pid in helpers(ocipod).items():
        assert str(secret) not in descriptors(pid).values(), name
