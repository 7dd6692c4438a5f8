"""The commands on existing containers, such as ``start``, ``stop``, ``wait``, ``rm``, ``top``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from ociruntime.base.errors import HostError, RuntimeFailure, UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import tell, write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.commandline.signal_names import signal_number
from ociruntime.commandline.tables_and_times import tabbed
from ociruntime.manager.client.connection import Connection, DaemonError, container, resource
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.new_container import SPEC_OPTIONS, spec_of
from ociruntime.manager.client.option_names_in_errors import with_option
from ociruntime.manager.client.options import (
    DETACH_KEYS_OPTION,
    FORMAT,
    START_STATUS,
    TIME,
    TIMEOUT,
)
from ociruntime.manager.client.ps import open_ports, outside
from ociruntime.manager.client.refused_options import refused

FAILED = 1


def each(refs: Iterable[str], act: Callable[[str], object]) -> int:
    """Call ``act(ref)`` for each name or id in ``refs``; print the name or id, or the error.

    Returns the exit status: 0, or the status of the last failure (125 to 127 if a container did not
    start, otherwise 1).  Raises HostError if the daemon cannot be reached.
    """
    status = 0
    for ref in refs:
        try:
            act(ref)
        except HostError:
            raise
        except RuntimeFailure as failure:
            print_failure(failure)
            status = getattr(failure, "exit_code", 0) or FAILED
        else:
            write(f"{ref}\n")
    return status


def remove_each(connection: Connection, kind: str, arguments: Arguments) -> int:
    """Remove the volumes or networks (``kind``) named by the arguments; print their names.

    With ``--force``, ignores missing objects.  Returns the exit status: 0, or 1 if an object cannot
    be removed.  Raises HostError if the daemon cannot be reached.
    """
    force = arguments.flag("force")

    def remove(name: str) -> None:
        try:
            connection.delete(resource(kind, name))
        except RuntimeFailure as failure:
            if not (force and getattr(failure, "code", "") == "not_found"):
                raise

    return each(arguments.positional, remove)


def is_confirmed(arguments: Arguments, question: str) -> bool:
    """Ask the user ``question``; return whether the answer is yes.

    With ``--force``, returns True without asking.
    """
    if arguments.flag("force"):
        return True
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_failure(failure: RuntimeFailure) -> None:
    """Print the message of ``failure`` to standard error, with the prefix ``ocictl``."""
    tell("ocictl", str(failure))


def exit_status(ref: str, answer: dict[str, Any]) -> int:
    """Return the exit code in ``answer``, the daemon's answer to a wait request.

    Raises RuntimeFailure if the exit code is unknown; the message names the container ``ref``.
    """
    code = answer["exit_code"]
    if code is None:
        error = answer.get("error") or "its monitor was killed"
        raise RuntimeFailure(f'wait for container "{ref}": its exit code is unknown: {error}')
    return int(code)


def stop_timeout(arguments: Arguments) -> dict[str, int]:
    """Return the body of a stop request: ``{"timeout": seconds}`` from the option ``--time``.

    Returns {} without this option; the daemon then uses the container's own timeout (default:
    ``DEFAULTS`` in manager/containers/container_spec.py).
    """
    for name in ("time", "timeout"):
        if arguments.has(name):
            return {"timeout": arguments.number(name)}
    return {}


def run_start(connection: Connection, arguments: Arguments) -> int:
    """Start containers; with ``--attach`` or ``--interactive``, relay the streams of one container.

    Raises UsageError for several containers with one of these options, or for an invalid option.
    """
    refs = arguments.positional
    if not (arguments.flag("attach") or arguments.flag("interactive")):
        return each(refs, lambda ref: connection.post(container(ref, "start")))
    if len(refs) > 1:
        raise UsageError(
            "--attach and --interactive accept only one container",
            "start the others with a separate command",
        )
    from ociruntime.manager.client.run_and_attach import check_terminal, in_foreground

    stdin = arguments.flag("interactive")
    if stdin and connection.get(container(refs[0]))["spec"].get("tty"):
        check_terminal("omit --interactive")
    return in_foreground(connection, refs[0], arguments, stdin=stdin) or 0


def run_stop(connection: Connection, arguments: Arguments) -> int:
    """Stop containers, wait for their exit, and print the given names or ids."""
    body = stop_timeout(arguments)
    return each(arguments.positional, lambda ref: connection.post(container(ref, "stop"), body))


def run_kill(connection: Connection, arguments: Arguments) -> int:
    """Send a signal to containers and print the given names or ids.

    Raises UsageError for an invalid ``--signal``.
    """
    signal = signal_number(arguments.text("signal", "KILL"))
    if signal == 0:
        hint = "use inspect to see whether a container is running"
        raise UsageError('kill: --signal: "0" is not a signal', hint)
    body = {"signal": signal}
    return each(arguments.positional, lambda ref: connection.post(container(ref, "kill"), body))


def run_restart(connection: Connection, arguments: Arguments) -> int:
    """Restart containers and print the given names or ids."""
    body = stop_timeout(arguments)
    return each(arguments.positional, lambda ref: connection.post(container(ref, "restart"), body))


def run_pause(connection: Connection, arguments: Arguments) -> int:
    """Pause containers and print the given names or ids."""
    return each(arguments.positional, lambda ref: connection.post(container(ref, "pause")))


def run_unpause(connection: Connection, arguments: Arguments) -> int:
    """Resume containers and print the given names or ids."""
    return each(arguments.positional, lambda ref: connection.post(container(ref, "unpause")))


def run_wait(connection: Connection, arguments: Arguments) -> int:
    """Wait for containers to exit and print their exit codes.

    Raises RuntimeFailure if an exit code is unknown.
    """
    for ref in arguments.positional:
        write(f"{exit_status(ref, connection.post(container(ref, 'wait')))}\n")
    return 0


def run_rename(connection: Connection, arguments: Arguments) -> int:
    """Rename a container; print nothing."""
    ref, name = arguments.positional
    connection.post(container(ref, "rename"), {"name": name})
    return 0


def run_update(connection: Connection, arguments: Arguments) -> int:
    """Change the limits and restart policy of containers.

    Raises UsageError for an invalid option, or if no option gives a change.
    """
    spec = spec_of(arguments, "", [])
    body = {name: value for name, value in spec.items() if name != "image"}
    if not body:
        raise UsageError("update: no change given", "use --memory, --cpus, --restart ...")

    def change(ref: str) -> None:
        try:
            connection.post(container(ref, "update"), body)
        except DaemonError as error:
            raise with_option(error, arguments.names()) from None

    return each(arguments.positional, change)


def run_rm(connection: Connection, arguments: Arguments) -> int:
    """Remove containers and print the given names or ids."""
    flags = {name: arguments.flag(name) for name in ("force", "volumes")}
    return each(arguments.positional, lambda ref: connection.delete(container(ref, **flags)))


def run_prune(connection: Connection, arguments: Arguments) -> int:
    """Remove stopped containers, print their ids, and report the freed space on standard error."""
    del arguments
    answer = connection.post(resource("containers", "prune"))
    removed = answer["removed"]
    status = write("".join(f"{container_id}\n" for container_id in removed))
    # On standard error, because scripts read the ids on standard output.
    containers = "1 container" if len(removed) == 1 else f"{len(removed)} containers"
    tell("ocictl", f"{containers} removed, {amount(answer['freed'])} freed")
    return status


_TOP_COLUMNS = ("pid", "ppid", "user", "cpu_seconds", "memory", "command")


def run_top(connection: Connection, arguments: Arguments) -> int:
    """Print a table of a container's processes, with their PIDs on the host.

    Raises UsageError for an invalid ``--format``.
    """
    processes = connection.get(container(arguments.positional[0], "top"))["processes"]
    if form := chosen(arguments):
        return write(formatted(processes, form))
    rows = [[name.replace("_", " ").upper() for name in _TOP_COLUMNS]]
    for process in processes:
        cells = [str(process[name]) for name in ("pid", "ppid", "user")]
        rows.append(
            [
                *cells,
                f"{process['cpu_seconds']:.2f}",
                amount(process["memory"]),
                plain(process["command"]),
            ]
        )
    return write(tabbed(rows))


def run_port(connection: Connection, arguments: Arguments) -> int:
    """Print a container's published ports, such as ``80/tcp -> 0.0.0.0:8080``.

    With a container port as the second argument, prints only the host side, such as
    ``0.0.0.0:8080``.  Raises RuntimeFailure if that port is not published.
    """
    ref, *selected = arguments.positional
    ports = open_ports(connection.get(container(ref)))
    if not selected:
        lines = [f"{port['port']}/{port['protocol']} -> {outside(port)}\n" for port in ports]
        return write("".join(lines))
    number, _, protocol = selected[0].partition("/")
    key = (number, protocol or "tcp")
    places = [outside(port) for port in ports if (str(port["port"]), port["protocol"]) == key]
    if not places:
        raise RuntimeFailure(f'container "{ref}": port {"/".join(key)} is not published')
    return write("".join(f"{place}\n" for place in places))


_CHANGEABLE = (
    *("memory", "memory-swap", "memory-reservation", "cpus", "cpu-quota", "cpu-period"),
    *("cpu-shares", "cpuset-cpus", "cpuset-mems", "pids-limit", "restart"),
)
COMMANDS = (
    Command(
        "start CONTAINER...",
        "start created or stopped containers",
        run_start,
        options=(
            Option("attach", "attach stdout and stderr", short="a"),
            Option("interactive", "also attach stdin", short="i"),
            DETACH_KEYS_OPTION,
            *refused("start"),
        ),
        details=(
            "Starting a running container is not an error. With --attach or --interactive,\n"
            "exits with the status of the container."
        ),
        examples=(("Start a container and attach to it", "ocictl start --attach job"),),
        exit_status=START_STATUS,
    ),
    Command(
        "stop CONTAINER...",
        "stop running containers",
        run_stop,
        options=(TIME, TIMEOUT, *refused("stop")),
        details=(
            "Sends the container's stop signal and, after its stop timeout, SIGKILL. Stopping\n"
            "a stopped container is not an error."
        ),
        examples=(("Stop a container with a timeout", "ocictl stop --time 30 web"),),
    ),
    Command(
        "kill CONTAINER...",
        "send a signal to running containers",
        run_kill,
        options=(Option("signal", "signal to send (default: KILL)", "SIGNAL", short="s"),),
        examples=(("Reload a server's configuration", "ocictl kill --signal HUP web"),),
    ),
    Command(
        "restart CONTAINER...",
        "restart containers",
        run_restart,
        options=(TIME, TIMEOUT, *refused("restart")),
        exit_status=START_STATUS,
    ),
    Command("pause CONTAINER...", "suspend all processes of containers", run_pause),
    Command("unpause CONTAINER...", "resume paused containers", run_unpause),
    Command(
        "wait CONTAINER...",
        "wait until containers stop, then print their exit codes",
        run_wait,
        details="Fails if a container is removed, or if its exit code is unknown.",
        examples=(("Print the exit code of a container", "ocictl wait job"),),
    ),
    Command("rename CONTAINER NAME", "rename a container", run_rename),
    Command(
        "update CONTAINER...",
        "change resource limits and the restart policy",
        run_update,
        options=(
            *(option for option in SPEC_OPTIONS if option.name in _CHANGEABLE),
            *refused("update"),
        ),
        details=(
            "Changes a running container at once, and keeps limits that are not given. If a\n"
            "limit is refused, nothing is changed."
        ),
        examples=(("Change the memory limit", "ocictl update --memory 512m web"),),
    ),
    Command(
        "rm CONTAINER...",
        "remove stopped containers and their files",
        run_rm,
        options=(
            Option("force", "kill running containers first", short="f"),
            Option("volumes", "also remove anonymous volumes", short="v"),
            *refused("rm"),
        ),
        details="Without --volumes, keeps anonymous volumes, except those of `run --rm`.",
        examples=(("Kill and remove a container", "ocictl rm --force web"),),
    ),
    Command(
        "prune",
        "remove all stopped containers",
        run_prune,
        options=(Option("force", short="f"), *refused("prune")),
        details="Also removes containers that were never started. Keeps paused containers.",
    ),
    Command("top CONTAINER", "list the processes of a container", run_top, options=(FORMAT,)),
    Command(
        "port CONTAINER [PORT[/PROTOCOL]]", "list the published ports of a container", run_port
    ),
)
