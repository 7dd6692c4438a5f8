"""Where the manager keeps what, and how it calls ``ocipod``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ociruntime.base.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = "/var/lib/ociruntime/manager"
DIRECTORY = "/var/lib/ociruntime"


@dataclass(frozen=True)
class Settings:
    """``root``: the manager's own directory; ``directory``: pods and images, those of ``ocipod``.

    Empty texts: what ``ocipod`` does without the option. ``insecure`` are the checks that are left
    out for every container, ``client_insecure`` those that a client may leave out for its own.
    """

    root: str = ROOT
    directory: str = DIRECTORY
    runtime: str = ""
    system_config: str = ""
    local_config: str = ""
    insecure: tuple[str, ...] = ()
    client_insecure: tuple[str, ...] = ()
    debug: bool = False

    def check_insecure(self, checks: Sequence[str]) -> None:
        """Raise Forbidden if a client may not leave out one of these checks."""
        for check in checks:
            if check not in self.insecure and check not in self.client_insecure:
                raise Forbidden(
                    f'leave out the check "{check}": the daemon does not allow it to clients',
                    f"start ocid with --allow-insecure={check}",
                )
