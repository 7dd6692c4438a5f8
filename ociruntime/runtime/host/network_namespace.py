"""A network namespace whose devices are identified by sysfs inodes, which no process can forge.

With CAP_NET_ADMIN in a namespace, a process can choose the name, index and hardware address of
every device there.  But the kernel chooses the inode number of a device's directory in sysfs.  That
number stays the same when the device moves to another namespace, and is not reused before a reboot.
"""

from __future__ import annotations

import os

from ociruntime.base.rtnetlink import OWN_NAMESPACE, Link, Rtnetlink, in_new_namespace

_TRIES = 1000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NetworkNamespace:
    """The calling thread's network namespace; ``links`` is a netlink socket in it.

    The object still refers to that namespace after the thread has entered another one.
    """

    __slots__ = ("_devices", "links")

    def __init__(self) -> None:
        """Open the calling thread's network namespace.

        Raises OSError if no netlink socket can be opened in it.
        """
        self._devices = _open_devices()
        self.links = Rtnetlink()

    def __del__(self) -> None:
        if hasattr(self, "links"):
            self.links.close()
        if getattr(self, "_devices", -1) >= 0:
            os.close(self._devices)

    def identity(self, name: str) -> int:
        """Return the inode number in sysfs of the device ``name``; 0 if sysfs is not available.

        Raises OSError if sysfs has no such device.
        """
        if self._devices < 0:
            return 0
        return os.stat(os.fsencode(name), dir_fd=self._devices).st_ino

    def find(self, identity: int, index: int = 0) -> Link | None:
        """Return the device with the inode number ``identity`` in sysfs, or None.

        ``index``: last known index of the device, or 0.  The index helps because a listing of the
        directory can miss a device that a process keeps renaming.  Raises OSError if a system call
        fails.
        """
        if not identity or self._devices < 0:
            return None
        for _ in range(_TRIES):
            link, steady = self._find_by_index(identity, index)
            if link is None and steady:
                link, steady = self._find_in_all(identity)
            if link is not None or steady:
                return link
        return None

    def _find_by_index(self, identity: int, index: int) -> tuple[Link | None, bool]:
        """Return (device, steady) for the device with this index and this inode number in sysfs.

        The device is None if no device has both.  ``steady`` is False if the device was renamed
        during the search, so that the caller must retry.
        """
        link = self.links.link_at(index) if index else None
        if link is None:
            return None, True
        try:
            return (link if self.identity(link.name) == identity else None), True
        except FileNotFoundError:
            return None, False

    def _find_in_all(self, identity: int) -> tuple[Link | None, bool]:
        """Return (device, steady) for the device whose inode number in sysfs is ``identity``.

        The device is None if there is none.  ``steady`` is False if a device was renamed during the
        search, so that the caller must retry.
        """
        steady = True
        for name in os.listdir(self._devices):
            try:
                device = os.open(name, _DIRECTORY, dir_fd=self._devices)
            except FileNotFoundError:
                steady = False
                continue
            except NotADirectoryError:
                continue  # the file bonding_masters
            try:
                if os.fstat(device).st_ino == identity:
                    return self.links.link_at(_index(device)), steady
            finally:
                os.close(device)
        return None, steady


def transit_namespace() -> tuple[NetworkNamespace, int]:
    """Return a new network namespace without processes, and a descriptor of it.

    Raises OSError if the namespace cannot be created, HostError if this process cannot return to
    its own namespace.
    """
    return in_new_namespace(
        lambda: (NetworkNamespace(), os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC))
    )


def _open_devices() -> int:
    """Open class/net in a newly mounted sysfs; return -1 if sysfs cannot be mounted.

    An existing sysfs mount may show the devices of another namespace.
    """
    from ociruntime._system_calls import lib

    sysfs: int = lib.oci_own_sysfs()
    if sysfs < 0:
        return -1
    try:
        return os.open("class/net", _DIRECTORY, dir_fd=sysfs)
    except OSError:
        return -1
    finally:
        os.close(sysfs)


def _index(device: int) -> int:
    """Return the index of a device; ``device`` is a descriptor of its directory in sysfs."""
    fd = os.open("ifindex", os.O_RDONLY | os.O_CLOEXEC, dir_fd=device)
    try:
        return int(os.read(fd, 32))
    finally:
        os.close(fd)
