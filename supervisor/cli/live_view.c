#include "supervisor/cli/live_view.h"

#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "common/text/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16, DEFAULT_COLUMNS = 80, DEFAULT_ROWS = 24, BAR_MAX = 40 };
enum { LINE_EVERY_S = 10 };   /* if the output is not a terminal */
enum { NUMBERS_MAX = 16384 }; /* bounds the agents, whose names come from the run */

/* An agent's newest numbers. */
struct numbers {
    char *agent;
    double episode_return, critic_loss, actor_loss; /* NaN: not known yet */
};

struct live_view {
    int fd;
    int quiet;
    int terminal;
    int colour;
    int drawn_lines;  /* lines of the view now on the terminal */
    size_t shown_len; /* of `shown`, the view's text, kept for redrawing */
    char shown[TEXT_BYTES];
    struct run_status status; /* the last one; all-zero: none yet */
    struct arena arena[2];    /* one holds the status, the other its successor */
    struct numbers *numbers;
    size_t n_numbers, last_numbers; /* the number of entries; the last one looked up */
    struct numbers one_too_many;
    double last_shown;
};

/* A text that is being written; it is cut where the buffer is full. */
struct text {
    char *p;
    size_t len, size;
};

static void put(struct text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(t->p + t->len, t->size - t->len, fmt, ap);
    va_end(ap);
    if (n > 0)
        t->len = t->len + (size_t)n < t->size ? t->len + (size_t)n : t->size - 1;
}

const char *format_duration(double seconds, char *buf, size_t size)
{
    long s = seconds > 0 && seconds < 1e9 ? lround(seconds) : 0;

    if (s >= 3600)
        (void)snprintf(buf, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        (void)snprintf(buf, size, "%ld:%02ld", s / 60, s % 60);
    return buf;
}

const char *format_count(uint64_t n, char *buf, size_t size)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
    size_t at = 0;

    for (int i = 0; i < len && at + 2 < size; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

struct live_view *live_view_new(int fd, int quiet)
{
    struct live_view *v = xcalloc(1, sizeof(*v));
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    v->fd = fd;
    v->quiet = quiet;
    v->terminal = isatty(fd) && term != NULL && strcmp(term, "dumb") != 0;
    v->colour = v->terminal && (no_colour == NULL || *no_colour == '\0');
    return v;
}

void live_view_free(struct live_view *v)
{
    for (size_t i = 0; i < v->n_numbers; i++)
        free(v->numbers[i].agent);
    free(v->numbers);
    arena_done(&v->arena[0]);
    arena_done(&v->arena[1]);
    free(v);
}

int live_view_is_terminal(const struct live_view *v)
{
    return v->terminal;
}

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

static double seconds_left(const struct run_status *s)
{
    const double part = run_status_part(s);

    if (part >= 1)
        return 0;
    if (s->total_steps != 0 && s->steps_per_second > 0)
        return (double)(s->total_steps - s->env_steps) / s->steps_per_second;
    if (s->total_episodes != 0 && part > 0)
        return s->elapsed_s * (1 - part) / part;
    return NAN;
}

static void put_facts(struct text *t, const struct run_status *s)
{
    char a[32], b[32];
    double left = seconds_left(s);

    if (s->total_steps != 0)
        put(t, "%3.0f %%  %s of %s steps", 100 * run_status_part(s),
            format_count(s->env_steps, a, sizeof(a)),
            format_count(s->total_steps, b, sizeof(b)));
    else if (s->total_episodes != 0)
        put(t, "%3.0f %%  %s of %s episodes", 100 * run_status_part(s),
            format_count(s->episodes, a, sizeof(a)),
            format_count(s->total_episodes, b, sizeof(b)));
    else
        put(t, "%s steps, %s episodes", format_count(s->env_steps, a, sizeof(a)),
            format_count(s->episodes, b, sizeof(b)));
    put(t, "  %s%s/s", format_count((uint64_t)fmax(0, s->steps_per_second), a, sizeof(a)),
        s->total_steps != 0 ? "" : " steps");
    if (!isnan(left))
        put(t, "  %s left", format_duration(left, a, sizeof(a)));
}

static void put_bar(struct text *t, const struct live_view *v, double part, int width)
{
    int full = (int)lround(part * width);

    if (part < 0 || width < 4)
        return;
    put(t, "%s", v->colour ? "\033[32m" : "");
    for (int i = 0; i < full; i++)
        put(t, "█");
    put(t, "%s", v->colour ? "\033[90m" : "");
    for (int i = full; i < width; i++)
        put(t, "░");
    put(t, "%s  ", v->colour ? "\033[0m" : "");
}

/* Returns an agent's entry, and creates it if necessary. The search starts at the entry
 * found last, because agents are looked up in the same order each time. */
static struct numbers *numbers_of(struct live_view *v, const char *agent, size_t len)
{
    static const struct numbers unknown = {.episode_return = (double)NAN,
                                           .critic_loss = (double)NAN,
                                           .actor_loss = (double)NAN};

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

static void put_number(struct text *t, int width, double x)
{
    if (isnan(x))
        put(t, "%*s", width, "-");
    else
        put(t, "%*.4g", width, x);
}

static void put_agent(struct text *t, int name_width, const struct run_agent_status *a,
                      const struct numbers *n)
{
    put(t, "%-*s %7d  %-11s %8llu", name_width, a->name, (int)a->pid,
        run_agent_shown_state(a), (unsigned long long)a->restarts);
    put_number(t, 9, n->episode_return);
    put_number(t, 12, n->critic_loss);
    put_number(t, 11, n->actor_loss);
    if (a->rss_bytes >= 0)
        put(t, "%6.1f MB", (double)a->rss_bytes / 1e6);
}

/* Length of a colour sequence such as "\033[32m" at p; 0 if there is none. */
static size_t colour_len(const char *p)
{
    size_t n = 2;

    if (p[0] != '\033' || p[1] != '[')
        return 0;
    while (p[n] >= '0' && p[n] <= '9')
        n++;
    return p[n] == 'm' ? n + 1 : 0;
}

/* Appends the line, cut after `columns` characters. Colours do not count; all other
 * escape sequences are removed. */
static void put_line(struct text *t, const char *line, int columns)
{
    const size_t len = strlen(line);
    int used = 0;

    for (size_t i = 0; i < len;) {
        const size_t colour = colour_len(line + i);
        const size_t whole = utf8_len((const uint8_t *)line + i, len - i);
        const size_t in = whole != 0 ? whole : 1;
        char shown[8];

        if (colour > 0) {
            put(t, "%.*s", (int)colour, line + i);
            i += colour;
            continue;
        }
        (void)plain_text(shown, sizeof(shown), line + i, in);
        used += in == whole && shown[0] == line[i] ? 1 : (int)strlen(shown);
        if (used <= columns)
            put(t, "%s", shown);
        i += in;
    }
    put(t, "\n");
}

static void put_head(struct text *t, const struct live_view *v,
                     const struct run_status *s, int columns)
{
    struct text facts = {(char[256]){0}, 0, 256}, line = {(char[1024]){0}, 0, 1024};
    int bar;

    put_facts(&facts, s);
    bar = columns - (int)facts.len - (int)strlen(s->run) - 6;
    put(&line, "%s%s%s  ", v->colour ? "\033[1m" : "", s->run,
        v->colour ? "\033[0m" : "");
    put_bar(&line, v, run_status_part(s), bar < BAR_MAX ? bar : BAR_MAX);
    put(&line, "%s", facts.p);
    put_line(t, line.p, columns);
}

/* Lays the view out in v->shown; returns its lines. */
static int lay_out(struct live_view *v, const struct run_status *s)
{
    struct text t = {v->shown, 0, sizeof(v->shown)};
    struct text line = {(char[512]){0}, 0, 512};
    int columns, rows, lines = 2, name_width = 8;

    window_size(v->fd, &columns, &rows);
    put_head(&t, v, s, columns);
    for (size_t i = 0; i < s->n_agents; i++) {
        if ((int)strlen(s->agents[i].name) > name_width)
            name_width = (int)strlen(s->agents[i].name);
    }
    put(&line, "%s%-*s %7s  %-11s %8s%9s%12s%11s%9s%s", v->colour ? "\033[90m" : "",
        name_width, "agent", "pid", "state", "restarts", "return", "critic loss",
        "actor loss", "memory", v->colour ? "\033[0m" : "");
    put_line(&t, line.p, columns);
    for (size_t i = 0; i < s->n_agents && lines < rows - 2; i++, lines++) {
        line.len = 0;
        put_agent(&line, name_width, &s->agents[i],
                  numbers_of(v, s->agents[i].name, strlen(s->agents[i].name)));
        put_line(&t, line.p, columns);
    }
    v->shown_len = t.len;
    return lines;
}

static void erase(struct live_view *v, struct text *t)
{
    if (v->drawn_lines > 0)
        put(t, "\033[%dA\033[J", v->drawn_lines);
    v->drawn_lines = 0;
}

static void show_line(struct live_view *v)
{
    const struct run_status *s = &v->status;
    struct text t = {(char[512]){0}, 0, 512};
    double total = 0;
    size_t n = 0; /* a process that is no agent has no return */

    put(&t, "%s: ", s->run);
    put_facts(&t, s);
    for (size_t i = 0; i < s->n_agents; i++) {
        const char *name = s->agents[i].name;
        const double value = numbers_of(v, name, strlen(name))->episode_return;

        total += isnan(value) ? 0 : value;
        n += !isnan(value);
    }
    if (n > 0)
        put(&t, "  return %.2f", total / (double)n);
    put(&t, "\n");
    write_plain(v->fd, t.p, t.len);
}

static void draw(struct live_view *v)
{
    char head[32];
    struct text t = {head, 0, sizeof(head)};
    int lines;

    if (v->quiet)
        return;
    if (!v->terminal) {
        show_line(v);
        return;
    }
    erase(v, &t);
    (void)write_all(v->fd, head, t.len);
    lines = lay_out(v, &v->status);
    (void)write_all(v->fd, v->shown, v->shown_len);
    v->drawn_lines = lines;
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
    if (!v->terminal || v->status.n_agents == 0)
        return;
    v->status.env_steps = env_steps;
    v->status.episodes = episodes != RUN_UNKNOWN ? episodes : 0;
    draw(v);
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
    struct numbers *n;

    if (isnan(value))
        return;
    if ((n = named_by(v, metric, "rollout/return/", "")) != NULL)
        n->episode_return = value;
    else if ((n = named_by(v, metric, "train/", "/critic_loss")) != NULL)
        n->critic_loss = value;
    else if ((n = named_by(v, metric, "train/", "/actor_loss")) != NULL)
        n->actor_loss = value;
}

void live_view_message(struct live_view *v, const char *fmt, ...)
{
    char head[32], message[2048];
    struct text t = {head, 0, sizeof(head)}, m = {message, 0, sizeof(message) - 1};
    int lines = v->drawn_lines;
    va_list ap;
    int n;

    erase(v, &t);
    va_start(ap, fmt);
    n = vsnprintf(m.p, m.size, fmt, ap);
    va_end(ap);
    if (n > 0)
        m.len = (size_t)n < m.size ? (size_t)n : m.size - 1;
    m.p[m.len++] = '\n';
    (void)write_all(v->fd, t.p, t.len);
    write_plain(v->fd, m.p, m.len);
    if (lines > 0) {
        (void)write_all(v->fd, v->shown, v->shown_len);
        v->drawn_lines = lines;
    }
}
