"""The table of the modules that each program's snapshot contains (``snapshot.py``).

Each program has a snapshot of its own, because a large one takes longer to map.  The snapshot of
``ociruntime`` must be small, because engines wait for that program to start; the snapshot of
``ocid`` takes three times as long to map.  List only modules that nearly every run of the program
needs.  Other modules are imported as usual.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = "ociruntime"


class Program:
    """A program that starts from a snapshot, and the modules that its snapshot contains.

    ``main``: the module with the function ``run``.  ``modules``: modules of this package, named
    without ``ociruntime.``.  ``others``: modules of other distributions and of the standard
    library.  ``prepare``: a module whose function ``prepare`` is called before all these are
    imported.  ``streams``: the program uses ``sys.stderr`` (as logging does), so each process must
    open the standard streams again.  ``requires``: an optional package; the program does not start
    without it.
    """

    __slots__ = ("main", "modules", "others", "prepare", "requires", "streams")

    def __init__(
        self,
        main: str,
        modules: str,
        others: str = "",
        prepare: str = "",
        streams: bool = False,
        requires: str = "",
    ) -> None:
        self.main = main
        self.requires = requires
        self.streams = streams
        self.modules = modules.split()
        self.others = others.split()
        self.prepare = prepare


PROGRAMS = {
    # The commands of a container's lifecycle, for any config.json.  Without _seccomp: filters are
    # cached (runtime/host/seccomp_cache.py), and its two libraries cost each command a dozen calls.
    "ociruntime": Program(
        "__main__",
        """
        runtime.cli.main runtime.cli.create runtime.cli.run runtime.cli.exec runtime.cli.start
        runtime.cli.state runtime.cli.kill runtime.cli.delete runtime.cli.events runtime.cli.list
        runtime.cli.ps runtime.cli.pause_and_resume runtime.cli.update runtime.cli.mounts
        commandline.output runtime.spec.check_schema runtime.spec.schema runtime.spec.validate_linux
        runtime.cgroups.resources runtime.cgroups.device_policy runtime.cgroups.device_enforcement
        runtime.cgroups.settings_v1 runtime.cgroups.settings_v2 runtime.cgroups.device_program
        runtime.cgroups.statistics runtime.host.seccomp_cache base.foreground runtime.host.hooks
        runtime.host.idmap runtime.plan.cgroup_mounts runtime.plan.live_mounts
        """,
    ),
    # Commands on pods with images from the store, the monitor and networks.  No registry client: a
    # fetch spends more time on the network than on importing requests.
    "ocipod": Program(
        "pods.cli.__main__",
        """
        pods.cli.main pods.cli.run_pods pods.cli.monitor pods.cli.pods pods.cli.logs pods.cli.apps
        pods.cli.fetch pods.cli.images commandline.help
        pods.monitor.monitor pods.monitor.hibernation pods.bundle.write_bundle
        pods.manifest.oci_resources pods.operations.sandbox pods.operations.sandbox
        pods.operations.app_exec pods.operations.attach_client pods.store.control_client
        pods.bundle.copy_tree
        pods.store.pod_status pods.garbage.garbage_collection pods.bundle.host_facts
        pods.garbage.clean_up pods.garbage.clean_up pods.store.manifest_file
        pods.operations.stop_pod pods.garbage.clean_up pods.bundle.pod_network pods.bundle.overlay
        pods.bundle.users images.fetch images.store.database
        pods.net.connect_pod pods.net.links pods.net.ipam pods.net.firewall_rules pods.net.nft_rules
        pods.net.builtin.bridge pods.net.builtin.loopback pods.net.firewall
        commandline.progress commandline.tables_and_times
        base.foreground base.terminal
        """,
        "_datetime datetime _sqlite3 json hashlib select",
    ),
    "ocictl": Program(
        "manager.client.__main__",
        """
        manager.client.main manager.client.run_and_attach manager.client.containers
        manager.client.ps manager.client.inspect manager.client.logs manager.client.events
        manager.client.images manager.client.system manager.client.container_subcommands
        commandline.help
        commandline.progress commandline.signal_names
        commandline.tables_and_times base.terminal base.foreground
        """,
        "binascii _datetime datetime json select struct termios",
    ),
    "ocid": Program(
        "manager.daemon.__main__",
        """
        manager.daemon.main manager.daemon.daemon manager.daemon.daemon_socket manager.api.routes
        manager.containers.manager manager.containers.daemon_settings
        manager.containers.shared_services commandline.output
        """,
        "aiohttp.web aiohttp.web_runner asyncio.unix_events concurrent.futures.thread",
        "manager.daemon.main",
        streams=True,
        requires="aiohttp",
    ),
}


def file_name(program: str) -> str:
    """Return the file name of a program's snapshot; ``csrc/launcher/`` must use the same."""
    return ".snapshot" if program == FIRST else f".snapshot-{program}"


def program_of(path: str) -> str:
    """Return the program whose snapshot has the path or file name ``path``."""
    return path.rpartition("/")[2].removeprefix(".snapshot").removeprefix("-") or FIRST


def main_file(program: str) -> str:
    """Return the path of a program's main file, relative to the directory of the package."""
    return f"{PROGRAMS[program].main.replace('.', '/')}.py"
