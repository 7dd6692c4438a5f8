"""The filters of a list of containers, such as ``ocictl ps --filter status=exited``.

``manager/client/ps.py`` has their names for ocictl, which refuses others.
"""

from __future__ import annotations

from ociruntime.base.errors import BadRequest
from ociruntime.manager.containers.container_records import Answer
from ociruntime.manager.containers.container_spec import networks_of
from ociruntime.manager.containers.list_filters import LABEL, NAME, Filter
from ociruntime.manager.containers.pod_status import (
    CORRUPT,
    CREATED,
    PAUSED,
    REMOVING,
    RESTARTING,
    RUNNING,
    STOPPED,
    UNKNOWN,
)

# Docker's names for a status, which the table of ``ps`` also prints.
_SYNONYMS = {"exited": STOPPED, "up": RUNNING}
_STATUSES = (
    *(CREATED, RUNNING, PAUSED, STOPPED, RESTARTING, REMOVING, UNKNOWN, CORRUPT),
    *_SYNONYMS,
)


def _status_word(value: str) -> str:
    word = value.lower()
    return _SYNONYMS.get(word, word)


def _check_status(where: str, value: str) -> None:
    if value.lower() not in _STATUSES:
        raise BadRequest(where, f'unknown status "{value}"', f"supported: {', '.join(_STATUSES)}")


def _check_exit_code(where: str, value: str) -> None:
    if not (value.isascii() and value.isdigit()):
        raise BadRequest(where, f'must be an exit code, not "{value}"', "for example exited=1")


def _has_exited(answer: Answer, value: str) -> bool:
    return answer["status"] == STOPPED and str(answer["exit_code"]) == value


FILTERS: dict[str, Filter] = {
    "id": Filter(lambda one, value: one["id"].startswith(value)),
    "name": NAME,
    "status": Filter(lambda one, value: one["status"] == _status_word(value), _check_status),
    "image": Filter(lambda one, value: value in (one["image"], one["rootfs"])),
    "label": LABEL,
    "exited": Filter(_has_exited, _check_exit_code),
    "network": Filter(lambda one, value: value in networks_of(one["spec"])),
}
