"""Run WebAssembly modules (WASI) with a program of the host, mounted read-only in the container."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

from ociruntime.base.errors import ConfigError, reason
from ociruntime.base.host_programs import find_program

if TYPE_CHECKING:
    from ociruntime.runtime.spec.config_types import Config, Mount

# Below /dev, mostly a tmpfs of the container's: nothing is left in the root filesystem.
INSIDE = "/dev/.wasm-runtime"
WHERE = "process.args[0]"


def _wasmtime(env: list[str], args: list[str]) -> list[str]:
    # Its cache of compiled modules would be a directory in the container.
    return ["run", "-C", "cache=n", "--dir=/", *(f"--env={entry}" for entry in env), *args]


def _wasmedge(env: list[str], args: list[str]) -> list[str]:
    return ["--dir=/:/", *(f"--env={entry}" for entry in env), *args]


def _iwasm(env: list[str], args: list[str]) -> list[str]:
    return ["--dir=/", *(f"--env={entry}" for entry in env), *args]


# The first one found is taken; its command line grants the module the container's whole root.
RUNTIMES: tuple[tuple[str, Callable[[list[str], list[str]], list[str]]], ...] = (
    ("wasmtime", _wasmtime),
    ("wasmedge", _wasmedge),
    ("iwasm", _iwasm),
)


def handle(config: Config, rootfs: str) -> Config:
    """Return ``config`` with ``process.args`` run by a WebAssembly runtime.  Raises ConfigError."""
    del rootfs
    process = config["process"]
    args = process["args"]
    if not args[0].endswith((".wasm", ".wat")):
        raise ConfigError(
            WHERE, f'"{args[0]}" is not a WebAssembly module', "NAME.wasm or NAME.wat"
        )
    program, command = _find()
    mounts, words = show(program, INSIDE, WHERE)
    return {
        **config,
        "mounts": [*(config.get("mounts") or ()), *mounts],
        "process": {**process, "args": [*words, *command(process.get("env") or [], args)]},
    }


def _find() -> tuple[str, Callable[[list[str], list[str]], list[str]]]:
    for name, command in RUNTIMES:
        if path := find_program(name):
            return os.path.realpath(path), command
    names = ", ".join(name for name, _ in RUNTIMES)
    message = f"none of {names} is installed to run the WebAssembly module"
    raise ConfigError(WHERE, message, "install one of them")


# A program of the host, with its loader and libraries, shown read-only in a container.
#
# Nothing of it is taken out of the container: its own files need not fit, nor be trusted to.

PT_INTERP = 3


def show(program: str, directory: str, where: str) -> tuple[list[Mount], list[str]]:
    """Return the mounts that show ``program`` below ``directory``, and the argv to start it there.

    Raises ConfigError at ``where`` for a file that is not an ELF program or lacks libraries.
    """
    name = os.path.basename(program)
    shown = {name: program}
    words = [f"{directory}/{name}"]
    loader = _loader(program, where)
    if loader:
        shown["loader"] = loader
        for library, path in _libraries(loader, program, where):
            shown[f"lib/{library}"] = path
        words = [f"{directory}/loader", "--library-path", f"{directory}/lib", *words]
    return [_mount(path, f"{directory}/{place}") for place, path in shown.items()], words


def _mount(source: str, destination: str) -> Mount:
    options = ["bind", "ro", "nosuid", "nodev"]
    return {"destination": destination, "type": "bind", "source": source, "options": options}


def _loader(path: str, where: str) -> str:
    """Return the ELF interpreter of a program (elf(5), 64 bits); "" for a static one."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02":
                raise ConfigError(where, f"{path} is not a 64-bit program")
            (offset,) = struct.unpack_from("=Q", head, 32)
            size, count = struct.unpack_from("=HH", head, 54)
            for index in range(count):
                file.seek(offset + index * size)
                header = file.read(size)
                kind, _, start, _, _, length = struct.unpack_from("=IIQQQQ", header)
                if kind == PT_INTERP:
                    file.seek(start)
                    return os.fsdecode(file.read(length).rstrip(b"\0"))
    except (OSError, struct.error, ValueError) as error:
        said = reason(error) if isinstance(error, OSError) else str(error)
        raise ConfigError(where, f"cannot read the program {path}: {said}") from None
    return ""


def _libraries(loader: str, program: str, where: str) -> list[tuple[str, str]]:
    """Return (name, path) of each library, as the loader finds it (ldd(1), glibc and musl)."""
    try:
        done = subprocess.run(
            [loader, "--list", program], capture_output=True, text=True, check=False, env={}
        )
    except OSError as error:
        raise ConfigError(where, f"cannot run {loader} for {program}: {reason(error)}") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise ConfigError(where, f"{program} cannot be started on this host: {said}")
    pairs = [line.split() for line in done.stdout.splitlines()]
    return [(words[0], words[2]) for words in pairs if len(words) > 2 and words[1] == "=>"]
