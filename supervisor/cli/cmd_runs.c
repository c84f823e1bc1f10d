/* `brood runs`: lists the runs. */
#include "common/io/beneath.h"
#include "common/io/monotonic.h"
#include "common/io/patience.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/size_text.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "common/text/scan.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/cli/view_layout.h"
#include "supervisor/facts/files.h"
#include "supervisor/metrics/json.h"
#include "supervisor/rundir/run_dir.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For an answer of one run; of all runs together; of each when that time is used up. */
enum { ANSWERS_WITHIN_MS = 500, ALL_ANSWER_WITHIN_MS = 2500, AT_LEAST_MS = 20 };

/* ---- the table ---- */

/* The last two are shown if a run has any. */
enum { RUN, STATE, STEPS, PART, RETURN, DISK, BEGAN, TAGS, WHY, N_COLUMNS };

struct row {
    char cell[N_COLUMNS][RUN_DIR_NAME_MAX + 1];
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
    (void)plain_line(r->cell[column], sizeof(r->cell[column]), text, strlen(text));
}

static void add_head(struct table *t)
{
    static const char *const names[N_COLUMNS] = {
        "run", "state", "steps", "done", "return", "disk", "began (UTC)", "tags", "why"};
    struct row *r = add_row(t);

    for (int i = 0; i < N_COLUMNS; i++)
        put(r, i, names[i]);
}

/* Shows when a run began. began: "2026-01-31T12:00:00.123Z", or NULL. In this year the
 * text is "01-31 12:00", otherwise "2025-01-31". */
static void put_began(struct row *r, const char *began)
{
    char now[LOG_TIME_BYTES];

    (void)log_time(now);
    if (began == NULL)
        return;
    if (strlen(began) > 16 && strncmp(began, now, 4) == 0)
        (void)snprintf(r->cell[BEGAN], sizeof(r->cell[BEGAN]), "%.5s %.5s", began + 5,
                       began + 11);
    else
        (void)snprintf(r->cell[BEGAN], sizeof(r->cell[BEGAN]), "%.10s", began);
}

static void put_tags(struct row *r, const struct run_tags *tags)
{
    char *cell = r->cell[TAGS];

    for (size_t i = 0; i < tags->n; i++) {
        const size_t len = strlen(cell), room = sizeof(r->cell[TAGS]) - len;

        if (strlen(tags->tag[i]) + sizeof(", , ...") > room) {
            (void)snprintf(cell + len, room, ", ...");
            return;
        }
        (void)snprintf(cell + len, room, "%s%s", i > 0 ? ", " : "", tags->tag[i]);
    }
}

static void add_run(struct table *t, const struct run_facts *facts, uint64_t disk_bytes)
{
    const struct run_status *s = &facts->status;
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
    put_began(r, s->began);
    put_tags(r, &facts->tags);
    if (s->failure != NULL)
        put(r, WHY, s->failure);
}

static void print_table(const struct table *t)
{
    int width[N_COLUMNS] = {0};

    for (size_t k = 1; k < t->n; k++)
        for (int i = 0; i < N_COLUMNS; i++)
            if ((int)strlen(t->row[k].cell[i]) > width[i])
                width[i] = (int)strlen(t->row[k].cell[i]);
    for (int i = 0; i < N_COLUMNS && t->n > 0; i++) {
        const int head = (int)strlen(t->row[0].cell[i]);

        if ((i < TAGS || width[i] > 0) && head > width[i])
            width[i] = head;
    }
    for (size_t k = 0; k < t->n; k++) {
        const struct row *r = &t->row[k];
        int last;

        (void)printf("%-*s  %-*s", width[RUN], r->cell[RUN], width[STATE],
                     r->cell[STATE]);
        for (int i = STEPS; i < BEGAN; i++)
            (void)printf("  %*s", width[i], r->cell[i]);
        last = WHY;
        while (last > BEGAN && (width[last] == 0 || *r->cell[last] == '\0'))
            last--;
        for (int i = BEGAN; i <= last; i++)
            if (width[i] > 0)
                (void)printf("  %-*s", i < last ? width[i] : 0, r->cell[i]);
        (void)putchar('\n');
    }
}

/* ---- JSON ---- */

/* Prints the keys of `status --json`, and those that only this list has. */
static void print_json(const struct run_facts *facts, const char *path,
                       uint64_t disk_bytes)
{
    static const char *const keys[] = {"run",
                                       "began",
                                       "state",
                                       "exit_code",
                                       "failure",
                                       "failure_agent",
                                       "failure_file",
                                       "failure_line",
                                       "pid",
                                       "env_steps",
                                       "total_steps",
                                       "episodes",
                                       "total_episodes",
                                       "checkpoint_step",
                                       "team_return_mean"};
    struct json j = {0};

    json_object(&j);
    run_status_json_some(&j, &facts->status, keys, sizeof(keys) / sizeof(keys[0]));
    json_put_u64(&j, "disk_bytes", disk_bytes);
    json_put_str(&j, "path", path);
    run_tags_json(&facts->tags, &j);
    json_print(&j, stdout);
}

/* ---- --where ---- */

enum { MAX_TERMS = 32 };
enum where_field { WHERE_STATE, WHERE_TAG, WHERE_NAME, WHERE_ENV, WHERE_ALGORITHM };
static const char *const where_fields[] = {
    [WHERE_STATE] = "state",         [WHERE_TAG] = "tag",
    [WHERE_NAME] = "name",           [WHERE_ENV] = "env",
    [WHERE_ALGORITHM] = "algorithm", NULL};

/* The conditions of --where; a run must meet all of them. */
struct where {
    char *text; /* owns the patterns */
    struct {
        enum where_field field;
        const char *pattern;
    } term[MAX_TERMS];
    size_t n;
};

static int take_term(struct where *w, char *word, struct err *err)
{
    char *value = strchr(word, '=');
    int field;

    if (value == NULL || value[1] == '\0')
        return err_set(err, ERR_ARG, "'%.100s': expected FIELD=VALUE", word);
    *value++ = '\0';
    field = text_find(where_fields, word);
    if (field < 0)
        return err_set(err, ERR_ARG,
                       "there is no field '%.100s', expected state, tag, name, env or "
                       "algorithm",
                       word);
    if (w->n == MAX_TERMS)
        return err_set(err, ERR_ARG, "more than %d conditions", MAX_TERMS);
    w->term[w->n].field = (enum where_field)field;
    w->term[w->n++].pattern = value;
    return 0;
}

static int take_where(struct where *w, const char *text, struct err *err)
{
    char *state = NULL, *word;
    int rc = 0;

    w->text = xstrdup(text);
    for (word = strtok_r(w->text, " ", &state); rc == 0 && word != NULL;
         word = strtok_r(NULL, " ", &state))
        rc = take_term(w, word, err);
    return rc == 0 && w->n == 0 ? err_set(err, ERR_ARG, "it is empty") : rc;
}

/* Whether the run's configuration has such an environment or agent. */
static int config_matches(const char *path, enum where_field field, const char *pattern)
{
    struct run_config c;
    int yes = 0;

    if (files_read_config(&c, path, NULL) == 0) {
        if (field == WHERE_ENV)
            yes = fnmatch(pattern, c.env.id, 0) == 0;
        for (size_t i = 0; field == WHERE_ALGORITHM && i < c.n_agents; i++)
            yes |= fnmatch(pattern, c.agents[i].algorithm, 0) == 0;
        run_config_done(&c);
    }
    return yes;
}

static int matches(const struct where *w, const struct run_facts *facts, const char *path)
{
    for (size_t i = 0; i < w->n; i++) {
        const char *pattern = w->term[i].pattern;
        int yes = 0;

        switch (w->term[i].field) {
        case WHERE_STATE:
            yes = fnmatch(pattern, facts->status.state, 0) == 0;
            break;
        case WHERE_TAG:
            yes = run_tags_match(&facts->tags, pattern);
            break;
        case WHERE_NAME:
            yes = fnmatch(pattern, facts->status.run, 0) == 0;
            break;
        case WHERE_ENV:
        case WHERE_ALGORITHM:
            yes = config_matches(path, w->term[i].field, pattern);
            break;
        }
        if (!yes)
            return 0;
    }
    return 1;
}

/* waited_ms: for the runs before, of which some may not answer. */
static void get_facts(struct run_facts *ret, const char *path, int64_t *waited_ms)
{
    const int64_t began_ms = monotonic_ms(), left_ms = ALL_ANSWER_WITHIN_MS - *waited_ms;

    run_facts_get(ret, path,
                  left_ms > ANSWERS_WITHIN_MS ? ANSWERS_WITHIN_MS
                  : left_ms > AT_LEAST_MS     ? (int)left_ms
                                              : AT_LEAST_MS);
    if (ret->is_live)
        *waited_ms += monotonic_ms() - began_ms;
}

/* Prints the run as JSON, or adds it to the table. Returns an exit code. */
static int take_run(const struct cli *cli, const char *path, const struct where *where,
                    int64_t *waited_ms, struct table *t)
{
    struct run_facts facts;
    struct err err = {0};

    if (beneath_hold(path, &err) < 0) /* or it has gone, or is a link now */
        return err_is_failure(err.code) ? cli_fail(cli, CLI_FAILED, &err) : CLI_DONE;
    patience_enter(path);
    get_facts(&facts, path, waited_ms);
    if (matches(where, &facts, path)) {
        const uint64_t disk_bytes = tree_disk_bytes(path);

        if (cli->json)
            print_json(&facts, path, disk_bytes);
        else
            add_run(t, &facts, disk_bytes);
    }
    run_facts_done(&facts);
    patience_leave();
    beneath_release(path);
    return CLI_DONE;
}

struct options {
    const char *where;
};

static int run_runs(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct table t = {0};
    struct where where = {0};
    struct err err = {0};
    int64_t waited_ms = 0;
    char **paths;
    size_t n;
    int code = CLI_DONE;

    if (argc > 0)
        return cli_usage(cli, "expected no arguments");
    if (o->where != NULL && take_where(&where, o->where, &err) < 0) {
        free(where.text);
        return cli_usage(cli, "--where: %s", err.msg);
    }
    if (run_dir_list(cli->runs_dir, &paths, &n, &err) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    if (!cli->json && n > 0)
        add_head(&t);
    for (size_t i = 0; i < n && code == CLI_DONE; i++)
        code = take_run(cli, paths[i], &where, &waited_ms, &t);
    print_table(&t);
    free(where.text);
    free(t.row);
    run_dir_list_free(paths, n);
    return code;
}

static const struct cli_option options[] = {
    {"where", "CONDITIONS",
     "only runs for which all of them hold: FIELD=VALUE, with\n"
     "spaces between; FIELD is state, tag, name, env or\n"
     "algorithm (of any agent); VALUE may have * and ?",
     CLI_TEXT(struct options, where)},
    {0}};

const struct command cmd_runs = {
    .name = "runs",
    .arguments = "[options]",
    .summary = "List the runs: state, steps, last return, disk use",
    .options = options,
    CLI_INTO(struct options, 0),
    .help =
        "\nThe newest run comes first. Commands use it where RUN is left out. All runs "
        "of\n"
        "other users together are read for at most three seconds; a line says how many\n"
        "were not read whole. A run whose journal cannot be read is \"unreadable\". The\n"
        "last column says why runs failed.\n"
        "\nexample: brood runs --where 'state=done tag=paper algorithm=mappo'\n",
    .run = run_runs,
};
