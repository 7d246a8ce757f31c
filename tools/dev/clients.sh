#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: clients.sh LOCKS FOLDER PYTHON-VERSION
# Puts the packages of LOCKS into a folder below FOLDER and prints its path: python/ has those of LOCKS/python.lock for that version of
# Python, node_modules/ those of LOCKS/package-lock.json. Every file has to have a hash of these, and nothing of a package is run.
# The registries are those that pip and npm are set up for. The last line on stderr says why when it cannot.

set -euo pipefail

locks=$1 cache=$2 version=$3
hash=$(cat -- "$locks"/python.lock "$locks"/package.json "$locks"/package-lock.json | sha256sum)
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
    command -v npm >/dev/null || fail 'npm is not there (Debian: apt-get install npm; Fedora: dnf install nodejs-npm)'
    tmp=$(mktemp -d -- "$cache/.clients-XXXXXX")
    trap 'rm -rf -- "$tmp"' EXIT
    python=python3
    if ! python3 -m pip --version >/dev/null 2>&1; then
        python3 -m venv "$tmp/venv" >/dev/null 2>&1 ||
            fail 'python3 has neither pip nor venv (Debian: apt-get install python3-pip; Fedora: dnf install python3-pip)'
        python=$tmp/venv/bin/python
    fi
    mkdir -- "$tmp/clients"
    "$python" -m pip install -q --no-cache-dir --require-hashes --only-binary :all: --no-deps --python-version "$version" \
        --target "$tmp/clients/python" --retries 2 -r "$locks/python.lock" </dev/null >"$tmp/log" 2>&1 ||
        fail "pip install: $(grep -E '^ERROR' "$tmp/log" | tail -n 1)"
    cp -- "$locks"/package.json "$locks"/package-lock.json "$tmp/clients/"
    (cd -- "$tmp/clients" && npm ci --ignore-scripts --no-audit --no-fund --cache "$tmp/npm" </dev/null >"$tmp/log" 2>&1) ||
        fail "npm ci: $(grep -E '^npm (error|ERR!) [^A]' "$tmp/log" | head -n 1)"
    mv -- "$tmp/clients" "$dir"
fi
printf '%s\n' "$dir"
