#include "supervisor/cli/study_view.h"

#include "common/io/monotonic.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/redraw.h"
#include "supervisor/cli/view_layout.h"
#include "supervisor/control/client.h"
#include "supervisor/events/run_status.h"
#include "supervisor/metrics/json.h"
#include "supervisor/proc/terminal_keys.h"
#include "supervisor/study/halving.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the layout ---- */

enum { STEP_WIDTH = 13, SETTING_MIN = 9, NARROW = 40 };

/* Puts facts: all at detail 0, the fewest at detail 3. */
static void put_facts(struct view_line *l, const struct study_frame *f, int detail)
{
    char text[32];

    if (f->part >= 0)
        view_put(l, "%3.0f %%  ", floor(100 * f->part));
    if (*f->stage != '\0' && detail < 3)
        view_put(l, "%s  ", f->stage);
    if (detail < 2)
        view_put(l, "%zu of %zu runs  ", f->n_ended, f->n_all);
    if (detail < 1 && !isnan(f->rate))
        view_put(l, "%s/s  ", format_count((uint64_t)f->rate, text, sizeof(text)));
    if (!isnan(f->seconds_left))
        view_put(l, "%s left", format_duration(f->seconds_left, text, sizeof(text)));
}

static void put_head(struct wbuf *ret, const struct study_frame *f)
{
    const int name = (int)strlen(f->name);
    struct view_line facts, l = {.len = 0};
    int bar;

    for (int detail = 0; detail < 4; detail++) {
        facts = (struct view_line){.len = 0};
        put_facts(&facts, f, detail);
        if (name + 2 + (int)facts.len <= f->columns)
            break;
    }
    bar = f->columns - name - (int)facts.len - 4;
    view_put(&l, "%s%s%s  ", f->colour ? VIEW_BOLD : "", f->name,
             f->colour ? VIEW_PLAIN : "");
    view_put_bar(&l, f->part, bar < VIEW_BAR_MAX ? bar : VIEW_BAR_MAX, f->colour,
                 f->utf8);
    view_put(&l, "%s", facts.p);
    view_put_line(ret, &l, f->columns);
}

static void put_best(struct wbuf *ret, const struct study_frame *f)
{
    struct view_line l = {.len = 0};

    view_put(&l, "best so far: ");
    if (f->best == NULL) {
        view_put(&l, "none yet");
    } else {
        view_put(&l, "%zu with %.4g", f->best->trial + 1, f->best->value);
        for (size_t k = 0; k < f->n_keys; k++)
            view_put(&l, ", %s %s", f->key(f->ctx, k),
                     f->setting(f->ctx, f->best->trial, k));
    }
    view_put_line(ret, &l, f->columns);
}

/* Puts the line of a trial; t NULL: the head of the table. */
static void put_trial(struct wbuf *ret, const struct study_frame *f,
                      const struct study_view_trial *t)
{
    struct view_line l = {.len = 0};
    const int has_step = f->columns >= NARROW;
    char step[32], value[32] = "-";
    int used;

    if (t == NULL) {
        view_put(&l, "%s%5s  %-8s", f->colour ? VIEW_GREY : "", "trial", "state");
        if (has_step)
            view_put(&l, "%*s", STEP_WIDTH, "step");
        view_put(&l, "%10s", "value");
    } else {
        if (!isnan(t->value))
            (void)snprintf(value, sizeof(value), "%.4g", t->value);
        view_put(&l, "%5zu  %-8s", t->trial + 1, t->state);
        if (has_step)
            view_put(&l, "%*s", STEP_WIDTH,
                     format_count((uint64_t)t->steps, step, sizeof(step)));
        view_put(&l, "%10s", value);
    }
    used = 25 + (has_step ? STEP_WIDTH : 0);
    for (size_t k = 0; k < f->n_keys; k++) {
        const char *key = f->key(f->ctx, k);
        const char *text = t != NULL ? f->setting(f->ctx, t->trial, k) : key;
        const int width = strlen(key) > SETTING_MIN ? (int)strlen(key) : (int)SETTING_MIN;

        used += width + 2;
        if (used > f->columns) /* there is no room for further settings */
            break;
        view_put(&l, "  %*.*s", width, width, text);
    }
    if (t == NULL && f->colour)
        view_put(&l, "%s", VIEW_PLAIN);
    view_put_line(ret, &l, f->columns);
}

/* Counts the trials that are not shown, by their state. */
static void put_hidden(struct wbuf *ret, const struct study_frame *f, size_t from,
                       size_t to)
{
    static const char *const states[] = {"running", "done", "failed", "stopped",
                                         "waiting"};
    struct view_line l = {.len = 0};
    const char *comma = "";

    view_put(&l, "%s+%zu more:", f->colour ? VIEW_GREY : "", f->n - (to - from));
    for (size_t k = 0; k < sizeof(states) / sizeof(states[0]); k++) {
        size_t n = 0;

        for (size_t i = 0; i < f->n; i++)
            n += (i < from || i >= to) && strcmp(f->trial[i].state, states[k]) == 0;
        if (n > 0) {
            view_put(&l, "%s %zu %s", comma, n, states[k]);
            comma = ",";
        }
    }
    view_put(&l, "%s", f->colour ? VIEW_PLAIN : "");
    view_put_line(ret, &l, f->columns);
}

int study_layout(const struct study_frame *f, struct wbuf *ret, size_t *ret_shown)
{
    const int room = f->rows - 1; /* the cursor is on the last row */
    size_t from = 0, to, most;
    int lines = 1;

    *ret_shown = 0;
    put_head(ret, f);
    if (room >= 2) {
        put_best(ret, f);
        lines++;
    }
    if (room < 4)
        return lines;
    put_trial(ret, f, NULL);
    lines++;
    most = (size_t)(room - lines);
    if (f->n > most) {
        most--; /* the last line counts the others */
        from = f->top + most <= f->n ? f->top : f->n - most;
    }
    to = from + most < f->n ? from + most : f->n;
    for (size_t i = from; i < to; i++)
        put_trial(ret, f, &f->trial[i]);
    lines += (int)(to - from);
    if (to - from < f->n) {
        put_hidden(ret, f, from, to);
        lines++;
    }
    *ret_shown = to - from;
    return lines;
}

/* ---- the view ---- */

enum {
    REFRESH_S = 1,
    ANSWERS_WITHIN_MS = 100,     /* of one run */
    ALL_ANSWER_WITHIN_MS = 1000, /* together; then each of the others */
    AT_LEAST_MS = 5,
    NAME_BYTES = 320,
    PRINTED_COLUMNS = 1000,
    SHORT_ROWS = 3,
    PRINTED_HEAD = 8 /* more lines than those above the trials */
};

/* How far the study is: a rung or round, or all of it. */
struct course {
    char name[64];         /* "rung 1 of 3"; "" */
    uint64_t first, until; /* steps of each run; until 0: not known */
    double before, total; /* steps of all runs: in earlier stages, in all; 0: not known */
};

struct run {
    size_t trial;
    const char *state;
    uint64_t steps;
    double value;
};

struct study_view {
    int64_t waited_ms; /* for answers of runs, in this round of questions */
    const struct study *study;
    const struct study_stage *at;
    const char *name;
    uint64_t run_steps;
    int is_drawn;
    struct redraw screen;
    struct terminal_keys keys;
    struct course stage;
    struct run *run; /* [n * seeds]: as of study_view_begin, also when `at` has gone on */
    size_t n;        /* trials */
    struct study_view_trial *trial; /* [n], in order */
    size_t top, n_shown;
    double began_s, began_at; /* time and steps of the first frame; 0: none yet */
    double refreshed_s;
    struct arena arena; /* texts of one frame */
};

/* The steps that n trials take from one step to another. */
static double steps_of(const struct study *s, size_t n, uint64_t first, uint64_t until)
{
    return (double)(n * s->n_seeds) * (double)(until - first);
}

static struct course course_of(const struct study_stage *at, uint64_t run_steps)
{
    const struct study *s = at->study;
    struct course c = {.until = at->until};

    if (s->method == STUDY_PBT) {
        (void)snprintf(c.name, sizeof(c.name), "round %zu of %zu", at->rung + 1,
                       s->pbt.rounds);
        c.first = at->until - s->pbt.interval;
        c.before = steps_of(s, at->n, 0, c.first);
        c.total = steps_of(s, at->n, 0, lineage_step(s, s->pbt.rounds - 1));
    } else if (s->method == STUDY_ASHA) {
        size_t left = s->trials;

        (void)snprintf(c.name, sizeof(c.name), "rung %zu of %zu", at->rung + 1,
                       s->n_rungs);
        for (size_t k = 0; k < s->n_rungs; k++) {
            const uint64_t first = k > 0 ? s->rungs[k - 1] : 0;

            left = k == at->rung ? at->n : left; /* some may have failed */
            if (k == at->rung) {
                c.first = first;
                c.before = c.total;
            }
            c.total += steps_of(s, left, first, s->rungs[k]);
            left = halving_most(left, s->keep);
        }
    } else {
        c.until = run_steps;
        c.total = steps_of(s, at->n, 0, run_steps);
    }
    return c;
}

struct study_view *study_view_new(const struct study_stage *at, const char *name,
                                  uint64_t run_steps, int is_drawn)
{
    struct study_view *v = xcalloc(1, sizeof(*v));

    *v = (struct study_view){.study = at->study,
                             .at = at,
                             .name = name,
                             .run_steps = run_steps,
                             .is_drawn = is_drawn};
    redraw_init(&v->screen, STDERR_FILENO);
    if (v->screen.terminal || !is_drawn)
        return v;
    redraw_done(&v->screen);
    free(v);
    return NULL;
}

void study_view_free(struct study_view *v)
{
    if (v == NULL)
        return;
    if (v->is_drawn) {
        (void)redraw_begin(&v->screen);
        redraw_show(&v->screen, 0);
    }
    redraw_done(&v->screen);
    terminal_keys_end(&v->keys);
    free(v->run);
    free(v->trial);
    arena_done(&v->arena);
    free(v);
}

/* ---- what is shown ---- */

static int is_in(const struct study_view_trial *t, const char *state)
{
    return strcmp(t->state, state) == 0;
}

/* A trial's state from those of its runs. */
static struct study_view_trial trial_of(const struct study_view *v, size_t i)
{
    static const char *const first[] = {"running", "failed", "stopped", "waiting",
                                        "done"};
    const size_t seeds = v->study->n_seeds;
    const struct run *run = &v->run[i * seeds];
    struct study_view_trial t = {.trial = run->trial, .state = NULL};

    for (size_t k = 0; k < seeds; k++) {
        t.steps += (double)run[k].steps / (double)seeds;
        t.value += run[k].value / (double)seeds;
    }
    for (size_t s = 0; t.state == NULL; s++)
        for (size_t k = 0; k < seeds; k++)
            if (strcmp(run[k].state, first[s]) == 0)
                t.state = first[s];
    return t;
}

/* Running trials come first, in their own order; then the others, best first; waiting
 * ones come last. */
static int compare_trials(const void *x, const void *y, void *study)
{
    const struct study_view_trial *a = x, *b = y;
    const int is_max = ((const struct study *)study)->is_max;

    if (is_in(a, "running") != is_in(b, "running"))
        return is_in(a, "running") ? -1 : 1;
    if (is_in(a, "waiting") != is_in(b, "waiting"))
        return is_in(b, "waiting") ? -1 : 1;
    if (!is_in(a, "running") && halving_is_better(a->value, b->value, is_max))
        return -1;
    if (!is_in(a, "running") && halving_is_better(b->value, a->value, is_max))
        return 1;
    return a->trial < b->trial ? -1 : a->trial > b->trial;
}

/* The steps done in all stages. A run that has failed or was stopped counts as if it had
 * come to the end of the stage. */
static double steps_done(const struct study_view *v, size_t *ret_ended)
{
    const struct course *s = &v->stage;
    double done = s->before;

    *ret_ended = 0;
    for (size_t i = 0; i < v->n * v->study->n_seeds; i++) {
        const struct run *r = &v->run[i];
        const int is_over =
            strcmp(r->state, "running") != 0 && strcmp(r->state, "waiting") != 0;
        const double at = (double)(r->steps < s->until ? r->steps : s->until);

        *ret_ended += (size_t)is_over;
        done += is_over ? (double)(s->until - s->first) : fmax(0, at - (double)s->first);
    }
    return done;
}

static const char *key_name(void *ctx, size_t key)
{
    const struct study_view *v = ctx;

    return study_key_short_name(&v->study->key[key]);
}

static const char *setting(void *ctx, size_t trial, size_t key)
{
    struct study_view *v = ctx;

    return v->study->method == STUDY_PBT
               ? lineage_settings(&v->at->lineage, v->at->rung, trial)[key]
               : study_value(v->study, trial, key, &v->arena);
}

/* Sorts the trials and finds how far they are; *ret_done: steps of all stages. */
static struct study_frame make_frame(struct study_view *v, double *ret_done)
{
    struct study_frame f = {.name = v->name,
                            .stage = v->stage.name,
                            .part = -1,
                            .n_all = v->n * v->study->n_seeds,
                            .rate = (double)NAN,
                            .seconds_left = (double)NAN,
                            .trial = v->trial,
                            .n = v->n,
                            .n_keys = v->study->n_keys,
                            .key = key_name,
                            .setting = setting,
                            .ctx = v};

    *ret_done = steps_done(v, &f.n_ended);
    for (size_t i = 0; i < v->n; i++)
        v->trial[i] = trial_of(v, i);
    /* qsort_r: a study may have thousands of trials, and each message draws them anew */
    if (v->n > 0)
        qsort_r(v->trial, v->n, sizeof(*v->trial), compare_trials,
                (void *)(uintptr_t)v->study);
    arena_reset(&v->arena);
    for (size_t i = 0; i < v->n; i++)
        if (halving_is_better(v->trial[i].value,
                              f.best != NULL ? f.best->value : (double)NAN,
                              v->study->is_max))
            f.best = &v->trial[i];
    if (v->stage.total > 0)
        f.part = fmin(1, *ret_done / v->stage.total);
    return f;
}

static void draw(struct study_view *v)
{
    const double now = monotonic_s();
    struct study_frame f;
    struct wbuf *lines;
    double done;

    if (!v->is_drawn)
        return;
    f = make_frame(v, &done);
    lines = redraw_begin(&v->screen);
    f.top = v->top;
    f.colour = v->screen.colour;
    f.utf8 = v->screen.utf8;
    f.columns = v->screen.columns;
    f.rows = v->screen.rows;
    if (v->began_s == 0) {
        v->began_s = now;
        v->began_at = done;
    } else if (now > v->began_s && done > v->began_at) {
        f.rate = (done - v->began_at) / (now - v->began_s);
        if (v->stage.total > 0)
            f.seconds_left = fmax(0, v->stage.total - done) / f.rate;
    }
    redraw_show(&v->screen, study_layout(&f, lines, &v->n_shown));
}

size_t study_view_n_ended(const struct study_view *v)
{
    size_t n;

    (void)steps_done(v, &n);
    return n;
}

void study_view_print(struct study_view *v, const char *state, int is_short, FILE *to)
{
    double done;
    struct study_frame f = make_frame(v, &done);
    struct wbuf lines = {0};
    char name[NAME_BYTES];
    size_t n;

    (void)snprintf(name, sizeof(name), "%s: %s", v->name, state);
    f.name = name;
    f.columns = PRINTED_COLUMNS;
    f.rows = is_short ? SHORT_ROWS : (int)f.n + PRINTED_HEAD;
    (void)study_layout(&f, &lines, &n);
    (void)fwrite(lines.data, 1, lines.len, to);
    wbuf_done(&lines);
}

static void put_trial_json(const struct study_frame *f, const struct study_view_trial *t,
                           const struct study *s, struct json *j)
{
    json_object(j);
    json_put_u64(j, "trial", t->trial + 1);
    json_put_str(j, "state", t->state);
    json_put_f64(j, "env_steps", t->steps);
    json_put_f64(j, "value", t->value);
    json_put_object(j, "settings");
    for (size_t k = 0; k < f->n_keys; k++)
        json_put_str(j, s->key[k].path, f->setting(f->ctx, t->trial, k));
    json_close(j);
    json_close(j);
}

void study_view_print_json(struct study_view *v, const char *state)
{
    double done;
    const struct study_frame f = make_frame(v, &done);
    struct json j = {0};

    json_object(&j);
    json_put_str(&j, "study", v->name);
    json_put_str(&j, "state", state);
    json_put_str(&j, "stage", *f.stage != '\0' ? f.stage : NULL);
    json_put_f64(&j, "part", f.part >= 0 ? f.part : (double)NAN);
    json_put_u64(&j, "ended", f.n_ended);
    json_put_u64(&j, "runs", f.n_all);
    json_key(&j, "best");
    if (f.best != NULL)
        put_trial_json(&f, f.best, v->study, &j);
    else
        json_null(&j);
    json_put_array(&j, "trials");
    for (size_t i = 0; i < f.n; i++)
        put_trial_json(&f, &f.trial[i], v->study, &j);
    json_close(&j);
    json_print(&j, stdout);
}

/* ---- what comes in ---- */

/* Asks a live run how far it is. If it does not answer at once, its steps stay as they
 * are. */
static void ask(struct study_view *v, size_t run)
{
    struct control_client *c = NULL;
    struct arena arena = ARENA_ZERO;
    const struct msg *answer;
    const struct study_run_id id = study_stage_id(v->at, run);
    char *path = study_run_path(v->study, v->at->dir, &id);
    struct run_status s;
    const int64_t began_ms = monotonic_ms();
    const int64_t left_ms = ALL_ANSWER_WITHIN_MS - v->waited_ms;
    const int within_ms = left_ms > ANSWERS_WITHIN_MS ? ANSWERS_WITHIN_MS
                          : left_ms > AT_LEAST_MS     ? (int)left_ms
                                                      : AT_LEAST_MS;

    if (control_client_open(&c, path, within_ms, NULL) == 0) {
        msg_map(control_client_begin(c, "status"), 0);
        if (control_client_call(c, &answer, NULL) == 0) {
            run_status_unpack(&s, &answer->body, &arena);
            v->run[run].steps = s.env_steps;
        }
    }
    v->waited_ms += monotonic_ms() - began_ms;
    control_client_close(c);
    arena_done(&arena);
    free(path);
}

void study_view_begin(struct study_view *v)
{
    v->waited_ms = 0;
    v->stage = course_of(v->at, v->run_steps);
    v->n = v->at->n;
    v->run = xreallocarray(v->run, study_stage_n_runs(v->at) + 1, sizeof(*v->run));
    v->trial = xreallocarray(v->trial, v->n + 1, sizeof(*v->trial));
    for (size_t i = 0; i < v->n * v->study->n_seeds; i++) {
        struct study_run look = study_stage_look(v->at, i);

        v->run[i] = (struct run){v->at->trial[i / v->study->n_seeds],
                                 look.state == STUDY_RUN_REACHED  ? "done"
                                 : look.state == STUDY_RUN_FAILED ? "failed"
                                 : look.state == STUDY_RUN_LIVE   ? "running"
                                                                  : "waiting",
                                 look.steps, look.value};
        if (look.state == STUDY_RUN_LIVE)
            ask(v, i);
        study_run_done(&look);
    }
    draw(v);
}

void study_view_run(struct study_view *v, size_t run, const char *state, uint64_t steps,
                    double value)
{
    struct run *r = &v->run[run];

    *r = (struct run){r->trial, state, steps > 0 ? steps : r->steps, value};
}

void study_view_message(struct study_view *v, const char *text, size_t len)
{
    redraw_message(&v->screen, text, len);
    draw(v);
}

void study_view_tick(struct study_view *v)
{
    const double now = monotonic_s();
    char typed[256];
    size_t n, top;

    if (v->n_shown < v->n)
        terminal_keys_begin(&v->keys);
    n = terminal_keys_read(&v->keys, typed, sizeof(typed));
    top = redraw_scroll(v->top, v->n_shown, v->n, typed, n);
    if (now - v->refreshed_s >= REFRESH_S) {
        v->refreshed_s = now;
        v->waited_ms = 0;
        for (size_t i = 0; i < v->n * v->study->n_seeds; i++)
            if (strcmp(v->run[i].state, "running") == 0)
                ask(v, i);
    } else if (top == v->top) {
        return;
    }
    v->top = top;
    draw(v);
}

void study_view_suspend(struct study_view *v)
{
    terminal_keys_end(&v->keys);
}
