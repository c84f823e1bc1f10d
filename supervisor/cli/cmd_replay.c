/* `brood replay`: plays a part of a run again and shows what its agents computed there. */
#include "supervisor/cli/keep.h"
#include "supervisor/cli/msg_json.h"
#include "supervisor/cli/replay_print.h"

#include "common/log/log.h"
#include "supervisor/env/env.h"
#include "supervisor/run/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct replay_options {
    const char *from, *agent, *out, *trace;
    struct cli_texts fetches;
    struct replay_condition until;
    long long to;
    int has_until, messages, trust;
};

static int take_condition(const struct cli *cli, const char *text, void *to)
{
    struct replay_options *o = to;
    struct err err = {0};

    o->has_until = 1;
    return replay_condition_parse(&o->until, text, &err) < 0
               ? cli_usage(cli, "--until %s", err.msg)
               : 0;
}

/* ---- progress, on a terminal ---- */

struct progress_line {
    const struct cli *cli;
    struct replay_view *view;
    int is_shown;
};

static void on_progress(void *ctx, uint64_t from, uint64_t step, uint64_t total)
{
    struct progress_line *p = ctx;

    if (p->cli->quiet || p->cli->json || !isatty(STDERR_FILENO) || total <= from)
        return;
    p->is_shown = 1;
    (void)fprintf(stderr, "\rreplaying from step %" PRIu64 ": %3.0f %% ", from,
                  100.0 * (double)(step > from ? step - from : 0) /
                      (double)(total - from));
}

static void on_skipped(void *ctx, const char *line)
{
    const struct progress_line *p = ctx;

    (void)fprintf(stderr, "brood %s: %s; trying another one\n", p->cli->command->name,
                  line);
}

static void on_log(void *ctx, const struct store_layout *layout, int fd)
{
    const struct progress_line *p = ctx;

    replay_view_read_rows(p->view, layout, fd);
}

/* ---- the result ---- */

static void print_json(const char *run, const struct replay_options *o,
                       const struct replay_view *v, const struct replay_result *r)
{
    struct json j = {0};

    msg_json_begin_event(&j, "done");
    json_put_str(&j, "run", run);
    json_put_u64(&j, "from_checkpoint", r->from);
    json_put_u64(&j, "env_steps", r->to);
    json_put_u64(&j, "rows_compared", r->compared);
    if (r->found) {
        json_put_str(&j, "column", o->until.column);
        json_put_f64(&j, "value", r->value);
    }
    if (r->found && r->has_update)
        json_put_u64(&j, "update", r->update);
    json_put_str(&j, "ends", v->ends);
    json_print(&j, stdout);
}

static void print(const struct cli *cli, const char *run, const struct replay_options *o,
                  struct replay_view *v, const struct replay_result *r)
{
    if (!cli->json) {
        (void)printf("%s: played from the checkpoint of step %" PRIu64 " to step %" PRIu64
                     "; %" PRIu64 " rows are those of its log\n",
                     run, r->from, r->to, r->compared);
        if (r->found)
            (void)printf("%s is %.9g ", o->until.column, r->value);
        if (r->found && r->has_update)
            (void)printf("in update %" PRIu64 " (the first is 0) ", r->update);
        if (r->found)
            (void)printf("at step %" PRIu64 "\n", r->to);
        if (v->ends != NULL)
            (void)printf("there the run ended: %s\n", v->ends);
    }
    replay_view_print(v, cli->json);
    if (cli->json)
        print_json(run, o, v, r);
}

/* Reports a tensor that exists but was not computed in that round. */
static int check_fetched(const struct cli *cli, const struct replay_options *o,
                         const struct replay_view *v)
{
    struct err err = {0};

    for (size_t i = 0; i < o->fetches.n; i++)
        if (replay_view_count(v, o->fetches.text[i]) == 0)
            return cli_fail(cli, CLI_FAILED,
                            (err_set(&err, ERR_NOT_FOUND,
                                     "%s was not computed in that round; if an update "
                                     "computes it, choose a step with one",
                                     o->fetches.text[i]),
                             &err));
    return CLI_DONE;
}

static int exit_code(int rc)
{
    switch (rc) {
    case ERR_NOT_FOUND:
        return CLI_NOT_THERE;
    case ERR_CONFIG:
    case ERR_ARG:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

static int replay(const struct cli *cli, const struct replay_options *o,
                  struct run_dir *dir, const struct binaries *bin)
{
    struct replay_view view = {.with_requests = o->messages, .agent = o->agent};
    struct progress_line line = {.cli = cli, .view = &view};
    struct replay_args args = {.dir = dir,
                               .binaries = bin,
                               .keeper = &cli->keeper,
                               .env_names = env_agent_names,
                               .from = o->from,
                               .to = (uint64_t)o->to,
                               .trace = o->trace,
                               .until = o->has_until ? &o->until : NULL,
                               .probe = replay_view_probe(&view),
                               .on_skipped = on_skipped,
                               .on_progress = on_progress,
                               .on_log = o->messages ? on_log : NULL,
                               .ctx = &line};
    struct replay_result result;
    struct err err = {0};
    int rc, code = CLI_DONE;

    args.probe.fetches = o->fetches.text;
    args.probe.n = o->fetches.n;
    args.probe.agent = o->agent;
    args.probe.origins =
        o->has_until ? o->until.relation == REPLAY_NONFINITE : o->fetches.n == 0;
    rc = replay_run(&args, &result, &err);
    if (line.is_shown)
        (void)fputs("\r\033[K", stderr);
    if (rc < 0) {
        if (rc != ERR_CORRUPT) /* ERR_CORRUPT: it is not the run's round */
            replay_view_print(&view, cli->json);
        code = cli_fail(cli, exit_code(rc), &err);
    } else
        print(cli, run_dir_name(dir), o, &view, &result);
    if (code == CLI_DONE && o->out != NULL && replay_view_write(&view, o->out, &err) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    if (code == CLI_DONE)
        code = check_fetched(cli, o, &view);
    replay_view_done(&view);
    return code;
}

static int run_replay(struct cli *cli, void *values, int argc, char **argv)
{
    const struct replay_options *o = values;
    struct run_dir *dir = NULL;
    struct binaries bin;
    struct err err = {0};
    char *path = NULL;
    int code;

    if ((o->to > 0) == o->has_until)
        return cli_usage(cli, "expected --to STEP or --until CONDITION");
    if (o->out != NULL && o->fetches.n == 0)
        return cli_usage(cli, "--out is for the values of --fetch TENSOR");
    if (!cli_keep(cli, 0, &code))
        return code;
    if (log_get_level() == LOG_LEVEL_INFO)
        log_set_level(LOG_LEVEL_WARN); /* the run's own lines are in its logs */
    if (run_dir_find(cli->runs_dir, argv[0], &path, &err) < 0)
        return cli_fail(cli, CLI_NOT_THERE, &err);
    if (binaries_find(&bin, &err) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    else if ((!o->trust && run_dir_check_trust(path, &err) < 0) ||
             run_dir_open(&dir, path, 0, &err) < 0)
        code = cli_fail(cli, CLI_USAGE, &err);
    else
        code = replay(cli, o, dir, &bin);
    run_dir_free(dir);
    free(path);
    return code;
}

static const struct cli_option options[] = {
    {"to", "STEP", "play to the round that reaches this step; or",
     CLI_NUMBER(struct replay_options, to, 1, INT64_MAX)},
    {"until", "CONDITION",
     "to the first value of a metric for which this holds:\n"
     "'COLUMN > NUMBER' (<, >=, <=) or 'COLUMN is nonfinite'",
     CLI_TAKE(take_condition)},
    {"fetch", "TENSOR",
     "show this tensor of that round: of act, of each stage of its\n"
     "updates, and after it; repeatable",
     CLI_TEXTS(struct replay_options, fetches)},
    {"agent", "AGENT", "of this process alone; default: all that have it",
     CLI_TEXT(struct replay_options, agent)},
    {"messages", NULL,
     "show the requests of that round, with all that they hold, and\n"
     "the rows of their batches, as lines of JSON",
     CLI_FLAG(struct replay_options, messages)},
    {"out", "FILE",
     "also write the tensors as an .npz; names in it are\n"
     "AGENT/STAGE/UPDATE.PASS.RUN/TENSOR",
     CLI_TEXT(struct replay_options, out)},
    {"trace", "FILE", "record that round as `brood trace` does",
     CLI_TEXT(struct replay_options, trace)},
    {"from", "STEP",
     "the checkpoint to play from; default: the newest one before\n"
     "that point, or for most conditions the oldest one",
     CLI_TEXT(struct replay_options, from)},
    {"trust", NULL,
     "replay another user's run; programs that its configuration\n"
     "names are executed",
     CLI_FLAG(struct replay_options, trust)},
    {0}};

const struct command cmd_replay = {
    .name = "replay",
    .arguments = "[RUN] [options]",
    .one = "run",
    .summary = "Play a part of a run again and show any tensor there",
    .options = options,
    CLI_INTO(struct replay_options, 0),
    .help =
        "\nNothing of the run changes, which may be live or over. Rows that the replay\n"
        "appends are compared with the run's log: a difference is an error. The metrics\n"
        "of the round's updates are shown, too; with 'is nonfinite', or without "
        "--fetch,\n"
        "also the tensors that are not finite though computed from finite ones. A\n"
        "condition is tested on each value: each pass of an update, each episode.\n"
        "`brood graph RUN/checkpoints/STEP/AGENT --nodes` lists tensors.\n"
        "\nexample: brood replay simple_spread-1 --to 625000 --agent agent_0\n",
    .run = run_replay,
};
