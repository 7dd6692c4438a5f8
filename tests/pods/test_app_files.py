"""``app copy-out``, ``copy-in`` and ``diff``: files of apps that try to reach the host's files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.pods.sandbox import Sandbox
from tests.support import processes
from tests.support.ocipod import Ocipod

STAYS = "echo ready; exec sleep 100"


@pytest.fixture
def sandbox(ocipod: Ocipod, work: Path) -> Sandbox:
    return Sandbox(ocipod, work)


@pytest.fixture
def outside(work: Path) -> Path:
    """A directory of the host, with a file, that no app may reach."""
    place = work / "outside"
    place.mkdir()
    (place / "file").write_text("the host's")
    return place


class Copies:
    """Copies from and to the app "web" of a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def _run(
        self, command: str, path: str, *options: str, data: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        words = ("app", command, "--app=web", *options, self.sandbox.uuid, path)
        return subprocess.run(
            self.sandbox.ocipod.command(*words), input=data, capture_output=True, timeout=60
        )

    def out(self, path: str, *options: str) -> dict[str, tarfile.TarInfo]:
        done = self._run("copy-out", path, *options)
        assert done.returncode == 0, done.stderr
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            return {member.name: member for member in archive}

    def content(self, path: str, *options: str) -> bytes:
        done = self._run("copy-out", path, *options)
        assert done.returncode == 0, done.stderr
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            file = archive.extractfile(archive.getmembers()[0])
            assert file is not None
            return file.read()

    def facts(self, path: str, *options: str) -> dict[str, object]:
        done = self._run("copy-out", path, "--stat", *options)
        assert done.returncode == 0, done.stderr
        facts: dict[str, object] = json.loads(done.stdout)
        return facts

    def refused(self, command: str, path: str, *options: str, data: bytes = b"") -> str:
        done = self._run(command, path, *options, data=data)
        assert done.returncode != 0, (done.stdout[:200], done.stderr)
        return done.stderr.decode()

    def put(self, path: str, *options: str, data: bytes) -> None:
        done = self._run("copy-in", path, *options, data=data)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def copies(sandbox: Sandbox) -> Copies:
    return Copies(sandbox)


def shell(sandbox: Sandbox, script: str) -> str:
    words = ("app", "exec", "--app=web", sandbox.uuid, "--", "sh", "-c", script)
    return sandbox.ocipod(*words).ok().out


def packed(*members: tarfile.TarInfo, content: bytes = b"new") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            if member.isreg():
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return buffer.getvalue()


def file(name: str, **how: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    for key, value in how.items():
        setattr(member, key, value)
    return member


def link(name: str, target: str) -> tarfile.TarInfo:
    return file(name, type=tarfile.SYMTYPE, linkname=target)


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_copies_there_and_back(sandbox: Sandbox, copies: Copies, running: bool) -> None:
    sandbox.start("web", "mkdir -p /d/e; echo one >/d/a; ln -s a /d/l; chmod 640 /d/a", STAYS)
    shell(sandbox, "until [ -L /d/l ]; do sleep 0.1; done")
    if not running:
        sandbox.do("stop", "web")
    found = copies.out("/d")
    assert list(found) == [".", "a", "e", "l"]
    assert (found["a"].mode, found["l"].linkname) == (0o640, "a")
    assert copies.content("/d/a") == b"one\n"
    assert copies.content("d/e/../a") == b"one\n"
    assert copies.facts("/d/l") == {"name": "l", "kind": "link", "size": 1}
    assert copies.facts("/d/l", "--follow-link") == {"name": "a", "kind": "file", "size": 4}
    assert copies.facts("/d/.")["name"] == ""
    copies.put("/d", data=packed(file("b", uid=7, mode=0o755)))
    copies.put("/d", "--name=c", data=packed(file("x")))
    assert (copies.out("/d")["b"].uid, copies.out("/d")["b"].mode) == (7, 0o755)
    assert copies.content("/d/c") == b"new"
    if running:
        assert shell(sandbox, "cat /d/b") == "new"
    else:
        sandbox.do("start", "web")
        assert shell(sandbox, "cat /d/c") == "new"


def test_a_stopped_app_leaves_no_mount(sandbox: Sandbox, copies: Copies) -> None:
    sandbox.start("web", STAYS)
    sandbox.do("stop", "web")
    before = Path("/proc/self/mountinfo").read_text()
    copies.out("/etc")
    copies.put("/etc", data=packed(file("b")))
    assert Path("/proc/self/mountinfo").read_text() == before


def test_links_lead_nowhere_outside(sandbox: Sandbox, copies: Copies, outside: Path) -> None:
    script = f"ln -s {outside} /out; ln -s {outside}/file /f; ln -s ../../../../.. /up"
    sandbox.start("web", script, STAYS)
    shell(sandbox, "until [ -L /up ]; do sleep 0.1; done")
    for path in ("/out/file", "/out/", f"/up{outside}/file", "/proc/1/root" + str(outside)):
        assert "no such file" in copies.refused("copy-out", path)
    assert "no such file" in copies.refused("copy-out", "/f", "--follow-link")
    assert "no such file" in copies.refused("copy-in", "/out", data=packed(file("x")))
    assert os.listdir(outside) == ["file"]
    # Into the app's own root, however many levels the path goes up.
    copies.put("/../../..", data=packed(file("x")))
    assert shell(sandbox, "cat /x") == "new"


def test_archives_that_lead_outside(sandbox: Sandbox, copies: Copies, outside: Path) -> None:
    sandbox.start("web", STAYS)
    through = packed(link("l", str(outside)), file("l/x"))
    copies.put("/tmp", data=through)
    # The directory is the root for links of the archive, as it is for those of an image's layer.
    assert shell(sandbox, f"cat /tmp{outside}/x") == "new"
    for name in ("../x", "a/../../x"):
        assert '".."' in copies.refused("copy-in", "/tmp", data=packed(file(name)))
    copies.put("/tmp", data=packed(file("/etc/x")))
    assert shell(sandbox, "cat /tmp/etc/x") == "new"
    hard = file("h", type=tarfile.LNKTYPE, linkname=f"{outside}/file")
    copies.refused("copy-in", "/tmp", data=packed(hard))
    assert os.listdir(outside) == ["file"]
    assert (outside / "file").read_text() == "the host's"


def test_a_name_that_is_a_whiteout_in_layers(sandbox: Sandbox, copies: Copies) -> None:
    sandbox.start("web", "echo kept >/tmp/a", STAYS)
    shell(sandbox, "until [ -e /tmp/a ]; do sleep 0.1; done")
    copies.put("/tmp", data=packed(file(".wh.a"), file(".wh..wh..opq")))
    assert shell(sandbox, "ls -A /tmp").split() == [".wh..wh..opq", ".wh.a", "a"]


@pytest.mark.parametrize("rounds", [8, pytest.param(25, marks=pytest.mark.long)])
def test_files_that_change_into_links_meanwhile(
    sandbox: Sandbox, copies: Copies, outside: Path, rounds: int
) -> None:
    """The app exchanges a directory with a link to the host's as fast as it can."""
    script = f"mkdir /a /b; echo own >/a/file; ln -s {outside} /l; ln -s /a /link; "
    script += "while :; do mv /a /b/a; mv /l /a; mv /a /l; mv /b/a /a; done"
    sandbox.start("web", script)
    shell(sandbox, "until [ -L /link ]; do sleep 0.1; done")
    reached = 0
    # How often a copy finds the file depends on how busy the machine is.
    for number in range(200):
        if number >= rounds and reached:
            break
        for path in ("/a/file", "/link/file"):
            done = copies._run("copy-out", path)
            assert b"the host's" not in done.stdout
            reached += done.returncode == 0
        done = copies._run("copy-out", "/a")
        assert b"the host's" not in done.stdout
        copies._run("copy-in", "/a", data=packed(file("new"), file("d/e"), file("file")))
        assert os.listdir(outside) == ["file"]
        assert (outside / "file").read_text() == "the host's"
    assert reached, "the exchange was too fast for any copy"


def test_a_file_never_replaces_a_directory(sandbox: Sandbox, copies: Copies) -> None:
    """Removing it could empty a volume that is mounted in it."""
    sandbox.start("web", "mkdir -p /d/sub; echo kept >/d/sub/file", STAYS)
    shell(sandbox, "until [ -e /d/sub/file ]; do sleep 0.1; done")
    for member in (file("sub"), link("sub", "/etc")):
        assert 'directory "sub"' in copies.refused("copy-in", "/d", data=packed(member))
    hard = file("sub", type=tarfile.LNKTYPE, linkname="a")
    assert 'directory "sub"' in copies.refused("copy-in", "/d", data=packed(file("a"), hard))
    assert shell(sandbox, "cat /d/sub/file") == "kept\n"
    copies.put("/d/sub", data=packed(file("file", type=tarfile.DIRTYPE, mode=0o700)))
    assert shell(sandbox, "ls -d /d/sub/file/.") == "/d/sub/file/.\n"


def test_special_files_and_devices(sandbox: Sandbox, copies: Copies) -> None:
    """Opening a FIFO would block forever; reading a device could have any effect."""
    sandbox.start("web", "mkfifo /fifo", STAYS)
    shell(sandbox, "until [ -p /fifo ]; do sleep 0.1; done")
    assert copies.facts("/fifo")["kind"] == "special"
    for path in ("/fifo", "/dev/null"):
        assert "a regular file" in copies.refused("copy-out", path)
    found = copies.out("/")
    assert found["fifo"].isfifo()
    assert "proc" in found
    assert not any(name.startswith("proc/") for name in found)


def test_what_is_refused(sandbox: Sandbox, copies: Copies) -> None:
    sandbox.start("web", STAYS)
    assert "no such file" in copies.refused("copy-out", "/nope")
    assert "not a directory" in copies.refused("copy-in", "/etc/passwd", data=packed(file("x")))
    assert "--name" in copies.refused("copy-in", "/tmp", "--name=a/b", data=packed(file("x")))
    copies.refused("copy-in", "/tmp", data=b"no archive, but longer than a block" * 20)
    assert "running" in copies.refused("copy-out", "/tmp", "--only=stopped")
    sandbox.do("stop", "web")
    assert "stopped" in copies.refused("copy-out", "/tmp", "--only=running")


def test_diff(sandbox: Sandbox) -> None:
    sandbox.start("web", "echo >/new; rm /etc/passwd; echo x >>/etc/group; mkdir /d", STAYS)
    shell(sandbox, "until [ -d /d ]; do sleep 0.1; done")
    words = ("app", "diff", "--app=web", sandbox.uuid)
    lines = sandbox.ocipod(*words).ok().out.splitlines()
    assert {"A /new", "D /etc/passwd", "C /etc/group", "C /etc", "A /d"} <= set(lines)
    lines = sandbox.ocipod(*words, "--format=json").ok().out.splitlines()
    assert {"kind": "A", "path": "/new"} in map(json.loads, lines)


def test_changes_too_deep_to_list(sandbox: Sandbox, work: Path) -> None:
    """Their names would not fit into memory."""
    (work / "config").mkdir()
    (work / "config/limits.json").write_text('{"depth": 50}')
    deep = "/".join(["d"] * 60)
    sandbox.start("web", f"mkdir -p /{deep} /done", STAYS)
    shell(sandbox, "until [ -d /done ]; do sleep 0.1; done")
    words = (f"--local-config={work}/config", "app", "diff", "--app=web", sandbox.uuid)
    done = sandbox.ocipod(*words)
    assert done.status == 254
    assert "nested more than 50 deep" in done.err


@pytest.mark.parametrize("command", ["copy-out", "copy-in"])
def test_a_copy_ends_with_the_run(sandbox: Sandbox, copies: Copies, command: str) -> None:
    """The client neither reads nor writes: the next start must not mount the files twice."""
    sandbox.start("web", "dd if=/dev/zero of=/big bs=1M count=4; touch /done", STAYS)
    shell(sandbox, "until [ -e /done ]; do sleep 0.1; done")
    path = "/big" if command == "copy-out" else "/tmp"
    words = sandbox.ocipod.command("app", command, "--app=web", sandbox.uuid, path)
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            if command == "copy-out":
                assert process.stdout.read(1)
            else:
                opened = f"/proc/{process.pid}/task/{process.pid}/children"
                assert processes.until(lambda: bool(Path(opened).read_text()))
            sandbox.do("stop", "web")
            sandbox.do("start", "web")
            assert process.wait(30) != 0
            assert b"has just exited" in process.stderr.read()
        finally:
            process.kill()
    assert shell(sandbox, "ls /done") == "/done\n"


def test_a_stopped_app_does_not_start_while_it_is_copied(sandbox: Sandbox, copies: Copies) -> None:
    sandbox.start("web", "dd if=/dev/zero of=/big bs=1M count=4; touch /done", STAYS)
    shell(sandbox, "until [ -e /done ]; do sleep 0.1; done")
    sandbox.do("stop", "web")
    words = sandbox.ocipod.command("app", "copy-out", "--app=web", sandbox.uuid, "/big")
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.read(1)
            refused = sandbox.ocipod("app", "start", sandbox.uuid, "--app=web")
            assert "being copied" in refused.err
        finally:
            process.kill()
    sandbox.do("start", "web")


# --- volumes of stopped apps ---


def volume(name: str, source: Path, target: str, **more: object) -> str:
    fields = {"name": name, "kind": "host", "source": source, "target": target, **more}
    return "--mnt-volume=" + ",".join(f"{key}={value}" for key, value in fields.items())


def directory(work: Path, name: str, *files: str) -> Path:
    place = work / name
    place.mkdir()
    for one in files:
        (place / one).write_text(name)
    return place


@pytest.mark.parametrize("state", ["running", "stopped", "never started"])
def test_copies_from_and_to_volumes(
    sandbox: Sandbox, copies: Copies, work: Path, state: str
) -> None:
    outer, inner = directory(work, "outer", "a"), directory(work, "inner", "b")
    (outer / "in").mkdir()
    file = work / "single"
    file.write_text("single")
    options = (
        *(
            volume("o", outer, "/data"),
            volume("i", inner, "/data/in"),
            volume("n", inner, "/new/x"),
        ),
        *(volume("f", file, "/etc/group"), volume("r", inner, "/ro", readOnly="true")),
    )
    sandbox.add("web", STAYS, options=options)
    if state != "never started":
        sandbox.do("start", "web")
    if state == "stopped":
        sandbox.do("stop", "web")
    before = Path("/proc/self/mountinfo").read_text()
    assert copies.content("/data/a") == b"outer"
    assert copies.content("/link/in/b") == b"inner", "through a link of the image"
    assert copies.content("/new/x/b") == b"inner"
    assert copies.content("/ro/b") == b"inner"
    assert list(copies.out("/new")) == [".", "x"], "what is mounted below is left out"
    copies.put("/data", data=packed_file("c"))
    assert (outer / "c").read_text() == "new"
    if state != "never started":
        assert copies.content("/etc/group") == b"single"
    assert "read-only" in copies.refused("copy-in", "/ro", data=packed_file("d"))
    assert sorted(os.listdir(inner)) == ["b"]
    assert Path("/proc/self/mountinfo").read_text() == before


def packed_file(name: str) -> bytes:
    return packed(file(name))


def test_mount_points_that_became_links(
    sandbox: Sandbox, copies: Copies, work: Path, outside: Path
) -> None:
    """Nothing is mounted or created outside the app's root."""
    source = directory(work, "source", "a")
    options = [volume(f"v{at}", source, f"/v{at}") for at in range(4)]
    sandbox.start("web", STAYS, options=options)
    sandbox.do("stop", "web")
    uppers = list((sandbox.ocipod.directory / "pods/run").glob("*/apps/web/upper"))
    (upper,) = uppers
    for at, target in enumerate((str(outside), f"{outside}/new", "/", "v3")):
        (upper / f"v{at}").rmdir()
        (upper / f"v{at}").symlink_to(target)
    for path in ("/v0/file", f"{outside}/file"):
        assert b"the host's" not in copies._run("copy-out", path).stdout
    copies._run("copy-in", "/v0", data=packed_file("x"))
    copies._run("copy-in", "/v1", data=packed_file("x"))
    assert os.listdir(outside) == ["file"]
    assert copies.content("/etc/passwd")


def test_volumes_whose_source_is_gone(sandbox: Sandbox, copies: Copies, work: Path) -> None:
    """The other files of the app remain accessible."""
    source, kept = directory(work, "source", "a"), directory(work, "kept", "a")
    options = (volume("s", source, "/s"), volume("k", kept, "/k"))
    sandbox.start("web", STAYS, options=options)
    sandbox.do("stop", "web")
    (source / "a").unlink()
    source.rmdir()
    assert copies.content("/k/a") == b"kept"
    assert b"root" in copies.content("/etc/passwd")


def test_a_mount_point_in_a_volume_that_another_app_changes(
    sandbox: Sandbox, copies: Copies, work: Path, outside: Path
) -> None:
    """The other app exchanges it with a link to the host's directory."""
    shared, inner = directory(work, "shared"), directory(work, "inner", "file")
    (shared / "in").mkdir()
    options = (volume("s", shared, "/s"), volume("i", inner, "/s/in", readOnly="true"))
    sandbox.start("web", STAYS, options=options)
    sandbox.do("stop", "web")
    script = f"cd /s; ln -s {outside} l; while :; do mv in d; mv l in; mv in l; mv d in; done"
    sandbox.start("evil", script, options=(volume("s", shared, "/s"),))
    for _ in range(25):
        assert b"the host's" not in copies._run("copy-out", "/s/in/file").stdout
        copies._run("copy-in", "/s/in", data=packed_file("file"))
        assert os.listdir(outside) == ["file"]
        assert (outside / "file").read_text() == "the host's"
    assert (inner / "file").read_text() == "inner"
