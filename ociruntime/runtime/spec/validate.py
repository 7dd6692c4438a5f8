"""Check the specification's rules that involve several members of a config.json.

These checks need only the document.  Other packages check it against facts about the host, such as
whether a path exists, and refuse valid settings that ociruntime does not support.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.config_types import Config, Hooks, Mount
from ociruntime.runtime.spec.state_document import SPEC_VERSION
from ociruntime.runtime.spec.validate_linux import (
    namespace_paths,
    validate_linux,
    validate_mappings,
    validate_namespaces,
)
from ociruntime.runtime.spec.validate_process import check_environment, validate_process

_LONGEST_NAME = 64  # bytes of a host or domain name: __NEW_UTS_LEN


def validate(config: Config) -> list[str]:
    """Check the specification's rules for a config; return the warnings.

    ``config`` must have passed ``check_schema``.  Raises ConfigError if it breaks a rule.
    """
    warnings = check_version(config["ociVersion"])
    if not config["root"]["path"]:
        raise ConfigError("root.path", "must not be empty")
    linux = config.get("linux", {})
    namespaces = namespace_paths(linux.get("namespaces", []))
    validate_namespaces(linux, namespaces)
    if "process" in config:
        validate_process(config["process"], linux, namespaces, warnings)
    else:
        _check_misspelled_process(config)
    if "hooks" in config:
        _hooks(config["hooks"])
    _names(config, namespaces)
    warnings += _mounted_on_host(config, namespaces)
    validate_mounts(config.get("mounts", []), namespaces, warnings)
    validate_linux(linux, namespaces, warnings)
    return warnings


def _hooks(hooks: Hooks) -> None:
    for kind, entries in (
        ("prestart", hooks.get("prestart", [])),
        ("createRuntime", hooks.get("createRuntime", [])),
        ("createContainer", hooks.get("createContainer", [])),
        ("startContainer", hooks.get("startContainer", [])),
        ("poststart", hooks.get("poststart", [])),
        ("poststop", hooks.get("poststop", [])),
    ):
        for index, hook in enumerate(entries):
            check_environment(hook.get("env", []), f"hooks.{kind}[{index}].env")


def _check_misspelled_process(config: Config) -> None:
    """Raise ConfigError if the config lacks ``process`` but has an unknown key with a similar name.

    A config without ``process`` and without such a key is valid.
    """
    from ociruntime.runtime.spec import schema
    from ociruntime.runtime.spec.config_errors import missing

    error = missing("process", dict(config), schema.CONFIG)
    if error.hint:
        raise error


def _names(config: Config, namespaces: dict[str, str]) -> None:
    for where, name in (
        ("hostname", config.get("hostname", "")),
        ("domainname", config.get("domainname", "")),
    ):
        if len(name.encode()) > _LONGEST_NAME:
            raise ConfigError(where, f"must not be longer than {_LONGEST_NAME} bytes")
        if name and where == "domainname":
            _check_one_domainname(config)
        # Without a UTS namespace the host's name would change.
        if name and "uts" not in namespaces:
            raise ConfigError(
                where, "needs a uts namespace", 'add {"type": "uts"} to linux.namespaces'
            )


def _check_one_domainname(config: Config) -> None:
    from ociruntime.runtime.spec.sysctl import sysctl_path

    for key in config.get("linux", {}).get("sysctl", {}):
        if sysctl_path(key) == "kernel/domainname":
            raise ConfigError(
                f'linux.sysctl["{key}"]', "conflicts with domainname", "set only one of the two"
            )


def needing_mounts(config: Config) -> list[str]:
    """Return the JSON paths of the settings in ``config`` that require a mount."""
    linux = config.get("linux") or {}
    process = config.get("process")
    settings = (
        ("mounts", config.get("mounts")),
        ("root.readonly", config["root"].get("readonly")),
        ("linux.maskedPaths", linux.get("maskedPaths")),
        ("linux.readonlyPaths", linux.get("readonlyPaths")),
        ("linux.rootfsPropagation", linux.get("rootfsPropagation")),
        ("process.terminal", process and process.get("terminal")),
    )
    return [where for where, value in settings if value]


def _mounted_on_host(config: Config, namespaces: dict[str, str]) -> list[str]:
    """Return a warning if mounts will be made in the runtime's mount namespace, else [].

    ``namespaces``: {type: path} of ``linux.namespaces``.
    """
    where = [] if "mount" in namespaces else needing_mounts(config)
    if not where:
        return []
    meaning = (
        "without a mount namespace, this is mounted on the host, below root.path, until `delete`"
    )
    return [f"{where[0]}: {meaning}"]


OLDEST = "1.0.0"
NEWEST = SPEC_VERSION

_DIGITS = frozenset("0123456789")
_LETTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


def check_version(version: str) -> list[str]:
    """Check that ociVersion is 1.x; return a warning if it is newer than NEWEST, else [].

    Raises ConfigError for any other version.
    """
    numbers = parse(version)
    if numbers is None:
        hint = "write three numbers separated by dots, such as 1.2.1 or 1.0.2-dev"
        raise ConfigError("ociVersion", f'"{version}" is not a semantic version', hint)
    known = parse(NEWEST) or (1, 0, 0)
    if numbers[0] != known[0]:
        hint = f"supported: {OLDEST[:3]} to {NEWEST[:3]}"
        raise ConfigError("ociVersion", f"unsupported ociVersion {version}", hint)
    if numbers[1] > known[1]:
        newer = f"ociVersion {version} is newer than {NEWEST}"
        return [f"{newer}: settings that it added are ignored"]
    return []


def parse(version: str) -> tuple[int, int, int] | None:
    """Return (major, minor, patch) of a semantic version, or None if ``version`` is not valid."""
    core, plus, build = version.partition("+")
    core, dash, prerelease = core.partition("-")
    numbers = core.split(".")
    if len(numbers) != 3 or not all(_is_number(number) for number in numbers):
        return None
    if plus and not all(_is_word(word) for word in build.split(".")):
        return None
    if dash and not all(
        _is_word(word) and (not _DIGITS.issuperset(word) or _is_number(word))
        for word in prerelease.split(".")
    ):
        return None
    return int(numbers[0]), int(numbers[1]), int(numbers[2])


def _is_number(text: str) -> bool:
    return 0 < len(text) < 19 and _DIGITS.issuperset(text) and (text == "0" or text[0] != "0")


def _is_word(text: str) -> bool:
    return bool(text) and _LETTERS.issuperset(text)


def validate_mounts(mounts: list[Mount], namespaces: dict[str, str], warnings: list[str]) -> None:
    """Check the rules for ``mounts``, and append to ``warnings``.

    ``namespaces``: {type: path} of ``linux.namespaces``.  Raises ConfigError for a broken rule.
    """
    for index, mount in enumerate(mounts):
        where = f"mounts[{index}]"
        destination = mount["destination"]
        if not destination:
            raise ConfigError(f"{where}.destination", "must not be empty")
        if destination[0] != "/":  # CFG-MOUNT-03, -04
            warnings.append(
                f'{where}.destination: "{destination}" is relative; it is resolved from /'
            )
        options = mount.get("options", [])
        binds = "bind" in options or "rbind" in options
        remounts = "remount" in options
        if not mount.get("type") and not binds and not remounts:
            hint = 'required unless the options contain "bind" or "rbind"'
            raise ConfigError(f"{where}.type", "is missing", hint)
        if binds and not remounts and not mount.get("source"):
            raise ConfigError(f"{where}.source", "is missing", "a bind mount needs a source")
        mapped = "uidMappings" in mount or "gidMappings" in mount
        if mapped or "idmap" in options or "ridmap" in options:
            _id_mapped(mount, where, namespaces, warnings)


def _id_mapped(mount: Mount, where: str, namespaces: dict[str, str], warnings: list[str]) -> None:
    """Check the id mappings of the mount at JSON path ``where``, and append to ``warnings``.

    ``namespaces``: {type: path} of ``linux.namespaces``.  Raises ConfigError for a broken rule.
    """
    uids, gids = mount.get("uidMappings", []), mount.get("gidMappings", [])
    if bool(uids) != bool(gids):
        absent, present = ("gid", "uid") if uids else ("uid", "gid")
        hint = f"set both or none: {present}Mappings is set"
        raise ConfigError(f"{where}.{absent}Mappings", "is missing", hint)
    validate_mappings(uids, f"{where}.uidMappings")
    validate_mappings(gids, f"{where}.gidMappings")
    for position, option in enumerate(mount.get("options", [])):
        if option in ("idmap", "ridmap"):
            if not uids and "user" not in namespaces:
                message = f'"{option}" has no mapping to apply'
                hint = "add uidMappings and gidMappings to the mount, or use a user namespace"
                raise ConfigError(f"{where}.options[{position}]", message, hint)
            return
    if uids:
        warnings.append(f'{where}: id mappings are applied, although the option "idmap" is missing')
