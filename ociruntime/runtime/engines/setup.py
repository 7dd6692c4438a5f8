"""Configure an engine to use ociruntime (`ociruntime setup`), or undo that.

For each engine, setup writes a separate file, lets the engine check it, and may run a test
container.  Files that others have written are never changed: if setup would have to change one, the
result contains the lines that an administrator must add.
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
from ociruntime.runtime.engines import drop_in, engine_configs
from ociruntime.runtime.engines.engine_commands import ask, docker_host, find_first
from ociruntime.runtime.engines.engine_configs import DEFAULT, NAME, PRIORITY, CriEntry, Entry
from ociruntime.runtime.engines.drop_in import Owner
from ociruntime.runtime.engines.engine_commands import docker_trial, podman_trial

RELOAD_TIMEOUT = 10.0  # seconds for dockerd to reread its configuration
POLL = 0.1  # seconds
DOCKER_PID_FILE = "/var/run/docker.pid"
PODMAN_DIRECTORY = "/etc/containers/containers.conf.d"
DOCKER_FILE = "/etc/docker/daemon.json"
CONTAINERD_DROP_IN = f"/etc/containerd/conf.d/{PRIORITY}-{NAME}.toml"
CONTAINERD_FILE = "/etc/containerd/config.toml"
CRIO_FILE = f"/etc/crio/crio.conf.d/{PRIORITY}-{NAME}.conf"


@dataclass(frozen=True)
class Request:
    """The arguments of `setup`; ``reload``: make a running daemon reread its configuration."""

    engine: str
    program: str
    default: bool = False
    reload: bool = False

    @property
    def entry(self) -> Entry:
        """The runtime to add to the engine's configuration."""
        return Entry(self.program, self.default)


@dataclass
class Outcome:
    """The result of `setup`, to be printed; ``missing`` are lines to add to ``file`` by hand."""

    lines: list[str] = field(default_factory=list)
    missing: str = ""
    file: str = ""
    failure: str = ""  # why the engine does not use the runtime, although its file was written

    def changed(self, path: str, changed: bool) -> None:
        """Add a line to the result that says whether the file ``path`` was written or unchanged."""
        self.lines.append(f"{path}: {'written' if changed else 'unchanged'}")


@dataclass(frozen=True)
class Engine:
    """An engine that `setup` supports; it counts as installed if one of ``programs`` exists."""

    title: str
    programs: tuple[str, ...]
    files: Callable[[], tuple[str, ...]]  # paths of the files that setup may write
    set_up: Callable[[Request, str, Outcome], None]
    is_ours: Callable[[str], bool] = drop_in.has_mark
    rootless: bool = False
    after_undo: str = ""


def set_up(request: Request) -> Outcome:
    """Write a configuration file for an engine, and check that the engine accepts it.

    Raises RuntimeFailure if the engine is not installed or the file cannot be written.
    """
    engine = _engine(request.engine)
    if request.reload and request.engine != "docker":
        raise UsageError("--reload: supported only for docker", f"{engine.title} needs no reload")
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
    """Remove the files that ``set_up`` has written for an engine.

    Raises RuntimeFailure for an unknown engine, for a user other than root if the engine requires
    root, and if a file cannot be removed.
    """
    engine = _engine(name)
    outcome = Outcome()
    for path in engine.files():
        owner = drop_in.owner(path, engine.is_ours)
        if owner is Owner.OURS:
            drop_in.remove(path)
            outcome.lines.append(f"{path}: removed")
        elif owner is Owner.OTHERS:
            outcome.lines.append(f"{path}: unchanged: {owner.value}")
    if not outcome.lines:
        outcome.lines.append(f"{engine.title}: nothing to remove")
    elif engine.after_undo and any(line.endswith(": removed") for line in outcome.lines):
        outcome.lines.append(engine.after_undo)
    return outcome


def _engine(name: str) -> Engine:
    engine = ENGINES.get(name)
    if engine is None:
        raise UsageError(f'setup: unknown engine "{name}"', f"supported: {', '.join(ENGINES)}")
    if os.geteuid() != 0 and not engine.rootless:
        raise RuntimeFailure(
            f"set up {engine.title}: must be run as root", "its configuration is in /etc"
        )
    return engine


def _check_program(program: str, engine: Engine) -> None:
    """Raise RuntimeFailure if another user could replace ``program``: engines run it as root."""
    if not program:
        raise RuntimeFailure(
            f"set up {engine.title}: cannot find the program ociruntime of this installation",
            "install it, or run it by its path",
        )
    if not program.isprintable():
        raise RuntimeFailure(
            f"set up {engine.title}: {program!a}: the path contains unprintable characters",
            "install ociruntime elsewhere",
        )
    check_parent(os.path.realpath(program), "program's directory")


def _refuse_others(path: str, request: Request, lines: str, outcome: Outcome) -> bool:
    """Return whether someone else wrote the file ``path``, so that it must not be changed.

    In that case, adds the lines that the file lacks to ``outcome``.
    """
    if drop_in.owner(path, ENGINES[request.engine].is_ours) is not Owner.OTHERS:
        return False
    outcome.lines.append(f"{path}: unchanged: {Owner.OTHERS.value}")
    use = engine_configs.find_use(request.engine, drop_in.read(path) or "")
    if use is None or use.program != request.program or (request.default and use.how != DEFAULT):
        outcome.file, outcome.missing = path, lines
    else:
        outcome.lines.append(f"{path} already has {use.program} as {use.how}")
    return True


# --- podman -------------------------------------------------------------------------


def podman_file() -> str:
    """Return the path of podman's drop-in file: the system's or, if unprivileged, the user's."""
    directory = PODMAN_DIRECTORY
    if os.geteuid() != 0:
        config_home = os.environ.get("XDG_CONFIG_HOME", "")
        if not config_home.startswith("/"):
            config_home = os.path.expanduser("~/.config")
        directory = f"{config_home}/containers/containers.conf.d"
    return f"{directory}/{PRIORITY}-{NAME}.conf"


def _set_up_podman(request: Request, podman: str, outcome: Outcome) -> None:
    path, lines = podman_file(), engine_configs.podman_lines(request.entry)
    if _refuse_others(path, request, lines, outcome):
        return
    outcome.changed(path, drop_in.put(path, lines, "podman"))
    runtime = () if request.default else ("--runtime", NAME)
    shown = ask(podman, *runtime, "info", "--format", "{{.Host.OCIRuntime.Path}}")
    if shown.status != 0:
        outcome.failure = f"podman info: {shown.last_line}"
    elif (used := shown.out.strip()) != request.program:
        outcome.failure = (
            f"podman still uses {used}: a configuration file that it reads later, or"
            " CONTAINERS_CONF, overrides the runtime"
        )
    elif failure := podman_trial(podman):
        outcome.failure = f"run a test container through podman: {failure}"
    else:
        flag = "" if request.default else f" --runtime {NAME}"
        outcome.lines.append(f"a test container ran: podman{flag} run ...")


# --- Docker -------------------------------------------------------------------------


def _set_up_docker(request: Request, dockerd: str, outcome: Outcome) -> None:
    lines = engine_configs.docker_lines(request.entry)
    if not _refuse_others(DOCKER_FILE, request, lines, outcome):
        outcome.changed(DOCKER_FILE, drop_in.put(DOCKER_FILE, lines, ""))
        checked = ask(dockerd, "--validate", "--config-file", DOCKER_FILE)
        # Before version 23, dockerd has no --validate.
        if checked.status != 0 and "unknown flag" not in checked.error:
            drop_in.remove(DOCKER_FILE)
            outcome.failure = (
                f"dockerd refused {DOCKER_FILE}, which was removed: {checked.last_line}"
            )
    if outcome.missing or outcome.failure:
        return
    docker = find_first(("docker",))
    if not docker or not _answers(docker):
        outcome.lines.append("dockerd is not running: it will read the file when it starts")
        return
    if request.reload:
        _reload_docker()
        _await(lambda: _knows(docker, request))
    if not _knows(docker, request):
        outcome.lines.append(
            "dockerd has not read the file yet: run ociruntime setup docker --reload, or systemctl "
            "reload docker (containers keep running)"
        )
        if request.reload:
            outcome.failure = f"dockerd does not know the runtime {NAME} after the reload"
    elif failure := docker_trial(docker, docker_host()):
        outcome.failure = f"run a test container through Docker: {failure}"
    else:
        flag = "" if request.default else f" --runtime {NAME}"
        outcome.lines.append(f"a test container ran: docker run{flag} ...")


def _answers(docker: str) -> bool:
    return ask(docker, "--host", docker_host(), "version").status == 0


def _knows(docker: str, request: Request) -> bool:
    """Return whether the running dockerd knows ociruntime as a runtime.

    If ``request.default`` is set, it must also be the default runtime.
    """
    shown = ask(docker, "--host", docker_host(), "info", "--format", "{{json .}}")
    try:
        document = json.loads(shown.out)
    except ValueError:
        return False
    runtime = document.get("Runtimes", {}).get(NAME, {})
    default = document.get("DefaultRuntime") == NAME or not request.default
    return runtime.get("path") == request.program and default


def _reload_docker() -> None:
    """Send SIGHUP to the process in DOCKER_PID_FILE, to make dockerd reload its configuration.

    Raises RuntimeFailure if the file does not contain the pid of a running dockerd.
    """
    hint = "reload it yourself: systemctl reload docker"
    text = (drop_in.read(DOCKER_PID_FILE) or "").strip()
    if not (text.isascii() and text.isdigit()):
        raise RuntimeFailure(f'reload dockerd: "{DOCKER_PID_FILE}": contains no pid', hint)
    pid = int(text)
    pidfd = open_process(pid, start_time(pid))
    if pidfd < 0:
        raise RuntimeFailure(f"reload dockerd: process {pid} does not exist", hint)
    try:
        if (drop_in.read(f"/proc/{pid}/comm") or "").strip() != "dockerd":
            raise RuntimeFailure(f"reload dockerd: process {pid} is not dockerd", hint)
        send_signal(pidfd, signal.SIGHUP, pid)
    finally:
        os.close(pidfd)


def _await(ready: Callable[[], bool]) -> None:
    """Wait until ``ready`` returns True, at most RELOAD_TIMEOUT seconds."""
    deadline = time.monotonic() + RELOAD_TIMEOUT
    while not ready() and time.monotonic() < deadline:
        time.sleep(POLL)


# --- containerd ---------------------------------------------------------------------

_RESTART = "restart containerd (pods keep running): systemctl restart containerd"
_RESTART_AFTER_UNDO = (
    "first delete the pods whose RuntimeClass names this runtime: without it, containerd refuses"
    f" exec in them; then {_RESTART}"
)


def _set_up_containerd(request: Request, containerd: str, outcome: Outcome) -> None:
    """Write containerd's drop-in file; remove it again if containerd cannot use it.

    The file is removed if containerd does not read it, or loses a setting because of it.

    In containerd 1.x, an imported file replaces the whole section of a plugin; 2.x merges both
    sections.  Only 2.2 and later import the drop-in directory by default.
    """
    own = [path for path in (CONTAINERD_DROP_IN, CONTAINERD_FILE) if _is_ours(path)]
    before = _dump(containerd)
    plugin = engine_configs.cri_plugin(before)
    if not plugin:
        raise RuntimeFailure(
            "set up containerd: its configuration has no CRI plugin",
            f"check disabled_plugins in {CONTAINERD_FILE}",
        )
    entry = CriEntry(
        request.program,
        request.default,
        plugin,
        int(before.get("version", 2)),
        engine_configs.runc_settings(before, plugin),
    )
    lines = engine_configs.containerd_lines(entry)
    # Try the drop-in file first: an existing configuration may import it.  The main configuration
    # file may be written only if no other program wrote it.
    candidates = [CONTAINERD_DROP_IN]
    if drop_in.owner(CONTAINERD_FILE) is not Owner.OTHERS:
        candidates.append(CONTAINERD_FILE)
    for path in own or candidates:
        if drop_in.owner(path) is Owner.OTHERS:
            continue
        changed = drop_in.put(path, lines, "containerd")
        if reason := _objection(containerd, before, request, changes_default=bool(own)):
            drop_in.remove(path)
            continue
        outcome.changed(path, changed)
        outcome.lines.append("containerd accepts it (containerd config dump)")
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
    """Return the configuration that containerd would start with.

    Raises RuntimeFailure if containerd cannot print it.
    """
    # containerd 1.x starts without a configuration file, but cannot dump its defaults then.
    file_exists = drop_in.owner(CONTAINERD_FILE) is not Owner.NOBODY
    shown = ask(containerd, "config", "dump")
    if shown.status != 0 and not file_exists:
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
    """Return the reason to remove a newly written file again; "" if containerd accepts it.

    ``before``: containerd's configuration without the file.  ``changes_default``: the default
    runtime may differ, because the previous default was ociruntime.
    """
    shown = ask(containerd, "config", "dump")
    if shown.status != 0:
        return f"containerd refuses the file: {shown.last_line}"
    use = engine_configs.find_use("containerd", shown.out)
    if use is None or use.program != request.program:
        return "containerd does not import the file"
    allowed = ("imports", NAME, *(("default_runtime_name",) * (request.default or changes_default)))
    if path := engine_configs.lost_setting(before, tomllib.loads(shown.out), allowed):
        return f"the file would override the setting {path}"
    return ""


# --- CRI-O --------------------------------------------------------------------------


def _set_up_crio(request: Request, crio: str, outcome: Outcome) -> None:
    lines = engine_configs.crio_lines(request.entry)
    if _refuse_others(CRIO_FILE, request, lines, outcome):
        return
    outcome.changed(CRIO_FILE, drop_in.put(CRIO_FILE, lines, "crio"))
    shown = ask(crio, "config")
    use = engine_configs.find_use("crio", shown.out)
    if shown.status != 0:
        outcome.failure = f"crio config: {shown.last_line}"
    elif use is None or use.program != request.program:
        outcome.failure = f"crio does not read {CRIO_FILE} (crio config)"
    else:
        outcome.lines.append("CRI-O accepts the file (crio config)")
        outcome.lines.append("make a running CRI-O read the file: systemctl reload crio")


ENGINES: dict[str, Engine] = {
    "podman": Engine(
        "podman", ("podman",), lambda: (podman_file(),), _set_up_podman, rootless=True
    ),
    "docker": Engine(
        "Docker",
        ("dockerd",),
        lambda: (DOCKER_FILE,),
        _set_up_docker,
        is_ours=engine_configs.is_docker_lines,
        after_undo="a running dockerd keeps the runtime until systemctl reload docker",
    ),
    "containerd": Engine(
        "containerd",
        ("containerd",),
        lambda: (CONTAINERD_DROP_IN, CONTAINERD_FILE),
        _set_up_containerd,
        after_undo=_RESTART_AFTER_UNDO,
    ),
    "crio": Engine(
        "CRI-O",
        ("crio",),
        lambda: (CRIO_FILE,),
        _set_up_crio,
        after_undo="a running CRI-O keeps the runtime until systemctl reload crio",
    ),
}
