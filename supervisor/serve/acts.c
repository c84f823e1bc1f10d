#include "supervisor/serve/acts.h"

#include "common/mem/xmalloc.h"
#include "supervisor/rollout/acting.h"
#include "supervisor/serve/episodes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_EVERY_MS = 500 };

struct act {
    struct acts *acts;
    size_t agent, rows;
    int is_batch; /* the request has a list of rows: so has the answer */
    enum act_mode mode;
    int has_seed;
    uint64_t seed, number;      /* number: of the request, among all */
    char episode[EPISODE_NAME]; /* "": none */
    uint8_t *obs;               /* (rows, env_obs_bytes) */
    uint8_t *allowed;           /* (rows, U); NULL: all are */
    uint8_t *first;             /* (rows) */
    int begins;                 /* all rows are their episodes' first */
    int is_alone;               /* it is sent with no other */
    size_t bytes;
    uint64_t ends_ms;
    acts_answer_fn on_answer; /* NULL: nobody waits */
    void *ctx;
    STAILQ_ENTRY(act) entry;
};

STAILQ_HEAD(act_queue, act);

struct actor {
    uint64_t n_requests, n_sent; /* taken from clients; sent to the process */
    struct description description;
    struct episodes episodes;
    int can_merge; /* a row of its actions has the same bits among others */
    struct act_queue queue;
    struct act_queue
        sent; /* that its process works at: their rows are one request to it */
};

struct acts {
    struct acts_args args;
    const struct env_spec *spec;
    struct agent_table *agents;
    struct actor *actors; /* [spec->n_agents] */
    size_t n_agents;      /* the spec's, which is gone when acts_free is called */
    size_t n_waiting, waiting_bytes;
    uint64_t n_requests;
    uv_timer_t timer;
    uv_loop_t *loop;
    int is_closed;
};

static void serve_next(struct acts *s, size_t agent);

/* ---- answers ---- */

void acts_refuse(msgpack_sbuffer *ret, const char *why)
{
    msgpack_packer pk;

    msgpack_packer_init(&pk, ret, msgpack_sbuffer_write);
    (void)msgpack_pack_map(&pk, 1);
    (void)msgpack_pack_str_with_body(&pk, "error", strlen("error"));
    (void)msgpack_pack_str_with_body(&pk, why, strlen(why));
}

static enum acts_status status_of(int code)
{
    return code == ERR_NOT_FOUND ? ACTS_NO_AGENT
           : code == ERR_STATE   ? ACTS_FORGOTTEN
           : code == ERR_LIMIT   ? ACTS_TOO_LARGE
           : code == ERR_TIMEOUT ? ACTS_LATER
           : code == ERR_AGENT   ? ACTS_FAILED
                                 : ACTS_WRONG;
}

static void refuse(acts_answer_fn on_answer, void *ctx, const struct err *why)
{
    msgpack_sbuffer answer;

    msgpack_sbuffer_init(&answer);
    acts_refuse(&answer, why->msg);
    on_answer(ctx, status_of(why->code), &answer);
    msgpack_sbuffer_destroy(&answer);
}

static void free_act(struct act *a)
{
    a->acts->n_waiting--;
    a->acts->waiting_bytes -= a->bytes;
    free(a->obs);
    free(a->allowed);
    free(a->first);
    free(a);
}

static void answer_error(struct act *a, const struct err *why)
{
    if (a->on_answer != NULL)
        refuse(a->on_answer, a->ctx, why);
    a->on_answer = NULL;
}

static void pack_key(msgpack_packer *pk, const char *key)
{
    (void)msgpack_pack_str_with_body(pk, key, strlen(key));
}

/* The choice of each part of an action: one alone is no list. */
static void pack_choices(msgpack_packer *pk, const struct action_space *s, const float *x)
{
    if (s->n_heads != 1)
        (void)msgpack_pack_array(pk, (size_t)s->n_heads);
    for (int h = 0; h < s->n_heads; x += s->heads[h++])
        (void)msgpack_pack_uint64(pk, env_choice(x, (size_t)s->heads[h]));
}

static void pack_numbers(msgpack_packer *pk, const float *x, size_t n)
{
    (void)msgpack_pack_array(pk, n);
    for (size_t i = 0; i < n; i++)
        (void)msgpack_pack_double(pk, (double)x[i]);
}

static void pack_action(msgpack_packer *pk, const struct action_space *s, const float *x)
{
    const size_t first = (size_t)space_first_number(s);

    if (s->kind == SPACE_DISCRETE) {
        pack_choices(pk, s, x);
    } else if (s->kind == SPACE_BOX) {
        pack_numbers(pk, x, (size_t)s->width);
    } else {
        (void)msgpack_pack_map(pk, 2);
        pack_key(pk, "choices");
        pack_choices(pk, s, x);
        pack_key(pk, "numbers");
        pack_numbers(pk, x + first, (size_t)s->width - first);
    }
}

static void answer_actions(struct act *a, const float *actions)
{
    const struct action_space *s = &a->acts->spec->agents[a->agent].space;
    msgpack_sbuffer answer;
    msgpack_packer pk;

    if (a->on_answer == NULL)
        return;
    msgpack_sbuffer_init(&answer);
    msgpack_packer_init(&pk, &answer, msgpack_sbuffer_write);
    (void)msgpack_pack_map(&pk, 1);
    pack_key(&pk, "action");
    if (a->is_batch)
        (void)msgpack_pack_array(&pk, a->rows);
    for (size_t r = 0; r < a->rows; r++)
        pack_action(&pk, s, actions + r * (size_t)s->width);
    a->on_answer(a->ctx, ACTS_OK, &answer);
    a->on_answer = NULL;
    msgpack_sbuffer_destroy(&answer);
}

/* ---- reading a request ---- */

/* A number, or a bool as 1 or 0. */
static int to_number(const msgpack_object *o, double *ret)
{
    switch (o->type) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        *ret = (double)o->via.u64;
        return 1;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *ret = (double)o->via.i64;
        return 1;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        *ret = o->via.f64;
        return 1;
    case MSGPACK_OBJECT_BOOLEAN:
        *ret = o->via.boolean;
        return 1;
    default:
        return 0;
    }
}

static int take_number(double x, int is_byte, size_t i, uint8_t *to, const char *key,
                       struct err *err)
{
    const float f = (float)x;

    if (is_byte && (x < 0 || x > 255 || x != floor(x)))
        return err_set(err, ERR_ARG, "%s: element %zu is no whole number from 0 to 255",
                       key, i);
    if (!isfinite(f))
        return err_set(err, ERR_ARG, "%s: element %zu is not finite", key, i);
    if (is_byte)
        to[i] = (uint8_t)x;
    else
        memcpy(to + i * sizeof(f), &f, sizeof(f));
    return 0;
}

/* One row of `width` numbers. */
static int take_row(const msgpack_object *o, size_t width, int is_byte, uint8_t *to,
                    const char *key, struct err *err)
{
    double x;

    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size != width)
        return err_set(err, ERR_ARG, "%s: a row of %zu numbers expected", key, width);
    for (size_t i = 0; i < width; i++) {
        if (!to_number(&o->via.array.ptr[i], &x))
            return err_set(err, ERR_ARG, "%s: element %zu is no number", key, i);
        if (take_number(x, is_byte, i, to, key, err) < 0)
            return err->code;
    }
    return 0;
}

/* The rows of a value: of a list of lists, or of bytes. 0: it is neither, or has none. */
static size_t count_rows(const msgpack_object *o, size_t row_bytes, int *ret_is_batch)
{
    *ret_is_batch = 0;
    if (o->type == MSGPACK_OBJECT_BIN) {
        const size_t n = o->via.bin.size;

        *ret_is_batch = n > row_bytes;
        return n % row_bytes == 0 ? n / row_bytes : 0;
    }
    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size == 0)
        return 0;
    *ret_is_batch = o->via.array.ptr[0].type == MSGPACK_OBJECT_ARRAY;
    return *ret_is_batch ? o->via.array.size : 1;
}

/* (rows, width) numbers of a value that count_rows has counted. to: (rows, stride bytes). */
static int take_rows(const msgpack_object *o, size_t rows, size_t width, int is_byte,
                     uint8_t *to, size_t stride, const char *key, struct err *err)
{
    const size_t size = is_byte ? 1 : sizeof(float);
    int rc = 0;

    for (size_t r = 0; r < rows && rc == 0; r++, to += stride) {
        if (o->type == MSGPACK_OBJECT_BIN) {
            memcpy(to, o->via.bin.ptr + r * width * size, width * size);
            for (size_t i = 0; !is_byte && i < width && rc == 0; i++) {
                float x;

                memcpy(&x, to + i * size, size);
                rc = take_number((double)x, 0, i, to, key, err);
            }
        } else {
            rc = take_row(o->via.array.ptr[0].type == MSGPACK_OBJECT_ARRAY
                              ? &o->via.array.ptr[r]
                              : o,
                          width, is_byte, to, key, err);
        }
    }
    return rc;
}

static int take_observation(struct act *a, const msgpack_object *request, struct err *err)
{
    const struct env_spec *spec = a->acts->spec;
    const struct env_agent *agent = &spec->agents[a->agent];
    const size_t width = (size_t)agent->obs_width, row = env_obs_bytes(agent);
    const msgpack_object *o = msg_get(request, "observation");
    size_t numbers;

    if (o == NULL)
        return err_set(err, ERR_ARG, "observation is missing");
    a->rows = count_rows(o, row, &a->is_batch);
    if (a->rows == 0)
        return err_set(err, ERR_ARG,
                       "observation: a list of %zu numbers, a list of such lists, or "
                       "their bytes expected",
                       width);
    numbers = env_seen_width(spec, a->agent) + (size_t)agent->space.width +
              a->acts->actors[a->agent].description.carry;
    a->bytes = a->rows * numbers * sizeof(float);
    if (a->rows > ACTS_MAX_ROWS || a->bytes > ACTS_MAX_BYTES)
        return err_set(err, ERR_LIMIT,
                       "%zu rows of %zu numbers; a request has at most %d rows, and %d "
                       "MiB",
                       a->rows, numbers, ACTS_MAX_ROWS, ACTS_MAX_BYTES >> 20);
    a->obs = xcalloc(a->rows, row);
    if (take_rows(o, a->rows, width, agent->obs_is_u8, a->obs, row, "observation", err) <
        0)
        return err->code;
    env_clip(spec, a->agent, a->rows, a->obs);
    return 0;
}

/* A mask is of the choices; what it would say of numbers is 0. */
static int take_mask(struct act *a, const msgpack_object *request, struct err *err)
{
    const struct action_space *s = &a->acts->spec->agents[a->agent].space;
    const msgpack_object *o = msg_get(request, "mask");
    const size_t width = (size_t)space_first_number(s);
    int is_batch;

    if (o == NULL)
        return 0;
    if (width == 0)
        return err_set(err, ERR_ARG, "mask: %s has no choices",
                       a->acts->spec->agents[a->agent].name);
    if (count_rows(o, width, &is_batch) != a->rows)
        return err_set(err, ERR_ARG, "mask: %zu rows of %zu expected, as of observation",
                       a->rows, width);
    a->allowed = xcalloc(a->rows, (size_t)s->width);
    if (take_rows(o, a->rows, width, 1, a->allowed, (size_t)s->width, "mask", err) < 0)
        return err->code;
    for (size_t i = 0; i < a->rows * (size_t)s->width; i++)
        if (a->allowed[i] > 1)
            return err_set(err, ERR_ARG, "mask: element %zu of row %zu is not 1 or 0",
                           i % (size_t)s->width, i / (size_t)s->width);
    return 0;
}

static int take_first(struct act *a, const msgpack_object *request, struct err *err)
{
    const msgpack_object *o = msg_get(request, "first");
    size_t n = 0;

    a->first = xcalloc(a->rows, 1);
    if (o != NULL && o->type == MSGPACK_OBJECT_BOOLEAN) {
        memset(a->first, o->via.boolean, a->rows);
        n = o->via.boolean ? a->rows : 0;
    } else if (o != NULL) {
        if (count_rows(o, 1, &(int){0}) == 0 || o->type != MSGPACK_OBJECT_ARRAY ||
            o->via.array.size != a->rows)
            return err_set(err, ERR_ARG,
                           "first: true, false, or one of these for each of %zu rows "
                           "expected",
                           a->rows);
        for (size_t r = 0; r < a->rows; r++) {
            if (o->via.array.ptr[r].type != MSGPACK_OBJECT_BOOLEAN)
                return err_set(err, ERR_ARG, "first: element %zu is not true or false",
                               r);
            a->first[r] = o->via.array.ptr[r].via.boolean;
            n += a->first[r];
        }
    }
    a->begins = n == a->rows;
    return 0;
}

/* Whether a policy's answer depends on what was before. */
static int has_memory(const struct acts *s, size_t agent)
{
    return s->actors[agent].description.carry > 0 || env_stack(s->spec) > 1;
}

static int find_agent(struct act *a, const msgpack_object *request, struct err *err)
{
    const struct env_spec *spec = a->acts->spec;
    char name[AGENT_NAME_MAX] = "";
    int rc = msg_get_str(request, "agent", name, sizeof(name), err);

    if (rc < 0)
        return rc;
    if (name[0] == '\0' && spec->n_agents == 1)
        return 0;
    if (name[0] == '\0')
        return err_set(err, ERR_ARG, "agent is missing: \"%s\" or another one",
                       spec->agents[0].name);
    while (a->agent < spec->n_agents && strcmp(spec->agents[a->agent].name, name) != 0)
        a->agent++;
    return a->agent < spec->n_agents
               ? 0
               : err_set(err, ERR_NOT_FOUND, "there is no agent '%s': \"%s\" is one",
                         name, spec->agents[0].name);
}

static int take_mode(struct act *a, const msgpack_object *request, struct err *err)
{
    const msgpack_object *mode = msg_get(request, "mode");
    const struct agent_config *agent = &a->acts->args.config->agents[a->agent];
    int rc;

    if (mode != NULL && !msg_str_is(mode, "greedy") && !msg_str_is(mode, "sample"))
        return err_set(err, ERR_ARG, "mode: \"greedy\" or \"sample\" expected");
    a->mode = acting_mode(agent, mode != NULL && msg_str_is(mode, "sample") ? ACT_SAMPLE
                                                                            : ACT_GREEDY);
    a->seed = a->acts->args.seed;
    a->has_seed = msg_get(request, "seed") != NULL;
    rc = msg_get_u64(request, "seed", UINT64_MAX, &a->seed, err);
    return rc < 0 ? rc
                  : msg_get_str(request, "episode", a->episode, sizeof(a->episode), err);
}

static int check_keys(const msgpack_object *request, struct err *err)
{
    static const char *const keys[] = {"agent", "observation", "mask",  "mode",
                                       "seed",  "episode",     "first", NULL};

    if (request->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_ARG, "a request is an object: {\"observation\": [...]}");
    for (uint32_t i = 0; i < request->via.map.size; i++) {
        const msgpack_object *key = &request->via.map.ptr[i].key;
        size_t k = 0;

        while (keys[k] != NULL && !msg_str_is(key, keys[k]))
            k++;
        if (keys[k] == NULL)
            return err_set(err, ERR_ARG,
                           "a key that is none of agent, observation, mask, mode, seed, "
                           "episode, first");
    }
    return 0;
}

static int read_request(struct act *a, const msgpack_object *request, struct err *err)
{
    struct acts *s = a->acts;
    int rc;

    if ((rc = check_keys(request, err)) < 0 || (rc = find_agent(a, request, err)) < 0 ||
        (rc = take_observation(a, request, err)) < 0 ||
        (rc = take_mask(a, request, err)) < 0 || (rc = take_first(a, request, err)) < 0 ||
        (rc = take_mode(a, request, err)) < 0)
        return rc;
    if (a->episode[0] == '\0' && has_memory(s, a->agent))
        return err_set(err, ERR_ARG,
                       "%s has a memory: name an episode, and begin it with "
                       "\"first\": true",
                       s->spec->agents[a->agent].name);
    if (s->n_waiting > ACTS_MAX_WAITING ||
        s->waiting_bytes + a->bytes > ACTS_MAX_WAITING_BYTES)
        return err_set(err, ERR_TIMEOUT, "too many requests wait: ask again");
    return 0;
}

/* ---- sending a request to the agent's process ---- */

/* Finds the episode that the request goes on with; *ret NULL: it has none, or begins one, which is
 * kept only once the request is answered. */
static int find_episode(const struct act *a, struct episode **ret, struct err *err)
{
    struct episodes *all = &a->acts->actors[a->agent].episodes;

    *ret = NULL;
    if (a->episode[0] == '\0')
        return 0;
    if (a->begins)
        return episodes_fit(all, a->rows)
                   ? 0
                   : err_set(err, ERR_LIMIT, "an episode of %zu rows is too large",
                             a->rows);
    *ret = episodes_find(all, a->episode);
    if (*ret == NULL)
        return err_set(err, ERR_STATE,
                       "episode '%s' is not known: it was never begun (\"first\": true), "
                       "or forgotten, since %zu are remembered",
                       a->episode, all->max);
    if ((*ret)->rows != a->rows)
        return err_set(err, ERR_ARG, "episode '%s' has %zu rows, the request %zu",
                       a->episode, (*ret)->rows, a->rows);
    return 0;
}

/* Of a row at the begin of its episode the present observation stands for those before. e may be
 * NULL if all rows begin theirs, here and below. */
static const uint8_t *observation_before(const struct act *a, const struct episode *e,
                                         size_t row, size_t k, size_t bytes)
{
    const size_t past = a->acts->actors[a->agent].episodes.past_bytes;

    return k + 1 == env_stack(a->acts->spec) || a->first[row]
               ? a->obs + row * bytes
               : e->past + row * past + k * bytes;
}

/* Puts the row's observations side by side, as vec_env_seen has them. */
static uint8_t *put_seen(uint8_t *to, const struct act *a, const struct episode *e,
                         size_t row)
{
    const struct env_agent *agent = &a->acts->spec->agents[a->agent];
    const size_t stack = env_stack(a->acts->spec), bytes = env_obs_bytes(agent);
    const size_t together =
        stack > 1 ? env_together(agent) * dtype_size(env_obs_dtype(agent)) : bytes;

    for (size_t at = 0; at < bytes; at += together)
        for (size_t k = 0; k < stack; k++, to += together)
            memcpy(to, observation_before(a, e, row, k, bytes) + at, together);
    return to;
}

/* What one request to a process has of all rows. */
struct inputs {
    size_t rows;
    uint8_t *seen, *allowed, *first;
    float *carry;
    uint64_t *numbers, *times;
};

static void inputs_done(struct inputs *in)
{
    free(in->seen);
    free(in->allowed);
    free(in->first);
    free(in->carry);
    free(in->numbers);
    free(in->times);
}

/* Puts an act's rows behind those that are there. */
static void put_act(struct inputs *in, const struct act *a, const struct episode *e)
{
    const struct env_agent *agent = &a->acts->spec->agents[a->agent];
    const size_t carry = a->acts->actors[a->agent].description.carry;
    const size_t width = (size_t)agent->space.width;
    const int is_named = a->episode[0] != '\0';
    uint8_t *seen = in->seen + in->rows * env_stack(a->acts->spec) * env_obs_bytes(agent);

    if (in->allowed != NULL)
        memcpy(in->allowed + in->rows * width, a->allowed, a->rows * width);
    memcpy(in->first + in->rows, a->first, a->rows);
    if (e != NULL && carry > 0)
        memcpy(in->carry + in->rows * carry, e->carry, a->rows * carry * sizeof(float));
    for (size_t r = 0; r < a->rows; r++) {
        seen = put_seen(seen, a, e, r);
        in->numbers[in->rows] = (is_named ? episode_number(a->episode) : 0) + r;
        in->times[in->rows++] = e != NULL && !a->first[r] ? e->time[r]
                                : is_named || a->has_seed ? 0
                                                          : a->number;
    }
}

/* model: one of the acts, which agree in what is not of a row. */
static void pack_inputs(const struct act *model, const struct inputs *in,
                        struct msg_out *o)
{
    const struct acts *s = model->acts;
    const struct env_agent *agent = &s->spec->agents[model->agent];
    const int64_t rows = (int64_t)in->rows;
    const int64_t carry = s->actors[model->agent].description.carry;
    const struct tensor obs = tensor_const_view(
        env_obs_dtype(agent), SHAPE(rows, (int64_t)env_seen_width(s->spec, model->agent)),
        in->seen);

    msg_map(o, 6u + (in->allowed != NULL) + (carry > 0 ? 2 : 0));
    msg_put_u64(o, "mode", model->mode);
    msg_put_u64(o, "step", s->args.step);
    msg_key(o, "obs");
    msg_tensor(o, &obs);
    if (in->allowed != NULL) {
        msg_key(o, "allowed");
        msg_bin(o, in->allowed, in->rows * (size_t)agent->space.width);
    }
    if (carry > 0) {
        const struct tensor t =
            tensor_const_view(DT_FLOAT, SHAPE(rows, carry), in->carry);

        msg_key(o, "first");
        msg_bin(o, in->first, in->rows);
        msg_key(o, "carry");
        msg_tensor(o, &t);
    }
    msg_put_u64(o, "seed", model->seed);
    msg_key(o, "episode");
    msg_bin(o, in->numbers, in->rows * sizeof(*in->numbers));
    msg_key(o, "time");
    msg_bin(o, in->times, in->rows * sizeof(*in->times));
}

/* The step is done: what the policy takes to the next one. ERR_STATE: the episode has just been
 * forgotten, as one of the same request to the process begins. */
static int advance(struct act *a, const float *carry, struct err *err)
{
    struct actor *actor = &a->acts->actors[a->agent];
    struct episode *e;
    const int rc = find_episode(a, &e, err);
    const size_t bytes = env_obs_bytes(&a->acts->spec->agents[a->agent]);
    const size_t past = actor->episodes.past_bytes, width = actor->description.carry;

    if (rc < 0)
        return rc;
    if (a->begins)
        e = episodes_begin(&actor->episodes, a->episode, a->rows);
    if (width > 0)
        memcpy(e->carry, carry, a->rows * width * sizeof(*carry));
    for (size_t r = 0; r < a->rows; r++) {
        uint8_t *own = e->past + r * past;

        e->time[r] = a->first[r] ? 1 : e->time[r] + 1;
        for (size_t at = 0; a->first[r] && at < past; at += bytes)
            memcpy(own + at, a->obs + r * bytes, bytes);
        if (past > 0) {
            memmove(own, own + bytes, past - bytes);
            memcpy(own + past - bytes, a->obs + r * bytes, bytes);
        }
    }
    return 0;
}

/* Answers an act with its rows of what the process has computed. */
static void finish(struct act *a, const float *actions, const float *carry)
{
    struct err err = {0};

    if (a->on_answer == NULL)
        return; /* who has gone, or was told to ask again: nothing changes */
    if (a->episode[0] != '\0' && advance(a, carry, &err) < 0)
        answer_error(a, &err);
    else
        answer_actions(a, actions);
}

static int take_answer(struct acts *s, size_t agent, const msgpack_object *body,
                       struct err *err)
{
    const struct actor *actor = &s->actors[agent];
    const size_t width = (size_t)s->spec->agents[agent].space.width;
    const size_t carry_width = actor->description.carry;
    struct act *a;
    float *actions, *carry;
    size_t rows = 0;
    int rc;

    STAILQ_FOREACH(a, &actor->sent, entry)
    rows += a->rows;
    actions = xcalloc(rows, width * sizeof(*actions));
    carry = xcalloc(rows + 1, (carry_width + 1) * sizeof(*carry));
    rc = acting_take(body, "actions", rows, width, actions, err);
    if (rc == 0 && carry_width > 0)
        rc = acting_take(body, "carry", rows, carry_width, carry, err);
    rows = 0;
    STAILQ_FOREACH(a, &actor->sent, entry)
    {
        if (rc == 0)
            finish(a, actions + rows * width, carry + rows * carry_width);
        rows += a->rows;
    }
    free(actions);
    free(carry);
    return rc;
}

static void drop(struct act_queue *queue, struct act *a)
{
    STAILQ_REMOVE(queue, a, act, entry);
    free_act(a);
}

/* The process has not answered: one of the acts is the reason. Several are asked again, each alone;
 * one is answered with the error. */
static void take_failure(struct actor *actor, const struct err *why)
{
    struct act_queue again = STAILQ_HEAD_INITIALIZER(again);
    struct act *a = STAILQ_FIRST(&actor->sent);

    if (STAILQ_NEXT(a, entry) == NULL) {
        answer_error(a, why);
        return;
    }
    while ((a = STAILQ_FIRST(&actor->sent)) != NULL) {
        STAILQ_REMOVE_HEAD(&actor->sent, entry);
        a->is_alone = 1;
        if (a->on_answer != NULL)
            STAILQ_INSERT_TAIL(&again, a, entry);
        else
            free_act(a);
    }
    STAILQ_CONCAT(&again, &actor->queue);
    STAILQ_CONCAT(&actor->queue, &again);
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    struct acts *s = ctx;
    struct actor *actor = &s->actors[agent];
    const char *name = s->spec->agents[agent].name;
    struct err err = {0}, why = {0};
    struct act *a;

    if (response->error.code < 0)
        (void)err_set(&err, ERR_AGENT, "%s: %s", name, response->error.msg);
    else if (take_answer(s, agent, &response->body, &why) < 0)
        (void)err_set(&err, ERR_AGENT, "%s: its answer: %s", name, why.msg);
    if (err.code < 0)
        take_failure(actor, &err);
    while ((a = STAILQ_FIRST(&actor->sent)) != NULL)
        drop(&actor->sent, a);
    serve_next(s, agent);
}

/* Whether the act can be sent with those: all answers are as if it were sent after them. Of an
 * episode, each step is. */
static int can_join(const struct actor *actor, const struct act *a)
{
    const struct act *b = STAILQ_FIRST(&actor->sent);
    size_t rows = a->rows, bytes = a->bytes;

    if (b == NULL)
        return 1;
    if (!actor->can_merge || a->is_alone || b->is_alone || a->mode != b->mode ||
        a->seed != b->seed || (a->allowed == NULL) != (b->allowed == NULL))
        return 0;
    for (; b != NULL; b = STAILQ_NEXT(b, entry)) {
        if (a->episode[0] != '\0' && strcmp(a->episode, b->episode) == 0)
            return 0;
        rows += b->rows;
        bytes += b->bytes;
    }
    return rows <= ACTS_MERGED_ROWS && bytes <= ACTS_MAX_BYTES;
}

/* Moves what is sent next from the queue; returns its number of rows. Of an act that cannot be
 * answered, says so. */
static size_t choose_next(struct actor *actor)
{
    struct act *a;
    size_t rows = 0;

    while ((a = STAILQ_FIRST(&actor->queue)) != NULL && can_join(actor, a)) {
        struct episode *e;
        struct err err = {0};

        STAILQ_REMOVE_HEAD(&actor->queue, entry);
        if (find_episode(a, &e, &err) < 0) {
            answer_error(a, &err);
            free_act(a);
            continue;
        }
        STAILQ_INSERT_TAIL(&actor->sent, a, entry);
        rows += a->rows;
    }
    return rows;
}

static int send_acts(struct acts *s, size_t agent, size_t rows, struct err *err)
{
    struct actor *actor = &s->actors[agent];
    const struct env_agent *seen_by = &s->spec->agents[agent];
    const struct act *a, *model = STAILQ_FIRST(&actor->sent);
    struct inputs in = {
        .seen = xcalloc(rows * env_stack(s->spec), env_obs_bytes(seen_by)),
        .first = xcalloc(rows, 1),
        .carry = xcalloc(rows + 1, (actor->description.carry + 1) * sizeof(float)),
        .numbers = xcalloc(rows, sizeof(uint64_t)),
        .times = xcalloc(rows, sizeof(uint64_t))};
    struct err why = {0};
    int rc;

    if (model->allowed != NULL)
        in.allowed = xcalloc(rows, (size_t)seen_by->space.width);
    STAILQ_FOREACH(a, &actor->sent, entry)
    {
        struct episode *e;

        (void)find_episode(a, &e, NULL); /* it was found by choose_next */
        put_act(&in, a, e);
    }
    pack_inputs(model, &in, agent_request_begin(s->agents, agent, "act", 0));
    inputs_done(&in);
    actor->n_sent++;
    agent_request_may_fail(s->agents, agent);
    rc = agent_request_send(s->agents, agent, on_response, s, &why);
    return rc < 0 ? err_set(err, ERR_TIMEOUT, "%s cannot be asked now: %s", seen_by->name,
                            why.msg)
                  : 0;
}

/* Sends to the process, if it has nothing to do, what waits for it: nothing waits for more. */
static void serve_next(struct acts *s, size_t agent)
{
    struct actor *actor = &s->actors[agent];
    struct err err = {0};
    struct act *a;
    size_t rows;

    while (!s->is_closed && STAILQ_EMPTY(&actor->sent) &&
           (rows = choose_next(actor)) > 0) {
        if (send_acts(s, agent, rows, &err) == 0)
            return;
        while ((a = STAILQ_FIRST(&actor->sent)) != NULL) {
            answer_error(a, &err);
            drop(&actor->sent, a);
        }
    }
}

struct act *acts_ask(struct acts *s, const msgpack_object *request,
                     acts_answer_fn on_answer, void *ctx)
{
    struct act *a = xcalloc(1, sizeof(*a));
    struct err err = {0};
    size_t agent;

    a->acts = s;
    s->n_waiting++;
    if (read_request(a, request, &err) < 0) {
        a->bytes = 0; /* it was not counted */
        refuse(on_answer, ctx, &err);
        free_act(a);
        return NULL;
    }
    s->waiting_bytes += a->bytes;
    a->number = s->n_requests++;
    a->ends_ms = uv_now(s->loop) + ACTS_ANSWER_WITHIN_MS;
    a->on_answer = on_answer;
    a->ctx = ctx;
    agent = a->agent;
    s->actors[agent].n_requests++;
    STAILQ_INSERT_TAIL(&s->actors[agent].queue, a, entry);
    if (!STAILQ_EMPTY(&s->actors[agent].sent))
        return a;
    serve_next(s, agent); /* the queue was empty */
    return STAILQ_FIRST(&s->actors[agent].sent) == a ? a : NULL;
}

void acts_forget(struct act *a)
{
    struct actor *actor = &a->acts->actors[a->agent];
    const struct act *b;

    a->on_answer = NULL;
    STAILQ_FOREACH(b, &actor->sent, entry)
    if (b == a)
        return; /* freed when its process has answered */
    drop(&actor->queue, a);
}

/* ---- those that wait too long ---- */

static int is_late(const struct act *a)
{
    return a != NULL && uv_now(a->acts->loop) >= a->ends_ms;
}

static void answer_late(struct act *a)
{
    struct err err = {0};

    (void)err_set(&err, ERR_TIMEOUT,
                  "%s has not answered within %d s: it is busy, or being restarted; ask "
                  "again",
                  a->acts->spec->agents[a->agent].name, ACTS_ANSWER_WITHIN_MS / 1000);
    answer_error(a, &err);
}

static void on_look(uv_timer_t *timer)
{
    struct acts *s = timer->data;
    struct act *a;

    for (size_t i = 0; i < s->spec->n_agents; i++) {
        struct act_queue *queue = &s->actors[i].queue;

        STAILQ_FOREACH(a, &s->actors[i].sent, entry)
        if (is_late(a))
            answer_late(a);
        while (is_late(a = STAILQ_FIRST(queue))) { /* the oldest is first */
            STAILQ_REMOVE_HEAD(queue, entry);
            answer_late(a);
            free_act(a);
        }
    }
}

/* ---- the description ---- */

static void pack_text(msgpack_packer *pk, const char *key, const char *value)
{
    pack_key(pk, key);
    pack_key(pk, value);
}

static void pack_integer(msgpack_packer *pk, const char *key, uint64_t value)
{
    pack_key(pk, key);
    (void)msgpack_pack_uint64(pk, value);
}

static void pack_bool(msgpack_packer *pk, const char *key, int value)
{
    pack_key(pk, key);
    (void)(value ? msgpack_pack_true(pk) : msgpack_pack_false(pk));
}

static void pack_space(msgpack_packer *pk, const struct action_space *s)
{
    static const char *const kinds[] = {[SPACE_DISCRETE] = "discrete",
                                        [SPACE_BOX] = "continuous",
                                        [SPACE_HYBRID] = "hybrid"};
    const int has_numbers = s->kind != SPACE_DISCRETE;
    const int has_choices = s->kind != SPACE_BOX;

    (void)msgpack_pack_map(pk, (size_t)(1 + has_choices + (has_numbers ? 3 : 0)));
    pack_text(pk, "kind", kinds[s->kind]);
    if (has_choices) {
        pack_key(pk, "choices");
        (void)msgpack_pack_array(pk, (size_t)s->n_heads);
        for (int h = 0; h < s->n_heads; h++)
            (void)msgpack_pack_uint64(pk, (uint64_t)s->heads[h]);
    }
    if (!has_numbers)
        return;
    pack_integer(pk, "numbers", (uint64_t)(s->width - space_first_number(s)));
    pack_key(pk, "low");
    (void)(isfinite(s->low) ? msgpack_pack_double(pk, s->low) : msgpack_pack_nil(pk));
    pack_key(pk, "high");
    (void)(isfinite(s->high) ? msgpack_pack_double(pk, s->high) : msgpack_pack_nil(pk));
}

static void pack_agent(const struct acts *s, size_t i, msgpack_packer *pk)
{
    const struct env_agent *a = &s->spec->agents[i];

    pack_key(pk, a->name);
    (void)msgpack_pack_map(pk, 8);
    pack_text(pk, "team", a->team);
    pack_integer(pk, "observation", (uint64_t)a->obs_width);
    pack_text(pk, "dtype", dtype_name(env_obs_dtype(a)));
    pack_key(pk, "action");
    pack_space(pk, &a->space);
    pack_bool(pk, "masked", env_is_masked(s->spec, i));
    pack_bool(pk, "memory", has_memory(s, i));
    pack_integer(pk, "requests", s->actors[i].n_requests);
    pack_integer(pk, "batches", s->actors[i].n_sent);
}

void acts_describe(const struct acts *s, msgpack_sbuffer *ret)
{
    msgpack_packer pk;

    msgpack_packer_init(&pk, ret, msgpack_sbuffer_write);
    (void)msgpack_pack_map(&pk, 5);
    pack_text(&pk, "run", s->args.run);
    pack_integer(&pk, "step", s->args.step);
    pack_text(&pk, "env", s->spec->id);
    pack_integer(&pk, "episodes", s->args.max_episodes);
    pack_key(&pk, "agents");
    (void)msgpack_pack_map(&pk, s->spec->n_agents);
    for (size_t i = 0; i < s->spec->n_agents; i++)
        pack_agent(s, i, &pk);
}

/* ---- life ---- */

/* With portable numerics, the bits of a row that brood's own networks compute do not depend on the
 * others (dense.h); what programs and imported graphs do is theirs. */
static int can_merge(const struct run_config *c, size_t agent)
{
    const struct agent_config *a = &c->agents[agent];

    return c->run.numerics == NUMERICS_PORTABLE && a->command == NULL &&
           a->from_at == NULL;
}

int acts_open(struct acts **ret, const struct acts_args *args, struct err *err)
{
    struct acts *s = *ret = xcalloc(1, sizeof(*s));
    struct ask *ask = players_ask(args->players);
    int rc = 0;

    s->args = *args;
    s->spec = players_spec(args->players);
    s->n_agents = s->spec->n_agents;
    s->agents = ask_agents(ask);
    s->loop = ask_loop(ask);
    s->actors = xcalloc(s->spec->n_agents, sizeof(*s->actors));
    (void)uv_timer_init(s->loop, &s->timer);
    s->timer.data = s;
    (void)uv_timer_start(&s->timer, on_look, LOOK_EVERY_MS, LOOK_EVERY_MS);
    for (size_t i = 0; i < s->spec->n_agents; i++) {
        struct actor *actor = &s->actors[i];
        const struct env_agent *agent = &s->spec->agents[i];

        if (rc == 0)
            rc = description_parse(&actor->description, ask_answer(ask, i), agent->name,
                                   err);
        actor->can_merge = can_merge(args->config, i);
        STAILQ_INIT(&actor->queue);
        STAILQ_INIT(&actor->sent);
        actor->episodes = (struct episodes){.max = args->max_episodes,
                                            .max_bytes = ACTS_EPISODE_BYTES,
                                            .carry_width = actor->description.carry,
                                            .past_bytes = (env_stack(s->spec) - 1) *
                                                          env_obs_bytes(agent)};
    }
    return rc;
}

void acts_close(struct acts *s)
{
    if (s == NULL || s->is_closed)
        return;
    s->is_closed = 1;
    uv_close((uv_handle_t *)&s->timer, NULL);
}

void acts_free(struct acts *s)
{
    struct act *a;

    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_agents; i++) {
        struct actor *actor = &s->actors[i];

        STAILQ_CONCAT(&actor->queue, &actor->sent);
        while ((a = STAILQ_FIRST(&actor->queue)) != NULL)
            drop(&actor->queue, a);
        episodes_done(&actor->episodes);
    }
    free(s->actors);
    free(s);
}
