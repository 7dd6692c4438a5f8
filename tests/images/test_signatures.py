"""The policy with OpenPGP and cosign signatures: accepted and rejected images."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.images.conftest import Refused
from tests.support import gnupg, images
from tests.support.gnupg import GnuPG
from tests.support.ocipod import Ocipod
from tests.support.registry import Registry
from tests.support.simple_signing import cosign, payload, public_pem, set_rule

needs_gpg = pytest.mark.skipif(bool(gnupg.MISSING), reason=gnupg.MISSING)


@pytest.fixture(scope="module")
def built() -> images.BuiltImage:
    return images.build([images.pack({"hello": "world"})])


@pytest.fixture(scope="module")
def gpg(base: Path) -> Iterator[GnuPG]:
    one = GnuPG(base / "gnupg")
    try:
        yield one
    finally:
        one.close()


@pytest.fixture(scope="module")
def alice(gpg: GnuPG) -> str:
    return gpg.make_key("Alice <alice@example.org>")


@pytest.fixture(scope="module")
def mallory(gpg: GnuPG) -> str:
    return gpg.make_key("Mallory <mallory@example.org>")


def trust(ocipod: Ocipod, work: Path, key: bytes, *options: str) -> None:
    (work / "key").write_bytes(key)
    ocipod("trust", "--skip-fingerprint-review", *options, str(work / "key")).ok()


def is_empty(work: Path) -> bool:
    blobs = work / "data" / "cas" / "blobs"
    return not [path for path in blobs.rglob("*") if path.is_file()]


# --- OpenPGP ---


@needs_gpg
@pytest.mark.parametrize("how", [["--sign"], ["--clear-sign"], ["--sign", "--armor"]])
def test_signed_document(
    ocipod: Ocipod,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    gpg: GnuPG,
    alice: str,
    how: list[str],
) -> None:
    registry.push("team/web", "v1", built)
    name = f"{registry.host}/team/web:v1"
    set_rule(work, f"{registry.host}/team", {"signedBy": {"openpgp": True}})
    ocipod("fetch", name).failed("not signed", "policy.json")
    signature = work / "signature"
    signature.write_bytes(gpg.sign(alice, payload(built.id, name), *how))
    ocipod("fetch", f"--signature={signature}", name).failed("OpenPGP key")
    trust(ocipod, work, gpg.export(alice), f"--prefix={registry.host}/team")
    assert is_empty(work)
    ocipod("fetch", f"--signature={signature}", name).ok()
    ocipod("fetch", name).ok()  # it is in the store now


@needs_gpg
@pytest.mark.parametrize("kind", ["registry", "file"])
def test_signature_of_a_stored_image(
    ocipod: Ocipod,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    gpg: GnuPG,
    alice: str,
    mallory: str,
    kind: str,
) -> None:
    """It is verified even if the image was fetched before without one, as the policy allows."""
    if kind == "registry":
        registry.push("web", "v1", built)
        name = f"{registry.host}/web:v1"
    else:
        built.write_layout(work / "layout", "v1")
        name = f"oci:{work}/layout:v1"
    id = ocipod("fetch", "--full", name).ok().out.split()[-1]
    trust(ocipod, work, gpg.export(alice), "--root")
    signature = work / "signature"
    words = ("fetch", f"--signature={signature}")
    signature.write_bytes(gpg.sign(mallory, built.manifest, "--detach-sign"))
    ocipod(*words, name).failed("OpenPGP")
    ocipod(*words, "--pull-policy=update", name).failed("OpenPGP")
    signature.write_bytes(gpg.sign(alice, built.manifest, "--detach-sign"))
    ocipod(*words, name).ok()
    # Nothing is read that could be verified.
    ocipod(*words, "--pull-policy=never", name).failed("--signature", "never")
    ocipod(*words, id).failed("--signature", "name")


@needs_gpg
@pytest.mark.parametrize("armor", [[], ["--armor"]])
def test_detached_signature(
    ocipod: Ocipod,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    gpg: GnuPG,
    alice: str,
    armor: list[str],
) -> None:
    """A signature of the manifest or of its index; also if the policy requires none."""
    registry.push_index("web", "v1", [built])
    name = f"{registry.host}/web:v1"
    trust(ocipod, work, gpg.export(alice, armor=False), "--root")
    signature = work / "signature"
    for data in (built.manifest + b" ", b""):
        signature.write_bytes(gpg.sign(alice, data, "--detach-sign", *armor))
        ocipod("fetch", f"--signature={signature}", name).failed("does not match")
        assert is_empty(work)
    _, index = registry.tags["web", "v1"]
    for data in (index, built.manifest):
        signature.write_bytes(gpg.sign(alice, data, "--detach-sign", *armor))
        ocipod("fetch", f"--signature={signature}", name).ok()
        assert not is_empty(work)


@needs_gpg
def test_wrong_openpgp_signatures(
    ocipod: Ocipod,
    refused: Refused,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    gpg: GnuPG,
    alice: str,
    mallory: str,
) -> None:
    registry.push("web", "v1", built)
    name = f"{registry.host}/web:v1"
    set_rule(work, registry.host, {"signedBy": {"openpgp": True}})
    trust(ocipod, work, gpg.export(alice), f"--prefix={registry.host}/web")
    trust(ocipod, work, gpg.export(mallory), f"--prefix={registry.host}/other")
    right = payload(built.id, name)
    good = gpg.sign(alice, right, "--clear-sign")
    other = f"sha256:{'0' * 64}"
    wrong = {
        "not trusted": gpg.sign(mallory, right, "--sign"),
        f"is for {other}": gpg.sign(alice, payload(other, name), "--sign"),
        "web:v2": gpg.sign(alice, payload(built.id, f"{registry.host}/web:v2"), "--sign"),
        "example.org/web": gpg.sign(alice, payload(built.id, "example.org/web:v1"), "--sign"),
        '"something else"': gpg.sign(alice, payload(built.id, name, "something else"), "--sign"),
        "simple signing": gpg.sign(alice, b"{}", "--sign"),
        "not valid JSON": gpg.sign(alice, b"hello", "--sign"),
        "does not match": good.replace(b"tests", b"TESTS"),
        "an OpenPGP signature": b"hello",
        "not an OpenPGP": b"",
    }
    for words, data in wrong.items():
        refused(name, words, signature=data)
        assert is_empty(work)
    signature = work / "signature"
    ocipod("fetch", f"--signature={work}/nothing", name).failed("no such file")
    ocipod("fetch", f"--signature={signature}", name, name).failed("only one image")
    signature.write_bytes(good)
    ocipod("fetch", f"--signature={signature}", name).ok()


@needs_gpg
def test_a_masked_key(
    ocipod: Ocipod,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    gpg: GnuPG,
    alice: str,
) -> None:
    """The administrator's empty file masks a key of the distribution."""
    registry.push("web", "v1", built)
    name = f"{registry.host}/web:v1"
    set_rule(work, registry.host, {"signedBy": {"openpgp": True}})
    signature = work / "signature"
    signature.write_bytes(gpg.sign(alice, payload(built.id, name), "--sign"))
    system = work / "system" / "trustedkeys" / "root.d"
    system.mkdir(parents=True)
    (system / alice).write_bytes(gpg.export(alice))
    assert ocipod("config").ok().json["trustedKeys"] == {"": [alice]}
    local = work / "config" / "trustedkeys" / "root.d"
    local.mkdir(parents=True)
    (local / alice).touch()
    assert ocipod("config").ok().json["trustedKeys"] == {}
    ocipod("fetch", f"--signature={signature}", name).failed("OpenPGP key")
    (local / alice).unlink()
    ocipod("fetch", f"--signature={signature}", name).ok()


@needs_gpg
def test_trust_asks(ocipod: Ocipod, work: Path, gpg: GnuPG, alice: str, mallory: str) -> None:
    both = [work / "alice.asc", work / "mallory.gpg"]
    both[0].write_bytes(gpg.export(alice))
    both[1].write_bytes(gpg.export(mallory, armor=False))
    command = ["trust", "--prefix=example.org/team", *map(str, both)]
    kept = work / "config" / "trustedkeys" / "prefix.d" / "example.org,team"
    answers = work / "answers"

    def answer(text: str) -> tuple[int, str]:
        answers.write_text(text)
        with answers.open("rb") as stdin:
            done = ocipod(*command, stdin=stdin)
        return done.status, done.out + done.err

    status, said = answer("yes\nno\n")
    assert (status, kept.exists()) == (254, False)
    grouped = " ".join(alice[at : at + 4] for at in range(0, 40, 4))
    assert grouped in said
    assert "Alice <alice@example.org>" in said
    assert answer("") == (254, answer("")[1])
    assert not kept.exists()
    status, said = answer("maybe\nyes\nYES\n")
    assert status == 0, said
    assert sorted(path.name for path in kept.iterdir()) == sorted([alice, mallory])
    assert (kept / alice).read_bytes() == gpg.export(alice, armor=False)


def test_trust_refuses(ocipod: Ocipod, work: Path) -> None:
    key = work / "key"
    key.write_bytes(b"hello")
    ocipod("trust", str(key)).failed("--root")
    ocipod("trust", "--root", "--prefix=example.org", str(key)).failed("--root")
    ocipod("trust", "--prefix=https://example.org", str(key)).failed("invalid image prefix")
    ocipod("trust", "--prefix=busybox", str(key)).failed("docker.io/library/busybox")
    ocipod("trust", "--root", str(key)).failed(str(key))
    ocipod("trust", "--root", str(work / "nothing")).failed("no such file")
    assert list((work / "config").iterdir()) == []


# --- cosign ---


def test_cosign(
    ocipod: Ocipod, refused: Refused, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    digest = registry.push_index("web", "v1", [built])
    name = f"{registry.host}/web"
    ours, others = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    (work / "config" / "team.pub").write_bytes(public_pem(ours))
    set_rule(work, name, {"signedBy": {"cosign": ["team.pub"]}})
    refused(f"{name}:v1", "not signed", "manifest unknown")
    for signed, identity, key, words in (
        (digest, name, others, "by another key"),
        (digest, "example.org/web", ours, 'is for "example.org/web"'),
        (built.id, "example.org/web", ours, 'is for "example.org/web"'),
    ):
        cosign(registry, "web", signed, identity, key)
        refused(f"{name}:v1", "not signed", words)
        assert is_empty(work)
    cosign(registry, "web", digest, name, ours)
    ocipod("fetch", f"{name}:v1").ok()
    registry.tags["web", f"{digest.replace(':', '-')}.sig"] = (images.OCI_MANIFEST, b"{}")
    refused(f"{name}@{digest}", "layers must")


def test_a_signature_of_another_image(
    ocipod: Ocipod, refused: Refused, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    """A signature copied to another image's tag names the image it was made for."""
    key = ec.generate_private_key(ec.SECP256R1())
    (work / "config" / "team.pub").write_bytes(public_pem(key))
    set_rule(work, registry.host, {"signedBy": {"cosign": ["team.pub"]}})
    digest = registry.push("web", "v1", built)
    other = f"sha256:{'1' * 64}"
    cosign(registry, "web", other, f"{registry.host}/web", key)
    moved = registry.tags["web", f"{other.replace(':', '-')}.sig"]
    registry.tags["web", f"{digest.replace(':', '-')}.sig"] = moved
    refused(f"{registry.host}/web:v1", f"is for {other}")


def test_wrong_cosign_keys(
    ocipod: Ocipod, refused: Refused, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    registry.push("web", "v1", built)
    name = f"{registry.host}/web:v1"
    set_rule(work, registry.host, {"signedBy": {"cosign": ["team.pub"]}})
    refused(name, "team.pub", "no such file")
    (work / "config" / "team.pub").write_text("hello")
    refused(name, 'team.pub": ', "PEM")
    (work / "config" / "team.pub").write_bytes(public_pem(ec.generate_private_key(ec.SECP384R1())))
    refused(name, 'team.pub": ', "P-256")
    assert is_empty(work)


# --- the policy ---


def test_policy(ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path) -> None:
    registry.push("team/web", "v1", built)
    built.write_layout(work / "layout")
    name = f"{registry.host}/team/web:v1"
    rules = {
        registry.host: "reject",
        f"{registry.host}/team": {"signedBy": {"openpgp": True}},
        f"{registry.host}/team/web": "accept",
        f"oci:{work}": "reject",
    }
    policy = work / "config" / "policy.json"
    policy.write_text(json.dumps({"default": "accept", "prefixes": rules}))
    ocipod("fetch", f"{registry.host}/other").failed("rejected", "policy.json")
    ocipod("fetch", f"{registry.host}/team/we").failed("404")
    ocipod("fetch", f"oci:{work}/layout").failed("rejected")
    ocipod("fetch", str(work / "layout")).failed("rejected")
    ocipod("fetch", name).ok()
    policy.write_text(json.dumps({"prefixes": {f"{registry.host}/team": "reject"}}))
    ocipod("fetch", "--pull-policy=never", name).failed("rejected")


def test_insecure_options_leave_signatures_out(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    registry.push("web", "v1", built)
    name = f"{registry.host}/web:v1"
    set_rule(work, registry.host, {"signedBy": {"openpgp": True}})
    ocipod("fetch", name).failed("not signed")
    ocipod("fetch", "--insecure-options=image", name).ok()


def test_wrong_policies(ocipod: Ocipod, work: Path) -> None:
    policy = work / "config" / "policy.json"
    policy.write_text(json.dumps({"default": "maybe"}))
    ocipod("config").failed('policy.json": default: invalid rule')
    policy.write_text("{")
    ocipod("fetch", "--pull-policy=never", "busybox").failed("policy.json", "invalid JSON")
