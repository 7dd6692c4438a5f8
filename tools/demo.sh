#!/bin/sh
# One container's whole life on a bundle made of busybox: tools/demo.sh PATH-OF-OCIRUNTIME
# Prints each command before its output, and fails if anything is left behind.
set -eu

runtime=$1
id=demo-$$
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/ociruntime-demo.XXXXXX")
bundle=$scratch/bundle
root=$scratch/state
as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo

clean_up() {
    status=$?
    trap - EXIT INT TERM HUP
    $as_root "$runtime" --root "$root" delete --force "$id" >/dev/null 2>&1 || :
    $as_root rm -rf --one-file-system "$scratch"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

# ociruntime ARGS: shown by its name, run by its path.
ociruntime() {
    printf '\n$ ociruntime --root %s %s\n' "$root" "$*"
    $as_root "$runtime" --root "$root" "$@"
}

wait_until_stopped() {
    tries=100
    until $as_root "$runtime" --root "$root" state "$id" | grep -q '"stopped"'; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}

# nothing WHAT COMMAND...: the command must print nothing.
nothing() {
    what=$1
    shift
    found=$("$@" 2>/dev/null) || :
    printf '%-28s %s\n' "$what" "${found:-nothing}"
    [ -z "$found" ]
}

printf '# A bundle: a root file system and what "ociruntime spec" writes, without a terminal\n'
show mkdir -p "$bundle/rootfs/bin"
show cp /bin/busybox "$bundle/rootfs/bin/sleep"
ociruntime spec --bundle "$bundle"
show sed -i -e 's/"terminal": true/"terminal": false/' -e 's/"sh"/"sleep", "100"/' \
    "$bundle/config.json"

printf '\n# Its life\n'
printf '\n$ ociruntime --root %s create --bundle %s %s\n' "$root" "$bundle" "$id"
# The container keeps the output that it is created with, so it gets a file.
$as_root "$runtime" --root "$root" create --bundle "$bundle" "$id" \
    </dev/null >"$scratch/output" 2>&1 || {
    cat "$scratch/output" >&2
    exit 1
}
ociruntime state "$id"
ociruntime start "$id"
ociruntime state "$id"
ociruntime kill "$id" KILL
wait_until_stopped
ociruntime state "$id"
ociruntime delete "$id"

printf '\n# What is left\n\n'
left=0
nothing "in the state root" $as_root ls -A "$root" || left=1
nothing "in /proc/mounts" grep -F "$scratch" /proc/mounts || left=1
nothing "in the cgroup trees" find /sys/fs/cgroup -type d -name "*$id*" || left=1
[ "$left" -eq 0 ]
