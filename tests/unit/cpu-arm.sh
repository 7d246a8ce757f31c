#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: cpu-arm.sh CHECKOUT FOLDER     test-cpu-kernels for 64-bit Arm, cross-compiled into FOLDER and run by qemu-user
top=$1 out=$2
skip() {
    printf '1..0 # SKIP %s\n' "$1"
    exit 0
}
cc=$(command -v aarch64-linux-gnu-gcc) || skip 'aarch64-linux-gnu-gcc is not installed'
qemu=$(command -v qemu-aarch64) || skip 'qemu-aarch64 is not installed'
set -e
mkdir -p "$out"
e=$top/src/engine
set -- -std=gnu11 -O2 -D_GNU_SOURCE -I"$e/include" -I"$top/src/base/include" -I"$e/cpu" -I"$e/model" -I"$e/core" -I"$e/state" -I"$top/tests" -I"$top/tests/unit"
"$cc" "$@" -march=armv8.2-a+dotprod -c "$e/cpu/isa-neon.c" -o "$out/isa-neon.o"
"$cc" "$@" -static -ffunction-sections -Wl,--gc-sections -o "$out/test-cpu-kernels" "$top/tests/unit/test-cpu-kernels.c" \
    "$e/cpu/isa-c.c" "$e/cpu/pack.c" "$e/cpu/detect.c" "$e/model/quant.c" "$e/model/quant-iq.c" "$e/model/quant-k.c" "$e/model/quant-table.c" \
    "$e/core/scalar.c" "$top"/src/base/status.c "$out/isa-neon.o" -lm
exec "$qemu" "$out/test-cpu-kernels"
