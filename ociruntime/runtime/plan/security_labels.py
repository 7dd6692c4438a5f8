"""Plan the AppArmor profile, the SELinux label, and a session keyring with the SELinux label."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.spec.config_types import Process


def add_keyring(job: Compilation, process: Process | None) -> None:
    """Append operations that create a session keyring with the process's SELinux label.

    The keyring is anonymous.  If it had a known name, another container could create a keyring with
    this name and open it to everybody, and keyctl(2) would join that keyring instead of creating
    one.  The label for new keys applies until the next execve(2).  Raises ConfigError if
    config.json sets a label and SELinux is disabled.
    """
    label = process.get("selinuxLabel") if process else None
    if label:
        path = "self/attr/keycreate"
        job.add(operations.write_proc(path=path, data=label, where=_require_selinux(job)))
    job.add(operations.keyring())


def _require_selinux(job: Compilation) -> str:
    """Return the JSON path of ``selinuxLabel``, or raise ConfigError if SELinux is disabled."""
    where = "process.selinuxLabel"
    if not job.facts.selinux:
        raise ConfigError(where, "SELinux is not enabled on this host")
    return where


def add_labels(job: Compilation, process: Process) -> None:
    """Append operations that set the AppArmor profile and SELinux label for the next execve(2).

    Raises ConfigError for a profile if AppArmor is disabled, and for a label if SELinux is
    disabled.
    """
    profile = process.get("apparmorProfile")
    if profile:
        where = "process.apparmorProfile"
        if not job.facts.apparmor:
            raise ConfigError(where, "AppArmor is not enabled on this host")
        job.add(
            operations.write_proc(
                path=job.facts.apparmor,
                data=f"exec {profile}",
                where=where,
            ),
        )
    label = process.get("selinuxLabel")
    if label:
        where = _require_selinux(job)
        job.add(operations.write_proc(path="self/attr/exec", data=label, where=where))
