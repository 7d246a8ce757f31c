#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: flatpak-all.sh BUNDLE RUNTIME      (as root)
# Installs a bundle of ./dev flatpak for all users of this PC. RUNTIME: the repository of the runtime that it was built against, which is asked
# for no more afterwards.

set -euo pipefail

id=io.github.aquiferpool.Aquifer
flatpak remote-add --system --if-not-exists --no-gpg-verify aquifer-runtime "file://$2" >&2
# One that an earlier version of the checkout left tells of another folder, perhaps gone by now.
flatpak remote-modify --system --no-gpg-verify "--url=file://$2" aquifer-runtime >&2
flatpak install --system -y --noninteractive --or-update aquifer-runtime io.github.aquiferpool.DebianPlatform//13 >&2
flatpak install --system -y --noninteractive --reinstall --bundle "$1" >&2
printf './dev: installed for all users, who start it like any app or by: flatpak run %s\n' "$id" >&2
