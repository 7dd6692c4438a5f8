"""``ocipod run-prepared``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.output import write
from ociruntime.pods.bundle.runtime_calls import find_runtime
from ociruntime.pods.cli.preparation import check_networks, check_root, values_of, warn
from ociruntime.pods.manifest.build import make_interactive
from ociruntime.pods.manifest.ports import check_network
from ociruntime.pods.operations.runtime_config import run_settings
from ociruntime.pods.store.manifest_file import (
    read_manifest,
    read_runtime_config,
    write_manifest,
    write_runtime_config,
)
from ociruntime.pods.store.phases import open_pod, require_prepared, to_run
from ociruntime.pods.supervisor.launch import be_monitor, start_monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Run a pod made by ``prepare``; return what ``run`` returns."""
    values = values_of(arguments)
    check_root()
    pod = open_pod(context.directory, arguments.positional[0])
    require_prepared(pod)
    manifest, config = read_manifest(pod), read_runtime_config(pod)
    settings = run_settings(values, pod.uuid, config["flavor"])
    check_network(manifest, [name for name, _ in settings["net"]])
    check_networks(context, settings["net"])
    if config["flavor"] == "kvm":
        from ociruntime.pods.kvm.settings import check_run

        check_run(values, context.local_config, str(config.get("kvm_kernel") or ""))
    if settings["interactive"]:
        make_interactive(manifest)
    if settings["interactive"] and values.flag("detach"):
        raise UsageError("--interactive and --detach exclude each other")
    to_run(pod)
    if settings["interactive"]:
        write_manifest(pod, manifest)
    write_runtime_config(pod, config | settings | _of_caller(context))
    if not values.flag("detach"):
        return be_monitor(pod, warn)
    start_monitor(pod, warn)
    return write(f"{pod.uuid}\n")


def _of_caller(context: Context) -> dict[str, object]:
    """Return the settings that this command line overrides from ``prepare``."""
    return {
        "runtime": find_runtime(context.runtime),
        "insecure": sorted(context.insecure),
        "debug": context.debug,
        "local_config": context.local_config,
        "user_config": context.user_config,
        "system_config": context.system_config,
    }
