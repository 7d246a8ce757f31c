# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# Part of ./dev: `./dev flatpak`, the bundle of flatpak/ID.yml, built without a network against a runtime made of Debian's packages.
# docs/FLATPAK.md tells what differs from Flathub's build. Uses $top, $cache, say, die of ./dev and system.sh.
#
#     ~/.cache/aquifer/flatpak-HASH/   Platform Sdk   trees, until they are in the repository
#                                      runtime        repository of both
#                                      state, user    flatpak-builder's, with archives; the installation that it builds in
#                                      app            repository of the app

flatpak_id=io.github.aquiferpool.Aquifer
flatpak_runtime=io.github.aquiferpool.Debian # …Platform and …Sdk
flatpak_list=$top/tools/dev/flatpak-packages

flatpak_names() { awk -v k="$1" '$1 == k { print $2 }' "$flatpak_list"; }

# All packages of the root that the trees are made of.
flatpak_packages() { awk '$1 == "platform" || $1 == "sdk" { print $2 } $1 == "given" { print $3; print $4 }' "$flatpak_list"; }

# The manifest without the modules that the stand-ins have.
flatpak_manifest() {
    awk -v given="$(flatpak_names given | paste -sd' ')" '
        BEGIN { n = split(given, g, " "); for (i = 1; i <= n; i++) skip[g[i]] = 1 }
        /^  - name: / { out = $3 in skip }
        !out { print }' "$top/flatpak/$flatpak_id.yml"
}

flatpak_folder() {
    local hash
    hash=$({ echo "$suite" && cat "$flatpak_list" "$top/tools/dev/flatpak-trees.py"; } | sha256sum)
    printf '%s/flatpak-%s' "$cache" "${hash:0:12}"
}

# Makes the trees of the runtime if they are not there. As root: what mmdebstrap makes is root's until it is handed over.
flatpak_trees() {
    local dir part lock
    dir=$(flatpak_folder)
    [ ! -d "$dir" ] || return 0
    need_root 'making the runtime that the bundle is built against'
    mkdir -p -- "$cache"
    exec {lock}>"$cache/flatpak.lock"
    flock "$lock"
    if [ ! -d "$dir" ]; then
        say "making a Flatpak runtime of Debian 13's packages in $dir (once; two to ten minutes, 2 GB)"
        part=$dir.part
        # flatpak-builder builds in this locale.
        # shellcheck disable=SC2016
        debian_tree "$part" "$cache/flatpak.log" essential "$(flatpak_packages | paste -sd,)" \
            --customize-hook='chroot "$1" localedef -i en_US -c -f UTF-8 en_US.UTF-8'
        as_root mv -- "$part" "$dir.root.part" && as_root mkdir -- "$part"
        as_root python3 "$top/tools/dev/flatpak-trees.py" "$dir.root.part" "$part" "$flatpak_list" "$flatpak_runtime" 13 "$(uname -m)" ||
            die 'could not part the runtime from its SDK' 1
        as_root rm -rf --one-file-system -- "$dir.root.part"
        as_root chown -R "$(id -u):$(id -g)" "$part"
        as_root chmod -R u+rwX,go+rX,go-w "$part/Sdk" "$part/Platform" # everybody is to read it: another user installs it
        mv -- "$part" "$dir"
        find "$cache" -maxdepth 1 -type d -name 'flatpak-????????????' -mtime +60 -print0 | xargs -0r rm -rf --one-file-system --
    fi
    flock -u "$lock"
    exec {lock}>&-
}

# The archives that the manifest names, from Debian's mirror, where the same files lie. Without apt, flatpak-builder fetches them.
flatpak_sources() {
    local dir=$1 name path url sha mirror
    mirror=$(debian_mirror)
    while read -r url sha; do
        name=${url##*/}
        path=$(awk -v n="$name" '$1 == "source" && $2 == n { print $3 }' "$flatpak_list")
        [ -n "$path" ] || die "tools/dev/flatpak-packages has no source $name, which the manifest names"
        mkdir -p -- "$dir/state/downloads/$sha"
        [ ! -f "$dir/state/downloads/$sha/$name" ] || continue
        if ! [ -x /usr/lib/apt/apt-helper ]; then continue; fi
        logged "$cache/flatpak.log" /usr/lib/apt/apt-helper download-file "${mirror:-http://deb.debian.org/debian}/$path" \
            "$dir/state/downloads/$sha/$name.part" "SHA256:$sha" || die "could not fetch $name" 1
        mv -- "$dir/state/downloads/$sha/$name.part" "$dir/state/downloads/$sha/$name"
    done < <(flatpak_manifest | awk '$1 == "url:" { u = $2 } $1 == "sha256:" { print u, $2 }')
}

# All that the build takes from outside. Tests fetch nothing: ./dev does this before them.
flatpak_fetch() {
    flatpak_trees
    flatpak_sources "$(flatpak_folder)"
}

# Commits the trees and installs them for the build.
flatpak_runtime_install() {
    local dir=$1 kind ref
    if [ ! -d "$dir/runtime" ]; then
        rm -rf -- "$dir/runtime.part"
        ostree init --repo="$dir/runtime.part" --mode=bare-user-only
        for kind in Platform Sdk; do
            echo "putting the $kind into a repository"
            ostree commit --repo="$dir/runtime.part" --branch="runtime/$flatpak_runtime$kind/$(uname -m)/13" --owner-uid=0 --owner-gid=0 \
                --no-xattrs --canonical-permissions --link-checkout-speedup --tree=dir="$dir/$kind" \
                --add-metadata-string="xa.metadata=$(cat "$dir/$kind/metadata")
" -s "$kind" >/dev/null || return 1
        done
        echo 'writing the list of the repository'
        flatpak build-update-repo "$dir/runtime.part" || return 1
        mv -- "$dir/runtime.part" "$dir/runtime"
        rm -rf -- "$dir/Platform" "$dir/Sdk"
    fi
    [ ! -f "$dir/user/.installed" ] || return 0
    rm -rf -- "$dir/user"
    flatpak remote-add --user --no-gpg-verify runtime "file://$dir/runtime" || return 1
    for kind in Platform Sdk; do
        ref=$flatpak_runtime$kind//13
        flatpak install --user -y --noninteractive runtime "$ref" || return 1
    done
    touch "$dir/user/.installed"
}

# The checkout as flatpak-builder gets it: the files that git knows or would add, and the manifest for the stand-ins.
flatpak_stage() {
    local tree=$1
    rm -rf -- "$tree"
    mkdir -p -- "$tree"
    (cd -- "$top" && comm -z -23 <(git -c safe.directory='*' ls-files -co --exclude-standard -z | sort -zu) \
        <(git -c safe.directory='*' ls-files -d -z | sort -z) | tar -c --null -T -) | tar -x -C "$tree" || return 1
    flatpak_manifest | sed -e "s/^runtime: .*/runtime: ${flatpak_runtime}Platform/" -e "s/^sdk: .*/sdk: ${flatpak_runtime}Sdk/" \
        -e "s/^runtime-version: .*/runtime-version: '13'/" >"$tree/flatpak/$flatpak_id.yml"
}

flatpak_build() {
    local dir=$1 out=$2
    export FLATPAK_USER_DIR=$dir/user
    flatpak_runtime_install "$dir" || return 1
    flatpak_stage "$dir/tree" || return 1
    local offline=()
    [ ! -x /usr/lib/apt/apt-helper ] || offline=(--disable-download)
    flatpak-builder --user --disable-rofiles-fuse --force-clean --ccache --default-branch=stable "${offline[@]}" \
        --state-dir="$dir/state" --repo="$dir/app" "$dir/build" "$dir/tree/flatpak/$flatpak_id.yml" || return 1
    echo 'packing the bundle'
    flatpak build-bundle "$dir/app" "$out.part" "$flatpak_id" stable || return 1
    mv -- "$out.part" "$out"
}

cmd_flatpak() {
    local run=1 all='' dir out lock
    while [ $# -gt 0 ]; do
        case $1 in
            --no-run) run= ;;
            --all-users) all=1 ;;
            *) die "flatpak: unknown option '$1' (see ./dev help)" ;;
        esac
        shift
    done
    flatpak_fetch
    dir=$(flatpak_folder)
    touch -- "$dir"
    out=$top/build-flatpak/$flatpak_id.flatpak
    mkdir -p -- "$top/build-flatpak"
    exec {lock}>"$cache/flatpak.lock"
    flock "$lock"
    say 'building the bundle (the first time takes 10 minutes or more; later what has changed)'
    (logged "$top/build-flatpak/build.log" flatpak_build "$dir" "$out") || die "the bundle could not be built (see build-flatpak/build.log)" 1
    flock -u "$lock"
    exec {lock}>&-
    printf '%s\n' "$out" "$dir/runtime"
    if [ -n "$all" ]; then
        need_root 'installing for all users'
        as_root bash "$top/tools/dev/flatpak-all.sh" "$out" "$dir/runtime"
        return
    fi
    [ -z "$run" ] || flatpak_try "$out" "$dir/runtime"
}

# Installs and runs it as an ordinary user: this one, or where this is root, one who is there only for that.
flatpak_try() {
    if [ "$(id -u)" != 0 ]; then exec "$top/tools/dev/flatpak-try.sh" "$@"; fi
    local tmp status=0
    tmp=$(mktemp -d)
    chmod 755 "$tmp"
    bash "$top/tools/dev/as-user.sh" -b "$top=$tmp/src" -b "$2=$tmp/runtime" "$tmp/home" \
        bash "$tmp/src/tools/dev/flatpak-try.sh" "$tmp/src/build-flatpak/${1##*/}" "$tmp/runtime" || status=$?
    rm -rf --one-file-system -- "$tmp"
    return $status
}
