"""The files of a run: planted links, another user's run, a deleted directory, a limit on
the size of files, modes."""
import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import stat

import harness
from test_disk import config_text, outcome

NOBODY = 65534
NOT_THERE, USAGE, FAILED, STOPPED = 3, 2, 1, 4
STUDY = "base: {base}\nsearch:\n  defaults.discount: [0.9, 0.95]\nseeds: [1]\n"


def config(w, steps=harness.FOREVER, more=""):
    return w.write("files.yaml", config_text(steps) + more)


def begin(w, name, *options, n_checkpoints=2, **more):
    """Start an endless run and wait until it has this many checkpoints."""
    p = w.start("run", config(w), "--name", name, *options, **more)
    harness.wait_until("checkpoints", lambda: p.poll() is not None or
                       len(harness.checkpoints(w.run_dir(name))) >= n_checkpoints)
    assert p.poll() is None, p.log.read_text()
    return p


def stopped_run(w, name="base"):
    """A run that can be resumed, and its step."""
    p = begin(w, name)
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == STOPPED, p.log.read_text()
    return w.run_dir(name), harness.checkpoints(w.run_dir(name))[-1]


# ---- links ----

def state_of(folder):
    """Names, types, contents and modification times of everything below a folder."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        st = path.lstat()
        found[str(path.relative_to(folder))] = (
            st.st_mode, st.st_size, st.st_mtime_ns, st.st_nlink,
            path.read_bytes() if stat.S_ISREG(st.st_mode) else None)
    return found


def planted_names(run, step):
    """All names that exist in a run directory or that a run creates there."""
    there = [str(p.relative_to(run)) for p in sorted(run.rglob("*"))
             if not p.is_symlink() and not str(p.relative_to(run)).startswith("checkpoints/")]
    newest = f"checkpoints/{step}"
    inside = [str(p.relative_to(run)) for p in sorted((run / newest).rglob("*"))
              if "agent_1" not in str(p)]
    new = ["control.sock", f"checkpoints/.tmp-{step + 1000}", f"checkpoints/{step + 1000}",
           f"checkpoints/.del-{step}", f"checkpoints/.bad-{step}"]
    assert {"lock", "config.yaml", "journal", "experience", "logs", "metrics", "checkpoints",
            "logs/agent_0.log", "logs/supervisor.log", "metrics/progress.csv"} <= set(there)
    assert any("tfevents" in name for name in there) and f"{newest}/run.state" in inside
    return there + [newest] + inside + new


def plant(run, name, victims):
    """Replace a file or folder of the run with a link to a copy outside; if the run has no
    such file, create a link to a folder or file outside."""
    victims.mkdir()
    (victims / "bystander").write_text("not brood's")
    target, path = victims / "target", run / name
    if path.exists() or path.is_symlink():
        path.rename(target)
    elif name == "control.sock":
        target.write_text("no socket")
    else:
        target.mkdir()
        (target / "file").write_text("not brood's either")
    path.symlink_to(target)


def test_links_are_never_followed(w):
    """No command on a run whose files are links changes the files behind the links. With
    the sanitizers it is every third link: they add nothing to what is compared."""
    base, step = stopped_run(w)
    more = ["--set", f"run.env_steps={step + 1000}"]
    refused = set()
    for i, name in enumerate(planted_names(base, step)[::3 if harness.SANITIZED else 1]):
        run, victims = w.run_dir("planted"), w.path / f"victims-{i}"
        harness.copy_run(base, run)
        plant(run, name, victims)
        before = state_of(victims)
        commands = [("logs", run), ("status", run), ("stop", run),
                    ("resume", run, *more),
                    ("run", config(w, 400), "--name", "planted", "--force"),
                    ("rm", run)]
        for command in commands:
            if command[0] in ("run", "rm") and not (run / name).is_symlink():
                # An earlier command has removed or replaced the link.
                shutil.rmtree(run, ignore_errors=True)
                shutil.rmtree(victims)
                harness.copy_run(base, run)
                plant(run, name, victims)
                before = state_of(victims)
            p = w.start(*command)
            p.wait(timeout=harness.DEADLINE_S)
            log = p.log.read_text()
            assert p.returncode in (0, 1, 2, 3), (name, command, log)
            after = state_of(victims)
            assert after == before, (name, command, log)
            if command[0] == "resume" and "symbolic link" in log:
                refused.add(name)
        assert not os.path.lexists(run) or name == "lock", name
        shutil.rmtree(run, ignore_errors=True)
        shutil.rmtree(victims)
    assert {"lock", "config.yaml", "journal", "experience", "logs", "metrics",
            "logs/agent_0.log", "logs/supervisor.log", "metrics/progress.csv"} <= refused or \
        harness.SANITIZED and len(refused) > 2, refused


def test_the_keeper_follows_no_link_either(w):
    """It writes to the run's files how a killed supervisor ended."""
    p = begin(w, "live")
    journal, victim = w.run_dir("live") / "journal", w.write("victim", "not brood's\n")
    journal.unlink()
    journal.symlink_to(victim)
    harness.kill_holder(p, w.run_dir("live"))
    assert p.returncode == 137, p.log.read_text()
    assert victim.read_text() == "not brood's\n"


def test_fifos_are_not_waited_for(w):
    base, step = stopped_run(w)
    for name in ("lock", "config.yaml", "journal", "experience", "logs/agent_0.log",
                 "metrics/progress.csv", f"checkpoints/{step}/run.state"):
        run = harness.copy_run(base, w.run_dir("planted"))
        (run / name).unlink()
        os.mkfifo(run / name)
        for command in (("status", run), ("logs", run),
                        ("resume", run, "--set", f"run.env_steps={step + 1000}")):
            p = w.start(*command)
            p.wait(timeout=harness.DEADLINE_S)
            assert p.returncode >= 0, (name, command, p.log.read_text())
        shutil.rmtree(run)


def test_fifos_of_a_study_are_not_waited_for(w):
    """Nor that of another user, whose study may be in the same runs directory."""
    study = w.runs / "s"
    study.mkdir(parents=True)
    os.mkfifo(study / "study.lock")
    (study / "base.yaml").write_text(pathlib.Path(w.small(steps=400)).read_text())
    for asked, method in (("study.yaml", ""), ("rungs.csv", "{asha: {rungs: [100, 400]}}\ntrials: 2"),
                          ("rounds.csv", "{pbt: {population: 4, interval: 100, rounds: 2}}")):
        if asked != "study.yaml":
            (study / "study.yaml").write_text(
                "base: base.yaml\nsearch: {defaults.discount: [0.9, 0.95]}\n"
                f"method: {method}\nmetric: {{column: rollout/team_return/agent}}\n")
        os.mkfifo(study / asked)
        for words in (("status", "s"), ("attach", "s"), ("report", "s")):
            _, err = w.brood(*words, code=1)
            assert f"{asked}: not a regular file" in err and err.count("\n") == 1, err
        (study / asked).unlink()
    w.brood("run", w.small(steps=400), "--name", "r", "-q")
    w.run_dir("r").rename(study / "r")
    assert "r: " in w.brood("prune", "--runs-dir", study)[0]


def test_second_names_of_foreign_files_are_not_written(w):
    if os.geteuid() != 0:
        raise harness.Skip("another user's file needs root to make")
    base, _ = stopped_run(w)
    for name in ("lock", "journal", "experience", "logs/supervisor.log"):
        run = harness.copy_run(base, w.run_dir("planted"))
        (run / name).rename(w.path / "victim")
        os.link(w.path / "victim", run / name)
        for path in (run, *run.rglob("*")):
            if path != run / name:
                os.chown(path, NOBODY, NOBODY)
        before = (w.path / "victim").read_bytes()
        _, err = w.brood("resume", run, "--trust", "--set", "run.env_steps=90000",
                         code=USAGE if name == "lock" else FAILED)
        assert "several names" in err, err
        assert (w.path / "victim").read_bytes() == before, name
        (w.path / "victim").unlink()
        shutil.rmtree(run)


# ---- other users ----

def need_second_user(w):
    """This test is root, brood can be executed by nobody, who can look into w.path."""
    if os.geteuid() != 0:
        raise harness.Skip("only root can be a second user")
    w.path.chmod(0o755)
    program = w.program_with_agent(harness.AGENT)
    p = w.start("version", program=program, user=NOBODY, group=NOBODY, extra_groups=[])
    if p.wait(timeout=harness.DEADLINE_S) != 0:
        raise harness.Skip(f"nobody cannot execute brood: {p.log.read_text()}")
    return {"program": program, "user": NOBODY, "group": NOBODY, "extra_groups": []}


def test_another_users_live_run(w):
    nobody = need_second_user(w)
    begin(w, "closed")
    begin(w, "open", "--set", "run.mode=0755")
    for name in ("closed", "open"):
        says = f"no permission: run {name} belongs to root"
        for command in ("status", "wait", "stop", "pause", "attach", "resume", "eval"):
            if (name, command) == ("open", "eval"):  # its files may be read
                continue
            out, err = w.brood(command, name, **nobody,
                               code=USAGE if (name, command) == ("open", "resume")
                               else NOT_THERE)
            if (name, command) == ("open", "resume"):
                assert "belongs to root" in err, err
            else:
                assert says in err, (command, err)
            assert "killed" not in out + err and "not running" not in out + err, out + err
        out, err = w.brood("rm", name, code=NOT_THERE if name == "closed" else FAILED,
                           **nobody)
        assert says in err, err
    out, err = w.brood("runs", "--json", **nobody)
    assert {r["run"]: r["state"] for r in harness.json_lines(out)} == \
        {"closed": "no permission", "open": "no permission"}, out

    # The runs are alive. How a run ended is visible only to users who can read its folder.
    for name in ("closed", "open"):
        assert w.status(name)["state"] == "running"
        w.brood("stop", name)
        w.brood("wait", name, code=STOPPED)
    _, err = w.brood("wait", "closed", code=NOT_THERE, **nobody)
    assert "no permission: run closed belongs to root" in err, err
    assert json.loads(w.brood("status", "open", "--json", **nobody)[0])["state"] == "stopped"
    w.brood("wait", "open", code=STOPPED, **nobody)
    _, err = w.brood("eval", "open", "--episodes", "2", code=USAGE, **nobody)
    assert "open: its directory belongs to root" in err and "--trust" in err, err
    w.brood("eval", "open", "--episodes", "2", "--trust", **nobody)


def test_planted_links_lead_no_command_away(w):
    """In a folder that everybody may write, nobody makes links to what is root's."""
    if os.geteuid() != 0:
        raise harness.Skip("only root can be a second user")
    for name in ("mine", "other"):
        w.brood("run", w.small(steps=600, checkpoint=200), "--name", name)
    private, keep = w.path / "private", w.path / "keep"
    private.mkdir()
    keep.mkdir()
    (w.runs / "mine").rename(private / "best")
    (keep / "best").mkdir()
    (keep / "best" / "thesis.tex").write_text("x")
    w.runs.chmod(0o777)
    for name, target in (("planted", private / "best"), (".jobs", keep),
                         (".rm-best-1", private / "best"), ("study", private / "best")):
        (w.runs / name).symlink_to(target)
        os.lchown(w.runs / name, NOBODY, NOBODY)
    before = harness.tree_bytes(private), harness.tree_bytes(keep)

    runs = harness.json_lines(w.brood("runs", "--json")[0])
    assert [r["run"] for r in runs] == ["other"], runs
    out, _ = w.brood("prune")
    assert "planted" not in out and len(harness.checkpoints(w.run_dir("other"))) == 1, out
    for command in (("prune",), ("tag",), ("status",), ("logs",), ("resume",)):
        _, err = w.brood(*command, "planted", *(["x"] if command == ("tag",) else []),
                         code=NOT_THERE)
        assert f"is a link that user {NOBODY} made to a directory of somebody else" in err, err
    w.brood("sweep", w.write("lr.yaml", STUDY.format(base=w.small(steps=100, evaluate=0))), "-q")
    w.run_dir("lr").rename(w.path / "lr")
    w.run_dir("lr").symlink_to(w.path / "lr")
    os.lchown(w.run_dir("lr"), NOBODY, NOBODY)
    for command in ("status", "report"):
        out, err = w.brood(command, "lr", code=FAILED)
        assert out == "" and f"is a link that user {NOBODY} made" in err, (command, out, err)
    w.brood("rm", "planted", code=NOT_THERE)
    w.brood("rm", "best", code=NOT_THERE)
    w.brood("rm", "other")
    assert before == (harness.tree_bytes(private), harness.tree_bytes(keep))

    # A link of one's own, and one to what the other user has, lead where they say.
    (w.runs / "own").symlink_to(private / "best")
    assert w.brood("tag", "own", "x")[0] == "own: x\n"
    w.brood("prune", "own")
    assert len(harness.checkpoints(private / "best")) == 1


def test_a_lock_on_a_runs_folder_is_not_waited_for(w):
    w.brood("run", w.small(steps=200), "--name", "a")
    folder = os.open(w.run_dir("a"), os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    _, err = w.brood("tag", "a", "x", code=FAILED)
    assert "another process has locked it for more than 2 s" in err, err
    os.close(folder)
    w.brood("tag", "a", "x")


def test_what_others_wrote_is_not_executed(w):
    if os.geteuid() != 0:
        raise harness.Skip("another user's run needs root to make")
    base, step = stopped_run(w)
    marker = w.path / "executed"

    def planted(change):
        run = harness.copy_run(base, w.run_dir("theirs"))
        text = (run / "config.yaml").read_text()
        text = re.sub(r"(?m)^env:\n(  .*\n)*",
                      f"env:\n  command: [touch, {marker}]\n", text)
        assert str(marker) in text
        (run / "config.yaml").write_text(text)
        change(run)
        before = harness.tree_bytes(run)
        for command in (("resume", run, "--anyway"), ("eval", run)):
            _, err = w.brood(*command, code=USAGE)
            assert "--trust" in err and not marker.exists(), err
        harness.assert_same_files(harness.tree_bytes(run), before)
        w.start("eval", run, "--trust").wait(timeout=harness.DEADLINE_S)
        assert marker.exists()
        marker.unlink()
        shutil.rmtree(run)

    planted(lambda run: os.chown(run, NOBODY, NOBODY))
    planted(lambda run: os.chown(run / "config.yaml", NOBODY, NOBODY))
    planted(lambda run: (run / "config.yaml").chmod(0o666))

    # `resume --trust` accepts another user's run; `run --force` does not replace it.
    run = harness.copy_run(base, w.run_dir("theirs"))
    for path in (run, *run.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    _, err = w.brood("run", config(w, 400), "--name", "theirs", "--force", code=USAGE)
    assert "belongs to nobody" in err, err
    w.brood("resume", run, "--trust", "--set", f"run.env_steps={step + 1000}")
    w.brood("rm", run)


# ---- a deleted directory ----

def delete(run):
    """Like rm -rf, while another process writes there."""
    def gone():
        shutil.rmtree(run, ignore_errors=True)
        return not run.exists()
    harness.wait_until("an empty place", gone)


def test_a_deleted_directory_is_noticed(w):
    p = begin(w, "small")
    run, everything = w.run_dir("small"), harness.members(p.pid)
    delete(run)
    assert p.wait(timeout=harness.DEADLINE_S) == FAILED, p.log.read_text()
    assert not run.exists()
    log = p.log.read_text()
    assert "was deleted: the run ends" in log, log
    assert re.search(r"deleted: the checkpoint of step \d+ is lost .*--rescue", log), log
    assert "continues from" not in log, log
    assert not any(harness.alive(pid) for pid in everything)


def test_a_directory_that_is_deleted_at_the_end(w):
    """The directory disappears between two checks, and the run ends before the next one."""
    p = begin(w, "small")
    supervisor, run = harness.supervisor_of(p.pid), w.run_dir("small")
    step = harness.pause(w, "small")
    w.brood("set", "small", f"run.env_steps={step + 4}")
    before = w.status("small")
    assert before["state"] == "paused", before
    client = w.start("continue", "small")
    client.wait(timeout=harness.DEADLINE_S)
    delete(run)
    code = p.wait(timeout=harness.DEADLINE_S)
    log = p.log.read_text()
    # It may have ended before the directory went.
    assert code == FAILED and "is lost" in log or code == 0 and "deleted" not in log, log
    assert not harness.alive(supervisor)


def test_a_deleted_directory_is_rescued(w):
    for name, options in (("plain", []), ("again", ["--set", "env.copies=8"])):
        p = begin(w, name, "--rescue", w.path / "rescue", *options)
        w.brood("tag", name, "keep", "--note", "why")
        last = harness.checkpoints(w.run_dir(name))[-1]
        harness.wait_until("two checkpoints: the run has looked at its files", lambda:
                           len([s for s in harness.checkpoints(w.run_dir(name)) if s > last]) > 1)
        provenance = (w.run_dir(name) / "provenance").read_text()
        delete(w.run_dir(name))
        assert p.wait(timeout=harness.DEADLINE_S) == FAILED, p.log.read_text()
        log = p.log.read_text()
        found = re.search(r"checkpoint of step (\d+) was rescued: `brood resume (\S+)` continues",
                          log)
        assert found, log
        run = w.path / "rescue" / name
        assert found.group(2) == str(run) and not w.run_dir(name).exists(), log
        assert (run / "tags").read_text() == "tag: keep\nnote: why\n"
        assert (run / "provenance").read_text() == provenance
        kept = harness.checkpoints(run)
        assert kept[-1] == int(found.group(1)), (kept, log)
        status = w.status(run)
        assert (status["state"], status["exit_code"]) == ("failed", FAILED), status

        # Not a byte is lost.
        steps = (kept[-1] // 1000 + 2) * 1000
        w.brood("resume", run, "--set", f"run.env_steps={steps}")
        w.brood("run", config(w, steps), "--name", "calm", "--force", *options)
        calm = outcome(w.run_dir("calm"), steps)
        rescued = outcome(run, steps)
        for files in (calm, rescued):  # its rows before the rescue are gone
            files.pop("progress.csv")
        assert calm.keys() == rescued.keys()
        for file in calm:
            if not file.endswith("run.state"):  # it holds the metrics since the last row
                assert calm[file] == rescued[file], file


def test_a_place_of_rescue_is_checked_first(w):
    w.write("file", "no directory")
    _, err = w.brood("run", config(w), "--name", "small", "--rescue", w.path / "file" / "x",
                     code=USAGE)
    assert "--rescue" in err and "Not a directory" in err, err
    assert not w.run_dir("small").exists()


# ---- a limit on the size of files ----

def test_a_limit_on_the_size_of_files_is_a_full_disk(w):
    limit = 2 << 20

    def lower():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    p = w.start("run", config(w), "--name", "limited", preexec_fn=lower)
    run = w.run_dir("limited")
    harness.wait_until("the limit", lambda: p.poll() is not None or
                       "waits for space" in p.log.read_text())
    assert p.poll() is None and "File too large" in p.log.read_text(), p.log.read_text()
    assert (run / "experience").stat().st_size <= limit
    resource.prlimit(harness.supervisor_of(p.pid), resource.RLIMIT_FSIZE,
                     (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    kept = harness.checkpoints(run)[-1]
    harness.wait_until("a later one", lambda: harness.checkpoints(run)[-1] > kept + 500)
    assert "there is space again" in p.log.read_text(), p.log.read_text()
    steps = harness.set_last_step(w, run, 1000)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    w.brood("run", config(w, steps), "--name", "calm")
    assert outcome(w.run_dir("calm"), steps) == outcome(run, steps)


def ignored_signals(pid):
    with open(f"/proc/{pid}/status") as f:
        mask = int(re.search(r"SigIgn:\s*(\w+)", f.read()).group(1), 16)
    return {s for s in range(1, 65) if mask >> s - 1 & 1}


def test_environment_programs_have_the_usual_signals(w):
    program = w.write("env.sh", "sleep 600\ntrue\n")  # Python ignores it by itself
    text = re.sub("(?m)^env: .*$", f"env: {{command: [sh, {program}]}}",
                  config_text(harness.FOREVER))
    p = w.start("run", w.write("slow.yaml", text), "--name", "slow")

    def env_of_run():
        return [pid for pid in harness.members(p.pid) if str(program) in
                harness.processes().get(pid, ("", 0, ""))[2] and "launch" not in
                harness.processes().get(pid, ("", 0, ""))[2]]
    env = harness.wait_until("the environment", env_of_run)[0]
    assert signal.SIGXFSZ in ignored_signals(harness.supervisor_of(p.pid))
    assert signal.SIGXFSZ in ignored_signals(p.pid)
    assert signal.SIGXFSZ not in ignored_signals(env)


# ---- modes ----

def modes(run):
    """The modes of folders and files in a run directory, except the lock."""
    folders, files = set(), set()
    for path in [run, *run.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_dir():
            folders.add(oct(mode))
        elif path.name == "lock":
            assert mode == 0o600, oct(mode)
        else:
            files.add(oct(mode))
    return folders, files


def test_a_run_is_its_owners_alone(w):
    for name, umask, options, folder, file in (
            ("default", 0o022, [], "0o700", "0o600"),
            ("group", 0o077, ["--set", "run.mode=0750"], "0o750", "0o640"),
            ("world", 0o077, ["--set", "run.mode=0755"], "0o755", "0o644")):
        w.brood("run", config(w, 1000), "--name", name, "-q", *options, "--set",
                "experience.keep=true", umask=umask)
        assert modes(w.run_dir(name)) == ({folder}, {file}), modes(w.run_dir(name))
        # What is added later follows the directory.
        w.brood("resume", name, "-q", "--set", "run.env_steps=1600", umask=umask)
        assert modes(w.run_dir(name)) == ({folder}, {file}), modes(w.run_dir(name))
    for wrong in ("0640", "rwx", "1777", "0o750", "750.0", "[0750]"):
        _, err = w.brood("run", config(w, 1000), "--set", f"run.mode={wrong}", code=USAGE)
        assert "run.mode" in err and "octal" in err, err
    out, _ = w.brood("check", "--help")
    assert "run.mode" in out, out


if __name__ == "__main__":
    harness.main()
