"""What help, manual pages and completions of ``ocipod`` say beyond its tables of options.

Loaded when one of them is asked for or built, never by a command that does something.
"""

from __future__ import annotations

from ociruntime.ocipod import remarks

DESCRIPTION = (
    "ocipod runs pods: groups of apps that are started, watched and ended together and share a "
    "network. Each app is a container made from an image, by ociruntime or another OCI runtime. "
    "There is no daemon: the process that was called for a pod is its monitor, and a pod lives "
    "as long as that does.\n\n"
    "A pod is immutable: what `run` or `prepare` has put in it stays. It ends with its last app, "
    "or with the first one that fails, after which the others are asked to end. The pod of "
    "`app sandbox` is mutable: apps come and go in it until it is stopped.\n\n"
    "What has ended stays, with its logs and exit codes, until `rm` or `gc` removes it. Commands "
    "may be shortened as long as only one begins so, and pods be named by the beginning of their "
    "UUID. An error is one line on standard error."
)

_ANY_FORM = "IMAGE is written in one of the forms that the section IMAGES of ocipod(1) lists."

# (beginning of a command, argument, what it is): said on the page of each command that has it.
ARGUMENTS: tuple[tuple[str, str, str], ...] = (
    ("", "UUID", "UUID is that of a pod, or its first digits if no other pod begins so."),
    ("fetch", "IMAGE", _ANY_FORM),
    ("run", "IMAGE", _ANY_FORM),
    ("prepare", "IMAGE", _ANY_FORM),
    ("app add", "IMAGE", _ANY_FORM),
    (
        "image",
        "IMAGE",
        "IMAGE is one of the store, by its name, its id or the first digits of that.",
    ),
)

# Name of a command -> its summary in the list of all commands, where two share a line.
SHORT: dict[str, str] = {
    "run": "run apps as a pod",
    "prepare": "make a pod to run later",
    "run-prepared": "run such a pod",
    "list": "list pods and apps",
    "status": "how a pod is, or ended",
    "logs": "what apps have written",
    "cat-manifest": "print a pod's manifest",
    "enter": "run a program in an app",
    "attach": "join an app's streams",
    "stop": "end running pods",
    "rm": "remove ended pods",
    "gc": "remove all that ended",
    "export": "make an app an image",
    "config": "print the settings",
    "version": "print versions",
    "trust": "accept a key",
    "app sandbox": "run a pod without apps",
    "app add": "add an app to it",
    "app start": "start an app",
    "app stop": "stop an app",
    "app rm": "remove an app",
    "app list": "list a pod's apps",
    "app status": "how an app is, or ended",
    "app exec": "run a program in an app",
    "fetch": "put into the store",
    "image list": "list the store",
    "image rm": "remove images",
    "image gc": "remove unused ones",
    "image export": "write to a file",
    "image extract": "copy to a directory",
    "image render": "unpack the files",
    "image verify": "check the content",
    "image cat-manifest": "print a manifest",
}

# Images are completed from the store, pods from all that there are.
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
    ("254", "any failure of ocipod itself; standard error has one line that says what"),
    ("2", "no command"),
    ("130", "interrupted"),
)
_OF_POD = (
    ("0", "all apps have returned 0, or the pod was stopped before one failed"),
    ("N", "what the first app that failed returned; 128 and the number of a signal that ended it"),
    ("254", "the pod could not be made"),
)
_OF_PROGRAM = (
    ("N", "what the program returned"),
    ("128 + N", "signal N ended the program"),
    ("254", "the program could not be run"),
)
# Commands whose exit status is not that of the list above alone.
OWN_EXIT_STATUS: dict[str, tuple[tuple[str, str], ...]] = {
    "run": _OF_POD,
    "run-prepared": _OF_POD,
    "enter": _OF_PROGRAM,
    "app exec": _OF_PROGRAM,
}

STATES = (
    ("embryo", "its directory has been made, and nothing else"),
    ("preparing", "its images are unpacked and its manifest is written"),
    ("aborted prepare", "that was given up; `gc` removes it"),
    ("prepared", "it can be run, with `run-prepared`"),
    ("running", "its apps run, or it waits for apps"),
    ("exited", "it has ended; logs and exit codes are there"),
    ("exited garbage", "it has ended, and `gc` has marked it to be removed"),
    ("exited deleting", "it is being removed"),
    ("garbage", "it never ran, and is to be removed"),
    ("deleting", "it never ran, and is being removed"),
)

IMAGES = (
    ("[docker://]NAME[:TAG|@DIGEST]", "of a registry; without one in NAME, of docker.io"),
    ("oci:DIR[:TAG]", "of an OCI image layout in a directory"),
    ("oci-archive:FILE[:TAG]", "of such a layout in a tar file"),
    ("docker-archive:FILE[:TAG]", "of what `docker save` has written"),
    ("dir:DIR", "a directory with a root file system"),
    ("tar:FILE", "a tar file with a root file system"),
    ("FILE.aci", "an App Container Image"),
    ("sha256:DIGEST", "an image of the store, by its id or seven and more digits of it"),
)

FILES = (
    ("/var/lib/ociruntime", "pods and images; --dir is another place"),
    ("/var/lib/ociruntime/pods", "a directory for each pod, below one for its phase"),
    ("/usr/lib/ociruntime", "settings of the distribution"),
    ("/etc/ociruntime", "settings of the administrator, which win over those"),
    ("/run/ocipod", "what each OCI runtime keeps of containers, in a directory of its name"),
)

# Command -> (what for, command line).
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("A pod with one app", "ocipod run busybox --exec /bin/echo -- hello"),
        ("What there is", "ocipod list"),
        ("Remove what has ended", "ocipod gc --grace-period=0s"),
    ),
    "run": (
        (
            "One app, with other words for its image's program",
            "ocipod run busybox --exec /bin/echo -- hello",
        ),
        (
            "Two apps that share a network, in the background",
            "ocipod run --detach nginx --port=80-tcp:8080 redis --memory=512M",
        ),
        (
            "A directory of the host, that the app can only read",
            """\
ocipod run --volume=pages,kind=host,source=/srv/pages,readOnly=true \\
    nginx --mount=volume=pages,target=/usr/share/nginx/html""",
        ),
        (
            "A shell in an image made of a directory, without a network",
            "ocipod run --net=none --interactive dir:./rootfs --exec /bin/sh",
        ),
    ),
    "prepare": (
        (
            "Now what takes long, the rest when it is wanted",
            "uuid=$(ocipod prepare --quiet busybox --exec /bin/true)",
        ),
    ),
    "run-prepared": (("A pod that is prepared", 'ocipod run-prepared "$uuid"'),),
    "list": (
        ("All pods", "ocipod list"),
        (
            "The UUIDs of those that run",
            "ocipod list --format=json |\n    jq -r '.[] | select(.state == \"running\") | .name'",
        ),
    ),
    "status": (
        ("Until it has ended, at most a minute", "ocipod status --wait=1m 6d52"),
        ("Until its apps run", "ocipod status --wait-ready 6d52"),
    ),
    "logs": (
        ("All there is", "ocipod logs 6d52"),
        ("What one app says from now on", "ocipod logs --app=web --follow --tail=0 6d52"),
    ),
    "stop": (
        ("Ask the apps to end, and wait for it", "ocipod stop --wait 6d52"),
        ("At once", "ocipod stop --force 6d52"),
    ),
    "enter": (("A shell in the only app", "ocipod enter 6d52"),),
    "attach": (("The terminal of an app", "ocipod attach --app=shell 6d52"),),
    "export": (("Its files as they are now", "ocipod export --app=web 6d52 web.tar"),),
    "app sandbox": (("In the background", "uuid=$(ocipod app sandbox --detach)"),),
    "app add": (
        ("From the store", "ocipod app add 6d52 busybox --name=web --exec=/bin/httpd -- -f"),
    ),
    "app start": (("Once more", "ocipod app start --app=web 6d52"),),
    "app stop": (("With half a minute to end", "ocipod app stop --app=web --time=30 6d52"),),
    "app rm": (("With its files", "ocipod app rm --app=web 6d52"),),
    "app list": (("For a program", "ocipod app list --format=json 6d52"),),
    "app status": (
        ("Its exit code", "ocipod app status --app=web --format=json 6d52 | jq .exit_code"),
    ),
    "app exec": (
        ("The processes of the pod", "ocipod app exec --app=web 6d52 ps -ef"),
        ("A shell with a terminal", "ocipod app exec --app=web --tty 6d52 sh"),
    ),
    "image list": (
        ("The largest ones first", "ocipod image list --sort=size --order=desc"),
        ("Their names alone", "ocipod image list --no-legend --fields=name"),
    ),
    "image rm": (("By its name", "ocipod image rm docker.io/library/busybox:latest"),),
    "image gc": (("By a timer", "ocipod image gc --grace-period=168h"),),
    "image export": (
        (
            "To another machine, where `fetch` takes it as oci-archive:busybox.tar",
            "ocipod image export busybox - | ssh web 'cat >busybox.tar'",
        ),
    ),
    "image extract": (("Its blobs, as a layout", "ocipod image extract busybox ./layout"),),
    "image render": (
        ("A bundle's root file system", "ocipod image render --rootfs-only busybox rootfs"),
    ),
    "image verify": (("Is all as it was fetched?", "ocipod image verify busybox"),),
    "image cat-manifest": (
        ("Its environment", "ocipod image cat-manifest --config busybox | jq .config.Env"),
    ),
    "trust": (
        ("A key for the images of one registry", "ocipod trust --prefix=quay.io/web web.asc"),
    ),
    "config": (("The settings in one piece", "ocipod config"),),
    "rm": (("One that has ended", "ocipod rm 6d52"),),
    "gc": (
        ("By a timer", "ocipod gc"),
        ("All that has ended, now", "ocipod gc --grace-period=0s"),
    ),
    "cat-manifest": (("The apps' images", "ocipod cat-manifest 6d52 | jq '.apps[].image'"),),
    "fetch": (
        ("From a registry", "ocipod fetch quay.io/prometheus/busybox:latest"),
        ("From an image layout", "ocipod --insecure-options=image fetch oci:./busybox:latest"),
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
