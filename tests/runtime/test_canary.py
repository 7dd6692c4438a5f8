"""The canary of tests/support/canary.py: it detects what a container could change on the host."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import canary, isolation, project
from tests.support.plugin import MakeBundle, MakeContainer

# A session of its own, in whose namespaces each test breaks one thing.
SESSION = """
import ctypes, os
from pathlib import Path
import pytest
from tests.support import canary, isolation

PROGRAM = Path(__file__).with_name("program")
PROGRAM.write_text("first")
canary.PEERS += (str(PROGRAM),)
libc = ctypes.CDLL(None)
assert libc.unshare(0x04000000) == 0  # UTS namespace
pytestmark = pytest.mark.usefixtures("isolated")
kept = []


def test_mode():
    os.chmod("/dev/null", 0)


def test_restored_after_that():
    assert os.stat("/dev/null").st_mode & 0o777 == 0o666


def test_owner():
    os.chown("/dev/null", 33, 34)


def test_times():
    os.utime("/dev/zero", (1, 1))


def test_mode_and_back():
    os.chmod("/dev/full", 0o600)
    os.chmod("/dev/full", 0o666)


def test_new_device():
    os.mknod("/dev/mem-of-somebody", 0o020666, os.makedev(1, 1))


def test_sysctl():
    Path("/proc/sys/kernel/domainname").write_text("attacked")


def test_mount():
    isolation.mount("none", "/run", "", 4096 | 32 | 1)


def test_program():
    PROGRAM.write_text("other")


def test_keyring():
    assert libc.syscall(250 if os.uname().machine == "x86_64" else 219, 1, None) > 0


def test_descriptor():
    kept.append(os.open("/etc/passwd", os.O_RDONLY))


def test_nothing():
    os.close(os.open("/dev/null", os.O_RDWR))
    Path("/dev/shm/file").write_text("")


def test_last():  # after it, when the session ends, programs are compared by their hashes
    pass
"""

SEEN = {
    "test_mode": "device node /dev/null changed: crw-rw-rw-",
    "test_owner": "33:34",
    "test_times": "device node /dev/zero changed",
    "test_mode_and_back": "device node /dev/full changed",
    "test_new_device": "device node /dev/mem-of-somebody is new",
    "test_sysctl": "sysctl /proc/sys/kernel/domainname changed",
    "test_mount": " /run ro,",
    "test_program": "/program changed",
    "test_keyring": "keyring session changed",
    "test_descriptor": "/etc/passwd",
    "test_last": "/program changed",
}


@pytest.fixture(scope="module")
def verdicts(isolated: None, base: Path) -> dict[str, str]:
    """Return {test of that session: the canary's verdict, "" if it passed}."""
    place = base / "canary"
    place.mkdir()
    (place / "test_broken.py").write_text(SESSION)
    report = place / "report.xml"
    settings = str(project.ROOT / "pyproject.toml")
    command = [sys.executable, "-m", "pytest", "-q", "-c", settings]
    command += ["-p", "tests.conftest", "-p", "no:cacheprovider", f"--rootdir={place}"]
    command += [f"--junitxml={report}", str(place / "test_broken.py")]
    done = subprocess.run(command, cwd=project.ROOT, capture_output=True, text=True)
    assert report.exists(), done
    return {
        case.get("name", ""): " ".join(one.get("message", "") for one in case)
        for case in ET.parse(report).iter("testcase")
    }


@contextmanager
def descriptor_3(number: int) -> Iterator[None]:
    """Open the file as descriptor 3 for a while."""
    kept = os.dup(3) if os.path.exists("/proc/self/fd/3") else -1
    os.dup2(number, 3)
    try:
        yield
    finally:
        if kept >= 0:
            os.dup2(kept, 3, inheritable=False)
            os.close(kept)
        else:
            os.close(3)


KEYRINGS = pytest.mark.needs_call("keyctl", reason="changes keyrings")


@pytest.mark.parametrize(
    "test", [pytest.param(one, marks=KEYRINGS if one == "test_keyring" else ()) for one in SEEN]
)
def test_change_is_seen(verdicts: dict[str, str], test: str) -> None:
    assert ("the host changed" in verdicts[test]) == (test != "test_last")
    assert SEEN[test] in verdicts[test]


@pytest.mark.parametrize("test", ["test_nothing", "test_restored_after_that"])
def test_harmless_use_is_no_change(verdicts: dict[str, str], test: str) -> None:
    assert verdicts[test] == ""


@pytest.fixture
def machine(work: Path) -> Iterator[str]:
    """The machine's /dev, which the session's own one covers."""
    place = work / "dev"
    place.mkdir()
    try:
        isolation.mount("devtmpfs", str(place), "devtmpfs")
    except OSError as error:
        pytest.skip(f"no devtmpfs can be mounted here: {error}")
    yield str(place)
    isolation.unmount(str(place))


def test_the_machine_keeps_its_devices(machine: str) -> None:
    """Changes in /dev do not reach the nodes that other programs use."""
    own, other = (os.stat(f"{top}/null") for top in ("/dev", machine))
    assert own.st_rdev == other.st_rdev
    assert own.st_dev != other.st_dev


def test_standard_streams_are_of_the_own_devices(machine: str) -> None:
    """Otherwise a container that inherits a stream reaches the machine's node."""
    for number in (0, 1, 2):
        assert os.fstat(number).st_dev != os.stat(machine).st_dev


def test_every_node_is_there(machine: str) -> None:
    """Engines and virtual machines find the devices that the machine has."""
    own = canary.device_nodes("/dev")
    devices = {path: one for path, one in own.items() if isinstance(one, canary.Node)}
    for path, node in canary.device_nodes(machine).items():
        if isinstance(node, canary.Node) and node.device:
            assert devices[f"/dev{path.removeprefix(machine)}"].device == node.device, path


def test_comparison() -> None:
    before, after = {"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5}
    assert canary.compare("thing", before, after) == [
        "thing a is gone: 1",
        "thing c changed: 3 -> 4",
        "thing d is new: 5",
    ]


def test_mounts_on_devices_are_not_their_nodes(work: Path) -> None:
    top = work / "top"
    top.mkdir()
    isolation.mount("tmpfs", str(top), "tmpfs")
    (top / "sub").mkdir()
    isolation.mount("tmpfs", str(top / "sub"), "tmpfs")
    (top / "sub" / "file").write_text("")
    found = canary.device_nodes(str(top))
    isolation.unmount(str(top))
    assert list(found) == [str(top)]


def test_hostile_program_gets_what_is_open(
    container: MakeContainer, bundle: MakeBundle, hostile: Path, work: Path
) -> None:
    """Unreported attempts of tests/attacks/hostile.c were blocked by the container."""
    node = work / "null"
    os.mknod(node, 0o020666, os.makedev(1, 3))
    one = bundle().capabilities("CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_CHOWN", "CAP_FOWNER")
    shutil.copy(hostile, one.rootfs / "bin" / "hostile")
    one.linux["maskedPaths"] = one.linux["readonlyPaths"] = []
    one.resources["devices"] = [{"allow": True, "access": "rwm"}]
    one.args("/bin/hostile", "/proc/timer_list", ":", "/proc/irq")
    # Pytest uses the numbers from 3 on; the runtime passes on one, which must be that one.
    with open(node, "rb") as file, descriptor_3(file.fileno()), tempfile.TemporaryFile() as empty:
        done = container(one).run("--preserve-fds=1", stdin=empty, pass_fds=(3,)).ok()
    got = {tuple(line.split("\t")) for line in done.out.splitlines()}
    assert got >= {
        ("descriptor", str(node)),
        ("fchmod", str(node)),
        ("fchown", str(node)),
        ("futimens", str(node)),
        ("device", "/tmp c 10:237"),
        ("mount", "proc"),
        ("umount", "/dev/shm"),
        ("remount", "/sys"),
        ("unshare", "mount"),
        ("read", "/proc/timer_list"),
        ("write", "/proc/sys/vm/overcommit_memory"),
        ("set", "/proc/sys/kernel/panic"),
        ("done", ""),
    }
    assert not any(action.startswith("nested device") for action, _ in got)
