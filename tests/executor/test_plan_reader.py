"""The executor's plan reader: it reads what was written, and rejects everything else."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan.operation_table import OPERATIONS
from ociruntime.runtime.plan.plan import ENCODERS, Operation, Plan, encode
from tests.support import golden, project
from tests.support.executor import NO_STEP, plan_of, run

if TYPE_CHECKING:
    from ociruntime.runtime.plan.plan import Value

HERE = Path(__file__).resolve().parent
READER = [project.ROOT / "csrc/executor" / name for name in ("plan.c", "plan_reader.c")]
FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Icsrc/executor"]
CHECKS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MAXIMUM = {"u32": 2**32 - 1, "u64": 2**64 - 1}


class Reader:
    """The C side of the wire, as a process that answers."""

    def __init__(self, program: Path) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([program], stdin=pipe, stdout=pipe)

    def read(self, data: bytes) -> list[str]:
        """The lines printed for one plan."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(struct.pack("=I", len(data)) + data)
        stdin.flush()
        lines: list[str] = []
        while not lines or lines[-1] not in {"end", "refused"}:
            line = stdout.readline()
            assert line, f"the reader died of {data!r}"
            lines.append(line.decode().rstrip("\n"))
        return lines

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait() == 0
        self._process.stdout.close()


def print_operations() -> str:
    """A ``case`` for each operation, in one line for the preprocessor."""
    text = ""
    for code, (name, _, fields) in enumerate(OPERATIONS, 1):
        printing = "".join(f"print_{kind}(op.{field});" for field, kind, _ in fields)
        text += f"case {code}:{{struct op_{name} op;if(!read_{name}(fields,&op))abort();"
        text += f"{printing}break;}}"
    return text


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    program = tmp_path_factory.mktemp("reader") / "print_plan"
    table = f"-DPRINT_OPERATIONS={print_operations()}"
    sources = [HERE / "print_plan.c", *READER]
    subprocess.run(
        ["gcc", *FLAGS, *CHECKS, table, "-o", program, *sources], cwd=project.ROOT, check=True
    )
    one = Reader(program)
    yield one
    one.close()


def printed(value: Value) -> str:
    """A field as print_plan.c prints it."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").hex()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return " ".join(["[", *map(printed, value), "]"])
    return str(value)


def lines_of(plan: Plan) -> list[str]:
    lines = [" ".join([str(one.code), *map(printed, one.values)]) for one in plan.operations]
    return [*lines, "end"]


texts = st.text(
    st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])
    | st.integers(0xDC80, 0xDCFF).map(chr),
    max_size=40,
)
FIELDS: dict[str, st.SearchStrategy[Value]] = {
    "u32": st.integers(0, MAXIMUM["u32"]),
    "u64": st.integers(0, MAXIMUM["u64"]),
    "str": texts,
    "bytes": st.binary(max_size=40),
    "strs": st.lists(texts, max_size=6),
    "u32s": st.lists(st.integers(0, MAXIMUM["u32"]), max_size=6),
}


def operations_of(code: int) -> st.SearchStrategy[Operation]:
    values = st.tuples(*(FIELDS[kind] for _, kind, _ in OPERATIONS[code - 1][2]))
    return values.map(lambda given: Operation(code, given, ""))


operations = st.integers(1, len(OPERATIONS)).flatmap(operations_of)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(operations, max_size=8), preserve=st.integers(0, 2**31 - 1))
def test_what_was_written_is_read(reader: Reader, steps: list[Operation], preserve: int) -> None:
    plan = plan_of(*steps, preserve_fds=preserve)
    assert reader.read(encode(plan)) == lines_of(plan)


@pytest.mark.parametrize("case", golden.CASES, ids=lambda case: case.name)
def test_plans_of_real_containers(reader: Reader, case: Path) -> None:
    if (case / "plan.txt").exists():
        plan = golden.plan_of(case)
        assert reader.read(encode(plan)) == lines_of(plan)


GOOD = encode(
    plan_of(
        o.chdir(path="/tmp", optional=0),
        o.user(uid=1, gid=2, groups=[3, 4], set_groups=1),
        o.seccomp(flags=0, last=1, filter=b"12345678"),
        o.exec(args=["/bin/true", ""], env=["A=1"]),
    )
)


def patched(offset: int, data: bytes, plan: bytes = GOOD) -> bytes:
    return plan[:offset] + data + plan[offset + len(data) :]


def resized(plan: bytes) -> bytes:
    """With a header that fits the size."""
    return patched(4, struct.pack("=I", len(plan)), plan)


# Where things are in GOOD: the header takes 16 bytes, an operation's head 8.
SIZE, COUNT, PRESERVE, CODE, BODY, LENGTH, TEXT = 4, 8, 12, 16, 20, 24, 28
GROUPS = GOOD.index(struct.pack("=II", 3, 4)) - 4
FILTER = GOOD.index(b"12345678") - 4
ARGS = GOOD.index(b"/bin/true") - 8

MALFORMED = {
    "empty": b"",
    "one byte": b"P",
    "header alone": resized(GOOD[:16]),
    "no magic": patched(0, b"PLN2"),
    "size too small": patched(SIZE, struct.pack("=I", len(GOOD) - 4)),
    "size too large": patched(SIZE, struct.pack("=I", len(GOOD) + 4)),
    "one operation more": patched(COUNT, struct.pack("=I", 5)),
    "one operation less": patched(COUNT, struct.pack("=I", 3)),
    "endless operations": patched(COUNT, b"\xff" * 4),
    "descriptors beyond all": patched(PRESERVE, b"\xff" * 4),
    "descriptors below zero": patched(PRESERVE, struct.pack("=I", 0x80000000)),
    "operation 0": patched(CODE, bytes(4)),
    "operation beyond the last": patched(CODE, struct.pack("=I", len(OPERATIONS) + 1)),
    "operation without end": patched(BODY, b"\xff" * 4),
    "operation of odd size": patched(BODY, struct.pack("=I", 18)),
    "operation with more than its fields": patched(BODY, struct.pack("=I", 20)),
    "string longer than its operation": patched(LENGTH, struct.pack("=I", 8)),
    "string without end": patched(LENGTH, b"\xff" * 4),
    "string almost without end": patched(LENGTH, b"\xfe\xff\xff\xff"),
    "NUL inside a string": patched(TEXT + 1, b"\0"),
    "no NUL behind a string": patched(TEXT + 4, b"x"),
    "endless list of numbers": patched(GROUPS, b"\xff" * 4),
    "list of numbers that wraps": patched(GROUPS, struct.pack("=I", 0x40000002)),
    "bytes without end": patched(FILTER, b"\xff" * 4),
    "endless list of strings": patched(ARGS, b"\xff" * 4),
    "list of strings that wraps": patched(ARGS, struct.pack("=I", 0x20000002)),
    "one string more": patched(ARGS, struct.pack("=I", 3)),
    "something behind": resized(GOOD + bytes(4)),
    "something of odd size behind": resized(GOOD + b"\0"),
}


def test_the_good_one(reader: Reader) -> None:
    assert reader.read(GOOD)[-1] == "end"


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(reader: Reader, name: str) -> None:
    assert reader.read(MALFORMED[name]) == ["refused"]


def test_truncated(reader: Reader) -> None:
    """At every byte, with and without a header that says so."""
    for size in range(len(GOOD)):
        assert reader.read(GOOD[:size]) == ["refused"]
        if size >= 8:
            assert reader.read(resized(GOOD[:size])) == ["refused"]


def test_flipped_bits(reader: Reader) -> None:
    """Whatever the result, it is read within its bounds; all heads are checked."""
    heads = {*range(12), *range(CODE + 1, TEXT)}
    for place in range(len(GOOD)):
        for bit in range(8):
            answer = reader.read(patched(place, bytes([GOOD[place] ^ 1 << bit])))
            assert place not in heads or answer == ["refused"]


@pytest.mark.parametrize("name", MALFORMED)
def test_executor_refuses(name: str) -> None:
    outcome = run(MALFORMED[name])
    assert outcome.fact == (NO_STEP, "read", 74, "plan")
    assert (outcome.status, outcome.output) == (1, "")


VALUES: dict[str, Value] = {
    "u32": 1, "u64": 1, "str": "a", "bytes": b"a", "strs": ["a"], "u32s": [1],
}  # fmt: skip


@pytest.mark.parametrize("code", range(1, len(OPERATIONS) + 1), ids=lambda n: OPERATIONS[n - 1][0])
def test_executor_refuses_an_incomplete_operation(code: int) -> None:
    """An operation is refused without its last fields, and with four bytes more."""
    kinds = [kind for _, kind, _ in OPERATIONS[code - 1][2]]
    whole = encode(plan_of(Operation(code, tuple(VALUES[kind] for kind in kinds), "")))
    pieces = [ENCODERS[kind](VALUES[kind]) for kind in kinds]
    for fields in [*(pieces[:count] for count in range(len(pieces))), [*pieces, bytes(4)]]:
        body = b"".join(fields)
        plan = whole[:BODY] + struct.pack("=I", len(body)) + body
        assert run(resized(plan)).fact == (NO_STEP, "read", 74, "plan"), fields


def test_nothing_of_a_damaged_plan_is_carried_out(tmp_path: Path) -> None:
    """What comes before the damage is not carried out either."""
    made = tmp_path / "made"
    hook = o.hook(
        source="/bin/touch", args=["touch", str(made)], env=[], with_home=0, timeout=0,
        state_before="", state_after="",
    )  # fmt: skip
    whole = encode(plan_of(hook, o.exec(args=["/bin/true"], env=[])))
    assert run(resized(whole + bytes(4))).fact == (NO_STEP, "read", 74, "plan")
    assert not made.exists()
    run(whole).ok()
    assert made.exists()


def test_plan_without_a_program() -> None:
    """Its end is nothing that can be waited for."""
    assert run(plan_of(o.umask(mask=0))).fact == (1, "read", 74, "plan")


def test_arguments() -> None:
    for arguments in ([], ["3"], ["3", "4", "5", "6"]):
        done = subprocess.run([executor_program(), *arguments], capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


def executor_program() -> str:
    from tests.support import executor

    return executor.program
