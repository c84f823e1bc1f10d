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
from test_web import LONG, Server, live_run

sys.path.insert(0, str(harness.SOURCE / "tests" / "support"))
import chromium  # noqa: E402

SHOTS = harness.BUILD / "web"
BROWSERS = []   # one for all tests: it takes a second of processors to start
HOSTILE = "<img src=x onerror=document.title=1>"


class Visit:
    """A browser at a server's page; `with Visit(w) as v`."""

    def __init__(self, w, *options, **look):
        if chromium.PROGRAM is None:
            raise harness.Skip("no chromium")
        if harness.SANITIZED:
            raise harness.Skip("the page is tested once, by the release build")
        self.server, self.look = Server(w, *options), look
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
        page.eval("location.reload()")
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
        page.click(".head .check")
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
        page.eval("[...document.querySelectorAll('.fact, tr, canvas, .key')].forEach(n => n.mark = 1)")
        rows = harness.rows(run)
        harness.wait_until("more rows", lambda: harness.rows(run) > rows + 3)
        points = page.eval("Number(document.querySelector('[data-chart=\"rollout/team_return\"]').dataset.points)")
        page.wait("Number(document.querySelector('[data-chart=\"rollout/team_return\"]').dataset.points) "
                  f"> {points}", "more points")
        assert page.eval("[...document.querySelectorAll('.fact, tr, canvas, .key')].every(n => n.mark)")
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
        page.eval("location.reload()")   # the choice is kept
        points("time/round_us", n + 1)
        assert not page.eval("!!document.querySelector('[data-chart=\"rollout/return\"]')")


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


if __name__ == "__main__":
    harness.main()
