"""Build the hosts file of a pod's apps, and check the names in it.

The file comes from the first of these sources that exists: the options ``--hosts-entry``, the
image's file, a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ociruntime.base.errors import UsageError
from ociruntime.pods.net.addresses import parse_address

HOST = "host"
LOCAL_NAMES = (
    ("127.0.0.1", "localhost localhost.localdomain"),
    ("::1", "localhost ip6-localhost ip6-loopback"),
    ("fe00::0", "ip6-localnet"),
    ("ff00::0", "ip6-mcastprefix"),
    ("ff02::1", "ip6-allnodes"),
    ("ff02::2", "ip6-allrouters"),
)
LONGEST_POD_NAME = 128


def parse_hosts_entries(values: list[str]) -> dict[str, Any]:
    """Convert the values of --hosts-entry to settings of a hosts file.

    Each value is ``IP=NAME[,NAME][,IP=NAME]``.  A single value ``host`` selects the host's file.
    Returns ``{"mode", "entries": [[IP, [NAME, ...]], ...]}``, where the mode is "host" or "".
    Names of the same address are merged.  Raises UsageError for an invalid entry.
    """
    if HOST in values:
        if len(values) > 1:
            raise UsageError(
                "--hosts-entry=host and other --hosts-entry options are mutually exclusive"
            )
        return {"mode": HOST, "entries": []}
    entries: dict[str, list[str]] = {}
    for value in values:
        address = ""
        for part in value.split(","):
            before, equals, name = part.rpartition("=")
            address = before if equals else address
            if not _is_address(address) or not is_host_name(name):
                hint = "must be IP=NAME[,NAME][,IP=NAME] or host"
                raise UsageError(f'--hosts-entry: invalid entry "{part}"', hint)
            entries.setdefault(address, []).append(name)
    return {"mode": "", "entries": [[address, names] for address, names in entries.items()]}


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except ValueError:
        return False
    return True


def hosts(options: Mapping[str, Any], hostname: str, image_has_one: bool) -> str | None:
    """Return the content of a pod's hosts file, or None to use the image's or the host's file.

    ``options`` are the settings of --hosts-entry (``parse_hosts_entries``).  ``hostname`` is added
    as a name of 127.0.0.1, unless it is ""; it may also be several names, separated by spaces.
    ``image_has_one`` says whether the image has a hosts file.

    The result is None to use the host's file (mode "host"), or to use the image's file (the image
    has one, and there are no entries).
    """
    entries = options.get("entries") or []
    if options.get("mode") == HOST or (image_has_one and not entries):
        return None
    lines = [f"{address}\t{names}" for address, names in LOCAL_NAMES]
    if hostname:
        lines.append(f"127.0.0.1\t{hostname}")
    lines += [f"{address}\t{' '.join(names)}" for address, names in entries]
    return "\n".join([*lines, ""])


def is_host_name(text: str) -> bool:
    """Return whether ``text`` is a valid host name: labels separated by dots."""
    return 0 < len(text) < 256 and all(
        part and part.replace("-", "").replace("_", "").isalnum() and part.isascii()
        for part in text.removesuffix(".").split(".")
    )


def is_pod_name(text: str) -> bool:
    """Return whether ``text`` is allowed as the name of a pod on a network.

    It must be a host name of at most 128 characters, and not one of the local names such as
    localhost.
    """
    local = [each for _, names in LOCAL_NAMES for each in names.split()]
    name = text.lower().removesuffix(".")
    return is_host_name(text) and len(text) <= LONGEST_POD_NAME and name not in local
