#!/usr/bin/env python3
"""Check that no compiler flag, pragma or attribute allows changed arithmetic results.

    check_flags.py SOURCE_DIR BUILD_DIR

Every C file must be compiled with -ffp-contract=off and without the flags of -ffast-math
that change values, and no source file may enable those by a pragma or an attribute.
"""
import json
import pathlib
import re
import sys

FOLDERS = ("common", "agent", "supervisor", "tests")
CHANGES_VALUES = re.compile(
    r"(fast-math|unsafe-math-optimizations|associative-math|reciprocal-math|"
    r"finite-math-only|Ofast)\b")
ASKS = re.compile(r"(#\s*pragma|optimize\s*\().*")


def faults_of_commands(build):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        command = re.sub(r"-fno-\S+", "", entry["command"])
        for m in CHANGES_VALUES.finditer(command):
            yield f"{entry['file']}: compiled with {m.group()}"
        if "-ffp-contract=off" not in command:
            yield f"{entry['file']}: compiled without -ffp-contract=off"


def faults_of_sources(root):
    for file in sorted(f for top in FOLDERS for f in (root / top).rglob("*.[ch]")):
        for n, line in enumerate(file.read_text().splitlines(), 1):
            asked = ASKS.search(line)
            if asked and CHANGES_VALUES.search(asked.group()):
                yield f"{file}:{n}: {line.strip()}"


def main():
    root, build = map(pathlib.Path, sys.argv[1:3])
    faults = [*faults_of_commands(build), *faults_of_sources(root)]
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
