"""Run WebAssembly modules (WASI) with a WebAssembly runtime of the host.

This handler mounts the runtime read-only in the container.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable

from ociruntime.base.errors import ConfigError, reason
from ociruntime.base.host_programs import find_program
from ociruntime.runtime.spec.config_types import Config, Mount

# /dev is usually a tmpfs, so the mount point is not created in the root filesystem.
INSIDE = "/dev/.wasm-runtime"
WHERE = "process.args[0]"


def _wasmtime(env: list[str], args: list[str]) -> list[str]:
    # Without cache=n, wasmtime would write compiled modules to a directory in the container.
    return ["run", "-C", "cache=n", "--dir=/", *(f"--env={entry}" for entry in env), *args]


def _wasmedge(env: list[str], args: list[str]) -> list[str]:
    return ["--dir=/:/", *(f"--env={entry}" for entry in env), *args]


def _iwasm(env: list[str], args: list[str]) -> list[str]:
    return ["--dir=/", *(f"--env={entry}" for entry in env), *args]


# WebAssembly runtime -> its arguments, which give the module access to the container's whole root
# filesystem.  The first runtime that is installed is used.
RUNTIMES: tuple[tuple[str, Callable[[list[str], list[str]], list[str]]], ...] = (
    ("wasmtime", _wasmtime),
    ("wasmedge", _wasmedge),
    ("iwasm", _iwasm),
)


def handle(config: Config, rootfs: str) -> Config:
    """Return ``config`` changed so that a WebAssembly runtime runs ``process.args``.

    Raises ConfigError if args[0] is not a module, or no WebAssembly runtime is installed.
    """
    del rootfs
    process = config["process"]
    args = process["args"]
    if not args[0].endswith((".wasm", ".wat")):
        raise ConfigError(
            WHERE, f'"{args[0]}" is not a WebAssembly module', "use a file named *.wasm or *.wat"
        )
    program, command = _find()
    mounts, argv = show(program, INSIDE, WHERE)
    return {
        **config,
        "mounts": [*(config.get("mounts") or ()), *mounts],
        "process": {**process, "args": [*argv, *command(process.get("env") or [], args)]},
    }


def _find() -> tuple[str, Callable[[list[str], list[str]], list[str]]]:
    for name, command in RUNTIMES:
        if path := find_program(name):
            return os.path.realpath(path), command
    names = ", ".join(name for name, _ in RUNTIMES)
    message = f"run the WebAssembly module: no WebAssembly runtime found ({names})"
    raise ConfigError(WHERE, message, "install one of these programs on the host")


# Mount a program of the host read-only in a container, with its loader and libraries.  The loader
# and libraries of the container may not fit the program, and are not trusted.

PT_INTERP = 3


def show(program: str, directory: str, where: str) -> tuple[list[Mount], list[str]]:
    """Return (bind mounts, argv) to run a program of the host in the container.

    The mounts make ``program``, its loader and its libraries available below ``directory``.  Raises
    ConfigError at the JSON path ``where`` if ``program`` is not an ELF program, or its libraries
    cannot be listed.
    """
    name = os.path.basename(program)
    shown = {name: program}
    argv = [f"{directory}/{name}"]
    loader = _loader(program, where)
    if loader:
        shown["loader"] = loader
        for library, path in _libraries(loader, program, where):
            shown[f"lib/{library}"] = path
        argv = [f"{directory}/loader", "--library-path", f"{directory}/lib", *argv]
    return [_mount(path, f"{directory}/{place}") for place, path in shown.items()], argv


def _mount(source: str, destination: str) -> Mount:
    options = ["bind", "ro", "nosuid", "nodev"]
    return {"destination": destination, "type": "bind", "source": source, "options": options}


def _loader(path: str, where: str) -> str:
    """Return the ELF interpreter of a 64-bit program (elf(5)); "" if it is statically linked.

    Raises ConfigError at the JSON path ``where`` if ``path`` is not such a program.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02":
                raise ConfigError(where, f'read the program "{path}": not a 64-bit ELF program')
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
        cause = reason(error) if isinstance(error, OSError) else str(error)
        raise ConfigError(where, f'read the program "{path}": {cause}') from None
    return ""


def _libraries(loader: str, program: str, where: str) -> list[tuple[str, str]]:
    """Return (name, path) of each library of ``program``, as its loader lists them (ldd(1)).

    Works with glibc and musl.  Raises ConfigError at the JSON path ``where`` if the loader fails.
    """
    try:
        done = subprocess.run(
            [loader, "--list", program], capture_output=True, text=True, check=False, env={}
        )
    except OSError as error:
        raise ConfigError(
            where, f'list the libraries of "{program}": run {loader}: {reason(error)}'
        ) from None
    if done.returncode:
        cause = " ".join((done.stderr or done.stdout).split())
        raise ConfigError(where, f'list the libraries of "{program}": {cause}')
    pairs = [line.split() for line in done.stdout.splitlines()]
    return [
        (columns[0], columns[2]) for columns in pairs if len(columns) > 2 and columns[1] == "=>"
    ]
