"""Mutable pods: created without apps, which are added while the pod is running."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ociruntime.base.errors import HostError, PodError, UsageError
from ociruntime.base.fault import fault
from ociruntime.commandline.parser import Arguments
from ociruntime.images.model.image import Image
from ociruntime.pods.manifest.app_arguments import AppArguments
from ociruntime.pods.manifest.build import MUTABLE, Draft, add_app, empty_manifest, is_mutable
from ociruntime.pods.manifest.flavours import flavour
from ociruntime.pods.manifest.ports import add_ports, check_network, port_of_name
from ociruntime.pods.manifest.volumes import check_owners
from ociruntime.pods.operations.prepare import (
    CopyBudget,
    Request,
    add_files,
    fetch_image,
    make_volumes,
    render,
)
from ociruntime.pods.operations.runtime_config import Host, prepared_settings, run_settings
from ociruntime.pods.store.control import ask
from ociruntime.pods.store.description import choose_app, is_ready
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.manifest_file import (
    manifest_lock,
    read_manifest,
    read_runtime_config,
    write_manifest,
    write_runtime_config,
)
from ociruntime.pods.store.pod import Pod
from ociruntime.pods.store.removal import remove_tree

_PORT_FORM = "NAME:PROTOCOL:PODPORT:HOSTIP:HOSTPORT, or as in 80-tcp:8080"
_MUTABLE_HINT = "only pods of `app sandbox` can be changed"


def settings_of(host: Host, values: Arguments, uuid: str) -> dict[str, Any]:
    """Return the ``runtime-config`` of a mutable pod.  Raises UsageError.

    Pass an empty ``uuid`` to check the options only.
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
        raise UsageError("--interactive: not supported by `app sandbox`, whose pods have no apps")
    return settings


def manifest_of(values: Arguments, networks: list[str]) -> dict[str, Any]:
    """Return the manifest of a mutable pod that joins ``networks``.  Raises UsageError."""
    manifest = empty_manifest(values)
    manifest["annotations"].append({"name": MUTABLE, "value": "true"})
    add_ports(manifest, [parse_port(text) for text in values.list("port")])
    check_network(manifest, networks)
    return manifest


def parse_port(text: str) -> dict[str, Any]:
    """Parse a ``--port`` of `app sandbox`, in ocipod's form or rkt's.  Raises UsageError."""
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


def make_sandbox(host: Host, values: Arguments) -> Pod:
    """Create a mutable pod without apps; return it in phase ``prepare``, its lock held.

    Raises RuntimeFailure.
    """
    from ociruntime.pods.store.manifest_file import write_manifest, write_runtime_config
    from ociruntime.pods.store.phases import make_pod

    networks = [name for name, _ in settings_of(host, values, "")["net"]]
    manifest = manifest_of(values, networks)

    def fill(pod: Pod) -> None:
        write_manifest(pod, manifest)
        write_runtime_config(pod, settings_of(host, values, pod.uuid))

    return make_pod(host.directory, fill)


_VOLUME_FORM = "name=NAME,kind=host|empty,source=DIR,target=DIR[,readOnly=true]"


def add_to_pod(pod: Pod, request: Request) -> str:
    """Add the only app of ``request`` to a running pod, without fetching; return its name.

    Raises RuntimeFailure, which leaves the pod unchanged.
    """
    from ociruntime.images.store.store import Store
    from ociruntime.pods.store.lock import prepare_lock

    _check(pod)
    request.arguments.options.texts["pull-policy"] = "never"
    app = request.arguments.apps[0]
    # image gc must not remove the tree before the manifest refers to it.
    with prepare_lock(pod.directory, exclusive=False), Store(pod.directory) as store:
        image = fetch_image(request, store, app.image)
        with manifest_lock(pod):
            _check(pod)
            return _add(pod, request, app, image)


def _check(pod: Pod) -> None:
    if pod.refresh() != "running":
        raise PodError(f"pod {pod.uuid} is not running: it is {pod.state}")
    if not is_mutable(read_manifest(pod)):
        raise PodError(f"pod {pod.uuid} is immutable", _MUTABLE_HINT)
    if not is_ready(pod):
        raise PodError(f"pod {pod.uuid} is not ready", "wait with ocipod status --wait-ready")


def _add(pod: Pod, request: Request, app: AppArguments, image: Image) -> str:
    before = read_manifest(pod)
    draft = Draft(read_manifest(pod))
    _add_volumes(draft.manifest, app)
    settings = read_runtime_config(pod)
    if settings["private_users"]:
        check_owners(draft.manifest["volumes"], settings["private_users"]["count"])
    entry = add_app(draft, app, image, [], {}, request.inherited)
    name = str(entry["name"])
    if image.has_healthcheck:
        entry["image"]["healthcheck"] = True  # ocid warns of it
    for warning in draft.warnings:
        request.warn(warning)
    volumes = [
        str(each["name"]) for each in draft.manifest["volumes"] if each not in before["volumes"]
    ]
    # An earlier `app add` that was killed before it wrote the manifest leaves stale files.
    remove_files(pod, name, volumes)
    overlay = settings["overlay"]
    is_written = False
    try:
        tree = render(request.host, image)
        budget = CopyBudget(request.host)
        add_files(pod.path(), entry, image, tree, settings, request.warn, budget)
        make_volumes(pod.path(), draft, {name: tree[1]}, settings, budget)
        if settings["overlay"] != overlay:
            write_runtime_config(pod, settings)
        write_manifest(pod, draft.manifest)
        is_written = True
        fault("appadd.after-manifest")
        ask(pod, {"op": "add", "app": name})
    except BaseException as error:
        if is_written:
            write_manifest(pod, before)
        remove_files(pod, name, volumes)
        if isinstance(error, OSError):
            raise HostError(f'add app "{name}" to pod {pod.uuid}', error) from error
        raise
    return name


def _add_volumes(manifest: dict[str, Any], app: AppArguments) -> None:
    """Split each ``--mnt-volume`` into a volume and this app's mount of it.  Raises UsageError."""
    from ociruntime.pods.manifest import volumes

    for text in app.options.list("mnt-volume"):
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        name, target = fields.pop("name", ""), fields.pop("target", "")
        if not name or not target:
            raise UsageError(f'--mnt-volume: invalid value "{text}"', _VOLUME_FORM)
        rest = ",".join(f"{key}={value}" for key, value in fields.items())
        made = volumes.volume(f"{name},{rest}")
        if made["kind"] == "host" and not os.path.exists(made["source"]):
            raise UsageError(
                f"--mnt-volume: {made['source']}: no such file or directory on this host"
            )
        known = [volume for volume in manifest["volumes"] if volume["name"] == name]
        if known and known[0] != made:
            raise UsageError(f'--mnt-volume: the pod already has a different volume "{name}"')
        if not known:
            manifest["volumes"].append(made)
        app.options.lists.setdefault("mount", []).append(f"volume={name},target={target}")


def remove_app(pod: Pod, wanted: str, seconds: float) -> None:
    """Stop the app ``wanted``, then remove its files, its log and its manifest entry.

    ``seconds`` is the time between the stop signal and SIGKILL.  Raises PodError if the pod is
    immutable or has no such app; HostError.
    """
    with manifest_lock(pod):
        manifest = read_manifest(pod)
        if not is_mutable(manifest):
            raise PodError(f"pod {pod.uuid} is immutable", _MUTABLE_HINT)
        name = choose_app(pod, wanted)
        if pod.refresh() == "running":
            # Only the monitor can unmount the root filesystem: it is in its mount namespace.
            ask(pod, {"op": "rm", "app": name, "seconds": seconds})
        remove_files(pod, name)
        # Remove the entry last, so that removal can be repeated after a crash.
        manifest["apps"] = [entry for entry in manifest["apps"] if entry["name"] != name]
        write_manifest(pod, manifest)


def remove_files(pod: Pod, name: str, volumes: Sequence[str] = ()) -> None:
    """Remove all files of an app, except its manifest entry, and the given volumes of the pod.

    Raises HostError.
    """
    try:
        _remove(pod, "apps", lambda each: each == name)
        _remove(pod, "volumes", lambda each: each in volumes)
        log = f"{name}.log"
        _remove(pod, "logs", lambda each: each == log or each.startswith(f"{log}."))
    except OSError as error:
        raise HostError(f'remove app "{name}" of pod {pod.uuid}', error) from None


def _remove(pod: Pod, part: str, matches: Callable[[str], bool]) -> None:
    """Remove the matching entries of the pod's subdirectory ``part``.  Raises OSError."""
    fd = open_directory(part, pod.fd)
    try:
        for name in os.listdir(fd):
            if matches(name):
                remove_tree(fd, name)
    finally:
        os.close(fd)
