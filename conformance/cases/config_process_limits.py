"""config.md: process.rlimits, oomScoreAdj, scheduler, ioPriority, execCPUAffinity."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path
from typing import Any

from conformance import cgroups
from conformance.bundle import Bundle, Json
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context
from conformance.driver import Result

INFINITY = 2**64 - 1
GIB = 1 << 30
# Values that no host starts with, and that the runtime itself can live with.
LIMITS = (
    ("AS", 600 * GIB, 700 * GIB),
    ("CORE", 4096, 8192),
    ("CPU", 1001, 2002),
    ("DATA", 600 * GIB, 700 * GIB),
    ("FSIZE", 6 * GIB, 7 * GIB),
    ("LOCKS", 1001, 2002),
    ("MEMLOCK", 65536, 131072),
    ("MSGQUEUE", 65536, 131072),
    ("NICE", 5, 10),
    ("NOFILE", 100, 200),
    ("NPROC", 2001, 4002),
    ("RSS", 6 * GIB, 7 * GIB),
    ("RTPRIO", 5, 10),
    ("RTTIME", 600000001, 700000001),
    ("SIGPENDING", 1001, 2002),
    ("STACK", 4 << 20, 7 << 20),
)
LAST_NICE = 19  # which every process may set, whatever the kit's own is
SYS_NICE = (23, "CAP_SYS_NICE")
SYS_RESOURCE = (24, "CAP_SYS_RESOURCE")


def limit(name: str, soft: int, hard: int) -> Json:
    """Return an entry for ``process.rlimits``."""
    return {"type": f"RLIMIT_{name}", "soft": soft, "hard": hard}


def limited(c: Context, *limits: Json) -> Bundle:
    """Return a bundle with these resource limits."""
    return c.bundle(process={"rlimits": list(limits)})


@table(("type",), ("soft",), ("hard",), ids="CFG-RLIM-01")
def incomplete_limit(c: Context, missing: str) -> None:
    """A resource limit without {0} is rejected."""
    entry = limit("CORE", 0, 0)
    del entry[missing]
    c.refused(limited(c, entry), f"a limit without {missing}")


@table(("RLIMIT_FOO",), ("NOFILE",), ("rlimit_nofile",), ("",), ids="CFG-RLIM-02")
def unknown_limit(c: Context, name: str) -> None:
    """A resource limit of type {0} is rejected."""
    c.refused(limited(c, {"type": name, "soft": 5, "hard": 5}), f"type {name!r}")


@table(*LIMITS, ids=("CFG-RLIM-03", "CFG-RLIM-04", "CFG-RLIM-05"))
def limits(c: Context, name: str, soft: int, hard: int) -> None:
    """The soft and hard limits of RLIMIT_{0} are those of the config."""
    highest = resource.getrlimit(limit_number(name))[1]
    if 0 <= highest < hard:
        c.need_capability(*SYS_RESOURCE)
    facts = c.probe(limited(c, limit(name, soft, hard)))
    c.equal(facts["rlimits"][f"RLIMIT_{name}"], [soft, hard], name)


def limit_number(name: str) -> int:
    """Return the number of RLIMIT_NAME; Python does not define RLIMIT_LOCKS."""
    return 10 if name == "LOCKS" else int(getattr(resource, f"RLIMIT_{name}"))


@case("CFG-RLIM-04", "CFG-RLIM-05")
def endless_limit(c: Context) -> None:
    """A limit of 2^64-1 means unlimited, even if the runtime's own soft limit is lower."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        c.need_capability(*SYS_RESOURCE)

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))

    facts = c.probe(limited(c, limit("CORE", INFINITY, INFINITY)), before=lower)
    c.equal(facts["rlimits"]["RLIMIT_CORE"], [INFINITY, INFINITY], "RLIMIT_CORE")


@case("CFG-RLIM-05")
def raised_limit(c: Context) -> None:
    """A privileged runtime can set a hard limit above its own."""
    c.need_root()
    c.need_capability(*SYS_RESOURCE)

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))

    facts = c.probe(limited(c, limit("NOFILE", 1024, 2048)), before=lower)
    c.equal(facts["rlimits"]["RLIMIT_NOFILE"], [1024, 2048], "RLIMIT_NOFILE")


@case("CFG-RLIM-04", "CFG-RLIM-05")
def limit_in_user_namespace(c: Context) -> None:
    """Resource limits apply in a user namespace too."""
    c.need_root()
    bundle = limited(c, limit("NOFILE", 100, 200)).user_namespace()
    c.equal(c.probe(bundle)["rlimits"]["RLIMIT_NOFILE"], [100, 200], "RLIMIT_NOFILE")


@case("CFG-RLIM-04")
def soft_above_hard(c: Context) -> None:
    """A soft limit above the hard limit, which the kernel rejects, is an error."""
    c.refused(limited(c, limit("NOFILE", 200, 100)), "soft above hard", or_start=True)


@table(("same values", 100), ("other values", 101), ids="CFG-RLIM-06")
def limit_twice(c: Context, name: str, soft: int) -> None:
    """A limit type that is listed twice ({0}) is rejected."""
    bundle = limited(c, limit("NOFILE", 100, 200), limit("NOFILE", soft, 200))
    c.refused(bundle, f"RLIMIT_NOFILE twice, {name}")


def score_of(c: Context, bundle: Bundle, own: int) -> int:
    """Return the program's oom_score_adj if that of the runtime itself is ``own``."""
    file = Path("/proc/self/oom_score_adj")
    facts = c.probe(bundle, f"read={file}", before=lambda: file.write_text(str(own)) and None)
    return int(facts["read"][str(file)])


@table(("0", 0), ("123", 123), ("1000", 1000), ("-100", -100), ids="CFG-OOM-01")
def oom_score(c: Context, _name: str, value: int) -> None:
    """An oomScoreAdj of {0} is applied to the program."""
    if value < 0:
        c.need_root()
        c.need_capability(*SYS_RESOURCE)
    found = score_of(c, c.bundle(process={"oomScoreAdj": value}), own=321)
    c.equal(found, value, "oom_score_adj")


@case("CFG-OOM-02")
def oom_score_kept(c: Context) -> None:
    """Without oomScoreAdj, the program inherits the runtime's oom_score_adj."""
    c.equal(score_of(c, c.bundle(), own=321), 321, "oom_score_adj")


def scheduled(c: Context, **scheduler: Any) -> Bundle:
    """Return a bundle with this scheduler."""
    return c.bundle(process={"scheduler": scheduler})


def real_time(c: Context, **scheduler: Any) -> Bundle:
    """Return a bundle with this scheduler and, on cgroup v1, a real-time budget."""
    c.need_root()
    c.need_capability(*SYS_NICE)
    bundle = scheduled(c, **scheduler)
    # With CONFIG_RT_GROUP_SCHED a fresh group of v1 has no share.
    if any((one.point / "cpu.rt_runtime_us").exists() for one in cgroups.hierarchies()):
        bundle.resources["cpu"] = {"realtimeRuntime": 10_000, "realtimePeriod": 1_000_000}
    return bundle


@table(("empty", {}), ("nice alone", {"nice": 5}), ids="CFG-SCHED-01")
def no_policy(c: Context, name: str, scheduler: Json) -> None:
    """A scheduler without a policy ({0}) is rejected."""
    c.refused(scheduled(c, **scheduler), f"a scheduler that is {name}")


@table(("SCHED_OTHER", 0), ("SCHED_BATCH", 3), ids="CFG-SCHED-02")
def policy(c: Context, name: str, number: int) -> None:
    """The program runs under {0} with the given nice value."""
    found = c.probe(scheduled(c, policy=name, nice=LAST_NICE))["scheduler"]
    c.equal((found["policy"], found["nice"]), (number, LAST_NICE), "policy and nice")


@case("CFG-SCHED-02")
def idle_policy(c: Context) -> None:
    """The program runs under SCHED_IDLE, for which nice has no meaning."""
    c.equal(c.probe(scheduled(c, policy="SCHED_IDLE"))["scheduler"]["policy"], 5, "policy")


@table(("SCHED_FIFO", 1), ("SCHED_RR", 2), ids="CFG-SCHED-02")
def real_time_policy(c: Context, name: str, number: int) -> None:
    """The program runs under {0} with the given priority."""
    found = c.probe(real_time(c, policy=name, priority=7))["scheduler"]
    c.equal((found["policy"], found["priority"]), (number, 7), "policy and priority")


@case("CFG-SCHED-02")
def deadline_policy(c: Context) -> None:
    """The program runs under SCHED_DEADLINE with the given runtime, deadline and period."""
    times = {"runtime": 10_000_000, "deadline": 90_000_000, "period": 100_000_000}
    found = c.probe(real_time(c, policy="SCHED_DEADLINE", **times))["scheduler"]
    c.equal({key: found[key] for key in times}, times, "times in nanoseconds")
    c.equal(found["policy"], 6, "policy")


@case("CFG-SCHED-02")
def scheduler_flag(c: Context) -> None:
    """The flag SCHED_FLAG_RESET_ON_FORK is set on the program."""
    flags = ["SCHED_FLAG_RESET_ON_FORK"]
    bundle = scheduled(c, policy="SCHED_BATCH", nice=LAST_NICE, flags=flags)
    c.equal(c.probe(bundle)["scheduler"]["flags"] & 1, 1, "flag")


@table(("KEEP_POLICY",), ("KEEP_PARAMS",), ids="CFG-SCHED-02")
def keeping_flag(c: Context, name: str) -> None:
    """SCHED_FLAG_{0} is accepted and keeps the inherited policy or parameters."""
    plain = c.probe(c.bundle())["scheduler"]
    flags = [f"SCHED_FLAG_{name}"]
    bundle = scheduled(c, policy="SCHED_OTHER", nice=LAST_NICE, flags=flags)
    found = c.probe(bundle)["scheduler"]
    c.equal(found["policy"], plain["policy"], "policy")
    wanted = plain["nice"] if name == "KEEP_PARAMS" else LAST_NICE
    c.equal(found["nice"], wanted, "nice")


@table(
    ("SCHED_X", {"policy": "SCHED_X"}),
    ("lower case", {"policy": "sched_other"}),
    ("empty", {"policy": ""}),
    ("SCHED_FLAG_X", {"policy": "SCHED_OTHER", "flags": ["SCHED_FLAG_X"]}),
    ("RESET_ON_FORK", {"policy": "SCHED_OTHER", "flags": ["RESET_ON_FORK"]}),
    ids="CFG-SCHED-02",
)
def bad_scheduler(c: Context, name: str, scheduler: Json) -> None:
    """An unknown scheduling policy or flag ({0}) is rejected."""
    c.refused(scheduled(c, **scheduler), name)


@case("CFG-SCHED-03")
def default_nice(c: Context) -> None:
    """A scheduler without nice sets the nice value to 0, not to the runtime's own."""
    c.need_root()
    c.need_capability(*SYS_NICE)
    bundle = scheduled(c, policy="SCHED_BATCH")
    facts = c.probe(bundle, before=lambda: os.nice(5) and None)
    c.equal(facts["scheduler"]["nice"], 0, "nice")


@case("CFG-SCHED-03")
def default_priority(c: Context) -> None:
    """SCHED_FIFO without a priority is an error: the default, 0, is not valid for it."""
    c.refused(scheduled(c, policy="SCHED_FIFO"), "SCHED_FIFO without priority", or_start=True)


def io_priority(c: Context, *actions: str, **fields: Any) -> Bundle:
    """Return a bundle with this ioPriority."""
    return c.bundle(*actions, process={"ioPriority": fields})


@table(
    ("empty", {}),
    ("class alone", {"class": "IOPRIO_CLASS_BE"}),
    ("priority alone", {"priority": 3}),
    ids="CFG-IOP-01",
)
def incomplete_io_priority(c: Context, name: str, fields: Json) -> None:
    """An incomplete ioPriority ({0}) is rejected."""
    c.refused(io_priority(c, **fields), f"an ioPriority that is {name}")


@table(
    ("RT", "IOPRIO_CLASS_RT", 1, 1),
    ("BE", "IOPRIO_CLASS_BE", 2, 6),
    ("BE highest", "IOPRIO_CLASS_BE", 2, 0),
    ("BE lowest", "IOPRIO_CLASS_BE", 2, 7),
    ("IDLE", "IOPRIO_CLASS_IDLE", 3, 0),
    ids="CFG-IOP-02",
)
def io_class(c: Context, name: str, word: str, number: int, priority: int) -> None:
    """The program has the given I/O class and priority ({0})."""
    if name == "RT":
        c.need_root()
        c.need_capability(*SYS_NICE)
    found = c.probe(io_priority(c, **{"class": word, "priority": priority}))["io_priority"]
    c.equal(found, {"class": number, "priority": priority}, "I/O priority")


@table(
    ("unknown class", "IOPRIO_CLASS_X", 3),
    ("no class", "IOPRIO_CLASS_NONE", 0),
    ("empty class", "", 3),
    ("8", "IOPRIO_CLASS_BE", 8),
    ("-1", "IOPRIO_CLASS_BE", -1),
    ids="CFG-IOP-02",
)
def bad_io_priority(c: Context, name: str, word: str, priority: int) -> None:
    """An I/O class or priority that does not exist ({0}) is rejected."""
    c.refused(io_priority(c, **{"class": word, "priority": priority}), name)


@case("CFG-IOP-03")
def io_priority_of_group(c: Context) -> None:
    """Child processes have the I/O priority too: it applies to the process group."""
    bundle = io_priority(c, "facts", "fork", "facts", **{"class": "IOPRIO_CLASS_BE", "priority": 6})
    reports = c.run(bundle).reports
    c.equal(len(reports), 2, "reports")
    for facts in reports:
        for scope in ("io_priority", "io_priority_group"):
            c.equal(facts[scope], {"class": 2, "priority": 6}, f"{scope} of {facts['pid']}")


def need_two_cpus(c: Context) -> list[int]:
    """Return the CPUs that the test kit may use; skip if there are fewer than two."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        c.skip("needs two CPUs")
    return cpus


@case("CFG-AFF-01")
def affinity_of_init(c: Context) -> None:
    """The property execCPUAffinity does not apply to the container's init."""
    cpus = need_two_cpus(c)
    affinity = {"initial": str(cpus[0]), "final": str(cpus[0])}
    found = c.probe(c.bundle(process={"execCPUAffinity": affinity}))["affinity"]
    c.equal(found, cpus, "affinity of the init")


def execute(c: Context, box: Container, affinity: Json | None, **options: Any) -> Result:
    """Run the probe with exec to report its facts; skip if the runtime has no ``exec``."""
    if not c.call("exec", "--help").ok:
        c.skip("the runtime has no exec command")
    process = box.bundle.process | {"args": ["/bin/probe", "facts"]}
    if affinity is not None:
        process["execCPUAffinity"] = affinity
    file = c.directory / "process.json"
    file.write_text(json.dumps(process))
    return box.attempt("exec", f"--process={file}", **options)


def affinity_in(c: Context, result: Result) -> object:
    """Return the CPU affinity that the executed process reported."""
    c.expect(result.ok, f"exec failed: {result.complaint}")
    return result.json()["affinity"]


@case("CFG-AFF-02")
def final_affinity(c: Context) -> None:
    """A process started with exec has the final CPU affinity."""
    cpus = need_two_cpus(c)
    box = c.started()
    affinity = {"initial": str(cpus[0]), "final": str(cpus[1])}
    c.equal(affinity_in(c, execute(c, box, affinity)), [cpus[1]], "affinity")


@table(("initial",), ("final",), ids="CFG-AFF-02")
def bad_affinity(c: Context, kind: str) -> None:
    """An invalid list of CPUs as the {0} affinity is an error."""
    c.failed(execute(c, c.started(), {kind: "nonsense"}), f"{kind} affinity nonsense")


@table(("absent", None), ("empty", {"final": ""}), ids="CFG-AFF-03")
def no_final_affinity(c: Context, _name: str, affinity: Json | None) -> None:
    """If final is {0}, an executed process keeps the CPUs it has after joining the cgroup.

    Without execCPUAffinity the specification says nothing, so all CPUs that the cpuset allows are
    accepted too.
    """
    cpus = need_two_cpus(c)
    box = c.started()
    groups = set(box.cgroups().values()) if c.host.root else set()

    def pin() -> None:
        os.sched_setaffinity(0, {cpus[0]})

    def pin_and_join() -> None:
        pin()
        for group in groups:
            (group / "cgroup.procs").write_text("0")

    result = execute(c, box, affinity, before=pin)
    control = json.loads(c.probe_on_host(before=pin_and_join).out)["affinity"]
    found = affinity_in(c, result)
    if affinity is None and found == sorted(os.sched_getaffinity(box.pid)):
        return
    c.equal(found, control, "affinity")
