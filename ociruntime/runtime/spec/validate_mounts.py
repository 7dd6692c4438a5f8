"""Rules of the mounts, except for the options, which the plan interprets."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.validate_linux import validate_mappings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.spec.document import Mount


def validate_mounts(mounts: list[Mount], namespaces: dict[str, str], warnings: list[str]) -> None:
    """Check the rules; appends warnings, raises ConfigError."""
    for index, mount in enumerate(mounts):
        where = f"mounts[{index}]"
        destination = mount["destination"]
        if not destination:
            raise ConfigError(f"{where}.destination", "must not be empty")
        if destination[0] != "/":  # CFG-MOUNT-03, -04
            warnings.append(f'{where}.destination: "{destination}" is relative, taken from /')
        options = mount.get("options", [])
        binds = "bind" in options or "rbind" in options
        remounts = "remount" in options
        if not mount.get("type") and not binds and not remounts:
            hint = 'only a mount with the option "bind" or "rbind" has none'
            raise ConfigError(f"{where}.type", "is missing", hint)
        if binds and not remounts and not mount.get("source"):
            raise ConfigError(f"{where}.source", "is missing", "a bind mount needs one")
        mapped = "uidMappings" in mount or "gidMappings" in mount
        if mapped or "idmap" in options or "ridmap" in options:
            _id_mapped(mount, where, namespaces, warnings)


def _id_mapped(mount: Mount, where: str, namespaces: dict[str, str], warnings: list[str]) -> None:
    """CFG-MIDMAP-02 to -06."""
    uids, gids = mount.get("uidMappings", []), mount.get("gidMappings", [])
    if bool(uids) != bool(gids):
        absent, given = ("gid", "uid") if uids else ("uid", "gid")
        hint = f"{given}Mappings never go alone"
        raise ConfigError(f"{where}.{absent}Mappings", "is missing", hint)
    validate_mappings(uids, f"{where}.uidMappings")
    validate_mappings(gids, f"{where}.gidMappings")
    for position, option in enumerate(mount.get("options", [])):
        if option in ("idmap", "ridmap"):
            if not uids and "user" not in namespaces:
                message = f'"{option}" has no mapping to go by'
                hint = (
                    "give the mount uidMappings and gidMappings, or the container a user namespace"
                )
                raise ConfigError(f"{where}.options[{position}]", message, hint)
            return
    if uids:
        warnings.append(f'{where}: has mappings but not the option "idmap"; applied as if it had')
