"""The table of mount options: the meaning of each string in ``mounts[].options``.

There are three kinds of options, applied through three kernel interfaces: attributes of one mount
(mount_setattr(2), fsmount(2)), options of the filesystem's superblock (fsconfig(2)) and propagation
(mount_namespaces(7)).  An option that is in none of the tables is passed to the filesystem.
"""

from __future__ import annotations

from collections.abc import Sequence

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import (
    MOUNT_ATTR__ATIME,
    MOUNT_ATTR_NOATIME,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NODIRATIME,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_NOSYMFOLLOW,
    MOUNT_ATTR_RDONLY,
    MOUNT_ATTR_STRICTATIME,
    MS_PRIVATE,
    MS_REC,
    MS_SHARED,
    MS_SLAVE,
    MS_UNBINDABLE,
)

# option -> (MOUNT_ATTR_* to set, MOUNT_ATTR_* to clear).  The access time is one field with three
# values: an option that sets a value clears the whole field first.
ATTRIBUTES: dict[str, tuple[int, int]] = {
    "atime": (0, MOUNT_ATTR_NOATIME),
    "dev": (0, MOUNT_ATTR_NODEV),
    "diratime": (0, MOUNT_ATTR_NODIRATIME),
    "exec": (0, MOUNT_ATTR_NOEXEC),
    "noatime": (MOUNT_ATTR_NOATIME, MOUNT_ATTR__ATIME),
    "nodev": (MOUNT_ATTR_NODEV, 0),
    "nodiratime": (MOUNT_ATTR_NODIRATIME, 0),
    "noexec": (MOUNT_ATTR_NOEXEC, 0),
    "norelatime": (0, 0),  # relatime is the default unless noatime or strictatime is set
    "nostrictatime": (0, MOUNT_ATTR_STRICTATIME),
    "nosuid": (MOUNT_ATTR_NOSUID, 0),
    "nosymfollow": (MOUNT_ATTR_NOSYMFOLLOW, 0),
    "relatime": (0, MOUNT_ATTR__ATIME),
    "ro": (MOUNT_ATTR_RDONLY, 0),
    "rw": (0, MOUNT_ATTR_RDONLY),
    "strictatime": (MOUNT_ATTR_STRICTATIME, MOUNT_ATTR__ATIME),
    "suid": (0, MOUNT_ATTR_NOSUID),
    "symfollow": (0, MOUNT_ATTR_NOSYMFOLLOW),
}

# Recursive attributes, such as rro: they apply to the mount and to every mount below it.
RECURSIVE_ATTRIBUTES: dict[str, tuple[int, int]] = {
    "r" + word: bits for word, bits in ATTRIBUTES.items()
}

# option -> its name for fsconfig(2); "" if there is nothing to set.  The new mount API has no name
# for MS_SILENT, which concerns only the kernel log, and MS_I_VERSION: filesystems with a change
# counter, or with access control lists, enable them by themselves.
SUPERBLOCK: dict[str, str] = {
    "acl": "",
    "async": "async",
    "defaults": "",
    "dirsync": "dirsync",
    "iversion": "",
    "lazytime": "lazytime",
    "loud": "",
    "mand": "mand",
    "noiversion": "",
    "nolazytime": "nolazytime",
    "nomand": "nomand",
    "silent": "",
    "sync": "sync",
}

PROPAGATION: dict[str, int] = {
    "private": MS_PRIVATE,
    "rprivate": MS_PRIVATE | MS_REC,
    "rshared": MS_SHARED | MS_REC,
    "rslave": MS_SLAVE | MS_REC,
    "runbindable": MS_UNBINDABLE | MS_REC,
    "shared": MS_SHARED,
    "slave": MS_SLAVE,
    "unbindable": MS_UNBINDABLE,
}

# Options that change how the mount is made, not its attributes.
ACTIONS = ("bind", "idmap", "rbind", "remount", "ridmap", "tmpcopyup")

# Options for mount(8) alone: when an entry of /etc/fstab is mounted, and by which users.
FSTAB_WORDS = ("_netdev", "auto", "noauto", "nofail")


class MountOptions:
    """The options of one mount, grouped by the system call that applies them.

    ``set`` and ``clear``: MOUNT_ATTR_* masks for the mount.  ``set_recursive`` and
    ``clear_recursive``: the same for the mount and all mounts below it.  ``propagation``: MS_*
    values, applied in order.  ``data``: options for the filesystem, as pairs (index in the list of
    options, option).
    """

    __slots__ = (
        "bind",
        "clear",
        "clear_recursive",
        "copy_up",
        "data",
        "propagation",
        "recursive",
        "remount",
        "set",
        "set_recursive",
        "superblock",
    )

    def __init__(self) -> None:
        self.bind = False
        self.recursive = False
        self.remount = False
        self.copy_up = False
        self.set = 0
        self.clear = 0
        self.set_recursive = 0
        self.clear_recursive = 0
        self.superblock: list[str] = []
        self.propagation: list[int] = []
        self.data: list[tuple[int, str]] = []


def option_names() -> list[str]:
    """Return the sorted names of all supported mount options."""
    return sorted([*ACTIONS, *ATTRIBUTES, *RECURSIVE_ATTRIBUTES, *SUPERBLOCK, *PROPAGATION])


def parse_mount_options(options: Sequence[str], where: str) -> MountOptions:
    """Parse a mount's options; an option overrides earlier options that contradict it.

    ``where`` is the JSON path of the mount.  Unknown options become options for the filesystem.
    Raises ConfigError for ``idmap`` or ``ridmap`` with a value.
    """
    parsed = MountOptions()
    for index, word in enumerate(options):
        if word in ATTRIBUTES:
            on, off = ATTRIBUTES[word]
            parsed.set = (parsed.set & ~off) | on
            parsed.clear = (parsed.clear & ~on) | off
        elif word in PROPAGATION:
            parsed.propagation.append(PROPAGATION[word])
        elif word in ACTIONS:
            _take_action(parsed, word)
        elif word in SUPERBLOCK:
            if SUPERBLOCK[word]:
                parsed.superblock.append(SUPERBLOCK[word])
        elif word in RECURSIVE_ATTRIBUTES:
            on, off = RECURSIVE_ATTRIBUTES[word]
            parsed.set_recursive = (parsed.set_recursive & ~off) | on
            parsed.clear_recursive = (parsed.clear_recursive & ~on) | off
        elif word.startswith(("idmap=", "ridmap=")):
            text = f'"{word}": this mount option takes no value'
            hint = "set uidMappings and gidMappings of the mount instead"
            raise ConfigError(f"{where}.options[{index}]", text, hint)
        elif word not in FSTAB_WORDS and word and not word.startswith(("x-", "X-")):
            parsed.data += [(index, text) for text in _split(word)]
    parsed.clear = _whole_access_time(parsed.set, parsed.clear)
    parsed.clear_recursive = _whole_access_time(parsed.set_recursive, parsed.clear_recursive)
    return parsed


def _take_action(parsed: MountOptions, word: str) -> None:
    # Skip idmap and ridmap: runtime/plan/namespaces.py creates the id maps before any mount.
    if word == "remount":
        parsed.remount = True
    elif word == "tmpcopyup":
        parsed.copy_up = True
    elif word in ("bind", "rbind"):
        parsed.bind = True
        parsed.recursive = word == "rbind"


def _split(data: str) -> list[str]:
    """Split filesystem options at commas; return text with a quote or a backslash as one option."""
    if '"' in data or "\\" in data:
        return [data]
    return [text for text in data.split(",") if text]


def _whole_access_time(on: int, off: int) -> int:
    """Return ``off`` with all access time bits if any access time bit is set in ``on`` or ``off``.

    Otherwise returns ``off`` unchanged.  mount_setattr(2) can change the access time attributes
    only as a whole.
    """
    if (on | off) & MOUNT_ATTR__ATIME:
        return off | MOUNT_ATTR__ATIME
    return off


def suggestion(word: str, extra: Sequence[str] = ()) -> str:
    """Return a hint for an unknown mount option, such as ``did you mean "ro"?``.

    Returns "" if no known option is similar.  ``extra`` are further names that the hint may
    suggest.
    """
    from ociruntime.base.similar_names import closest  # only when an error is certain

    close = closest(word.partition("=")[0], [*option_names(), *extra])
    return f'did you mean "{close}"?' if close else ""


# The options of common filesystems, to suggest the correct spelling of a misspelled option.  Other
# unknown options are passed to the kernel: a newer kernel may know them.

# Options that every filesystem accepts when SELinux is enabled.
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
    """Remove quotes from an SELinux context option: mount(2) needs them, fsconfig(2) does not."""
    return text.replace('"', "") if text.partition("=")[0] in LABEL_KEYS else text


def check_data(fstype: str, data: Sequence[tuple[int, str]], where: str) -> None:
    """Raise ConfigError for a filesystem option that looks like a misspelling of a known one.

    Other unknown options are left to the kernel.  ``data``: pairs (index in the list of options,
    option).  ``where``: the JSON path of the mount.
    """
    keys = DATA_KEYS.get(fstype)
    if keys is None:
        return
    for index, text in data:
        key = text.partition("=")[0]
        if key in keys or key in LABEL_KEYS:
            continue
        if hint := suggestion(key, keys):
            message = f'unknown option "{key}" for {fstype}'
            raise ConfigError(f"{where}.options[{index}]", message, hint)
