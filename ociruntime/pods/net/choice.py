"""``--net``: which networks a pod joins; pure, but for ``select``, which reads configurations."""

from __future__ import annotations

from ociruntime.base.errors import NetworkError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pods.net.configuration import Configuration

NONE = "none"
HOST = "host"
ALL = "all"
DEFAULT = "default"
RESTRICTED = "default-restricted"
HINT = "default, default-restricted, none, host, all or names: NAME[:KEY=VALUE;KEY=VALUE],..."


def parse(words: list[str]) -> list[tuple[str, str]]:
    """``NAME[:K=V;K2=V2]``, several with commas -> (name, arguments); none is ``default``.

    Raises UsageError: a name twice, ``none`` or ``host`` beside others, what is no argument.
    """
    found: dict[str, str] = {}
    for word in (part for text in words for part in text.split(",")):
        name, colon, arguments = word.partition(":")
        if not name:
            raise UsageError("--net: a name is missing", HINT)
        if name in found:
            raise UsageError(f'--net: "{name}" twice')
        for argument in arguments.split(";") if colon else ():
            key, equals, _ = argument.partition("=")
            if not key or not equals:
                raise UsageError(f'--net: "{name}": "{argument}" is not KEY=VALUE', HINT)
        if colon and name in (NONE, HOST, ALL):
            raise UsageError(f'--net: "{name}" takes no arguments')
        found[name] = arguments
    for name in (NONE, HOST):
        if name in found and len(found) > 1:
            raise UsageError(f'--net: "{name}" goes with no other network')
    return list(found.items()) or [(DEFAULT, "")]


def refuse_ports(networks: list[tuple[str, str]]) -> None:
    """For a pod with ports to forward.  Raises UsageError."""
    for name, _ in networks:
        if name in (NONE, HOST):
            raise UsageError(f"ports cannot be forwarded with --net={name}")


def select(
    networks: list[tuple[str, str]], known: list[Configuration]
) -> list[tuple[Configuration, str]]:
    """The configurations in the order of ``known``, each with its arguments.

    ``default-restricted`` joins where neither it nor ``default`` was asked for: host and pod
    always reach each other.  Raises NetworkError for an unknown name.
    """
    wanted = dict(networks)
    if NONE in wanted or HOST in wanted:
        return []
    everything = wanted.pop(ALL, None) is not None
    names = [one.name for one in known]
    for name in wanted:
        if name not in names:
            raise NetworkError(f'there is no network "{name}"', ", ".join(["none", "host", *names]))
    if everything:
        for name in names:
            if name != RESTRICTED:
                wanted.setdefault(name, "")
    if DEFAULT not in wanted:
        wanted.setdefault(RESTRICTED, "")
    return [(one, wanted[one.name]) for one in known if one.name in wanted]


def check(networks: list[tuple[str, str]], net_directories: list[str]) -> None:
    """That there are such networks, before anything is made for them.  Raises NetworkError."""
    from ociruntime.pods.net.configuration import load

    if all(name not in (NONE, HOST) for name, _ in networks):
        select(networks, load(net_directories))
