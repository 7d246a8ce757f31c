# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# Part of ./dev: what this machine is, its packages, and on an older Debian the Debian 13 root that stands in for it.
# Uses $top, $cache, $models, say and die of ./dev.

suite=trixie # the Debian release of the root
packages_file=$top/tools/dev/packages

# package_names COLUMN [USE]: the names of column 1 (Debian) or 2 (Fedora), all or those that a use of column 3 takes.
package_names() {
    awk -v c="$1" -v use="${2:-}" '!/^#/ && NF >= c && $c != "-" && (use == "" || index("," $3 ",", "," use ",")) { print $c }' "$packages_file"
}

# The names that a command of ./dev takes. `shot` is `run` and a display.
package_names_for() {
    case $2 in
        run | exec) package_names "$1" run ;;
        shot) package_names "$1" run && package_names "$1" shot ;;
        flatpak) package_names "$1" flatpak ;;
        *) package_names "$1" ;;
    esac
}

# A value of /etc/os-release.
os_value() { (
    # shellcheck disable=SC1091
    . /etc/os-release 2>/dev/null
    eval "printf '%s' \"\${$1:-}\""
); }

at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# native: build here. root: in a Debian root. Anything else ends with what is needed.
system_kind() {
    local id version
    id=$(os_value ID)
    version=$(os_value VERSION_ID)
    if [ -n "${AQ_DEV_NATIVE:-}" ]; then
        echo native
    elif [ "$id" = debian ] && { [ -z "$version" ] || at_least "$version" 13; }; then
        echo native
    elif [ "$id" = debian ]; then
        echo root
    elif [ "$id" = ubuntu ] && at_least "$version" 25.04; then
        echo native
    elif [ "$id" = fedora ] && at_least "$version" 42; then
        echo native
    else
        say "this system ($id $version) is not one that ./dev can prepare: it knows Debian, Ubuntu 25.04 or newer, Fedora 42 or newer"
        die "with GTK 4.18, libadwaita 1.7, meson and the rest of tools/dev/packages installed, use: AQ_DEV_NATIVE=1 ./dev …"
    fi
}

# need_root WHAT: ends with a message when this user cannot become root. As it may ask for a password, sudo is asked first; but `sudo -v` asks
# even who needs none where one of several rules wants it, as on PCs of a cloud whose users have no password at all.
need_root() {
    [ "$(id -u)" != 0 ] || return 0
    command -v sudo >/dev/null || die "$1 needs root: install sudo, or run ./dev as root"
    sudo -n true 2>/dev/null || sudo -v || die "$1 needs root, and sudo refused"
    root_asked=1
}

# Runs a command as root, after need_root.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n -- "$@"
    fi
}

# Output of a long step goes to a log, whose last line with words is shown twice a minute. What sudo was told is kept from growing old
# meanwhile: what comes behind the step would be refused, or ask again while nobody looks.
beat_s=30 root_asked=
watched() {
    local log=$1 rc=0 beat
    shift
    # Ends by the end of its input: when the step is done, or this shell is gone.
    exec {beat}> >(while read -rt "$beat_s" || [ $? -gt 128 ]; do
        say "… $(tail -n 20 -- "$log" 2>/dev/null | awk '/[[:alnum:]]/ { line = $0 } END { print line != "" ? line : "at work" }' | cut -c 1-100)"
        [ -z "$root_asked" ] || sudo -n true 2>/dev/null || true
    done)
    (exec {beat}>&- && "$@") </dev/null >"$log" 2>&1 || rc=1
    exec {beat}>&-
    return $rc
}

# A step whose failure is the end of it: that of its log is shown then.
logged() {
    watched "$@" && return
    tail -n 25 -- "$1" >&2
    return 1
}

apt_install() {
    mkdir -p -- "$cache"
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@")
    # A new system has no lists yet, and old ones name what is there no more: no fault that anybody has to read about.
    watched "$cache/install.log" as_root "${install[@]}" && return
    say 'trying again with fresh package lists'
    if ! logged "$cache/install.log" as_root apt-get update || ! logged "$cache/install.log" as_root "${install[@]}"; then
        die "could not install: $* (see $cache/install.log)"
    fi
}

# Installs what is missing on this machine for a command of ./dev.
system_packages() {
    [ -z "${AQ_DEV_NATIVE:-}" ] || return 0
    local want=() missing=() p
    if command -v dpkg-query >/dev/null; then
        mapfile -t want < <(package_names_for 1 "$1")
        mapfile -t missing < <(comm -23 <(printf '%s\n' "${want[@]}" | sort) \
            <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null | awk '$1 == "installed" { print $2 }' | sort -u))
        [ ${#missing[@]} -gt 0 ] || return 0
        need_root "installing ${missing[*]}"
        say "installing ${#missing[@]} packages: ${missing[*]}"
        apt_install "${missing[@]}"
    else
        mapfile -t want < <(package_names_for 2 "$1")
        for p in "${want[@]}"; do
            rpm -q --quiet --whatprovides "$p" 2>/dev/null || missing+=("$p")
        done
        [ ${#missing[@]} -gt 0 ] || return 0
        need_root "installing ${missing[*]}"
        say "installing ${#missing[@]} packages: ${missing[*]}"
        mkdir -p -- "$cache"
        logged "$cache/install.log" as_root dnf install -y "${missing[@]}" ||
            die "could not install: ${missing[*]} (see $cache/install.log)"
    fi
}

# What ./dev model fetches by: pip, or venv that brings it.
model_tools() {
    [ "$(system_kind)" = native ] && [ -z "${AQ_DEV_NATIVE:-}" ] || return 0
    if python3 -m pip --version >/dev/null 2>&1 || python3 -c 'import ensurepip, venv' 2>/dev/null; then return 0; fi
    need_root 'installing python3-pip, by which the model is fetched'
    say 'installing python3-pip, by which the model is fetched'
    if command -v dpkg-query >/dev/null; then
        apt_install python3-pip
    else
        mkdir -p -- "$cache"
        logged "$cache/install.log" as_root dnf install -y python3-pip || die "could not install python3-pip (see $cache/install.log)"
    fi
}

# --- the Debian root --------------------------------------------------------------------------------------------

root_path() {
    local hash
    hash=$({ echo "$suite 1" && package_names 1 | sort; } | sha256sum)
    printf '%s/root-%s' "$cache" "${hash:0:12}"
}

# The mirror that this machine's own apt uses for Debian's main archive; nothing when it cannot be told.
apt_mirror() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        awk -v r="$(os_value VERSION_CODENAME)" '$2 == r && $3 == "main" && $1 ~ /^https?:/ { print $1; exit }'
}

# The mirror of Debian to make a root from; nothing for mmdebstrap's own choice.
debian_mirror() {
    [ -z "${AQ_MIRROR:-}" ] || { printf '%s' "$AQ_MIRROR" && return; }
    [ "$(os_value ID)" != debian ] || apt_mirror
}

# Proxy and certificate settings of this machine's apt, which hold for a root too.
apt_network_settings() { apt-config dump 2>/dev/null | grep -E '^Acquire::(https?|Check-Valid-Until|Check-Date)\b' || true; }

# debian_tree FOLDER LOG VARIANT PACKAGES [OPTION…]: a tree of packages of $suite, by mmdebstrap. FOLDER lies in the cache and is renamed when
# whole; what was left half-made there goes first.
debian_tree() {
    local folder=$1 log=$2 variant=$3 packages=$4 mirror conf=$cache/apt.conf opts=() part
    shift 4
    if ! command -v mmdebstrap >/dev/null; then
        say 'installing mmdebstrap'
        apt_install mmdebstrap
    fi
    for part in "${folder%-*}"-*.part; do
        [ ! -d "$part" ] || as_root rm -rf --one-file-system -- "$part"
    done
    mirror=$(debian_mirror)
    apt_network_settings >"$conf"
    [ ! -s "$conf" ] || opts+=(--aptopt="$conf")
    logged "$log" as_root mmdebstrap --variant="$variant" --mode=root --components=main "${opts[@]}" \
        --aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' "$@" --include="$packages" "$suite" "$folder" ${mirror:+"$mirror"} && return
    as_root rm -rf --one-file-system -- "$folder"
    die "could not make a tree of Debian's packages (the end of $log is above; is there a network?)" 1
}

# Makes the root if it is not there. It is made under another name and renamed when whole; who comes second waits.
root_make() {
    local root part lock
    root=$(root_path)
    [ ! -d "$root" ] || return 0
    need_root 'this Debian is older than 13, so the build runs in a Debian 13 root; making it'
    mkdir -p -- "$cache"
    exec {lock}>"$cache/root.lock"
    flock -n "$lock" || {
        say 'waiting for another ./dev that is making the Debian root'
        flock "$lock"
    }
    if [ ! -d "$root" ]; then
        say "making a Debian 13 root with the build packages in $root (once; 2 to 5 minutes, 2 GB)"
        part=$root.part
        debian_tree "$part" "$cache/root.log" apt "$(package_names 1 | paste -sd,)"
        as_root mv -- "$part" "$root"
        # Roots that no ./dev has entered for two months.
        find "$cache" -maxdepth 1 -type d -name 'root-????????????' -mtime +60 -print0 | as_root xargs -0r rm -rf --one-file-system --
    fi
    flock -u "$lock"
    exec {lock}>&-
}

# root_enter COMMAND CMD…: runs CMD in the root instead of this shell. `exec` stays one process, so that signals and the
# exit status are its own; the others get a process namespace, so that nothing they start outlives them.
root_enter() {
    local command=$1 root parent args=() v p git_dir
    shift
    root=$(root_path)
    parent=$(dirname -- "$top")
    [ "$parent" != / ] || parent=$top
    args=(-r "$root" -d "$PWD" -u "$(id -u):$(id -g)")
    git_dir=$(git -C "$top" rev-parse --path-format=absolute --git-common-dir 2>/dev/null) || git_dir=
    mkdir -p -- "$cache" "$models"
    for p in "$HOME" "$parent" "$top" "$git_dir" "$cache" "$models" /tmp "${XDG_RUNTIME_DIR:-}" /run/dbus; do
        if [ -n "$p" ] && [ -d "$p" ] && [ "$p" != / ]; then args+=(-b "$(readlink -f -- "$p")"); fi
    done
    while IFS= read -r v; do
        args+=(-e "$v=${!v}")
    done < <(compgen -e | grep -E '^(AQ_|CCACHE_|ASAN_|UBSAN_|TSAN_|LSAN_|G_|GTK_|GDK_|GSK_|XDG_)|^(CI|TERM|NO_COLOR|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|DBUS_SESSION_BUS_ADDRESS)$')
    touch -c -- "$root" 2>/dev/null || true
    local how=(unshare --mount --propagation private)
    [ "$command" = exec ] || how+=(--pid --fork --kill-child)
    local as=()
    if [ "$(id -u)" != 0 ]; then
        need_root 'this Debian is older than 13, so the build runs in a Debian 13 root; entering it'
        as=(sudo --)
    fi
    exec "${as[@]}" "${how[@]}" bash "$top/tools/dev/enter.sh" "${args[@]}" -e "HOME=$(readlink -f -- "$HOME")" -e AQ_DEV_INSIDE=1 \
        -e "AQ_MODEL_DIR=$(readlink -f -- "$models")" -- "$@"
}
