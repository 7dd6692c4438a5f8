"""The process object for `exec`: read from a file, or the container's own, changed by options.

A file may lack some members.  As in runc, capabilities, labels, limits, priorities and CPU affinity
then come from the container's config.  Environment, working directory, user, terminal and
noNewPrivileges come only from the file; a missing user, uid or gid is root.
"""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.runtime.spec.validate_process import validate_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.runtime.lifecycle.context import ExecOptions
    from ociruntime.runtime.spec.config_types import Config, Process

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
LARGEST_ID = 0xFFFFFFFF - 1  # the kernel reads the next number, (uid_t)-1, as "none"


def process_of(config: Config, options: ExecOptions, warnings: list[str]) -> Process:
    """Return the checked process object that `exec` runs; append its warnings to ``warnings``.

    Raises UsageError for an invalid option, and ConfigError for an invalid process object.
    """
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
    """Return the process object in the file given with --process.

    Raises ConfigError if the file cannot be read, or is not a process object.
    """
    from ociruntime.base.json_text import parse
    from ociruntime.runtime.spec import schema
    from ociruntime.runtime.spec.check_schema import check
    from ociruntime.runtime.spec.load_config import read

    document: Any = parse(read(path), path.rpartition("/")[2])
    if isinstance(document, dict) and isinstance(user := document.setdefault("user", {}), dict):
        document["user"] = {"uid": 0, "gid": 0, **user}
    check(document, "object", schema.PROCESS, "process")
    process: Process = document
    return process


def _from_options(own: Process | None, options: ExecOptions) -> Process:
    """Return a copy of ``own``, the container's process object, changed by the options.

    Raises UsageError for an invalid option.
    """
    process: Any = dict(own or {"cwd": "/", "user": {"uid": 0, "gid": 0}})
    process["args"] = options.args
    process["terminal"] = options.tty
    process["env"] = [*(process.get("env") or ()), *options.env]
    process["user"] = _user(process["user"], options)
    if options.cwd:
        if not options.cwd.startswith("/"):
            raise UsageError(f'--cwd "{options.cwd}": must be an absolute path in the container')
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
        user["uid"] = _number(uid, f'--user "{options.user}": the uid')
        if colon:
            user["gid"] = _number(gid, f'--user "{options.user}": the gid')
    if options.additional_gids:
        more = [
            _number(text, f'--additional-gids "{text}": the gid')
            for text in options.additional_gids
        ]
        user["additionalGids"] = [*(user.get("additionalGids") or ()), *more]
    return user


def _number(text: str, option: str) -> int:
    """Parse a uid or gid, which must consist of digits.

    Other runtimes have parsed names, signs and blanks as 0, which is root.  ``option`` is the
    beginning of the error message.  Raises UsageError.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LARGEST_ID):
        raise UsageError(
            f"{option} must be a number from 0 to {LARGEST_ID}", "use numbers, not names"
        )
    return int(text)


def _with_capabilities(own: Any, added: list[str]) -> Any:  # noqa: ANN401  # as _user
    """Return the capability sets ``own`` with the capabilities ``added``, as runc adds them.

    An added capability never becomes inheritable (CVE-2022-29162).  It becomes ambient only if it
    is already inheritable.
    """
    sets = {kind: list(names) for kind, names in own.items()}
    for kind in ("bounding", "effective", "permitted"):
        sets[kind] = [*sets.get(kind, ()), *added]
    inheritable = [name for name in added if name in sets.get("inheritable", ())]
    if inheritable:
        sets["ambient"] = [*sets.get("ambient", ()), *inheritable]
    return sets
