#!/bin/sh
# install_man.sh MANDIR: installs the manual pages of the build folder; meson runs it.
set -eu
case $1 in
/*) to=${DESTDIR:-}$1 ;;
*) to=$MESON_INSTALL_DESTDIR_PREFIX/$1 ;;
esac
for page in "$MESON_BUILD_ROOT"/man/*.[15]; do
    section=${page##*.}
    mkdir -p "$to/man$section"
    install -m 644 "$page" "$to/man$section/"
done
