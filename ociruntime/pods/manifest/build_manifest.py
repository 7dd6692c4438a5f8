"""Build a pod's manifest from a request and images.

The manifest has the form of ``schemas/pod-manifest.schema.json``.  It refers to images by id,
and each mount refers to a volume of the pod by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ociruntime.base.errors import PodError, UsageError
from ociruntime.base.paths import clean
from ociruntime.pods.manifest import isolators, seccomp_isolators
from ociruntime.pods.manifest.app_names import name_of_image, volume_of_path
from ociruntime.pods.manifest.environment import merged
from ociruntime.pods.manifest.ports import add_ports, port_of_name
from ociruntime.pods.manifest.request import AppRequest, BaseRequest, PodRequest


class ImageFacts(Protocol):
    """An image's id, name and OCI configuration (``config``)."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def config(self) -> dict[str, Any]: ...


VERSION = "0.8.11"
MUTABLE = "ociruntime/mutable"
STREAM_DEFAULTS = {"stdin": "null", "stdout": "log", "stderr": "log"}


class Draft:
    """A pod's manifest under construction, with the volumes to fill and warnings for the user.

    ``implicit`` lists the volumes to fill with files of an image if they are empty, as tuples (name
    of the volume, name of the app, path in the app's image).
    """

    __slots__ = ("implicit", "manifest", "warnings")

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.manifest = manifest
        self.implicit: list[tuple[str, str, str]] = []
        self.warnings: list[str] = []


def empty_manifest(request: PodRequest) -> dict[str, Any]:
    """Return a pod's manifest with the limits, volumes and metadata in ``request``, but no apps.

    Raises UsageError if two volumes have the same name.
    """
    manifest: dict[str, Any] = {
        "acVersion": VERSION,
        "acKind": "PodManifest",
        "apps": [],
        "volumes": [],
        "ports": [],
        "isolators": [*_limits(request), *_sysctls(request)],
        "annotations": _annotations(request),
        "userAnnotations": request.user_annotation,
        "userLabels": request.user_label,
    }
    for volume in request.volume:
        if any(other["name"] == volume["name"] for other in manifest["volumes"]):
            where = request.where("volume")
            raise UsageError(f'{where}: volume "{volume["name"]}" is defined twice')
        manifest["volumes"].append(with_clean_source(volume))
    return manifest


def build(
    request: PodRequest,
    images: list[ImageFacts],
    variables: Mapping[str, str],
    inherited: Mapping[str, str],
) -> Draft:
    """Build a pod's manifest from ``request``.

    ``images`` contains the image of each app in ``request``, in the same order.  ``variables`` are
    the environment variables of --set-env and --set-env-file; ``inherited`` is the caller's
    environment if --inherit-env is given, else {}.  Raises UsageError if the request has no apps or
    contradictory settings, PodError for an unknown set of system calls in --seccomp.
    """
    if not request.apps:
        raise UsageError(
            "create a pod: at least one image is required",
            "name an image, as in ocipod run IMAGE, or use --pod-manifest FILE",
        )
    draft = Draft(empty_manifest(request))
    for app, image in zip(request.apps, images, strict=True):
        add_app(draft, app, image, _mounts(request), variables, inherited)
    add_ports(draft.manifest, request.port, request.where("port"))
    if request.interactive:
        make_interactive(draft.manifest)
    return draft


def add_app(
    draft: Draft,
    request: AppRequest,
    image: ImageFacts,
    common: list[dict[str, Any]],
    variables: Mapping[str, str],
    inherited: Mapping[str, str],
) -> dict[str, Any]:
    """Add an app, and the volumes that its image declares, to ``draft``.

    ``common`` lists the mounts of all apps (--mount before the first image).  ``variables`` are
    the environment variables of --set-env and --set-env-file; ``inherited`` is the caller's
    environment if --inherit-env is given, else {}.  Returns the app's entry in the manifest.
    Raises UsageError for a duplicate name or contradictory settings, PodError for an unknown set of
    system calls in --seccomp.
    """
    entry = new_entry(draft.manifest, request, image)
    settings: dict[str, Any] = image.config.get("config") or {}
    entry["app"] = app = _app(entry["name"], request, settings)
    app["exec"] = _program(request, settings, entry["name"])
    environment = merged(inherited, environment_of(settings), variables, request.environment)
    app["environment"] = [{"name": key, "value": value} for key, value in environment.items()]
    add_mounts(draft, entry, [*common, *_mounts(request)], request.where("mount"))
    return entry


def new_entry(manifest: dict[str, Any], request: AppRequest, image: ImageFacts) -> dict[str, Any]:
    """Add an entry for an app to ``manifest``, and return the entry.

    The entry's member ``app`` is still ``{}``.  Raises UsageError if the pod already has an app of
    this name, or if no name can be derived.
    """
    name = app_name(request, image)
    if any(app["name"] == name for app in manifest["apps"]):
        raise UsageError(
            f'add app "{name}": the pod already has an app of this name',
            "choose another name with --name",
        )
    entry: dict[str, Any] = {
        "name": name,
        "image": {
            "id": image.id,
            "name": image.name or request.image,
            "labels": labels_of(image.config),
        },
        "app": {},
        "readOnlyRootFS": request.readonly_rootfs,
        "mounts": [],
        "annotations": _annotations(request),
        **({"tmpfs": _tmpfs(request)} if request.tmpfs else {}),
        **({"devices": _devices(request)} if request.device else {}),
    }
    manifest["apps"].append(entry)
    return entry


def app_name(request: AppRequest, image: ImageFacts) -> str:
    """Return the app's name: the value of --name, or else a name derived from the image.

    Raises UsageError if no name can be derived.
    """
    if request.name is not None:
        return request.name
    reference = request.image
    by_id = reference.startswith("sha256:") or image.id == f"sha256:{reference}"
    name = name_of_image(image.name if by_id else reference) or name_of_image(image.name)
    if not name:
        raise UsageError(
            f'add an app of image "{reference}": cannot derive an app name',
            "choose one with --name",
        )
    return name


def _app(name: str, request: AppRequest, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the member ``app`` of an app's manifest entry, without ``exec`` and ``environment``.

    ``name`` is the app's name, for error messages; ``settings`` is the member ``config`` of the
    image configuration.  Raises UsageError for contradictory settings or a relative working
    directory, PodError for an unknown set of system calls.
    """
    user, _, group = (settings.get("User") or "").partition(":")
    limits = _isolators(request)
    seccomp_isolators.check(limits)
    directory = request.working_dir or settings.get("WorkingDir") or "/"
    if not directory.startswith("/"):
        hint = "set it with --working-dir"
        raise UsageError(
            f'app "{name}": working directory "{directory}" must be an absolute path', hint
        )
    return {
        "user": request.user or user or "0",
        # With --user alone, the group comes from the image's passwd file.
        "group": request.group or ("" if request.user is not None else group),
        "supplementaryGIDs": request.supplementary_gids,
        "workingDirectory": clean(directory),
        "mountPoints": mount_points_of(settings),
        "ports": ports_of(settings),
        "isolators": limits,
        "stopSignal": _stop_signal(request) or settings.get("StopSignal") or "SIGTERM",
        "userAnnotations": request.user_annotation,
        "userLabels": request.user_label,
        "streams": {stream: getattr(request, stream) for stream in STREAM_DEFAULTS},
    }


def _mounts(request: BaseRequest) -> list[dict[str, Any]]:
    """Convert the mounts in ``request`` to the manifest's form, ``{"volume", "path", ...}``."""
    return [
        {"path" if key == "target" else key: value for key, value in mount.items()}
        | {"path": clean(mount["target"])}
        for mount in request.mount
    ]


def _tmpfs(request: AppRequest) -> list[dict[str, Any]]:
    return [
        {"path": clean(tmpfs["target"]), "options": tmpfs.get("options", [])}
        for tmpfs in request.tmpfs
    ]


def _devices(request: AppRequest) -> list[dict[str, Any]]:
    return [
        {
            "source": clean(device["source"]),
            "path": clean(device["target"]),
            "access": device["access"],
        }
        for device in request.device
    ]


def _limits(request: BaseRequest) -> list[isolators.Isolator]:
    values = {
        isolators.MEMORY: request.memory is not None and {"limit": str(request.memory)},
        isolators.CPU: request.cpu is not None and {"limit": f"{request.cpu}m"},
        isolators.CPU_SHARES: request.cpu_shares,
        isolators.PIDS: request.pids is not None and {"limit": str(request.pids)},
    }
    return [{"name": name, "value": value} for name, value in values.items() if value]


def _sysctls(request: PodRequest) -> list[isolators.Isolator]:
    return [{"name": isolators.SYSCTL, "value": request.sysctl}] if request.sysctl else []


def _further_limits(request: AppRequest) -> list[isolators.Isolator]:
    """Return isolators for limits that the appc specification lacks, such as swap and CPU sets.

    Raises UsageError for limits that contradict each other.
    """
    swap, memory = request.memory_swap, request.memory
    if swap is not None and memory is None:
        raise UsageError(
            f"{request.where('memory_swap')}: requires a memory limit",
            f"also set {request.where('memory')}",
        )
    if swap is not None and memory is not None and 0 <= swap < memory:
        raise UsageError(
            f"{request.where('memory_swap')}: {swap} is below the memory limit of {memory}",
            f"{request.where('memory_swap')} limits memory and swap together",
        )
    time = {"quota": request.cpu_quota, "period": request.cpu_period}
    time = {name: number for name, number in time.items() if number is not None}
    if time and request.cpu is not None:
        name = "cpu_quota" if "quota" in time else "cpu_period"
        raise UsageError(f"{request.where('cpu')} and {request.where(name)} are mutually exclusive")
    reservation = request.memory_reservation
    values = {
        isolators.MEMORY_SWAP: swap is not None and {"limit": str(swap)},
        isolators.MEMORY_RESERVATION: reservation is not None and {"limit": str(reservation)},
        isolators.CPU_QUOTA: time,
        isolators.CPUSET_CPUS: request.cpuset_cpus,
        isolators.CPUSET_MEMS: request.cpuset_mems,
    }
    return [{"name": name, "value": value} for name, value in values.items() if value]


def limits_of(request: AppRequest) -> list[isolators.Isolator]:
    """Return isolators for the limits of an app that can be changed while it runs.

    Raises UsageError for limits that contradict each other.
    """
    return [*_limits(request), *_further_limits(request)]


def _isolators(request: AppRequest) -> list[isolators.Isolator]:
    """Return isolators for all limits and privileges of an app.

    Raises UsageError for settings that contradict each other.
    """
    made = limits_of(request)
    if request.oom_score_adj is not None:
        made.append({"name": isolators.OOM_SCORE_ADJ, "value": request.oom_score_adj})
    retain, remove = request.caps_retain, request.caps_remove
    if retain is not None and remove is not None:
        options = f"{request.where('caps_retain')} and {request.where('caps_remove')}"
        raise UsageError(f"{options} are mutually exclusive")
    for name, capabilities in ((isolators.RETAIN_CAPS, retain), (isolators.REMOVE_CAPS, remove)):
        if capabilities is not None:
            made.append({"name": name, "value": {"set": capabilities}})
    if request.seccomp:
        value = dict(request.seccomp)
        retains = value.pop("mode") == "retain"
        name = isolators.RETAIN_SECCOMP if retains else isolators.REMOVE_SECCOMP
        made.append({"name": name, "value": value})
    if request.no_new_privileges:
        made.append({"name": isolators.NO_NEW_PRIVILEGES, "value": True})
    if request.privileged:
        made.append({"name": isolators.PRIVILEGED, "value": True})
    if request.ulimit:
        made.append({"name": isolators.ULIMITS, "value": {"set": request.ulimit}})
    return made


def _program(request: AppRequest, settings: dict[str, Any], name: str) -> list[str]:
    """Return the app's argv, by default the image's Entrypoint and Cmd.

    Arguments in ``request`` replace the Cmd.  With --exec, the argv is the program of --exec and
    the arguments in ``request``.  ``settings`` is the member ``config`` of the image configuration.
    Raises UsageError if neither the image nor the request sets a command.
    """
    if request.exec:
        return [request.exec, *(request.arguments or [])]
    tail = settings.get("Cmd") or [] if request.arguments is None else request.arguments
    program = [*(settings.get("Entrypoint") or []), *tail]
    if request.exec is not None or not program or not program[0]:
        hint = "choose a program with --exec"
        raise UsageError(f'app "{name}": neither the image nor the options set a command', hint)
    return program


def with_clean_source(volume: dict[str, Any]) -> dict[str, Any]:
    """Return ``volume`` with its host path ``source`` normalised: without ``.``, ``..`` and ``//``.

    A volume without ``source`` is returned unchanged.
    """
    return volume | {"source": clean(volume["source"])} if "source" in volume else volume


def add_mounts(
    draft: Draft, entry: dict[str, Any], requested: list[dict[str, Any]], where: str = "--mount"
) -> None:
    """Set the mounts in an app's ``entry``: the ``requested`` mounts and the image's volumes.

    If several mounts have the same path, the last mount is used.  A volume that the image declares
    is mounted at its path unless a mount or a tmpfs is requested there.  If the pod already has a
    volume of the same name, that volume is mounted.  Otherwise a new volume is added to ``draft``,
    to be filled with the image's files.  Raises UsageError, whose message begins with ``where``,
    for an unknown volume or a path that is also the target of a tmpfs.
    """
    name = entry["name"]
    known = {volume["name"]: volume for volume in draft.manifest["volumes"]}
    mounts: dict[str, dict[str, Any]] = {}
    for mount in requested:
        if mount["volume"] not in known:
            hint = f"define it with --volume {mount['volume']},kind=..."
            raise UsageError(f'{where}: unknown volume "{mount["volume"]}"', hint)
        mounts[mount["path"]] = mount
    covered = {tmpfs["path"] for tmpfs in entry.get("tmpfs", ())}
    for path in covered & set(mounts):
        raise UsageError(
            f'{where}: "{path}": a tmpfs and a volume have the same target',
            "mount only one of them",
        )
    for point in entry["app"].get("mountPoints", ()):
        if point["path"] in mounts or point["path"] in covered:
            continue
        volume = point["name"]
        if volume not in known:
            volume = f"{name}-{point['name']}"
            if volume not in known:
                known[volume] = {"name": volume, "kind": "empty"}
                draft.manifest["volumes"].append(known[volume])
                draft.implicit.append((volume, name, point["path"]))
                draft.warnings.append(
                    f'app "{name}": no volume given for {point["path"]}: using a new volume with '
                    "a copy of the image's files, which is removed with the pod"
                )
        mounts[point["path"]] = {"volume": volume, "path": point["path"]}
    entry["mounts"] = list(mounts.values())


def make_interactive(manifest: dict[str, Any]) -> None:
    """Connect the only app in ``manifest`` to the caller's standard input.

    Raises UsageError unless the pod has exactly one app.
    """
    if len(manifest["apps"]) != 1:
        number = len(manifest["apps"])
        raise UsageError(f"--interactive requires a pod with one app; this one has {number}")
    manifest["apps"][0]["app"]["streams"] = STREAM_DEFAULTS | {"stdin": "interactive"}


def is_mutable(manifest: dict[str, Any]) -> bool:
    """Return whether the pod with this manifest is a sandbox, whose apps can be changed."""
    return {"name": MUTABLE, "value": "true"} in manifest.get("annotations", ())


def app_entry(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the entry of the app ``name`` in ``manifest``.

    Raises PodError if the pod has no such app.
    """
    for entry in manifest["apps"]:
        if entry["name"] == name:
            result: dict[str, Any] = entry
            return result
    names = ", ".join(entry["name"] for entry in manifest["apps"]) or "none"
    raise PodError(f'find app "{name}": the pod has no app of this name', f"its apps: {names}")


def _annotations(request: BaseRequest) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in request.annotation.items()]


def _stop_signal(request: AppRequest) -> str:
    """Return the name of the requested stop signal, such as SIGRTMIN+3, or "" if not set."""
    from ociruntime.commandline.signal_names import signal_name

    return signal_name(request.stop_signal) if request.stop_signal else ""


def ports_of(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the TCP and UDP ports that an image exposes, as entries of a manifest.

    ``settings`` is the member ``config`` of the image configuration.  Ports of other protocols are
    left out, because they cannot be forwarded.
    """
    ports_by_name: dict[str, dict[str, Any]] = {}
    for text in settings.get("ExposedPorts") or {}:
        try:
            port = port_of_name(text)
        except ValueError:
            continue
        ports_by_name[port["name"]] = port
    return list(ports_by_name.values())


def volume_paths(settings: dict[str, Any]) -> list[str]:
    """Return the paths of the volumes that an image declares, without duplicates.

    ``settings`` is the member ``config`` of the image configuration.
    """
    return [point["path"] for point in mount_points_of(settings)]


def mount_points_of(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the volumes that an image declares as ``{"name", "path", "readOnly"}``.

    ``settings`` is the member ``config`` of the image configuration.  The names are derived from
    the paths, and unique.
    """
    points: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for text in settings.get("Volumes") or {}:
        path = clean(text)
        if path == "/" or path in points:
            continue
        plain = name = volume_of_path(path)
        number = 1
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names.add(name)
        points[path] = {"name": name, "path": path, "readOnly": False}
    return list(points.values())


def environment_of(settings: dict[str, Any]) -> dict[str, str]:
    """Return an image's environment variables as {name: value}; skip malformed entries.

    ``settings`` is the member ``config`` of the image configuration.
    """
    variables = {}
    for line in settings.get("Env") or ():
        name, equals, value = line.partition("=")
        if name and equals:
            variables[name] = value
    return variables


def labels_of(config: dict[str, Any]) -> list[dict[str, str]]:
    """Return an image's platform (os, arch, variant) as a list of ``{"name", "value"}`` labels."""
    kinds = (("os", "os"), ("architecture", "arch"), ("variant", "variant"))
    return [{"name": name, "value": config[key]} for key, name in kinds if config.get(key)]
