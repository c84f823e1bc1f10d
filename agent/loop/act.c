#include "agent/loop/service_internal.h"

#include "common/mem/copy_short.h"

#include <string.h>

/* The keys of the draws, one per copy. In training, copy e acts at joint step `step` + e.
 * In an evaluation the request gives the episode and the time of each copy, so that the
 * draws do not depend on the number of copies. */
static int read_draws(struct service *s, const msgpack_object *body, size_t n,
                      struct act_args *args, int *ret_is_evaluation, struct err *err)
{
    const size_t width = s->self < s->n_agents ? (size_t)s->agents[s->self].width : 0;
    const void *episode = NULL, *time = NULL;
    size_t episode_len = 0, time_len = 0;
    uint64_t step = 0, seed = s->seed, *counter, *first;
    int rc;

    if ((rc = msg_get_u64(body, "step", UINT64_MAX, &step, err)) < 0 ||
        (rc = msg_get_u64(body, "seed", UINT64_MAX, &seed, err)) < 0 ||
        (rc = msg_get_bin(body, "episode", &episode, &episode_len, err)) < 0 ||
        (rc = msg_get_bin(body, "time", &time, &time_len, err)) < 0 ||
        (rc = scratch_reserve(&s->counters, n, sizeof(*counter), err)) < 0 ||
        (rc = scratch_reserve(&s->draw_first, n, sizeof(*first), err)) < 0)
        return rc;
    if ((episode == NULL) != (time == NULL) ||
        (episode != NULL &&
         (episode_len != n * sizeof(*counter) || time_len != n * sizeof(*first))))
        return err_set(err, ERR_PROTOCOL, "episode, time: %zu numbers each expected", n);

    counter = s->counters.data;
    first = s->draw_first.data;
    for (size_t e = 0; e < n; e++) {
        counter[e] = step + e;
        first[e] = 0;
    }
    if (episode != NULL) {
        memcpy(counter, episode, episode_len);
        memcpy(first, time, time_len);
        for (size_t e = 0; e < n; e++)
            first[e] *= width;
    }
    args->key =
        rng_key_make(seed, s->name, episode != NULL ? PURPOSE_EVALUATE : PURPOSE_ACT);
    args->step = step;
    args->counter = counter;
    args->draw_first = first;
    *ret_is_evaluation = episode != NULL;
    return 0;
}

/* The observations as floats: bytes are converted. */
static int read_obs(struct service *s, const msgpack_object *body, struct act_args *args,
                    struct err *err)
{
    const enum dtype dtype = s->agents[s->self].obs_is_u8 ? DT_UINT8 : DT_FLOAT;
    const int64_t width = s->agents[s->self].obs;
    struct tensor obs = TENSOR_NONE;
    int rc = msg_get_tensor(body, "obs", &obs, err);

    if (rc < 0)
        return rc;
    if (obs.dtype != dtype || obs.shape.rank != 2 || obs.shape.dim[0] < 1 ||
        obs.shape.dim[1] != width)
        return err_set(err, ERR_SHAPE, "obs: %s (E, %lld) expected", dtype_name(dtype),
                       (long long)width);
    args->n_copies = (size_t)obs.shape.dim[0];
    args->obs = obs.data;
    if (dtype == DT_FLOAT)
        return 0;
    rc = scratch_reserve(&s->obs, args->n_copies * (size_t)width, sizeof(float), err);
    if (rc == 0) {
        copy_bytes_to_floats(s->obs.data, obs.data, args->n_copies * (size_t)width);
        args->obs = s->obs.data;
    }
    return rc;
}

static int read_allowed(const struct service *s, const msgpack_object *body,
                        struct act_args *args, struct err *err)
{
    const size_t want = args->n_copies * (size_t)s->agents[s->self].width;
    const void *allowed = NULL;
    size_t len = 0;
    int rc = msg_get_bin(body, "allowed", &allowed, &len, err);

    if (rc == 0 && allowed != NULL && len != want)
        return err_set(err, ERR_PROTOCOL, "allowed: %zu bytes, expected %zu", len, want);
    args->allowed = allowed;
    return rc;
}

static int read_carry(const struct service *s, const msgpack_object *body,
                      struct act_args *args, struct err *err)
{
    const struct shape want = SHAPE((int64_t)args->n_copies, service_carry_width(s));
    struct tensor carry = TENSOR_NONE;
    const void *first = NULL;
    size_t first_len = 0;
    int rc;

    if ((rc = msg_get_tensor(body, "carry", &carry, err)) < 0 ||
        (rc = msg_get_bin(body, "first", &first, &first_len, err)) < 0)
        return rc;
    if (first != NULL && first_len != args->n_copies)
        return err_set(err, ERR_PROTOCOL, "first: a byte for each of %zu copies expected",
                       args->n_copies);
    if (want.dim[1] > 0 && (carry.dtype != DT_FLOAT || !shape_equal(&carry.shape, &want)))
        return err_set(err, ERR_SHAPE, "carry: float32 %s expected", shape_text(&want));
    args->first = first;
    args->carry = want.dim[1] > 0 ? tensor_f32(&carry) : NULL;
    return 0;
}

static int reserve_columns(struct service *s, size_t copies, struct act_result *ret,
                           struct err *err)
{
    struct algo_column columns[ALGO_MAX_COLUMNS];
    const size_t n = service_columns(s, columns);
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = scratch_reserve(&s->columns[i], copies,
                             (size_t)columns[i].elements * sizeof(float), err);
        ret->columns[i] = s->columns[i].data;
    }
    return rc;
}

static void pack_result(struct service *s, const struct act_args *args,
                        const struct act_result *res, const struct fetch *fetch,
                        struct msg_out *out)
{
    const int64_t n = (int64_t)args->n_copies, carry_width = service_carry_width(s);
    const struct tensor actions =
        tensor_view(DT_FLOAT, SHAPE(n, s->agents[s->self].width), res->actions);
    const struct tensor carry = tensor_view(DT_FLOAT, SHAPE(n, carry_width), res->carry);

    msg_map(out, 1u + (carry_width > 0) + (res->columns[0] != NULL) + fetch_pairs(fetch));
    msg_key(out, "actions");
    msg_tensor(out, &actions);
    if (res->columns[0] != NULL) {
        struct algo_column columns[ALGO_MAX_COLUMNS];
        const size_t n_columns = service_columns(s, columns);

        msg_key(out, "columns");
        msg_map(out, n_columns);
        for (size_t i = 0; i < n_columns; i++) {
            const struct shape shape =
                SHAPE((int64_t)args->n_copies, columns[i].elements);
            const struct tensor t = tensor_view(DT_FLOAT, shape, res->columns[i]);

            msg_key(out, columns[i].name);
            msg_tensor(out, &t);
        }
    }
    if (carry_width > 0) {
        msg_key(out, "carry");
        msg_tensor(out, &carry);
    }
    fetch_pack(fetch, out);
}

/* In a product of the matrix library the last bits of a row depend on the number of rows
 * and on the row's place among them. So under NUMERICS_NATIVE each copy of an evaluation
 * acts in a run of its own. In products by brood's kernels a row's bits do not depend on
 * the other rows. */
static int act_one_by_one(struct service *s, const struct act_args *all,
                          const struct act_result *all_res, struct err *err)
{
    const size_t width = (size_t)s->agents[s->self].width;
    const size_t obs = (size_t)s->agents[s->self].obs;
    const size_t carry = (size_t)service_carry_width(s);
    int rc = 0;

    for (size_t e = 0; rc == 0 && e < all->n_copies; e++) {
        struct act_args one = *all;
        struct act_result res = {.actions = all_res->actions + e * width,
                                 .carry = all_res->carry};

        one.n_copies = 1;
        one.obs += e * obs;
        one.allowed = all->allowed != NULL ? all->allowed + e * width : NULL;
        one.first = all->first != NULL ? all->first + e : NULL;
        one.counter += e;
        one.draw_first += e;
        if (carry > 0) {
            one.carry = all->carry + e * carry;
            res.carry += e * carry;
        }
        rc = s->ops->act(s->algo, s->session, &one, &res, err);
    }
    return rc;
}

int handle_act(struct service *s, const struct msg *m, struct msg_out *out,
               struct err *err)
{
    struct act_args args = {0};
    struct act_result res;
    struct fetch *fetch = NULL;
    uint64_t mode = 0;
    int is_evaluation = 0, rc;

    if (s->self == s->n_agents)
        return err_set(err, ERR_STATE, "only agents act");
    if (s->ops->act == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "clients run this agent's graph: it has no policy");
    if ((rc = msg_get_u64(&m->body, "mode", ACT_GREEDY, &mode, err)) < 0 ||
        (rc = read_obs(s, &m->body, &args, err)) < 0 ||
        (rc = read_allowed(s, &m->body, &args, err)) < 0 ||
        (rc = read_carry(s, &m->body, &args, err)) < 0 ||
        (rc = read_draws(s, &m->body, args.n_copies, &args, &is_evaluation, err)) < 0 ||
        (rc = scratch_reserve(&s->actions, args.n_copies,
                              (size_t)s->agents[s->self].width * sizeof(float), err)) <
            0 ||
        (rc = scratch_reserve(&s->carry, args.n_copies,
                              (size_t)service_carry_width(s) * sizeof(float), err)) < 0)
        return rc;
    args.mode = (enum act_mode)mode;
    res = (struct act_result){.actions = s->actions.data, .carry = s->carry.data};
    if ((!is_evaluation && (rc = reserve_columns(s, args.n_copies, &res, err)) < 0) ||
        (rc = fetch_begin(&fetch, s, &m->body, err)) < 0)
        return rc;
    rc = is_evaluation && s->numerics == NUMERICS_NATIVE
             ? act_one_by_one(s, &args, &res, err)
             : s->ops->act(s->algo, s->session, &args, &res, err);
    if (rc == 0) {
        msg_begin_response(out, m->id);
        pack_result(s, &args, &res, fetch, out);
    }
    fetch_end(fetch, s);
    return rc;
}
