"""Everything that is decided about a container before anything is done for it."""

from __future__ import annotations

from fcntl import F_GETFD, FD_CLOEXEC, fcntl

from ociruntime.cgroups.group import Cgroup
from ociruntime.cgroups.layout import detect
from ociruntime.errors import ConfigError, UsageError
from ociruntime.host.facts import gather
from ociruntime.plan.compiler import compile_plan
from ociruntime.plan.facts import Request
from ociruntime.spec.bundle import load_bundle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.cgroups.layout import Layout
    from ociruntime.log import Log
    from ociruntime.plan.plan import Plan
    from ociruntime.runtime.options import Context, CreateOptions
    from ociruntime.spec.bundle import Bundle
    from ociruntime.spec.document import Config, Hook


class Preparation:
    """The bundle, where its cgroup goes, and the plan.  Nothing on the host has changed yet."""

    __slots__ = ("bundle", "cgroup", "layout", "plan", "resources")

    def __init__(self, bundle: Bundle, layout: Layout, cgroup: Cgroup, plan: Plan) -> None:
        self.bundle = bundle
        self.layout = layout
        self.cgroup = cgroup
        self.plan = plan
        # linux.resources, empty where config.json has none; one object from create to apply.
        self.resources: Any = (bundle.config.get("linux") or {}).get("resources") or {}

    @property
    def config(self) -> Config:
        """The bundle's configuration."""
        return self.bundle.config

    @property
    def annotations(self) -> dict[str, str]:
        """Those of the configuration."""
        return self.config.get("annotations") or {}

    def hooks(self, kind: str) -> list[Hook]:
        """The hooks of one kind."""
        found: Any = (self.config.get("hooks") or {}).get(kind) or []
        return list(found)


def prepare(context: Context, options: CreateOptions) -> Preparation:
    """Read the bundle and compile its plan.

    Raises ConfigError, UsageError, HostError.
    """
    try:
        bundle = load_bundle(options.bundle, options.config)
    except ConfigError as error:
        if context.log.debugging:
            _list_problems(context.log, options, error)
        raise
    for warning in bundle.warnings:
        context.log.warning(warning)
    _check_descriptors(options.preserve_fds)
    linux = bundle.config.get("linux") or {}
    layout = detect()
    cgroup = Cgroup.plan(
        layout, linux.get("cgroupsPath"), options.id, systemd=context.cgroup_manager == "systemd"
    )
    facts = gather(layout.mode, cgroup.hierarchies(), _wants_labels(bundle.config))
    plan = compile_plan(bundle.config, facts, _request(context, options, bundle))
    for warning in plan.warnings:
        context.log.warning(warning)
    return Preparation(bundle, layout, cgroup, plan)


def _list_problems(log: Log, options: CreateOptions, first: ConfigError) -> None:
    """What else is wrong with the shape of the config, before the one error of the call."""
    from ociruntime.spec.explain import explain_file

    for problem in explain_file(options.config or f"{options.bundle}/config.json"):
        if problem != str(first):
            log.debug(problem)


def _request(context: Context, options: CreateOptions, bundle: Bundle) -> Request:
    process = bundle.config.get("process")
    console = bool(process and process.get("terminal"))
    request = Request(
        id=options.id,
        bundle=bundle.path,
        rootfs=bundle.rootfs,
        console=console,
        no_pivot=options.no_pivot,
        new_keyring=not options.no_new_keyring,
        preserve_fds=options.preserve_fds,
    )
    profile = (bundle.config.get("linux") or {}).get("seccomp")
    if profile:
        from ociruntime.host.seccomp import compile_filter

        request.seccomp_filter, request.seccomp_flags = compile_filter(profile, context.log.debug)
    return request


def _wants_labels(config: Config) -> bool:
    process = config.get("process")
    labelled = process and (process.get("apparmorProfile") or process.get("selinuxLabel"))
    return bool(labelled or (config.get("linux") or {}).get("mountLabel"))


def _check_descriptors(count: int) -> None:
    """The descriptors to be passed on must be the caller's.

    An inherited descriptor never has the close-on-exec flag; whatever the interpreter and we
    have opened always has.
    """
    for fd in range(3, 3 + count):
        try:
            inherited = not fcntl(fd, F_GETFD) & FD_CLOEXEC
        except OSError:
            inherited = False
        if not inherited:
            raise UsageError(
                f"--preserve-fds {count}: descriptor {fd} is not open",
                f"descriptors 3 to {2 + count} are to be passed on",
            )


def check_terminal(config: Config, console_socket: str, detach: bool) -> None:
    """A terminal needs somebody at its other end.  Raises ConfigError, UsageError."""
    process = config.get("process")
    terminal = bool(process and process.get("terminal"))
    if terminal and detach and not console_socket:
        raise ConfigError(
            "process.terminal",
            "cannot allocate tty if ociruntime will detach without setting console socket",
            "set process.terminal to false or pass --console-socket",
        )
    if terminal and not detach:
        from ociruntime.host.terminal import find_terminal

        find_terminal()  # refuses where there is none, before anything is made
    if console_socket and not (terminal and detach):
        raise UsageError(
            "cannot use console socket if ociruntime will not detach or allocate tty",
            "--console-socket goes with process.terminal true and a detached container",
        )
