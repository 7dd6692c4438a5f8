"""The modules in each program's snapshot: those that nearly every run of the program loads.

Each program has its own file: the largest, that of ``ocid``, takes three times as long to map as
that of ``ociruntime``, whose start delays engines. A module that a program imports later is found
and loaded as usual; a module listed here that few commands need only makes the file larger.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

FIRST: Final = "ociruntime"


class Program:
    """A program that starts from a snapshot.

    ``main``: the module with ``run()``. ``modules``: modules of the package, without its name;
    ``others``: modules of other distributions and of the standard library. ``prepare``: a module
    whose ``prepare()`` is called before these are imported. ``streams``: the program writes to
    ``sys.stderr``, as logging does, and not only to descriptors.
    """

    __slots__ = ("main", "modules", "others", "prepare", "streams")

    def __init__(
        self,
        main: str,
        modules: str,
        others: str = "",
        prepare: str = "",
        streams: bool = False,
    ) -> None:
        self.main = main
        self.streams = streams
        self.modules = modules.split()
        self.others = others.split()
        self.prepare = prepare


PROGRAMS = {
    # The commands of a container's lifecycle, for any configuration.
    "ociruntime": Program(
        "__main__",
        """
        runtime.cli.main runtime.cli.create runtime.cli.run runtime.cli.exec runtime.cli.start
        runtime.cli.state runtime.cli.kill runtime.cli.delete runtime.cli.events_and_list
        runtime.cli.running_containers
        commandline.output runtime.spec.check_shape runtime.spec.shape runtime.spec.validate_linux
        runtime.cgroups.resources runtime.cgroups.device_policy runtime.cgroups.device_enforcement
        runtime.cgroups.settings_v1 runtime.cgroups.settings_v2 runtime.cgroups.device_program
        runtime.cgroups.statistics runtime.host.seccomp_cache base.foreground runtime.host.hooks
        runtime.host.idmap runtime.plan.cgroup_mounts runtime.plan.live_mounts _seccomp
        """,
    ),
    # A pod's life from an image that is in the store, its monitor and its network. Registries are
    # not in it: a fetch waits for them longer than for the import of requests.
    "ocipod": Program(
        "pods.cli.__main__",
        """
        pods.cli.main pods.cli.run_pods pods.cli.monitor pods.cli.pods pods.cli.logs pods.cli.apps
        pods.cli.fetch pods.cli.images commandline.help
        pods.supervisor.supervise pods.supervisor.hibernated_state pods.bundle.write_bundle
        pods.manifest.oci_resources pods.operations.sandbox pods.operations.sandbox
        pods.operations.app_exec pods.operations.attach pods.store.control_client
        pods.bundle.copy_files
        pods.store.description pods.garbage.garbage pods.bundle.host_facts
        pods.garbage.sweep pods.garbage.sweep pods.store.manifest_file
        pods.operations.stopping pods.garbage.sweep pods.bundle.pod_network pods.bundle.overlay
        pods.bundle.users images.fetch images.store.database
        pods.net.networks pods.net.links pods.net.ipam pods.net.rules pods.net.rules_nft
        pods.net.builtin.bridge pods.net.builtin.loopback pods.net.port_mappings pods.net.firewall
        commandline.progress commandline.formats
        base.foreground base.terminal
        """,
        "_datetime datetime _sqlite3 json hashlib select",
    ),
    "ocictl": Program(
        "manager.client.__main__",
        """
        manager.client.main manager.client.run_and_attach manager.client.containers
        manager.client.ps
        manager.client.inspection manager.client.logs manager.client.images manager.client.system
        manager.client.container_subcommands commandline.help
        commandline.progress commandline.signal_names
        commandline.formats base.terminal base.foreground
        """,
        "binascii _datetime datetime json select struct termios",
    ),
    "ocid": Program(
        "manager.daemon.__main__",
        """
        manager.daemon.main manager.daemon.daemon manager.daemon.daemon_socket manager.api.routes
        manager.containers.manager manager.containers.settings manager.containers.shared_services
        commandline.output
        """,
        "aiohttp.web aiohttp.web_runner asyncio.unix_events concurrent.futures.thread",
        "manager.daemon.main",
        streams=True,
    ),
}


def file_name(program: str) -> str:
    """Return the name of a program's snapshot (``csrc/launcher/`` has it as well)."""
    return ".snapshot" if program == FIRST else f".snapshot-{program}"


def program_of(path: str) -> str:
    """Return the program whose snapshot has this path, or this name."""
    return path.rpartition("/")[2].removeprefix(".snapshot").removeprefix("-") or FIRST


def main_file(program: str) -> str:
    """Return the file in the package's directory that the interpreter runs for a program."""
    return f"{PROGRAMS[program].main.replace('.', '/')}.py"
