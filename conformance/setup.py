"""Builds the probe into the package, so that it can be used without a compiler.

pyproject.toml holds everything else.  CC and CFLAGS are honoured.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from glob import glob

import setuptools
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

FLAGS = ["-std=gnu11", "-O2", "-static", "-s", "-Wall", "-Wextra"]


class BuildPackage(build_py):
    """Compile the probe where it can be; without it the kit does so at its first run."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return all modules but this file, which is in the package's directory."""
        found = super().find_package_modules(package, package_dir)  # type: ignore[no-untyped-call]
        return [one for one in found if (package, one[1]) != ("conformance", "setup")]

    def run(self) -> None:
        """Build."""
        super().run()
        target = os.path.join(self.build_lib, "conformance", "probe", "probe")
        command = [
            *shlex.split(os.environ.get("CC", "cc")),
            *FLAGS,
            *shlex.split(os.environ.get("CFLAGS", "")),
            *("-o", target, *sorted(glob("probe/*.c"))),
        ]
        print(shlex.join(command))
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"no prebuilt probe: {error}")


class Wheel(bdist_wheel):
    """The probe belongs to one kind of machine, but to no interpreter."""

    def finalize_options(self) -> None:
        """Mark the wheel as platform-specific."""
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        """Any Python 3 on this platform."""
        return ("py3", "none", super().get_tag()[2])


setuptools.setup(cmdclass={"build_py": BuildPackage, "bdist_wheel": Wheel})
