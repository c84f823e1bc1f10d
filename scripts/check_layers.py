#!/usr/bin/env python3
"""Check that includes follow the one-way order of folders.

    check_layers.py SOURCE_DIR

A folder includes itself and what stands left of it in ORDER; folders joined by `|` do
not include each other. The files at the root of `agent` and `supervisor` wire their
folders together: they include anything of theirs, and none of the folders includes
them. Nothing but tests includes tests. Includes of the project are written from the
root of the source, in quotes.
"""
import pathlib
import re
import sys

ORDER = {
    "common": "text err mem log io confine numerics rng wire tensor ckpt config msg store".split(),
    "agent": "graph|kernels ops vars plan flow session saver nn algo loop plugin".split(),
    "supervisor": "describe chan trace net proc ask env export store node metrics render rollout events save rundir begin run diff control study facts page cli|web serve".split(),
}
PLACE = {top: {name: i for i, names in enumerate(order) for name in names.split("|")}
         for top, order in ORDER.items()}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def split(path):
    """("common", "err") for common/err/err.h; ("agent", None) for agent/main.c."""
    return path.parts[0], path.parts[1] if len(path.parts) > 2 else None


def written(target):
    """The source of a generated header: protoc-c makes x.pb-c.h from x.proto."""
    return pathlib.PurePath(str(target).replace(".pb-c.h", ".proto"))


def fault(root, source, target):
    """Why `source` must not include `target`; None if it may."""
    top, folder = split(source)
    to_top, to_folder = split(target)
    if not (root / written(target)).is_file():
        return "is not a file of the project, named from its root"
    if to_top not in (top, "common"):
        return f"is outside {top} and common"
    if folder is None:
        return None
    if folder not in PLACE[top]:
        return f"is included by {top}/{folder}, which has no place in the order"
    if to_top != top:
        return None
    if to_folder is None:
        return f"wires {top} together: no folder includes it"
    if to_folder != folder and \
            PLACE[top].get(to_folder, len(PLACE[top])) >= PLACE[top][folder]:
        return f"does not stand left of {top}/{folder}"
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    files = sorted(f for top in ORDER for f in (root / top).rglob("*.[ch]"))
    faults = 0
    for file in files:
        for n, line in enumerate(file.read_text().splitlines(), 1):
            m = INCLUDE.match(line)
            if not m:
                continue
            source = file.relative_to(root)
            text = fault(root, source, pathlib.PurePath(m.group(1)))
            if text:
                print(f"{source}:{n}: {m.group(1)} {text}")
                faults += 1
    print(f"{len(files)} files, {faults} includes against the order")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
