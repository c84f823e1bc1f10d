"""Prepared processes: agents that are programs are forked by one that has done the imports."""
import importlib.util
import os
import signal

import harness
from test_exactness import outcome

EXAMPLE = harness.SOURCE / "tests" / "examples" / "agents" / "numpy_q.py"
CONFIG = """
env: {{id: simple_spread}}
run: {{env_steps: {steps}, seed: 5}}
defaults:
  algorithm: program
  command: [python3, mine.py]
  environment: {{FAULT: "{fault}"}}
  restart: {{max_restarts: 1000000, delay: 0s}}
experience: {{batch_size: 8, warmup: 50, update_every: 20}}
checkpoint: {{every_env_steps: 500, max_to_keep: none}}
evaluation: {{every_env_steps: 500, episodes: 2}}
"""
FAULTS = '''
import os, threading, time
FAULT, FORK = os.environ.get("FAULT", ""), os.fork
COUNT = []

def fork():
    COUNT.append(1)
    if FAULT == "first" and len(COUNT) == 1 or FAULT == "second" and len(COUNT) == 2:
        raise BlockingIOError(11, "no process is left")
    if FAULT == "gone":
        os._exit(1)
    return FORK()

os.fork = fork
if FAULT == "large":
    LARGE = bytearray(b"x") * (96 << 20)
while FAULT == "waits" and "/programs/" in os.getcwd() and not os.path.exists(
        os.path.join(os.environ["BROOD_DIRECTORY"], "go")):
    time.sleep(0.01)
if FAULT == "thread":
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
'''


def configured(w, steps=harness.FOREVER, fault="", name="prepared.yaml"):
    for module in ("numpy", "msgpack"):
        if importlib.util.find_spec(module) is None:
            raise harness.Skip(f"Python has no {module}")
    (w.path / "mine.py").write_text(FAULTS + EXAMPLE.read_text())
    return w.write(name, CONFIG.format(steps=steps, fault=fault))


def agents(status):
    return {a["pid"] for a in status["agents"] if a.get("pid")}


def prepared(status):
    """The pid of the prepared process, the only child of the supervisor that is no agent, if no
    agent has started since that status."""
    others = [pid for pid, (state, _, line) in harness.children(status["pid"]).items()
              if pid not in agents(status) and state != "Z" and "mine.py" in line]
    return others[0] if len(others) == 1 else None


def ids(w, run):
    """(of the prepared process, of the agents, of the supervisor), when all of them run. A
    prepared process that has died is replaced when an agent starts the next time."""
    def found():
        status = w.status(run)
        assert status["state"] in ("starting", "running"), status["state"]
        pid, alive = prepared(status), agents(status)
        if agents(w.status(run)) != alive:
            return None
        if pid is None and len(alive) == 3:
            harness.kill(min(alive))
        return (pid, alive, status["pid"]) if pid and len(alive) == 3 else None
    harness.wait_until("the run", lambda: harness.checkpoints(w.run_dir(run)))
    return harness.wait_until("a prepared process and its agents", found)


def working_folder(pid):
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def journal(w, run):
    return (w.run_dir(run) / "journal").read_text()


def log(w, run):
    return (w.run_dir(run) / "logs" / "supervisor.log").read_text()


def assert_nothing_is_left(w):
    harness.wait_until("the end of all processes", lambda: not [
        line for _, _, line in harness.processes().values() if str(w.path) in line])


def end_as_calm(w, p, run, config):
    """Let it end soon: it has the bytes of a run whose agents are executed one by one."""
    steps = harness.set_last_step(w, run, 500)
    assert p.wait() == 0, p.log.read_text()
    assert_nothing_is_left(w)
    w.brood("run", config, "--name", "calm", "--set", f"run.env_steps={steps}",
            env={"BROOD_PREPARED": "no"})
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir(run)))


def test_what_is_shared_with_it_is_not_the_agents_memory(w):
    """A limit below what was imported ends no agent that has not written there."""
    config = configured(w, fault="large")
    w.brood("run", config, "--name", "small", "--set", "defaults.memory_limit=80M", "--set",
            "run.env_steps=500")
    p = w.start("run", config, "--name", "seen")
    ids(w, "seen")
    sizes = [a["rss_bytes"] for a in w.status("seen")["agents"]]
    assert len(sizes) == 3 and all(1 << 20 < n < 80 << 20 for n in sizes), sizes
    w.brood("stop", "seen")
    p.wait()
    assert "event=respawn" not in (w.run_dir("small") / "journal").read_text()


def test_agents_are_forked_and_give_the_same_bytes(w):
    config = configured(w)
    p = w.start("run", config, "--name", "a")
    pid, found, _ = ids(w, "a")
    mark = f"/proc/{pid}/cmdline"
    assert all(open(f"/proc/{a}/cmdline").read() == open(mark).read() for a in found
               if os.path.exists(f"/proc/{a}/cmdline"))
    for a in found:
        harness.kill(a)
    end_as_calm(w, p, "a", config)
    assert journal(w, "a").count("event=respawn") >= 1
    assert "prepared" not in log(w, "a"), log(w, "a")


def test_a_prepared_process_that_is_killed_is_replaced(w):
    """By the next agent that starts, three times; then agents are executed."""
    config = configured(w)
    p = w.start("run", config, "--name", "a")
    killed = set()
    for _ in range(3):
        pid, found, _ = ids(w, "a")
        assert pid not in killed
        killed.add(pid)
        harness.kill_and_wait(pid)
        harness.kill(min(found))
    harness.wait_until("the third death", lambda: "no process of the program can be" in log(w, "a"))
    w.brood("stop", "a")
    assert p.wait() == 4
    assert_nothing_is_left(w)


def test_one_that_is_killed_while_it_imports_is_replaced(w):
    """By the next agent that starts, as one that is killed later."""
    config = configured(w, fault="waits")
    p = w.start("run", config, "--name", "a")
    folder = w.run_dir("a") / "programs"
    pid, = harness.wait_until("its imports", lambda: [
        pid for pid in harness.processes() if str(folder) in working_folder(pid)])
    harness.kill_and_wait(pid)
    (w.path / "go").touch()
    ids(w, "a")
    end_as_calm(w, p, "a", config)
    assert "can be prepared" not in log(w, "a"), log(w, "a")


def test_all_processes_are_killed_at_once(w):
    config = configured(w)
    p = w.start("run", config, "--name", "a")
    for _ in range(2):
        pid, found, _ = ids(w, "a")
        for each in (pid, *found):
            harness.kill(each)
    end_as_calm(w, p, "a", config)


def test_what_cannot_be_prepared_is_executed(w):
    """One warning says so; a fork that failed once is no reason to give up."""
    outcomes = []
    for fault, says in (("", None), ("thread", "it has 2 threads after its imports"),
                        ("first", None), ("second", None), ("gone", None)):
        name = fault or "calm"
        w.brood("run", configured(w, 500, fault), "--name", name)
        assert log(w, name).count("can be prepared") == (says is not None), log(w, name)
        assert says is None or says in log(w, name), log(w, name)
        assert_nothing_is_left(w)
        outcomes.append({k: v for k, v in outcome(w.run_dir(name)).items() if ".data-" in k})
        assert outcomes[-1]
        harness.assert_same_files(outcomes[0], outcomes[-1])


def test_one_that_hangs_is_killed(w):
    config = configured(w)
    p = w.start("run", config, "--name", "a")
    pid, found, _ = ids(w, "a")
    harness.kill(pid, signal.SIGSTOP)
    harness.kill(min(found))
    harness.wait_until("its end", lambda: not harness.alive(pid))
    assert "it does not answer in time" in log(w, "a")
    w.brood("stop", "a")
    assert p.wait() == 4
    assert "event=respawn" in journal(w, "a")
    assert_nothing_is_left(w)


def test_none_outlives_its_supervisor(w):
    p = w.start("run", configured(w), "--name", "a")
    pid, found, supervisor = ids(w, "a")
    harness.kill(supervisor)
    harness.wait_until("the end of all", lambda: not any(map(harness.alive, (pid, *found))))
    p.wait()
    assert_nothing_is_left(w)


if __name__ == "__main__":
    harness.main()
