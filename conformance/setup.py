"""Build the package with the compiled probe, so that users need no compiler.

All else is in pyproject.toml.  CC and CFLAGS of the environment are used.
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
    """Compile the probe if possible; otherwise the kit compiles it at its first run."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return all modules but this file, which is in the package's directory."""
        found = super().find_package_modules(package, package_dir)  # type: ignore[no-untyped-call]
        return [one for one in found if (package, one[1]) != ("conformance", "setup")]

    def run(self) -> None:
        """Build the package, then the probe."""
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
            print(f"cannot compile the probe; the package will not contain it: {error}")


class Wheel(bdist_wheel):
    """A wheel for one platform (because of the probe) and any Python 3."""

    def finalize_options(self) -> None:
        """Mark the wheel as platform-specific."""
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag for any Python 3 on this platform."""
        return ("py3", "none", super().get_tag()[2])


setuptools.setup(cmdclass={"build_py": BuildPackage, "bdist_wheel": Wheel})
