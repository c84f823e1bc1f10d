#!/bin/bash
# build_deb.sh [DIR]: builds the Debian package of this checkout and leaves it in DIR (default:
# the current folder). Needs debhelper; lintian checks the package where it is installed.
# dpkg-buildpackage expects debian/ at the top of the sources: a copy of them gets it there.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
to=$(readlink -f "${1:-.}")
. "$root/scripts/setup.sh"
need_packages "${packages[@]}" debhelper dpkg-dev

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/brood"
for part in meson.build supervisor agent common tests configs scripts README.md CHANGES.md \
    LICENSE .clang-format; do
    cp -a "$root/$part" "$work/brood/"
done
find "$work/brood" -name __pycache__ -prune -exec rm -rf {} +
mv "$work/brood/scripts/debian" "$work/brood/debian"
(cd "$work/brood" && dpkg-buildpackage -b -us -uc)
if command -v lintian >/dev/null; then
    lintian --fail-on error "$work"/brood_*.changes
fi
cp "$work"/brood_*.deb "$to/"
echo "built $(cd "$to" && ls brood_*.deb)"
