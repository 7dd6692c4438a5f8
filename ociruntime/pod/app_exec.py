"""A command inside a running app: this process becomes the runtime's ``exec``."""

from __future__ import annotations

from ociruntime.errors import PodError
from ociruntime.pod.app_states import app_record
from ociruntime.pod.manifest_file import read_runtime_config
from ociruntime.pod.runtime_calls import RuntimeCalls, find_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from ociruntime.pod.pod import Pod


def become_command(
    pod: Pod, app: str, command: Sequence[str], options: Sequence[str] = ()
) -> NoReturn:
    """Become ``command`` in ``app``; its exit status is ours.

    ``options`` are those of the runtime's ``exec``.  Raises PodError if the app does not run.
    """
    if pod.state != "running":
        raise PodError(f"pod {pod.uuid} is not running: it is {pod.state}")
    state = app_record(pod, app)["state"]
    if state != "running":
        raise PodError(f'app "{app}" of pod {pod.uuid} is not running: it is {state}')
    config = read_runtime_config(pod)
    if config.get("flavor") == "kvm":
        raise PodError(f"pod {pod.uuid}: a virtual machine cannot be entered", "attach, or logs")
    runtime = RuntimeCalls(find_runtime(str(config.get("runtime") or "ociruntime")), pod.uuid)
    runtime.become("", ["exec", *options, runtime.container(app), *command], (0, 1, 2))
