"""Prepare a pod from a request: fetch and unpack images, and create the pod's files.

A failure before the pod's directory is created changes nothing but the image store.  After a later
failure, the pod is removed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ociruntime.base.errors import HostError, PodError, UsageError
from ociruntime.base.fault_injection import fault
from ociruntime.base.files import write_new
from ociruntime.base.json_text import dump
from ociruntime.base.open_below_root import open_inside
from ociruntime.images.model.image import Image, Progress
from ociruntime.images.model.image_limits import Budget
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.store import Store
from ociruntime.pods.bundle.copy_tree import PrivateUsers, copy_metadata, copy_tree
from ociruntime.pods.bundle.filled_volume import fill
from ociruntime.pods.bundle.host_devices import check_source
from ociruntime.pods.bundle.users import account
from ociruntime.pods.manifest import build_manifest as manifest
from ociruntime.pods.manifest import environment, isolators, seccomp_isolators
from ociruntime.pods.manifest.app_options import REPLACED_BY_MANIFEST
from ociruntime.pods.manifest.flavours import Flavour, check_number, flavour
from ociruntime.pods.manifest.ports import check_network
from ociruntime.pods.manifest.request import PodRequest
from ociruntime.pods.manifest.user_ids import PRIVATE_IDS
from ociruntime.pods.manifest.volumes import check_owners
from ociruntime.pods.net import net_option
from ociruntime.pods.operations.pod_settings import Host, prepared_settings, run_settings
from ociruntime.pods.store.pod import Pod


@dataclass
class Request:
    """A request to create a pod, with the caller's global options and callbacks.

    ``runs`` is True if the pod will be run at once.  ``warn`` is called with warnings for the user,
    ``progress`` is called with the progress of downloads.
    """

    host: Host
    pod: PodRequest
    warn: Callable[[str], None]
    runs: bool = False
    progress: Progress | None = None


def prepare(request: Request) -> Pod:
    """Create a pod from a request; return it in the phase prepare, locked by this process.

    Raises RuntimeFailure if the request is invalid, or an image or the pod cannot be created.
    """
    kind = check(request)
    _warn_of_ignored(request, kind)
    with Store(request.host.directory) as store:
        draft, images = _draft(request, store)
        _check_draft(draft, request, kind)
        for warning in draft.warnings:
            request.warn(warning)
        return _make(request, draft, images, kind)


def check(request: Request) -> Flavour:
    """Check the options in ``request`` that can be checked without images.

    Returns the pod's flavour (oci, kvm or fly).  Raises UsageError for options that contradict each
    other, PodError if this host does not support an option.
    """
    pod = request.pod
    if pod.pod_manifest:
        for name in REPLACED_BY_MANIFEST:
            if pod.given(name):
                raise UsageError(f"--pod-manifest and --{name} are mutually exclusive")
        if pod.apps:
            raise UsageError("--pod-manifest and images are mutually exclusive")
    elif not pod.apps:
        raise UsageError(
            "create a pod: at least one image is required",
            "pass IMAGE [OPTION]... [-- ARGUMENT]..., or --pod-manifest FILE",
        )
    kind = flavour(pod.flavor or pod.stage1_name or "oci")
    check_number(kind, len(pod.apps))
    if kind.name == "fly" and pod.private_users:
        raise UsageError(
            "--private-users: not supported by flavour fly, which uses the host's users"
        )
    if pod.interactive and len(pod.apps) > 1:
        number = len(pod.apps)
        raise UsageError(f"--interactive requires a pod with one app; this one has {number}")
    if pod.interactive and pod.detach:
        raise UsageError("--interactive and --detach are mutually exclusive")
    check_network({"ports": pod.port}, _networks(request, kind))
    if kind.name == "kvm":
        from ociruntime.pods.kvm.machine_settings import check_request

        check_request(pod, request.host.local_config)
    elif pod.kvm_kernel:
        raise UsageError("--kvm-kernel requires flavour kvm", "add --flavor=kvm")
    return kind


def _networks(request: Request, kind: Flavour) -> list[str]:
    if kind.name == "fly":
        return ["host"]
    return [name for name, _ in net_option.parse(request.pod.net)] if request.runs else []


def _warn_of_ignored(request: Request, kind: Flavour) -> None:
    requests = [request.pod, *request.pod.apps]
    ignored = [name for name in kind.ignored if any(each.given(name) for each in requests)]
    if ignored:
        request.warn(
            f"ignoring options without effect in flavour {kind.name}: --{', --'.join(ignored)}"
        )


def _draft(request: Request, store: Store) -> tuple[manifest.Draft, dict[str, Image]]:
    """Return (draft of the pod's manifest, {app's name: image}); fetch images if necessary."""
    pod = request.pod
    if pod.pod_manifest:
        from ociruntime.pods.manifest.user_manifest import read_input

        draft = read_input(pod.pod_manifest, store)
        if pod.interactive:
            manifest.make_interactive(draft.manifest)
        ids = [store.find(entry["image"]["id"]).id for entry in draft.manifest["apps"]]
        images = [fetch_image(request, store, id) for id in ids]
    else:
        inherited = dict(os.environ) if pod.inherit_env else {}
        variables = environment.pod_variables(pod.set_env_file, pod.set_env)
        images = [fetch_image(request, store, app.image, app.signature) for app in pod.apps]
        draft = manifest.build(pod, list(images), variables, inherited)
    names = [entry["name"] for entry in draft.manifest["apps"]]
    return draft, dict(zip(names, images, strict=True))


def fetch_image(request: Request, store: Store, reference: str, signature: str = "") -> Image:
    """Return the image ``reference`` from the store; fetch it first if --pull-policy requires it.

    ``signature`` is the path of a detached signature, or "".  Raises ImageError if the image cannot
    be fetched or is not trusted, HostError if ``signature`` cannot be read.
    """
    from ociruntime.images.fetch import fetch

    pod, host = request.pod, request.host
    policy = pod.pull_policy
    if pod.store_only:
        policy = "never"
    elif pod.no_store:
        policy = "update"
    data = None
    if signature:
        try:
            with open(signature, "rb") as file:
                data = file.read()
        except OSError as error:
            raise HostError(f'--signature: read "{signature}"', error) from error
    image: Image = fetch(
        store,
        reference,
        policy,
        host.insecure,
        request.progress,
        settings=_image_settings(host),
        signature=data,
        warn=request.warn,
    )
    if image.has_healthcheck:
        request.warn(f'image "{image.name or image.id}": its HEALTHCHECK is ignored')
    return image


def _check_draft(draft: manifest.Draft, request: Request, kind: Flavour) -> None:
    check_network(draft.manifest, _networks(request, kind))
    isolators.check_pod(draft.manifest["isolators"])
    for entry in draft.manifest["apps"]:
        isolators.check_app(entry["app"].get("isolators", []), f'app "{entry["name"]}"')
        seccomp_isolators.check(entry["app"].get("isolators", []))
    check_number(kind, len(draft.manifest["apps"]))
    if request.pod.private_users:
        check_owners(draft.manifest["volumes"], PRIVATE_IDS)
    for volume in draft.manifest["volumes"]:
        if volume["kind"] == "host" and not os.path.exists(volume["source"]):
            name, source = volume["name"], volume["source"]
            raise UsageError(f'volume "{name}": "{source}": no such file or directory on this host')
    for entry in draft.manifest["apps"]:
        check_devices(entry)
    if kind.name == "kvm":
        from ociruntime.pods.kvm.machine_settings import check_manifest

        check_manifest(draft.manifest)


def check_devices(entry: dict[str, Any]) -> None:
    """Raise PodError if a device of the app ``entry`` does not exist on this host."""
    for device in entry.get("devices", ()):
        check_source(device["source"])


def _make(
    request: Request,
    draft: manifest.Draft,
    images: dict[str, Image],
    kind: Flavour,
) -> Pod:
    from ociruntime.pods.store.lock import prepare_lock
    from ociruntime.pods.store.manifest_file import write_manifest, write_runtime_config
    from ociruntime.pods.store.phases import make_pod

    pod_request, host = request.pod, request.host

    if request.runs:
        isolators.check_sysctls(draft.manifest, run_settings(pod_request, "", kind.name))

    def fill(pod: Pod) -> None:
        settings = prepared_settings(host, pod_request, kind.name)
        if pod_request.kvm_kernel:
            settings["kvm_kernel"] = os.path.abspath(pod_request.kvm_kernel)
        trees = {name: render(host, image) for name, image in images.items()}
        fault("prepare.after-render")
        budget = CopyBudget(host)
        for entry in draft.manifest["apps"]:
            name = entry["name"]
            add_files(pod.path(), entry, images[name], trees[name], settings, request.warn, budget)
        roots = {name: tree[1] for name, tree in trees.items()}
        make_volumes(pod.path(), draft, roots, settings, budget)
        write_manifest(pod, draft.manifest)
        if request.runs:
            settings |= run_settings(pod_request, pod.uuid, kind.name)
        write_runtime_config(pod, settings)

    with prepare_lock(host.directory, exclusive=False):
        return make_pod(host.directory, fill)


def _image_settings(host: Host) -> Settings:
    return Settings(host.system_config, host.local_config, host.user_config)


def render(host: Host, image: Image) -> tuple[str, str]:
    """Unpack ``image`` to the tree store, unless the store has it already.

    Returns (id of the unpacked tree, path of its root directory).  Raises ImageError if the image
    cannot be unpacked, HostError if a file cannot be written.
    """
    from ociruntime.images.unpack.tree_store import TreeStore

    trees = TreeStore(host.directory, _image_settings(host).limits)
    tree = trees.render(image)
    return tree, trees.rootfs(tree)


class CopyBudget:
    """The limits of a single image, applied to all files that are copied from images to a pod.

    Before copying a file, call the object with the file's stat result: it raises ImageError if the
    file would exceed a limit, HostError if the limits cannot be read.
    """

    __slots__ = ("_budget", "_host")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._budget: Budget | None = None

    def __call__(self, status: os.stat_result) -> None:
        if self._budget is None:
            limits = _image_settings(self._host).limits()
            self._budget = Budget.at(self._host.directory, limits)
        self._budget.take_file()
        self._budget.take_bytes(status.st_blocks * 512)  # bytes on disk, because copies keep holes


def add_files(
    path: str,
    entry: dict[str, Any],
    image: Image,
    tree: tuple[str, str],
    settings: dict[str, Any],
    warn: Callable[[str], None],
    budget: CopyBudget,
    *,
    docker_environment: bool = False,
) -> None:
    """Create the directory ``apps/NAME`` for an app, in the pod's directory ``path``.

    ``entry`` is the app's entry in the pod's manifest, ``tree`` is (id of the image's unpacked
    tree, path of its root directory).  If an overlay cannot be mounted, sets
    ``settings["overlay"]`` to False and copies the image's files.  With ``docker_environment``, the
    app's environment has only the defaults that docker sets.  Raises PodError for invalid settings,
    ImageError if a limit is exceeded, HostError if a file cannot be created.
    """
    from ociruntime.pods.bundle.overlay import mount_error
    from ociruntime.pods.bundle.private_mount_namespace import enter_own_mounts

    home = f"{path}/apps/{entry['name']}"
    users = _private_users(settings)
    app = entry["app"]
    who = account(tree[1], app["user"], app["group"], app.get("supplementaryGIDs", []))
    given = {one["name"]: one["value"] for one in app["environment"]}
    if docker_environment:
        variables = environment.completed_as_docker(given, who.home)
    else:
        variables = environment.completed(given, entry["name"], who.name, who.home, who.shell)
    for directory in (home, f"{home}/bundle", f"{home}/bundle/rootfs"):
        os.mkdir(directory, 0o750)
    if settings["overlay"]:
        for name in ("upper", "work"):
            os.mkdir(f"{home}/{name}", 0o700)
        copy_metadata(tree[1], f"{home}/upper", os.stat(tree[1]), users)
        enter_own_mounts()
        why = mount_error(tree[1], home, users)
        if why:
            warn(f"copying the images' files, because an overlay cannot be mounted: {why}")
            settings["overlay"] = False
            os.rmdir(f"{home}/upper")
            _remove(f"{home}/work")
    if not settings["overlay"]:
        copy_tree(tree[1], f"{home}/bundle/rootfs", users, budget)
    _write_json(
        f"{home}/image.json",
        {"id": image.id, "name": image.name, "tree": tree[0], "config": image.config},
    )
    _write_json(f"{home}/env", variables)


def make_volumes(
    path: str,
    draft: manifest.Draft,
    roots: dict[str, str],
    settings: dict[str, Any],
    budget: CopyBudget,
) -> None:
    """Create the directories of a pod's volumes of kind ``empty``.

    ``path`` is the pod's directory.  If a volume in ``draft.implicit`` is empty, it is filled with
    an image's files, even if it is a directory of the host.  ``roots`` maps names of apps to the
    root directories of their images.  Raises HostError or OSError if a volume cannot be created or
    filled, ImageError if a limit is exceeded.
    """
    users = _private_users(settings)
    shift = users[0] if users else 0
    origins = {volume: (app, directory) for volume, app, directory in draft.implicit}
    for volume in draft.manifest["volumes"]:
        target = f"{path}/volumes/{volume['name']}"
        origin = origins.get(volume["name"])
        if volume["kind"] == "host" and origin:
            fill(volume["source"], roots[origin[0]], origin[1], users, budget)
        if volume["kind"] != "empty" or os.path.isdir(target):
            continue
        os.mkdir(target, 0o700)
        if origin and _copied(origin, roots, target, users, budget):
            continue
        os.chown(target, volume.get("uid", 0) + shift, volume.get("gid", 0) + shift)
        os.chmod(target, int(volume.get("mode", "0755"), 8))


def _copied(
    origin: tuple[str, str],
    roots: dict[str, str],
    target: str,
    users: PrivateUsers,
    budget: CopyBudget,
) -> bool:
    """Copy the image directory ``origin`` to ``target``, the directory of a volume.

    ``origin`` is (name of app, path in the app's image).  Returns False if the image has no such
    directory.
    """
    app, path = origin
    root = os.open(roots[app], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = open_inside(root, path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    finally:
        os.close(root)
    try:
        copy_tree(f"/proc/self/fd/{fd}/.", target, users, budget)
    finally:
        os.close(fd)
    return True


def _private_users(settings: dict[str, Any]) -> PrivateUsers:
    users = settings["private_users"]
    return (users["shift"], users["count"]) if users else None


def _write_json(path: str, document: dict[str, Any]) -> None:
    write_new(path, dump(document).encode() + b"\n", 0o640)


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path)


__all__ = ("Host", "PodError", "Request", "prepare")
