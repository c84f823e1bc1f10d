#!/bin/bash
# cross_sysroot.sh - unpacks the arm64 libraries that brood-agent links into a folder.
#
#     scripts/cross_sysroot.sh DIR
#
# apt downloads the packages as an arm64 machine would, which takes some seconds. They are
# unpacked, not installed: the script needs no root and changes nothing outside the folder.
# A complete folder is left unchanged.
set -euo pipefail
dir=$(realpath -m "$1")
. "$(dirname "$0")/setup.sh"
packages=(libc6-dev $(print_all_known 'libmsgpack-c-dev|libmsgpack-dev') libyaml-dev libisal-dev
          libprotobuf-c-dev libopenblas-serial-dev librandom123-dev check)
wanted="$(. /etc/os-release && echo "$VERSION_CODENAME") ${packages[*]}"
[ "$(cat "$dir/.whole" 2>/dev/null)" = "$wanted" ] && exit
rm -rf "$dir"
mkdir -p "$dir/.apt/lists/partial" "$dir/.apt/cache/archives/partial"
: >"$dir/.apt/status"
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64
     -o Dir::State::Lists="$dir/.apt/lists" -o Dir::State::Status="$dir/.apt/status"
     -o Dir::Cache="$dir/.apt/cache" -o APT::Sandbox::User= -o Debug::NoLocking=1)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends --download-only "${packages[@]}" >/dev/null
for deb in "$dir"/.apt/cache/archives/*.deb; do
    case ${deb##*/} in
    libboost*) ;; # only msgpack's C++ headers need it
    *) dpkg-deb -x "$deb" "$dir" ;;
    esac
done
# Where packages have moved from /lib to /usr/lib, the C library's linker scripts and programs
# still name /lib.
[ -e "$dir/lib" ] || ln -s usr/lib "$dir/lib"
rm -rf "$dir/.apt" "$dir/usr/share"
echo "$wanted" >"$dir/.whole"
