"""The tables of ``container list`` and ``ps``."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.manager.client.container_subcommands import fixed_table, nanoseconds
from ociruntime.manager.client.images import split_name
from ociruntime.manager.client.ps import TITLES, cells, outside, ports, row, seconds, table
from ociruntime.manager.client.stats import Meter
from ociruntime.manager.client.stats import cells as stats_cells
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
    assert str(shown["labels"]) == "a=1,b="
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


def test_ps_fits_a_terminal() -> None:
    port = {"host_ip": "127.0.0.1", "host_port": 8080, "port": 80, "protocol": "tcp"}
    ended = "2026-11-22T10:00:31Z"
    rows = [
        cells(row(record(**changes), NOW))
        for changes in (
            {"ports": [port] * 4, "name": "web"},
            {"status": "stopped", "exit_code": 137, "finished_at": ended, "name": "job-1"},
            {"command": ["/usr/sbin/server", "--with=everything"]},
            {"started_at": "2026-11-22T10:01:01.5Z", "created_at": "2026-11-22T10:01:01Z"},
        )
    ]
    lines = table([TITLES, *rows], 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == " ".join(TITLES).split()
    assert [line.split()[-1] for line in lines[1:3]] == ["web", "job-1"]
    assert "Exited (137) 30s ago" in lines[2]
    assert "Up <1s" in lines[4]
    # What fits stays as it is.
    assert "Exited (137) 30 seconds ago" in table([TITLES, *rows], 400)
    # IDs and names are whole, whatever they are.
    long = cells(row(record(name="n" * 60), NOW))
    assert table([TITLES, long], 80).splitlines()[1].endswith(f"  {'n' * 60}")
    assert ID[:12] in table([TITLES, long], 80)


@pytest.mark.parametrize(
    ("name", "repository", "tag"),
    [
        ("docker.io/library/busybox:1.36", "docker.io/library/busybox", "1.36"),
        ("localhost:5000/web:latest", "localhost:5000/web", "latest"),
        ("localhost:5000/web", "localhost:5000/web", "<none>"),
        ("docker.io/library/web@sha256:00", "docker.io/library/web", "<none>"),
        ("docker.io/library/web:1@sha256:00", "docker.io/library/web", "1"),
        ("oci:/srv/layout:web", "oci:/srv/layout", "web"),
        ("oci:/srv/layout", "oci:/srv/layout", "<none>"),
        ("dir:/srv/a:b", "dir:/srv/a:b", "<none>"),
        ("", "<none>", "<none>"),
    ],
)
def test_columns_of_an_images_name(name: str, repository: str, tag: str) -> None:
    assert split_name(name) == (repository, tag)


class Samples:
    """A connection that answers with the CPU time of a container."""

    def __init__(self, *seconds: float | None) -> None:
        self.seconds = list(seconds)

    def get(self, path: str) -> Any:  # noqa: ANN401 - a JSON document
        if not path.endswith("/stats"):
            return [{"id": ID}]
        return {"id": ID, "name": "web", "cpu_seconds": self.seconds.pop(0)}


def test_cpu_in_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [10.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    meter = Meter(Samples(5.0, 6.0, 0.5, None, 1.0), [])  # type: ignore[arg-type]
    percents = []
    for _ in range(5):
        percents.append(meter.sample()[0]["cpu_percent"])
        clock[0] += 2
    # The third sample is of a container that was restarted, the fourth of one that has ended.
    assert percents == [None, 50.0, 0.0, None, None]


def test_a_row_of_stats() -> None:
    one = {
        "id": ID,
        "name": "web",
        "cpu_percent": 12.5,
        "memory": 32_000_000,
        "memory_limit": 64_000_000,
        "pids": 3,
        "network_received": 1500,
        "network_sent": None,
        "block_read": 0,
        "block_written": 2_000_000,
    }
    assert stats_cells(one)[1:] == [
        *("web", "12.50%", "32.0 MB / 64.0 MB", "50.00%", "1.5 kB / --", "0 B / 2.0 MB", "3")
    ]
