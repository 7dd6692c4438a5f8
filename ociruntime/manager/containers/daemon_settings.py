"""The daemon's settings: its directories, and the options that it passes to ``ocipod``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ociruntime.base import paths
from ociruntime.base.errors import Forbidden
from ociruntime.pods.net.network_configs import net_directories

ROOT = f"{paths.DATA}/manager"
DIRECTORY = paths.DATA


@dataclass(frozen=True)
class Settings:
    """The daemon's settings; "" means the default of ``ocipod``.

    ``root`` is the data directory of the manager, ``directory`` the data directory of ``ocipod``
    (pods and images).  ``insecure`` lists the security checks that are disabled for all containers,
    ``client_insecure`` the checks that a client may disable for its own containers.
    """

    root: str = ROOT
    directory: str = DIRECTORY
    runtime: str = ""
    system_config: str = ""
    local_config: str = ""
    insecure: tuple[str, ...] = ()
    client_insecure: tuple[str, ...] = ()
    debug: bool = False

    @property
    def config_directories(self) -> tuple[str, str]:
        """The settings directories of ``ocipod``: (the vendor's, the administrator's)."""
        system = self.system_config or paths.SYSTEM_CONFIG
        return system, self.local_config or paths.LOCAL_CONFIG

    @property
    def net_directories(self) -> list[str]:
        """The directories that ``ocipod`` searches for network configurations, in order."""
        system, local = self.config_directories
        return net_directories("", local, system, self.directory)

    def check_insecure(self, checks: Sequence[str]) -> None:
        """Raise Forbidden if ``checks`` contains a security check that clients may not disable."""
        for check in checks:
            if check not in self.insecure and check not in self.client_insecure:
                raise Forbidden(
                    f'disable the security check "{check}": not allowed for clients of this ocid',
                    f"start ocid with --allow-insecure={check}",
                )
