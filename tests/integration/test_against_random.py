"""tests/bench/against_random.py: its arithmetic, and a table in small."""
import os
import subprocess
import sys

import harness

BENCH = harness.SOURCE / "tests" / "bench"
sys.path.insert(0, str(BENCH))
import against_random  # noqa: E402  (found by the line above)

SMALL = ["run.env_steps=600", "env.copies=4", "experience.warmup=100",
         "experience.batch_size=64", "evaluation.every_env_steps=0"]


def seed(chance, trained, error, rules=None):
    return (chance, error), (trained, error), rules


def test_a_gain_and_its_error(w):
    row = against_random.row
    # Episodes: sqrt(2) / sqrt(2) seeds; between the seeds: none.
    line, reached = row("push", ["agent"], [seed(-10, -7, 1), seed(-12, -9, 1)])
    assert line == "| push | agent | -11.0 | -8.0 | +3.0 ± 1.0 |  |" and reached, line
    # Gains of 1 and 5: a deviation of sqrt(8), over sqrt(2).
    line, reached = row("push", ["agent"], [seed(0, 1, 0.1), seed(0, 5, 0.1)])
    assert line == "| push | agent | 0.0 | 3.0 | +3.0 ± 2.0 |  |" and not reached, line
    line, reached = row("crypto", ["bob", "alice"], [seed(2, 1, 0.1)])
    assert line == "| crypto | bob and alice | 2.0 | 1.0 | -1.0 ± 0.1 |  |", line
    assert not reached


def test_the_way_to_the_rules(w):
    for trained, way, enough in ((-16, "60 %", True), (-16.2, "59 %", False)):
        line, reached = against_random.row("spread", ["agent"],
                                           [seed(-28, trained, 0.1, -8)])
        assert line.endswith(f"| {way} (-8.0) |") and reached == enough, line


def test_the_table_in_small(w):
    sets = [word for s in SMALL for word in ("--set", s)]
    done = subprocess.run(
        [sys.executable, BENCH / "against_random.py", "simple_speaker_listener",
         "simple_push", "--seeds", "2", "--episodes", "100", *sets],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=w.path,
        env={**os.environ, "BROOD_BIN": str(harness.BROOD)},
        timeout=harness.DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines[2:5]]
    assert [c[:2] for c in cells] == [["simple_speaker_listener", "speaker and listener"],
                                      ["simple_push", "adversary"],
                                      ["simple_push", "agent"]], cells
    assert abs(float(cells[0][2]) + 42.2) < 10, cells[0]  # the reference's own
    for c in cells:
        gain, error = (float(x) for x in c[4].split("±"))
        assert abs(float(c[3]) - float(c[2]) - gain) < 0.11 and error > 0, c
    assert cells[0][5].endswith(")") and "%" in cells[0][5] and cells[1][5] == ""
    assert lines[5] == "" and lines[6].startswith("Not 2 standard errors"), lines[5:]
    unknown = subprocess.run([sys.executable, BENCH / "against_random.py", "simpel"],
                             stderr=subprocess.PIPE, text=True, check=False)
    assert unknown.returncode == 2 and "no world simpel" in unknown.stderr


if __name__ == "__main__":
    harness.main()
