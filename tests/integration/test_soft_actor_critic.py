"""isac and masac in whole runs: deaths at every stage, and a resume, change no byte."""
import harness
from test_exactness import outcome
from test_faults import spec
from test_masks import fetch

CONFIG = """
run: {{name: soft, seed: 3, env_steps: 800}}
env: {{id: simple_spread, copies: 4, max_steps: 10, actions: {actions}, params: {{agents: 2}}}}
experience: {{capacity: 400, batch_size: 16, warmup: 100, update_every: 40,
             priority: {{alpha: 0.7, beta: 0.5}}}}
evaluation: {{every_env_steps: 400, episodes: 4}}
checkpoint: {{every_env_steps: 400, max_to_keep: 0}}
log: {{every_env_steps: 100}}
defaults:
  algorithm: {algorithm}
  actor: {{hidden: [16]}}
  critic: {{hidden: [16]}}
  optimizer: {{learning_rate: 0.001 to 0 over 800}}
  settings: {{{settings}}}
  restart: {{max_restarts: 1000, delay: 0s}}
"""


def run(w, config, name, fault=""):
    """The outcome of a run whose agents die so."""
    program = w.program_with_agent(harness.FAULT_AGENT)
    w.brood("run", config, "--name", name, program=program, env={"BROOD_FAULT": fault})
    return outcome(w.run_dir(name))


def check(w, algorithm, actions, settings, stages):
    """In one run both agents die before and after each stage's answer, one process after the
    other; also a resume of the run without deaths."""
    config = w.write("soft.yaml", CONFIG.format(algorithm=algorithm, actions=actions,
                                                settings=settings))
    calm = run(w, config, "calm")
    # The nth process of an agent dies at the nth of these, at its third request of that stage.
    deaths = [(stage, 3, point) for stage in stages for point in ("before-reply", "after-reply")]
    killed = run(w, config, "killed", spec(deaths, None, 2))
    assert (w.run_dir("killed") / "journal").read_text().count(" event=respawn ") == \
        2 * len(deaths)
    harness.assert_same_files(calm, killed)
    again = harness.copy_run(w.run_dir("calm"), w.path / "again")
    w.brood("resume", again, "--from", "400", program=w.program_with_agent(harness.FAULT_AGENT))
    harness.assert_same_files(calm, outcome(again))


def test_masac_with_choices(w):
    check(w, "masac", "discrete", "symmetry: env", ("act", "propose", "critic", "learn"))


def test_masac_with_numbers(w):
    check(w, "masac", "continuous", "own_batches: true", ("propose", "critic", "learn"))
    # a setting below 0, which checkpoints' graphs have as it is
    assert fetch(w, "calm", "agent_1", "agent_1/target_entropy:0") == [-1]


def test_a_live_setting_may_be_below_0(w):
    config = w.write("soft.yaml", CONFIG.format(algorithm="isac", actions="continuous",
                                                settings="own_batches: true"))
    p = w.start("run", config, "--name", "live", "--set", f"run.env_steps={harness.FOREVER}")
    live = w.run_dir("live")
    harness.wait_until("rows", lambda: harness.rows(live) > 2)
    w.brood("set", "live", "defaults.settings.target_entropy_each=-0.5")
    harness.wait_until("the change", lambda: "event=changed" in (live / "journal").read_text()
                       or p.poll() is not None)
    rows = harness.rows(live)
    harness.wait_until("more rows", lambda: harness.rows(live) > rows + 2 or
                       p.poll() is not None)
    w.brood("stop", "live")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert " event=respawn " not in (live / "journal").read_text()


def test_isac(w):
    check(w, "isac", "continuous", "symmetry: env", ("act", "learn"))


if __name__ == "__main__":
    harness.main()
