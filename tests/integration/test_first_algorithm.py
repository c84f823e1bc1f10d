"""The algorithm in C of tests/examples, which agent/algo/README.md explains: it learns, and kills
change no byte."""
import harness

AGENT = harness.BUILD / "tests" / "examples" / "first_algorithm"
CONFIG = """
env: {id: simple, copies: 16}
run: {env_steps: 60000, seed: 2}
experience: {batch_size: 128, warmup: 1000, update_every: 64}
checkpoint: {every_env_steps: 20000, max_to_keep: none}
evaluation: {every_env_steps: 0}
defaults:
  algorithm: iql
  discount: 0.9
  critic: {hidden: [32, 32]}
  optimizer: {learning_rate: 0.003}
  settings: {epsilon: 1 to 0.1 over 30000}
agents: {agent: {restart: {max_restarts: 1000000, delay: 0s}}}
"""


def weights(w, run):
    folder = w.run_dir(run) / "checkpoints" / str(w.status(run)["env_steps"]) / "agent_0"
    found = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert len(found) >= 4, found.keys()
    return found


def test_it_learns_and_kills_change_no_byte(w):
    brood = w.program_with_agent(AGENT)
    config = w.write("first.yaml", CONFIG)
    w.brood("run", config, "--name", "calm", program=brood)
    first, last = (harness.json_lines(w.brood("eval", "calm", "--checkpoint", step, "--episodes", "50",
                                              "--json", program=brood)[0])[0]["team_return_mean"]
                   for step in ("0", str(w.status("calm")["env_steps"])))
    assert last > first + 5 and last > -20, (first, last)
    p = w.start("run", config, "--name", "killed", program=brood)
    killed = 0
    while p.poll() is None and killed < 6:
        if w.run_dir("killed").exists():
            for a in w.status("killed")["agents"]:
                if a.get("pid") and p.poll() is None and a["pid"] in harness.processes():
                    harness.kill(a["pid"])
                    killed += 1
    assert p.wait() == 0 and killed >= 1, killed
    harness.assert_same_files(weights(w, "calm"), weights(w, "killed"))


def test_it_refuses_what_it_cannot_play(w):
    config = w.write("first.yaml", CONFIG)
    _, err = w.brood("check", config, "--set", "env.actions=continuous", code=2,
                     program=w.program_with_agent(AGENT))
    assert "it needs discrete actions" in err and err.count("\n") == 1, err


if __name__ == "__main__":
    harness.main()
