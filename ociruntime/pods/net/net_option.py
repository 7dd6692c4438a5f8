"""Parse and check the option --net, which lists the networks of a pod."""

from __future__ import annotations

from ociruntime.base.errors import NetworkError, UsageError
from ociruntime.pods.net.network_configs import DEFAULT, RESTRICTED, Configuration

NONE = "none"
HOST = "host"
ALL = "all"
HINT = "default, default-restricted, none, host, all or names: NAME[:KEY=VALUE;KEY=VALUE],..."


def parse(values: list[str], where: str = "--net") -> list[tuple[str, str]]:
    """Parse the values of --net into pairs (network name, CNI arguments).

    Each value is ``NAME[:K=V;K2=V2],...``.  Returns [("default", "")] if ``values`` is empty.
    Raises UsageError, whose message begins with ``where``, for a duplicate name, for ``none`` or
    ``host`` combined with other networks, or for invalid arguments.
    """
    networks: dict[str, str] = {}
    for word in (part for text in values for part in text.split(",")):
        name, colon, arguments = word.partition(":")
        if not name:
            raise UsageError(f"{where}: the name of a network must not be empty", HINT)
        if name in networks:
            raise UsageError(f'{where}: network "{name}" is given twice')
        for argument in arguments.split(";") if colon else ():
            key, equals, _ = argument.partition("=")
            if not key or not equals:
                raise UsageError(
                    f'{where}: "{name}": argument "{argument}" must be KEY=VALUE', HINT
                )
        if colon and name in (NONE, HOST, ALL):
            raise UsageError(f'{where}: network "{name}" does not accept arguments')
        networks[name] = arguments
    for name in (NONE, HOST):
        if name in networks and len(networks) > 1:
            raise UsageError(f'{where}: "{name}" and other networks are mutually exclusive')
    return list(networks.items()) or [(DEFAULT, "")]


def refuse_ports(networks: list[tuple[str, str]]) -> None:
    """Raise UsageError if ``networks`` include "none" or "host", which cannot forward ports."""
    for name, _ in networks:
        if name in (NONE, HOST):
            raise UsageError(
                f"--net={name}: port forwarding is not possible", "use another network"
            )


def select(
    networks: list[tuple[str, str]], known: list[Configuration]
) -> list[tuple[Configuration, str]]:
    """Return (configuration, CNI arguments) for each of ``networks``, in the order of ``known``.

    ``networks`` are pairs (name, CNI arguments), ``known`` are the network configurations of the
    host.  The name ``all`` selects all of these; with ``none`` or ``host``, the result is [].

    Host and pod must be able to reach each other.  So ``default-restricted`` is added, unless the
    result contains ``default`` or a network whose pods find each other by name.  Raises
    NetworkError for an unknown name.
    """
    chosen = dict(networks)
    if NONE in chosen or HOST in chosen:
        return []
    everything = chosen.pop(ALL, None) is not None
    names = [configuration.name for configuration in known]
    for name in chosen:
        if name not in names:
            hint = f"known networks: {', '.join(['none', 'host', *names])}"
            raise NetworkError(f'unknown network "{name}"', hint)
    if everything:
        for name in names:
            if name != RESTRICTED:
                chosen.setdefault(name, "")
    if DEFAULT not in chosen and not any(
        configuration.has_names for configuration in known if configuration.name in chosen
    ):
        chosen.setdefault(RESTRICTED, "")
    return [
        (configuration, chosen[configuration.name])
        for configuration in known
        if configuration.name in chosen
    ]


def check(networks: list[tuple[str, str]], net_directories: list[str]) -> None:
    """Check that each of ``networks``, pairs (name, CNI arguments), is configured.

    Raises NetworkError for a network that is not configured.
    """
    from ociruntime.pods.net.network_configs import load

    if all(name not in (NONE, HOST) for name, _ in networks):
        select(networks, load(net_directories))
