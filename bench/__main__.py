"""Benchmark every command, in comparison with other runtimes and engines: `./dev bench`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

from bench import box, crowd, hotspots, life, managers, pods, report, scaling
from bench.bundles import Bundles
from bench.document import Document
from bench.place import REPOSITORY, Failed, find_program, workplace
from bench.runtimes import PEERS, Runtime, check_snapshots, chosen, prepare

SUBJECTS = ("life", "scaling", "seccomp", "crowd", "profile", "pods", "managers")
HERE_ONLY = {"profile", "pods", "managers"}  # the test VM has no perf and no engines
V2_ROUNDS, V2_CROWD = 8, 20
PAGES = ("docs/performance.md", "docs/pods.md", "docs/manager.md", "README.md")
PICTURE = REPOSITORY / "docs" / "performance.svg"
DESCRIPTION = """\
Benchmark ociruntime and other runtimes, which take turns. Subjects (default:
all): life (each command of a container's lifecycle, with two configurations),
scaling (time by number of mounts, device rules, seccomp rules), seccomp (the
cost of a profile), crowd (many containers at once), profile (where create and
exec spend their time), pods (ocipod and ocictl, podman and containerd),
managers (ocictl, docker and podman with hundreds of containers).
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(SUBJECTS))
    parser.add_argument("--runtime", action="append", type=Path, metavar="PATH",
                        help="ociruntime to measure (default: this one, installed); may be "
                        "repeated; its other programs are expected beside it")  # fmt: skip
    parser.add_argument("--peers", default=",".join(PEERS), metavar="NAME,...",
                        help="runtimes to compare with, names or paths "
                        "(default: %(default)s; empty for none)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=20, metavar="N",
                        help="rounds to measure (default: %(default)s)")  # fmt: skip
    parser.add_argument("--warmup", type=int, default=3, metavar="N",
                        help="rounds before that (default: %(default)s)")  # fmt: skip
    parser.add_argument("--crowd", type=int, default=100, metavar="N",
                        help="containers of subject crowd (default: %(default)s)")  # fmt: skip
    parser.add_argument("--idle", type=int, default=4, metavar="N",
                        help="idle pods whose memory is measured "
                        "(default: %(default)s)")  # fmt: skip
    parser.add_argument("--containers", type=int, default=500, metavar="N",
                        help="containers of subject managers (default: %(default)s)")  # fmt: skip
    parser.add_argument("--snapshot-only", action="store_true",
                        help="do not measure ociruntime without its snapshot")  # fmt: skip
    parser.add_argument("--v2", action="store_true",
                        help="measure in the test VM, which has cgroup v2")  # fmt: skip
    parser.add_argument("--from", dest="saved", type=Path, metavar="FILE",
                        help="use the results of an earlier --json FILE")  # fmt: skip
    parser.add_argument("--note", metavar="TEXT",
                        help="add TEXT to the conditions below the tables")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE",
                        help="write the tables as Markdown")  # fmt: skip
    parser.add_argument("--svg", type=Path, metavar="FILE",
                        help="write a chart of subject life")  # fmt: skip
    parser.add_argument("--write-docs", action="store_true",
                        help="measure here and with --v2, and update the tables in README.md "
                        "and docs/, and docs/performance.svg")  # fmt: skip
    options = parser.parse_args()
    unknown = [name for name in options.subjects if name not in SUBJECTS]
    if unknown:
        parser.error(f"unknown subject: {', '.join(unknown)} (choose from {', '.join(SUBJECTS)})")
    options.subjects = options.subjects or list(SUBJECTS)
    return options


def machine() -> str:
    """Return the kernel, the number of cores and the cgroup version, on which times depend."""
    cores = os.cpu_count()
    cgroup = "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"
    plural = "" if cores == 1 else "s"
    return f"Linux {platform.release()}, {cores} core{plural}, cgroup {cgroup}"


def measure(options: argparse.Namespace) -> Document:
    """Measure the subjects on this machine."""
    paths = chosen(options.runtime, options.peers)
    found: Document = {"machine": machine(), "rounds": options.rounds, "runtimes": []}
    with workplace(with_crun=any(path.name == "crun" for path in paths)) as place:
        if set(options.subjects) - {"pods", "managers"}:
            runtimes = prepare(paths, place, without=not options.snapshot_only)
            found["runtimes"] = [runtime.facts() for runtime in runtimes]
            measure_runtimes(options, runtimes, Bundles(place, paths[0]), found)
            for runtime in runtimes:
                runtime.spawn.close()
        if "pods" in options.subjects:
            theirs = find_program("runc") if options.peers else ""
            programs = [path.parent for path in paths if (path.parent / "ocipod").exists()]
            (place / "pods").mkdir()
            found["pods"] = pods.measure(
                *(programs, theirs, place / "pods", options.rounds, options.idle),
                without=not options.snapshot_only,
            )
        if "managers" in options.subjects:
            (place / "m").mkdir()  # podman refuses long paths
            found["managers"] = managers.measure(
                *(paths[0].parent, find_program("runc"), place / "m"),
                *(options.rounds, options.containers),
            )
    return found


def measure_runtimes(
    options: argparse.Namespace, runtimes: list[Runtime], bundles: Bundles, found: Document
) -> None:
    """Measure the subjects other than pods, and add the results to ``found``."""
    # A lifecycle with a thousand mounts, or of a hundred containers, needs fewer rounds.
    few = max(3, options.rounds // 4)
    for subject in options.subjects:
        print(f"measuring: {subject}", file=sys.stderr)
        if subject == "life":
            measured = life.measure(runtimes, bundles, options.rounds, options.warmup)
            found["life"], found["waiting"] = measured
            found["floor"] = life.floor(runtimes, options.rounds)
        elif subject == "scaling":
            found["scaling"] = scaling.measure(runtimes, bundles, few)
        elif subject == "seccomp":
            found["seccomp"] = scaling.measure_seccomp(runtimes, bundles, options.rounds)
        elif subject == "crowd":
            found["crowd"] = crowd.measure(runtimes, bundles, options.crowd, few)
        elif subject == "profile":
            found["profile"] = hotspots.measure(runtimes[0], bundles)
    check_snapshots(runtimes)


def measure_v2(options: argparse.Namespace) -> Document:
    """Measure in the test VM, with fewer rounds because it is slow and has one core."""
    subjects = [name for name in options.subjects if name not in HERE_ONLY]
    words = [*subjects, f"--rounds={min(options.rounds, V2_ROUNDS)}", "--warmup=1"]
    words.append(f"--crowd={min(options.crowd, V2_CROWD)}")
    words += ["--snapshot-only"] if options.snapshot_only else []
    runc = find_program("runc") if "runc" in options.peers.split(",") else ""
    return box.measure(words, [Path(runc)] if runc else [])


def obtain(options: argparse.Namespace) -> Document:
    """Return the results, measured or saved."""
    if options.saved:
        saved: Document = json.loads(options.saved.read_text())
        return saved
    if options.v2:
        return measure_v2(options)
    if not options.write_docs:
        return measure(options)
    # Before measure(), which makes this process a subreaper: the VM leaves orphans.
    in_vm = measure_v2(options)
    found = measure(options)
    found["v2"] = in_vm
    return found


def write(options: argparse.Namespace, document: Document) -> None:
    """Write each requested file."""
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(report.as_markdown(document))
    if options.svg:
        options.svg.write_text(report.picture(document))
    if options.write_docs:
        for page in (REPOSITORY / name for name in PAGES):
            page.write_text(report.fill(page.read_text(), report.blocks(document)))
        PICTURE.write_text(report.picture(document))


def main() -> None:
    options = arguments()
    if options.svg and "life" not in options.subjects:
        sys.exit("--svg requires the subject life")
    try:
        document = obtain(options)
    except Failed as error:
        sys.exit(str(error))
    if options.note is not None:
        document["note"] = options.note
    print(report.as_text(document))
    write(options, document)


if __name__ == "__main__":
    main()
