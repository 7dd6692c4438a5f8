#!/bin/sh
# A pod's whole life, with two apps from an image made of busybox: tools/demo_pods.sh PROGRAMS
# PROGRAMS is the directory of ociruntime and ocipod.  Prints each command before its output, and
# fails if anything is left behind.
set -eu

programs=$1
place=$(mktemp -d "${TMPDIR:-/var/tmp}/ocipod-demo.XXXXXX")
as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
# shellcheck source=/dev/null  # checked by itself
. "$(dirname "$0")/demo_shown.sh"
uuid=

clean_up() {
    status=$?
    trap - EXIT INT TERM HUP
    if [ -n "$uuid" ]; then
        quietly stop --force "$uuid" && quietly status --wait=10s "$uuid"
        quietly rm "$uuid"
    fi
    $as_root rm -rf --one-file-system "$place"
    exit "$status"
}

# run_ocipod ARGS: with a directory of its own; what it calls is beside it.
run_ocipod() {
    $as_root env PATH="$programs:$PATH" ocipod --dir="$place/data" --insecure-options=image "$@"
}

quietly() {
    run_ocipod "$@" >/dev/null 2>&1 || :
}

ocipod() {
    prompt ocipod "$@"
    run_ocipod "$@"
}

# until_it_says APP TEXT: an app needs a moment to begin.
until_it_says() {
    tries=100
    until run_ocipod logs --app="$1" "$uuid" | grep -q "$2"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

printf '# An image: a directory with a root file system is one. It is not signed.\n'
show cd "$place"
show mkdir -p rootfs/bin
show cp /bin/busybox rootfs/bin/sh
for name in hostname ps sleep; do
    show ln -s sh "rootfs/bin/$name"
done
prompt alias "ocipod=ocipod --dir=$place/data --insecure-options=image"

printf '\n# A pod of two apps, which runs on when the command has ended.\n'
# shellcheck disable=SC2016  # for the shells of the apps
ocipod run --detach --net=none --hostname=pair --uuid-file-save=uuid \
    dir:rootfs --name=left --exec=/bin/sh -- -c 'echo "left on $(hostname)"; exec sleep 100' --- \
    dir:rootfs --name=right --exec=/bin/sh -- -c 'echo "right on $(hostname)"; exec sleep 100'
uuid=$(cat uuid)
until_it_says left 'left on'
until_it_says right 'right on'
ocipod list
ocipod logs "$uuid"
ocipod app exec --app=left "$uuid" /bin/ps -o pid,args

printf '\n# Its end.\n'
ocipod stop "$uuid"
ocipod status --wait=10s "$uuid"
ocipod rm "$uuid"

printf '\n# What is left of it.\n\n'
left=0
nothing "in the directory" find "$place/data/pods" -name "*$uuid*" || left=1
nothing "in the state root" find /run/ocipod -name "*$uuid*" || left=1
nothing "in /proc/mounts" grep -F -e "$uuid" -e "$place" /proc/mounts || left=1
nothing "in the cgroup trees" find /sys/fs/cgroup -type d -name "*$uuid*" || left=1
uuid=
[ "$left" -eq 0 ]
