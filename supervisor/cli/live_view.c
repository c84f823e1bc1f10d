#include "supervisor/cli/live_view.h"

#include "common/io/monotonic.h"
#include "common/mem/xmalloc.h"
#include "common/text/number_text.h"
#include "common/text/scan.h"
#include "supervisor/cli/redraw.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CURVES_MAX = 64 };
enum { LINE_EVERY_S = 10 };   /* if the output is not a terminal */
enum { NUMBERS_MAX = 16384 }; /* bounds the agents, whose names come from the run */

/* An agent's newest numbers. */
struct numbers {
    char *agent;
    struct view_numbers of;
};

struct live_view {
    int quiet;
    struct redraw screen;
    size_t top, n_rows;       /* agents that are scrolled past; agents that are shown */
    struct run_status status; /* the last one; all-zero: none yet */
    struct arena arena[2];    /* one holds the status, the other its successor */
    struct numbers *numbers;
    size_t n_numbers, last_numbers; /* the number of entries; the last one looked up */
    struct numbers one_too_many;
    struct view_curve *curve; /* by team */
    size_t n_curves;
    int is_over;
    double last_shown;
};

struct live_view *live_view_new(int fd, int quiet)
{
    struct live_view *v = xcalloc(1, sizeof(*v));

    redraw_init(&v->screen, fd);
    v->quiet = quiet;
    return v;
}

void live_view_free(struct live_view *v)
{
    for (size_t i = 0; i < v->n_numbers; i++)
        free(v->numbers[i].agent);
    for (size_t i = 0; i < v->n_curves; i++)
        free(v->curve[i].team);
    free(v->curve);
    free(v->numbers);
    redraw_done(&v->screen);
    arena_done(&v->arena[0]);
    arena_done(&v->arena[1]);
    free(v);
}

/* ---- numbers ---- */

/* Returns an agent's entry, and creates it if necessary. The search starts at the entry
 * found last, because agents are looked up in the same order each time. */
static struct numbers *numbers_of(struct live_view *v, const char *agent, size_t len)
{
    static const struct numbers unknown = {.of = {(double)NAN, (double)NAN, (double)NAN}};

    for (size_t i = 0; i < v->n_numbers; i++) {
        const size_t at = (v->last_numbers + i) % v->n_numbers;

        if (strlen(v->numbers[at].agent) == len &&
            memcmp(v->numbers[at].agent, agent, len) == 0) {
            v->last_numbers = at;
            return &v->numbers[at];
        }
    }
    if (v->n_numbers == NUMBERS_MAX) {
        v->one_too_many = unknown;
        return &v->one_too_many;
    }
    v->numbers = xreallocarray(v->numbers, v->n_numbers + 1, sizeof(*v->numbers));
    v->numbers[v->n_numbers] = unknown;
    v->numbers[v->n_numbers].agent = xstrndup(agent, len);
    return &v->numbers[v->n_numbers++];
}

static const struct view_numbers *on_numbers(void *ctx, const char *agent)
{
    return &numbers_of(ctx, agent, strlen(agent))->of;
}

static void add_evaluation(struct live_view *v, const char *team, double value)
{
    struct view_curve *c;
    size_t i = 0;

    while (i < v->n_curves && strcmp(v->curve[i].team, team) != 0)
        i++;
    if (i == CURVES_MAX)
        return;
    if (i == v->n_curves) {
        v->curve = xreallocarray(v->curve, i + 1, sizeof(*v->curve));
        v->curve[v->n_curves++] = (struct view_curve){.team = xstrdup(team)};
    }
    c = &v->curve[i];
    if (c->n == VIEW_CURVE_POINTS)
        memmove(c->value, c->value + 1, --c->n * sizeof(*c->value));
    c->value[c->n++] = value;
}

/* ---- drawing ---- */

/* of_all: draws all agents, even if the terminal has too few rows. */
static void draw_frame(struct live_view *v, int of_all)
{
    struct wbuf *lines = redraw_begin(&v->screen);
    const struct view_frame f = {.status = &v->status,
                                 .numbers = on_numbers,
                                 .ctx = v,
                                 .curve = v->curve,
                                 .n_curves = v->n_curves,
                                 .columns = v->screen.columns,
                                 .rows = of_all ? 0 : v->screen.rows,
                                 .colour = v->screen.colour,
                                 .utf8 = v->screen.utf8,
                                 .is_over = v->is_over,
                                 .top = v->top};

    redraw_show(&v->screen, view_layout(&f, lines, &v->n_rows));
}

/* Without a terminal the view is a line. */
static void draw(struct live_view *v)
{
    const struct run_status *s = &v->status;
    char facts[256], line[512], mean[48] = "", number[NUMBER_TEXT_BYTES];
    double total = 0;
    size_t n = 0; /* a process that is no agent has no return */
    int len;

    if (v->quiet)
        return;
    if (v->screen.terminal) {
        draw_frame(v, 0);
        return;
    }
    for (size_t i = 0; i < s->n_agents; i++) {
        const double value = on_numbers(v, s->agents[i].name)->episode_return;

        total += isnan(value) ? 0 : value;
        n += !isnan(value);
    }
    if (n > 0)
        (void)snprintf(mean, sizeof(mean), "  return %s",
                       number_text(total / (double)n, 2, number));
    len = snprintf(line, sizeof(line), "%s: %s%s", s->run,
                   view_facts(s, v->is_over, 0, facts, sizeof(facts)), mean);
    redraw_message(&v->screen, line,
                   len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

/* ---- the interface ---- */

int live_view_is_due(struct live_view *v)
{
    const double now = monotonic_s();

    if (v->last_shown == 0)
        v->last_shown = now; /* the first interval starts now */
    if (!v->screen.terminal && now - v->last_shown < LINE_EVERY_S)
        return 0;
    v->last_shown = now;
    return 1;
}

void live_view_show(struct live_view *v, const struct run_status *s)
{
    const int is_last = strcmp(s->state, "stopping") == 0;
    struct arena last = v->arena[0];
    struct run_agent_status *a;
    struct run_status next;

    run_status_copy(&next, s, &v->arena[1]);
    /* A process that is ending reports no memory: keep showing its last value until the
     * process is gone, and in the final view. */
    a = (struct run_agent_status *)(uintptr_t)next.agents;
    for (size_t i = 0; i < next.n_agents && i < v->status.n_agents; i++)
        if (a[i].rss_bytes < 0 && (a[i].pid != 0 || is_last))
            a[i].rss_bytes = v->status.agents[i].rss_bytes;
    v->status = next;
    v->arena[0] = v->arena[1];
    v->arena[1] = last;
    arena_reset(&v->arena[1]);
    draw(v);
}

void live_view_show_end(struct live_view *v, uint64_t env_steps, uint64_t episodes)
{
    v->is_over = 1;
    if (!v->screen.terminal || v->quiet || v->status.n_agents == 0)
        return;
    v->status.env_steps = env_steps;
    v->status.episodes = episodes != RUN_UNKNOWN ? episodes : 0;
    draw_frame(v, 1);
    redraw_keep(&v->screen);
}

/* Returns the entry of agent_0 for metric "train/agent_0/critic_loss", prefix "train/"
 * and suffix "/critic_loss"; NULL if the metric has another form. */
static struct numbers *named_by(struct live_view *v, const char *metric,
                                const char *prefix, const char *suffix)
{
    const char *name = text_after(metric, prefix);

    return name != NULL && text_ends_with(name, suffix)
               ? numbers_of(v, name, strlen(name) - strlen(suffix))
               : NULL;
}

void live_view_metric(struct live_view *v, const char *metric, double value)
{
    const char *team = text_after(metric, "eval/team_return/");
    struct numbers *n;

    if (isnan(value))
        return;
    if (team != NULL)
        add_evaluation(v, team, value);
    else if ((n = named_by(v, metric, "rollout/return/", "")) != NULL)
        n->of.episode_return = value;
    else if ((n = named_by(v, metric, "train/", "/critic_loss")) != NULL)
        n->of.critic_loss = value;
    else if ((n = named_by(v, metric, "train/", "/actor_loss")) != NULL)
        n->of.actor_loss = value;
}

void live_view_message(struct live_view *v, const char *fmt, ...)
{
    const int is_drawn = v->screen.lines > 0;
    char message[2048];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    redraw_message(&v->screen, message, strlen(message));
    if (is_drawn)
        draw_frame(v, 0);
}

/* ---- keys ---- */

int live_view_hides(const struct live_view *v)
{
    return v->screen.lines > 0 && v->n_rows < v->status.n_agents;
}

void live_view_keys(struct live_view *v, const char *keys, size_t n)
{
    const size_t top = redraw_scroll(v->top, v->n_rows, v->status.n_agents, keys, n);

    if (top == v->top)
        return;
    v->top = top;
    if (v->screen.lines > 0)
        draw(v);
}
