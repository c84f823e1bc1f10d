"""The page of `brood web` in a headless Chromium, click by click: what a person does, and what
the run then says. Pictures are left in the build folder's web/."""
import atexit
import http.server
import json
import re
import shutil
import sys
import threading

import harness
from test_web import LONG, Server, live_run, two_folders

sys.path.insert(0, str(harness.SOURCE / "tests" / "support"))
import chromium  # noqa: E402

SHOTS = harness.BUILD / "web"
BROWSERS = []   # one for all tests: it takes a second of processors to start
HOSTILE = "<img src=x onerror=document.title=1>"


class Visit:
    """A browser at a server's page; `with Visit(w) as v`."""

    def __init__(self, w, *options, folders=(), **look):
        if chromium.PROGRAM is None:
            raise harness.Skip("no chromium")
        if harness.SANITIZED:
            raise harness.Skip("the page is tested once, by the release build")
        self.server, self.look = Server(w, *options, folders=folders), look
        SHOTS.mkdir(exist_ok=True)

    def __enter__(self):
        if not BROWSERS:
            BROWSERS.append(chromium.Browser(harness.DEADLINE_S))
            atexit.register(BROWSERS[0].close)
        self.page = BROWSERS[0].page(self.server.url, **self.look)
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.page.shot(SHOTS / "failed.png")
        errors = self.page.errors
        self.page.close()
        assert kind is not None or not errors, errors

    def shot(self, name):
        self.page.shot(SHOTS / f"{name}.png")


def finished(w, name, steps=600, *more):
    config = w.write(f"{name}.yaml", harness.SMALL.format(steps=steps, evaluate=200, checkpoint=steps))
    w.brood("run", config, "--name", name, "--set", "log.every_env_steps=40", *more, "-q")
    return w.run_dir(name)


def agent(run, w, name):
    status = harness.json_lines(w.brood("status", run, "--json")[0])[0]
    return next(a for a in status["agents"] if a["name"] == name)


def no_sideways(page):
    """Nothing is wider than the screen."""
    return page.eval("document.documentElement.scrollWidth <= innerWidth && "
                     "document.body.scrollWidth <= innerWidth")


def test_from_the_list_to_a_run_and_its_buttons(w):
    finished(w, "over")
    run = live_run(w)
    with Visit(w) as v:
        page = v.page
        page.wait_text("tr[data-run=over] .state", "done")
        page.wait_text("tr[data-run=live] .state", "running")
        assert page.wait("document.querySelector('tr[data-run=over] polyline').getAttribute('points')"
                         ".split(' ').length > 2")
        v.shot("list")
        page.click("tr[data-run=live] a")
        page.wait("document.querySelector('[data-chart=\"rollout/team_return\"]')"
                  "?.dataset.points > 3", "curves")
        page.wait("document.querySelectorAll('.chart canvas').length > 2")
        # what is drawn is not one colour only
        assert page.eval("(() => { const c = document.querySelector('.chart canvas'); const d = "
                         "c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const s = "
                         "new Set(); for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | "
                         "d[i + 1] << 8 | d[i + 2]); return s.size })()") > 3
        before = agent(run, w, "agent_1")
        page.wait_text("tr[data-agent=agent_1]", str(before["pid"]))
        page.click("tr[data-agent=agent_1] [data-action=kill]")
        page.wait(f"document.querySelector('tr[data-agent=agent_1]').children[4].innerText == "
                  f"'{before['restarts'] + 1}'", "a restart")
        after = agent(run, w, "agent_1")
        assert after["restarts"] == before["restarts"] + 1 and after["pid"] != before["pid"]
        page.wait_text(".toast", "agent_1: killed at step")
        page.click("[data-action=pause]")
        page.wait_text(".head .state", "paused")
        assert harness.json_lines(w.brood("status", run, "--json")[0])[0]["state"] == "paused"
        v.shot("run")
        page.click("[data-action=continue]")
        page.wait_text(".head .state", "running")
        page.click("[data-action=checkpoint]")
        page.wait_text(".toast", "Checkpoint written")
        page.click("[data-action=stop]")
        page.wait_text("[data-action=stop]", "Really stop?")
        page.click("[data-action=stop]")
        page.wait_text(".head .state", "stopped")
        page.wait("document.querySelector('.actions').hidden")
        assert "event=end state=stopped" in (run / "journal").read_text()


class Other(http.server.BaseHTTPRequestHandler):
    """A program at another port of this machine: what a browser sends to it."""

    heads = []

    def do_GET(self):
        Other.heads.append(f"{self.path}\n{self.headers}")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_the_token_stays_in_its_tab(w):
    """A reload keeps it, a new tab needs the address again and says so, and no other port gets it."""
    finished(w, "over")
    with Visit(w) as v:
        page, server = v.page, v.server
        base = f"http://127.0.0.1:{server.port}/"
        page.wait_text("tr[data-run=over] .state", "done")
        assert page.eval("location.href") == base + "#/" and page.eval("history.length") <= 2
        assert page.eval("document.cookie") == "" and not page.call("Storage.getCookies")["cookies"]
        assert server.token not in page.eval("document.documentElement.outerHTML + JSON.stringify(localStorage)")
        page.click("tr[data-run=over] a")
        page.wait_text(".head .state", "done")
        page.reload()
        page.wait_text(".head .state", "done")   # the same place, and it is let in
        page.go(base + "?again#/run/over/settings")   # as another link to this page
        page.wait_text("tr[data-key='env.id']", "simple_spread")
        tab = BROWSERS[0].page(base + "#/run/over")
        tab.wait_text(".stranger", "a new tab needs it again")
        tab.wait_text("#link", "open the address that brood web printed")
        v.page = tab
        v.shot("new-tab")
        v.page = page
        tab.go(base + f"#token={'0' * 64}")
        tab.wait_text(".stranger", "This tab has the token of another")
        tab.go(server.url)
        tab.wait_text("tr[data-run=over] .state", "done")
        assert tab.eval("location.href") == base + "#/" and not tab.errors, tab.errors
        tab.close()
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
            thread = threading.Thread(target=other.serve_forever)
            thread.start()
            try:
                page.go(f"http://127.0.0.1:{other.server_port}/")
                page.go(f"http://localhost:{other.server_port}/")
                assert page.eval("sessionStorage.length + localStorage.length + document.cookie.length") == 0
            finally:
                other.shutdown()
                thread.join()
        assert len(Other.heads) > 1
        for head in Other.heads:
            assert server.token not in head and "cookie" not in head.lower(), head


def test_settings_are_changed_and_refused_as_by_the_command_line(w):
    run = live_run(w)
    finished(w, "over", 600, "--set", "defaults.discount=0.5")
    with Visit(w) as v:
        page = v.page
        page.wait("document.querySelector('tr[data-run=live]')")
        page.go(f"http://127.0.0.1:{v.server.port}/#/run/live/settings")
        page.wait_text("tr[data-key='defaults.discount']", "0.95")
        page.click("tr[data-key='defaults.discount'] button")   # fills in key and value
        assert page.eval("document.querySelector('[name=value]').value") == "0.95"
        page.fill("[name=value]", "2")
        page.click("form.set [type=submit]")
        page.wait("document.querySelector('form.set .answer.bad')?.innerText")
        _, err = w.brood("set", run, "defaults.discount=2", code=2)
        assert err == f"brood set: {page.text('form.set .answer')}\n", err
        v.shot("settings")
        page.fill("[name=value]", "0.875")
        page.key("Enter")
        page.wait_text("form.set .answer", "defaults.discount=0.875")
        page.wait_text("tr[data-key='defaults.discount']", "0.875")
        assert "discount: 0.875" in (run / "config.yaml").read_text()
        page.fill("[name=key]", "defaults.polyak")
        page.fill("[name=value]", "0.5")
        page.fill("[name=at]", str(LONG - 1))
        page.key("Enter")
        page.wait_text(".pending", "defaults.polyak=0.5")
        page.click(".pending button")
        page.wait("!document.querySelector('.pending li')", "no pending change")
        assert not harness.json_lines(w.brood("status", run, "--json")[0])[0]["pending"]
        page.eval("(() => { const s = document.querySelector('section select'); s.value = 'over'; "
                  "s.dispatchEvent(new Event('change')) })()")
        page.wait_text("tr[data-key='defaults.discount']", "0.5")
        page.wait("!document.querySelector(\"tr[data-key='env.id']\")", "differences only")
        v.shot("differences")
        page.key("3")   # the focus is in a field: a key is text
        page.key("Escape")
        page.key("3")
        page.wait_text(".log", "changed")
        w.brood("checkpoint", run)
        page.wait_text(".log", "checkpoint")
        lines = page.eval("document.querySelectorAll('.log li').length")
        w.brood("pause", run)
        page.wait_text(".log b", "pause")
        assert page.eval("document.querySelectorAll('.log li').length") > lines
        v.shot("logs")


def column(page, key):
    """The cells of a column of the list, as they are seen."""
    return [" ".join(t.split()) for t in page.texts(f"tr[data-run] td[data-column={key}]")]


def test_the_list_is_sorted_and_filtered_and_its_columns_are_chosen(w):
    for name, steps, seed in (("a10", 400, 3), ("a2", 800, 1), ("b", 600, 2)):
        finished(w, name, steps, "--seed", seed)
    finished(w, "tag", 400, "--set", "env.id=simple_tag", "--set", "env.params={}")
    w.brood("tag", "a2", "paper", "figure-3", "--note", "the one with the spike")
    told = {r["run"]: r for r in harness.json_lines(w.brood("runs", "--json")[0])}
    with Visit(w) as v:
        page = v.page
        page.wait_text("tr[data-run=a10] .state", "done")
        page.wait_text("tr[data-run=a2]", "paper, figure-3")
        assert column(page, "run") == ["tag", "b", "a2", "a10"]
        assert column(page, "environment")[:2] == ["simple_tag", "simple_spread"]
        assert column(page, "algorithm") == ["maddpg"] * 4 and column(page, "seed") == ["1", "2", "1", "3"]
        assert column(page, "evaluated")[1] == f"{told['b']['returns'][0]['evaluated']:.2f}"
        assert re.match(r"adversary -?[\d.]+ agent -?[\d.]+$", column(page, "return")[0]), column(page, "return")
        # Decimal points of a column stand one below the other.
        assert len(set(page.eval("[...document.querySelectorAll('td[data-column=return] .fraction')]"
                                 ".map(n => Math.round(n.getBoundingClientRect().left))"))) == 1
        for key, first, order in (("run", "ascending", ["a2", "a10", "b", "tag"]),
                                  ("steps", "descending", ["a2", "b", "tag", "a10"]), ("tags", "ascending", ["a2", "tag", "b", "a10"])):
            page.click(f"th[data-column={key}] button")
            page.wait(f"document.querySelector('th[data-column={key}]').ariaSort == '{first}'")
            assert column(page, "run") == order, (key, column(page, "run"))
        page.eval("document.querySelector('th[data-column=seed] button').focus()")
        page.key("Enter")
        page.wait("document.querySelector('th[aria-sort]').dataset.column == 'seed'")
        page.key("Enter")
        page.wait("document.querySelector('th[data-column=seed]').ariaSort == 'descending'")
        assert column(page, "seed") == ["3", "2", "1", "1"]
        page.click("[data-column=began] button")
        for words, found in (("state=done tag=fig*", ["a2"]), ("env=simple_tag", ["tag"]), ("algorithm=maddpg a", ["tag", "b", "a2", "a10"]),
                             ("SPIKE", ["a2"]), ("seed=2", ["b"]), ("a1 done", ["a10"]), ("tag=pap", []), ("tag=", ["tag", "b", "a2", "a10"])):
            page.fill(".search", words)
            page.wait(f"JSON.stringify([...document.querySelectorAll('tr[data-run]')].map(r => r.dataset.run)) == {json.dumps(json.dumps(found, separators=(',', ':')))}", words)
        page.fill(".search", "colour=red")
        page.wait_text(".empty", "There is no field 'colour'")
        page.fill(".search", "constructor=x")
        page.wait_text(".empty", "There is no field 'constructor'")
        page.fill(".search", "")
        page.click(".menu summary")
        page.click("input[data-column=note]")
        page.click("input[data-column=curve]")
        page.wait_text("tr[data-run=a2]", "the one with the spike")
        v.shot("list-columns")
        page.reload()   # both are kept
        page.wait_text("tr[data-run=a2]", "the one with the spike")
        assert not page.eval("document.querySelector('td[data-column=curve]')")
        page.wait("document.querySelector('th[aria-sort]').dataset.column == 'began'")
        page.eval("localStorage.clear()")


def test_runs_are_tagged_deleted_and_resumed(w):
    run = live_run(w)
    for name in ("a", "b"):
        finished(w, name)
    with Visit(w) as v:
        page = v.page
        page.wait_text("tr[data-run=b] .state", "done")
        assert not page.eval("[...document.querySelectorAll('[data-action]')].some(n => n.getClientRects().length)")
        for name in ("live", "a", "b"):
            page.click(f"tr[data-run={name}] td.pick label")
        page.click("[data-action=tag]")
        page.fill("dialog [name=tags]", "paper, figure-3")
        page.key("Enter")
        page.wait_text("tr[data-run=a]", "paper, figure-3")
        page.wait_text(".toast", "tag: 3 of 3 runs")
        assert "tag: paper" in (run / "tags").read_text()
        page.fill(".search", "name=a")   # what is not shown is left alone
        page.wait("document.querySelectorAll('tr[data-run]').length == 1")
        page.click("[data-action=rm]")
        page.wait_text("dialog[open]", "Delete a?")
        page.key("Escape")
        page.wait("!document.querySelector('dialog.ask')")
        page.fill(".search", "name=nothing")
        page.wait("![...document.querySelectorAll('[data-action]')].some(n => n.getClientRects().length)")
        page.fill(".search", "")
        page.wait("document.querySelectorAll('tr[data-run]').length == 3")
        page.click("[data-action=rm]")
        page.wait_text("dialog[open]", "Delete 3 runs?")
        assert page.eval("document.querySelector('[data-action=rm]').disabled"), "one click, one dialog"
        v.shot("delete")
        page.key("Escape")
        page.wait("!document.querySelector('dialog.ask')")
        page.click("[data-action=rm]")
        page.click("dialog.ask .danger")
        _, err = w.brood("rm", run, code=2)
        page.wait_text(".toast.bad", err.strip().removeprefix("brood rm: "))
        page.wait("document.querySelectorAll('tr[data-run]').length == 1")
        assert not w.run_dir("a").exists() and not w.run_dir("b").exists() and run.exists()
        page.click("tr[data-run=live] a")
        page.wait_text(".head", "#paper #figure-3")
        page.click("[data-action=tag]")
        page.click("dialog.ask fieldset input")
        page.fill("dialog [name=note]", "to be gone on with")
        page.key("Enter")
        page.wait_text(".head", "#paper to be gone on with")
        page.click("[data-action=stop]")
        page.click("[data-action=stop]")
        page.wait_text(".head .state", "stopped")
        supervisor = harness.holder_of(run)
        harness.wait_until("its end", lambda: not harness.alive(supervisor))
        page.click("[data-action=resume]")
        page.wait_text(".head .state", "running")
        w.brood("stop", run)
        page.wait_text(".head .state", "stopped")
        harness.wait_until("its end", lambda: not harness.alive(harness.holder_of(run)))
        page.click("[data-action=rm]")
        page.click("dialog.ask .danger")
        page.wait_text(".empty", "There are no runs yet")
    finished(w, "c")
    with Visit(w, "--read-only") as v:
        v.page.click("tr[data-run=c] td.pick label")
        v.page.wait_text("a.button.primary", "Open 1 run")
        assert not v.page.eval("[...document.querySelectorAll('[data-action]')].some(n => n.getClientRects().length)")


def test_names_and_logs_are_text(w):
    run = finished(w, "over")
    with open(run / "journal", "a") as f:
        f.write(f"2026-01-01T00:00:00.000Z step=1 event={HOSTILE.replace(' ', '')} x={HOSTILE}\n{HOSTILE}\n")
    (run / "logs" / "agent_0.log").write_text(HOSTILE + "\n")
    csv = run / "metrics" / "progress.csv"
    csv.write_text(csv.read_text().replace("train/agent_0/", "train/<img src=x onerror=document.title=1>/")
                   .replace("rollout/team_return/agent", f"rollout/team_return/{HOSTILE}"))
    shutil.move(run, w.runs / HOSTILE)
    (w.runs / "<b>bold").mkdir()
    shutil.copy(w.runs / HOSTILE / "config.yaml", w.runs / "<b>bold" / "config.yaml")
    with Visit(w) as v:
        page = v.page
        page.wait_text(".runs", HOSTILE)
        page.wait_text(".runs", "<b>bold")
        page.click(f"tr[data-run='{HOSTILE}'] a")
        page.wait_text("h1", HOSTILE)
        page.wait_text(".key", HOSTILE)
        page.key("3")
        page.wait_text(".log", HOSTILE)
        page.eval("(() => { const s = document.querySelector('.tools select'); s.value = 'agent_0'; "
                  "s.dispatchEvent(new Event('change')) })()")
        page.wait("document.querySelector('.log').innerText.trim() == " + json.dumps(HOSTILE))
        assert page.eval("document.title").startswith(HOSTILE)
        assert page.eval("document.querySelectorAll('main img, main b b, [onerror]').length") == 0


def test_an_episode_is_played(w):
    finished(w, "over")
    with Visit(w) as v:
        page = v.page
        page.wait("document.querySelector('tr[data-run=over]')")
        page.go(f"http://127.0.0.1:{v.server.port}/#/run/over/episodes")
        page.click("tr[data-step='600'] button")
        frames = int(page.wait("document.querySelector('.player')?.dataset.frames"))
        assert frames == 26, frames
        page.wait("document.querySelector('.player').dataset.at > 2", "the episode moves")
        page.click(".player .controls button")
        v.shot("episode")
        told = json.loads(w.brood("eval", "over", "--episodes", 1, "--copies", 1, "--json")[0])
        page.eval("(() => { const s = document.querySelector('.player [type=range]'); s.value = 25; "
                  "s.dispatchEvent(new Event('input')) })()")
        page.wait_text(".returns", f"{told['return_mean']['agent_0']:.2f}".rstrip("0").rstrip("."))
        for pick in ("worst", "best"):
            page.click(f"tr[data-step='600'] [data-pick={pick}]")
            page.wait_text(".answer", f"the {pick} of 20")
            out, _ = w.brood("eval", "over", "--episodes", 20, "--episode", pick, "--render", "x.jsonl")
            number = re.search(rf"episode (\d+), the {pick}, is drawn", out)[1]
            assert f"episode {number}, the {pick} of 20" in page.text(".answer"), (out, page.text(".answer"))
        v.shot("episode-best")
        page.size(390, 844, phone=True)
        assert no_sideways(page)
        v.shot("episode-best-phone")


def test_pictures_of_evaluations_and_what_cannot_be_drawn(w):
    finished(w, "drawn", 400, "--set", "evaluation.render=gif")
    finished(w, "data", 400, "--set", "evaluation.render=jsonl")
    finished(w, "toy", 400, "--set", "env.id=two_step", "--set", "env.params={}")
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.wait("document.querySelector('tr[data-run=drawn]')")
        page.go(base + "#/run/drawn/episodes")
        page.click("[data-file='400.gif']")
        page.wait("document.querySelector('.pictures img')?.naturalWidth > 200")
        v.shot("evaluation")
        page.click("tr[data-step='400'] button")
        page.wait("document.querySelector('.player').dataset.frames == 26 && !document.querySelector('.pictures img')")
        page.wait_text(".kinds", "landmark")
        page.go(base + "#/run/data/episodes")
        page.click("[data-file='400.jsonl']")
        page.wait("document.querySelector('.player').dataset.frames == 26")
        page.go(base + "#/run/toy/episodes")
        page.wait_text("h1", "toy")
        page.click("tr[data-step='400'] button")
        page.wait_text(".answer.bad", "cannot be drawn")


def test_several_runs_and_a_study(w):
    for seed in (1, 2):
        finished(w, f"trial-s{seed}", 600, "--seed", seed)
    finished(w, "other", 400)
    base = w.small(steps=300, evaluate=100, checkpoint=0)
    study = w.write("lr.yaml", f"base: {base}\nsearch:\n  defaults.discount: [0.9, 0.95]\n"
                    "  defaults.optimizer.learning_rate: [0.001, 0.003]\nseeds: [1]\n")
    w.brood("sweep", study, "--jobs", 2, "-q")
    with Visit(w) as v:
        page = v.page
        for name in ("trial-s1", "trial-s2", "other"):
            page.click(f"tr[data-run={name}] td.pick label")
        page.wait_text("a.button.primary", "Compare 3 runs")
        page.click("a.button.primary")
        page.wait_text(".legend", "trial (2 seeds)")
        page.wait("document.querySelector('[data-chart=\"rollout/team_return\"]').dataset.points > 5")
        v.shot("compare")
        page.wait_text("table.differences tr[data-key='run.seed']", "2")
        assert not page.eval("!!document.querySelector('table.differences tr[data-key=\"run.name\"]')")
        head, *rows = [line.split(",") for line in (w.run_dir("other") / "metrics" / "progress.csv").read_text().splitlines()]
        returns = [row[head.index("eval/team_return/agent")] for row in rows]
        returns = [float(v) for v in returns if v]
        page.wait("document.querySelector('tr[data-run=other] td:nth-child(5)').innerText")
        shown = [float(v) for v in page.texts("tr[data-run=other] td")[2:4]]
        assert all(abs(a - b) < 0.06 for a, b in zip(shown, (returns[-1], max(returns)))), (shown, returns)

        def group_by(key):
            page.eval(f"(() => {{ const s = document.querySelector('[name=group]'); s.value = '{key}'; s.dispatchEvent(new Event('change')) }})()")
        group_by("run.env_steps")
        page.wait_text(".legend", "env_steps=600 (2 runs)")
        page.reload()
        page.wait_text(".legend", "env_steps=600 (2 runs)")
        group_by("none")
        page.wait_text(".legend", "trial-s2")
        page.click(".brand")
        page.click("a.study")
        page.wait("document.querySelectorAll('table.trials tbody tr').length == 4")
        page.wait("document.querySelectorAll('.parallel polyline').length == 4")
        told = json.loads(w.brood("report", "lr", "--json")[0])
        assert page.texts("table.trials tbody td:first-child") == [str(t["trial"]) for t in told["trials"]]
        v.shot("study")
        page.click("a.seed")
        page.wait_text("h1", "lr/")


def test_a_group_looks_at_its_folders(w):
    """Side by side, and without what would change a run."""
    anna, ben = two_folders(w)
    gone = w.path / "carl" / "runs"
    with Visit(w, folders=(anna, ben, gone)) as v:
        page = v.page

        def waits(*names):
            page.wait(f"JSON.stringify([...document.querySelectorAll('tr[data-run]')].map(r => r.dataset.run).sort()) "
                      f"== JSON.stringify({json.dumps(sorted(names))})", str(names))
        trials = ["anna/lr/1-s1", "anna/lr/2-s1"]
        waits("anna/same", "ben/same", *trials)
        page.wait_text("tr[data-run='ben/same'] .state", "done")
        assert page.texts(".why") == [f"{gone}: No such file or directory"]
        assert page.texts(".folders .chip") == ["all\n4", "anna\n3", "ben\n1", "carl\n0"], page.texts(".folders .chip")
        page.wait_text("#badge", "read-only")
        # a state of two words is not cut off
        page.eval("document.querySelector(\"tr[data-run='ben/same'] .state\").lastChild.textContent = 'no permission'")
        assert page.eval("(td => td.scrollWidth <= td.clientWidth)(document.querySelector(\"tr[data-run='ben/same'] [data-column=state]\"))")
        v.shot("group")
        page.click(".folders .chip:nth-child(3)")
        waits("ben/same")
        page.click(".folders .chip:nth-child(1)")
        for words, names in (("folder=ben*", ["ben/same"]), ("name=same", ["anna/same", "ben/same"]),
                             ("anna lr", trials)):
            page.fill("input.search", words)
            waits(*names)
        page.fill("input.search", "name=same")
        for user in ("anna", "ben"):
            page.click(f"tr[data-run='{user}/same'] td.pick label")
        page.wait_text("a.button.primary", "Compare 2 runs")
        assert not page.eval("[...document.querySelectorAll('[data-action]')].some(b => b.offsetParent)")
        page.click("a.button.primary")
        page.wait_text(".legend", "ben/same")
        page.wait_text("table.differences tr[data-key='run.env_steps']", "400")
        page.key("u")
        page.wait("document.querySelector('a.study')")
        page.click("a.study")
        page.wait("document.querySelectorAll('table.trials tbody tr').length == 2")
        page.click("a.seed")
        page.wait_text("h1", "anna/lr/")
        page.wait_text(".head .state", "done")
        assert not page.eval("[...document.querySelectorAll('[data-action]')].some(b => b.offsetParent)")
        v.shot("group-run")
        page.key("u")
        page.fill("input.search", "")
        waits("anna/same", "ben/same", *trials)
        ben.rename(w.path / "away")
        waits("anna/same", *trials)
        page.wait(f"document.querySelectorAll('.why').length == 2 && document.body.innerText.includes({json.dumps(str(ben))})")
        page.size(390, 844, phone=True)
        page.scheme(True)
        assert no_sideways(page)
        v.shot("group-phone-dark")
        (w.path / "away").rename(ben)
        waits("anna/same", "ben/same", *trials)


def test_a_study_shows_its_rungs_and_which_keys_matter(w):
    base = w.small(steps=600, evaluate=200, checkpoint=0)
    study = w.write("many.yaml", f"base: {base}\nmethod: {{asha: {{rungs: [200, 400, 600], keep: 0.5}}}}\nsearch:\n"
                    "  defaults.optimizer.learning_rate: {log_uniform: [0.0001, 0.01]}\n  defaults.discount: {uniform: [0.9, 0.99]}\n"
                    "  experience.batch_size: [32, 64, 128]\ntrials: 4\nseeds: [1]\n")
    w.brood("sweep", study, "--jobs", 2, "-q")
    told = json.loads(w.brood("report", "many", "--json")[0])
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.click("a.study")
        page.wait("document.querySelectorAll('.parallel polyline').length == 4")
        assert page.text(".parallel .axis") == "learning_rate (log)" or "learning_rate (log)" in page.eval("document.querySelector('.parallel').textContent")
        page.wait_text(".effects", f"rank correlation {told['rank_correlation']['defaults.discount']:.2f}")
        page.wait_text(".effects", f"variance share {told['variance_share']['experience.batch_size']:.2f}")
        first = [t["trial"] for t in told["trials"] if t["rung"] == 0]
        page.eval("[...document.querySelectorAll('.chip')].find(n => n.innerText.startsWith('rung 1,')).click()")
        page.wait(f"document.querySelectorAll('.parallel polyline').length == {len(first)}")
        page.wait("[...document.querySelectorAll('table.trials tbody tr')].filter(n => n.getClientRects().length)"
                  f".map(n => n.dataset.trial).join() == '{','.join(map(str, first))}'")
        # No label lies on another one, and none is cut, also on a phone.
        for width in (1280, 390):
            page.size(width, 844)
            page.wait("document.querySelector('.parallel').getBoundingClientRect().width > 300")
            assert page.eval("(() => { const boxes = [...document.querySelectorAll('.parallel text')].map(n => n.getBoundingClientRect()); "
                             "return boxes.every((a, i) => boxes.every((b, k) => i === k || a.right <= b.left || b.right <= a.left || "
                             "a.bottom <= b.top + 3 || b.bottom <= a.top + 3)) })()"), width
            assert no_sideways(page)
        v.shot("study-rungs")


def test_in_the_dark_and_on_a_phone(w):
    finished(w, "over")
    live_run(w)
    with Visit(w, dark=True) as v:
        page = v.page
        page.wait_text("tr[data-run=live]", "running")
        lights = [page.eval("getComputedStyle(document.documentElement).backgroundColor")]
        v.shot("list-dark")
        page.scheme(False)
        lights.append(page.eval("getComputedStyle(document.documentElement).backgroundColor"))
        shades = [sum(map(int, re.findall(r"\d+", c)[:3])) for c in lights]
        assert shades[0] < 150 < 600 < shades[1], lights
        page.size(390, 844, phone=True)
        base = f"http://127.0.0.1:{v.server.port}/"
        for place, ready in (("#/", "tr[data-run=live]"), ("#/run/live", "[data-chart] canvas"),
                             ("#/run/live/settings", "tr[data-key='env.id']"),
                             ("#/run/live/logs", ".log li"), ("#/run/over/episodes", "tr[data-step]"),
                             ("#/compare/over,live", "[data-chart] canvas")):
            page.go(base + place)
            page.wait(f"document.querySelector({json.dumps(ready)})", place)
            assert no_sideways(page), place
            if place.endswith("settings"):   # values are whole words
                assert page.eval("document.querySelector('tr[data-key=\"env.id\"] td').getBoundingClientRect().width") > 200
            v.shot("phone-" + re.sub(r"\W+", "-", place).strip("-"))
        page.go(base + "#/run/live")
        page.wait("document.querySelector('tr[data-agent=agent_0] button')")
        assert page.eval("document.querySelector('tr[data-agent=agent_0] [data-action=respawn]')"
                         ".getBoundingClientRect().right <= innerWidth"), "the buttons can be seen"


def test_by_the_keyboard_alone(w):
    finished(w, "over")
    run = live_run(w)
    with Visit(w) as v:
        page = v.page
        page.wait_text("tr[data-run=live]", "running")
        page.key("/")
        page.type("liv")
        page.wait("document.querySelectorAll('.runs tbody tr').length == 1")
        page.key("Escape")
        page.key("j")
        assert page.eval("document.activeElement.innerText") == "live"
        page.key("Enter")
        page.wait_text(".head .state", "running")
        page.key("p")
        page.wait_text(".head .state", "paused")
        assert harness.json_lines(w.brood("status", run, "--json")[0])[0]["state"] == "paused"
        page.key("2")
        page.wait("document.querySelector('form.set')")
        page.key("?")
        page.wait("document.querySelector('dialog').open")
        page.key("Enter")
        page.wait("!document.querySelector('dialog').open")
        page.key("5")
        page.wait_text(".record", "Build and machine")
        page.wait_text("table.events", "paused")
        page.key("1")
        page.wait("document.querySelector('tr[data-agent=agent_0] button')")
        page.wait_text("tr[data-agent=agent_0] [data-action=kill]", "Kill")
        for _ in range(100):   # every button is reached by Tab, and says so
            page.key("Tab")
            if page.eval("document.activeElement.dataset.action == 'kill'"):
                break
        else:
            raise AssertionError("Tab does not reach a button")
        assert page.eval("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.key("u")
        page.wait("document.querySelector('.runs')")
        page.wait_text("tr[data-run=live] .state", "paused")
        page.key("x")   # no row has the focus: nothing


def test_it_comes_back_with_the_server_and_keeps_its_place(w):
    """Nodes are kept when what they show changes; a lost connection is said and found again."""
    run = live_run(w)
    with Visit(w) as v:
        page = v.page
        page.wait_text("tr[data-run=live]", "running")
        page.click("tr[data-run=live] a")
        page.wait("document.querySelector('[data-chart=\"rollout/team_return\"] canvas')")
        page.eval("(window.had = [...document.querySelectorAll('.fact, tr, canvas, .key')]).length")
        rows = harness.rows(run)
        harness.wait_until("more rows", lambda: harness.rows(run) > rows + 3)
        points = page.eval("Number(document.querySelector('[data-chart=\"rollout/team_return\"]').dataset.points)")
        page.wait("Number(document.querySelector('[data-chart=\"rollout/team_return\"]').dataset.points) "
                  f"> {points}", "more points")
        assert page.eval("had.length > 10 && had.every(n => n.isConnected)")
        harness.kill(v.server.process.pid)
        page.wait_text("#link", "connection lost")
        page.errors.clear()   # what the browser says of that
        page.wait("!document.querySelector('#link.on')")
        Server(w, "--port", v.server.port)   # another one, with another token
        page.wait_text("#link", "open the address that brood web printed now")
        page.errors.clear()


def test_charts_are_chosen_and_have_all_rows(w):
    """Also those that one part of the file has no room for, and a chart that joins later."""
    run, n = finished(w, "over"), 1500
    csv = run / "metrics" / "progress.csv"
    head, *rows = csv.read_text().splitlines()
    names = "".join(f",rollout/return/x{i}" for i in range(245))
    csv.write_text("\n".join([head + names, *(
        f"{i},{(rows * n)[i].partition(',')[2]}" + ",1.5" * 245 for i in range(n))]) + "\n")

    def points(key, many=n):
        page.wait(f"document.querySelector('[data-chart=\"{key}\"]')?.dataset.points == {many}", key)

    def choose(key):
        page.click(".menu summary")
        page.wait("document.querySelector('.menu').open")
        page.eval(f"[...document.querySelectorAll('.menu label')].find(n => n.innerText.includes('{key}')).click()")
        page.key("Escape")
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.wait("document.querySelector('tr[data-run=over]')")
        page.go(base + "#/run/over")
        points("rollout/return")
        points("time/env_steps_per_second")
        choose("time/round_us")
        points("time/round_us")
        choose("rollout/return")
        page.wait("!document.querySelector('[data-chart=\"rollout/return\"]')")
        with open(csv, "a") as f:   # those that joined at different times go on together
            f.write(f"{n},{rows[-1].partition(',')[2]}" + ",1.5" * 245 + "\n")
        points("time/round_us", n + 1)
        points("time/env_steps_per_second", n + 1)
        page.reload()   # the choice is kept
        points("time/round_us", n + 1)
        assert not page.eval("!!document.querySelector('[data-chart=\"rollout/return\"]')")


CHART = "document.querySelector('[data-chart=\"rollout/team_return\"]')"
PLOT = f"{CHART}.querySelector('.plot').chart.plot"


def box_of(page, node):
    """Where it stands on the screen: x, y, width, height."""
    return page.eval(f"(() => {{ {node}.scrollIntoView({{block: 'center'}}); const r = {node}.getBoundingClientRect(); "
                     "return [r.x, r.y, r.width, r.height] })()")


def test_how_charts_are_drawn_is_chosen_and_in_the_link(w):
    """Logarithms, time, smoothing, zoom, spikes, size; and what is saved."""
    csv = finished(w, "over") / "metrics" / "progress.csv"
    head, *rows = csv.read_text().splitlines()
    names, row = head.split(","), rows[-1].split(",")
    at, speed = names.index("rollout/team_return/agent"), names.index("time/env_steps_per_second")

    def line(i):
        fields = [str(100 * i), *row[1:]]
        fields[at], fields[speed] = ("5000" if i == 1 else str(1 + i % 10)), "50"
        return ",".join(fields)
    csv.write_text("\n".join([head + ",train/agent_0/never", *(line(i) + "," for i in range(1, 101))]) + "\n")
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.wait("document.querySelector('tr[data-run=over]')")
        page.go(base + "#/run/over?charts=rollout/team_return,train/never,eval/team_return")
        page.wait(f"{CHART}?.dataset.points == 100 && {PLOT}")
        assert page.eval("document.querySelector('[data-chart=\"train/never\"]').hidden"), "an empty chart"
        # A spike does not make a flat line of the others.
        assert page.eval(f"{PLOT}.scales.y.max") < 20
        page.wait_text("[data-chart='rollout/team_return'] figcaption", "1 value beyond")
        page.click("[name=all]")
        page.wait(f"{PLOT}.scales.y.max >= 5000")
        assert "all" in page.eval("location.hash")
        page.click("[name=log]")
        page.wait(f"{PLOT}.scales.y.distr == 3 && {PLOT}.scales.y.min > 0")
        page.eval("(() => { const s = document.querySelector('[name=x]'); s.value = 'time'; s.dispatchEvent(new Event('change')) })()")
        page.wait(f"{PLOT}.scales.x.max == 200 && {PLOT}.scales.x.min == 2", "100 steps take two seconds")
        page.eval("document.querySelector('[name=smooth]').focus()")
        page.call("Input.dispatchKeyEvent", type="keyDown", key="End", code="End", windowsVirtualKeyCode=35)
        page.wait(f"Math.max(...{PLOT}.data[1].slice(5)) < 4000", "smoothed values")
        x, y, width, height = box_of(page, f"{CHART}.querySelector('.u-over')")
        page.drag(x + width * 0.25, x + width * 0.5, y + height / 2)
        page.wait(f"{PLOT}.scales.x.min > 45 && {PLOT}.scales.x.max < 110", "a zoom")
        assert page.eval("document.querySelector('[data-chart=\"eval/team_return\"] .plot').chart.plot.scales.x.max") < 110, "in all charts"
        page.click("[data-chart='rollout/team_return'] .icon")
        page.wait(f"{CHART}.getBoundingClientRect().width > 1000")
        v.shot("charts-look")
        page.reload()   # a link shows the same
        page.wait(f"{PLOT}?.scales.x.min > 45 && {PLOT}.scales.x.max < 110 && {PLOT}.scales.y.distr == 3")
        assert page.eval(f"{CHART}.getBoundingClientRect().width") > 1000
        assert page.eval("document.querySelector('[name=x]').value") == "time"
        page.click("[name=reset]")
        page.wait(f"{PLOT}.scales.x.max == 200")
        page.key("+")   # and without a pointer
        page.wait(f"Math.round({PLOT}.scales.x.min) == 52 && Math.round({PLOT}.scales.x.max) == 151")
        page.key(">")
        page.wait(f"Math.round({PLOT}.scales.x.max) == 175")
        page.key("0")
        page.wait(f"{PLOT}.scales.x.max == 200 && document.querySelector('[name=reset]').hidden")
        page.eval("URL.createObjectURL = blob => { window.saved = blob; return '#/run/over' }; HTMLAnchorElement.prototype.click = function () { window.named = this.download }")
        page.click("[data-chart='rollout/team_return'] .menu summary")
        page.click("[data-chart='rollout/team_return'] [data-save=CSV]")
        page.wait("!!window.saved")
        lines = page.eval("saved.text()").splitlines()
        assert lines[:3] == ["seconds,agent", "2,5000", "4,3"] and len(lines) == 101, lines[:3]
        assert page.eval("named") == "rollout-team_return.csv"
        page.click("[data-chart='rollout/team_return'] [data-save=PNG]")
        page.wait("window.named.endsWith('.png') && saved.type == 'image/png' && saved.size > 2000")
        page.eval("localStorage.clear()")


def test_what_happened_is_marked_on_the_charts(w):
    run = live_run(w)
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.wait_text("tr[data-run=live]", "running")
        page.go(base + "#/run/live")
        w.brood("set", run, "defaults.discount=0.9")
        w.brood("kill", run, "agent_1")
        w.brood("checkpoint", run)
        w.brood("stop", run)
        for kind, words in (("set", "discount=0.9"), ("death", "agent_1"), ("checkpoint", "checkpoint")):
            page.wait(f"[...{CHART}.querySelectorAll('.mark')].some(n => n.ariaLabel.includes('{words}'))", kind)
        page.wait_text(".head .state", "stopped")
        page.wait(f"{CHART}.querySelector('.mark')")
        page.eval(f"{CHART}.querySelector('.mark[tabindex=\"0\"]').focus()")
        page.key("Tab")   # only one of them is on the way
        assert not page.eval("document.activeElement.classList.contains('mark')")
        page.click("[data-chart='rollout/team_return'] .mark")   # and the pointer
        page.wait(f"[...{CHART}.querySelectorAll('.tip')].some(n => n.getClientRects().length && n.innerText.startsWith('step '))")
        v.shot("marks")
        page.click("[name=marks]")
        page.wait("!document.querySelector('.mark')")


def test_charts_of_columns_that_come_later(w):
    """A scalar that nobody declared: the file is replaced by one with its columns."""
    csv = finished(w, "over") / "metrics" / "progress.csv"
    head, *rows = csv.read_text().splitlines()
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.wait("document.querySelector('tr[data-run=over]')")
        page.go(base + "#/run/over")
        page.wait(f"document.querySelector('[data-chart=\"time/env_steps_per_second\"]')?.dataset.points"
                  f" == {len(rows)}")
        step = int(rows[-1].split(",")[0]) + 1
        later = csv.with_name("later")
        later.write_text("\n".join(
            [head + ",rollout/metric/success,eval/metric/success,train/agent_0/critic_loss_2",
             *(row + ",,," for row in rows), f"{step},{rows[-1].partition(',')[2]},0.5,0.25,1"]) + "\n")
        later.rename(csv)
        page.wait("document.querySelector('[data-chart=\"metric/success\"]')?.dataset.points == 2")
        page.wait_text("[data-chart='metric/success'] figcaption", "Success")
        page.wait_text("[data-chart='metric/success'] .legend", "evaluated")
        names = page.eval("[...document.querySelectorAll('.menu label')].map(n => n.textContent).join()")
        assert "Critic loss 2" in names, names


def test_a_long_file_is_thinned_and_a_cut_one_read_anew(w):
    """Peaks stay, and the newest row; as after a resume from an earlier checkpoint, also if it has
    grown beyond its old length before the page looks."""
    csv = finished(w, "over") / "metrics" / "progress.csv"
    head, *rows = csv.read_text().splitlines()
    names, row = head.split(","), rows[-1].split(",")
    at = names.index("rollout/team_return/agent")

    def write(n, value):
        csv.write_text("\n".join([head, *(",".join([str(i), *row[1:at], value(i), *row[at + 1:]]) for i in range(n))]) + "\n")
    write(30000, lambda i: "77" if i == 12345 else "-55" if i == 29999 else "0")
    chart = "document.querySelector('[data-chart=\"rollout/team_return\"]')"
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.wait("document.querySelector('tr[data-run=over]')")
        page.go(base + "#/run/over")
        page.wait(f"{chart}?.querySelector('.key b').innerText == '-55'", "the newest value")
        points = int(page.eval(f"{chart}.dataset.points"))
        assert 600 < points <= 2400, points
        plot = page.eval(f"{chart}.querySelector('.plot').chart.plot.data.map(d => Math.max(...d))")
        assert plot == [29999, 77], plot
        write(40, lambda i: str(i))
        page.wait(f"{chart}.dataset.points == 40", "the rows of the shorter file")
        write(30, lambda i: "5")
        with csv.open("a") as f:
            f.write("".join(",".join([str(i), *row[1:at], "6", *row[at + 1:]]) + "\n" for i in range(30, 90)))
        page.wait(f"{chart}.dataset.points == 90", "the rows of the other file")
        assert page.eval(f"{chart}.querySelector('.plot').chart.plot.data[1].slice(0, 30).every(v => v === 5)")
        page.errors.clear()   # that a range is not there any more


def test_points_can_be_seen(w):
    """Of a run with one row beside a long one, and that under the cursor."""
    for name, n in (("long", 3000), ("one", 1), ("two", 2)):
        csv = finished(w, name) / "metrics" / "progress.csv"
        head, *rows = csv.read_text().splitlines()
        csv.write_text("\n".join([head, *(f"{7 + i},{rows[-1].partition(',')[2]}" for i in range(n))]) + "\n")
    chart = "document.querySelector('[data-chart=\"rollout/team_return\"]')"
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.wait("document.querySelector('tr[data-run=long]')")
        for place, lines in (("#/compare/long,one,two", 3), ("#/run/one", 1), ("#/run/two", 1)):
            page.go(base + place)
            page.wait(f"{chart}?.querySelectorAll('.key').length == {lines} && {chart}.querySelector('canvas')", place)
            page.wait(f"[...{chart}.querySelectorAll('.key b')].every(b => b.innerText)", "their values")
            shown = page.eval(f"{chart}.querySelector('.plot').chart.plot.series.slice(1).map((s, i) => "
                              f"s.points.show({chart}.querySelector('.plot').chart.plot, i + 1))")
            assert shown == ([False, True, True] if lines == 3 else [True]), (place, shown)
            x, y, width, height = page.eval(
                f"(() => {{ {chart}.scrollIntoView({{block: 'center'}}); const r = {chart}.querySelector('.u-over').getBoundingClientRect(); "
                "return [r.x, r.y, r.width, r.height] })()")
            page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + width / 2, y=y + height / 2)
            page.wait(f"{chart}.querySelector('figcaption .muted').innerText.startsWith('step')")
            dots = page.eval(f"[...{chart}.querySelectorAll('.u-cursor-pt:not(.u-off)')].map(d => getComputedStyle(d).backgroundColor)")
            keys = page.eval(f"[...{chart}.querySelectorAll('.key i')].map(i => getComputedStyle(i).backgroundColor)")
            assert dots == keys, (place, dots, keys)
            v.shot("points-" + re.sub(r"\W+", "-", place).strip("-"))


def test_what_is_gone_is_said_and_the_rest_is_shown(w):
    """A run that is deleted, one of several; many columns in one chart; a row that vanishes."""
    for name in ("a", "b", "c"):
        finished(w, name)
    csv = w.run_dir("b") / "metrics" / "progress.csv"
    rows = csv.read_text().splitlines()
    names = "".join(f",rollout/return/x{i}" for i in range(245))
    csv.write_text("\n".join([rows[0] + names, *(row + ",1.5" * 245 for row in rows[1:])]) + "\n")
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.wait_text("tr[data-run=c] .state", "done")
        page.eval("document.querySelector('tr[data-run=b] a').focus()")
        shutil.rmtree(w.run_dir("c"))   # the newest: the first row
        page.wait("!document.querySelector('tr[data-run=c]')", "its row to vanish")
        assert page.eval("document.activeElement.innerText") == "b"
        page.go(base + "#/compare/a,c,b")
        page.wait_text(".answer.bad", "there is no run 'c'")
        page.errors.clear()   # that its file is not found
        page.wait("document.querySelector('[data-chart=\"rollout/team_return\"]')?.dataset.points > 5")
        page.go(base + "#/run/b")
        page.wait_text("[data-chart='rollout/return'] .legend", "mean and range of 248")
        for tab in ("2", "3", "1"):   # a view each, of a run that does not change
            page.key(tab)
            page.wait("document.querySelector('.head .state').innerText == 'done'")
        shutil.rmtree(w.run_dir("b"))
        page.wait_text(".head .state", "deleted")
        page.wait_text(".why", "Its directory is gone")
        page.errors.clear()   # its file may have been asked for while it vanished
        page.go(base + "#/run/%")
        page.wait_text(".empty", "there is no run '%'")


def test_a_run_that_its_evaluations_ended_says_so(w):
    """And which of its checkpoints is the best one."""
    metric = "eval/team_return/agent"
    finished(w, "good", 2000, "--set", "evaluation.every_env_steps=200", "--set",
             f"run.stop_when={{metric: {metric}, above: -1000, for: 2}}", "--set",
             f"checkpoint.keep_best={metric}")
    best, = (s for s in (200, 400) if f'"checkpoint_step": {s},' in
             w.brood("eval", "good@best", "--episodes", 1, "--json")[0])
    with Visit(w) as v:
        page, base = v.page, f"http://127.0.0.1:{v.server.port}/"
        page.wait_text("tr[data-run=good] .state", "done")
        page.go(base + "#/run/good")
        page.wait_text(".why", f"Stopped at step 400: {metric} above -1000 for 2 evaluations.")
        page.go(base + "#/run/good/record")
        page.wait_text(".events", "came to its end before its length")
        page.go(base + "#/run/good/episodes")
        page.wait_text(f"tr[data-step='{best}'] .number", f"★ {best}")
        page.wait_text("tr[data-step='0'] .number", "0")


if __name__ == "__main__":
    harness.main()
