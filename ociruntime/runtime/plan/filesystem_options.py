"""The mount data of common filesystems, so that a misspelled option is named in the error.

For these the kernel reports an unknown option only as EINVAL for the whole mount. Data for
filesystems that are not listed is passed on unchecked.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.plan.mount_options import suggestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Accepted by every filesystem when SELinux is enabled.
LABEL_KEYS = ("context", "fscontext", "defcontext", "rootcontext", "seclabel")

# man pages tmpfs(5), proc(5), mount(8); kernel: cgroup_fs_parameters, mm/shmem.c.
DATA_KEYS: dict[str, tuple[str, ...]] = {
    "cgroup2": (
        "favordynmods",
        "nofavordynmods",
        "memory_hugetlb_accounting",
        "memory_localevents",
        "memory_recursiveprot",
        "nsdelegate",
        "pids_localevents",
    ),
    "devpts": ("gid", "max", "mode", "newinstance", "ptmxmode", "uid"),
    "mqueue": (),
    "proc": ("gid", "hidepid", "pidns", "subset"),
    "sysfs": (),
    "tmpfs": (
        "casefold",
        "gid",
        "grpquota",
        "grpquota_block_hardlimit",
        "grpquota_inode_hardlimit",
        "huge",
        "inode32",
        "inode64",
        "mode",
        "mpol",
        "noswap",
        "nr_blocks",
        "nr_inodes",
        "quota",
        "size",
        "strict_encoding",
        "uid",
        "usrquota",
        "usrquota_block_hardlimit",
        "usrquota_inode_hardlimit",
    ),
}


def without_quotes(text: str) -> str:
    """A context as fsconfig(2) takes it: for mount(8) and mount(2) it is quoted for its commas."""
    return text.replace('"', "") if text.partition("=")[0] in LABEL_KEYS else text


def check_data(fstype: str, data: Sequence[tuple[int, str]], where: str) -> None:
    """Raise ConfigError for a key that the filesystem does not know."""
    keys = DATA_KEYS.get(fstype)
    if keys is None:
        return
    for index, text in data:
        key = text.partition("=")[0]
        if key not in keys and key not in LABEL_KEYS:
            raise ConfigError(
                f"{where}.options[{index}]",
                f'unknown option "{key}" for {fstype}',
                suggestion(key, keys),
            )
