"""packaging/: every file of the build is in one package, and all have the same version."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

import ociruntime
from tests.support import project
from tools.build_completions import SHELLS
from tools.programs import PROGRAMS

PACKAGING = project.ROOT / "packaging"
DEBIAN = PACKAGING / "debian"
PACKAGES = {"ociruntime": {"ociruntime"}, "ocipod": {"ocipod"}, "ocid": {"ocid", "ocictl"}}
LIBRARY = "usr/lib/python3/dist-packages/ociruntime"


def installed(package: str) -> list[str]:
    """Return the patterns of a Debian package's files."""
    return [line.split()[0] for line in (DEBIAN / f"{package}.install").read_text().splitlines()]


@pytest.mark.parametrize("package", PACKAGES)
def test_programs_with_their_pages_and_completions(package: str) -> None:
    patterns = installed(package)
    others = [other for each in PACKAGES if each != package for other in installed(each)]
    for program in PROGRAMS:
        files = [f"usr/bin/{program.name}"]
        files += [f"usr/share/{place.format(name=program.name)}" for place in SHELLS.values()]
        pages = [program.name, *(program.page(command.name) for command in program.commands)]
        files += [f"usr/share/man/man1/{page}.1" for page in pages]
        ours = program.name in PACKAGES[package]
        for file in files:
            assert any(fnmatch(file, pattern) for pattern in patterns) == ours, file
            assert any(fnmatch(file, pattern) for pattern in others) != ours, file


def test_folders_of_the_package() -> None:
    """The runtime's package contains everything that the two others do not."""
    rules = (DEBIAN / "rules").read_text()
    removed = re.search(r"dist-packages/ociruntime/, \\\n\s+(.*)\)", rules)
    assert removed is not None
    shared = {name.removeprefix(f"{LIBRARY}/") for name in installed("ocipod") + installed("ocid")}
    assert set(removed[1].split()) == {name for name in shared if not name.startswith("usr/")}
    spec = (PACKAGING / "rpm/ociruntime.spec").read_text()
    folders = {path.name for path in project.PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders | {"schemas"} == set(re.findall(r"(?m)^%\{pkgdir\}/([a-z]+)$", spec))


def test_one_version() -> None:
    version = ociruntime.__version__
    assert (DEBIAN / "changelog").read_text().startswith(f"ociruntime ({version}) ")
    spec = (PACKAGING / "rpm/ociruntime.spec").read_text()
    assert re.search(rf"(?m)^Version: +{re.escape(version)}$", spec)
    assert f"\npkgver={version}\n" in (PACKAGING / "arch/PKGBUILD").read_text()


@pytest.mark.parametrize("script", sorted(DEBIAN.glob("*.p[or]*")), ids=lambda path: path.name)
def test_maintainer_scripts_let_the_tools_add_theirs(script: Path) -> None:
    text = script.read_text()
    assert "#DEBHELPER#" in text
    assert text.startswith("#!/bin/sh\nset -e\n")


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_debian_packages(tmp_path: Path) -> None:
    """All three are built, and lintian finds no errors."""
    if not all(Path(f"/usr/bin/{name}").exists() for name in ("dh", "dh_python3", "lintian")):
        pytest.skip("debhelper, dh-python or lintian is not installed (./dev deb does it)")
    build = [str(PACKAGING / "build-deb"), str(tmp_path), "--build=full"]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert {path.name.split("_")[0] for path in tmp_path.glob("*.deb")} >= PACKAGES.keys()
    (changes,) = tmp_path.glob("*.changes")
    lint = ["lintian", "--fail-on", "error", "--allow-root", str(changes)]
    done = subprocess.run(lint, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
