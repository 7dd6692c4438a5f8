"""Formats, lint rules, types and C analysis; ``./dev check`` runs this file.

Tools of every development environment must be installed; a missing package of the distribution
(clang, shellcheck) skips its test.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support import project

CSRC = project.ROOT / "csrc"
PROBE = project.ROOT / "conformance" / "probe"
C_SOURCES = [
    path
    for path in project.with_suffix(".c")
    if path.is_relative_to(CSRC) or path.is_relative_to(PROBE)
]
C_FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
C_INCLUDES = ["-Icsrc", "-Icsrc/executor", "-Iconformance/probe"]
C_HEADERS = [
    path
    for path in project.with_suffix(".h")
    if path.is_relative_to(CSRC) or path.is_relative_to(PROBE)
]
ENVIRONMENT = project.ROOT / ".venv"
CLEAN = ENVIRONMENT / "clean"  # for each analyser and file, the digest of the last clean run
SHELL_SCRIPTS = [
    path
    for path in project.files()
    if path.read_bytes()[:64].startswith((b"#!/bin/sh", b"#!/bin/bash", b"#!/usr/bin/env bash"))
]


def must_pass(*command: str) -> None:
    done = subprocess.run(command, cwd=project.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def test_format() -> None:
    must_pass(sys.executable, "-m", "ruff", "format", "--check", "--diff", ".")


def test_lint_rules() -> None:
    must_pass(sys.executable, "-m", "ruff", "check", ".")


def test_types() -> None:
    must_pass(sys.executable, "-m", "mypy")


@cache
def headers() -> bytes:
    return b"".join(path.read_bytes() for path in C_HEADERS)


@cache
def version(compiler: str) -> bytes:
    return subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout


def analyze(path: Path, *command: str) -> None:
    """Analyse a C file, unless it and all headers are unchanged since the last clean run."""
    words = [*command, *C_FLAGS, *C_INCLUDES, project.name_of(path)]
    content = (repr(words).encode(), version(command[0]), headers(), path.read_bytes())
    digest = hashlib.sha256(b"\0".join(content)).hexdigest()
    name = f"{Path(command[0]).name}-{project.name_of(path).replace('/', '-')}"
    clean = CLEAN / name
    if clean.exists() and clean.read_text() == digest:
        return
    must_pass(*words)
    if ENVIRONMENT.is_dir():
        CLEAN.mkdir(exist_ok=True)
        clean.write_text(digest)


@pytest.mark.parametrize("path", C_SOURCES, ids=project.name_of)
def test_gcc_analyzer(path: Path) -> None:
    # The executor's descriptors outlive the functions that open them, on purpose.
    analyze(path, "gcc", "-fanalyzer", "-Wno-analyzer-fd-leak", "-c", "-o", "/dev/null")


@pytest.mark.long  # gcc's analyser has seen the same files
@pytest.mark.parametrize("path", C_SOURCES, ids=project.name_of)
def test_clang_analyzer(path: Path) -> None:
    words = ["--analyze", "-Xclang", "-analyzer-werror", "-o", "/dev/null"]
    analyze(path, program("clang"), *words)


@pytest.mark.parametrize("path", SHELL_SCRIPTS, ids=project.name_of)
def test_shellcheck(path: Path) -> None:
    must_pass(program("shellcheck"), project.name_of(path))
