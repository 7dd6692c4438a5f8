"""The commands in README.md that need root print the output shown there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from tests.support import processes, project
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")

README = (project.ROOT / "README.md").read_text(encoding="utf-8")
SESSION = "\n".join(
    block for block in re.findall(r"(?ms)^```console\n(.*?)^```", README) if block[0] == "#"
)
# What a host lacks, no page can foretell.
DEPENDS_ON_THE_HOST = ("ociruntime check",)


def steps() -> list[tuple[str, list[str]]]:
    """(command, the lines it prints), in order."""
    found: list[tuple[str, list[str]]] = []
    for line in SESSION.splitlines():
        if line.startswith("# "):
            found.append((line[2:], []))
        elif line:
            found[-1][1].append(line)
    return found


def as_printed(lines: list[str], home: Path) -> list[str]:
    """With the same for what differs each time: numbers, times, widths, the reader's place."""
    text = "\n".join(lines).replace(str(home), "/root")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\d [\d:]+ \+0000 UTC", "TIME", text)
    text = re.sub(r"\bnow\b|\d+ seconds? ago", "TIME", text)
    text = re.sub(r"\bUp (less than a|\d+) seconds?\b", "Up TIME", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "ID", text)
    text = re.sub(r"\b[0-9a-f]{8}((-[0-9a-f]{4}){3}-[0-9a-f]{12})?\b", "UUID", text)
    text = re.sub(r'^time=\S+ level=error msg="(.*)"$', r"\1", text, flags=re.M)
    text = text.replace('\\"', '"')
    return [" ".join(re.sub(r"\d+", "N", line).split()) for line in text.splitlines()]


def end_daemon(work: Path, ocictl: Path) -> None:
    """With the containers of a session that ended too early."""
    found = work / "ocid.pid"
    pid = int(found.read_text()) if found.exists() else 0
    for name in ("greeter", "waiter") if pid and processes.alive(pid) else ():
        command = [str(ocictl), f"--socket={work}/ocid.sock", "rm", "--force", name]
        subprocess.run(command, stderr=subprocess.DEVNULL)
    if pid and processes.alive(pid):
        os.kill(pid, signal.SIGTERM)
        processes.until(lambda: not processes.alive(pid), 20)


def test_session(runtime: Runtime, work: Path) -> None:
    """One shell, begun in the reader's home directory."""
    script = "".join(f"{command}\nprintf '\\n@@\\n'\n" for command, _ in steps())
    # A fresh directory is one beside the last.
    script = re.sub(r"(?m)^mkdir ", f"cd {work} && mkdir ", script)
    state = work / "run"
    bin = work / "bin"
    bin.mkdir()
    (bin / "ociruntime").write_text(f'#!/bin/sh\nexec {runtime.path} --root {state} "$@"\n')
    options = f"--runtime {runtime.path} --dir {work / 'pods'}"
    ocipod = runtime.path.with_name("ocipod")
    (bin / "ocipod").write_text(f'#!/bin/sh\nexec {ocipod} {options} "$@"\n')
    place = f"--root={work / 'manager'} --socket={work / 'ocid.sock'}"
    ocid = ocipod.with_name("ocid")
    (bin / "ocid").write_text(
        f'#!/bin/sh\necho $$ >{work}/ocid.pid\nexec {ocid} {place} {options} "$@"\n'
    )
    # A reader takes longer to type a command than the daemon to start.
    (bin / "ocictl").write_text(
        f"#!/bin/sh\nuntil [ -S {work}/ocid.sock ]; do sleep 0.05; done\n"
        f'exec {ocipod.with_name("ocictl")} --socket={work}/ocid.sock "$@"\n'
    )
    for program in bin.iterdir():
        program.chmod(0o755)
    environment = {"PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(work)}
    try:
        with (work / "out").open("w+") as out:
            subprocess.run(
                ["sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
            )
            out.seek(0)
            answers = out.read().split("\n@@\n")[:-1]
    finally:
        end_daemon(work, ocipod.with_name("ocictl"))
        for id in ("first", "second"):
            subprocess.run([str(bin / "ociruntime"), "delete", "--force", id], check=True)
    assert len(answers) == len(steps())
    for (command, expected), answer in zip(steps(), answers, strict=True):
        if command not in DEPENDS_ON_THE_HOST:
            assert as_printed(answer.splitlines(), work) == as_printed(expected, work), command
