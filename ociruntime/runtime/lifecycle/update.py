"""`update`: change the limits of a created, running or paused container."""

from __future__ import annotations

from ociruntime.base.errors import HostError, NotRunning
from ociruntime.base.files import exists, read_file, replace_file
from ociruntime.base.json_text import dump
from ociruntime.runtime.cgroups.update import Update
from ociruntime.runtime.lifecycle.container import lock
from ociruntime.runtime.lifecycle.identifier import check_id
from ociruntime.runtime.lifecycle.resource_changes import asked, merged, to_write
from ociruntime.runtime.spec import shape
from ociruntime.runtime.spec.check import check
from ociruntime.runtime.spec.load import parse
from ociruntime.runtime.spec.validate_linux import validate_resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.runtime.lifecycle.container import Container
    from ociruntime.runtime.lifecycle.options import Context

WHERE = "resources"
RESOURCES = "resources.json"  # in the state directory: the limits since the last update


def update(
    context: Context, container_id: str, document: object, l3_cache: str = "", bandwidth: str = ""
) -> None:
    """Set what ``document``, a LinuxResources object, names; and lines of Intel RDT.

    All or nothing: after an error the limits are as before.  Device rules in it are not
    looked at.  Raises UsageError, ConfigError with a path below ``resources``,
    NoSuchContainer, NotRunning, ContainerError, HostError.
    """
    check_id(container_id)
    change = _checked(document)
    container, held = lock(context.root, container_id)
    try:
        if not container.alive():
            raise NotRunning(container_id)
        after = merged(resources_of(container), change)
        validate_resources(after, WHERE)  # type: ignore[arg-type]  # a document of that shape
        limits = Update(container.cgroup(), to_write(change, after), WHERE)
        limits.write()
        try:
            _write_schemata(container, l3_cache, bandwidth)
            _store(container, after)
        except BaseException:
            for left in limits.undo():
                context.log.warning(f"roll back the update: {left}")
            raise
    finally:
        held.release()


def resources_of(container: Container) -> dict[str, Any]:
    """``linux.resources`` as they are by now.  Raises HostError."""
    path = f"{container.directory}/{RESOURCES}"
    if not exists(path):
        linux: dict[str, Any] = dict(container.config().get("linux") or {})
        return linux.get("resources") or {}
    try:
        found: Any = parse(read_file(path), path)
    except OSError as error:
        raise HostError(f"read {path}", error) from None
    return found  # type: ignore[no-any-return]


def _checked(document: object) -> dict[str, Any]:
    check(document, "object", shape.RESOURCES, WHERE)
    resources: Any = document
    change = asked(resources)
    validate_resources(change, WHERE)  # type: ignore[arg-type]  # a document of that shape
    return change


def _write_schemata(container: Container, l3_cache: str, bandwidth: str) -> None:
    if l3_cache or bandwidth:
        from ociruntime.runtime.lifecycle.intel_rdt import change

        change(container.config(), container.id, l3_cache, bandwidth)


def _store(container: Container, resources: dict[str, Any]) -> None:
    path = f"{container.directory}/{RESOURCES}"
    try:
        replace_file(path, dump(resources).encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f"write {path}", error) from None
