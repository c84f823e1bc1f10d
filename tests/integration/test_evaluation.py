"""Evaluations give the same returns in every way they can be made, and do not affect
training."""
import json

import harness

SHORT = """
run: {{name: short, seed: 1, env_steps: {steps}}}
env: {env}
experience: {{capacity: 20000, batch_size: 64, warmup: 200, update_every: 40, keep: true}}
evaluation: {{every_env_steps: 0, episodes: 8}}
checkpoint: {{every_env_steps: {checkpoint}}}
log: {{every_env_steps: 200}}
defaults:
  actor: {{hidden: [64, 64]}}
  critic: {{hidden: [32]}}
  settings: {settings}
"""
STEPS = 1200 if not harness.SANITIZED else 400  # it learns from step 200 on
# One of each kind: moves; different rewards; speech; a grid with an end; a payoff table.
WORLDS = {
    "spread": ("{id: simple_spread, copies: 4}", "{}"),
    "soft": ("{id: simple_spread, copies: 4, actions: continuous}", "{execute: soft}"),
    "world_comm": ("{id: simple_world_comm, copies: 4, rules: openai}", "{}"),
    "speaker": ("{id: simple_speaker_listener, copies: 4}", "{}"),
    "foraging": ("{id: foraging, copies: 4, params: {size: 5}}", "{}"),
    "penalty": ("{id: penalty, copies: 4, params: {observe_last: true}}", "{}"),
}


def train(w, name, run=None, *more):
    env, settings = WORLDS[name]
    config = w.write(name + ".yaml", SHORT.format(
        env=env, settings=settings, steps=STEPS, checkpoint=STEPS // 2))
    w.brood("run", config, "--name", run or name, "-q", *more)
    return w.run_dir(run or name)


EPISODES = 40 if not harness.SANITIZED else 16  # more than copies, and not a multiple of 7


def evaluate(w, name, *more):
    out, _ = w.brood("eval", name, "--episodes", EPISODES, "--json", *more)
    return json.loads(out)


def test_any_number_of_copies_gives_the_same_returns(w):
    train(w, "spread", "native", "--set", "run.numerics=native")
    for name in [*WORLDS, "native"]:
        if name in WORLDS:
            train(w, name)
        for mode in ((), ("--stochastic",)):
            one = evaluate(w, name, "--copies", "1", *mode)
            for copies in ("32", "7") if not harness.SANITIZED else ("7",):
                many = evaluate(w, name, "--copies", copies, *mode)
                assert many == one, (name, mode, copies, one, many)


def training_part(run):
    """All files of a run, without what depends on its evaluations or on clocks."""
    steps = max(int(p.name) for p in (run / "checkpoints").iterdir() if p.name.isdigit())
    files = harness.tree_bytes(run / "checkpoints" / str(steps),
                               lambda path: path.name != "run.state")
    files["experience"] = (run / "experience").read_bytes()
    rows = harness.progress_without_times(run)
    keep = [i for i, name in enumerate(rows[0]) if not name.startswith("eval/")]
    files["progress.csv"] = [[row[i] for i in keep] for row in rows]
    return files


def test_an_interval_of_evaluations_changes_no_byte_of_training(w):
    for name in WORLDS:
        never = training_part(train(w, name))
        assert len(never) >= 6, never.keys()
        kinds = [("other", ("every_env_steps=500", "mode=sample", "seed=9")),
                 ("often", ("every_env_steps=48", "episodes=3"))]
        for run, sets in kinds[1:] if harness.SANITIZED else kinds:
            words = [word for s in sets for word in ("--set", "evaluation." + s)]
            often = train(w, name, f"{name}-{run}", *words)
            progress = (often / "metrics" / "progress.csv").read_text()
            assert "eval/" in progress.splitlines()[0], progress
            harness.assert_same_files(never, training_part(often))


def test_a_run_is_evaluated_while_it_trains(w):
    """Any checkpoint of a live run can be evaluated repeatedly."""
    train(w, "spread", "calm")
    p = w.start("run", w.path / "spread.yaml", "--name", "busy", "-q", "--set",
                "run.env_steps=100000000", "--set", "checkpoint.max_to_keep=0")
    checkpoints = w.run_dir("busy") / "checkpoints"
    harness.wait_until("a checkpoint", lambda: (checkpoints / "600").exists())
    first = evaluate(w, "busy", "--checkpoint", "0")
    assert first["checkpoint_step"] == 0 and p.poll() is None
    evaluate(w, "busy", "--stochastic")
    w.brood("stop", "busy")
    p.wait(timeout=harness.DEADLINE_S)
    assert evaluate(w, "calm", "--checkpoint", "0") == {**first, "run": "calm"}


def test_episodes_without_an_end_are_cut(w):
    """In a world without an end, max_steps cuts the episodes, also those of the evaluation
    at the end of training."""
    config = w.write("endless.yaml", SHORT.format(
        steps=1200, checkpoint=600,
        env="{id: simple_spread, copies: 4, max_steps: 0}", settings="{}"))
    w.brood("run", config, "--name", "endless", "-q", "--set",
            "evaluation={every_env_steps: 100000, episodes: 3, max_steps: 40}")
    rows = harness.progress_without_times(w.run_dir("endless"))
    lengths = [row[rows[0].index("eval/episode_length")] for row in rows[1:]]
    assert [float(x) for x in lengths if x] == [40] and lengths[-1], lengths
    out, _ = w.brood("eval", "endless", "--episodes", "5", "--json")
    assert json.loads(out)["length_mean"] == 40, out


def stands_at(w, name, step):
    if not (w.run_dir(name) / "lock").exists():
        return False
    status = w.status(name)
    return status["state"] == "running" and status["env_steps"] == step


def test_a_stop_does_not_wait_for_an_evaluation(w):
    """A resume plays the cancelled evaluation, also after several stops. Those that
    are stopped would last for hours."""
    config = w.write("long.yaml", SHORT.format(
        env=WORLDS["spread"][0], settings="{}", steps=1200, checkpoint=600))
    short, long = (("--set", f"evaluation={{every_env_steps: 600, episodes: {n}}}")
                   for n in (8, 10**6))
    w.brood("run", config, "--name", "calm", "-q", *short)
    rows = harness.progress_without_times(w.run_dir("calm"))
    assert sum(row[rows[0].index("eval/episode_length")] != "" for row in rows[1:]) == 2, rows

    def stop_at(p, step):
        harness.wait_until("the evaluation", lambda: p.poll() is not None or
                           stands_at(w, "stopped", step))
        w.brood("stop", "stopped")
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
        assert f"continues from the checkpoint of step {step}" in p.log.read_text()
    stop_at(w.start("run", config, "--name", "stopped", *long), 600)
    stop_at(w.start("resume", "stopped"), 600)
    w.brood("resume", "stopped", *short, "--anyway", "--until", "800", code=4)
    stop_at(w.start("resume", "stopped", *long, "--anyway"), 1200)
    w.brood("resume", "stopped", *short, "--anyway")
    for part in (training_part, harness.progress_without_times):
        assert part(w.run_dir("calm")) == part(w.run_dir("stopped")), part


def test_only_particle_worlds_have_rules(w):
    for name, rules in (("spread", "mpe2"), ("world_comm", "openai"), ("penalty", None)):
        train(w, name, None, "--set", "run.env_steps=40")
        assert evaluate(w, name)["rules"] == rules
        out, _ = w.brood("eval", name, "--episodes", "2")
        assert ("rules" in out) == (rules is not None), out


if __name__ == "__main__":
    harness.main()
