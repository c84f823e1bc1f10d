/* The params of `configure`, the first request to each agent process. */
#include "supervisor/rollout/rollout.h"

#include "common/config/algorithms.h"
#include "common/err/check.h"
#include "common/msg/config_msg.h"
#include "common/msg/symmetry_msg.h"
#include "supervisor/describe/programs.h"
#include "supervisor/rollout/learning_groups.h"
#include "supervisor/rollout/sharing.h"

static void pack_space(const struct action_space *s, int masked, struct msg_out *o)
{
    static const char *const kinds[] = {
        [SPACE_DISCRETE] = "discrete", [SPACE_BOX] = "box", [SPACE_HYBRID] = "hybrid"};
    const int has_numbers = s->kind != SPACE_DISCRETE;

    msg_map(o, 4u + (has_numbers ? 2 : 0) + (masked ? 1 : 0));
    msg_put_str(o, "kind", kinds[s->kind]);
    msg_put_bool(o, "particle", s->particle);
    msg_key(o, "heads");
    msg_array(o, (size_t)s->n_heads);
    for (int i = 0; i < s->n_heads; i++)
        msg_u64(o, (uint64_t)s->heads[i]);
    msg_put_u64(o, "width", (uint64_t)s->width);
    if (has_numbers) {
        msg_put_f64(o, "low", s->low);
        msg_put_f64(o, "high", s->high);
    }
    if (masked)
        msg_put_bool(o, "masked", 1);
}

/* Packs all agents. For agents outside of `group`, packs only what everybody may see:
 * `propose` passes their rows as they are stored. */
static void pack_agents(const struct run_config *config, const struct env_spec *spec,
                        const struct learning_groups *groups, size_t group,
                        struct msg_out *o)
{
    msg_array(o, spec->n_agents);
    for (size_t i = 0; i < spec->n_agents; i++) {
        const struct env_agent *a = &spec->agents[i];
        const int is_other = groups->group_of[i] != group;
        const uint32_t stack = env_stack(spec);
        const int is_symmetric =
            !is_other && agent_setting_marked(&config->agents[i], FIELD_SYMMETRY) > 0;

        msg_map(o, 4u + (is_symmetric != 0) + (is_other != 0) + (a->obs_is_u8 != 0) +
                       (a->image.shape[0] > 0) + (stack > 1) + (a->entities[0] > 0));
        msg_put_str(o, "name", a->name);
        msg_put_str(o, "team", a->team);
        msg_put_u64(o, "obs", env_seen_width(spec, i));
        if (stack > 1)
            msg_put_u64(o, "stack", stack);
        if (a->obs_is_u8)
            msg_put_bool(o, "uint8", 1);
        msg_put_image(o, &a->image, a->obs_width, stack);
        msg_put_entities(o, a->entities);
        msg_key(o, "action");
        pack_space(&a->space, env_is_masked(spec, i), o);
        if (is_symmetric)
            msg_put_bool(o, "symmetric", 1);
        if (is_other)
            msg_put_bool(o, "other", 1);
    }
}

static void pack_policy(const struct rollout_policy *p, struct msg_out *o)
{
    msg_key(o, "metagraph");
    msg_bin(o, p->metagraph, p->metagraph_bytes);
    if (p->prefix != NULL)
        msg_put_str(o, "prefix", p->prefix);
}

/* Packs the group that the process shares parameters with: its ps and its members. */
static void pack_share(const struct sharing *s, size_t group, const struct env_spec *spec,
                       struct msg_out *o)
{
    msg_key(o, "share");
    msg_map(o, 2);
    msg_put_str(o, "ps", s->groups[group].ps);
    msg_key(o, "members");
    msg_array(o, s->groups[group].n);
    for (size_t i = 0; i < spec->n_agents; i++)
        if (s->group_of[i] == group)
            msg_str(o, spec->agents[i].name);
}

size_t rollout_central_settings(const struct run_config *config)
{
    size_t i = 0;

    while (i < config->n_agents && !algorithm_of(&config->agents[i])->central)
        i++;
    return i;
}

int rollout_needs_central(const struct run_config *config)
{
    return rollout_central_settings(config) < config->n_agents;
}

/* What the process at a place of the table is. */
struct process {
    const char *role, *name;
    size_t settings; /* the agent whose section it gets */
    size_t sharing;  /* the group that it shares parameters with; or SHARING_NONE */
};

/* Places: the environment's agents, the central process if there is one, then the ps of each
 * group. The central process runs the algorithm of the agents that need it, so it gets the
 * settings of the first of them; a ps gets those of its first member. Live changes are
 * sent to the same processes (rollout_change.c). */
static struct process process_at(const struct run_config *config,
                                 const struct env_spec *spec, const struct sharing *s,
                                 size_t place)
{
    const size_t n = spec->n_agents;
    const size_t first_ps = n + (size_t)rollout_needs_central(config);
    const struct sharing_group *g;

    if (place < n)
        return (struct process){"learner", spec->agents[place].name, place,
                                s->group_of[place]};
    if (place < first_ps || s->n_groups == 0) {
        const size_t i = rollout_central_settings(config);

        return (struct process){"central", "central", i < n ? i : 0, SHARING_NONE};
    }
    CHECK(place < first_ps + s->n_groups);
    g = &s->groups[place - first_ps];
    return (struct process){"ps", g->ps, g->first, place - first_ps};
}

void rollout_pack_configure(const struct run_config *config, const struct env_spec *spec,
                            size_t place, int restored,
                            const struct rollout_policy *policy, struct msg_out *o)
{
    struct symmetry_group symmetry = {0};
    struct arena arena = ARENA_ZERO;
    const struct agent_config *own;
    struct learning_groups groups;
    struct process process;
    struct sharing s;
    size_t group;
    int has_draws;

    CHECK(config->n_agents == spec->n_agents);
    CHECK(sharing_init(&s, config, spec, NULL, NULL) == 0, "it was checked before");
    process = process_at(config, spec, &s, place);
    own = &config->agents[process.settings];
    learning_groups_init(&groups, config, &s);
    group = groups.group_of[process.settings];
    has_draws = group != LEARNING_NONE && group > 0;
    if (agent_setting_marked(own, FIELD_SYMMETRY) > 0)
        env_symmetry(&config->env, &arena, &symmetry);
    env_symmetry_stack(spec, &arena, &symmetry);
    msg_map(o, 12u + (symmetry.n_factors > 0 ? 1 : 0) + (policy != NULL ? 1 : 0) +
                   (policy != NULL && policy->prefix != NULL ? 1 : 0) +
                   (process.sharing != SHARING_NONE ? 1 : 0) + (has_draws ? 1 : 0) +
                   (own->command != NULL ? 1 : 0));
    msg_put_str(o, "role", process.role);
    msg_put_str(o, "name", process.name);
    msg_put_u64(o, "seed", config->run.seed);
    msg_key(o, "config");
    msg_agent_config(o, own);
    msg_key(o, "agents");
    pack_agents(config, spec, &groups, group, o);
    msg_put_bool(o, "restored", restored);
    msg_put_str(o, "numerics", numerics_names[config->run.numerics]);
    msg_put_str(o, "env", spec->id);
    msg_put_str(o, "rules", config->env.rules == ENV_RULES_OPENAI ? "openai" : "mpe2");
    msg_put_u64(o, "max_steps", (uint64_t)spec->max_steps);
    msg_put_u64(o, "window",
                (uint64_t)run_config_experience(config, process.settings).update_every);
    msg_put_u64(o, "copies", config->env.copies);
    if (has_draws)
        msg_put_str(o, "draws", groups.group[group].draws);
    if (symmetry.n_factors > 0) {
        msg_key(o, "symmetry");
        msg_symmetry(o, &symmetry);
    }
    arena_done(&arena);
    if (process.sharing != SHARING_NONE)
        pack_share(&s, process.sharing, spec, o);
    if (policy != NULL)
        pack_policy(policy, o);
    if (own->command != NULL) {
        const struct program_place program = program_place(own->program);

        msg_key(o, "program");
        msg_program(o, own, &program);
    }
    learning_groups_done(&groups);
    sharing_done(&s);
}
