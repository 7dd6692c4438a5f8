"""Prepare for `create`: read the bundle, choose the cgroup and compile the plan.

Nothing in this file changes the host.
"""

from __future__ import annotations

import posix
from typing import Any

from ociruntime.base.errors import ConfigError
from ociruntime.base.log import Log
from ociruntime.base.seccomp_actions import SECCOMP_FILTER_FLAG_NEW_LISTENER
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.control_files import in_user_namespace
from ociruntime.runtime.cgroups.hierarchies import Layout, detect
from ociruntime.runtime.host.gather_facts import gather
from ociruntime.runtime.host.state_directory import CREATING
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.passed_descriptors import take_descriptors
from ociruntime.runtime.plan.compiler import compile_plan
from ociruntime.runtime.plan.facts import Request
from ociruntime.runtime.plan.intel_rdt import Placement
from ociruntime.runtime.plan.plan import Plan
from ociruntime.runtime.spec.bundle import Bundle, load_bundle
from ociruntime.runtime.spec.config_types import Config, Hook, Seccomp


class Preparation:
    """The input of `create`: the bundle, the cgroup to create, and the executor's plan."""

    __slots__ = ("agent", "bundle", "cgroup", "layout", "notified", "plan", "rdt", "resources")

    def __init__(
        self,
        bundle: Bundle,
        layout: Layout,
        cgroup: Cgroup,
        plan: Plan,
        agent: tuple[str, str | None] | None,
    ) -> None:
        self.bundle = bundle
        self.layout = layout
        self.cgroup = cgroup
        self.plan = plan
        self.agent = agent  # the seccomp agent: listenerPath and listenerMetadata
        self.notified = False  # true: the container gets a socket for sd_notify(3)
        self.rdt: Placement | None = None  # resctrl groups, if linux.intelRdt is set
        # linux.resources, {} if missing.  Cgroup.create() and apply() must get the same object.
        self.resources: Any = (bundle.config.get("linux") or {}).get("resources") or {}

    @property
    def config(self) -> Config:
        """The bundle's config.json, checked."""
        return self.bundle.config

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of config.json, or {} if it has none."""
        return self.config.get("annotations") or {}

    @property
    def network_devices(self) -> bool:
        """True if linux.netDevices lists devices to move into the container."""
        return bool((self.config.get("linux") or {}).get("netDevices"))

    @property
    def own_pid_namespace(self) -> bool:
        """True if the container gets a new pid namespace.

        All processes in such a namespace exit with the init.
        """
        namespaces = (self.config.get("linux") or {}).get("namespaces") or []
        return any(entry["type"] == "pid" and not entry.get("path") for entry in namespaces)

    def hooks(self, kind: str) -> list[Hook]:
        """Return the hooks of one kind, such as ``prestart``, or [] if there are none."""
        hooks: Any = (self.config.get("hooks") or {}).get(kind) or []
        return list(hooks)


def prepare(context: Context, options: CreateOptions, filters: str = "") -> Preparation:
    """Read and check the bundle, choose its cgroup, and compile the executor's plan.

    ``filters`` is the directory of cached seccomp filters; "" disables the cache.  Raises
    ConfigError if the bundle is invalid or needs a feature that the host lacks, UsageError for an
    invalid LISTEN_FDS, and HostError.
    """
    try:
        bundle = load_bundle(options.bundle, options.config, context.mark)
    except ConfigError as error:
        if context.log.debugging:
            _list_problems(context.log, options, error)
        raise
    for warning in bundle.warnings:
        context.log.warning(warning)
    prepared = decide(context, options, bundle, filters)
    for warning in prepared.plan.warnings:
        context.log.warning(warning)
    return prepared


def decide(
    context: Context, options: CreateOptions, bundle: Bundle, filters: str = ""
) -> Preparation:
    """Choose the cgroup for a loaded bundle, and compile the executor's plan.

    Raises the errors of ``prepare``.
    """
    context.mark("choose the cgroup")
    _check_joined(bundle.config)
    if bundle.config.get("annotations"):
        from ociruntime.runtime.spec.annotations import hook_outputs

        hook_outputs(bundle.config["annotations"])  # raises for invalid values
    layout = detect()
    linux = bundle.config.get("linux") or {}
    cgroup = plan_cgroup(context, layout, bundle.config, options.id)
    context.mark("gather facts about the host")
    labels = _wants_labels(bundle.config)
    unified = layout.hierarchies[-1].mountpoint if layout.mode == "v2" else ""
    facts = gather(layout.mode, cgroup.visible(), labels, in_user_namespace(), unified)
    context.mark("compile the seccomp filter" if "seccomp" in linux else "read the options")
    request = _request(context, options, bundle, filters)
    config = native = _with_handler(bundle)
    if context.alone and b"NOTIFY_SOCKET" in posix.environ:
        from ociruntime.runtime.lifecycle.container_notify_socket import with_socket

        config = with_socket(config, f"{context.root}/{CREATING}{options.id}")
    context.mark("compile the plan")
    plan = compile_plan(config, facts, request)
    agent = None
    if request.seccomp_flags & SECCOMP_FILTER_FLAG_NEW_LISTENER:
        profile = linux["seccomp"]
        agent = profile["listenerPath"], profile.get("listenerMetadata")
    prepared = Preparation(bundle, layout, cgroup, plan, agent)
    prepared.notified = config is not native
    if "intelRdt" in linux:  # an empty object requests a group for the container
        from ociruntime.runtime.lifecycle.intel_rdt_groups import prepare_rdt

        prepared.rdt = prepare_rdt(linux["intelRdt"], options.id)
    return prepared


def _with_handler(bundle: Bundle) -> Config:
    """Return the bundle's config, rewritten by a handler if an annotation selects one.

    A handler runs a program that is not a Linux executable (docs/handlers.md).  Raises ConfigError
    if there is no such handler, if it refuses the config, or if its result is invalid.
    """
    annotations = bundle.config.get("annotations")
    if not annotations:
        return bundle.config
    from ociruntime.runtime.spec.annotations import HANDLER, WASM_VARIANT

    if HANDLER not in annotations and WASM_VARIANT not in annotations:
        return bundle.config
    from ociruntime.runtime.handlers.choose_handler import handled

    return handled(bundle.config, bundle.rootfs)


def plan_cgroup(context: Context, layout: Layout, config: Config, container_id: str) -> Cgroup:
    """Return the cgroup to create for a container, according to ``--cgroup-manager``.

    Raises HostError, and ConfigError if cgroupsPath or an annotation is invalid, or if ``config``
    sets limits that this cgroup cannot enforce.
    """
    linux = config.get("linux") or {}
    path = linux.get("cgroupsPath")
    if context.cgroup_manager == "systemd":
        from ociruntime.runtime.cgroups.systemd_group import SystemdCgroup

        annotations = config.get("annotations") or {}
        return SystemdCgroup.plan_unit(
            layout, path, container_id, annotations, context.user_manager
        )
    if context.cgroup_manager == "disabled":
        from ociruntime.runtime.cgroups.delegation import NoCgroup

        return NoCgroup.plan_none(layout, config)
    cgroup = Cgroup.plan(layout, path, container_id)
    if context.rootless:
        from ociruntime.runtime.cgroups.delegation import keep_within_reach

        keep_within_reach(cgroup, layout, bool(path), linux.get("resources"))
    return cgroup


def _check_joined(config: Config) -> None:
    """Raise ConfigError if a setting would change a namespace that the container joins."""
    namespaces = (config.get("linux") or {}).get("namespaces") or ()
    if any(namespace.get("path") for namespace in namespaces):
        from ociruntime.runtime.host.namespaces import check_settings

        check_settings(config)


def _list_problems(log: Log, options: CreateOptions, first: ConfigError) -> None:
    """Log each error in config.json at level DEBUG, except ``first``, which the command reports."""
    from ociruntime.base.json_text import parse
    from ociruntime.runtime.spec import schema
    from ociruntime.runtime.spec.check_schema import problems
    from ociruntime.runtime.spec.load_config import read

    file = options.config or f"{options.bundle}/config.json"
    try:
        document = parse(read(file), file)
    except ConfigError:
        return  # the command reports an unreadable file
    for problem in problems(document, "object", schema.CONFIG):
        if str(problem) != str(first):
            log.debug(str(problem))


def _kernel_mounts(rootfs: str) -> tuple[str, ...]:
    from ociruntime.base.mountinfo import kernel_mounts

    return kernel_mounts(rootfs)


def _request(context: Context, options: CreateOptions, bundle: Bundle, filters: str) -> Request:
    process = bundle.config.get("process")
    console = bool(process and process.get("terminal"))
    request = Request(
        id=options.id,
        bundle=bundle.path,
        rootfs=bundle.rootfs,
        console=console,
        no_pivot=options.no_pivot,
        kernel_mounts=_kernel_mounts(bundle.rootfs) if options.no_pivot else (),
        new_keyring=not options.no_new_keyring,
        preserve_fds=options.preserve_fds,
    )
    take_descriptors(request, context.alone)
    profile = (bundle.config.get("linux") or {}).get("seccomp")
    if profile and bundle.config.get("annotations"):
        _check_known_calls(profile, bundle.config["annotations"])
    if profile and filters and not context.log.debugging:
        from ociruntime.runtime.host.seccomp_cache import cached_filter

        request.seccomp_filter, request.seccomp_flags, request.seccomp_calls = cached_filter(
            profile, filters
        )
    elif profile:
        from ociruntime.runtime.host.seccomp import compile_filter
        from ociruntime.runtime.host.seccomp_verdicts import allowed_calls

        request.seccomp_filter, request.seccomp_flags = compile_filter(
            profile,
            lambda name: context.log.debug(
                f"seccomp: skipped the system call {name}, which libseccomp does not know"
            ),
        )
        request.seccomp_calls = allowed_calls(request.seccomp_filter)
    return request


def _check_known_calls(profile: Seccomp, annotations: dict[str, str]) -> None:
    """Raise ConfigError if ``profile`` has unknown system calls and an annotation forbids them.

    A system call is unknown if libseccomp does not know its name.  The annotation is
    KNOWN_CALLS_ONLY.
    """
    from ociruntime.runtime.spec.annotations import KNOWN_CALLS_ONLY

    if annotations.get(KNOWN_CALLS_ONLY, "0") == "0":
        return
    from ociruntime.runtime.host.seccomp import compile_filter

    unknown: list[str] = []
    compile_filter(profile, unknown.append)
    if unknown:
        listed = ", ".join(f'"{name}"' for name in unknown)
        raise ConfigError(
            "linux.seccomp.syscalls",
            f"unknown system call {listed}",
            f"remove it, or the annotation {KNOWN_CALLS_ONLY}",
        )


def _wants_labels(config: Config) -> bool:
    process = config.get("process")
    labelled = process and (process.get("apparmorProfile") or process.get("selinuxLabel"))
    return bool(labelled or (config.get("linux") or {}).get("mountLabel"))
