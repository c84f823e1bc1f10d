/* `brood runs`: lists the runs. */
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/size_text.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/live_view.h"
#include "supervisor/cli/msg_json.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/run/run_dir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWERS_WITHIN_MS = 500 };

/* ---- the table ---- */

enum { RUN, STATE, STEPS, PART, RETURN, DISK, BEGAN, N_COLUMNS };

struct row {
    char cell[N_COLUMNS][72]; /* a run's name may have 63 bytes */
};

struct table {
    struct row *row;
    size_t n;
};

static struct row *add_row(struct table *t)
{
    t->row = xreallocarray(t->row, t->n + 1, sizeof(*t->row));
    t->row[t->n] = (struct row){0};
    return &t->row[t->n++];
}

static void put(struct row *r, int column, const char *text)
{
    (void)snprintf(r->cell[column], sizeof(r->cell[column]), "%s", text);
}

static void add_head(struct table *t)
{
    static const char *const names[N_COLUMNS] = {"run",    "state", "steps",      "done",
                                                 "return", "disk",  "began (UTC)"};
    struct row *r = add_row(t);

    for (int i = 0; i < N_COLUMNS; i++)
        put(r, i, names[i]);
}

/* began: "2026-01-31T12:00:00.123Z", or "". Of this year: "01-31 12:00"; of others:
 * "2025-01-31". */
static void put_began(struct row *r, const char *began)
{
    char now[LOG_TIME_BYTES];

    (void)log_time(now);
    if (strlen(began) > 16 && strncmp(began, now, 4) == 0)
        (void)snprintf(r->cell[BEGAN], sizeof(r->cell[BEGAN]), "%.5s %.5s", began + 5,
                       began + 11);
    else
        (void)snprintf(r->cell[BEGAN], sizeof(r->cell[BEGAN]), "%.10s", began);
}

static void add_run(struct table *t, const struct run_status *s, uint64_t disk_bytes,
                    const char *began)
{
    struct row *r = add_row(t);
    char disk[SIZE_TEXT_BYTES], steps[32];
    const double part = run_status_part(s);

    put(r, RUN, s->run);
    put(r, STATE, s->state);
    put(r, STEPS, format_count(s->env_steps, steps, sizeof(steps)));
    put(r, PART, "-");
    if (part >= 0)
        (void)snprintf(r->cell[PART], sizeof(r->cell[PART]), "%.0f %%",
                       floor(100 * part));
    put(r, RETURN, "-");
    if (!isnan(s->team_return_mean))
        (void)snprintf(r->cell[RETURN], sizeof(r->cell[RETURN]), "%.2f",
                       s->team_return_mean);
    put(r, DISK, size_text(disk_bytes, disk));
    put_began(r, began);
}

static void print_table(const struct table *t)
{
    int width[N_COLUMNS] = {0};

    for (size_t k = 0; k < t->n; k++)
        for (int i = 0; i < N_COLUMNS; i++)
            if ((int)strlen(t->row[k].cell[i]) > width[i])
                width[i] = (int)strlen(t->row[k].cell[i]);
    for (size_t k = 0; k < t->n; k++) {
        const struct row *r = &t->row[k];

        (void)printf("%-*s  %-*s", width[RUN], r->cell[RUN], width[STATE],
                     r->cell[STATE]);
        for (int i = STEPS; i < BEGAN; i++)
            (void)printf("  %*s", width[i], r->cell[i]);
        (void)printf("  %s\n", r->cell[BEGAN]);
    }
}

/* ---- JSON ---- */

/* Prints the keys of `status --json`, and those that only this list has. */
static void print_json(const struct run_status *s, const char *path, uint64_t disk_bytes,
                       const char *began)
{
    static const char *const keys[] = {"run",
                                       "state",
                                       "exit_code",
                                       "pid",
                                       "env_steps",
                                       "total_steps",
                                       "episodes",
                                       "total_episodes",
                                       "checkpoint_step",
                                       "team_return_mean"};
    struct json j = {0};

    json_begin(&j);
    json_object(&j);
    run_status_json_some(&j, s, keys, sizeof(keys) / sizeof(keys[0]));
    json_key(&j, "disk_bytes");
    json_u64(&j, disk_bytes);
    json_key(&j, "began");
    json_str(&j, *began != '\0' ? began : NULL);
    json_key(&j, "path");
    json_str(&j, path);
    json_close(&j);
    msg_json_print(&j);
    json_done(&j);
}

/* Prints the run as JSON, or adds it to the table. */
static void take_run(const struct cli *cli, const char *path, struct table *t)
{
    const uint64_t disk_bytes = tree_disk_bytes(path);
    const int is_held = beneath_hold(path, NULL) == 0;
    struct run_facts facts;
    char began[32];

    run_record_began(path, began);
    run_facts_get(&facts, path, ANSWERS_WITHIN_MS);
    if (cli->json)
        print_json(&facts.status, path, disk_bytes, began);
    else
        add_run(t, &facts.status, disk_bytes, began);
    run_facts_done(&facts);
    if (is_held)
        beneath_release(path);
}

static int run_runs(struct cli *cli, int argc, char **argv)
{
    struct table t = {0};
    char **paths;
    size_t n;
    int code = CLI_DONE;

    if (cli_option(cli, argc, argv, NULL, &code) == CLI_OPTION_EXIT)
        return code;
    if (optind < argc)
        return cli_usage(cli, "expected no arguments");
    paths = run_dir_list(cli->runs_dir, &n);
    if (!cli->json && n > 0)
        add_head(&t);
    for (size_t i = 0; i < n; i++) {
        take_run(cli, paths[i], &t);
        free(paths[i]);
    }
    print_table(&t);
    free(t.row);
    free(paths);
    return CLI_DONE;
}

const struct command cmd_runs = {
    .name = "runs",
    .arguments = "",
    .summary = "List the runs: state, steps, last return, disk use",
    .help = "\nThe newest run comes first. Commands use it where RUN is left out.\n"
            "\nexample: brood runs --json\n",
    .run = run_runs,
};
