"""Matching of images by the policy's prefixes."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.model.reference import parse
from ociruntime.images.trust.policy import check_prefix, covers, read_policy, shown
from ociruntime.images.trust.trusted_keys import directory_of, prefix_of


@pytest.mark.parametrize(
    ("prefix", "name", "covered"),
    [
        ("docker.io", "docker.io/library/busybox:1", True),
        ("docker.io/library", "docker.io/library/busybox:1", True),
        ("docker.io/library/busybox", "docker.io/library/busybox:1", True),
        ("docker.io/library/busybox", "docker.io/library/busybox@sha256:0", True),
        ("docker.io/library/busybox:1", "docker.io/library/busybox:1", True),
        ("docker.io/library/busybox:1", "docker.io/library/busybox:12", False),
        ("docker.io/library/busy", "docker.io/library/busybox:1", False),
        ("docker.io/lib", "docker.io/library/busybox:1", False),
        ("example.org", "example.org:5000/web:1", False),
        ("example.org:5000", "example.org:5000/web:1", True),
        ("example.org", "example.organisation/web:1", False),
        ("example.org:443", "example.org/web:1", True),
        ("example.org:443/team", "example.org/team/web:1", True),
        ("index.docker.io", "docker.io/library/busybox:1", True),
        ("registry-1.docker.io/library", "docker.io/library/busybox:1", True),
        ("[0::1]:5000", "[::1]:5000/web:1", True),
        ("oci:", "oci:/srv/a:1", True),
        ("oci:/srv", "oci:/srv/a:1", True),
        ("oci:/srv/a", "oci:/srv/a:1", True),
        ("oci:/srv/a", "oci:/srv/ab", False),
        ("oci:", "oci-archive:/srv/a", False),
    ],
)
def test_covers(prefix: str, name: str, covered: bool) -> None:
    assert covers(check_prefix(prefix, "it"), name) == covered


@pytest.mark.parametrize(
    "prefix", ["", "busybox", "library/busybox", "https://a.org", "a.org/", "/a.org", "A.org"]
)
def test_what_is_no_prefix(prefix: str) -> None:
    with pytest.raises(ImageError, match="invalid image prefix"):
        check_prefix(prefix, "it")


def test_the_longest_prefix_decides() -> None:
    document = {
        "default": "reject",
        "prefixes": {
            "a.org": "accept",
            "a.org/team": {"signedBy": {"openpgp": True, "cosign": ["x.pub", "/y.pub"]}},
        },
    }
    policy = read_policy(document, "/etc/x/policy.json")
    assert policy.rule("b.org/web:1").kind == "reject"
    assert policy.rule("a.org/web:1").kind == "accept"
    rule = policy.rule("a.org/team/web:1")
    assert (rule.kind, rule.openpgp, rule.cosign) == ("signedBy", True, ("/etc/x/x.pub", "/y.pub"))
    assert shown(rule) == {"signedBy": {"openpgp": True, "cosign": ["/etc/x/x.pub", "/y.pub"]}}


def test_slashes_lead_around_no_rule() -> None:
    """A path that begins with two slashes is covered by the same rule."""
    prefixes = {"oci:/srv": "reject", "dir://srv": "reject", "tar:": "reject"}
    policy = read_policy({"prefixes": prefixes}, "/x/p.json")
    for text in ("oci:/srv/web", "oci://srv/web:1", "oci:///srv//web", "dir:/srv", "dir://srv/web"):
        assert policy.rule(parse(text).name).kind == "reject", text
    assert policy.rule(parse("dir:/srv2").name).kind == "accept"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"other": 1}, r'p\.json.: unknown member "other" .supported: default, prefixes'),
        ({"default": "maybe"}, r"p\.json.: default: invalid rule"),
        (
            {"prefixes": {"a.org": "accept", "a.org:443": "reject"}},
            r'prefixes\["a\.org:443"\]: duplicate rule for .a\.org',
        ),
        ({"prefixes": []}, r"p\.json.: prefixes"),
        ({"prefixes": {"busybox": "accept"}}, 'invalid image prefix "busybox"'),
        ({"prefixes": {"a.org": {"signedBy": {}}}}, r'"a\.org"\]\.signedBy: must require'),
        ({"prefixes": {"a.org": {"signedBy": {"x": 1}}}}, r'"a\.org"\]\.signedBy: must be'),
        ({"prefixes": {"a.org": {"signedBy": {"cosign": "x"}}}}, r"signedBy: openpgp must be"),
        (
            {"prefixes": {"a.org": {"signedBy": {"cosign": [""]}}}},
            "cosign must",
        ),
    ],
)
def test_wrong_documents(document: dict[str, object], message: str) -> None:
    with pytest.raises(ImageError, match=message):
        read_policy(document, "/x/p.json")


def test_places_of_keys() -> None:
    for prefix in ("", "a.org", "a.org:5000/team/web"):
        assert prefix_of(directory_of(prefix)) == prefix
    assert directory_of("a.org/team") == "prefix.d/a.org,team"
    assert prefix_of("prefix.d/a.org:443,team") == "a.org/team"
    assert prefix_of("prefix.d/index.docker.io,library") == "docker.io/library"
    assert prefix_of("prefix.d/oci:,srv,a:443") == "oci:/srv/a:443"
