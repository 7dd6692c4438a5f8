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
        cli.main cli.create cli.run cli.exec cli.start cli.state cli.kill cli.delete cli.list
        cli.ps cli.pause cli.resume cli.update cli.events cli.output spec.check spec.shape
        spec.validate_resources cgroups.resources cgroups.devices cgroups.device_rules
        cgroups.settings_v1 cgroups.settings_v2 cgroups.device_program cgroups.statistics
        host.seccomp_cache host.foreground host.hooks host.idmap plan.cgroup_owner
        plan.further_mounts _seccomp
        """,
    ),
    # A pod's life from an image that is in the store, its monitor and its network. Registries are
    # not in it: a fetch waits for them longer than for the import of requests.
    "ocipod": Program(
        "ocipod.__main__",
        """
        ocipod.main ocipod.run ocipod.run_prepared ocipod.prepare ocipod.monitor ocipod.list
        ocipod.status ocipod.stop ocipod.rm ocipod.gc ocipod.logs ocipod.enter ocipod.attach
        ocipod.app_add ocipod.app_exec ocipod.app_list ocipod.app_rm ocipod.app_sandbox
        ocipod.app_start ocipod.app_status ocipod.app_stop ocipod.fetch ocipod.image_list
        ocipod.version ocipod.help
        pod.supervise pod.sleeping pod.write_bundle pod.limits pod.app_addition pod.app_removal
        pod.app_exec pod.attach pod.control pod.copy_files pod.description pod.garbage
        pod.host_facts pod.leftover_cgroups pod.leftover_containers pod.mutation pod.stopping
        pod.sweep pod.pod_network pod.overlay pod.users
        image.fetch image.database image.index_copy image.lookup
        net.networks net.links net.ipam net.rules net.rules_nft net.builtin.bridge
        net.builtin.loopback net.ports net.firewall
        cli.progress cli.tabs cli.times cli.help host.foreground host.terminal
        """,
        "_datetime datetime _sqlite3 json hashlib select",
    ),
    "ocictl": Program(
        "ocictl.__main__",
        """
        ocictl.main ocictl.attach ocictl.container_create ocictl.container_delete
        ocictl.container_get ocictl.container_list ocictl.container_start ocictl.container_stop
        ocictl.create ocictl.events ocictl.exec ocictl.foreground ocictl.images ocictl.info
        ocictl.inspect ocictl.kill ocictl.logs ocictl.pause ocictl.pod_ls ocictl.port ocictl.ps
        ocictl.pull ocictl.restart ocictl.rm ocictl.rmi ocictl.run ocictl.start ocictl.stats
        ocictl.stop ocictl.top ocictl.unpause ocictl.version ocictl.wait ocictl.help ocictl.rows
        ocictl.session ocictl.websocket ocictl.attachment ocictl.filters ocictl.moments
        ocictl.patience
        cli.progress cli.signals cli.sizes cli.tabs cli.times host.terminal host.foreground
        """,
        "binascii _datetime datetime json select struct termios",
    ),
    "ocid": Program(
        "ocid.__main__",
        """
        ocid.main ocid.daemon ocid.listening manager.api manager.manager manager.settings
        manager.engine cli.output
        """,
        "aiohttp.web aiohttp.web_runner asyncio.unix_events concurrent.futures.thread",
        "ocid.lean_imports",
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
