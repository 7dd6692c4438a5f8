"""The default confinement of apps: capabilities, masked paths and read-only paths.

The default seccomp filter is in ``seccomp.json``.  The isolators of a manifest can change the
capabilities and the filter (``pods/manifest/isolators.py``).
"""

from __future__ import annotations

DEFAULT_CAPABILITIES = (
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
)
# They reveal details of the host.
MASKED_PATHS = (
    *("/proc/acpi", "/proc/asound", "/proc/config.gz", "/proc/kallsyms", "/proc/kcore"),
    *("/proc/keys", "/proc/kmem", "/proc/latency_stats", "/proc/mem", "/proc/sched_debug"),
    *("/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
    *("/sys/firmware", "/sys/hypervisor", "/sys/module", "/sys/power"),
)
# A write to them could change the host.
READONLY_PATHS = (
    *("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"),
    *("/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/fs", "/sys/kernel"),
)
