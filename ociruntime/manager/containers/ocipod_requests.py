"""Translate a container's spec to the requests and arguments that ocipod is called with."""

from __future__ import annotations

import os
from collections.abc import Callable

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.errors import ImageError
from ociruntime.images.model.reference import parse
from ociruntime.manager.containers.container_spec import (
    ALL,
    CHANGEABLE,
    HOST,
    IPC_MODES,
    PULL_POLICIES,
    UNCONFINED,
    WITHOUT_NAMES,
    Spec,
    capability,
    comma_separated,
    networks_of,
    setting,
)
from ociruntime.manager.containers.pod_status import APP
from ociruntime.pods.bundle.default_confinement import DEFAULT_CAPABILITIES
from ociruntime.pods.manifest.build_manifest import limits_of
from ociruntime.pods.manifest.isolators import Isolator
from ociruntime.pods.manifest.request import AppRequest, SandboxRequest
from ociruntime.pods.manifest.seccomp_isolators import EMPTY
from ociruntime.pods.net import hosts_file

ANNOTATION = "ocid/container"
_SHORT = 12  # digits of the short id, which is the default host name
# Member of the spec -> field of AppRequest that gets the unchanged value.
_UNCHANGED = {
    "working_dir": "working_dir",
    "memory": "memory",
    "pids_limit": "pids",
    "stop_signal": "stop_signal",
    "read_only": "readonly_rootfs",
    "cpu_shares": "cpu_shares",
    "oom_score_adj": "oom_score_adj",
    "group_add": "supplementary_gids",
    "no_new_privileges": "no_new_privileges",
    "ulimits": "ulimit",
    "devices": "device",
    "privileged": "privileged",
    "memory_swap": "memory_swap",
    "memory_reservation": "memory_reservation",
    "cpu_quota": "cpu_quota",
    "cpu_period": "cpu_period",
    "cpuset_cpus": "cpuset_cpus",
    "cpuset_mems": "cpuset_mems",
    "tmpfs": "tmpfs",
}
# Member of the spec -> field of SandboxRequest that gets the unchanged value.
_UNCHANGED_FOR_POD = {
    "dns_search": "dns_search",
    "dns_options": "dns_opt",
    "shm_size": "shm_size",
    "domainname": "domainname",
    "sysctls": "sysctl",
}
_NO_FILTER = {"mode": "remove", "set": [EMPTY]}


def fetch_args(spec: Spec) -> list[str]:
    """Return the arguments for ``ocipod`` to fetch the spec's image and print its id as JSON."""
    if "rootfs" in spec:
        # Always read the directory: it may have changed since it was imported as an image.
        return ["fetch", "--format=json", "--pull-policy=update", f"dir:{spec['rootfs']}"]
    policy = PULL_POLICIES[setting(spec, "pull_policy")]
    platform = platform_args(spec)
    return ["fetch", "--format=json", f"--pull-policy={policy}", *platform, spec["image"]]


def platform_args(spec: Spec) -> list[str]:
    """Return ``["--platform=..."]`` for ``ocipod fetch``; [] if the spec names no platform."""
    return [f"--platform={spec['platform']}"] if spec.get("platform") else []


def stored_args(spec: Spec) -> list[str]:
    """Return the arguments for ``ocipod`` to find the spec's image in the store, without download.

    Returns [] if the store's copy may be outdated: with the pull policy ``always``, or for a local
    file or directory.
    """
    policy = setting(spec, "pull_policy")
    if "rootfs" in spec or policy == "always" or (policy != "never" and _is_local(spec["image"])):
        return []
    return ["fetch", "--format=json", "--pull-policy=never", *platform_args(spec), spec["image"]]


def _is_local(image: str) -> bool:
    try:
        return parse(image).is_local
    except ImageError:
        return False  # invalid: ocipod reports the error


def global_args(
    spec: Spec, insecure: tuple[str, ...] = (), allowed: tuple[str, ...] = ()
) -> list[str]:
    """Return ``["--insecure-options=..."]`` for the ``disabled_checks``; [] if there are none."""
    checks = sorted(disabled_checks(spec, insecure, allowed))
    return [f"--insecure-options={','.join(checks)}"] if checks else []


def disabled_checks(
    spec: Spec, insecure: tuple[str, ...] = (), allowed: tuple[str, ...] = ()
) -> set[str]:
    """Return the names of the security checks that are disabled for a container.

    ``insecure`` lists the checks that are disabled for all containers, ``allowed`` the checks that
    a client may disable.  A check that the spec disables stays enabled unless it is in ``allowed``:
    the container may come from a daemon that allowed more than this one.
    """
    return {*insecure, *(set(spec.get("insecure") or ()) & set(allowed))}


def pod_request(
    spec: Spec,
    container_id: str,
    image_id: str,
    volume: Callable[[str], str],
    *,
    fill: bool = False,
) -> SandboxRequest:
    """Return the request with which ``ocipod`` creates a container's pod and its app.

    ``volume(name)`` returns the directory of a volume.  With ``fill``, ``ocipod`` copies the
    image's files to empty volumes.
    """
    host_name = _host_name(spec, container_id)
    app = _app(spec, image_id, host_name)
    app.mnt_volume = _mounts(spec, volume, fill)
    pod = _sandbox(spec, container_id, host_name)
    pod.apps.append(app)
    return pod


def _mounts(spec: Spec, volume: Callable[[str], str], fill: bool) -> list[Spec]:
    mounts = []
    for number, volume_mount in enumerate(spec.get("volumes") or ()):
        mount: Spec = {"name": f"volume-{number}", "kind": "host", "target": volume_mount["target"]}
        mount["source"] = volume_mount.get("source") or volume(volume_mount["name"])
        if volume_mount.get("read_only"):
            mount["readOnly"] = True
        if "propagation" in volume_mount:
            mount["propagation"] = volume_mount["propagation"]
        if fill and "name" in volume_mount and not volume_mount.get("no_copy"):
            mount["fill"] = True
        mounts.append(mount)
    return mounts


def _host_name(spec: Spec, container_id: str) -> str:
    """Return a container's hostname.

    Default: its short id, or the host's name if it shares the host's network or UTS namespace.
    """
    is_shared = HOST in (setting(spec, "network"), spec.get("uts"))
    default = os.uname().nodename if is_shared else container_id[:_SHORT]
    return str(spec.get("hostname") or default)


def _sandbox(spec: Spec, container_id: str, host_name: str) -> SandboxRequest:
    ports = [
        {
            "name": f"{port['port']}-{port.get('protocol') or 'tcp'}",
            "hostPort": port["host_port"],
            "hostIP": port.get("host_ip") or "",
        }
        for port in spec.get("ports") or ()
    ]
    return SandboxRequest(
        prepare=True,
        keep=True,
        on_exit="halt",
        annotation={ANNOTATION: container_id},
        net=comma_separated(setting(spec, "network")),
        net_name=names_on_networks(spec, container_id),
        hostname="" if spec.get("uts") == HOST else host_name,
        pid="parent" if spec.get("pid") == HOST else "private",
        uts="parent" if spec.get("uts") == HOST else "private",
        dns=[word for text in spec.get("dns") or () for word in comma_separated(text)],
        hosts_entry=[f"{one['address']}={one['name']}" for one in spec.get("hosts") or ()],
        ipc=IPC_MODES[spec["ipc"]] if "ipc" in spec else "auto",
        port=ports,
        **{field: spec[member] for member, field in _UNCHANGED_FOR_POD.items() if member in spec},
    )


def names_on_networks(spec: Spec, container_id: str) -> list[str]:
    """Return a container's DNS names on its networks: its name, short id and aliases.

    Omits a container name that is not a valid host name.  Returns [] if the container's only
    network is ``default``, ``none`` or ``host``, because these do not resolve names.
    """
    if networks_of(spec) in WITHOUT_NAMES:
        return []
    name = spec.get("name") or ""
    own = [name] if hosts_file.is_pod_name(name) else []
    return list(dict.fromkeys([*own, container_id[:_SHORT], *spec.get("network_aliases", ())]))


def _app(spec: Spec, image_id: str, host_name: str) -> AppRequest:
    user, _, group = str(spec.get("user") or "").partition(":")
    program, arguments = _program(spec)
    app = AppRequest(
        image=image_id,
        name=APP,
        exec=program,
        arguments=arguments,
        user=user or None,
        group=spec.get("group") or group,
        docker_environment=True,
        environment={"HOSTNAME": host_name, **(spec.get("env") or {})},
        caps_retain=_capabilities(spec),
        seccomp=_NO_FILTER if spec.get("seccomp") == UNCONFINED else None,
        cpu=round(spec["cpus"] * 1000) if "cpus" in spec else None,
        **{field: spec[member] for member, field in _UNCHANGED.items() if member in spec},
    )
    if spec.get("tty"):
        app.stdin = app.stdout = app.stderr = "tty"
    elif spec.get("stdin"):
        app.stdin = "stream"
    return app


def _capabilities(spec: Spec) -> list[str] | None:
    added, dropped = spec.get("cap_add") or [], spec.get("cap_drop") or []
    if not added and not dropped:
        return None
    retained = set() if ALL in dropped else set(DEFAULT_CAPABILITIES)
    if ALL in added or (spec.get("privileged") and ALL not in dropped):
        retained = set(CAPABILITIES)
    retained |= {capability(name) for name in added if name != ALL}
    retained -= {capability(name) for name in dropped if name != ALL}
    return sorted(retained)


def _program(spec: Spec) -> tuple[str | None, list[str] | None]:
    """Return (program, arguments) to run; None means that the image's setting applies."""
    entry, command = spec.get("entrypoint"), spec.get("command")
    if entry is None and "rootfs" in spec:
        entry, command = command, None
    if entry:
        return entry[0], [*entry[1:], *(command or ())]
    if entry is not None and command:  # an empty entrypoint overrides the image's entrypoint
        return command[0], command[1:]
    return None, command or None


def app_limits(spec: Spec) -> list[Isolator]:
    """Return the limits in a valid spec as isolators, for the pod's manifest."""
    limits = (name for name in CHANGEABLE if name in spec and name in _UNCHANGED)
    request = AppRequest(image="", **{_UNCHANGED[name]: spec[name] for name in limits})
    request.cpu = round(spec["cpus"] * 1000) if "cpus" in spec else None
    return limits_of(request)
