"""The executor needs no C library, and little memory while it waits."""

from __future__ import annotations

import platform
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from ociruntime.base.linux import CLONE_NEWPID
from ociruntime.runtime.executor.protocol import Message, go
from ociruntime.runtime.executor.spawn import PROGRAM
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from tests.support import project, rootfs
from tests.support.executor import READY, before, plan_of, run, shell

TEXT = "csrc/executor/text.c"
OWN = """
    memcpy memmove memset memcmp memchr strnlen strlen strncmp strcmp strchr strrchr strspn strcspn
    strcpy
""".split()
OWN_LIBC = platform.machine() in {"aarch64", "x86_64"}


def test_strings(tmp_path: Path) -> None:
    """The few functions of <string.h> do what the C library's do."""
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Icsrc/executor"]
    renamed = [f"-D{name}=own_{name}" for name in OWN]
    ours = str(tmp_path / "strings.o")
    program = str(tmp_path / "check_strings")
    for command in (
        ["gcc", *flags, *renamed, "-c", "-o", ours, "csrc/libc/strings.c"],
        ["gcc", *flags, "-o", program, "tests/executor/check_strings.c", ours, TEXT],
    ):
        subprocess.run(command, cwd=project.ROOT, check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_program_is_static() -> None:
    """None of the container's files may be loaded into it: it has no dynamic loader."""
    data = Path(PROGRAM).read_bytes()
    assert data[:4] == b"\x7fELF"
    (table,) = struct.unpack_from("=Q", data, 32)
    size, count = struct.unpack_from("=HH", data, 54)
    types = [struct.unpack_from("=I", data, table + i * size)[0] for i in range(count)]
    assert 1 in types, "something is loaded"
    assert not {2, 3} & set(types), "neither a dynamic section nor an interpreter"


@pytest.mark.skipif(not OWN_LIBC, reason="built with the C library here")
@pytest.mark.usefixtures("nothing_left")
def test_waiting_process(work: Path, programs: dict[str, Path]) -> None:
    """Between create and start: what counts for the container's memory limit."""
    private: list[int] = []
    pid: list[int] = []

    def look(message: Message, channel: socket.socket) -> None:
        if message.kind == ops.MESSAGE_INIT_PID:
            pid.append(message.pid)
        elif message.kind == ops.MESSAGE_STAGE:
            lines = Path(f"/proc/{pid[0]}/smaps_rollup").read_text().splitlines()
            private.append(sum(int(line.split()[1]) for line in lines if line[:8] == "Private_"))
            go(channel)

    root = work / "root"
    rootfs.build(root, programs)
    steps = [
        *(o.clone_init(flags=CLONE_NEWPID), *before(root), o.pivot_root(), o.home(uid=0)),
        o.find_executable(file="sh", path="/bin"),
        *(o.close_host(), READY, o.wait_start(), shell("true")),
    ]
    run(plan_of(*steps), answer=look).ok()
    assert 0 < private[0] < 128, "kB"
