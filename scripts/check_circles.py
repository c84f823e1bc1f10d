#!/usr/bin/env python3
"""Check that no files of agent/ call each other in a circle.

    check_circles.py SOURCE_DIR [BUILD_DIR [NM]]

A file uses another if its object refers to a symbol that the other's object defines: what the
linker sees, whatever the headers say. So agent/ can be read file by file, each after those that
it uses. BUILD_DIR (SOURCE_DIR/build) has the objects and compile_commands.json; NM (nm) lists
their symbols. The circles of the folders in COUNTED are only counted.
"""
import collections
import json
import pathlib
import subprocess
import sys

CHECKED = "agent"
COUNTED = ["common", "supervisor"]


def objects(root, build):
    """Of each C source in the checked and counted folders, the objects made from it."""
    found = collections.defaultdict(list)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        directory = pathlib.Path(entry["directory"])
        source = (directory / entry["file"]).resolve()
        if source.is_relative_to(root):
            source = source.relative_to(root)
            if source.parts[0] in [CHECKED, *COUNTED]:
                found[str(source)].append(directory / entry["output"])
    return found


def uses(files, nm):
    """{file: {file that it uses: names}}"""
    of = {str(o): file for file, made in files.items() for o in made}
    listing = subprocess.run([nm, "-A", "-P", *of], check=True, capture_output=True, text=True)
    definer, wanted = {}, collections.defaultdict(set)
    for line in listing.stdout.splitlines():
        path, symbol = line.split(": ", 1)
        name, kind = symbol.split()[:2]
        if kind == "U":
            wanted[of[path]].add(name)
        elif kind.isupper():
            definer[name] = of[path]
    ret = {file: collections.defaultdict(set) for file in files}
    for file, names in wanted.items():
        for name in names:
            if definer.get(name, file) != file:
                ret[file][definer[name]].add(name)
    return ret


def reached(edges, first):
    """All files that `first` uses, directly or not, each with the file before it on a shortest
    way."""
    before, todo = {}, collections.deque([first])
    while todo:
        file = todo.popleft()
        for other in sorted(edges[file]):
            if other not in before:
                before[other] = file
                todo.append(other)
    return before


def circles(edges):
    """The sets of files that all use each other, directly or not."""
    reach = {file: reached(edges, file) for file in edges}
    found = {tuple(sorted(other for other in reach[file] if file in reach[other]))
             for file in edges if file in reach[file]}
    return sorted(found)


def example(edges, circle):
    """A shortest way from the first file of the circle back to it, as text."""
    before = reached(edges, circle[0])
    way = [circle[0]]
    while len(way) == 1 or way[-1] != circle[0]:
        way.append(before[way[-1]])
    way.reverse()
    return "; ".join(f"{a} uses {', '.join(sorted(edges[a][b])[:3])} of {b}"
                     for a, b in zip(way, way[1:]))


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    build = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "build"
    files = objects(root, build)
    missing = [o for made in files.values() for o in made if not o.is_file()]
    if missing or not files:
        print(f"{build} is not built: {missing[0] if missing else 'no objects'}")
        return 1
    edges = uses(files, sys.argv[3] if len(sys.argv) > 3 else "nm")
    faults = []
    for top in [CHECKED, *COUNTED]:
        inside = {f: {o: n for o, n in to.items() if o.startswith(top + "/")}
                  for f, to in edges.items() if f.startswith(top + "/")}
        found = circles(inside)
        print(f"{top}: {len(inside)} files, {len(found)} circles of "
              f"{sum(map(len, found))} files")
        if top == CHECKED:
            faults += [f"a circle of {len(c)} files: {example(inside, c)}"
                       for c in found]
            if sum(map(len, inside.values())) < 500:
                faults.append("too few uses were found: the symbols were not read")
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
