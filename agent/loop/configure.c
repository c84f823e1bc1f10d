#include "agent/loop/service_internal.h"

#include "agent/algo/choices.h"
#include "agent/graph/op_def.h"
#include "common/msg/config_msg.h"

#include <stdio.h>
#include <string.h>

#define WINDOW_MAX_ROWS (UINT64_C(1) << 32)
#define MAX_WIDTH       (INT64_C(1) << 24) /* of an observation or action */

/* ---- the request ---- */

struct world {
    char env[64];
    enum env_rules rules;
    uint64_t max_steps;    /* 0: unlimited */
    uint64_t window;       /* rows; 0: not known */
    uint64_t copies;       /* 0: not known */
    const void *metagraph; /* NULL: none */
    size_t metagraph_bytes;
    char prefix[4096]; /* "": none */
};

static int parse_heads(const msgpack_object *map, struct space *ret, struct err *err)
{
    const msgpack_object *heads = NULL;
    const uint32_t max = sizeof(ret->heads) / sizeof(ret->heads[0]);
    int rc = msg_get_array(map, "heads", &heads, err);

    if (rc < 0 || heads == NULL)
        return rc;
    if (heads->via.array.size > max)
        return err_set(err, ERR_LIMIT, "%u heads of an action, at most %u",
                       heads->via.array.size, max);
    for (uint32_t i = 0; i < heads->via.array.size; i++) {
        const msgpack_object *head = &heads->via.array.ptr[i];

        if (head->type != MSGPACK_OBJECT_POSITIVE_INTEGER || head->via.u64 < 1 ||
            head->via.u64 > (uint64_t)MAX_WIDTH)
            return err_set(err, ERR_PROTOCOL, "heads: a size that is none");
        ret->heads[ret->n_heads++] = (int32_t)head->via.u64;
    }
    return 0;
}

static int parse_width(const msgpack_object *map, const char *key, int64_t *ret,
                       struct err *err)
{
    uint64_t v = 0;
    int rc = msg_get_u64(map, key, (uint64_t)MAX_WIDTH, &v, err);

    if (rc == 0 && v == 0)
        rc = err_set(err, ERR_PROTOCOL, "%s: a width of 1 or more expected", key);
    *ret = (int64_t)v;
    return rc;
}

static int parse_space(const msgpack_object *agent, struct space *ret, struct err *err)
{
    const msgpack_object *map = NULL;
    char kind[16] = "";
    int rc = msg_get_map(agent, "action", &map, err);

    if (rc == 0 && map == NULL)
        rc = err_set(err, ERR_PROTOCOL, "action is missing");
    if (rc < 0 || (rc = msg_get_str(map, "kind", kind, sizeof(kind), err)) < 0 ||
        (rc = msg_get_bool(map, "particle", &ret->particle, err)) < 0 ||
        (rc = msg_get_bool(map, "masked", &ret->masked, err)) < 0 ||
        (rc = parse_heads(map, ret, err)) < 0 ||
        (rc = parse_width(map, "width", &ret->width, err)) < 0 ||
        (rc = msg_get_f64(map, "low", &ret->low, err)) < 0 ||
        (rc = msg_get_f64(map, "high", &ret->high, err)) < 0)
        return rc;
    ret->box = strcmp(kind, "discrete") != 0;
    if (strcmp(kind, "hybrid") == 0)
        return choices_beside_numbers(ret) && choices_width(ret) < ret->width
                   ? 0
                   : err_set(err, ERR_PROTOCOL,
                             "heads: narrower than the action expected");
    if (ret->box && strcmp(kind, "box") != 0)
        return err_set(err, ERR_PROTOCOL, "kind: 'discrete', 'box' or 'hybrid' expected");
    return 0;
}

static int parse_agent(const msgpack_object *map, struct space *ret, struct err *err)
{
    uint64_t stack = 0;
    int rc;

    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "agents: a map expected");
    if ((rc = msg_get_str(map, "name", ret->name, sizeof(ret->name), err)) < 0 ||
        (rc = msg_get_str(map, "team", ret->team, sizeof(ret->team), err)) < 0 ||
        (rc = parse_width(map, "obs", &ret->obs, err)) < 0 ||
        (rc = msg_get_u64(map, "stack", ENV_MAX_STACK, &stack, err)) < 0 ||
        (rc = msg_get_bool(map, "uint8", &ret->obs_is_u8, err)) < 0 ||
        (rc = msg_get_entities(map, ret->obs, ret->entities, err)) < 0 ||
        (rc = msg_get_bool(map, "symmetric", &ret->symmetric, err)) < 0 ||
        (rc = msg_get_bool(map, "other", &ret->other, err)) < 0 ||
        (rc = parse_space(map, ret, err)) < 0)
        return rc;
    ret->stack = (int64_t)stack;
    if (ret->stack > 1 && ret->obs % ret->stack != 0)
        return err_set(err, ERR_PROTOCOL, "obs: a multiple of stack expected");
    rc = msg_get_image(map, ret->obs, ret->stack > 1 ? ret->stack : 1, ret->obs_is_u8,
                       &ret->image, err);
    if (rc < 0)
        return rc;
    return ret->name[0] != '\0' ? 0 : err_set(err, ERR_PROTOCOL, "name is missing");
}

static int parse_agents(struct service *s, const msgpack_object *body, struct err *err)
{
    const msgpack_object *agents = NULL;
    int rc = msg_get_array(body, "agents", &agents, err);

    if (rc < 0)
        return rc;
    if (agents == NULL || agents->via.array.size < 1 ||
        agents->via.array.size > AGENT_MAX_COUNT)
        return err_set(err, ERR_PROTOCOL, "agents: 1 to %d expected", AGENT_MAX_COUNT);
    s->n_agents = s->self = agents->via.array.size;
    s->agents = ARENA_ARRAY(&s->arena, struct space, s->n_agents + 1);
    for (size_t i = 0; i < s->n_agents; i++) {
        rc = parse_agent(&agents->via.array.ptr[i], &s->agents[i], err);
        if (rc < 0)
            return err_wrap(err, "agent %zu", i), rc;
        if (strcmp(s->agents[i].name, s->name) == 0)
            s->self = i;
    }
    return 0;
}

/* Returns "portable" if the message has no such key. */
static int parse_numerics(struct service *s, const msgpack_object *body, struct err *err)
{
    char name[16] = "portable";
    int rc = msg_get_str(body, "numerics", name, sizeof(name), err);

    if (rc == 0 && numerics_find(&s->numerics, name) < 0)
        rc = err_set(err, ERR_PROTOCOL, "numerics: 'portable' or 'native' expected");
    return rc;
}

/* Reads the parts of the message about the environment, and the imported policy, which
 * stays in the message's memory. */
static int parse_world(const msgpack_object *body, struct world *ret, struct err *err)
{
    char rules[16] = "";
    int rc;

    if ((rc = msg_get_str(body, "env", ret->env, sizeof(ret->env), err)) < 0 ||
        (rc = msg_get_str(body, "rules", rules, sizeof(rules), err)) < 0 ||
        (rc = msg_get_u64(body, "max_steps", INT64_MAX, &ret->max_steps, err)) < 0 ||
        (rc = msg_get_u64(body, "window", WINDOW_MAX_ROWS, &ret->window, err)) < 0 ||
        (rc = msg_get_u64(body, "copies", WINDOW_MAX_ROWS, &ret->copies, err)) < 0 ||
        (rc = msg_get_bin(body, "metagraph", &ret->metagraph, &ret->metagraph_bytes,
                          err)) < 0)
        return rc;
    ret->rules = strcmp(rules, "openai") == 0 ? ENV_RULES_OPENAI : ENV_RULES_MPE2;
    return msg_get_str(body, "prefix", ret->prefix, sizeof(ret->prefix), err);
}

static int parse_config(struct service *s, const msgpack_object *body, struct err *err)
{
    const msgpack_object *config = msg_get(body, "config");

    if (config == NULL)
        return err_set(err, ERR_PROTOCOL, "config: a map expected");
    if (msg_to_agent_config(config, &s->config, &s->arena, err) < 0)
        return err->code;
    algorithm_settings_read(&s->settings, &s->config);
    return 0;
}

static size_t find_agent(const struct service *s, const msgpack_object *name)
{
    size_t i = 0;

    while (i < s->n_agents && !msg_str_is(name, s->agents[i].name))
        i++;
    return i;
}

/* Reads the group that the agent shares parameters with; without the key it is in none. */
static int parse_share(struct service *s, const msgpack_object *body, struct err *err)
{
    const msgpack_object *share = NULL, *members = NULL;
    int rc = msg_get_map(body, "share", &share, err);

    s->ps[0] = '\0';
    s->n_members = 0;
    if (rc < 0 || share == NULL)
        return rc;
    if ((rc = msg_get_str(share, "ps", s->ps, sizeof(s->ps), err)) < 0 ||
        (rc = msg_get_array(share, "members", &members, err)) < 0)
        return rc;
    if (s->ps[0] == '\0' || members == NULL || members->via.array.size < 1 ||
        members->via.array.size > s->n_agents)
        return err_set(err, ERR_PROTOCOL, "share: a ps and its members expected");
    s->members = ARENA_ARRAY(&s->arena, size_t, members->via.array.size);
    for (uint32_t i = 0; i < members->via.array.size; i++) {
        const size_t member = find_agent(s, &members->via.array.ptr[i]);

        if (member == s->n_agents || (i > 0 && member <= s->members[i - 1]))
            return err_set(err, ERR_PROTOCOL,
                           "share: members: agents in the environment's order expected");
        s->members[s->n_members++] = member;
    }
    return 0;
}

/* This agent's place among the group's members; n_members if it is not one of them. */
static size_t member_place(const struct service *s)
{
    size_t i = 0;

    while (i < s->n_members && s->members[i] != s->self)
        i++;
    return i;
}

/* *ret_central: 1 for the group's central process, which is not an agent. */
static int parse_role(struct service *s, const msgpack_object *body, int *ret_central,
                      struct err *err)
{
    char role[16] = "";
    int rc = msg_get_str(body, "role", role, sizeof(role), err);

    if (rc < 0)
        return rc;
    *ret_central = strcmp(role, "central") == 0;
    if (strcmp(role, "ps") == 0) {
        /* A ps is not an agent. Its entry in the list follows the agents', and has its own
         * name and the spaces of the first member. */
        if (s->n_members == 0 || strcmp(s->name, s->ps) != 0 || s->self != s->n_agents)
            return err_set(err, ERR_PROTOCOL,
                           "role 'ps': '%s' is not the ps of its group", s->name);
        s->agents[s->n_agents] = s->agents[s->members[0]];
        memcpy(s->agents[s->n_agents].name, s->name, sizeof(s->name));
        return 0;
    }
    if (!*ret_central && strcmp(role, "learner") != 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "role '%s': this build has learner, central, ps", role);
    if (!*ret_central && s->self == s->n_agents)
        return err_set(err, ERR_PROTOCOL, "name '%s' is not among the agents", s->name);
    if (*ret_central)
        s->self = s->n_agents;
    if (s->n_members > 0 && member_place(s) == s->n_members)
        return err_set(err, ERR_PROTOCOL, "share: '%s' is not among the members",
                       s->name);
    return 0;
}

/* Reads the environment's symmetries if the settings ask for them. ERR_CONFIG: the
 * environment declares none. */
static int parse_symmetry(struct service *s, const msgpack_object *body,
                          const struct world *world, struct err *err)
{
    const msgpack_object *list = NULL;
    const char *key = "settings.symmetry";
    char draws[AGENT_NAME_MAX + 16] = "experience";
    struct err why;
    int rc;

    if (s->settings.symmetry == SYMMETRY_NONE)
        return 0;
    if ((rc = msg_get_array(body, "symmetry", &list, err)) < 0 ||
        (rc = msg_get_str(body, "draws", draws, sizeof(draws), err)) < 0)
        return rc;
    if (list == NULL)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = key),
                          "env: %s declares no symmetries",
                          *world->env != '\0' ? world->env : "the environment");
    rc = msg_to_symmetry(list, &s->symmetry_group, &s->arena, &why);
    if (rc == 0)
        rc = symmetry_new(&s->symmetry, &s->symmetry_group, s->agents, s->n_agents,
                          rng_key_make(s->seed, draws, PURPOSE_SYMMETRY), &why);
    return rc < 0 ? err_set_at(err, rc, ERR_AT(.key = key), "env: %s", why.msg) : 0;
}

/* ---- graph, session, first values ---- */

static int configure_build(struct service *s, int central, const struct world *world,
                           struct err *err)
{
    struct algo_args args = {.ops = s->forced != NULL ? s->forced
                                                      : algo_find(s->config.algorithm),
                             .config = &s->config,
                             .settings = &s->settings,
                             .agents = s->agents,
                             .n_agents = s->n_agents,
                             .self = s->self,
                             .central = central,
                             .env = world->env,
                             .rules = world->rules,
                             .max_steps = (int64_t)world->max_steps,
                             .window_rows = (int64_t)world->window,
                             .copies = (int64_t)world->copies,
                             .metagraph = world->metagraph,
                             .metagraph_bytes = world->metagraph_bytes,
                             .prefix = *world->prefix != '\0' ? world->prefix : NULL};
    int rc;

    s->ops = args.ops;
    if (s->ops == NULL)
        return err_set(err, ERR_CONFIG, "algorithm '%s' is not in this build",
                       s->config.algorithm);
    if (choices_beside_numbers(&s->agents[s->self]) && s->ops->about != NULL &&
        !s->ops->about->info.hybrid)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "%s cannot take hybrid actions", s->config.algorithm);
    s->graph = args.graph = graph_new();
    if (s->n_members > 0) {
        /* members of a group begin with the ps's initial values, because they draw with
         * the ps's keys */
        struct share_group group = {
            .ps = s->ps, .members = s->members, .n = s->n_members};
        char scope[AGENT_NAME_MAX + 1], ps_scope[AGENT_NAME_MAX + 1];

        group.self = member_place(s);
        s->share = share_new(&group);
        (void)snprintf(scope, sizeof(scope), "%s/", s->name);
        (void)snprintf(ps_scope, sizeof(ps_scope), "%s/", s->ps);
        graph_alias_draws(s->graph, scope, ps_scope);
    }
    args.share = s->share;
    rc = algo_new(&s->algo, &args, err);
    if (rc == 0 && s->share != NULL && share_elements(s->share) == 0)
        rc = err_set(err, ERR_UNSUPPORTED, "algorithm '%s' cannot share parameters",
                     s->config.algorithm);
    return rc;
}

/* ---- the response ---- */

static void pack_stage(const struct stage *stage, struct msg_out *out)
{
    static const char *const runners[] = {[STAGE_LEARNERS] = "learners",
                                          [STAGE_CENTRAL] = "central",
                                          [STAGE_PS] = "ps",
                                          [STAGE_TURNS] = "turns"};
    size_t n_reads = 0;

    while (n_reads < STAGE_MAX_READS && stage->reads[n_reads] != NULL)
        n_reads++;
    msg_map(out, 6);
    msg_put_str(out, "name", stage->name);
    msg_put_str(out, "runner", runners[stage->runner]);
    msg_key(out, "reads");
    msg_array(out, n_reads);
    for (size_t i = 0; i < n_reads; i++)
        msg_str(out, stage->reads[i]);
    msg_put_bool(out, "writes", stage->writes);
    msg_put_u64(out, "repeat_from", (uint64_t)stage->repeat_from);
    msg_put_u64(out, "repeat", stage->repeat > 1 ? (uint64_t)stage->repeat : 1);
}

static void pack_reads(const struct reads *r, struct msg_out *out)
{
    char name[STORE_COLUMN_NAME_MAX];
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        n += (size_t)reads_is_first(r, i);
    msg_key(out, "reads");
    msg_array(out, n);
    for (size_t i = 0; i < r->n; i++) {
        if (!reads_is_first(r, i))
            continue;
        reads_name(r, i, name);
        msg_str(out, name);
    }
}

static void pack_description(struct service *s, struct msg_out *out)
{
    /* the first operation that may not compute equal bytes on every machine */
    const struct operation *libm = graph_first_libm(s->graph);
    struct algo_rows rows = {.kind = ROWS_TRANSITIONS, .length = 1};
    struct algo_column columns[ALGO_MAX_COLUMNS];
    const size_t n_columns = service_columns(s, columns);
    size_t n;
    const struct stage *stages = service_stages(s, &n);

    msg_map(out, 9u + (libm != NULL) + (s->share != NULL));
    msg_key(out, "variables");
    service_pack_variables(s, out);
    msg_put_u64(out, "block_bytes", session_block_bytes(s->session));
    msg_key(out, "stages");
    msg_array(out, n);
    for (size_t i = 0; i < n; i++)
        pack_stage(&stages[i], out);
    msg_put_u64(out, "carry", (uint64_t)service_carry_width(s));
    if (s->share != NULL) {
        msg_key(out, "shared");
        msg_map(out, 2);
        msg_put_u64(out, "elements", share_elements(s->share));
        msg_put_u64(out, "layout", share_layout(s->share));
    }
    msg_key(out, "columns");
    msg_array(out, n_columns);
    for (size_t i = 0; i < n_columns; i++) {
        msg_map(out, 2);
        msg_put_str(out, "name", columns[i].name);
        msg_put_u64(out, "elements", (uint64_t)columns[i].elements);
    }
    pack_reads(&s->reads, out);
    if (s->ops->rows != NULL)
        s->ops->rows(s->algo, &rows);
    msg_key(out, "rows");
    msg_map(out, 2);
    msg_put_str(out, "kind", rows_kind_names[rows.kind]);
    msg_put_u64(out, "length", (uint64_t)rows.length);
    msg_put_bool(out, "proposes", service_proposes(s));
    msg_put_bool(out, "portable", libm == NULL);
    if (libm != NULL) {
        char text[256];

        (void)snprintf(text, sizeof(text), "op %s (%s)", operation_type(libm),
                       operation_name(libm));
        msg_put_str(out, "because", text);
    }
}

static int configure(struct service *s, const msgpack_object *body, struct err *err)
{
    struct world world = {0};
    int restored = 0, central = 0, rc;

    if ((rc = msg_get_str(body, "name", s->name, sizeof(s->name), err)) < 0 ||
        (rc = msg_get_u64(body, "seed", UINT64_MAX, &s->seed, err)) < 0 ||
        (rc = msg_get_bool(body, "restored", &restored, err)) < 0 ||
        (rc = parse_numerics(s, body, err)) < 0 ||
        (rc = parse_agents(s, body, err)) < 0 || (rc = parse_share(s, body, err)) < 0 ||
        (rc = parse_role(s, body, &central, err)) < 0 ||
        (rc = parse_world(body, &world, err)) < 0 ||
        (rc = parse_config(s, body, err)) < 0 ||
        (rc = parse_symmetry(s, body, &world, err)) < 0 ||
        (rc = configure_build(s, central, &world, err)) < 0 ||
        (rc = service_open_session(s, restored, err)) < 0 || restored)
        return rc;
    return s->ops->init(
        s->algo, s->session,
        rng_key_make(s->seed, s->share != NULL ? s->ps : s->name, PURPOSE_INIT), err);
}

int handle_configure(struct service *s, const struct msg *m, struct msg_out *out,
                     struct err *err)
{
    int rc = configure(s, &m->body, err);

    if (rc < 0) {
        service_unconfigure(s);
        return rc;
    }
    /* the columns of the log that the stages will read */
    if (s->ops->reads != NULL && (s->share == NULL || !share_is_ps(s->share)))
        s->ops->reads(s->algo, &s->reads);
    if (service_proposes(s))
        proposals_reads(&s->proposals, &s->agents[s->self], &s->reads);
    s->state = SERVICE_CONFIGURED;
    msg_begin_response(out, m->id);
    pack_description(s, out);
    return 0;
}
