/* `brood status`: prints the status of a run or study, live or over. */
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "common/text/scan.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/cli/study_status.h"
#include "supervisor/cli/submitted.h"
#include "supervisor/cli/view_layout.h"
#include "supervisor/metrics/json.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/study/study_dir.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWERS_WITHIN_MS = 2000, SHOWN_VALUES = 8 };

static void print_processes(const struct run_agent_status *a, size_t n, int with_host)
{
    for (size_t i = 0; i < n; i++, a++) {
        char memory[32] = "-";

        if (a->rss_bytes >= 0)
            (void)snprintf(memory, sizeof(memory), "%.1f MB", (double)a->rss_bytes / 1e6);
        (void)printf("  %-16s %8d  %-11s %8" PRIu64 " %11s  ", PLAIN_NAME(a->name),
                     (int)a->pid, PLAIN_NAME(run_agent_shown_state(a)), a->restarts,
                     memory);
        if (with_host)
            (void)printf("%-16s  ", a->host != NULL ? PLAIN_NAME(a->host) : "-");
        (void)printf("%s\n", PLAIN_NAME(a->last_exit));
    }
}

void cli_print_pending(const char *prefix, const struct run_pending *p, size_t n)
{
    for (size_t i = 0; i < n; i++, p++) {
        (void)printf("%s%s=%s ", prefix, PLAIN_NAME(p->key), PLAIN_NAME(p->value));
        if (p->agent != NULL)
            (void)printf("with the next `brood respawn` of %s\n", PLAIN_NAME(p->agent));
        else
            (void)printf("from step %" PRIu64 " on\n", p->at);
    }
}

static void print_nodes(const struct run_node_status *n, size_t count)
{
    if (count > 0)
        (void)printf("  %-16s %8s  %-11s %8s %11s  %-16s  %s\n", "node", "pid", "state",
                     "restarts", "agents", "host", "last loss");
    for (size_t i = 0; i < count; i++, n++) {
        char agents[32] = "-";

        if (n->agents != RUN_UNKNOWN)
            (void)snprintf(agents, sizeof(agents), "%" PRIu64, n->agents);
        (void)printf("  %-16s %8d  %-11s %8" PRIu64 " %11s  %-16s  %s\n",
                     PLAIN_NAME(n->name), (int)n->pid, PLAIN_NAME(n->state), n->restarts,
                     agents, n->host != NULL ? PLAIN_NAME(n->host) : "-",
                     PLAIN_NAME(n->why));
    }
}

/* What has happened to them so far, of those to which anything has. */
static void print_counts(const struct run_agent_status *a, size_t n)
{
    char text[PROCESS_COUNT_TEXT_BYTES];

    for (size_t i = 0; i < n; i++)
        if (*process_count_text(&a[i].count, text) != '\0')
            (void)printf("  %s in all: %s\n", PLAIN_NAME(a[i].name), text);
}

/* Prints "NAME 1.5", with the value of evaluations "NAME 1.5 (evaluated 1.7)", as number n of a
 * line; nothing without values. */
static void print_value(int *n, const char *title, const char *name, double value,
                        double evaluated)
{
    if (isnan(value) && isnan(evaluated))
        return;
    if (*n == 0)
        (void)printf("  %-8s ", title);
    (void)printf("%s%s", (*n)++ > 0 ? ", " : "", PLAIN_NAME(name));
    if (!isnan(value))
        (void)printf(" %.4g", value);
    if (!isnan(evaluated))
        (void)printf(" (evaluated %.4g)", evaluated);
}

static double newest_of(const struct progress *p, const char *prefix, const char *name)
{
    char *column = xasprintf("%s%s", prefix, name);
    const size_t c = progress_find(p, column);

    free(column);
    return c < progress_n_columns(p) ? progress_newest(p, c) : (double)NAN;
}

/* Prints the newest values of rollout/KIND/... and eval/KIND/..., of the first few. */
static void print_kind(const struct progress *p, const char *title, const char *kind)
{
    char *played = xasprintf("rollout/%s/", kind), *tried = xasprintf("eval/%s/", kind);
    int n = 0;

    for (size_t c = 0; c < progress_n_columns(p) && n < SHOWN_VALUES; c++) {
        const char *name = text_after(progress_name(p, c), played);

        if (name != NULL)
            print_value(&n, title, name, progress_newest(p, c),
                        newest_of(p, tried, name));
    }
    if (n > 0)
        (void)putchar('\n');
    free(played);
    free(tried);
}

/* The mean of a scalar over the processes that report it; NaN: none does. */
static double mean_scalar(const struct progress *p, const char *scalar)
{
    double sum = 0, n = 0;

    for (size_t c = 0; c < progress_n_columns(p); c++) {
        const char *process = text_after(progress_name(p, c), "train/");
        const char *name = process != NULL ? strchr(process, '/') : NULL;
        const double v = name != NULL && strcmp(name + 1, scalar) == 0
                             ? progress_newest(p, c)
                             : (double)NAN;

        sum += isnan(v) ? 0 : v;
        n += !isnan(v);
    }
    return n > 0 ? sum / n : (double)NAN;
}

/* The few numbers that tell how the run does. */
static void print_metrics(const struct progress *p)
{
    static const char *const few[] = {"critic_loss", "actor_loss", "entropy",
                                      "approx_kl",   "alpha",      "explained_variance",
                                      "td_error",    "epsilon"};
    int n = 0;

    print_kind(p, "return", "team_return");
    print_kind(p, "metrics", "metric");
    for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
        print_value(&n, "updates", few[i], mean_scalar(p, few[i]), (double)NAN);
    if (n > 0)
        (void)putchar('\n');
}

static void print_text(const struct run_status *s, int is_live,
                       const struct progress *progress)
{
    const int is_spread = run_status_is_spread(s);
    char steps[32], total[32], rate[32], left[32];

    (void)printf("%s: %s, step %s", PLAIN_NAME(s->run), PLAIN_NAME(s->state),
                 format_count(s->env_steps, steps, sizeof(steps)));
    if (s->total_steps != 0)
        (void)printf(" of %s", format_count(s->total_steps, total, sizeof(total)));
    if (!is_live) {
        (void)printf("; exit code %d", s->exit_code);
    } else {
        (void)printf(", %s/s", format_count((uint64_t)fmax(0, s->steps_per_second), rate,
                                            sizeof(rate)));
        if (!isnan(s->seconds_left))
            (void)printf(", %s left",
                         format_duration(s->seconds_left, left, sizeof(left)));
        (void)printf("; supervisor %d, keeper %d", (int)s->pid, (int)s->keeper_pid);
    }
    if (!s->exact)
        (void)fputs("; not exact", stdout);
    if (s->not_portable != NULL)
        (void)printf("; exact on this kind of machine only: %s",
                     PLAIN_NAME(s->not_portable));
    if (s->done_why != NULL)
        (void)printf("\n  why: %s", PLAIN_NAME(s->done_why));
    if (s->failure != NULL)
        (void)printf("\n  why: %s", PLAIN_NAME(s->failure));
    if (s->stalled_why != NULL)
        (void)printf("\n  its supervisor %s%s: %s",
                     s->stalled_since != NULL ? "has not gone on since "
                                              : "does not go on",
                     PLAIN_NAME(s->stalled_since != NULL ? s->stalled_since : ""),
                     PLAIN_NAME(s->stalled_why));
    (void)printf("\n  %-16s %8s  %-11s %8s %11s  ", "agent", "pid", "state", "restarts",
                 "memory");
    if (is_spread)
        (void)printf("%-16s  ", "host");
    (void)printf("last exit\n");
    print_processes(s->agents, s->n_agents, is_spread);
    print_processes(s->environments, s->n_environments, is_spread);
    print_counts(s->agents, s->n_agents);
    print_counts(s->environments, s->n_environments);
    print_nodes(s->nodes, s->n_nodes);
    if (progress != NULL)
        print_metrics(progress);
    cli_print_pending("  pending: ", s->pending, s->n_pending);
}

static void print_job(const char *prefix, const struct submitted *job)
{
    (void)printf("%sSlurm job %s: %s%s%s%s\n", prefix, job->id, job->state,
                 *job->reason != '\0' ? " (" : "", job->reason,
                 *job->reason != '\0' ? ")" : "");
}

/* A run that was submitted and has not begun. */
static int print_waiting(const struct cli *cli, const char *run,
                         const struct submitted *job)
{
    struct json j = {0};

    if (!cli->json) {
        (void)printf("%s: %s; ", run,
                     submitted_is_live(job) ? "waiting" : "has not begun");
        print_job("", job);
        return CLI_DONE;
    }
    json_object(&j);
    json_put_str(&j, "run", run);
    json_put_str(&j, "state", submitted_is_live(job) ? "waiting" : "not begun");
    submitted_json(job, &j);
    json_print(&j, stdout);
    return CLI_DONE;
}

static int run_status_command(struct cli *cli, void *values, int argc, char **argv)
{
    struct run_facts facts;
    struct submitted job;
    struct err err = {0};
    struct progress *progress;
    const char *name = argv[0];
    char *path = NULL;
    int code = CLI_DONE;

    if (name != NULL && (path = study_dir_find(cli->runs_dir, name)) != NULL) {
        code = study_status_print(cli, path);
        free(path);
        return code;
    }
    if (run_dir_find(cli->runs_dir, name, &path, &err) < 0)
        return err.code == ERR_NOT_FOUND && name != NULL &&
                       submitted_find(&job, cli->runs_dir, name)
                   ? print_waiting(cli, name, &job)
                   : cli_fail_run(cli, &err);
    run_facts_get(&facts, path, ANSWERS_WITHIN_MS);
    if (submitted_find_of(&job, path))
        facts.job = &job;
    facts.progress = progress = run_facts_progress(path);
    if (facts.is_denied && run_dir_denied(path, &err) < 0)
        code = cli_fail_run(cli, &err);
    else if (cli->json)
        run_facts_print_json(&facts);
    else
        print_text(&facts.status, facts.is_live, progress);
    if (!cli->json && facts.job != NULL && !facts.is_denied)
        print_job("  ", facts.job);
    run_facts_done(&facts);
    progress_free(progress);
    free(path);
    return code;
}

const struct command cmd_status = {
    .name = "status",
    .arguments = "[RUN | STUDY]",
    .one = "run or study",
    .summary = "Show the status of a run and its agents, or of a study",
    .help =
        "\nRUN: a name under the runs directory or a path; default: the newest run.\n"
        "The status of a run that is over, or was killed, is read from its journal.\n"
        "The last lines have the newest returns, metrics of the environment, and means "
        "of\n"
        "what the agents' updates report; --json has all columns of progress.csv.\n"
        "Of a run with a cluster, its nodes, with the agents whose place each is.\n"
        "Changes made with `brood set` that are not yet in force are listed as pending.\n"
        "Of a run that was given to Slurm (`brood submit`) the job's id and state are "
        "shown,\n"
        "also while it waits.\n"
        "Of a study (`brood sweep`), live or over: the trials of the present rung or "
        "round,\nhow far they are, and the best so far.\n"
        "\nexample: brood status simple_spread-1 --json\n",
    .run = run_status_command,
};
