"""The options ``--volume``, ``--mount``, ``--tmpfs`` and ``--volumes-from`` of a new container."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from ociruntime.base.errors import UsageError
from ociruntime.commandline import container_values
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments

Mount: TypeAlias = dict[str, Any]

MOUNT_OPTIONS = (
    Option(
        "volume",
        "bind mount a directory, or mount a volume",
        "[SOURCE:]TARGET[:MODE]",
        kind="list",
        short="v",
        details=(
            "If SOURCE contains a slash, it is a directory of the host. Otherwise it is the name "
            "of a volume, which outlives the container; the volume is created if it does not "
            "exist. Without SOURCE, the volume is anonymous. The image's files are copied to an "
            "empty volume. MODE is a list of ro, rw and nocopy (do not copy the image's files), "
            "and, for a directory of the host, a mount propagation: private, rprivate, slave or "
            "rslave (later mounts on the host appear in the container)."
        ),
    ),
    Option(
        "mount",
        "mount with keys: type, source, target, ...",
        "KEY=VALUE,...",
        kind="list",
        details=(
            "Keys: type (bind, volume or tmpfs), source or src, target, dst or destination, "
            "readonly or ro, volume-nocopy, bind-propagation, tmpfs-size, tmpfs-mode. Quote a "
            "pair that contains a comma: "
            "'\"source=/a,b\",target=/c'."
        ),
    ),
    Option(
        "tmpfs",
        "mount a tmpfs",
        "DIR[:OPTION,...]",
        kind="list",
        details=(
            "Files are kept in memory and lost when the container stops. The default options "
            "nosuid, nodev and noexec are overridden by suid, dev and exec. size=64m and mode=1777 "
            "set the size and the mode. Same as --mount type=tmpfs,target=DIR,tmpfs-size=64m."
        ),
    ),
    Option(
        "volumes-from",
        "mount the volumes of another container",
        "CONTAINER[:ro]",
        kind="list",
    ),
)

# Mode of --volume -> members of the mount.  z and Z (relabel for SELinux) have no effect, because
# SELinux does not confine the containers of ocid.
_MODES: dict[str, Mount] = {
    "ro": {"read_only": True},
    "rw": {},
    "z": {},
    "Z": {},
    "nocopy": {"no_copy": True},
}
_PROPAGATIONS = ("private", "rprivate", "slave", "rslave", "shared", "rshared")
_MODES |= {word: {"propagation": word} for word in _PROPAGATIONS}
_EXCLUSIVE = ({"ro", "rw"}, set(_PROPAGATIONS))

_SYNONYMS = {
    "src": "source",
    "dst": "target",
    "destination": "target",
    "ro": "readonly",
}
# Key of --mount -> types of mounts for which it is valid.
_KEYS: dict[str, tuple[str, ...]] = {
    "type": ("bind", "volume"),
    "source": ("bind", "volume"),
    "target": ("bind", "volume"),
    "readonly": ("bind", "volume"),
    "bind-propagation": ("bind",),
    "volume-nocopy": ("volume",),
}
# Key of --mount type=tmpfs -> mount option of tmpfs(5).
_TMPFS_KEYS = {"tmpfs-size": "size", "tmpfs-mode": "mode"}
_FLAGS = {"readonly": "read_only", "volume-nocopy": "no_copy"}
_BOOLEANS = {"true": True, "1": True, "": True, "false": False, "0": False}


def mounts(arguments: Arguments, directory: str) -> dict[str, Any]:
    """Return the members of a create request that ``MOUNT_OPTIONS`` set.

    Resolves relative paths against ``directory``.  Raises UsageError for an invalid value.
    """
    own = [volume(text, directory) for text in arguments.list("volume")]
    own += [mount(text, directory) for text in arguments.list("mount") if not is_tmpfs(text)]
    tmpfs = [container_values.tmpfs(text, "--tmpfs") for text in arguments.list("tmpfs")]
    tmpfs += [tmpfs_mount(text) for text in arguments.list("mount") if is_tmpfs(text)]
    others = [volumes_from(text) for text in arguments.list("volumes-from")]
    members = {"volumes": own, "tmpfs": tmpfs, "volumes_from": others}
    return {member: values for member, values in members.items() if values}


def volume(text: str, directory: str) -> Mount:
    """Parse a value of ``--volume`` like ``/srv/pages:/pages:ro``, ``data:/data`` or ``/data``.

    Returns an entry of a create request's ``volumes``.  Raises UsageError for an invalid value.
    """
    form = "use [SOURCE:]TARGET[:ro]"
    first, colon, rest = text.partition(":")
    source, target, mode = (first, *rest.partition(":")[::2]) if colon else ("", first, "")
    modes = set(mode.split(",")) - {""}
    clash = any(len(modes & words) > 1 for words in _EXCLUSIVE)
    if (colon and not source) or not target or modes - set(_MODES) or clash:
        raise UsageError(f'--volume: invalid volume "{text}"', form)
    made = _origin(source, directory)
    for word in sorted(modes):
        made.update(_MODES[word])
    _check(made, f'--volume: "{text}"')
    return {**made, "target": _target(target)}


def mount(text: str, directory: str) -> Mount:
    """Parse a value of ``--mount`` like ``type=bind,source=/srv,target=/srv,readonly``.

    Returns an entry of a create request's ``volumes``.  Raises UsageError for an invalid value.
    """
    keys: dict[str, str] = {}
    for word in _words(text):
        key, _, value = word.partition("=")
        key = _SYNONYMS.get(key, key)
        if key not in _KEYS:
            raise UsageError(f'--mount: unknown key "{key}"', f"supported: {', '.join(_KEYS)}")
        keys[key] = value
    source = keys.get("source", "")
    kind = "volume" if _is_name(source) else "bind"
    requested_kind = keys.get("type") or kind
    if requested_kind not in _KEYS["type"]:
        hint = "supported: " + ", ".join((*_KEYS["type"], "tmpfs"))
        raise UsageError(f'--mount: unknown type "{requested_kind}"', hint)
    if not keys.get("target") or (requested_kind == "bind" and not source):
        raise UsageError(f'--mount: source or target is missing in "{text}"')
    if requested_kind != kind:
        hint = "use type=bind for a path, type=volume for the name of a volume"
        raise UsageError(f'--mount: wrong type "{requested_kind}" for source "{source}"', hint)
    for key in keys:
        if kind not in _KEYS[key]:
            raise UsageError(f'--mount: {key} does not apply to type "{kind}"')
    made = _origin(source, directory)
    for key, member in _FLAGS.items():
        if key in keys and _boolean(key, keys[key]):
            made[member] = True
    if "bind-propagation" in keys:
        made["propagation"] = keys["bind-propagation"]
    _check(made, "--mount")
    return {**made, "target": _target(keys["target"])}


def is_tmpfs(text: str) -> bool:
    """Return whether ``text``, a value of ``--mount``, contains ``type=tmpfs``."""
    return "type=tmpfs" in text.split(",")


def tmpfs_mount(text: str) -> dict[str, Any]:
    """Parse a value of ``--mount`` like ``type=tmpfs,target=/run,tmpfs-size=64m``.

    Returns an entry of a create request's ``tmpfs``.  Raises UsageError for an invalid value.
    """
    target, options = "", []
    for word in text.split(","):
        key, equals, value = word.partition("=")
        if key in _TMPFS_KEYS and equals:
            options.append(f"{_TMPFS_KEYS[key]}={value}")
        elif key in ("ro", "readonly"):
            options += ["ro"] if not equals or value in ("true", "1") else []
        elif key in ("target", "dst", "destination"):
            target = value
        elif key in _TMPFS_KEYS:
            raise UsageError(f'--mount: key "{key}" requires a value', f"use {key}=VALUE")
        elif key != "type":
            known = ", ".join(("target", "readonly", *_TMPFS_KEYS))
            raise UsageError(f'--mount: unknown key "{key}" for type=tmpfs', f"supported: {known}")
    if not target:
        raise UsageError(f'--mount: target is missing in "{text}"')
    return {**container_values.tmpfs(target, "--mount"), "options": options}


def volumes_from(text: str) -> Mount:
    """Parse a value of ``--volumes-from`` like ``web`` or ``web:ro``.

    Returns an entry of a create request's ``volumes_from``.  Raises UsageError if it is invalid.
    """
    name, _, mode = text.partition(":")
    modes = set(mode.split(",")) - {""}
    if not name or modes - {"ro", "rw", "z", "Z"} or modes >= {"ro", "rw"}:
        raise UsageError(f'--volumes-from: invalid value "{text}"', "use CONTAINER[:ro]")
    return {"container": name, "read_only": "ro" in modes}


def _words(text: str) -> list[str]:
    import csv

    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise UsageError(f'--mount: invalid value "{text}": {error}', "use KEY=VALUE,...") from None


def _boolean(key: str, value: str) -> bool:
    if value not in _BOOLEANS:
        raise UsageError(f'--mount: {key} must be true or false, not "{value}"')
    return _BOOLEANS[value]


def _origin(source: str, directory: str) -> Mount:
    """Return a mount of ``source`` without a target; the caller adds the target and the mode.

    The mount has the form of an entry in a create request's ``volumes``; it is writable.
    ``source`` is a path on the host, the name of a volume, or "" for an anonymous volume.  Resolves
    a relative path against ``directory``.
    """
    made: Mount = {"read_only": False}
    if not source:
        return made
    if _is_name(source):
        return {"name": source, **made}
    return {"source": os.path.normpath(os.path.join(directory, source)), **made}


def _check(made: Mount, where: str) -> None:
    if made.get("no_copy") and "source" in made:
        raise UsageError(f"{where}: nocopy applies only to volumes, not to directories of the host")
    if "propagation" in made and "source" not in made:
        raise UsageError(f"{where}: propagation applies only to a directory of the host")
    if made.get("propagation") in ("shared", "rshared"):
        reason = "the monitor has its own mount namespace"
        message = f"{where}: mounts made in a container cannot propagate to the host: {reason}"
        raise UsageError(message, "use rslave to propagate mounts from the host to the container")


def _target(target: str) -> str:
    if not target.startswith("/"):
        raise UsageError(f'mount target "{target}" must be an absolute path in the container')
    return target


def _is_name(source: str) -> bool:
    return "/" not in source and source not in (".", "..")
