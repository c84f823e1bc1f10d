#!/usr/bin/env python3
"""Measure what a sweep itself takes: processor time of `brood sweep`, with its view on a
terminal, against that of the runs that it starts, for each method.

    BROOD_BUILD_DIR=build tests/bench/sweep_overhead.py
"""
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BROOD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")) / "supervisor" / "brood"
GOAL = 0.01
STUDY = """\
base: {base}
search: {{defaults.optimizer.learning_rate: {{log_uniform: [0.0003, 0.03]}}}}
method: {method}
{trials}
"""
METHODS = {
    "random": ("random", "trials: 3"),
    "asha": ("{asha: {rungs: [6400, 19200], keep: 0.5}}", "trials: 4"),
    "pbt": ("{pbt: {population: 4, interval: 9600, rounds: 2}}", ""),
}


def drain(fd):
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass  # its last writer is gone


def sweep(folder, study):
    """Seconds of the sweep and of its runs. A process that has ended but was not waited for
    still has its times."""
    master, slave = pty.openpty()
    p = subprocess.Popen([BROOD, "sweep", study, "--runs-dir", folder / "runs", "--jobs", "2"],
                         stdout=subprocess.DEVNULL, stderr=slave,
                         env=dict(os.environ, TERM="xterm"))
    os.close(slave)
    threading.Thread(target=drain, args=(master,), daemon=True).start()
    ended = os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
    assert ended.si_code == os.CLD_EXITED and ended.si_status == 0, ended
    stat = pathlib.Path(f"/proc/{p.pid}/stat").read_text()
    times = [int(x) / os.sysconf("SC_CLK_TCK") for x in stat[stat.rindex(")") + 2:].split()[11:15]]
    p.wait()
    return times[0] + times[1], times[2] + times[3]


def main():
    shares = {}
    with tempfile.TemporaryDirectory(prefix="brood-bench-") as place:
        base = pathlib.Path(place) / "base.yaml"
        base.write_text(f"extends: {ROOT}/configs/simple_spread.yaml\nrun: {{env_steps: 19200}}\n")
        for name, (method, trials) in METHODS.items():
            study = pathlib.Path(place) / f"{name}.yaml"
            study.write_text(STUDY.format(base=base, method=method, trials=trials))
            own, runs = sweep(pathlib.Path(place), study)
            shares[name] = own / runs
            print(f"{name}: the sweep {own:.2f} s, its runs {runs:.2f} s: {own / runs:.2%}",
                  file=sys.stderr)
    print(json.dumps({"bench": "sweep_overhead", "share": shares, "goal": GOAL}))
    return any(share > GOAL for share in shares.values())


if __name__ == "__main__":
    sys.exit(main())
