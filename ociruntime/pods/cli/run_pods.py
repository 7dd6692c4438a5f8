"""Commands that run pods: ``run``, ``prepare``, ``run-prepared``, ``app sandbox``, ``app add``."""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base import json_text
from ociruntime.base.errors import HostError, PodError, UsageError
from ociruntime.base.fault_injection import fault
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import tell, write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import Bar
from ociruntime.pods.bundle.runtime_calls import find_runtime
from ociruntime.pods.cli.context import Context
from ociruntime.pods.cli.options import GLOBAL_OPTIONS
from ociruntime.pods.garbage.clean_up import forget_run
from ociruntime.pods.manifest.app_arguments import (
    PodArguments,
    app_request,
    parse_pod_arguments,
    pod_request,
)
from ociruntime.pods.manifest.app_options import (
    ADD_OPTIONS,
    ALSO_OF_POD,
    APP_OPTIONS,
    PREPARE_OPTIONS,
    PREPARED_OPTIONS,
    RUN_OPTIONS,
    SAVED_OPTIONS,
)
from ociruntime.pods.manifest.build_manifest import make_interactive
from ociruntime.pods.manifest.isolators import check_sysctls
from ociruntime.pods.manifest.ports import check_network
from ociruntime.pods.manifest.request import (
    PodRequest,
    SandboxRequest,
    from_options,
    sandbox_from_document,
)
from ociruntime.pods.monitor.start_monitor import run_monitor, start_monitor
from ociruntime.pods.net import net_option
from ociruntime.pods.net.network_configs import net_directories
from ociruntime.pods.operations.pod_settings import Host, run_settings
from ociruntime.pods.operations.prepare_pod import Request, check, prepare
from ociruntime.pods.operations.sandbox import add_to_pod, make_sandbox, save_uuid, settings_of
from ociruntime.pods.store.manifest_file import (
    read_manifest,
    read_runtime_config,
    write_manifest,
    write_runtime_config,
)
from ociruntime.pods.store.phases import (
    lock_exited,
    open_pod,
    require_prepared,
    to_prepared,
    to_run,
)
from ociruntime.pods.store.pod import PREPARED, STATES, Pod
from ociruntime.pods.store.remove_tree import discard


def host_of(context: Context) -> Host:
    """Return the global options to store with a pod.

    Raises PodError if the OCI runtime is not installed, HostError if the data directory or a
    settings directory is not safe to use.
    """
    return Host(
        context.directory,
        find_runtime(context.runtime),
        context.insecure,
        context.local_config,
        context.user_config,
        context.system_config,
        context.debug,
    )


def prepared(context: Context, options: PodRequest, *, runs: bool) -> Pod:
    """Prepare a pod and return it, locked by this process.

    With ``runs``, the caller will run the pod at once, so the pod's networks are checked, too.
    Raises RuntimeFailure if the pod cannot be prepared.
    """
    request = Request(host_of(context), options, warn, runs)
    kind = check(request).name
    if runs:
        check_networks(context, run_settings(options, "", kind)["net"])
    check_root()
    with Bar() as bar:
        request.progress = bar
        return prepare(request)


def check_networks(context: Context, networks: list[tuple[str, str]]) -> None:
    """Raise NetworkError if one of ``networks``, pairs (name, CNI arguments), is unknown."""
    directories = net_directories(
        context.user_config, context.local_config, context.system_config, context.directory
    )
    net_option.check(networks, directories)


def check_root() -> None:
    """Raise UsageError unless this process runs as root."""
    if os.geteuid():
        raise UsageError("ocipod must be run as root", "use: sudo ocipod ...")


def read_request() -> object:
    """Read the manager's request, a JSON document, from standard input and parse it.

    Raises HostError if it cannot be read, UsageError if it is too large or invalid JSON.
    """
    try:
        with open(0, "rb", closefd=False) as file:
            data = file.read(LARGEST_REQUEST + 1)
    except OSError as error:
        raise HostError("--request: read standard input", error) from None
    if len(data) > LARGEST_REQUEST:
        raise UsageError(f"--request: larger than {LARGEST_REQUEST >> 20} MiB")
    try:
        return json_text.read(data)
    except ValueError:
        raise UsageError("--request: standard input is not valid JSON") from None


def warn(text: str) -> None:
    """Print a warning to standard error at once, because the next operation may take long."""
    tell("ocipod", text)


def parse_run(argv: list[str], program: Arguments) -> PodArguments:
    """Parse the arguments of ``run``; store the global options among them in ``program``.

    Raises UsageError if they are invalid.
    """
    options = (*PREPARE_OPTIONS, *RUN_OPTIONS, *SAVED_OPTIONS)
    return parse_pod_arguments(argv, options, APP_OPTIONS, GLOBAL_OPTIONS, program=program)


def run_run(context: Context, parsed: PodArguments) -> int:
    """Prepare and run a pod; return its exit code.

    With --detach, return 0 once the pod is ready.
    """
    request = pod_request(parsed)
    pod = prepared(context, request, runs=True)
    try:
        save_uuid(request.uuid_file_save, pod)
    except HostError:
        discard(pod)
        raise
    to_run(pod)
    if not request.detach:
        return run_monitor(pod, warn)
    return _run_in_background(pod)


def parse_prepare(argv: list[str], program: Arguments) -> PodArguments:
    """Parse the arguments of ``prepare``; store the global options among them in ``program``.

    Raises UsageError if they are invalid.
    """
    options = (*PREPARE_OPTIONS, *PREPARED_OPTIONS)
    return parse_pod_arguments(argv, options, APP_OPTIONS, GLOBAL_OPTIONS, program=program)


def run_prepare(context: Context, parsed: PodArguments) -> int:
    """Prepare a pod and print its UUID."""
    with prepared(context, pod_request(parsed), runs=False) as pod:
        to_prepared(pod)
        return write(f"{pod.uuid}\n")


def run_run_prepared(context: Context, arguments: Arguments) -> int:
    """Run a prepared pod, or run a sandbox again; return its exit code.

    With --detach, return 0 once the pod is ready.
    """
    check_root()
    request = from_options(PodRequest, arguments)
    pod = open_pod(context.directory, arguments.positional[0])
    manifest, config = read_manifest(pod), read_runtime_config(pod)
    if config.get("mutable"):
        return _run_sandbox(context, pod, config, request)
    require_prepared(pod)
    request.private_users = bool(config["private_users"])
    settings = run_settings(request, pod.uuid, config["flavor"])
    check_network(manifest, [name for name, _ in settings["net"]])
    check_sysctls(manifest, settings)
    check_networks(context, settings["net"])
    if config["flavor"] == "kvm":
        from ociruntime.pods.kvm.machine_settings import check_run

        check_run(request, context.local_config, str(config.get("kvm_kernel") or ""))
    if settings["interactive"]:
        make_interactive(manifest)
    if settings["interactive"] and request.detach:
        raise UsageError("--interactive cannot be combined with --detach")
    to_run(pod)
    if settings["interactive"]:
        write_manifest(pod, manifest)
    write_runtime_config(pod, config | settings | host_of(context).stored())
    if not request.detach:
        return run_monitor(pod, warn)
    return _run_in_background(pod)


def _run_sandbox(context: Context, pod: Pod, config: dict[str, Any], request: PodRequest) -> int:
    """Run ``pod``, a sandbox that is prepared or has exited; return the command's exit status.

    Raises UsageError for options that can only be given when a sandbox is created.
    """
    if request != PodRequest(detach=request.detach):
        raise UsageError(
            f"run pod {pod.uuid}: a sandbox runs with the options that it was created with",
            "omit all options but --detach",
        )
    if pod.refresh() == STATES[PREPARED][0]:
        to_run(pod)
    else:
        lock_exited(pod)
        fault("runagain.after-lock")
        for problem in forget_run(pod):
            warn(problem)
    write_runtime_config(pod, config | host_of(context).stored())
    return _become_sandbox(pod, detach=request.detach)


def _become_sandbox(pod: Pod, *, detach: bool) -> int:
    """Run the pod's monitor in this process; with ``detach``, start it in the background.

    Prints the pod's UUID once the pod is ready.  Returns the command's exit status.
    """
    uuid = pod.uuid
    if not detach:
        return run_monitor(pod, warn, lambda: write(f"{uuid}\n"))
    return _run_in_background(pod)


def _run_in_background(pod: Pod) -> int:
    """Start the pod's monitor in the background, and print the pod's UUID once the pod is ready.

    Returns the command's exit status.
    """
    uuid = pod.uuid
    start_monitor(pod, warn)
    try:
        return write(f"{uuid}\n")
    except HostError as error:
        hint = f"pod {uuid} is running; to stop it: ocipod stop {uuid}"
        raise PodError(error.message, hint) from None


def run_app_sandbox(context: Context, arguments: Arguments) -> int:
    """Create and run a sandbox, and print its UUID.

    With ``--prepare``, the sandbox is not run.  Without ``--detach``, this process is the sandbox's
    monitor, and returns when the sandbox exits.
    """
    request = from_options(SandboxRequest, arguments)
    if arguments.flag("request"):
        if request != SandboxRequest():
            raise UsageError("--request and other options are mutually exclusive")
        request = sandbox_from_document(read_request())
    host = host_of(context)
    check_networks(context, settings_of(host, request, "")["net"])
    check_root()
    pod = make_sandbox(host, request, warn)
    if request.prepare:
        with pod:
            to_prepared(pod)
            return write(f"{pod.uuid}\n")
    to_run(pod)
    return _become_sandbox(pod, detach=request.detach)


# An alias of --name, because the other commands on apps have --app.
_APP = Option("app", value="APP", short="a")


def parse_app_add(argv: list[str], program: Arguments) -> PodArguments:
    """Parse the arguments of ``app add``; store the global options among them in ``program``.

    Raises UsageError if they are invalid.
    """
    options = (*APP_OPTIONS, *ADD_OPTIONS, _APP)
    parsed = parse_pod_arguments(
        argv, (), options, GLOBAL_OPTIONS, leading=1, single=True, program=program
    )
    for app in parsed.apps:
        texts = app.options.texts
        if (name := texts.pop("app", "")) and texts.setdefault("name", name) != name:
            raise UsageError("app add: --app and --name give different names", "omit --app")
    return parsed


def run_app_add(context: Context, parsed: PodArguments) -> int:
    """Add an app to a sandbox, without starting it.

    Raises UsageError if the arguments are invalid, another RuntimeFailure if the app cannot be
    added.
    """
    if not parsed.positional or len(parsed.apps) != 1:
        raise UsageError(
            "app add: a pod and one image are required", "usage: ocipod app add UUID IMAGE"
        )
    app = app_request(parsed.apps[0])
    check_root()
    with open_pod(context.directory, parsed.positional[0]) as pod:
        add_to_pod(pod, Request(host_of(context), PodRequest(apps=[app]), warn))
    return 0


LARGEST_REQUEST = 16 << 20  # bytes; a request to the daemon's API is 1 MiB at most
# For the daemon: read a request in JSON (pods/manifest/request.py) from standard input.
REQUEST = Option("request")
POD_STATUS = (
    ("0", "all apps returned 0, or the pod was stopped before one failed"),
    ("N", "exit status of the first app that failed; 128 + N if signal N killed it"),
    ("254", "the pod could not be created"),
)
# Options of both pods and apps are shown once in the help, among the app options.
POD_OPTIONS = tuple(option for option in PREPARE_OPTIONS if option.name not in ALSO_OF_POD)
_OF_SANDBOX = (
    *("sysctl", "no-overlay", "private-users", "annotation", "user-annotation", "user-label"),
)
SANDBOX_OPTIONS = (
    Option(
        "port",
        "publish a port of the pod to the host",
        "NAME:PROTO:PORT:IP:PORT",
        kind="list",
        details=(
            "NAME is a name that apps may refer to, PROTO is tcp or udp, the first PORT is "
            "in the pod, IP and the last PORT are on the host."
        ),
    ),
    Option(
        "on-failure",
        "action when an app fails (default: keep)",
        "keep|halt",
        kind="choice",
        details="keep leaves the pod running, halt stops it as with `run`.",
    ),
    Option(
        "on-exit",
        "action when the last app exits (default: keep)",
        "keep|halt",
        kind="choice",
        details="halt stops the pod when none of its apps is running any more.",
    ),
    Option(
        "memory",
        "memory limit of all apps together",
        "SIZE",
        details=(
            "SIZE is a number with an optional unit, for example 512K, 50M or 1.5GiB; units "
            "are powers of 1024. The minimum is 4096 bytes."
        ),
    ),
    Option(
        "cpu",
        "CPU limit of all apps together",
        "CPUS",
        details="A number of CPUs, or thousandths of one with the suffix m.",
    ),
    Option(
        "cpu-shares",
        "CPU shares of the pod (relative weight)",
        "N",
        details="2 to 262144; the default is 1024.",
    ),
    Option("pids", "maximum number of processes in the pod", "N"),
    Option("prepare", "prepare the pod only, for `run-prepared`"),
    Option("keep", "exclude the pod from gc while it does not run"),
    *(option for option in PREPARE_OPTIONS if option.name in _OF_SANDBOX),
    Option("flavor", value="NAME"),
    REQUEST,
)
# ``--interactive`` is accepted only to be refused with an explanation.
SANDBOX_RUN_OPTIONS = (
    *(option for option in RUN_OPTIONS if option.name != "interactive"),
    Option("interactive"),
)
_DETAILS = (
    "Options listed from --name on apply to the IMAGE before them. Arguments after --\n"
    "replace the arguments of the image; --- ends them, before the next IMAGE."
)
_SYNOPSIS = "[OPTION]... IMAGE [APP-OPTION]... [-- ARG... [--- IMAGE]]"
COMMANDS = (
    Command(
        f"run {_SYNOPSIS}",
        "run apps from images as a pod",
        run_run,
        parse=parse_run,
        options=(*POD_OPTIONS, *RUN_OPTIONS, *SAVED_OPTIONS, *APP_OPTIONS),
        details=_DETAILS,
        examples=(
            ("Run one app with another command", "ocipod run busybox --exec /bin/echo -- hello"),
            (
                "Run two apps that share a network, in the background",
                "ocipod run --detach nginx --port=80-tcp:8080 redis --memory=512M",
            ),
            (
                "Mount a directory of the host read-only",
                (
                    "ocipod run --volume=pages,kind=host,source=/srv/pages,readOnly=true \\\n"
                    "    nginx --mount=volume=pages,target=/usr/share/nginx/html"
                ),
            ),
            (
                "Open a shell in a directory tree, without a network",
                "ocipod run --net=none --interactive dir:./rootfs --exec /bin/sh",
            ),
        ),
        exit_status=POD_STATUS,
    ),
    Command(
        f"prepare {_SYNOPSIS}",
        "prepare a pod to run later and print its UUID",
        run_prepare,
        parse=parse_prepare,
        options=(*POD_OPTIONS, *PREPARED_OPTIONS, *APP_OPTIONS),
        details=_DETAILS,
        examples=(
            (
                "Prepare a pod now, to run it later",
                "uuid=$(ocipod prepare --quiet busybox --exec /bin/true)",
            ),
        ),
    ),
    Command(
        "run-prepared UUID",
        "run a prepared pod",
        run_run_prepared,
        options=RUN_OPTIONS,
        details="Also runs an exited pod of `app sandbox` again.",
        examples=(("Run a prepared pod", 'ocipod run-prepared "$uuid"'),),
        exit_status=POD_STATUS,
    ),
    Command(
        "app sandbox",
        "run an empty pod to add apps to",
        run_app_sandbox,
        options=(*SANDBOX_OPTIONS, *SANDBOX_RUN_OPTIONS, *SAVED_OPTIONS),
        details="Prints the UUID when the pod is ready. The pod runs until it is stopped.",
        examples=(("Run an empty pod in the background", "uuid=$(ocipod app sandbox --detach)"),),
    ),
    Command(
        "app add UUID IMAGE [OPTION]... [-- ARGUMENT...]",
        "add an app to a sandbox, from an image in the store",
        run_app_add,
        parse=parse_app_add,
        options=(*APP_OPTIONS, *ADD_OPTIONS),
        details="Start the app with `app start`.",
        examples=(
            (
                "Add an app from the store",
                "ocipod app add 6d52 busybox --name=web --exec=/bin/httpd -- -f",
            ),
        ),
    ),
)
