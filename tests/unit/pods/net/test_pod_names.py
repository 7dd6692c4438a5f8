"""Names of pods in each other's hosts files, and apps that attack their own hosts file."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.pods.net import pod_names, pod_records, update_hosts_files
from tests.support import processes

BASE = "127.0.0.1\tlocalhost\n"


class Pods:
    """Pods whose namespace is this process's, below ``state``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = str(directory / "net")
        self.uuids: dict[str, str] = {}

    def hosts(self, name: str) -> Path:
        return self.directory / name / "hosts"

    def text(self, name: str) -> str:
        return self.hosts(name).read_text()

    def lines(self, name: str) -> list[str]:
        """Return the lines of the pod's block."""
        inside = self.text(name).partition(update_hosts_files.BEGIN.decode())[2]
        return inside.partition(update_hosts_files.END.decode())[0].splitlines()

    def add(self, name: str, address: str, *more: str, network: str = "lan") -> None:
        number = len(self.uuids)
        uuid = self.uuids[name] = f"{number:08x}-0000-4000-8000-000000000000"
        self.hosts(name).parent.mkdir()
        self.hosts(name).write_text(BASE)
        path = "/proc/self/ns/net"
        pod_records.write_record(self.state, uuid, path, pod_records.namespace_identity(path))
        networks = {network: [address]}
        pod_names.join(self.state, uuid, [name, *more], str(self.hosts(name)), networks)

    def remove(self, name: str) -> None:
        pod_names.leave(self.state, self.uuids[name])
        pod_records.forget(self.state, self.uuids.pop(name))


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    return Pods(tmp_path)


def test_each_has_all(pods: Pods) -> None:
    pods.add("web", "10.9.0.2", "abc", "www")
    pods.add("db", "10.9.0.3")
    for name in ("web", "db"):
        assert pods.text(name).startswith(BASE)
        assert pods.lines(name) == ["10.9.0.2\tweb abc www", "10.9.0.3\tdb"]
    pods.remove("db")
    assert pods.lines("web") == ["10.9.0.2\tweb abc www"]
    pods.remove("web")
    assert not os.path.exists(f"{pods.state}/{pod_names.TABLE}")
    pod_names.leave(pods.state, "never-there")


def test_other_networks_are_not_told(pods: Pods) -> None:
    pods.add("web", "10.9.0.2")
    pods.add("spy", "10.8.0.2", network="other")
    assert pods.lines("web") == ["10.9.0.2\tweb"]
    assert pods.lines("spy") == ["10.8.0.2\tspy"]


def test_one_alias_of_two(pods: Pods) -> None:
    pods.add("a", "10.9.0.2", "www")
    pods.add("b", "10.9.0.3", "www")
    assert pods.lines("a") == ["10.9.0.2\ta www", "10.9.0.3\tb www"]


def test_lines_are_short_enough_for_musl(pods: Pods) -> None:
    pods.add("web", "10.9.0.2", *(f"{'x' * 120}{number}" for number in range(10)))
    assert len(pods.lines("web")) == 4
    assert all(len(line) < 511 for line in pods.lines("web"))


@pytest.mark.parametrize(
    "name",
    [
        "a\n1.2.3.4 bank.example",
        "a\r1.2.3.4 b",
        "a b",
        "a\tb",
        "a#b",
        "",
        ".",
        "a..b",
        "-" * 300,
        "localhost",
        "localhost.",
        "LocalHost",
        "ip6-loopback",
        "näme",
        "a\0b",
        "a\u2028b",
    ],
)
def test_no_name_smuggles_a_line(pods: Pods, name: str) -> None:
    pods.add("web", "10.9.0.2", name)
    assert pods.lines("web") == ["10.9.0.2\tweb"]


def test_edits_of_the_app_stay(pods: Pods) -> None:
    pods.add("web", "10.9.0.2")
    with pods.hosts("web").open("a") as file:
        file.write("10.0.0.1 mine")  # without line feed
    text = "# first\n" + pods.text("web")
    pods.hosts("web").write_text(text)
    inode = pods.hosts("web").stat().st_ino
    pods.add("db", "10.9.0.3")
    pods.remove("db")
    assert pods.text("web") == text
    assert pods.hosts("web").stat().st_ino == inode


@pytest.mark.parametrize("end", ["", update_hosts_files.END.decode()])
def test_forged_blocks(pods: Pods, end: str) -> None:
    """An app that writes its own markers only changes its own file."""
    pods.add("web", "10.9.0.2")
    pods.hosts("web").write_text(update_hosts_files.BEGIN.decode() * 3 + "6.6.6.6 db\n" + end)
    pods.add("db", "10.9.0.3")
    assert pods.lines("web") == ["10.9.0.2\tweb", "10.9.0.3\tdb"]
    assert pods.lines("db") == ["10.9.0.2\tweb", "10.9.0.3\tdb"]


def _link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def _fifo(path: Path, target: Path) -> None:
    del target
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path, target: Path) -> None:
    del target
    path.unlink()
    path.mkdir()


def _fill(path: Path, target: Path) -> None:
    del target
    os.truncate(path, 1 << 40)


def _gone(path: Path, target: Path) -> None:
    del target
    path.unlink()


@pytest.mark.parametrize("spoil", [_link, _fifo, _directory, _fill, _gone])
def test_a_spoilt_file_stops_no_other_pod(pods: Pods, tmp_path: Path, spoil: object) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    pods.add("bad", "10.9.0.2")
    spoil(pods.hosts("bad"), target)  # type: ignore[operator]
    size = pods.hosts("bad").lstat().st_size if spoil is _fill else 0
    pods.add("web", "10.9.0.3")
    assert pods.lines("web") == ["10.9.0.2\tbad", "10.9.0.3\tweb"]
    assert target.read_text() == "kept"
    if spoil is _fill:
        assert pods.hosts("bad").stat().st_size == size
    pods.remove("web")
    pods.remove("bad")


def test_an_immutable_file(pods: Pods) -> None:
    pods.add("bad", "10.9.0.2")
    words = ["chattr", "+i", str(pods.hosts("bad"))]
    try:
        done = subprocess.run(words, capture_output=True)
    except FileNotFoundError:
        pytest.skip("chattr is not installed")
    if done.returncode:
        pytest.skip("no immutable files here")
    try:
        pods.add("web", "10.9.0.3")
        assert len(pods.lines("web")) == 2
    finally:
        subprocess.run(["chattr", "-i", str(pods.hosts("bad"))], check=True)


def test_a_lease_delays_no_other_pod(pods: Pods) -> None:
    """The owner of a file may hold a lease, for which open(2) waits up to 45 seconds."""
    pods.add("bad", "10.9.0.2")
    fd = os.open(pods.hosts("bad"), os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, 23)  # SIGURG, which is ignored, instead of SIGIO
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        pods.add("web", "10.9.0.3")
        assert len(pods.lines("web")) == 2
        # Had it waited, the kernel would have taken the lease away, and the file would be written.
        assert b"web" not in os.pread(fd, 1 << 16, 0)
    finally:
        os.close(fd)


def test_a_lock_keeps_nobody_waiting(pods: Pods) -> None:
    pods.add("bad", "10.9.0.2")
    with pods.hosts("bad").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        pods.add("web", "10.9.0.3")
    assert len(pods.lines("bad")) == 2


def test_ones_own_file_must_be_written(pods: Pods) -> None:
    os.mkdir(pods.state)
    with pytest.raises(HostError, match="hosts"):
        pod_names.join(
            pods.state, "u", ["web"], f"{pods.state}/nowhere/hosts", {"lan": ["10.9.0.2"]}
        )


def test_without_a_hosts_file(pods: Pods) -> None:
    """A pod with the host's /etc/hosts is found, but cannot find others."""
    pods.add("web", "10.9.0.2")
    path = "/proc/self/ns/net"
    pod_records.write_record(pods.state, "11111111", path, pod_records.namespace_identity(path))
    pod_names.join(pods.state, "11111111", ["h"], "", {"lan": ["10.9.0.9"]})
    assert pods.lines("web") == ["10.9.0.2\tweb", "10.9.0.9\th"]


def test_dead_pods_are_dropped(pods: Pods) -> None:
    pods.add("dead", "10.9.0.2")
    pod_records.write_record(pods.state, pods.uuids["dead"], "/proc/0/ns/net", [1, 2])
    pods.add("web", "10.9.0.3")
    assert pods.lines("web") == ["10.9.0.3\tweb"]
    assert pod_names.pods_on(pods.state, "lan") == [pods.uuids["web"]]
    assert pod_names.pods_on(pods.state, "other") == []
    pods.remove("dead")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"pods": []}', '{"pods": {"a": 1, "b": {"names": 2}}}', "{"]
)
def test_a_damaged_table(pods: Pods, text: str) -> None:
    pods.add("old", "10.9.0.2")
    Path(f"{pods.state}/{pod_names.TABLE}").write_text(text)
    pods.add("web", "10.9.0.3")
    assert pods.lines("web") == ["10.9.0.3\tweb"]


LONG = pytest.mark.long  # each change forks a process for each pod


def _is_mixture(text: str, states: list[str]) -> bool:
    """Return whether ``text`` is a state, or the beginning of one and the end of another.

    Empty lines at the end of a state do not count.
    """
    size = max(map(len, [text, *states]))
    padded = [state.ljust(size, "\n") for state in states]
    text = text.ljust(size, "\n")
    for before, after in itertools.product(padded, repeat=2):
        pairs = enumerate(zip(text, after, strict=True))
        begin = next((at for at, (seen, new) in pairs if seen != new), size)
        if text[begin:] == before[begin:]:
            return True
    return False


@pytest.mark.parametrize("rounds", [20, pytest.param(200, marks=LONG)])
def test_what_readers_see_while_others_come_and_go(pods: Pods, rounds: int) -> None:
    """A write in place is not atomic, but every byte belongs to a state."""
    pods.add("web", "10.9.0.2")
    states = [pods.text("web")]
    script = (
        "import json, os, select, sys\n"
        "seen = set()\n"
        "while not select.select([sys.stdin], [], [], 0)[0]:\n"
        " fd = os.open(sys.argv[1], os.O_RDONLY)\n"
        " seen.add(os.read(fd, 1 << 16).decode())\n"
        " os.close(fd)\n"
        "print(json.dumps(sorted(seen)))\n"
    )
    reader = subprocess.Popen(
        ["python3", "-c", script, str(pods.hosts("web"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in range(rounds):
            pods.add("db", "10.9.0.3")
            states.append(pods.text("web"))
            pods.remove("db")
            shutil.rmtree(pods.hosts("db").parent)
    finally:
        output, _ = reader.communicate()
    states = sorted({*states, pods.text("web")})
    assert len(states) == 2
    # A read(2) that has seen the size before ftruncate(2) may return zeros from there on.
    seen = [text.rstrip("\0") for text in json.loads(output)]
    assert len({text.rstrip("\n") for text in seen}) > 1, "the reader saw no change"
    assert [text for text in seen if not _is_mixture(text, states)] == []


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=LONG)])
def test_many_pods(pods: Pods, count: int) -> None:
    for number in range(count):
        pods.add(f"pod{number}", f"10.9.0.{number + 2}")
    assert len(pods.lines("pod0")) == count
    first, last = pods.text("pod0"), pods.text(f"pod{count - 1}")
    assert first.removeprefix(BASE) == last.removeprefix(BASE)


def _helpers(pods: Pods) -> set[int]:
    """Return the processes that have the lock of a hosts file open."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue  # the process has exited, or closed one of them
        for link in links:
            is_lock = link.endswith(update_hosts_files.LOCK_SUFFIX)
            if is_lock and link.startswith(str(pods.directory)):
                found.add(int(pid))
    return found


def test_a_write_without_end_stops_no_other_pod(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one helper waits for the file, and it holds only that file's lock."""
    pods.add("bad", "10.9.0.2")
    bad, update = str(pods.hosts("bad")), update_hosts_files.update

    def stop(path: str, block: bytes) -> None:
        if path == bad:
            os.kill(os.getpid(), signal.SIGSTOP)
        update(path, block)

    monkeypatch.setattr(update_hosts_files, "update", stop)
    try:
        pods.add("web", "10.9.0.3")
        pods.add("db", "10.9.0.4")
        assert len(pods.lines("web")) == len(pods.lines("db")) == 3
        pods.add("far", "10.8.0.2", network="other")
        pods.remove("db")
        assert len(pods.lines("web")) == 2
        assert len(pods.lines("bad")) == 1
        (helper,) = _helpers(pods)
        targets = [os.readlink(path) for path in Path(f"/proc/{helper}/fd").iterdir()]
        files = [target for target in targets if target.startswith("/") and "null" not in target]
        assert files == [bad + update_hosts_files.LOCK_SUFFIX]
        # What it has missed, it writes in the end.
        os.kill(helper, signal.SIGCONT)
        assert processes.until(
            lambda: (bool(_helpers(pods)) and processes.state(helper) == "T") or not _helpers(pods)
        )
    finally:
        for helper in _helpers(pods):
            os.kill(helper, signal.SIGKILL)
    assert processes.until(lambda: not _helpers(pods))
    assert pods.lines("bad") == ["10.9.0.2\tbad", "10.9.0.3\tweb"]
