"""Correct settings that the specification forbids but runc and crun accept.

This module is imported only when the strict checks have refused a config.json.  Each rule makes the
document valid without changing what it means to runc and crun, and adds a warning.
docs/spec-decisions.md lists the rules, and the settings that are still refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ociruntime.runtime.spec import schema

Json = Any
_LARGEST_SIZE = 65535  # struct winsize has 16 bits
Rule = Callable[[dict[str, Any]], Iterator[str]]


def tolerate(config: Json) -> list[str]:
    """Correct tolerated settings in ``config``; return a warning for each change."""
    if not isinstance(config, dict):
        return []
    return [warning for rule in RULES for warning in rule(config)]


def _version(config: dict[str, Any]) -> Iterator[str]:
    version = config.get("ociVersion")
    if version in ("1", "1.0", "1.1", "1.2", "1.3"):
        config["ociVersion"] = f"{version}.0" if "." in version else "1.0.0"
        yield f'ociVersion: "{version}" is not a semantic version, read as {config["ociVersion"]}'


def _annotations(config: dict[str, Any]) -> Iterator[str]:
    if "" in _object(config, "annotations"):
        del config["annotations"][""]
        yield "annotations: an empty key is ignored"


def _user(config: dict[str, Any]) -> Iterator[str]:
    process = config.get("process")
    if isinstance(process, dict):
        yield from _zero(process, "process", "user", {})
        if isinstance(process["user"], dict):
            yield from _zero(process["user"], "process.user", "uid")
            yield from _zero(process["user"], "process.user", "gid")


def _io_priority(config: dict[str, Any]) -> Iterator[str]:
    priority = _object(config, "process", "ioPriority")
    if "class" in priority:
        yield from _zero(priority, "process.ioPriority", "priority")


def _zero(parent: dict[str, Any], where: str, name: str, value: Json = 0) -> Iterator[str]:
    """Set a missing member of ``parent`` to its zero value, as Go's JSON decoder does in runc.

    ``where`` is the JSON path of ``parent``.  Yields a warning if the member was missing.
    """
    if name not in parent:
        parent[name] = value
        meaning = "0" if value == 0 else "root"
        yield f"{where}.{name}: is missing; {meaning} is assumed"


def _rlimits(config: dict[str, Any]) -> Iterator[str]:
    """Keep only the last rlimit of each type, which overrides the earlier ones."""
    process = _object(config, "process")
    rlimits = _list(process, "rlimits")
    if not all(isinstance(each, dict) and isinstance(each.get("type"), str) for each in rlimits):
        return
    last = {each["type"]: each for each in rlimits}
    if len(last) < len(rlimits):
        process["rlimits"] = list(last.values())
        yield "process.rlimits: a type is listed twice; its last limit is used"


def _hook_environment(config: dict[str, Any]) -> Iterator[str]:
    hooks = _object(config, "hooks")
    for kind, *_ in schema.HOOKS:
        for index, hook in enumerate(_list(hooks, kind)):
            env = _list(hook, "env") if isinstance(hook, dict) else []
            for entry in [each for each in env if isinstance(each, str) and each.find("=") < 1]:
                env.remove(entry)
                yield f'hooks.{kind}[{index}].env: "{entry}" is not NAME=VALUE and is ignored'


def _relative_paths(config: dict[str, Any]) -> Iterator[str]:
    linux = _object(config, "linux")
    for member in ("maskedPaths", "readonlyPaths"):
        paths = _list(linux, member)
        for index, path in enumerate(paths):
            if isinstance(path, str) and path and path[0] != "/":
                paths[index] = f"/{path}"
                yield f'linux.{member}[{index}]: "{path}" is a relative path, read as "/{path}"'
        if "" in paths:
            linux[member] = [path for path in paths if path != ""]
            yield f"linux.{member}: an empty path is ignored"


def _personality(config: dict[str, Any]) -> Iterator[str]:
    personality = _object(config, "linux", "personality")
    if _list(personality, "flags"):
        personality["flags"] = []
        yield "linux.personality.flags: ignored, because no flags are defined"


def _device_numbers(config: dict[str, Any]) -> Iterator[str]:
    for index, device in enumerate(_list(_object(config, "linux"), "devices")):
        if isinstance(device, dict) and device.get("type") in ("b", "c", "u"):
            yield from _zero(device, f"linux.devices[{index}]", "major")
            yield from _zero(device, f"linux.devices[{index}]", "minor")


def _device_rules(config: dict[str, Any]) -> Iterator[str]:
    for index, rule in enumerate(_list(_object(config, "linux", "resources"), "devices")):
        if isinstance(rule, dict) and "allow" not in rule:
            rule["allow"] = False
            yield f"linux.resources.devices[{index}].allow: is missing; false is assumed"


def _console_size(config: dict[str, Any]) -> Iterator[str]:
    size = _object(config, "process", "consoleSize")
    for name in ("height", "width") if size else ():
        yield from _zero(size, "process.consoleSize", name)
        value = size[name]
        if isinstance(value, int) and value > _LARGEST_SIZE:
            size[name] = value & _LARGEST_SIZE
            yield f"process.consoleSize.{name}: {value} is truncated to 16 bits: {size[name]}"


def _rules_for_all_devices(config: dict[str, Any]) -> Iterator[str]:
    """Correct the ``access`` of rules for all devices: unknown letters have no effect in it.

    An allow rule keeps only its letters r, w and m.  A deny rule gets ``rwm``, because it denies
    all access anyway.  Yields a warning for each corrected rule.
    """
    for index, rule in enumerate(_list(_object(config, "linux", "resources"), "devices")):
        if not isinstance(rule, dict) or rule.get("type", "a") != "a":
            continue
        access, numbers = rule.get("access"), {"major", "minor"} & rule.keys()
        if isinstance(access, str) and set(access) - set("rwm") and not numbers:
            known = "".join(letter for letter in "rwm" if letter in access)
            rule["access"] = known if rule.get("allow") else "rwm"
            where = f"linux.resources.devices[{index}].access"
            yield f'{where}: "{access}" has letters other than r, w and m, read as {rule["access"]}'


def _cgroups_path(config: dict[str, Any]) -> Iterator[str]:
    """Resolve ``..`` in cgroupsPath.

    Leaves a path that leads above the root unchanged, because runc and crun treat it differently.
    """
    linux = _object(config, "linux")
    path = linux.get("cgroupsPath")
    if not isinstance(path, str) or ".." not in path.split("/") or "\0" in path:
        return
    components: list[str] = []
    for name in path.split("/"):
        if name == ".." and not components:
            return
        if name == "..":
            components.pop()
        elif name not in ("", "."):
            components.append(name)
    if components:
        linux["cgroupsPath"] = ("/" if path[0] == "/" else "") + "/".join(components)
        yield f'linux.cgroupsPath: "{path}" contains "..", read as {linux["cgroupsPath"]}'


def _sysctl(config: dict[str, Any]) -> Iterator[str]:
    """Keep only the first line of each sysctl value, because the kernel ignores further lines."""
    sysctl = _object(config, "linux", "sysctl")
    for name, value in sysctl.items():
        if isinstance(value, str) and "\n" in value:
            sysctl[name] = value.partition("\n")[0]
            yield f'linux.sysctl["{name}"]: has several lines; only the first is used'


def _seccomp(config: dict[str, Any]) -> Iterator[str]:
    seccomp = _object(config, "linux", "seccomp")
    for index, rule in enumerate(list(_list(seccomp, "syscalls"))):
        if isinstance(rule, dict) and rule.get("names") == []:
            seccomp["syscalls"].remove(rule)
            yield f"linux.seccomp.syscalls[{index}]: ignored, because the rule has no names"
    if "listenerMetadata" in seccomp and not seccomp.get("listenerPath"):
        del seccomp["listenerMetadata"]
        yield "linux.seccomp.listenerMetadata: ignored, because listenerPath is missing"


RULES: tuple[Rule, ...] = (
    _version,
    _annotations,
    _user,
    _io_priority,
    _rlimits,
    _console_size,
    _hook_environment,
    _relative_paths,
    _personality,
    _device_numbers,
    _device_rules,
    _rules_for_all_devices,
    _cgroups_path,
    _sysctl,
    _seccomp,
)


def _object(parent: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the object at the path ``names`` in ``parent``, or {} if there is no such object."""
    value: Json = parent
    for name in names:
        value = value.get(name)
        if not isinstance(value, dict):
            return {}
    result: dict[str, Any] = value
    return result


def _list(parent: dict[str, Any], name: str) -> list[Any]:
    """Return the list that is the member ``name`` of ``parent``, or [] if there is no such list."""
    value = parent.get(name)
    return value if isinstance(value, list) else []
