"""``--net``: the networks that a pod joins; pure, except ``select``, which reads configurations."""

from __future__ import annotations

from ociruntime.base.errors import NetworkError, UsageError
from ociruntime.pods.net.configuration import DEFAULT, RESTRICTED, Configuration

NONE = "none"
HOST = "host"
ALL = "all"
HINT = "default, default-restricted, none, host, all or names: NAME[:KEY=VALUE;KEY=VALUE],..."


def parse(words: list[str], where: str = "--net") -> list[tuple[str, str]]:
    """Parse ``NAME[:K=V;K2=V2],...`` to (name, arguments); without words, ``default``.

    ``where`` begins the errors.  Raises UsageError for a duplicate name, ``none`` or ``host`` among
    others, or invalid arguments.
    """
    found: dict[str, str] = {}
    for word in (part for text in words for part in text.split(",")):
        name, colon, arguments = word.partition(":")
        if not name:
            raise UsageError(f"{where}: the name must not be empty", HINT)
        if name in found:
            raise UsageError(f'{where}: "{name}" given twice')
        for argument in arguments.split(";") if colon else ():
            key, equals, _ = argument.partition("=")
            if not key or not equals:
                raise UsageError(
                    f'{where}: "{name}": argument "{argument}" must be KEY=VALUE', HINT
                )
        if colon and name in (NONE, HOST, ALL):
            raise UsageError(f'{where}: "{name}" does not accept arguments')
        found[name] = arguments
    for name in (NONE, HOST):
        if name in found and len(found) > 1:
            raise UsageError(f'{where}: "{name}" and other networks are mutually exclusive')
    return list(found.items()) or [(DEFAULT, "")]


def refuse_ports(networks: list[tuple[str, str]]) -> None:
    """Check that the networks allow port forwarding.  Raises UsageError."""
    for name, _ in networks:
        if name in (NONE, HOST):
            raise UsageError(f"--net={name}: port forwarding is not possible")


def select(
    networks: list[tuple[str, str]], known: list[Configuration]
) -> list[tuple[Configuration, str]]:
    """Return the chosen configurations with their arguments, in the order of ``known``.

    ``default-restricted`` is added, because it always connects host and pod, unless ``default`` or
    a network with names was chosen, which do so themselves.  Raises NetworkError for an unknown
    name.
    """
    wanted = dict(networks)
    if NONE in wanted or HOST in wanted:
        return []
    everything = wanted.pop(ALL, None) is not None
    names = [one.name for one in known]
    for name in wanted:
        if name not in names:
            raise NetworkError(f'unknown network "{name}"', ", ".join(["none", "host", *names]))
    if everything:
        for name in names:
            if name != RESTRICTED:
                wanted.setdefault(name, "")
    if DEFAULT not in wanted and not any(one.has_names for one in known if one.name in wanted):
        wanted.setdefault(RESTRICTED, "")
    return [(one, wanted[one.name]) for one in known if one.name in wanted]


def check(networks: list[tuple[str, str]], net_directories: list[str]) -> None:
    """Check that the networks exist, before anything is created.  Raises NetworkError."""
    from ociruntime.pods.net.configuration import load

    if all(name not in (NONE, HOST) for name, _ in networks):
        select(networks, load(net_directories))
