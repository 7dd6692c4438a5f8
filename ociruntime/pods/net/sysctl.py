"""Settings of the kernel's network code below /proc/sys/net, in this process's namespace."""

from __future__ import annotations

from ociruntime.base.errors import NetworkError, reason

FORWARDING = {4: "ipv4/ip_forward", 6: "ipv6/conf/all/forwarding"}


def set_sysctl(name: str, value: str) -> None:
    """``name`` relative to /proc/sys/net; written only if it differs.  Raises NetworkError."""
    path = f"/proc/sys/net/{name}"
    try:
        with open(path, encoding="utf-8") as file:
            if file.read().strip() == value:
                return
        with open(path, "w", encoding="utf-8") as file:
            file.write(value)
    except OSError as error:
        raise NetworkError(f"set {path} to {value}: {reason(error)}") from None
