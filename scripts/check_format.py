#!/usr/bin/env python3
"""Check that clang-format would not change any C file.

    check_format.py SOURCE_DIR

Skipped (exit code 77) if clang-format is not installed. To format a file:
clang-format -i FILE.
"""
import pathlib
import shutil
import subprocess
import sys

SKIP = 77
FOLDERS = ("common", "agent", "supervisor", "tests")


def main():
    root = pathlib.Path(sys.argv[1])
    if not shutil.which("clang-format"):
        print("1..0 # SKIP clang-format is not installed")
        return SKIP
    files = sorted(str(f) for top in FOLDERS for f in (root / top).rglob("*.[ch]"))
    print(f"{len(files)} files", flush=True)
    return subprocess.run(["clang-format", "--dry-run", "--Werror", *files],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
