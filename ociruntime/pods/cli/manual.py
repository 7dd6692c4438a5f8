"""Text of help, manual pages and completions of ``ocipod`` beyond its tables of options.

Loaded only to print help or to build manual pages and completions.
"""

from __future__ import annotations

from ociruntime.pods.cli import remarks

DESCRIPTION = (
    "ocipod runs pods: groups of apps that start and stop together and share a network. Each app "
    "is a container, created from an image by ociruntime or another OCI runtime. There is no "
    "daemon: the `ocipod run` process is the monitor of its pod, and the pod lives as long as its "
    "monitor.\n\n"
    "A pod of `run` or `prepare` is immutable. It stops when its last app exits, or when one app "
    "fails; then the other apps are stopped. A pod of `app sandbox` is mutable: apps can be added "
    "and removed until it is stopped.\n\n"
    "A stopped pod is kept, with its logs and exit codes, until `rm` or `gc` removes it. A command "
    "may be abbreviated to a unique prefix, and so may the UUID of a pod. An error is one line on "
    "standard error."
)

_ANY_FORM = "The section IMAGES of ocipod(1) lists the forms of IMAGE."

# (prefix of commands, argument, description): for the page of each command that has it.
ARGUMENTS: tuple[tuple[str, str, str], ...] = (
    ("", "UUID", "UUID is the UUID of a pod or a unique prefix of it."),
    ("fetch", "IMAGE", _ANY_FORM),
    ("run", "IMAGE", _ANY_FORM),
    ("prepare", "IMAGE", _ANY_FORM),
    ("app add", "IMAGE", _ANY_FORM),
    (
        "image",
        "IMAGE",
        "IMAGE is the name, the ID or a unique prefix of the ID of an image in the store.",
    ),
)

# Commands that list what completes an argument.
LISTED = {
    "pod": "list --full --no-legend",
    "image": "image list --no-legend --fields=name",
    "app": "app list --no-legend ARGUMENT1",
}
COMPLETED_BY = {
    "UUID": "pod",
    "IMAGE": "image",
    "APP": "app",
    "DIR": "directory",
    "DIRECTORY": "directory",
    "FILE": "file",
    "SIGNAL": "signal",
}
# (command, option): paths inside an app.
NOT_COMPLETED: tuple[tuple[str, str], ...] = (
    ("run", "working-dir"),
    ("prepare", "working-dir"),
    ("app add", "working-dir"),
    ("app exec", "cwd"),
)
NEW_CONTAINER: tuple[str, ...] = ()

EXIT_STATUS = (
    ("0", "success"),
    ("254", "failure of ocipod itself; standard error has one line that explains it"),
    ("2", "no command given"),
    ("130", "interrupted"),
)
_OF_POD = (
    ("0", "all apps returned 0, or the pod was stopped before one failed"),
    ("N", "exit status of the first app that failed; 128 + N if signal N killed it"),
    ("254", "the pod could not be created"),
)
_OF_PROGRAM = (
    ("N", "exit status of the program"),
    ("128 + N", "signal N killed the program"),
    ("254", "the program could not be run"),
)
# Commands with other exit statuses than those above.
OWN_EXIT_STATUS: dict[str, tuple[tuple[str, str], ...]] = {
    "run": _OF_POD,
    "run-prepared": _OF_POD,
    "enter": _OF_PROGRAM,
    "app exec": _OF_PROGRAM,
}

STATES = (
    ("embryo", "only its directory exists"),
    ("preparing", "its images are being unpacked, its manifest written"),
    ("aborted prepare", "preparation failed; `gc` removes it"),
    ("prepared", "ready for `run-prepared`"),
    ("running", "its apps are running, or it waits for apps"),
    ("exited", "stopped; logs and exit codes are kept"),
    ("exited garbage", "stopped and marked by `gc` for removal"),
    ("exited deleting", "stopped and being removed"),
    ("garbage", "never ran, marked for removal"),
    ("deleting", "never ran, being removed"),
)

IMAGES = (
    ("[docker://]NAME[:TAG|@DIGEST]", "in a registry (default: docker.io)"),
    ("oci:DIR[:TAG]", "in an OCI image layout directory"),
    ("oci-archive:FILE[:TAG]", "in an OCI image layout tar file"),
    ("docker-archive:FILE[:TAG]", "in a tar file written by `docker save`"),
    ("dir:DIR", "a directory with a root filesystem"),
    ("tar:FILE", "a tar file with a root filesystem"),
    ("FILE.aci", "an App Container Image"),
    ("sha256:DIGEST", "an image in the store, by its ID or at least seven digits of it"),
)

FILES = (
    ("/var/lib/ociruntime", "pods and images; see --dir"),
    ("/var/lib/ociruntime/pods", "one directory per pod, below the directory of its phase"),
    ("/usr/lib/ociruntime", "vendor settings"),
    ("/etc/ociruntime", "local settings, which override vendor settings"),
    ("/run/ocipod", "state of the OCI runtimes, one directory each"),
)

# Command -> (description, command line).
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("Run a pod with one app", "ocipod run busybox --exec /bin/echo -- hello"),
        ("List pods", "ocipod list"),
        ("Remove stopped pods", "ocipod gc --grace-period=0s"),
    ),
    "run": (
        (
            "Run one app with another command",
            "ocipod run busybox --exec /bin/echo -- hello",
        ),
        (
            "Run two apps that share a network, in the background",
            "ocipod run --detach nginx --port=80-tcp:8080 redis --memory=512M",
        ),
        (
            "Mount a directory of the host read-only",
            """\
ocipod run --volume=pages,kind=host,source=/srv/pages,readOnly=true \\
    nginx --mount=volume=pages,target=/usr/share/nginx/html""",
        ),
        (
            "Open a shell in a directory tree, without a network",
            "ocipod run --net=none --interactive dir:./rootfs --exec /bin/sh",
        ),
    ),
    "prepare": (
        (
            "Prepare a pod now, to run it later",
            "uuid=$(ocipod prepare --quiet busybox --exec /bin/true)",
        ),
    ),
    "run-prepared": (("Run a prepared pod", 'ocipod run-prepared "$uuid"'),),
    "list": (
        ("List all pods", "ocipod list"),
        (
            "Print the UUIDs of running pods",
            "ocipod list --format=json |\n    jq -r '.[] | select(.state == \"running\") | .name'",
        ),
    ),
    "status": (
        ("Wait until a pod stops, at most one minute", "ocipod status --wait=1m 6d52"),
        ("Wait until its apps are running", "ocipod status --wait-ready 6d52"),
    ),
    "logs": (
        ("Print all logs", "ocipod logs 6d52"),
        ("Follow one app from now on", "ocipod logs --app=web --follow --tail=0 6d52"),
    ),
    "stop": (
        ("Stop a pod and wait for it", "ocipod stop --wait 6d52"),
        ("Kill a pod", "ocipod stop --force 6d52"),
    ),
    "enter": (("Open a shell in the only app", "ocipod enter 6d52"),),
    "attach": (("Attach to the terminal of an app", "ocipod attach --app=shell 6d52"),),
    "export": (("Export an app as an image", "ocipod export --app=web 6d52 web.tar"),),
    "app sandbox": (("Run an empty pod in the background", "uuid=$(ocipod app sandbox --detach)"),),
    "app add": (
        (
            "Add an app from the store",
            "ocipod app add 6d52 busybox --name=web --exec=/bin/httpd -- -f",
        ),
    ),
    "app start": (("Start an app", "ocipod app start --app=web 6d52"),),
    "app stop": (
        ("Stop an app with a timeout of 30 seconds", "ocipod app stop --app=web --time=30 6d52"),
    ),
    "app rm": (("Remove an app and its files", "ocipod app rm --app=web 6d52"),),
    "app list": (("List apps as JSON", "ocipod app list --format=json 6d52"),),
    "app status": (
        (
            "Print the exit code of an app",
            "ocipod app status --app=web --format=json 6d52 | jq .exit_code",
        ),
    ),
    "app exec": (
        ("List the processes of the pod", "ocipod app exec --app=web 6d52 ps -ef"),
        ("Open a shell", "ocipod app exec --app=web --tty 6d52 sh"),
    ),
    "image list": (
        ("List the largest images first", "ocipod image list --sort=size --order=desc"),
        ("List only names", "ocipod image list --no-legend --fields=name"),
    ),
    "image rm": (("Remove an image by name", "ocipod image rm docker.io/library/busybox:latest"),),
    "image gc": (("Remove images unused for a week", "ocipod image gc --grace-period=168h"),),
    "image export": (
        (
            "Copy an image to another machine, to `fetch oci-archive:busybox.tar` there",
            "ocipod image export busybox - | ssh web 'cat >busybox.tar'",
        ),
    ),
    "image extract": (("Extract an OCI image layout", "ocipod image extract busybox ./layout"),),
    "image render": (
        (
            "Unpack the root filesystem of a bundle",
            "ocipod image render --rootfs-only busybox rootfs",
        ),
    ),
    "image verify": (("Check an image for damage", "ocipod image verify busybox"),),
    "image cat-manifest": (
        (
            "Print the environment of an image",
            "ocipod image cat-manifest --config busybox | jq .config.Env",
        ),
    ),
    "trust": (("Trust a key for one repository", "ocipod trust --prefix=quay.io/web web.asc"),),
    "config": (("Print the settings", "ocipod config"),),
    "rm": (("Remove a stopped pod", "ocipod rm 6d52"),),
    "gc": (
        ("Collect garbage, for example from a timer", "ocipod gc"),
        ("Remove all stopped pods now", "ocipod gc --grace-period=0s"),
    ),
    "cat-manifest": (
        ("Print the images of the apps", "ocipod cat-manifest 6d52 | jq '.apps[].image'"),
    ),
    "fetch": (
        ("Fetch from a registry", "ocipod fetch quay.io/prometheus/busybox:latest"),
        (
            "Fetch from an image layout",
            "ocipod --insecure-options=image fetch oci:./busybox:latest",
        ),
    ),
}

# Sections of ocipod(1), in order.
SECTIONS = (
    ("IMAGES", IMAGES),
    ("STATES OF A POD", STATES),
    ("EXIT STATUS", EXIT_STATUS),
    ("FILES", FILES),
)

MORE = remarks.MORE
more = remarks.more
