#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: headless.sh CMD…
# Runs CMD with a display, a session bus and a home of its own, all of which end with it. HOME and XDG_RUNTIME_DIR are
# set before the bus starts: two accessibility buses in one runtime folder would be one.
# AQ_RUNTIME_DIR: the runtime folder, which is there. A Flatpak sees it as /run/user/UID, so that files of the document portal are found only
# where it is that outside too, as on a desktop.

set -euo pipefail

# The document portal's file system, if the bus started one, ends with the bus, but not at once; it may do so just now.
# shellcheck disable=SC2317 # reached by the trap alone
end() {
    local i
    for ((i = 0; i < 100; i++)); do
        if ! grep -q " $XDG_RUNTIME_DIR/doc " /proc/self/mounts || fusermount3 -uz "$XDG_RUNTIME_DIR/doc" 2>/dev/null; then break; fi
        sleep 0.1
    done
    rm -rf -- "$tmp"
}

if [ -z "${AQ_HEADLESS:-}" ]; then
    tmp=$(mktemp -d "${TMPDIR:-/tmp}/aq-headless-XXXXXX")
    trap end EXIT
    mkdir -m 700 -- "$tmp/run"
    unset WAYLAND_DISPLAY DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS XDG_DATA_HOME XDG_CONFIG_HOME XDG_CACHE_HOME XDG_STATE_HOME
    export AQ_HEADLESS="$tmp" HOME="$tmp" XDG_RUNTIME_DIR="${AQ_RUNTIME_DIR:-$tmp/run}"
    export GDK_BACKEND=x11 GSK_RENDERER="${GSK_RENDERER:-cairo}" GTK_A11Y="${GTK_A11Y:-atspi}" NO_AT_BRIDGE=0
    export GSETTINGS_BACKEND="${GSETTINGS_BACKEND:-memory}" LIBGL_ALWAYS_SOFTWARE=1
    status=0
    # No portal of this machine's: what a desktop prefers would be in the picture.
    export ADW_DISABLE_PORTAL="${ADW_DISABLE_PORTAL:-1}" GDK_DEBUG="${GDK_DEBUG:-no-portals}"
    # Services that the bus starts talk to stderr, so that stdout is the command's alone.
    dbus-run-session -- "$0" "$@" 4>&1 >&2 || status=$?
    exit $status
fi

# Xvfb picks a free display (unless its options name one) and writes its number when it is ready.
read -r -a more <<<"${AQ_XVFB_OPTIONS:-}"
mkfifo -- "$AQ_HEADLESS/display"
Xvfb ${more[@]+"${more[@]}"} -displayfd 3 -screen 0 "${AQ_SCREEN:-1280x900x24}" -nolisten tcp -noreset 3>"$AQ_HEADLESS/display" 4>&- 2>"$AQ_HEADLESS/xvfb.log" &
xvfb=$!
trap 'kill "$xvfb" 2>/dev/null; wait "$xvfb" 2>/dev/null || true' EXIT
if ! read -r -t 60 number <"$AQ_HEADLESS/display"; then
    printf 'headless.sh: Xvfb did not start:\n' >&2
    cat "$AQ_HEADLESS/xvfb.log" >&2
    exit 1
fi
status=0
DISPLAY=:$number "$@" >&4 4>&- || status=$?
exit $status
