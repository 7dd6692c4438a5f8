"""Commands about pods, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.commandline.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

_UUID_FILE: Option = ("uuid-file", "", "text", "FILE", "read the UUID from FILE")
_FORMAT: Option = ("format", "", "choice", "json|json-pretty", "output format")
_APP: Option = ("app", "a", "text", "APP", "name of the app, if the pod has several")

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
            ("full", "", "flag", "", "do not truncate UUIDs, IDs and times"),
            ("no-legend", "", "flag", "", "omit the header"),
            _FORMAT,
        ),
        "Unreadable pods are reported on standard error; the exit status is still 0.",
    ),
    (
        "status",
        "[UUID]",
        0,
        1,
        "print the state of a pod and exit codes of its apps",
        (
            ("wait", "", "optional", "TIME", "wait until it stops, at most TIME"),
            ("wait-ready", "", "optional", "TIME", "wait until it is ready, at most TIME"),
            _UUID_FILE,
            _FORMAT,
        ),
        (
            "TIME is a duration (10s, 1h30m); true or a negative one waits forever, false or\n"
            "0 does not wait. The exit status is 0 whatever the apps returned, and 254 on\n"
            "timeout, or if a pod that should become ready has stopped."
        ),
    ),
    (
        "rm",
        "[UUID]...",
        0,
        ANY,
        "remove stopped pods",
        (_UUID_FILE,),
        (
            "Prints the UUID of each removed pod. If a pod is running, being prepared or\n"
            "deleted, the others are removed and the exit status is 254."
        ),
    ),
    (
        "gc",
        "",
        0,
        0,
        "remove stopped pods after a grace period",
        (
            ("grace-period", "", "text", "TIME", "keep stopped pods for TIME (default: 30m)"),
            (
                "expire-prepared",
                "",
                "text",
                "TIME",
                "remove pods not run within TIME (default: 24h)",
            ),
            ("mark-only", "", "flag", "", "mark pods, remove nothing"),
        ),
        (
            "Marks stopped pods, and removes those marked longer ago than the grace period;\n"
            "pods that never ran have none. A pod that cannot be removed is tried again the\n"
            "next time."
        ),
    ),
    (
        "cat-manifest",
        "[UUID]",
        0,
        1,
        "print the manifest of a pod",
        (
            ("pretty-print", "", "flag", "", "indent (default; =false: one line)"),
            _UUID_FILE,
        ),
        "",
    ),
    (
        "stop",
        "UUID...",
        0,
        ANY,
        "stop running pods",
        (
            ("force", "", "flag", "", "kill the pod at once"),
            ("time", "t", "number", "SECONDS", "timeout before SIGKILL (default: 10)"),
            ("wait", "w", "flag", "", "wait until the pods have stopped"),
            _UUID_FILE,
        ),
        "",
    ),
    (
        "logs",
        "UUID",
        1,
        1,
        "print the logs of a pod's apps",
        (
            ("app", "a", "text", "APP", "show only this app"),
            ("follow", "f", "flag", "", "follow the log output"),
            ("tail", "n", "number", "N", "show only the last N lines"),
            ("timestamps", "t", "flag", "", "show timestamps"),
            ("stream", "", "choice", "stdout|stderr", "show only this stream"),
        ),
        "Lines of several apps are sorted by time and prefixed with the app's name.",
    ),
    (
        "attach",
        "UUID",
        1,
        1,
        "attach to the streams or the terminal of an app",
        (
            _APP,
            ("mode", "", "text", "STREAM,...", "auto, list, or stdin, stdout, stderr"),
            ("detach-keys", "", "text", "KEYS", "detach key sequence (default: ctrl-p,ctrl-q)"),
            ("wait", "", "flag", "", "wait for the next start if the app is stopped"),
        ),
        "Several clients can attach at once; a slow one misses output.",
    ),
    (
        "enter",
        "UUID [COMMAND [ARGUMENT]...]",
        1,
        ANY,
        "run a command in an app (default: a shell)",
        (_APP,),
        "Exits with the status of the command.",
    ),
    (
        "export",
        "UUID FILE",
        2,
        2,
        "export a stopped app as an image archive",
        (
            ("app", "", "text", "APP", "name of the app, if the pod has several"),
            ("squash", "", "flag", "", "write a single layer"),
            ("overwrite", "", "flag", "", "overwrite FILE"),
        ),
        "The new image has the settings of the app's image, and the files of the app.",
    ),
    (
        "version",
        "",
        0,
        0,
        "print the versions of ocipod and its dependencies",
        (),
        "",
    ),
)
