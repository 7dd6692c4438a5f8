"""The pod engines compared (ociruntime's own, podman, containerd) and their commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.place import ENVIRONMENT, Failed, Namespace, find_program, own_namespace
from bench.runtimes import WITHOUT, column_names, forbid_snapshot, make_snapshot, version_of
from tests.engines import host
from tests.engines.command import execute
from tests.engines.containerd import Containerd
from tests.engines.image import NAME, Image
from tests.engines.podman import Podman
from tests.support import processes, rootfs

MARK = "the-first-line"
PROGRAM = ("/bin/sh", "-c", f"echo {MARK}")
# Stands in for CRI's pause container in containerd's idle pods.
IDLE = ("/bin/sleep", "100000")


class Engine:
    """A pod or container engine to measure, in the mount namespace ``namespace``.

    ``commands`` returns the command lines to time, the last of which prints MARK. ``clear`` removes
    their container. ``idle`` starts pod ``number`` without activity; ``await_rest`` waits until
    idle pods have reached their lowest memory use.
    """

    name: str
    env: dict[str, str]
    namespace: Namespace
    measures_time = True
    measures_memory = True

    def commands(self) -> list[list[str]]:
        raise NotImplementedError

    def clear(self) -> None:
        raise NotImplementedError

    def idle(self, number: int) -> None:
        raise NotImplementedError

    def await_rest(self, pids: set[int]) -> None:
        """Wait until the processes ``pids`` of idle pods have settled."""


class Ocipod(Engine):
    """``ocipod`` of an installation, with pods and images in a directory of its own."""

    def __init__(self, name: str, programs: Path, layout: Path, place: Path) -> None:
        """Fetch the image ``layout``; ``programs`` is the directory with ``ocipod`` and others."""
        self.name = name
        self.env = ENVIRONMENT
        self.place = place
        self.namespace = own_namespace()
        self.uuids = place / "uuid"
        self.base = [str(programs / "ocipod"), f"--dir={place / 'pods'}"]
        self.base += [f"--runtime={programs / 'ociruntime'}", "--insecure-options=image"]
        place.mkdir()
        self.image = self.run("fetch", "--full", f"oci:{layout}:latest").split()[-1]

    def run(self, *words: str) -> str:
        with self.namespace.entered():
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
        def hibernate() -> bool:
            # A process started from a snapshot has the launcher as its /proc/PID/exe.
            programs = {Path(os.readlink(f"/proc/{pid}/exe")).name for pid in pids}
            return not any(name.startswith(("python", "ocipod")) for name in programs)

        if not processes.until(hibernate, 60):
            raise Failed("the monitors of idle pods did not hibernate within 60 s")

    def end(self) -> None:
        """Stop and remove all pods."""
        listed = self.run("list", "--full", "--no-legend").splitlines()
        uuids = [line.split()[0] for line in listed if line and not line[0].isspace()]
        if uuids:
            self.run("stop", "--force", *uuids)
            for uuid in uuids:
                self.run("status", "--wait", uuid)
            self.run("rm", *uuids)


class Ocictl(Engine):
    """``ocictl run --rm``, with the daemon of the same installation."""

    measures_memory = False  # its pods are like those of ocipod

    def __init__(self, name: str, programs: Path, layout: Path, pods: Ocipod) -> None:
        """Start the daemon in the namespace of ``pods``, with its own data directories."""
        self.name = name
        self.env = ENVIRONMENT
        self.namespace = pods.namespace
        socket = pods.place / "socket"
        options = [f"--root={pods.place / 'manager'}", f"--dir={pods.place / 'managed'}"]
        options += [f"--socket={socket}", f"--runtime={programs / 'ociruntime'}"]
        options += ["--insecure-options=image"]
        self.base = [str(programs / "ocictl"), f"--socket={socket}"]
        with self.namespace.entered(), open(pods.place / "ocid.log", "wb") as log:
            self.daemon = subprocess.Popen(
                [programs / "ocid", *options], env=self.env, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        if not processes.until(self._answers, 30):
            self.stop()
            raise Failed(f"ocid does not answer: {(pods.place / 'ocid.log').read_text()}")
        self.image = f"oci:{layout}:latest"

    def _answers(self) -> bool:
        with self.namespace.entered():
            command = [*self.base, "info"]
            done = subprocess.run(command, env=self.env, capture_output=True, check=False)
        return done.returncode == 0

    def commands(self) -> list[list[str]]:
        return [[*self.base, "run", "--rm", "--network=none", self.image, *PROGRAM]]

    def clear(self) -> None:
        """Do nothing: ``--rm`` has removed the container."""

    def remove_all(self) -> None:
        """Remove all containers."""
        with self.namespace.entered():
            listed = execute([*self.base, "ps", "--all", "--quiet"], self.env, Path("/")).ok().out
            if ids := listed.split():
                execute([*self.base, "rm", "--force", *ids], self.env, Path("/")).ok()

    def stop(self) -> None:
        """Stop the daemon."""
        self.daemon.terminate()
        self.daemon.wait()


class PodmanRun(Engine):
    """``podman run``: a container without a pod."""

    name = "podman run"
    measures_memory = False  # it has no pods

    def __init__(self, podman: Podman) -> None:
        self.podman = podman
        self.env = podman.env
        self.namespace = Namespace()

    def commands(self) -> list[list[str]]:
        return [[self.podman.program, *self.podman.new("run", "--name=bench", NAME, *PROGRAM)]]

    def clear(self) -> None:
        self.podman("rm", "--force", "--time=0", "bench").ok()


class PodmanPod(Engine):
    """``podman pod create``, and ``podman run`` in that pod."""

    name = "podman pod"

    def __init__(self, podman: Podman) -> None:
        self.podman = podman
        self.env = podman.env
        self.namespace = Namespace()

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
    """A task of containerd: its shim, and a sleeping program in place of CRI's pause."""

    name = "containerd"
    measures_time = False  # ctr is for debugging: its speed is not containerd's

    def __init__(self, containerd: Containerd) -> None:
        self.containerd = containerd
        self.env = containerd.env
        self.namespace = Namespace()

    def idle(self, number: int) -> None:
        self.containerd.background(f"idle{number}", *IDLE)


def make_image(place: Path) -> Image:
    """Create a busybox image of one layer, as an OCI layout and as an archive."""
    tree = place / "tree"
    rootfs.build(tree, {"bin/busybox": rootfs.BUSYBOX})
    image = Image(tree)
    image.write_layout(place / "layout")
    image.write_oci_archive(place / "box.tar")
    return image


def our_engines(
    programs: list[Path], layout: Path, place: Path, *, without: bool, stack: ExitStack
) -> list[Engine]:
    """Return ``ocipod`` and ``ocictl`` of each installation, with the snapshot and without."""
    runtimes = [directory / "ociruntime" for directory in programs]
    versions = [version_of(runtime).replace("ociruntime ", "") for runtime in runtimes]
    # A single installation needs no version; several are distinguished by name.
    labels = [""] if len(programs) == 1 else column_names(versions, programs)
    found: list[Engine] = []
    for label, directory in zip(labels, programs, strict=True):
        for cold in (False, True) if without else (False,):
            suffix = f" {label}".rstrip() + (f", {WITHOUT}" if cold else "")
            home = place / f"ours{len(found)}"
            pods = Ocipod(f"ocipod{suffix}", directory, layout, home)
            stack.callback(pods.end)
            if cold:
                forbid_snapshot(pods.namespace)
            else:
                make_snapshot(directory / "ociruntime", pods.namespace)
            manager = Ocictl(f"ocictl{suffix}", directory, layout, pods)
            stack.callback(manager.stop)
            found += [pods, manager]
    return found


@contextmanager
def engines(
    programs: list[Path], theirs: str, place: Path, *, without: bool
) -> Iterator[list[Engine]]:
    """Yield ocipod and ocictl of each installation, then podman and containerd.

    ``theirs`` is the runtime that the latter use.
    """
    make_image(place)
    overlay = host.has_overlay(place / "overlay")
    with host.parent_cgroup(f"bench{os.getpid()}") as cgroup, ExitStack() as stack:
        layout = place / "layout"
        found = our_engines(programs, layout, place, without=without, stack=stack)
        if theirs:
            runtime = Path(theirs)
            podman = podman_of(runtime, place, "overlay" if overlay else "vfs", cgroup)
            if podman:
                stack.callback(podman.tidy)
                stack.callback(podman, "pod", "rm", "--all", "--force", "--time=0")
                found += [PodmanRun(podman), PodmanPod(podman)]
            containerd = _containerd(runtime, place, "overlayfs" if overlay else "native", cgroup)
            if containerd:
                stack.callback(host.unmount_below, containerd.home)
                stack.callback(containerd.daemon.stop)
                stack.callback(containerd.tidy)
                found.append(Ctr(containerd))
        yield found


def podman_of(runtime: Path, place: Path, driver: str, cgroup: str) -> Podman | None:
    """Load the archive ``place``/box.tar into a new podman; None if it is not installed."""
    if not find_program("podman") or not find_program("conmon"):
        return None
    podman = Podman(find_program("podman"), runtime, place / "podman", driver, cgroup)
    podman("load", "--input", str(place / "box.tar")).ok()
    return podman


def _containerd(runtime: Path, place: Path, snapshotter: str, cgroup: str) -> Containerd | None:
    programs = [find_program(name) for name in ("containerd", "ctr", "containerd-shim-runc-v2")]
    if not all(programs):
        return None
    for directory in ("/run/containerd/runc", "/run/containerd/s"):
        Path(directory).mkdir(parents=True, exist_ok=True)
    home = place / "containerd"
    home.mkdir()
    containerd = Containerd(programs[0], programs[1], runtime, home, snapshotter, cgroup)
    containerd("image", "import", str(place / "box.tar")).ok()
    return containerd
