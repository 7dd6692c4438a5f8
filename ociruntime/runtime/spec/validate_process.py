"""Check the specification's rules for the object ``process`` in config.json."""

from __future__ import annotations

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.config_types import Capabilities, IdMapping, Linux, Process, Rlimit


def validate_process(
    process: Process, linux: Linux, namespaces: dict[str, str], warnings: list[str]
) -> None:
    """Check the rules for ``process``, and append to ``warnings``.

    ``namespaces``: {type: path} of ``linux.namespaces``.  Raises ConfigError for a broken rule.
    """
    if not process["args"][0]:
        raise ConfigError("process.args[0]", "must not be empty")
    check_environment(process.get("env", []), "process.env")
    _rlimits(process.get("rlimits", []))
    _capabilities(process.get("capabilities", {}), warnings)
    if namespaces.get("user") == "":
        _check_user_mapped(process, linux)
    affinity = process.get("execCPUAffinity")
    if affinity:
        from ociruntime.runtime.spec.cpu_list import check_list

        check_list("process.execCPUAffinity.initial", affinity.get("initial", ""))
        check_list("process.execCPUAffinity.final", affinity.get("final", ""))


def check_environment(env: list[str], where: str) -> None:
    """Raise ConfigError for an entry of ``env`` that does not have the form NAME=VALUE.

    ``where`` is the JSON path of ``env``.
    """
    for index, entry in enumerate(env):
        if entry.find("=") < 1:
            path = f"{where}[{index}]"
            if "=" in entry:
                raise ConfigError(path, f'"{entry}" has no name before the "="')
            raise ConfigError(path, f'"{entry}" has no "="', "write NAME=VALUE")


def _rlimits(rlimits: list[Rlimit]) -> None:
    seen: dict[str, int] = {}
    for index, rlimit in enumerate(rlimits):
        kind = rlimit["type"]
        if kind in seen:  # CFG-RLIM-06
            message = f'"{kind}" is already listed at process.rlimits[{seen[kind]}]'
            raise ConfigError(f"process.rlimits[{index}].type", message)
        seen[kind] = index
        soft, hard = rlimit["soft"], rlimit["hard"]
        if soft > hard:
            message = f"{soft} is above the hard limit {hard}"
            raise ConfigError(f"process.rlimits[{index}].soft", message)


def _capabilities(capabilities: Capabilities, warnings: list[str]) -> None:
    """Append a warning for each unknown capability name.

    Such a name is no error: the runtime ignores it.
    """
    unknown: dict[str, str] = {}
    for kind, names in (
        ("bounding", capabilities.get("bounding", [])),
        ("effective", capabilities.get("effective", [])),
        ("permitted", capabilities.get("permitted", [])),
        ("inheritable", capabilities.get("inheritable", [])),
        ("ambient", capabilities.get("ambient", [])),
    ):
        for index, name in enumerate(names):
            if name not in CAPABILITIES:
                unknown.setdefault(name, f"process.capabilities.{kind}[{index}]")
    for name, where in unknown.items():
        from ociruntime.runtime.spec.config_errors import nearest

        guess = nearest(name, CAPABILITIES)
        hint = f' (did you mean "{guess}"?)' if guess else ""
        warnings.append(f'{where}: unknown capability "{name}" is ignored{hint}')


def _check_user_mapped(process: Process, linux: Linux) -> None:
    """Raise ConfigError for a uid or gid in process.user that the user namespace does not map."""
    uids, gids = linux.get("uidMappings", []), linux.get("gidMappings", [])
    user = process["user"]
    checks = [
        ("process.user.uid", user["uid"], uids),
        ("process.user.gid", user["gid"], gids),
    ]
    for index, gid in enumerate(user.get("additionalGids", [])):
        checks.append((f"process.user.additionalGids[{index}]", gid, gids))
    for where, number, extents in checks:
        if not _maps(extents, number):
            name = "gidMappings" if extents is gids else "uidMappings"
            raise ConfigError(
                where, f"{number} is not mapped in the user namespace", f"add it to linux.{name}"
            )


def _maps(extents: list[IdMapping], number: int) -> bool:
    return any(
        extent["containerID"] <= number < extent["containerID"] + extent["size"]
        for extent in extents
    )
