"""Convert the daemon's answers to the JSON that ``docker inspect`` prints.

Templates of ``--format`` can use both docker's names and the daemon's names (``Shape.own``).
Members of docker's JSON that ocid does not support have docker's default value.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ociruntime.manager.client.template_functions import Keys, Null, Shape

Record: TypeAlias = dict[str, Any]

NO_TIME = "0001-01-01T00:00:00Z"
_ALL = "0.0.0.0"  # noqa: S104 - nothing is bound here
_UNKNOWN_EXIT = 255
_DEFAULT_SHM = 64 << 20
_SHORT_ID = 12  # digits
# Status in ocid -> status in docker.
_STATUSES = {"stopped": "exited", "unknown": "dead", "corrupt": "dead"}
_ACTIVE = ("running", "paused")
# (member of docker's HostConfig, member of the spec, default value).
_HOST_CONFIG: tuple[tuple[str, str, Any], ...] = (
    ("CpuShares", "cpu_shares", 0),
    ("Memory", "memory", 0),
    ("MemoryReservation", "memory_reservation", 0),
    ("MemorySwap", "memory_swap", 0),
    ("CpusetCpus", "cpuset_cpus", ""),
    ("PidsLimit", "pids_limit", None),
    ("OomScoreAdj", "oom_score_adj", 0),
    ("CapAdd", "cap_add", Null()),
    ("CapDrop", "cap_drop", Null()),
    ("Dns", "dns", []),
    ("DnsOptions", "dns_options", []),
    ("DnsSearch", "dns_search", []),
    ("IpcMode", "ipc", "private"),
    ("ReadonlyRootfs", "read_only", False),
    ("ShmSize", "shm_size", _DEFAULT_SHM),
    ("Privileged", "privileged", False),
)


def container(record: Record, image: Record | None = None) -> Shape:
    """Return a container in the form that ``docker inspect`` prints.

    ``record`` is the daemon's JSON for the container; it lacks ``details`` if the container's
    record is corrupt.  ``image`` is the daemon's JSON for the container's image, None if the image
    was removed.
    """
    spec, details = record["spec"], record.get("details") or {}
    settings = {} if spec.get("rootfs") else _object(image or {}, "config")
    program, *args = record["command"] or [""]
    image_id = details.get("image_id") or ""
    return Shape(
        {
            "Id": record["id"],
            "Created": record["created_at"] or NO_TIME,
            "Path": program,
            "Args": args,
            "State": _state(record),
            "Image": image_id,
            "LogPath": details.get("log_path") or "",
            "Name": f"/{record['name']}",
            "RestartCount": record["restart_count"],
            "Driver": "overlay",
            "Platform": "linux",
            "ExecIDs": Null(),
            "HostConfig": _host_config(record, spec),
            "Mounts": [_mount(one) for one in details.get("mounts") or ()],
            "Config": _config(record, spec, details, settings),
            "NetworkSettings": _network_settings(record, details, settings),
        },
        record,
    )


def _object(settings: Record, name: str) -> Record:
    """Return the JSON object ``settings[name]``; {} if it is missing or not an object."""
    value = settings.get(name)
    return value if isinstance(value, dict) else {}


def _state(record: Record) -> Record:
    status = _STATUSES.get(record["status"], record["status"])
    code = record["exit_code"]
    return {
        "Status": status,
        "Running": status in (*_ACTIVE, "restarting"),
        "Paused": status == "paused",
        "Restarting": status == "restarting",
        "OOMKilled": record["oom_killed"],
        "Dead": status == "dead",
        "Pid": record["pid"] or 0,
        "ExitCode": code if code is not None else _UNKNOWN_EXIT if status == "exited" else 0,
        "Error": record["error"],
        "StartedAt": record["started_at"] or NO_TIME,
        "FinishedAt": record["finished_at"] or NO_TIME,
    }


def _host_config(record: Record, spec: Record) -> Record:
    policy = record["restart_policy"]
    volumes = spec.get("volumes") or ()
    limits = {name: spec.get(member, default) for name, member, default in _HOST_CONFIG}
    security = ["no-new-privileges"] if spec.get("no_new_privileges") else []
    security += [f"seccomp={spec['seccomp']}"] if "seccomp" in spec else []
    return {
        "Binds": [_bind(one) for one in volumes] or Null(),
        "ContainerIDFile": "",
        "LogConfig": {"Type": "json-file", "Config": Keys()},
        "NetworkMode": spec.get("network") or "default",
        "PortBindings": _bindings(record["ports"]),
        "RestartPolicy": {"Name": policy["name"], "MaximumRetryCount": policy["maximum"]},
        "AutoRemove": record["auto_remove"],
        "VolumesFrom": [_shared(one) for one in spec.get("volumes_from") or ()] or Null(),
        "ExtraHosts": [f"{one['name']}:{one['address']}" for one in spec.get("hosts") or ()]
        or Null(),
        "GroupAdd": [str(group) for group in spec.get("group_add") or ()] or Null(),
        "PublishAllPorts": bool(spec.get("publish_all")),
        "SecurityOpt": security or Null(),
        "NanoCpus": round((spec.get("cpus") or 0) * 1_000_000_000),
        **limits,
    }


def _bind(volume: Record) -> str:
    """Return a volume's mount in the syntax of ``--volume``: ``SOURCE:TARGET[:ro]``."""
    source = volume.get("source") or volume.get("name") or ""
    return f"{source}:{volume['target']}{':ro' if volume.get('read_only') else ''}"


def _shared(other: Record) -> str:
    """Return a member of ``volumes_from`` in the syntax of ``--volumes-from``: ``NAME[:ro]``."""
    return f"{other['container']}{':ro' if other.get('read_only') else ''}"


def _bindings(ports: list[Record], *, address: str = "") -> Keys:
    """Convert published ports to docker's form, ``{"80/tcp": [{"HostIp", "HostPort"}]}``.

    ``address`` becomes the ``HostIp`` of a port without a ``host_ip``.
    """
    result = Keys()
    for port in ports:
        host = {"HostIp": port.get("host_ip") or address, "HostPort": str(port["host_port"])}
        result.setdefault(_port(port), []).append(host)
    return result


def _port(port: Record) -> str:
    return f"{port['port']}/{port.get('protocol') or 'tcp'}"


def _mount(mount: Record) -> Record:
    named = mount["type"] == "volume"
    return {
        "Type": mount["type"],
        "Name": mount["name"],
        "Source": mount["source"],
        "Destination": mount["target"],
        "Driver": "local" if named else "",
        "Mode": "ro" if mount["read_only"] else "",
        "RW": not mount["read_only"],
        "Propagation": mount.get("propagation", "" if named else "rprivate"),
    }


def _config(record: Record, spec: Record, details: Record, settings: Record) -> Record:
    entrypoint, command = spec.get("entrypoint"), spec.get("command")
    if entrypoint is None:
        entrypoint = settings.get("Entrypoint")
        command = command or settings.get("Cmd")
    exposed = {*_object(settings, "ExposedPorts"), *map(_port, record["ports"])}
    tty, stdin = bool(spec.get("tty")), bool(spec.get("stdin"))
    return {
        "Hostname": details.get("hostname") or spec.get("hostname") or record["id"][:_SHORT_ID],
        "Domainname": spec.get("domainname") or "",
        "User": spec.get("user") or settings.get("User") or "",
        "AttachStdin": stdin,
        "AttachStdout": True,
        "AttachStderr": True,
        "ExposedPorts": Keys({port: {} for port in sorted(exposed)}),
        "Tty": tty,
        "OpenStdin": stdin,
        "StdinOnce": stdin,
        "Env": details.get("env") or [],
        "Cmd": command or Null(),
        "Image": record["image"] or record["rootfs"] or "",
        "Volumes": Keys({path: {} for path in _object(settings, "Volumes")}) or None,
        "WorkingDir": details.get("working_dir") or spec.get("working_dir") or "",
        "Entrypoint": entrypoint or Null(),
        "OnBuild": Null(),
        "Labels": Keys({**_object(settings, "Labels"), **record["labels"]}),
        "StopSignal": record["stop_signal"],
        "StopTimeout": int(record["stop_timeout"]),
    }


def _network_settings(record: Record, details: Record, settings: Record) -> Record:
    active = record["status"] in _ACTIVE
    ports = _bindings(record["ports"], address=_ALL) if active else Keys()
    for exposed in _object(settings, "ExposedPorts"):
        if active:
            ports.setdefault(exposed, None)
    networks = Keys({name: _network(one) for name, one in (details.get("networks") or {}).items()})
    first = next(iter(networks.values()), _network({}))
    shown = ("Gateway", "GlobalIPv6Address", "IPAddress", "IPPrefixLen", "MacAddress")
    return {"Ports": ports, **{name: first[name] for name in shown}, "Networks": networks}


def _network(addresses: Record) -> Record:
    return {
        "IPAMConfig": None,
        "Links": None,
        "Aliases": None,
        "MacAddress": addresses.get("mac") or "",
        "Gateway": addresses.get("gateway") or "",
        "IPAddress": addresses.get("ip4") or "",
        "IPPrefixLen": addresses.get("prefix") or 0,
        "GlobalIPv6Address": addresses.get("ip6") or "",
        "DNSNames": None,
    }


def image(details: Record) -> Shape:
    """Return an image in the form that ``docker image inspect`` prints.

    ``details`` is the daemon's JSON for the image (``images/model/inspect_details.py``).
    """
    settings = _object(details, "config")
    free = {
        name: Keys(settings[name])
        for name in ("Labels", "ExposedPorts", "Volumes")
        if isinstance(settings.get(name), dict)
    }
    return Shape(
        {
            "Id": details["id"],
            "RepoTags": details["repo_tags"],
            "RepoDigests": details["repo_digests"],
            "Parent": "",
            "Comment": (details["history"] or [{"comment": ""}])[-1]["comment"],
            "Created": details["created"],
            "DockerVersion": "",
            "Author": details["author"],
            # docker prints an empty value for a setting that the image does not have.
            "Config": Keys({**_IMAGE_CONFIG, **settings, **free}),
            "Architecture": details["architecture"],
            "Variant": details["variant"],
            "Os": details["os"],
            "Size": details["size"],
            "RootFS": {"Type": "layers", "Layers": details["root_fs"]["layers"]},
        },
        details,
    )


_IMAGE_CONFIG = {
    "User": "",
    "Env": Null(),
    "Cmd": Null(),
    "WorkingDir": "",
    "Entrypoint": Null(),
}


def volume(answer: Record) -> Shape:
    """Return a volume in the form that ``docker volume inspect`` prints.

    ``answer`` is the daemon's JSON for the volume.
    """
    labels, options = answer.get("labels"), answer.get("options")
    return Shape(
        {
            "CreatedAt": answer.get("created_at") or "",
            "Driver": "local",
            "Labels": None if labels is None else Keys(labels),
            "Mountpoint": answer["mountpoint"],
            "Name": answer["name"],
            "Options": None if options is None else Keys(options),
            "Scope": "local",
        },
        answer,
    )


def network(answer: Record) -> Shape:
    """Return a network in the form that ``docker network inspect`` prints.

    ``answer`` is the daemon's JSON for the network.  The keys of ``Containers`` are the containers'
    names; in docker, they are ids.
    """
    subnets = answer["subnets"]
    prefixes = {":" in subnet["subnet"]: subnet["subnet"].partition("/")[2] for subnet in subnets}
    containers = {}
    for name, address in (answer.get("addresses") or {}).items():
        version = "IPv6Address" if ":" in address else "IPv4Address"
        prefix = prefixes.get(":" in address, "")
        containers[name] = {
            "Name": name,
            "IPv4Address": "",
            "IPv6Address": "",
            version: f"{address}/{prefix}" if prefix else address,
        }
    ranges = [{"Subnet": subnet["subnet"], "Gateway": subnet["gateway"]} for subnet in subnets]
    return Shape(
        {
            "Name": answer["name"],
            "Id": answer["name"],
            "Created": answer["created_at"] or NO_TIME,
            "Scope": "local",
            "Driver": answer["driver"],
            "EnableIPv4": any(":" not in subnet["subnet"] for subnet in subnets),
            "EnableIPv6": any(":" in subnet["subnet"] for subnet in subnets),
            "IPAM": {"Driver": "default", "Options": None, "Config": ranges},
            "Internal": answer["internal"],
            "Attachable": False,
            "Ingress": False,
            "Containers": Keys(containers),
            "Options": Keys({}),
            "Labels": Keys(answer["labels"]),
        },
        answer,
    )
