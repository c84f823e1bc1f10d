#!/usr/bin/env python3
"""Check that clang-format 14 would not change any C file. Other versions break lines
elsewhere.

    check_format.py SOURCE_DIR

Skipped (exit code 77) if clang-format 14 is not installed. To format a file:
clang-format-14 -i FILE.
"""
import pathlib
import re
import subprocess
import sys

SKIP = 77
VERSION = 14
FOLDERS = ("common", "agent", "supervisor", "tests")


def find_clang_format():
    """The command of the right version; None if there is none."""
    for command in (f"clang-format-{VERSION}", "clang-format"):
        try:
            p = subprocess.run([command, "--version"], capture_output=True, text=True,
                               check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        if re.search(rf"version {VERSION}\.", p.stdout):
            return command
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    command = find_clang_format()
    if command is None:
        print(f"1..0 # SKIP clang-format {VERSION} is not installed")
        return SKIP
    files = sorted(str(f) for top in FOLDERS for f in (root / top).rglob("*.[ch]"))
    print(f"{len(files)} files", flush=True)
    return subprocess.run([command, "--dry-run", "--Werror", *files],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
