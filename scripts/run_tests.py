#!/usr/bin/env python3
"""Run meson's tests in one or more build folders and count the single checks.

    run_tests.py BUILD_DIR... -- [TEST_NAME...]

Every TAP line of a test program counts as one check; a program without TAP counts as
one. A failed program shows its failed checks, each with the beginning of what follows it; one
without such checks shows the end of what it printed. The last line is
`N passed, N failed` (`, N skipped` where there are any); exit code 1 if one failed.
"""
import compileall
import json
import os
import pathlib
import re
import subprocess
import sys

TAP_LINE = re.compile(r"^(not )?ok\b(.*)$")
SHOWN_LINES, SHOWN_BYTES = 40, 2000  # of a failed check, of one of its lines


def count(test):
    """(passed, failed, skipped) of one entry of testlog.json."""
    passed = failed = skipped = 0
    for line in (test.get("stdout") or "").splitlines():
        m = TAP_LINE.match(line)
        if not m:
            continue
        if re.search(r"#\s*skip", m.group(2), re.I):
            skipped += 1
        elif m.group(1):
            failed += 1
        else:
            passed += 1
    if test["result"] == "SKIP":
        return passed, failed, max(skipped, 1)
    if test["result"] in ("OK", "EXPECTEDFAIL"):
        return (passed or (0 if skipped else 1)), failed, skipped
    return passed, max(failed, 1), skipped


def skip_reasons(test):
    out = test.get("stdout") or ""
    for line in out.splitlines():
        m = re.search(r"#\s*SKIP\w*\s*(.*)", line, re.I)
        if m:
            yield m.group(1)


def lines_of_failure(test):
    out, err = ((test.get(name) or "").splitlines() for name in ("stdout", "stderr"))
    blocks, block = [], None
    for line in out:
        m = TAP_LINE.match(line)
        if m:
            block = [] if m.group(1) and not re.search(r"#\s*skip", m.group(2), re.I) else None
            blocks += [] if block is None else [block]
        if block is not None and len(block) < SHOWN_LINES:
            block.append(line)
    lines = sum(blocks, []) if blocks else (out + err)[-SHOWN_LINES:]
    return [line[:SHOWN_BYTES] for line in lines]


def run(build, names):
    # Many tests wait for processes more than half of their time, and all of them hold on a busy
    # machine.
    jobs = 2 * len(os.sched_getaffinity(0)) + 2
    log = pathlib.Path(build) / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    subprocess.run(["meson", "test", "-C", build, "--no-rebuild",
                    "--num-processes", str(jobs), *names],
                   stdout=sys.stderr, check=False)
    if not log.exists():
        sys.exit(f"run_tests.py: no test of {build} is named {' or '.join(names)}; "
                 f"`meson test -C {build} --list` lists them")
    return [json.loads(line) for line in log.read_text().splitlines()]


def main():
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    builds, names = sys.argv[1:cut], sys.argv[cut + 1:]
    # Hundreds of processes import the package; agents, and some machines, keep nothing compiled.
    for folder in ("scripts/python/brood", "tests/integration", "tests/python", "tests/support"):
        compileall.compile_dir(pathlib.Path(__file__).parent.parent / folder, quiet=2)
    passed = failed = skipped = 0
    for build in builds:
        print(f"== {pathlib.Path(build).name}", flush=True)
        for test in run(build, names):
            p, f, s = count(test)
            passed, failed, skipped = passed + p, failed + f, skipped + s
            if f:
                print(f"FAILED {test['name']} ({test['result']})")
                print("\n".join("    " + line for line in lines_of_failure(test)))
            for reason in skip_reasons(test):
                print(f"skipped {test['name']}: {reason}")
    tail = f", {skipped} skipped" if skipped else ""
    print(f"{passed} passed, {failed} failed{tail}")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
