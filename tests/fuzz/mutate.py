#!/usr/bin/env python3
"""Damage the files that commands read, and check how the commands react.

    tests/fuzz/mutate.py [--count N | --minutes M] [--seed S] [--jobs J]

Each case copies a run (one stopped halfway, or one that is done), damages one of its files
with a few random edits and starts a command that reads it. A case fails when

    - a process ends by a signal, with an exit code that the command line does not have, or
      with a sanitizer's report;
    - a command takes longer than a minute;
    - `resume` succeeds, claims to be exact, and ends with other bytes than the run that
      nobody damaged;
    - a process of the run is left, or a file beside the run has changed.

The case's number and seed make it again: `--seed S --only N`. Build with the sanitizers
(`scripts/test` makes build-asan/) and point BROOD_BUILD_DIR at that build; without it
build-asan/ is taken where it is there, else build/. The last line reads `N cases, N failed`.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from signals import signal_group

EXIT_CODES = {0, 1, 2, 3, 4}
LIMIT_S = 60
RUN = """
run: {name: victim, seed: 3, env_steps: 1200}
env: {id: simple_spread, copies: 4, params: {agents: 2}}
experience: {capacity: 4000, batch_size: 16, warmup: 100, update_every: 40, keep: true}
evaluation: {every_env_steps: 400, episodes: 2}
checkpoint: {every_env_steps: 400}
log: {every_env_steps: 100}
defaults: {actor: {hidden: [8]}, critic: {hidden: [8]}}
"""
# A command, and a pattern of the paths below the run's folder that it reads.
COMMANDS = [
    (["resume", "{run}", "-q"], r".*"),
    (["resume", "{run}", "-q", "--from", "400"], r".*"),
    (["status", "{run}"], r"journal|config.yaml|.*\.state|lock|checkpoints/.*"),
    (["status", "{run}", "--json"], r"journal|config.yaml|.*\.state|lock|checkpoints/.*"),
    (["runs"], r"journal|config.yaml|metrics/.*|lock|checkpoints/.*"),
    (["logs", "{run}"], r"journal|logs/.*"),
    (["report", "{run}"], r"metrics/.*|config.yaml"),
    (["eval", "{run}", "--episodes", "2"], r"config.yaml|checkpoints/.*|journal"),
    (["check", "{run}/config.yaml"], r"config.yaml"),
    (["inspect", "{prefix}", "--values"], r"checkpoints/.*"),
    (["graph", "{prefix}"], r"checkpoints/.*"),
    (["export", "{prefix}", "--out", "{out}.npz"], r"checkpoints/.*"),
    (["wait", "{run}"], r"journal|lock"),
    (["rm", "{run}"], r".*"),
]
REPORT = re.compile(r"AddressSanitizer|LeakSanitizer|runtime error:|UndefinedBehavior")


def damage(data, rng):
    """Apply some of: flipped bits, bytes, special words; a piece cut, zeroed, doubled, moved."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        n = len(data)
        at = rng.randrange(n) if n else 0
        size = min(rng.choice((1, 2, 4, 8, 64, 512, 4096)), max(n - at, 0))
        kind = rng.randrange(8)
        if kind == 0 and n:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and n:
            data[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff, 0x0a, 0x25, rng.randrange(256)))
        elif kind == 2:
            data[at:at + size] = rng.choice((2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, 0)
                                            ).to_bytes(8, "little")[:max(size, 1)]
        elif kind == 3:
            del data[at:at + size]
        elif kind == 4:
            data[at:at + size] = bytes(size)
        elif kind == 5:
            data[at:at] = data[at:at + size]
        elif kind == 6:
            data[at:at] = rng.randbytes(size)
        else:
            del data[at:]
    return bytes(data)


class Attack:
    def __init__(self, build, folder):
        self.brood = build / "supervisor" / "brood"
        self.folder = folder
        self.environment = {**os.environ, "HOME": str(folder),
                            "ASAN_OPTIONS": "exitcode=99:abort_on_error=0",
                            "UBSAN_OPTIONS": "exitcode=99:print_stacktrace=1"}
        config = folder / "victim.yaml"
        config.write_text(RUN)
        runs = folder / "runs"
        self.call(["run", str(config), "-q"], runs, expected=0)
        self.done = next(runs.iterdir())
        self.truth = self.weights(self.done)
        self.sources = [self.done, self.stopped(config, folder / "half")]
        self.outcomes = collections.Counter()
        self.bystander = folder / "bystander"
        self.bystander.write_bytes(b"not part of any run\n" * 100)

    def stopped(self, config, runs):
        """A run of the same configuration that was stopped on its way."""
        self.call(["run", str(config), "-q", "--until", "500"], runs, expected=4)
        return next(runs.iterdir())

    def call(self, words, runs, expected=None):
        p = subprocess.Popen([str(self.brood), *words], cwd=self.folder,
                             env={**self.environment, "BROOD_RUNS_DIR": str(runs)},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
        try:
            text = p.communicate(timeout=LIMIT_S)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            signal_group(p.pid, 9)
            text = p.communicate()[0].decode(errors="replace")
            return None, text
        if expected not in (None, p.returncode):
            sys.exit(f"mutate.py: brood {' '.join(words)}: {p.returncode}\n{text}")
        return p.returncode, text

    @staticmethod
    def weights(run):
        """SHA-256 of each variable file of the newest checkpoint."""
        steps = [p for p in (run / "checkpoints").iterdir() if p.name.isdigit()]
        newest = max(steps, key=lambda p: int(p.name))
        return newest.name, {
            str(p.relative_to(newest)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(newest.rglob("*.data-*"))}

    def one(self, seed, number):
        """Play a case; the text of its failure, or None."""
        rng = random.Random(f"{seed} {number}")
        place = pathlib.Path(tempfile.mkdtemp(prefix="case-", dir=self.folder))
        try:
            return self.play(rng, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def play(self, rng, place):
        source = rng.choice(self.sources)
        run = place / source.name
        subprocess.run(["cp", "-a", "--sparse=always", source, run], check=True)
        words, pattern = rng.choice(COMMANDS)
        victim = self.choose(rng, run, pattern)
        if victim.stat().st_size < 1 << 20:
            victim.write_bytes(damage(victim.read_bytes(), rng))
        else:  # the experience log: a window of it, its holes stay holes
            with open(victim, "r+b") as f:
                at = rng.randrange(0, min(victim.stat().st_size, 1 << 18) - 4096)
                f.seek(at)
                piece = damage(f.read(4096), rng)[:4096].ljust(4096, b"\0")
                f.seek(at)
                f.write(piece)
        beside = sorted(victim.parent.glob("*.index"))
        prefix = str(beside[0] if beside else run).removesuffix(".index")
        words = [w.format(run=run, prefix=prefix, out=place / "out") for w in words]
        before = self.bystander.read_bytes()
        code, text = self.call(words, place)
        self.outcomes[words[0], code] += 1
        what = f"brood {' '.join(words)} with {victim.relative_to(run)} damaged"
        if code is None:
            return f"{what}: not over within {LIMIT_S} s\n{text}"
        if code not in EXIT_CODES and not (words[0] == "wait" and code in (137, 143)):
            return f"{what}: exit code {code}\n{text}"
        if REPORT.search(text):
            return f"{what}: a sanitizer reported\n{text}"
        for log in run.glob("logs/*"):
            found = REPORT.search(log.read_text(errors="replace"))
            if found and log != victim:
                return f"{what}: a sanitizer reported in {log.name}\n{log.read_text()}"
        if self.bystander.read_bytes() != before:
            return f"{what}: a file beside the run has changed"
        left = self.left(place)
        if left:
            return f"{what}: processes are left: {left}"
        if words[0] == "resume" and code == 0:
            return self.compare(run, place, what, text)
        return None

    @staticmethod
    def choose(rng, run, pattern):
        """A file that the command reads: first which folder of the run's, then which file."""
        kinds = collections.defaultdict(list)
        for path in sorted(run.rglob("*")):
            name = path.relative_to(run)
            if path.is_file() and not path.is_symlink() and re.fullmatch(pattern, str(name)):
                kinds[name.parts[0]].append(path)
        return rng.choice(kinds[rng.choice(sorted(kinds))])

    def compare(self, run, place, what, text):
        if self.weights(run) == self.truth:
            return None
        step = self.weights(run)[0]
        exact = self.call(["status", str(run), "--json"], place)[1]
        if step == self.truth[0] and '"exact": true' in exact:
            return f"{what}: resumed, exact, with other bytes\n{text}{exact}"
        return None

    @staticmethod
    def left(place):
        deadline = time.monotonic() + 10
        while True:
            found = []
            for entry in os.scandir("/proc"):
                try:
                    words = pathlib.Path(entry.path, "cmdline").read_bytes()
                    cwd = os.readlink(os.path.join(entry.path, "cwd"))
                except OSError:
                    continue
                if entry.name.isdigit() and (str(place).encode() in words or
                                             cwd.startswith(str(place))):
                    found.append((entry.name, words.replace(b"\0", b" ").decode(errors="replace")))
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.01)


def default_build():
    named = os.environ.get("BROOD_BUILD_DIR")
    sanitized = ROOT / "build-asan"
    return pathlib.Path(named) if named else sanitized if sanitized.exists() else ROOT / "build"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="so many cases (1000)")
    parser.add_argument("--minutes", type=float, help="so long, in place of --count")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this case alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    end = time.monotonic() + args.minutes * 60 if args.minutes else None
    with tempfile.TemporaryDirectory(prefix="brood-mutate-") as folder:
        attack = Attack(default_build(), pathlib.Path(folder))
        numbers = [args.only] if args.only is not None else range(1 << 62 if end else args.count)
        played = failed = 0
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            waiting = {}
            for number in numbers:
                if end and time.monotonic() > end:
                    break
                waiting[pool.submit(attack.one, args.seed, number)] = number
                if len(waiting) < 2 * args.jobs:
                    continue
                played, failed = collect(waiting, played, failed,
                                         concurrent.futures.FIRST_COMPLETED)
            played, failed = collect(waiting, played, failed, concurrent.futures.ALL_COMPLETED)
    for (command, code), times in sorted(attack.outcomes.items(), key=str):
        print(f"{command:8} exit code {code}: {times}")
    print(f"{played} cases, {failed} failed")
    return 1 if failed or not played else 0


def collect(waiting, played, failed, when):
    for future in concurrent.futures.wait(waiting, return_when=when).done:
        number = waiting.pop(future)
        played += 1
        if future.result():
            failed += 1
            print(f"case {number}: {future.result()}", flush=True)
    return played, failed


if __name__ == "__main__":
    sys.exit(main())
