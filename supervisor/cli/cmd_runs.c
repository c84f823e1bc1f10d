/* `brood runs`: lists the runs and the studies. */
#include "common/config/schema.h"
#include "common/config/yaml_tree.h"
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
#include "supervisor/cli/redraw.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/cli/study_status.h"
#include "supervisor/cli/view_layout.h"
#include "supervisor/facts/files.h"
#include "supervisor/metrics/json.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/study/study_dir.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For an answer of one run; of all runs together; of each when that time is used up. */
enum { ANSWERS_WITHIN_MS = 500, ALL_ANSWER_WITHIN_MS = 2500, AT_LEAST_MS = 20 };

/* ---- the table ---- */

/* The last two are shown if a run has any; studies have no column without a head. */
enum { RUN, STATE, STEPS, PART, RETURN, DISK, BEGAN, TAGS, WHY, N_COLUMNS };
static const char *const run_heads[N_COLUMNS] = {
    "run", "state", "steps", "done", "return", "disk", "began (UTC)", "tags", "why"};
static const char *const study_heads[N_COLUMNS] = {[RUN] = "study",
                                                   [STATE] = "state",
                                                   [STEPS] = "trials",
                                                   [RETURN] = "best trial",
                                                   [DISK] = "disk"};

struct row {
    char cell[N_COLUMNS][RUN_DIR_NAME_MAX + 1];
};

struct table {
    const char *const *heads; /* of its columns; NULL: it has no such column */
    struct row *row;
    size_t n;
};

/* The first row is that of the heads. */
static struct row *add_row(struct table *t)
{
    if (t->n == 0) {
        t->row = xcalloc(1, sizeof(*t->row));
        t->n = 1;
        for (int i = 0; i < N_COLUMNS; i++)
            if (t->heads[i] != NULL)
                (void)snprintf(t->row[0].cell[i], sizeof(t->row[0].cell[i]), "%s",
                               t->heads[i]);
    }
    t->row = xreallocarray(t->row, t->n + 1, sizeof(*t->row));
    t->row[t->n] = (struct row){0};
    return &t->row[t->n++];
}

static void put(struct row *r, int column, const char *text)
{
    (void)plain_line(r->cell[column], sizeof(r->cell[column]), text, strlen(text));
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

/* name: by which commands find it; that of a study's run has the study's before it. */
static void add_run(struct table *t, const struct run_facts *facts, const char *name,
                    uint64_t disk_bytes)
{
    const struct run_status *s = &facts->status;
    struct row *r = add_row(t);
    char disk[SIZE_TEXT_BYTES], steps[32], returns[RUN_RETURN_TEXT_BYTES];
    const double part = run_status_part(s);

    put(r, RUN, name);
    put(r, STATE, s->state);
    put(r, STEPS, format_count(s->env_steps, steps, sizeof(steps)));
    put(r, PART, "-");
    if (part >= 0)
        (void)snprintf(r->cell[PART], sizeof(r->cell[PART]), "%.0f %%",
                       floor(100 * part));
    put(r, RETURN, *run_status_returns(s, returns) != '\0' ? returns : "-");
    put(r, DISK, size_text(disk_bytes, disk));
    put_began(r, s->began);
    put_tags(r, &facts->tags);
    if (s->failure != NULL)
        put(r, WHY, s->failure);
}

static void add_study(struct table *t, const struct study_summary *s, uint64_t disk_bytes)
{
    const struct study_report *report = s->report;
    struct row *r = add_row(t);
    char disk[SIZE_TEXT_BYTES];

    put(r, RUN, s->name);
    put(r, STATE, s->state);
    put(r, STEPS, "-");
    put(r, RETURN, "-");
    put(r, DISK, size_text(disk_bytes, disk));
    if (report != NULL)
        (void)snprintf(r->cell[STEPS], sizeof(r->cell[STEPS]), "%zu of %zu", s->n_done,
                       s->n_trials);
    if (report != NULL && report->n > 0 && report->row[0].is_reached)
        (void)snprintf(r->cell[RETURN], sizeof(r->cell[RETURN]), "%zu with %.4g",
                       report->row[0].trial + 1, report->row[0].value.mean);
}

static int width_of(const struct table *t, size_t row, int column)
{
    return view_width(t->row[row].cell[column], strlen(t->row[row].cell[column]));
}

/* Of lines that a terminal would wrap, texts are shortened, but not so far that they say nothing;
 * rather some columns are left out. */
static void fit(int width[N_COLUMNS], int columns)
{
    static const int least[N_COLUMNS] = {[WHY] = 24, [RUN] = 20, [TAGS] = 8};
    static const int shortened[] = {WHY, RUN, TAGS}, left_out[] = {BEGAN, DISK, PART};
    int over = -2 - columns, spare = 0;

    for (int i = 0; i < N_COLUMNS; i++) {
        over += width[i] > 0 ? width[i] + 2 : 0;
        spare += least[i] > 0 && width[i] > least[i] ? width[i] - least[i] : 0;
    }
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]) && over > spare; i++) {
        int *w = &width[left_out[i]];

        over -= *w > 0 ? *w + 2 : 0;
        *w = 0;
    }
    for (size_t i = 0; i < sizeof(shortened) / sizeof(shortened[0]) && over > 0; i++) {
        int *w = &width[shortened[i]], room = *w - least[shortened[i]];

        room = room < 0 ? 0 : room < over ? room : over;
        *w -= room;
        over -= room;
    }
}

static void print_table(const struct table *t)
{
    const int columns = redraw_columns(STDOUT_FILENO);
    int width[N_COLUMNS] = {0};

    for (size_t k = 1; k < t->n; k++)
        for (int i = 0; i < N_COLUMNS; i++)
            if (width_of(t, k, i) > width[i])
                width[i] = width_of(t, k, i);
    for (int i = 0; i < N_COLUMNS && t->n > 0; i++)
        if ((i < TAGS || width[i] > 0) && width_of(t, 0, i) > width[i])
            width[i] = width_of(t, 0, i);
    if (columns > 0)
        fit(width, columns);
    for (size_t k = 0; k < t->n; k++) {
        int last = N_COLUMNS - 1;

        while (last > BEGAN && (width[last] == 0 || width_of(t, k, last) == 0))
            last--;
        for (int i = 0; i <= last; i++) {
            const int is_last = i == last && i >= BEGAN && width_of(t, k, i) < width[i];

            if (width[i] == 0)
                continue;
            if (i > 0)
                (void)fputs("  ", stdout);
            view_print_cell(stdout, t->row[k].cell[i],
                            is_last ? width_of(t, k, i) : width[i],
                            i == RUN                  ? VIEW_NAME
                            : i < STEPS || i >= BEGAN ? VIEW_LEFT
                                                      : VIEW_RIGHT);
        }
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
                                       "done_why",
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
                                       "team_return_mean",
                                       "returns"};
    struct json j = {0};

    json_object(&j);
    run_status_json_some(&j, &facts->status, keys, sizeof(keys) / sizeof(keys[0]));
    json_put_u64(&j, "disk_bytes", disk_bytes);
    json_put_str(&j, "path", path);
    run_tags_json(&facts->tags, &j);
    json_print(&j, stdout);
}

static void print_study_json(const struct study_summary *s, const char *path,
                             uint64_t disk_bytes)
{
    struct json j = {0};

    json_object(&j);
    json_put_str(&j, "study", s->name);
    json_put_str(&j, "state", s->state);
    json_put_known(&j, "trials", s->report != NULL, s->n_trials);
    json_put_known(&j, "trials_done", s->report != NULL, s->n_done);
    if (s->report != NULL)
        study_report_put_best(s->report, &j);
    else
        json_put_str(&j, "best", NULL);
    json_put_u64(&j, "disk_bytes", disk_bytes);
    json_put_str(&j, "path", path);
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

/* Whether the pattern can match a state; those of studies are among those of runs. */
static int check_state(const char *pattern, struct err *err)
{
    char list[ERR_MSG_BYTES];
    size_t n = 0;

    for (; run_states[n] != NULL; n++)
        if (fnmatch(pattern, run_states[n], 0) == 0)
            return 0;
    schema_join_choices(list, sizeof(list), run_states, n);
    (void)err_set(err, ERR_ARG, "state: found '%.60s', expected %s", pattern, list);
    return yaml_add_nearest(err, pattern, run_states, n);
}

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
    if (field == WHERE_STATE && check_state(value, err) < 0)
        return err->code;
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

/* The run's name, with its study's before it if the path is below the folder of runs. */
static const char *name_in(const char *runs_dir, const char *path,
                           const struct run_facts *facts)
{
    const char *rest = text_after(path, runs_dir);
    const char *slash = rest != NULL && *rest == '/' ? strchr(rest + 1, '/') : NULL;

    return slash != NULL && slash[1] != '\0' ? rest + 1 : facts->status.run;
}

/* Prints the run as JSON, or adds it to the table. waited_ms: for the runs before, of which some
 * may not answer. Returns an exit code. */
static int take_run(const struct cli *cli, const char *path, const struct where *where,
                    int64_t *waited_ms, struct table *t)
{
    const int64_t left_ms = ALL_ANSWER_WITHIN_MS - *waited_ms;
    int64_t began_ms;
    struct run_facts facts;
    struct err err = {0};

    if (beneath_hold(path, &err) < 0) /* or it has gone, or is a link now */
        return err_is_failure(err.code) ? cli_fail(cli, CLI_FAILED, &err) : CLI_DONE;
    patience_enter(path);
    began_ms = monotonic_ms();
    run_facts_get(&facts, path,
                  left_ms > ANSWERS_WITHIN_MS ? ANSWERS_WITHIN_MS
                  : left_ms > AT_LEAST_MS     ? (int)left_ms
                                              : AT_LEAST_MS);
    if (facts.is_live)
        *waited_ms += monotonic_ms() - began_ms;
    if (matches(where, &facts, path)) {
        const uint64_t disk_bytes = tree_disk_bytes(path);

        if (cli->json)
            print_json(&facts, path, disk_bytes);
        else
            add_run(t, &facts, name_in(cli->runs_dir, path, &facts), disk_bytes);
    }
    run_facts_done(&facts);
    patience_leave();
    beneath_release(path);
    return CLI_DONE;
}

/* A study has a name and a state. state: NULL: any, it is not known yet. */
static int study_matches(const struct where *w, const char *name, const char *state)
{
    for (size_t i = 0; i < w->n; i++) {
        const int is_state = w->term[i].field == WHERE_STATE;
        const char *text = is_state                         ? state
                           : w->term[i].field == WHERE_NAME ? name
                                                            : NULL;

        if (is_state && state == NULL)
            continue;
        if (text == NULL || fnmatch(w->term[i].pattern, text, 0) != 0)
            return 0;
    }
    return 1;
}

/* To know a study's state, all of its runs are read: only if the rest matches. */
static void take_study(const struct cli *cli, const char *path, const struct where *where,
                       struct table *t)
{
    struct study_summary s;

    if (!study_matches(where, text_base_name(path), NULL) ||
        beneath_hold(path, NULL) < 0) /* or it has gone, or is a link of somebody else */
        return;
    patience_enter(path);
    study_summary_read(&s, path);
    if (study_matches(where, s.name, s.state)) {
        const uint64_t disk_bytes = tree_disk_bytes(path);

        if (cli->json)
            print_study_json(&s, path, disk_bytes);
        else
            add_study(t, &s, disk_bytes);
    }
    study_summary_done(&s);
    patience_leave();
    beneath_release(path);
}

struct options {
    const char *where;
};

struct tables {
    struct table runs, studies;
    int64_t waited_ms; /* for answers of runs */
};

/* The runs that a name or a pattern means, or (NULL) all: run_dir_list_free. */
static int find_runs(const struct cli *cli, const char *name, char ***ret, size_t *ret_n,
                     struct err *err)
{
    char *path = NULL;
    int rc;

    *ret = NULL;
    *ret_n = 0;
    if (name == NULL)
        return run_dir_list(cli->runs_dir, ret, ret_n, err);
    if (run_dir_is_pattern(name))
        return run_dir_match(cli->runs_dir, name, ret, ret_n, err);
    rc = run_dir_find(cli->runs_dir, name, &path, err);
    if (rc < 0)
        return rc;
    *ret = xcalloc(1, sizeof(**ret));
    (*ret)[(*ret_n)++] = path;
    return 0;
}

/* The studies that a name, a path or a pattern means, or (NULL) all: run_dir_list_free. */
static void find_studies(const struct cli *cli, const char *name, char ***ret,
                         size_t *ret_n)
{
    size_t n, kept = 0;

    if (name != NULL && !run_dir_is_pattern(name)) {
        *ret = xcalloc(1, sizeof(**ret));
        (*ret)[0] = study_dir_find(cli->runs_dir, name);
        *ret_n = (*ret)[0] != NULL;
        return;
    }
    study_dir_list(cli->runs_dir, ret, &n);
    for (size_t i = 0; i < n; i++)
        if (name == NULL || fnmatch(name, text_base_name((*ret)[i]), 0) == 0)
            (*ret)[kept++] = (*ret)[i];
        else
            free((*ret)[i]);
    *ret_n = kept;
}

/* Lists the runs and studies that a name or a pattern means; NULL: all. Returns an exit code. */
static int list(const struct cli *cli, const char *name, const struct where *where,
                struct tables *t)
{
    struct err err = {0};
    char **runs, **studies;
    size_t n_runs, n_studies;
    int code = CLI_DONE, rc = find_runs(cli, name, &runs, &n_runs, &err);

    for (size_t i = 0; rc == 0 && i < n_runs && code == CLI_DONE; i++)
        code = take_run(cli, runs[i], where, &t->waited_ms, &t->runs);
    run_dir_list_free(runs, n_runs);
    find_studies(cli, name, &studies, &n_studies);
    for (size_t i = 0; i < n_studies; i++)
        take_study(cli, studies[i], where, &t->studies);
    run_dir_list_free(studies, n_studies);
    if (rc < 0 && (rc != ERR_NOT_FOUND || n_studies == 0))
        code = cli_fail(cli, rc == ERR_NOT_FOUND ? CLI_NOT_THERE : CLI_FAILED, &err);
    return code;
}

static int run_runs(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct tables tables = {.runs.heads = run_heads, .studies.heads = study_heads};
    struct where where = {0};
    struct err err = {0};
    int code = CLI_DONE;

    if (o->where != NULL && take_where(&where, o->where, &err) < 0) {
        free(where.text);
        return cli_usage(cli, "--where: %s", err.msg);
    }
    for (int i = 0; i < argc; i++) {
        const int one = list(cli, argv[i], &where, &tables);

        code = code == CLI_DONE ? one : code;
    }
    if (argc == 0)
        code = list(cli, NULL, &where, &tables);
    print_table(&tables.runs);
    if (tables.runs.n > 0 && tables.studies.n > 0)
        (void)putchar('\n');
    print_table(&tables.studies);
    free(where.text);
    free(tables.runs.row);
    free(tables.studies.row);
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
    .arguments = "[RUN... | STUDY...] [options]",
    .summary = "List the runs and studies: state, steps, last return, disk use",
    .options = options,
    CLI_INTO(struct options, 0),
    .help =
        "\nRUN and STUDY may have * and ?, quoted: 'mappo-*', and 'lr/*' for the runs "
        "of\n"
        "the study lr; without them, all are listed.\n"
        "\nThe newest run comes first. Commands use it where RUN is left out. All runs "
        "of\n"
        "other users together are read for at most three seconds; a line says how many\n"
        "were not read whole. A run whose journal cannot be read is \"unreadable\". The\n"
        "last column says why runs failed. Below the runs are the studies, with the "
        "trials\n"
        "that are over and the best so far; only conditions on name and state hold for\n"
        "them. On a terminal long texts are shortened, and columns without room left "
        "out.\n"
        "\nexample: brood runs --where 'state=done tag=paper algorithm=mappo'\n",
    .run = run_runs,
};
