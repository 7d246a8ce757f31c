#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: new-inputs.sh FUZZER CORPUS
# Lets libFuzzer try new inputs: 200,000, or as many as fit into the limit of time. One TAP case. A failing input is printed
# in base64; it belongs into the corpus together with the fix.
set -u
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
mkdir "$work/new"
if "$1" -runs=200000 -max_len=4096 -max_total_time="${AQ_FUZZ_LIMIT_S:-45}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$work/" "$work/new" "$2" >"$work/log" 2>&1; then
    echo "ok 1 - $(basename "$1"): $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log") inputs without a fault"
    status=0
else
    echo "not ok 1 - $(basename "$1"): an input found a fault"
    tail -n 60 "$work/log" | sed 's/^/# /'
    status=1
fi
echo 1..1
exit $status
