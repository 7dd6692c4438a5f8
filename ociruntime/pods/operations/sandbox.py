"""Mutable pods: created without apps, which are added while the pod is running."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.pods.manifest.build import MUTABLE, empty_manifest
from ociruntime.pods.manifest.flavours import flavour
from ociruntime.pods.manifest.ports import add_ports, check_network, port_of_name
from ociruntime.pods.operations.runtime_config import Host, prepared_settings, run_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.pods.manifest.app_arguments import Values
    from ociruntime.pods.store.pod import Pod

_PORT_FORM = "NAME:PROTOCOL:PODPORT:HOSTIP:HOSTPORT, or as in 80-tcp:8080"


def settings_of(host: Host, values: Values, uuid: str) -> dict[str, Any]:
    """Return the ``runtime-config`` of a mutable pod; an empty ``uuid`` only checks.

    Raises UsageError.
    """
    prepared = prepared_settings(
        host, "oci", values.flag("private-users"), not values.flag("no-overlay")
    )
    settings = prepared | run_settings(values, uuid, "oci")
    settings |= {"mutable": True, "on_failure": values.text("on-failure") or "keep"}
    if values.flag("keep"):
        settings["keep"] = True
    kind = flavour(values.text("flavor") or "oci").name
    if kind != "oci":
        raise UsageError(f"--flavor={kind}: mutable pods require flavour oci")
    if settings["interactive"]:
        raise UsageError("--interactive: not possible for a pod without apps")
    return settings


def manifest_of(values: Values, networks: list[str]) -> dict[str, Any]:
    """Return the manifest of a mutable pod.  Raises UsageError."""
    manifest = empty_manifest(values)
    manifest["annotations"].append({"name": MUTABLE, "value": "true"})
    add_ports(manifest, [parse_port(text) for text in values.list("port")])
    check_network(manifest, networks)
    return manifest


def parse_port(text: str) -> dict[str, Any]:
    """Parse a ``--port`` of a pod without apps.  Raises UsageError."""
    from ociruntime.pods.manifest.volumes import port

    fields = text.split(":", 3)
    if len(fields) < 4:
        return port(text)
    _, protocol, inside, rest = fields
    try:
        name = port_of_name(f"{inside}-{protocol}")["name"]
    except ValueError:
        raise UsageError(f'--port: invalid value "{text}"', _PORT_FORM) from None
    return port(f"{name}:{rest}")


def make_sandbox(host: Host, values: Values) -> Pod:
    """Return an empty mutable pod in phase ``prepare``, locked by us.  Raises RuntimeFailure."""
    from ociruntime.pods.store.making import make_pod
    from ociruntime.pods.store.manifest_file import write_manifest, write_runtime_config

    networks = [name for name, _ in settings_of(host, values, "")["net"]]
    manifest = manifest_of(values, networks)

    def fill(pod: Pod) -> None:
        write_manifest(pod, manifest)
        write_runtime_config(pod, settings_of(host, values, pod.uuid))

    return make_pod(host.directory, fill)
