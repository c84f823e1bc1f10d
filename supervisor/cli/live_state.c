#include "supervisor/cli/live_state.h"

#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_EVERY_S = 10 };

void live_state_done(struct live_state *s)
{
    for (size_t i = 0; i < s->status.n_agents; i++)
        free(s->names[i]);
    free(s->names);
    free(s->agents);
    *s = (struct live_state){0};
}

void live_state_add_agent(struct live_state *s, const char *name)
{
    const size_t n = s->status.n_agents++;

    s->agents = xreallocarray(s->agents, n + 1, sizeof(*s->agents));
    s->names = xreallocarray(s->names, n + 1, sizeof(*s->names));
    s->names[n] = xstrdup(name);
    s->agents[n] = (struct live_agent){.name = s->names[n],
                                       .state = "",
                                       .episode_return = (double)NAN,
                                       .critic_loss = (double)NAN,
                                       .actor_loss = (double)NAN,
                                       .rss_bytes = -1};
    s->status.agents = s->agents;
}

/* "train/agent_0/critic_loss" with prefix "train/": is it agent_0's critic_loss? */
static int names_metric(const char *metric, const char *prefix, const char *agent,
                        const char *suffix)
{
    size_t p = strlen(prefix), a = strlen(agent);

    return strncmp(metric, prefix, p) == 0 && strncmp(metric + p, agent, a) == 0 &&
           strcmp(metric + p + a, suffix) == 0;
}

void live_state_metric(struct live_state *s, const char *metric, double value)
{
    if (isnan(value))
        return;
    for (size_t i = 0; i < s->status.n_agents; i++) {
        struct live_agent *a = &s->agents[i];

        if (names_metric(metric, "rollout/return/", a->name, ""))
            a->episode_return = value;
        else if (names_metric(metric, "train/", a->name, "/critic_loss"))
            a->critic_loss = value;
        else if (names_metric(metric, "train/", a->name, "/actor_loss"))
            a->actor_loss = value;
    }
}

int live_state_is_due(struct live_state *s, const struct live_view *v)
{
    struct timespec t;
    double now;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    if (s->last_shown == 0)
        s->last_shown = now; /* counts from here */
    if (!live_view_is_terminal(v) && now - s->last_shown < LINE_EVERY_S)
        return 0;
    s->last_shown = now;
    return 1;
}
