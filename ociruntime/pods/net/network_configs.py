"""Network configurations: the CNI files ``*.conf`` and ``*.conflist``, and two built-in networks.

A file overrides files with the same file name in directories of lower precedence.  A network
overrides networks with the same network name in directories of lower precedence, and a built-in
network with this name.  Networks are sorted by file name; the built-in networks come last.
"""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base.errors import NetworkError, reason
from ociruntime.pods.net.call_plugins import BUILTIN, is_plugin_name
from ociruntime.pods.net.plugin_parameters import UNSAID, VERSIONS, check_dns

SUFFIXES = (".conf", ".conflist")
# Keywords of --net: a network cannot have these names.
RESERVED = ("none", "host", "all")
PLUGIN_DIRECTORIES = ("/usr/lib/ociruntime/plugins/net", "/opt/cni/bin", "/usr/lib/cni")
LONGEST_NAME = 255
LARGEST_FILE = 1 << 20

DEFAULT = "default"
RESTRICTED = "default-restricted"
# Our own member of a network configuration, which CNI ignores, and the members of this object.
OWN = "ociruntime"
_OWN_MEMBERS = (
    ("names", bool, "true or false"),  # pods find each other by name
    ("builtin", bool, "true or false"),  # use built-in plugins even if others are installed
    ("created", str, "a time"),
    ("labels", dict, "a JSON object"),
)


class Configuration:
    """The configuration of a network; ``file`` is its path, or "" for a built-in network.

    ``plugins`` are the configurations of the network's CNI plugins, and ``own`` is the object
    ``ociruntime`` in the configuration file.
    """

    __slots__ = ("file", "name", "own", "plugins", "version")

    def __init__(
        self,
        name: str,
        version: str,
        plugins: tuple[dict[str, Any], ...],
        file: str,
        own: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.plugins = plugins
        self.file = file
        self.own = own or {}

    @property
    def has_names(self) -> bool:
        """True if the pods on this network find each other by name."""
        return self.own.get("names") is True

    @property
    def uses_programs(self) -> bool:
        """True if installed CNI plugins are preferred to built-in ones for this network."""
        return bool(self.file) and self.own.get("builtin") is not True

    @property
    def masquerades(self) -> bool:
        """True if packets from this network's pods to other networks are masqueraded."""
        return any(plugin.get("ipMasq") is True for plugin in self.plugins)


def _built_in(name: str, subnet: str, routes: list[dict[str, str]]) -> Configuration:
    addresses = {"type": "host-local", "subnet": subnet, "routes": routes}
    plugin = {"type": "ptp", "ipMasq": bool(routes), "ipam": addresses}
    return Configuration(name, "1.0.0", (plugin,), "")


BUILT_IN = (
    _built_in(DEFAULT, "172.16.28.0/24", [{"dst": "0.0.0.0/0"}]),
    _built_in(RESTRICTED, "172.31.0.0/16", []),
)


def net_directories(user: str, local: str, system: str, data: str) -> list[str]:
    """Return the directories ``net.d`` of network configurations, highest precedence first.

    Each argument is the parent directory of a ``net.d``, or "" if there is none.  ``user``,
    ``local`` and ``system`` contain the settings of the user, the administrator and the
    distribution; ``data`` is the data directory, where ``ocictl network create`` writes its
    configurations.
    """
    return [f"{parent}/net.d" for parent in (user, local, system, data) if parent]


def plugin_directories(net_directories: list[str]) -> tuple[str, ...]:
    """Return the directories to search for CNI plugins, those in ``net_directories`` first."""
    return (*net_directories, *PLUGIN_DIRECTORIES)


def load(net_directories: list[str]) -> list[Configuration]:
    """Return the networks configured in ``net_directories``, then the built-in networks.

    The configured networks are sorted by file name.  Of several networks with the same name, the
    one in the first directory is used.  Raises NetworkError, whose message contains the path, if a
    file is invalid, or if two files of the same directory define networks of the same name.
    """
    files: dict[str, str] = {}
    for directory in net_directories:
        for name in _names(directory):
            files.setdefault(name, directory)
    paths = [(name, f"{directory}/{name}") for name, directory in files.items()]
    parsed = [(name, path, _read(path)) for name, path in paths]
    strength = {directory: i for i, directory in enumerate(net_directories)}
    chosen: dict[str, tuple[int, str, Configuration]] = {}
    for name, path, configuration in sorted(parsed, key=lambda item: strength[files[item[0]]]):
        level = strength[files[name]]
        other = chosen.get(configuration.name)
        if other is not None and other[0] == level:
            raise NetworkError(
                f'load "{path}": network "{configuration.name}" is already defined in '
                f'"{other[2].file}"'
            )
        if other is None:
            chosen[configuration.name] = (level, name, configuration)
    ordered = [item for _, _, item in sorted(chosen.values(), key=lambda item: (item[1], item[0]))]
    return ordered + [item for item in BUILT_IN if item.name not in chosen]


def _names(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if name.endswith(SUFFIXES))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise NetworkError(f'read the directory "{directory}": {reason(error)}') from None


def _read(path: str) -> Configuration:
    import json

    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise NetworkError(f'read "{path}": larger than {LARGEST_FILE} bytes')
        value = json.loads(data)
    except OSError as error:
        raise NetworkError(f'read "{path}": {reason(error)}') from None
    except (ValueError, RecursionError) as error:
        raise NetworkError(f'read "{path}": invalid JSON: {error}') from None
    return parse(value, path)


def parse(value: object, path: str) -> Configuration:
    """Check ``value``, the JSON document in the file ``path``, and return the configuration.

    If ``value`` is not a valid configuration, raises NetworkError, whose message contains the path
    and the invalid member.
    """
    if not isinstance(value, dict):
        raise NetworkError(f'load "{path}": a network configuration must be a JSON object')
    name = value.get("name")
    if not isinstance(name, str) or not is_name(name):
        raise NetworkError(
            f'load "{path}": "name" must be a valid network name',
            "use a letter or digit, then letters, digits and ._-",
        )
    if name in RESERVED:
        raise NetworkError(f'load "{path}": the name "{name}" is reserved for --net')
    version = value.get("cniVersion", UNSAID)
    if version not in VERSIONS:
        raise NetworkError(f'load "{path}": "cniVersion" must be one of {", ".join(VERSIONS)}')
    if "plugins" in value or path.endswith(".conflist"):
        plugins = value.get("plugins")
        if not isinstance(plugins, list) or not plugins:
            raise NetworkError(f'load "{path}": "plugins" must be a list of plugins')
    else:
        plugins = [{k: v for k, v in value.items() if k not in ("name", "cniVersion", OWN)}]
    for i, plugin in enumerate(plugins):
        where = f'load "{path}": plugins[{i}]' if "plugins" in value else f'load "{path}"'
        _check_plugin(plugin, where)
    own = value.get(OWN, {})
    _check_own(own, plugins, path)
    return Configuration(name, version, tuple(plugins), path, own)


def _check_own(own: object, plugins: list[dict[str, Any]], path: str) -> None:
    if not isinstance(own, dict):
        raise NetworkError(f'load "{path}": "{OWN}" must be a JSON object')
    for name, kind, expected in _OWN_MEMBERS:
        if name in own and not isinstance(own[name], kind):
            raise NetworkError(f'load "{path}": "{OWN}.{name}" must be {expected}')
    for plugin in plugins if own.get("builtin") else ():
        if plugin["type"] not in BUILTIN:
            known = ", ".join(BUILTIN)
            raise NetworkError(
                f'load "{path}": unknown built-in plugin "{plugin["type"]}"', f"supported: {known}"
            )


def is_name(text: str) -> bool:
    """Return whether ``text`` is a valid CNI network name that is safe as a file name."""
    return (
        0 < len(text) <= LONGEST_NAME
        and text.isascii()
        and text[0].isalnum()
        and all(character.isalnum() or character in "._-" for character in text)
    )


def _check_plugin(plugin: object, where: str) -> None:
    if not isinstance(plugin, dict):
        raise NetworkError(f"{where}: must be a JSON object")
    if not is_plugin_name(plugin.get("type")):
        raise NetworkError(f'{where}: "type" must be the name of a plugin')
    for name in ("ipam", "capabilities", "dns", "runtimeConfig"):
        if name in plugin and not isinstance(plugin[name], dict):
            raise NetworkError(f'{where}: "{name}" must be a JSON object')
    check_dns(plugin.get("dns"), f'{where}: "dns"')
