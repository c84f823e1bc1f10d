#include "supervisor/metrics/metrics.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/metrics/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Version 1 is that of runs whose progress.csv has no declared scalars. The bytes are the
 * same. */
enum { OLDER_STATE_VERSION = 1, STATE_VERSION = 2 };

/* The scalars that every actor-critic algorithm returns; norms are before clipping. */
static const char *const standard[] = {
    "critic_loss",  "actor_loss",       "q_mean",          "target_q_mean",
    "target_q_std", "critic_grad_norm", "actor_grad_norm",
};
enum { N_STANDARD = sizeof(standard) / sizeof(standard[0]) };

enum { TIME_STEPS_PER_SECOND, TIME_ROUND_US, TIME_LEARN_MS, N_TIME };
static const char *const time_names[N_TIME] = {
    [TIME_STEPS_PER_SECOND] = PROGRESS_SPEED,
    [TIME_ROUND_US] = "time/round_us",
    [TIME_LEARN_MS] = "time/learn_ms",
};

struct mean {
    double sum;
    uint64_t count;
    double newest; /* of the series of evaluations: the last one's value, or NaN */
};

/* Of one process. */
struct named {
    char *name;
    size_t declared, n_declared; /* its series among the fixed ones */
    size_t n_extra;              /* its series after the fixed ones */
};

struct metrics {
    size_t n_agents, n_teams;
    struct named *named; /* [n_named] agents, then central, then others */
    size_t n_named;
    char **teams;
    size_t *team_of;   /* [A] */
    size_t *team_size; /* [teams] */
    double *team_mean; /* [teams] scratch */

    /* Series, in the order of the header. */
    size_t n, n_fixed, n_older, room;
    size_t rollout, eval, train, time; /* index of the first series of each kind */
    size_t rollout_env, eval_env, n_env;
    char **names;
    struct mean *acc, *marked;
    double *values;
    int is_older; /* an older build began the run */

    uint64_t row_steps, row_ns; /* where the last row ended */

    const char *watched; /* name of a column, borrowed; NULL: none is watched */
    void (*on_value)(void *ctx, double value);
    void *ctx;
};

/* Inserts a series, which then has that index. Owns the name. */
static size_t insert_series(struct metrics *m, size_t at, char *name)
{
    const size_t behind = m->n - at;

    if (m->n == m->room) {
        m->room = m->room == 0 ? 64 : 2 * m->room;
        m->names = xreallocarray(m->names, m->room, sizeof(*m->names));
        m->acc = xreallocarray(m->acc, m->room, sizeof(*m->acc));
        m->marked = xreallocarray(m->marked, m->room, sizeof(*m->marked));
        m->values = xreallocarray(m->values, m->room, sizeof(*m->values));
    }
    memmove(&m->names[at + 1], &m->names[at], behind * sizeof(*m->names));
    memmove(&m->acc[at + 1], &m->acc[at], behind * sizeof(*m->acc));
    memmove(&m->marked[at + 1], &m->marked[at], behind * sizeof(*m->marked));
    m->names[at] = name;
    m->acc[at] = m->marked[at] = (struct mean){0};
    m->n++;
    return at;
}

static size_t add_series(struct metrics *m, char *name)
{
    return insert_series(m, m->n, name);
}

/* Adds series for returns, team returns and length under one prefix; returns the index of
 * the first. */
static size_t add_episode_series(struct metrics *m, const char *prefix)
{
    size_t first = m->n;

    for (size_t a = 0; a < m->n_agents; a++)
        add_series(m, xasprintf("%s/return/%s", prefix, m->named[a].name));
    for (size_t t = 0; t < m->n_teams; t++)
        add_series(m, xasprintf("%s/team_return/%s", prefix, m->teams[t]));
    add_series(m, xasprintf("%s/episode_length", prefix));
    return first;
}

struct metrics *metrics_new(const char *const *names, const char *const *teams,
                            size_t n_agents, int central, uint64_t now_ns)
{
    struct metrics *m = xcalloc(1, sizeof(*m));

    m->n_agents = n_agents;
    m->teams = xcalloc(n_agents, sizeof(*m->teams));
    m->team_of = xcalloc(n_agents, sizeof(*m->team_of));
    m->team_size = xcalloc(n_agents, sizeof(*m->team_size));
    m->team_mean = xcalloc(n_agents, sizeof(*m->team_mean));
    for (size_t a = 0; a < n_agents; a++) {
        size_t t = 0;

        metrics_add_process(m, names[a]);
        while (t < m->n_teams && strcmp(m->teams[t], teams[a]) != 0)
            t++;
        if (t == m->n_teams)
            m->teams[m->n_teams++] = xstrdup(teams[a]);
        m->team_of[a] = t;
        m->team_size[t]++;
    }
    if (central)
        metrics_add_process(m, "central");
    m->rollout = add_episode_series(m, "rollout");
    m->eval = add_episode_series(m, "eval");
    m->train = m->n;
    for (size_t a = 0; a < m->n_agents; a++)
        for (size_t i = 0; i < N_STANDARD; i++)
            add_series(m, xasprintf("train/%s/%s", m->named[a].name, standard[i]));
    m->time = m->n;
    for (size_t i = 0; i < N_TIME; i++)
        add_series(m, xstrdup(time_names[i]));
    m->n_fixed = m->n_older = m->n;
    m->row_ns = now_ns;
    return m;
}

void metrics_add_process(struct metrics *m, const char *name)
{
    const size_t n = ++m->n_named;

    m->named = xreallocarray(m->named, n, sizeof(*m->named));
    m->named[n - 1] = (struct named){.name = xstrdup(name)};
}

void metrics_declare_env(struct metrics *m, const char *const *names, size_t n)
{
    CHECK(m->n == m->n_older && m->n_env == 0);
    m->n_env = n;
    m->rollout_env = m->n;
    for (size_t i = 0; i < n; i++)
        add_series(m, xasprintf("rollout/metric/%s", names[i]));
    m->eval_env = m->n;
    for (size_t i = 0; i < n; i++)
        add_series(m, xasprintf("eval/metric/%s", names[i]));
    m->n_fixed = m->n;
}

static size_t find_standard(const char *name, size_t len)
{
    size_t i = 0;

    while (i < N_STANDARD &&
           (strlen(standard[i]) != len || memcmp(standard[i], name, len) != 0))
        i++;
    return i;
}

void metrics_declare(struct metrics *m, size_t process,
                     const struct algorithm_scalar *scalars, unsigned by)
{
    struct named *p = &m->named[process];

    CHECK(process < m->n_named && m->n == m->n_fixed && p->n_declared == 0);
    p->declared = m->n;
    for (const struct algorithm_scalar *s = scalars; s != NULL && s->name != NULL; s++)
        if (algorithm_scalar_is_by(s, by) &&
            (process >= m->n_agents ||
             find_standard(s->name, strlen(s->name)) == N_STANDARD))
            add_series(m, xasprintf("train/%s/%s", p->name, s->name));
    p->n_declared = m->n - p->declared;
    m->n_fixed = m->n;
}

void metrics_free(struct metrics *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < m->n; i++)
        free(m->names[i]);
    for (size_t i = 0; i < m->n_named; i++)
        free(m->named[i].name);
    for (size_t i = 0; i < m->n_teams; i++)
        free(m->teams[i]);
    free(m->names);
    free(m->named);
    free(m->teams);
    free(m->team_of);
    free(m->team_size);
    free(m->team_mean);
    free(m->acc);
    free(m->marked);
    free(m->values);
    free(m);
}

size_t metrics_fixed_count(const struct metrics *m)
{
    return m->n_fixed;
}

size_t metrics_older_count(const struct metrics *m)
{
    return m->n_older;
}

int metrics_is_older(const struct metrics *m)
{
    return m->is_older;
}

const char *metrics_name(const struct metrics *m, size_t i)
{
    CHECK(i < m->n);
    return m->names[i];
}

static void metrics_add(struct metrics *m, size_t series, double value)
{
    m->acc[series].sum += value;
    m->acc[series].count++;
    m->acc[series].newest = value;
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
        metrics_add(m, first + a, returns[a]);
        m->team_mean[m->team_of[a]] += returns[a];
    }
    for (size_t t = 0; t < m->n_teams; t++) {
        m->team_mean[t] /= (double)m->team_size[t];
        metrics_add(m, first + m->n_agents + t, m->team_mean[t]);
    }
    metrics_add(m, first + m->n_agents + m->n_teams, length);
}

static void add_env(struct metrics *m, size_t first, const double *metrics)
{
    for (size_t i = 0; metrics != NULL && i < m->n_env; i++)
        if (!isnan(metrics[i]))
            metrics_add(m, first + i, metrics[i]);
}

void metrics_add_episode(struct metrics *m, const double *returns, uint64_t length,
                         const double *metrics)
{
    add_episode(m, m->rollout, returns, (double)length);
    add_env(m, m->rollout_env, metrics);
}

void metrics_add_evaluation(struct metrics *m, const double *returns, double length,
                            const double *metrics)
{
    for (size_t i = m->eval; i < m->train; i++)
        m->acc[i].newest = (double)NAN;
    for (size_t i = m->eval_env; i < m->eval_env + m->n_env; i++)
        m->acc[i].newest = (double)NAN;
    add_episode(m, m->eval, returns, length);
    add_env(m, m->eval_env, metrics);
}

double metrics_evaluated(const struct metrics *m, const char *name)
{
    size_t i = 0;

    while (i < m->n && strcmp(m->names[i], name) != 0)
        i++;
    return i < m->n ? m->acc[i].newest : (double)NAN;
}

static int is_named(const char *full, const char *agent, const char *name, size_t len)
{
    const char *rest = text_after(full, "train/");

    if (rest != NULL)
        rest = text_after(rest, agent);
    return rest != NULL && *rest == '/' && text_is_word(name, len, rest + 1);
}

static size_t find_among(const struct metrics *m, size_t first, size_t n,
                         const char *process, const char *name, size_t len)
{
    for (size_t i = first; i < first + n; i++)
        if (is_named(m->names[i], process, name, len))
            return i;
    return m->n;
}

/* The index of a scalar's series, which is added if it is new; m->n if the scalar is
 * refused. New ones are sorted by process: the processes answer in any order, and equal runs
 * must have equal rows. */
static size_t scalar_series(struct metrics *m, size_t process, const char *name,
                            size_t len)
{
    const size_t known = process < m->n_agents ? find_standard(name, len) : N_STANDARD;
    struct named *p = &m->named[process];
    size_t extra = m->n_fixed, i;

    if (known < N_STANDARD)
        return m->train + process * N_STANDARD + known;
    i = find_among(m, p->declared, p->n_declared, p->name, name, len);
    if (i < m->n)
        return i;
    for (size_t k = 0; m->n > m->n_fixed && k < process; k++)
        extra += m->named[k].n_extra;
    i = find_among(m, extra, p->n_extra, p->name, name, len);
    if (i < m->n || !algorithm_scalar_is_name(name, len) ||
        p->n_extra == METRICS_MAX_SCALARS)
        return i;
    extra += p->n_extra++;
    return insert_series(m, extra, xasprintf("train/%s/%.*s", p->name, (int)len, name));
}

void metrics_add_scalar(struct metrics *m, size_t agent, const char *name, size_t len,
                        double value)
{
    size_t series;

    CHECK(agent < m->n_named);
    series = scalar_series(m, agent, name, len);
    if (series < m->n)
        metrics_add(m, series, value);
}

void metrics_add_round(struct metrics *m, uint64_t duration_ns)
{
    metrics_add(m, m->time + TIME_ROUND_US, (double)duration_ns / 1e3);
}

void metrics_add_update(struct metrics *m, uint64_t duration_ns)
{
    metrics_add(m, m->time + TIME_LEARN_MS, (double)duration_ns / 1e6);
}

static int is_time(const struct metrics *m, size_t i)
{
    return i >= m->time && i < m->time + N_TIME;
}

void metrics_take_row(struct metrics *m, uint64_t env_steps, uint64_t episodes,
                      uint64_t now_ns, struct metrics_row *ret)
{
    if (now_ns > m->row_ns && env_steps > m->row_steps)
        metrics_add(m, m->time + TIME_STEPS_PER_SECOND,
                    (double)(env_steps - m->row_steps) * 1e9 /
                        (double)(now_ns - m->row_ns));
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
    wbuf_u32(&b, m->is_older ? OLDER_STATE_VERSION : STATE_VERSION);
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
        const char *process = m->named[a].name;
        size_t head = strlen("train/") + strlen(process) + 1;

        if (len > head && memcmp(name, "train/", 6) == 0 && name[head - 1] == '/' &&
            memcmp(name + 6, process, head - 7) == 0)
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

    if (version != STATE_VERSION && version != OLDER_STATE_VERSION)
        return err_set(err, ERR_FORMAT, "metrics state has unknown version %u", version);
    m->is_older = version == OLDER_STATE_VERSION;
    m->row_steps = cursor_u64(&c);
    n = cursor_u32(&c);
    for (uint32_t i = 0; i < n; i++)
        if (!load_series(m, &c))
            return err_set(err, ERR_FORMAT, "metrics state: bad series %u", i);
    if (c.failed || cursor_left(&c) > 0)
        return err_set(err, ERR_FORMAT, "metrics state: wrong length");
    return 0;
}
