"""How long a run is: a length that it has passed is refused."""
import json

import harness
from test_changes import checkpoints
from test_resume import as_it_was

AT = 1000


def stopped_within_its_evaluation(w, name, steps):
    """A run that was stopped at step AT, with the evaluation of that boundary still to do."""
    w.brood("run", w.small(steps=steps, evaluate=AT), "--name", name, "--detach",
            "--set", "evaluation.episodes=1000000")
    harness.wait_until("its evaluation", lambda: json.loads(
        w.brood("status", name, "--json")[0])["env_steps"] == AT)
    return w.run_dir(name)


def test_a_length_that_is_past_is_refused_everywhere(w):
    run = stopped_within_its_evaluation(w, "run", 1_000_000)
    past = f"run.env_steps=10 is past at step {AT}; `brood stop` ends the run"
    _, err = w.brood("set", run, "run.env_steps=10", code=2)
    assert past in err and err.count("\n") == 1, err
    _, err = w.brood("edit", run, code=2,
                     env={"EDITOR": "sed -i 's/env_steps: 1000000/env_steps: 10/'"})
    assert past in err, err
    w.brood("stop", run)
    assert checkpoints(run)[-1] == AT
    for length in ("run.env_steps=10", f"run.env_steps={AT}"):
        with as_it_was(run):  # its experience log, too
            out, err = w.brood("resume", run, "--set", length, "--json", code=2)
        number = length.split("=")[1]
        assert f"run is to end at {number} steps and is at {AT}" in err, err
        assert err.count("\n") == 1 and not out, (out, err)
    with as_it_was(run):
        _, err = w.brood("resume", run, "--set", "run.env_steps=", "--set", "run.episodes=3",
                         code=2)
    assert "run is to end at 3 episodes and is at 40" in err, err
    assert json.loads(w.brood("status", run, "--json")[0])["state"] == "stopped"

    # A run that is done is refused one, too, and says so that it is done otherwise.
    w.brood("run", w.small(steps=400), "--name", "done", "--set", "experience.keep=true")
    with as_it_was(w.run_dir("done")):
        _, err = w.brood("resume", "done", "--set", "run.env_steps=10", code=2)
        assert "done is to end at 10 steps and is at 400" in err, err
        _, err = w.brood("resume", "done", "--set", "run.env_steps=400")
        assert "done: done, 400 steps" in err, err


def test_the_length_that_it_had_finishes_what_is_left(w):
    run = stopped_within_its_evaluation(w, "run", AT)
    w.brood("stop", run)
    assert "eval/team_return/agent" not in last_row(run)
    w.brood("resume", run, "--set", "evaluation.episodes=8", "--anyway")
    assert checkpoints(run)[-1] == AT
    assert last_row(run)["eval/team_return/agent"] < 0, last_row(run)


def last_row(run):
    """The columns of progress.csv that its last row fills."""
    lines = (run / "metrics" / "progress.csv").read_text().splitlines()
    values = zip(lines[0].split(","), lines[-1].split(","))
    return {name: float(value) for name, value in values if value}


if __name__ == "__main__":
    harness.main()
