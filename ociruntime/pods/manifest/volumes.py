"""Parse volume, mount and port options to the manifest's form.

--volume NAME,kind=host,source=DIR[,readOnly=true][,recursive=false]
--volume NAME,kind=empty[,mode=0755][,uid=N][,gid=N]
--mount volume=NAME,target=DIR[,readOnly=true]
--port NAME:[IP:]PORT
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import UsageError
from ociruntime.base.paths import clean
from ociruntime.pods.manifest.names import is_name

LAST_ID = (1 << 32) - 2  # the next one, -1, means "leave unchanged" to chown(2)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_VOLUME_FORM = "NAME,kind=host,source=DIR[,readOnly=true] or NAME,kind=empty[,mode=0755]"
_MOUNT_FORM = "volume=NAME,target=DIR"
_PORT_FORM = "NAME:[IP:]PORT, as in 80-tcp:8080 or 80/tcp:127.0.0.1:8080"
_HOST_KEYS = frozenset(("kind", "source", "readOnly", "recursive"))
_EMPTY_KEYS = frozenset(("kind", "mode", "uid", "gid", "readOnly"))
_MOUNT_KEYS = frozenset(("volume", "target", "readOnly"))


def volume(text: str) -> dict[str, Any]:
    """Parse a ``--volume`` to a volume of the manifest.  Raises UsageError."""
    name, _, rest = text.partition(",")
    if not is_name(name):
        raise UsageError(f'--volume {text}: invalid name "{name}"', _VOLUME_FORM)
    fields = _fields("volume", text, rest, _VOLUME_FORM)
    kind = fields.get("kind", "")
    if kind not in ("host", "empty"):
        raise UsageError(f'--volume {text}: unknown kind "{kind}"', "host or empty")
    _only("volume", text, fields, _HOST_KEYS if kind == "host" else _EMPTY_KEYS)
    made: dict[str, Any] = {"name": name, "kind": kind}
    if kind == "host":
        source = fields.get("source", "")
        if not source.startswith("/"):
            raise UsageError(f"--volume {text}: the source must be an absolute path", _VOLUME_FORM)
        made["source"] = clean(source)
        if "recursive" in fields:
            made["recursive"] = _boolean("volume", text, fields["recursive"])
    else:
        if "mode" in fields:
            mode = fields["mode"]
            if not mode or set(mode) - set("01234567") or int(mode, 8) > 0o7777:
                raise UsageError(f'--volume {text}: mode "{mode}" must be octal', "mode=0755")
            made["mode"] = mode
        for key in ("uid", "gid"):
            if key in fields:
                made[key] = _number("volume", text, fields[key])
    if "readOnly" in fields:
        made["readOnly"] = _boolean("volume", text, fields["readOnly"])
    return made


def check_owners(volumes: list[dict[str, Any]], count: int) -> None:
    """Check that uid and gid of each volume are below ``count``.  Raises UsageError."""
    for one in volumes:
        for key in ("uid", "gid"):
            if one.get(key, 0) >= count:
                raise UsageError(
                    f'volume "{one["name"]}": {key} {one[key]} is out of range: '
                    f"must be 0 to {count - 1} with --private-users"
                )


def mount(text: str) -> dict[str, Any]:
    """Parse a ``--mount`` to ``{"volume", "path"[, "readOnly"]}``.  Raises UsageError."""
    fields = _fields("mount", text, text, _MOUNT_FORM)
    _only("mount", text, fields, _MOUNT_KEYS)
    name, target = fields.get("volume", ""), fields.get("target", "")
    if not is_name(name):
        raise UsageError(f'--mount {text}: invalid volume name "{name}"', _MOUNT_FORM)
    if not target.startswith("/"):
        raise UsageError(f"--mount {text}: the target must be an absolute path", _MOUNT_FORM)
    made: dict[str, Any] = {"volume": name, "path": clean(target)}
    if made["path"] == "/":
        raise UsageError(f"--mount {text}: the target must not be /", _MOUNT_FORM)
    if "readOnly" in fields:
        made["readOnly"] = _boolean("mount", text, fields["readOnly"])
    return made


def port(text: str) -> dict[str, Any]:
    """Parse a ``--port`` to ``{"name", "hostPort", "hostIP"}``.  Raises UsageError."""
    name, *rest = text.split(":", 1)
    address, _, number = (rest[0] if rest else "").rpartition(":")
    is_number = number.isascii() and number.isdigit() and len(number) <= 5
    if not name or not is_number or not 0 < int(number) < 65536:
        raise UsageError(f'--port: invalid value "{text}"', _PORT_FORM)
    address = address.removeprefix("[").removesuffix("]")
    if address:
        from ipaddress import ip_address

        try:
            ip_address(address)
        except ValueError:
            raise UsageError(f'--port {text}: invalid IP address "{address}"', _PORT_FORM) from None
    return {"name": name.replace("/", "-"), "hostPort": int(number), "hostIP": address}


def _fields(option: str, text: str, rest: str, form: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise UsageError(f'--{option} {text}: "{part}" must be KEY=VALUE', form)
        if key in fields:
            raise UsageError(f'--{option} {text}: "{key}" given twice', form)
        fields[key] = value
    return fields


def _only(option: str, text: str, fields: dict[str, str], known: frozenset[str]) -> None:
    for key in fields:
        if key not in known:
            hint = ", ".join(sorted(known))
            raise UsageError(f'--{option} {text}: unknown key "{key}"', hint)


def _boolean(option: str, text: str, value: str) -> bool:
    if value not in _BOOLEANS:
        raise UsageError(f'--{option} {text}: invalid boolean "{value}"', "true or false")
    return _BOOLEANS[value]


def _number(option: str, text: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()) or int(value) > LAST_ID:
        raise UsageError(f'--{option} {text}: invalid id "{value}"', f"0 to {LAST_ID}")
    return int(value)
