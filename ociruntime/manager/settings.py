"""Where the manager keeps what, and how it calls ``ocipod``."""

from __future__ import annotations

from dataclasses import dataclass

ROOT = "/var/lib/ociruntime/manager"
DIRECTORY = "/var/lib/ociruntime"


@dataclass(frozen=True)
class Settings:
    """``root``: the manager's own directory; ``directory``: pods and images, those of ``ocipod``.

    Empty texts: what ``ocipod`` does without the option.
    """

    root: str = ROOT
    directory: str = DIRECTORY
    runtime: str = ""
    system_config: str = ""
    local_config: str = ""
    insecure: tuple[str, ...] = ()
    debug: bool = False
