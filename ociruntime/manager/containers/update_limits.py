"""Change a container's limits: in its record, in its pod's manifest, and in its cgroups.

The OCI runtime writes the cgroups.  It is called last, and changes all limits or none: if it fails,
the record and the manifest are restored.  Later starts use the new limits, because the monitor
reads the manifest at each start.  A new pod gets the limits from the record.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from ociruntime.base.errors import ManagerError, RuntimeFailure
from ociruntime.manager.containers.container_records import Record
from ociruntime.manager.containers.container_spec import Spec
from ociruntime.manager.containers.ocipod_requests import app_limits
from ociruntime.manager.containers.pod_status import APP
from ociruntime.manager.containers.shared_services import SharedServices
from ociruntime.pods.manifest.build_manifest import app_entry
from ociruntime.pods.manifest.isolators import LIMITS, Isolator
from ociruntime.pods.manifest.oci_resources import resources
from ociruntime.pods.store.manifest_file import manifest_lock, read_manifest, write_manifest
from ociruntime.pods.store.pod import Pod


async def apply(
    services: SharedServices, record: Record, spec: Spec, pod: Pod | None, *, runs: bool
) -> None:
    """Give a container the limits and the restart policy in ``spec``.

    The caller holds the container's lock.  ``pod`` is None if the pod was removed.  ``runs`` says
    whether the container is running.  If a file or cgroup cannot be written, restores the old
    limits and restart policy, and raises ManagerError.
    """
    before, old = record.spec, app_limits(record.spec)
    new = app_limits(spec)
    changed = [limit for limit in new if limit not in old]
    former: list[Isolator] | None = None
    record.spec = spec
    try:
        await services.save(record)
        if pod is not None and changed:
            former = await asyncio.to_thread(_set_limits, pod, new)
            if runs:
                text = json.dumps(resources(changed)).encode()
                await services.programs.runtime(pod, "update", "--resources=-", content=text)
    except BaseException as failure:
        record.spec = before
        with suppress(RuntimeFailure):
            await services.save(record)
        if pod is not None and former is not None:
            with suppress(RuntimeFailure):
                await asyncio.to_thread(_set_limits, pod, former)
        if isinstance(failure, RuntimeFailure):
            raise ManagerError(f'update container "{record.name}": {failure}') from None
        raise


def _set_limits(pod: Pod, limits: list[Isolator]) -> list[Isolator]:
    """Replace the app's limits in the pod's manifest with ``limits``; return the old limits.

    Raises RuntimeFailure if the manifest cannot be read or written.
    """
    with manifest_lock(pod):
        manifest = read_manifest(pod)
        app = app_entry(manifest, APP)["app"]
        former = [isolator for isolator in app["isolators"] if isolator["name"] in LIMITS]
        others = [isolator for isolator in app["isolators"] if isolator["name"] not in LIMITS]
        app["isolators"] = [*limits, *others]
        write_manifest(pod, manifest)
    return former
