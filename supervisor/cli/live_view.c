#include "supervisor/cli/live_view.h"

#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "supervisor/cli/glyphs.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_COLUMNS = 80, DEFAULT_ROWS = 24, CURVES_MAX = 64 };
enum { LINE_EVERY_S = 10 };   /* if the output is not a terminal */
enum { NUMBERS_MAX = 16384 }; /* bounds the agents, whose names come from the run */

/* An agent's newest numbers. */
struct numbers {
    char *agent;
    struct view_numbers of;
};

struct live_view {
    int fd;
    int quiet;
    int terminal;
    int colour, utf8;
    struct wbuf shown;  /* the view's text, kept for redrawing */
    int drawn_lines;    /* of it now on the terminal; 0: nothing is drawn */
    int columns, rows;  /* of the terminal when it was drawn */
    int scrolled_off;   /* rows of earlier views that a lower terminal pushed out above */
    size_t top, n_rows; /* agents that are scrolled past; agents that are shown */
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
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    v->fd = fd;
    v->quiet = quiet;
    v->terminal = isatty(fd) && term != NULL && strcmp(term, "dumb") != 0;
    v->colour = v->terminal && (no_colour == NULL || *no_colour == '\0');
    v->utf8 = glyphs_are_utf8();
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
    wbuf_done(&v->shown);
    arena_done(&v->arena[0]);
    arena_done(&v->arena[1]);
    free(v);
}

int live_view_is_terminal(const struct live_view *v)
{
    return v->terminal;
}

static const char CLEAR_LINE[] = "\033[K", CLEAR_REST[] = "\033[J";

/* Ignores write errors: they mean that the reader has exited. */
static void write_plain(int fd, const char *p, size_t len)
{
    char shown[2048 * PLAIN_TEXT_GROWTH];

    (void)write_all(fd, shown, plain_text(shown, sizeof(shown), p, len));
}

static void window_size(int fd, int *ret_columns, int *ret_rows)
{
    struct winsize w;

    *ret_columns = DEFAULT_COLUMNS;
    *ret_rows = DEFAULT_ROWS;
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 0) {
        *ret_columns = w.ws_col;
        *ret_rows = w.ws_row;
    }
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

/* Moves the cursor to the beginning of what is drawn. A Ctrl-C that the terminal has echoed
 * leaves the cursor behind "^C".
 *
 * Terminals wrap lines again when they become narrower, and take rows from above when they
 * become lower, which come back when they become higher. */
static void go_up(struct live_view *v)
{
    char head[32];
    int columns, rows, up = v->drawn_lines;

    window_size(v->fd, &columns, &rows);
    if (up > 0 && columns < v->columns)
        up = view_rows_taken((const char *)v->shown.data, v->shown.len, columns);
    if (up > 0 && rows > v->rows && v->scrolled_off > 0) {
        const int back =
            rows - v->rows < v->scrolled_off ? rows - v->rows : v->scrolled_off;

        up += back;
        v->scrolled_off -= back;
    }
    if (up > rows - 1) {
        v->scrolled_off += up - (rows - 1);
        up = rows - 1;
    }
    v->columns = columns;
    v->rows = rows;
    v->drawn_lines = 0;
    (void)snprintf(head, sizeof(head), up > 0 ? "\r\033[%dA" : "\r", up);
    (void)write_all(v->fd, head, strlen(head));
}

/* Draws over what is below the cursor, line by line, and clears the rest. To clear all of it
 * first would flicker; and tmux keeps a screen that is cleared from its first row in its
 * history. rows 0: all agents. */
static void draw_frame(struct live_view *v, int rows)
{
    const struct view_frame f = {.status = &v->status,
                                 .numbers = on_numbers,
                                 .ctx = v,
                                 .curve = v->curve,
                                 .n_curves = v->n_curves,
                                 .columns = v->columns,
                                 .rows = rows,
                                 .colour = v->colour,
                                 .utf8 = v->utf8,
                                 .is_over = v->is_over,
                                 .top = v->top};
    struct wbuf out = {0};

    wbuf_clear(&v->shown);
    v->drawn_lines = view_layout(&f, &v->shown, &v->n_rows);
    for (size_t at = 0, len; at < v->shown.len; at += len) {
        const uint8_t *line = v->shown.data + at;

        len = (size_t)((const uint8_t *)memchr(line, '\n', v->shown.len - at) + 1 - line);
        wbuf_bytes(&out, CLEAR_LINE, strlen(CLEAR_LINE));
        wbuf_bytes(&out, line, len);
    }
    wbuf_bytes(&out, CLEAR_REST, strlen(CLEAR_REST));
    (void)write_all(v->fd, out.data, out.len);
    wbuf_done(&out);
}

static void show_line(struct live_view *v)
{
    const struct run_status *s = &v->status;
    char facts[256], line[512], mean[48] = "";
    double total = 0;
    size_t n = 0; /* a process that is no agent has no return */
    int len;

    for (size_t i = 0; i < s->n_agents; i++) {
        const double value = on_numbers(v, s->agents[i].name)->episode_return;

        total += isnan(value) ? 0 : value;
        n += !isnan(value);
    }
    if (n > 0)
        (void)snprintf(mean, sizeof(mean), "  return %.2f", total / (double)n);
    len = snprintf(line, sizeof(line), "%s: %s%s\n", s->run,
                   view_facts(s, v->is_over, 0, facts, sizeof(facts)), mean);
    write_plain(v->fd, line, len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

static void draw(struct live_view *v)
{
    if (v->quiet)
        return;
    if (!v->terminal) {
        show_line(v);
        return;
    }
    go_up(v);
    draw_frame(v, v->rows);
}

/* ---- the interface ---- */

int live_view_is_due(struct live_view *v)
{
    struct timespec t;
    double now;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    if (v->last_shown == 0)
        v->last_shown = now; /* the first interval starts now */
    if (!v->terminal && now - v->last_shown < LINE_EVERY_S)
        return 0;
    v->last_shown = now;
    return 1;
}

/* A process that is ending reports no memory: keep showing its last value until the
 * process is gone, and in the final view. */
static void keep_memory(struct run_status *to, const struct run_status *last)
{
    struct run_agent_status *a = (struct run_agent_status *)(uintptr_t)to->agents;

    const int is_last = strcmp(to->state, "stopping") == 0;

    for (size_t i = 0; i < to->n_agents && i < last->n_agents; i++)
        if (a[i].rss_bytes < 0 && (a[i].pid != 0 || is_last))
            a[i].rss_bytes = last->agents[i].rss_bytes;
}

void live_view_show(struct live_view *v, const struct run_status *s)
{
    struct arena last = v->arena[0];
    struct run_status next;

    run_status_copy(&next, s, &v->arena[1]);
    keep_memory(&next, &v->status);
    v->status = next;
    v->arena[0] = v->arena[1];
    v->arena[1] = last;
    arena_reset(&v->arena[1]);
    draw(v);
}

void live_view_show_end(struct live_view *v, uint64_t env_steps, uint64_t episodes)
{
    v->is_over = 1;
    if (!v->terminal || v->quiet || v->status.n_agents == 0)
        return;
    v->status.env_steps = env_steps;
    v->status.episodes = episodes != RUN_UNKNOWN ? episodes : 0;
    go_up(v);
    draw_frame(v, 0);
    v->drawn_lines = 0; /* it stays */
}

/* Returns the entry of agent_0 for metric "train/agent_0/critic_loss", prefix "train/"
 * and suffix "/critic_loss"; NULL if the metric has another form. */
static struct numbers *named_by(struct live_view *v, const char *metric,
                                const char *prefix, const char *suffix)
{
    const size_t p = strlen(prefix), n = strlen(metric), q = strlen(suffix);

    if (n <= p + q || strncmp(metric, prefix, p) != 0 ||
        strcmp(metric + n - q, suffix) != 0)
        return NULL;
    return numbers_of(v, metric + p, n - p - q);
}

void live_view_metric(struct live_view *v, const char *metric, double value)
{
    static const char team[] = "eval/team_return/";
    struct numbers *n;

    if (isnan(value))
        return;
    if (strncmp(metric, team, strlen(team)) == 0)
        add_evaluation(v, metric + strlen(team), value);
    else if ((n = named_by(v, metric, "rollout/return/", "")) != NULL)
        n->of.episode_return = value;
    else if ((n = named_by(v, metric, "train/", "/critic_loss")) != NULL)
        n->of.critic_loss = value;
    else if ((n = named_by(v, metric, "train/", "/actor_loss")) != NULL)
        n->of.actor_loss = value;
}

void live_view_message(struct live_view *v, const char *fmt, ...)
{
    const int is_drawn = v->drawn_lines > 0;
    char message[2048];
    va_list ap;
    size_t len;

    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    len = strlen(message);
    if (!v->terminal) {
        message[len < sizeof(message) - 1 ? len++ : len - 1] = '\n';
        write_plain(v->fd, message, len);
        return;
    }
    go_up(v);
    write_plain(v->fd, message, len);
    /* In the last column the cursor is still on the last character. */
    if (view_width(message, len) % v->columns != 0)
        (void)write_all(v->fd, "\033[J\n", 4);
    else
        (void)write_all(v->fd, "\n\033[J", 4);
    v->scrolled_off = 0; /* what is above is the message now */
    if (is_drawn)
        draw_frame(v, v->rows);
}

/* ---- keys ---- */

int live_view_hides(const struct live_view *v)
{
    return v->drawn_lines > 0 && v->n_rows < v->status.n_agents;
}

/* How far a key scrolls; 0: another key. *ret_len: its bytes. */
static long scroll_of(const struct live_view *v, const char *p, size_t n, size_t *ret_len)
{
    const long page = v->n_rows > 1 ? (long)v->n_rows - 1 : 1, all = NUMBERS_MAX;
    const struct {
        const char *bytes;
        long by;
    } keys[] = {{"\033[A", -1},     {"\033OA", -1},    {"\033[B", 1},    {"\033OB", 1},
                {"\033[5~", -page}, {"\033[6~", page}, {"\033[H", -all}, {"\033OH", -all},
                {"\033[F", all},    {"\033OF", all}};

    *ret_len = 1;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const size_t len = strlen(keys[i].bytes);

        if (len <= n && memcmp(p, keys[i].bytes, len) == 0) {
            *ret_len = len;
            return keys[i].by;
        }
    }
    return 0;
}

void live_view_keys(struct live_view *v, const char *keys, size_t n)
{
    const size_t agents = v->status.n_agents;
    const long max = agents > v->n_rows ? (long)(agents - v->n_rows) : 0;
    long top = (long)v->top;
    size_t len;

    for (size_t i = 0; i < n; i += len) {
        top += scroll_of(v, keys + i, n - i, &len);
        top = top < 0 ? 0 : top > max ? max : top;
    }
    if (top == (long)v->top)
        return;
    v->top = (size_t)top;
    if (v->drawn_lines > 0)
        draw(v);
}
