"""``ociruntime`` as a process: ``python -I``, an empty environment, unusable standard streams."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ociruntime

ENTRY = str(Path(ociruntime.__file__).parent / "__main__.py")


def run(*argv: str, closed: tuple[int, ...] = ()) -> tuple[int, str, str]:
    redirections = "".join(f" {fd}>&-" for fd in closed)
    command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", ENTRY, *argv]
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@"{redirections}', "sh", *command],
        env={},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_without_environment() -> None:
    status, out, err = run("--version")
    assert (status, err) == (0, "")
    assert out.startswith("ociruntime version ")


def test_unknown_container() -> None:
    status, out, err = run("--root", "/nonexistent/root", "state", "x")
    assert (status, out) == (1, "")
    assert "does not exist" in err
    assert err.count("\n") == 1


def test_closed_descriptors() -> None:
    assert run("--version", closed=(0,))[0] == 0
    assert run("--version", closed=(0, 1, 2)) == (0, "", "")
    assert run("bogus", closed=(0, 1, 2)) == (3, "", "")


def test_full_device_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", ENTRY, "--version"],
            env={},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "standard output: no space left on device" in done.stderr


def test_reader_that_has_left_is_no_error_to_talk_about() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", ENTRY, "--help"],
            env={},
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == 1
    assert done.stderr == ""


def test_arguments_that_are_not_utf8() -> None:
    done = subprocess.run(
        [sys.executable.encode(), b"-I", b"-S", b"-B", ENTRY.encode(), b"bog\xffus"],
        env={},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    assert b'unknown command \\"bog\\udcffus\\"' in done.stderr


def test_directory_of_the_caller_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "posix.py").write_text("raise SystemExit(99)")
    (tmp_path / "ociruntime").mkdir()
    (tmp_path / "ociruntime/__init__.py").write_text("raise SystemExit(99)")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", ENTRY, "--version"],
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
