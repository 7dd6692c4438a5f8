"""The networks that clients create or an administrator configures, and the containers on them.

A network that a client creates is a CNI configuration file in ``net.d`` of the data directory.
``ocipod`` reads it like an administrator's files (``pods/net/network_configs.py``).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from errno import EADDRINUSE
from typing import Any

from ociruntime.base import checks, json_files
from ociruntime.base.errors import BadRequest, Conflict, HostError, NotFound
from ociruntime.base.files import remove_file, replace_file, sync_directory
from ociruntime.base.locks import FileLock
from ociruntime.base.trusted_directories import make_directory
from ociruntime.manager.containers.container_spec import WITHOUT_NAMES, networks_of
from ociruntime.manager.containers.daemon_settings import Settings
from ociruntime.manager.containers.list_filters import (
    DANGLING,
    LABEL,
    NAME,
    Filter,
    check_filters,
    passes,
)
from ociruntime.pods.net import pod_names
from ociruntime.pods.net.addresses import Network, parse_address, parse_network
from ociruntime.pods.net.builtin import host_local
from ociruntime.pods.net.net_option import ALL
from ociruntime.pods.net.network_configs import (
    BUILT_IN,
    OWN,
    RESERVED,
    RESTRICTED,
    Configuration,
    is_name,
    load,
)
from ociruntime.pods.net.subnets import (
    AF_INET,
    free_subnet,
    overlap,
    random_subnet6,
    ranges_of,
    subnets_of,
    used_by_host,
)

Answer = dict[str, Any]

_LONGEST_NAME = 128
_RESERVED = (*RESERVED, *(one.name for one in BUILT_IN), "bridge", "container")
_SPECIAL = {"none": "null", "host": "host"}  # networks without a configuration -> driver
_TRIES = 1000  # random host ports to try before giving up
_MOST_PORTS = 256  # the maximum number of exposed ports that ``publish_all`` publishes
_SUFFIX = ".conflist"
_LOCK = ".lock"
_LARGEST_FILE = 64 << 10  # bytes; no pod starts while net.d has a file above LARGEST_FILE
_LONGEST_PREFIX = {AF_INET: 30}  # a longer prefix leaves less than two host addresses; 126 for IPv6

MEMBERS: checks.Members = {
    "name": checks.text,
    "subnets": checks.list_of(checks.text),
    "gateways": checks.list_of(checks.text),
    "internal": checks.flag,
    "ipv6": checks.flag,
    "labels": checks.strings_by_name,
}


@dataclass(frozen=True)
class User:
    """A container that may use networks; ``spec`` is None if its record is corrupt.

    ``pod`` is the UUID of its pod.  ``addresses()`` returns the container's
    ``{network: IP address}``, {} while it is not running.
    """

    name: str
    spec: dict[str, Any] | None
    pod: str
    addresses: Callable[[], Mapping[str, str]]

    def uses(self, network: str) -> bool:
        """Return whether the container joins the network."""
        joined = [] if self.spec is None else networks_of(self.spec)
        return network in joined or (ALL in joined and network not in (*_SPECIAL, RESTRICTED))


class Networks:
    """The networks of this host; ``users()`` yields a ``User`` for each container."""

    def __init__(self, settings: Settings, users: Callable[[], Iterable[User]]) -> None:
        self._settings = settings
        self._directory = f"{settings.directory}/net.d"
        self._state = f"{settings.directory}/net"
        self._users = users

    def _load(self) -> list[Configuration]:
        return load(self._settings.net_directories)

    def check(self, spec: dict[str, Any]) -> None:
        """Check the networks and network aliases in a new container's ``spec``.

        Raises NotFound for an unknown network, BadRequest if there are aliases but no network
        that resolves names.
        """
        networks = networks_of(spec)
        aliases = spec.get("network_aliases")
        if not aliases and networks in WITHOUT_NAMES:
            return
        known = {configuration.name: configuration for configuration in self._load()}
        for name in networks:
            if name not in known and name not in RESERVED:
                hint = f"create it with ocictl network create {name}"
                raise NotFound(f'create a container: network "{name}" not found', hint)
        if aliases and not any(name in known and known[name].has_names for name in networks):
            hint = "use a network created with ocictl network create"
            message = f'network "{networks[0]}" does not support aliases'
            raise BadRequest("network_aliases", message, hint)

    # --- requests ---

    async def create(self, request: Mapping[str, Any]) -> Answer:
        """Create a network; return its name, subnets and other properties as JSON.

        ``request`` has the members in ``MEMBERS``.  Raises BadRequest if the request is invalid,
        Conflict if the name or subnet is in use, NetworkError if no subnet is free, HostError if
        the network's file cannot be written.
        """
        name = request.get("name")
        if name is None:
            raise BadRequest("name", "the name of the new network is required")
        check_name("name", name)
        given = _given_subnets(request)
        return self._described(await asyncio.to_thread(self._create, name, given, request), [])

    def _create(
        self, name: str, given: list[tuple[Network, str]], request: Mapping[str, Any]
    ) -> Configuration:
        make_directory(os.path.abspath(self._directory), 0o750, "network directory")
        path = f"{self._directory}/{name}{_SUFFIX}"
        with FileLock(f"{self._directory}/{_LOCK}", exclusive=True):
            known = self._load()
            for one in known:
                if one.name == name or one.file.rpartition("/")[2] == f"{name}{_SUFFIX}":
                    hint = f'it is configured in "{one.file}"' if one.file else ""
                    raise Conflict(f'create network "{name}": it already exists', hint)
            document = _document(name, _choose(given, known, request), request)
            data = json_files.text_of(document) + b"\n"
            if len(data) > _LARGEST_FILE:
                raise BadRequest("labels", f"must not exceed {_LARGEST_FILE >> 10} KiB in total")
            try:
                self._remove_temporary()
                replace_file(path, data, 0o640, lasting=True)
                sync_directory(self._directory)
            except OSError as error:
                raise HostError(f'create network "{name}"', error) from None
            return next(one for one in self._load() if one.name == name)

    def _remove_temporary(self) -> None:
        """Remove temporary files that a killed daemon has left in the directory ``net.d``.

        The caller holds the directory's lock.  Raises OSError if a file cannot be removed.
        """
        for name in os.listdir(self._directory):
            if name.startswith(".") and name != _LOCK:
                os.unlink(f"{self._directory}/{name}")

    def find(self, filters: Mapping[str, list[str]]) -> list[Answer]:
        """Return the networks that match ``filters``, sorted by name.

        ``filters`` maps the name of a filter to its values: ``name`` (substring), ``driver``,
        ``label`` (``NAME`` or ``NAME=VALUE``), ``dangling`` (true: no container uses it), ``type``
        (``custom``: created by a client, or ``builtin``).  A network must match at least one value
        of each filter.  Raises BadRequest for an unknown filter or an invalid value.
        """
        check_filters(filters, _FILTERS)
        users = list(self._users())
        networks = [self._described(one, users) for one in self._load()]
        networks += [_special(name, users) for name in _SPECIAL]
        return sorted(
            (one for one in networks if passes(one, filters, _FILTERS)),
            key=lambda one: str(one["name"]),
        )

    def inspect(self, name: str) -> Answer:
        """Return a network as JSON, with its containers' IP addresses.

        The member ``pods`` lists the network's running pods that belong to no container.  Raises
        NotFound if there is no such network.
        """
        users = [one for one in self._users() if one.uses(name)]
        if name in _SPECIAL:
            return _special(name, users)
        answer = self._described(self._named(name), users)
        addresses = {one.name: one.addresses().get(name) for one in users}
        answer["addresses"] = {key: value for key, value in addresses.items() if value}
        answer["pods"] = self._other_pods(name)
        return answer

    async def remove(self, name: str) -> None:
        """Remove a network that a client has created.

        Raises NotFound if the network does not exist.  Raises Conflict if no client has created it,
        if it is in use, or if it may be in use, because a container's record is corrupt.  Raises
        HostError if its file cannot be removed.
        """
        action = f'remove network "{name}"'
        if name in _SPECIAL:
            raise Conflict(f"{action}: it is built in")
        configuration = self._named(name)
        if not self._is_made(configuration):
            file = configuration.file
            origin = f'configured in "{file}"' if file else "built in"
            raise Conflict(f"{action}: it is {origin}")
        if used := _names(name, self._users()):
            users = ", ".join(used)
            raise Conflict(f"{action}: in use by container {users}", "remove the containers first")
        self._refuse_unknown_users(action)
        if pods := self._other_pods(name):
            raise Conflict(f"{action}: in use by pod {', '.join(pods)}", "stop the pods first")
        self._unlink(configuration)
        await asyncio.to_thread(self._clear, name)

    async def prune(self) -> Answer:
        """Remove the unused networks that clients have created; return ``{"removed": [names]}``.

        Raises Conflict if a container's record is corrupt, HostError if a network's file cannot be
        removed.
        """
        self._refuse_unknown_users("prune networks")
        users = list(self._users())
        unused = [
            one
            for one in self._load()
            if self._is_made(one) and not _names(one.name, users) and not self._other_pods(one.name)
        ]
        for one in unused:
            self._unlink(one)
        for one in unused:
            await asyncio.to_thread(self._clear, one.name)
        return {"removed": [one.name for one in unused]}

    # --- common parts ---

    def _named(self, name: str) -> Configuration:
        configuration = next((one for one in self._load() if one.name == name), None)
        if configuration is None:
            raise NotFound(f'network "{name}" not found', "list networks with ocictl network ls")
        return configuration

    def _is_made(self, configuration: Configuration) -> bool:
        return configuration.file.rpartition("/")[0] == self._directory

    def _other_pods(self, name: str) -> list[str]:
        """Return the UUIDs of the network's running pods that belong to no container."""
        own = {one.pod for one in self._users()}
        return sorted(set(pod_names.pods_on(self._state, name)) - own)

    def _refuse_unknown_users(self, action: str) -> None:
        for user in self._users():
            if user.spec is None:
                reason = f'{action}: the record of container "{user.name}" is corrupt:'
                hint = f"remove the container with ocictl rm -f {user.name}"
                raise Conflict(f"{reason} its networks are unknown", hint)

    def _unlink(self, configuration: Configuration) -> None:
        # Callers must not ``await`` between checking for users and this call: a container could
        # join the network meanwhile.
        try:
            remove_file(configuration.file)
        except OSError as error:
            raise HostError(f'remove network "{configuration.name}"', error) from None

    def _clear(self, name: str) -> None:
        """Sync a network's removal to disk, and remove its ``host-local`` address records.

        Ignores errors.  Keeps the address records if a client has created the network again.
        """
        directory = f"{self._state}/{name}"
        with FileLock(f"{self._directory}/{_LOCK}", exclusive=True), suppress(OSError):
            sync_directory(self._directory)
            if any(one.name == name for one in self._load()):
                return  # a client has created it again
            for file in os.listdir(directory):
                if file == host_local.LOCK or file.startswith(host_local.LAST):
                    os.unlink(f"{directory}/{file}")
            os.rmdir(directory)

    def _described(self, one: Configuration, users: Iterable[User]) -> Answer:
        first = one.plugins[0]
        return {
            "name": one.name,
            "driver": str(first["type"]),
            "created_at": one.own.get("created"),
            "internal": first.get("internal") is True,
            "labels": one.own.get("labels") or {},
            "subnets": [
                {"subnet": str(subnet), "gateway": gateway} for subnet, gateway in ranges_of(one)
            ],
            "interface": first.get("bridge"),
            "names": one.has_names,
            "file": one.file or None,
            "containers": _names(one.name, users),
        }


def _names(network: str, users: Iterable[User]) -> list[str]:
    """Return the sorted names of the containers in ``users`` that join ``network``."""
    return sorted({one.name for one in users if one.uses(network)})


def check_name(where: str, name: str) -> None:
    """Raise BadRequest if ``name``, the name of a new network, is invalid or reserved.

    The error message begins with ``where``, the JSON path of the name.
    """
    if not is_name(name) or len(name) > _LONGEST_NAME:
        hint = (
            f"use at most {_LONGEST_NAME} letters, digits, _ . and -; begin with a letter or digit"
        )
        raise BadRequest(where, f'invalid network name "{name}"', hint)
    if name in _RESERVED:
        raise BadRequest(where, f'the network name "{name}" is reserved', "choose another name")


def _special(name: str, users: Iterable[User]) -> Answer:
    return {
        "name": name,
        "driver": _SPECIAL[name],
        "created_at": None,
        "internal": name == "none",
        "labels": {},
        "subnets": [],
        "interface": None,
        "names": False,
        "file": None,
        "containers": _names(name, users),
    }


def _given_subnets(request: Mapping[str, Any]) -> list[tuple[Network, str]]:
    """Return [(subnet, gateway)] for the subnets in a network's create request.

    ``gateway`` is "" if the request has no gateway in the subnet.  Raises BadRequest for an invalid
    subnet or gateway.
    """
    subnets: list[tuple[Network, str]] = []
    for index, text in enumerate(request.get("subnets") or ()):
        where = f"subnets[{index}]"
        try:
            subnet = parse_network(text)
        except ValueError as error:
            raise BadRequest(where, str(error)) from None
        if subnet.address != subnet.first:
            raise BadRequest(where, f'subnet "{text}" has host bits set', f"use {subnet.subnet}")
        longest = _LONGEST_PREFIX.get(subnet.family, 126)
        if not 8 <= subnet.prefix <= longest:
            raise BadRequest(where, f'subnet "{text}": the prefix length must be 8 to {longest}')
        if any(subnet.family == other.family for other, _ in subnets):
            raise BadRequest(where, "a network can have only one IPv4 and one IPv6 subnet")
        subnets.append((subnet, ""))
    for index, text in enumerate(request.get("gateways") or ()):
        where = f"gateways[{index}]"
        try:
            gateway = parse_address(text)
        except ValueError as error:
            raise BadRequest(where, str(error)) from None
        fitting = [
            i for i, (subnet, taken) in enumerate(subnets) if gateway in subnet and not taken
        ]
        if not fitting:
            raise BadRequest(
                where, f'gateway "{text}": no subnet contains it, or its subnet has another gateway'
            )
        subnet = subnets[fitting[0]][0]
        if gateway in (subnet.first, subnet.last):
            raise BadRequest(where, f'gateway "{text}" is not a host address in subnet "{subnet}"')
        subnets[fitting[0]] = (subnet, str(gateway))
    return subnets


def _choose(
    given: list[tuple[Network, str]], known: list[Configuration], request: Mapping[str, Any]
) -> list[tuple[Network, str]]:
    """Return [(subnet, gateway)] for a new network: the requested subnets plus free subnets.

    If the request contains no IPv4 subnet, adds a free one.  If the request sets ``ipv6`` but
    contains no IPv6 subnet, adds a random one.

    ``given`` is the result of ``_given_subnets``, ``known`` lists the existing networks,
    ``request`` is the create request.  ``gateway`` is "" if the request does not set it.  Raises
    Conflict if a requested subnet is in use, NetworkError if no subnet is free, HostError if the
    host's routes cannot be read.
    """
    host = used_by_host()
    for subnet, _ in given:
        for one in known:
            if any(overlap(subnet, other) for other in subnets_of(one)):
                raise Conflict(
                    f'create a network: subnet "{subnet}" overlaps with network "{one.name}"'
                )
        for used in host:
            if used.is_connected and overlap(subnet, used.subnet):
                raise Conflict(
                    f'create a network: subnet "{subnet}" overlaps with '
                    f'"{used.subnet}" of this host'
                )
    chosen = list(given)
    families = {subnet.family for subnet, _ in given}
    if AF_INET not in families:
        taken = [subnet for one in known for subnet in subnets_of(one)]
        chosen.insert(0, (free_subnet([*taken, *(used.subnet for used in host)]), ""))
    if request.get("ipv6") and not families - {AF_INET}:
        chosen.append((random_subnet6(), ""))
    return chosen


def _document(
    name: str, subnets: list[tuple[Network, str]], request: Mapping[str, Any]
) -> dict[str, Any]:
    internal = bool(request.get("internal"))
    ranges = [
        [{"subnet": str(subnet), "gateway": gateway or str(subnet.first.offset(1))}]
        for subnet, gateway in subnets
    ]
    bridge = {
        "type": "bridge",
        "bridge": f"br-{secrets.token_hex(6)}",
        "isGateway": True,
        "isDefaultGateway": not internal,
        "ipMasq": not internal,
        "hairpinMode": True,
        "isolated": True,
        "internal": internal,
        "ipam": {"type": "host-local", "ranges": ranges},
    }
    own = {
        "names": True,
        "builtin": True,
        "created": json_files.now(),
        "labels": dict(request.get("labels") or {}),
    }
    return {"cniVersion": "1.0.0", "name": name, OWN: own, "plugins": [bridge]}


_FILTERS: dict[str, Filter] = {
    "name": NAME,
    "driver": Filter(lambda one, value: one["driver"] == value),
    "label": LABEL,
    "dangling": DANGLING,
    "type": Filter(lambda one, value: value == ("custom" if one["created_at"] else "builtin")),
}


def publish(
    exposed: Iterable[Mapping[str, Any]],
    ports: list[dict[str, Any]],
    taken: Iterable[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return ``ports`` plus a free host port for each exposed port that is not in ``ports``.

    ``taken`` lists the published ports of all containers, including stopped ones.  Raises
    BadRequest if the image exposes too many ports, HostError if no host port is free.
    """
    exposed = list(exposed)
    if len(exposed) > _MOST_PORTS:
        text = f"the image exposes {len(exposed)} ports; at most {_MOST_PORTS} can be published"
        raise BadRequest("publish_all", text, "publish individual ports instead")
    result = list(ports)
    used = {one["host_port"] for one in [*ports, *taken]}
    published = {(one["port"], one.get("protocol") or "tcp") for one in ports}
    for one in exposed:
        port, protocol = one["port"], one["protocol"]
        if (port, protocol) not in published:
            host_port = _free_port(protocol, used)
            used.add(host_port)
            result.append(
                {"host_ip": "", "host_port": host_port, "port": port, "protocol": protocol}
            )
    return result


def _free_port(protocol: str, used: Container[int]) -> int:
    """Return a free TCP or UDP port of this host that is not in ``used``.

    Raises HostError if none is found.
    """
    kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    try:
        for _ in range(_TRIES):
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("", 0))
                port = int(probe.getsockname()[1])
            if port not in used:
                return port
    except OSError as error:
        raise HostError("find a free port on this host", error) from None
    raise HostError("find a free port on this host", OSError(EADDRINUSE, "all ports are in use"))
