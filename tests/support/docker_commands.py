"""docker's most used commands and their support in ocictl: the table of docs/docker.md.

``OPTIONS`` are the options of docker's client, version 28.2, without ``--help``; ``NOTES`` describe
differences. ocictl's options are taken from its own definitions, so the page cannot promise more.
``SAME`` are command lines that both must answer alike.
"""

from __future__ import annotations

from ociruntime.manager.client.command_table import PROGRAM

VERSION = "28.2"

# Command -> docker's options.
OPTIONS: dict[str, str] = {
    "run": (
        "add-host annotation attach blkio-weight blkio-weight-device cap-add cap-drop "
        "cgroup-parent cgroupns cidfile cpu-count cpu-percent cpu-period cpu-quota "
        "cpu-rt-period cpu-rt-runtime cpu-shares cpus cpuset-cpus cpuset-mems detach "
        "detach-keys device device-cgroup-rule device-read-bps device-read-iops "
        "device-write-bps device-write-iops disable-content-trust dns dns-option "
        "dns-search domainname entrypoint env env-file expose gpus group-add health-cmd "
        "health-interval health-retries health-start-interval health-start-period "
        "health-timeout hostname init interactive io-maxbandwidth io-maxiops ip ip6 ipc "
        "isolation kernel-memory label label-file link link-local-ip log-driver log-opt "
        "mac-address memory memory-reservation memory-swap memory-swappiness mount name "
        "network network-alias no-healthcheck oom-kill-disable oom-score-adj pid "
        "pids-limit platform privileged publish publish-all pull quiet read-only restart "
        "rm runtime security-opt shm-size sig-proxy stop-signal stop-timeout storage-opt "
        "sysctl tmpfs tty ulimit use-api-socket user userns uts volume volume-driver "
        "volumes-from workdir"
    ),
    "create": (
        "add-host annotation attach blkio-weight blkio-weight-device cap-add cap-drop "
        "cgroup-parent cgroupns cidfile cpu-count cpu-percent cpu-period cpu-quota "
        "cpu-rt-period cpu-rt-runtime cpu-shares cpus cpuset-cpus cpuset-mems device "
        "device-cgroup-rule device-read-bps device-read-iops device-write-bps "
        "device-write-iops disable-content-trust dns dns-option dns-search domainname "
        "entrypoint env env-file expose gpus group-add health-cmd health-interval "
        "health-retries health-start-interval health-start-period health-timeout hostname "
        "init interactive io-maxbandwidth io-maxiops ip ip6 ipc isolation kernel-memory "
        "label label-file link link-local-ip log-driver log-opt mac-address memory "
        "memory-reservation memory-swap memory-swappiness mount name network "
        "network-alias no-healthcheck oom-kill-disable oom-score-adj pid pids-limit "
        "platform privileged publish publish-all pull quiet read-only restart rm runtime "
        "security-opt shm-size stop-signal stop-timeout storage-opt sysctl tmpfs tty "
        "ulimit use-api-socket user userns uts volume volume-driver volumes-from workdir"
    ),
    "start": "attach checkpoint checkpoint-dir detach-keys interactive",
    "stop": "signal timeout",
    "restart": "signal timeout",
    "kill": "signal",
    "pause": "",
    "unpause": "",
    "wait": "",
    "rename": "",
    "rm": "force link volumes",
    "update": (
        "blkio-weight cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares cpus "
        "cpuset-cpus cpuset-mems memory memory-reservation memory-swap pids-limit restart"
    ),
    "ps": "all filter format last latest no-trunc quiet size",
    "inspect": "format size type",
    "logs": "details follow since tail timestamps until",
    "events": "filter format since until",
    "stats": "all format no-stream no-trunc",
    "top": "",
    "port": "",
    "exec": "detach detach-keys env env-file interactive privileged tty user workdir",
    "attach": "detach-keys no-stdin sig-proxy",
    "cp": "archive follow-link quiet",
    "export": "output",
    "import": "change message platform",
    "commit": "author change message pause",
    "diff": "",
    "images": "all digests filter format no-trunc quiet tree",
    "pull": "all-tags disable-content-trust platform quiet",
    "push": "all-tags disable-content-trust platform quiet",
    "rmi": "force no-prune platform",
    "tag": "",
    "history": "format human no-trunc platform quiet",
    "save": "output platform",
    "load": "input platform quiet",
    "build": (
        "add-host build-arg cache-from cgroup-parent compress cpu-period cpu-quota "
        "cpu-shares cpuset-cpus cpuset-mems disable-content-trust file force-rm iidfile "
        "isolation label memory memory-swap network no-cache platform pull quiet rm "
        "security-opt shm-size squash tag target ulimit"
    ),
    "login": "password password-stdin username",
    "logout": "",
    "search": "filter format limit no-trunc",
    "info": "format",
    "version": "format",
    "volume create": (
        "availability driver group label limit-bytes opt required-bytes scope secret "
        "sharing topology-preferred topology-required type"
    ),
    "volume ls": "cluster filter format quiet",
    "volume inspect": "format",
    "volume rm": "force",
    "volume prune": "all filter force",
    "network create": (
        "attachable aux-address config-from config-only driver gateway ingress internal "
        "ip-range ipam-driver ipam-opt ipv4 ipv6 label opt scope subnet"
    ),
    "network ls": "filter format no-trunc quiet",
    "network inspect": "format verbose",
    "network rm": "force",
    "network connect": "alias driver-opt gw-priority ip ip6 link link-local-ip",
    "network disconnect": "force",
    "network prune": "filter force",
    "image ls": "all digests filter format no-trunc quiet tree",
    "image inspect": "format platform",
    "image rm": "force no-prune platform",
    "image prune": "all filter force",
    "container prune": "filter force",
    "container ls": "all filter format last latest no-trunc quiet size",
    "system df": "format verbose",
    "system prune": "all filter force volumes",
}

# Command of docker -> ocictl's, where the name differs.
RENAMED = {"container prune": "prune", "container ls": "ps"}

# What differs although the options are the same.
NOTES: dict[str, str] = {
    "run": "as `create`; `-t` fails unless standard input is a terminal, as in `docker run -it`",
    "create": "an image's HEALTHCHECK is not run (a warning says so)",
    "start": "starting a running container succeeds, as in docker",
    "update": "a limit can be replaced, but not removed",
    "ps": (
        "`--format json` prints one JSON list of the API's records; `{{json .}}` prints one object "
        "a line, as docker does"
    ),
    "inspect": "templates may also use the API's field names; an unknown field is an error",
    "events": (
        "container events only; lines have a different format; the filters are `event`, "
        "`container`, `image`, `label` and `type`"
    ),
    "stats": "prints once if standard output is not a terminal",
    "top": "fixed columns; `ps` options are refused",
    "exec": (
        "exits with 125 if there is no such container (docker with 1), 127 if there is no such "
        "program, and 126 if the user or the directory does not exist"
    ),
    "cp": "files from a container belong to the caller, unless `--archive` is given",
    "images": (
        "the filters are `reference` and `dangling`; names are shown in full "
        "(docker.io/library/busybox); SIZE is the size in the store"
    ),
    "pull": "progress is on standard error; the ID on standard output is that of the manifest",
    "rmi": "prints the given name, not each layer",
    "save": "one image at a time, as an OCI layout (which `docker load` reads)",
    "history": "sizes are those of the stored layers; only the newest step has an ID",
    "login": "`ocid` keeps the credentials for all clients",
    "info": "shows different fields",
    "version": "prints a different format",
    "logout": "fails if there are no credentials to remove",
    "diff": "also shows mount points that the image lacks, such as /etc/hosts",
    "network create": "prints the name: networks have no IDs",
    "network ls": "shows subnets and containers, not IDs: networks have none",
    "network inspect": "lists containers by name, not by ID",
    "network connect": "refused: `run --network A,B` joins both networks",
    "network disconnect": "refused: a container leaves its networks when it stops",
    "system df": "sizes on disk; there is no build cache",
    "volume ls": "shows the containers of each volume, not a driver",
    "container prune": "does not ask for confirmation; prints the freed space on standard error",
    "container ls": "`ocictl container list` has fixed columns for scripts",
}

# Command -> lines that both programs must answer with the same status and the same output, each
# command's row of the table.  IMAGE is an image with a shell, MAIN a program that ends at SIGTERM,
# HOST a registry with an image.  Before the line: ``?`` if it fails, ``~`` if its status may
# differ, ``-`` if its output may.
SAME: dict[str, tuple[str, ...]] = {
    "create": ("create --name one IMAGE sh -c 'echo said; exit 3'", "? create --name one IMAGE"),
    "start": ("? start --attach one", "? start nope"),
    "wait": ("wait one", "? wait nope"),
    "ps": (
        "ps --all --format {{.Names}}",
        "ps --quiet",
        "ps -a --filter name=one --format '{{.Names}} {{.State}}'",
        "ps -a --filter exited=3 --format {{.Names}}",
        "ps -a --filter status=exited --format {{.Names}}",
        "ps -a --format 'table {{.Names}}\\t{{.State}}'",
        "ps -l --format {{.Names}}",
    ),
    "container ls": ("container ls --all --format {{.Names}}", "container ls -q"),
    "inspect": (
        "inspect -f '{{.State.Status}} {{.State.ExitCode}} {{.State.Running}}' one",
        "inspect -f '{{.Name}} {{.Path}} {{json .Args}}' one",
        "inspect -f '{{.Config.Cmd}} {{.Config.Entrypoint}} {{.Config.Tty}}' one",
        "inspect -f '{{.HostConfig.RestartPolicy.Name}} {{.HostConfig.Memory}}' one",
        "inspect -f '{{range .Mounts}}{{.Source}}{{else}}none{{end}}' one",
        "? inspect nope",
    ),
    "rename": ("rename one two", "inspect -f {{.Name}} two", "? rename nope three"),
    "rm": ("rm two", "? rm two", "ps --all --quiet"),
    "run": (
        "run --rm IMAGE echo hello",
        "? run --rm IMAGE sh -c 'exit 4'",
        "run --rm -e A=1 -w /tmp IMAGE sh -c 'echo $A; pwd'",
        "run --rm -u 7:8 IMAGE id -u",
        "run --rm --hostname h1 IMAGE hostname",
        "? run --rm IMAGE /no/such/program",
        "? run --rm IMAGE /etc/plain",
        "? run --rm --pull never localhost/none:1 true",
        "run --rm --entrypoint echo IMAGE a b",
        "run --rm --entrypoint= IMAGE echo a",
        "run --rm -a stdout IMAGE sh -c 'echo out; echo error >&2'",
        "run --rm -v data:/data IMAGE sh -c 'echo kept >/data/file'",
        "run --rm -v data:/data:ro IMAGE cat /data/file",
        "run -d --name up -m 64m --label tier=web IMAGE MAIN",
        "ps --filter label=tier=web --format '{{.Names}} {{.Label \"tier\"}}'",
        "inspect -f '{{index .Config.Labels \"tier\"}} {{.HostConfig.Memory}}' up",
    ),
    "attach": (
        "run -d --name job IMAGE sh -c 'sleep 4; exit 6'",
        "? attach job",
        "? attach job",
        "? attach nope",
        "rm job",
    ),
    "exec": (
        "exec up echo inside",
        "? exec up sh -c 'exit 5'",
        "exec -e B=2 -w / up sh -c 'echo $B; pwd'",
        "exec -u 7:8 up id -u",
        "~? exec nope true",
        "~?- exec up /no/such/program",
    ),
    "pause": ("pause up", "ps --format {{.State}}", "? pause up"),
    "unpause": ("unpause up", "? unpause up"),
    "update": (
        "update --memory 80m --memory-swap 90m --restart no up",
        "inspect -f {{.HostConfig.Memory}} up",
    ),
    "cp": ("exec up sh -c 'echo text >/file'", "cp up:/file WORK/file", "? cp up:/nope WORK/nope"),
    "diff": ("- diff up", "? diff nope"),
    "export": ("export --output WORK/up.tar up", "? export nope"),
    "logs": ("logs up", "logs --tail 1 up", "logs --since 1h --until 0s up", "? logs nope"),
    "port": ("port up", "? port up 80"),
    "stats": ("stats --no-stream --format {{.Name}} up", "? stats --no-stream nope"),
    "top": ("- top up", "? top nope"),
    "events": (
        "events --since 1h --until 0s -f label=tier=web -f event=start --format {{.Type}}",
        "events --since 1h --until 0s -f event=start -f container=job --format {{.Action}}",
        "events --since 1h --until 0s -f label=tier=web -f event=pause --format {{.Action}}",
    ),
    "restart": ("restart -t 5 up", "? restart nope"),
    "stop": ("stop up", "inspect -f {{.State.Status}} up", "stop up", "? stop nope"),
    "kill": ("? kill up", "start up", "kill -s KILL up", "wait up", "? kill -s NONE up"),
    "volume ls": ("volume ls --quiet", "volume ls --format '{{.Name}} {{.Driver}}'"),
    "volume create": ("volume create v1", "volume create --driver local v1"),
    "volume inspect": (
        "volume inspect -f '{{.Name}} {{.Driver}} {{.Scope}}' v1",
        "? volume inspect nope",
    ),
    "volume rm": ("volume rm v1", "? volume rm v1"),
    "volume prune": ("- volume prune --force",),
    "network create": ("- network create --subnet 10.89.77.0/24 n1", "? network create n1"),
    "network ls": ("network ls --filter name=n1 --format '{{.Name}} {{.Driver}}'",),
    "network inspect": (
        "network inspect -f '{{.Name}} {{.Driver}} {{.Internal}}' n1",
        "network inspect -f '{{range .IPAM.Config}}{{.Subnet}}{{end}}' n1",
        "network inspect -f '{{len .Containers}} {{json .Labels}}' n1",
        "? network inspect nope",
    ),
    "network connect": ("? network connect n1 nope",),
    "network disconnect": ("? network disconnect n1 nope",),
    "network rm": ("network rm n1", "? network rm n1"),
    "network prune": ("- network create n2", "- network prune --force", "? network inspect n2"),
    "pull": ("- pull HOST/web:v1", "run --rm HOST/web:v1 /bin/echo pulled", "?- pull HOST/nope"),
    "images": (
        "images --format '{{.Repository}}:{{.Tag}}' localhost/box",
        "images --format {{.Tag}} HOST/w*",
        "images --quiet --filter dangling=true",
        "images --quiet --filter reference=localhost/none",
    ),
    "image ls": ("image ls --format {{.Repository}} IMAGE", "image ls --quiet localhost/none"),
    "image inspect": (
        "image inspect -f '{{json .RepoTags}} {{json .Config.Cmd}} {{.Architecture}}' IMAGE",
        "? image inspect localhost/none",
    ),
    "history": ("history --format {{.Comment}} HOST/web:v1", "? history localhost/none"),
    "tag": ("tag IMAGE localhost/other:1", "? tag localhost/none localhost/other:1"),
    "rmi": ("- rmi localhost/other:1", "? rmi localhost/other:1"),
    "image rm": ("tag IMAGE localhost/other:2", "- image rm localhost/other:2"),
    "save": ("save --output WORK/saved.tar IMAGE", "? save localhost/none"),
    "load": ("load --input WORK/saved.tar", "? load --input WORK/nope.tar"),
    "login": ("? login --username me --password secret localhost:1",),
    "logout": ("~- logout localhost:1",),
    "info": ("info --format {{.NCPU}}", "info --format {{.Containers}}"),
    "version": ("- version --format {{.Server.Version}}",),
    "system df": ("- system df", "- system df --format {{.Type}}"),
    "container prune": ("- container prune --force", "ps --all --quiet"),
    "image prune": ("- image prune --force", "images --format {{.Tag}} IMAGE"),
    "system prune": ("- system prune --force",),
}


def ours(command: str) -> str:
    """Return ocictl's name of a command; "" if it has none."""
    name = RENAMED.get(command, command)
    return name if name in PROGRAM.names else ""


def known(command: str) -> tuple[list[str], list[str]]:
    """Return docker's options of a command that ocictl has, and those that it lacks."""
    name = ours(command)
    kinds = {option.name: option.kind for option in PROGRAM.command(name).options} if name else {}
    options = OPTIONS[command].split()
    here = [option for option in options if kinds.get(option, "refused") != "refused"]
    return here, [option for option in options if option not in here]


def table() -> str:
    """Return the table of the page."""
    lines = ["| docker | options that work here | refused | differs |", "|---|---|---|---|"]
    for command in OPTIONS:
        here, lacking = known(command)
        if not ours(command):
            lines.append(f"| `{command}` | | all | not available: {PROGRAM.absent[command]} |")
            continue
        name = "" if ours(command) == command else f" (`ocictl {ours(command)}`)"
        note = NOTES.get(command, "")
        lines.append(f"| `{command}`{name} | {_words(here)} | {_words(lacking)} | {note} |")
    return "\n".join(lines) + "\n"


def _words(options: list[str]) -> str:
    return f"`{' '.join(f'--{option}' for option in options)}`" if options else ""
