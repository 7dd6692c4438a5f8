"""The context of a test case: bundles, calls of the runtime and the probe, assertions, cleanup."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from conformance import cgroups, host_mounts, isolation, surroundings, template
from conformance.bundle import Bundle, Json, words_of
from conformance.case import Failed, Skipped
from conformance.console import ConsoleSocket
from conformance.container import Container
from conformance.driver import Result, Runtime, Shell
from conformance.host import Host


class Context:
    """The context of one case on one runtime, in a scratch ``directory``.

    ``token`` is part of every name that the case uses on the host.  ``undo`` are functions called
    at the end in reverse order.  ``left`` describes what the runtime has left behind.
    """

    def __init__(
        self, runtime: Runtime, directory: Path, probe: Path, version: str, seconds: float
    ) -> None:
        self.runtime = runtime
        self.directory = directory
        self.probe_program = probe
        self.version = version
        self.host = Host()
        self.token = directory.name
        self.root = directory / "state"
        self.shell = Shell(directory, seconds)
        self.containers: list[Container] = []
        self.made_cgroups: list[Path] = []
        self.made_mounts: list[Path] = []
        self.undo: list[Callable[[], object]] = []
        self.left: list[str] = []
        self.before = surroundings.snapshot(self.root, self.token)
        self._count = 0

    # --- bundles and ids ---

    def id(self) -> str:
        """Return a new container id."""
        self._count += 1
        return f"{self.token}-{self._count}"

    def cgroups_path(self, name: str) -> str | None:
        """Return ``linux.cgroupsPath`` for a name, for cgroupfs or systemd; None without root."""
        if not self.host.root:
            return None
        return f":conformance:{name}" if self.runtime.systemd else f"/{name}"

    def bundle(self, *actions: str, **changes: Any) -> Bundle:
        """Return a new bundle with the minimal config of ``template.config``.

        ``actions``: actions of the probe, by default sleep.  ``changes`` are merged into the
        config: objects member by member; lists replace lists; ABSENT removes a member.
        """
        name = self.id()
        path = self.directory / name
        path.mkdir()
        config = template.config(self.version, self.cgroups_path(name), not self.host.root)
        bundle = Bundle(path, self.probe_program, config)
        if actions:
            bundle.does(*actions)
        return bundle.change(**changes)

    # --- the runtime ---

    def call(self, *words: str, **options: Any) -> Result:
        """Run ``RUNTIME --root ROOT WORDS...`` and return the result, even of a failure.

        ``options`` are those of ``Shell.run``.
        """
        command = [str(self.runtime.path), "--root", str(self.root), *self.runtime.options]
        return self.shell.run([*command, *words], **options)

    def attempt_create(
        self,
        bundle: Bundle | None = None,
        *options: str,
        id: str | None = None,
        path: str | None = None,
        **more: Any,
    ) -> tuple[Container, Result]:
        """Run ``create`` and return the container and the result, even of a failure.

        ``options`` are options of ``create``; ``path`` is the value of ``--bundle`` if not the
        absolute path; ``more`` are options of ``Shell.run``.
        """
        bundle = (bundle or self.bundle()).save()
        box = Container(self, bundle.path.name if id is None else id, bundle)
        self.containers.append(box)
        pid_file = self.directory / f"{len(self.containers)}.pid"
        words = ["create", "--bundle", path or str(bundle.path), "--pid-file", str(pid_file)]
        result = self.call(*words, *options, box.id, outputs=box.outputs, **more)
        box.remember(result, pid_file)
        return box, result

    def create(
        self, bundle: Bundle | None = None, *options: str, id: str | None = None, **more: Any
    ) -> Container:
        """Create a container; raises Failed if that fails.  The context deletes it at the end."""
        box, result = self.attempt_create(bundle, *options, id=id, **more)
        if not result.ok:
            self.fail(f"create failed with status {result.status}: {result.complaint}")
        return box

    def started(self, bundle: Bundle | None = None, *options: str, **more: Any) -> Container:
        """Create and start a container; raises Failed if either fails."""
        box = self.create(bundle, *options, **more)
        box.start()
        return box

    def run(self, bundle: Bundle, *options: str, **more: Any) -> Container:
        """Create and start a container, and wait until its init exits."""
        box = self.started(bundle, *options, **more)
        box.wait()
        return box

    def probe(self, bundle: Bundle | None = None, *asks: str, **more: Any) -> Json:
        """Run the probe in a container; return its facts (ids, namespaces, limits, mounts ...).

        ``asks`` request facts about files: ``stat=PATH``, ``read=PATH``, ``list=PATH``,
        ``open=MODE:PATH`` with MODE r, w or b (both).
        """
        bundle = bundle or self.bundle()
        bundle.args(template.PROBE, "facts", *asks)
        box = self.run(bundle, **more)
        if not box.reports:
            end = f"exit status {box.exit_status}, standard error: {box.err[-300:]}"
            self.fail(f"the probe in the container printed no facts: {end}")
        return box.reports[0]

    def refused(self, bundle: Bundle, what: str, *, or_start: bool = False) -> Result:
        """Require that create fails and leaves no container; ``what`` describes the fault.

        ``or_start``: a failure of start is accepted too.
        """
        box, result = self.attempt_create(bundle)
        if result.ok and or_start:
            result = box.attempt("start")
            if not result.ok:
                return result
        if result.ok:
            self.fail(f"the runtime accepts an invalid config: {what}")
        box.deleted = True
        if box.attempt("state").ok:
            self.left.append(f"container of a failed create: {what}")
            box.deleted = False
        return result

    def refused_beside(self, sound: Bundle, bad: Bundle, what: str) -> Result:
        """Require that create refuses ``bad``; skip if it also refuses the valid ``sound``."""
        result = self.refused(bad, what)
        box, other = self.attempt_create(sound)
        if not other.ok:
            box.deleted = True
            self.skip(f"the valid variant of the config is refused as well: {other.complaint}")
        return result

    def features(self) -> Json:
        """Return the document that ``features`` prints; skip if the runtime has no such command."""
        result = self.call("features")
        if not result.ok:
            self.skip("the runtime has no features command")
        document = result.json()
        if not isinstance(document, dict):
            self.fail(f"features: not a JSON object: {document!r}")
        return document

    def console(self) -> ConsoleSocket:
        """Return a new listening console socket."""
        self._count += 1
        return ConsoleSocket(self.directory / f"tty{self._count}")

    # --- assertions ---

    def fail(self, message: str) -> NoReturn:
        """Fail the case: the runtime violates the clause."""
        raise Failed(message)

    def skip(self, reason: str) -> NoReturn:
        """Skip the case: the clause cannot be tested here."""
        raise Skipped(reason)

    def expect(self, condition: object, message: str) -> None:
        """Fail with the message unless the condition holds."""
        if not condition:
            raise Failed(message)

    def equal(self, actual: object, expected: object, what: str) -> None:
        """Fail unless the values are equal."""
        if actual != expected:
            raise Failed(f"{what}: {actual!r} instead of {expected!r}")

    def failed(self, result: Result, what: str) -> Result:
        """Fail unless the command reported an error."""
        if result.ok:
            raise Failed(f"{result.verb} succeeded, but must fail: {what}")
        return result

    def need_sound(self) -> None:
        """Fail unless the runtime makes a container in this case, if it has refused anything.

        A runtime that refuses everything meets no clause.
        """
        if all(one.ok for one in self.shell.history):
            return
        if any(box.created and box.created.ok for box in self.containers):
            return
        box, result = self.attempt_create()
        if not result.ok:
            box.deleted = True
            self.fail(f"the runtime refuses a plain container as well: {result.complaint}")

    def until(self, condition: Callable[[], object], message: str, seconds: float = 5) -> None:
        """Wait until the condition holds; raises Failed with the message on timeout."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Failed(message)
            time.sleep(0.01)

    # --- requirements of the case: skip if the host does not meet them ---

    def need_root(self, why: str = "needs root") -> None:
        """Skip unless the kit runs as root."""
        if not self.host.root:
            self.skip(why)

    def need_kernel(self, major: int, minor: int) -> None:
        """Skip on older kernels."""
        if self.host.kernel < (major, minor):
            self.skip(f"needs Linux {major}.{minor}")

    def need_controller(self, name: str, *modes: str) -> None:
        """Skip without that cgroup controller, or unless the cgroup mode is one of ``modes``."""
        self.need_root("needs writable cgroups")
        if modes and self.host.cgroup_mode not in modes:
            self.skip(f"needs cgroup {' or '.join(modes)}")
        if name not in self.host.controllers:
            self.skip(f"the host has no {name} controller")

    def need_v2(self, *names: str) -> None:
        """Skip unless these controllers are available on cgroup v2."""
        self.need_root("needs writable cgroups")
        if 2 not in {one.version for one in cgroups.hierarchies()}:
            self.skip("needs cgroup v2")
        for name in names:
            if cgroups.version_of(name) != 2:
                self.skip(f"needs the {name} controller on cgroup v2")

    def need_v1(self, name: str, file: str | None = None) -> None:
        """Skip unless the controller is available on cgroup v1, with that control file."""
        self.need_root("needs writable cgroups")
        if cgroups.version_of(name) != 1:
            self.skip(f"needs the {name} controller on cgroup v1")
        if file is not None and not cgroups.has_file(name, file, self.token):
            self.skip(f"the kernel has no cgroup file {file}")

    def need_capability(self, number: int, name: str) -> None:
        """Skip unless the kit itself has that capability."""
        if not self.host.capabilities >> number & 1:
            self.skip(f"needs {name}")

    # --- the host ---

    def tool(self, *words: str, stdin: bytes = b"", may_fail: bool = False) -> Result:
        """Run a program of the host; skip if it is missing or, unless ``may_fail``, fails."""
        path = shutil.which(words[0], path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin")
        if path is None:
            self.skip(f"needs the program {words[0]}")
        result = self.shell.run([path, *words[1:]], stdin=stdin)
        if not result.ok and not may_fail:
            self.skip(f"cannot prepare the host: {' '.join(words)}: {result.complaint}")
        return result

    def probe_on_host(self, *actions: str, before: Callable[[], None] | None = None) -> Result:
        """Run the probe outside of containers, in the same namespaces as the runtime."""
        words = words_of(actions or ["facts"])
        return self.shell.run([str(self.probe_program), *words], before=before)

    def make_cgroups(self, name: str) -> str:
        """Create a cgroup in every hierarchy until the case's end; return its unique path."""
        self.need_root("needs writable cgroups")
        path = f"{self.token}-{name}"
        for hierarchy in cgroups.hierarchies():
            made = hierarchy.point / path
            made.mkdir()
            self.made_cgroups.append(made)
            # A new v1 cpuset accepts no process until it has both.
            for file in ("cpuset.cpus", "cpuset.mems"):
                if hierarchy.version == 1 and (made / file).exists():
                    (made / file).write_text((hierarchy.point / file).read_text())
        return f"/{path}"

    def mount_tmpfs(self, path: str, *options: str) -> Path:
        """Mount a tmpfs at ``path`` in the scratch directory until the case's end; return its path.

        ``options`` are mount options as for ``host_mounts.make``.
        """
        self.need_root("needs to mount on the host")
        target = self.directory / path
        try:
            host_mounts.make(target, *options)
        except OSError as error:
            self.skip(f"the host cannot mount a tmpfs {','.join(options)}: {error.strerror}")
        self.made_mounts.append(target)
        return target

    # --- the end ---

    def finish(self) -> list[str]:
        """Delete the containers and undo changes; return descriptions of what was left behind.

        What the runtime has left behind is removed by force.
        """
        for box in self.containers:
            if not box.deleted and self._knows(box):
                try:
                    result = box.attempt("delete", "--force")
                except Failed as failure:
                    self.left.append(f"container {box.id}: {failure}")
                    continue
                if not result.ok:
                    self.left.append(f"container {box.id}: delete --force: {result.complaint}")
        for undo in reversed(self.undo):
            undo()
        self._remove_mounts()
        self._remove_cgroups()
        self.left += surroundings.settled_difference(self.before, self.root, self.token)
        self.clear()
        return self.left

    def clear(self) -> None:
        """Remove by force what is new on the host since the case began."""
        surroundings.clear(self.before, self.root, self.token)

    def _knows(self, box: Container) -> bool:
        try:
            return box.attempt("state").ok
        except Failed:
            return True

    def _remove_mounts(self) -> None:
        for path in reversed(self.made_mounts):
            try:
                isolation.unmount(str(path))
            except OSError as error:
                self.left.append(f"missing mount {path}: {error.strerror}")

    def _remove_cgroups(self) -> None:
        for path in reversed(self.made_cgroups):
            for _ in range(100):
                try:
                    path.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)
