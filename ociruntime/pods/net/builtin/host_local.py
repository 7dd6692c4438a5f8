"""The plugin ``host-local``: addresses from ranges, each taken by a file of its name.

The files are those of the plugin of that name by the CNI project, so that either can go on where
the other was: ``DIRECTORY/NETWORK/ADDRESS`` holds container and interface, ``lock`` is locked
while one is chosen, ``last_reserved_ip.N`` says where range N goes on.
"""

from __future__ import annotations

import fcntl
import posix

from ociruntime.base.errors import HostError, NetworkError, reason
from ociruntime.base.trusted import make_directory
from ociruntime.pods.net import owners
from ociruntime.pods.net.addresses import Address, Network, parse_address, parse_network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.pods.net.plugin_call import PluginCall

DEFAULT_DIRECTORY = "/var/lib/cni/networks"
LOCK = "lock"
LAST = "last_reserved_ip."
AF_INET = 2


class Range:
    """Addresses from ``start`` to ``end`` of a subnet; its gateway is never given away."""

    __slots__ = ("end", "gateway", "start", "subnet")

    def __init__(self, subnet: Network, start: Address, end: Address, gateway: Address) -> None:
        self.subnet = subnet
        self.start = start
        self.end = end
        self.gateway = gateway

    def __contains__(self, address: Address) -> bool:
        return (
            address.family == self.subnet.family
            and self.start.number <= address.number <= self.end.number
            and address != self.gateway
        )


def ranges_of(ipam: dict[str, Any]) -> list[list[Range]]:
    """The sets of ranges of a configuration: one address comes from each set.

    Raises NetworkError.
    """
    for name in ("dataDir", "resolvConf"):
        _path(ipam, name)
    sets = ipam.get("ranges") or []
    if not isinstance(sets, list) or not all(isinstance(one, list) and one for one in sets):
        raise NetworkError('ipam: "ranges" is a list of lists of ranges')
    if "subnet" in ipam:
        sets = [[ipam], *sets]
    if not sets:
        raise NetworkError('ipam: neither "subnet" nor "ranges"')
    return [[_range(one) for one in ranges] for ranges in sets]


def _path(ipam: dict[str, Any], name: str) -> str:
    """What the configuration has, which may be nothing.  Raises NetworkError."""
    path = ipam.get(name) or ""
    if path and not (isinstance(path, str) and path.startswith("/") and path.isprintable()):
        raise NetworkError(f'ipam: "{name}" is no absolute path')
    return str(path)


def _range(value: object) -> Range:
    if not isinstance(value, dict) or not isinstance(value.get("subnet"), str):
        raise NetworkError('ipam: a range needs "subnet"')
    try:
        subnet = parse_network(value["subnet"])
        if subnet.address != subnet.first or subnet.prefix > subnet.address.bits - 2:
            raise ValueError(f'"{subnet}" is no subnet with room for a pod')
        last = subnet.last.offset(-1 if subnet.family == AF_INET else 0)
        found = {"rangeStart": subnet.first.offset(1), "rangeEnd": last}
        found["gateway"] = subnet.first.offset(1)
        for name in ("rangeStart", "rangeEnd", "gateway"):
            if value.get(name):
                found[name] = parse_address(str(value[name]))
                if found[name] not in subnet:
                    raise ValueError(f"{name} {found[name]} is not in {subnet}")
        if found["rangeStart"].number > found["rangeEnd"].number:
            raise ValueError("rangeStart is behind rangeEnd")
    except ValueError as error:
        raise NetworkError(f"ipam: {error}") from None
    return Range(subnet, found["rangeStart"], found["rangeEnd"], found["gateway"])


def validate(call: PluginCall) -> None:
    """Raises NetworkError: this is asked for by ``ipam`` of another plugin alone."""
    raise NetworkError(f'network "{call.network}": "host-local" is no plugin that makes links')


def add(call: PluginCall) -> dict[str, Any]:
    """Take an address of each set of ranges.  Raises NetworkError; nothing is taken then."""
    ipam = call.configuration["ipam"]
    sets = ranges_of(ipam)
    wanted = _requested(call)
    dns = _dns(ipam)
    directory = _directory(call)
    taken: list[str] = []
    ips = []
    lock = _lock(directory)
    try:
        for number, ranges in enumerate(sets):
            requested = next((one for one in wanted if any(one in r for r in ranges)), None)
            if requested is not None:
                wanted.remove(requested)
            one, address = _choose(call, directory, number, ranges, requested)
            taken.append(str(address))
            ips.append(
                {"address": str(Network(address, one.subnet.prefix)), "gateway": str(one.gateway)}
            )
        if wanted:
            raise NetworkError(f'network "{call.network}" has no address {wanted[0]}')
    except BaseException:
        for name in taken:
            posix.unlink(f"{directory}/{name}")
        raise
    finally:
        posix.close(lock)
    return {"ips": ips, "routes": ipam.get("routes") or [], "dns": dns}


def delete(call: PluginCall) -> None:
    """Give back what container and interface have.  Raises NetworkError."""
    directory = _directory(call)
    if not posix.access(directory, 0):
        return
    lock = _lock(directory)
    try:
        for name, owner in _leases(directory).items():
            if owner == _owner(call):
                posix.unlink(f"{directory}/{name}")
    finally:
        posix.close(lock)


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """It makes no rules."""
    del call
    return []


def check(call: PluginCall) -> None:
    """Raises NetworkError."""
    if _owner(call) not in _leases(_directory(call)).values():
        raise NetworkError(f'network "{call.network}": {call.container} has no address there')


def _choose(
    call: PluginCall, directory: str, number: int, ranges: list[Range], requested: Address | None
) -> tuple[Range, Address]:
    leases = _leases(directory)
    if requested is not None:
        holder = leases.get(str(requested))
        if holder is not None and holder[0] in _dead(call, directory, leases):
            posix.unlink(f"{directory}/{requested}")
        elif holder is not None:
            raise NetworkError(f'network "{call.network}": {requested} is taken by {holder[0]}')
        _take(directory, number, requested, call)
        return next(one for one in ranges if requested in one), requested
    found = _free(directory, number, ranges, leases)
    if found is None:
        gone = _dead(call, directory, leases)
        for name, owner in leases.items():
            if owner[0] in gone:
                posix.unlink(f"{directory}/{name}")
        found = _free(directory, number, ranges, _leases(directory))
    if found is None:
        raise NetworkError(
            f'network "{call.network}" has no address left of '
            f"{', '.join(f'{one.start} to {one.end}' for one in ranges)}"
        )
    _take(directory, number, found[1], call)
    return found


def _free(
    directory: str, number: int, ranges: list[Range], leases: dict[str, tuple[str, str]]
) -> tuple[Range, Address] | None:
    """The next one behind the one that was given last, and from the beginning then."""
    last = _last(directory, number)
    begin = next((i for i, one in enumerate(ranges) if last is not None and last in one), None)
    spans = [(one, one.start.number, one.end.number) for one in ranges]
    if begin is not None and last is not None:
        one = ranges[begin]
        spans = [
            (one, last.number + 1, one.end.number),
            *spans[begin + 1 :],
            *spans[:begin],
            (one, one.start.number, last.number),
        ]
    for one, start, end in spans:
        for value in range(start, end + 1):
            address = Address(one.subnet.family, value)
            if address != one.gateway and str(address) not in leases:
                return one, address
    return None


def _take(directory: str, number: int, address: Address, call: PluginCall) -> None:
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC
    try:
        fd = posix.open(f"{directory}/{address}", flags, 0o600)
        try:
            posix.write(fd, "\r\n".join(_owner(call)).encode())
        finally:
            posix.close(fd)
        with open(f"{directory}/{LAST}{number}", "w", encoding="ascii") as file:
            file.write(str(address))
    except OSError as error:
        raise NetworkError(f"take {directory}/{address}: {reason(error)}") from None


def _leases(directory: str) -> dict[str, tuple[str, str]]:
    """Container and interface by address.  One that was killed while it wrote has taken none."""
    found = {}
    for name in posix.listdir(directory):
        if name == LOCK or name.startswith(LAST):
            continue
        with open(f"{directory}/{name}", encoding="utf-8", errors="replace") as file:
            words = file.read().split()
        if words:
            found[name] = (words[0], words[1] if len(words) > 1 else "")
        else:
            posix.unlink(f"{directory}/{name}")
    return found


def _last(directory: str, number: int) -> Address | None:
    try:
        with open(f"{directory}/{LAST}{number}", encoding="ascii") as file:
            return parse_address(file.read().strip())
    except (OSError, ValueError):
        return None


def _dead(call: PluginCall, directory: str, leases: dict[str, tuple[str, str]]) -> set[str]:
    """Holders that are gone: of our own directory alone, others' pods are not known here."""
    if directory != f"{call.state_directory}/{call.network}":
        return set()
    return owners.dead(call.state_directory, {owner for owner, _ in leases.values()})


def _lock(directory: str) -> int:
    try:
        make_directory(directory, 0o755, "address directory")
        flags = posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC
        fd = posix.open(f"{directory}/{LOCK}", flags, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
    except HostError as failure:
        raise NetworkError(failure.message, failure.hint) from None
    except OSError as error:
        raise NetworkError(f"lock {directory}: {reason(error)}") from None
    return fd


def _directory(call: PluginCall) -> str:
    directory = _path(call.configuration["ipam"], "dataDir") or DEFAULT_DIRECTORY
    return f"{directory}/{call.network}"


def _owner(call: PluginCall) -> tuple[str, str]:
    return call.container, call.interface


def _requested(call: PluginCall) -> list[Address]:
    words = [call.argument("IP")] if call.argument("IP") else []
    ips = (call.configuration.get("runtimeConfig") or {}).get("ips") or []
    if not isinstance(ips, list):
        raise NetworkError(f'network "{call.network}": "ips" is no list of addresses')
    words += ips
    try:
        return [parse_address(str(word).partition("/")[0]) for word in words]
    except ValueError as error:
        raise NetworkError(f'network "{call.network}": {error}') from None


def _dns(ipam: dict[str, Any]) -> dict[str, Any]:
    path = _path(ipam, "resolvConf")
    if not path:
        return {}
    from ociruntime.pods.net.resolver import parse_resolv_conf

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse_resolv_conf(file.read())
    except OSError as error:
        raise NetworkError(f"ipam: read {path}: {reason(error)}") from None
