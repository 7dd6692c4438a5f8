"""A network namespace and its devices, identified by a number that no process in it can choose.

With CAP_NET_ADMIN in a namespace, a process chooses the name, the index and the hardware address of
every device there.  But the kernel chooses the inode number of a device's directory in sysfs: it
stays the same when the device changes namespaces, and is not reused before a reboot.
"""

from __future__ import annotations

import os

from ociruntime.base.rtnetlink import OWN_NAMESPACE, Link, Rtnetlink, in_new_namespace

_TRIES = 1000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NetworkNamespace:
    """The calling thread's network namespace; ``links`` is a netlink socket in it.

    The object keeps referring to it when the thread enters another one; it owns its descriptors.
    """

    __slots__ = ("_devices", "links")

    def __init__(self) -> None:
        """Raises OSError."""
        self._devices = _open_devices()
        self.links = Rtnetlink()

    def __del__(self) -> None:
        if hasattr(self, "links"):
            self.links.close()
        if getattr(self, "_devices", -1) >= 0:
            os.close(self._devices)

    def identity(self, name: str) -> int:
        """Return the identity of the device with that name, 0 if it cannot be read from sysfs.

        Raises OSError.
        """
        if self._devices < 0:
            return 0
        return os.stat(os.fsencode(name), dir_fd=self._devices).st_ino

    def find(self, identity: int, index: int = 0) -> Link | None:
        """Return the device with that identity, or None.  Raises OSError.

        ``index`` is the one that it had last, 0 if that is not known: a listing alone can miss a
        device that a process renames all the time.
        """
        if not identity or self._devices < 0:
            return None
        for _ in range(_TRIES):
            link, steady = self._look_at(identity, index)
            if link is None and steady:
                link, steady = self._look_through(identity)
            if link is not None or steady:
                return link
        return None

    def _look_at(self, identity: int, index: int) -> tuple[Link | None, bool]:
        """Return the device at that index if it is the one, and whether its name was steady."""
        link = self.links.link_at(index) if index else None
        if link is None:
            return None, True
        try:
            return (link if self.identity(link.name) == identity else None), True
        except FileNotFoundError:
            return None, False

    def _look_through(self, identity: int) -> tuple[Link | None, bool]:
        """Return the device among all, if it is there, and whether all names were steady."""
        steady = True
        for name in os.listdir(self._devices):
            try:
                device = os.open(name, _DIRECTORY, dir_fd=self._devices)
            except FileNotFoundError:
                steady = False
                continue
            except NotADirectoryError:
                continue  # bonding_masters
            try:
                if os.fstat(device).st_ino == identity:
                    return self.links.link_at(_index(device)), steady
            finally:
                os.close(device)
        return None, steady


def transit_namespace() -> tuple[NetworkNamespace, int]:
    """Return a new network namespace without other processes, and a descriptor of it.

    Raises OSError, HostError.
    """
    return in_new_namespace(
        lambda: (NetworkNamespace(), os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC))
    )


def _open_devices() -> int:
    """Open the directory of all devices in a newly mounted sysfs; -1 if it cannot be mounted.

    An existing sysfs mount may show another namespace.
    """
    from ociruntime._shim import lib

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
    """Return the ifindex from the device's sysfs directory: stays correct after a rename."""
    fd = os.open("ifindex", os.O_RDONLY | os.O_CLOEXEC, dir_fd=device)
    try:
        return int(os.read(fd, 32))
    finally:
        os.close(fd)
