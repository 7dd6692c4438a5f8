"""buildah, which calls create, start, state and delete itself: with --debug, and with hooks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import host
from tests.engines.buildah import Buildah
from tests.engines.image import NAME
from tests.engines.podman import Podman
from tests.support.runtime import Runtime

HOOKS = ("prestart", "poststart", "poststop")


@pytest.fixture(params=["ociruntime", "runc"])
def buildah(request: pytest.FixtureRequest, podman: Podman, runtime: Runtime) -> Iterator[Buildah]:
    """Buildah with a working container."""
    path = runtime.path if request.param == "ociruntime" else Path(host.program("runc"))
    made = Buildah(host.program("buildah"), path, podman)
    made("from", "--name=made", NAME).ok()
    yield made
    made("rm", "made").ok()


def test_debug(buildah: Buildah) -> None:
    """The runtime's log does not end up in the program's output."""
    script = "echo out; echo error >&2; exit 7"
    result = buildah("run", "--runtime-flag=debug", "made", "sh", "-c", script)
    assert (result.status, result.out) == (7, "out\n")
    assert "error" in result.err.splitlines()
    result = buildah("run", "--runtime-flag=debug", "made", "no-such-program")
    assert result.status != 0
    assert "executable file not found in $PATH" in result.err


def test_hooks(buildah: Buildah, work: Path) -> None:
    """Hooks of a directory run in each step of a build, and get the state."""
    hooks = work / "hooks"
    hooks.mkdir()
    for kind in HOOKS:
        script = f"cat >>{work}/{kind}; echo >>{work}/{kind}"
        hook = {"path": "/bin/sh", "args": ["sh", "-c", script]}
        entry = {"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": [kind]}
        (hooks / f"{kind}.json").write_text(json.dumps(entry))
    (work / "Containerfile").write_text(f"FROM {NAME}\nRUN echo words >/made\n")
    words = ["bud", f"--runtime={buildah.runtime}", "--isolation=oci", f"--hooks-dir={hooks}"]
    words += [f"--cgroup-parent={buildah.podman.cgroup}/build", "--network=none"]
    buildah(*words, "--tag=localhost/made", str(work)).ok()
    buildah("rmi", "localhost/made").ok()
    states = {kind: [json.loads(line) for line in lines(work / kind)] for kind in HOOKS}
    assert {kind: len(found) for kind, found in states.items()} == dict.fromkeys(HOOKS, 1)
    assert len({found[0]["id"] for found in states.values()}) == 1
    assert states["poststop"][0]["status"] == "stopped"


def lines(file: Path) -> list[str]:
    """Return the lines that a hook has written, if it has run."""
    return file.read_text().splitlines() if file.exists() else []
