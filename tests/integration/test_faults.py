"""Deaths of one or several agents at every point of every request change no byte."""
import itertools
import json
import re
import signal

import harness
from test_changes import final
from test_exactness import outcome
from test_steering import drive, need_msgpack, serve

POINTS = ("before-read", "half-read", "before-reply", "half-reply", "after-reply")
# What dies at which of its requests; a later death is that of the process that was started
# for the dead one. After 25 rounds there is an evaluation.
METHODS = {
    "configure": (("configure", 1),),
    "metagraph": (("metagraph", 1),),
    "act": (("act", 20),),
    "act, evaluating": (("act", 40),),
    "propose": (("propose", 4),),
    "learn": (("learn", 4),),
    "configure again": (("learn", 3, "after-reply"), ("configure", 1)),
    "act again": (("act", 20, "before-reply"), ("act", 1)),
    "learn again": (("learn", 3, "after-reply"), ("learn", 1)),
}
AGENTS = ("agent_0", "agent_1", "agent_2")


def spec(deaths, point, n_agents, end="kill"):
    return ";".join(f"{agent}{f'/{i}' if i else ''}:{method}:{at[0] if at else point}:{n},{end}"
                    for agent in AGENTS[:n_agents]
                    for i, (method, n, *at) in enumerate(deaths))


def run(w, name, fault, *more, steps=400):
    """Make a short run; returns its last event and its directory."""
    program = w.program_with_agent(harness.FAULT_AGENT)
    out, _ = w.brood("run", w.small(steps=steps, evaluate=100), "--name", name, "--json",
                     *more, program=program, env={"BROOD_FAULT": fault})
    return harness.json_lines(out)[-1], w.run_dir(name)


def at_every_point(deaths):
    """One after another: those deaths at each of the points. The first request of the process
    that takes over may be the one that killed the last process, so its next one is later."""
    return [(method, n if i == 0 else min(n, 2), *(at or [point]))
            for i, point in enumerate(POINTS) for method, n, *at in deaths]


def test_every_point_of_every_method(w):
    patient = ("--set", "defaults.restart={max_restarts: 1000, delay: 0s}")
    _, calm = run(w, "calm", "", *patient, steps=600)
    calm = outcome(calm)
    numbers = (1, 2, 3) if not harness.SANITIZED else (3,)
    for method, n in itertools.product(METHODS, numbers):
        deaths = at_every_point(METHODS[method])
        done, place = run(w, f"{method.replace(' ', '-').replace(',', '')}-{n}",
                          spec(deaths, None, n), *patient, steps=600)
        assert done["restarts"] == n * len(deaths), (method, n, done)
        harness.assert_same_files(calm, outcome(place))
        print(f"# {method:<15} {n} at once, {len(deaths)} times: equal", flush=True)


def deaths_with_settings(w, methods, points, *settings):
    """Two agents die at each of the methods. The settings change what is learned."""
    more = [word for s in settings for word in ("--set", f"defaults.{s}")]
    _, plain = run(w, "plain", "")
    _, calm = run(w, "calm", "", *more)
    calm = outcome(calm)
    assert calm["progress.csv"] != outcome(plain)["progress.csv"]
    for i, (deaths, point) in enumerate(itertools.product(methods, points)):
        done, place = run(w, f"r{i}", spec(deaths, point, 2), *more)
        assert done["restarts"] == 2 * len(deaths), (deaths, point, done)
        harness.assert_same_files(calm, outcome(place))


def test_deaths_of_agents_that_turn_rows_and_scale_rewards(w):
    methods = [METHODS[m] for m in ("configure", "propose", "learn", "learn again")]
    deaths_with_settings(w, methods, ["before-reply"], "settings.symmetry=env",
                         "settings.reward_scale=running")


def test_deaths_of_agents_whose_policy_learns_later(w):
    """Every second update of matd3 moves the policy; the later deaths of a list are those of
    the processes that took over."""
    methods = [[("propose", 4), ("critic", 1), ("learn", 2)],
               [("critic", 3, "after-reply"), ("learn", 1), ("learn", 2)]]
    points = ["before-reply"] if harness.SANITIZED else ["half-read", "after-reply"]
    deaths_with_settings(w, methods, points, "algorithm=matd3")


def test_deaths_after_the_last_round_change_nothing(w):
    _, calm = run(w, "calm", "")
    for i, point in enumerate(POINTS):
        done, place = run(w, f"r{i}", spec([("shutdown", 1)], point, 3))
        assert done["restarts"] == 0, done
        assert (place / "journal").read_text().count("signal=SIGKILL in=stopping") == 3
        harness.assert_same_files(outcome(calm), outcome(place))


def run_with_a_change(w, name, fault):
    """A run of which an agent stands still in its third round until a change of a learning
    rate is planned for step 900; the number of deaths, and the outcome."""
    program = w.program_with_agent(harness.FAULT_AGENT)
    p = w.start("run", w.small(steps=1000), "--name", name, "--set",
                "defaults.respond_within=1h", program=program,
                env={"BROOD_FAULT": f"agent_0:act:after-reply:3,stop;{fault}"})
    stopped = harness.wait_until("the stop", lambda: p.poll() is not None or next(
        filter(harness.is_stopped, harness.agents_of(p.pid).values()), None))
    w.brood("set", name, "defaults.optimizer.learning_rate=0.02", "--at-step", "900")
    harness.kill(stopped, signal.SIGCONT)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    return (w.run_dir(name) / "journal").read_text().count(" event=respawn "), \
        outcome(w.run_dir(name))


def test_deaths_in_a_change_of_the_configuration(w):
    deaths, calm = run_with_a_change(w, "calm", "")
    assert deaths == 0
    for i, point in enumerate(POINTS):
        deaths, changed = run_with_a_change(w, f"r{i}", spec([("set", 1)], point, 3))
        assert deaths == 3, deaths
        harness.assert_same_files(calm, changed)


def test_deaths_in_a_driven_run(w):
    """All four critics die at once while clients wait for their answers."""
    need_msgpack()
    results = {}
    for point in ("calm", *POINTS):
        program = w.program_with_agent(harness.FAULT_AGENT)
        fault = ";".join(f"node_{i}:run:{point}:{7 + i},kill" for i in (1, 2, 3, 4))
        p, place = serve(w, point, program=program, env={
            "BROOD_FAULT": "" if point == "calm" else fault})
        client = drive(w, place, "--updates", 8, "--stop")
        assert client.wait(timeout=harness.DEADLINE_S) == 0, (place / "driven").read_text()
        p.wait(timeout=harness.DEADLINE_S)
        results[point] = final(place, 4 * 8)
        deaths = (place / "journal").read_text().count(" event=respawn ")
        assert deaths == (0 if point == "calm" else 4), (point, deaths)
        assert results[point] == results["calm"], point


# What an agent does to its supervisor instead of answering, and the expected message.
HOSTILE = {"garbage": "frame", "giant": "frame", "array": "", "wrong-id": "",
           "shrink": "SIGKILL", "flood": None}


def test_agents_that_turn_upon_the_supervisor(w):
    """Messages name them, they are replaced, memory stays bounded, and no byte changes."""
    limits = ("prlimit", "--core=0") if harness.SANITIZED else \
        ("prlimit", "--core=0", f"--as={1 << 36}", f"--data={1 << 28}")
    _, calm = run(w, "calm", "")
    for how, said in HOSTILE.items():
        program = w.program_with_agent(harness.FAULT_AGENT)
        out, err = w.brood("run", w.small(steps=400, evaluate=100), "--name", how, "--json",
                           prefix=limits, program=program, env={
                               "BROOD_FAULT": spec([("learn", 4)], "before-reply", 1, how)})
        done = harness.json_lines(out)[-1]
        assert done["restarts"] == (said is not None), (how, done)
        assert said is None or any("agent_0" in line and said in line
                                   for line in err.splitlines()), (how, err)
        harness.assert_same_files(outcome(calm), outcome(w.run_dir(how)))
    log = w.run_dir("flood") / "logs" / "agent_0.log"
    assert 0 < log.stat().st_size < 64 << 20, log.stat()


def test_stopped_agents_are_ended_by_the_watchdog(w):
    patience = ("--set", "defaults.respond_within=%s" % ("2s" if not harness.SANITIZED
                                                         else "5s"))
    _, calm = run(w, "calm", "", *patience)
    for method in ("act", "learn"):
        done, place = run(w, method, spec(METHODS[method], "before-reply", 3, "stop"), *patience)
        assert done["restarts"] >= 3, done  # others, too, if the machine delays them
        assert (place / "journal").read_text().count("is stopped") == 3
        harness.assert_same_files(outcome(calm), outcome(place))


def test_a_request_that_kills_its_agent_is_named(w):
    fault = ";".join(f"agent_1/{i}:learn:before-reply:1,abort" for i in range(3))
    program = w.program_with_agent(harness.FAULT_AGENT)
    p = w.start("run", w.small(steps=400), "--name", "poisoned", program=program,
                env={"BROOD_FAULT": fault})
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    last = p.log.read_text().splitlines()[-1]
    assert "agent_1" in last and "learn of update 0 ended it 3 times" in last \
        and "SIGABRT" in last, last


def test_a_run_that_an_agent_ends_is_saved_where_it_stood(w):
    """Also in the middle of a round: a resume from there ends with the same bytes."""
    # The first death ends it.
    more = ("--set", "agents.agent_1.restart.policy=temporary", "--set",
            "checkpoint.every_env_steps=300", "--set", "evaluation.every_env_steps=100")
    _, calm = run(w, "calm", "", *more)
    for i, (method, point, n) in enumerate((
            ("act", "before-reply", 30), ("act", "half-read", 71),
            ("propose", "before-reply", 5), ("learn", "before-reply", 7),
            ("learn", "half-reply", 3))):
        program = w.program_with_agent(harness.FAULT_AGENT)
        p = w.start("run", w.small(steps=400), "--name", f"r{i}", *more, program=program,
                    env={"BROOD_FAULT": f"agent_1:{method}:{point}:{n},abort"})
        assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
        said = p.log.read_text().splitlines()
        assert "agent_1" in said[-1] and "SIGABRT" in said[-1], said
        stands = re.search(r"continues from the checkpoint of step (\d+)", said[-2])
        at = [int(line.split()[1][5:]) for line in
              (w.run_dir(f"r{i}") / "journal").read_text().splitlines()
              if " event=failed " in line]
        # In the middle of an update other agents may have learned already, and copies of
        # their previous values are kept only while that is cheap.
        too_dear = method != "act" and any(
            f"no checkpoint of step {at[0]}: the former values" in line for line in said)
        assert stands and (too_dear or [int(stands.group(1))] == at), (said, at)
        w.brood("resume", f"r{i}", program=program, env={"BROOD_FAULT": ""})
        harness.assert_same_files(outcome(calm), outcome(w.run_dir(f"r{i}")))


def test_a_crash_loop_slows_down_and_others_go_on(w):
    """With on_give_up: noop, the others learn to the end. (test_give_up tests frozen.)"""
    fault = ";".join(f"agent_1/{i}:act:before-reply:1,kill" for i in range(1, 9))
    fault += ";agent_1:act:before-reply:30,kill"
    program = w.program_with_agent(harness.FAULT_AGENT)
    out, err = w.brood("run", w.small(steps=2000), "--name", "loop", "--json", "--set",
                       "agents.agent_1.restart={on_give_up: noop, max_restarts: 4, "
                       "delay: 10ms, max_delay: 50ms}", program=program,
                       env={"BROOD_FAULT": fault})
    events = harness.json_lines(out)
    delays = [e["delay_ms"] for e in events if e.get("event") == "wait"]
    assert delays == sorted(delays) and 0 < delays[0] <= 10 and delays[-1] <= 50, delays
    assert [e["agent"] for e in events if e.get("event") == "give_up"] == ["agent_1"]
    assert json.loads(out.splitlines()[-1])["env_steps"] == 2000
    assert "does nothing from now on" in err, err


if __name__ == "__main__":
    harness.main()
