"""The member ``details`` of the answer to ``GET /v1/containers/ID``, from the files of the pod.

    {"image_id", "env": ["NAME=VALUE"], "user": "USER[:GROUP]", "working_dir", "hostname",
     "log_path", "mounts": [{"type": "bind" or "volume", "name", "source", "target", "read_only",
     "propagation"}], "networks": {NAME: {"ip4", "ip6", "prefix", "gateway", "mac"}}}

A value that the pod's files do not contain is empty.  If the files cannot be read, ``hostname`` is
the container's short id.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ociruntime.base.errors import RuntimeFailure
from ociruntime.manager.containers.container_records import Answer, Record
from ociruntime.manager.containers.pod_status import APP
from ociruntime.pods.manifest.build_manifest import app_entry
from ociruntime.pods.store.manifest_file import read_manifest, read_object
from ociruntime.pods.store.pod import Pod


def details(record: Record, open_pod: Callable[[], Pod | None], volumes: str) -> Answer:
    """Return the member ``details`` for the container of ``record``.

    ``open_pod()`` returns the container's pod, ``volumes`` is the directory of the manager's
    volumes.  Missing or damaged files of the pod are not an error here: the container's status
    reports them.
    """
    result: Answer = {
        "image_id": record.image_id,
        "env": [],
        "user": "",
        "working_dir": "",
        "hostname": record.id[:12],
        "log_path": "",
        "mounts": [],
        "networks": {},
    }
    try:
        pod = open_pod()
        if pod is None:
            return result
        manifest = read_manifest(pod)
        result |= _of_app(manifest, app_entry(manifest, APP), pod, volumes)
        if pod.refresh() == "running":
            result["networks"] = _networks(read_object(pod, "net-info.json") or {})
    except (RuntimeFailure, OSError, AttributeError, KeyError, TypeError, ValueError):
        pass
    return result


def _of_app(manifest: dict[str, Any], entry: dict[str, Any], pod: Pod, volumes: str) -> Answer:
    app = entry["app"]
    env = {one["name"]: one["value"] for one in app["environment"]}
    user, group = app.get("user") or "", app.get("group") or ""
    return {
        "env": [f"{name}={value}" for name, value in env.items()],
        "user": f"{user}:{group}" if group else user,
        "working_dir": app.get("workingDirectory") or "",
        "hostname": env.get("HOSTNAME", ""),
        "log_path": f"{pod.path()}/logs/{APP}.log",
        "mounts": [_mount(manifest, mount, pod, volumes) for mount in entry["mounts"]],
    }


def _mount(manifest: dict[str, Any], mount: dict[str, Any], pod: Pod, volumes: str) -> Answer:
    volume = next(one for one in manifest["volumes"] if one["name"] == mount["volume"])
    source = volume.get("source") or ""
    name = ""
    if volume["kind"] != "host":  # a volume that the image declares is in the pod's directory
        name, source = volume["name"], f"{pod.path()}/volumes/{volume['name']}"
    elif os.path.dirname(source) == volumes:
        name = os.path.basename(source)
    return {
        "type": "volume" if name else "bind",
        "name": name,
        "source": source,
        "target": mount["path"],
        "read_only": bool(volume.get("readOnly")),
        "propagation": "" if name else volume.get("propagation") or "rprivate",
    }


def _networks(info: dict[str, Any]) -> Answer:
    return {one["name"]: _network(one) for one in info.get("networks") or ()}


def _network(one: dict[str, Any]) -> Answer:
    result = one.get("result") or {}
    interfaces = result.get("interfaces") or []
    inside = [interface for interface in interfaces if interface.get("sandbox")]
    addresses = result.get("ips") or []
    _, _, prefix = str(addresses[0]["address"] if addresses else "").partition("/")
    return {
        "ip4": one.get("ip4") or "",
        "ip6": one.get("ip6") or "",
        "prefix": int(prefix or 0),
        "gateway": str(addresses[0].get("gateway") or "") if addresses else "",
        "mac": str(inside[0].get("mac") or "") if inside else "",
    }
