#!/bin/sh
# One container's whole life on a bundle made of busybox: tools/demo.sh PATH-OF-OCIRUNTIME
# Prints each command before its output, and fails if anything is left behind.
set -eu

runtime=$1
id=demo-$$
bundle=$(mktemp -d "${TMPDIR:-/var/tmp}/ociruntime-demo.XXXXXX")
root=/run/ociruntime
as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
# shellcheck source=/dev/null  # checked by itself
. "$(dirname "$0")/demo_shown.sh"

clean_up() {
    status=$?
    trap - EXIT INT TERM HUP
    $as_root "$runtime" delete --force "$id" >/dev/null 2>&1 || :
    $as_root rm -rf --one-file-system "$bundle"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# ociruntime ARGS: shown by its name, run by its path.
ociruntime() {
    prompt ociruntime "$@"
    $as_root "$runtime" "$@"
}

create() {
    prompt ociruntime create "$id"
    # The container keeps the output that it is created with, so it gets a file.
    $as_root "$runtime" create "$id" </dev/null >output 2>&1 || {
        cat output >&2
        exit 1
    }
}

wait_until_stopped() {
    tries=100
    until $as_root "$runtime" state "$id" | grep -q '"stopped"'; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}

printf '# A bundle: a root file system, and what "ociruntime spec" writes, without a terminal.\n'
show cd "$bundle"
show mkdir -p rootfs/bin
show cp /bin/busybox rootfs/bin/sleep
ociruntime spec
show sed -i 's/"terminal": true/"terminal": false/; s/"sh"/"sleep", "100"/' config.json

printf '\n# Its life.\n'
create
ociruntime state "$id"
ociruntime start "$id"
ociruntime state "$id"
ociruntime kill "$id" KILL
wait_until_stopped
ociruntime state "$id"
ociruntime delete "$id"

printf '\n# What is left of it.\n\n'
left=0
nothing "in the state root" find "$root" -name "*$id*" || left=1
nothing "in /proc/mounts" grep -F -e "$id" -e "$bundle" /proc/mounts || left=1
nothing "in the cgroup trees" find /sys/fs/cgroup -type d -name "*$id*" || left=1
[ "$left" -eq 0 ]
