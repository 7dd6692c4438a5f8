"""podman of an ordinary user, who is root in a user namespace that podman creates."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from subprocess import DEVNULL
from typing import IO

from tests.engines.command import execute
from tests.engines.podman import Podman
from tests.support import ordinary_user, processes
from tests.support.ordinary_user import OrdinaryUser
from tests.support.runtime import Result


class RootlessPodman(Podman):
    """podman as a user; ``end`` kills the process that keeps the user namespace alive."""

    def __init__(self, program: str, user: OrdinaryUser, home: Path) -> None:
        super().__init__(program, user.path, home, "vfs", "")
        (home / "run").mkdir(mode=0o700, exist_ok=True)
        settings = home / "containers.conf"
        # An ordinary user's podman has places of its own for these.
        own = [
            line
            for line in settings.read_text().splitlines()
            if not line.startswith(("tmp_dir", "static_dir", "volume_path"))
        ]
        settings.write_text("\n".join(own))
        (home / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{home}/storage"\nrunroot = "{home}/layers"\n'
        )
        self.user = OrdinaryUser(user.path, home)
        del self.env["PATH"], self.env["HOME"]
        ordinary_user.give(home, ordinary_user.UID)

    def __call__(self, *args: str, stdin: int | IO[bytes] = DEVNULL) -> Result:
        settings = [f"{name}={value}" for name, value in self.env.items()]
        words = self.user.words(*settings, self.program, *args)
        return execute(words, {}, self.home, stdin)

    def new(self, verb: str, *args: str) -> list[str]:
        network = () if any(word.startswith("--network") for word in args) else ("--network=none",)
        return [verb, *network, *args]

    def _at_work(self) -> list[str]:
        return [line for line in super()._at_work() if "/conmon " in line]

    def state(self) -> list[str]:
        """Return the entries of the runtime's default state root."""
        return [path.name for path in self.user.root.glob("[!.]*")]

    def end(self) -> None:
        """Remove all containers, and kill the process that keeps the user namespace alive."""
        self.tidy()
        pause = self.home / "run/libpod/tmp/pause.pid"
        self("system", "migrate")
        if pause.exists():
            os.kill(int(pause.read_text()), signal.SIGKILL)
        assert processes.until(lambda: not self._holders())

    def _holders(self) -> list[int]:
        namespaces = {os.readlink("/proc/self/ns/user")}
        found = []
        for pid in processes.descendants():
            try:
                if os.readlink(f"/proc/{pid}/ns/user") not in namespaces:
                    found.append(pid)
            except OSError:
                pass  # it has ended
        return found
