#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the trees of a Flatpak runtime and its SDK of one Debian root.

usage: flatpak-trees.py ROOT OUT LIST NAME BRANCH ARCH

LIST is tools/dev/flatpak-packages. The SDK is the root's /usr and /etc without the packages that are to be absent; the runtime is
the SDK without the files of all packages that the platform's do not depend on. Files are linked, not copied; ROOT is used up.

    OUT/Platform/metadata   OUT/Platform/files/…   files is what an app sees as /usr, files/etc as /etc
    OUT/Sdk/…
"""

import os
import re
import shutil
import sys

ETC_OUT = ('apt', 'passwd', 'passwd-', 'group', 'group-', 'shadow', 'shadow-', 'gshadow', 'gshadow-', 'hostname', 'hosts', 'resolv.conf', 'mtab',
           'machine-id', 'localtime')
# As in GNOME's runtime.
ENVIRONMENT = {
    'GI_TYPELIB_PATH': '/app/lib/girepository-1.0',
    'XDG_DATA_DIRS': '/app/share:/usr/share:/usr/share/runtime/share:/run/host/user-share:/run/host/share',
}


def read_list(path):
    kinds = {}
    with open(path, encoding='utf-8') as f:
        for line in f:
            words = line.split()
            if words and not words[0].startswith('#'):
                kinds.setdefault(words[0], []).append(words[1])
                if words[0] == 'given':
                    kinds['platform'].append(words[2])
    return kinds


class Packages:
    """The packages that dpkg knows in a root, what they depend on and which files they brought."""

    def __init__(self, root):
        self.info = os.path.join(root, 'var/lib/dpkg/info')
        self.needs, self.provided = {}, {}
        with open(os.path.join(root, 'var/lib/dpkg/status'), encoding='utf-8') as f:
            for block in f.read().split('\n\n'):
                fields = dict(re.findall(r'^([A-Z][A-Za-z-]*): (.*)$', block, re.MULTILINE))
                if 'Package' not in fields:
                    continue
                name = fields['Package']
                needs = fields.get('Depends', '') + ',' + fields.get('Pre-Depends', '')
                self.needs[name] = [[re.sub(r'[ (:].*', '', p.strip()) for p in group.split('|')] for group in needs.split(',') if group.strip()]
                for p in fields.get('Provides', '').split(','):
                    self.provided.setdefault(re.sub(r'[ (:].*', '', p.strip()), []).append(name)

    def closure(self, names):
        found, queue = set(), list(names)
        missing = [n for n in names if n not in self.needs]
        if missing:
            sys.exit('flatpak-trees.py: not installed in the root: ' + ' '.join(missing))
        while queue:
            name = queue.pop()
            if name in found:
                continue
            found.add(name)
            for group in self.needs[name]:
                for p in group:
                    queue += [p] if p in self.needs else self.provided.get(p, [])
        return found

    def essential(self, root):
        """What the SDK was begun with: its shell and tools are a runtime's too."""
        with open(os.path.join(root, 'var/lib/dpkg/status'), encoding='utf-8') as f:
            return [re.search(r'^Package: (.*)$', b, re.MULTILINE).group(1) for b in f.read().split('\n\n')
                    if re.search(r'^Essential: yes$', b, re.MULTILINE)]

    def files(self, name):
        for path in (os.path.join(self.info, name + '.list'),) + tuple(
                os.path.join(self.info, f) for f in os.listdir(self.info) if f.startswith(name + ':') and f.endswith('.list')):
            if os.path.exists(path):
                with open(path, encoding='utf-8') as f:
                    # /lib, /bin … are links to those of /usr.
                    return [re.sub(r'^/(bin|sbin|lib|lib32|lib64|libx32)/', r'/usr/\1/', line) for line in f.read().splitlines()]
        return []


def remove(top, paths):
    for path in sorted(paths, reverse=True):
        if path.startswith('/usr/'):
            at = os.path.join(top, path[len('/usr/'):])
        elif path.startswith('/etc/'):
            at = os.path.join(top, path[1:])
        else:
            continue
        if os.path.islink(at) or os.path.isfile(at):
            os.unlink(at)
        elif os.path.isdir(at) and not os.listdir(at):
            os.rmdir(at)


def write_metadata(folder, kind, name, branch, arch):
    ref = '%s%%s/%s/%s' % (name, arch, branch)
    with open(os.path.join(folder, 'metadata'), 'w', encoding='utf-8') as f:
        f.write('[Runtime]\nname=%s%s\nruntime=%s\nsdk=%s\n\n[Environment]\n' % (name, kind, ref % 'Platform', ref % 'Sdk'))
        f.writelines('%s=%s\n' % item for item in ENVIRONMENT.items())


def main():
    root, out, path, name, branch, arch = sys.argv[1:]
    kinds = read_list(path)
    packages = Packages(root)
    kept = packages.closure(kinds['platform'] + packages.essential(root))
    kept_files = {f for p in kept if p not in kinds['absent'] for f in packages.files(p)}
    absent = {f for p in kinds['absent'] for f in packages.files(p)} - {
        f for p in packages.needs if p not in kinds['absent'] for f in packages.files(p)}
    others = {f for p in packages.needs if p not in kept for f in packages.files(p)} - kept_files

    sdk, platform = os.path.join(out, 'Sdk', 'files'), os.path.join(out, 'Platform', 'files')
    os.makedirs(os.path.dirname(sdk))
    os.rename(os.path.join(root, 'usr'), sdk)
    os.rename(os.path.join(root, 'etc'), os.path.join(sdk, 'etc'))
    for e in ETC_OUT:
        at = os.path.join(sdk, 'etc', e)
        if os.path.isdir(at) and not os.path.islink(at):
            shutil.rmtree(at)
        elif os.path.lexists(at):
            os.unlink(at)
    remove(sdk, absent)
    os.makedirs(os.path.dirname(platform))
    shutil.copytree(sdk, platform, symlinks=True, copy_function=lambda a, b: os.link(a, b, follow_symlinks=False))
    remove(platform, others)
    write_metadata(os.path.dirname(sdk), 'Sdk', name, branch, arch)
    write_metadata(os.path.dirname(platform), 'Platform', name, branch, arch)


if __name__ == '__main__':
    main()
