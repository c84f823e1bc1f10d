#include "supervisor/begin/policies.h"

#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/saved_model.h"
#include "common/config/algorithms.h"
#include "common/config/run_schema.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/wire/cursor.h"
#include "supervisor/env/env.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE_ROOM_BYTES (1u << 16)

struct kept {
    struct rollout_policy policy; /* points into the two below */
    struct wbuf metagraph;
    char *prefix;
    struct checkpoint_values values; /* of a program */
    int has_values;
};

struct policies {
    size_t n;
    char (*names)[AGENT_NAME_MAX];
    struct kept *kept; /* [n]; agents without a metagraph build their own */
};

static struct policies *new_policies(const struct run_config *c)
{
    struct policies *p = xcalloc(1, sizeof(*p));

    p->n = c->n_agents;
    p->names = xcalloc(p->n, sizeof(*p->names));
    p->kept = xcalloc(p->n, sizeof(*p->kept));
    for (size_t i = 0; i < p->n; i++)
        (void)snprintf(p->names[i], sizeof(p->names[i]), "%s", c->agents[i].name);
    return p;
}

void policies_free(struct policies *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->n; i++) {
        wbuf_done(&p->kept[i].metagraph);
        free(p->kept[i].prefix);
        checkpoint_values_done(&p->kept[i].values);
    }
    free(p->kept);
    free(p->names);
    free(p);
}

const struct rollout_policy *policies_of(const struct policies *p, size_t agent)
{
    if (p == NULL || agent >= p->n || p->kept[agent].policy.metagraph == NULL)
        return NULL;
    return &p->kept[agent].policy;
}

const struct checkpoint_values *policies_values(const struct policies *p, size_t agent)
{
    return p != NULL && agent < p->n && p->kept[agent].has_values ? &p->kept[agent].values
                                                                  : NULL;
}

/* Points the policy to the graph that was read from the file. */
static int keep_metagraph(struct kept *k, const char *file, struct err *err)
{
    if (k->metagraph.len == 0)
        return err_set(err, ERR_FORMAT, "%s is empty", file);
    k->policy.metagraph = k->metagraph.data;
    k->policy.metagraph_bytes = k->metagraph.len;
    return 0;
}

/* ---- comparing environments ---- */

/* The first difference in a key with FIELD_MEANING. */
struct difference {
    char path[64], text[64]; /* path "": there is none */
};

static void keep_first(void *ctx, const struct schema_difference *d)
{
    struct difference *first = ctx;

    if ((d->field->flags & FIELD_MEANING) == 0 || first->path[0] != '\0')
        return;
    (void)snprintf(first->path, sizeof(first->path), "%s", d->path);
    (void)snprintf(first->text, sizeof(first->text), "%s", d->text);
}

/* *ret: the value of `is` at the first difference from `was`. */
static int compare(struct difference *ret, const struct run_config *was,
                   const struct run_config *is, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    int rc = 0;

    *ret = (struct difference){0};
    schema_compare(&run_schema, "", was, is, keep_first, ret);
    if (ret->path[0] == '\0') {
        const void *p, *q;

        rc = env_params_read(&was->env, &arena, &p, err);
        if (rc == 0)
            rc = env_params_read(&is->env, &arena, &q, err);
        if (rc == 0)
            schema_compare(env_info_find(is->env.id)->params, "env.params", p, q,
                           keep_first, ret);
    }
    arena_done(&arena);
    return rc;
}

/* External environments, and runs without one, are not compared. */
static int check_meaning(const struct run_config *source, const struct run_config *c,
                         const char *file, struct err *err)
{
    struct difference was, is;
    int rc;

    if (env_info_find(source->env.id) == NULL || env_info_find(c->env.id) == NULL)
        return 0;
    rc = compare(&is, source, c, err);
    if (rc == 0)
        rc = compare(&was, c, source, err);
    if (rc < 0 || is.path[0] == '\0')
        return rc;
    return err_set(err, ERR_CONFIG, "it was trained with %s: %s (%.100s), here it is %s",
                   is.path, was.text, file, is.text);
}

/* A policy from another environment may have the right shapes and still act wrongly. */
static int check_environment(const char *prefix, const struct run_config *c,
                             struct err *err)
{
    char *file = policy_config_beside(prefix);
    struct run_config source;
    int rc;

    if (file == NULL)
        return 0;
    rc = run_config_read(&source, file, NULL, err);
    if (rc == 0) {
        rc = check_meaning(&source, c, file, err);
        run_config_done(&source);
    }
    free(file);
    return rc;
}

static int find(struct kept *k, const struct agent_config *a, const struct run_config *c,
                const struct policy_search *q, struct err *err)
{
    char *owner;
    int rc = 0;

    if (a->policy.from != NULL)
        k->prefix = xstrdup(a->policy.from);
    else
        rc = policy_find_prefix(&k->prefix, a, q, err);
    if (rc == 0 && algorithm_of(a)->fixed)
        rc = check_environment(k->prefix, c, err);
    if (rc < 0)
        return rc;
    if (a->policy.from == NULL) {
        rc = ckpt_read_graph(&k->metagraph, k->prefix, NULL,
                             FRAME_MAX_BYTES - MESSAGE_ROOM_BYTES, err);
        if (rc == 0)
            rc = keep_metagraph(k, k->prefix, err);
        /* a hosted graph may begin without values: its variables' initializers run */
        if (algorithm_of(a)->fixed || ckpt_kind_of(k->prefix) != CKPT_NONE)
            k->policy.prefix = k->prefix;
        return rc;
    }
    rc = checkpoint_load_from(&k->values, k->prefix, err);
    k->has_values = rc == 0;
    owner = policy_agent_of(k->prefix);
    if (rc == 0)
        checkpoint_values_rename(&k->values, owner, a->name);
    free(owner);
    return rc;
}

int policies_find(struct policies **ret, const struct run_config *c,
                  const struct policy_search *search, struct err *err)
{
    struct policies *p = new_policies(c);

    for (size_t i = 0; i < c->n_agents; i++) {
        const struct agent_config *a = &c->agents[i];
        char path[AGENT_NAME_MAX + 32];
        struct err why = {0};

        if ((a->policy.from == NULL && !algorithm_brings_graph(a)) ||
            find(&p->kept[i], a, c, search, &why) == 0)
            continue;
        policies_free(p);
        (void)snprintf(path, sizeof(path), "agents.%s.settings.from", a->name);
        if (a->from_at != NULL)
            return yaml_fail_since(a->from_at, path, err, &why);
        return err_set(err, err_is_failure(why.code) ? why.code : ERR_CONFIG,
                       "agents.%s.policy.from: %s", a->name, why.msg);
    }
    *ret = p;
    return 0;
}

int policies_refuse_within(const struct policies *p, const char *runs_dir,
                           const char *name, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < p->n && rc == 0; i++) {
        const char *prefix = p->kept[i].prefix;
        char *folder;

        if (prefix == NULL)
            continue;
        folder = xstrndup(prefix, (size_t)(strrchr(prefix, '/') - prefix));
        rc = run_dir_refuse_within(runs_dir, name, folder, err);
        free(folder);
    }
    return rc;
}

/* ---- keeping ---- */

int policies_keep(const struct policies *p, struct run_dir *dir, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < p->n && rc == 0; i++) {
        char sub[AGENT_NAME_MAX + 32];

        if (policies_of(p, i) == NULL)
            continue;
        (void)snprintf(sub, sizeof(sub), "policies/%s.meta", p->names[i]);
        rc = tree_make(run_dir_file(dir, "policies"), err);
        if (rc == 0)
            rc = run_dir_write(dir, sub, p->kept[i].metagraph.data,
                               p->kept[i].metagraph.len, err);
    }
    return rc;
}

int policies_load(struct policies **ret, const struct run_config *c, const char *path,
                  struct err *err)
{
    struct policies *p = new_policies(c);
    int rc = 0;

    for (size_t i = 0; i < c->n_agents && rc == 0; i++) {
        char *file;

        if (!algorithm_brings_graph(&c->agents[i]))
            continue;
        file = xasprintf("%s/policies/%s.meta", path, c->agents[i].name);
        rc = wbuf_read_file(&p->kept[i].metagraph, file,
                            FRAME_MAX_BYTES - MESSAGE_ROOM_BYTES, err);
        if (rc == 0)
            rc = keep_metagraph(&p->kept[i], file, err);
        free(file);
    }
    if (rc < 0)
        policies_free(p);
    else
        *ret = p;
    return rc;
}
