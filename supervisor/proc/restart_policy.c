#include "supervisor/proc/restart_policy.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_S   1e9
#define FOR_EVER_S 1e9 /* longer than any run, and still a number of nanoseconds */

struct cell {
    unsigned char known; /* the table has a line for it */
    unsigned char next, action, reason;
};

#define TO(state, action, reason)                                                        \
    {                                                                                    \
        1, RESTART_##state, RESTART_DO_##action, RESTART_##reason                        \
    }
#define STAY(state)  TO(state, NOTHING, NO_REASON)
#define AGAIN(state) TO(state, START, NO_REASON)
#define END(reason)  TO(OVER, GIVE_UP, reason)
#define COUNTED      TO(WAITING, COUNT, NO_REASON)

/* Entries that several states share. An event without an entry is a bug. */
#define RUNS(state)                                                                      \
    [RESTART_EV_STARTED] = STAY(state), [RESTART_EV_PROGRESS] = STAY(PROGRESSED),        \
    [RESTART_EV_POISONED] = END(ONE_REQUEST), [RESTART_EV_OVER_MEMORY] = COUNTED,        \
    [RESTART_EV_REFUSED] = END(BY_EXIT_CODE), [RESTART_EV_LATER] = COUNTED,              \
    [RESTART_EV_KILLED] = AGAIN(WAITING), [RESTART_EV_REPLACED] = AGAIN(WAITING),        \
    [RESTART_EV_DELAY_OVER] = STAY(state)
/* There is no process. */
#define RESTS(state)                                                                     \
    [RESTART_EV_PROGRESS] = STAY(state), [RESTART_EV_CRASHED] = STAY(state),             \
    [RESTART_EV_POISONED] = STAY(state), [RESTART_EV_OVER_MEMORY] = STAY(state),         \
    [RESTART_EV_DONE] = STAY(state), [RESTART_EV_REFUSED] = STAY(state),                 \
    [RESTART_EV_LATER] = STAY(state), [RESTART_EV_KILLED] = STAY(state)

/* clang-format off */
static const struct cell table[RESTART_STATE_COUNT][RESTART_EVENT_COUNT] = {
    [RESTART_DOWN] = {
        [RESTART_EV_STARTED] = STAY(TRYING),
        RESTS(DOWN),
        [RESTART_EV_REPLACED] = STAY(DOWN),
        [RESTART_EV_DELAY_OVER] = STAY(DOWN),
    },
    [RESTART_TRYING] = {
        RUNS(TRYING),
        [RESTART_EV_CRASHED] = COUNTED,
        [RESTART_EV_DONE] = COUNTED,
    },
    [RESTART_PROGRESSED] = {
        RUNS(PROGRESSED),
        [RESTART_EV_CRASHED] = AGAIN(WAITING),
        [RESTART_EV_DONE] = AGAIN(WAITING),
    },
    [RESTART_WAITING] = {
        [RESTART_EV_STARTED] = STAY(TRYING),
        RESTS(WAITING),
        [RESTART_EV_REPLACED] = AGAIN(WAITING),
        [RESTART_EV_DELAY_OVER] = AGAIN(WAITING),
    },
    [RESTART_OVER] = {
        [RESTART_EV_STARTED] = STAY(OVER),
        RESTS(OVER),
        [RESTART_EV_REPLACED] = STAY(OVER),
        [RESTART_EV_DELAY_OVER] = STAY(OVER),
    },
};
/* clang-format on */

/* Events after which each policy does not restart an agent, as bits. */
#define BIT(event) (1u << RESTART_EV_##event)
static const unsigned ends[] = {
    [RESTART_PERMANENT] = 0,
    [RESTART_TRANSIENT] = BIT(DONE),
    [RESTART_TEMPORARY] =
        BIT(CRASHED) | BIT(OVER_MEMORY) | BIT(DONE) | BIT(LATER) | BIT(KILLED),
};

static int is_running(enum restart_state state)
{
    return state == RESTART_TRYING || state == RESTART_PROGRESSED;
}

struct restart_step restart_policy_step(enum restart_policy policy,
                                        enum restart_state state,
                                        enum restart_event event)
{
    const struct cell *c;

    CHECK((unsigned)state < RESTART_STATE_COUNT &&
          (unsigned)event < RESTART_EVENT_COUNT && (unsigned)policy <= RESTART_TEMPORARY);
    c = &table[state][event];
    CHECK(c->known, "no cell for event %d in state %d", (int)event, (int)state);
    if (is_running(state) && (ends[policy] & 1u << event) != 0)
        return (struct restart_step){RESTART_OVER, RESTART_DO_GIVE_UP, RESTART_BY_POLICY};
    return (struct restart_step){(enum restart_state)c->next,
                                 (enum restart_action)c->action,
                                 (enum restart_reason)c->reason};
}

void restart_history_done(struct restart_history *m)
{
    free(m->deaths_ns);
    *m = RESTART_HISTORY_ZERO;
}

/* Counts deaths during one request; the third is blamed on the request. */
static enum restart_event blame(struct restart_history *m, enum restart_event event,
                                uint32_t request)
{
    if ((event != RESTART_EV_CRASHED && event != RESTART_EV_OVER_MEMORY &&
         event != RESTART_EV_DONE) ||
        request == 0 || !is_running(m->state))
        return event;
    if (request != m->request)
        m->n_request_deaths = 0;
    m->request = request;
    return ++m->n_request_deaths >= RESTART_REQUEST_DEATHS ? RESTART_EV_POISONED : event;
}

static uint64_t ns_of(double s)
{
    return (uint64_t)((s < FOR_EVER_S ? s : FOR_EVER_S) * NS_PER_S);
}

static uint64_t delay_ns(const struct restart_config *config, unsigned n_in_row)
{
    double s = n_in_row < 2 ? 0 : config->delay_s;

    for (unsigned i = 2; i < n_in_row && s < config->max_delay_s; i++)
        s *= 2;
    if (s > config->max_delay_s)
        s = config->max_delay_s;
    return ns_of(s);
}

static struct restart_verdict count(struct restart_history *m,
                                    const struct restart_config *config, uint64_t now_ns)
{
    const uint64_t within_ns = ns_of(config->within_s);
    size_t old = 0;

    while (old < m->n_deaths && now_ns - m->deaths_ns[old] >= within_ns)
        old++;
    m->n_deaths -= old;
    if (old > 0 && m->n_deaths > 0)
        memmove(m->deaths_ns, m->deaths_ns + old, m->n_deaths * sizeof(*m->deaths_ns));
    ARRAY_GROW(m->deaths_ns, m->n_deaths, m->cap);
    m->deaths_ns[m->n_deaths++] = now_ns;
    if (m->n_deaths <= (uint64_t)config->max_restarts) {
        const uint64_t ns = delay_ns(config, m->n_in_row);

        return (struct restart_verdict){
            .action = ns > 0 ? RESTART_DO_WAIT : RESTART_DO_START, .delay_ns = ns};
    }
    m->state = RESTART_OVER;
    return (struct restart_verdict){.action = RESTART_DO_GIVE_UP,
                                    .reason = RESTART_TOO_OFTEN};
}

static int clears_deaths(const struct restart_history *m,
                         const struct restart_config *config, uint64_t now_ns)
{
    return !m->over_memory || m->n_deaths == 0 ||
           now_ns - m->deaths_ns[m->n_deaths - 1] >= ns_of(config->within_s);
}

struct restart_verdict restart_history_feed(struct restart_history *m,
                                            const struct restart_config *config,
                                            enum restart_event event, uint64_t now_ns,
                                            uint32_t request)
{
    const enum restart_event judged = blame(m, event, request);
    const struct restart_step s = restart_policy_step(config->policy, m->state, judged);

    m->state = s.next;
    if (judged == RESTART_EV_OVER_MEMORY || judged == RESTART_EV_LATER)
        m->over_memory = 1;
    if (judged == RESTART_EV_PROGRESS && clears_deaths(m, config, now_ns)) {
        m->n_in_row = 0;
        m->n_deaths = 0;
        m->over_memory = 0;
    }
    switch (s.action) {
    case RESTART_DO_COUNT:
        m->n_in_row++;
        if (judged == RESTART_EV_LATER && m->n_in_row == 1)
            m->n_in_row = 2; /* exit code 111: delay the restart even the first time */
        return count(m, config, now_ns);
    default:
        return (struct restart_verdict){.action = s.action, .reason = s.reason};
    }
}

const char *restart_policy_name(enum restart_policy policy)
{
    static const char *const names[] = {[RESTART_PERMANENT] = "permanent",
                                        [RESTART_TRANSIENT] = "transient",
                                        [RESTART_TEMPORARY] = "temporary"};

    return names[policy];
}
