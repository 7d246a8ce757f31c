#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command inside a Debian root. Called by ./dev as root in a mount namespace of its own, so that every mount made
# here goes when the command ends. pivot_root and not chroot: user namespaces are refused inside a chroot.
#
# usage: enter.sh -r ROOT -d FOLDER -u UID:GID [-b PATH]… [-e NAME=VALUE]… -- CMD…
#   -b   a folder of this machine that is visible in the root at the same path
#   -e   the command's environment, which is otherwise empty

set -euo pipefail

root='' dir=/ user=0:0 binds=() env=()
while getopts r:d:u:b:e: o; do
    case $o in
        r) root=$OPTARG ;;
        d) dir=$OPTARG ;;
        u) user=$OPTARG ;;
        b) binds+=("$OPTARG") ;;
        e) env+=("$OPTARG") ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
while IFS= read -r p; do # shorter paths first: a folder before what lies in it
    [ -n "$p" ] || continue
    mkdir -p -- "$root$p"
    case $root/ in
        "$p"/*) mount --bind "$p" "$root$p" ;; # holds the root itself: without the mounts made above
        *) mount --rbind "$p" "$root$p" ;;
    esac
done < <(printf '%s\n' "${binds[@]}" | sort -u)
if [ "$user" != 0:0 ]; then
    mount --bind /etc/passwd "$root/etc/passwd"
    mount --bind /etc/group "$root/etc/group"
fi

cd -- "$root"
pivot_root . mnt
cd /
umount -l /mnt

cd -- "$dir" 2>/dev/null || cd /
run=(env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${env[@]}")
[ "$user" = 0:0 ] || run+=(setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups)
if [ $$ -ne 1 ]; then exec "${run[@]}" "$@"; fi
# First process of a process namespace: the kernel keeps signals from it, so the command runs as its child.
"${run[@]}" "$@"
