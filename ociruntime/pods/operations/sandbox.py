"""Mutable pods: created without apps, which are added while the pod is running."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ociruntime.base.errors import HostError, PodError, UsageError
from ociruntime.base.fault import fault
from ociruntime.images.model.image import Image
from ociruntime.pods.manifest.build import (
    MUTABLE,
    Draft,
    add_app,
    empty_manifest,
    is_mutable,
    with_clean_source,
)
from ociruntime.pods.manifest.flavours import flavour
from ociruntime.pods.manifest.ports import add_ports, check_network
from ociruntime.pods.manifest.request import AppRequest, SandboxRequest
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

_MUTABLE_HINT = "only pods of `app sandbox` can be changed"


def settings_of(host: Host, request: SandboxRequest, uuid: str) -> dict[str, Any]:
    """Return the ``runtime-config`` of a mutable pod.  Raises UsageError.

    Pass an empty ``uuid`` to check the request only.
    """
    settings = prepared_settings(host, request, "oci") | run_settings(request, uuid, "oci")
    settings |= {"mutable": True, "on_failure": request.on_failure}
    if request.keep:
        settings["keep"] = True
    kind = flavour(request.flavor or "oci").name
    if kind != "oci":
        raise UsageError(f"--flavor={kind}: mutable pods require flavour oci")
    if settings["interactive"]:
        raise UsageError("--interactive: not supported by `app sandbox`, whose pods have no apps")
    return settings


def manifest_of(request: SandboxRequest, networks: list[str]) -> dict[str, Any]:
    """Return the manifest of a mutable pod that joins ``networks``.  Raises UsageError."""
    manifest = empty_manifest(request)
    manifest["annotations"].append({"name": MUTABLE, "value": "true"})
    add_ports(manifest, request.port, request.where("port"))
    check_network(manifest, networks)
    return manifest


def make_sandbox(host: Host, request: SandboxRequest) -> Pod:
    """Create a mutable pod without apps; return it in phase ``prepare``, its lock held.

    Raises RuntimeFailure.
    """
    from ociruntime.pods.store.phases import make_pod

    networks = [name for name, _ in settings_of(host, request, "")["net"]]
    manifest = manifest_of(request, networks)

    def fill(pod: Pod) -> None:
        write_manifest(pod, manifest)
        write_runtime_config(pod, settings_of(host, request, pod.uuid))

    return make_pod(host.directory, fill)


def add_to_pod(pod: Pod, request: Request) -> str:
    """Add the only app of ``request`` to a running pod, without fetching; return its name.

    Raises RuntimeFailure, which leaves the pod unchanged.
    """
    from ociruntime.images.store.store import Store
    from ociruntime.pods.store.lock import prepare_lock

    _check(pod)
    request.pod.pull_policy = "never"
    (app,) = request.pod.apps
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


def _add(pod: Pod, request: Request, app: AppRequest, image: Image) -> str:
    before = read_manifest(pod)
    draft = Draft(read_manifest(pod))
    app.mount = [*app.mount, *_add_volumes(draft.manifest, app)]
    filled = [one for one in app.mnt_volume if one.get("fill")]
    settings = read_runtime_config(pod)
    if settings["private_users"]:
        check_owners(draft.manifest["volumes"], settings["private_users"]["count"])
    entry = add_app(draft, app, image, [], {}, {})
    name = str(entry["name"])
    draft.implicit += [(one["name"], name, one["target"]) for one in filled]
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


def _add_volumes(manifest: dict[str, Any], app: AppRequest) -> list[dict[str, Any]]:
    """Split each ``--mnt-volume`` into a volume and a mount; return the mounts.

    Raises UsageError.
    """
    where = app.where("mnt_volume")
    mounts = []
    for one in app.mnt_volume:
        settings = {key: value for key, value in one.items() if key not in ("target", "fill")}
        made = with_clean_source(settings)
        name = made["name"]
        if made["kind"] == "host" and not os.path.exists(made["source"]):
            raise UsageError(f"{where}: {made['source']}: no such file or directory on this host")
        known = [volume for volume in manifest["volumes"] if volume["name"] == name]
        if known and known[0] != made:
            raise UsageError(f'{where}: the pod already has a different volume "{name}"')
        if not known:
            manifest["volumes"].append(made)
        mounts.append({"volume": name, "target": one["target"]})
    return mounts


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
