#include "agent/plugin/plugin.h"

#include "agent/loop/loop.h"
#include "agent/plugin/brood_env.h"
#include "common/config/limits.h"
#include "common/err/check.h"
#include "common/io/monotonic.h"
#include "common/mem/xmalloc.h"
#include "common/msg/env_protocol.h"
#include "common/msg/obs_msg.h"
#include "common/msg/protocol.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_AGENTS = 1000, MAX_COPIES = 65536, MAX_METRICS = 32, WHY_BYTES = 200 };
/* During a long request, `progress` is sent this often. */
enum { PROGRESS_MS = 100 };
/* The size of struct brood_env_agent in ABI 1, where obs_kind and image are missing. */
enum { AGENT_BYTES_1 = offsetof(struct brood_env_agent, obs_kind) };

struct host {
    const struct brood_env *env;
    struct brood_env_param params[PLUGIN_MAX_PARAMS];
    size_t n_params;
    struct brood_env_agent *agents;
    size_t n_agents, n_copies, first;
    size_t obs_bytes;                 /* of all agents in one copy */
    size_t *action_before;            /* [A + 1] sum of the widths of the agents before */
    void **worlds;                    /* [E] NULL: not opened yet */
    const char *metrics[MAX_METRICS]; /* names that the answers to step shall have */
    size_t n_metrics;                 /* 0 also if the environment has none */

    /* The current request: its copies, their indices, and its results, agent by agent. */
    uint32_t *copies;
    size_t n;
    int64_t progress_at_ms; /* when it began, or the last `progress` was sent */
    float *actions;
    float **agent_obs; /* [A] (n, O), of bytes or floats */
    double *reward;
    double *metric; /* [n_metrics] (n) */
    uint8_t *terminated, *present, *allowed;
    /* The arguments for one world. */
    const float **own_actions;
    float **own_obs;
    uint8_t **own_allowed;
    double *own_reward;
    uint8_t *own_terminated, *own_present;
};

static int32_t n_heads(const struct brood_env_agent *a)
{
    return a->n_heads < BROOD_ENV_HEADS_MAX ? a->n_heads : BROOD_ENV_HEADS_MAX;
}

static size_t width_of(const struct brood_env_agent *a)
{
    size_t width = a->kind != BROOD_ENV_DISCRETE ? (size_t)a->box_width : 0;

    for (int32_t h = 0; a->kind != BROOD_ENV_BOX && h < n_heads(a); h++)
        width += (size_t)a->heads[h];
    return width;
}

/* ---- configure ---- */

static const char *copy_text(const msgpack_object *o)
{
    return xstrndup(o->via.str.ptr, o->via.str.size);
}

static int take_params(struct host *h, const msgpack_object *body, struct err *err)
{
    const msgpack_object *map = NULL;
    int rc = msg_get_map(body, "params", &map, err);

    for (uint32_t i = 0; rc == 0 && map != NULL && i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];

        if (kv->key.type != MSGPACK_OBJECT_STR || kv->val.type != MSGPACK_OBJECT_STR ||
            i == PLUGIN_MAX_PARAMS)
            return err_set(err, ERR_PROTOCOL, "params: at most %d texts expected",
                           PLUGIN_MAX_PARAMS);
        h->params[h->n_params++] =
            (struct brood_env_param){copy_text(&kv->key), copy_text(&kv->val)};
    }
    return rc;
}

/* An environment without metrics answers without them. */
static int take_metrics(struct host *h, const msgpack_object *body, struct err *err)
{
    const msgpack_object *list = NULL;
    int rc = msg_get_array(body, "metrics", &list, err);

    if (rc < 0 || list == NULL || h->env->abi < 3 || h->env->metric == NULL)
        return rc;
    for (uint32_t i = 0; i < list->via.array.size; i++) {
        if (list->via.array.ptr[i].type != MSGPACK_OBJECT_STR || i == MAX_METRICS)
            return err_set(err, ERR_PROTOCOL, "metrics: at most %d names expected",
                           MAX_METRICS);
        h->metrics[h->n_metrics++] = copy_text(&list->via.array.ptr[i]);
    }
    return 0;
}

static int check_heads(const struct brood_env_agent *a, struct err *err)
{
    if (a->n_heads < 1 || a->n_heads > BROOD_ENV_HEADS_MAX)
        return err_set(err, ERR_ARG, "agent '%s': n_heads is %d, expected 1 to %d",
                       a->name, a->n_heads, BROOD_ENV_HEADS_MAX);
    for (int32_t i = 0; i < a->n_heads; i++)
        if (a->heads[i] < 1)
            return err_set(err, ERR_ARG,
                           "agent '%s': heads[%d] is %d, expected 1 or more", a->name, i,
                           a->heads[i]);
    return 0;
}

/* Whether the observation can begin with the image, if the agent has one. */
static int is_image(const struct brood_env_agent *a)
{
    int64_t size = 1;

    if (a->image[0] == 0 && a->image[1] == 0 && a->image[2] == 0)
        return 1;
    for (size_t i = 0; i < 3; i++) {
        if (a->image[i] < 1 || size > a->obs_width)
            return 0;
        size *= a->image[i];
    }
    return size <= a->obs_width;
}

static int check_agent(const struct brood_env_agent *a, size_t i, struct err *err)
{
    if (memchr(a->name, '\0', sizeof(a->name)) == NULL)
        return err_set(err, ERR_ARG, "the name of agent %zu has no end", i);
    if (a->obs_width < 1)
        return err_set(err, ERR_ARG, "agent '%s': obs_width is %d, expected 1 or more",
                       a->name, a->obs_width);
    if (a->obs_kind != BROOD_ENV_FLOATS && a->obs_kind != BROOD_ENV_BYTES)
        return err_set(err, ERR_ARG,
                       "agent '%s': obs_kind is %d, expected BROOD_ENV_FLOATS or "
                       "BROOD_ENV_BYTES",
                       a->name, a->obs_kind);
    if (!is_image(a))
        return err_set(err, ERR_ARG,
                       "agent '%s': an image of %d x %d points and %d channels, and "
                       "obs_width is %d",
                       a->name, a->image[0], a->image[1], a->image[2], a->obs_width);
    if (a->kind < BROOD_ENV_DISCRETE || a->kind > BROOD_ENV_HYBRID)
        return err_set(err, ERR_ARG,
                       "agent '%s': kind is %d, expected BROOD_ENV_DISCRETE, "
                       "BROOD_ENV_BOX or BROOD_ENV_HYBRID",
                       a->name, a->kind);
    if (a->kind != BROOD_ENV_BOX && check_heads(a, err) < 0)
        return err->code;
    if (a->kind != BROOD_ENV_DISCRETE && a->box_width < 1)
        return err_set(err, ERR_ARG, "agent '%s': box_width is %d, expected 1 or more",
                       a->name, a->box_width);
    return 0;
}

static size_t obs_bytes(const struct brood_env_agent *a)
{
    return (size_t)a->obs_width *
           (a->obs_kind == BROOD_ENV_BYTES ? sizeof(uint8_t) : sizeof(float));
}

static int find_agents(struct host *h, struct err *err)
{
    char why[WHY_BYTES] = "";
    int n, rc = 0;

    h->agents = xcalloc(MAX_AGENTS, sizeof(*h->agents));
    n = h->env->agents(h->params, h->n_params, h->agents, MAX_AGENTS, why, sizeof(why));
    if (n > MAX_AGENTS)
        return err_set(err, ERR_ARG, "it has %d agents, expected at most %d", n,
                       MAX_AGENTS);
    if (n < 1)
        return err_set(err, ERR_ARG, "%.150s", *why != '\0' ? why : "it has no agents");
    h->n_agents = (size_t)n;
    if (h->env->abi == 1)
        /* moves the agents with the size of ABI 1 to where those of ABI 2 are */
        for (size_t a = h->n_agents; a-- > 0;) {
            memmove(&h->agents[a], (char *)h->agents + a * AGENT_BYTES_1, AGENT_BYTES_1);
            memset((char *)&h->agents[a] + AGENT_BYTES_1, 0,
                   sizeof(*h->agents) - AGENT_BYTES_1);
        }
    h->action_before = xcalloc(h->n_agents + 1, sizeof(*h->action_before));
    for (size_t a = 0; a < h->n_agents && rc == 0; a++) {
        rc = check_agent(&h->agents[a], a, err);
        h->obs_bytes += obs_bytes(&h->agents[a]);
        h->action_before[a + 1] = h->action_before[a] + width_of(&h->agents[a]);
    }
    return rc;
}

static void make_room(struct host *h)
{
    const size_t n = h->n_copies, n_agents = h->n_agents;

    h->worlds = xcalloc(n, sizeof(*h->worlds));
    h->copies = xcalloc(n, sizeof(*h->copies));
    h->actions = xcalloc(n * h->action_before[n_agents], sizeof(float));
    h->agent_obs = xcalloc(n_agents, sizeof(*h->agent_obs));
    for (size_t a = 0; a < n_agents; a++)
        h->agent_obs[a] = xcalloc(n, obs_bytes(&h->agents[a]));
    h->reward = xcalloc(n * n_agents, sizeof(double));
    h->metric = xcalloc(n * h->n_metrics + 1, sizeof(double));
    h->terminated = xcalloc(n * n_agents, 1);
    h->present = xcalloc(n * n_agents, 1);
    h->allowed = xcalloc(n * h->action_before[n_agents], 1);
    h->own_actions = xcalloc(n_agents, sizeof(*h->own_actions));
    h->own_obs = xcalloc(n_agents, sizeof(*h->own_obs));
    h->own_allowed = xcalloc(n_agents, sizeof(*h->own_allowed));
    h->own_reward = xcalloc(n_agents, sizeof(double));
    h->own_terminated = xcalloc(n_agents, 1);
    h->own_present = xcalloc(n_agents, 1);
}

static void pack_agent(const struct brood_env_agent *a, struct msg_out *out)
{
    static const char *const kinds[] = {[BROOD_ENV_DISCRETE] = "discrete",
                                        [BROOD_ENV_BOX] = "box",
                                        [BROOD_ENV_HYBRID] = "hybrid"};
    const struct image_part image = {{a->image[0], a->image[1], a->image[2]}, 0, 0};
    const int32_t heads = a->kind != BROOD_ENV_BOX ? a->n_heads : 0;

    msg_map(out, a->image[0] > 0 ? 5 : 4);
    msg_put_str(out, "name", a->name);
    msg_put_u64(out, "obs", (uint64_t)a->obs_width);
    msg_put_bool(out, "uint8", a->obs_kind == BROOD_ENV_BYTES);
    msg_put_image(out, &image, a->obs_width, 1);
    msg_key(out, "action");
    msg_map(out, 5);
    msg_put_str(out, "kind", kinds[a->kind]);
    msg_put_u64(out, "width", width_of(a));
    msg_key(out, "heads");
    msg_array(out, (size_t)heads);
    for (int32_t i = 0; i < heads; i++)
        msg_u64(out, (uint64_t)a->heads[i]);
    msg_put_f64(out, "low", a->low);
    msg_put_f64(out, "high", a->high);
}

static int configure(struct host *h, const struct msg *m, struct msg_out *out,
                     struct err *err)
{
    uint64_t copies = 0, first = 0;
    int rc;

    if (h->worlds != NULL)
        return err_set(err, ERR_STATE, "it was configured already");
    if ((rc = msg_get_u64(&m->body, "copies", MAX_COPIES, &copies, err)) < 0 ||
        (rc = msg_get_u64(&m->body, "first", UINT32_MAX, &first, err)) < 0 ||
        (rc = take_params(h, &m->body, err)) < 0 ||
        (rc = take_metrics(h, &m->body, err)) < 0 || (rc = find_agents(h, err)) < 0)
        return rc;
    h->n_copies = (size_t)copies;
    h->first = (size_t)first;
    make_room(h);
    msg_begin_response(out, m->id);
    msg_map(out, 3);
    msg_put_str(out, "name", h->env->name);
    msg_put_bool(out, "masks", h->env->masks);
    msg_key(out, "agents");
    msg_array(out, h->n_agents);
    for (size_t a = 0; a < h->n_agents; a++)
        pack_agent(&h->agents[a], out);
    return 0;
}

/* ---- reset and step ---- */

/* Called between copies. An error is ignored: that of the answer follows. */
static void show_life(struct host *h)
{
    struct msg_out out;

    if (monotonic_ms() - h->progress_at_ms < PROGRESS_MS)
        return;
    msg_out_init(&out);
    msg_begin_notification(&out, "progress");
    msg_map(&out, 0);
    (void)loop_send(AGENT_FD_OUT, &out, NULL);
    msg_out_done(&out);
    h->progress_at_ms = monotonic_ms();
}

static int plugin_take(const msgpack_object *body, const char *key, void *to, size_t len,
                       struct err *err)
{
    const void *data = NULL;
    size_t found = 0;
    int rc = msg_get_bin(body, key, &data, &found, err);

    if (rc == 0 && found != len)
        rc = err_set(err, ERR_PROTOCOL, "%s: %zu bytes, expected %zu", key, found, len);
    if (rc == 0 && len > 0)
        memcpy(to, data, len);
    return rc;
}

static int take_copies(struct host *h, const msgpack_object *body, struct err *err)
{
    const void *data = NULL;
    size_t len = 0;
    int rc = msg_get_bin(body, "copies", &data, &len, err);

    if (rc < 0)
        return rc;
    h->n = len / sizeof(*h->copies);
    if (h->worlds == NULL || h->n > h->n_copies)
        return err_set(err, ERR_PROTOCOL, "copies: %zu of %zu", h->n, h->n_copies);
    if ((rc = plugin_take(body, "copies", h->copies, h->n * sizeof(*h->copies), err)) < 0)
        return rc;
    for (size_t i = 0; i < h->n; i++)
        if (h->copies[i] >= h->n_copies)
            return err_set(err, ERR_PROTOCOL, "there is no copy %u", h->copies[i]);
    return 0;
}

/* Returns the part of the arrays that belongs to copy i, set to zero. */
static struct brood_env_view view(struct host *h, size_t i)
{
    for (size_t a = 0; a < h->n_agents; a++) {
        const size_t o = obs_bytes(&h->agents[a]), u = width_of(&h->agents[a]);

        h->own_obs[a] = (float *)(void *)((char *)h->agent_obs[a] + i * o);
        h->own_allowed[a] = h->allowed + h->action_before[a] * h->n + i * u;
        h->own_actions[a] = h->actions + h->action_before[a] * h->n + i * u;
        memset(h->own_obs[a], 0, o);
        memset(h->own_allowed[a], 0, u);
    }
    memset(h->own_reward, 0, h->n_agents * sizeof(double));
    memset(h->own_terminated, 0, h->n_agents);
    memset(h->own_present, 0, h->n_agents);
    return (struct brood_env_view){h->own_obs, h->own_present, h->own_allowed,
                                   h->own_reward, h->own_terminated};
}

static void keep(struct host *h, size_t i)
{
    for (size_t a = 0; a < h->n_agents; a++) {
        h->reward[a * h->n + i] = h->own_reward[a];
        h->terminated[a * h->n + i] = h->own_terminated[a];
        h->present[a * h->n + i] = h->own_present[a];
    }
}

static void pack_answer(struct host *h, const struct msg *m, int is_step,
                        struct msg_out *out)
{
    const size_t each = h->n * h->n_agents;

    msg_begin_response(out, m->id);
    msg_map(out, 2u + (is_step ? 2 : 0) + (h->env->masks ? 1 : 0) +
                     (is_step && h->n_metrics > 0 ? 1 : 0));
    msg_key(out, "obs");
    msg_bin_begin(out, h->obs_bytes * h->n);
    for (size_t a = 0; a < h->n_agents; a++)
        msg_bin_body(out, h->agent_obs[a], obs_bytes(&h->agents[a]) * h->n);
    msg_key(out, "present");
    msg_bin(out, h->present, each);
    if (h->env->masks) {
        msg_key(out, "allowed");
        msg_bin(out, h->allowed, h->n * h->action_before[h->n_agents]);
    }
    if (is_step) {
        msg_key(out, "reward");
        msg_bin(out, h->reward, each * sizeof(double));
        msg_key(out, "terminated");
        msg_bin(out, h->terminated, each);
    }
    if (is_step && h->n_metrics > 0) {
        msg_key(out, "metrics");
        msg_bin(out, h->metric, h->n_metrics * h->n * sizeof(double));
    }
}

static int reset_copy(struct host *h, size_t i, uint64_t seed, struct err *err)
{
    void **world = &h->worlds[h->copies[i]];
    const struct brood_env_view out = view(h, i);
    char why[WHY_BYTES] = "";

    if (*world == NULL)
        *world = h->env->open(h->params, h->n_params, why, sizeof(why));
    if (*world == NULL)
        return err_set(err, ERR_ARG, "copy %zu: %.150s", h->first + h->copies[i],
                       *why != '\0' ? why : "it cannot be opened");
    h->env->reset(*world, seed, &out);
    keep(h, i);
    return 0;
}

static int reset(struct host *h, const struct msg *m, struct msg_out *out,
                 struct err *err)
{
    uint64_t *seeds;
    int rc = take_copies(h, &m->body, err);

    if (rc < 0)
        return rc;
    seeds = xcalloc(h->n + 1, sizeof(*seeds));
    rc = plugin_take(&m->body, "seed", seeds, h->n * sizeof(*seeds), err);
    for (size_t i = 0; i < h->n && rc == 0; i++) {
        show_life(h);
        rc = reset_copy(h, i, seeds[i], err);
    }
    free(seeds);
    if (rc == 0)
        pack_answer(h, m, 0, out);
    return rc;
}

static int step(struct host *h, const struct msg *m, struct msg_out *out, struct err *err)
{
    int rc = take_copies(h, &m->body, err);

    if (rc == 0)
        rc = plugin_take(&m->body, "actions", h->actions,
                         h->n * h->action_before[h->n_agents] * sizeof(float), err);
    for (size_t i = 0; i < h->n && rc == 0; i++) {
        const struct brood_env_view v = view(h, i);

        if (h->worlds[h->copies[i]] == NULL)
            return err_set(err, ERR_PROTOCOL, "copy %u was not reset", h->copies[i]);
        show_life(h);
        h->env->step(h->worlds[h->copies[i]], h->own_actions, &v);
        keep(h, i);
        for (size_t k = 0; k < h->n_metrics; k++)
            h->metric[k * h->n + i] =
                h->env->metric(h->worlds[h->copies[i]], h->metrics[k]);
    }
    if (rc == 0)
        pack_answer(h, m, 1, out);
    return rc;
}

static int handle(void *ctx, const struct msg *m, struct msg_out *out)
{
    struct host *h = ctx;
    struct err err = {0};
    int rc;

    h->progress_at_ms = monotonic_ms();
    if (strcmp(m->method, "shutdown") == 0) {
        msg_begin_response(out, m->id);
        msg_map(out, 0);
        return 1;
    }
    if (strcmp(m->method, "configure") == 0)
        rc = configure(h, m, out, &err);
    else if (strcmp(m->method, "reset") == 0)
        rc = reset(h, m, out, &err);
    else if (strcmp(m->method, "step") == 0)
        rc = step(h, m, out, &err);
    else
        rc = err_set(&err, ERR_PROTOCOL, "there is no method %s", m->method);
    if (rc < 0)
        msg_error_response(out, m->id, &err);
    return 0;
}

/* ---- loading and serving ---- */

#ifdef BROOD_STATIC
static int load(struct host *h, const char *path, struct err *err)
{
    return err_set(
        err, ERR_UNSUPPORTED,
        "%.400s: this brood has no loader of shared libraries; build brood from its "
        "sources for environments in C",
        path);
}
#else
static int check_whole(const struct brood_env *e, const char *path, struct err *err)
{
    const struct {
        const char *name;
        int is_there;
    } parts[] = {{"name", e->name != NULL},   {"agents", e->agents != NULL},
                 {"open", e->open != NULL},   {"close", e->close != NULL},
                 {"reset", e->reset != NULL}, {"step", e->step != NULL}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!parts[i].is_there)
            return err_set(err, ERR_ARG, "%.200s: `%s` of its brood_env is NULL", path,
                           parts[i].name);
    return 0;
}

/* dlopen would search the system's libraries for a name without a slash */
static int load(struct host *h, const char *path, struct err *err)
{
    char *file = strchr(path, '/') != NULL ? xstrdup(path) : xasprintf("./%s", path);
    void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const struct brood_env *(*find)(void) = NULL;
    void *symbol;

    free(file);
    if (object == NULL)
        return err_set(err, ERR_NOT_FOUND, "%.400s", dlerror());
    symbol = dlsym(object, "brood_env_plugin");
    memcpy(&find, &symbol, sizeof(find));
    if (find == NULL || (h->env = find()) == NULL)
        return err_set(err, ERR_NOT_FOUND, "%.200s has no brood_env_plugin", path);
    if (h->env->abi < 1 || h->env->abi > BROOD_ENV_ABI)
        return err_set(err, ERR_UNSUPPORTED, "%.200s is for ABI %u, this is %u", path,
                       h->env->abi, BROOD_ENV_ABI);
    return check_whole(h->env, path, err);
}
#endif

static int say_hello(struct err *err)
{
    struct msg_out out;
    int rc;

    msg_out_init(&out);
    msg_begin_notification(&out, "hello");
    msg_map(&out, 1);
    msg_put_u64(&out, "protocol", ENV_PROTOCOL_VERSION);
    rc = loop_send(AGENT_FD_OUT, &out, err);
    msg_out_done(&out);
    return rc;
}

int plugin_main(int argc, char **argv)
{
    static struct host host; /* static: it lives as long as the process */
    struct err err = {0};
    int rc = argc == 3 ? load(&host, argv[2], &err)
                       : err_set(&err, ERR_ARG, "usage: plugin <parent pid> <path>");

    if (rc == 0)
        rc = say_hello(&err);
    if (rc == 0)
        rc = loop_serve(AGENT_FD_IN, AGENT_FD_OUT, NULL, handle, &host, &err);
    if (rc == 0)
        for (size_t i = 0; host.worlds != NULL && i < host.n_copies; i++)
            if (host.worlds[i] != NULL)
                host.env->close(host.worlds[i]);
    if (rc < 0 && rc != -EPIPE)
        (void)fprintf(stderr, "%s\n", err.msg);
    return rc < 0 && rc != -EPIPE ? AGENT_EXIT_NO_RESPAWN : AGENT_EXIT_DONE;
}
