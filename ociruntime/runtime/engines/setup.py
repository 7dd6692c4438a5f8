"""Tell an engine of this runtime, and take that back.

Each engine reads one file that is ours alone, checks it, and may run a container.  A file of
somebody else is never changed: where one is in the way, the lines are returned that an
administrator must add.
"""

from __future__ import annotations

import json
import os
import signal
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.base.process import open_process, send_signal, start_time
from ociruntime.base.trusted_directories import check_parent
from ociruntime.runtime.engines import configuration, drop_in
from ociruntime.runtime.engines.calls import ask, docker_host, find_first
from ociruntime.runtime.engines.configuration import DEFAULT, NAME, PRIORITY, CriEntry, Entry
from ociruntime.runtime.engines.drop_in import Owner
from ociruntime.runtime.engines.trial import docker_trial, podman_trial

RELOAD_TIMEOUT = 10.0  # seconds for dockerd to take up its configuration
POLL = 0.1
DOCKER_PID_FILE = "/var/run/docker.pid"
PODMAN_DIRECTORY = "/etc/containers/containers.conf.d"
DOCKER_FILE = "/etc/docker/daemon.json"
CONTAINERD_DROP_IN = f"/etc/containerd/conf.d/{PRIORITY}-{NAME}.toml"
CONTAINERD_FILE = "/etc/containerd/config.toml"
CRIO_FILE = f"/etc/crio/crio.conf.d/{PRIORITY}-{NAME}.conf"


@dataclass(frozen=True)
class Request:
    """The user's request: ``reload`` makes a running daemon reread its configuration."""

    engine: str
    program: str
    default: bool = False
    reload: bool = False

    @property
    def entry(self) -> Entry:
        """The runtime as the engine is to know it."""
        return Entry(self.program, self.default)


@dataclass
class Outcome:
    """The result, one line per step; ``missing``: lines that the user must add to ``file``."""

    lines: list[str] = field(default_factory=list)
    missing: str = ""
    file: str = ""
    failure: str = ""  # why the engine does not use the runtime although its file is there

    def changed(self, path: str, changed: bool) -> None:
        """Record what happened to a file."""
        self.lines.append(f"{path}: {'written' if changed else 'unchanged'}")


@dataclass(frozen=True)
class Engine:
    """An engine: any of its ``programs`` shows that it is installed."""

    title: str
    programs: tuple[str, ...]
    files: Callable[[], tuple[str, ...]]  # that setup may write
    set_up: Callable[[Request, str, Outcome], None]
    is_ours: Callable[[str], bool] = drop_in.has_mark
    rootless: bool = False
    after_undo: str = ""


def set_up(request: Request) -> Outcome:
    """Write the engine's file and check that the engine takes it.

    Raises RuntimeFailure if the engine is not installed or its file cannot be written.
    """
    engine = _engine(request.engine)
    if request.reload and request.engine != "docker":
        raise UsageError("--reload: only for docker", f"{engine.title} has nothing to reload")
    _check_program(request.program, engine)
    program = find_first(engine.programs)
    if not program:
        raise RuntimeFailure(
            f"set up {engine.title}: {' or '.join(engine.programs)}: not found", "install it first"
        )
    outcome = Outcome()
    engine.set_up(request, program, outcome)
    return outcome


def undo(name: str) -> Outcome:
    """Remove what ``set_up`` has written, and nothing else.  Raises RuntimeFailure."""
    engine = _engine(name)
    outcome = Outcome()
    for path in engine.files():
        whose = drop_in.owner(path, engine.is_ours)
        if whose is Owner.OURS:
            drop_in.remove(path)
            outcome.lines.append(f"{path}: removed")
        elif whose is Owner.OTHERS:
            outcome.lines.append(f"{path}: left as it is: {whose.value}")
    if not outcome.lines:
        outcome.lines.append(f"{engine.title}: there was nothing to remove")
    elif engine.after_undo and any(line.endswith(": removed") for line in outcome.lines):
        outcome.lines.append(engine.after_undo)
    return outcome


def _engine(name: str) -> Engine:
    engine = ENGINES.get(name)
    if engine is None:
        raise UsageError(f'setup: unknown engine "{name}"', ", ".join(ENGINES))
    if os.geteuid() != 0 and not engine.rootless:
        raise RuntimeFailure(f"set up {engine.title}: needs root", "its configuration is in /etc")
    return engine


def _check_program(program: str, engine: Engine) -> None:
    """Refuse a program that another user could replace: the engine runs it as root."""
    if not program:
        raise RuntimeFailure(
            f"set up {engine.title}: cannot find the program ociruntime of this installation",
            "install it, or run it by its path",
        )
    if not program.isprintable():
        raise RuntimeFailure(
            f"set up {engine.title}: {program!a}: a path with characters that cannot be printed"
        )
    check_parent(os.path.realpath(program), "program's directory")


def _refuse_others(path: str, request: Request, lines: str, outcome: Outcome) -> bool:
    """Return whether the file is somebody else's, and say what it lacks."""
    if drop_in.owner(path, ENGINES[request.engine].is_ours) is not Owner.OTHERS:
        return False
    outcome.lines.append(f"{path}: left as it is: {Owner.OTHERS.value}")
    use = configuration.find_use(request.engine, drop_in.read(path) or "")
    if use is None or use.program != request.program or (request.default and use.how != DEFAULT):
        outcome.file, outcome.missing = path, lines
    else:
        outcome.lines.append(f"it has {use.program} as {use.how} already")
    return True


# --- podman -------------------------------------------------------------------------


def podman_file() -> str:
    """Return the path of podman's drop-in file, for this user."""
    directory = PODMAN_DIRECTORY
    if os.geteuid() != 0:
        above = os.environ.get("XDG_CONFIG_HOME", "")
        above = above if above.startswith("/") else os.path.expanduser("~/.config")
        directory = f"{above}/containers/containers.conf.d"
    return f"{directory}/{PRIORITY}-{NAME}.conf"


def _set_up_podman(request: Request, podman: str, outcome: Outcome) -> None:
    path, lines = podman_file(), configuration.podman_lines(request.entry)
    if _refuse_others(path, request, lines, outcome):
        return
    outcome.changed(path, drop_in.put(path, lines, "podman"))
    runtime = () if request.default else ("--runtime", NAME)
    shown = ask(podman, *runtime, "info", "--format", "{{.Host.OCIRuntime.Path}}")
    if shown.status != 0:
        outcome.failure = f"podman info: {shown.last_line}"
    elif (found := shown.out.strip()) != request.program:
        outcome.failure = (
            f"podman uses {found} all the same: a file that it reads later, or CONTAINERS_CONF, "
            "decides otherwise"
        )
    elif failure := podman_trial(podman):
        outcome.failure = f"a container through podman: {failure}"
    else:
        flag = "" if request.default else f" --runtime {NAME}"
        outcome.lines.append(f"a container ran through it: podman{flag} run ...")


# --- Docker -------------------------------------------------------------------------


def _set_up_docker(request: Request, dockerd: str, outcome: Outcome) -> None:
    lines = configuration.docker_lines(request.entry)
    if not _refuse_others(DOCKER_FILE, request, lines, outcome):
        outcome.changed(DOCKER_FILE, drop_in.put(DOCKER_FILE, lines, ""))
        checked = ask(dockerd, "--validate", "--config-file", DOCKER_FILE)
        # Before version 23, it has no such flag.
        if checked.status != 0 and "unknown flag" not in checked.error:
            drop_in.remove(DOCKER_FILE)
            outcome.failure = f"dockerd refuses {DOCKER_FILE}, removed: {checked.last_line}"
    if outcome.missing or outcome.failure:
        return
    docker = find_first(("docker",))
    if not docker or not _answers(docker):
        outcome.lines.append("dockerd does not run: it reads the file when it starts")
        return
    if request.reload:
        _reload_docker()
        _await(lambda: _knows(docker, request))
    if not _knows(docker, request):
        outcome.lines.append(
            "dockerd has not read it yet: ociruntime setup docker --reload, or systemctl reload "
            "docker (containers run on)"
        )
        if request.reload:
            outcome.failure = f"dockerd does not know the runtime {NAME} after the reload"
    elif failure := docker_trial(docker, docker_host()):
        outcome.failure = f"a container through Docker: {failure}"
    else:
        flag = "" if request.default else f" --runtime {NAME}"
        outcome.lines.append(f"a container ran through it: docker run{flag} ...")


def _answers(docker: str) -> bool:
    return ask(docker, "--host", docker_host(), "version").status == 0


def _knows(docker: str, request: Request) -> bool:
    """Return whether the running dockerd has the runtime, as the default if requested."""
    shown = ask(docker, "--host", docker_host(), "info", "--format", "{{json .}}")
    try:
        document = json.loads(shown.out)
    except ValueError:
        return False
    runtime = document.get("Runtimes", {}).get(NAME, {})
    default = document.get("DefaultRuntime") == NAME or not request.default
    return runtime.get("path") == request.program and default


def _reload_docker() -> None:
    """Send SIGHUP to the dockerd of the pid file.  Raises RuntimeFailure."""
    hint = "systemctl reload docker"
    text = (drop_in.read(DOCKER_PID_FILE) or "").strip()
    if not (text.isascii() and text.isdigit()):
        raise RuntimeFailure(f"reload dockerd: {DOCKER_PID_FILE}: has no pid", hint)
    pid = int(text)
    pidfd = open_process(pid, start_time(pid))
    if pidfd < 0:
        raise RuntimeFailure(f"reload dockerd: no process {pid}", hint)
    try:
        if (drop_in.read(f"/proc/{pid}/comm") or "").strip() != "dockerd":
            raise RuntimeFailure(f"reload dockerd: process {pid} is not dockerd", hint)
        send_signal(pidfd, signal.SIGHUP, pid)
    finally:
        os.close(pidfd)


def _await(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + RELOAD_TIMEOUT
    while not ready() and time.monotonic() < deadline:
        time.sleep(POLL)


# --- containerd ---------------------------------------------------------------------

_RESTART = "restart it, at a time that suits (pods run on): systemctl restart containerd"


def _set_up_containerd(request: Request, containerd: str, outcome: Outcome) -> None:
    """Try the drop-in file, and keep it only if containerd reads it and loses nothing by it.

    containerd 1.x replaces the whole section of a plugin by what it imports, 2.x merges them; and
    only from 2.2 on does it import anything by itself.
    """
    own = [path for path in (CONTAINERD_DROP_IN, CONTAINERD_FILE) if _is_ours(path)]
    before = _dump(containerd)
    plugin = configuration.cri_plugin(before)
    if not plugin:
        raise RuntimeFailure("set up containerd: its configuration has no CRI plugin")
    entry = CriEntry(
        request.program,
        request.default,
        plugin,
        int(before.get("version", 2)),
        configuration.runc_settings(before, plugin),
    )
    lines = configuration.containerd_lines(entry)
    # A configuration of somebody's own may import the drop-in; without any, ours is the whole.
    places = [CONTAINERD_DROP_IN]
    if drop_in.owner(CONTAINERD_FILE) is not Owner.OTHERS:
        places.append(CONTAINERD_FILE)
    for path in own or places:
        if drop_in.owner(path) is Owner.OTHERS:
            continue
        changed = drop_in.put(path, lines, "containerd")
        if reason := _objection(containerd, before, request, changes_default=bool(own)):
            drop_in.remove(path)
            continue
        outcome.changed(path, changed)
        outcome.lines.append("containerd takes it (containerd config dump)")
        if changed:
            outcome.lines.append(_RESTART)
        return
    _refuse_others(CONTAINERD_FILE, request, lines, outcome)
    if not outcome.missing and not outcome.lines:
        outcome.file, outcome.missing = CONTAINERD_FILE, lines
        outcome.lines.append(f"{CONTAINERD_DROP_IN}: tried and removed: {reason}")


def _is_ours(path: str) -> bool:
    return drop_in.owner(path) is Owner.OURS


def _dump(containerd: str) -> Mapping[str, Any]:
    """Return the configuration that containerd would start with.  Raises RuntimeFailure."""
    # 1.x starts without a file, but does not show what it then goes by.
    is_there = drop_in.owner(CONTAINERD_FILE) is not Owner.NOBODY
    shown = ask(containerd, "config", "dump")
    if shown.status != 0 and not is_there:
        shown = ask(containerd, "config", "default")
    try:
        if shown.status == 0:
            return tomllib.loads(shown.out)
    except tomllib.TOMLDecodeError:
        pass
    raise RuntimeFailure(
        f"set up containerd: containerd config dump: {shown.last_line}", f"see {CONTAINERD_FILE}"
    )


def _objection(
    containerd: str, before: Mapping[str, Any], request: Request, *, changes_default: bool
) -> str:
    """Return why a file just written cannot stay, "" if it can.

    ``changes_default``: the default before was ours.
    """
    shown = ask(containerd, "config", "dump")
    if shown.status != 0:
        return f"containerd refuses it: {shown.last_line}"
    use = configuration.find_use("containerd", shown.out)
    if use is None or use.program != request.program:
        return "containerd does not import it"
    allowed = ("imports", NAME, *(("default_runtime_name",) * (request.default or changes_default)))
    if path := configuration.lost(before, tomllib.loads(shown.out), allowed):
        return f"it would replace {path} of the configuration"
    return ""


# --- CRI-O --------------------------------------------------------------------------


def _set_up_crio(request: Request, crio: str, outcome: Outcome) -> None:
    lines = configuration.crio_lines(request.entry)
    if _refuse_others(CRIO_FILE, request, lines, outcome):
        return
    outcome.changed(CRIO_FILE, drop_in.put(CRIO_FILE, lines, "crio"))
    shown = ask(crio, "config")
    use = configuration.find_use("crio", shown.out)
    if shown.status != 0:
        outcome.failure = f"crio config: {shown.last_line}"
    elif use is None or use.program != request.program:
        outcome.failure = f"crio does not read {CRIO_FILE} (crio config)"
    else:
        outcome.lines.append("CRI-O takes it (crio config)")
        outcome.lines.append("let a running CRI-O read it: systemctl reload crio")


ENGINES: dict[str, Engine] = {
    "podman": Engine(
        "podman", ("podman",), lambda: (podman_file(),), _set_up_podman, rootless=True
    ),
    "docker": Engine(
        "Docker",
        ("dockerd",),
        lambda: (DOCKER_FILE,),
        _set_up_docker,
        is_ours=configuration.is_docker_lines,
        after_undo="a running dockerd knows the runtime until: systemctl reload docker",
    ),
    "containerd": Engine(
        "containerd",
        ("containerd",),
        lambda: (CONTAINERD_DROP_IN, CONTAINERD_FILE),
        _set_up_containerd,
        after_undo=_RESTART,
    ),
    "crio": Engine(
        "CRI-O",
        ("crio",),
        lambda: (CRIO_FILE,),
        _set_up_crio,
        after_undo="a running CRI-O knows the runtime until: systemctl reload crio",
    ),
}
