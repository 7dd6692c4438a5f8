"""The steps of ``create``, such as cgroup, hooks, console and pid file: a method for each step.

A step that changes the host pushes an undo function, or first records the change in the state
directory.  Thus an error leaves nothing behind.  If the command is killed, the next command for the
same id removes the stale state.
"""

from __future__ import annotations

import posix
from socket import socket
from time import gmtime, strftime, time_ns
from typing import Any

from ociruntime.base.errors import HostError, RuntimeFailure, StepError
from ociruntime.base.files import exists, publish_file, remove_file
from ociruntime.base.json_text import dump
from ociruntime.base.log import Log
from ociruntime.base.process import HeldSignals, start_time, without_interruption
from ociruntime.runtime.executor.protocol import (
    CLONE_PROCESS,
    CODES,
    Expected,
    Message,
    go,
    receive,
)
from ociruntime.runtime.executor.spawn import Executor, spawn
from ociruntime.runtime.host.start_gate import make_gate
from ociruntime.runtime.host.state_directory import (
    CREATING,
    ROOT_MOUNT,
    Lock,
    begin_creation,
    commit_creation,
    remove_directory,
)
from ociruntime.runtime.lifecycle.container import (
    CGROUP,
    Container,
    freezer_file,
    owner_of,
    recorded_cgroup,
    write_cgroup,
    write_config,
    write_facts,
)
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.fast_path_record import Removal, removal, write_entry
from ociruntime.runtime.lifecycle.join_cgroup import attach, let_in, refuse_entry
from ociruntime.runtime.lifecycle.prepare_create import Preparation
from ociruntime.runtime.lifecycle.rollback import Rollback
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Operation
from ociruntime.runtime.spec.state_document import SPEC_VERSION, state_document

WAITING = "wait for the executor"
WAIT_START = CODES["wait_start"]
RECORDED_ROOT = CODES["recorded_root"]


class Creation:
    """The creation of one container: call ``run`` once.

    ``run`` sets ``executor``, ``directory`` (the state directory), ``lock`` (the lock on it) and
    ``held`` (blocked signals).  If the container has a terminal and there is no console socket,
    ``run`` sets ``master`` to the terminal's descriptor; otherwise ``master`` is -1.
    """

    __slots__ = (
        "_console",
        "_context",
        "_hooked",
        "_options",
        "_pidfd_receiver",
        "_prepared",
        "_published",
        "_records_root",
        "_removal",
        "_rollback",
        "directory",
        "executor",
        "held",
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
        pidfd_receiver: socket | None = None,
    ) -> None:
        self._context = context
        self._options = options
        self._prepared = prepared
        self._console = console  # connection to the receiver of the terminal
        self._pidfd_receiver = pidfd_receiver  # connection to the receiver of the init's pidfd
        self._rollback = Rollback(context.log)
        # The cgroups that the fast path of `delete` removes; None: it cannot.
        self._removal: Removal | None = None
        self._records_root = False  # the root is mounted in the host's mount namespace
        self._published: dict[str, Any] = {}  # the facts in state.json
        self._hooked = False  # if set, a failure runs the poststop hooks
        self.id = options.id
        self.directory = ""
        self.master = -1
        self.executor: Executor
        self.lock: Lock
        self.held: HeldSignals  # after ``run``, for the caller to release

    @property
    def pid(self) -> int:
        """The pid of the container's init, or of the process that will fork it."""
        return self.executor.pid

    def container(self) -> Container:
        """Return the created container."""
        return Container(self.id, self.directory, self._published)

    def run(self) -> None:
        """Run all steps; if one fails, undo the completed steps and raise its error.

        On return the container exists, and signals are blocked (``held``): before the caller
        releases them, it must be able to undo the creation.
        """
        self._rollback.reserve()
        try:
            self._begin()
            self._start()
            try:
                self._converse()
            except KeyboardInterrupt as interruption:
                self._explain(interruption)
                raise
        except BaseException as failure:
            self._context.mark("undo")
            without_interruption(self._fail, failure)
            raise
        self._rollback.keep()

    def _fail(self, failure: BaseException) -> None:
        """Undo the completed steps, then run the poststop hooks, as `delete` does."""
        self._rollback.undo(failure)
        self._after_failure()

    def _explain(self, interruption: KeyboardInterrupt) -> None:
        """Add a note to ``interruption``: that the executor was setting up the root filesystem."""
        self.executor.explain(interruption, self._prepared.bundle.rootfs)

    def _begin(self) -> None:
        """Create and lock the state directory, and record in it what would have to be undone."""
        self._context.mark("create the state directory")
        prepared = self._prepared
        if prepared.network_devices:
            from ociruntime.runtime.lifecycle.network_device_moves import check

            check(prepared.config)
        with HeldSignals():
            self.directory, self.lock = begin_creation(
                self._context.root, self.id, lambda path: clear_recorded(path, self._context.log)
            )
            self._rollback.push(self.lock.release)
            self._rollback.push(lambda: remove_directory(self.directory))
        write_cgroup(self.directory, prepared.cgroup)
        if not prepared.cgroup.unit:  # the fast path cannot stop a systemd unit
            self._removal = removal(prepared.cgroup)
        self._rollback.push(lambda: prepared.cgroup.remove(kill=True))
        if prepared.notified:
            from ociruntime.base.notify_socket import make_directory

            make_directory(self.directory)
            self._removal = None  # the fast path cannot undo this
        if any(each.code == RECORDED_ROOT for each in prepared.plan.operations):
            self._records_root = True
            self._removal = None  # the fast path cannot undo this
            self._rollback.push(lambda: clear_root(self.directory, self._context.log))
        write_config(self.directory, prepared.bundle.config_bytes)

    def _start(self) -> None:
        """Start the executor, in the v2 cgroup if there is one.

        The executor enters v1 cgroups by itself later.  A systemd unit is created later too,
        because it needs the init's pid (``_enter_cgroup``).
        """
        prepared = self._prepared
        cgroup = prepared.cgroup
        born_inside = cgroup.born_inside
        rest_later = born_inside and cgroup.make_v2()
        if born_inside and not rest_later:
            self._make_cgroup()
        gate = make_gate(self.directory)
        cgroup_fd = cgroup.open_v2() if born_inside else -1
        times_fd, streams = self._context.times_of(prepared.plan), self._options.streams
        try:
            self.executor = spawn(prepared.plan, gate.fileno(), cgroup_fd, times_fd, streams)
        finally:
            gate.close()
            if cgroup_fd >= 0:
                posix.close(cgroup_fd)
        self._rollback.push(self.executor.discard)
        if rest_later or not (born_inside or cgroup.unit):
            self._make_cgroup()

    def _make_cgroup(self) -> None:
        """Create the container's cgroup and set its limits, or have systemd do so in a unit."""
        self._context.mark("create the cgroup")
        prepared = self._prepared
        cgroup = prepared.cgroup
        if self._context.log.debugging:
            self._context.log.debug(f"cgroup {' '.join(cgroup.paths.values())}")
            for setting in cgroup.settings(prepared.resources):
                name, value = setting.files[0]
                self._context.log.debug(f"limit {name} {' '.join(value.split())}")
        cgroup.create(prepared.resources)
        if prepared.layout.mode == "v2":
            from ociruntime.runtime.plan.cgroup_mounts import NOBODY_ELSE, cgroup_owner

            owner = cgroup_owner(prepared.config)
            if owner != NOBODY_ELSE:
                cgroup.hand_over(owner)
        if cgroup.adopted:
            # The cgroup existed and was empty: from now on, its processes belong to this container.
            write_cgroup(self.directory, cgroup)
            self._removal = None  # the fast path cannot undo this

    def _converse(self) -> None:
        """Answer the executor's messages until it is ready, then publish the container."""
        # In a joined pid namespace the parent's message (INIT_PID) may arrive after its child's.
        forks = any(each.code == CLONE_PROCESS for each in self._prepared.plan.operations)
        expected = Expected(self._prepared.plan.operations)
        ready = False
        while True:
            self._context.mark(WAITING)
            message = self.executor.receive() if forks else receive(self.executor.channel)
            if message is None:
                raise self._vanished()
            expected.take(message)
            if message.kind == ops.MESSAGE_FAILURE:
                refuse_entry(self._prepared.cgroup, self.pid, message)
                raise self._failed(message)
            if message.kind == ops.MESSAGE_STAGE and message.value == ops.STAGE_READY:
                ready = True
            else:
                self._answer(message)
            forks = forks and message.kind != ops.MESSAGE_INIT_PID
            if ready and not forks:
                self._prepared.cgroup.disable_oom_killer(self._prepared.resources)
                self._commit()
                return

    def _failed(self, message: Message) -> RuntimeFailure:
        """Return the error that a FAILURE message from the executor describes."""
        from ociruntime.runtime.lifecycle.failed_operation import failed_step

        operations = self.executor.plan.operations
        return failed_step(self._context, self._options, operations, message)

    def _answer(self, message: Message) -> None:
        """Carry out what the executor's message requests, then let the executor continue."""
        if message.kind == ops.MESSAGE_INIT_PID:
            self.executor.became(message)
        elif message.kind == ops.MESSAGE_CONSOLE:
            self._take_console(message.fd)
        elif message.kind == ops.MESSAGE_MOUNT:
            self._record_root(message)
            go(self.executor.channel)
        elif message.kind == ops.MESSAGE_STAGE:
            self._context.mark(STAGES[message.value][1])
            STAGES[message.value][0](self)
            if message.value == ops.STAGE_CGROUP:
                let_in(self.executor.channel, self._prepared.cgroup)
            else:
                go(self.executor.channel)  # if it has exited, the next receive reports that

    def _write_maps(self) -> None:
        """Write the user namespace's uid_map and gid_map."""
        from ociruntime.runtime.host.idmap import write_maps

        linux = self._prepared.config.get("linux") or {}
        write_maps(
            self.executor.pid, linux.get("uidMappings") or [], linux.get("gidMappings") or []
        )

    def _move_devices(self) -> None:
        """Move the devices in linux.netDevices to the container's network namespace."""
        from ociruntime.runtime.lifecycle.network_device_moves import move_into

        config, log = self._prepared.config, self._context.log
        move_into(config, self.executor.pid, self.directory, self._rollback, log)

    def _enter_cgroup(self) -> None:
        """Move the executor into the cgroup and resctrl groups, and apply the limits."""
        prepared = self._prepared
        cgroup = prepared.cgroup
        cgroup.first_pid = self.pid
        if cgroup.unit:
            self._make_cgroup()
        attach(cgroup, self.executor.pid, cgroup.born_inside)
        cgroup.apply(prepared.resources)
        if prepared.rdt:
            from ociruntime.runtime.lifecycle.intel_rdt_groups import enter

            enter(prepared.rdt, self.pid, self.directory, self._rollback)
            self._removal = None  # the fast path cannot undo this
        self._hooked = bool(prepared.hooks("createContainer"))

    def _run_hooks(self) -> None:
        """Run the prestart and createRuntime hooks."""
        from ociruntime.runtime.host.hooks import run_host_hooks

        self._hooked = True
        state = self._state("creating", self.pid)
        for kind in ("prestart", "createRuntime"):
            run_host_hooks(kind, self._prepared.hooks(kind), state, *self._hook_settings())

    def _take_console(self, master: int) -> None:
        """Send the terminal ``master`` to the console socket, or keep it if there is none."""
        if self._console is None:
            self.master = master
            return
        from ociruntime.runtime.host.console_and_pidfd_sockets import send_terminal

        send_terminal(self._console, master)

    def _record_root(self, message: Message) -> None:
        """Record the mount of the root that the executor is about to attach on the host."""
        from ociruntime.runtime.lifecycle.root_mount import record

        try:
            record(self.directory, message.fd, self._prepared.bundle.rootfs, self.pid)
        finally:
            posix.close(message.fd)

    def _commit(self) -> None:
        """Publish the container, then let its init continue.

        From then on, the init outlives this process.
        """
        self._publish(self.executor.pidfd)
        # go() returns False if the init has been killed.  That is no failure: another command may
        # kill a published container, which is then stopped.
        go(self.executor.channel)
        self.executor.channel.close()

    def _publish(self, pidfd: int) -> None:
        """Publish the container, so that other commands find it, and block signals from here on.

        ``pidfd`` refers to the container's init.
        """
        self.held = HeldSignals()
        try:
            self._write_and_rename(pidfd)
        except BaseException:
            self.held.release()
            raise

    def _write_and_rename(self, pidfd: int) -> None:
        """Write state.json and the pid file, then rename the state directory to its final name."""
        self._context.mark("record the container")
        if self._records_root:
            from ociruntime.runtime.lifecycle.root_mount import record_contents

            record_contents(self.directory, self._prepared.config)
        facts = self._published = self._facts()
        write_facts(self.directory, facts)
        write_entry(self.directory, facts, self._removal, *owner_of(self.directory))
        if self._pidfd_receiver is not None:
            from ociruntime.runtime.host.console_and_pidfd_sockets import INIT, send_pidfd

            send_pidfd(self._pidfd_receiver, pidfd, INIT)
        if self._options.pid_file:
            self._write_pid_file(self._options.pid_file)
        hidden = self.directory
        self.directory = commit_creation(hidden, self._context.root, self.id)

    def _write_pid_file(self, path: str) -> None:
        try:
            publish_file(path, str(self.pid).encode())
        except OSError as error:
            raise HostError(f'write the pid file "{path}"', error) from None
        self._rollback.push(lambda: remove_file(path))

    def _facts(self) -> dict[str, Any]:
        """Return the content of state.json: the facts about the container that never change."""
        prepared, pid = self._prepared, self.pid
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
            "freezer": freezer_file(prepared.cgroup.hierarchies()),
            "ownPidNamespace": prepared.own_pid_namespace,
            "hooks": {kind: listed for kind, listed in hooks.items() if listed},
            "newKeyring": not self._options.no_new_keyring,
            "notified": prepared.notified,
            "seccompAgent": prepared.agent,
            "startSteps": start_steps(prepared.plan.operations),
        }

    def _state(self, status: str, pid: int) -> str:
        """Return the state document for hooks as JSON text, with this status and pid."""
        prepared = self._prepared
        return dump(
            state_document(
                SPEC_VERSION, self.id, status, pid, prepared.bundle.path, prepared.annotations
            )
        )

    def _vanished(self) -> StepError:
        """Return the error for an executor that was killed during the creation."""
        if self._prepared.cgroup.oom_killed():
            limit = (self._prepared.resources.get("memory") or {}).get("limit")
            if limit is None:
                return StepError(
                    "create the container: its init was OOM-killed",
                    "it has no memory limit: a parent cgroup or the host is out of memory",
                )
            return StepError(
                f"linux.resources.memory.limit: {limit} bytes are too few to create the container:"
                " its init was OOM-killed",
                "raise the limit: a static program needs about 1 MiB",
            )
        hint = ""
        if self._prepared.cgroup.unit and self._prepared.resources.get("memory"):
            # systemd removes a scope after its last process, and with it the kernel's OOM counter.
            hint = "linux.resources.memory.limit may be too low: a static program needs about 1 MiB"
        return StepError("create the container: its init was killed before it was ready", hint)

    def _after_failure(self) -> None:
        """Run the poststop hooks after a failed create, as runtime.md#lifecycle requires.

        Does nothing if no hook can have run yet.
        """
        hooks = self._prepared.hooks("poststop")
        if self._hooked and hooks:
            from ociruntime.runtime.host.hooks import run_poststop_hooks

            state = self._state("stopped", 0)
            for warning in run_poststop_hooks(hooks, state, *self._hook_settings()):
                self._context.log.warning(warning)

    def _hook_settings(self) -> tuple[Any, tuple[str, str], bool]:
        """Return the arguments for ``debug``, ``outputs`` and ``alone`` of ``run_host_hooks``."""
        from ociruntime.runtime.spec.annotations import hook_outputs

        context = self._context
        return context.log.debug, hook_outputs(self._prepared.annotations), context.alone


STAGES = {
    ops.STAGE_MAPS: (Creation._write_maps, "write the id maps"),
    ops.STAGE_CGROUP: (Creation._enter_cgroup, "move the init into its cgroup, set limits"),
    ops.STAGE_NETWORK: (Creation._move_devices, "move network devices"),
    ops.STAGE_HOOKS: (Creation._run_hooks, "run prestart and createRuntime hooks"),
}


def clear_recorded(directory: str, log: Log) -> None:
    """Undo the changes that a killed ``create`` has recorded in its state directory.

    No process needs to be killed, because the executor exits when the socket of its creator is
    closed.  Does nothing for the directory of a killed ``delete``: all changes were undone before
    the directory got that name, and the recorded objects may now belong to a new container with the
    same id.
    """
    if CREATING not in directory:
        return
    if exists(f"{directory}/network.json"):
        from ociruntime.runtime.lifecycle.network_device_moves import clear

        clear(directory, log)
    if exists(f"{directory}/{CGROUP}"):
        recorded_cgroup(directory).remove(kill=True)
    clear_root(directory, log)
    if exists(f"{directory}/rdt.json"):
        from ociruntime.runtime.lifecycle import intel_rdt_groups

        intel_rdt_groups.clear(directory)


def clear_root(directory: str, log: Log) -> None:
    """Unmount the root of a container that has no mount namespace, if its directory records one.

    Raises StepError if another program's mount covers the root, and HostError.
    """
    if exists(f"{directory}/{ROOT_MOUNT}"):
        from ociruntime.runtime.lifecycle.root_mount import clear

        clear(directory, log)


def start_steps(operations: list[Operation]) -> list[list[Any]]:
    """Return [index, code, JSON path] for each operation that the executor carries out at `start`.

    The list is empty for a container without a process.
    """
    codes = [operation.code for operation in operations]
    first = codes.index(WAIT_START) + 1
    return [
        [index, operations[index].code, operations[index].where]
        for index in range(first, len(operations))
    ]


def now() -> str:
    """Return the current time as text: RFC 3339, in UTC, with nanoseconds."""
    stamp = time_ns()
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(stamp // 10**9)) + f".{stamp % 10**9:09d}Z"
