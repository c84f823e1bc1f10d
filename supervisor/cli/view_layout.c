#include "supervisor/cli/view_layout.h"

#include "common/mem/xmalloc.h"
#include "common/text/number_text.h"
#include "common/text/plain_text.h"
#include "common/text/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters ---- */

int glyphs_are_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *locale = getenv(variables[i]);

        if (locale != NULL && *locale != '\0')
            return strcasestr(locale, "UTF-8") != NULL ||
                   strcasestr(locale, "UTF8") != NULL;
    }
    return 0;
}

const char *glyph_level(int utf8, double part)
{
    static const char *const levels[2][GLYPH_LEVELS] = {
        {"_", ".", "-", "~", "=", "+", "*", "#"},
        {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};
    const double at = part > 0 ? fmin(part, 1) * (GLYPH_LEVELS - 1) : 0;

    return levels[utf8 != 0][lround(at)];
}

enum { NAME_MIN = 8, STATE_WIDTH = 13, RETURN_WIDTH = 9 };

void view_put(struct view_line *l, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(l->p + l->len, sizeof(l->p) - l->len, fmt, ap);
    va_end(ap);
    if (n > 0)
        l->len =
            l->len + (size_t)n < sizeof(l->p) ? l->len + (size_t)n : sizeof(l->p) - 1;
}

static const char *colour(const struct view_frame *f, const char *sequence)
{
    return f->colour ? sequence : "";
}

enum { DAY_S = 24 * 3600, YEAR_S = 365 * DAY_S };

const char *format_duration(double seconds, char *buf, size_t size)
{
    const long s = seconds > 0 ? lround(fmin(seconds, 2 * YEAR_S)) : 0;

    if (s > YEAR_S)
        (void)snprintf(buf, size, "more than a year");
    else if (s >= 2 * DAY_S)
        (void)snprintf(buf, size, "%ld days", (s + DAY_S / 2) / DAY_S);
    else if (s >= 3600)
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

/* ---- lines ---- */

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

void view_put_line(struct wbuf *ret, const struct view_line *l, int columns)
{
    int used = 0;

    for (size_t i = 0; i < l->len;) {
        const size_t sequence = colour_len(l->p + i);
        const size_t whole = utf8_len((const uint8_t *)l->p + i, l->len - i);
        const size_t in = whole != 0 ? whole : 1;
        char shown[3 * PLAIN_TEXT_GROWTH + 1];

        if (sequence > 0) {
            wbuf_bytes(ret, l->p + i, sequence);
            i += sequence;
            continue;
        }
        (void)plain_line(shown, sizeof(shown), l->p + i, in);
        used += in == whole && shown[0] == l->p[i] ? 1 : (int)strlen(shown);
        if (used <= columns)
            wbuf_bytes(ret, shown, strlen(shown));
        i += in;
    }
    wbuf_bytes(ret, "\n", 1);
}

int view_width(const char *text, size_t len)
{
    int used = 0;

    for (size_t i = 0; i < len;) {
        const size_t sequence = text[i] == '\033' ? colour_len(text + i) : 0;
        const size_t whole = utf8_len((const uint8_t *)text + i, len - i);

        used += sequence == 0;
        i += sequence > 0 ? sequence : whole > 0 ? whole : 1;
    }
    return used;
}

/* The number of bytes of the first n characters. */
static size_t bytes_of(const char *text, size_t len, int n)
{
    size_t at = 0;

    for (; n > 0 && at < len; n--) {
        const size_t whole = utf8_len((const uint8_t *)text + at, len - at);

        at += whole > 0 ? whole : 1;
    }
    return at;
}

void view_print_cell(FILE *f, const char *text, int width, enum view_column column)
{
    const size_t len = strlen(text);
    const char *dots = glyphs_are_utf8() ? "…" : "...";
    const int used = view_width(text, len), gap = view_width(dots, strlen(dots));
    const int kept = width > gap ? width - gap : 0;
    const int tail = column == VIEW_NAME ? kept / 2 : 0;

    if (used > width)
        (void)fprintf(f, "%.*s%s%s", (int)bytes_of(text, len, kept - tail), text, dots,
                      text + bytes_of(text, len, used - tail));
    else
        (void)fprintf(f, "%*s%s%*s", column == VIEW_RIGHT ? width - used : 0, "", text,
                      column == VIEW_RIGHT ? 0 : width - used, "");
}

int view_rows_taken(const char *text, size_t len, int columns)
{
    int rows = 0;

    for (size_t at = 0, n; at < len; at += n + 1) {
        const char *end = memchr(text + at, '\n', len - at);
        int width;

        n = end != NULL ? (size_t)(end - (text + at)) : len - at;
        width = view_width(text + at, n);
        rows += width > columns ? (width + columns - 1) / columns : 1;
    }
    return rows;
}

/* ---- the head ---- */

/* Which facts are written: each level leaves out one more. */
enum detail { ALL, NO_TOTAL, NO_STEPS, NO_RATE, N_DETAILS };

static void put_facts(struct view_line *l, const struct run_status *s, int is_over,
                      enum detail detail)
{
    const int in_episodes = s->total_steps == 0 && s->total_episodes != 0;
    const uint64_t total = in_episodes ? s->total_episodes : s->total_steps;
    const double part = run_status_part(s), left = s->seconds_left;
    const int runs = strcmp(s->state, "running") == 0;
    char a[32], b[32];

    if (part >= 0)
        view_put(l, "%3.0f %%", floor(100 * part));
    if (detail < NO_STEPS || part < 0) {
        view_put(l, "%s%s", part >= 0 ? "  " : "",
                 format_count(in_episodes ? s->episodes : s->env_steps, a, sizeof(a)));
        if (total != 0 && detail == ALL)
            view_put(l, " of %s", format_count(total, b, sizeof(b)));
        view_put(l, " %s", in_episodes ? "episodes" : "steps");
        if (total == 0 && detail == ALL && s->episodes != RUN_UNKNOWN)
            view_put(l, ", %s episodes", format_count(s->episodes, a, sizeof(a)));
    }
    if (detail < NO_RATE)
        view_put(l, "  %s%s/s",
                 format_count((uint64_t)fmax(0, s->steps_per_second), a, sizeof(a)),
                 s->total_steps != 0 ? "" : " steps");
    if (is_over)
        return;
    if (!runs)
        view_put(l, "  %s", s->state);
    else if (!isnan(left))
        view_put(l, "  %s left", format_duration(left, a, sizeof(a)));
}

const char *view_facts(const struct run_status *s, int is_over, int columns, char *ret,
                       size_t size)
{
    struct view_line l;

    for (int detail = ALL; detail < N_DETAILS; detail++) {
        l = (struct view_line){.len = 0};
        put_facts(&l, s, is_over, (enum detail)detail);
        if (columns <= 0 || (int)l.len <= columns)
            break;
    }
    (void)snprintf(ret, size, "%s", l.p);
    return ret;
}

void view_put_bar(struct view_line *l, double part, int width, int with_colour, int utf8)
{
    const int full = (int)lround(part * width);

    if (part < 0 || width < 4)
        return;
    view_put(l, "%s", with_colour ? VIEW_GREEN : "");
    for (int i = 0; i < full; i++)
        view_put(l, "%s", utf8 ? "█" : "#");
    view_put(l, "%s", with_colour ? VIEW_GREY : "");
    for (int i = full; i < width; i++)
        view_put(l, "%s", utf8 ? "░" : ".");
    view_put(l, "%s  ", with_colour ? VIEW_PLAIN : "");
}

/* Puts the head. A long name is cut to leave room for the facts. */
static void put_head(struct wbuf *ret, const struct view_frame *f)
{
    const struct run_status *s = f->status;
    const int len = (int)strlen(s->run);
    const int half = f->columns / 2 > NAME_MIN ? f->columns / 2 : NAME_MIN;
    int name = len < half ? len : half, left, bar;
    struct view_line l = {.len = 0};
    char facts[256];

    (void)view_facts(s, f->is_over, f->columns - name - 2, facts, sizeof(facts));
    left = f->columns - (int)strlen(facts) - 2;
    bar = left - name - 4;
    if (bar < 4 && left > name) /* there is no room for a bar: the name gets it */
        name = left;
    view_put(&l, "%s%.*s%s  ", colour(f, VIEW_BOLD), name, s->run, colour(f, VIEW_PLAIN));
    view_put_bar(&l, run_status_part(s), bar < VIEW_BAR_MAX ? bar : VIEW_BAR_MAX,
                 f->colour, f->utf8);
    view_put(&l, "%s", facts);
    view_put_line(ret, &l, f->columns);
}

/* ---- evaluations ---- */

static void put_curve(struct view_line *l, const struct view_frame *f,
                      const struct view_curve *c)
{
    double low = INFINITY, high = -INFINITY;
    char newest[NUMBER_TEXT_BYTES];

    for (size_t i = 0; i < c->n; i++) {
        low = fmin(low, c->value[i]);
        high = fmax(high, c->value[i]);
    }
    view_put(l, "  %s%s%s ", f->n_curves > 1 ? c->team : "", f->n_curves > 1 ? " " : "",
             number_text(c->value[c->n - 1], 2, newest));
    for (size_t i = 0; i < c->n; i++)
        view_put(
            l, "%s",
            glyph_level(f->utf8, high > low ? (c->value[i] - low) / (high - low) : 0));
}

/* ---- nodes ---- */

/* Puts how many nodes are up, and the names and states of the others. */
static int put_nodes(struct wbuf *ret, const struct view_frame *f)
{
    const struct run_status *s = f->status;
    struct view_line l = {.len = 0};
    size_t n_up = 0;

    if (s->n_nodes == 0 || f->is_over)
        return 0;
    for (size_t i = 0; i < s->n_nodes; i++)
        n_up += strcmp(s->nodes[i].state, "up") == 0;
    view_put(&l, "%snodes%s  %zu of %zu up", colour(f, VIEW_GREY), colour(f, VIEW_PLAIN),
             n_up, s->n_nodes);
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct run_node_status *n = &s->nodes[i];

        if (strcmp(n->state, "up") == 0)
            continue;
        view_put(&l, ", %s%s%s%s %s", n->name, n->host != NULL ? " (" : "",
                 n->host != NULL ? n->host : "", n->host != NULL ? ")" : "", n->state);
    }
    view_put_line(ret, &l, f->columns);
    return 1;
}

/* ---- the table ---- */

enum column { PID, RESTARTS, CRITIC_LOSS, ACTOR_LOSS, MEMORY, HOST, N_OPTIONAL };

enum { HOST_WIDTH = 18 };

struct table {
    int name; /* width of the first column */
    int has[N_OPTIONAL];
};

static struct table table_of(const struct view_frame *f)
{
    static const int width[N_OPTIONAL] = {8, 9, 12, 11, 9, HOST_WIDTH};
    static const enum column drop[] = {HOST,        MEMORY, ACTOR_LOSS,
                                       CRITIC_LOSS, PID,    RESTARTS};
    struct table t = {.name = NAME_MIN, .has = {1, 1, 1, 1, 1, 0}};
    int used;

    for (size_t i = 0; i < f->status->n_agents; i++) {
        const int len = (int)strlen(f->status->agents[i].name);

        t.name = len > t.name ? len : t.name;
    }
    t.has[HOST] = run_status_is_spread(f->status);
    used = t.name + STATE_WIDTH + RETURN_WIDTH;
    for (int i = 0; i < N_OPTIONAL; i++)
        used += t.has[i] ? width[i] : 0;
    for (int i = 0; i < N_OPTIONAL && used > f->columns; i++) {
        used -= t.has[drop[i]] ? width[drop[i]] : 0;
        t.has[drop[i]] = 0;
    }
    if (used > f->columns)
        t.name = t.name - (used - f->columns) > NAME_MIN ? t.name - (used - f->columns)
                                                         : NAME_MIN;
    return t;
}

static void put_table_head(struct wbuf *ret, const struct view_frame *f,
                           const struct table *t)
{
    struct view_line l = {.len = 0};

    view_put(&l, "%s%-*s", colour(f, VIEW_GREY), t->name, "agent");
    if (t->has[PID])
        view_put(&l, " %7s", "pid");
    view_put(&l, "  %-11s", "state");
    if (t->has[RESTARTS])
        view_put(&l, " %8s", "restarts");
    view_put(&l, "%9s", "return");
    if (t->has[CRITIC_LOSS])
        view_put(&l, "%12s", "critic loss");
    if (t->has[ACTOR_LOSS])
        view_put(&l, "%11s", "actor loss");
    if (t->has[MEMORY])
        view_put(&l, "%9s", "memory");
    if (t->has[HOST])
        view_put(&l, "  %s", "host");
    view_put(&l, "%s", colour(f, VIEW_PLAIN));
    view_put_line(ret, &l, f->columns);
}

static void put_number(struct view_line *l, int width, double x)
{
    if (isnan(x))
        view_put(l, "%*s", width, "-");
    else
        view_put(l, "%*.4g", width, x);
}

static void put_agent(struct wbuf *ret, const struct view_frame *f, const struct table *t,
                      const struct run_agent_status *a)
{
    const struct view_numbers *n = f->numbers(f->ctx, a->name);
    const int is_cut = (int)strlen(a->name) > t->name;
    struct view_line l = {.len = 0};

    view_put(&l, "%-*.*s%s", t->name - is_cut, t->name - is_cut, a->name,
             is_cut ? "~" : "");
    if (t->has[PID])
        view_put(&l, " %7d", (int)a->pid);
    view_put(&l, "  %-11s", run_agent_shown_state(a));
    if (t->has[RESTARTS])
        view_put(&l, " %8llu", (unsigned long long)a->restarts);
    put_number(&l, RETURN_WIDTH, n->episode_return);
    if (t->has[CRITIC_LOSS])
        put_number(&l, 12, n->critic_loss);
    if (t->has[ACTOR_LOSS])
        put_number(&l, 11, n->actor_loss);
    if (t->has[MEMORY] && a->rss_bytes >= 0)
        view_put(&l, "%6.1f MB", (double)a->rss_bytes / 1e6);
    else if (t->has[MEMORY] && t->has[HOST])
        view_put(&l, "%9s", "-");
    if (t->has[HOST])
        view_put(&l, "  %.16s", a->host != NULL ? a->host : "-");
    view_put_line(ret, &l, f->columns);
}

/* ---- more agents than rows ---- */

static int works(const struct run_agent_status *a)
{
    return a->given_up == NULL &&
           (strcmp(a->state, "busy") == 0 || strcmp(a->state, "idle") == 0);
}

/* The agents, those that do not work first. free() the list. */
static const struct run_agent_status **in_order(const struct run_status *s)
{
    const struct run_agent_status **ret =
        xcalloc(s->n_agents + 1, sizeof(struct run_agent_status *));
    size_t n = 0;

    for (int working = 0; working < 2; working++)
        for (size_t i = 0; i < s->n_agents; i++)
            if (works(&s->agents[i]) == working)
                ret[n++] = &s->agents[i];
    return ret;
}

/* The state under which a hidden agent is counted. */
static const char *summed_state(const struct run_agent_status *a)
{
    const int starts = !works(a) && a->given_up == NULL && a->restarts > 0 &&
                       strcmp(a->state, "stopping") != 0 && strcmp(a->state, "gone") != 0;

    return starts ? "restarting" : run_agent_shown_state(a);
}

/* Counts the hidden agents: the first `before` of the list and those from `after` on. */
static void put_hidden(struct wbuf *ret, const struct view_frame *f,
                       const struct run_agent_status *const *agents, size_t before,
                       size_t after)
{
    enum { STATES_MAX = 16 };
    const size_t n = f->status->n_agents;
    const char *state[STATES_MAX];
    size_t count[STATES_MAX], n_states = 0;
    struct view_line l = {.len = 0};

    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        if (i >= before && i < after)
            continue;
        while (k < n_states && strcmp(state[k], summed_state(agents[i])) != 0)
            k++;
        if (k == n_states && n_states < STATES_MAX) {
            state[n_states] = summed_state(agents[i]);
            count[n_states++] = 0;
        }
        if (k < n_states)
            count[k]++;
    }
    view_put(&l, "%s+%zu more:", colour(f, VIEW_GREY), n - (after - before));
    for (size_t k = n_states; k > 0; k--) /* backwards: working agents are counted last */
        view_put(&l, "%s %zu %s", k < n_states ? "," : "", count[k - 1], state[k - 1]);
    view_put(&l, "%s", colour(f, VIEW_PLAIN));
    view_put_line(ret, &l, f->columns);
}

int view_layout(const struct view_frame *f, struct wbuf *ret, size_t *ret_shown)
{
    const size_t n = f->status->n_agents;
    const struct run_agent_status **agents;
    struct table t = table_of(f);
    int lines = 1;
    size_t room, from, to;

    *ret_shown = 0;
    put_head(ret, f);
    if (f->n_curves > 0 && (f->rows == 0 || f->rows > 5)) {
        struct view_line l = {.len = 0};

        view_put(&l, "%sevaluation%s", colour(f, VIEW_GREY), colour(f, VIEW_PLAIN));
        for (size_t i = 0; i < f->n_curves; i++)
            put_curve(&l, f, &f->curve[i]);
        view_put_line(ret, &l, f->columns);
        lines++;
    }
    if (f->rows == 0 || f->rows > 6)
        lines += put_nodes(ret, f);
    room = f->rows == 0 ? n : f->rows - 2 > lines ? (size_t)(f->rows - 2 - lines) : 0;
    if (room == 0 && n > 0)
        return lines;
    put_table_head(ret, f, &t);
    lines++;
    if (n <= room) {
        for (size_t i = 0; i < n; i++)
            put_agent(ret, f, &t, &f->status->agents[i]);
        *ret_shown = n;
        return lines + (int)n;
    }
    agents = in_order(f->status);
    from = f->top + room - 1 <= n ? f->top : n - (room - 1);
    to = from + room - 1;
    for (size_t i = from; i < to; i++)
        put_agent(ret, f, &t, agents[i]);
    put_hidden(ret, f, agents, from, to);
    free(agents);
    *ret_shown = to - from;
    return lines + (int)room;
}
