"""The IPAM plugin ``host-local``, which stores each assigned address in a file.

The files have the same format as those of CNI's ``host-local``, so each plugin can use the files of
the other:

    DIRECTORY/NETWORK/ADDRESS             the container's id and interface
    DIRECTORY/NETWORK/lock                locked while an address is chosen
    DIRECTORY/NETWORK/last_reserved_ip.N  the last address assigned from range set number N
"""

from __future__ import annotations

import fcntl
import os
from typing import Any

from ociruntime.base.errors import HostError, NetworkError, reason
from ociruntime.base.files import is_there
from ociruntime.base.trusted_directories import make_directory
from ociruntime.pods.net import pod_records
from ociruntime.pods.net.addresses import Address, Network, parse_address, parse_network
from ociruntime.pods.net.plugin_parameters import PluginCall

DEFAULT_DIRECTORY = "/var/lib/cni/networks"
LOCK = "lock"
LAST = "last_reserved_ip."
AF_INET = 2


class Range:
    """The assignable addresses of ``subnet``: from ``start`` to ``end``, except ``gateway``."""

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


def ranges_of(ipam: dict[str, Any], network: str) -> list[list[Range]]:
    """Return the sets of address ranges in ``ipam``, the IPAM configuration of ``network``.

    A pod gets one address from each set.  Raises NetworkError if ``ipam`` is invalid.
    """
    for name in ("dataDir", "resolvConf"):
        _path(ipam, name, network)
    sets = ipam.get("ranges") or []
    if not isinstance(sets, list) or not all(isinstance(one, list) and one for one in sets):
        raise NetworkError(f'network "{network}": "ipam.ranges" must be a list of lists of ranges')
    if "subnet" in ipam:
        sets = [[ipam], *sets]
    if not sets:
        raise NetworkError(f'network "{network}": "ipam.subnet" or "ipam.ranges" is required')
    return [[_range(one, network) for one in ranges] for ranges in sets]


def _path(ipam: dict[str, Any], name: str, network: str) -> str:
    """Return the path in the member ``name`` of ``ipam``, or "" if the member is missing.

    Raises NetworkError if it is not an absolute path.
    """
    path = ipam.get(name) or ""
    if path and not (isinstance(path, str) and path.startswith("/") and path.isprintable()):
        raise NetworkError(f'network "{network}": "ipam.{name}" must be an absolute path')
    return str(path)


def _range(value: object, network: str) -> Range:
    if not isinstance(value, dict) or not isinstance(value.get("subnet"), str):
        raise NetworkError(f'network "{network}": each range of "ipam" must have a "subnet"')
    try:
        subnet = parse_network(value["subnet"])
        if subnet.address != subnet.first:
            raise ValueError(f'subnet "{subnet}" has host bits set (use {subnet.subnet})')
        if subnet.prefix > subnet.address.bits - 2:
            raise ValueError(f'subnet "{subnet}" is too small: it needs at least 4 addresses')
        last = subnet.last.offset(-1 if subnet.family == AF_INET else 0)
        first = subnet.first.offset(1)
        bounds = {"rangeStart": first, "rangeEnd": last, "gateway": first}
        for name in ("rangeStart", "rangeEnd", "gateway"):
            if value.get(name):
                bounds[name] = parse_address(str(value[name]))
                if bounds[name] not in subnet:
                    raise ValueError(f'{name} {bounds[name]} is not in subnet "{subnet}"')
        if bounds["rangeStart"].number > bounds["rangeEnd"].number:
            raise ValueError("rangeStart is greater than rangeEnd")
    except ValueError as error:
        raise NetworkError(f'network "{network}": invalid range in "ipam": {error}') from None
    return Range(subnet, bounds["rangeStart"], bounds["rangeEnd"], bounds["gateway"])


def validate(call: PluginCall) -> None:
    """Always raise NetworkError: ``host-local`` can only be the ``ipam`` of another plugin."""
    raise NetworkError(
        f'network "{call.network}": the plugin "host-local" can only be used in "ipam"'
    )


def add(call: PluginCall) -> dict[str, Any]:
    """Assign the pod an address from each set of ranges; return the CNI result.

    If this raises NetworkError, no address is assigned.
    """
    ipam = call.configuration["ipam"]
    sets = ranges_of(ipam, call.network)
    requests = _requested(call)
    dns = _dns(ipam, call.network)
    directory = _directory(call)
    taken: list[str] = []
    ips = []
    lock = _lock(directory)
    try:
        for number, ranges in enumerate(sets):
            requested = next((one for one in requests if any(one in r for r in ranges)), None)
            if requested is not None:
                requests.remove(requested)
            one, address = _choose(call, directory, number, ranges, requested)
            taken.append(str(address))
            ips.append(
                {"address": str(Network(address, one.subnet.prefix)), "gateway": str(one.gateway)}
            )
        if requests:
            raise NetworkError(
                f'network "{call.network}": assign address {requests[0]}: not in a configured range'
            )
    except BaseException:
        for name in taken:
            os.unlink(f"{directory}/{name}")
        raise
    finally:
        os.close(lock)
    return {"ips": ips, "routes": ipam.get("routes") or [], "dns": dns}


def delete(call: PluginCall) -> None:
    """Release the addresses that are assigned to the pod's interface.

    Raises NetworkError if the directory of addresses cannot be locked, HostError if it cannot be
    looked at.
    """
    directory = _directory(call)
    if not is_there(directory):
        return
    lock = _lock(directory)
    try:
        for name, owner in _leases(directory).items():
            if owner == _owner(call):
                os.unlink(f"{directory}/{name}")
    finally:
        os.close(lock)


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return [], because this plugin adds no packet filter rules."""
    del call
    return []


def check(call: PluginCall) -> None:
    """Check that the pod's interface has an assigned address; if not, raise NetworkError."""
    if _owner(call) not in _leases(_directory(call)).values():
        raise NetworkError(
            f'network "{call.network}": pod {call.container} has no assigned address'
        )


def _choose(
    call: PluginCall, directory: str, number: int, ranges: list[Range], requested: Address | None
) -> tuple[Range, Address]:
    leases = _leases(directory)
    if requested is not None:
        holder = leases.get(str(requested))
        if holder is not None and holder[0] in _dead(call, directory, leases):
            os.unlink(f"{directory}/{requested}")
        elif holder is not None:
            raise NetworkError(
                f'network "{call.network}": assign address {requested}: '
                f"it is in use by pod {holder[0]}"
            )
        _take(directory, number, requested, call)
        return next(one for one in ranges if requested in one), requested
    free = _free(directory, number, ranges, leases)
    if free is None:
        gone = _dead(call, directory, leases)
        for name, owner in leases.items():
            if owner[0] in gone:
                os.unlink(f"{directory}/{name}")
        free = _free(directory, number, ranges, _leases(directory))
    if free is None:
        raise NetworkError(
            f'network "{call.network}": assign an address: no free address in '
            f"{', '.join(f'{one.start} to {one.end}' for one in ranges)}"
        )
    _take(directory, number, free[1], call)
    return free


def _free(
    directory: str, number: int, ranges: list[Range], leases: dict[str, tuple[str, str]]
) -> tuple[Range, Address] | None:
    """Return (range, address) of the next free address after the last one that was assigned.

    ``ranges`` is the range set with the number ``number``.  At the end of the set, the search
    continues at the start.  Returns None if the set has no free address.
    """
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
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(f"{directory}/{address}", flags, 0o600)
        try:
            os.write(fd, "\r\n".join(_owner(call)).encode())
            with open(f"{directory}/{LAST}{number}", "w", encoding="ascii") as file:
                file.write(str(address))
        except OSError:
            os.unlink(f"{directory}/{address}")
            raise
        finally:
            os.close(fd)
    except OSError as error:
        raise NetworkError(
            f'network "{call.network}": assign address {address}: '
            f'write "{directory}/{address}": {reason(error)}'
        ) from None


def _leases(directory: str) -> dict[str, tuple[str, str]]:
    """Return the assigned addresses as {address: (container, interface)}.

    Reads the files in ``directory``, and removes empty files, which were left by a crash.  Raises
    NetworkError if a file cannot be read or removed.
    """
    leases = {}
    path = directory
    try:
        for name in os.listdir(directory):
            if name == LOCK or name.startswith(LAST):
                continue
            path = f"{directory}/{name}"
            with open(path, encoding="utf-8", errors="replace") as file:
                owner = file.read().split()
            if owner:
                leases[name] = (owner[0], owner[1] if len(owner) > 1 else "")
            else:
                os.unlink(path)
    except OSError as error:
        raise NetworkError(f'read the address file "{path}": {reason(error)}') from None
    return leases


def _last(directory: str, number: int) -> Address | None:
    try:
        with open(f"{directory}/{LAST}{number}", encoding="ascii") as file:
            return parse_address(file.read().strip())
    except (OSError, ValueError):
        return None


def _dead(call: PluginCall, directory: str, leases: dict[str, tuple[str, str]]) -> set[str]:
    """Return the UUIDs of the pods in ``leases`` that have exited but not released their addresses.

    Returns an empty set if ``directory`` is not in ocipod's state directory: other programs may
    have leases there, and it is not known whether their containers are running.
    """
    if directory != f"{call.state_directory}/{call.network}":
        return set()
    return pod_records.dead_pods(call.state_directory, {owner for owner, _ in leases.values()})


def _lock(directory: str) -> int:
    try:
        make_directory(directory, 0o755, "address directory")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        fd = os.open(f"{directory}/{LOCK}", flags, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
    except HostError as failure:
        raise NetworkError(failure.message, failure.hint) from None
    except OSError as error:
        raise NetworkError(f'lock the directory "{directory}": {reason(error)}') from None
    return fd


def _directory(call: PluginCall) -> str:
    directory = _path(call.configuration["ipam"], "dataDir", call.network) or DEFAULT_DIRECTORY
    return f"{directory}/{call.network}"


def _owner(call: PluginCall) -> tuple[str, str]:
    return call.container, call.interface


def _requested(call: PluginCall) -> list[Address]:
    texts = [call.argument("IP")] if call.argument("IP") else []
    ips = (call.configuration.get("runtimeConfig") or {}).get("ips") or []
    if not isinstance(ips, list):
        raise NetworkError(f'network "{call.network}": "runtimeConfig.ips" must be a list')
    texts += ips
    try:
        return [parse_address(str(text).partition("/")[0]) for text in texts]
    except ValueError as error:
        raise NetworkError(f'network "{call.network}": assign an address: {error}') from None


def _dns(ipam: dict[str, Any], network: str) -> dict[str, Any]:
    path = _path(ipam, "resolvConf", network)
    if not path:
        return {}
    from ociruntime.pods.net.resolv_conf import parse_resolv_conf

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse_resolv_conf(file.read())
    except OSError as error:
        raise NetworkError(
            f'network "{network}": read "{path}" (ipam.resolvConf): {reason(error)}'
        ) from None
