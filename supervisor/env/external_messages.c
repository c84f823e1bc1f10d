/* Requests to processes of copies, and their answers. */
#include "supervisor/env/external_internal.h"

#include "common/mem/xmalloc.h"
#include "common/msg/env_protocol.h"
#include "common/wire/crc32c.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIDE = 4096 }; /* of a picture */

/* ---- requests ---- */

static void pack_copies(const struct external_process *p, const struct external_batch *b,
                        struct msg_out *o)
{
    msg_key(o, "copies");
    msg_bin_begin(o, b->n * sizeof(uint32_t));
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t number = (uint32_t)(b->copies[i] - p->first);

        msg_bin_body(o, &number, sizeof(number));
    }
}

void external_pack_reset(const struct external_world *w, const struct external_process *p,
                         const struct external_batch *b, struct msg_out *o)
{
    msg_map(o, 2);
    pack_copies(p, b, o);
    msg_key(o, "seed");
    msg_bin_begin(o, b->n * sizeof(uint64_t));
    for (size_t i = 0; i < b->n; i++)
        msg_bin_body(o, &w->episodes[b->copies[i]].seed, sizeof(uint64_t));
}

/* Consecutive copies are appended as one piece. */
static void pack_row(const struct external_batch *b, const float *row, size_t width,
                     struct msg_out *o)
{
    for (size_t i = 0, n; i < b->n; i += n) {
        for (n = 1; i + n < b->n && b->copies[i + n] == b->copies[i] + n; n++)
            ;
        msg_bin_body(o, row + b->copies[i] * width, n * width * sizeof(float));
    }
}

void external_pack_step(const struct external_world *w, const struct external_process *p,
                        const struct external_batch *b, const float *const *actions,
                        size_t step, struct msg_out *o)
{
    const size_t all = w->action_before[w->spec->n_agents];

    msg_map(o, 2);
    pack_copies(p, b, o);
    msg_key(o, "actions");
    msg_bin_begin(o, b->n * all * sizeof(float));
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        const size_t width = (size_t)w->spec->agents[a].space.width;

        if (actions != NULL)
            pack_row(b, actions[a], width, o);
        for (size_t i = 0; actions == NULL && i < b->n; i++)
            msg_bin_body(
                o, w->episodes[b->copies[i]].actions + step * all + w->action_before[a],
                width * sizeof(float));
    }
}

void external_pack(const struct external_world *w, const struct external_process *p,
                   struct msg_out *o)
{
    if (p->kind == EXTERNAL_RESET)
        external_pack_reset(w, p, &p->asked, o);
    else
        external_pack_step(w, p, &p->asked, w->actions, 0, o);
}

/* ---- answers ---- */

static int external_messages_take(const msgpack_object *body, const char *key, size_t len,
                                  const char **ret, struct err *err)
{
    const void *data = NULL;
    size_t found = 0;
    int rc;

    if ((rc = msg_require(body, key, err)) < 0 ||
        (rc = msg_get_bin(body, key, &data, &found, err)) < 0)
        return rc;
    if (found != len)
        return err_set(err, ERR_PROTOCOL, "%s: %zu bytes, expected %zu", key, found, len);
    *ret = found > 0 ? data : "";
    return 0;
}

static int take_all(const struct external_world *w, enum external_kind kind,
                    const msgpack_object *body, struct external_answer *a,
                    struct err *err)
{
    const size_t n = a->n, n_agents = w->spec->n_agents, each = n * n_agents;
    int rc;

    if (body->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "not a map");
    rc = external_messages_take(body, "obs", n * w->obs_before[n_agents], &a->obs, err);
    if (rc == 0)
        rc = external_messages_take(body, "present", each, &a->present, err);
    if (rc == 0 && w->spec->masks)
        rc = external_messages_take(body, "allowed", n * w->action_before[n_agents],
                                    &a->allowed, err);
    if (rc == 0 && kind == EXTERNAL_STEP)
        rc = external_messages_take(body, "reward", each * sizeof(double), &a->reward,
                                    err);
    if (rc == 0 && kind == EXTERNAL_STEP)
        rc = external_messages_take(body, "terminated", each, &a->terminated, err);
    if (rc == 0 && kind == EXTERNAL_STEP && w->spec->n_metrics > 0 &&
        msg_get(body, "metrics") != NULL)
        rc = external_messages_take(
            body, "metrics", n * w->spec->n_metrics * sizeof(double), &a->metrics, err);
    return rc;
}

/* Agent a's row of copy i. */
static const char *obs_of(const struct external_world *w, const struct external_answer *x,
                          size_t agent, size_t i)
{
    return x->obs + w->obs_before[agent] * x->n +
           i * env_obs_bytes(&w->spec->agents[agent]);
}

static const char *allowed_of(const struct external_world *w,
                              const struct external_answer *x, size_t agent, size_t i)
{
    const size_t width = (size_t)w->spec->agents[agent].space.width;

    return x->allowed + w->action_before[agent] * x->n + i * width;
}

static double reward_of(const struct external_answer *x, size_t agent, size_t i)
{
    double v;

    memcpy(&v, x->reward + (agent * x->n + i) * sizeof(v), sizeof(v));
    return v;
}

/* obs: of the copies from number `first` of the batch on. */
static int refuse_obs(const struct external_world *w, const struct external_batch *b,
                      const char *obs, size_t first, size_t agent, struct err *err)
{
    const size_t width = (size_t)w->spec->agents[agent].obs_width;
    size_t i = 0;
    float v;

    for (memcpy(&v, obs, sizeof(v)); isfinite(v);
         memcpy(&v, obs + i * sizeof(v), sizeof(v)))
        i++;
    return err_set(err, ERR_NONFINITE, "observation of %s in copy %zu: entry %zu is %g%s",
                   w->spec->agents[agent].name, b->copies[first + i / width], i % width,
                   (double)v, isinf(v) ? ", or a number that float32 cannot have" : "");
}

/* The bytes may be unaligned: they are read as 32-bit integers. */
static int is_finite(const char *data, size_t n)
{
    uint32_t found = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, data + i * sizeof(bits), sizeof(bits));
        found |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return !found;
}

/* Checks copies first .. first+n-1 of the answer. */
static int check_finite(const struct external_world *w, const struct external_process *p,
                        const struct external_answer *x, size_t first, size_t n,
                        struct err *err)
{
    const struct external_batch *b = &p->asked;

    for (size_t a = 0; a < w->spec->n_agents; a++) {
        const struct env_agent *agent = &w->spec->agents[a];
        const char *obs = obs_of(w, x, a, first);

        if (!agent->obs_is_u8 && !is_finite(obs, n * (size_t)agent->obs_width))
            return refuse_obs(w, b, obs, first, a, err);
        for (size_t i = first; p->kind == EXTERNAL_STEP && i < first + n; i++) {
            if (!isfinite(reward_of(x, a, i)))
                return err_set(err, ERR_NONFINITE, "reward of %s in copy %zu is %g",
                               agent->name, b->copies[i], reward_of(x, a, i));
        }
    }
    return 0;
}

static int wrap(const struct external_process *p, enum external_kind kind,
                struct err *err)
{
    return err_wrap(err, "%s: answer to %s", p->name,
                    kind == EXTERNAL_RESET ? "reset" : "step");
}

int external_check_copy(const struct external_world *w, const struct external_process *p,
                        const struct external_answer *x, size_t i, struct err *err)
{
    return check_finite(w, p, x, i, 1, err);
}

int external_check_finite(const struct external_world *w,
                          const struct external_process *p,
                          const struct external_answer *x, struct err *err)
{
    return check_finite(w, p, x, 0, x->n, err) < 0 ? wrap(p, p->kind, err) : 0;
}

int external_check_presence(const struct external_world *w,
                            const struct external_process *p,
                            const struct external_answer *x, struct err *err)
{
    for (size_t i = 0; p->kind == EXTERNAL_RESET && i < x->n; i++) {
        size_t a = 0;

        while (a < w->spec->n_agents && x->present[a * x->n + i] == 0)
            a++;
        if (a == w->spec->n_agents && !w->episodes[p->asked.copies[i]].lost) {
            (void)err_set(err, ERR_PROTOCOL, "copy %zu has no agent after its reset",
                          p->asked.copies[i]);
            return wrap(p, p->kind, err);
        }
    }
    return 0;
}

int external_parse_answer(const struct external_world *w,
                          const struct external_process *p,
                          const struct external_batch *b, enum external_kind kind,
                          const msgpack_object *body, struct external_answer *ret,
                          struct err *err)
{
    int rc;

    *ret = (struct external_answer){.n = b->n};
    rc = take_all(w, kind, body, ret, err);
    return rc < 0 ? wrap(p, kind, err) : 0;
}

int external_take_picture(struct external_world *w, const struct external_process *p,
                          const msgpack_object *body, struct err *err)
{
    const msgpack_object *map = NULL;
    const void *rgb = NULL;
    uint64_t width = 0, height = 0;
    size_t len = 0;
    int rc;

    if ((rc = msg_get_map(body, "picture", &map, err)) == 0 && map == NULL)
        return 0;
    if (rc < 0 || (rc = msg_get_u64(map, "width", MAX_SIDE, &width, err)) < 0 ||
        (rc = msg_get_u64(map, "height", MAX_SIDE, &height, err)) < 0 ||
        (rc = msg_get_bin(map, "rgb", &rgb, &len, err)) < 0)
        return err_wrap(err, "%s: picture", p->name);
    if (len == 0 || len != width * height * 3)
        return err_set(err, ERR_PROTOCOL, "%s: picture: %zu bytes for %llu x %llu pixels",
                       p->name, len, (unsigned long long)width,
                       (unsigned long long)height);
    w->pixels = xrealloc(w->pixels, len);
    memcpy(w->pixels, rgb, len);
    w->picture = (struct scene_picture){(size_t)width, (size_t)height, w->pixels};
    return 0;
}

static int take_text(const msgpack_object *map, const char *key,
                     char ret[ENV_WARNING_BYTES], struct err *err)
{
    const msgpack_object *o = map->type == MSGPACK_OBJECT_MAP ? msg_get(map, key) : NULL;

    if (o == NULL || o->type != MSGPACK_OBJECT_STR)
        return err_set(err, ERR_PROTOCOL, "warnings: one without a string `%s`", key);
    (void)snprintf(ret, ENV_WARNING_BYTES, "%.*s", (int)o->via.str.size, o->via.str.ptr);
    external_make_plain(ret);
    return 0;
}

int external_take_warnings(const struct external_world *w,
                           const struct external_process *p, const msgpack_object *body,
                           struct err *err)
{
    const msgpack_object *list = NULL;
    int rc = msg_get_array(body, "warnings", &list, err);

    for (uint32_t i = 0; rc == 0 && list != NULL && i < list->via.array.size; i++) {
        char what[ENV_WARNING_BYTES], where[ENV_WARNING_BYTES];

        rc = take_text(&list->via.array.ptr[i], "what", what, err);
        if (rc == 0)
            rc = take_text(&list->via.array.ptr[i], "where", where, err);
        if (rc == 0)
            env_host_on_warning(w->host, p->name, what, where);
    }
    return rc < 0 ? wrap(p, p->kind, err) : 0;
}

uint32_t external_sum(const struct external_world *w, enum external_kind kind,
                      const struct external_answer *x, size_t i, uint32_t sum)
{
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        const struct env_agent *agent = &w->spec->agents[a];

        sum = crc32c_extend(sum, obs_of(w, x, a, i), env_obs_bytes(agent));
        sum = crc32c_extend(sum, x->present + a * x->n + i, 1);
        if (x->allowed != NULL)
            sum = crc32c_extend(sum, allowed_of(w, x, a, i), (size_t)agent->space.width);
        if (kind == EXTERNAL_RESET)
            continue;
        sum = crc32c_extend(sum, x->reward + (a * x->n + i) * sizeof(double),
                            sizeof(double));
        sum = crc32c_extend(sum, x->terminated + a * x->n + i, 1);
    }
    return sum;
}

/* ---- views ---- */

/* Ignores data about agents that are absent both before and after the step. */
static void show(const struct external_world *w, enum external_kind kind,
                 const struct external_answer *x, size_t i, size_t copy,
                 float *const *obs, uint8_t *const *allowed)
{
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        const size_t o = env_obs_bytes(&w->spec->agents[a]);
        const size_t u = (size_t)w->spec->agents[a].space.width;
        uint8_t *present = &w->views.present[a][copy];
        const uint8_t was_there = *present;

        *present = x->present[a * x->n + i] != 0;
        if (kind == EXTERNAL_STEP && !was_there && !*present)
            continue;
        memcpy((char *)obs[a] + copy * o, obs_of(w, x, a, i), o);
        env_clip(w->spec, a, 1, (char *)obs[a] + copy * o);
        for (size_t k = 0; x->allowed != NULL && k < u; k++)
            allowed[a][copy * u + k] = allowed_of(w, x, a, i)[k] != 0;
    }
}

void external_write_now(const struct external_world *w, enum external_kind kind,
                        const struct external_answer *x, size_t i, size_t copy)
{
    show(w, kind, x, i, copy, w->views.obs, w->views.allowed);
}

void external_write_step(const struct external_world *w, const struct external_answer *x,
                         size_t i, size_t copy)
{
    show(w, EXTERNAL_STEP, x, i, copy, w->views.next_obs, w->views.next_allowed);
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        w->views.reward[a][copy] = reward_of(x, a, i);
        w->views.terminated[a][copy] = x->terminated[a * x->n + i] != 0;
    }
    for (size_t m = 0; m < w->spec->n_metrics; m++) {
        double v = (double)NAN;

        if (x->metrics != NULL)
            memcpy(&v, x->metrics + (m * x->n + i) * sizeof(v), sizeof(v));
        w->views.metric[m][copy] =
            isfinite(v) ? v : (double)NAN; /* an infinite one is none */
    }
}

void external_write_idle(const struct external_world *w, size_t copy)
{
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        const size_t o = env_obs_bytes(&w->spec->agents[a]);
        const size_t u = (size_t)w->spec->agents[a].space.width;

        memcpy((char *)w->views.next_obs[a] + copy * o,
               (char *)w->views.obs[a] + copy * o, o);
        if (w->views.allowed != NULL)
            memcpy(w->views.next_allowed[a] + copy * u, w->views.allowed[a] + copy * u,
                   u);
        w->views.reward[a][copy] = 0;
        w->views.terminated[a][copy] = w->views.present[a][copy] = 0;
    }
    for (size_t m = 0; m < w->spec->n_metrics; m++)
        w->views.metric[m][copy] = (double)NAN;
}
