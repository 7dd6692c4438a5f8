"""A container, as its state directory and the kernel describe it.

``state.json`` holds only facts that are fixed at creation.  Facts that change are never stored:
/proc shows whether the container's init is alive, the start gate whether the init still waits for
`start`, and the cgroup whether it is frozen.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import ContainerError, HostError, NoSuchContainer
from ociruntime.base.files import exists, read_file, replace_file, write_new
from ociruntime.base.json_text import dump, parse
from ociruntime.base.process import is_alive, is_exiting
from ociruntime.runtime.host.start_gate import NAME as GATE_NAME
from ociruntime.runtime.host.start_gate import is_waiting
from ociruntime.runtime.host.state_directory import LOCK_SECONDS, Lock, find_directory
from ociruntime.runtime.spec.state_document import SPEC_VERSION, state_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import UnionType
    from typing import Any

    from ociruntime.runtime.cgroups.cgroup import Cgroup
    from ociruntime.runtime.host.seccomp_agent import SeccompAgent
    from ociruntime.runtime.spec.config_types import Config

    Members = tuple[tuple[str, type | UnionType], ...]

STATE = "state.json"
CGROUP = "cgroup.json"
CONFIG = "config.json"

CREATED = "created"
RUNNING = "running"
PAUSED = "paused"
STOPPED = "stopped"

# Members of the records in the state directory, with their types.
_MEMBERS = (
    *(("id", str), ("pid", int), ("processStart", int), ("bundle", str), ("rootfs", str)),
    *(("created", str), ("annotations", dict), ("freezer", str), ("ownPidNamespace", bool)),
    *(("hooks", dict), ("seccompAgent", object), ("notified", bool), ("startSteps", list)),
)
_CGROUP_MEMBERS = (("path", str), ("placements", list))
_PLACEMENT_MEMBERS = (
    *(("version", int), ("controllers", list), ("name", str), ("mountpoint", str)),
    *(("existing", int), ("adopted", bool)),
)
_UNIT_MEMBERS = (("unit", str), ("user", bool), ("subgroup", str))


class Container:
    """A container: its id, its state directory, and ``facts``, the content of its state.json."""

    __slots__ = ("directory", "facts", "id")

    def __init__(self, container_id: str, directory: str, facts: dict[str, Any]) -> None:
        self.id = container_id
        self.directory = directory
        self.facts = facts

    @property
    def pid(self) -> int:
        """The pid of the container's init; it stays the same after the init has exited."""
        return int(self.facts["pid"])

    @property
    def started(self) -> int:
        """The init's start time in clock ticks since boot, used to detect a reused pid."""
        return int(self.facts["processStart"])

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the container's config.json."""
        annotations: dict[str, str] = self.facts["annotations"]
        return annotations

    def alive(self) -> bool:
        """Return whether the container's init is still running."""
        return is_alive(self.pid, self.started)

    def status(self) -> str:
        """Return the current status: ``created``, ``running``, ``paused`` or ``stopped``.

        Checks the start gate before the init.  In the other order, a `delete` between the two
        checks could remove the gate of an exited init, and the container would look as if it were
        running.
        """
        has_gate = exists(f"{self.directory}/{GATE_NAME}")
        waits = has_gate and is_waiting(self.directory)
        if not self.alive():
            return STOPPED
        if self._frozen():
            return PAUSED
        if waits:
            return CREATED
        # A dying init has closed the gate, but is not a zombie yet: the closed gate proves nothing.
        return STOPPED if has_gate and is_exiting(self.pid) else RUNNING

    def _frozen(self) -> bool:
        """Return whether the container's cgroup is frozen.

        Reads the freezer's state from the file ``freezer`` in ``facts``.
        """
        path = self.facts["freezer"]
        if not path:
            return False
        try:
            return read_file(path).strip() in (b"FROZEN", b"FREEZING", b"1")
        except OSError:
            return False

    def enter_bundle(self) -> None:
        """Make the bundle the working directory, where hooks run; do nothing if it was removed."""
        try:
            posix.chdir(self.facts["bundle"])
        except OSError:
            pass

    def config(self) -> Config:
        """Return the config.json from which the container was created.  Raises HostError."""
        config: Any = _read_document(f"{self.directory}/{CONFIG}")
        return config  # type: ignore[no-any-return]

    def seccomp_agent(self) -> SeccompAgent | None:
        """Connect to the container's seccomp agent, or return None if the container has none.

        Raises HostError.
        """
        agent = self.facts["seccompAgent"]
        if not agent:
            return None
        from ociruntime.runtime.host.seccomp_agent import SeccompAgent

        path, metadata = agent
        return SeccompAgent(path, metadata)

    def cgroup(self) -> Cgroup:
        """Return the container's cgroup, which has a directory in each hierarchy.

        Raises HostError.
        """
        return recorded_cgroup(self.directory)


def freezer_file(hierarchies: tuple[tuple[str, str], ...]) -> str:
    """Return the path of the file that shows the freezer's state, or "" without a freezer.

    ``hierarchies``: pairs (mount option, directory); the mount option is "" for cgroup v2.
    """
    unified = ""
    for option, directory in hierarchies:
        if "freezer" in option.split(","):
            return f"{directory}/freezer.state"
        if not option:
            unified = f"{directory}/cgroup.freeze"
    return unified


def write_facts(directory: str, facts: dict[str, Any]) -> None:
    """Write ``facts`` to a new state.json in a state directory.  Raises HostError."""
    _write(directory, STATE, dump(facts).encode("utf-8", "surrogateescape"))


def write_cgroup(directory: str, cgroup: Cgroup) -> None:
    """Write cgroup.json to a state directory.

    Call this before the cgroups are created, so that they can be removed if the command is killed.
    Raises HostError.
    """
    data = dump(cgroup.record()).encode()
    try:
        replace_file(f"{directory}/{CGROUP}", data)
    except OSError as error:
        raise HostError(f'write "{directory}/{CGROUP}"', error) from None


def write_config(directory: str, config: bytes) -> None:
    """Write config.json to a state directory, so that later edits of the original have no effect.

    Raises HostError.
    """
    _write(directory, CONFIG, config)


def _write(directory: str, name: str, data: bytes) -> None:
    try:
        write_new(f"{directory}/{name}", data)
    except OSError as error:
        raise HostError(f'write "{directory}/{name}"', error) from None


def recorded_cgroup(directory: str) -> Cgroup:
    """Return the cgroup recorded in the cgroup.json of a state directory.

    Raises HostError if the file cannot be read, and ContainerError if it is damaged.
    """
    path = f"{directory}/{CGROUP}"
    record: Any = _read_document(path)
    check_record(record, _CGROUP_MEMBERS, path)
    for placement in record["placements"]:
        check_record(placement, _PLACEMENT_MEMBERS, path)
        if not all(isinstance(name, str) for name in placement["controllers"]):
            raise _damaged(path, ': "controllers" must be a list of strings')
    if "unit" in record:
        check_record(record, _UNIT_MEMBERS, path)
        from ociruntime.runtime.cgroups.systemd_group import SystemdCgroup

        return SystemdCgroup.from_record(record)
    from ociruntime.runtime.cgroups.cgroup import Cgroup

    return Cgroup.from_record(record)


def check_record(record: object, members: Members, path: str) -> None:
    """Raise ContainerError unless ``record``, read from the file ``path``, has all ``members``.

    ``members``: pairs (name, type).  Ignores other members of the record, because a later version
    of ociruntime may have added them.
    """
    missing = ""
    if isinstance(record, dict):
        for name, kind in members:
            if name not in record or not isinstance(record[name], kind):
                missing = f': "{name}" is missing or not of the right type'
                break
        else:
            return
    raise _damaged(path, missing)


def _damaged(path: str, why: str) -> ContainerError:
    hint = "remove the directory once the container's processes have exited"
    return ContainerError(f'read "{path}": the file is damaged{why}', hint)


def load(root: str, container_id: str) -> Container:
    """Return the container with this id.

    Raises NoSuchContainer, HostError, and ContainerError if its state.json is damaged, or was
    written by another runtime or another version of ociruntime.
    """
    directory = find_directory(root, container_id)
    try:
        facts: Any = _read_document(f"{directory}/{STATE}")
    except HostError as error:
        if error.errno == 2:
            raise NoSuchContainer(container_id) from None  # deleted since find_directory
        raise
    if not isinstance(facts, dict) or facts.get("version") != 1:
        raise ContainerError(
            f'read the state of container "{container_id}": "{directory}/{STATE}" was written by'
            " another runtime, or another version of ociruntime",
            "use the runtime that wrote it, or remove the directory once the container's"
            " processes have exited",
        )
    check_record(facts, _MEMBERS, f"{directory}/{STATE}")
    match facts["seccompAgent"]:
        case None | [str(), str() | None]:
            pass
        case _:
            raise _damaged(f"{directory}/{STATE}", ': "seccompAgent" must list a path and a string')
    return Container(container_id, directory, facts)


def _read_document(path: str) -> object:
    try:
        return parse(read_file(path), path)
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None


def lock(root: str, container_id: str, seconds: float = LOCK_SECONDS) -> tuple[Container, Lock]:
    """Return the container with this id, and an exclusive lock on it.

    Waits up to ``seconds`` for the lock.  Raises the errors of ``load``, and ContainerError if
    another command holds the lock for longer.
    """
    held = Lock.acquire(find_directory(root, container_id), seconds)
    if held is None:
        raise NoSuchContainer(container_id)
    try:
        return load(root, container_id), held
    except BaseException:
        held.release()
        raise


def document(container: Container, status: str) -> dict[str, Any]:
    """Return the state document (runtime.md#state) for hooks and seccomp agents.

    Its ``pid`` is the init's pid on the host, or 0 if ``status`` is ``stopped``.
    """
    return state_document(
        SPEC_VERSION,
        container.id,
        status,
        0 if status == STOPPED else container.pid,
        container.facts["bundle"],
        container.annotations,
    )


def owner_of(directory: str) -> tuple[int, str]:
    """Return (uid, name) of the owner of a state directory.

    If the uid has no name, ``name`` is ``#UID``.  Raises HostError.
    """
    try:
        uid = posix.stat(directory).st_uid
    except OSError as error:
        raise HostError(f'stat "{directory}"', error) from None
    if uid == 0:
        return uid, "root"  # without reading /etc/passwd
    from pwd import getpwuid

    try:
        return uid, getpwuid(uid).pw_name
    except KeyError:
        return uid, f"#{uid}"
