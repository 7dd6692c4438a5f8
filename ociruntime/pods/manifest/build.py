"""From a command line and its images to the pod's manifest; no file is touched.

The manifest is JSON in the form of ``schemas/pod-manifest.schema.json``: every image is an id, and
every mount has its volume.
"""

from __future__ import annotations

from ociruntime.base.errors import PodError, UsageError
from ociruntime.base.paths import clean
from ociruntime.pods.manifest import image_settings, isolators, ports, seccomp, volumes
from ociruntime.pods.manifest.environment import merged
from ociruntime.pods.manifest.names import is_name, name_of_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from ociruntime.pods.manifest.app_arguments import AppWords, PodWords, Values

    class ImageFacts(Protocol):
        """What is asked of an image: ``config`` is its whole OCI configuration."""

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
    """A manifest being made, with what only the preparation needs to know.

    ``implicit``: (volume, app, path in the app's image) of empty volumes that begin with a copy of
    the image's files; ``warnings``: lines for the user.
    """

    __slots__ = ("implicit", "manifest", "warnings")

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.manifest = manifest
        self.implicit: list[tuple[str, str, str]] = []
        self.warnings: list[str] = []


def empty_manifest(values: Values) -> dict[str, Any]:
    """A pod without apps, with the annotations and labels that ``values`` say."""
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
    words: PodWords,
    images: list[ImageFacts],
    variables: Mapping[str, str],
    inherited: Mapping[str, str],
) -> Draft:
    """The manifest of ``words``, whose apps have ``images``.

    ``variables`` are those of --set-env and --set-env-file, ``inherited`` the caller's own with
    --inherit-env.  Raises UsageError.
    """
    if not words.apps:
        raise UsageError("no image is given", "ocipod run IMAGE, or --pod-manifest FILE")
    draft = Draft(empty_manifest(words.options))
    for text in words.options.list("volume"):
        made = volumes.volume(text)
        if any(volume["name"] == made["name"] for volume in draft.manifest["volumes"]):
            raise UsageError(f'--volume: the name "{made["name"]}" is given twice')
        draft.manifest["volumes"].append(made)
    common = [volumes.mount(text) for text in words.options.list("mount")]
    for app, image in zip(words.apps, images, strict=True):
        add_app(draft, app, image, common, variables, inherited)
    wishes = [volumes.port(text) for text in words.options.list("port")]
    ports.add_ports(draft.manifest, wishes)
    if words.options.flag("interactive"):
        make_interactive(draft.manifest)
    return draft


def add_app(
    draft: Draft,
    words: AppWords,
    image: ImageFacts,
    common: list[dict[str, Any]],
    variables: Mapping[str, str],
    inherited: Mapping[str, str],
) -> dict[str, Any]:
    """Adds one app, with the volumes that its image wants; returns its entry.  Raises UsageError.

    ``common``: mounts that every app gets.
    """
    entry = new_entry(draft.manifest, words, image)
    settings: dict[str, Any] = image.config.get("config") or {}
    entry["app"] = app = _app(entry["name"], words.options, settings)
    app["exec"] = _program(words, settings, entry["name"])
    own = _environment(words.options)
    environment = merged(inherited, image_settings.environment_of(settings), variables, own)
    app["environment"] = [{"name": key, "value": value} for key, value in environment.items()]
    mounts = [volumes.mount(text) for text in words.options.list("mount")]
    add_mounts(draft, entry, [*common, *mounts])
    return entry


def new_entry(manifest: dict[str, Any], words: AppWords, image: ImageFacts) -> dict[str, Any]:
    """An app's entry, added to the manifest, that does not say yet what runs.

    Raises UsageError if the name cannot be had.
    """
    name = app_name(words, image)
    if any(app["name"] == name for app in manifest["apps"]):
        raise UsageError(f'the name "{name}" is given to two apps', "--name gives another")
    entry: dict[str, Any] = {
        "name": name,
        "image": {
            "id": image.id,
            "name": image.name or words.image,
            "labels": image_settings.labels_of(image.config),
        },
        "app": {},
        "readOnlyRootFS": words.options.flag("readonly-rootfs"),
        "mounts": [],
        "annotations": _annotations(words.options),
    }
    manifest["apps"].append(entry)
    return entry


def app_name(words: AppWords, image: ImageFacts) -> str:
    """What --name says, else what the image is called.  Raises UsageError."""
    if words.options.has("name"):
        name = words.options.text("name")
        if not is_name(name):
            hint = "small letters, digits, and dashes between them"
            raise UsageError(f'--name: "{name}" is no name of an app', hint)
        return name
    by_id = words.image.startswith("sha256:") or image.id == f"sha256:{words.image}"
    name = name_of_image(image.name if by_id else words.image) or name_of_image(image.name)
    if not name:
        raise UsageError(f'no name can be made of the image "{words.image}"', "--name gives one")
    return name


def _app(name: str, options: Values, settings: dict[str, Any]) -> dict[str, Any]:
    """The part of an entry that says how the program runs, but which one."""
    user, _, group = (settings.get("User") or "").partition(":")
    wanted = isolators.from_options(options)
    seccomp.check(wanted)
    directory = options.text("working-dir") or settings.get("WorkingDir") or "/"
    if not directory.startswith("/"):
        raise UsageError(f'app "{name}": --working-dir {directory} is no absolute path')
    app: dict[str, Any] = {
        "user": options.text("user") or user or "0",
        # A user of the command line has the group that the image's passwd file says.
        "group": options.text("group") or ("" if options.has("user") else group),
        "supplementaryGIDs": _numbers(options, "supplementary-gids"),
        "workingDirectory": clean(directory),
        "mountPoints": image_settings.mount_points_of(settings),
        "ports": image_settings.ports_of(settings),
        "isolators": wanted,
        "stopSignal": _stop_signal(options) or settings.get("StopSignal") or "SIGTERM",
        "userAnnotations": _pairs(options, "user-annotation"),
        "userLabels": _pairs(options, "user-label"),
    }
    app["streams"] = {
        stream: options.text(stream) or usual for stream, usual in STREAM_DEFAULTS.items()
    }
    return app


def _program(words: AppWords, settings: dict[str, Any], name: str) -> list[str]:
    """What is executed: arguments replace the image's Cmd, --exec its Entrypoint as well."""
    if words.options.text("exec"):
        return [words.options.text("exec"), *(words.arguments or [])]
    tail = settings.get("Cmd") or [] if words.arguments is None else words.arguments
    program = [*(settings.get("Entrypoint") or []), *tail]
    if words.options.has("exec") or not program or not program[0]:
        hint = "--exec names one"
        raise UsageError(f'app "{name}": neither the image nor the options name a program', hint)
    return program


def add_mounts(draft: Draft, entry: dict[str, Any], wanted: list[dict[str, Any]]) -> None:
    """The app's mounts: of two ``wanted`` at one place the later one counts.

    A mount point of its image without any gets an empty volume, beginning with what the image has
    there.  Raises UsageError.
    """
    name = entry["name"]
    known = {volume["name"]: volume for volume in draft.manifest["volumes"]}
    mounts: dict[str, dict[str, Any]] = {}
    for mount in wanted:
        if mount["volume"] not in known:
            hint = f"--volume {mount['volume']},kind=..."
            raise UsageError(f'--mount: there is no volume "{mount["volume"]}"', hint)
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
                    f'app "{name}": no volume for {point["path"]}, which begins with the '
                    "image's files and ends with the pod"
                )
        mounts[point["path"]] = {"volume": volume, "path": point["path"]}
    entry["mounts"] = list(mounts.values())


def make_interactive(manifest: dict[str, Any]) -> None:
    """Gives the only app the caller's terminal.  Raises UsageError."""
    if len(manifest["apps"]) != 1:
        number = len(manifest["apps"])
        raise UsageError(f"--interactive is for a pod of one app, and this one has {number}")
    manifest["apps"][0]["app"]["streams"] = STREAM_DEFAULTS | {"stdin": "interactive"}


def is_mutable(manifest: dict[str, Any]) -> bool:
    """Whether apps may be added to the pod."""
    return {"name": MUTABLE, "value": "true"} in manifest.get("annotations", ())


def app_entry(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """The entry of the app ``name``.  Raises PodError."""
    for entry in manifest["apps"]:
        if entry["name"] == name:
            found: dict[str, Any] = entry
            return found
    names = ", ".join(entry["name"] for entry in manifest["apps"]) or "none"
    raise PodError(f'the pod has no app "{name}"', f"its apps: {names}")


def _environment(options: Values) -> dict[str, str]:
    return _pairs(options, "environment")


def _pairs(options: Values, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in options.list(option):
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f'--{option}: "{text}" is not NAME=VALUE')
        pairs[name] = value
    return pairs


def _annotations(options: Values) -> list[dict[str, str]]:
    pairs = _pairs(options, "annotation")
    return [{"name": name, "value": value} for name, value in pairs.items()]


def _stop_signal(options: Values) -> str:
    """As the image format has it: ``SIGTERM``, ``SIGRTMIN+3``; "" if the option was not given."""
    from ociruntime.pods.manifest.signal_names import signal_name

    return signal_name(options.text("stop-signal")) if options.has("stop-signal") else ""


def _numbers(options: Values, option: str) -> list[int]:
    numbers = []
    for word in options.text(option).split(",") if options.has(option) else ():
        if not (word.isascii() and word.isdigit()) or int(word) > volumes.LAST_ID:
            raise UsageError(f'--{option}: "{word}" is no number of a group')
        numbers.append(int(word))
    return numbers
