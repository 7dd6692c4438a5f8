"""The tables of ``container list`` and ``ps``."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.manager.client.forms import text
from ociruntime.manager.client.ps import cells, outside, ports, row, seconds
from ociruntime.manager.client.strict import fixed_table, nanoseconds
from tests.support.manager_stub import ID, record

NOW = 1795341661.0  # 2026-11-22T10:01:01Z


def test_the_fixed_columns() -> None:
    new = record(
        name="a-long-name",
        status="created",
        command=["/bin/echo"],
        started_at=None,
    )
    ended = record(
        id="cd" * 32,
        status="stopped",
        exit_code=3,
        finished_at="2026-11-22T10:00:02Z",
        command=["/bin/sh", "-c", "echo \n", ""],
    )
    head, first, second = fixed_table([new, ended]).splitlines()
    assert head.split() == [
        *("ID", "NAME", "STATUS", "EXIT_CODE", "CREATED_AT", "STARTED_AT", "FINISHED_AT"),
        *("COMMAND", "ARGS"),
    ]
    time = "2026-11-22T10:00:00.120000000Z"
    assert first == (
        f"{ID} a-long-name Created -1        {time} Not started yet.               n/a"
        "                            /bin/echo"
    )
    assert (
        second
        == (
            f"{'cd' * 32} web         Stopped 3         {time} 2026-11-22T10:00:01.000000000Z "
            "2026-11-22T10:00:02.000000000Z /bin/sh   -c, echo \\n, "
        ).rstrip()
    )
    for line in (first, second):
        assert line.index(time) == head.index("CREATED_AT")


def test_a_table_of_nothing_has_its_titles() -> None:
    assert fixed_table([]).split() == [
        *("ID", "NAME", "STATUS", "EXIT_CODE", "CREATED_AT", "STARTED_AT", "FINISHED_AT"),
        *("COMMAND", "ARGS"),
    ]


def test_a_corrupt_container_has_a_row() -> None:
    corrupt = record(status="corrupt", command=[], created_at=None, started_at=None)
    line = fixed_table([corrupt]).splitlines()[1]
    assert "Corrupt -1" in line
    assert "Not created yet." in line


def test_times_have_nine_digits() -> None:
    assert nanoseconds("2026-11-22T10:00:02.5Z") == "2026-11-22T10:00:02.500000000Z"
    assert nanoseconds(None) == ""


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "Up 1 minute"),
        ({"started_at": "2026-11-22T10:01:01.5Z"}, "Up less than a second"),
        ({"status": "paused"}, "Up 1 minute (Paused)"),
        ({"status": "created"}, "Created"),
        ({"status": "removing"}, "Removing"),
        (
            {"status": "stopped", "exit_code": 0, "finished_at": "2026-11-22T10:00:31Z"},
            "Exited (0) 30 seconds ago",
        ),
        ({"status": "stopped"}, "Exited (?)"),
    ],
)
def test_status(changes: dict[str, Any], status: str) -> None:
    assert row(record(**changes), NOW)["status"] == status


def test_a_row_of_ps() -> None:
    forwarded = [
        {"host_ip": "", "host_port": 8080, "port": 80, "protocol": "tcp"},
        {"host_ip": "::1", "host_port": 53, "port": 53, "protocol": "udp"},
    ]
    shown = row(record(ports=forwarded, labels={"a": "1", "b": ""}), NOW)
    assert cells(shown) == [
        ID[:12],
        "docker.io/library/busybox:latest",
        '"/bin/sh -c sleep 1"',
        "1 minute ago",
        "Up 1 minute",
        "0.0.0.0:8080->80/tcp, [::1]:53->53/udp",
        "web",
    ]
    assert text(shown["labels"]) == "a=1,b="
    assert shown["state"] == "running"


def test_long_things_are_cut_unless_asked_for() -> None:
    long = record(command=["/usr/sbin/server", "--with=everything\n"], image="", rootfs="/srv")
    assert cells(row(long, NOW))[1:3] == ["/srv", '"/usr/sbin/server --…"']
    full = row(long, NOW, full=True)
    assert (full["id"], cells(full)[2]) == (ID, '"/usr/sbin/server --with=everything\\n"')


def test_ports() -> None:
    assert ports([]) == ""
    assert outside({"host_port": 1}) == "0.0.0.0:1"


def test_seconds() -> None:
    assert seconds("2026-11-22T10:01:01.123456789Z") == int(NOW)
    assert seconds(None) is None
