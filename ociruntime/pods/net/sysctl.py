"""Set network sysctls, below /proc/sys/net, in the network namespace of this process."""

from __future__ import annotations

from ociruntime.base.errors import NetworkError, reason

FORWARDING = {4: "ipv4/ip_forward", 6: "ipv6/conf/all/forwarding"}


def set_sysctl(name: str, value: str) -> None:
    """Write ``name`` (relative to /proc/sys/net) if it differs.  Raises NetworkError."""
    path = f"/proc/sys/net/{name}"
    try:
        with open(path, encoding="utf-8") as file:
            if file.read().strip() == value:
                return
        with open(path, "w", encoding="utf-8") as file:
            file.write(value)
    except OSError as error:
        raise NetworkError(f"set {path} to {value}: {reason(error)}") from None
