"""The policy's decision about images that are already in the store, by name and by id."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from ociruntime.base.errors import ImageError
from ociruntime.images.fetch import fetch
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.store import Store
from tests.support import gnupg, images
from tests.support.gnupg import GnuPG
from tests.support.ocipod import Ocipod
from tests.support.registry import Registry
from tests.support.simple_signing import cosign, payload, public_pem, set_rule

UNSIGNED = "valid signature"


class Reader:
    """Calls ``fetch`` in this process, with the settings of ``work``."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.settings = Settings("", str(work / "config"))

    def __call__(
        self, name: str, policy: str = "never", *insecure: str, signature: bytes | None = None
    ) -> str:
        with Store(str(self.work / "data")) as store:
            return fetch(
                store,
                name,
                policy,
                frozenset(insecure),
                settings=self.settings,
                signature=signature,
            ).id

    def refused(self, name: str, *words: str, policy: str = "never") -> None:
        with pytest.raises(ImageError) as raised:
            self(name, policy)
        assert all(word in str(raised.value) for word in words)


@pytest.fixture
def take(work: Path) -> Reader:
    (work / "config").mkdir()
    return Reader(work)


@pytest.fixture
def built() -> images.BuiltImage:
    return images.build([images.pack({"hello": "world"})])


@pytest.fixture
def key(work: Path, take: Reader) -> ec.EllipticCurvePrivateKey:
    """A cosign key, the policy's ``team.pub``."""
    made = ec.generate_private_key(ec.SECP256R1())
    (work / "config/team.pub").write_bytes(public_pem(made))
    return made


BY_TEAM = {"signedBy": {"cosign": ["team.pub"]}}


def test_an_unsigned_image_is_not_run_where_signatures_are_required(
    take: Reader,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    """Neither by its name nor by its id, until a valid signature is found."""
    registry.push("web", "v1", built)
    name = f"{registry.host}/web:v1"
    set_rule(work, registry.host, BY_TEAM)
    take(name, "update", "image")
    for by in (name, built.id, built.id[7:20]):
        take.refused(by, f'image "{name}" ', UNSIGNED)
        assert take(by, "never", "image") == built.id
    for policy in ("new", "update"):
        take.refused(name, "not signed", policy=policy)
    cosign(registry, "web", built.id, name, key)
    take.refused(name, UNSIGNED)
    assert take(name, "new") == built.id
    registry.forget()
    for by in (name, built.id):
        assert take(by) == take(by, "new") == built.id
    assert registry.log == []
    take(name, "new", "image")
    assert take(name) == built.id, "an unchecked look takes no signature away"


def test_a_rule_that_comes_later_counts(
    take: Reader,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    registry.push("web", "v1", built)
    name = f"{registry.host}/web:v1"
    take(name, "update")
    assert take(built.id) == built.id
    set_rule(work, registry.host, BY_TEAM)
    for by in (name, built.id):
        take.refused(by, UNSIGNED)
    set_rule(work, registry.host, "reject")
    for by in (name, built.id):
        take.refused(by, f'image "{name}" is rejected')
    with pytest.raises(ImageError, match="is rejected"):
        take(built.id, "never", "image")


def test_keys_that_are_not_trusted_any_more(
    take: Reader,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    registry.push("web", "v1", built)
    name = f"{registry.host}/web:v1"
    cosign(registry, "web", built.id, name, key)
    set_rule(work, registry.host, BY_TEAM)
    take(name, "new")
    newer = ec.generate_private_key(ec.SECP256R1())
    (work / "config/newer.pub").write_bytes(public_pem(newer))
    set_rule(work, registry.host, {"signedBy": {"cosign": ["newer.pub", "team.pub"]}})
    assert take(name) == built.id
    set_rule(work, registry.host, {"signedBy": {"cosign": ["newer.pub"]}})
    take.refused(name, UNSIGNED)
    take.refused(built.id, UNSIGNED)
    cosign(registry, "web", built.id, name, newer)
    assert take(name, "new") == take(built.id) == built.id
    (work / "config/newer.pub").unlink()
    with pytest.raises(Exception, match=r'read .*/newer\.pub": no such file'):
        take(name)


def test_one_name_that_allows_it_is_enough_for_an_id(
    take: Reader,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    """The image could be run by that name as well."""
    registry.push("web", "v1", built)
    take(f"{registry.host}/web:v1", "update")
    set_rule(work, registry.host, BY_TEAM)
    take.refused(built.id, UNSIGNED)
    built.write_layout(work / "layout")
    take(f"oci:{work}/layout", "new")
    assert take(built.id) == built.id
    take.refused(f"{registry.host}/web:v1", UNSIGNED)


def test_an_id_whose_name_has_moved_on(
    take: Reader,
    registry: Registry,
    built: images.BuiltImage,
    work: Path,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    name = f"{registry.host}/web:v1"
    newer = images.build([images.pack({"hello": "there"})])
    for image in (built, newer):
        registry.push("web", "v1", image)
        take(name, "update")
    set_rule(work, registry.host, BY_TEAM)
    take.refused(built.id, f'image "{name}" ', UNSIGNED)


def test_an_image_without_any_name(take: Reader, built: images.BuiltImage, work: Path) -> None:
    with Store(str(work / "data")) as store:
        images.import_image(
            store, built.manifest, lambda blob: io.BytesIO(built.blobs[blob.digest])
        )
    assert take(built.id) == built.id
    policy = work / "config/policy.json"
    policy.write_text(json.dumps({"default": "reject"}))
    take.refused(built.id, f'image "{built.id}" is rejected')


@pytest.fixture
def gpg(base: Path) -> Iterator[GnuPG]:
    one = GnuPG(base / "gnupg-of-permission")
    try:
        yield one
    finally:
        one.close()


@pytest.mark.skipif(bool(gnupg.MISSING), reason=gnupg.MISSING)
def test_openpgp(
    take: Reader, registry: Registry, built: images.BuiltImage, work: Path, gpg: GnuPG
) -> None:
    """Also if no signature was required when it was given."""
    alice = gpg.make_key("Alice <alice@example.org>")
    keys = work / "config/trustedkeys/root.d"
    keys.mkdir(parents=True)
    (keys / alice).write_bytes(gpg.export(alice))
    registry.push("web", "v1", built)
    name = f"{registry.host}/web:v1"
    take(name, "update", signature=gpg.sign(alice, payload(built.id, name), "--sign"))
    set_rule(work, registry.host, {"signedBy": {"openpgp": True}})
    assert take(name) == take(built.id) == built.id
    (keys / alice).write_bytes(b"")
    for by in (name, built.id):
        take.refused(by, UNSIGNED)


def test_pods(ocipod: Ocipod, built: images.BuiltImage, work: Path) -> None:
    """The images of a pod manifest are checked, too."""
    built.write_layout(work / "layout")
    name = f"oci:{work}/layout"
    ocipod("fetch", name).ok()
    uuid = ocipod("prepare", built.id).ok().out.strip()
    (work / "pod.json").write_text(ocipod("cat-manifest", uuid).ok().out)
    set_rule(work, "oci:", {"signedBy": {"openpgp": True}})
    ocipod("prepare", built.id).failed(name, UNSIGNED, "policy.json", f"ocipod fetch {name}")
    ocipod("prepare", f"--pod-manifest={work}/pod.json").failed(name, UNSIGNED)
    assert ocipod.pods() == [uuid]
    unchecked = "--insecure-options=image"
    ocipod(unchecked, "prepare", f"--pod-manifest={work}/pod.json").ok()
