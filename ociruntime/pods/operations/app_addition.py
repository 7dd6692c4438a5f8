"""Add an app to a running mutable pod (``app add``)."""

from __future__ import annotations

import os

from ociruntime.base.errors import HostError, PodError, UsageError
from ociruntime.base.fault import fault
from ociruntime.pods.manifest.build import Draft, add_app, is_mutable
from ociruntime.pods.manifest.volumes import check_owners
from ociruntime.pods.operations.app_removal import remove_files
from ociruntime.pods.operations.prepare import (
    Copies,
    Request,
    add_files,
    fetch_image,
    make_volumes,
    render,
)
from ociruntime.pods.store.control import ask
from ociruntime.pods.store.description import is_ready
from ociruntime.pods.store.manifest_file import (
    read_manifest,
    read_runtime_config,
    write_manifest,
    write_runtime_config,
)
from ociruntime.pods.store.mutation import manifest_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.images.model.image import Image
    from ociruntime.pods.manifest.app_arguments import AppWords
    from ociruntime.pods.store.pod import Pod

_VOLUME_FORM = "name=NAME,kind=host|empty,source=DIR,target=DIR[,readOnly=true]"


def add_to_pod(pod: Pod, request: Request) -> str:
    """Add the one app of ``request``, from an image in the store; return its name.

    On RuntimeFailure the pod is unchanged.
    """
    from ociruntime.images.store.store import Store
    from ociruntime.pods.store.lock import prepare_lock

    _check(pod)
    request.words.options.texts["pull-policy"] = "never"
    app = request.words.apps[0]
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
        raise PodError(f"pod {pod.uuid} is immutable", "only pods of `app sandbox` change")
    if not is_ready(pod):
        raise PodError(f"pod {pod.uuid} is not ready", "ocipod status --wait-ready")


def _add(pod: Pod, request: Request, app: AppWords, image: Image) -> str:
    before = read_manifest(pod)
    draft = Draft(read_manifest(pod))
    _add_volumes(draft.manifest, app)
    settings = read_runtime_config(pod)
    if settings["private_users"]:
        check_owners(draft.manifest["volumes"], settings["private_users"]["count"])
    entry = add_app(draft, app, image, [], {}, request.inherited)
    name = str(entry["name"])
    for warning in draft.warnings:
        request.warn(warning)
    volumes = [
        str(each["name"]) for each in draft.manifest["volumes"] if each not in before["volumes"]
    ]
    # Stale files of an earlier `app add` that was killed before it wrote the manifest.
    remove_files(pod, name, volumes)
    overlay = settings["overlay"]
    told = False
    try:
        tree = render(request.host, image)
        draw = Copies(request.host)
        add_files(pod.path(), entry, image, tree, settings, request.warn, draw)
        make_volumes(pod.path(), draft, {name: tree[1]}, settings, draw)
        if settings["overlay"] != overlay:
            write_runtime_config(pod, settings)
        write_manifest(pod, draft.manifest)
        told = True
        fault("appadd.after-manifest")
        ask(pod, {"op": "add", "app": name})
    except BaseException as error:
        if told:
            write_manifest(pod, before)
        remove_files(pod, name, volumes)
        if isinstance(error, OSError):
            raise HostError(f'add app "{name}" to pod {pod.uuid}', error) from error
        raise
    return name


def _add_volumes(manifest: dict[str, Any], app: AppWords) -> None:
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
