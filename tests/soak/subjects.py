"""The runtimes that are soaked: the one under test, and others for comparison."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.place import Spawner
from tests.support import cgroupfs, leaks, processes, rootfs
from tests.support.bundle import Bundle
from tests.support.runtime import kind_of

OWN = "ociruntime"
VANISH_SECONDS = 5.0
KEPT = {".seccomp", ".cache"}  # compiled filters, of all containers of a state root


@dataclass(frozen=True)
class Subject:
    """A runtime with a state root, a bundle and a prefix for the names of its containers."""

    kind: str  # the first word of --version
    program: Path
    root: Path
    bundle: Path
    prefix: str
    spawn: Spawner

    @property
    def own(self) -> bool:
        return self.kind == OWN

    def words(self, *words: str | Path) -> list[str]:
        """Return the command line of a command."""
        return [str(self.program), "--root", str(self.root), *map(str, words)]

    def pid_file(self, name: str) -> Path:
        return self.bundle / f"{name}.pid"

    def create_words(self, name: str) -> list[str]:
        pid_file = self.pid_file(name)
        return self.words("create", "--bundle", self.bundle, "--pid-file", pid_file, name)

    def pid(self, name: str) -> int:
        return int(self.pid_file(name).read_text())

    def end(self, name: str) -> None:
        """Kill a container's init and reap it, as a container engine does."""
        self.spawn(*self.words("kill", name, "KILL"))
        os.waitpid(self.pid(name), 0)


def make(program: Path, place: Path, spawner: Path, prefix: str) -> Subject:
    """Return a subject whose files are below ``place``; its bundle sleeps."""
    kind = kind_of(program)
    place.mkdir()
    if kind == OWN:
        subprocess.run([program, "snapshot", "make"], check=True, stdout=subprocess.DEVNULL)
    bundle = Bundle(place / "bundle", ("sleep", "100000"))
    busybox = place / "busybox"
    shutil.copy(rootfs.BUSYBOX, busybox)
    rootfs.build(bundle.rootfs, {"bin/busybox": busybox})
    bundle.save()
    spawn = Spawner(spawner, place / "output")
    return Subject(kind, program, place / "state", bundle.path, f"{prefix}{kind}", spawn)


@dataclass(frozen=True)
class Surroundings:
    """Everything of a subject that a container may leave behind."""

    processes: frozenset[int]
    mounts: frozenset[str]
    cgroups: frozenset[str]
    files: frozenset[str]


def look(subject: Subject) -> Surroundings:
    """Take a snapshot of everything."""
    state = subject.root.iterdir() if subject.root.exists() else iter(())
    return Surroundings(
        frozenset(processes.descendants()),
        frozenset(leaks.mount_table().values()),
        frozenset(map(str, cgroupfs.named(subject.prefix))),
        frozenset(str(path) for path in state if path.name not in KEPT),
    )


def left(subject: Subject, before: Surroundings, seconds: float = VANISH_SECONDS) -> list[str]:
    """Return what is new, after some time for things that vanish by themselves."""
    found: list[str] = []

    def nothing() -> bool:
        now = look(subject)
        found[:] = [f"process {processes.describe(p)}" for p in now.processes - before.processes]
        found.extend(f"mount {place}" for place in now.mounts - before.mounts)
        found.extend(f"cgroup {place}" for place in now.cgroups - before.cgroups)
        found.extend(f"file {path}" for path in now.files - before.files)
        return not found

    processes.until(nothing, seconds)
    return sorted(found)


def clear(subject: Subject, before: Surroundings) -> None:
    """Remove by force what is new."""
    processes.end(set(look(subject).processes - before.processes))
    now = look(subject)
    cgroupfs.remove({Path(place) for place in now.cgroups - before.cgroups})
    for name in now.files - before.files:
        shutil.rmtree(name, ignore_errors=True)
