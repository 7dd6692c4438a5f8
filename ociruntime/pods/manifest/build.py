"""Build a pod's manifest from a command line and images; pure.

The manifest has the form of ``schemas/pod-manifest.schema.json``.  Images are given by id, and
every mount refers to a volume.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ociruntime.base.errors import PodError, UsageError
from ociruntime.base.paths import clean
from ociruntime.commandline.parser import Arguments
from ociruntime.pods.manifest import isolators, ports, seccomp, volumes
from ociruntime.pods.manifest.app_arguments import AppArguments, PodArguments
from ociruntime.pods.manifest.environment import merged
from ociruntime.pods.manifest.names import is_name, name_of_image, volume_of_path
from ociruntime.pods.manifest.ports import port_of_name


class ImageFacts(Protocol):
    """An image in the store; ``config`` is its complete OCI image configuration."""

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
    """A manifest under construction, and what ``prepare`` needs besides.

    ``implicit`` lists (volume, app, path in the app's image) of empty volumes that are initialised
    with the image's files; ``warnings`` are lines for the user.
    """

    __slots__ = ("implicit", "manifest", "warnings")

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.manifest = manifest
        self.implicit: list[tuple[str, str, str]] = []
        self.warnings: list[str] = []


def empty_manifest(values: Arguments) -> dict[str, Any]:
    """Return a manifest without apps, with the annotations and labels of ``values``."""
    return {
        "acVersion": VERSION,
        "acKind": "PodManifest",
        "apps": [],
        "volumes": [],
        "ports": [],
        "isolators": isolators.limits_from(values),
        "annotations": _annotations(values),
        "userAnnotations": _pairs(values, "user-annotation"),
        "userLabels": _pairs(values, "user-label"),
    }


def build(
    words: PodArguments,
    images: list[ImageFacts],
    variables: Mapping[str, str],
    inherited: Mapping[str, str],
) -> Draft:
    """Build the manifest for the command line ``words``; ``images`` are those of ``words.apps``.

    ``variables`` are from --set-env and --set-env-file, ``inherited`` is the caller's environment
    with --inherit-env.  Raises UsageError.
    """
    if not words.apps:
        raise UsageError("requires at least one image", "ocipod run IMAGE, or --pod-manifest FILE")
    draft = Draft(empty_manifest(words.options))
    for text in words.options.list("volume"):
        made = volumes.volume(text)
        if any(volume["name"] == made["name"] for volume in draft.manifest["volumes"]):
            raise UsageError(f'--volume: name "{made["name"]}" given twice')
        draft.manifest["volumes"].append(made)
    common = [volumes.mount(text) for text in words.options.list("mount")]
    for app, image in zip(words.apps, images, strict=True):
        add_app(draft, app, image, common, variables, inherited)
    ports.add_ports(draft.manifest, [volumes.port(text) for text in words.options.list("port")])
    if words.options.flag("interactive"):
        make_interactive(draft.manifest)
    return draft


def add_app(
    draft: Draft,
    words: AppArguments,
    image: ImageFacts,
    common: list[dict[str, Any]],
    variables: Mapping[str, str],
    inherited: Mapping[str, str],
) -> dict[str, Any]:
    """Add an app to the draft, with the volumes that its image declares; return its entry.

    ``common`` are the mounts of all apps (--mount before the first image).  Raises UsageError.
    """
    entry = new_entry(draft.manifest, words, image)
    settings: dict[str, Any] = image.config.get("config") or {}
    entry["app"] = app = _app(entry["name"], words.options, settings)
    app["exec"] = _program(words, settings, entry["name"])
    own = _environment(words.options)
    environment = merged(inherited, environment_of(settings), variables, own)
    app["environment"] = [{"name": key, "value": value} for key, value in environment.items()]
    mounts = [volumes.mount(text) for text in words.options.list("mount")]
    add_mounts(draft, entry, [*common, *mounts])
    return entry


def new_entry(manifest: dict[str, Any], words: AppArguments, image: ImageFacts) -> dict[str, Any]:
    """Add an app's entry to the manifest, its member ``app`` still empty, and return it.

    Raises UsageError for an invalid or duplicate name.
    """
    name = app_name(words, image)
    if any(app["name"] == name for app in manifest["apps"]):
        raise UsageError(f'two apps have the name "{name}"', "choose another with --name")
    entry: dict[str, Any] = {
        "name": name,
        "image": {
            "id": image.id,
            "name": image.name or words.image,
            "labels": labels_of(image.config),
        },
        "app": {},
        "readOnlyRootFS": words.options.flag("readonly-rootfs"),
        "mounts": [],
        "annotations": _annotations(words.options),
    }
    manifest["apps"].append(entry)
    return entry


def app_name(words: AppArguments, image: ImageFacts) -> str:
    """Return the app's name, from --name or the image's name.  Raises UsageError."""
    if words.options.has("name"):
        name = words.options.text("name")
        if not is_name(name):
            hint = "lower-case letters, digits, and single dashes between them"
            raise UsageError(f'--name: invalid app name "{name}"', hint)
        return name
    by_id = words.image.startswith("sha256:") or image.id == f"sha256:{words.image}"
    name = name_of_image(image.name if by_id else words.image) or name_of_image(image.name)
    if not name:
        raise UsageError(
            f'image "{words.image}": cannot derive an app name', "choose one with --name"
        )
    return name


def _app(name: str, options: Arguments, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the member ``app`` of the entry ``name``, without ``exec`` and ``environment``.

    ``settings`` is the ``config`` object of the image configuration.
    """
    user, _, group = (settings.get("User") or "").partition(":")
    limits = isolators.from_options(options)
    seccomp.check(limits)
    directory = options.text("working-dir") or settings.get("WorkingDir") or "/"
    if not directory.startswith("/"):
        hint = "set it with --working-dir"
        raise UsageError(
            f'app "{name}": working directory "{directory}": must be an absolute path', hint
        )
    app: dict[str, Any] = {
        "user": options.text("user") or user or "0",
        # With --user alone, the group comes from the image's passwd file.
        "group": options.text("group") or ("" if options.has("user") else group),
        "supplementaryGIDs": _numbers(options, "supplementary-gids"),
        "workingDirectory": clean(directory),
        "mountPoints": mount_points_of(settings),
        "ports": ports_of(settings),
        "isolators": limits,
        "stopSignal": _stop_signal(options) or settings.get("StopSignal") or "SIGTERM",
        "userAnnotations": _pairs(options, "user-annotation"),
        "userLabels": _pairs(options, "user-label"),
    }
    app["streams"] = {
        stream: options.text(stream) or default for stream, default in STREAM_DEFAULTS.items()
    }
    return app


def _program(words: AppArguments, settings: dict[str, Any], name: str) -> list[str]:
    """Return the app's argv: arguments replace the image's Cmd, --exec also its Entrypoint."""
    if words.options.text("exec"):
        return [words.options.text("exec"), *(words.arguments or [])]
    tail = settings.get("Cmd") or [] if words.arguments is None else words.arguments
    program = [*(settings.get("Entrypoint") or []), *tail]
    if words.options.has("exec") or not program or not program[0]:
        hint = "choose a program with --exec"
        raise UsageError(f'app "{name}": neither the image nor the options set a command', hint)
    return program


def add_mounts(draft: Draft, entry: dict[str, Any], wanted: list[dict[str, Any]]) -> None:
    """Add ``wanted`` mounts to the app; the last one with the same target wins.

    A volume that the image declares and that is not mounted becomes an empty volume, initialised
    with the image's files, unless the pod has a volume of that name.  Raises UsageError.
    """
    name = entry["name"]
    known = {volume["name"]: volume for volume in draft.manifest["volumes"]}
    mounts: dict[str, dict[str, Any]] = {}
    for mount in wanted:
        if mount["volume"] not in known:
            hint = f"define it with --volume {mount['volume']},kind=..."
            raise UsageError(f'--mount: unknown volume "{mount["volume"]}"', hint)
        mounts[mount["path"]] = mount
    for point in entry["app"].get("mountPoints", ()):
        if point["path"] in mounts:
            continue
        volume = point["name"]
        if volume not in known:
            volume = f"{name}-{point['name']}"
            if volume not in known:
                known[volume] = {"name": volume, "kind": "empty"}
                draft.manifest["volumes"].append(known[volume])
                draft.implicit.append((volume, name, point["path"]))
                draft.warnings.append(
                    f'app "{name}": no volume for {point["path"]}: using an empty one, which has '
                    "a copy of the image's files and is removed with the pod"
                )
        mounts[point["path"]] = {"volume": volume, "path": point["path"]}
    entry["mounts"] = list(mounts.values())


def make_interactive(manifest: dict[str, Any]) -> None:
    """Connect the pod's only app to the caller's stdin.  Raises UsageError for several apps."""
    if len(manifest["apps"]) != 1:
        number = len(manifest["apps"])
        raise UsageError(f"--interactive requires a pod with one app; this one has {number}")
    manifest["apps"][0]["app"]["streams"] = STREAM_DEFAULTS | {"stdin": "interactive"}


def is_mutable(manifest: dict[str, Any]) -> bool:
    """Return whether apps can be added to the pod."""
    return {"name": MUTABLE, "value": "true"} in manifest.get("annotations", ())


def app_entry(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the entry of the app ``name``.  Raises PodError."""
    for entry in manifest["apps"]:
        if entry["name"] == name:
            result: dict[str, Any] = entry
            return result
    names = ", ".join(entry["name"] for entry in manifest["apps"]) or "none"
    raise PodError(f'the pod has no app "{name}"', f"its apps: {names}")


def _environment(options: Arguments) -> dict[str, str]:
    return _pairs(options, "environment")


def _pairs(options: Arguments, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in options.list(option):
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f'--{option}: invalid value "{text}": must be NAME=VALUE')
        pairs[name] = value
    return pairs


def _annotations(options: Arguments) -> list[dict[str, str]]:
    pairs = _pairs(options, "annotation")
    return [{"name": name, "value": value} for name, value in pairs.items()]


def _stop_signal(options: Arguments) -> str:
    """Return the signal in the image format (``SIGTERM``, ``SIGRTMIN+3``), or "" if not given."""
    from ociruntime.commandline.signal_names import signal_name

    return signal_name(options.text("stop-signal")) if options.has("stop-signal") else ""


def _numbers(options: Arguments, option: str) -> list[int]:
    numbers = []
    for word in options.text(option).split(",") if options.has(option) else ():
        if not (word.isascii() and word.isdigit()) or int(word) > volumes.LAST_ID:
            raise UsageError(f'--{option}: invalid group id "{word}"', f"0 to {volumes.LAST_ID}")
        numbers.append(int(word))
    return numbers


def ports_of(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the image's exposed TCP and UDP ports; others cannot be forwarded and are dropped."""
    ports_by_name: dict[str, dict[str, Any]] = {}
    for text in settings.get("ExposedPorts") or {}:
        try:
            port = port_of_name(text)
        except ValueError:
            continue
        ports_by_name[port["name"]] = port
    return list(ports_by_name.values())


def mount_points_of(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the image's volumes as mount points with unique names."""
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
    """Return the image's variables; entries that are not NAME=VALUE are ignored."""
    variables = {}
    for line in settings.get("Env") or ():
        name, equals, value = line.partition("=")
        if name and equals:
            variables[name] = value
    return variables


def labels_of(config: dict[str, Any]) -> list[dict[str, str]]:
    """Return the image's platform (os, arch, ...) as labels of the manifest."""
    kinds = (("os", "os"), ("architecture", "arch"), ("variant", "variant"))
    return [{"name": name, "value": config[key]} for key, name in kinds if config.get(key)]
