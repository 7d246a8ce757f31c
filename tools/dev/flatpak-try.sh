#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: flatpak-try.sh BUNDLE RUNTIME
# Installs a bundle of ./dev flatpak for this user, who is not root, and runs it: the window, or with no display one answer in the terminal.
# RUNTIME: the repository of the runtime that it was built against.

set -euo pipefail

bundle=$1 runtime=$2
id=io.github.aquiferpool.Aquifer
if [ -z "${DBUS_SESSION_BUS_ADDRESS:-}" ] && [ ! -S "${XDG_RUNTIME_DIR:-}/bus" ]; then
    # What the bus and its services say of each other is no part of an answer.
    log=${XDG_CACHE_HOME:-$HOME/.cache}/aquifer/session.log status=0
    mkdir -p -- "${log%/*}"
    # shellcheck disable=SC2016
    dbus-run-session -- bash -c 'exec 2>&3 3>&- && exec bash "$0" "$@"' "$0" "$@" 3>&2 2>"$log" || status=$?
    [ $status -ne 127 ] || tail -n 5 -- "$log" >&2
    exit $status
fi
flatpak remote-add --user --if-not-exists --no-gpg-verify aquifer-runtime "file://$runtime" >&2
# One that an earlier version of the checkout left tells of another folder, perhaps gone by now.
flatpak remote-modify --user --no-gpg-verify "--url=file://$runtime" aquifer-runtime >&2
flatpak install --user -y --noninteractive --or-update aquifer-runtime io.github.aquiferpool.DebianPlatform//13 >&2
flatpak install --user -y --noninteractive --reinstall --bundle "$bundle" >&2
printf './dev: installed for %s; flatpak uninstall --user %s takes it away again\n' "$(id -un)" "$id" >&2
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then exec flatpak run --user "$id"; fi
printf './dev: no display here, so one prompt is answered in the terminal\n> What is Aquifer?\n' >&2
exec flatpak run --user --command=aquifer-cli "$id" chat -m /app/share/aquifer/guide/guide.gguf -p 'What is Aquifer?'
