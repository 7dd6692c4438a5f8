"""The hosts file of a pod's apps, from options."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.pods.net.hosts_file import hosts, parse_hosts_entries


def test_hosts_file() -> None:
    options = parse_hosts_entries(["10.0.0.9=db,10.0.0.8=web", "10.0.0.9=db.test"])
    assert options == parse_hosts_entries(["10.0.0.9=db,db.test,10.0.0.8=web"])
    assert options["entries"] == [["10.0.0.9", ["db", "db.test"]], ["10.0.0.8", ["web"]]]
    text = hosts(options, "pod-1", image_has_one=True)
    assert text is not None
    lines = text.splitlines()
    assert lines[0].split() == ["127.0.0.1", "localhost", "localhost.localdomain"]
    assert lines[-3:] == ["127.0.0.1\tpod-1", "10.0.0.9\tdb db.test", "10.0.0.8\tweb"]


def test_hosts_of_image_and_host() -> None:
    nothing = parse_hosts_entries([])
    assert hosts(nothing, "p", image_has_one=True) is None
    assert "127.0.0.1\tp\n" in (hosts(nothing, "p", image_has_one=False) or "")
    assert hosts(parse_hosts_entries(["host"]), "p", image_has_one=False) is None


@pytest.mark.parametrize(
    "word",
    ["host,10.0.0.1=a", "10.0.0.1", "10.0.0=a", "10.0.0.1=", "10.0.0.1=a b", "", "1.1.1.1=é"],
)
def test_refused_entries(word: str) -> None:
    with pytest.raises(UsageError, match="--hosts-entry"):
        parse_hosts_entries([word])
