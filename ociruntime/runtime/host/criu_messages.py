"""Encode and decode the messages of CRIU's RPC (protobuf: criu.org/RPC, images/rpc.proto).

A message is a dict whose keys are the field names of rpc.proto.  The tables contain the fields used
here, whose numbers never change.  Fields of a response that are not in a table are ignored.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import CriuError

Message = dict[str, Any]


VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
ALL_BITS = (1 << 64) - 1

# Types of requests and responses (criu_req_type).
DUMP, RESTORE, PRE_DUMP, NOTIFY, FEATURE_CHECK = 1, 2, 4, 6, 9

CGROUP_MODES = {"ignore": 0, "soft": 3, "full": 4, "strict": 5}
NETWORK_LOCKS = {"iptables": 1, "nftables": 2, "skip": 3}

# Message -> field -> (field number; type: "number", "text" or the name of a nested message).
SHAPES: dict[str, dict[str, tuple[int, str]]] = {
    "criu_req": {
        "type": (1, "number"),
        "opts": (2, "criu_opts"),
        "notify_success": (3, "number"),
        "features": (5, "criu_features"),
    },
    "criu_resp": {
        "type": (1, "number"),
        "success": (2, "number"),
        "restore": (4, "criu_restore_resp"),
        "notify": (5, "criu_notify"),
        "cr_errno": (7, "number"),
        "features": (8, "criu_features"),
        "cr_errmsg": (9, "text"),
    },
    "criu_restore_resp": {"pid": (1, "number")},
    "criu_notify": {"script": (1, "text"), "pid": (2, "number")},
    "criu_features": {"mem_track": (1, "number"), "lazy_pages": (2, "number")},
    "criu_page_server_info": {"address": (1, "text"), "port": (2, "number")},
    "cgroup_root": {"ctrl": (1, "text"), "path": (2, "text")},
    "inherit_fd": {"key": (1, "text"), "fd": (2, "number")},
    "join_namespace": {"ns": (1, "text"), "ns_file": (2, "text")},
    "criu_opts": {
        "images_dir_fd": (1, "number"),
        "pid": (2, "number"),
        "leave_running": (3, "number"),
        "ext_unix_sk": (4, "number"),
        "tcp_established": (5, "number"),
        "evasive_devices": (6, "number"),
        "shell_job": (7, "number"),
        "file_locks": (8, "number"),
        "log_level": (9, "number"),
        "log_file": (10, "text"),
        "ps": (11, "criu_page_server_info"),
        "notify_scripts": (12, "number"),
        "root": (13, "text"),
        "parent_img": (14, "text"),
        "track_mem": (15, "number"),
        "auto_dedup": (16, "number"),
        "work_dir_fd": (17, "number"),
        "link_remap": (18, "number"),
        "cg_root": (25, "cgroup_root"),
        "rst_sibling": (26, "number"),
        "inherit_fd": (27, "inherit_fd"),
        "manage_cgroups": (24, "number"),
        "manage_cgroups_mode": (34, "number"),
        "external": (37, "text"),
        "empty_ns": (38, "number"),
        "join_ns": (39, "join_namespace"),
        "freeze_cgroup": (44, "text"),
        "tcp_skip_in_flight": (46, "number"),
        "lazy_pages": (48, "number"),
        "status_fd": (49, "number"),
        "orphan_pts_master": (50, "number"),
        "config_file": (51, "text"),
        "tcp_close": (52, "number"),
        "lsm_profile": (53, "text"),
        "lsm_mount_context": (63, "text"),
        "network_lock": (64, "number"),
    },
}


def encode(kind: str, message: Message) -> bytes:
    """Serialise a message of type ``kind``; a list is a repeated field, a dict a nested message."""
    parts = []
    for name, content in message.items():
        number, holds = SHAPES[kind][name]
        for value in content if isinstance(content, list) else [content]:
            if holds == "number":
                parts.append(_varint(number << 3 | VARINT) + _varint(int(value) & ALL_BITS))
                continue
            if holds == "text":
                data = value.encode("utf-8", "surrogateescape")
            else:
                data = encode(holds, value)
            parts.append(_varint(number << 3 | BYTES) + _varint(len(data)) + data)
    return b"".join(parts)


def decode(kind: str, data: bytes) -> Message:
    """Parse a message of type ``kind``; if a field repeats, its last value wins.

    Raises CriuError if ``data`` is malformed.
    """
    fields = {number: (name, holds) for name, (number, holds) in SHAPES[kind].items()}
    message: Message = {}
    at = 0
    try:
        while at < len(data):
            tag, at = _read_varint(data, at)
            value, at = _read_value(data, at, tag & 7)
            name, holds = fields.get(tag >> 3, ("", ""))
            if not name or isinstance(value, bytes) == (holds == "number"):
                continue
            if isinstance(value, bytes):
                text = value.decode("utf-8", "surrogateescape")
                message[name] = text if holds == "text" else decode(holds, value)
            else:
                message[name] = value - (1 << 64) if value >> 63 else value
    except (IndexError, ValueError):
        raise CriuError("decode the response of criu: not a valid protobuf message") from None
    return message


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("varint longer than 64 bits")
    return (value | data[at] << shift) & ALL_BITS, at + 1


def _read_value(data: bytes, at: int, wire: int) -> tuple[int | bytes, int]:
    """Return (value at offset ``at``, offset after the value); the value is a number or bytes.

    ``wire`` is protobuf's wire type of the value.  Raises ValueError or IndexError if ``data`` is
    malformed.
    """
    if wire == VARINT:
        return _read_varint(data, at)
    if wire == BYTES:
        size, at = _read_varint(data, at)
    elif wire in (FIXED64, FIXED32):
        size = 8 if wire == FIXED64 else 4
    else:
        raise ValueError("unsupported wire type")
    if at + size > len(data):
        raise ValueError("truncated message")
    return data[at : at + size], at + size
