"""Parsers for the option values of ``run`` and ``create`` that have a syntax of their own; pure."""

from __future__ import annotations

import os.path

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HIGHEST_PORT = 65535
_PROTOCOLS = ("tcp", "udp")
_POLICIES = ("no", "on-failure", "always", "unless-stopped")
# Image transports whose reference is a path (images/model/reference.py); the first may end in :TAG.
_TAGGED = ("oci", "oci-archive", "docker-archive")
_PLAIN = ("dir", "tar", "aci")
_ARCHIVES = (".aci", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")


def volume(text: str, directory: str) -> dict[str, Any]:
    """Parse a volume like ``/srv/pages:/pages:ro`` or ``data:/data``.  Raises UsageError."""
    source, colon, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not (source and colon and target) or mode not in ("", "ro", "rw"):
        raise UsageError(f'--volume: invalid volume "{text}"', "SOURCE:TARGET[:ro]")
    return _volume(source, target, mode == "ro", directory)


def mount(text: str, directory: str) -> dict[str, Any]:
    """Parse a mount like ``type=bind,source=/srv,target=/srv,readonly``.  Raises UsageError."""
    found = {"type": "", "source": "", "target": "", "readonly": ""}
    names = {"src": "source", "dst": "target", "destination": "target", "ro": "readonly"}
    for word in text.split(","):
        key, equals, value = word.partition("=")
        key = names.get(key, key)
        if key not in found:
            raise UsageError(f'--mount: unknown key "{key}"', ", ".join(found))
        found[key] = value if equals else "true"
    if not found["source"] or not found["target"]:
        raise UsageError(f'--mount: source or target is missing in "{text}"')
    by_name = _is_name(found["source"])
    if found["type"] not in ("", "volume" if by_name else "bind"):
        raise UsageError(
            f'--mount: wrong type "{found["type"]}" for source "{found["source"]}"',
            "bind for a path, volume for a name",
        )
    read_only = found["readonly"] in ("true", "1")
    return _volume(found["source"], found["target"], read_only, directory)


def _volume(source: str, target: str, read_only: bool, directory: str) -> dict[str, Any]:
    if not target.startswith("/"):
        raise UsageError(f'volume target "{target}": must be an absolute path')
    if _is_name(source):
        origin = {"name": source}
    else:
        origin = {"source": os.path.normpath(os.path.join(directory, source))}
    return {**origin, "target": target, "read_only": read_only}


def _is_name(source: str) -> bool:
    return "/" not in source and source not in (".", "..")


def port(text: str) -> dict[str, Any]:
    """Parse a port like ``8080:80``, ``127.0.0.1:8080:80/udp`` or ``[::1]:8080:80``.

    Raises UsageError.
    """
    ports, _, protocol = text.partition("/")
    host, colon, inside = ports.rpartition(":")
    address, _, outside = host.rpartition(":")
    if not colon or (protocol or "tcp") not in _PROTOCOLS:
        raise _invalid_port(text)
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    elif ":" in address:
        raise _invalid_port(text)
    return {
        "host_ip": address,
        "host_port": _port_number(outside, text),
        "port": _port_number(inside, text),
        "protocol": protocol or "tcp",
    }


def _port_number(digits: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits[:6]) <= _HIGHEST_PORT:
        raise _invalid_port(text)
    return int(digits)


def _invalid_port(text: str) -> UsageError:
    hint = "[IP:]HOST_PORT:CONTAINER_PORT[/tcp|/udp]"
    return UsageError(f'--publish: invalid port "{text}"', hint)


def cpus(text: str) -> float:
    """Parse a number of CPUs, which may be fractional.  Raises UsageError."""
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 12 or float(text) <= 0:
        raise UsageError(f'--cpus: "{text}" is not a number of CPUs', "0.5, 2")
    return float(text)


def restart_policy(text: str) -> dict[str, Any]:
    """Parse a restart policy like ``on-failure:3``.  Raises UsageError."""
    name, colon, digits = text.partition(":")
    counted = name == "on-failure" and digits.isascii() and digits.isdigit() and len(digits) < 10
    if name not in _POLICIES or (colon and not counted):
        raise UsageError(f'--restart: unknown policy "{text}"', "no, on-failure[:N], always, ...")
    return {"name": name, "maximum": int(digits or 0)}


def absolute_image(image: str, directory: str) -> str:
    """Return an image reference with its path made absolute, since ocid runs elsewhere.

    Raises UsageError.
    """
    form, colon, path = image.partition(":")
    if not colon:
        is_path = image in (".", "..") or image.startswith(("./", "../")) or _is_archive(image)
        return os.path.join(directory, image) if is_path else image
    if form in _TAGGED and ":" in directory and not path.startswith("/"):
        hint = "the part after a colon would be the tag; run ocictl in another directory"
        raise UsageError(f'image "{image}": the current directory contains a colon', hint)
    if (form in _TAGGED and path.partition(":")[0]) or (form in _PLAIN and path):
        return f"{form}:{os.path.join(directory, path)}"
    if form == "file":
        path = path.removeprefix("//")
        return os.path.join(directory, path) if path else image
    return os.path.join(directory, image) if image.startswith(("./", "../")) else image


def _is_archive(image: str) -> bool:
    return any(image.endswith(suffix) and image != suffix for suffix in _ARCHIVES)
