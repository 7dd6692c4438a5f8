#!/bin/sh
# A CNI plugin for the tests: a pod gets an address on a device of its own that leads nowhere.
#
# The host's network stays as it is.  Under the name "loopback" it only sets up the pod's lo, which
# containerd asks for on its own.
set -eu

case ${0##*/}-$CNI_COMMAND in
*-VERSION)
    echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.3.0", "0.3.1", "0.4.0"]}'
    ;;
loopback-ADD)
    nsenter --net="$CNI_NETNS" ip link set lo up
    echo '{"cniVersion": "0.3.1", "interfaces": [{"name": "lo", "sandbox": "'"$CNI_NETNS"'"}],
"ips": [{"version": "4", "address": "127.0.0.1/8", "interface": 0}]}'
    ;;
*-ADD)
    nsenter --net="$CNI_NETNS" sh -c 'ip link add eth0 type veth peer name eth0-peer &&
        ip address add 192.0.2.2/24 dev eth0 && ip link set eth0-peer up && ip link set eth0 up'
    echo '{"cniVersion": "0.4.0", "interfaces": [{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}],
"ips": [{"version": "4", "address": "192.0.2.2/24", "interface": 0}]}'
    ;;
esac
