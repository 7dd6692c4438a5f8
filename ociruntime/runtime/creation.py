"""Bringing a container into being: one step a method, in the order of ``create``.

Everything on the host that would have to be undone is pushed on the undo stack, or written
down in the state directory before it is done; so an error leaves nothing, and what a
SIGKILL leaves, the next command on this id clears away.
"""

from __future__ import annotations

import posix
from time import gmtime, strftime, time_ns

from ociruntime.errors import HostError, RuntimeFailure, StepError
from ociruntime.executor.protocol import go, receive
from ociruntime.executor.spawn import Executor, spawn
from ociruntime.host.files import exists, remove_file, replace_file
from ociruntime.host.gate import make_gate
from ociruntime.host.process import start_time
from ociruntime.host.store import begin_creation, commit_creation, remove_directory
from ociruntime.plan import ops
from ociruntime.runtime.container import (
    CGROUP,
    owner_of,
    recorded_cgroup,
    write_cgroup,
    write_config,
    write_facts,
)
from ociruntime.runtime.entry_record import removal, write_entry
from ociruntime.runtime.rollback import Rollback
from ociruntime.spec.json_text import dump
from ociruntime.spec.state import SPEC_VERSION, state_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket
    from typing import Any

    from ociruntime.executor.protocol import Message
    from ociruntime.host.store import Lock
    from ociruntime.plan.plan import Operation
    from ociruntime.runtime.entry_record import Removal
    from ociruntime.runtime.options import Context, CreateOptions
    from ociruntime.runtime.preparation import Preparation

WAIT_START = [name for name, _, _ in ops.OPERATIONS].index("wait_start") + 1


class Creation:
    """One container on its way; ``run`` carries it out and leaves ``executor``, ``directory``,
    the held ``lock`` and, with a terminal, the descriptor ``master``.
    """

    __slots__ = (
        "_console",
        "_context",
        "_hooked",
        "_options",
        "_prepared",
        "_removal",
        "_rollback",
        "directory",
        "executor",
        "id",
        "lock",
        "master",
    )

    def __init__(
        self,
        context: Context,
        options: CreateOptions,
        prepared: Preparation,
        console: socket | None = None,
    ) -> None:
        self._context = context
        self._options = options
        self._prepared = prepared
        self._console = console  # connection to whoever gets the terminal
        self._rollback = Rollback(context.log)
        self._removal: Removal | None = None  # of the cgroups, as cgroup.json has it
        self._hooked = False  # from here on a failure is followed by the poststop hooks
        self.id = options.id
        self.directory = ""
        self.master = -1
        self.executor: Executor
        self.lock: Lock

    def run(self) -> None:
        """All of it, or nothing.  Raises what the failing step raises."""
        try:
            self._begin()
            self._start()
            self._converse()
        except BaseException:
            self._rollback.undo()
            self._after_failure()
            raise
        self._rollback.keep()

    def _begin(self) -> None:
        """The state directory, and in it what will have to be undone."""
        prepared = self._prepared
        self.directory, self.lock = begin_creation(self._context.root, self.id, clear_recorded)
        self._rollback.push(self.lock.release)
        self._rollback.push(lambda: remove_directory(self.directory))
        write_cgroup(self.directory, prepared.cgroup)
        self._removal = removal(prepared.cgroup)
        self._rollback.push(lambda: prepared.cgroup.remove(kill=True))
        write_config(self.directory, prepared.bundle.config_bytes)

    def _start(self) -> None:
        """The executor; on v2 born in its cgroup, on v1 at work while that is made."""
        prepared = self._prepared
        unified = prepared.layout.mode == "v2"
        if unified:
            self._make_cgroup()
        gate = make_gate(self.directory)
        cgroup_fd = prepared.cgroup.open_v2() if unified else -1
        try:
            self.executor = spawn(prepared.plan, gate, cgroup_fd)
        finally:
            gate.close()
            if cgroup_fd >= 0:
                posix.close(cgroup_fd)
        self._rollback.push(self.executor.kill)
        if not unified:
            self._make_cgroup()

    def _make_cgroup(self) -> None:
        prepared = self._prepared
        cgroup = prepared.cgroup
        cgroup.create(prepared.resources, rootless=self._context.rootless)
        if prepared.layout.mode == "v2":
            from ociruntime.plan.cgroup_owner import NOBODY_ELSE, cgroup_owner

            owner = cgroup_owner(prepared.config)
            if owner != NOBODY_ELSE:
                cgroup.hand_over(owner)
        if cgroup.adopted:
            # It was there, empty: from here on its members are this container's.
            write_cgroup(self.directory, cgroup)
            self._removal = None  # beyond the entry's means

    def _converse(self) -> None:
        """Answer the executor until it is ready (executor/protocol.py)."""
        while True:
            message = receive(self.executor.channel)
            if message is None:
                raise self._vanished()
            if message.kind == ops.MESSAGE_FAILURE:
                raise self._failed(message)
            if message.kind == ops.MESSAGE_STAGE and message.value == ops.STAGE_READY:
                self._commit()
                return
            self._answer(message)

    def _failed(self, message: Message) -> RuntimeFailure:
        from ociruntime.executor.failure import failure

        operations = self.executor.plan.operations
        known = message.value < len(operations)
        return failure(operations[message.value] if known else None, message)

    def _answer(self, message: Message) -> None:
        if message.kind == ops.MESSAGE_INIT_PID:
            self.executor.became(message.pid)
        elif message.kind == ops.MESSAGE_CONSOLE:
            self._take_console(message.fd)
        elif message.kind == ops.MESSAGE_STAGE:
            STAGES[message.value](self)
            go(self.executor.channel)  # if it is gone, the next receive tells

    def _write_maps(self) -> None:
        from ociruntime.host.idmap import write_maps

        linux = self._prepared.config.get("linux") or {}
        write_maps(
            self.executor.pid, linux.get("uidMappings") or [], linux.get("gidMappings") or []
        )

    def _enter_cgroup(self) -> None:
        prepared = self._prepared
        prepared.cgroup.attach(self.executor.pid, born_in_v2=prepared.layout.mode == "v2")
        prepared.cgroup.apply(prepared.resources)
        self._hooked = bool(prepared.hooks("createContainer"))

    def _run_hooks(self) -> None:
        from ociruntime.host.hooks import run_host_hooks

        self._hooked = True
        state = self._state("creating", self.executor.pid)
        for kind in ("prestart", "createRuntime"):
            run_host_hooks(kind, self._prepared.hooks(kind), state, self._context.log.debug)

    def _take_console(self, master: int) -> None:
        if self._console is None:
            self.master = master
            return
        from ociruntime.host.console_socket import send

        send(self._console, master)
        posix.close(master)

    def _commit(self) -> None:
        """Write down what it is, make it visible, and only then let it live on its own."""
        facts = self._facts()
        write_facts(self.directory, facts)
        write_entry(self.directory, facts, self._removal, *owner_of(self.directory))
        if self._options.pid_file:
            self._write_pid_file(self._options.pid_file)
        hidden = self.directory
        self.directory = commit_creation(hidden, self._context.root, self.id)
        if not go(self.executor.channel):
            raise self._vanished()
        self.executor.channel.close()

    def _write_pid_file(self, path: str) -> None:
        try:
            replace_file(path, str(self.executor.pid).encode(), 0o644)
        except OSError as error:
            raise HostError(f"write the pid file {path}", error) from None
        self._rollback.push(lambda: remove_file(path))

    def _facts(self) -> dict[str, Any]:
        """What never changes; the keys that ``Container`` reads."""
        prepared, pid = self._prepared, self.executor.pid
        hooks = {kind: prepared.hooks(kind) for kind in ("poststart", "poststop")}
        return {
            "version": 1,
            "id": self.id,
            "pid": pid,
            "processStart": start_time(pid),
            "bundle": prepared.bundle.path,
            "rootfs": prepared.bundle.rootfs,
            "created": now(),
            "annotations": prepared.annotations,
            "freezer": freezer_file(prepared.cgroup.hierarchies(), prepared.layout.mode),
            "ownPidNamespace": own_pid_namespace(prepared),
            "hooks": {kind: found for kind, found in hooks.items() if found},
            "startSteps": start_steps(prepared.plan.operations),
        }

    def _state(self, status: str, pid: int) -> str:
        prepared = self._prepared
        return dump(
            state_document(
                SPEC_VERSION,
                self.id,
                status,
                pid,
                prepared.bundle.path,
                prepared.annotations,
            )
        )

    def _vanished(self) -> StepError:
        """The executor's end without a word: somebody has killed it."""
        if self._prepared.cgroup.oom_killed():
            memory = self._prepared.resources.get("memory") or {}
            return StepError(
                f"linux.resources.memory.limit: {memory.get('limit')} is not enough to start"
                " the container: its first process was killed",
                "a static program needs about 1 MiB",
            )
        return StepError("the container's first process was killed before it was ready")

    def _after_failure(self) -> None:
        """runtime.md#lifecycle: a failed create goes on with the poststop hooks."""
        hooks = self._prepared.hooks("poststop")
        if self._hooked and hooks:
            from ociruntime.host.hooks import run_poststop_hooks

            state = self._state("stopped", 0)
            for warning in run_poststop_hooks(hooks, state, self._context.log.debug):
                self._context.log.warning(warning)


STAGES = {
    ops.STAGE_MAPS: Creation._write_maps,
    ops.STAGE_CGROUP: Creation._enter_cgroup,
    ops.STAGE_HOOKS: Creation._run_hooks,
}


def clear_recorded(directory: str) -> None:
    """Undo what a killed ``create`` has written down in its directory.

    The processes end by themselves: the executor when its creator's socket closes.
    """
    if exists(f"{directory}/{CGROUP}"):
        recorded_cgroup(directory).remove(kill=True)


def start_steps(operations: list[Operation]) -> list[list[Any]]:
    """What is left for `start`: [index, code, JSON path] of each; empty without a process."""
    codes = [operation.code for operation in operations]
    first = codes.index(WAIT_START) + 1
    return [
        [index, operations[index].code, operations[index].where]
        for index in range(first, len(operations))
    ]


def own_pid_namespace(prepared: Preparation) -> bool:
    """Whether the container's end is the end of all its processes."""
    namespaces = (prepared.config.get("linux") or {}).get("namespaces") or []
    return any(entry["type"] == "pid" and not entry.get("path") for entry in namespaces)


def freezer_file(hierarchies: tuple[tuple[str, str], ...], mode: str) -> str:
    """The file that tells whether the container is frozen; empty without a freezer."""
    if mode == "v2":
        return f"{hierarchies[0][1]}/cgroup.freeze" if hierarchies else ""
    for option, directory in hierarchies:
        if "freezer" in option.split(","):
            return f"{directory}/freezer.state"
    return ""


def now() -> str:
    """The time in UTC with nanoseconds, as RFC 3339 has it."""
    stamp = time_ns()
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(stamp // 10**9)) + f".{stamp % 10**9:09d}Z"
