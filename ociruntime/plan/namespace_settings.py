"""What a new namespace is given: host name, domain name, loopback, kernel parameters."""

from __future__ import annotations

from ociruntime.errors import ConfigError
from ociruntime.linux import CLONE_NEWNET
from ociruntime.plan import operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.plan.compilation import Compilation


def compile_namespace_settings(job: Compilation) -> None:
    """Before the masks, which hide parts of /proc/sys."""
    if job.config.get("hostname"):
        job.add(operations.hostname(name=job.config["hostname"], where="hostname"))
    if job.config.get("domainname"):
        job.add(operations.domainname(name=job.config["domainname"], where="domainname"))
    if job.new & CLONE_NEWNET:
        job.add(operations.loopback(where="linux.namespaces"))
    for key, value in (job.linux.get("sysctl") or {}).items():
        where = f'linux.sysctl["{key}"]'
        job.add(
            operations.write_proc(path=f"sys/{sysctl_path(key, where)}", data=value, where=where),
        )


def sysctl_path(key: str, where: str) -> str:
    """The file below /proc/sys, in the two spellings of sysctl(8).

    The separator that comes first is the separator: ``net.ipv4.conf.eth0/1.mtu`` and
    ``net/ipv4/conf/eth0.1/mtu`` are the same file.
    """
    dot, slash = key.find("."), key.find("/")
    if dot >= 0 and (slash < 0 or dot < slash):
        key = key.translate({ord("."): "/", ord("/"): "."})
    parts = key.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise ConfigError(where, "not the name of a kernel parameter")
    return key
