#include "supervisor/cli/html_run.h"

#include "common/config/algorithms.h"
#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/mem/size_text.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/eval_play.h"
#include "supervisor/cli/html_page.h"
#include "supervisor/proc/signals.h"
#include "supervisor/run/journal_read.h"
#include "supervisor/run/run_dir.h"
#include "supervisor/save/checkpoint_read.h"
#include "supervisor/save/resume.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANSWERS_WITHIN_MS = 2000,
    PROVENANCE_MAX = 64 << 10,
    CHECKPOINTS_MAX = 200,
    DETAIL_MAX = 600, /* bytes of a cell of the journal's tables */
};
static const size_t GIF_MAX_BYTES = (size_t)3 << 20, SVG_MAX_BYTES = (size_t)1 << 20;

/* ---- the journal ---- */

static void free_event(struct html_event *e)
{
    free(e->time);
    free(e->what);
    free(e->detail);
}

/* Keeps an event in the list, and takes ownership of `what` and `detail`. */
static void keep_event(struct html_events *list, const struct run_event *e, char *what,
                       char *detail)
{
    const size_t i = list->n++;
    struct html_event *at =
        i < HTML_EVENTS_FIRST
            ? &list->first[i]
            : &list->newest[(i - HTML_EVENTS_FIRST) % HTML_EVENTS_NEWEST];

    free_event(at);
    *at = (struct html_event){xstrdup(e->time), what, detail, e->env_steps};
}

static char *or_empty(const char *text)
{
    return xstrdup(text != NULL ? text : "");
}

static char *name_of(const struct run_event_process *p)
{
    return p->agent != NULL ? xstrdup(p->agent)
                            : xasprintf("environment %s",
                                        p->environment != NULL ? p->environment : "?");
}

/* Whether the supervisor ended the process at the end of the run: by a request or, if it
 * was slow, by a signal. */
static int was_asked_to_end(const struct run_event_process *p)
{
    return p->in != NULL && strcmp(p->in, "stopping") == 0 &&
           ((p->signal == 0 && p->code == 0) || p->signal == SIGTERM ||
            p->signal == SIGKILL);
}

/* Adds the exit of a process, such as "agent_0 died: SIGKILL, while learning". */
static void take_exit(struct html_run *r, const struct run_event *e)
{
    const struct run_event_process *p = &e->process;
    const char *in = p->in != NULL ? p->in : "";
    char text[RUN_EVENT_EXIT_BYTES], *name;
    const char *by = run_event_exit_text(p, text);

    if (was_asked_to_end(p))
        return;
    name = name_of(p);
    r->deaths++;
    keep_event(&r->ends, e,
               xasprintf("%s %s %s%s%s", name, p->code >= 0 ? "ended with" : "died:",
                         by != NULL ? by : "unknown", *in != '\0' ? ", while " : "", in),
               xasprintf("%s%s%s", p->why != NULL ? p->why : "",
                         p->why != NULL && p->lines != NULL ? "\n" : "",
                         p->lines != NULL ? p->lines : ""));
    free(name);
}

static void take_process(struct html_run *r, const struct run_event *e)
{
    const struct run_event_process *p = &e->process;
    char *name = name_of(p), *what = NULL;

    if (e->kind == RUN_EVENT_RESPAWN)
        what = xasprintf("%s was respawned as pid %d", name, (int)p->pid);
    else if (e->kind == RUN_EVENT_WAIT)
        what = xasprintf("%s waits %.1f s for its next process", name,
                         p->delay_ms != MEMBER_NO_U64 ? (double)p->delay_ms / 1000 : 0.0);
    else
        what = xasprintf("%s %s%s%s", name,
                         e->kind == RUN_EVENT_GIVE_UP     ? "was given up"
                         : e->kind == RUN_EVENT_REINSTATE ? "was taken back"
                                                          : "changed its mode",
                         p->mode != NULL ? ": " : "", p->mode != NULL ? p->mode : "");
    keep_event(&r->ends, e, what, or_empty(p->why));
    free(name);
}

/* Adds the loss, restart or give-up of a node. */
static void take_node(struct html_run *r, const struct run_event *e)
{
    const struct run_event_node *n = &e->node;
    const int gives_up = e->kind == RUN_EVENT_NODE_GIVE_UP;
    const char *host = n->host != NULL ? n->host : "";

    r->deaths += e->kind == RUN_EVENT_NODE_LOST;
    keep_event(&r->ends, e,
               xasprintf("%s%s%s%s %s%s%s", n->node != NULL ? n->node : "a node",
                         *host != '\0' ? " (" : "", host, *host != '\0' ? ")" : "",
                         gives_up                            ? "was given up"
                         : e->kind == RUN_EVENT_NODE_RESTART ? "was started again"
                                                             : "was lost",
                         gives_up && n->to != NULL ? ", its agents moved to " : "",
                         gives_up && n->to != NULL ? n->to : ""),
               or_empty(n->why));
}

struct reading {
    struct html_run *run;
    char session[32], newest[32];
    int is_over; /* the session's end was recorded, with its seconds */
};

static void end_session(struct reading *d)
{
    if (d->session[0] != '\0' && !d->is_over)
        d->run->seconds += journal_seconds(d->session, d->newest);
    d->is_over = 1;
}

static void begin_session(struct reading *d, const struct run_event *e)
{
    struct html_run *r = d->run;

    end_session(d);
    d->is_over = 0;
    (void)snprintf(d->session, sizeof(d->session), "%s", e->time);
    free(r->failure);
    r->failure = NULL;
    if (r->sessions++ > 0)
        keep_event(&r->changes, e, xstrdup("resumed"), xstrdup(""));
}

static void take_end(struct reading *d, const struct run_event *e)
{
    struct html_run *r = d->run;
    const char *state = e->end.state != NULL ? e->end.state : "";

    if (d->is_over) /* the keeper's line of a supervisor that was killed after its end */
        return;
    if (!isnan(e->end.seconds)) {
        r->seconds += e->end.seconds;
        d->is_over = 1;
    }
    if (strcmp(state, "done") != 0)
        keep_event(&r->changes, e, xasprintf("ended: %s", state), xstrdup(""));
}

static void take_supervisor_exit(struct html_run *r, const struct run_event *e)
{
    char name[SIGNAL_NAME_BYTES];

    r->deaths++;
    keep_event(&r->ends, e,
               xasprintf("the supervisor (pid %d) died%s%s", (int)e->end.pid,
                         e->end.signal != 0 ? ": " : "",
                         e->end.signal != 0 ? signal_name(e->end.signal, name) : ""),
               xstrdup("its keeper began another one"));
}

/* Events that the page lists with a fixed text, and as detail the event's own: its text, or
 * the changes of the configuration. */
static const struct listed {
    enum run_event_kind kind;
    enum { NO_DETAIL, TEXT, CHANGES, OF_SKIP, OF_STALL } detail;
    int is_end;
    const char *what;
} listed[] = {
    {RUN_EVENT_FORK, TEXT, 0, "began as a fork of"},
    {RUN_EVENT_SET, CHANGES, 0, "set"},
    {RUN_EVENT_WAITS, CHANGES, 0, "set, waits for a respawn"},
    {RUN_EVENT_CANCEL, CHANGES, 0, "cancelled"},
    {RUN_EVENT_CHANGED, CHANGES, 0, "in force"},
    {RUN_EVENT_REFUSED, TEXT, 0, "refused"},
    {RUN_EVENT_PAUSE, NO_DETAIL, 0, "paused"},
    {RUN_EVENT_CONTINUE, NO_DETAIL, 0, "continued"},
    {RUN_EVENT_STOP, NO_DETAIL, 0, "asked to stop"},
    {RUN_EVENT_SIGNAL, TEXT, 0, "signal"},
    {RUN_EVENT_FAILED, TEXT, 1, "the run failed"},
    {RUN_EVENT_INEXACT, TEXT, 1, "no longer exact"},
    {RUN_EVENT_CHECKPOINT_FAILED, TEXT, 1, "a checkpoint could not be written"},
    {RUN_EVENT_FULL, TEXT, 1, "the disk was full"},
    {RUN_EVENT_SPACE, NO_DETAIL, 1, "the disk has space again"},
    {RUN_EVENT_SKIP, OF_SKIP, 1, "an episode that failed was skipped"},
    {RUN_EVENT_STALLS, OF_STALL, 1, "the supervisor did not go on"},
    {RUN_EVENT_GOES_ON, NO_DETAIL, 1, "the supervisor went on"},
};

static char *detail_of(const struct run_event *e, const struct listed *l)
{
    if (l->detail == NO_DETAIL)
        return xstrdup("");
    if (l->detail == OF_SKIP)
        return or_empty(e->skip.why);
    if (l->detail == OF_STALL)
        return or_empty(e->stall.why);
    if (l->detail == TEXT)
        return or_empty(e->why); /* which is also its error and its name */
    if (e->kind == RUN_EVENT_SET && e->change.at != MEMBER_NO_U64 && e->change.at != 0)
        return xasprintf("%s from step %" PRIu64,
                         e->change.changes != NULL ? e->change.changes : "",
                         e->change.at);
    return or_empty(e->change.changes);
}

static void take_listed(struct html_run *r, const struct run_event *e)
{
    for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++)
        if (listed[i].kind == e->kind)
            keep_event(listed[i].is_end ? &r->ends : &r->changes, e,
                       xstrdup(listed[i].what), detail_of(e, &listed[i]));
    if (e->kind == RUN_EVENT_FAILED) {
        free(r->failure);
        r->failure = or_empty(e->error);
    }
}

static int take_event(void *ctx, uint64_t line, const struct run_event *e)
{
    struct reading *d = ctx;
    struct html_run *r = d->run;

    if (r->began[0] == '\0')
        (void)snprintf(r->began, sizeof(r->began), "%s", e->time);
    switch (e->kind) {
    case RUN_EVENT_START:
    case RUN_EVENT_RESUME:
        begin_session(d, e);
        break;
    case RUN_EVENT_END:
        take_end(d, e);
        break;
    case RUN_EVENT_SUPERVISOR_EXIT:
        take_supervisor_exit(r, e);
        break;
    case RUN_EVENT_EXIT:
        take_exit(r, e);
        break;
    case RUN_EVENT_RESPAWN:
    case RUN_EVENT_WAIT:
    case RUN_EVENT_GIVE_UP:
    case RUN_EVENT_REINSTATE:
    case RUN_EVENT_MODE:
        take_process(r, e);
        break;
    case RUN_EVENT_NODE_LOST:
    case RUN_EVENT_NODE_RESTART:
    case RUN_EVENT_NODE_GIVE_UP:
        take_node(r, e);
        break;
    default:
        take_listed(r, e);
        break;
    }
    (void)snprintf(d->newest, sizeof(d->newest), "%s", e->time);
    return 0;
}

static void read_journal(struct html_run *r)
{
    struct reading d = {.run = r};
    char *file = xasprintf("%s/journal", r->path);

    (void)journal_each_event(file, take_event, &d, NULL);
    if (!d.is_over && r->facts.is_live && r->facts.status.elapsed_s >= 0)
        r->seconds += r->facts.status.elapsed_s;
    else
        end_session(&d);
    free(file);
}

/* ---- reading ---- */

static char *file_of(const struct html_run *r, const char *sub)
{
    return xasprintf("%s/%s", r->path, sub);
}

/* *ret stays empty if the file is missing or larger than max. */
static void read_text(struct html_run *r, const char *sub, size_t max, struct wbuf *ret)
{
    char *file = file_of(r, sub);

    if (wbuf_read_file(ret, file, max, NULL) < 0)
        wbuf_done(ret);
    free(file);
}

void html_run_read(struct html_run *ret, const char *path)
{
    const struct config_options options = {0};
    char *file;

    *ret = (struct html_run){.path = xstrdup(path)};
    ret->name = run_dir_name_of(path);
    run_facts_get(&ret->facts, path, ANSWERS_WITHIN_MS);
    file = file_of(ret, "config.yaml");
    ret->has_config =
        run_config_read(&ret->config, file, &options, &ret->config_why) == 0;
    free(file);
    read_text(ret, "config.yaml", YAML_MAX_BYTES, &ret->text);
    read_text(ret, "provenance", PROVENANCE_MAX, &ret->provenance);
    file = file_of(ret, "metrics/progress.csv");
    if (progress_read(&ret->progress, file, NULL) < 0)
        ret->progress = NULL;
    free(file);
    read_journal(ret);
}

static void free_events(struct html_events *list)
{
    for (size_t i = 0; i < HTML_EVENTS_FIRST; i++)
        free_event(&list->first[i]);
    for (size_t i = 0; i < HTML_EVENTS_NEWEST; i++)
        free_event(&list->newest[i]);
}

void html_run_done(struct html_run *r)
{
    free_events(&r->changes);
    free_events(&r->ends);
    if (r->progress != NULL)
        progress_free(r->progress);
    if (r->has_config)
        run_config_done(&r->config);
    wbuf_done(&r->provenance);
    wbuf_done(&r->text);
    run_facts_done(&r->facts);
    free(r->failure);
    free(r->name);
    free(r->path);
    *r = (struct html_run){0};
}

/* ---- facts ---- */

const char *html_run_provenance(const struct html_run *r, const char *key,
                                struct arena *arena)
{
    const char *p = (const char *)r->provenance.data, *end = p + r->provenance.len;
    const size_t len = strlen(key);

    while (p < end) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p));

        line_end = line_end != NULL ? line_end : end;
        if ((size_t)(line_end - p) > len + 2 && memcmp(p, key, len) == 0 &&
            p[len] == ':' && p[len + 1] == ' ')
            return arena_strndup(arena, p + len + 2, (size_t)(line_end - p) - len - 2);
        p = line_end + 1;
    }
    return "-";
}

const char *html_run_algorithms(const struct html_run *r, struct arena *arena)
{
    const char *ret = r->has_config ? run_algorithm_names(&r->config, arena) : "";

    return *ret != '\0' ? ret : "-";
}

/* ---- values of a column ---- */

static double value_in(const struct html_run *r, const char *column, size_t row)
{
    return progress_value(r->progress, row, progress_find(r->progress, column));
}

static size_t rows_of(const struct html_run *r, const char *column)
{
    if (r->progress == NULL ||
        progress_find(r->progress, column) == progress_n_columns(r->progress))
        return 0;
    return progress_n_rows(r->progress);
}

double html_run_best(const struct html_run *r, const char *column, uint64_t *ret_step)
{
    double best = (double)NAN;

    for (size_t i = 0; i < rows_of(r, column); i++) {
        const double v = value_in(r, column, i);

        if (isnan(v) || v <= best)
            continue;
        best = v;
        *ret_step = (uint64_t)progress_steps(r->progress, i);
    }
    return best;
}

double html_run_last(const struct html_run *r, const char *column, uint64_t *ret_step)
{
    for (size_t i = rows_of(r, column); i > 0; i--) {
        if (isnan(value_in(r, column, i - 1)))
            continue;
        *ret_step = (uint64_t)progress_steps(r->progress, i - 1);
        return value_in(r, column, i - 1);
    }
    return (double)NAN;
}

/* ---- an episode ---- */

struct pictures {
    struct wbuf gif, svg;
    double episode_return; /* of the first team; NaN: of several */
    double length;
    int is_cut;
    struct err failure;
};

static void on_result(struct eval_play *play, const struct env_spec *spec,
                      const struct evaluation_result *result)
{
    struct pictures *p = play->ctx;
    char *name = run_dir_name_of(play->path);
    const struct recording_source from = eval_play_source(play, name, spec);
    const int is_external = env_config_is_external(&play->run.config->env);

    p->length = result->length_mean;
    p->episode_return = env_team_mean(spec, 0, result->return_mean);
    for (size_t i = 1; i < spec->n_agents; i++)
        if (env_team_of(spec, i) != 0)
            p->episode_return = (double)NAN;
    p->is_cut = play->recording.episode.is_cut || p->length >= HTML_PLAY_STEPS;
    if (recording_bytes(&play->recording, &from, DRAW_GIF, &p->gif, &p->failure) == 0 &&
        !is_external)
        (void)recording_bytes(&play->recording, &from, DRAW_SVG, &p->svg, &p->failure);
    free(name);
}

/* Returns 0 if an episode may be played; otherwise err says why not. */
static int check_play(const struct html_run *r, enum html_play play, struct err *err)
{
    if (!r->has_config)
        return err_pass(err, &r->config_why);
    if (play == HTML_PLAY_NEVER)
        return err_set(err, ERR_STATE, "none was asked for (--play never)");
    if (play == HTML_PLAY_WORLDS &&
        (env_config_is_external(&r->config.env) || run_config_has_programs(&r->config)))
        return err_set(err, ERR_STATE,
                       "the environment, or an agent, is a program that the run's "
                       "configuration names, and a report executes none unless asked to "
                       "(--play always)");
    if (run_dir_check_trust(r->path, NULL) < 0)
        return err_set(err, -EPERM,
                       "another user may have written its configuration; `brood eval %s "
                       "--trust --render FILE` plays one nevertheless",
                       r->name);
    return 0;
}

static void on_skipped(void *ctx, const char *line)
{
    (void)line; /* the page names the step of the checkpoint that it shows */
}

static int play_episode(struct html_run *r, struct eval_play *play, struct err *err)
{
    struct run_config *c = &r->config;
    const int64_t max_steps = c->evaluation.max_steps;
    const int draws = c->env.draws;
    char *checkpoints = file_of(r, "checkpoints");
    int rc = eval_play_check(play, NULL, err);

    if (rc == 0)
        rc = weights_load(&play->weights, checkpoints, NULL, on_skipped, NULL, err);
    if (rc == 0) {
        c->env.draws = 1;
        c->evaluation.max_steps =
            max_steps < HTML_PLAY_STEPS ? max_steps : HTML_PLAY_STEPS;
        rc = eval_play(play, err);
        c->env.draws = draws; /* the page shows the run's own value */
        c->evaluation.max_steps = max_steps;
    }
    free(checkpoints);
    return rc;
}

static void put_picture(const struct wbuf *picture, size_t max, const char *type,
                        const char *alt, FILE *f)
{
    if (picture->len == 0 || picture->len > max)
        return;
    (void)fputs("<figure>", f);
    html_image(type, picture->data, picture->len, alt, f);
    (void)fputs("</figure>\n", f);
}

static void put_pictures(const struct pictures *p, uint64_t step, FILE *f)
{
    char note[160];
    int len = snprintf(note, sizeof(note),
                       "Greedy actions of the checkpoint at step %" PRIu64 ", %.0f steps",
                       step, p->length);

    if (!isnan(p->episode_return))
        len += snprintf(note + len, sizeof(note) - (size_t)len, ", return %.5g",
                        p->episode_return);
    (void)snprintf(note + len, sizeof(note) - (size_t)len, "%s. Seed 0, episode 0.",
                   p->is_cut ? " (cut here)" : "");
    html_remark(f, "%s", note);
    (void)fputs("<div class=\"episode\">", f);
    put_picture(&p->gif, GIF_MAX_BYTES, "image/gif",
                "the episode, step by step, as an animation", f);
    put_picture(&p->svg, SVG_MAX_BYTES, "image/svg+xml",
                "the whole episode on one page, with tracks", f);
    (void)fputs("</div>\n", f);
    if (p->gif.len > GIF_MAX_BYTES || p->svg.len > SVG_MAX_BYTES)
        html_remark(f,
                    "A picture of more than a few MB is left out: `brood eval --render` "
                    "draws it.");
}

void html_run_play(struct html_run *r, enum html_play play, FILE *f)
{
    struct pictures p = {.episode_return = (double)NAN};
    struct eval_play args = {
        .path = r->path,
        .run = {.config = &r->config, .episodes = 1, .copies = 1, .mode = ACT_GREEDY},
        .records = 1,
        .on_result = on_result,
        .ctx = &p};
    struct err err = {0};
    int rc = check_play(r, play, &err);

    if (rc == 0)
        rc = play_episode(r, &args, &err);
    if (rc == 0 && p.gif.len > 0)
        put_pictures(&p, args.run.step, f);
    else
        html_remark(f, "No episode is shown: %s.", rc < 0 ? err.msg : p.failure.msg);
    eval_play_done(&args);
    wbuf_done(&p.gif);
    wbuf_done(&p.svg);
}

/* ---- tables ---- */

static void put_event(const struct html_event *e, FILE *f)
{
    (void)fputs("<tr><td class=\"t\">", f);
    html_time(e->time, f);
    (void)fputs("</td>", f);
    if (e->env_steps == JOURNAL_NO_STEP)
        (void)fputs("<td class=\"n\">-</td>", f);
    else
        html_cell_count(e->env_steps, f);
    (void)fputs("<td class=\"w\">", f);
    html_text(e->what, f);
    if (*e->detail != '\0') {
        (void)fputs("<div class=\"detail\">", f);
        html_printf(f, "%.*s%s", DETAIL_MAX, e->detail,
                    strlen(e->detail) > DETAIL_MAX ? " ..." : "");
        (void)fputs("</div>", f);
    }
    (void)fputs("</td></tr>\n", f);
}

static void put_events(const struct html_events *list, FILE *f)
{
    static const char *const heads[] = {"Time (UTC)", "#Step", "What"};
    const size_t first = list->n < HTML_EVENTS_FIRST ? list->n : HTML_EVENTS_FIRST;
    const size_t rest = list->n - first;
    const size_t newest = rest < HTML_EVENTS_NEWEST ? rest : HTML_EVENTS_NEWEST;

    html_table(heads, sizeof(heads) / sizeof(heads[0]), HTML_WIDE, f);
    for (size_t i = 0; i < first; i++)
        put_event(&list->first[i], f);
    if (rest > newest)
        (void)fprintf(f,
                      "<tr><td colspan=\"3\" class=\"same\">%zu more, which are in the "
                      "run's journal</td></tr>\n",
                      rest - newest);
    for (size_t i = rest - newest; i < rest; i++)
        put_event(&list->newest[i % HTML_EVENTS_NEWEST], f);
    html_table_end(f);
}

void html_run_put_changes(const struct html_run *r, FILE *f)
{
    if (r->changes.n > 0)
        put_events(&r->changes, f);
    else
        html_remark(f, "Nothing was changed, and nobody asked for anything.");
}

static void put_counts(const struct run_agent_status *a, size_t n, FILE *f)
{
    char text[PROCESS_COUNT_TEXT_BYTES];

    for (size_t i = 0; i < n; i++)
        if (*process_count_text(&a[i].count, text) != '\0')
            html_remark(f, "%s: %s", a[i].name, text);
}

void html_run_put_ends(const struct html_run *r, FILE *f)
{
    const int was_killed = strcmp(r->facts.status.state, "killed") == 0;

    put_counts(r->facts.status.agents, r->facts.status.n_agents, f);
    put_counts(r->facts.status.environments, r->facts.status.n_environments, f);
    if (r->ends.n > 0)
        put_events(&r->ends, f);
    else if (!was_killed)
        html_remark(f, "No process died.");
    if (was_killed)
        html_remark(f,
                    "Its supervisor was killed: no end is recorded. `brood resume %s` "
                    "continues the run.",
                    r->name);
}

/* The sum of the sizes of a checkpoint's files, whatever space they take on the disk. */
static uint64_t bytes_of(const char *path)
{
    struct dirent **list = NULL;
    struct stat st;
    uint64_t sum = 0;
    int n;

    if (beneath_stat(path, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return 0;
    if (S_ISREG(st.st_mode))
        return (uint64_t)st.st_size;
    n = beneath_scandir(path, &list, NULL);
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0) {
            char *child = xasprintf("%s/%s", path, list[i]->d_name);

            sum += bytes_of(child);
            free(child);
        }
        free(list[i]);
    }
    free(list);
    return sum;
}

static void put_checkpoint(const struct html_run *r, const char *folder, uint64_t step,
                           const char *const *columns, size_t n, FILE *f)
{
    char *path = xasprintf("%s/%" PRIu64, folder, step);
    char text[SIZE_TEXT_BYTES];

    (void)fputs("<tr>", f);
    html_cell_count(step, f);
    (void)fprintf(f, "<td class=\"n\">%s</td>", size_text(bytes_of(path), text));
    for (size_t i = 0; i < n; i++)
        html_cell(rows_of(r, columns[i]) > 0
                      ? progress_value_at(r->progress,
                                          progress_find(r->progress, columns[i]), step)
                      : (double)NAN,
                  f);
    (void)fputs("</tr>\n", f);
    free(path);
}

static void put_checkpoint_table(const struct html_run *r, const char *folder,
                                 const uint64_t *steps, size_t n_steps,
                                 const char *const *columns, size_t n, FILE *f)
{
    const char **heads = xcalloc(n + 2, sizeof(*heads));
    char **names = xcalloc(n + 1, sizeof(*names));

    heads[0] = "#Step";
    heads[1] = "#Size";
    for (size_t i = 0; i < n; i++)
        heads[i + 2] = names[i] = xasprintf("#%s", columns[i]);
    html_table(heads, n + 2, HTML_NARROW, f);
    for (size_t i = 0; i < n_steps; i++)
        put_checkpoint(r, folder, steps[i], columns, n, f);
    html_table_end(f);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    free(heads);
}

void html_run_put_checkpoints(const struct html_run *r, const char *const *columns,
                              size_t n, FILE *f)
{
    char *folder = file_of(r, "checkpoints");
    uint64_t *steps = NULL;
    size_t n_steps = 0, first;

    (void)checkpoint_list(folder, &steps, &n_steps, NULL);
    first = n_steps > CHECKPOINTS_MAX ? n_steps - CHECKPOINTS_MAX : 0;
    if (n_steps == 0)
        html_remark(f, "It has no checkpoint.");
    else
        put_checkpoint_table(r, folder, steps + first, n_steps - first, columns, n, f);
    if (first > 0)
        html_remark(f, "The newest %d of %zu.", CHECKPOINTS_MAX, n_steps);
    free(steps);
    free(folder);
}
