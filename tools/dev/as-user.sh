#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: as-user.sh [-b FOLDER=WHERE]… HOME CMD…      (as root)
# Runs CMD as an ordinary user who exists only for it: with a name, the home folder HOME (made if need be, and given to that user), a
# runtime folder, a system bus that knows that user, and FUSE. All but HOME ends with CMD.
#   -b   FOLDER is seen at WHERE, an empty folder that everybody can reach: what lies below root's home is closed to others
# AQ_AS_USER=pc: this mount namespace is the caller's own and has a system bus; no other of either is made.

set -euo pipefail

name=aquifer-user id=4711
if [ -z "${AQ_AS_USER:-}" ]; then
    exec unshare --mount --propagation private env AQ_AS_USER=own bash "$0" "$@"
fi
binds=()
while getopts b: o; do
    case $o in
        b) binds+=("$OPTARG") ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
home=$1
shift
for b in ${binds[@]+"${binds[@]}"}; do
    mkdir -p -- "${b#*=}"
    mount --bind "${b%%=*}" "${b#*=}"
done
tmp=$(mktemp -d "${TMPDIR:-/tmp}/aq-user-XXXXXX")
bus=
trap '[ -z "$bus" ] || kill "$bus" 2>/dev/null; umount -l /run/user "$tmp" 2>/dev/null; rm -rf -- "$tmp"' EXIT
mount -t tmpfs -o mode=755 tmpfs "$tmp"
for f in passwd group; do
    grep -v -E "^($name|[^:]*:[^:]*:$id):?" "/etc/$f" >"$tmp/$f" || true
done
printf '%s:x:%d:%d::%s:/bin/sh\n' "$name" "$id" "$id" "$home" >>"$tmp/passwd"
printf '%s:x:%d:\n' "$name" "$id" >>"$tmp/group"
mount --bind "$tmp/passwd" /etc/passwd
mount --bind "$tmp/group" /etc/group
# Its node is everybody's on a desktop, and often root's alone in a container.
if [ -c /dev/fuse ] && mknod -m 666 "$tmp/fuse" c 10 229 2>/dev/null; then mount --bind "$tmp/fuse" /dev/fuse; fi
[ -e /etc/mtab ] || ln -s ../proc/self/mounts /etc/mtab # fusermount does not end a mount that it cannot look up
# The runtime folder where a desktop has it, and nobody else's beside it.
mkdir -p -- "$home" /run/user
mount -t tmpfs -o mode=755 tmpfs /run/user
mkdir -- "/run/user/$id"
chmod 700 "$home" "/run/user/$id"
chown "$id:$id" "$home" "/run/user/$id"
if [ "$AQ_AS_USER" != pc ]; then # a daemon refuses users that it cannot look up
    mkdir -p /run/dbus
    mount -t tmpfs -o mode=755 tmpfs /run/dbus
    bus=$(dbus-daemon --system --fork --nopidfile --print-pid)
fi
status=0
cd -- "$home"
unset AQ_AS_USER XDG_DATA_HOME XDG_CONFIG_HOME XDG_CACHE_HOME XDG_STATE_HOME DBUS_SESSION_BUS_ADDRESS
export HOME="$home" USER="$name" LOGNAME="$name" XDG_RUNTIME_DIR="/run/user/$id"
setpriv --reuid "$id" --regid "$id" --clear-groups "$@" || status=$?
exit $status
