"""A hostile neighbour in a folder of runs: one run of each kind of damage, which belongs to
another user if this is root. Every command answers within seconds, whatever it finds.

Of each damaged run a few commands are asked, in turn; with BROOD_NEIGHBOUR_ALL=1 all of them.
"""
import os
import time

import damaged_runs
import harness

LIMIT_S = 5
EACH = 1 if harness.SANITIZED else 2  # commands about a run; what they wait for takes its seconds
ALL = bool(os.environ.get("BROOD_NEIGHBOUR_ALL"))
ABOUT_A_RUN = (("status",), ("status", "--json"), ("logs",), ("tag",), ("prune", "--dry-run"),
               ("report",), ("eval", "--episodes", "1"), ("replay",), ("wait",),
               ("set", "run.env_steps=7"), ("stop",), ("trace",), ("attach",))
# The others wait for what a run does, as long as it lives.
ABOUT_A_LIVE_RUN = ABOUT_A_RUN[:8]
ABOUT_ALL = (("runs", "--json"), ("runs",), ("prune", "--dry-run"), ("status",),
             ("complete", "--", "brood", "status", ""), ("logs",), ("status", "base"),
             ("tag", "base"), ("runs", "--where", "env=simple_spread"), ("report", "base"))


class Times:
    """How long commands took, and which took too long."""

    def __init__(self, w):
        self.w, self.all, self.slow = w, [], []

    def measure(self, *command):
        """stdout and stderr of the command, whatever its exit code."""
        began = time.monotonic()
        p = self.w.start(*command)
        limit_s = harness.allowed_s(LIMIT_S)
        try:
            p.wait(timeout=limit_s)
        except harness.subprocess.TimeoutExpired:
            p.kill()
            p.wait()
            self.slow.append(command)
        self.all.append((time.monotonic() - began, " ".join(map(str, command))))
        assert p.returncode in (0, 1, 2, 3, 4, -9), (command, p.returncode)
        err = p.log.read_text(errors="replace")
        assert "Sanitizer" not in err and "runtime error" not in err, (command, err)
        return harness.output(p), err

    def end(self):
        assert not self.slow, self.slow
        print("# longest:", *(f"{s:.1f} s {name};" for s, name in sorted(self.all)[:-4:-1]))


def of_each(times, names, commands, n):
    """Ask of each run n of the commands."""
    for i, name in enumerate(names):
        for k in range(len(commands) if ALL else n):
            command = commands[(i * n + k) % len(commands)]
            times.measure(command[0], name, *command[1:])


def ask_about_all(times, names):
    for command in ABOUT_ALL if ALL else ABOUT_ALL[:7]:
        out, err = times.measure(*command)
        if command == ("runs", "--json"):
            runs = {r["run"]: r for r in harness.json_lines(out)}
            assert runs["base"]["state"] == "done", runs["base"]
            assert runs["base"]["tags"] == ["paper"], runs["base"]
            assert {runs[n]["state"] for n in names if n.startswith("live-")} == \
                {"not answering"}, runs
            assert {runs[f"{kind}-journal"]["state"] for kind in ("huge", "folder", "fifo")} == \
                {"unreadable"}, runs
            assert os.geteuid() != 0 or "of other users were not read whole" in err, err


def test_every_command_beside_damaged_runs(w):
    w.brood("run", w.small(steps=100, evaluate=100, checkpoint=100), "--name", "base")
    (w.run_dir("base") / "tags").write_text("tag: paper\n")
    names, pretenders = damaged_runs.make(w.runs, w.run_dir("base"))
    try:
        times = Times(w)
        ask_about_all(times, names)
        live = [n for n in names if n.startswith("live-")]
        of_each(times, live, ABOUT_A_LIVE_RUN, EACH)
        of_each(times, [n for n in names if n not in live], ABOUT_A_RUN, EACH)
        for name in ("huge-tags", "huge-journal", "wide-and-long", "fifo-lock"):
            for command in ABOUT_A_RUN[:1 if harness.SANITIZED else 5]:
                times.measure(command[0], name, *command[1:])
        times.end()
    finally:
        for p in pretenders:
            p.close()


if __name__ == "__main__":
    harness.main()
