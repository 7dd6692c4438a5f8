"""The files of csrc/fast_path/ under the sanitizers: the same answer as Python, or none."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.base.linux import SIGNALS
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.commandline.signal_names import signal_number
from ociruntime.runtime.cli.help import PROGRAM
from ociruntime.runtime.cli.options import GLOBAL_OPTIONS
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.fast_path_record import Removal, entry_text
from ociruntime.runtime.lifecycle.state_root import state_root
from tests.support import project
from tests.unit.runtime.lifecycle.test_fast_path_record import CGROUPS, FACTS, changed

UNHURRIED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

IN_TENS = settings(UNHURRIED, max_examples=15)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("harness") / "harness"
    flags = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    sources = [
        Path(__file__).parent / "harness.c",
        *project.ROOT.glob("csrc/fast_path/*.c"),
        project.ROOT / "csrc/executor/text.c",
        project.ROOT / "csrc/executor/walk.c",
    ]
    includes = ["-Icsrc", "-Icsrc/executor"]
    command = ["gcc", *flags, *checks, *includes, "-o", str(program), *map(str, sources)]
    subprocess.run(command, check=True, cwd=project.ROOT)
    return program


def run(
    harness: Path, *arguments: str | bytes, stdin: bytes = b"", env: dict[str, str] | None = None
) -> str | None:
    """Return its output, or None if it has refused."""
    done = subprocess.run([harness, *arguments], input=stdin, capture_output=True, env=env)
    assert done.returncode in (0, 1), done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None


def accepted(harness: Path, *records: bytes) -> list[bool]:
    """Try all records in one process: starting one under the sanitizers is slow."""
    stdin = b"".join(struct.pack("=I", len(one)) + one for one in records)
    printed = run(harness, "records", stdin=stdin)
    assert printed is not None
    return [line == "1" for line in printed.splitlines()]


def signal_numbers(harness: Path, *names: str) -> list[int]:
    return [int(line) for line in (run(harness, "signals", *names) or "").splitlines()]


def test_record(harness: Path) -> None:
    text = entry_text(changed(annotations={"k": "v"}), CGROUPS, 12, "somebody")
    printed = run(harness, "record", stdin=text.encode())
    assert printed is not None
    facts, _, rest = printed.partition("\n")
    assert facts == "71 4711 [/cg/freezer/one/freezer.state] 1 1 1 12"
    state = text.partition("\n\n")[2].replace("\0", "(pid)", 1).replace("\0", "(status)")
    assert rest == (
        "own /cg/cpu/a/one\nown /cg/memory/a/one\nparent /cg/cpu/a\nparent /cg/memory/a\n" + state
    )


def test_record_at_the_limits(harness: Path) -> None:
    own, parents = [f"/o{n}" for n in range(32)], [f"/p{n}" for n in range(128)]
    for removal, fits in (
        (Removal(own, parents), True),
        (Removal([*own, "/o"], parents), False),
        (Removal(own, [*parents, "/p"]), False),
        (Removal([], []), True),
        (Removal(["relative"], []), False),
    ):
        text = entry_text(changed(freezer=""), removal, 0, "root")
        assert (run(harness, "record", stdin=text.encode()) is not None) == fits


def test_truncated_records(harness: Path) -> None:
    """A record is accepted only with its whole header and both places in its text."""
    whole = entry_text(FACTS, CGROUPS, 0, "root").encode()
    enough = whole.rindex(b"\0") + 2
    found = accepted(harness, *(whole[:length] for length in range(len(whole))))
    assert found == [length >= enough for length in range(len(whole))]


@given(data=st.data())
@IN_TENS
def test_damaged_records(harness: Path, data: st.DataObject) -> None:
    """The sanitizers detect any access outside the buffer."""
    records = []
    for _ in range(10):
        damaged = bytearray(entry_text(FACTS, CGROUPS, 0, "root").encode())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(damaged) - 1))
            damaged[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
        records.append(bytes(damaged))
    assert len(accepted(harness, *records)) == len(records)


@given(contents=st.lists(st.binary(max_size=200), min_size=10, max_size=10))
@IN_TENS
def test_foreign_records(harness: Path, contents: list[bytes]) -> None:
    head = b"ociruntime-entry 1\npid 1\nstarted 1\nfreezer \n"
    assert not any(accepted(harness, *contents))
    assert len(accepted(harness, *(head + content for content in contents))) == len(contents)


def signal_spellings() -> Iterator[str]:
    for name in SIGNALS:
        yield from (name, name.removeprefix("SIG"), name.lower(), name.title())
    yield from ("RTMIN", "SIGRTMIN+3", "NOPE", "SIG", "SIGSIGTERM", "", "9x", "+9", "100", "009")
    yield from map(str, range(67))


def test_signals_mean_the_same(harness: Path) -> None:
    """Python knows more of them; those known here are the same."""
    names = [*signal_spellings()]
    numbers = signal_numbers(harness, *names)
    known = {name: number for name, number in zip(names, numbers, strict=True) if number >= 0}
    assert known == {name: signal_number(name) for name in known}
    assert len(known) > 150
    must = ("KILL", "SIGTERM", "hup", "9", "15", "0", "64")
    assert signal_numbers(harness, *must) == [signal_number(name) for name in must]


@pytest.mark.parametrize(
    "name", ["a", "A-z_0+.9", ".a", "-a", "", "a/b", "a b", "caf\u00e9", "x" * 240, "x" * 241, ".."]
)
def test_ids(harness: Path, name: str) -> None:
    try:
        check_id(name)
        good = True
    except UsageError:
        good = False
    assert (run(harness, "id", name) is not None) == good


@pytest.mark.parametrize(
    ("given_root", "plain"),
    [
        ("/r", True),
        ("/r/s", True),
        ("/r/...", True),
        ("/r/.x/..y", True),
        ("/r/../s", False),
        ("/r/.", False),
        ("..", False),
        ("r", False),
        ("/", False),
        ("//", False),
        ("/" + "x" * 4095, False),
    ],
)
def test_roots_as_given(harness: Path, given_root: str, plain: bool) -> None:
    expected = f"{state_root(given_root, {}, 0)}\n" if plain else None
    assert run(harness, "root", given_root) == expected


@pytest.mark.parametrize("user", [None, "root", "somebody"])
@pytest.mark.parametrize("directory", [None, "", "/run/user/7"])
def test_default_root(harness: Path, user: str | None, directory: str | None) -> None:
    given_names = {"USER": user, "XDG_RUNTIME_DIR": directory}
    env = {name: value for name, value in given_names.items() if value is not None}
    encoded = {name.encode(): value.encode() for name, value in env.items()}
    expected = state_root("", encoded, os.geteuid())
    assert run(harness, "root", env=env) == f"{expected}\n"


VOCABULARY = """
    --root --root=/r --root= --log --log=/l --log=syslog: --log-format --log-format=json
    --log-format=xml --systemd-cgroup --systemd-cgroup=true --cgroup-manager=cgroupfs
    --cgroup-manager=systemd --debug --version -h --roo -root -v -- - -9 /r text json cgroupfs
    state start kill delete pause resume ps create one two .x --force -f -fa --all -a 9 KILL
    sigterm RTMIN --format --format=json --format=table -f=json table
    --failure-fd --failure-fd=3
"""
WORDS = st.sampled_from(VOCABULARY.split())


def python_reading(argv: list[str]) -> tuple[str, str, str, int, bool] | None:
    """Return (verb, root, id, signal, force) as Python parses it; None for an error."""
    arguments = Arguments()
    try:
        at = parse(argv, (GLOBAL_OPTIONS,), arguments, mixed=False)
        verb = argv[at]
        command = PROGRAM.command(verb)
        parse(argv[at + 1 :], (command.options, GLOBAL_OPTIONS), arguments)
        assert command.fewest <= len(arguments.positional) <= command.most
        name, *words = arguments.positional
        check_id(name)
        # `kill` without one takes that of the configuration.
        number = signal_number(words[0]) if verb == "kill" else 0
    except (RuntimeFailure, IndexError, KeyError, AssertionError):
        return None
    known = {"systemd-cgroup", "force"}
    if not arguments.flags.keys() <= known or arguments.numbers:
        return None
    if (verb == "ps") != (arguments.text("format") == "json") or (verb == "ps" and words):
        return None
    return verb, arguments.text("root"), name, number, arguments.flag("force")


@given(
    before=st.lists(WORDS, max_size=3),
    verb=st.sampled_from(["state", "start", "kill", "delete", "pause", "resume", "ps"]),
    after=st.lists(WORDS, max_size=3),
)
@UNHURRIED
def test_arguments_mean_the_same(
    harness: Path, before: list[str], verb: str, after: list[str]
) -> None:
    argv = [*before, verb, *after]
    printed = run(harness, "arguments", *argv)
    if printed is None:
        return
    found_verb, root, name, number, force = printed.splitlines()
    assert python_reading(argv) == (found_verb, root, name, int(number), force == "1")


@pytest.mark.parametrize(
    "line",
    [
        "state one",
        "--root /r --log /l --log-format json --systemd-cgroup start one",
        "--root=/r --log=/l --log-format=text --cgroup-manager=cgroupfs kill one 9",
        "delete --force one",
        "delete one -f",
        "--root /r --log /l --log-format json pause one",
        "resume one",
        "--root /r --log /l --log-format json ps --format json one",
        "ps -f json one",
        "ps --format=json one",
    ],
)
def test_what_engines_write_is_taken(harness: Path, line: str) -> None:
    argv = line.split()
    printed = run(harness, "arguments", *argv)
    assert printed is not None
    found_verb, root, name, number, force = printed.splitlines()
    assert python_reading(argv) == (found_verb, root, name, int(number), force == "1")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "state",
        "state one two",
        "start one 9",
        "kill one",
        "kill --all one 9",
        "kill one SIGRTMIN+1",
        "state --force one",
        "--debug state one",
        "--cgroup-manager systemd state one",
        "--log",
        "--root",
        "create one",
        "start --failure-fd 3 one",
        "pause --force one",
        "pause one two",
        "ps one",
        "ps --format table one",
        "ps --format json one -ef",
        "ps one --format json",
        "ps -f=json one",
    ],
)
def test_everything_else_is_not(harness: Path, line: str) -> None:
    assert run(harness, "arguments", *line.split()) is None
