#!/bin/bash
# build_wheel.sh [DIR]: builds brood as programs without shared libraries, which run on any
# x86-64 Linux from kernel 5.10 on, and leaves in DIR (default: the current folder)
#     brood-VERSION-py3-none-manylinux_2_17_x86_64.….whl   for pip: programs, configurations and
#                                                          the Python package
#     brood-VERSION-linux-x86_64.tar.gz                    the same without pip: bin/brood
#
# Debian has no static archives of three of the libraries: they are built from Debian's sources,
# which are fetched with `apt-get source`, or found in the folder $BROOD_SOURCES as
# NAME-VERSION.tar.* or NAME_VERSION.orig.tar.*.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
to=$(readlink -f "${1:-.}")
. "$root/scripts/setup.sh"
need_packages "${packages[@]}" autoconf automake cmake dpkg-dev libtool nasm python3-pip \
    python3-setuptools python3-wheel

dir=$root/build-static
prefix=$dir/prefix
mkdir -p "$dir/sources"

# source_of NAME: the path of its source archive.
source_of() {
    local at found
    for at in "${BROOD_SOURCES:-}" "$dir/sources"; do
        found=$(compgen -G "$at/${1}[-_][0-9]*.tar.*" | grep -v debian.tar | head -n 1) || continue
        echo "$found"
        return
    done
    (
        cd "$dir/sources"
        mkdir -p lists
        apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
            'Created-By: Packages' | sort -u | grep -i -e debian -e ubuntu >list
        apt=(-o "Dir::Etc::SourceList=$PWD/list" -o Dir::Etc::SourceParts=/dev/null
            -o "Dir::State::Lists=$PWD/lists" -o "Dir::Cache=$PWD/lists")
        apt-get "${apt[@]}" update
        apt-get "${apt[@]}" source --download-only "$1"
    ) >"$dir/$1.log" 2>&1 || {
        echo "brood: apt-get source $1 failed ($(tail -n 1 "$dir/$1.log")): put its archive into" \
            "a folder and name that in BROOD_SOURCES" >&2
        exit 1
    }
    compgen -G "$dir/sources/${1}_[0-9]*.orig.tar.*"
}

# build_library NAME COMMAND...: unpacks its sources and runs the commands there.
build_library() {
    local name=$1 archive
    shift
    [ ! -e "$dir/$name.done" ] || return 0
    archive=$(source_of "$name")
    rm -rf "${dir:?}/$name"
    mkdir "$dir/$name"
    tar -C "$dir/$name" --strip-components=1 -xf "$archive"
    echo "brood: building $(basename "$archive")" >&2
    if ! (cd "$dir/$name" && for command in "$@"; do eval "$command" || exit 1; done) \
        >"$dir/$name.log" 2>&1; then
        tail -n 5 "$dir/$name.log" >&2
        echo "brood: $name cannot be built; the whole output is in $dir/$name.log" >&2
        exit 1
    fi
    touch "$dir/$name.done"
}

build_library libisal 'autoreconf -fi' \
    './configure --prefix="$prefix" --enable-static --disable-shared' 'make -j2 install'
build_library cgif 'meson setup made --prefix "$prefix" --libdir lib -Dtests=false \
    --default-library static --buildtype release' 'ninja -C made install'
# A server without TLS, whose loop is libuv's.
build_library libwebsockets 'cmake -B made -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_BUILD_TYPE=Release -DLWS_WITH_SHARED=OFF -DLWS_WITH_STATIC=ON -DLWS_WITH_SSL=OFF \
    -DLWS_WITH_LIBUV=ON -DLWS_WITH_EVLIB_PLUGINS=OFF -DLWS_WITHOUT_TESTAPPS=ON \
    -DLWS_WITHOUT_CLIENT=ON -DLWS_WITHOUT_EXTENSIONS=ON -DLWS_WITH_HTTP2=OFF -DDISABLE_WERROR=ON' \
    'make -C made -j2 install'

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
build "$dir/brood" static programs supervisor/man.stamp
for program in supervisor/brood agent/brood-agent supervisor/web/brood-web \
    supervisor/serve/brood-serve; do
    if readelf -l "$dir/brood/$program" | grep -q INTERP; then
        echo "brood: $program needs shared libraries" >&2
        exit 1
    fi
done

# The same bits as from every other build of these sources.
BROOD_BUILD_DIR=$dir/brood python3 "$root/tests/golden/hashes.py"

installed=$dir/installed
rm -rf "$installed"
meson install -C "$dir/brood" --no-rebuild --strip --quiet --destdir "$installed" >/dev/null
tree=$installed/usr/local
mkdir -p "$tree/share/brood/fonts" "$tree/share/doc/brood"
cp /usr/share/fonts/truetype/dejavu/DejaVuSans{,-Bold}.ttf "$tree/share/brood/fonts/"
cp "$root/LICENSE" "$tree/share/doc/brood/"
for package in libc6 libuv1-dev libsodium-dev libopenblas0-serial libyaml-dev libcgif-dev \
    libprotobuf-c-dev libisal-dev libcairo2-dev libfreetype-dev libwebsockets-dev zlib1g-dev \
    'libmsgpack*-dev' fonts-dejavu-core; do
    for text in /usr/share/doc/$package/copyright; do
        [ ! -e "$text" ] || { echo "==== ${text#/usr/share/doc/}" && cat "$text"; }
    done
done >"$tree/share/doc/brood/copyrights"

version=$("$tree/bin/brood" --version | awk 'NR == 1 { print $2 }')
name=brood-$version-linux-x86_64
rm -rf "$installed/$name"
cp -a "$tree" "$installed/$name"
tar -C "$installed" --owner=0 --group=0 --sort=name --mtime="@${SOURCE_DATE_EPOCH:-0}" \
    -czf "$to/$name.tar.gz" "$name"
echo "built $name.tar.gz"
python3 "$root/scripts/pack_wheel.py" "$root/scripts/python" "$tree" "$to"
