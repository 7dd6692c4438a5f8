"""Devices of the node in containers, by path and by CDI."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import Both
from tests.engines.cri.pod import Pod
from tests.support import isolation

KIND, NAME = "example.com/device", "first"
# Every process may open it, but no container has it by default.
FUSE = "/dev/fuse"
FUSE_NUMBERS = 10, 229


def test_devices(both: Both) -> None:
    """A device plugin's request: the node, with only the permissions that it names."""
    if not os.path.exists(FUSE):
        pytest.skip(f"this kernel has no {FUSE}")
    devices = [
        {"host_path": "/dev/zero", "container_path": "/dev/given", "permissions": "rw"},
        {"host_path": FUSE, "container_path": "/dev/some", "permissions": "r"},
    ]

    def look(pod: Pod) -> list[object]:
        one = pod.run("one", "sleep", "1000", devices=devices)
        script = (
            "stat -c '%F %t:%T %a %u:%g' /dev/given /dev/some; head -c 4 /dev/given | od -An -x"
        )
        reading = pod.execute(one, "sh", "-c", "exec 3</dev/some && echo opened")
        writing = pod.execute(one, "sh", "-c", "exec 3>/dev/some && echo opened")
        return [pod.shell(one, script), reading, writing]

    given, reading, writing = both(look)
    assert given.splitlines()[0].startswith("character special file 1:5 ")
    assert given.splitlines()[-1].split() == ["0000", "0000"]
    assert reading == (0, "opened\n", "")
    assert writing[0] != 0
    assert "not permitted" in writing[2]


def test_devices_that_were_not_given(both: Both) -> None:
    """A device node that the container itself creates cannot be opened."""

    def look(pod: Pod) -> tuple[int, str, str]:
        one = pod.run("one", "sleep", "1000")
        script = "mknod /made c 10 229 && exec 3</made && echo opened"
        return pod.execute(one, "sh", "-c", script)

    status, out, err = both(look)
    assert (status != 0, out) == (True, "")
    assert "not permitted" in err


def test_missing_device(cri_host: Cri, both: Both) -> None:
    def look(pod: Pod) -> bool:
        missing = {"host_path": "/dev/missing", "container_path": "/dev/x", "permissions": "r"}
        with pytest.raises(cri_host.Error, match="/dev/missing"):
            pod.create("one", "sleep", "1000", devices=[missing])
        return True

    both(look)


def test_cdi(cri_host: Cri, both: Both, work: Path) -> None:
    """A vendor's specification: device nodes, environment, mounts and a hook."""
    if cri_host.installed.version < (2, 0):
        pytest.skip(f"containerd {cri_host.installed.version} does not know CDI")
    (work / "library").write_text("of the vendor\n")
    edits = {
        "deviceNodes": [{"path": "/dev/first", "hostPath": "/dev/zero", "permissions": "rw"}],
        "env": ["FIRST=1"],
        "mounts": [
            {
                "hostPath": str(work / "library"),
                "containerPath": "/library",
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
        ],
        "hooks": [
            {
                "hookName": "createContainer",
                "path": "/bin/sh",
                "args": ["sh", "-c", "cat >>$0", str(work / "states")],
                "env": ["PATH=/usr/bin:/bin"],
            }
        ],
    }
    specification = {
        "cdiVersion": "0.6.0",
        "kind": KIND,
        "devices": [{"name": NAME, "containerEdits": edits}],
    }
    file = cri_host.home / "cdi/example.json"
    file.write_text(json.dumps(specification))

    def look(pod: Pod) -> list[object]:
        one = pod.run("one", "sleep", "1000", CDI_devices=[{"name": f"{KIND}={NAME}"}])
        script = "echo $FIRST; cat /library; stat -c '%F %t:%T' /dev/first; head -c 2 /dev/first"
        refused = pod.execute(one, "sh", "-c", "echo >/library")
        return [pod.shell(one, script), refused[0]]

    try:
        text, refused = both(look)
    finally:
        file.unlink()
    assert text == "1\nof the vendor\ncharacter special file 1:5\n\0\0"
    assert refused == 1
    assert (work / "states").read_text().count('"status"') == 2


def test_device_in_a_volume(both: Both, work: Path) -> None:
    """A hostPath volume may contain nodes; the cgroup decides which can be opened."""
    place = work / "volume"
    place.mkdir()
    isolation.mount("tmpfs", str(place), "tmpfs")
    os.mknod(place / "zero", 0o20666, os.makedev(1, 5))
    os.mknod(place / "fuse", 0o20666, os.makedev(*FUSE_NUMBERS))
    volume = {"container_path": "/volume", "host_path": str(place)}

    def look(pod: Pod) -> list[int]:
        one = pod.run("one", "sleep", "1000", mounts=[volume])
        scripts = ("exec 3</volume/zero", "exec 3</volume/fuse")
        return [pod.execute(one, "sh", "-c", script)[0] for script in scripts]

    assert both(look) == [0, 1]
    isolation.unmount(str(place))
