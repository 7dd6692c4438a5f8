"""What `checkpoint` refuses before CRIU touches the container, and the errors around CRIU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import ContainerError, HostError, UsageError
from ociruntime.runtime.lifecycle.checkpoint import checkpoint as module
from ociruntime.runtime.lifecycle.checkpoint import external_mounts
from ociruntime.runtime.lifecycle.checkpoint.criu_options import CriuOptions
from ociruntime.runtime.lifecycle.checkpoint.image_record import ImageRecord, stream_keys

GONE = 1 << 22  # no process has this pid


@pytest.mark.parametrize(
    ("status", "agent", "words"),
    [
        ("created", None, "created state"),
        ("stopped", None, "stopped state"),
        ("running", ["/agent", None], "agent"),
        ("paused", ["/agent", None], "agent"),
    ],
)
def test_container_that_cannot_be_saved(status: str, agent: object, words: str) -> None:
    container: Any = SimpleNamespace(id="web", status=lambda: status, facts={"seccompAgent": agent})
    with pytest.raises(ContainerError, match=f'"web" .*{words}'):
        module._check(container)
    if agent is not None:
        container.facts["seccompAgent"] = None
        module._check(container)


def options(tmp_path: Path, parent: str) -> CriuOptions:
    made = CriuOptions(f"{tmp_path}/images", f"{tmp_path}/images")
    made.parent_path = parent
    return made


def test_parent(tmp_path: Path) -> None:
    """It is relative to the images, so that both can be moved together."""
    (tmp_path / "images").mkdir()
    (tmp_path / "parent").mkdir()
    module._check_parent(options(tmp_path, ""))
    module._check_parent(options(tmp_path, "../parent"))
    with pytest.raises(UsageError, match=r'--parent-path "\.\./gone"'):
        module._check_parent(options(tmp_path, "../gone"))
    with pytest.raises(UsageError, match=f'--parent-path "{tmp_path}/parent"'):
        module._check_parent(options(tmp_path, f"{tmp_path}/parent"))


def test_descriptors_of_a_stage() -> None:
    fd = os.open("/", os.O_RDONLY)
    module._ignore("network-lock", 0, -1)
    module._ignore("network-lock", 0, fd)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f'open "{tmp_path}/gone": no such file'):
        module.open_directory(f"{tmp_path}/gone")


def test_container_that_has_exited() -> None:
    container: Any = SimpleNamespace(pid=GONE)
    with pytest.raises(HostError, match=f"process {GONE}: no such file"):
        module._record(container, {"ociVersion": "1.0.2", "root": {"path": "r"}})
    with pytest.raises(HostError, match=f"process {GONE}: no such file"):
        stream_keys(GONE)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ({"cr_errmsg": "no room", "cr_errno": 28}, "no room"),
        ({"cr_errno": 28}, "No space left on device"),
        ({}, "unknown error"),
    ],
)
def test_failure_without_a_log(tmp_path: Path, answer: dict[str, Any], cause: str) -> None:
    error = module.failure("dump", answer, f"{tmp_path}/dump.log")
    assert error.message == f"dump: criu: {cause}"
    assert "dump.log" in error.hint


def test_joined_mount_namespace() -> None:
    namespaces = [{"type": "mount", "path": "/m"}]
    config: Any = {"root": {"path": "r"}, "linux": {"namespaces": namespaces}}
    with pytest.raises(ContainerError, match='mount namespace "/m"'):
        module.joined_namespaces(config)


def test_streams(tmp_path: Path) -> None:
    """A pipe has a key; a closed descriptor, and a file in a mount of the process, have none."""
    program = "import os; os.close(1); os.read(0, 1)"
    with (
        (tmp_path / "output").open("w") as output,
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.read()  # until the program has closed its end
        link = os.readlink(f"/proc/{process.pid}/fd/0")
        keys = stream_keys(process.pid)
        process.kill()
    assert keys == [link, "", ""]


def test_unwritable_record(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r'write ".*/gone/ociruntime\.json": no such file'):
        ImageRecord({}, [], []).write(f"{tmp_path}/gone")


def test_mount_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mountinfo shows the resolved destination: the source tells which mount it is."""
    source = tmp_path / "data"
    source.mkdir()
    config: Any = {
        "mounts": [{"destination": "/run/data", "source": str(source), "options": ["bind"]}]
    }
    found = 7, external_mounts.identity(str(source))
    monkeypatch.setattr(external_mounts, "find_mount", lambda pid, target: found)
    names = external_mounts.name_mounts(["/var/run/data"], 1, "/b", config)
    assert names == {"/var/run/data": "/run/data"}
    assert external_mounts.identity(f"{tmp_path}/gone") is None
