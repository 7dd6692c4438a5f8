"""Other tools that write and store images."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.images import BuiltImage


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test if one of them is not installed."""
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"{' and '.join(missing)} is not installed")


def run(*command: str | Path) -> str:
    """Run a program, which must succeed; return its standard output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def saved_by_podman(image: BuiltImage, work: Path, kind: str) -> Path:
    """Return ``image`` as saved by podman as ``localhost/web:v1``, in one of its formats."""
    image.name = "localhost/web:v1"
    image.write_oci_archive(work / "in.tar")
    podman = ["podman", f"--root={work}/podman", f"--runroot={work}/run", "--storage-driver=vfs"]
    run(*podman, "load", "--quiet", "--input", work / "in.tar")
    saved = work / "saved"
    run(*podman, "save", "--quiet", f"--format={kind}", "--output", saved, image.name)
    return saved


@pytest.fixture
def docker_registry(work: Path) -> Iterator[str]:
    """Start Docker's registry, which logs its own free port; return HOST:PORT."""
    settings = {
        "version": 0.1,
        "log": {"level": "info", "formatter": "json"},
        "storage": {"filesystem": {"rootdirectory": str(work / "registry")}},
        "http": {"addr": "127.0.0.1:0"},
    }
    (work / "registry.json").write_text(json.dumps(settings))  # JSON is YAML
    command = ["docker-registry", "serve", str(work / "registry.json")]
    log = work / "registry.log"
    with log.open("wb") as file:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def address() -> str:
        assert server.poll() is None, log.read_text()
        found = re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text())
        return found[1] if found else ""

    try:
        assert processes.until(lambda: bool(address()), 60), log.read_text()
        yield address()
    finally:
        server.terminate()
        server.wait()
