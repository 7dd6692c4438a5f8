"""Settings of new namespaces: host name, domain name, network devices, kernel parameters."""

from __future__ import annotations

from ociruntime.base.linux import CLONE_NEWNET
from ociruntime.runtime.plan import operations
from ociruntime.runtime.plan.ops import STAGE_NETWORK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.plan.compilation import Compilation


def compile_namespace_settings(job: Compilation) -> None:
    """Before the masks, which hide parts of /proc/sys."""
    if job.config.get("hostname"):
        job.add(operations.hostname(name=job.config["hostname"], where="hostname"))
    if job.config.get("domainname"):
        job.add(operations.domainname(name=job.config["domainname"], where="domainname"))
    if job.new & CLONE_NEWNET:
        job.add(operations.loopback(where="linux.namespaces"))
    if job.linux.get("netDevices"):
        # Before the parameters, of which some are a device's, and before any hook.
        job.add(operations.sync(stage=STAGE_NETWORK, where="linux.netDevices"))
    if job.linux.get("sysctl"):
        _add_sysctls(job, job.linux["sysctl"])


def _add_sysctls(job: Compilation, sysctls: dict[str, str]) -> None:
    from ociruntime.runtime.spec.sysctl import sysctl_path

    for key, value in sysctls.items():
        job.add(
            operations.write_proc(
                path=f"sys/{sysctl_path(key)}",
                data=value,
                where=f'linux.sysctl["{key}"]',
            ),
        )
