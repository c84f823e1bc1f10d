"""vdn and qmix: kills of agents and of the central process, and a resume, change no byte."""
import harness

CONFIG = """
run: {name: team, seed: 4, env_steps: 4000}
env: {id: simple_spread, reward: team_mean, copies: 4, max_steps: 10, params: {agents: 2}}
experience: {capacity: 2000, batch_size: 6, warmup: 200, update_every: 40}
evaluation: {every_env_steps: 2000, episodes: 4}
checkpoint: {every_env_steps: 1000, max_to_keep: 0}
defaults:
  algorithm: %s
  settings:
    recurrent: 8
    last_action: true
    agent_id: true
    lambda: 0.6
    target_every: 5
    epsilon: 1 to 0.1 over 3000
  critic: {hidden: [16]}
  optimizer: {learning_rate: 0.001 to 0 over 4000}
  restart: {max_restarts: 1000, delay: 0s}
"""
KILLS_EACH = 3


def final(run):
    files = harness.tree_bytes(run / "checkpoints" / "4000")
    assert len(files) >= 9, files.keys()
    return files


def kill_each(p, names):
    """Each process some times, as long as the run goes on."""
    dead = set()
    for _ in range(KILLS_EACH):
        for name in names:
            pid = harness.wait_until(
                f"another {name}", lambda: p.poll() is not None or next(
                    (n for n in [harness.agents_of(p.pid).get(name)] if n and n not in dead),
                    None))
            if pid is True:
                return
            harness.kill(pid)
            dead.add(pid)


def check(w, algorithm, names):
    config = w.write(f"{algorithm}.yaml", CONFIG % algorithm)
    w.brood("run", config, "--name", "calm")
    p = w.start("run", config, "--name", "killed")
    kill_each(p, names)
    p.wait(timeout=harness.DEADLINE_S)
    assert p.returncode == 0, p.log.read_text()
    assert "was ended by SIGKILL" in p.log.read_text(), p.log.read_text()
    calm = final(w.run_dir("calm"))
    harness.assert_same_files(calm, final(w.run_dir("killed")))
    again = w.path / "again"
    harness.copy_run(w.run_dir("calm"), again)
    w.brood("resume", again, "--from", "2000")
    harness.assert_same_files(calm, final(again))


def test_vdn(w):
    check(w, "vdn", ["agent_0", "agent_1"])


def test_qmix(w):
    check(w, "qmix", ["agent_0", "central", "agent_1"])


def test_a_team_needs_one_reward(w):
    config = w.write("own.yaml", CONFIG.replace("reward: team_mean, ", "") % "qmix")
    _, err = w.brood("check", config, code=2)
    assert "env.reward: found 'own', expected team_mean (or team_sum): qmix learns one " \
        "value for the whole team" in err, err


if __name__ == "__main__":
    harness.main()
