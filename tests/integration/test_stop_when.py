"""run.stop_when: a run that its evaluations end, at the same step with the same bytes whatever is
killed on the way."""
import json

import harness
from test_exactness import outcome

METRIC = "eval/team_return/agent"


def rule(text):
    return ("--set", f"run.stop_when={{metric: {METRIC}, {text}}}")


ABOVE = rule("above: -1000, for: 3")
ABOVE_WORDS = f"{METRIC} above -1000 for 3 evaluations"


def journal_of(run):
    return [line for line in (run / "journal").read_text().splitlines() if "event=done" in line]


def evaluated(run):
    """The values of the metric in progress.csv."""
    lines = [line.split(",") for line in
             (run / "metrics" / "progress.csv").read_text().splitlines()]
    at = lines[0].index(METRIC)
    return [float(line[at]) for line in lines[1:] if line[at]]


def kill_while_it_learns(w, p, name):
    """Its agents, then its supervisor once it has written another checkpoint; or it ends. Whether
    the supervisor was killed."""
    run = w.run_dir(name)
    before = harness.checkpoints(run)
    w.kill_agents(p, name)
    harness.wait_until("another checkpoint, or its end", lambda: p.poll() is not None or
                       harness.checkpoints(run) != before)
    lives = p.poll() is None
    if lives:
        harness.kill(harness.holder_of(run))
    p.wait(timeout=harness.DEADLINE_S)
    return lives


def test_deaths_do_not_change_where_it_stops(w):
    config = w.small(steps=1_000_000, evaluate=200, checkpoint=300)
    kills = 0
    for text in "above: -1000, for: 20", "without_improvement: 6", \
            "without_improvement: 6, mode: min":
        more = rule(text)
        w.brood("run", config, "--name", "calm", "--force", *more)
        calm, killed = w.run_dir("calm"), w.run_dir("killed")
        steps = w.status("calm")["env_steps"]
        p = w.start("run", config, "--name", "killed", "--force", *more, "--until", 500)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
        for _ in range(5):
            p = w.start("resume", "killed")
            kills += kill_while_it_learns(w, p, "killed")
        w.brood("resume", "killed")
        assert w.status("killed")["env_steps"] == steps < 1_000_000
        harness.assert_same_files(outcome(calm), outcome(killed))
        values = evaluated(calm)
        if "without" in text:
            best = (min if "min" in text else max)(values)
            assert len(values) - 1 - values.index(best) == 6, values
        else:
            assert len(values) == 20 and steps == 4000, (values, steps)
    assert kills >= 1


def test_it_is_done_and_says_why(w):
    config = w.small(steps=100_000, evaluate=200, checkpoint=0)
    out, err = w.brood("run", config, "--name", "run", *ABOVE, "--json")
    run, said = w.run_dir("run"), json.loads(out.splitlines()[-1])
    assert said["event"] == "done" and said["done_why"] == ABOVE_WORDS, said
    assert said["env_steps"] == said["checkpoint_step"] == 600, said
    assert f"stopped at step 600: {ABOVE_WORDS}\n" in err, err
    line, = journal_of(run)
    assert "step=600" in line and f'why="{ABOVE_WORDS}"' in line, line
    assert harness.checkpoints(run) == [0, 600] and harness.last_row(run)["env_steps"] == 600
    s = w.status("run")
    assert s["state"] == "done" and s["exit_code"] == 0 and s["done_why"] == ABOVE_WORDS, s
    assert f"\n  why: {ABOVE_WORDS}\n" in w.brood("status", "run")[0]
    listed, = harness.json_lines(w.brood("runs", "--json")[0])
    assert listed["done_why"] == ABOVE_WORDS, listed
    w.brood("wait", "run")

    # One that ends at its length has nothing to say.
    w.brood("run", config, "--name", "short", *ABOVE, "--set", "run.env_steps=400")
    assert w.status("short")["done_why"] is None and len(journal_of(w.run_dir("short"))) == 1
    assert "why=" not in journal_of(w.run_dir("short"))[0]


def test_what_continues_it(w):
    config = w.small(steps=1000, evaluate=200, checkpoint=0)
    w.brood("run", config, "--name", "run", *ABOVE)
    w.brood("run", config, "--name", "calm")
    _, err = w.brood("resume", "run")
    assert err == (f"run: done, stopped at step 600: {ABOVE_WORDS}; "
                   "--set run.stop_when=none continues it\n"), err
    _, err = w.brood("resume", "run", "--set", "run.env_steps=2000", code=2)
    assert (f"run has stopped at step 600: {ABOVE_WORDS}; --set run.stop_when=none, too, "
            "continues it") in err, err
    _, err = w.brood("resume", "run", "--set", f"run.stop_when.metric={METRIC}s", code=2)
    assert f"run.stop_when: progress.csv will have no column '{METRIC}s'; did you mean" in err, err
    _, err = w.brood("fork", "run", "--name", "fork", code=2)
    assert f"is the end of that run: {ABOVE_WORDS}; --set run.stop_when=none" in err, err

    # Another rule counts anew; a fork keeps the state that its rule has.
    w.brood("fork", "run", "--name", "fork", "--set", "run.stop_when=none")
    w.brood("fork", "run", "--name", "again", "--set", "run.stop_when.for=1")
    assert w.status("again")["env_steps"] == 800
    w.brood("run", config, "--name", "part", *ABOVE, "--until", 500, code=4)
    w.brood("fork", "part", "--name", "rest")
    assert w.status("rest")["env_steps"] == 600
    w.brood("resume", "run", "--set", "run.stop_when=none")
    for name in "run", "fork":
        files = {k: v for k, v in outcome(w.run_dir(name)).items() if ".data-" in k}
        assert files == {k: v for k, v in outcome(w.run_dir("calm")).items() if ".data-" in k}
    out, _ = w.brood("replay", "run", "--from", 0, "--to", 1000, "--json")  # past the stop
    assert harness.json_lines(out)[-1]["env_steps"] == 1000, out
    _, err = w.brood("resume", "rest", "--set", "run.stop_when=none", "--set",
                     "run.env_steps=500", code=2)
    assert "rest is to end at 500 steps and is at 600" in err, err


def test_a_supervisor_that_died_before_it_said_so(w):
    """After the last checkpoint, the journal lacks its end: a resume writes it, and why."""
    w.brood("run", w.small(steps=9000, evaluate=200, checkpoint=0), "--name", "run", *ABOVE)
    run = w.run_dir("run")
    journal = (run / "journal").read_text()
    (run / "journal").write_text(journal[:journal.index("event=done")].rsplit("\n", 1)[0] + "\n")
    assert w.status("run")["state"] == "killed"
    w.brood("resume", "run")
    s = w.status("run")
    assert s["state"] == "done" and s["done_why"] == ABOVE_WORDS, s


def test_a_live_run_keeps_its_rule(w):
    w.brood("run", w.small(steps=harness.FOREVER, evaluate=200, checkpoint=0), "--name", "run",
            *rule("above: 1e9"), "--detach")
    for value in "run.stop_when.above=3", "run.stop_when.for=7":
        _, err = w.brood("set", "run", value, code=2)
        assert (f"{value.split('=')[0]} cannot change while the run lives; `brood stop runs/run`, "
                f"then `brood resume runs/run --set {value}` continues with it") in err, err
    w.brood("stop", "run")
    w.brood("resume", "run", "--set", "run.stop_when.above=-1000")
    assert w.status("run")["done_why"] == f"{METRIC} above -1000"


def test_wrong_rules_are_refused_before_a_process_starts(w):
    config = w.small()
    for value, message in (
            ("{above: 3}", "metric is not given, expected a column of evaluations"),
            ("{metric: rollout/team_return/agent, above: 3}",
             "found 'rollout/team_return/agent', expected a column of evaluations, eval/..."),
            (f"{{metric: {METRIC}}}", "expected one of above: NUMBER, below: NUMBER and"),
            (f"{{metric: {METRIC}, above: 3, below: 2}}", "expected one of above: NUMBER"),
            (f"{{metric: {METRIC}, above: 3, mode: min}}", "mode is for without_improvement"),
            (f"{{metric: {METRIC}, without_improvement: 3, for: 2}}", "for is for above and"),
            (f"{{metric: {METRIC}, above: 3, fro: 2}}", "did you mean 'for'?"),
            ("{metric: eval/team_return/agnet, above: 3}",
             f"no column 'eval/team_return/agnet'; did you mean '{METRIC}'?"),
            ("3", "found a single value, expected a map of keys")):
        _, err = w.brood("run", config, "--set", f"run.stop_when={value}", code=2)
        assert message in err and "run.stop_when" in err and err.count("\n") == 1, err
    assert not w.runs.exists() or not list(w.runs.iterdir())
    text = config.read_text().replace("steps: 2000}", "steps: 2000,\n  stop_when: {metric: "
                                      f"{METRIC}, above: 3}}}}", 1)
    for change, message in (
            ("every_env_steps: 0, episodes", "the run is never evaluated: "
             "evaluation.every_env_steps is 0"),
            ("every_env_steps: 3000, episodes", "the run ends at step 2000, before its first "
             "evaluation: evaluation.every_env_steps is 3000")):
        wrong = w.write("wrong.yaml", text.replace("every_env_steps: 1000, episodes", change))
        _, err = w.brood("check", wrong, code=2)
        assert f"wrong.yaml:3: run.stop_when: {message}" in err, err


def test_a_trial_that_stops_is_finished(w):
    """It has a value at each rung. All values are the same here, so that the first trial gets to
    the last one."""
    w.small(steps=2000, evaluate=200, checkpoint=0)
    w.write("study.yaml", "base: small.yaml\n"
            "search: {run.stop_when.for: [2, 9]}\n"
            "metric: {column: eval/episode_length}\n"
            "method: {asha: {rungs: [600, 1200], keep: 0.5}}\n")
    base = w.write("small.yaml", (w.path / "small.yaml").read_text().replace(
        "steps: 2000}", f"steps: 2000, stop_when: {{metric: {METRIC}, above: -1000}}}}", 1))
    out, _ = w.brood("sweep", "study.yaml", "--json")
    ends = [(e["trial"], e["rung"], e["value"]) for e in harness.json_lines(out)
            if e["event"] == "trial"]
    assert sorted(ends) == [(1, 0, 25), (2, 0, 25)], out
    assert json.loads(out.splitlines()[-1])["best"]["trial"] == 1, out
    assert [w.status(f"study/{i}-s1")["env_steps"] for i in (1, 2)] == [400, 600]
    assert w.status("study/1-s1")["state"] == "done"
    w.write("pbt.yaml", f"base: {base.name}\nsearch: {{defaults.discount: [0.9, 0.95]}}\n"
            "method: {pbt: {population: 2, interval: 400, rounds: 2}}\n")
    _, err = w.brood("sweep", "pbt.yaml", code=2)
    assert "method.pbt: its members go on until the last round" in err, err


if __name__ == "__main__":
    harness.main()
