"""The error of a failed operation, with the preceding operations under ``--debug``."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.runtime.executor.failure import failure
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
    """Return the error that the message reports."""
    known = message.value < len(operations)
    found = failure(operations[message.value] if known else None, message)
    if message.call in ("unshare", "clone3"):
        found.hint = obstacle(message.error) or found.hint
    if known and context.log.debugging:
        for line in way_there(operations, message, context.root, options):
            context.log.debug(line)
    return found


def way_there(
    operations: list[Operation], message: Message, root: str, options: CreateOptions
) -> list[str]:
    """Describe the failed operation, the preceding ones, and the command that shows the plan."""
    at = message.value
    first = max(at - SHOWN_BEFORE, 0)
    before = operation_lines(operations[first:at], first + 1)
    lines = [f"done: {' '.join(line.split())}" for line in before]
    (failed,) = operation_lines(operations[at : at + 1], at + 1)
    on = f" on {message.argument}" if message.argument else ""
    lines += [
        f"failed: {' '.join(failed.split())}",
        f"that is step {at + 1} of {len(operations)}, its system call {message.call}{on}",
    ]
    words = ["--bundle", options.bundle]
    if options.config:
        words += ["--config", options.config]
    bundle = " ".join(map(quoted, words))
    again = f"ociruntime --root {quoted(root)} --debug create {bundle} {quoted(options.id)}"
    return [
        *lines,
        f"all steps: ociruntime plan {bundle}",
        f"again, with every system call in the file trace: strace -f -o trace {again}",
    ]


def quoted(word: str) -> str:
    """Quote a word for the shell."""
    if word and SAFE.issuperset(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"
