#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test runner behind `./dev test`.

Builds each configuration, runs its tests with `meson test`, counts the cases that each test printed as TAP, and ends with the
line `N passed, N failed, N skipped`. Exit 1 when anything failed. In CI a skip that tests/skips.txt does not list fails too.
"""

import fnmatch
import glob
import json
import os
import re
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SUITES = ['unit', 'golden', 'contract', 'wire', 'cli', 'api', 'lint', 'ui', 'data', 'fuzz', 'integration']
# Marks beside the suite: slow and load are left out of --quick, load also of the sanitizers.
MARKS = ['slow', 'load']
QUICK_OUT = ['ui', 'integration', 'slow', 'load']

AGAIN_MAX = 3  # more red tests than this are no accident of timing
NOTES_MAX = 30  # lines told of one failed case; the rest is in meson-logs/testlog.txt

SAN_ENV = {
    'ASAN_OPTIONS': 'halt_on_error=1:abort_on_error=1:detect_leaks=1:detect_stack_use_after_return=1',
    'UBSAN_OPTIONS': 'halt_on_error=1:abort_on_error=1:print_stacktrace=1',
    'TSAN_OPTIONS': 'halt_on_error=1:abort_on_error=1:second_deadlock_stack=1:suppressions=' + os.path.join(TOP, 'tools/dev/tsan.supp'),
    'LSAN_OPTIONS': 'print_suppressions=0:suppressions=' + os.path.join(TOP, 'tools/dev/lsan.supp'),
}


class Config:
    """One build and the tests that run on it."""

    def __init__(self, name, folder, build, only=(), without=(), slower=1):
        self.name, self.folder, self.build = name, folder, build
        self.only, self.without, self.slower = list(only), list(without), slower


CI = [
    Config('gcc', 'build-ci', ['--werror']),
    Config('clang ASan+UBSan', 'build-asan', ['--sanitize', 'asan', '--werror'], without=['load', 'lint', 'data'], slower=4),
    Config('gcc TSan below api', 'build-tsan', ['--sanitize', 'tsan', '--werror'],
           only=['unit', 'contract', 'wire', 'integration'], without=['load', 'slow', 'ui'], slower=8),
]

TAP_LINE = re.compile(r'^(not )?ok\b\s*(\d*)\s*(?:-\s*)?(.*?)\s*$')
TAP_DIRECTIVE = re.compile(r'(?<!\\)#\s*(skip|todo)\S*\s*(.*)$', re.IGNORECASE)
TAP_PLAN = re.compile(r'^1\.\.(\d+)\s*(?:#\s*skip\S*\s*(.*))?$', re.IGNORECASE)


def tap_cases(text):
    """The cases of a TAP output as (name, 'pass'|'fail'|'skip', reason); None when it is not TAP.

    The reason of a failed case is the comment lines below it.
    """
    cases, plan = [], None
    for line in text.splitlines():
        m = TAP_PLAN.match(line)
        if m and plan is None:
            plan = int(m.group(1))
            if plan == 0:
                cases.append(('(all)', 'skip', m.group(2) or 'no reason given'))
            continue
        m = TAP_LINE.match(line)
        if not m:
            if line.startswith('#') and cases and cases[-1][1] == 'fail':
                cases[-1] = cases[-1][:2] + ((cases[-1][2] + '\n' + line[1:].strip()).strip(),)
            continue
        name, what, reason = m.group(3), 'fail' if m.group(1) else 'pass', ''
        d = TAP_DIRECTIVE.search(name)
        if d:
            name = name[:d.start()].strip()
            if d.group(1).lower() == 'skip':
                what, reason = 'skip', d.group(2).strip() or 'no reason given'
            else:
                what, reason = 'fail', 'TODO is not a result: ' + d.group(2).strip()
        cases.append((name or 'case ' + m.group(2), what, reason))
    if plan is None and not cases:
        return None
    if plan and plan != len(cases):
        cases.append(('(plan)', 'fail', '%d cases planned, %d printed' % (plan, len(cases))))
    return cases


def suites_of_tests(folder):
    """Test name to its suite, from what meson wrote when it configured FOLDER."""
    found = {}
    with open(os.path.join(folder, 'meson-info', 'intro-tests.json'), encoding='utf-8') as f:
        for test in json.load(f):
            names = [s.split(':')[-1] for s in test['suite']]
            found[test['name']] = next((s for s in names if s in SUITES), '(no suite)')
    return found


def cases_of(test):
    """The cases of one entry of meson's testlog.json."""
    out, result = test.get('stdout') or '', test['result']
    cases = tap_cases(out)
    if cases is None:
        last = (out.strip().splitlines() or ['no reason given'])[-1]
        return [('(whole)', {'OK': 'pass', 'SKIP': 'skip'}.get(result, 'fail'), last if result == 'SKIP' else result)]
    if result not in ('OK', 'SKIP') and not any(c[1] == 'fail' for c in cases):
        # Every printed case passed, yet the program crashed, hung, or returned a failure.
        cases.append(('(end)', 'fail', '%s, exit status %s' % (result, test.get('returncode'))))
    if not cases:
        cases.append(('(whole)', 'fail', 'ran no case'))
    return cases


def read_log(folder):
    """What the last `meson test` in FOLDER wrote, as [(test, seconds, cases)]."""
    path, found = os.path.join(folder, 'meson-logs', 'testlog.json'), []
    if os.path.exists(path):
        with open(path, encoding='utf-8') as f:
            for line in f:
                test = json.loads(line)
                found.append((test['name'].split(' / ')[-1].split(':')[-1].strip(), test.get('duration', 0.0), cases_of(test)))
    return found


def run_again(folder, cmd, again, log, env, totals):
    """A red test in CI has one more run, alone on the machine; both runs are told, and UNSTABLE is a fault to be mended."""
    print('red, run once more alone: ' + ' '.join(again), flush=True)
    alone = ['1' if before == '--num-processes' else word for before, word in zip([''] + cmd, cmd)]
    subprocess.call(alone + again, stdin=subprocess.DEVNULL, env=env)
    second = {name: (seconds, cases) for name, seconds, cases in read_log(folder)}
    for n, (name, seconds, cases) in enumerate(log):
        if name not in again or name not in second:
            continue
        for case, _, reason in (c for c in cases if c[1] == 'fail'):
            totals.unstable.append('%s/%s: %s' % (name, case, (reason.splitlines() or [''])[0]))
        log[n] = (name, seconds + second[name][0], second[name][1])
    return log


def read_skips():
    """tests/skips.txt: `pattern | reason pattern`, # comments."""
    rules = []
    with open(os.path.join(TOP, 'tests', 'skips.txt'), encoding='utf-8') as f:
        for n, line in enumerate(f, 1):
            line = line.strip()
            if not line or line.startswith('#'):
                continue
            pattern, bar, reason = (p.strip() for p in line.partition('|'))
            if not bar or not pattern or not reason:
                sys.exit('tests/skips.txt:%d: a line is `SUITE/TEST/CASE pattern | reason pattern`' % n)
            rules.append((pattern, reason))
    return rules


class Totals:
    def __init__(self, ci):
        self.passed = self.failed = self.skipped = 0
        self.unstable = []
        self.rules = read_skips()
        self.ci = ci

    def add(self, where, what, reason):
        if what == 'pass':
            self.passed += 1
        elif what == 'fail':
            self.failed += 1
            notes = reason.splitlines()
            print('FAIL  ' + '\n      '.join([where] + notes[:NOTES_MAX] + ['…'] * (len(notes) > NOTES_MAX)))
        else:
            listed = any(fnmatch.fnmatchcase(where, p) and fnmatch.fnmatchcase(reason, r) for p, r in self.rules)
            print('SKIP  %s: %s%s' % (where, reason, '' if listed else '   (not in tests/skips.txt)'))
            if self.ci and not listed:
                self.failed += 1
            else:
                self.skipped += 1


def run_config(config, tests, totals):
    """Builds and tests one configuration; False when something in it failed."""
    start, before = time.monotonic(), totals.failed
    print('== %s ==' % config.name, flush=True)
    if subprocess.call([os.path.join(TOP, 'dev'), 'build'] + config.build, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
        totals.add('build/' + config.name, 'fail', 'the build failed (see above)')
        return False
    built = time.monotonic() - start
    folder = os.path.join(TOP, config.folder)
    for old in glob.glob(os.path.join(folder, 'meson-logs', 'testlog*')):
        os.unlink(old)
    cmd = ['meson', 'test', '-C', folder, '--no-rebuild', '--num-processes', os.environ.get('AQ_JOBS', '2'), '--print-errorlogs',
           '--timeout-multiplier', str(config.slower)]
    chosen = ['--suite=' + s for s in config.only] + ['--no-suite=' + s for s in config.without] + tests
    env = {**SAN_ENV, **os.environ, 'PYTHONDONTWRITEBYTECODE': '1'}
    if '--sanitize' in config.build:
        # An address-space check over-reads and GLib's slice allocator: let them be seen.
        env.update(G_SLICE='always-malloc', AQ_SANITIZE='1')
    status = subprocess.call(cmd + chosen, stdin=subprocess.DEVNULL, env=env)
    log = read_log(folder)
    again = [name for name, _, cases in log if any(c[1] == 'fail' for c in cases)]
    if totals.ci and 0 < len(again) <= AGAIN_MAX:
        log = run_again(folder, cmd, again, log, env, totals)
        status = 0

    suites = suites_of_tests(folder)
    times, ran, red = {}, 0, False
    for name, duration, cases in log:
        suite = suites.get(name, '(no suite)')
        seconds, n = times.get(suite, (0.0, 0))
        times[suite] = (seconds + duration, n + len(cases))
        for case, what, reason in cases:
            ran += 1
            red = red or what == 'fail'
            totals.add('%s/%s/%s' % (suite, name, case), what, reason)
    if ran == 0:
        totals.add('run/' + config.name, 'fail', 'no test ran')
    elif status and not red:
        totals.add('run/' + config.name, 'fail', 'meson test ended with status %d' % status)
    if '(no suite)' in times:
        totals.add('run/' + config.name, 'fail', 'a test belongs to none of the suites ' + ' '.join(SUITES))
    for suite in sorted(times, key=lambda s: (SUITES + [s]).index(s)):
        print('  %-20s %5d cases %8.1f s' % ((suite,) + times[suite][::-1]))
    print('%-22s %5d cases %8.1f s, of them %.1f s building' % (config.name, ran, time.monotonic() - start, built), flush=True)
    return totals.failed == before


def main(argv):
    quick = ci = False
    suites, tests = [], []
    for a in argv:
        if a == '--quick':
            quick = True
        elif a == '--ci':
            ci = True
        elif a in ('--ci=gcc', '--ci=asan', '--ci=tsan'):
            ci = a[5:]
        elif a.startswith('-'):
            sys.exit("./dev: test: unknown option '%s' (see ./dev help)" % a)
        elif a in SUITES + MARKS:
            suites.append(a)
        else:
            tests.append(a)
    if suites and tests:
        sys.exit('./dev: test: suites (%s) or tests by name (%s), not both at once' % (' '.join(suites), ' '.join(tests)))
    os.chdir(TOP)
    totals, start = Totals(ci), time.monotonic()
    if ci:
        configs = [c for c in CI if ci is True or c.folder in ('build-' + ci, 'build-ci' if ci == 'gcc' else '')]
    elif tests:
        configs = [Config('gcc', 'build', [])]
    else:
        configs = [Config('gcc', 'build', [], only=suites, without=[s for s in QUICK_OUT if quick and s not in suites])]
    for config in configs:
        if ci and suites:
            config.only = [s for s in suites if not config.only or s in config.only]
            if not config.only:
                continue
        if not run_config(config, tests, totals) and ci:
            print('stopped at the first red configuration: ' + config.name)
            break
    for case in totals.unstable:
        print('UNSTABLE  %s' % case)
    print('total %.1f s' % (time.monotonic() - start))
    print('%d passed, %d failed, %d skipped' % (totals.passed, totals.failed, totals.skipped), flush=True)
    return 1 if totals.failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
