"""Report an operation that failed: the error and, with ``--debug``, the operations before it."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.runtime.executor.failure_messages import failure
from ociruntime.runtime.executor.protocol import Message
from ociruntime.runtime.host.namespaces import obstacle
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.plan.explain import operation_lines
from ociruntime.runtime.plan.plan import Operation

SHOWN_BEFORE = 3  # operations
SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/@%+=:,")


def failed_step(
    context: Context, options: CreateOptions, operations: list[Operation], message: Message
) -> RuntimeFailure:
    """Return the error that a FAILURE message describes; with ``--debug``, log ``debug_lines``."""
    known = message.value < len(operations)
    error = failure(operations[message.value] if known else None, message)
    if message.call in ("unshare", "clone3"):
        error.hint = obstacle(message.error) or error.hint
    if known and context.log.debugging:
        for line in debug_lines(operations, message, context.root, options):
            context.log.debug(line)
    return error


def debug_lines(
    operations: list[Operation], message: Message, root: str, options: CreateOptions
) -> list[str]:
    """Return log lines about a failed operation.

    They show the operations before it, the failed operation, and commands to examine the failure.
    ``message`` is the FAILURE message.  ``root`` is the state root for the commands.
    """
    at = message.value
    first = max(at - SHOWN_BEFORE, 0)
    before = operation_lines(operations[first:at], first + 1)
    lines = [f"done: {' '.join(line.split())}" for line in before]
    (failed,) = operation_lines(operations[at : at + 1], at + 1)
    on = f" on {message.argument}" if message.argument else ""
    lines += [
        f"failed: {' '.join(failed.split())}",
        f"operation {at + 1} of {len(operations)}, system call {message.call}{on}",
    ]
    argv = ["--bundle", options.bundle]
    if options.config:
        argv += ["--config", options.config]
    bundle = " ".join(map(quoted, argv))
    again = f"ociruntime --root {quoted(root)} --debug create {bundle} {quoted(options.id)}"
    return [
        *lines,
        f"show all operations: ociruntime plan {bundle}",
        f"run again, with all system calls in the file trace: strace -f -o trace {again}",
    ]


def quoted(word: str) -> str:
    """Return ``word`` quoted for the shell, if it needs quoting."""
    if word and SAFE.issuperset(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"
