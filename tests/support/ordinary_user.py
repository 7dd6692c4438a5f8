"""An unprivileged user of the host, who exists in the user database while a test runs.

The database's files are covered by copies with one more line, in the session's private mount
namespace: the machine itself is unchanged.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import isolation
from tests.support.bundle import Bundle
from tests.support.runtime import Result, Runtime, execute

MS_BIND = 4096
NAME = "octester"
UID = 51234
SUBUID, SUBGID = 900000, 1000000
COUNT = 65536


class OrdinaryUser(Runtime):
    """Calls the runtime as this user: no privileges, a fresh environment."""

    def __init__(self, path: Path, home: Path, *wrapper: str) -> None:
        super().__init__(path, home / "run" / "ociruntime")
        self.home = home
        self.wrapper = wrapper  # a command that runs the command behind it

    def command(self, *args: str) -> list[str]:
        return self.words(*self.wrapper, str(self.path), *args)

    def words(self, *command: str) -> list[str]:
        """Return the command line that runs a command as this user."""
        return [
            *("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"),
            *("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"HOME={self.home}"),
            *(f"USER={NAME}", f"XDG_RUNTIME_DIR={self.home}/run", *command),
        ]

    def within(self, *wrapper: str) -> OrdinaryUser:
        """Return the same user inside a command, for instance ``unshare -Ur``."""
        return OrdinaryUser(self.path, self.home, *wrapper)

    def do(self, *command: str, cwd: Path | None = None) -> Result:
        """Run any command to its end."""
        return execute(self.words(*command), cwd=cwd)

    def may_run_it(self) -> bool:
        """Return whether the user may execute the runtime at its path."""
        return self.do(str(self.path), "--version").status == 0

    def own(self, bundle: Bundle) -> Bundle:
        """Give the bundle to this user, who becomes its root; the network stays the host's."""
        give(bundle.path, UID)
        bundle.namespace("user").without_namespace("network")
        for kind in ("uidMappings", "gidMappings"):
            bundle.linux[kind] = [{"containerID": 0, "hostID": UID, "size": 1}]
        return bundle

    def with_ranges(self, bundle: Bundle) -> Bundle:
        """Do the same with a thousand subordinate ids."""
        self.own(bundle)
        for kind, first in (("uidMappings", SUBUID), ("gidMappings", SUBGID)):
            bundle.linux[kind].append({"containerID": 1, "hostID": first, "size": 1000})
        return bundle


def give(top: Path, uid: int) -> None:
    """Change the owner of a tree."""
    for place, directories, files in os.walk(top):
        for name in ["", *directories, *files]:
            os.chown(os.path.join(place, name), uid, uid, follow_symlinks=False)


@contextmanager
def known(place: Path) -> Iterator[None]:
    """Add the user to the database; ``place`` is an empty directory for the copies."""
    lines = {
        "passwd": f"{NAME}:x:{UID}:{UID}::/nonexistent:/bin/sh\n",
        "group": f"{NAME}:x:{UID}:\n",
        "subuid": f"{NAME}:{SUBUID}:{COUNT}\n",
        "subgid": f"{NAME}:{SUBGID}:{COUNT}\n",
    }
    covered = []
    try:
        for name, line in lines.items():
            original = Path("/etc") / name
            if not original.exists():  # a mount needs something to lie on
                continue
            shutil.copy(original, place / name)
            with (place / name).open("a") as copy:
                copy.write(line)
            isolation.mount(str(place / name), str(original), "", MS_BIND)
            covered.append(original)
        yield
    finally:
        for original in covered:
            isolation.unmount(str(original))
