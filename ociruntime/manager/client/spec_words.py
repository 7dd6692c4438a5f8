"""Single words of ``run`` and ``create``, each taken apart into a member of the request; pure."""

from __future__ import annotations

import os.path

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HIGHEST_PORT = 65535
_PROTOCOLS = ("tcp", "udp")
_POLICIES = ("no", "on-failure", "always", "unless-stopped")
# Forms of images that begin with a path: see images/model/reference.py; the first may have a :TAG.
_TAGGED = ("oci", "oci-archive", "docker-archive")
_PLAIN = ("dir", "tar", "aci")
_ARCHIVES = (".aci", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")


def volume(text: str, directory: str) -> dict[str, Any]:
    """Of ``/srv/pages:/pages:ro`` or ``data:/data``.  Raises UsageError."""
    source, colon, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not (source and colon and target) or mode not in ("", "ro", "rw"):
        raise UsageError(f'--volume: cannot understand "{text}"', "SOURCE:TARGET or with :ro")
    return _volume(source, target, mode == "ro", directory)


def mount(text: str, directory: str) -> dict[str, Any]:
    """Of ``type=bind,source=/srv,target=/srv,readonly``.  Raises UsageError."""
    found = {"type": "", "source": "", "target": "", "readonly": ""}
    names = {"src": "source", "dst": "target", "destination": "target", "ro": "readonly"}
    for word in text.split(","):
        key, equals, value = word.partition("=")
        key = names.get(key, key)
        if key not in found:
            raise UsageError(f'--mount: unknown key "{key}"', ", ".join(found))
        found[key] = value if equals else "true"
    if not found["source"] or not found["target"]:
        raise UsageError(f'--mount: "{text}" lacks source or target')
    by_name = _is_name(found["source"])
    if found["type"] not in ("", "volume" if by_name else "bind"):
        raise UsageError(
            f'--mount: type "{found["type"]}" does not fit source "{found["source"]}"',
            "bind for a path, volume for a name",
        )
    read_only = found["readonly"] in ("true", "1")
    return _volume(found["source"], found["target"], read_only, directory)


def _volume(source: str, target: str, read_only: bool, directory: str) -> dict[str, Any]:
    if not target.startswith("/"):
        raise UsageError(f'a volume\'s target is an absolute path, not "{target}"')
    if _is_name(source):
        place = {"name": source}
    else:
        place = {"source": os.path.normpath(os.path.join(directory, source))}
    return {**place, "target": target, "read_only": read_only}


def _is_name(source: str) -> bool:
    return "/" not in source and source not in (".", "..")


def port(text: str) -> dict[str, Any]:
    """Of ``8080:80``, ``127.0.0.1:8080:80/udp`` or ``[::1]:8080:80``.  Raises UsageError."""
    ports, _, protocol = text.partition("/")
    host, colon, inside = ports.rpartition(":")
    address, _, outside = host.rpartition(":")
    if not colon or (protocol or "tcp") not in _PROTOCOLS:
        raise _no_port(text)
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    elif ":" in address:
        raise _no_port(text)
    return {
        "host_ip": address,
        "host_port": _port_number(outside, text),
        "port": _port_number(inside, text),
        "protocol": protocol or "tcp",
    }


def _port_number(digits: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits[:6]) <= _HIGHEST_PORT:
        raise _no_port(text)
    return int(digits)


def _no_port(text: str) -> UsageError:
    hint = "[IP:]PORT:PORT[/tcp|/udp], the host's port first"
    return UsageError(f'--publish: cannot understand "{text}"', hint)


def cpus(text: str) -> float:
    """How many, in parts as well.  Raises UsageError."""
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 12 or float(text) <= 0:
        raise UsageError(f'--cpus: not a number of processors: "{text}"', "0.5, 2")
    return float(text)


def restart_policy(text: str) -> dict[str, Any]:
    """Of ``on-failure:3``.  Raises UsageError."""
    name, colon, digits = text.partition(":")
    counted = name == "on-failure" and digits.isascii() and digits.isdigit() and len(digits) < 10
    if name not in _POLICIES or (colon and not counted):
        raise UsageError(f'--restart: unknown policy "{text}"', "no, on-failure[:N], always, ...")
    return {"name": name, "maximum": int(digits or 0)}


def absolute_image(image: str, directory: str) -> str:
    """The image in words that mean the same in another working directory.  Raises UsageError."""
    form, colon, path = image.partition(":")
    if not colon:
        is_path = image in (".", "..") or image.startswith(("./", "../")) or _is_archive(image)
        return os.path.join(directory, image) if is_path else image
    if form in _TAGGED and ":" in directory and not path.startswith("/"):
        hint = "what follows a colon is a tag: name the image from another directory"
        raise UsageError(f"{image}: the colon in the current directory cannot be told", hint)
    if (form in _TAGGED and path.partition(":")[0]) or (form in _PLAIN and path):
        return f"{form}:{os.path.join(directory, path)}"
    if form == "file":
        path = path.removeprefix("//")
        return os.path.join(directory, path) if path else image
    return os.path.join(directory, image) if image.startswith(("./", "../")) else image


def _is_archive(image: str) -> bool:
    return any(image.endswith(suffix) and image != suffix for suffix in _ARCHIVES)
