"""What each program's snapshot holds: the modules that nearly every run of the program loads.

One file a program: the largest, of ``ocid``, takes three times as long to map as that of
``ociruntime``, whose start is what engines wait for. A module that a program imports later is
found and loaded as usual; a module here that few commands need only makes the file larger.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

FIRST: Final = "ociruntime"


class Program:
    """A program that starts from a snapshot.

    ``main``: the module with ``run()``. ``modules``: those of the package, without its name;
    ``others``: those of other distributions and of the standard library. ``prepare``: a module
    whose ``prepare()`` is called before these are imported. ``streams``: it writes to
    ``sys.stderr``, as logging does, and not to descriptors alone.
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
    # The commands of a container's life, whatever the configuration asks for.
    "ociruntime": Program(
        "__main__",
        """
        runtime.cli.main runtime.cli.create runtime.cli.run runtime.cli.exec runtime.cli.start
        runtime.cli.state runtime.cli.kill runtime.cli.delete runtime.cli.list runtime.cli.ps
        runtime.cli.pause runtime.cli.resume runtime.cli.update runtime.cli.events
        commandline.output runtime.spec.check runtime.spec.shape runtime.spec.validate_linux
        runtime.cgroups.resources runtime.cgroups.devices runtime.cgroups.device_rules
        runtime.cgroups.settings_v1 runtime.cgroups.settings_v2 runtime.cgroups.device_program
        runtime.cgroups.statistics runtime.host.seccomp_cache base.foreground runtime.host.hooks
        runtime.host.idmap runtime.plan.cgroup_mounts runtime.plan.further_mounts _seccomp
        """,
    ),
    # A pod's life from an image that is in the store, its monitor and its network. Registries are
    # not in it: a fetch waits for them longer than for the import of requests.
    "ocipod": Program(
        "pods.cli.__main__",
        """
        pods.cli.main pods.cli.run pods.cli.run_prepared pods.cli.prepare pods.cli.monitor
        pods.cli.list pods.cli.status pods.cli.stop pods.cli.rm pods.cli.gc pods.cli.logs
        pods.cli.enter pods.cli.attach pods.cli.app_add pods.cli.app_exec pods.cli.app_list
        pods.cli.app_rm pods.cli.app_sandbox pods.cli.app_start pods.cli.app_status
        pods.cli.app_stop pods.cli.fetch pods.cli.image_list pods.cli.version pods.cli.help
        pods.supervisor.supervise pods.supervisor.hibernated_state pods.bundle.write_bundle
        pods.manifest.limits pods.operations.sandbox pods.operations.sandbox
        pods.operations.app_exec pods.operations.attach pods.store.control pods.bundle.copy_files
        pods.store.description pods.garbage.garbage pods.bundle.host_facts
        pods.garbage.sweep pods.garbage.sweep pods.store.manifest_file
        pods.operations.stopping pods.garbage.sweep pods.bundle.pod_network pods.bundle.overlay
        pods.bundle.users images.fetch images.store.database images.store.index_copy images.lookup
        pods.net.networks pods.net.links pods.net.ipam pods.net.rules pods.net.rules_nft
        pods.net.builtin.bridge pods.net.builtin.loopback pods.net.ports pods.net.firewall
        commandline.progress commandline.columns commandline.times commandline.help
        base.foreground base.terminal
        """,
        "_datetime datetime _sqlite3 json hashlib select",
    ),
    "ocictl": Program(
        "manager.client.__main__",
        """
        manager.client.main manager.client.attach manager.client.container_create
        manager.client.container_delete manager.client.container_get manager.client.container_list
        manager.client.container_start manager.client.container_stop manager.client.create
        manager.client.events manager.client.exec manager.client.foreground manager.client.images
        manager.client.info manager.client.inspect manager.client.kill manager.client.logs
        manager.client.pause manager.client.pod_ls manager.client.port manager.client.ps
        manager.client.pull manager.client.restart manager.client.rm manager.client.rmi
        manager.client.run manager.client.start manager.client.stats manager.client.stop
        manager.client.top manager.client.unpause manager.client.version manager.client.wait
        manager.client.help manager.client.ps_table manager.client.session manager.client.websocket
        manager.client.attachment manager.client.filters manager.client.points_in_time
        manager.client.stop_timeout commandline.progress commandline.signal_names commandline.sizes
        commandline.columns commandline.times base.terminal base.foreground
        """,
        "binascii _datetime datetime json select struct termios",
    ),
    "ocid": Program(
        "manager.daemon.__main__",
        """
        manager.daemon.main manager.daemon.daemon manager.daemon.listening manager.api.routes
        manager.containers.manager manager.containers.settings manager.containers.engine
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
