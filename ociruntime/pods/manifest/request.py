"""Requests for pods and apps, made from a command line or from JSON.

Most fields of a request are both an option of ``ocipod`` and a member of the JSON document:
``cpu_shares`` is ``--cpu-shares``.  Sizes are in bytes, CPU limits in thousandths of a CPU; volumes
and ports have the manifest's form.  The text of an option is parsed first.  Then the same check
applies to the values of options and of JSON members.  Its error messages contain the name of the
option or member.
"""

# ruff: noqa: RUF009 - the functions that are called for a default return a dataclasses.field

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar

from ociruntime.base import checks
from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.checks import flag, list_of, nonempty, one_of, string, strings_by_name
from ociruntime.base.errors import BadRequest, UsageError
from ociruntime.commandline import container_values
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.signal_names import signal_name
from ociruntime.commandline.sizes import CPU_RANGE, milli_cpus
from ociruntime.pods.manifest import (
    isolators,
    kernel_settings,
    ports,
    tmpfs_and_devices,
    user_ids,
    volumes,
)
from ociruntime.pods.manifest.app_names import is_name
from ociruntime.pods.net import hosts_file, net_option, resolv_conf

Json = dict[str, Any]
Parse = Callable[[Any, str], Any]
R = TypeVar("R", bound="BaseRequest")


# --- options: text -> value ---


def _unchanged(value: object, where: str) -> object:
    del where
    return value


def _swap_size(text: str, where: str) -> int:
    return -1 if text == "-1" else isolators.byte_count(text, where)


def _each(parse: Callable[[str, str], Any]) -> Parse:
    return lambda texts, where: [parse(text, where) for text in texts]


def _integer(text: str, where: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise BadRequest(where, f'invalid number "{text}"', "must be a decimal integer")
    return int(text)


def pairs(texts: list[str], where: str) -> dict[str, str]:
    """Parse ``texts``, ``NAME=VALUE`` strings, into {name: value}.

    If a name occurs several times, the last value is used.  Raises BadRequest, whose message begins
    with ``where``, if a string lacks a name or "=".
    """
    split = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, split, strict=True):
        if not name or not equals:
            raise BadRequest(where, f'invalid value "{text}": must be NAME=VALUE')
    return {name: value for name, _, value in split}


def _ids(text: str, where: str) -> list[int]:
    return [user_ids.id_number(where, word) for word in text.split(",")]


def _capabilities(texts: list[str], where: str) -> list[str]:
    del where
    return [isolators.capability(word) for text in texts for word in text.split(",") if word]


def _seccomp(text: str, where: str) -> Json:
    """Parse ``text``, a --seccomp option: ``mode=retain|remove[,errno=NAME],SYSCALL|@SET,...``.

    Returns ``{"mode", "errno", "set": [...]}``.  If ``mode`` or ``errno`` is missing in ``text``,
    it is also missing in the result.  Raises UsageError for any other form.
    """
    form = "mode=retain|remove[,errno=EPERM],NAME,..."
    made: Json = {"set": []}
    for word in text.split(","):
        key, equals, value = word.partition("=")
        if not equals:
            made["set"].append(word)
        elif key in ("mode", "errno") and key not in made:
            made[key] = value
        else:
            raise UsageError(f'{where} {text}: invalid part "{word}"', form)
    return made


def _networks(text: str, where: str) -> list[str]:
    del where
    return [
        name for name in text.split(",") if name not in ("", "true")
    ]  # "true" stands for an option without a value


def _words(texts: list[str], where: str) -> list[str]:
    del where
    return [word for text in texts for word in text.split(",")]


# --- checks ---


def size(where: str, value: object) -> None:
    """Check that ``value``, in bytes, can be a memory limit; if not, raise BadRequest."""
    if type(value) is int and value < isolators.LEAST_MEMORY:
        hint = f"must be at least {isolators.LEAST_MEMORY} bytes"
        raise BadRequest(where, f"{value} is too small", hint)
    checks.number(isolators.LEAST_MEMORY, (1 << 63) - 1)(where, value)


def swap_size(where: str, value: object) -> None:
    """Check that ``value`` is a limit of memory plus swap in bytes, or -1 for unlimited.

    Raises BadRequest for any other value.
    """
    if value != -1:
        size(where, value)


def signal(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    """Check that ``value`` is the name or number of a signal; if not, raise BadRequest."""
    nonempty(where, value)
    try:
        signal_name(value)
    except UsageError as error:
        raise BadRequest(where, error.message, error.hint) from None


def host_name(where: str, value: Any) -> None:  # noqa: ANN401
    """Check that ``value`` is a hostname of at most 64 characters; if not, raise BadRequest."""
    nonempty(where, value)
    parts = value.rstrip("-").split(".")
    if len(value) > 64 or not all(
        part.isascii()
        # DNS allows no underscores, but some hosts have them, and --uts=parent shares their name.
        and part.replace("-", "").replace("_", "").isalnum()
        and part.strip("-") == part
        for part in parts
    ):
        hint = "use at most 64 letters, digits, dashes, underscores and dots"
        raise BadRequest(where, f'invalid hostname "{value}"', hint)


def networks(where: str, value: list[str]) -> None:
    """Check that ``value`` is a list of network names, each with optional arguments.

    Raises BadRequest, whose message begins with ``where``, if it is not.
    """
    list_of(nonempty)(where, value)
    net_option.parse(value, where)


def network_name(where: str, value: Any) -> None:  # noqa: ANN401
    """Check that ``value`` is a valid name by which other pods can find a pod (--net-name).

    Raises BadRequest, whose message begins with ``where``, if it is invalid.
    """
    nonempty(where, value)
    if not hosts_file.is_pod_name(value):
        longest = hosts_file.LONGEST_POD_NAME
        hint = f"use at most {longest} letters, digits, dashes and dots, but not localhost"
        raise BadRequest(where, f'"{value}" is not a valid host name for a pod', hint)


def network_names(where: str, value: list[str]) -> None:
    """Check that ``value`` is a list of valid names by which other pods can find a pod.

    Raises BadRequest, whose message begins with ``where``, if it is not.
    """
    list_of(nonempty)(where, value)
    for name in value:
        network_name(where, name)


def name_servers(where: str, value: list[str]) -> None:
    """Check that ``value`` is a list of IP addresses of DNS servers, or ``host`` or ``none`` alone.

    Raises BadRequest, whose message begins with ``where``, if it is not.
    """
    list_of(string)(where, value)
    resolv_conf.check_servers(where, value)


def _app_name(where: str, value: Any) -> None:  # noqa: ANN401
    string(where, value)
    if not is_name(value):
        hint = "use lower-case letters, digits, and single dashes between them"
        raise BadRequest(where, f'invalid app name "{value}"', hint)


def _capability(where: str, value: object) -> None:
    if value not in CAPABILITIES:
        raise BadRequest(where, f'unknown capability "{value}"', "use a name such as CAP_NET_RAW")


def _errno(where: str, value: Any) -> None:  # noqa: ANN401
    string(where, value)
    if not isinstance(getattr(errno, value, None), int):
        raise BadRequest(where, f'unknown errno "{value}"', "for example EPERM, ENOSYS")


def _filter(where: str, value: Any) -> None:  # noqa: ANN401
    members = {"mode": one_of("retain", "remove"), "errno": _errno, "set": list_of(nonempty)}
    checks.object_of(members, "mode", "set")(where, value)
    if not value["set"]:
        raise BadRequest(
            where, "must list at least one system call", "use mode=retain|remove,NAME,..."
        )


def _or_empty(check: checks.Check) -> checks.Check:
    return lambda where, value: value == "" or check(where, value)


PIDS = checks.number(*isolators.PIDS_RANGE)

# --- requests ---


def _setting(check: checks.Check, parse: Parse = _unchanged, default: object = "") -> Any:  # noqa: ANN401 - the type of a field
    metadata = {"check": check, "parse": parse}
    if default in (list, dict):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def _flag() -> Any:  # noqa: ANN401
    return _setting(flag, default=False)


def _table() -> Any:  # noqa: ANN401
    return _setting(strings_by_name, pairs, dict)


def _is_set(request: BaseRequest, setting: Field[Any]) -> bool:
    factory = setting.default_factory
    default = setting.default if factory is MISSING else factory()
    return bool(getattr(request, setting.name) != default)


@dataclass(kw_only=True)
class BaseRequest:
    """The settings that requests for pods and for apps have in common: limits, mounts and metadata.

    ``is_document`` is True if the request comes from JSON, False if from a command line.
    """

    is_document: bool = False
    memory: int | None = _setting(size, isolators.byte_count, None)
    cpu: int | None = _setting(checks.number(*CPU_RANGE), milli_cpus, None)  # thousandths
    cpu_shares: int | None = _setting(checks.number(*isolators.SHARES_RANGE), _integer, None)
    pids: int | None = _setting(PIDS, _integer, None)
    mount: list[Json] = _setting(list_of(volumes.check_mount), _each(volumes.mount), list)
    annotation: dict[str, str] = _table()
    user_annotation: dict[str, str] = _table()
    user_label: dict[str, str] = _table()

    def where(self, name: str) -> str:
        """Return the name of the setting ``name`` in error messages.

        The result is a JSON member such as ``cpu_shares`` if the request comes from JSON, otherwise
        an option such as ``--cpu-shares``.
        """
        return name if self.is_document else f"--{name.replace('_', '-')}"

    def given(self, option: str) -> bool:
        """Return whether ``option``, such as ``cpu-shares``, is set to a non-default value."""
        name = option.replace("-", "_")
        return any(each.name == name and _is_set(self, each) for each in fields(self))


@dataclass(kw_only=True)
class AppRequest(BaseRequest):
    """A request to create an app from an image.

    If ``arguments`` is None, the app uses the image's Cmd.
    """

    image: str = _setting(nonempty, default=MISSING)
    arguments: list[str] | None = _setting(list_of(string), default=None)
    name: str | None = _setting(_app_name, default=None)
    exec: str | None = _setting(string, default=None)
    working_dir: str = _setting(_or_empty(checks.absolute_path))
    user: str | None = _setting(string, default=None)
    group: str = _setting(string)
    supplementary_gids: list[int] = _setting(list_of(user_ids.ID), _ids, list)
    readonly_rootfs: bool = _flag()
    environment: dict[str, str] = _table()
    caps_retain: list[str] | None = _setting(list_of(_capability), _capabilities, None)
    caps_remove: list[str] | None = _setting(list_of(_capability), _capabilities, None)
    seccomp: Json | None = _setting(_filter, _seccomp, None)
    no_new_privileges: bool = _flag()
    oom_score_adj: int | None = _setting(checks.number(-1000, 1000), _integer, None)
    stdin: str = _setting(one_of("null", "stream", "interactive", "tty"), default="null")
    stdout: str = _setting(one_of("log", "null", "stream", "tty"), default="log")
    stderr: str = _setting(one_of("log", "null", "stream", "tty"), default="log")
    signature: str = _setting(string)
    mnt_volume: list[Json] = _setting(
        list_of(volumes.check_added_volume), _each(volumes.added_volume), list
    )
    stop_signal: str = _setting(signal)
    ulimit: list[Json] = _setting(
        list_of(kernel_settings.check_ulimit), _each(container_values.ulimit), list
    )
    memory_swap: int | None = _setting(swap_size, _swap_size, None)
    memory_reservation: int | None = _setting(size, isolators.byte_count, None)
    cpu_quota: int | None = _setting(checks.number(*isolators.QUOTA_RANGE), _integer, None)
    cpu_period: int | None = _setting(checks.number(*isolators.PERIOD_RANGE), _integer, None)
    cpuset_cpus: str | None = _setting(kernel_settings.check_cpu_list, default=None)
    cpuset_mems: str | None = _setting(kernel_settings.check_cpu_list, default=None)
    device: list[Json] = _setting(
        list_of(tmpfs_and_devices.check_device), _each(container_values.device), list
    )
    privileged: bool = _flag()
    docker_environment: bool = _flag()  # set only the variables that docker sets; not an option
    tmpfs: list[Json] = _setting(
        list_of(tmpfs_and_devices.check_tmpfs), _each(container_values.tmpfs), list
    )


@dataclass(kw_only=True)
class PodRequest(BaseRequest):
    """A request to prepare a pod, to run a prepared pod, or both."""

    apps: list[AppRequest] = field(default_factory=list)
    port: list[Json] = _setting(list_of(ports.check_port), _each(ports.port), list)
    volume: list[Json] = _setting(list_of(volumes.check_volume), _each(volumes.volume), list)
    no_overlay: bool = _flag()
    set_env: dict[str, str] = _table()
    set_env_file: list[str] = _setting(list_of(string), default=list)
    inherit_env: bool = _flag()
    pod_manifest: str = _setting(string)
    private_users: bool = _flag()
    pull_policy: str = _setting(one_of("new", "update", "never"), default="new")
    flavor: str = _setting(string)
    kvm_kernel: str = _setting(string)
    stage1_name: str = _setting(string)
    store_only: bool = _flag()
    no_store: bool = _flag()
    net: list[str] = _setting(networks, _networks, list)
    net_name: list[str] = _setting(network_names, _words, list)
    dns: list[str] = _setting(name_servers, _words, list)
    dns_search: list[str] = _setting(list_of(string), default=list)
    dns_opt: list[str] = _setting(list_of(string), default=list)
    dns_domain: str = _setting(string)
    hosts_entry: list[str] = _setting(list_of(string), default=list)
    hostname: str = _setting(_or_empty(host_name))
    ipc: str = _setting(one_of("auto", "private", "parent"), default="auto")
    pid: str = _setting(one_of("private", "parent"), default="private")
    uts: str = _setting(one_of("private", "parent"), default="private")
    domainname: str = _setting(_or_empty(host_name))
    shm_size: int | None = _setting(size, isolators.byte_count, None)
    sysctl: dict[str, str] = _setting(kernel_settings.check_sysctls, pairs, dict)
    interactive: bool = _flag()
    mds_register: bool = _flag()
    detach: bool = _flag()
    uuid_file_save: str = _setting(string)


@dataclass(kw_only=True)
class SandboxRequest(PodRequest):
    """A request for a sandbox, a pod to which apps can be added while it runs.

    If the request comes from JSON, it may contain ``apps``, the sandbox's first apps.  Their images
    must be in the store.  With ``prepare``, the sandbox is created but not run.
    """

    port: list[Json] = _setting(list_of(ports.check_port), _each(ports.sandbox_port), list)
    on_failure: str = _setting(one_of("keep", "halt"), default="keep")
    on_exit: str = _setting(one_of("keep", "halt"), default="keep")
    keep: bool = _flag()
    prepare: bool = _flag()


def from_options(kind: type[R], options: Arguments, **others: Any) -> R:  # noqa: ANN401
    """Convert parsed command-line options to a request of the class ``kind``.

    ``others`` contains the attributes that do not come from options, such as ``image``.  Raises
    UsageError for an invalid value.
    """
    values: Json = dict(others)
    try:
        for each in fields(kind):
            option = each.name.replace("_", "-")
            if each.metadata and each.name not in others and options.has(option):
                value = each.metadata["parse"](options.value(option), f"--{option}")
                each.metadata["check"](f"--{option}", value)
                values[each.name] = value
    except BadRequest as error:
        raise UsageError(error.message, error.hint) from None
    return kind(**values)


def sandbox_from_document(document: object) -> SandboxRequest:
    """Convert a JSON document to a SandboxRequest, including its list of ``apps``.

    Raises BadRequest with the JSON path of an invalid member.
    """
    if not isinstance(document, dict) or "apps" not in document:
        return from_document(SandboxRequest, document)
    of_pod = {name: value for name, value in document.items() if name != "apps"}
    request = from_document(SandboxRequest, of_pod)
    list_of(lambda where, app: request.apps.append(_app_from(where, app)))("apps", document["apps"])
    return request


def _app_from(where: str, document: object) -> AppRequest:
    try:
        return from_document(AppRequest, document)
    except BadRequest as error:
        path = f"{where}.{error.where}" if error.where else where
        text = error.message.removeprefix(f"{error.where}: ")
        raise BadRequest(path, text, error.hint) from None


def from_document(kind: type[R], document: object) -> R:
    """Convert a JSON document to a request of the class ``kind``.

    Raises BadRequest with the JSON path of an invalid member.
    """
    members = {each.name: each.metadata["check"] for each in fields(kind) if each.metadata}
    values = checks.check_object(document, members, "the request")
    for each in fields(kind):
        if each.default is each.default_factory is MISSING and each.name not in values:
            raise BadRequest(each.name, "required")
    return kind(**values, is_document=True)


def document_of(request: BaseRequest) -> Json:
    """Convert a request to a JSON document.

    ``from_document`` converts the document back, ``sandbox_from_document`` if the request is for a
    sandbox.  Settings with default values are left out.
    """
    names = [each.name for each in fields(request) if each.metadata and _is_set(request, each)]
    document = {name: getattr(request, name) for name in names}
    if isinstance(request, SandboxRequest) and request.apps:
        document["apps"] = [document_of(app) for app in request.apps]
    return document
