# setup.sh - functions for scripts/brood and scripts/test: install packages, configure, build.

# The packages' programs come first. A virtual environment, pyenv or conda may have a meson of
# another release, a pkg-config that looks for libraries elsewhere, or commands that only print
# an error; and a build folder names the meson that configured it, which may go with them.
path_of_caller=$PATH
PATH=/usr/bin:/bin:$PATH

# A|B stands for A, or for B where apt does not know A; A| for A where apt knows it.
packages=(gcc meson ninja-build pkg-config python3 libuv1-dev libsodium-dev
          libopenblas-serial-dev 'libmsgpack-c-dev|libmsgpack-dev' libyaml-dev
          librandom123-dev libisal-dev check libprotobuf-c-dev protobuf-c-compiler
          libcgif-dev libcairo2-dev fonts-dejavu-core libwebsockets-dev)

# is_installed A|B...: whether one of them is installed.
is_installed() {
    local p
    for p in ${1//|/ }; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] && return
    done
    return 1
}

# print_all_known A|B...: prints for each word the first of its names that apt knows; if it
# knows none, the last one, and nothing for A|.
print_all_known() {
    local word p known
    for word in "$@"; do
        known=${word##*|}
        for p in ${word//|/ }; do
            [ -n "$(apt-cache show "$p" 2>/dev/null)" ] && known=$p && break
        done
        [ -z "$known" ] || echo "$known"
    done
}

# need_packages NAME...: installs the packages that are missing; if it cannot, prints one
# line that names them, and exits.
need_packages() {
    local missing=() required=() p
    for p in "$@"; do
        is_installed "$p" || missing+=("$p")
    done
    [ ${#missing[@]} -eq 0 ] && return
    # Without a list of packages apt knows nothing, not even bash.
    [ -z "$(print_all_known 'bash|')" ] || [ -n "$(print_all_known "${missing[@]}")" ] || return 0
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        sudo=(sudo)
        if ! command -v sudo >/dev/null || ! { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
            for p in "${missing[@]}"; do
                [[ $p = *"|" ]] || required+=("$p")
            done
            [ ${#required[@]} -eq 0 ] && return
            echo "brood needs these packages: apt-get install" \
                "$(print_all_known "${required[@]}" | xargs)" >&2
            exit 1
        fi
    fi
    local log
    log=$(mktemp)
    "${sudo[@]}" apt-get update >"$log" 2>&1 </dev/null || true # apt-get install says why
    mapfile -t missing < <(print_all_known "${missing[@]}")
    [ ${#missing[@]} -eq 0 ] && rm -f "$log" && return
    echo "brood: installing ${missing[*]}" >&2
    if ! DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y \
        --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null; then
        tail -n 5 "$log" >&2
        rm -f "$log"
        echo "brood needs these packages: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    rm -f "$log"
}

# print_sanitizers: the package of the compiler's sanitizers if it is a clang, which has them apart.
print_sanitizers() {
    { ${CC:-cc} --version 2>/dev/null || true; } |
        sed -n 's/.*clang version \([0-9]*\).*/libclang-rt-\1-dev|/p'
}

# is_of_others DIR: whether only another user can build there.
is_of_others() {
    if [ -d "$1" ]; then
        [ ! -w "$1" ] || { [ -e "$1/.lock" ] && [ ! -w "$1/.lock" ]; }
    else
        [ ! -w "$(dirname "$1")" ]
    fi
}

# use_built DIR: for a checkout of another user, who alone can build there. If there is no
# program that we may execute, prints one line, and exits.
use_built() {
    local dir=$1 owner newer
    owner=$(stat -c %U "$dir" 2>/dev/null || stat -c %U "$root")
    if [ ! -x "$dir/supervisor/brood" ] || [ ! -x "$dir/agent/brood-agent" ]; then
        echo "brood: $root belongs to $owner and is not built: $owner runs scripts/brood" \
            "there, or you clone it" >&2
        exit 1
    fi
    newer=$(find "$root/agent" "$root/common" "$root/supervisor" -name '*.[ch]' \
        -newer "$dir/supervisor/brood" -print -quit 2>/dev/null || true)
    if [ -n "$newer" ]; then
        echo "brood: $dir belongs to $owner and is older than the sources" >&2
    fi
}

# build DIR PRESET [TARGET...]: configures if there is no build folder, then runs ninja. A
# lock admits one builder at a time. Without targets, tests follow, which meson refuses to run in
# a folder that another release of it has configured: such a folder is configured again.
build() {
    local dir=$1 preset=$2 log how=
    shift 2
    mkdir -p "$dir"
    exec 9>"$dir/.lock"
    flock 9
    log=$dir/build.log
    if [ ! -f "$dir/build.ninja" ]; then
        how=setup
    elif [ $# -eq 0 ] && ! grep -qF "\"full\": \"$(meson --version)\"" \
        "$dir/meson-info/meson-info.json"; then
        how='setup --reconfigure'
    fi
    if [ -n "$how" ]; then
        echo "brood: configuring $(basename "$dir")" >&2
        if ! meson $how "$dir" "$root" --native-file "$root/scripts/presets/$preset.ini" \
            ${CI:+--werror} >"$log" 2>&1 9>&-; then
            tail -n 20 "$log" >&2
            exit 1
        fi
    fi
    if ! ninja -C "$dir" -n "$@" 2>/dev/null 9>&- | grep -q 'no work to do'; then
        echo "brood: building $(basename "$dir")" >&2
        if ! ninja -C "$dir" "$@" >"$log" 2>&1 9>&-; then
            grep -E 'error|FAILED|undefined' "$log" | head -n 20 >&2
            echo "brood: the build failed; all of it is in $log" >&2
            exit 1
        fi
    fi
    exec 9>&-
}

# build_cross DIR TARGET...: builds brood-agent and its tests for arm64. If apt cannot fetch
# the libraries, prints one line and builds nothing.
build_cross() {
    local dir=$1 log=$1/build.log
    shift
    mkdir -p "$dir"
    if ! "$root/scripts/cross_sysroot.sh" "$dir/sysroot" >"$log" 2>&1; then
        echo "brood: no libraries for arm64: $(tail -n 1 "$log")" >&2
        return
    fi
    if [ ! -f "$dir/build.ninja" ]; then
        echo "brood: configuring $(basename "$dir")" >&2
        printf "[constants]\nsysroot = '%s'\n" "$(realpath "$dir/sysroot")" \
            >"$dir/sysroot.ini"
        if ! meson setup "$dir" "$root" --cross-file "$dir/sysroot.ini" \
            --cross-file "$root/scripts/presets/aarch64.ini" ${CI:+--werror} >"$log" 2>&1; then
            tail -n 20 "$log" >&2
            exit 1
        fi
    fi
    echo "brood: building $(basename "$dir")" >&2
    if ! ninja -C "$dir" "$@" >"$log" 2>&1; then
        grep -E 'error|FAILED|undefined' "$log" | head -n 20 >&2
        echo "brood: the build for arm64 failed; the whole output is in $log" >&2
        exit 1
    fi
}
