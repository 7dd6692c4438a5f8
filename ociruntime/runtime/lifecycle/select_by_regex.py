"""Select containers by a regular expression: `kill` and `delete` with ``--regex``, as in crun."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

from ociruntime.base.errors import (
    ContainerError,
    HostError,
    NoSuchContainer,
    NotRunning,
    RuntimeFailure,
    UsageError,
)
from ociruntime.runtime.host.state_directory import container_ids
from ociruntime.runtime.lifecycle.context import Context


def for_each_match(context: Context, pattern: str, act: Callable[[str], None]) -> None:
    """Call ``act`` with the id of each container that the regular expression ``pattern`` matches.

    Does nothing if no container matches.  Skips a container if ``act`` raises NotRunning or
    NoSuchContainer.  Other failures do not stop the loop; a ContainerError reports all of them at
    the end.  Raises UsageError for an invalid pattern, and HostError.
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError) as error:
        raise UsageError(f'--regex "{pattern}": invalid regular expression: {error}') from None
    failures = []
    for container_id in _ids(context):
        if compiled.search(container_id):
            try:
                act(container_id)
            except (NoSuchContainer, NotRunning):
                continue
            except RuntimeFailure as error:
                failures.append(str(error))
    if failures:
        raise ContainerError("; ".join(failures))


def _ids(context: Context) -> list[str]:
    """Return the ids of all containers, or [] if the state root does not exist."""
    try:
        return container_ids(context.root)
    except HostError as error:
        if error.errno == errno.ENOENT:
            return []
        raise
