"""The mounts of a mount namespace, from /proc/PID/mountinfo (proc_pid_mountinfo(5))."""

from __future__ import annotations

from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file

OWN = "/proc/self/mountinfo"
OCTAL = frozenset("01234567")


class Mount:
    """One line of mountinfo.

    ``parent`` is the id of the mount that it is mounted on, ``device`` is MAJOR:MINOR, ``root`` the
    path within the file system, ``target`` the mount point, ``options`` those of the mount,
    ``super_options`` those of the file system, separated by commas.
    """

    __slots__ = ("device", "fstype", "id", "options", "parent", "root", "super_options", "target")

    def __init__(
        self,
        device: str,
        root: str,
        target: str,
        fstype: str,
        options: str = "",
        mount_id: int = 0,
        super_options: str = "",
        parent: int = 0,
    ) -> None:
        self.id = mount_id
        self.parent = parent
        self.device = device
        self.root = root
        self.target = target
        self.fstype = fstype
        self.options = options
        self.super_options = super_options


def own_mountinfo() -> str:
    """Return the text for this process.  Raises OSError."""
    return read_file(OWN).decode("utf-8", "surrogateescape")


def parse_mountinfo(text: str) -> list[Mount]:
    """Return the mounts in the kernel's order; malformed lines are skipped.

    Nothing but a line feed ends a line: the kernel escapes blanks, tabs and line feeds in paths,
    but none of the other characters at which ``str.splitlines()`` splits. Any user who can mount,
    or rename a directory above a mount point, can put them there.
    """
    mounts = []
    for line in text.split("\n"):
        left, separator, right = line.partition(" - ")
        if not separator:
            continue
        fields = left.split(" ")
        if len(fields) < 6 or not fields[0].isdecimal():
            continue
        mount_id, parent, device, root, target, options, *_ = fields
        fstype, _, rest = right.partition(" ")
        mounts.append(
            Mount(
                device,
                unescape(root),
                unescape(target),
                fstype,
                options,
                int(mount_id),
                rest.rpartition(" ")[2],
                int(parent) if parent.isdecimal() else 0,
            )
        )
    return mounts


def unescape(field: str) -> str:
    r"""Undo the kernel's ``\040`` for space, tab, line feed and backslash."""
    if "\\" not in field:
        return field
    first, *parts = field.split("\\")
    return first + "".join(map(_after_backslash, parts))


def _after_backslash(part: str) -> str:
    code = part[:3]
    if len(code) == 3 and set(code) <= OCTAL:
        return chr(int(code, 8)) + part[3:]
    return f"\\{part}"  # of a file system that writes its paths itself


def reachable(mounts: list[Mount], *fstypes: str) -> list[Mount]:
    """Return the mounts of these types that no later mount on or above them hides."""
    found: dict[str, Mount] = {}
    above: set[str] = set()  # directories that lead to those found
    for mount in mounts:
        path = mount.target
        found.pop(path, None)
        if path in above:
            for hidden in [one for one in found if one.startswith(f"{path}/")]:
                del found[hidden]
        if mount.fstype not in fstypes:
            continue
        found[path] = mount
        while path := path.rpartition("/")[0]:
            above.add(path)
    return list(found.values())


def kernel_mounts(rootfs: str) -> tuple[str, ...]:
    """Return the mount points of proc and sysfs outside ``rootfs``, last one first.

    ``--no-pivot`` would leave them reachable.  Raises HostError.
    """
    try:
        return find_kernel_mounts(own_mountinfo(), rootfs)
    except OSError as error:
        raise HostError(f"read {OWN}", error) from None


def find_kernel_mounts(mountinfo: str, rootfs: str) -> tuple[str, ...]:
    """Return the mount points like ``kernel_mounts``, from the text of a mountinfo."""
    targets = [
        mount.target for mount in parse_mountinfo(mountinfo) if mount.fstype in ("proc", "sysfs")
    ]
    outside = [each for each in targets if not f"{each}/".startswith(f"{rootfs}/")]
    return tuple(reversed(outside))
