#include "supervisor/metrics/metrics.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCALAR_NAME_MAX = 48, STATE_VERSION = 1 };

/* The scalars that every actor-critic algorithm returns; norms are before clipping. */
static const char *const standard[] = {
    "critic_loss",  "actor_loss",       "q_mean",          "target_q_mean",
    "target_q_std", "critic_grad_norm", "actor_grad_norm",
};
enum { N_STANDARD = sizeof(standard) / sizeof(standard[0]) };

enum { TIME_STEPS_PER_SECOND, TIME_ROUND_US, TIME_LEARN_MS, N_TIME };
static const char *const time_names[N_TIME] = {
    [TIME_STEPS_PER_SECOND] = "time/env_steps_per_second",
    [TIME_ROUND_US] = "time/round_us",
    [TIME_LEARN_MS] = "time/learn_ms",
};

struct mean {
    double sum;
    uint64_t count;
};

struct metrics {
    size_t n_agents, n_teams;
    char **agents; /* [n_agents + central] */
    size_t n_named;
    size_t room; /* for series */
    char **teams;
    size_t *team_of;   /* [A] */
    size_t *team_size; /* [teams] */
    double *team_mean; /* [teams] scratch */

    /* Series, in the order of the header; the arrays have room for the maximum. */
    size_t n, n_fixed;
    size_t rollout, eval, train, time; /* index of the first series of each kind */
    char **names;
    struct mean *acc, *marked;
    double *values;
    size_t *n_extra; /* [n_named] number of non-standard scalars */

    uint64_t row_steps, row_ns; /* where the last row ended */

    const char *watched; /* name of a column, borrowed; NULL: none is watched */
    void (*on_value)(void *ctx, double value);
    void *ctx;
};

static size_t add_series(struct metrics *m, char *name)
{
    m->names[m->n] = name;
    return m->n++;
}

/* Adds series for returns, team returns and length under one prefix; returns the index of
 * the first. */
static size_t add_episode_series(struct metrics *m, const char *prefix)
{
    size_t first = m->n;

    for (size_t a = 0; a < m->n_agents; a++)
        add_series(m, xasprintf("%s/return/%s", prefix, m->agents[a]));
    for (size_t t = 0; t < m->n_teams; t++)
        add_series(m, xasprintf("%s/team_return/%s", prefix, m->teams[t]));
    add_series(m, xasprintf("%s/episode_length", prefix));
    return first;
}

static void add_fixed_series(struct metrics *m)
{
    m->rollout = add_episode_series(m, "rollout");
    m->eval = add_episode_series(m, "eval");
    m->train = m->n;
    for (size_t a = 0; a < m->n_agents; a++)
        for (size_t i = 0; i < N_STANDARD; i++)
            add_series(m, xasprintf("train/%s/%s", m->agents[a], standard[i]));
    m->time = m->n;
    for (size_t i = 0; i < N_TIME; i++)
        add_series(m, xstrdup(time_names[i]));
    m->n_fixed = m->n;
}

static size_t find_team(struct metrics *m, const char *name)
{
    size_t t = 0;

    while (t < m->n_teams && strcmp(m->teams[t], name) != 0)
        t++;
    if (t == m->n_teams)
        m->teams[m->n_teams++] = xstrdup(name);
    return t;
}

struct metrics *metrics_new(const char *const *names, const char *const *teams,
                            size_t n_agents, int central, uint64_t now_ns)
{
    struct metrics *m = xcalloc(1, sizeof(*m));
    size_t room;

    m->n_agents = n_agents;
    m->n_named = n_agents + (central != 0);
    m->agents = xcalloc(m->n_named, sizeof(*m->agents));
    m->teams = xcalloc(n_agents, sizeof(*m->teams));
    m->team_of = xcalloc(n_agents, sizeof(*m->team_of));
    m->team_size = xcalloc(n_agents, sizeof(*m->team_size));
    m->team_mean = xcalloc(n_agents, sizeof(*m->team_mean));
    m->n_extra = xcalloc(m->n_named, sizeof(*m->n_extra));
    for (size_t a = 0; a < n_agents; a++) {
        m->agents[a] = xstrdup(names[a]);
        m->team_of[a] = find_team(m, teams[a]);
        m->team_size[m->team_of[a]]++;
    }
    if (central)
        m->agents[n_agents] = xstrdup("central");

    room = 2 * (n_agents + m->n_teams + 1) + n_agents * N_STANDARD + N_TIME +
           m->n_named * METRICS_MAX_SCALARS;
    m->room = room;
    m->names = xcalloc(room, sizeof(*m->names));
    m->acc = xcalloc(room, sizeof(*m->acc));
    m->marked = xcalloc(room, sizeof(*m->marked));
    m->values = xcalloc(room, sizeof(*m->values));
    add_fixed_series(m);
    m->row_ns = now_ns;
    return m;
}

void metrics_add_process(struct metrics *m, const char *name)
{
    const size_t n = ++m->n_named;

    m->agents = xreallocarray(m->agents, n, sizeof(*m->agents));
    m->agents[n - 1] = xstrdup(name);
    m->n_extra = xreallocarray(m->n_extra, n, sizeof(*m->n_extra));
    m->n_extra[n - 1] = 0;
    m->names = xreallocarray(m->names, m->room + METRICS_MAX_SCALARS, sizeof(*m->names));
    m->acc = xreallocarray(m->acc, m->room + METRICS_MAX_SCALARS, sizeof(*m->acc));
    m->marked =
        xreallocarray(m->marked, m->room + METRICS_MAX_SCALARS, sizeof(*m->marked));
    m->values =
        xreallocarray(m->values, m->room + METRICS_MAX_SCALARS, sizeof(*m->values));
    for (size_t i = m->room; i < m->room + METRICS_MAX_SCALARS; i++) {
        m->names[i] = NULL;
        m->acc[i] = m->marked[i] = (struct mean){0};
        m->values[i] = 0;
    }
    m->room += METRICS_MAX_SCALARS;
}

void metrics_free(struct metrics *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < m->n; i++)
        free(m->names[i]);
    for (size_t i = 0; i < m->n_named; i++)
        free(m->agents[i]);
    for (size_t i = 0; i < m->n_teams; i++)
        free(m->teams[i]);
    free(m->names);
    free(m->agents);
    free(m->teams);
    free(m->team_of);
    free(m->team_size);
    free(m->team_mean);
    free(m->acc);
    free(m->marked);
    free(m->values);
    free(m->n_extra);
    free(m);
}

size_t metrics_fixed_count(const struct metrics *m)
{
    return m->n_fixed;
}

const char *metrics_name(const struct metrics *m, size_t i)
{
    CHECK(i < m->n);
    return m->names[i];
}

static void add(struct metrics *m, size_t series, double value)
{
    m->acc[series].sum += value;
    m->acc[series].count++;
    if (m->watched != NULL && strcmp(m->names[series], m->watched) == 0)
        m->on_value(m->ctx, value);
}

void metrics_watch(struct metrics *m, const char *name,
                   void (*fn)(void *ctx, double value), void *ctx)
{
    m->watched = name;
    m->on_value = fn;
    m->ctx = ctx;
}

static void add_episode(struct metrics *m, size_t first, const double *returns,
                        double length)
{
    for (size_t t = 0; t < m->n_teams; t++)
        m->team_mean[t] = 0;
    for (size_t a = 0; a < m->n_agents; a++) {
        add(m, first + a, returns[a]);
        m->team_mean[m->team_of[a]] += returns[a];
    }
    for (size_t t = 0; t < m->n_teams; t++) {
        m->team_mean[t] /= (double)m->team_size[t];
        add(m, first + m->n_agents + t, m->team_mean[t]);
    }
    add(m, first + m->n_agents + m->n_teams, length);
}

void metrics_add_episode(struct metrics *m, const double *returns, uint64_t length)
{
    add_episode(m, m->rollout, returns, (double)length);
}

void metrics_add_evaluation(struct metrics *m, const double *returns, double length)
{
    add_episode(m, m->eval, returns, length);
}

static int name_ok(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || strchr("_.-/", c) != NULL) ||
            c == '\0')
            return 0;
    }
    return len > 0 && len <= SCALAR_NAME_MAX;
}

static int is_named(const char *full, const char *agent, const char *name, size_t len)
{
    const char *rest = text_after(full, "train/");

    if (rest != NULL)
        rest = text_after(rest, agent);
    return rest != NULL && *rest == '/' && text_is_word(name, len, rest + 1);
}

/* Inserts a series after the fixed ones, sorted by agent: agents answer in any order, and
 * equal runs must have equal rows. */
static size_t insert_series(struct metrics *m, size_t agent, char *name)
{
    size_t at = m->n_fixed, behind;

    for (size_t a = 0; a <= agent; a++)
        at += m->n_extra[a];
    behind = m->n - at;
    memmove(&m->names[at + 1], &m->names[at], behind * sizeof(*m->names));
    memmove(&m->acc[at + 1], &m->acc[at], behind * sizeof(*m->acc));
    memmove(&m->marked[at + 1], &m->marked[at], behind * sizeof(*m->marked));
    m->names[at] = name;
    m->acc[at] = m->marked[at] = (struct mean){0};
    m->n_extra[agent]++;
    m->n++;
    return at;
}

/* The index of a scalar's series, which is added if it is new; m->n if the scalar is
 * refused. */
static size_t scalar_series(struct metrics *m, size_t agent, const char *name, size_t len)
{
    if (agent < m->n_agents)
        for (size_t i = 0; i < N_STANDARD; i++)
            if (strlen(standard[i]) == len && memcmp(standard[i], name, len) == 0)
                return m->train + agent * N_STANDARD + i;
    for (size_t i = m->n_fixed; i < m->n; i++)
        if (is_named(m->names[i], m->agents[agent], name, len))
            return i;
    if (!name_ok(name, len) || m->n_extra[agent] == METRICS_MAX_SCALARS)
        return m->n;
    return insert_series(m, agent,
                         xasprintf("train/%s/%.*s", m->agents[agent], (int)len, name));
}

void metrics_add_scalar(struct metrics *m, size_t agent, const char *name, size_t len,
                        double value)
{
    size_t series;

    CHECK(agent < m->n_named);
    series = scalar_series(m, agent, name, len);
    if (series < m->n)
        add(m, series, value);
}

void metrics_add_round(struct metrics *m, uint64_t duration_ns)
{
    add(m, m->time + TIME_ROUND_US, (double)duration_ns / 1e3);
}

void metrics_add_update(struct metrics *m, uint64_t duration_ns)
{
    add(m, m->time + TIME_LEARN_MS, (double)duration_ns / 1e6);
}

static int is_time(const struct metrics *m, size_t i)
{
    return i >= m->time && i < m->time + N_TIME;
}

void metrics_take_row(struct metrics *m, uint64_t env_steps, uint64_t episodes,
                      uint64_t now_ns, struct metrics_row *ret)
{
    if (now_ns > m->row_ns && env_steps > m->row_steps)
        add(m, m->time + TIME_STEPS_PER_SECOND,
            (double)(env_steps - m->row_steps) * 1e9 / (double)(now_ns - m->row_ns));
    for (size_t i = 0; i < m->n; i++) {
        m->values[i] =
            m->acc[i].count ? m->acc[i].sum / (double)m->acc[i].count : (double)NAN;
        m->acc[i] = (struct mean){0};
    }
    m->row_steps = env_steps;
    m->row_ns = now_ns;
    *ret = (struct metrics_row){
        .env_steps = env_steps,
        .episodes = episodes,
        .n = m->n,
        .n_fixed = m->n_fixed,
        .names = (const char *const *)m->names,
        .values = m->values,
    };
}

uint64_t metrics_row_began(const struct metrics *m)
{
    return m->row_steps;
}

void metrics_mark(struct metrics *m)
{
    memcpy(m->marked, m->acc, m->n * sizeof(*m->acc));
}

void metrics_state_save(const struct metrics *m, int marked, uint8_t **ret,
                        size_t *ret_len)
{
    const struct mean *acc = marked ? m->marked : m->acc;
    struct wbuf b = {0};
    uint32_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        n += acc[i].count > 0 && !is_time(m, i);
    wbuf_u32(&b, STATE_VERSION);
    wbuf_u64(&b, m->row_steps);
    wbuf_u32(&b, n);
    for (size_t i = 0; i < m->n; i++) {
        uint64_t bits;
        if (acc[i].count == 0 || is_time(m, i))
            continue;
        memcpy(&bits, &acc[i].sum, sizeof(bits));
        wbuf_u32(&b, (uint32_t)strlen(m->names[i]));
        wbuf_bytes(&b, m->names[i], strlen(m->names[i]));
        wbuf_u64(&b, bits);
        wbuf_u64(&b, acc[i].count);
    }
    *ret = b.data;
    *ret_len = b.len;
}

/* The index of the series with that full name; if it is a new scalar, its series is
 * added. m->n: the name is neither a series nor a scalar. */
static size_t find_series(struct metrics *m, const char *name, size_t len)
{
    for (size_t i = 0; i < m->n; i++)
        if (strlen(m->names[i]) == len && memcmp(m->names[i], name, len) == 0)
            return i;
    for (size_t a = 0; a < m->n_named; a++) {
        size_t head = strlen("train/") + strlen(m->agents[a]) + 1;
        if (len > head && memcmp(name, "train/", 6) == 0 && name[head - 1] == '/' &&
            memcmp(name + 6, m->agents[a], head - 7) == 0)
            return scalar_series(m, a, name + head, len - head);
    }
    return m->n;
}

static int load_series(struct metrics *m, struct cursor *c)
{
    uint32_t len = cursor_u32(c);
    const uint8_t *name = cursor_bytes(c, len);
    uint64_t bits = cursor_u64(c), count = cursor_u64(c);
    size_t i;

    if (c->failed)
        return 0;
    i = find_series(m, (const char *)name, len);
    if (i == m->n || is_time(m, i))
        return 0;
    memcpy(&m->acc[i].sum, &bits, sizeof(bits));
    m->acc[i].count = count;
    return 1;
}

int metrics_state_load(struct metrics *m, const uint8_t *data, size_t len,
                       struct err *err)
{
    struct cursor c = cursor_of(data, len);
    uint32_t version = cursor_u32(&c), n;

    if (version != STATE_VERSION)
        return err_set(err, ERR_FORMAT, "metrics state has unknown version %u", version);
    m->row_steps = cursor_u64(&c);
    n = cursor_u32(&c);
    for (uint32_t i = 0; i < n; i++)
        if (!load_series(m, &c))
            return err_set(err, ERR_FORMAT, "metrics state: bad series %u", i);
    if (c.failed || cursor_left(&c) > 0)
        return err_set(err, ERR_FORMAT, "metrics state: wrong length");
    return 0;
}
