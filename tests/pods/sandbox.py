"""A mutable pod, and operations on its apps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell


class Sandbox:
    """A mutable pod without networks, and an image for its apps."""

    def __init__(self, ocipod: Ocipod, work: Path, *options: str) -> None:
        self.ocipod = ocipod
        self.image = busybox(work)
        ocipod("fetch", self.image).ok()
        self.uuid = ocipod("app", "sandbox", "--detach", "--net=none", *options).ok().out.strip()

    def add(self, name: str, *lines: str, options: Sequence[str] = ()) -> None:
        words = ("app", "add", self.uuid, self.image, f"--name={name}", *options, *shell(*lines))
        self.ocipod(*words).ok()

    def do(self, action: str, name: str) -> None:
        self.ocipod("app", action, self.uuid, f"--app={name}").ok()

    def start(self, name: str, *lines: str, options: Sequence[str] = ()) -> None:
        self.add(name, *lines, options=options)
        self.do("start", name)

    def states(self) -> dict[str, str]:
        lines = self.ocipod("app", "list", "--no-legend", self.uuid).ok().out.splitlines()
        return dict(line.split() for line in lines)

    def status(self, name: str) -> dict[str, str]:
        lines = self.ocipod("app", "status", self.uuid, f"--app={name}").ok().out.splitlines()
        return {key: value for key, _, value in (line.partition("=") for line in lines)}

    def wait(self, name: str, state: str) -> None:
        assert processes.until(lambda: self.states().get(name) == state), self.states()
