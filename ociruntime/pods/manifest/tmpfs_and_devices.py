"""Check the tmpfs mounts and devices of an app; convert tmpfs mounts for ``config.json``."""

from __future__ import annotations

from typing import Any

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest
from ociruntime.base.paths import clean
from ociruntime.commandline.sizes import parse_size
from ociruntime.pods.manifest.volumes import target

# tmpfs option -> its group.  The options of a group exclude each other; the last one wins.
_FLAGS = {
    **dict.fromkeys(("ro", "rw"), "write"),
    **dict.fromkeys(("nosuid", "suid"), "suid"),
    **dict.fromkeys(("nodev", "dev"), "dev"),
    **dict.fromkeys(("noexec", "exec"), "exec"),
    **dict.fromkeys(("sync", "async"), "sync"),
    **dict.fromkeys(("noatime", "atime", "relatime", "strictatime"), "atime"),
    **dict.fromkeys(("nodiratime", "diratime"), "diratime"),
}
_DEFAULTS = ("nosuid", "nodev", "noexec")
_KEYS = ("size", "mode", "uid", "gid", "nr_inodes", "nr_blocks")
_MODE_LENGTH = 5
_DEVICE: checks.Members = {
    "source": checks.absolute_path,
    "target": target,
    "access": checks.nonempty,
}


def check_tmpfs(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    """Check ``value``, a tmpfs mount ``{"target", "options": [...]}`` in a request.

    Raises BadRequest, whose message begins with ``where``, if it is invalid.
    """
    members: checks.Members = {"target": target, "options": checks.list_of(_option)}
    checks.object_of(members, "target")(where, value)


def _option(where: str, word: Any) -> None:  # noqa: ANN401
    checks.nonempty(where, word)
    key, equals, number = word.partition("=")
    if key not in (_KEYS if equals else _FLAGS):
        known = ", ".join((*_FLAGS, *(f"{each}=" for each in _KEYS)))
        raise BadRequest(where, f'unknown tmpfs option "{word}"', f"supported: {known}")
    if equals and not _is_valid(key, number):
        hint = "for example size=64m, mode=1777"
        raise BadRequest(where, f'invalid value of tmpfs option "{word}"', hint)


def _is_valid(key: str, number: str) -> bool:
    if key == "mode":
        return 0 < len(number) <= _MODE_LENGTH and not set(number) - set("01234567")
    if key == "size" and number.removesuffix("%").isdigit() and number.endswith("%"):
        return number.isascii() and len(number) < 5
    if key in ("uid", "gid"):
        return number.isascii() and number.isdigit() and len(number) < 11
    try:
        return parse_size(number) > 0
    except ValueError:
        return False


def tmpfs_mount(path: str, options: list[str]) -> dict[str, Any]:
    """Return an entry of ``mounts`` in ``config.json`` that mounts a tmpfs at ``path``.

    The mount is nosuid, nodev and noexec, unless ``options`` override these flags.
    """
    chosen: dict[str, str] = {_FLAGS[word]: word for word in _DEFAULTS}
    for word in options:
        key, equals, number = word.partition("=")
        if equals:
            # The kernel accepts the units k, m and g; docker's users also write 64MiB.
            is_bytes = key == "size" and not number.endswith("%")
            chosen[key] = f"{key}={parse_size(number) if is_bytes else number}"
        else:
            chosen[_FLAGS[key]] = word
    return {
        "destination": clean(path),
        "type": "tmpfs",
        "source": "tmpfs",
        "options": [*chosen.values(), "rprivate"],
    }


def check_device(where: str, value: Any) -> None:  # noqa: ANN401
    """Check ``value``, a device ``{"source", "target", "access"}`` in a request.

    Raises BadRequest, whose message begins with ``where``, if it is invalid.
    """
    checks.object_of(_DEVICE, *_DEVICE)(where, value)
    if set(value["access"]) - set("rwm"):
        hint = "use the letters r (read), w (write) and m (mknod)"
        raise BadRequest(where, f'invalid access "{value["access"]}"', hint)
