"""Parse the output of perf and --timeline."""

from __future__ import annotations

import pytest

from bench.hotspots import (
    activity,
    means,
    medians,
    middle,
    process_of,
    samples,
    shares,
    spans,
)

SCRIPT = """\
ociruntime   50000\x20
\tffffffff815b9a37 vm_mmap_pgoff ([kernel.kallsyms])
\tffffffff821f3046 asm_exc_page_fault ([kernel.kallsyms])
\tffffffff816c5ee4 __x64_sys_execve ([kernel.kallsyms])
\tffffffff821ed511 do_syscall_64 ([kernel.kallsyms])
\tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t    7f5e1f8f2ad7 [unknown] ([unknown])

ociruntime   50000\x20
\tffffffff821f3046 exc_page_fault ([kernel.kallsyms])
\tffffffff81000c82 asm_exc_page_fault ([kernel.kallsyms])
\t           1b7c9 _PyEval_EvalFrameDefault (/usr/bin/python3.11)

ociruntime   50000\x20
\t           1b7c9 _PyEval_EvalFrameDefault (/usr/bin/python3.11)

ociruntime-init   50000\x20
\t            2f69 run_mount (/memfd:ociruntime (deleted))

sleep   50000\x20
\t            2f69 [unknown] (/bin/busybox)

ociruntime   50000\x20
\tffffffff821f3046 handle_softirqs ([kernel.kallsyms])
"""


def test_samples() -> None:
    found = list(samples(SCRIPT))
    assert [process_of(one) for one in found] == [
        "runtime", "runtime", "runtime", "executor", "program", "runtime",
    ]  # fmt: skip
    assert [activity(one) for one in found] == [
        # with the page faults that happen inside
        "execve()",
        "page faults",
        "interpreter",
        "executor's code",
        "its own code",
        "kernel, other",
    ]
    assert found[0].milliseconds == 0.05


def test_no_samples() -> None:
    assert list(samples("\n\n")) == []


@pytest.mark.parametrize(
    ("function", "name"),
    [("__x64_sys_openat2", "openat2()"), ("ksys_mmap_pgoff", "mmap_pgoff()"),
     ("do_execveat.isra.0", "execveat()")],
)  # fmt: skip
def test_names_of_system_calls(function: str, name: str) -> None:
    text = f"x 1 \n\t1 {function} ([kernel.kallsyms])\n\t2 do_syscall_64 ([kernel.kallsyms])\n"
    (one,) = samples(text)
    assert activity(one) == name


def test_shares() -> None:
    found = shares(samples(SCRIPT + "\n" + SCRIPT.split("\n\n")[2] + "\n"))
    assert next(iter(found)) == "runtime: interpreter"
    assert found["runtime: interpreter"] == pytest.approx(0.1)
    assert found["executor: executor's code"] == pytest.approx(0.05)


def test_spans() -> None:
    trace: dict[str, list[dict[str, object]]] = {
        "traceEvents": [
            {"ph": "M", "tid": 1, "name": "thread_name"},
            {"ph": "X", "tid": 1, "name": "wait", "dur": 500.0},
            {"ph": "X", "tid": 1, "name": "wait", "dur": 1000.0},
            {"ph": "X", "tid": 2, "name": "mount", "dur": 250.0},
        ]
    }
    assert spans(trace) == ({"wait": 1.5}, {"mount": 0.25})


def test_medians() -> None:
    assert medians([{"a": 1.0}, {"a": 2.0, "b": 4.0}, {"a": 9.0}]) == {"a": 2.0, "b": 0.0}


def test_middle_rounds() -> None:
    """A stall of the machine in one round is not spread over all."""
    rounds = [{"a": 1.0, "b": value} for value in (9.0, 2.0, 400.0, 1.0, 3.0)]
    assert middle(rounds) == [{"a": 1.0, "b": value} for value in (2.0, 3.0, 9.0)]
    assert middle(rounds[:3]) == sorted(rounds[:3], key=lambda one: one["b"])


def test_means() -> None:
    assert means([{"a": 1.0}, {"a": 2.0, "b": 8.0}]) == {"b": 4.0, "a": 1.5}
    assert means([]) == {}
