"""Parse /proc/PID/mountinfo, the list of mounts in a mount namespace (proc_pid_mountinfo(5))."""

from __future__ import annotations

from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file

OWN = "/proc/self/mountinfo"
OCTAL = frozenset("01234567")


class Mount:
    """A mount, as described by one line of /proc/PID/mountinfo.

    ``parent`` is the id of the mount that contains the mount point; ``device`` is MAJOR:MINOR;
    ``root`` is the mounted path within the filesystem; ``target`` is the mount point.  ``options``
    are the options of the mount and ``super_options`` those of the filesystem, separated by commas.
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
    """Return the text of /proc/self/mountinfo.  Raises OSError."""
    return read_file(OWN).decode("utf-8", "surrogateescape")


def parse_mountinfo(text: str) -> list[Mount]:
    """Return the mounts in the text of a mountinfo file, in order; skip malformed lines.

    Only a line feed ends a line.  The kernel escapes spaces, tabs and line feeds in paths, but not
    the other line separators that ``str.splitlines()`` recognises.  A user who can mount
    filesystems, or rename a directory above a mount point, can put such characters into a path.
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
        fstype, _, source_and_options = right.partition(" ")
        mounts.append(
            Mount(
                device,
                unescape(root),
                unescape(target),
                fstype,
                options,
                int(mount_id),
                source_and_options.rpartition(" ")[2],
                int(parent) if parent.isdecimal() else 0,
            )
        )
    return mounts


def unescape(field: str) -> str:
    r"""Decode the octal escapes (``\040``) of space, tab, line feed and backslash in a field."""
    if "\\" not in field:
        return field
    first, *parts = field.split("\\")
    return first + "".join(map(_after_backslash, parts))


def _after_backslash(part: str) -> str:
    code = part[:3]
    if len(code) == 3 and set(code) <= OCTAL:
        return chr(int(code, 8)) + part[3:]
    return f"\\{part}"  # not an escape: some filesystems format their paths themselves


def reachable(mounts: list[Mount], *fstypes: str) -> list[Mount]:
    """Return the mounts with a type in ``fstypes``, except those that a later mount covers."""
    visible: dict[str, Mount] = {}
    above: set[str] = set()  # parents of the mount points found so far
    for mount in mounts:
        path = mount.target
        visible.pop(path, None)
        if path in above:
            for hidden in [target for target in visible if target.startswith(f"{path}/")]:
                del visible[hidden]
        if mount.fstype not in fstypes:
            continue
        visible[path] = mount
        while path := path.rpartition("/")[0]:
            above.add(path)
    return list(visible.values())


def kernel_mounts(rootfs: str) -> tuple[str, ...]:
    """Return this process's mount points of proc and sysfs outside ``rootfs``, latest first.

    With ``--no-pivot``, a container could still reach these mounts, so the executor unmounts them.
    Raises HostError.
    """
    try:
        return find_kernel_mounts(own_mountinfo(), rootfs)
    except OSError as error:
        raise HostError(f'read "{OWN}"', error) from None


def find_kernel_mounts(mountinfo: str, rootfs: str) -> tuple[str, ...]:
    """Return the mount points of proc and sysfs outside ``rootfs``, latest first.

    ``mountinfo`` is the text of a mountinfo file.
    """
    targets = [
        mount.target for mount in parse_mountinfo(mountinfo) if mount.fstype in ("proc", "sysfs")
    ]
    outside = [each for each in targets if not f"{each}/".startswith(f"{rootfs.rstrip('/')}/")]
    return tuple(reversed(outside))
