#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the desktop reads is valid by the desktop's own tools, and every text can be translated. TAP.

usage: data.py SOURCE BUILD: the checkout and the build folder (which holds the files that meson makes from *.in).
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import pseudo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'integration'))
import sandbox  # noqa: E402

SRC, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
results = []


def case(name, good, notes=''):
    results.append(bool(good))
    print('%sok %d - %s' % ('' if good else 'not ', len(results), name))
    for line in notes.splitlines()[:20] if not good else []:
        print('# ' + line)
    sys.stdout.flush()


def run(*cmd, **more):
    r = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    return r.returncode, r.stdout


def tool(name, *cmd, **more):
    """One case: CMD succeeds. Its absence is a failure: tools/dev/packages lists it."""
    if not shutil.which(cmd[0]):
        case(name, False, cmd[0] + ' is not installed')
        return
    code, out = run(*cmd, **more)
    case(name, code == 0, out)


def made(pattern):
    """Files by name: as meson made them, else as they lie in the tree."""
    found = {}
    for top in (os.path.join(SRC, 'data'), os.path.join(BUILD, 'data')):
        for f in glob.glob(os.path.join(top, '**', pattern), recursive=True):
            found[os.path.basename(f)] = f
    return sorted(found.values())


def check_desktop():
    files = made('*.desktop')
    case('there is one desktop file', len(files) == 1, str(files))
    for f in files:
        tool('desktop-file-validate ' + os.path.basename(f), 'desktop-file-validate', '--warn-kde', f)


def check_metainfo():
    files = made('*.metainfo.xml')
    case('there is one metainfo file', len(files) == 1, str(files))
    for f in files:
        tool('appstreamcli validate ' + os.path.basename(f), 'appstreamcli', 'validate', '--strict', '--no-net', '--explain', f)
        root = xml.etree.ElementTree.parse(f).getroot()
        name, summary = (root.find(t).text for t in ('name', 'summary'))
        case('name and summary are short enough for Flathub', len(name) <= 20 and len(summary) <= 35, '%s: %d, %s: %d' % (name, len(name), summary, len(summary)))
        shots = root.findall('screenshots/screenshot')
        case('each picture is in the tree and has a caption', shots and all(
            s.find('caption') is not None and os.path.exists(os.path.join(SRC, s.find('image').text.split('/main/')[-1])) for s in shots))
        check_manifest(root.find('id').text)


def check_manifest(app):
    """What Flathub's linter and style guide say of a manifest, as far as its text shows it (docs/FLATPAK.md)."""
    path = os.path.join(SRC, 'flatpak', app + '.yml')
    with open(path, encoding='utf-8') as f:
        text = f.read()
    case('the manifest has the name of its id', re.search(r'^id: %s$' % re.escape(app), text, re.MULTILINE), path)
    keys = re.findall(r'^([a-z-]+):', text, re.MULTILINE)
    order = ['id', 'runtime', 'runtime-version', 'sdk', 'command', 'finish-args', 'cleanup', 'modules']
    case('its keys are in Flathub\'s order, with no branch', keys == order, str(keys))
    args = re.findall(r'^  - (--\S+)$', text.split('finish-args:')[1].split('\ncleanup:')[0], re.MULTILINE)
    case('its permissions are narrow', not [a for a in args if a.startswith(('--filesystem', '--talk-name', '--own-name', '--device=all', '--socket=session', '--socket=system',
                                                                          '--socket=x11'))], str(args))
    sources = re.findall(r'url: (\S+)\n\s+sha256: ([0-9a-f]{64})$', text, re.MULTILINE)
    case('each archive has a public address and a SHA-256', len(sources) == text.count('type: archive') and all(u.startswith('https://') for u, _ in sources), str(sources))
    modules = set(sandbox.read_libraries(SRC)[1].values()) | {'aquifer'}
    case('the modules are those that flatpak/libraries names', modules == set(re.findall(r'^  - name: (\S+)$', text, re.MULTILINE)), str(modules))
    lost, _ = sandbox.unlisted(SRC, [os.path.join(BUILD, 'src', 'app', 'aquifer'), os.path.join(BUILD, 'src', 'tools', 'aquifer-cli')])
    case('what the programs are linked with is in GNOME\'s runtime by its list, or a module', not lost, '\n'.join(lost))
    case('two spaces, no tabs, a newline at the end', '\t' not in text and text.endswith('\n') and not re.search(r'[ ]+$', text, re.MULTILINE))


def check_schema():
    files = made('*.gschema.xml')
    case('there is a GSettings schema', files)
    with tempfile.TemporaryDirectory() as tmp:
        for f in files:
            shutil.copy(f, tmp)
        tool('glib-compile-schemas', 'glib-compile-schemas', '--strict', '--targetdir', tmp, tmp)
    text = ''.join(open(f, encoding='utf-8').read() for f in files)
    keys = re.findall(r'<key\b[^>]*?(?:/>|>.*?</key>)', text, re.DOTALL)
    case('each key has a default and a summary', keys and all('<default>' in k and '<summary>' in k for k in keys),
         '\n'.join(re.sub(r'\s+', ' ', k) for k in keys if '<default>' not in k or '<summary>' not in k))


def check_icons():
    files = glob.glob(os.path.join(SRC, 'data', 'icons', '**', '*.svg'), recursive=True)
    case('there is an app icon and a symbolic one', any(f.endswith('-symbolic.svg') for f in files) and any(not f.endswith('-symbolic.svg') for f in files))
    for f in files:
        try:
            root = xml.etree.ElementTree.parse(f).getroot()
            case('%s is an SVG with a size' % os.path.basename(f), root.tag.endswith('svg') and (root.get('viewBox') or root.get('width')))
        except xml.etree.ElementTree.ParseError as e:
            case('%s is an SVG' % os.path.basename(f), False, str(e))


def check_po():
    po = os.path.join(SRC, 'po')
    for f in sorted(glob.glob(os.path.join(po, '*.po'))):
        tool('msgfmt --check ' + os.path.basename(f), 'msgfmt', '--check', '-o', os.devnull, f)
    with tempfile.TemporaryDirectory() as tmp:
        for name, good, out in pseudo.make(SRC, os.path.join(tmp, 'x.mo')):
            case(name, good, out)


def main():
    check_desktop()
    check_metainfo()
    check_schema()
    check_icons()
    check_po()
    print('1..%d' % len(results))
    return 0 if all(results) else 1


if __name__ == '__main__':
    sys.exit(main())
