"""Two hundred agents start in two seconds; fifty are killed at once and replaced; no leaks."""
import random
import time

import harness

AGENTS = 200 if not harness.SANITIZED else 40
KILLED = AGENTS // 4
ROUNDS = 4
UP_WITHIN_S = 2.0
RSS_SLACK_KIB = 2048
# All learn, so that a killed agent has requests to replay.
CONFIG = f"""
run: {{name: many, seed: 1, env_steps: 10000000}}
env: {{id: constant_reward, copies: 1, max_steps: 5, params: {{agents: {AGENTS}}}}}
experience: {{capacity: 1000, batch_size: 8, warmup: 64, update_every: 20}}
evaluation: {{every_env_steps: 0}}
checkpoint: {{every_env_steps: 0}}
log: {{every_env_steps: 1}}
defaults:
  algorithm: ddpg
  actor: {{hidden: [4]}}
  critic: {{hidden: [4], input: own}}
  restart: {{max_restarts: 1000}}
"""


def test_all_are_up_soon_and_come_back_from_kills(w):
    config, run = w.write("many.yaml", CONFIG), w.run_dir("many")
    begin = time.monotonic()
    # Fewer open files than they take: the limit is raised as far as is allowed.
    p = w.start("run", config, "--name", "many", prefix=("prlimit", "--nofile=256:4096"),
                env=harness.VISIBLE)
    harness.wait_until("a round of all", lambda: harness.rows(run) > 0 or p.poll() is not None)
    up_s = time.monotonic() - begin
    supervisor = harness.supervisor_of(p.pid)
    assert up_s < UP_WITHIN_S or up_s < harness.allowed_s(UP_WITHIN_S), up_s
    harness.wait_until("learning", lambda: harness.rows(run) > 100)
    before = harness.settled(supervisor, AGENTS)
    draw, took = random.Random(7), []
    for _ in range(ROUNDS):
        victims = draw.sample(sorted(harness.agents_of(p.pid).values()), KILLED)
        begin = time.monotonic()
        for pid in victims:
            harness.kill(pid)
        n = harness.rows(run)
        harness.wait_until("all of them again", lambda: len(
            now := set(harness.agents_of(p.pid).values())) == AGENTS
            and not now & set(victims) and harness.rows(run) > n + 1)
        took.append(time.monotonic() - begin)
    print(f"# {AGENTS} agents, a round of all after {up_s:.2f} s; {KILLED} killed and back "
          f"after {', '.join(f'{s:.2f}' for s in took)} s")
    harness.assert_nothing_grew(supervisor, AGENTS, before, RSS_SLACK_KIB)
    everyone = harness.members(p.pid)
    harness.kill(p.pid, harness.signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert not any(harness.alive(pid) for pid in everyone)


def test_too_few_files_are_told_before_any_agent_starts(w):
    few = ("prlimit", "--nofile=40:40")
    for file, n in ((w.write("many.yaml", CONFIG), f"{AGENTS} processes"),
                    (w.write("one.yaml", "env: {id: simple}\n"), "1 process")):
        for command in ("check", "run"):
            _, err = w.brood(command, file, code=1, prefix=few)
            line, = err.splitlines()
            assert "at most 40 open files are allowed here, and a run may need" in line and \
                f" for each of {n}, 256 for itself; raise the hard limit" in line, err
    assert not w.runs.exists() or not list(w.runs.iterdir())


if __name__ == "__main__":
    harness.main()
