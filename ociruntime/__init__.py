"""ociruntime: an OCI runtime for Linux, pods (ocipod) and a container manager (ocid, ocictl)."""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.api import (
        ConfigError,
        ContainerError,
        ContainerExists,
        HookError,
        HostError,
        InternalError,
        NoSuchContainer,
        NotRunning,
        Process,
        Runtime,
        RuntimeFailure,
        State,
        StepError,
        UsageError,
    )
else:

    def __getattr__(name: str) -> object:
        """Return a public name of runtime/api.py; load that module when a name is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ociruntime.runtime.api import __dict__ as names

        return names[name]


__all__ = [
    "ConfigError",
    "ContainerError",
    "ContainerExists",
    "HookError",
    "HostError",
    "InternalError",
    "NoSuchContainer",
    "NotRunning",
    "Process",
    "Runtime",
    "RuntimeFailure",
    "State",
    "StepError",
    "UsageError",
]
