"""The parameters of a call to a CNI plugin, and checks of the plugin's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net.addresses import parse_address, parse_network
from ociruntime.pods.net.firewall_rules import Rules


class PluginCall:
    """The parameters of a call to a CNI plugin, installed or built in.

    ``container`` is the pod's UUID.  ``namespace`` is the path of its network namespace, or "" if
    the namespace no longer exists.
    """

    __slots__ = (
        "arguments",
        "configuration",
        "container",
        "directories",
        "firewall",
        "interface",
        "namespace",
        "programs",
        "rules",
        "state_directory",
    )

    def __init__(
        self,
        container: str,
        namespace: str,
        interface: str,
        arguments: str,
        configuration: dict[str, Any],
        directories: tuple[str, ...],
        state_directory: str,
        firewall: str,
        programs: bool = True,
    ) -> None:
        self.container = container
        self.namespace = namespace
        self.interface = interface
        self.arguments = arguments  # K=V;K2=V2
        self.configuration = configuration
        self.directories = directories  # search path of plugins
        self.state_directory = state_directory
        self.firewall = firewall  # nft, iptables or ""
        self.programs = programs  # whether an installed IPAM plugin may assign addresses
        self.rules: list[Rules] = []  # packet filter rules that a built-in plugin has requested

    @property
    def network(self) -> str:
        """The network's name."""
        return str(self.configuration["name"])

    @property
    def previous(self) -> dict[str, Any]:
        """The result of the previous plugin in the chain, or {} for the first plugin."""
        result = self.configuration.get("prevResult")
        return result if isinstance(result, dict) else {}

    def environment(self, command: str) -> Mapping[str, str]:
        """Return the environment variables (CNI_COMMAND ...) for calling an installed plugin."""
        return {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": self.container,
            "CNI_NETNS": self.namespace,
            "CNI_IFNAME": self.interface,
            "CNI_ARGS": self.arguments,
            "CNI_PATH": ":".join(self.directories),
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }

    def argument(self, name: str) -> str:
        """Return the value of ``name`` in ``arguments`` (``K=V;K2=V2``), or "" if it is missing."""
        for word in self.arguments.split(";"):
            key, _, value = word.partition("=")
            if key == name:
                return value
        return ""


# Validate and convert results of CNI plugins.
#
# Internally, results have the form of CNI 1.0.0.  In versions 0.3.1 and 0.4.0, each address has a
# further member "version", its IP family.

VERSIONS = ("0.3.1", "0.4.0", "1.0.0", "1.1.0")
WITH_FAMILY = ("0.3.1", "0.4.0")
# CNI version of a configuration that names none: the oldest one that all current plugins support
# and in which DEL gets the result of ADD.
UNSAID = "0.4.0"


def check_result(value: object, where: str) -> dict[str, Any]:
    """Check ``value``, the output of a CNI plugin, and return it.

    Raises NetworkError, whose message begins with ``where``, if it is not a valid CNI result.
    """
    if not isinstance(value, dict):
        raise NetworkError(f"{where}: its result must be a JSON object")
    for name in ("interfaces", "ips", "routes"):
        items = value.get(name)
        if items is not None and not (
            isinstance(items, list) and all(isinstance(item, dict) for item in items)
        ):
            raise NetworkError(f'{where}: "{name}" of its result must be a list of JSON objects')
    for item in value.get("ips") or ():
        if not isinstance(item.get("address"), str):
            raise NetworkError(f'{where}: each entry of "ips" in its result must have "address"')
        _check_address(item["address"], where)
    check_dns(value.get("dns"), f'{where}: "dns" of its result')
    return value


def _check_address(address: str, where: str) -> None:
    """Raise NetworkError if ``address``, from a plugin's result, is invalid."""
    try:
        if "/" in address:
            parse_network(address)
        else:
            parse_address(address)
    except ValueError:
        shown = ascii(address)
        raise NetworkError(f"{where}: invalid address {shown} in its result") from None


def check_dns(value: object, where: str) -> None:
    """Check ``value``, the object ``dns`` of a CNI configuration or result.

    Its strings are written to resolv.conf, so they must not contain whitespace.  If ``value`` is
    invalid, raises NetworkError, whose message begins with ``where``.
    """
    if value is None:
        return
    if not isinstance(value, dict):
        raise NetworkError(f"{where} must be a JSON object")
    for name in ("nameservers", "search", "options"):
        values = value.get(name) or []
        if not isinstance(values, list) or not all(map(_is_word, values)):
            raise NetworkError(f'{where}: "{name}" must be a list of strings without whitespace')
    if value.get("domain") and not _is_word(value["domain"]):
        raise NetworkError(f'{where}: "domain" must be a string without whitespace')


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and value != "" and " " not in value


def in_version(result: dict[str, Any], version: str) -> dict[str, Any]:
    """Convert the ``result`` of a built-in plugin to the CNI version ``version``."""
    made = {"cniVersion": version, **{k: v for k, v in result.items() if k != "cniVersion"}}
    if version in WITH_FAMILY:
        made["ips"] = [
            {"version": "6" if ":" in ip["address"] else "4", **ip}
            for ip in result.get("ips") or ()
        ]
    return made


def addresses(result: dict[str, Any]) -> tuple[str, str]:
    """Return (first IPv4 address, first IPv6 address) of ``result``, a CNI result.

    The addresses have no prefix length; "" stands for a missing address.
    """
    first = {False: "", True: ""}  # by whether it is IPv6
    for item in result.get("ips") or ():
        address = item["address"].partition("/")[0]
        first[":" in address] = first[":" in address] or address
    return first[False], first[True]


def dns(result: dict[str, Any]) -> dict[str, Any]:
    """Return the non-empty members of ``dns`` in a CNI result, or {} if there are none."""
    settings = result.get("dns") or {}
    members = {}
    for name in ("nameservers", "search", "options"):
        if settings.get(name):
            members[name] = list(settings[name])
    if settings.get("domain"):
        members["domain"] = settings["domain"]
    return members
