"""Commands that must fail: their errors, and that nothing was changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.images import make_layout
from tests.support.ocipod import Ocipod

NOBODY = 65534
SLEEPS = ("--name=app", "--exec=/bin/sleep", "--", "100")


@pytest.fixture
def image(work: Path) -> str:
    make_layout(work / "layout")
    return f"oci:{work / 'layout'}:latest"


@pytest.mark.parametrize("command", ["run", "app sandbox"])
def test_uuid_that_cannot_be_saved(ocipod: Ocipod, image: str, work: Path, command: str) -> None:
    missing = work / "missing" / "uuid"
    saved = f"--uuid-file-save={missing}"
    app = (image, *SLEEPS) if command == "run" else ()
    result = ocipod(*command.split(), "--net=none", "--detach", saved, *app)
    result.failed(f'"{missing}"', "no such file or directory")
    assert ocipod.pods() == []


def test_pod_that_has_not_ended(ocipod: Ocipod, image: str) -> None:
    uuid = ocipod("run", "--net=none", "--detach", image, *SLEEPS).ok().out.strip()
    ocipod("status", "--wait=50ms", uuid).failed(f"pod {uuid}: timeout")
    assert ocipod.state(uuid) == "running"
    ocipod("stop", "--force", "--wait", uuid).ok()


def test_pod_that_has_not_begun(ocipod: Ocipod, image: str) -> None:
    uuid = ocipod("prepare", "--quiet", image, *SLEEPS).ok().out.strip()
    ocipod("stop", uuid).failed(f"pod {uuid} is not running")
    ocipod("app", "exec", uuid, "true").failed(f"pod {uuid} is not running")


def test_monitor_that_nobody_has_started(ocipod: Ocipod, image: str) -> None:
    uuid = ocipod("run", "--net=none", "--detach", image, *SLEEPS).ok().out.strip()
    said = "monitor: internal command"
    ocipod("monitor", uuid).failed(said)
    ocipod("monitor", uuid, "--lock-fd=1").failed(said)
    ocipod("monitor", uuid, "--lock-fd=98", "--resume-fd=99").failed(
        "snapshot: bad file descriptor"
    )
    assert ocipod.state(uuid) == "running"
    ocipod("stop", "--force", "--wait", uuid).ok()


def test_signature_that_is_not_there(ocipod: Ocipod, image: str) -> None:
    result = ocipod("prepare", image, "--signature=/no/file", *SLEEPS)
    result.failed('--signature: read "/no/file": no such file or directory')
    assert ocipod.pods() == []


def test_pods_of_an_ordinary_user(ocipod: Ocipod, image: str, work: Path) -> None:
    ocipod("fetch", image).ok()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 2)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        command = ocipod.command("prepare", image, *SLEEPS)
        os.execv(command[0], command)
    os.close(writer)
    with open(reader, "rb") as errors:
        said = errors.read().decode()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 254
    assert "run as root" in said
    assert ocipod.pods() == []


def test_export_of_one_of_two_apps(ocipod: Ocipod, image: str, work: Path) -> None:
    apps = (image, "--name=one", "--exec=/bin/true", image, "--name=two", "--exec=/bin/true")
    uuid = ocipod("prepare", "--quiet", *apps).ok().out.strip()
    target = work / "app.tar"
    ocipod("export", uuid, str(target)).failed("several apps", "--app: one, two")
    assert not target.exists()


def test_runtimes_that_are_none(ocipod: Ocipod, image: str) -> None:
    result = ocipod("run", "--net=none", "--runtime=ocinone", image, *SLEEPS)
    result.failed('"ocinone"', "--runtime")
    result = ocipod("run", "--net=none", "--runtime=/etc/passwd", image, *SLEEPS)
    assert result.status == 126
    assert "/etc/passwd" in result.err
    assert "permission denied" in result.err
    ocipod("run", "--net=none", "--hostname=-x", image, *SLEEPS).failed(
        '--hostname: invalid hostname "-x"'
    )
    ocipod("app", "sandbox", "--interactive").failed("--interactive: ")


def test_pod_whose_manifest_has_lost_its_apps(ocipod: Ocipod, image: str) -> None:
    uuid = ocipod("prepare", "--quiet", image, *SLEEPS).ok().out.strip()
    file = ocipod.path(uuid) / "pod"
    file.write_text(json.dumps({**json.loads(file.read_text()), "apps": []}))
    ocipod("run-prepared", "--net=none", uuid).failed("has no apps")
    assert ocipod.state(uuid) == "exited"
