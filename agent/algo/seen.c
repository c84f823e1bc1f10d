#include "agent/algo/seen.h"

#include "agent/algo/parts.h"
#include "agent/algo/share.h"
#include "common/mem/copy_short.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- the id ---- */

struct agent_id agent_id_of(const struct algo_args *args, int of_learners)
{
    const char *team = args->agents[args->self].team;
    struct agent_id id = {0};
    int64_t members = 0;

    for (size_t i = 0; i < args->n_agents; i++) {
        id.place = i == args->self ? members : id.place;
        members += strcmp(args->agents[i].team, team) == 0 &&
                   !(of_learners && args->agents[i].other);
    }
    id.width = args->settings->agent_id ? members : 0;
    return id;
}

void agent_id_put(const struct agent_id *id, float *x, int64_t n, int64_t stride)
{
    for (int64_t i = 0; id->width > 0 && i < n; i++, x += stride) {
        memset(x, 0, (size_t)id->width * sizeof(float));
        x[id->place] = 1;
    }
}

/* ---- the list ---- */

/* Adds the agent if it is not listed. */
static void seen_add(struct seen *s, size_t agent)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->agent[i] == agent)
            return;
    s->agent[s->n++] = agent;
}

void seen_init(struct seen *s, const struct algo_args *args, int own_only)
{
    *s = (struct seen){.agents = args->agents,
                       .id = agent_id_of(args, 0),
                       .agent = xcalloc(args->n_agents + 1, sizeof(*s->agent))};
    if (own_only) {
        seen_add(s, args->self);
    } else {
        const struct share_group *group =
            args->share != NULL ? share_group(args->share) : NULL;
        const int is_ps = group != NULL && share_is_ps(args->share);

        if (group != NULL || s->id.width > 0)
            seen_add(s, args->self);
        for (size_t i = is_ps; group != NULL && i < group->n; i++)
            seen_add(s, group->members[i]);
        for (size_t i = 0; i < args->n_agents; i++)
            if (!is_ps || i != group->members[0])
                seen_add(s, i);
    }
    s->input = args->agents[args->self].obs + s->id.width;
    for (size_t i = 0; i < s->n; i++) {
        if (s->agent[i] == args->self) {
            s->own = i;
            s->own_obs = s->obs;
            s->obs += s->id.width;
        }
        s->obs += args->agents[s->agent[i]].obs;
    }
}

int seen_forms(const struct seen *s, const struct agent_config *c,
               struct obs_form *ret_actor, struct obs_form *ret_critic, struct err *err)
{
    if (s->id.width > 0 && s->n > 1 && network_has_obs_layers(&c->critic))
        return err_set_at(
            err, ERR_CONFIG, ERR_AT(.key = "settings.agent_id"),
            "an id has no place among the observations that a critic with conv "
            "or entities sees; expected agent_id: false or critic.input: own");
    return obs_forms_of(c, &s->agents[s->agent[s->own]], s->agents, s->agent, s->n,
                        ret_actor, ret_critic, err);
}

void seen_done(struct seen *s)
{
    free(s->agent);
    *s = (struct seen){0};
}

/* ---- rows ---- */

const float *agent_id_behind(const struct agent_id *id, const struct act_args *args,
                             int64_t obs, float *x)
{
    const size_t bytes = (size_t)obs * sizeof(float);
    const int64_t width = obs + id->width;

    if (id->width == 0)
        return args->obs;
    copy_rows(x, (size_t)width * sizeof(float), args->obs, bytes, args->n_copies, bytes);
    agent_id_put(id, x + obs, (int64_t)args->n_copies, width);
    return x;
}
