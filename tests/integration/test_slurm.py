"""Slurm: nodes as its jobs and steps, runs and trials as its jobs. The bytes are those of a run
on one machine, whatever dies or is cancelled, and nothing is left behind."""
import os
import pathlib
import shutil
import signal

import harness
import slurm_rig
from network import listening
from test_cluster import PATIENT, agents_on, end_as_calm, end_of_all, start, trained


def cluster(more=""):
    return ("--set", f"cluster={{launcher: slurm{more}}}")


def nodes_of(rig):
    """pid -> the name that Slurm gives its machine, of all nodes that run, behind their keepers."""
    found = {}
    for keeper, words in rig.processes().items():
        pid = harness.supervisor_of(keeper) if "--connect" in words else None
        try:
            environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:   # there is none, or it has just ended
            continue
        found.update((pid, v.split(b"=")[1].decode()) for v in environ
                     if v.startswith(b"SLURMD_NODENAME="))
    return found


def sruns_of(keeper):
    """Lists of the pids of each srun of a run, the first one first."""
    found = []
    for pid, (state, _, command) in sorted(
            harness.children(harness.supervisor_of(keeper) or 0).items()):
        if command.startswith("srun ") and state != "Z":
            found.append([pid, *harness.children(pid)])
    return found


def await_nodes(rig, p, n):
    """The nodes, when all of a run's are there and have their agents."""
    def look():
        assert p.poll() is None, p.log.read_text()
        nodes = nodes_of(rig)
        return len(nodes) == n and sum(len(agents_on(pid)) for pid in nodes) == 3 and nodes
    return harness.wait_until("the nodes", look)


def progress(w, p, name):
    at = w.status(name)["env_steps"]
    harness.wait_until("progress", lambda: p.poll() is not None or
                       w.status(name)["env_steps"] > at)
    assert p.poll() is None, p.log.read_text()


def end_and_compare(w, rig, p, name, file):
    end_as_calm(w, p, name, file, 400, others=rig.processes())
    harness.wait_until("no job", rig.is_idle)


@slurm_rig.on_slurm
def test_the_same_bytes_as_on_one_machine(w, rig):
    """Each node is a job of its own, on a machine of its own."""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    p = start(w, "there", file, *PATIENT, *cluster(", nodes: 3, options: [--exclusive]"))
    assert sorted(await_nodes(rig, p, 3).values()) == ["n1", "n2", "n3"]
    assert listening(harness.supervisor_of(p.pid)) == ["127.0.0.1"]  # where sinfo says they are
    names = sorted(name for _, name in rig.jobs().values())
    assert [name.rsplit("-", 1)[0] for name in names] == [f"brood-there-{i}" for i in range(3)]
    end_and_compare(w, rig, p, "there", file)


@slurm_rig.on_slurm
def test_steps_of_an_allocation(w, rig):
    """Inside of a job there are as many nodes as it has; a step that is cancelled is
    replaced in its place."""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    p = w.start("-N2", "-n2", harness.BROOD, "run", file, "--name", "steps", *PATIENT,
                *cluster(), program="salloc")
    nodes = harness.wait_until("the nodes", lambda: (
        n := nodes_of(rig)) and len(n) == 2 and n)
    assert sorted(nodes.values()) == ["n1", "n2"], nodes
    job, = rig.jobs()
    harness.wait_until("a round", lambda: harness.checkpoints(w.run_dir("steps")))
    steps = rig.run("squeue", "--noheader", "--steps", f"--jobs={job}",
                    "--format=%i %j").splitlines()
    step, = [line.split()[0] for line in steps if "brood-steps-1-" in line]
    second, = [pid for pid, name in nodes.items() if name == "n2"]
    rig.run("scancel", step)
    harness.wait_until("its end", lambda: not harness.alive(second))
    assert sorted(harness.wait_until("another", lambda: (
        n := nodes_of(rig)) and len(n) == 2 and n).values()) == ["n1", "n2"]
    progress(w, p, "steps")
    end_and_compare(w, rig, p, "steps", file)


def silence_without_srun(w, rig, p, nodes, which):
    """The node goes on without its srun. When it becomes silent, Slurm must end it."""
    both = sruns_of(p.pid)[0]
    assert len(both) == 2, both
    for pid in both:
        harness.kill(pid, signal.SIGSTOP)  # else one would act when the other one ends
    for pid in which(both):
        harness.kill(pid)
    end_of_all(both)  # the supervisor kills what is left of an srun
    assert all(map(harness.alive, nodes)), nodes
    progress(w, p, "killed")
    at = min(nodes)
    harness.kill(at, signal.SIGSTOP)
    return at


def kill_srun(w, rig, p, nodes):
    return silence_without_srun(w, rig, p, nodes, lambda both: both[:1])


def kill_both_sruns(w, rig, p, nodes):
    return silence_without_srun(w, rig, p, nodes, lambda both: both)


def kill_node(w, rig, p, nodes):
    at = min(nodes)
    harness.kill(at)
    return at


def cancel_job(w, rig, p, nodes):
    job = min(rig.jobs(), key=int)
    environ = f"SLURM_JOB_ID={job}".encode()
    at, = [pid for pid in nodes
           if environ in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
    rig.run("scancel", job)
    return at


def kill_slurmd(w, rig, p, nodes):
    """The node goes on without its machine's slurmd; another slurmd then takes its job over."""
    at = min(nodes)
    rig.kill_slurmd(nodes[at])
    progress(w, p, "killed")
    assert harness.alive(at), p.log.read_text()
    rig.start_slurmd(nodes[at])
    harness.kill(at)
    return at


def kill_node_and_slurmd(w, rig, p, nodes):
    """Slurm cannot end the job, nor does it know that, until the slurmd is there again."""
    at = min(nodes)
    rig.kill_slurmd(nodes[at])
    harness.kill(at)
    harness.wait_until("another node", lambda: set(nodes_of(rig)) - set(nodes))
    rig.start_slurmd(nodes[at])
    return at


@slurm_rig.on_slurm
def test_deaths_change_no_byte(w, rig):
    """Of one srun, of both processes of an srun, of a node, of a slurmd; and a job that is
    cancelled."""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    p = start(w, "killed", file, *PATIENT, *cluster(", nodes: 2, silence: 3s"))
    for kill in (kill_srun, kill_both_sruns, kill_node, cancel_job, kill_slurmd,
                 kill_node_and_slurmd):
        nodes = await_nodes(rig, p, 2)
        at = kill(w, rig, p, nodes)
        harness.wait_until(f"the end of {at}, {kill.__name__}", lambda: not harness.alive(at))
        others = await_nodes(rig, p, 2)
        assert at not in others and set(others) != set(nodes), (at, nodes, others)
        progress(w, p, "killed")
        harness.wait_until("two jobs", lambda: len(rig.jobs()) == 2)
    end_and_compare(w, rig, p, "killed", file)


@slurm_rig.on_slurm
def test_a_supervisor_that_dies_leaves_no_job(w, rig):
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    for whom in ("supervisor", "keeper"):
        p = start(w, whom, file, *cluster(", nodes: 2"))
        everybody = harness.members(p.pid) | set(await_nodes(rig, p, 2))
        if whom == "keeper":
            harness.kill_and_wait(p.pid)
        else:
            harness.kill_holder(p, w.run_dir(whom))
        end_of_all(everybody)
        harness.wait_until("no job", rig.is_idle)


@slurm_rig.on_slurm
def test_a_stopped_node_that_nobody_can_end_ends(w, rig):
    """Its srun is dead, and so is the run: its keeper kills it and cancels its job."""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    p = start(w, "stopped", file, *cluster(", nodes: 1, silence: 3s"))
    everybody = harness.members(p.pid) | set(rig.processes())
    (node,), (both,) = await_nodes(rig, p, 1), sruns_of(p.pid)
    for pid in (*both, node):
        harness.kill(pid, signal.SIGSTOP)
    for pid in (*both, p.pid, harness.supervisor_of(p.pid)):
        harness.kill(pid)
    end_of_all(everybody)
    harness.wait_until("no job", rig.is_idle)


@slurm_rig.on_slurm
def test_nodes_wait_in_the_queue(w, rig):
    """The run says so, and can be interrupted; otherwise it begins when there is room."""
    rig.run("sbatch", "--parsable", "-N3", "--exclusive", "-o", "/dev/null",
            "--wrap=sleep 4242")
    job, = rig.jobs()
    harness.wait_until("a full cluster", lambda: rig.jobs()[job][0] == "RUNNING")
    for name in ("interrupted", "begins"):
        p = w.start("run", w.small(), "--name", name, *cluster(", nodes: 1"))
        harness.wait_until("the message", lambda: "waits in Slurm's queue" in
                           p.log.read_text() or p.poll() is not None)
        assert p.poll() is None, p.log.read_text()
        assert len(rig.jobs()) == 2, rig.jobs()
        everybody = harness.members(p.pid)
        if name == "interrupted":
            harness.kill(p.pid, signal.SIGTERM)
            assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
            assert list(rig.jobs()) == [job], rig.jobs()
        else:
            rig.run("scancel", job)
            assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
        end_of_all(everybody)
    harness.wait_until("no job", rig.is_idle)


@slurm_rig.on_slurm
def test_the_next_job_of_a_lost_node_waits_in_the_queue(w, rig):
    """No other node could take its agents: that is no failure of its start."""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    p = start(w, "later", file, *PATIENT, *cluster(", nodes: 1"))
    node, = rig.jobs()
    rig.run("sbatch", "-N3", "--exclusive", "-o", "/dev/null", "--wrap=exec sleep 1000000")
    other, = set(rig.jobs()) - {node}
    rig.run("scancel", node)
    harness.wait_until("the message", lambda: "waits in Slurm's queue" in
                       p.log.read_text() or p.poll() is not None)
    assert p.poll() is None, p.log.read_text()
    assert rig.jobs()[other][0] == "RUNNING", rig.jobs()
    rig.run("scancel", other)
    progress(w, p, "later")
    assert [n["restarts"] for n in w.status("later")["nodes"]] == [1]
    end_and_compare(w, rig, p, "later", file)


@slurm_rig.on_slurm
def test_what_cannot_be_is_refused_in_one_line(w, rig):

    def refused(code, *args, command="run", prefix=(), **more):
        args = (w.small(), "-q", *args) if command == "check" else \
            (w.small(), "--name", "refused", "--force", "-q", *args)
        _, err = w.brood(command, *args, code=code, prefix=prefix, **more)
        line, = [line for line in err.splitlines() if not line.startswith("salloc: ")]
        return line
    nope = cluster(", options: [--partition=nope]")
    assert "Invalid partition name" in refused(1, *nope)
    assert "Invalid partition name" in refused(2, *nope, command="check")
    w.brood("check", w.small(), *cluster())
    assert "--ntasks is not possible" in refused(2, *cluster(", options: [--ntasks=2]"),
                                                 command="check")
    few = refused(2, *cluster(", nodes: 3"), prefix=("salloc", "-N2", "-n2"))
    assert "3 nodes are asked for" in few and "has 2" in few, few
    (w.path / "empty").mkdir()
    nothing = {"PATH": str(w.path / "empty")}
    for command in ("run", "check"):
        err = refused(2, *cluster(), command=command, env=nothing)
        assert "needs the program srun" in err, err
    assert "hosts" in refused(2, *cluster(", hosts: [n1]"))
    harness.wait_until("no job", rig.is_idle)


# ---- submit ----

def submit(w, *args):
    """The id of the job of `brood submit`."""
    event, = harness.json_lines(w.brood("submit", "--json", *args)[0])
    return event["job"]


def await_end(w, rig, job):
    """Waits until a job is over; its state."""
    def look():
        state = rig.run("squeue", "--noheader", "--states=all", f"--jobs={job}",
                        "--format=%T").strip()
        return state not in ("PENDING", "RUNNING", "COMPLETING") and state
    return harness.wait_until(f"the end of job {job}", look)


def output_of(w, name, job):
    path = w.runs / ".jobs" / name / f"job-{job}.out"
    return path.read_text() if path.exists() else ""


def starts_of(w, name, job):
    return output_of(w, name, job).count("3 agents, seed 1")


def steps_of(w, name):
    return (harness.checkpoints(w.run_dir(name)) or [0])[-1]


def event_changes(run):
    """What the journal's `set` and `changed` events say, without their times."""
    return [line.split(" event=")[1] for line in (run / "journal").read_text().splitlines()
            if " event=set " in line or " event=changed " in line]


@slurm_rig.on_slurm
def test_a_submitted_run_survives_preemption(w, rig):
    """By the signals that tell of it, and because it is requeued."""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    job = submit(w, file, "--name", "far", *PATIENT)
    for how in (("scancel", "--batch", "--signal=USR1"), ("scancel", "--batch", "--signal=TERM"),
                ("scontrol", "requeue")):
        at = steps_of(w, "far")
        harness.wait_until("progress", lambda: steps_of(w, "far") > at + 400)
        status = w.status("far")
        assert status["job"] == {"id": job, "state": "RUNNING", "reason": None}, status
        starts = starts_of(w, "far", job)
        everybody = set(rig.processes())
        rig.run(*how, job)
        end_of_all(everybody)
        assert output_of(w, "far", job).count("stopped after") == starts, \
            output_of(w, "far", job)
        harness.wait_until("the next start", lambda: starts_of(w, "far", job) > starts)
        assert output_of(w, "far", job).count("continues from step") == starts
    harness.wait_until("a live run", lambda: w.status("far")["state"] == "running")
    steps = harness.set_last_step(w, w.run_dir("far"), 400)
    assert await_end(w, rig, job) == "COMPLETED", output_of(w, "far", job)
    assert w.status("far")["job"]["state"] == "COMPLETED"
    assert f"Slurm job {job}: COMPLETED" in w.brood("status", "far")[0]
    w.brood("run", file, "--name", "calm", *PATIENT, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("far")))
    # The run exists: another job extends nothing, and ends at once.
    assert await_end(w, rig, submit(w, file, "--name", "far")) == "COMPLETED"
    harness.wait_until("no process", lambda: not rig.processes())


@slurm_rig.on_slurm
def test_slurm_itself_preempts_a_job_and_ends_its_time(w, rig):
    """A job of another partition takes its machines; later its time limit is near."""
    if harness.SANITIZED:  # it waits for timers of Slurm, half a minute
        raise harness.Skip("what reaches brood are the signals of the test before")
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    job = submit(w, file, "--name", "low", *PATIENT, "--", "--time=600")
    harness.wait_until("progress", lambda: steps_of(w, "low") > 400)
    everybody = set(rig.processes())
    urgent = rig.run("sbatch", "--parsable", "--partition=urgent", "--nodes=3", "--exclusive",
                     f"--output={w.path}/urgent", "--wrap=exec sleep 1000000").strip()
    end_of_all(everybody)
    assert output_of(w, "low", job).count("stopped after") == 1, output_of(w, "low", job)
    assert starts_of(w, "low", job) == 1
    harness.wait_until("the urgent job", lambda: rig.jobs()[urgent][0] == "RUNNING")
    harness.wait_until("the queue", lambda: w.status("low").get("job", {}).get("state") ==
                       "PENDING")
    rig.run("scancel", urgent)
    harness.wait_until("the next start", lambda: starts_of(w, "low", job) == 2)
    at = steps_of(w, "low")
    harness.wait_until("progress", lambda: steps_of(w, "low") > at + 400)
    # Minutes from its start; the signal comes a minute before the end.
    rig.run("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    harness.wait_until("its time to be over", lambda: output_of(w, "low", job).count(
        "stopped after") == 2)
    rig.run("scontrol", "update", f"JobId={job}", "TimeLimit=600")
    harness.wait_until("the next start", lambda: starts_of(w, "low", job) > 2)
    harness.wait_until("a live run", lambda: w.status("low")["state"] == "running")
    steps = harness.set_last_step(w, w.run_dir("low"), 400)
    assert await_end(w, rig, job) == "COMPLETED", output_of(w, "low", job)
    w.brood("run", file, "--name", "calm", *PATIENT, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("low")))
    harness.wait_until("no process", lambda: not rig.processes())


@slurm_rig.on_slurm
def test_a_cancelled_job_stays_cancelled(w, rig):
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    job = submit(w, file, "--name", "unwanted")
    harness.wait_until("a round", lambda: steps_of(w, "unwanted") > 0)
    _, err = w.brood("submit", file, "--name", "unwanted", code=1)
    assert "is running already" in err or "is submitted already" in err, err
    rig.run("scancel", job)
    assert await_end(w, rig, job) == "CANCELLED"
    assert w.status("unwanted")["state"] == "stopped"
    again = submit(w, file, "--name", "unwanted", "--", "--hold")
    _, err = w.brood("rm", "unwanted", code=2)
    assert f"Slurm job {again} is PENDING" in err, err
    rig.run("scancel", again)
    w.brood("rm", "unwanted")
    assert not (w.runs / ".jobs" / "unwanted").exists()
    harness.wait_until("no process", lambda: not rig.processes())


@slurm_rig.on_slurm
def test_what_waits_has_a_status(w, rig):
    """Before the run has a folder; and a job array has a run for each seed."""
    job = submit(w, w.small(), "--name", "held", "--", "--hold")
    status = w.status("held")
    assert status["state"] == "waiting" and status["job"]["id"] == job, status
    assert status["job"]["state"] == "PENDING", status
    assert "JobHeldUser" in w.brood("status", "held")[0]
    _, err = w.brood("submit", w.small(), "--name", "held", code=1)
    assert f"submitted already, as Slurm job {job} (PENDING)" in err, err
    assert len(rig.jobs()) == 1
    rig.run("scontrol", "release", job)
    assert await_end(w, rig, job) == "COMPLETED", output_of(w, "held", job)
    w.brood("run", w.small(), "--name", "here")
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("held")))
    events = harness.json_lines(
        w.brood("submit", w.small(), "--name", "many", "--seeds", "2-3", "--json")[0])
    assert [e["run"] for e in events] == ["many-s2", "many-s3"], events
    for e in events:
        assert await_end(w, rig, e["job"]) == "COMPLETED", e
    # Each run of an array begins with the configuration that it was submitted with.
    for seeds, discount in (("4", "0.5"), ("5", "0.6")):
        w.brood("submit", w.small(), "--name", "many", "--seeds", seeds, "--set",
                f"defaults.discount={discount}", "--", "--hold")
    for run, discount in (("many-s4", "0.5"), ("many-s5", "0.6")):
        text = (w.runs / ".jobs" / run / "config.yaml").read_text()
        assert f"discount: {discount}}}" in text, text
    _, err = w.brood("rm", "many-s4", code=2)
    assert "PENDING; `scancel" in err, err
    for job in rig.jobs():
        rig.run("scancel", job)
    harness.wait_until("their ends", rig.is_idle)
    w.brood("rm", "many-s4", "many-s5")   # which never had a directory
    assert not (w.runs / ".jobs" / "many-s4").exists()
    w.brood("rm", "many-s4", code=3)
    w.brood("run", w.small(), "--name", "here-3", "--seed", 3)
    harness.assert_same_files(trained(w.run_dir("here-3")), trained(w.run_dir("many-s3")))


def test_a_submitted_configuration_keeps_its_values_for_later_steps(w):
    """Those of the file, of the file that it extends, and of --set."""
    bin = w.path / "bin"
    bin.mkdir()
    (bin / "sbatch").write_text("#!/bin/sh\necho 7\n")
    (bin / "sbatch").chmod(0o755)
    w.small()
    file = w.write("later.yaml", "extends: small.yaml\n"
                   "defaults: {polyak: {from: 0.01, to: 0.05, over: 1000}}\n")
    also = ("--set", "defaults.discount={at: {0: 0.9, 1000: 0.99}}", "--seed", "5")
    w.brood("submit", file, "--name", "far", *also,
            env={"PATH": f"{bin}:{os.environ['PATH']}"})
    lock = w.runs / ".jobs" / ".lock"  # of all who may write there
    assert lock.stat().st_mode == (lock.parent / "far" / "config.yaml").stat().st_mode
    w.brood("run", w.runs / ".jobs" / "far" / "config.yaml", "--name", "far")
    w.brood("run", file, "--name", "here", *also)
    far, here = (event_changes(w.run_dir(name)) for name in ("far", "here"))
    assert far == here and len(far) > 2, (far, here)
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("far")))


def test_submit_follows_no_link(w):
    """Whoever may write in the folder of jobs can make its names links to files of others."""
    bin = w.path / "bin"
    bin.mkdir()
    (bin / "sbatch").write_text("#!/bin/sh\necho 7\n")
    (bin / "sbatch").chmod(0o755)
    submit = ("submit", w.small(), "--name", "far")
    env = {"PATH": f"{bin}:{os.environ['PATH']}"}
    jobs, outside = w.runs / ".jobs", w.path / "outside"
    jobs.mkdir(parents=True)
    outside.mkdir()
    for name, to in ((".lock", outside / "new"), ("far", outside)):
        (jobs / name).symlink_to(to)
        _, err = w.brood(*submit, env=env, code=1)
        assert f".jobs/{name}" in err and err.count("\n") == 1, err
        assert not list(outside.iterdir()), list(outside.iterdir())
        (jobs / name).unlink()
    w.brood(*submit, env=env)
    assert (jobs / "far" / "job.sh").exists()


@slurm_rig.on_slurm
def test_submissions_at_once_have_names_of_their_own(w, rig):
    file = w.small()
    at_once = [w.start("submit", "--json", file, "--", "--hold") for _ in range(4)]
    for p in at_once:
        assert p.wait(harness.DEADLINE_S) == 0, p.log.read_text()
    events = [harness.json_lines(harness.output(p))[0] for p in at_once]
    assert len({e["run"] for e in events}) == len({e["job"] for e in events}) == 4, events
    for job in rig.jobs():
        rig.run("scancel", job)


@slurm_rig.on_slurm
def test_a_submitted_run_is_waited_for(w, rig):
    """From before it begins. One whose job is cancelled then is no run."""
    file = w.small(steps=400)
    for name, command, code in (("later", ("scontrol", "release"), 0),
                                ("never", ("scancel",), 3)):
        out, _ = w.brood("submit", "--json", file, "--name", name, "--", "--hold")
        p = w.start("wait", name)
        assert "waiting" in w.brood("status", name)[0]
        assert p.poll() is None, p.log.read_text()
        rig.run(*command, harness.json_lines(out)[0]["job"])
        assert p.wait(timeout=harness.DEADLINE_S) == code, p.log.read_text()


def test_a_job_that_sbatch_refuses_takes_no_name(w):
    bin = w.path / "bin"
    bin.mkdir()
    sbatch = bin / "sbatch"
    env = {"PATH": f"{bin}:{os.environ['PATH']}"}
    for more in ((), ("--seeds", "1,2")):
        sbatch.write_text("#!/bin/sh\necho no such partition >&2\nexit 1\n")
        sbatch.chmod(0o755)
        w.brood("submit", w.small(), *more, env=env, code=1)
        assert [p.name for p in (w.runs / ".jobs").iterdir()] == [".lock"]
    sbatch.write_text("#!/bin/sh\necho 7\n")
    w.brood("submit", w.small(), "--name", "far", env=env)
    assert (w.runs / ".jobs" / "far" / "job.sh").exists()


@slurm_rig.on_slurm
def test_submit_refuses_in_one_line(w, rig):

    def refused(code, *args, **more):
        _, err = w.brood("submit", *args, code=code, **more)
        line, = err.splitlines()
        return line
    file = w.small()
    assert "Invalid partition name" in refused(1, file, "--", "-p", "nope")
    assert "after --" in refused(2, file, file)
    for seeds in ("5-1", "5-1,8", "1,", "1-2000", "1,18446744073709551615"):
        assert f"--seeds '{seeds}'" in refused(2, file, "--seeds", seeds)
    assert "run.env_stops" in refused(2, file, "--set", "run.env_stops=1")
    (w.path / "empty").mkdir()
    nothing = {"PATH": str(w.path / "empty")}
    assert "no program sbatch" in refused(2, file, env=nothing)
    assert "it's" in refused(2, file, "--name", "it's", "--dry-run")
    out, _ = w.brood("submit", file, "--name", "dry", "--dry-run", "--", '--comment=a "b"', "\\",
                     env=nothing)
    assert '#SBATCH "--comment=a \\"b\\"" "\\\\"\n' in out, out
    assert "line break" in refused(2, file, "--name", "dry", "--dry-run", "--", "-c\n2")
    out, _ = w.brood("submit", file, "--name", "dry", "--dry-run", "--", "-c", "2", env=nothing)
    assert "#SBATCH -c 2\n" in out and "name=dry\n" in out, out
    assert not (w.runs / ".jobs" / "dry").exists() and rig.is_idle()


# ---- sweep ----

STUDY = """
base: small.yaml
search: {defaults.discount: [0.9, 0.95]}
metric: {column: eval/team_return/agent, mode: max, last: 1}
"""


@slurm_rig.on_slurm
def test_trials_are_jobs(w, rig):
    """The table is that of a sweep on this machine. An interrupt stops runs with a
    checkpoint."""
    w.small()
    w.brood("sweep", w.write("there.yaml", STUDY), "--launcher", "slurm", "-q")
    w.brood("sweep", w.write("here.yaml", STUDY), "-q")
    there, here = (w.brood("report", name)[0].replace(name, "") for name in ("there", "here"))
    assert there == here, (there, here)
    w.small(steps=harness.FOREVER, checkpoint=400)
    # Slurm does not answer the interrupt's first question.
    busy = w.path / "busy"
    busy.mkdir()
    (busy / "squeue").write_text(f"#!/bin/sh\nmkdir {busy}/asked 2>/dev/null && exit 1\n"
                                 f"exec {shutil.which('squeue')} \"$@\"\n")
    (busy / "squeue").chmod(0o755)
    p = w.start("sweep", w.write("long.yaml", STUDY), "--launcher", "slurm", "-q",
                env={"PATH": f"{busy}:{os.environ['PATH']}"})
    harness.wait_until("both", lambda: all(steps_of(w, f"long/{i}-s1") for i in (1, 2)))
    assert len(rig.jobs()) == 2, rig.jobs()
    everybody = harness.members(p.pid) | set(rig.processes())
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert (busy / "asked").exists()
    end_of_all(everybody)
    for i in (1, 2):
        assert w.status(f"long/{i}-s1")["state"] == "stopped", p.log.read_text()
    harness.wait_until("no job", rig.is_idle)
    _, err = w.brood("sweep", "there.yaml", "--launcher", "slum", code=2)
    assert "expected local or slurm" in err, err


if __name__ == "__main__":
    harness.main()
