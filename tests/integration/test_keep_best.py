"""checkpoint.keep_best: the checkpoint of the best evaluation stays beside the newest ones, and
RUN@best names it."""
import json
import pathlib
import re
import struct
import subprocess
import sys

import harness
from test_exactness import outcome
from test_resume import set_section
from test_stop_when import METRIC, kill_while_it_learns

BEST = ("--set", f"checkpoint.keep_best={METRIC}", "--set", "checkpoint.max_to_keep=1")


def evaluated(run):
    """[(step, value of the metric)] in progress.csv."""
    lines = [line.split(",") for line in
             (run / "metrics" / "progress.csv").read_text().splitlines()]
    at = lines[0].index(METRIC)
    return [(int(line[0]), float(line[at])) for line in lines[1:] if line[at]]


def best_of(run, choose=max):
    """The step of the best evaluation, the first of equal ones."""
    return choose(evaluated(run), key=lambda e: e[1])[0]


def test_the_best_evaluated_policy_is_kept_whatever_is_killed(w):
    """Its evaluation is made where no checkpoint would be: with the same weights it gives the
    same returns again."""
    config = w.small(steps=6000, evaluate=200, checkpoint=900)
    kills = 0
    for mode, choose in ("max", max), ("min", min):
        more = (*BEST, "--set", f"checkpoint.keep_best.mode={mode}")
        w.brood("run", config, "--name", "calm", "--force", *more)
        calm, killed = w.run_dir("calm"), w.run_dir("killed")
        best = best_of(calm, choose)
        assert harness.checkpoints(calm) == sorted({best, 6000}), (best, evaluated(calm))
        p = w.start("run", config, "--name", "killed", "--force", *more, "--until", 500)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
        for _ in range(4):
            p = w.start("resume", "killed")
            kills += kill_while_it_learns(w, p, "killed")
        w.brood("resume", "killed")
        assert harness.checkpoints(killed) == harness.checkpoints(calm)
        harness.assert_same_files(outcome(calm), outcome(killed))
        folder = pathlib.Path("checkpoints", str(best))
        harness.assert_same_files(harness.tree_bytes(calm / folder),
                                  harness.tree_bytes(killed / folder))
        found = json.loads(w.brood("eval", "calm@best", "--episodes", 8, "--json")[0])
        assert found["checkpoint_step"] == best, found
        mean = sum(found["return_mean"].values()) / 3
        assert abs(mean - dict(evaluated(calm))[best]) < 1e-9, (found, evaluated(calm))
    assert kills >= 1


def with_best(w, name="run"):
    """A run with a best checkpoint before its last one; the best one's step."""
    w.brood("run", w.small(steps=1200, evaluate=200, checkpoint=0), "--name", name, *BEST,
            "--set", "checkpoint.keep_best.mode=min", "--set", "experience.keep=true")
    best = best_of(w.run_dir(name), min)
    if best == 1200:  # the highest one then is not
        w.brood("run", w.small(steps=1200, evaluate=200, checkpoint=0), "--name", name, "--force",
                *BEST, "--set", "experience.keep=true")
        best = best_of(w.run_dir(name))
    assert harness.checkpoints(w.run_dir(name)) == [best, 1200]
    return best


def test_every_command_knows_it(w):
    best = with_best(w)
    run = w.run_dir("run")
    assert json.loads(w.brood("eval", "run", "--checkpoint", "best", "--episodes", 2,
                              "--json")[0])["checkpoint_step"] == best
    _, err = w.brood("eval", "run@best", "--checkpoint", 1200, code=2)
    assert "give RUN@STEP or --checkpoint, not both" in err, err
    assert json.loads(w.brood("export", "run@best", "agent_0", "--json")[0])["file"] == \
        f"model.ckpt-{best}.safetensors"
    assert w.brood("inspect", "run@best", "agent_0") == w.brood("inspect", f"run@{best}", "agent_0")
    assert w.brood("graph", "run@best", "agent_0") == w.brood("graph", f"run@{best}", "agent_0")
    w.brood("fork", "run@best", "--name", "fork")
    assert f"run@{best}" in (w.run_dir("fork") / "journal").read_text()
    harness.assert_same_files(outcome(w.run_dir("fork")), outcome(run))
    w.brood("run", w.small(steps=400, checkpoint=0), "--name", "new", "--init-from", "run@best")
    w.brood("run", w.small(steps=400, checkpoint=0), "--name", "played", "--set",
            "agents.agent_1={algorithm: frozen, settings: {from: run@best}}")
    said = json.loads(w.brood("replay", "run", "--from", "best", "--to", best + 20, "--json")[0]
                      .splitlines()[-1])
    assert said["from_checkpoint"] == best, said
    for line in "export run@", "eval run --checkpoint ", "eval run@":
        words = line.split(" ")
        offered = w.brood("complete", "--", *words)[0].splitlines()
        head = words[-1]
        assert {head + str(best), head + "1200", head + "best"} <= set(offered), (line, offered)
    program = ("import brood\n"
               f"run = brood.attach({str(run)!r})\n"
               f"assert run.best() == {best}\n"
               f"brood.load_policy({str(run) + '@best'!r}, 'agent_0')\n"
               "try: brood.load_policy(run.path.with_name('new@best'), 'agent_0')\n"
               "except brood.Error as e: assert 'has no best checkpoint' in str(e)\n")
    p = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                       env={"PYTHONPATH": str(harness.SOURCE / "scripts" / "python")})
    assert p.returncode == 0 or "No module named 'numpy'" in p.stderr, p.stderr

    _, err = w.brood("prune", "run", "--json")
    assert harness.checkpoints(run) == [best, 1200]
    _, err = w.brood("resume", "run", "--from", "best", "--until", best + 1, code=4)
    assert f"continues from step {best}" in err, err


def test_a_run_without_one_says_why(w):
    w.brood("run", w.small(steps=400, evaluate=0, checkpoint=0), "--name", "none")
    _, err = w.brood("eval", "none@best", code=3)
    assert re.search(r"runs/none has no best checkpoint: its checkpoint.keep_best is none\n", err), err
    w.brood("run", w.small(steps=400, evaluate=300, checkpoint=0), "--name", "yet", *BEST,
            "--until", 100, code=4)
    _, err = w.brood("export", "yet@best", "agent_0", code=1)
    assert "runs/yet has no best checkpoint yet: no checkpoint was made after" in err, err
    _, err = w.brood("fork", "yet@best", "--name", "fork", code=3)
    assert "has no best checkpoint yet" in err, err
    assert err.count("\n") == 1, err
    # nor can a run have one whose checkpoints lack what says so
    for step in harness.checkpoints(w.run_dir("yet")):
        (w.run_dir("yet") / "checkpoints" / str(step) / "run.state").unlink()
    before = harness.checkpoints(w.run_dir("yet"))
    w.brood("prune", "yet")
    assert harness.checkpoints(w.run_dir("yet")) == before


def test_what_changes_it(w):
    best = with_best(w)
    run = w.run_dir("run")
    # A fork of a later checkpoint does not have it: its own evaluations count.
    w.brood("fork", "run@1200", "--name", "fork", "--set", "run.env_steps=1600")
    fork = w.run_dir("fork")
    assert harness.checkpoints(fork)[-1] == 1600 and best not in harness.checkpoints(fork)
    name = json.loads(w.brood("eval", "fork@best", "--episodes", 1, "--json")[0])
    assert name["checkpoint_step"] in (1400, 1600), name
    # Without the key it is one of the older ones, which go.
    w.brood("resume", "run", "--set", "checkpoint.keep_best=none", "--set", "run.env_steps=1400")
    assert harness.checkpoints(run) == [1400]
    # A metric that is given to a resumed run counts from there on.
    w.brood("resume", "run", "--set", f"checkpoint.keep_best={METRIC}", "--set",
            "run.env_steps=1600")
    assert json.loads(w.brood("eval", "run@best", "--episodes", 1, "--json")[0])[
        "checkpoint_step"] == 1600


def test_it_stays_if_it_is_not_known_which_one_it_is(w):
    """The newest checkpoint's state of the evaluations is that of a later version."""
    best = with_best(w)
    run = w.run_dir("run")
    set_section(run / "checkpoints" / "1200" / "run.state", b"evaluations",
                lambda state: struct.pack("<I", 99) + state[4:])
    _, err = w.brood("resume", "run")
    assert "run: its best checkpoint is not known, so that all stay: " in err, err
    assert harness.checkpoints(run) == [best, 1200]


def test_wrong_metrics_are_refused_before_a_process_starts(w):
    config = w.small()
    text = config.read_text()
    for value, message in (
            ("rollout/team_return/agent", "found 'rollout/team_return/agent', expected a column "
             "of evaluations, eval/..."),
            ("eval/team_return/agnet", "progress.csv will have no column "
             f"'eval/team_return/agnet'; did you mean '{METRIC}'?"),
            ("{mode: min}", "metric is not given, expected a column of evaluations"),
            ("[a]", "found a list, expected a map of keys")):
        wrong = w.write("wrong.yaml", text.replace("every_env_steps: 1000}\nlog",
                        f"every_env_steps: 1000,\n  keep_best: {value}}}\nlog"))
        _, err = w.brood("run", wrong, code=2)
        assert f"wrong.yaml:7: checkpoint.keep_best: {message}" in err, err
    _, err = w.brood("check", config, "--set", f"checkpoint.keep_best={METRIC}", "--set",
                     "evaluation.every_env_steps=0", code=2)
    assert "checkpoint.keep_best: the run is never evaluated" in err, err
    w.brood("run", w.small(steps=harness.FOREVER, evaluate=0), "--name", "live", "--detach")
    _, err = w.brood("set", "live", f"checkpoint.keep_best={METRIC}", code=2)
    assert "checkpoint.keep_best cannot change while the run lives; `brood stop " in err, err
    w.brood("stop", "live")


if __name__ == "__main__":
    harness.main()
