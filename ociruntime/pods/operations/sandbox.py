"""Create sandboxes, which are mutable pods, and add and remove their apps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import HostError, PodError, RuntimeFailure, UsageError
from ociruntime.base.fault_injection import fault
from ociruntime.images.model.image import Image
from ociruntime.pods.manifest.build_manifest import (
    MUTABLE,
    Draft,
    add_app,
    empty_manifest,
    is_mutable,
    with_clean_source,
)
from ociruntime.pods.manifest.flavours import flavour
from ociruntime.pods.manifest.isolators import check_sysctls
from ociruntime.pods.manifest.ports import add_ports, check_network
from ociruntime.pods.manifest.request import AppRequest, SandboxRequest
from ociruntime.pods.manifest.volumes import check_owners
from ociruntime.pods.operations.export_app import lock_stopped_pod
from ociruntime.pods.operations.pod_settings import Host, prepared_settings, run_settings
from ociruntime.pods.operations.prepare_pod import (
    CopyBudget,
    Request,
    add_files,
    check_devices,
    fetch_image,
    make_volumes,
    render,
)
from ociruntime.pods.store.control_client import ask
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.manifest_file import (
    manifest_lock,
    read_manifest,
    read_runtime_config,
    write_manifest,
    write_runtime_config,
)
from ociruntime.pods.store.pod import RUNNING, Pod
from ociruntime.pods.store.pod_status import choose_app, is_ready
from ociruntime.pods.store.remove_tree import remove_tree

if TYPE_CHECKING:
    from ociruntime.images.store.store import Store

WITHDRAW_TIMEOUT = 10.0  # seconds for the monitor to forget an app
_MUTABLE_HINT = "only pods made with `ocipod app sandbox` can be changed"


def settings_of(host: Host, request: SandboxRequest, uuid: str) -> dict[str, Any]:
    """Return the content of a sandbox's file ``runtime-config``.

    To check only the request, pass "" as ``uuid``.  Raises UsageError for an unsupported option.
    """
    settings = prepared_settings(host, request, "oci") | run_settings(request, uuid, "oci")
    settings |= {"mutable": True, "on_failure": request.on_failure, "on_exit": request.on_exit}
    if request.keep:
        settings["keep"] = True
    kind = flavour(request.flavor or "oci").name
    if kind != "oci":
        raise UsageError(f"--flavor={kind}: a sandbox requires flavour oci")
    if settings["interactive"]:
        raise UsageError("--interactive: not supported by `app sandbox`: the new pod has no apps")
    return settings


def manifest_of(request: SandboxRequest, networks: list[str]) -> dict[str, Any]:
    """Return the manifest of a sandbox, without apps.

    ``networks`` are the names of its networks.  Raises UsageError for invalid values in
    ``request``, or if the networks cannot forward ports.
    """
    manifest = empty_manifest(request)
    manifest["annotations"].append({"name": MUTABLE, "value": "true"})
    add_ports(manifest, request.port, request.where("port"))
    check_network(manifest, networks)
    return manifest


def make_sandbox(host: Host, request: SandboxRequest, warn: Callable[[str], None]) -> Pod:
    """Create a sandbox with the apps in ``request``; return it, locked by this process.

    The sandbox is in the phase prepare.  ``warn`` is called with warnings for the user.  Raises
    RuntimeFailure if the request is invalid or a file cannot be created.
    """
    from ociruntime.pods.store.phases import make_pod

    settings = settings_of(host, request, "")
    manifest = manifest_of(request, [name for name, _ in settings["net"]])
    check_sysctls(manifest, settings)
    whole = Request(host, request, warn)

    def fill(pod: Pod) -> None:
        # Do this first: a caller that kills this process knows then which pod to remove.
        save_uuid(request.uuid_file_save, pod)
        settings = settings_of(host, request, pod.uuid)
        for app, image in images:
            draft = Draft(manifest)
            entry = _draft_app(draft, settings, whole, app, image)
            _make_files(pod, draft, entry, settings, whole, (app, image))
        write_manifest(pod, manifest)
        fault("sandbox.after-manifest")
        write_runtime_config(pod, settings)

    if not request.apps:
        images: list[tuple[AppRequest, Image]] = []
        return make_pod(host.directory, fill)
    with _stored(host.directory) as store:
        images = [(app, _stored_image(whole, store, app)) for app in request.apps]
        return make_pod(host.directory, fill)


def save_uuid(path: str, pod: Pod) -> None:
    """Write the pod's UUID to ``path``, the file of --uuid-file-save; do nothing if ``path`` is "".

    Raises HostError if the file cannot be written.
    """
    if not path:
        return
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(pod.uuid)
    except OSError as error:
        raise HostError(f'write the UUID to "{path}"', error) from error


@contextmanager
def _stored(directory: str) -> Iterator[Store]:
    """Context manager: open the image store, and prevent ``image gc`` from removing images.

    Before the context ends, the caller must write the files of a pod that uses the images; after
    that, ``image gc`` keeps these images.
    """
    from ociruntime.images.store.store import Store
    from ociruntime.pods.store.lock import prepare_lock

    with prepare_lock(directory, exclusive=False), Store(directory) as store:
        yield store


def _stored_image(request: Request, store: Store, app: AppRequest) -> Image:
    request.pod.pull_policy = "never"
    return fetch_image(request, store, app.image)


def add_to_pod(pod: Pod, request: Request) -> str:
    """Add the only app in ``request`` to a running sandbox; return the app's name.

    The image must be in the store.  If this raises RuntimeFailure, the pod is unchanged.
    """
    _check(pod)
    (app,) = request.pod.apps
    with _stored(pod.directory) as store:
        image = _stored_image(request, store, app)
        with manifest_lock(pod):
            _check(pod)
            return _add(pod, request, app, image)


def _check(pod: Pod) -> None:
    if pod.refresh() != "running":
        raise PodError(f'pod {pod.uuid} is not running: its state is "{pod.state}"')
    if not is_mutable(read_manifest(pod)):
        raise PodError(f"pod {pod.uuid} is immutable", _MUTABLE_HINT)
    if not is_ready(pod):
        hint = f"wait for it with: ocipod status --wait-ready {pod.uuid}"
        raise PodError(f"pod {pod.uuid} is not ready", hint)


def _add(pod: Pod, request: Request, app: AppRequest, image: Image) -> str:
    before = read_manifest(pod)
    draft = Draft(read_manifest(pod))
    settings = read_runtime_config(pod)
    entry = _draft_app(draft, settings, request, app, image)
    name = str(entry["name"])
    volumes = [
        str(each["name"]) for each in draft.manifest["volumes"] if each not in before["volumes"]
    ]
    # Remove the stale files of an `app add` that was killed before it wrote the manifest.
    remove_files(pod, name, volumes)
    overlay = settings["overlay"]
    is_written = False
    try:
        _make_files(pod, draft, entry, settings, request, (app, image))
        if settings["overlay"] != overlay:
            write_runtime_config(pod, settings)
        write_manifest(pod, draft.manifest)
        is_written = True
        fault("appadd.after-manifest")
        ask(pod, {"op": "add", "app": name})
    except BaseException as error:
        if is_written:
            write_manifest(pod, before)
            _withdraw(pod, name)
        remove_files(pod, name, volumes)
        if isinstance(error, OSError):
            raise HostError(f'add app "{name}" to pod {pod.uuid}', error) from error
        raise
    return name


def _withdraw(pod: Pod, name: str) -> None:
    """Make the monitor forget the app ``name``, which it may have added before `app add` failed."""
    try:
        ask(pod, {"op": "rm", "app": name, "seconds": 0}, WITHDRAW_TIMEOUT)
    except RuntimeFailure:
        pass  # the pod has exited; the caller raises the error of `app add`


def _draft_app(
    draft: Draft, settings: dict[str, Any], request: Request, app: AppRequest, image: Image
) -> dict[str, Any]:
    """Add an app and its volumes to ``draft``; return the app's manifest entry.

    ``settings`` is the pod's runtime-config.  Raises UsageError for an invalid name, volume or
    mount.
    """
    app.mount = [*app.mount, *_add_volumes(draft.manifest, app)]
    if settings["private_users"]:
        check_owners(draft.manifest["volumes"], settings["private_users"]["count"])
    entry = add_app(draft, app, image, [], {}, {})
    check_devices(entry)
    filled = [one for one in app.mnt_volume if one.get("fill")]
    draft.implicit += [(one["name"], str(entry["name"]), one["target"]) for one in filled]
    if image.has_healthcheck:
        entry["image"]["healthcheck"] = True  # ocid warns of it
    for warning in draft.warnings:
        request.warn(warning)
    return entry


def _make_files(
    pod: Pod,
    draft: Draft,
    entry: dict[str, Any],
    settings: dict[str, Any],
    request: Request,
    app_and_image: tuple[AppRequest, Image],
) -> None:
    """Create an app's files and volumes in the pod's directory.

    ``entry`` is the app's entry in the manifest of ``draft``, ``app_and_image`` is (request for the
    app, its image), ``settings`` is the pod's runtime-config.  Raises RuntimeFailure or OSError if
    a file cannot be created.
    """
    app, image = app_and_image
    tree = render(request.host, image)
    budget = CopyBudget(request.host)
    add_files(
        pod.path(),
        entry,
        image,
        tree,
        settings,
        request.warn,
        budget,
        docker_environment=app.docker_environment,
    )
    make_volumes(pod.path(), draft, {str(entry["name"]): tree[1]}, settings, budget)


def _add_volumes(manifest: dict[str, Any], app: AppRequest) -> list[dict[str, Any]]:
    """Add the volumes of the app's --mnt-volume options to ``manifest``; return their mounts.

    Raises UsageError if a host directory is missing, or if the pod has a different volume with the
    same name.
    """
    where = app.where("mnt_volume")
    mounts = []
    for one in app.mnt_volume:
        settings = {key: value for key, value in one.items() if key not in ("target", "fill")}
        made = with_clean_source(settings)
        name = made["name"]
        if made["kind"] == "host" and not os.path.exists(made["source"]):
            raise UsageError(f'{where}: "{made["source"]}": no such file or directory on this host')
        known = [volume for volume in manifest["volumes"] if volume["name"] == name]
        if known and known[0] != made:
            raise UsageError(f'{where}: the pod already has a different volume "{name}"')
        if not known:
            manifest["volumes"].append(made)
        mounts.append({"volume": name, "target": one["target"]})
    return mounts


def remove_app(pod: Pod, app: str, seconds: float) -> None:
    """Stop an app of a sandbox, then remove its files, its log and its manifest entry.

    ``app`` may be "" if the pod has only one app.  ``seconds`` is the time between the stop signal
    and SIGKILL.  Raises PodError if the pod is immutable or has no such app, HostError if a file
    cannot be removed.
    """
    with ExitStack() as locks:
        if pod.refresh() != RUNNING:
            locks.enter_context(lock_stopped_pod(pod, "remove an app of"))
        locks.enter_context(manifest_lock(pod))
        manifest = read_manifest(pod)
        if not is_mutable(manifest):
            raise PodError(f"pod {pod.uuid} is immutable", _MUTABLE_HINT)
        name = choose_app(pod, app)
        if pod.state == RUNNING:
            # Only the monitor can unmount the root filesystem, in its own mount namespace.
            ask(pod, {"op": "rm", "app": name, "seconds": seconds})
        remove_files(pod, name)
        # Remove the entry last, so that removal can be repeated after a crash.
        manifest["apps"] = [entry for entry in manifest["apps"] if entry["name"] != name]
        write_manifest(pod, manifest)


def remove_files(pod: Pod, name: str, volumes: Sequence[str] = ()) -> None:
    """Remove the files and logs of the app ``name``, and the pod's ``volumes``, from disk.

    The pod's manifest is not changed.  Raises HostError if a file cannot be removed.
    """
    try:
        _remove(pod, "apps", lambda each: each == name)
        _remove(pod, "volumes", lambda each: each in volumes)
        log = f"{name}.log"
        _remove(pod, "logs", lambda each: each == log or each.startswith(f"{log}."))
    except OSError as error:
        raise HostError(f'remove app "{name}" of pod {pod.uuid}', error) from None


def _remove(pod: Pod, part: str, matches: Callable[[str], bool]) -> None:
    """Remove the entries of the pod's subdirectory ``part`` whose names ``matches`` accepts.

    Raises OSError if an entry cannot be removed.
    """
    fd = open_directory(part, pod.fd)
    try:
        for name in os.listdir(fd):
            if matches(name):
                remove_tree(fd, name)
    finally:
        os.close(fd)
