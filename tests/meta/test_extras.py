"""An installation without extras: the package of an extra is imported only where it is needed.

Stored images can be run, and local images imported, without the packages for registries.
"""

from __future__ import annotations

import subprocess
import sys

from tests.support import project

EXTRAS = ("requests", "urllib3", "zstandard", "cryptography", "jsonschema", "aiohttp")
# Modules that are imported only where their extra is installed.
NEED_AN_EXTRA = ("manager.api.", "manager.daemon.")
PROGRAM = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(name, "needs", error)
"""


def test_modules_without_the_packages_of_extras() -> None:
    names = [
        ".".join(path.relative_to(project.ROOT).with_suffix("").parts)
        for path in sorted(project.PACKAGE.rglob("*.py"))
        if path.name not in ("__init__.py", "__main__.py")
    ]
    modules = [
        name
        for name in names
        if not name.removeprefix("ociruntime.").startswith((*NEED_AN_EXTRA, "startup."))
    ]
    assert "ociruntime.images.fetch" in modules
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(EXTRAS), *modules],
        cwd=project.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
