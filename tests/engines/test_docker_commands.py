"""``ocictl`` compared with docker: the same commands, exit statuses and outputs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ociruntime.manager.client.command_table import PROGRAM
from tests.engines.docker import Docker
from tests.engines.image import NAME
from tests.engines.transcript import ALWAYS_ANOTHER
from tests.support import docker_commands, processes
from tests.support.daemon import Daemon, life
from tests.support.images import build, busybox_layer
from tests.support.registry import Registry
from tests.support.runtime import Result

MAIN = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done"
# Commands whose status a script reads; of the others it counts only whether they have failed.
_STATUSES = ("run", "exec", "attach")
_LINE = re.compile(r"([?~-]*) ?(.*)")
# Docker prints this as long as the host's ip_forward is 0: its daemon runs with --ip-forward=false.
_WITHOUT_FORWARDING = "IPv4 forwarding is disabled. Networking will not work.\n"


@pytest.fixture
def ocid(work: Path, docker: Docker) -> Iterator[Daemon]:
    """``ocid`` with docker's image; fails if its containers leave anything on the host."""
    with life(work) as daemon:
        daemon.ctl("load", "--input", str(docker.home / "box.tar")).ok()
        yield daemon


def answers(command: Callable[..., Result], work: Path, host: str) -> list[str]:
    """Return each command with its status and output, without values that always differ."""
    lines = []
    for line in [line for script in docker_commands.SAME.values() for line in script]:
        matched = _LINE.fullmatch(line)
        assert matched is not None
        marks, text = matched.groups()
        words = []
        for word in shlex.split(text):
            words += ["sh", "-c", MAIN] if word == "MAIN" else [word.replace("IMAGE", NAME)]
        words = [word.replace("WORK", str(work)).replace("HOST", host) for word in words]
        if words[0] in ("run", "create"):
            words.insert(1, "--network=none")
        if line == "logs up":
            assert processes.until(lambda: command("logs", "up").out != "", 30)
        result = command(*words)
        assert "~" in marks or (result.status != 0) == ("?" in marks), result
        status: object = result.status
        if words[0] not in _STATUSES:
            status = "success" if result.status == 0 else "failure"
        if "~" in marks:
            status = "any"
        out = "" if "-" in marks else result.out.replace(_WITHOUT_FORWARDING, "")
        for pattern, word in ALWAYS_ANOTHER:
            out = re.sub(pattern, word, out)
        lines.append(f"{line} -> {status}\n{out}")
    return lines


@pytest.mark.timeout(600)
def test_the_same_answers(docker: Docker, ocid: Daemon, work: Path) -> None:
    with Registry() as registry:
        registry.push("web", "v1", build([busybox_layer()]))
        try:
            expected = answers(docker, work, registry.host)
        finally:
            docker("volume", "rm", "--force", "data", "v1")
            docker("network", "rm", "n1", "n2")
            docker("rmi", "localhost/other:1", "localhost/other:2", f"{registry.host}/web:v1")
        given = answers(ocid.ctl, work, registry.host)
    different = [pair for pair in zip(given, expected, strict=True) if pair[0] != pair[1]]
    assert not different, "\n".join(f"{ours}\nbut docker: {theirs}" for ours, theirs in different)


def test_commands_that_are_refused_say_why(ocid: Daemon) -> None:
    for command in docker_commands.OPTIONS:
        if not docker_commands.ours(command):
            result = ocid.ctl(*command.split(), "x")
            result.failed(f'"{command}" is not available', PROGRAM.absent[command])
