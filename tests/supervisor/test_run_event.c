/* Events and status of a run, in each of their encodings. */
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "supervisor/events/run_event.h"
#include "supervisor/events/run_status.h"
#include "supervisor/rundir/journal_read.h"
#include "supervisor/rundir/run_record.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct run_event event_of(enum run_event_kind kind)
{
    return (struct run_event){
        .kind = kind, .env_steps = 75, .time = "2026-01-31T12:00:00.123Z"};
}

static struct run_event process_event(enum run_event_kind kind, const char *agent,
                                      const char *environment)
{
    struct run_event e = event_of(kind);

    run_event_process_init(&e.process, agent, environment);
    return e;
}

#define HEAD "2026-01-31T12:00:00.123Z step=75 "

static void expect_line(const struct run_event *e, const char *want)
{
    char *line = run_event_line(e);

    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(strncmp(line, HEAD, sizeof(HEAD) - 1), 0);
    ck_assert_str_eq(line + sizeof(HEAD) - 1, want);
    free(line);
}

/* The lines are those of builds before the table of kinds, because the same code reads
 * old and new journals. */
START_TEST(lines_are_those_of_earlier_builds)
{
    struct run_event e = event_of(RUN_EVENT_START);

    e.begin.pid = 12;
    e.begin.keeper = 11;
    e.begin.build = "ab12";
    e.begin.numerics = "portable";
    e.begin.version = 1;
    expect_line(&e,
                "event=start pid=12 keeper=11 build=ab12 numerics=portable version=1");
    e = process_event(RUN_EVENT_SPAWN, "agent_0", NULL);
    e.process.pid = 20;
    expect_line(&e, "event=spawn agent=agent_0 pid=20");
    e.kind = RUN_EVENT_READY;
    e.process.replayed = 3;
    expect_line(&e, "event=ready agent=agent_0 pid=20 replayed=3");
    e = process_event(RUN_EVENT_EXIT, NULL, "env_1");
    e.process.pid = 20;
    e.process.code = 3;
    e.process.in = "busy";
    e.process.lines = "last words";
    expect_line(&e, "event=exit environment=env_1 pid=20 code=3 in=busy "
                    "lines=\"last words\"");
    e.process.code = -1;
    e.process.signal = SIGKILL;
    e.process.limit = "memory_limit";
    e.process.why = "too much";
    e.process.lines = NULL;
    expect_line(&e, "event=exit environment=env_1 pid=20 signal=SIGKILL in=busy "
                    "limit=memory_limit why=\"too much\"");
    e = process_event(RUN_EVENT_WAIT, "agent_0", NULL);
    e.process.delay_ms = 100;
    expect_line(&e, "event=wait agent=agent_0 delay_ms=100");
    e = process_event(RUN_EVENT_GIVE_UP, "agent_0", NULL);
    e.process.mode = "frozen";
    e.process.position = 9;
    e.process.lost = 0;
    e.process.why = "it died";
    expect_line(&e, "event=give-up agent=agent_0 mode=frozen position=9 lost=0 "
                    "why=\"it died\"");
    e = event_of(RUN_EVENT_FAILED);
    run_event_set_failure(&e, &(const struct err){.msg = "it is full"});
    expect_line(&e, "event=failed error=\"it is full\"");
    run_event_set_failure(
        &e,
        &(const struct err){.msg = "no", .agent = "agent_0", .file = "a.py", .line = 3});
    expect_line(&e, "event=failed error=no agent=agent_0 file=a.py line=3");
    e = event_of(RUN_EVENT_SET);
    e.change.at = 100;
    e.change.changes = "a=1";
    expect_line(&e, "event=set at=100 changes=a=1");
    e.kind = RUN_EVENT_CHANGED;
    e.change.at = MEMBER_NO_U64;
    expect_line(&e, "event=changed changes=a=1");
    e.kind = RUN_EVENT_CANCEL;
    e.change.changes = "a.b@300,c";
    expect_line(&e, "event=cancel changes=a.b@300,c");
    e = event_of(RUN_EVENT_CHECKPOINT);
    expect_line(&e, "event=checkpoint");
    e = event_of(RUN_EVENT_END);
    e.end.state = "cut off";
    e.end.code = 130;
    e.end.pid = 12;
    e.end.episodes = 3;
    e.end.rounds = 2;
    e.end.updates = 1;
    e.end.restarts = 0;
    e.end.seconds = 1.5;
    e.end.team_return = -0.1;
    expect_line(&e, "event=end state=\"cut off\" code=130 pid=12 episodes=3 rounds=2 "
                    "updates=1 restarts=0 seconds=1.500 return=-0.1");
    e.end.team_return = NAN;
    e.end.state = "done";
    expect_line(&e, "event=end state=done code=130 pid=12 episodes=3 rounds=2 "
                    "updates=1 restarts=0 seconds=1.500");
    e = event_of(RUN_EVENT_MESSAGE);
    ck_assert_ptr_null(run_event_line(&e));
}
END_TEST

/* All data of an event in the journal are read back unchanged. */
START_TEST(lines_are_read_back)
{
    struct run_event e = process_event(RUN_EVENT_EXIT, "agent_0", NULL), back;
    struct journal_event line;
    char *text;

    e.process.pid = 20;
    e.process.signal = SIGSEGV;
    e.process.why = "two words";
    text = run_event_line(&e);
    ck_assert_int_eq(journal_parse(text, &line), 0);
    journal_to_event(&back, &line);
    ck_assert(back.kind == RUN_EVENT_EXIT && back.env_steps == 75);
    ck_assert_str_eq(back.time, e.time);
    ck_assert_str_eq(back.process.agent, "agent_0");
    ck_assert_ptr_null(back.process.environment);
    ck_assert_ptr_null(back.process.lines);
    ck_assert_str_eq(back.process.why, "two words");
    ck_assert(back.process.pid == 20 && back.process.signal == SIGSEGV &&
              back.process.code == -1);
    free(text);
    text = xstrdup("T event=end state=done code=x pid=12 seconds=2.5 episodes=-1 new=1");
    ck_assert_int_eq(journal_parse(text, &line), 0);
    journal_to_event(&back, &line);
    ck_assert(back.end.code == -1 && back.end.pid == 12 && back.end.seconds == 2.5);
    ck_assert(back.end.episodes == MEMBER_NO_U64 && isnan(back.end.team_return));
    free(text);
    e = process_event(RUN_EVENT_GIVE_UP, "agent_0", NULL);
    e.process.mode = "frozen";
    e.process.position = UINT64_C(1)
                         << 63; /* after 2^31 writing requests (agent_mode.c) */
    text = run_event_line(&e);
    ck_assert_ptr_nonnull(strstr(text, " position=9223372036854775808"));
    ck_assert_int_eq(journal_parse(text, &line), 0);
    journal_to_event(&back, &line);
    ck_assert_uint_eq(back.process.position, UINT64_C(1) << 63);
    free(text);
    text = xstrdup("T step=1 event=of-a-later-build agent=a");
    ck_assert_int_eq(journal_parse(text, &line), 0);
    journal_to_event(&back, &line);
    ck_assert(back.kind == RUN_EVENT_COUNT && back.env_steps == 1);
    free(text);
}
END_TEST

START_TEST(keys_have_the_types_of_their_values)
{
    ck_assert_int_eq(run_event_type_of("pid"), MEMBER_INT);
    ck_assert_int_eq(run_event_type_of("seconds"), MEMBER_SECONDS);
    ck_assert_int_eq(run_event_type_of("signal"), MEMBER_SIGNAL);
    ck_assert_int_eq(run_event_type_of("changes"), MEMBER_CHANGES);
    ck_assert_int_eq(run_event_type_of("none"), MEMBER_TEXT);
}
END_TEST

static void expect_json(const struct run_event *e, const char *want)
{
    static const char head[] = "{\"time\": \"2026-01-31T12:00:00.123Z\", \"event\": ";
    struct json j = {0};
    const char *text;

    json_begin(&j);
    run_event_json(&j, e);
    text = json_line(&j, NULL);
    ck_assert_msg(strncmp(text, head, sizeof(head) - 1) == 0, "%s", text);
    ck_assert_str_eq(text + sizeof(head) - 1, want);
    json_done(&j);
}

START_TEST(objects_have_numbers_as_numbers)
{
    const char *const names[] = {"time/round_us", "x"}, *const agents[] = {"a", "b"};
    const double values[] = {NAN, 1.5}, means[] = {-1, 2};
    const struct metrics_row row = {
        .env_steps = 75, .episodes = 2, .n = 2, .names = names, .values = values};
    const struct evaluation_result result = {
        .episodes = 10, .n_agents = 2, .return_mean = means, .length_mean = 25};
    struct run_event e = process_event(RUN_EVENT_EXIT, "agent_0", NULL);

    e.process.pid = 20;
    e.process.signal = SIGKILL;
    expect_json(&e, "\"exit\", \"env_steps\": 75, \"agent\": \"agent_0\", \"pid\": 20, "
                    "\"signal\": 9}\n");
    e = process_event(RUN_EVENT_GIVE_UP, "agent_0", NULL);
    e.process.mode = "noop";
    e.process.position = 1;
    expect_json(&e, "\"give_up\", \"env_steps\": 75, \"agent\": \"agent_0\", \"mode\": "
                    "\"noop\", \"position\": 1}\n");
    e = event_of(RUN_EVENT_SET);
    e.change.at = 100;
    e.change.changes = "a.b=0.9,c=1 to 0.5 over 200,d=true,e=,f=adam,g=-3";
    expect_json(&e,
                "\"set\", \"env_steps\": 75, \"at\": 100, \"changes\": {\"a.b\": 0.9, "
                "\"c\": \"1 to 0.5 over 200\", \"d\": true, \"e\": null, \"f\": "
                "\"adam\", \"g\": -3}}\n");
    e = event_of(RUN_EVENT_CANCEL);
    e.change.at = MEMBER_NO_U64;
    e.change.changes = "a.b@300,c";
    expect_json(&e, "\"cancel\", \"env_steps\": 75, \"changes\": {\"a.b\": 300, \"c\": "
                    "null}}\n");
    e = event_of(RUN_EVENT_ROW);
    e.row = &row;
    expect_json(&e, "\"row\", \"env_steps\": 75, \"episodes\": 2, "
                    "\"time/round_us\": null, \"x\": 1.5}\n");
    e = event_of(RUN_EVENT_EVALUATION);
    e.evaluation.result = &result;
    e.evaluation.agents = agents;
    expect_json(&e, "\"evaluation\", \"env_steps\": 75, \"episodes\": 10, "
                    "\"eval/return/a\": -1, \"eval/return/b\": 2, "
                    "\"eval/episode_length\": 25}\n");
}
END_TEST

/* ---- a run that is over ---- */

/* Written by an earlier build: two supervisors, the second with --anyway. */
static const char journal[] =
    "2026-01-31T12:00:00.000Z step=0 event=start pid=12 keeper=11 build=ab\n"
    "2026-01-31T12:00:00.100Z step=0 event=spawn agent=a pid=20\n"
    "2026-01-31T12:00:00.200Z step=0 event=ready agent=a pid=20\n"
    "2026-01-31T12:00:00.200Z step=25 event=exit agent=a pid=20 signal=SIGSEGV in=busy\n"
    "2026-01-31T12:00:00.200Z step=25 event=respawn agent=a pid=21\n"
    "2026-01-31T12:00:01.000Z step=50 event=of-another-build agent=b\n"
    "2026-01-31T12:00:02.000Z step=50 event=supervisor-exit pid=12 signal=SIGKILL\n"
    "2026-01-31T12:00:03.000Z step=25 event=resume pid=13 anyway=yes numerics=native\n"
    "2026-01-31T12:00:03.000Z step=25 event=not-portable why=\"run.numerics is native\"\n"
    "2026-01-31T12:00:03.100Z step=25 event=spawn agent=a pid=22\n"
    "2026-01-31T12:00:03.200Z step=25 event=spawn agent=c pid=23\n"
    "2026-01-31T12:00:04.000Z step=75 event=exit agent=a pid=22 code=3 in=busy\n"
    "2026-01-31T12:00:04.000Z step=75 event=exit agent=c pid=23 signal=SIGKILL "
    "limit=memory_limit\n"
    "2026-01-31T12:00:04.000Z step=75 event=give-up agent=c mode=frozen position=4 "
    "lost=0\n"
    "2026-01-31T12:00:05.000Z step=100 event=end state=\"cut off\" code=130 pid=13 "
    "episodes=4 rounds=4 updates=2 restarts=0 seconds=2.000 return=-1.5\n";

START_TEST(a_record_is_what_the_newest_supervisor_left)
{
    struct temp_dir dir;
    struct run_record r;
    const struct run_status *s = &r.status;
    FILE *f;

    temp_dir_init(&dir);
    f = fopen(temp_dir_file(&dir, "journal"), "w");
    ck_assert_ptr_nonnull(f);
    (void)fputs(journal, f);
    (void)fclose(f);
    run_record_read(&r, dir.path);
    ck_assert(!r.is_live && r.has_end && s->exit_code == 130);
    ck_assert_str_eq(s->state, "cut off");
    ck_assert_str_eq(s->began, "2026-01-31T12:00:00.000Z");
    ck_assert_str_eq(s->numerics, "native");
    ck_assert_str_eq(s->not_portable, "run.numerics is native");
    ck_assert(s->env_steps == 100 && s->episodes == 4 && s->round == 4 && !s->exact);
    ck_assert(s->team_return_mean == -1.5 && s->elapsed_s == 2 && s->pid == 0);
    ck_assert(s->total_s == 4 && s->total_restarts == 1);
    ck_assert_uint_eq(s->n_agents, 2);
    ck_assert_str_eq(s->agents[0].last_exit, "code 3");
    ck_assert(s->agents[0].restarts == 0 && s->agents[0].given_up == NULL);
    ck_assert_str_eq(s->agents[0].state, "gone");
    ck_assert_str_eq(s->agents[1].last_exit, "memory_limit");
    ck_assert_str_eq(s->agents[1].given_up, "frozen");
    ck_assert_uint_eq(s->agents[1].update, 2);
    run_record_done(&r);
    temp_dir_done(&dir);
}
END_TEST

/* ---- msgpack ---- */

static struct msg_out out;
static struct msg msg;

static void begin(void)
{
    msg_out_init(&out);
    msg_begin_notification(&out, "x");
}

static const msgpack_object *parsed(void)
{
    const uint8_t *frame;
    size_t len;

    msg_end(&out, &frame, &len);
    ck_assert_int_eq(
        msg_parse(&msg, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, NULL), 0);
    return &msg.body;
}

static void end(void)
{
    msg_done(&msg);
    msg_out_done(&out);
}

START_TEST(every_kind_is_one_map)
{
    const struct metrics_row row = {.env_steps = 75};
    const struct evaluation_result result = {.episodes = 10};
    const msgpack_object *map;
    char text[64] = "";

    for (int k = 0; k < RUN_EVENT_COUNT; k++) {
        struct run_event e = event_of((enum run_event_kind)k);

        if (k == RUN_EVENT_ROW)
            e.row = &row;
        if (k == RUN_EVENT_EVALUATION)
            e.evaluation.result = &result;
        if (k == RUN_EVENT_MESSAGE)
            e.message.text = "hello";
        begin();
        run_event_pack(&out, &e);
        map = parsed(); /* fails if the number of pairs differs from the map's head */
        ck_assert_int_eq(msg_get_str(map, "event", text, sizeof(text), NULL), 0);
        ck_assert_msg(*text != '\0' && strchr(text, '-') == NULL, "%d: %s", k, text);
        ck_assert_ptr_nonnull(msg_get(map, "time"));
        ck_assert_ptr_nonnull(msg_get(map, "env_steps"));
        end();
    }
}
END_TEST

static const struct run_agent_status agents[] = {
    {.name = "a",
     .state = "busy",
     .pid = 7,
     .restarts = 2,
     .rss_bytes = 1,
     .update = 3,
     .host = "m",
     .count = {.restarts = 3, .hangs = 1, .slow = 2, .skipped = 4, .lost_s = 1.5}},
    {.name = "b",
     .state = "gone",
     .given_up = "noop",
     .rss_bytes = -1,
     .update = RUN_UNKNOWN,
     .last_exit = "SIGKILL"},
};

static const struct run_return returns[] = {
    {"good", 1.5, (double)NAN},
    {"bad", -2, 3},
};

static const struct run_node_status nodes[] = {
    {.name = "node-0", .host = "m", .state = "up", .agents = 2, .pid = 9},
    {.name = "node-1", .state = "waiting", .restarts = 1, .why = "lost"},
};

static const struct run_status status = {
    .run = "r",
    .began = "2026-01-31T12:00:00.000Z",
    .failure_line = RUN_UNKNOWN,
    .state = "running",
    .exit_code = -1,
    .pid = 5,
    .keeper_pid = 4,
    .round = RUN_UNKNOWN,
    .env_steps = 75,
    .episodes = 3,
    .total_steps = 100,
    .steps_per_second = 2.5,
    .seconds_left = 10,
    .elapsed_s = 30,
    .total_s = 45,
    .total_restarts = 4,
    .checkpoint_step = -1,
    .team_return_mean = (double)NAN,
    .returns = returns,
    .n_returns = 2,
    .exact = 1,
    .numerics = "portable",
    .learners = 1,
    .agents = agents,
    .n_agents = 2,
    .nodes = nodes,
    .n_nodes = 2,
};

static const char status_json[] =
    "{\"run\": \"r\", \"began\": \"2026-01-31T12:00:00.000Z\", \"state\": \"running\", "
    "\"done_why\": null, \"failure\": null, \"failure_agent\": null, \"failure_file\": "
    "null, "
    "\"failure_line\": null, \"stalled_since\": null, "
    "\"stalled_why\": null, \"exit_code\": null, \"pid\": 5, "
    "\"keeper_pid\": 4, \"round\": null, \"env_steps\": 75, \"episodes\": 3, "
    "\"total_steps\": 100, \"total_episodes\": 0, \"steps_per_second\": 2.5, "
    "\"seconds_left\": 10, "
    "\"elapsed_seconds\": 30, \"total_seconds\": 45, \"total_restarts\": 4, "
    "\"checkpoint_step\": -1, \"team_return_mean\": null, "
    "\"returns\": [{\"team\": \"good\", \"trained\": 1.5, \"evaluated\": null}, "
    "{\"team\": \"bad\", \"trained\": -2, \"evaluated\": 3}], "
    "\"exact\": true, \"numerics\": \"portable\", \"not_portable\": null, "
    "\"learners\": 1, "
    "\"agents\": [{\"name\": \"a\", \"pid\": 7, \"state\": \"busy\", \"given_up\": null, "
    "\"restarts\": 2, \"rss_bytes\": 1, \"update\": 3, \"last_exit\": null, "
    "\"host\": \"m\", \"total_restarts\": 3, \"hangs\": 1, \"slow_answers\": 2, "
    "\"skipped_episodes\": 4, \"lost_seconds\": 1.5}, "
    "{\"name\": \"b\", \"pid\": 0, \"state\": \"gone\", \"given_up\": \"noop\", "
    "\"restarts\": 0, \"rss_bytes\": -1, \"update\": null, \"last_exit\": "
    "\"SIGKILL\", \"host\": null, \"total_restarts\": 0, "
    "\"hangs\": 0, \"slow_answers\": 0, \"skipped_episodes\": 0, "
    "\"lost_seconds\": 0}], \"environments\": [], "
    "\"nodes\": [{\"name\": \"node-0\", \"host\": \"m\", \"state\": \"up\", "
    "\"agents\": 2, \"restarts\": 0, \"pid\": 9, \"why\": null}, "
    "{\"name\": \"node-1\", \"host\": null, \"state\": \"waiting\", \"agents\": 0, "
    "\"restarts\": 1, \"pid\": 0, \"why\": \"lost\"}], \"pending\": []}\n";

static void expect_status(const struct run_status *s, const char *want)
{
    struct json j = {0};

    json_begin(&j);
    json_object(&j);
    run_status_json(&j, s);
    json_close(&j);
    ck_assert_str_eq(json_line(&j, NULL), want);
    json_done(&j);
}

/* A status that was sent over the socket and copied is the same, and does not point to
 * the memory of the first. */
START_TEST(a_status_is_the_same_on_both_ends)
{
    struct run_status back, copied;
    struct arena arena = {0}, other = {0};

    expect_status(&status, status_json);
    begin();
    run_status_pack(&out, &status);
    run_status_unpack(&back, parsed(), &arena);
    end();
    expect_status(&back, status_json);
    run_status_copy(&copied, &back, &other);
    arena_done(&arena);
    expect_status(&copied, status_json);
    ck_assert_str_eq(run_agent_shown_state(&copied.agents[0]), "busy");
    ck_assert_str_eq(run_agent_shown_state(&copied.agents[1]), "noop");
    arena_done(&other);
}
END_TEST

START_TEST(returns_are_told_by_team)
{
    const struct run_return one[] = {{"agent", -1.25, -1}},
                            tried[] = {{"agent", (double)NAN, 2}};
    const struct run_status alone = {.returns = one, .n_returns = 1},
                            untrained = {.returns = tried, .n_returns = 1},
                            older = {.team_return_mean = 7},
                            none = {.team_return_mean = (double)NAN};
    struct run_return many[RUN_RETURNS_MAX];
    const struct run_status crowd = {.returns = many, .n_returns = RUN_RETURNS_MAX};
    char text[RUN_RETURN_TEXT_BYTES];

    ck_assert_str_eq(run_status_returns(&status, text), "good 1.50, bad -2.00");
    ck_assert_str_eq(run_status_returns(&alone, text), "-1.25");
    ck_assert_str_eq(run_status_returns(&untrained, text), "(evaluated 2.00)");
    ck_assert_str_eq(run_status_returns(&older, text), "7.00");
    ck_assert_str_eq(run_status_returns(&none, text), "");
    for (int i = 0; i < RUN_RETURNS_MAX; i++)
        many[i] = (struct run_return){"a_team_with_quite_a_long_name", i, i};
    ck_assert_uint_eq(strlen(run_status_returns(&crowd, text)), sizeof(text) - 1);
}
END_TEST

/* Rows tell them, live and in a file; a value that a row lacks stays. */
START_TEST(rows_tell_returns)
{
    static const char *const names[] = {"rollout/team_return/good",
                                        "eval/team_return/bad", "train/x/loss"};
    const double values[] = {1, 2, 3}, later[] = {4, (double)NAN, 5};
    struct metrics_row row = {.n = 3, .names = names, .values = values};
    struct run_event e = {.kind = RUN_EVENT_ROW, .row = &row};
    struct run_model m;
    char text[RUN_RETURN_TEXT_BYTES];

    run_model_init(&m);
    (void)log_time(e.time);
    (void)run_event_fold(&m, &e);
    row.values = later;
    (void)run_event_fold(&m, &e);
    ck_assert_str_eq(run_status_returns(&m.status, text),
                     "good 4.00, bad (evaluated 2.00)");
    for (int i = 0; i < 2 * RUN_RETURNS_MAX; i++) {
        char column[64];

        (void)snprintf(column, sizeof(column), "rollout/team_return/t%d", i);
        run_model_note_return(&m, column, i);
    }
    ck_assert_uint_eq(m.status.n_returns, RUN_RETURNS_MAX);
    ck_assert(run_model_is_return("eval/team_return/good"));
    ck_assert(!run_model_is_return("rollout/return/good_0"));
    run_model_done(&m);
}
END_TEST

/* The status of another build, or a damaged one. */
START_TEST(what_a_status_lacks_is_unknown)
{
    struct run_status back;
    struct arena arena = {0};

    begin();
    msg_map(&out, 5);
    msg_put_u64(&out, "state", 7);
    msg_put_u64(&out, "pid", UINT64_MAX);
    msg_put_i64(&out, "env_steps", -3);
    msg_put_str(&out, "later", "x");
    msg_key(&out, "agents");
    msg_array(&out, 2);
    msg_nil(&out);
    msg_map(&out, 1);
    msg_key(&out, "name");
    msg_nil(&out);
    run_status_unpack(&back, parsed(), &arena);
    end();
    ck_assert_str_eq(back.run, "");
    ck_assert_str_eq(back.state, "");
    ck_assert(back.pid == 0 && back.env_steps == RUN_UNKNOWN && back.exit_code == -1);
    ck_assert(isnan(back.steps_per_second) && back.checkpoint_step == -1);
    ck_assert(back.n_agents == 2 && back.n_environments == 0 && back.n_nodes == 0);
    ck_assert_str_eq(back.agents[0].name, "");
    ck_assert_str_eq(back.agents[1].state, "");
    arena_done(&arena);
}
END_TEST

START_TEST(some_of_a_status)
{
    static const char *const keys[] = {"state", "run"};
    struct json j = {0};

    json_begin(&j);
    json_object(&j);
    run_status_json_some(&j, &status, keys, 2);
    json_close(&j);
    ck_assert_str_eq(json_line(&j, NULL), "{\"state\": \"running\", \"run\": \"r\"}\n");
    json_done(&j);
}
END_TEST

START_TEST(what_is_left_is_known_once_a_run_learns)
{
    struct run_status s = {.env_steps = 75, .total_steps = 100, .steps_per_second = 5};

    ck_assert(run_status_left(&s, 1) == 5);
    ck_assert(run_status_left(&s, 0) == 5); /* it may never learn */
    s.env_steps = 5;
    ck_assert(run_status_left(&s, 1) == 19);
    ck_assert(isnan(run_status_left(&s, 0)));
    s.steps_per_second = 0;
    ck_assert(isnan(run_status_left(&s, 1)));
    s = (struct run_status){
        .env_steps = 50, .episodes = 2, .total_episodes = 10, .steps_per_second = 5};
    ck_assert(run_status_left(&s, 1) == 40); /* 8 episodes of 25 steps */
    s.episodes = 0;
    ck_assert(isnan(run_status_left(&s, 1)));
    s = (struct run_status){.env_steps = 50, .steps_per_second = 5};
    ck_assert(isnan(run_status_left(&s, 1))); /* without a length */
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("run_event");
    TCase *tc = tcase_create("run_event");

    tcase_add_test(tc, lines_are_those_of_earlier_builds);
    tcase_add_test(tc, lines_are_read_back);
    tcase_add_test(tc, keys_have_the_types_of_their_values);
    tcase_add_test(tc, objects_have_numbers_as_numbers);
    tcase_add_test(tc, a_record_is_what_the_newest_supervisor_left);
    tcase_add_test(tc, every_kind_is_one_map);
    tcase_add_test(tc, a_status_is_the_same_on_both_ends);
    tcase_add_test(tc, returns_are_told_by_team);
    tcase_add_test(tc, rows_tell_returns);
    tcase_add_test(tc, what_a_status_lacks_is_unknown);
    tcase_add_test(tc, some_of_a_status);
    tcase_add_test(tc, what_is_left_is_known_once_a_run_learns);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
