#!/usr/bin/python3
"""The graphs of golden/ in a session of this build: values, TensorFlow's gradients and those
that brood builds itself, against TensorFlow's numbers.

    tests/tensorflow/test_golden.py RUN_META [FAMILY...] [--case NAME] [--golden FOLDER]

A line for each case that differs, then a table: for each type, how many tensors were compared,
and their errors, as a share of the tensor's largest element (of a sum that cancels out, little
is left). What each case accepts is in cases_*.py and golden_file.py. RUN_META:
tests/support/run_meta of the build.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as e:
    print(f"1..0 # SKIP {e}")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
import cases
import golden_file
from run_meta import Failed, answers


class Errors:
    """Those of the compared tensors, by type: [(error, where)]."""

    def __init__(self):
        self.rows = collections.defaultdict(list)

    def add(self, where, got, want):
        is_number = want.dtype.kind in "fc" and got.shape == want.shape
        self.rows["string" if want.dtype == object else want.dtype.name].append(
            (golden_file.error_of(got, want) if is_number else 0.0, where))

    def show(self):
        print(f"{'type':<12}{'tensors':>8}  99 % below  largest error")
        for name, errors in sorted(self.rows.items()):
            largest, where = max(errors)
            most = np.quantile([e for e, _ in errors], 0.99)
            print(f"{name:<12}{len(errors):>8}  " +
                  (f"{most:>10.0e}  {largest:.0e} ({where})" if largest > 0 else "     equal"))


class Asked:
    """The runs of one case."""

    def __init__(self, case, entry):
        self.case, self.entry, self.runs, self.whats = case, entry, [], []
        feeds = {x: golden_file.unpack(v) for x, v in entry.get("feeds", {}).items()}
        grads = entry.get("gradients", {})
        taken = {x: g for x, g in grads.items() if g}
        if "init" in entry:
            given = dict(given for given in entry["init"].values() if given)
            self.ask("initialisers", {}, targets=list(entry["init"]),
                     feeds={x: golden_file.unpack(v) for x, v in given.items()})
        self.ask("values", entry["fetches"], feeds=feeds, fetches=list(entry["fetches"]))
        if taken:
            self.ask("TensorFlow's gradients", {x: g[1] for x, g in taken.items()}, feeds=feeds,
                     fetches=[g[0] for g in taken.values()])
        if grads:
            self.ask("brood's gradients", {x: g and g[1] for x, g in grads.items()},
                     feeds=feeds, of=entry["of"], by=list(grads))
        for op, count in entry.get("steps", []):
            for _ in range(count):
                self.ask(op, {}, feeds=feeds, targets=[op])
        if "after" in entry:
            self.ask("after the steps", entry["after"], fetches=list(entry["after"]))

    def ask(self, what, wants, **run):
        self.runs.append(run)
        self.whats.append((what, wants))

    def faults(self, got, errors):
        """The first thing that is wrong of each run, in words."""
        refused = False
        for (what, wants), answer in zip(self.whats, got):
            refusal = self.case.fails or self.case.refused or (
                self.case.gradient_refused if what == "brood's gradients" else None)
            if isinstance(answer, Failed):
                refused = True
                if refusal is None or refusal not in str(answer):
                    yield f"{what}: {answer}"
                continue
            if refused and what == "after the steps":
                continue
            for (name, want), value in zip(wants.items(), answer):
                if want and value is not None:
                    errors.add(name, value, golden_file.unpack(want))
                why = golden_file.difference(self.case, value, want and golden_file.unpack(want))
                if why:
                    yield f"{what}: {name}: {why}"
                    break
        refusal = self.case.fails or self.case.refused or self.case.gradient_refused
        if refusal is not None and not refused:
            yield f"is not refused: {refusal}"


def answers_alone(program, path, asked):
    """The answers of each case; of each alone if the program fails with all of them."""
    try:
        got = answers(program, path, [run for a in asked for run in a.runs])
        ends = np.cumsum([len(a.runs) for a in asked])
        return [got[end - len(a.runs):end] for a, end in zip(asked, ends)]
    except subprocess.CalledProcessError as e:
        if len(asked) == 1:
            return [[Failed(f"exit code {e.returncode}")] * len(asked[0].runs)]
        return [answers_alone(program, path, [a])[0] for a in asked]


def check_family(program, folder, family, only, errors):
    known, _ = cases.load(family)
    _, entries = golden_file.read(family)
    lost = {c.name for c in known} ^ set(entries)
    for name in sorted(lost):
        print(f"{family}: {name}: the files are not of these cases: run write_golden.py")
    path = os.path.join(folder, f"{family}.meta")
    pathlib.Path(path).write_bytes(golden_file.read_meta(family))
    asked = [Asked(c, entries[c.name]) for c in known
             if c.name in entries and only in (None, c.name)]
    faults = 0
    for a, got in zip(asked, answers_alone(program, path, asked)):
        wrong = list(a.faults(got, errors))
        for text in wrong:
            print(f"{family}: {a.case.name}: {text}")
        faults += bool(wrong)
    print(f"{family}: {len(asked)} cases, {faults} differ", flush=True)
    return faults + len(lost)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", metavar="RUN_META")
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--case", metavar="NAME")
    parser.add_argument("--golden", type=pathlib.Path, default=golden_file.FOLDER)
    args = parser.parse_args()
    golden_file.FOLDER = args.golden
    errors = Errors()
    with tempfile.TemporaryDirectory() as folder:
        faults = [check_family(args.program, folder, family, args.case, errors)
                  for family in args.families or cases.families()]
    errors.show()
    return sum(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
