"""WebAssembly modules with WASI, run by a program of the host that the container gets read-only."""

from __future__ import annotations

import os

from ociruntime.base.errors import ConfigError
from ociruntime.base.programs import find_program
from ociruntime.runtime.handlers import host_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ociruntime.runtime.spec.document import Config

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
    """The module of ``process.args`` run by a WebAssembly runtime.  Raises ConfigError."""
    del rootfs
    process = config["process"]
    args = process["args"]
    if not args[0].endswith((".wasm", ".wat")):
        raise ConfigError(WHERE, f'"{args[0]}" is no WebAssembly module', "NAME.wasm or NAME.wat")
    program, command = _find()
    mounts, words = host_program.show(program, INSIDE, WHERE)
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
