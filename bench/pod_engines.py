"""Who makes pods here, and by which commands: ``ocipod``, podman, containerd."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lifecycle import ENVIRONMENT, REPOSITORY

sys.path.insert(0, str(REPOSITORY))

from tests.engines import host
from tests.engines.command import execute
from tests.engines.containerd import Containerd
from tests.engines.image import NAME, Image
from tests.engines.podman import Podman
from tests.support import processes, rootfs

MARK = "the-first-line"
PROGRAM = ("/bin/sh", "-c", f"echo {MARK}")
# A process that waits for nothing, in a place where others have theirs of C.
IDLE = ("/bin/sleep", "100000")


class Engine:
    """One way to run an app.

    ``commands`` are what is timed: the last of them prints MARK.  ``clear`` removes what they
    left.  ``idle`` starts a pod in which nothing happens, ``await_rest`` waits until it needs as
    little memory as it will.
    """

    name: str
    env: dict[str, str]
    measures_time = True
    measures_memory = True

    def commands(self) -> list[list[str]]:
        raise NotImplementedError

    def clear(self) -> None:
        raise NotImplementedError

    def idle(self, number: int) -> None:
        raise NotImplementedError

    def await_rest(self, pids: set[int]) -> None:
        """``pids``: those of the idle pods."""


class Ocipod(Engine):
    """``ocipod`` with pods and images in a directory of its own."""

    def __init__(self, program: Path, runtime: Path, layout: Path, place: Path) -> None:
        self.name = "ocipod" if runtime.name == "ociruntime" else f"ocipod ({runtime.name})"
        self.env = ENVIRONMENT
        self.place = place
        directory = place / f"ocipod-{runtime.name}"
        self.uuids = directory / "uuid"
        self.base = [str(program), f"--dir={directory}", f"--runtime={runtime}"]
        self.base.append("--insecure-options=image")
        directory.mkdir()
        self.image = self.run("fetch", "--full", f"oci:{layout}:latest").split()[-1]

    def run(self, *words: str) -> str:
        return execute([*self.base, *words], self.env, self.place).ok().out

    def commands(self) -> list[list[str]]:
        self.uuids.unlink(missing_ok=True)
        options = ("--net=none", f"--uuid-file-save={self.uuids}")
        app = (self.image, "--name=app", "--exec", PROGRAM[0], "--", *PROGRAM[1:])
        return [[*self.base, "run", *options, *app]]

    def clear(self) -> None:
        self.run("rm", f"--uuid-file={self.uuids}")

    def idle(self, number: int) -> None:
        del number  # a pod's name is its UUID
        self.run("app", "sandbox", "--detach", "--net=none")

    def await_rest(self, pids: set[int]) -> None:
        def sleeps() -> bool:
            return not any("python" in os.readlink(f"/proc/{pid}/exe") for pid in pids)

        if not processes.until(sleeps, 60):
            sys.exit("the monitors do not sleep")

    def end(self) -> None:
        """Stop and remove all pods."""
        listed = self.run("list", "--full", "--no-legend").splitlines()
        uuids = [line.split()[0] for line in listed if line and not line[0].isspace()]
        if uuids:
            self.run("stop", "--force", *uuids)
            for uuid in uuids:
                self.run("status", "--wait", uuid)
            self.run("rm", *uuids)


class PodmanRun(Engine):
    """``podman run``: a container without a pod."""

    name = "podman run"
    measures_memory = False  # it has no idle pod

    def __init__(self, podman: Podman) -> None:
        self.podman = podman
        self.env = podman.env

    def commands(self) -> list[list[str]]:
        return [[self.podman.program, *self.podman.new("run", "--name=bench", NAME, *PROGRAM)]]

    def clear(self) -> None:
        self.podman("rm", "--force", "--time=0", "bench").ok()


class PodmanPod(Engine):
    """``podman pod create``, and ``podman run`` in it."""

    name = "podman pod"

    def __init__(self, podman: Podman) -> None:
        self.podman = podman
        self.env = podman.env

    def commands(self) -> list[list[str]]:
        run = [self.podman.program, "run", "--pod=bench", NAME, *PROGRAM]
        return [self._create("bench"), run]

    def clear(self) -> None:
        self.podman("pod", "rm", "--force", "--time=0", "bench").ok()

    def idle(self, number: int) -> None:
        self.podman(*self._create(f"idle{number}")[1:]).ok()
        self.podman("pod", "start", f"idle{number}").ok()

    def _create(self, name: str) -> list[str]:
        words = ["pod", "create", "--network=none", f"--cgroup-parent={self.podman.cgroup}"]
        return [self.podman.program, *words, f"--name={name}"]


class Ctr(Engine):
    """A task of containerd: its shim, and a program that sleeps where CRI has its pause."""

    name = "containerd"
    measures_time = False  # ctr is for debugging: its speed is not containerd's

    def __init__(self, containerd: Containerd) -> None:
        self.containerd = containerd
        self.env = containerd.env

    def idle(self, number: int) -> None:
        self.containerd.background(f"idle{number}", *IDLE)


def installed(name: str) -> str:
    """Where a program is, or empty: said on standard error."""
    search = f"{ENVIRONMENT['PATH']}:{os.environ.get('PATH', '')}"
    found = shutil.which(name, path=search) or ""
    if not found:
        print(f"not installed, left out: {name}", file=sys.stderr)
    return found


def make_image(place: Path) -> Image:
    """Busybox as an image of one layer, also as a layout and an archive for the engines."""
    tree = place / "tree"
    rootfs.build(tree, {"bin/busybox": rootfs.BUSYBOX})
    image = Image(tree)
    image.write_layout(place / "layout")
    image.write_oci_archive(place / "box.tar")
    return image


@contextmanager
def engines(ours: list[Path], theirs: str, place: Path) -> Iterator[list[Engine]]:
    """``ocipod`` with each runtime of ``ours``, then its peers with the runtime ``theirs``."""
    make_image(place)
    own = REPOSITORY / ".venv" / "bin" / "ocipod"
    program = own if own.exists() else Path(installed("ocipod"))
    overlay = host.has_overlay(place / "overlay")
    with host.parent_cgroup(f"bench{os.getpid()}") as cgroup:
        pods = [Ocipod(program, runtime, place / "layout", place) for runtime in ours]
        found: list[Engine] = [*pods]
        runtime = Path(theirs)
        podman = _podman(runtime, place, "overlay" if overlay else "vfs", cgroup)
        found += [PodmanRun(podman), PodmanPod(podman)] if podman else []
        containerd = _containerd(runtime, place, "overlayfs" if overlay else "native", cgroup)
        found += [Ctr(containerd)] if containerd else []
        try:
            yield found
        finally:
            for one in pods:
                one.end()
            if podman:
                podman("pod", "rm", "--all", "--force", "--time=0")
                podman.tidy()
            if containerd:
                containerd.tidy()
                containerd.daemon.stop()
                host.unmount_below(containerd.home)


def _podman(runtime: Path, place: Path, driver: str, cgroup: str) -> Podman | None:
    if not installed("podman") or not installed("conmon"):
        return None
    podman = Podman(installed("podman"), runtime, place / "podman", driver, cgroup)
    podman("load", "--input", str(place / "box.tar")).ok()
    return podman


def _containerd(runtime: Path, place: Path, snapshotter: str, cgroup: str) -> Containerd | None:
    programs = [installed(name) for name in ("containerd", "ctr", "containerd-shim-runc-v2")]
    if not all(programs):
        return None
    for directory in ("/run/containerd/runc", "/run/containerd/s"):
        Path(directory).mkdir(parents=True, exist_ok=True)
    home = place / "containerd"
    home.mkdir()
    containerd = Containerd(programs[0], programs[1], runtime, home, snapshotter, cgroup)
    containerd("image", "import", str(place / "box.tar")).ok()
    return containerd
