"""The process of an `exec`: the container's own with changes, or another one from a file.

Members that a file lacks come from the container's configuration, as in runc: capabilities, labels,
limits, priorities, CPU affinity. Environment, working directory, user, terminal and noNewPrivileges
come from the file alone; a missing user, uid or gid is root.
"""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.base.linux import CAPABILITIES
from ociruntime.runtime.spec.validate_process import validate_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.runtime.lifecycle.exec_options import ExecOptions
    from ociruntime.runtime.spec.document import Config, Process

INHERITED = (
    "apparmorProfile",
    "capabilities",
    "execCPUAffinity",
    "ioPriority",
    "oomScoreAdj",
    "rlimits",
    "scheduler",
    "selinuxLabel",
)
LARGEST_ID = 0xFFFFFFFF - 1  # to the kernel, the number above means "none"


def process_of(config: Config, options: ExecOptions, warnings: list[str]) -> Process:
    """The whole process object, checked.  Raises UsageError, ConfigError."""
    own = config.get("process")
    if options.process_file:
        process = _from_file(options.process_file)
        for name in INHERITED:
            if own and name in own:
                process.setdefault(name, own[name])  # type: ignore[literal-required,misc]
    else:
        process = _from_options(own, options)
    linux = config.get("linux") or {}
    namespaces = {entry["type"]: entry.get("path") or "" for entry in linux.get("namespaces") or ()}
    validate_process(process, linux, namespaces, warnings)
    return process


def _from_file(path: str) -> Process:
    from ociruntime.runtime.spec import shape
    from ociruntime.runtime.spec.check import check
    from ociruntime.runtime.spec.load import parse, read

    document: Any = parse(read(path), path.rpartition("/")[2])
    if isinstance(document, dict) and isinstance(user := document.setdefault("user", {}), dict):
        document["user"] = {"uid": 0, "gid": 0, **user}
    check(document, "object", shape.PROCESS, "process")
    process: Process = document
    return process


def _from_options(own: Process | None, options: ExecOptions) -> Process:
    process: Any = dict(own or {"cwd": "/", "user": {"uid": 0, "gid": 0}})
    process["args"] = options.args
    process["terminal"] = options.tty
    process["env"] = [*(process.get("env") or ()), *options.env]
    process["user"] = _user(process["user"], options)
    if options.cwd:
        if not options.cwd.startswith("/"):
            raise UsageError(f"--cwd {options.cwd}: must be an absolute path of the container")
        process["cwd"] = options.cwd
    if options.no_new_privs:
        process["noNewPrivileges"] = True
    if options.apparmor:
        process["apparmorProfile"] = options.apparmor
    if options.process_label:
        process["selinuxLabel"] = options.process_label
    if options.capabilities:
        process["capabilities"] = _with_capabilities(
            process.get("capabilities") or {}, options.capabilities
        )
    changed: Process = process
    return changed


def _user(own: Any, options: ExecOptions) -> Any:  # noqa: ANN401  # a part of a JSON document
    user = dict(own)
    if options.user:
        uid, colon, gid = options.user.partition(":")
        user["uid"] = _number(uid, f"--user {options.user}: the uid")
        if colon:
            user["gid"] = _number(gid, f"--user {options.user}: the gid")
    if options.additional_gids:
        more = [_number(text, f"--additional-gids {text}") for text in options.additional_gids]
        user["additionalGids"] = [*(user.get("additionalGids") or ()), *more]
    return user


def _number(text: str, what: str) -> int:
    """Digits and nothing else: names, signs and blanks have been taken for 0 elsewhere."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LARGEST_ID):
        raise UsageError(f"{what} is not a number from 0 to {LARGEST_ID}", "--user UID[:GID]")
    return int(text)


def _with_capabilities(own: Any, added: list[str]) -> Any:  # noqa: ANN401  # as _user
    """Add capabilities like runc: never inheritable (CVE-2022-29162), so ambient only if
    inheritable already.
    """
    for name in added:
        if name not in CAPABILITIES:
            from ociruntime.runtime.spec.refusal import nearest

            guess = nearest(name, CAPABILITIES)
            hint = f"did you mean {guess}?" if guess else "a name such as CAP_KILL"
            raise UsageError(f'--cap {name}: unknown capability "{name}"', hint)
    sets = {kind: list(names) for kind, names in own.items()}
    for kind in ("bounding", "effective", "permitted"):
        sets[kind] = [*sets.get(kind, ()), *added]
    inheritable = [name for name in added if name in sets.get("inheritable", ())]
    if inheritable:
        sets["ambient"] = [*sets.get("ambient", ()), *inheritable]
    return sets
