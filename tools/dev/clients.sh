#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: clients.sh LOCK FOLDER PYTHON-VERSION
# Puts the Python packages of LOCK, for that version of Python, into a folder below FOLDER and prints its path. Every file
# has to have a hash of LOCK. The last line on stderr says why when it cannot.

set -euo pipefail

lock=$1 cache=$2 version=$3
hash=$(sha256sum <"$lock")
dir=$cache/clients-$version-${hash:0:12}
fail() {
    printf 'the clients of the API could not be fetched: %s\n' "$*" >&2
    exit 1
}

if [ ! -d "$dir" ]; then
    mkdir -p -- "$cache" || fail "the folder $cache cannot be made"
    exec {held}>"$cache/clients.lock"
    flock "$held"
fi
if [ ! -d "$dir" ]; then
    printf 'fetching clients of the API for the tests\n' >&2
    tmp=$(mktemp -d -- "$cache/.clients-XXXXXX")
    trap 'rm -rf -- "$tmp"' EXIT
    python=python3
    if ! python3 -m pip --version >/dev/null 2>&1; then
        python3 -m venv "$tmp/venv" >/dev/null 2>&1 ||
            fail 'python3 has neither pip nor venv (Debian: apt-get install python3-pip; Fedora: dnf install python3-pip)'
        python=$tmp/venv/bin/python
    fi
    "$python" -m pip install -q --no-cache-dir --require-hashes --only-binary :all: --no-deps --python-version "$version" \
        --target "$tmp/clients" --retries 2 -r "$lock" </dev/null >"$tmp/log" 2>&1 ||
        fail "pip install: $(grep -E '^ERROR' "$tmp/log" | tail -n 1)"
    mv -- "$tmp/clients" "$dir"
fi
printf '%s\n' "$dir"
