"""A container prepares the session keyring that another container will get."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import static_program
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.peers import deviates
from tests.support.plugin import TAG, MakeBundle, MakeContainer

SOURCE = Path(__file__).with_name("keyring.c")

ByName = Callable[[str], Container]


@pytest.fixture(scope="session")
def keyring(base: Path) -> Path:
    """Build a static program that creates and inspects keyrings."""
    return static_program.build(base / "keyring", SOURCE)


def with_program(bundle: Bundle, program: Path) -> Bundle:
    (bundle.rootfs / "bin" / "keyring").write_bytes(program.read_bytes())
    (bundle.rootfs / "bin" / "keyring").chmod(0o755)
    return bundle


@pytest.fixture
def victim(container: MakeContainer, bundle: MakeBundle, keyring: Path) -> Container:
    """A container that does not exist yet, while another container has taken its keyring's name."""
    name = f"{TAG}victim"
    names = (f"_ses.{name}", "_ses", name)
    attacker = container(with_program(bundle("/bin/keyring", "plant", *names), keyring)).started()
    for each in names:
        attacker.wait_output(f"planted {each}\n")
    return container(with_program(bundle("/bin/keyring", "look"), keyring), name)


@deviates(
    runc="joins _ses.ID, whatever container made it", crun="joins a keyring named as the container"
)
def test_keyring_prepared_by_another_container(victim: Container) -> None:
    assert victim.run().ok().out == "nothing\n"


@deviates(runc="joins _ses.ID, whatever container made it")
def test_keyring_prepared_for_exec(victim: Container) -> None:
    victim.bundle.args("sleep", "100")
    victim.started()
    assert victim.exec("/bin/keyring", "look").ok().out == "nothing\n"
