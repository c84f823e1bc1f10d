#!/usr/bin/env python3
"""Check that every header compiles alone.

    check_headers.py SOURCE_DIR COMPILER [FLAG...]
"""
import concurrent.futures
import pathlib
import subprocess
import sys

FOLDERS = ("common", "agent", "supervisor", "tests")


def compile_alone(root, compiler, header):
    """The compiler's complaints; empty when there are none."""
    p = subprocess.run([*compiler, "-std=c17", "-D_GNU_SOURCE", "-Wall", "-Werror",
                        "-I", str(root), "-fsyntax-only", "-x", "c",
                        "-include", str(header), "/dev/null"],
                       capture_output=True, text=True, check=False)
    return p.stderr if p.returncode else ""


def main():
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
    headers = sorted(h for top in FOLDERS for h in (root / top).rglob("*.h"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda h: compile_alone(root, compiler, h), headers))
    print("".join(said), end="")
    print(f"{len(headers)} headers, {sum(map(bool, said))} do not compile alone")
    return 1 if any(said) or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
