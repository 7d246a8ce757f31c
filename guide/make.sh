#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: make.sh OUT [SECONDS [SEED…]]
#
# The whole chain within about SECONDS (560): the text, a training for each SEED (2 3) side by side on one GPU, and of the network
# that answers most questions of text/valid.txt right OUT/guide.gguf, loss.csv, heldout.jsonl, strangers.jsonl, heldout.txt,
# strangers.txt, greedy.json and log.txt. Nothing outside build/, *.jsonl, greedy.json and OUT is written. The trainings get the time that the rest leaves.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '4,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=$(realpath -m -- "$1") total=${2:-560}
shift $(($# > 1 ? 2 : 1))
[ $# -gt 0 ] || set -- 2 3
cd -- "$(dirname -- "$0")"
mkdir -p -- "$out" build
rest=85 # seconds for what comes before the first step and after the last one

note() { printf '%4d s  %s\n' "$SECONDS" "$*" | tee -a "$out/log.txt"; }

: >"$out/log.txt"
python3 make_text.py | tee -a "$out/log.txt"
timeout 420 python3 make_text.py --check >build/check.txt 2>&1 &
checking=$!
cp -- heldout.jsonl strangers.jsonl "$out"
minutes=$(python3 -c "print(max(0.2, ($total - $SECONDS - $rest) / 60))")
note "the text is there; $# trainings of $minutes minutes"

cores=$(nproc)
export OMP_NUM_THREADS=$((cores > $# ? cores / $# : 1))
pids=()
for seed; do
    mkdir -p "build/$seed"
    python3 train.py --seed "$seed" --minutes "$minutes" --out "build/$seed" >"build/$seed/log.txt" 2>&1 &
    pids+=($!)
done
# A training that fails is told, and the others go on.
for pid in "${pids[@]}"; do wait "$pid" || note "a training failed: see below"; done
for seed; do
    note "seed $seed:"
    cat "build/$seed/log.txt" >>"$out/log.txt"
done

best=$(python3 - "$@" <<'END'
import json, pathlib, sys
right = {}
for seed in sys.argv[1:]:
    f = pathlib.Path('build', seed, 'valid.json')
    if f.exists():
        right[seed] = json.loads(f.read_text())
        print('seed', seed, right[seed], file=sys.stderr)
print(max(right, key=lambda s: right[s]['app'] + right[s]['outside']))
END
) || { tail -n 40 "$out/log.txt" >&2; exit 1; }
note "taken: seed $best"
python3 export.py "build/$best" "$out/guide.gguf" | tee -a "$out/log.txt"
cp -- "build/$best/loss.csv" "$out"
python3 check.py -m "$out/guide.gguf" greedy | tee -a "$out/log.txt"
cp -- greedy.json "$out"
note 'checking the file with numpy alone'
python3 check.py -m "$out/guide.gguf" trainer "build/$best" >build/trainer.txt 2>&1 &
trainer=$!
python3 check.py -m "$out/guide.gguf" strangers -v >"$out/strangers.txt" &
strangers=$!
python3 check.py -m "$out/guide.gguf" heldout -v >"$out/heldout.txt"
wait $trainer || note 'the file could not be compared with the network'
cat build/trainer.txt >>"$out/log.txt"
wait $strangers
tail -n 3 "$out/heldout.txt" | tee -a "$out/log.txt"
tail -n 5 "$out/strangers.txt" | tee -a "$out/log.txt"
# Held-out questions that are too near to the text are worth nothing: mend the text, and make it again.
wait $checking || { tee -a "$out/log.txt" <build/check.txt; exit 1; }
note "done"
