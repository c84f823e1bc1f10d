"""Every kind of rows that an update can learn from, and columns that agents add to them:
deaths of agents and of the supervisor change no byte. The agents check each update's rows
(tests/support/rowkinds.h)."""
import harness
from test_exactness import outcome

AGENT = harness.BUILD / "tests" / "support" / "rowkinds_agent"
EVERY = 400
CONFIG = """
run: {{name: rows, seed: 3, env_steps: {steps}}}
env: {{id: simple_spread, copies: 4, max_steps: 7, params: {{agents: 2}}}}
experience: {{capacity: 300, batch_size: 16, warmup: 60, update_every: 20}}
evaluation: {{every_env_steps: 400, episodes: 2}}
checkpoint: {{every_env_steps: {every}}}
log: {{every_env_steps: {every}}}
defaults: {{algorithm: {algorithm}}}
"""
KINDS = {"transitions": "maddpg", "episodes": "ddpg", "window": "iql"}


def test_deaths_and_a_resume_change_no_byte(w):
    for kind, algorithm in KINDS.items():
        path = w.write(f"{kind}.yaml", CONFIG.format(algorithm=algorithm, steps=harness.FOREVER,
                                                     every=EVERY))
        run = w.run_dir(kind)
        p = w.start("run", path, "--name", kind, program=w.program_with_agent(AGENT))
        harness.wait_until("checkpoints", lambda: len(harness.checkpoints(run)) >= 3)
        harness.kill_holder(p, run)
        program = w.program_with_agent(AGENT)
        end = (harness.checkpoints(run)[-1] // EVERY + 2) * EVERY
        w.brood("resume", run, "--set", f"run.env_steps={end}", program=program, env={
            "BROOD_FAULT": "agent_0:learn:before-reply:3,kill;agent_1:act:after-reply:9,kill"})
        assert (run / "journal").read_text().count(" event=respawn ") == 2
        w.brood("run", path, "--name", f"{kind}-calm", "--set", f"run.env_steps={end}",
                program=program)
        harness.assert_same_files(outcome(w.run_dir(f"{kind}-calm")), outcome(run))
        print(f"# {kind}: {end} steps")


def test_priorities_survive_deaths_and_a_resume(w):
    """Real learners draw by their errors; the priorities are part of a checkpoint."""
    outcomes = {}
    for algorithm, more in (("maddpg", "actor: {hidden: [8]}"),
                            ("ddpg", "settings: {own_batches: true}"), ("iql", "")):
        path = w.write(f"{algorithm}.yaml", CONFIG.format(
            algorithm=f"{algorithm}, critic: {{hidden: [8]}}, {more}", steps=harness.FOREVER,
            every=EVERY))
        run = w.run_dir(algorithm)
        by_error = ("--set", "experience.priority={alpha: 0.7, beta: 0.5, over: 4000}")
        program = w.program_with_agent(harness.FAULT_AGENT)
        p = w.start("run", path, "--name", algorithm, *by_error, program=program)
        harness.wait_until("checkpoints", lambda: len(harness.checkpoints(run)) >= 2)
        harness.kill_holder(p, run)
        end = (harness.checkpoints(run)[-1] // EVERY + 1) * EVERY
        program = w.program_with_agent(harness.FAULT_AGENT)
        w.brood("resume", run, "--set", f"run.env_steps={end}", program=program, env={
            "BROOD_FAULT": "agent_0:learn:before-reply:3,kill;agent_1:learn:after-reply:9,kill"})
        assert (run / "journal").read_text().count(" event=respawn ") == 2
        for name, how in (("calm", by_error), ("even", ())):
            w.brood("run", path, "--name", f"{algorithm}-{name}", "--set",
                    f"run.env_steps={end}", *how, program=program)
            outcomes[name] = outcome(w.run_dir(f"{algorithm}-{name}"))
        harness.assert_same_files(outcomes["calm"], outcome(run))
        assert outcomes["calm"] != outcomes["even"], algorithm


def test_weights_of_priorities_do_not_depend_on_a_later_length(w):
    """beta rises over the length that the run began with: it is replayed so, and a fork from
    before the run was made longer plays the same."""
    path = w.write("iql.yaml", CONFIG.format(algorithm="iql, critic: {hidden: [8]}",
                                             steps=4 * EVERY, every=EVERY))
    w.brood("run", path, "--name", "a", "--set", "experience.priority={alpha: 0.7, beta: 0.5}",
            "--set", "checkpoint.max_to_keep=0")
    w.brood("replay", "a", "--from", EVERY, "--to", 3 * EVERY)
    w.brood("resume", "a", "--set", f"run.env_steps={8 * EVERY}")
    w.brood("replay", "a", "--from", 5 * EVERY, "--to", 7 * EVERY)
    w.brood("fork", f"a@{EVERY}", "--name", "b")
    harness.assert_same_files(outcome(w.run_dir("a")), outcome(w.run_dir("b")))


def test_windows_need_whole_rounds(w):
    path = w.write("odd.yaml", CONFIG.format(algorithm="iql", steps=400, every=EVERY))
    _, err = w.brood("run", path, "--set", "experience.update_every=18", code=2,
                     program=w.program_with_agent(AGENT))
    assert "experience.update_every: found 18, expected a multiple of env.copies, 4" in err, err


if __name__ == "__main__":
    harness.main()
