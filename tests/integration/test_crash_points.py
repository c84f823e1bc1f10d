"""A process that dies before, after or halfway through a call that changes a file, or whose call
fails: what there is afterwards is whole, the same command again works, nothing is left over, and
weights, rows, events and pictures are those of an undisturbed run.

    scripts/test --quick integration-crash_points      a fixed sample
    BROOD_CRASH_POINTS=all scripts/test ...            every point; `fork`: every point of fork;
                                                       `fork:7`: every seventh of them
    BROOD_CRASH_POINTS=fork/57/kill-half scripts/test ...    one
"""
import concurrent.futures
import errno
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time

import harness
from test_resume import tag_steps

ALONE = harness.BUILD / "tests" / "support" / "alone"
CALLS = harness.BUILD / "tests" / "support" / "calls"
PYTHON = "/usr/bin/python3"  # another one may lie where only its owner can read
WHICH, _, EVERY_NTH = os.environ.get("BROOD_CRASH_POINTS", "").partition(":")
ACTIONS = ("kill", "EIO", "kill-half", "ENOSPC", "kill-after")
CALLS_REFUSED = (97, 98, 99)  # of calls: late, processes left, or it could not do it
CONFIG = """\
run: {{name: r, seed: 2, env_steps: {steps}}}
env: {{id: simple_spread, copies: 4, max_steps: 10, params: {{agents: 2}}}}
experience: {{capacity: 100, batch_size: 16, warmup: 40, update_every: 20, keep: true}}
checkpoint: {{every_env_steps: 80, max_to_keep: 2}}
evaluation: {{every_env_steps: 80, episodes: 2, render: jsonl}}
log: {{every_env_steps: 80}}
defaults: {{actor: {{hidden: [4]}}, critic: {{hidden: [4]}}}}
"""
STUDY = "base: r.yaml\nsearch: {defaults.discount: [0.9, 0.95]}\n"
DRIVEN = """\
run: {name: d, seed: 2}
env: {id: none}
defaults: {algorithm: critic, optimizer: {learning_rate: 0.001}}
agents: {a: {observation: 2, action: 1}}
"""
RATE = "defaults.optimizer.learning_rate"


class Place(harness.Workplace):
    """A folder for one point."""

    def __init__(self, base):
        super().__init__()
        subprocess.run(["cp", "-a", "--sparse=always", f"{base}/.", self.path], check=True)

    def try_brood(self, *args, **more):
        """(exit code, stderr)"""
        p = self.start(*args, **more)
        p.wait(timeout=harness.DEADLINE_S)
        return p.returncode, p.log.read_text(errors="replace")

    def traced(self, args, *options):
        """brood under `calls`."""
        return self.start(*options, "--kinds", "change", "--", harness.BROOD, *args,
                          program=CALLS, env={"BROOD_DEBUG": "1"})


def contents(run):
    """All files of a run, without what depends on clocks and processes."""
    found = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if not path.is_file() or name.startswith("logs/") or name in ("lock", "control.sock"):
            continue
        if name in ("journal", "provenance"):
            found[name] = None
        elif name == "metrics/progress.csv":
            found[name] = harness.progress_without_times(run)
        elif ".tfevents." in name:
            found["events"] = sorted([*found.get("events", []), *tag_steps(path)[0]])
        else:
            found[name] = path.read_bytes()
    return found


def everything(folder):
    """The contents of each run in a folder; of studies, too; and what else there is."""
    found = {}
    for path in sorted(folder.iterdir()):
        if (path / "study.yaml").exists():
            inside = everything(path)
            found.update({f"{path.name}/{name}": what for name, what in inside.items()})
        elif path.is_dir():
            for name, what in contents(path).items():
                found[f"{path.name}/{name}"] = what
        else:
            found[path.name] = None
    return found


def told(place):
    """All that a user can read: what was printed, and the supervisors' logs."""
    return "".join(path.read_text(errors="replace") for path in (
        *place.path.glob("stderr-*"), *place.runs.rglob("logs/supervisor.log")))


def excused(place):
    """Parts of the names of files that may be missing, because brood said so and went on."""
    text = told(place)
    return [part for said, part in (("no checkpoint at step", "/checkpoints/"),
                                    (" not drawn: ", "/renders/")) if said in text]


def differences(want, found, but=()):
    """Lines that say which files are missing, are too many, or differ. but: parts of the names of
    those that may."""
    want, found = ({name: what for name, what in files.items()
                    if not any(part in name for part in but)} for files in (want, found))
    said = [f"missing: {name}" for name in want if name not in found]
    said += [f"not wanted: {name}" for name in found if name not in want]
    for name in want:
        if name in found and found[name] != want[name]:
            texts = "" if isinstance(want[name], bytes) else f": {want[name]} {found[name]}"
            said.append(f"differs: {name}{texts}")
    return said


def assert_whole(run):
    """A checkpoint exists whole or not at all."""
    for step in harness.checkpoints(run):
        folder = run / "checkpoints" / str(step)
        assert (folder / "run.state").exists() and len(list(folder.rglob("*.index"))) == 2, folder


def continued(place, name, again):
    """What a user does with a run after a death: resumes it, or repeats the command if there
    is nothing to resume."""
    run = place.runs / name
    if run.exists():
        assert_whole(run)
    if run.exists() and harness.checkpoints(run):
        place.brood("resume", name)
    else:
        place.brood(*again)


class Run:
    """A new run."""
    name, role, command, again, sample = \
        "run", "supervisor", ("run", "r.yaml", "--name", "r"), ("--force",), 24
    actions, ignored = ACTIONS, ()

    def prepare(self, w):
        w.write("r.yaml", CONFIG.format(steps=240))
        w.write("study.yaml", STUDY)

    def recover(self, place, code):
        continued(place, self.command[-1], (*self.command, *self.again))


class Resume(Run):
    """The rest of a run that was stopped; what it does not write again is there already."""
    name, command, sample = "resume", ("resume", "r"), 16

    def prepare(self, w):
        super().prepare(w)
        w.brood("run", "r.yaml", "--name", "r", "--until", "92", code=4)

    def recover(self, place, code):
        assert_whole(place.runs / "r")
        place.brood("resume", "r")


class Back(Resume):
    """A run that goes back to an older checkpoint."""
    name, command, sample = "back", ("resume", "r", "--from", "160"), 8

    def prepare(self, w):
        Run.prepare(self, w)
        w.brood("run", "r.yaml", "--name", "r")


class Fork(Run):
    name, command, again, sample = "fork", ("fork", "r@160", "--name", "f"), (), 16

    def prepare(self, w):
        super().prepare(w)
        w.brood("run", "r.yaml", "--name", "r")


class Prune(Fork):
    """Of a run with all its checkpoints; it can be resumed at any time."""
    name, role, command, sample = "prune", "command", ("prune", "r"), 6

    def prepare(self, w):
        Run.prepare(self, w)
        w.brood("run", "r.yaml", "--name", "r", "--set", "checkpoint.max_to_keep=0", "--set",
                "run.on_supervisor_death=resume")

    def recover(self, place, code):
        assert_whole(place.runs / "r")
        assert 240 in harness.checkpoints(place.runs / "r")
        place.brood(*self.command)


class Remove(Fork):
    """The next one removes what is left of the last one."""
    name, role, command, sample = "rm", "command", ("rm", "r"), 6

    def prepare(self, w):
        super().prepare(w)
        w.brood("run", "r.yaml", "--name", "other", "--until", "4", code=4)

    def recover(self, place, code):
        again, said = place.try_brood(*self.command)
        assert again in (0, 3), (again, said)
        place.brood("rm", "other")


class Tag(Fork):
    name, role, command, sample = "tag", "command", ("tag", "r", "good", "--note", "seen"), 5

    def recover(self, place, code):
        place.brood(*self.command)


class Sweep(Run):
    """It and its runs; the same command again finishes what there is."""
    name, role, command, sample = "sweep", "any", ("sweep", "study.yaml", "--jobs", "1"), 5
    actions = tuple(action for action in ACTIONS if "kill" in action)  # a trial may fail

    def recover(self, place, code):
        place.brood(*self.command)


class Driven(Run):
    """A run that clients checkpoint, change and stop: what was confirmed is there."""
    name, command, sample = "driven", ("run", "d.yaml", "--name", "d"), 12
    ignored = ("events", "progress.csv")  # a row for each stop

    def prepare(self, w):
        w.write("d.yaml", DRIVEN)

    def readies(self, run):
        journal = run / "journal"
        return journal.read_text().count("event=ready") if journal.exists() else 0

    def wait_for_agent(self, p, run, n):
        """Until it was ready more than n times, or the run is over. The line that says so may be the
        one that could not be written."""
        harness.wait_until("the agent", lambda: p.poll() is not None or (
            (self.readies(run) > n or any("journal: cannot write" in log.read_text()
                                          for log in (run / "logs").glob("*"))) and
            (run / "control.sock").exists()))

    def play(self, place, p):
        run = place.runs / "d"
        place.codes = []
        self.wait_for_agent(p, run, 0)
        for words in (("checkpoint", "d"), ("set", "d", f"{RATE}=0.5"), ("checkpoint", "d"),
                      ("stop", "d")):
            place.codes.append(place.try_brood(*words)[0])
        p.wait(timeout=harness.DEADLINE_S)

    def recover(self, place, code):
        run = place.runs / "d"
        saved, changed, saved_again, _ = place.codes
        for step in harness.checkpoints(run) if run.exists() else ():
            assert (run / "checkpoints" / str(step) / "run.state").exists()
        assert harness.checkpoints(run) or (saved, saved_again) != (0, 0)
        if not harness.checkpoints(run):
            shutil.rmtree(run, ignore_errors=True)
            self.play(place, place.start(*self.command))
        for times in range(2):
            n = self.readies(run)
            p = place.start("resume", "d")
            self.wait_for_agent(p, run, n)
            assert p.poll() is None, p.log.read_text()
            if changed == 0 or times == 1:
                assert "learning_rate: 0.5" in (run / "config.yaml").read_text()
            else:  # whether it was made or not, it can be made now
                place.brood("set", "d", f"{RATE}=0.5")
            place.brood("stop", "d")
            assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


SCENES = [scene() for scene in (Run, Resume, Back, Fork, Prune, Remove, Tag, Sweep, Driven)]


def play(scene, place, *options):
    p = place.traced(scene.command, *options)
    if hasattr(scene, "play"):
        scene.play(place, p)
    p.wait(timeout=harness.DEADLINE_S)
    return p


class Trial:
    """A scene, its folder, the calls it makes, and what there is at its end."""

    def __init__(self, w, scene):
        self.scene, self.base = scene, w.path / scene.name
        made = harness.Workplace()
        scene.prepare(made)
        made.path.rename(self.base)
        place = Place(self.base)
        counts, trace = place.path / "counts", place.path / "trace"
        p = play(scene, place, "--counts", counts, "--trace", trace)
        assert p.returncode in (0, 4), p.log.read_text()
        numbers = dict(line.rsplit(" ", 1) for line in counts.read_text().splitlines())
        self.n = int(numbers[f"{scene.role} change"]) if scene.role != "any" else \
            sum(map(int, numbers.values()))
        scene.recover(place, 0)
        self.want = everything(place.runs)
        place.close()

    def points(self):
        """All: every call and action; else a fixed sample, in which the actions take turns."""
        if WHICH.startswith(self.scene.name + "/"):
            _, k, action = WHICH.split("/")
            return [(self, int(k), action)]
        if WHICH not in ("", "all", self.scene.name):
            return []
        every = list(itertools.product(range(1, self.n + 1), self.scene.actions))
        if WHICH:
            return [(self, *point) for point in every[::int(EVERY_NTH or 1)]]
        n = self.scene.sample
        return [(self, 1 + (2 * i + 1) * self.n // (2 * n), self.scene.actions[i % len(self.scene.actions)])
                for i in range(n)]


def try_point(trial, k, action):
    """Returns what is wrong; None: nothing."""
    scene, place = trial.scene, Place(trial.base)
    report = place.path / "report"
    where = f"{scene.name}/{k}/{action}"
    try:
        p = play(scene, place, "--report", report, "--at",
                 f"{scene.role}/change/{k}/{action}")
        said = report.read_text().splitlines()
        where += f" {said[0] if said else ''}"
        if p.returncode in CALLS_REFUSED:
            raise AssertionError(f"calls: {p.returncode} {said} {p.log.read_text()}")
        error = getattr(errno, action, None)
        if error is not None:
            assert p.returncode in (0, 1, 4), p.returncode
            assert p.returncode != 1 or os.strerror(error) in told(place)
        else:
            assert p.returncode in (0, 4, 137), p.returncode
        scene.recover(place, p.returncode)
        said = differences(trial.want, everything(place.runs),
                           (*scene.ignored, *(excused(place) if error is not None else ())))
        assert not said, said
    except AssertionError as e:
        logs = [f"\n    {p.log.name}: {line}" for p in place.started
                for line in p.log.read_text(errors="replace").splitlines()[-3:]]
        return f"{where}: {str(e)[:1500]}{''.join(logs)}"
    finally:
        place.close()
    return None


def test_the_same_command_again_completes_what_a_death_or_failed_call_left(w):
    began, lock, done = time.monotonic(), threading.Lock(), {}
    trials = [Trial(w, scene) for scene in SCENES
              if WHICH in ("", "all") or WHICH.split("/")[0] == scene.name]
    points = [point for trial in trials for point in trial.points()]
    wrong = []

    def one(point):
        found = try_point(*point)
        with lock:
            done[point[0].scene.name] = done.get(point[0].scene.name, 0) + 1
            if found:
                wrong.append(found)
                print(f"# {found}".replace("\n", "\n# "), flush=True)

    with concurrent.futures.ThreadPoolExecutor(max(2, len(os.sched_getaffinity(0)))) as pool:
        list(pool.map(one, points))
    print("# points: " + ", ".join(
        f"{trial.scene.name} {done.get(trial.scene.name, 0)} of {trial.n * len(trial.scene.actions)}"
        for trial in trials) + f"; {time.monotonic() - began:.0f} s")
    assert not wrong, f"{len(wrong)} of {len(points)} points"


def begin_alone():
    """Executes this file in a PID namespace, as a user without processes; or skips it."""
    if subprocess.run([ALONE, "sh", "-c", 'cat "$0" "$1" > /dev/null', __file__, harness.BROOD],
                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                      check=False).returncode:
        print(f"1..0 # SKIP another user cannot read {harness.SOURCE} or {harness.BUILD}")
        sys.exit(0)
    os.environ["BROOD_ALONE"] = "1"
    os.execv(ALONE, [str(ALONE), PYTHON, os.path.abspath(__file__)])


if __name__ == "__main__":
    if "BROOD_ALONE" not in os.environ:
        begin_alone()
    harness.main()
