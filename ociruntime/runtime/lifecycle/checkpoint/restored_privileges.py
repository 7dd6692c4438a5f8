"""Check that a restored process has no more privileges than its new configuration allows.

CRIU restores the privileges of the dump; the images may be old, or from another user. config.json
decides, as in `create`.
"""

from __future__ import annotations

import os

from ociruntime.base.files import read_file
from ociruntime.runtime.plan.identity import BITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.runtime.spec.document import Config

# Field of status -> the sets that allow it: an exec may grant what the bounding set has.
SETS: dict[str, tuple[str, ...]] = {
    "CapBnd": ("bounding",),
    "CapPrm": ("bounding", "permitted"),
    "CapInh": ("bounding", "inheritable"),
}
FILTERED = "2"  # SECCOMP_MODE_FILTER


def excess(status: str, config: Config) -> str:
    """Describe a process's excess privileges, from its /proc/PID/status; "" if there are none.
    Pure.
    """
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    process = config.get("process")
    if process is None or facts.get("State", "").startswith(("Z", "X")):
        return ""
    capabilities: Any = process.get("capabilities") or {}
    for field, kinds in SETS.items():
        allowed = 0
        for kind in kinds:
            for name in capabilities.get(kind) or []:
                allowed |= BITS.get(name, 0)
        extra = int(facts.get(field, "0"), 16) & ~allowed
        if extra:
            names = [name for name, bit in BITS.items() if bit & extra]
            return f"process.capabilities.{kinds[-1]} has no {', '.join(names)}"
    if process.get("noNewPrivileges") and facts.get("NoNewPrivs") == "0":
        return "process.noNewPrivileges is true and it can gain privileges"
    if (config.get("linux") or {}).get("seccomp") and facts.get("Seccomp") != FILTERED:
        return "linux.seccomp is set and it has no filter"
    return ""


def thread_statuses(pid: int) -> list[str]:
    """The status of each thread of a process: privileges are a thread's own.  Raises OSError."""
    found = []
    for name in os.listdir(f"/proc/{pid}/task"):
        try:
            text = read_file(f"/proc/{pid}/task/{name}/status")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since
        found.append(text.decode("utf-8", "surrogateescape"))
    return found
