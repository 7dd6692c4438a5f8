"""Annotations of config.json that speak to the systemd driver.

    org.systemd.property.NAME    a property of the unit, in the text form of GVariant; NAMESec
                                 is a number of seconds and becomes NAMEUSec (runc, crun)
    run.oci.systemd.subgroup     the name of a cgroup below the unit's, in which the container
                                 lives; empty: none (crun)

Pure.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.gvariant import Malformed, parse
from ociruntime.runtime.cgroups.systemd_unit import directory_name
from ociruntime.runtime.spec.annotations import PROPERTY, SUBGROUP, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ociruntime.runtime.cgroups.systemd_properties import Property

# What makes the unit the container's is not the configuration's to say.
_RESERVED = ("PIDs", "PIDFDs", "Slice", "Delegate", "DelegateSubgroup", "Scope")
_MICROSECONDS = 1_000_000


def unit_properties(annotations: Mapping[str, str]) -> dict[str, Property]:
    """JSON path -> the property that is asked for there.  Raises ConfigError."""
    return {
        where(key): _property(key, key[len(PROPERTY) :], text)
        for key, text in annotations.items()
        if key.startswith(PROPERTY)
    }


def _property(key: str, name: str, text: str) -> Property:
    if not (name.isascii() and name.isalnum() and len(name) > 2):
        raise ConfigError(where(key), f'"{name}" is not the name of a property')
    if name in _RESERVED:
        raise ConfigError(where(key), "is set by the runtime itself and cannot be given")
    try:
        text.encode()  # half a character of JSON's escapes is none for D-Bus
        signature, value = parse(text)
    except UnicodeEncodeError:
        raise ConfigError(where(key), f"{text!r} is not valid Unicode") from None
    except Malformed as error:
        raise ConfigError(
            where(key),
            f'"{text}" {error}',
            "it is read as GVariant text: 'text', true, 5, uint64 5, ['a', 'b']",
        ) from None
    if not name.endswith("Sec") or name.endswith("USec"):
        return name, signature, value
    if signature not in ("y", "n", "q", "i", "u", "x", "t", "d") or not 0 <= value < 1e12:
        raise ConfigError(where(key), f'"{text}" is not a number of seconds')
    return f"{name[:-3]}USec", "t", round(value * _MICROSECONDS)


def subgroup(annotations: Mapping[str, str]) -> str:
    """Return the name of the cgroup below the unit's, or "".  Raises ConfigError."""
    name = annotations.get(SUBGROUP, "")
    if name and (
        name in (".", "..") or "/" in name or "\0" in name or directory_name(name) != name
    ):
        raise ConfigError(where(SUBGROUP), f'"{name}" cannot be the name of a cgroup')
    return name
