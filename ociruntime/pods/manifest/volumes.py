"""Parse the options for volumes and mounts, and check their values.

    --volume NAME,kind=host,source=DIR[,readOnly=true][,recursive=false]
    --volume NAME,kind=empty[,mode=0755][,uid=N][,gid=N]
    --mount volume=NAME,target=DIR[,readOnly=true]
    --mnt-volume name=NAME,target=DIR,kind=...[,fill=true]

--mnt-volume defines a volume and mounts it at ``target``.  With ``fill=true``, which requires
``kind=host``, an empty volume is filled with the image's files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest, UsageError
from ociruntime.base.paths import clean
from ociruntime.pods.manifest import user_ids
from ociruntime.pods.manifest.app_names import is_name

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_VOLUME_FORM = "NAME,kind=host,source=DIR[,readOnly=true] or NAME,kind=empty[,mode=0755]"
_ADDED_FORM = "name=NAME,kind=host|empty,source=DIR,target=DIR[,readOnly=true]"


def volume(text: str, where: str = "--volume") -> dict[str, Any]:
    """Parse ``text``, the value of --volume, into an entry of a manifest's ``volumes``.

    Raises UsageError for wrong syntax, BadRequest for a bad value.  Messages begin with ``where``.
    """
    made = _fields(f"{where} {text}", f"name={text}", _VOLUME_FORM)
    check_volume(f"{where} {text}", made)
    return made


def mount(text: str, where: str = "--mount") -> dict[str, Any]:
    """Parse ``text``, the value of --mount, into ``{"volume", "target"[, "readOnly"]}``.

    Raises UsageError for wrong syntax, BadRequest for a bad value.  Messages begin with ``where``.
    """
    made = _fields(f"{where} {text}", text, "volume=NAME,target=DIR")
    check_mount(f"{where} {text}", made)
    return made


def added_volume(text: str, where: str = "--mnt-volume") -> dict[str, Any]:
    """Parse ``text``, the value of --mnt-volume, into a volume with its mount point ``target``.

    Raises UsageError for wrong syntax, BadRequest for a bad value.  Messages begin with ``where``.
    """
    made = _fields(f"{where} {text}", text, _ADDED_FORM)
    check_added_volume(f"{where} {text}", made)
    return made


def _fields(where: str, text: str, form: str) -> dict[str, Any]:
    """Parse ``text``, the ``KEY=VALUE,...`` of a volume or mount, into {key: value}.

    Raises UsageError for wrong syntax, with the hint ``form``, and BadRequest for an invalid value.
    """
    fields: dict[str, Any] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise UsageError(f'{where}: "{part}" must be KEY=VALUE', form)
        if key in fields:
            raise UsageError(f'{where}: "{key}" is given twice', form)
        fields[key] = _PARSED[key](f"{where}: {key}", value) if key in _PARSED else value
    return fields


def _boolean(where: str, value: str) -> bool:
    if value not in _BOOLEANS:
        raise BadRequest(where, f'invalid boolean "{value}"', "must be true or false")
    return _BOOLEANS[value]


_PARSED: dict[str, Callable[[str, str], object]] = {
    "readOnly": _boolean,
    "recursive": _boolean,
    "fill": _boolean,
    "uid": user_ids.id_number,
    "gid": user_ids.id_number,
}

# --- checks of values, from options and from JSON ---


def _name(where: str, value: object) -> None:
    if not isinstance(value, str) or not is_name(value):
        hint = "use lower-case letters, digits, and single dashes between them"
        raise BadRequest(where, f'invalid volume name "{value}"', hint)


def target(where: str, value: str) -> None:
    """Check that ``value`` can be a mount point in an app: an absolute path other than ``/``.

    Raises BadRequest for any other path.
    """
    checks.absolute_path(where, value)
    if clean(value) == "/":
        raise BadRequest(where, "must not be /")


def _mode(where: str, value: str) -> None:
    checks.nonempty(where, value)
    if set(value) - set("01234567") or len(value.lstrip("0")) > len("7777"):
        message = f'mode "{value}" must be octal, at most 7777'
        raise BadRequest(where, message, "for example mode=0755")


_KIND = checks.one_of("host", "empty")
# Mount propagation of a volume.  "shared" is missing: the pod's monitor has a mount namespace of
# its own, from which mounts do not propagate to the host.
PROPAGATIONS = ("private", "rprivate", "slave", "rslave")
_VOLUME: dict[str, checks.Members] = {
    "host": {
        "source": checks.absolute_path,
        "recursive": checks.flag,
        "propagation": checks.one_of(*PROPAGATIONS),
    },
    "empty": {"mode": _mode, "uid": user_ids.ID, "gid": user_ids.ID},
}
_REQUIRED = {"host": ("name", "source"), "empty": ("name",)}
check_mount = checks.object_of(
    {"volume": _name, "target": target, "readOnly": checks.flag}, "volume", "target"
)


def check_volume(where: str, value: object) -> None:
    """Check that ``value`` is an entry of a manifest's ``volumes``; if not, raise BadRequest."""
    _check_volume(where, value, {})


def check_added_volume(where: str, value: object) -> None:
    """Check that ``value`` is a volume with a member ``target``, the path of its mount point.

    If not, raises BadRequest.
    """
    is_of_host = isinstance(value, dict) and value.get("kind") == "host"
    _check_volume(where, value, {"target": target}, {"fill": checks.flag} if is_of_host else {})


def _check_volume(
    where: str, value: object, more: checks.Members, optional: checks.Members | None = None
) -> None:
    kind = value.get("kind", "") if isinstance(value, dict) else "host"
    _KIND(checks.path_of(where, "kind"), kind)
    members = {"name": _name, "kind": _KIND, "readOnly": checks.flag, **_VOLUME[kind], **more}
    members |= optional or {}
    checks.object_of(members, *_REQUIRED[kind], *more)(where, value)


def check_owners(volumes: list[dict[str, Any]], count: int) -> None:
    """Check that the owners of ``volumes`` exist in the pod's user namespace.

    ``volumes`` are entries of the manifest, with optional members ``uid`` and ``gid``.  The ids of
    the namespace are 0 to ``count`` - 1.  Raises UsageError for an owner outside this range.
    """
    for volume in volumes:
        for key in ("uid", "gid"):
            if volume.get(key, 0) >= count:
                raise UsageError(
                    f'volume "{volume["name"]}": {key} {volume[key]} is out of range: '
                    f"must be 0 to {count - 1} with --private-users"
                )
