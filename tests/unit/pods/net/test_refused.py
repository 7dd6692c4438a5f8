"""Invalid settings of names, and invalid results of plugins."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import NetworkError, UsageError
from ociruntime.pods.net import ipam
from ociruntime.pods.net.resolv_conf import parse_dns


@pytest.mark.parametrize(
    ("search", "options", "domain", "text"),
    [
        (["a b"], [], "", '--dns-search: "a b"'),
        ([], [""], "", '--dns-opt: ""'),
        ([], [], "a\nb", '--dns-domain: "a\nb"'),
    ],
)
def test_names(search: list[str], options: list[str], domain: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_dns([], search, options, domain)
    assert text in str(caught.value)


def test_addresses() -> None:
    with pytest.raises(NetworkError, match="no address"):
        ipam.read({"cniVersion": "1.0.0", "ips": []}, "lan")
    with pytest.raises(NetworkError, match="IPAM plugin"):
        ipam.read({"ips": [{"address": "nowhere"}]}, "lan")
