"""Names that a file claims for itself: it may get a free name, but not another image's.

An App Container Image has its name in its manifest.  Names in docker archives and image layouts
only select an image within the file: the store does not use them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.fetch import fetch
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.store import Store
from tests.support import aci, images
from tests.support.ocipod import Ocipod

NGINX = "docker.io/library/nginx:latest"
SIGNED = {"signedBy": {"openpgp": True}}


def names(ocipod: Ocipod) -> dict[str, str]:
    """Return {name: id} of all images in the store."""
    with Store(str(ocipod.directory)) as store:
        return {name: one.id for one in store.records() for name in one.names}


@pytest.fixture
def nginx(ocipod: Ocipod, work: Path) -> str:
    """The id of an image that the store has under the name of Docker Hub's nginx."""
    built = images.build([images.pack({"file": "nginx"})])
    built.write_layout(work / "nginx")
    ocipod("fetch", f"oci:{work}/nginx").ok()
    with Store(str(ocipod.directory)) as store:
        store.set_name(built.id, NGINX)
    return built.id


def write_aci(path: Path, name: str = "nginx", text: str = "from a file") -> None:
    labels = aci.version("latest" if name == "nginx" else "1.0")
    aci.write(path, aci.manifest(name, labels=labels), {"file": text})


def test_an_aci_cannot_take_the_name_of_another_image(
    ocipod: Ocipod, nginx: str, work: Path
) -> None:
    write_aci(work / "bad.aci")
    done = ocipod("fetch", "--full", f"{work}/bad.aci").ok()
    assert names(ocipod)[NGINX] == nginx
    assert names(ocipod)[f"aci:{work}/bad.aci"] == done.out.strip() != nginx
    for word in (f'"{work}/bad.aci"', f'"{NGINX}"', "has that name", "--replace"):
        assert word in done.err, done.err


def test_an_aci_takes_a_name_that_is_in_use_if_it_is_told_to(
    ocipod: Ocipod, nginx: str, work: Path
) -> None:
    write_aci(work / "new.aci")
    done = ocipod("fetch", "--replace", "--full", f"{work}/new.aci").ok()
    assert names(ocipod)[NGINX] == done.out.strip() != nginx


def test_an_aci_that_is_fetched_again_keeps_its_name(ocipod: Ocipod, work: Path) -> None:
    write_aci(work / "app.aci", "example.com/app")
    first = ocipod("fetch", "--full", f"{work}/app.aci").ok()
    again = ocipod("fetch", "--full", f"{work}/app.aci").ok()
    assert (again.out, again.err) == (first.out, "")
    # Under another path it is the same image still; with other content it is not.
    (work / "copy.aci").write_bytes((work / "app.aci").read_bytes())
    assert ocipod("fetch", f"{work}/copy.aci").ok().err == ""
    write_aci(work / "app.aci", "example.com/app", "version two")
    other = ocipod("fetch", "--full", f"{work}/app.aci").ok()
    assert "has that name" in other.err
    assert names(ocipod)["example.com/app:1.0"] == first.out.strip() != other.out.strip()


def test_a_name_stays_when_the_aci_that_would_replace_it_cannot_be_unpacked(
    ocipod: Ocipod, nginx: str, work: Path
) -> None:
    labels = aci.version("latest")
    device = images.member(b"3", devmajor=1 << 14)
    aci.write(work / "bad.aci", aci.manifest("nginx", labels=labels), {"dev": device})
    ocipod("fetch", "--replace", f"{work}/bad.aci").failed("invalid device number")
    assert names(ocipod)[NGINX] == nginx


def test_names_in_archives_and_layouts_are_not_taken_over(ocipod: Ocipod, work: Path) -> None:
    built = images.build([images.pack({"file": "hostile"})], name=NGINX)
    built.write_docker_archive(work / "docker.tar")
    built.write_layout(work / "layout", NGINX)
    built.write_oci_archive(work / "oci.tar", NGINX)
    kinds = {"docker-archive": "docker.tar", "oci": "layout", "oci-archive": "oci.tar"}
    for kind, file in kinds.items():
        ocipod("fetch", f"{work}/{file}", f"{kind}:{work}/{file}:{NGINX}").ok()
    found = names(ocipod)
    assert len(found) == 6
    assert all(name.partition(":")[0] in kinds for name in found), found


def test_a_claimed_name_does_not_meet_a_policy(ocipod: Ocipod, work: Path) -> None:
    """The policy applies to the name under which an image was fetched."""
    settings = Settings("", str(work / "config"))
    policy = work / "config" / "policy.json"

    def take(name: str) -> str:
        with Store(str(ocipod.directory)) as store:
            return fetch(store, name, "never", frozenset(), settings=settings).id

    write_aci(work / "app.aci", "example.com/app")
    ocipod("fetch", f"{work}/app.aci").ok()
    id = take("example.com/app:1.0")
    for rule in ("reject", SIGNED):
        # The registry is trusted, files are not: a file is none of the registry's images.
        rules = {"example.com": "accept", f"aci:{work}": rule}
        policy.write_text(json.dumps({"default": "reject", "prefixes": rules}))
        for name in ("example.com/app:1.0", id):
            with pytest.raises(ImageError, match=r"rejected|valid signature"):
                take(name)
    rules = {"example.com": SIGNED, f"aci:{work}": "accept"}
    policy.write_text(json.dumps({"default": "reject", "prefixes": rules}))
    assert take(id) == id
    with pytest.raises(ImageError, match="valid signature"):
        take("example.com/app:1.0")


def test_what_claims_a_name_that_has_to_be_signed(ocipod: Ocipod, work: Path) -> None:
    rules = {"prefixes": {"example.com": SIGNED}}
    (work / "config" / "policy.json").write_text(json.dumps(rules))
    write_aci(work / "app.aci", "example.com/app")
    for option in ([], ["--replace"]):
        done = ocipod("fetch", *option, f"{work}/app.aci").ok()
        assert "requires a signature" in done.err
        assert "example.com/app:1.0" not in names(ocipod)
