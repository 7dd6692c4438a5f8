"""Commands about pods, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.cli.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

_UUID_FILE: Option = ("uuid-file", "", "text", "FILE", "read the UUID from FILE")
_FORMAT: Option = ("format", "", "choice", "json|json-pretty", "print JSON instead")
_APP: Option = ("app", "a", "text", "APP", "which app; needed if the pod has several")

POD_COMMANDS: tuple[Command, ...] = (
    (
        "monitor",
        "UUID",
        1,
        1,
        "",
        (
            ("lock-fd", "", "number", "N", ""),
            ("resume-fd", "", "number", "N", ""),
        ),
        "",
    ),
    (
        "list",
        "",
        0,
        0,
        "list pods and their apps",
        (
            ("full", "", "flag", "", "UUIDs, image ids and times in full"),
            ("no-legend", "", "flag", "", "leave out the line with the titles"),
            _FORMAT,
        ),
        "Pods that cannot be read are named on standard error; the exit status is 0.",
    ),
    (
        "status",
        "[UUID]",
        0,
        1,
        "print the state of a pod, and how its apps ended",
        (
            ("wait", "", "optional", "TIME", "wait until it has ended, at most TIME"),
            ("wait-ready", "", "optional", "TIME", "wait until it is ready, at most TIME"),
            _UUID_FILE,
            _FORMAT,
        ),
        (
            "UUID may be the beginning of one. TIME is a duration (10s, 1h30m); true or a\n"
            "negative one is for ever, false or 0 not at all. The exit status is 0 whatever\n"
            "the apps' are; 254 if the time is over, or a pod to be ready has ended."
        ),
    ),
    (
        "rm",
        "[UUID]...",
        0,
        ANY,
        "remove pods that do not run, without a grace period",
        (_UUID_FILE,),
        (
            "Prints the UUID of each that was removed. Pods that run, are being prepared or\n"
            "deleted are refused: the others are removed and the exit status is 254."
        ),
    ),
    (
        "gc",
        "",
        0,
        0,
        "remove pods that have ended, after a grace period",
        (
            ("grace-period", "", "text", "TIME", "keep ended pods for TIME from now on (30m)"),
            ("expire-prepared", "", "text", "TIME", "remove pods not run within TIME (24h)"),
            ("mark-only", "", "flag", "", "only mark, remove nothing"),
        ),
        (
            "Marks what has ended, and removes what was marked longer ago than the grace\n"
            "period; what was never run needs none. A pod that cannot be removed stays for\n"
            "the next time."
        ),
    ),
    (
        "cat-manifest",
        "[UUID]",
        0,
        1,
        "print the manifest of a pod",
        (
            ("pretty-print", "", "flag", "", "with line breaks (default; =false for one line)"),
            _UUID_FILE,
        ),
        "",
    ),
    (
        "stop",
        "UUID...",
        0,
        ANY,
        "end running pods",
        (
            ("force", "", "flag", "", "kill everything at once"),
            ("time", "t", "number", "SECONDS", "between the apps' stop signal and KILL (10)"),
            ("wait", "w", "flag", "", "return when they have ended"),
            _UUID_FILE,
        ),
        "",
    ),
    (
        "logs",
        "UUID",
        1,
        1,
        "print what the apps of a pod have written",
        (
            ("app", "a", "text", "APP", "of this app alone"),
            ("follow", "f", "flag", "", "go on until the pod ends"),
            ("tail", "n", "number", "N", "begin N lines before the end"),
            ("timestamps", "t", "flag", "", "with the time in front of each line"),
            ("stream", "", "choice", "stdout|stderr", "which of the two"),
        ),
        "Lines of several apps are in the order of their times, with the app's name.",
    ),
    (
        "attach",
        "UUID",
        1,
        1,
        "use the streams or the terminal of an app",
        (
            _APP,
            ("mode", "", "text", "STREAM,...", "auto, list, or of stdin, stdout, stderr"),
            ("detach-keys", "", "text", "KEYS", "that leave a terminal (ctrl-p,ctrl-q)"),
            ("wait", "", "flag", "", "if the app does not run, from its next start on"),
        ),
        "Several may be attached at once; who reads too slowly misses output.",
    ),
    (
        "enter",
        "UUID [COMMAND [ARGUMENT]...]",
        1,
        ANY,
        "run a command in an app, a shell if none is given",
        (_APP,),
        "The exit status is that of the command.",
    ),
    (
        "export",
        "UUID FILE",
        2,
        2,
        "write an app that has ended as an image archive",
        (
            ("app", "", "text", "APP", "which one, if the pod has several"),
            ("squash", "", "flag", "", "one layer with all, not the image's and another"),
            ("overwrite", "", "flag", "", "replace FILE if it is there"),
        ),
        "The image runs as the app's does, with the files that the app has left.",
    ),
    (
        "version",
        "",
        0,
        0,
        "print the versions of ocipod and of what it stands on",
        (),
        "",
    ),
)
