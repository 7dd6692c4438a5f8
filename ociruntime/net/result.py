"""Results of CNI plugins: checking them, their versions, reading addresses from them; pure.

The form that is worked with inside is that of 1.0.0.  0.3.1 and 0.4.0 also name the family of each
address.
"""

from __future__ import annotations

from ociruntime.errors import NetworkError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("0.3.1", "0.4.0", "1.0.0", "1.1.0")
WITH_FAMILY = ("0.3.1", "0.4.0")
# A configuration that says nothing: the oldest version that every plugin of today speaks and that
# hands results back at DEL.
UNSAID = "0.4.0"


def check_result(value: object, plugin: str) -> dict[str, Any]:
    """What a plugin has printed, taken apart.  Raises NetworkError."""
    if not isinstance(value, dict):
        raise NetworkError(f"plugin {plugin}: its result is no JSON object")
    for name in ("interfaces", "ips", "routes"):
        items = value.get(name)
        if items is not None and not (
            isinstance(items, list) and all(isinstance(item, dict) for item in items)
        ):
            raise NetworkError(f'plugin {plugin}: "{name}" of its result is no list of objects')
    for item in value.get("ips") or ():
        if not isinstance(item.get("address"), str):
            raise NetworkError(f'plugin {plugin}: an address of its result has no "address"')
    dns = value.get("dns")
    if dns is not None and not isinstance(dns, dict):
        raise NetworkError(f'plugin {plugin}: "dns" of its result is no object')
    return value


def in_version(result: dict[str, Any], version: str) -> dict[str, Any]:
    """A result of ours as plugins of that version write it."""
    made = {"cniVersion": version, **{k: v for k, v in result.items() if k != "cniVersion"}}
    if version in WITH_FAMILY:
        made["ips"] = [
            {"version": "6" if ":" in ip["address"] else "4", **ip} for ip in result.get("ips", ())
        ]
    return made


def addresses(result: dict[str, Any]) -> tuple[str, str]:
    """The first address of each family without its length: (IPv4 or "", IPv6 or "")."""
    found = {False: "", True: ""}
    for item in result.get("ips") or ():
        address = item["address"].partition("/")[0]
        found[":" in address] = found[":" in address] or address
    return found[False], found[True]


def dns(result: dict[str, Any]) -> dict[str, Any]:
    """What the result says about names, whole or {} without any servers, domain and so on."""
    said = result.get("dns") or {}
    members = {}
    for name in ("nameservers", "search", "options"):
        words = said.get(name)
        if isinstance(words, list) and words:
            members[name] = [str(word) for word in words]
    if isinstance(said.get("domain"), str) and said["domain"]:
        members["domain"] = said["domain"]
    return members
