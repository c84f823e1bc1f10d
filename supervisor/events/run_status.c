#include "supervisor/events/run_status.h"

#include "common/err/check.h"
#include "common/text/number_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const run_states[] = {
    "starting", "running", "paused", "stopping", "suspended",  "not answering", "done",
    "stopped",  "cut off", "failed", "killed",   "unreadable", "no permission", NULL};

#define OF(kind, member)         MEMBER(struct run_status, kind, member)
#define OF_PROCESS(kind, member) MEMBER(struct run_agent_status, kind, member)

/* Over the whole run. */
#define OF_COUNT(kind, key, member)                                                      \
    MEMBER_AS(struct run_agent_status, kind, key, count.member)

static const struct member process_fields[] = {
    OF_PROCESS(TEXT, name),
    OF_PROCESS(INT, pid),
    OF_PROCESS(TEXT, state),
    OF_PROCESS(TEXT, given_up),
    OF_PROCESS(U64, restarts),
    OF_PROCESS(I64, rss_bytes),
    OF_PROCESS(U64, update),
    OF_PROCESS(TEXT, last_exit),
    OF_PROCESS(TEXT, host),
    OF_COUNT(U64, "total_restarts", restarts),
    OF_COUNT(U64, "hangs", hangs),
    OF_COUNT(U64, "slow_answers", slow),
    OF_COUNT(U64, "skipped_episodes", skipped),
    OF_COUNT(SECONDS, "lost_seconds", lost_s),
};

#define OF_NODE(kind, member) MEMBER(struct run_node_status, kind, member)

static const struct member node_fields[] = {
    OF_NODE(TEXT, name),  OF_NODE(TEXT, host),    OF_NODE(TEXT, state),
    OF_NODE(U64, agents), OF_NODE(U64, restarts), OF_NODE(INT, pid),
    OF_NODE(TEXT, why),
};

static const struct member return_fields[] = {
    MEMBER(struct run_return, TEXT, team),
    MEMBER(struct run_return, F64, trained),
    MEMBER(struct run_return, F64, evaluated),
};

static const struct member pending_fields[] = {
    MEMBER(struct run_pending, TEXT, key),
    MEMBER(struct run_pending, TEXT, value),
    MEMBER_AS(struct run_pending, U64, "at_step", at),
    MEMBER(struct run_pending, TEXT, agent),
};

static const struct member fields[] = {
    OF(TEXT, run),
    OF(TEXT, began),
    OF(TEXT, state),
    OF(TEXT, done_why),
    OF(TEXT, failure),
    OF(TEXT, failure_agent),
    OF(TEXT, failure_file),
    OF(U64, failure_line),
    OF(TEXT, stalled_since),
    OF(TEXT, stalled_why),
    OF(CODE, exit_code),
    OF(INT, pid),
    OF(INT, keeper_pid),
    OF(U64, round),
    OF(U64, env_steps),
    OF(U64, episodes),
    OF(U64, total_steps),
    OF(U64, total_episodes),
    OF(F64, steps_per_second),
    OF(F64, seconds_left),
    MEMBER_AS(struct run_status, F64, "elapsed_seconds", elapsed_s),
    MEMBER_AS(struct run_status, F64, "total_seconds", total_s),
    OF(U64, total_restarts),
    OF(I64, checkpoint_step),
    OF(F64, team_return_mean),
    MEMBER_LIST_OF(struct run_status, returns, n_returns, struct run_return,
                   return_fields),
    OF(BOOL, exact),
    OF(TEXT, numerics),
    OF(TEXT, not_portable),
    OF(U64, learners),
    MEMBER_LIST_OF(struct run_status, agents, n_agents, struct run_agent_status,
                   process_fields),
    MEMBER_LIST_OF(struct run_status, environments, n_environments,
                   struct run_agent_status, process_fields),
    MEMBER_LIST_OF(struct run_status, nodes, n_nodes, struct run_node_status,
                   node_fields),
    MEMBER_LIST_OF(struct run_status, pending, n_pending, struct run_pending,
                   pending_fields),
};
enum { N_FIELDS = sizeof(fields) / sizeof(fields[0]) };

static void put_json(struct json *j, const struct member *m, const struct run_status *s)
{
    const struct value v = member_get(m, s);

    json_key(j, m->key);
    value_json(j, &v);
}

struct run_status run_status_unknown(void)
{
    return (struct run_status){.failure_line = RUN_UNKNOWN,
                               .exit_code = -1,
                               .round = RUN_UNKNOWN,
                               .episodes = RUN_UNKNOWN,
                               .seconds_left = (double)NAN,
                               .elapsed_s = -1,
                               .total_s = (double)NAN,
                               .total_restarts = RUN_UNKNOWN,
                               .checkpoint_step = -1,
                               .team_return_mean = (double)NAN,
                               .exact = 1,
                               .learners = RUN_UNKNOWN};
}

double run_status_part(const struct run_status *s)
{
    const double part = s->total_steps != 0
                            ? (double)s->env_steps / (double)s->total_steps
                        : s->total_episodes != 0 && s->episodes != RUN_UNKNOWN
                            ? (double)s->episodes / (double)s->total_episodes
                            : -1;

    return fmin(1, part);
}

const char *run_status_returns(const struct run_status *s,
                               char ret[RUN_RETURN_TEXT_BYTES])
{
    char number[NUMBER_TEXT_BYTES];
    size_t len = 0;

    ret[0] = '\0';
    if (s->n_returns == 0 && !isnan(s->team_return_mean)) /* an older build's status */
        (void)snprintf(ret, RUN_RETURN_TEXT_BYTES, "%s",
                       number_text(s->team_return_mean, 2, number));
    for (size_t i = 0; i < s->n_returns && len < RUN_RETURN_TEXT_BYTES; i++) {
        const struct run_return *r = &s->returns[i];
        const char *between = len > 0 ? ", " : "";
        char name[48] = "";

        if (s->n_returns > 1)
            (void)snprintf(name, sizeof(name), "%.40s ", r->team);
        if (!isnan(r->trained))
            len += (size_t)snprintf(ret + len, RUN_RETURN_TEXT_BYTES - len, "%s%s%s",
                                    between, name, number_text(r->trained, 2, number));
        else if (!isnan(r->evaluated))
            len += (size_t)snprintf(ret + len, RUN_RETURN_TEXT_BYTES - len,
                                    "%s%s(evaluated %s)", between, name,
                                    number_text(r->evaluated, 2, number));
    }
    return ret;
}

double run_status_left(const struct run_status *s, int has_learned)
{
    const double part = run_status_part(s);

    if (s->steps_per_second <= 0 || part < (has_learned ? 0 : 0.1))
        return (double)NAN;
    if (s->total_steps != 0)
        return (1 - part) * (double)s->total_steps / s->steps_per_second;
    return part > 0 ? (1 - part) / part * (double)s->env_steps / s->steps_per_second
                    : (double)NAN;
}

void run_status_pack(struct msg_out *o, const struct run_status *s)
{
    msg_map(o, N_FIELDS);
    for (size_t i = 0; i < N_FIELDS; i++) {
        const struct value v = member_get(&fields[i], s);

        msg_key(o, fields[i].key);
        value_pack(o, &v);
    }
}

void run_status_pack_pending(struct msg_out *o, const struct run_pending *list, size_t n)
{
    const struct run_status s = {.pending = list, .n_pending = n};
    const struct value v = member_get(&fields[N_FIELDS - 1], &s);

    value_pack(o, &v);
}

/* Readers do not expect NULL for names and states that the sender left out. */
static void fill_in(const char *const *text)
{
    if (*text == NULL)
        *(const char **)(uintptr_t)text = "";
}

static void fill_in_agents(const struct run_agent_status *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fill_in(&a[i].name);
        fill_in(&a[i].state);
    }
}

static void fill_in_pending(const struct run_status *s)
{
    for (size_t i = 0; i < s->n_pending; i++) {
        fill_in(&s->pending[i].key);
        fill_in(&s->pending[i].value);
    }
}

void run_status_unpack_pending(struct run_status *ret, const char *key,
                               const msgpack_object *map, struct arena *arena)
{
    struct member m = fields[N_FIELDS - 1];

    *ret = (struct run_status){0};
    m.key = key;
    member_unpack(&m, ret, map, arena);
    fill_in_pending(ret);
}

void run_status_unpack(struct run_status *ret, const msgpack_object *map,
                       struct arena *arena)
{
    *ret = (struct run_status){0};
    for (size_t i = 0; i < N_FIELDS; i++)
        member_unpack(&fields[i], ret, map, arena);
    fill_in(&ret->run);
    fill_in(&ret->state);
    fill_in_agents(ret->agents, ret->n_agents);
    fill_in_agents(ret->environments, ret->n_environments);
    for (size_t i = 0; i < ret->n_nodes; i++) {
        fill_in(&ret->nodes[i].name);
        fill_in(&ret->nodes[i].state);
    }
    for (size_t i = 0; i < ret->n_returns; i++)
        fill_in(&ret->returns[i].team);
    fill_in_pending(ret);
}

void run_status_copy(struct run_status *ret, const struct run_status *from,
                     struct arena *arena)
{
    *ret = *from;
    for (size_t i = 0; i < N_FIELDS; i++)
        member_own(&fields[i], ret, arena);
}

void run_status_json(struct json *j, const struct run_status *s)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        put_json(j, &fields[i], s);
}

void run_status_json_some(struct json *j, const struct run_status *s,
                          const char *const *keys, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        size_t i = 0;

        while (i < N_FIELDS && strcmp(fields[i].key, keys[k]) != 0)
            i++;
        CHECK(i < N_FIELDS, "a status has no field %s", keys[k]);
        put_json(j, &fields[i], s);
    }
}

static int is_elsewhere(const struct run_agent_status *a, size_t n, const char **host)
{
    for (size_t i = 0; i < n; i++) {
        if (a[i].host == NULL)
            continue;
        if (*host != NULL && strcmp(*host, a[i].host) != 0)
            return 1;
        *host = a[i].host;
    }
    return 0;
}

int run_status_is_spread(const struct run_status *s)
{
    const char *host = NULL;

    return is_elsewhere(s->agents, s->n_agents, &host) ||
           is_elsewhere(s->environments, s->n_environments, &host);
}

/* ---- counts ---- */

void process_count_add(struct process_count *to, const struct process_count *c)
{
    to->restarts += c->restarts;
    to->hangs += c->hangs;
    to->slow += c->slow;
    to->skipped += c->skipped;
    to->lost_s += c->lost_s;
}

struct process_count run_status_counts(const struct run_status *s)
{
    struct process_count all = {0};

    for (size_t i = 0; i < s->n_agents; i++)
        process_count_add(&all, &s->agents[i].count);
    for (size_t i = 0; i < s->n_environments; i++)
        process_count_add(&all, &s->environments[i].count);
    return all;
}

const char *process_count_text(const struct process_count *c,
                               char ret[PROCESS_COUNT_TEXT_BYTES])
{
    const struct {
        uint64_t n;
        const char *one, *many;
    } parts[] = {{c->restarts, "restart", "restarts"},
                 {c->hangs, "hang", "hangs"},
                 {c->slow, "slow answer", "slow answers"},
                 {c->skipped, "skipped episode", "skipped episodes"}};
    size_t len = 0;

    *ret = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].n > 0)
            len += (size_t)snprintf(ret + len, PROCESS_COUNT_TEXT_BYTES - len,
                                    "%s%" PRIu64 " %s", len > 0 ? ", " : "", parts[i].n,
                                    parts[i].n == 1 ? parts[i].one : parts[i].many);
    if (len > 0)
        (void)snprintf(ret + len, PROCESS_COUNT_TEXT_BYTES - len, ", %.1f s lost",
                       c->lost_s);
    return ret;
}
