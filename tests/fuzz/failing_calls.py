#!/usr/bin/env python3
"""Let single system calls of brood fail, and see what is left.

    tests/fuzz/failing_calls.py [--count N | --every | --part I/N] [--seed S] [--jobs J] [--words WORD...]
                                [--lasting]
    tests/fuzz/failing_calls.py --only SCENARIO/ROLE/KIND/K/ERRNO... [--say]

Counts the calls that short runs, a resume, a fork, a sweep, a stop and others make, of each kind
in each kind of process (tests/support/calls.c). A case lets one of them fail with an errno that
it may give. A case fails when

    - a process ends by a signal or hangs, or one that was started is left;
    - the exit code is none for this, or the message has not the form `brood WORD: ...`;
    - the command says that all went well, and its run has other bytes than one where nothing
      failed;
    - the run cannot be resumed, or a resume ends with other bytes;
    - any process outside dies: this one would.

--count takes a fixed sample, of each kind at least one; --every all cases, hours on two cores;
--part 2/20 the second of twenty parts of them, each of which is such a sample; --words only cases
whose names contain all the words. The last line reads `N cases, N failed`.
Needs root: it starts itself anew in a PID namespace of its own, as a user without processes
(tests/support/alone.h), or prints why it cannot.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import mutate

ROOT = mutate.ROOT
BUILD = mutate.default_build()
BROOD = BUILD / "supervisor" / "brood"
ALONE = BUILD / "tests" / "support" / "alone"
CALLS = BUILD / "tests" / "support" / "calls"
PYTHON = "/usr/bin/python3"  # another one may lie where only its owner can read
LIMIT_S = 60
LATE, LEFT, REFUSED = 98, 99, 97  # exit codes of calls

RUN = """
run: {name: a, seed: 3, env_steps: 400}
env: {id: simple_spread, copies: 4, params: {agents: 2}}
experience: {capacity: 2000, batch_size: 16, warmup: 100, update_every: 40, keep: true}
evaluation: {every_env_steps: 200, episodes: 2}
checkpoint: {every_env_steps: 200}
log: {every_env_steps: 100}
defaults: {actor: {hidden: [8]}, critic: {hidden: [8]}}
"""
STUDY = """
base: run.yaml
search: {defaults.discount: [0.9, 0.95]}
metric: {column: rollout/team_return/agent, last: 2}
"""
# The errnos that calls of a kind may give. Not here: epoll_ctl and epoll_wait, of which libuv
# aborts the process (it says where; the run is resumed); memory, of which a small piece that
# cannot be had ends a process by design, is in MEMORY; EINTR of reads and writes, since no handler
# of brood interrupts them. What is read from and written to pipes and sockets fails as the other
# end ends, which other tests see.
DISK = ["EIO", "ENOSPC"]
ERRORS = {
    "fork": ["EAGAIN", "ENOMEM"],
    "exec": ["ENOMEM", "EACCES"],
    "pidfd": ["EMFILE", "ENOMEM"],
    "setrlimit": ["EPERM"],
    "affinity": ["EINVAL"],
    "pipe": ["EMFILE", "ENFILE"],
    "socket": ["EMFILE", "ENOBUFS"],
    "bind": ["EADDRINUSE", "ENOSPC"],
    "listen": ["EADDRINUSE"],
    "connect": ["ECONNREFUSED", "EAGAIN"],
    "accept": ["EMFILE", "ECONNABORTED"],
    "send": ["ENOBUFS"],
    "recv": ["ENOMEM"],
    "epoll_create": ["EMFILE"],
    "epoll_wait": ["EINTR"],
    "poll": ["EINTR", "ENOMEM"],
    "eventfd": ["EMFILE"],
    "timerfd": ["EMFILE"],
    "signalfd": ["EMFILE"],
    "inotify": ["EMFILE", "ENOSPC"],
    "dup": ["EMFILE"],
    "memfd_create": ["EMFILE", "ENOMEM"],
    "create": ["EMFILE", "EACCES", *DISK],
    "openat": ["EMFILE", "ENFILE", "EIO"],
    "read": ["EIO"],
    "pread": ["EIO"],
    "getdents": ["EIO"],
    "stat": ["EIO"],
    "write": DISK,
    "pwrite": DISK,
    "copy": DISK,
    "fsync": DISK,
    "fdatasync": ["EIO"],
    "ftruncate": DISK,
    "fallocate": ["ENOSPC", "EOPNOTSUPP"],
    "lock": ["ENOLCK"],
    "rename": ["EACCES", *DISK],
    "unlink": ["EIO", "EACCES"],
    "mkdir": ["EACCES", *DISK],
    "link": ["EIO", "ENOSPC"],
    "chmod": ["EPERM", "EIO"],
    "utimens": ["EPERM"],
}
THREADS = {"thread": ["EAGAIN"]}
MEMORY = {"mmap": ["ENOMEM"], "mprotect": ["ENOMEM"]}
BY_DESIGN = re.compile(r"out of memory|error while loading shared libraries|cannot allocate memory|"
                       r"cannot allocate TLS data",
                       re.I)

# How a line begins that says what went wrong.
LINE = re.compile(r"(\d+-s\d+: )?(brood[ :-]|agent |\d{4}-\S+Z error |no checkpoint (at|of) step |"
                  r"\S+: `brood |\S+: whether its |\S+\.yaml:|  )")

Case = collections.namedtuple("Case", "scenario role kind k error")


def name_of(case):
    return "/".join(map(str, case))


def case_of(name):
    scenario, role, kind, k, error = name.split("/")
    return Case(scenario, role, kind, int(k), error)


class Failure(Exception):
    pass


def final(run, with_state=True):
    """What must be equal: the final checkpoint, and progress.csv without its times."""
    steps = [int(p.name) for p in (run / "checkpoints").iterdir() if p.name.isdigit()]
    newest = run / "checkpoints" / str(max(steps, default=0))
    files = {str(p.relative_to(newest)): p.read_bytes()
             for p in sorted(newest.rglob("*"))
             if p.is_file() and (with_state or p.name != "run.state")}
    lines = (run / "metrics" / "progress.csv").read_text().splitlines()
    keep = [i for i, name in enumerate(lines[0].split(",")) if not name.startswith("time/")]
    files["progress.csv"] = [[line.split(",")[i] for i in keep] for line in lines]
    return newest.name, files


def difference(now, calm):
    """Why two results of final() are not the same; None if they are."""
    if now[0] != calm[0]:
        return f"its newest checkpoint is {now[0]}, not {calm[0]}"
    if now[1].keys() != calm[1].keys():
        return f"it has the files {sorted(now[1].keys() ^ calm[1].keys())} or has them not"
    for name, data in now[1].items():
        if data != calm[1][name]:
            return f"{name} differs"
    return None


class Scenario:
    """A command, the folder that it needs, and the runs that it is to end with."""

    def __init__(self, words, made=(), runs=("a",), codes=(0, 1), resumes=True, same_state=True):
        self.words, self.made, self.runs, self.codes = words, made, runs, codes
        self.resumes = resumes  # what it leaves can be resumed; if not, it is repeated
        self.same_state = same_state  # run.state has no path of the case


BEGIN = ["run", "run.yaml", "--name", "a", "-q"]
SCENARIOS = {
    "run": Scenario(BEGIN),
    "detached": Scenario([*BEGIN, "--detach"]),
    "resume": Scenario(["resume", "a", "-q"], made=["half"]),
    "fork": Scenario(["fork", "a@200", "--name", "b", "-q"], made=["done"], runs=("b",)),
    "sweep": Scenario(["sweep", "study.yaml", "--name", "s", "-q"], runs=("s/1-s1", "s/2-s1")),
    # A run that stops itself at a checkpoint, once; if that fails, it goes on to its end.
    "stop": Scenario([*BEGIN, "--set", "run.env_steps=1200", "--set",
                      "on.checkpoint=[sh, -c, '[ ! -e $BROOD_RUN_DIR/checkpoints/200 ] || "
                      f"! mkdir $BROOD_RUN_DIR/../stopped || exec {BROOD} stop $BROOD_RUN_DIR']"],
                     codes=(0, 1, 4), same_state=False),
    "eval": Scenario(["eval", "a", "--episodes", "2", "-q"], made=["done"], resumes=False),
    "prune": Scenario(["prune", "a"], made=["done"], resumes=False),
    "rm": Scenario(["rm", "a"], made=["done"], runs=(), resumes=False),
    "status": Scenario(["status", "a", "--json"], made=["done"], resumes=False),
}


class Tries:
    def __init__(self, folder, say, lasting):
        self.folder, self.say, self.lasting = folder, say, lasting
        self.environment = {k: v for k, v in os.environ.items()
                            if k not in ("BROOD_RUNS_DIR", "BROOD_MARK")}
        self.environment["HOME"] = str(folder)
        self.environment["BROOD_DEBUG"] = "1"  # so that calls can look into the processes
        self.outcomes = collections.Counter()
        self.messages = collections.defaultdict(set)
        self.made, self.calm = {}, {}
        self.make()

    # ---- what scenarios begin with, and end with ----

    def make(self):
        """A run that is done, and one that was killed halfway."""
        place = self.place("done")
        self.must(place, ["run", "run.yaml", "--name", "a", "-q"])
        self.made["done"] = place
        half = self.place("half")
        shutil.copytree(place / "runs", half / "runs", symlinks=True)
        self.stop_halfway(half)
        self.made["half"] = half
        for name, s in SCENARIOS.items():
            place = self.place(f"calm-{name}", s)
            code, text, _ = self.call(place, s, ["--counts", place / "counts"])
            if code not in (0, *s.codes[2:]):
                sys.exit(f"{name}: exit code {code}\n{text}")
            if code:
                self.must(place, ["resume", "a", "-q"])
            self.calm[name] = {run: self.final(s, place / "runs" / run) for run in s.runs}

    def stop_halfway(self, place):
        """Kills a run, all of its processes at once, when its second checkpoint of three is
        committed."""
        shutil.rmtree(place / "runs")
        run = [BROOD, "run", "run.yaml", "--name", "a", "-q"]
        subprocess.run([CALLS, "--kinds", "rename", "--trace", place / "trace", "--", *run],
                       cwd=place, env=self.environment, check=True)
        shutil.rmtree(place / "runs")
        found = re.search(r"supervisor \w+ (\d+) \d+ rename \.tmp-200$",
                          (place / "trace").read_text(), re.M)
        p = subprocess.run([CALLS, "--at", f"supervisor/rename/{found[1]}/kill-after", "--all",
                            "--", *run], cwd=place, env=self.environment,
                           capture_output=True, text=True)
        steps = sorted(p for p in os.listdir(place / "runs" / "a" / "checkpoints"))
        if steps != ["0", "200"]:
            sys.exit(f"the run was not killed halfway, but with the checkpoints {steps}: {p.stderr}")

    def place(self, name, scenario=None):
        place = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        (place / "run.yaml").write_text(RUN)
        (place / "study.yaml").write_text(STUDY)
        for made in scenario.made if scenario else ():
            subprocess.run(["cp", "-a", "--sparse=always", self.made[made] / "runs", place],
                           check=True)
        return place

    def must(self, place, words):
        p = self.brood(place, words)
        if p.returncode:
            sys.exit(f"brood {' '.join(words)}: exit code {p.returncode}\n{p.stderr}")

    def brood(self, place, words):
        return subprocess.run([BROOD, *words], cwd=place, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S,
                              errors="replace")

    def call(self, place, scenario, options):
        """Runs a scenario's command under calls; exit code, what it wrote, and the report."""
        p = subprocess.run([CALLS, *options, "--within", str(LIMIT_S), "--report",
                            place / "report", "--", BROOD, *scenario.words],
                           cwd=place, env=self.environment, text=True, errors="replace",
                           stdin=subprocess.DEVNULL, capture_output=True)
        return p.returncode, p.stderr, (place / "report").read_text()

    @staticmethod
    def final(scenario, run):
        return final(run, scenario.same_state)

    # ---- cases ----

    def counts(self, name):
        place = next(self.folder.glob(f"calm-{name}-*"))
        for line in (place / "counts").read_text().splitlines():
            role, kind, n = line.split()
            yield role, kind, int(n)

    def cases(self, kinds):
        for name in SCENARIOS:
            for role, kind, n in sorted(self.counts(name)):
                if role in ("other", "new") and kind not in ("fork", "exec"):
                    continue
                if (role, kind) == ("command", "exec"):
                    continue  # then there is no brood
                for k in range(1, n + 1):
                    for error in kinds.get(kind, ()):
                        # of one connection; a wait that nothing ever ends
                        if not (self.lasting and error in ("ECONNABORTED", "EINTR")):
                            yield Case(name, role, kind, k, error)

    def one(self, case):
        """Play a case; the text of its failure, or None."""
        s = SCENARIOS[case.scenario]
        place = self.place("case", s)
        try:
            self.play(case, s, place)
            return None
        except Failure as e:
            return f"{name_of(case)}: {e}"
        except (subprocess.SubprocessError, OSError) as e:
            return f"{name_of(case)}: {e!r}"
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def play(self, case, s, place):
        k = f"{case.k}+" if self.lasting else case.k
        point = f"{case.role}/{case.kind}/{k}/{case.error}"
        code, text, report = self.call(place, s, ["--at", point])
        hit = next((line for line in report.splitlines() if line.startswith("at ")), "")
        if self.say:
            print(f"exit code {code}\n{text}{report}", end="")
        what = f"{hit}\n{text}{report}"
        if code == LATE:
            raise Failure(f"not over within {LIMIT_S} s\n{what}")
        if code == LEFT:
            raise Failure(f"processes are left\n{what}")
        if code == REFUSED:
            raise Failure(f"calls: {what}")
        self.outcomes[case.kind, code if hit else "not reached"] += 1
        if hit and code:
            self.messages[case.kind, case.error].add(re.sub(r"\d+", "N", text.strip()))
        if code not in s.codes and BY_DESIGN.search(text):
            code = 1
        elif code == 134 and case.kind == "pipe" and not self.lasting:
            code = 1  # libuv's first pipe, after brood has tried whether there are any
        elif code in (2, 3) and case.error in ("EACCES", "EPERM"):
            code = 1  # so it is said of what the user named
        elif code not in s.codes:
            raise Failure(f"exit code {code}\n{what}")
        elif code == 1:
            self.check_message(text, what)
        self.check_runs(case, s, place, code, what)

    @staticmethod
    def check_message(text, what):
        lines = text.splitlines()
        if not lines:
            raise Failure(f"exit code 1 without a message\n{what}")
        for line in lines:
            if not LINE.match(line):
                raise Failure(f"a line of another form\n{what}")

    def check_runs(self, case, s, place, code, what):
        if "--detach" in s.words and code == 0:  # then the run itself may have failed
            code = self.brood(place, ["wait", "a"]).returncode
        for run in s.runs:
            path = place / "runs" / run
            if code == 0 and re.search(r"^\d+-s\d+: ", what, re.M):
                continue  # one of its trials has failed
            if path.exists() and code:
                self.again(case, s, place, run, what)
            elif code == 0:
                self.compare(case, s, place, run, "it went well", what)

    def compare(self, case, s, place, run, when, what):
        why = difference(self.final(s, place / "runs" / run), self.calm[case.scenario][run])
        if why:
            raise Failure(f"{when}, but of {run} {why}\n{what}")

    def again(self, case, s, place, run, what):
        """Resumes what has failed, or repeats it."""
        path = place / "runs" / run
        words = ["resume", run, "-q"]
        if not s.resumes or case.scenario == "sweep":
            words = s.words
        p = self.brood(place, words)
        if p.returncode == 4:  # it has stopped itself only now
            p = self.brood(place, words)
        if self.say:
            print(f"brood {' '.join(words)}: exit code {p.returncode}\n{p.stderr}", end="")
        what = f"{what}brood {' '.join(words)}: exit code {p.returncode}\n{p.stderr}"
        if p.returncode and (self.has_checkpoint(path) or case.scenario == "sweep"):
            raise Failure(f"it fails again\n{what}")
        if p.returncode:
            return
        self.compare(case, s, place, run, "a resume went well", what)
        left = [str(f.relative_to(path)) for f in path.rglob("*")
                if ".tempstate" in f.name or f.name.startswith((".tmp-", ".del-"))]
        if left:
            raise Failure(f"a resume leaves {left}\n{what}")

    @staticmethod
    def has_checkpoint(run):
        folder = run / "checkpoints"
        return folder.is_dir() and any(p.name.isdigit() for p in folder.iterdir())


def sample(cases, n, seed):
    """n of the cases: of each scenario, kind of process and kind of call in turn."""
    rng = random.Random(seed)
    groups = collections.defaultdict(list)
    for case in cases:
        groups[case.role, case.kind].append(case)
    for group in groups.values():
        rng.shuffle(group)
    order = sorted(groups)
    chosen = []
    while order and len(chosen) < n:
        for key in list(order):
            if len(chosen) < n and groups[key]:
                chosen.append(groups[key].pop())
            if not groups[key]:
                order.remove(key)
    return chosen


def alone():
    """Starts this program anew where things may fail."""
    if os.environ.get("BROOD_ALONE"):
        return
    probe = subprocess.run([ALONE, "sh", "-c", 'cat "$0" "$1" > /dev/null', __file__, BROOD],
                           capture_output=True, text=True)
    if probe.stdout or probe.returncode:
        print(probe.stdout or f"1..0 # SKIP another user cannot read {BUILD}: {probe.stderr}")
        sys.exit(0)
    os.execv(ALONE, [str(ALONE), PYTHON, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="so many cases (300)")
    parser.add_argument("--every", action="store_true", help="all cases")
    parser.add_argument("--part", metavar="I/N", help="every Nth case from the Ith on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="these cases alone")
    parser.add_argument("--words", nargs="*", default=[], help="only cases with these in their names")
    parser.add_argument("--say", action="store_true", help="show what the commands write")
    parser.add_argument("--messages", action="store_true", help="show each message once")
    parser.add_argument("--list", action="store_true", help="show how many cases there are")
    parser.add_argument("--kinds", default="errors",
                        help="errors, threads or memory: which kinds of calls")
    parser.add_argument("--lasting", action="store_true",
                        help="every call of the kind in such processes fails from then on")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    alone()
    kinds = {"errors": ERRORS, "threads": THREADS, "memory": MEMORY}[args.kinds]
    with tempfile.TemporaryDirectory(prefix="brood-calls-", ignore_cleanup_errors=True) as folder:
        tries = Tries(pathlib.Path(folder), args.say, args.lasting)
        cases = [case for case in tries.cases(kinds)
                 if all(word in name_of(case) for word in args.words)]
        if args.list:
            for key, n in sorted(collections.Counter((c.scenario, c.role, c.kind)
                                                     for c in cases).items()):
                print(*key, n)
        if args.only:
            cases = [case_of(name) for name in args.only]
        elif args.part:
            first, step = map(int, args.part.split("/"))
            cases = sample(cases, len(cases), args.seed)[first - 1::step]
        elif not args.every:
            cases = sample(cases, args.count, args.seed)
        failed = 0
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for text in pool.map(tries.one, [] if args.list else cases):
                if text:
                    failed += 1
                    print(f"FAILED {text}", flush=True)
        for (kind, code), times in sorted(tries.outcomes.items(), key=str):
            print(f"{kind:12} exit code {code}: {times}")
        if args.messages:
            for key, texts in sorted(tries.messages.items()):
                print(*key)
                for text in sorted(texts):
                    print("    " + text.replace("\n", "\n    "))
        print(f"{len(cases)} cases, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
