"""Broken input of `exec`: status 255, one line that names the place, the container unharmed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.plugin import MakeContainer

GOOD: dict[str, Any] = {"args": ["true"], "cwd": "/", "user": {"uid": 0, "gid": 0}}

FILES: dict[str, tuple[object, str]] = {
    "no-args": ({**GOOD, "args": []}, "process.args: must not be empty"),
    "args-missing": ({"cwd": "/", "user": GOOD["user"]}, "process.args: is missing"),
    "empty-program": ({**GOOD, "args": [""]}, "process.args[0]: must not be empty"),
    "relative-cwd": ({**GOOD, "cwd": "bin"}, "process.cwd: must be an absolute path"),
    "uid-as-text": ({**GOOD, "user": {"uid": "0", "gid": 0}}, "process.user.uid: must be an int"),
    "user-as-text": ({**GOOD, "user": "root"}, "process.user: must be an object"),
    "user-as-null": ({**GOOD, "user": None}, "process.user: must be an object"),
    "env-without-equals": ({**GOOD, "env": ["A"]}, 'process.env[0]: \\"A\\" has no'),
    "unknown-limit": (
        {**GOOD, "rlimits": [{"type": "RLIMIT_X", "soft": 1, "hard": 1}]},
        "process.rlimits[0].type: unknown value",
    ),
    "bad-affinity": (
        {**GOOD, "execCPUAffinity": {"final": "x"}},
        "process.execCPUAffinity.final: ",
    ),
    "affinity-nowhere": (
        {**GOOD, "execCPUAffinity": {"initial": "4095"}},
        "process.execCPUAffinity.initial: set CPU affinity to 4095: invalid argument",
    ),
    "not-an-object": ([], "process: must be an object"),
    "missing-cwd": (
        {**GOOD, "cwd": "/nowhere"},
        r"process.cwd: chdir to \"/nowhere\": no such file or",
    ),
    "missing-program": (
        {**GOOD, "args": ["nothere"], "env": ["PATH=/bin"]},
        'exec: \\"nothere\\": executable file not found in $PATH',
    ),
    "program-is-a-directory": ({**GOOD, "args": ["/bin"]}, 'exec: \\"/bin\\": is a directory'),
}

COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing": ((), "exec args cannot be empty"),
    "two-processes": (("--process=/dev/null", "true"), "cannot be combined"),
    "process-missing": (("--process=/nowhere/p.json",), "p.json not found in /nowhere"),
    "process-empty": (("--process=/dev/null",), "null"),
    "relative-cwd": (("--cwd=bin", "true"), "--cwd"),
    "env": (("--env=A", "true"), "A"),
    "gid": (("--additional-gids=wheel", "true"), "--additional-gids"),
    "apparmor": (("--apparmor=nothere", "true"), "process.apparmorProfile: "),
    "label": (("--process-label=a:b:c", "true"), "process.selinuxLabel: "),
    "descriptors": (("--preserve-fds=-1", "true"), "must not be negative"),
    "pid-file": (("--detach", "--pid-file=/nowhere/pid", "true"), "write the pid file"),
    "console-socket": (
        ("--detach", "--tty", "--console-socket=/nowhere/s", "true"),
        "connect to the console socket",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_process_file(container: MakeContainer, work: Path, name: str) -> None:
    document, words = FILES[name]
    running = container().started()
    file = work / "process.json"
    file.write_text(json.dumps(document))
    refused = running.exec(f"--process={file}")
    assert (refused.status, refused.out) == (255, "")
    assert words in refused.err
    assert refused.err.count("\n") == 1
    assert running.status == "running"


@pytest.mark.parametrize("name", COMMANDS)
def test_command_line(container: MakeContainer, name: str) -> None:
    words, said = COMMANDS[name]
    running = container().started()
    refused = running.exec(*words)
    assert (refused.status, refused.out) == (255, "")
    assert said in refused.err
    assert running.status == "running"
