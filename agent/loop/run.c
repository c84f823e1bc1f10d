#include "agent/loop/service_internal.h"

#include "agent/graph/op_def.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/unpack.h"

#include <stdlib.h>
#include <string.h>

#define FETCHED_HEADER_MAX 128 /* of a tensor in a message */
#define STRING_HEADER_MAX  5

/* The state of one `run` request. The arrays are as long as the request's. */
struct run_request {
    struct feed *feeds;
    size_t n_feeds;
    struct output *fetches;
    struct tensor *values;
    size_t n_fetches;
    struct operation **targets;
    size_t n_targets;
    float *live; /* values of the live settings that are fed */
};

int service_read_name(const msgpack_object *o, char name[SERVICE_MAX_NAME],
                      struct err *err)
{
    if (o->type != MSGPACK_OBJECT_STR || o->via.str.size >= SERVICE_MAX_NAME)
        return err_set(err, ERR_PROTOCOL, "names are strings of at most %d bytes",
                       SERVICE_MAX_NAME - 1);
    memcpy(name, o->via.str.ptr, o->via.str.size);
    name[o->via.str.size] = '\0';
    return 0;
}

int service_find_tensor(const struct service *s, const char *name, struct output *ret,
                        struct err *err)
{
    int rc = lookup_tensor(s->graph, name, ret, err);

    if (rc == 0 && dtype_size(output_dtype(*ret)) == 0)
        rc = err_set(err, ERR_UNSUPPORTED, "%s is a %s: no message carries those", name,
                     dtype_name(output_dtype(*ret)));
    return rc;
}

static int read_feeds(struct service *s, const msgpack_object *body,
                      struct run_request *q, struct err *err)
{
    const msgpack_object *map = NULL;
    int rc = msg_get_map(body, "feeds", &map, err);

    if (rc < 0 || map == NULL)
        return rc;
    q->feeds = xcalloc(map->via.map.size, sizeof(*q->feeds));
    for (uint32_t i = 0; i < map->via.map.size; i++, q->n_feeds++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];
        struct feed *f = &q->feeds[i];
        char name[SERVICE_MAX_NAME];

        if ((rc = service_read_name(&kv->key, name, err)) < 0 ||
            (rc = lookup_tensor(s->graph, name, &f->output, err)) < 0 ||
            (rc = msg_to_any_tensor(&kv->val, name, &f->value, err)) < 0)
            return rc;
    }
    return 0;
}

/* Of all types, only handles are in no message. */
static int find_fetch(const struct service *s, const char *name, struct output *ret,
                      struct err *err)
{
    int rc = lookup_tensor(s->graph, name, ret, err);

    return rc < 0 || output_dtype(*ret) == DT_STRING
               ? rc
               : service_find_tensor(s, name, ret, err);
}

static int read_fetches(struct service *s, const msgpack_object *body,
                        struct run_request *q, struct err *err)
{
    const msgpack_object *list = NULL;
    int rc = msg_get_array(body, "fetches", &list, err);

    if (rc < 0 || list == NULL)
        return rc;
    q->fetches = xcalloc(list->via.array.size + 1, sizeof(*q->fetches));
    q->values = xcalloc(list->via.array.size + 1, sizeof(*q->values));
    for (uint32_t i = 0; i < list->via.array.size; i++, q->n_fetches++) {
        char name[SERVICE_MAX_NAME];

        if ((rc = service_read_name(&list->via.array.ptr[i], name, err)) < 0 ||
            (rc = find_fetch(s, name, &q->fetches[i], err)) < 0)
            return rc;
    }
    return 0;
}

static int read_targets(struct service *s, const msgpack_object *body,
                        struct run_request *q, struct err *err)
{
    const msgpack_object *list = NULL;
    int rc = msg_get_array(body, "targets", &list, err);

    if (rc < 0 || list == NULL)
        return rc;
    q->targets = xcalloc(list->via.array.size + 1, sizeof(struct operation *));
    for (uint32_t i = 0; i < list->via.array.size; i++, q->n_targets++) {
        char name[SERVICE_MAX_NAME];

        if ((rc = service_read_name(&list->via.array.ptr[i], name, err)) < 0 ||
            (rc = lookup_operation(s->graph, name, &q->targets[i], err)) < 0)
            return rc;
    }
    return 0;
}

/* Whether op, or an operation that it depends on, writes a variable; those that the walk
 * has visited before do not. */
static int reaches_write(struct op_walk *walk, struct operation *op)
{
    op_walk_add(walk, op);
    while ((op = op_walk_next(walk)) != NULL) {
        if ((operation_def(op)->flags & OP_WRITES) != 0)
            return 1;
        op_walk_add_inputs(walk, op);
    }
    return 0;
}

/* A run without targets is pure, and the supervisor does not replay it. So a fetch must
 * not depend on an operation that writes. */
static int check_pure(struct service *s, const struct run_request *q, struct err *err)
{
    struct op_walk walk;
    int rc = 0;

    op_walk_begin(&walk, s->graph);
    for (size_t i = 0; i < q->n_fetches && rc == 0; i++)
        if (reaches_write(&walk, q->fetches[i].op))
            rc = err_set(err, ERR_ARG,
                         "fetching %s changes variables: name its operation as a target",
                         operation_name(q->fetches[i].op));
    op_walk_end(&walk);
    return rc;
}

/* Refuses fetches that are too large for a response. */
static int check_fetched(const struct run_request *q, struct err *err)
{
    uint64_t bytes = 0, strings = 0;

    for (size_t i = 0; i < q->n_fetches; i++) {
        const struct tensor *t = &q->values[i];
        const struct tensor_string *s = t->dtype == DT_STRING ? t->data : NULL;

        bytes += tensor_bytes(t) + FETCHED_HEADER_MAX;
        for (int64_t k = 0; s != NULL && k < tensor_elements(t); k++, strings++)
            bytes += s[k].len_bytes + STRING_HEADER_MAX;
    }
    if (strings > MSG_MAX_OBJECTS / 2)
        return err_set(err, ERR_LIMIT,
                       "%llu strings are fetched, a message has at most %u",
                       (unsigned long long)strings, MSG_MAX_OBJECTS / 2);
    if (bytes > FRAME_MAX_BYTES - SERVICE_MAX_NAME)
        return err_set(err, ERR_LIMIT,
                       "the fetched tensors take %llu bytes, a message at most %u",
                       (unsigned long long)bytes, FRAME_MAX_BYTES - SERVICE_MAX_NAME);
    return 0;
}

/* Feeds the live settings that the client does not feed, as the algorithm's own runs do.
 * A client's run has no step: without an environment schedules are refused
 * (run_config.h). */
static int add_live_feeds(struct service *s, struct run_request *q, struct err *err)
{
    struct run_args given = {.n_feeds = q->n_feeds};
    size_t n = 0;
    const struct live *lives =
        s->ops != NULL && s->ops->lives != NULL ? s->ops->lives(s->algo, &n) : NULL;

    q->feeds = xreallocarray(q->feeds, q->n_feeds + n + 1, sizeof(*q->feeds));
    given.feeds = q->feeds;
    q->live = xcalloc(n, sizeof(*q->live));
    for (size_t i = 0; i < n; i++) {
        int rc;

        if (!output_valid(lives[i].constant) || run_is_fed(&given, lives[i].constant))
            continue;
        rc = live_value(&lives[i], s->session, 0, &q->live[i], err);
        if (rc < 0)
            return rc;
        q->feeds[q->n_feeds++] =
            (struct feed){lives[i].constant, tensor_scalar_f32(&q->live[i])};
    }
    return 0;
}

static int run(struct service *s, const struct msg *m, struct run_request *q,
               struct err *err)
{
    struct run_args args = {.key = rng_key_make(s->seed, s->name, PURPOSE_RUN),
                            .counter = m->id};
    int rc;

    if ((rc = msg_get_u64(&m->body, "counter", UINT64_MAX, &args.counter, err)) < 0 ||
        (rc = read_feeds(s, &m->body, q, err)) < 0 ||
        (rc = read_fetches(s, &m->body, q, err)) < 0 ||
        (rc = read_targets(s, &m->body, q, err)) < 0)
        return rc;
    if ((rc = add_live_feeds(s, q, err)) < 0)
        return rc;
    args.feeds = q->feeds;
    args.n_feeds = q->n_feeds;
    args.fetches = q->fetches;
    args.n_fetches = q->n_fetches;
    args.targets = q->targets;
    args.n_targets = q->n_targets;
    if (q->n_targets == 0 && (rc = check_pure(s, q, err)) < 0)
        return rc;
    rc = session_run(s->session, &args, q->values, err);
    return rc < 0 ? rc : check_fetched(q, err);
}

/* Whether the request itself is at fault: it is then refused, and would be refused again.
 * Other errors are failures of this process. */
static int is_askers_fault(int code)
{
    return code < 0 && code != ERR_PROTOCOL && code != ERR_NOMEM;
}

int handle_run(struct service *s, const struct msg *m, struct msg_out *out,
               struct err *err)
{
    struct run_request q = {0};
    struct err why = {0};
    int rc = run(s, m, &q, &why);

    if (rc == 0) {
        msg_begin_response(out, m->id);
        msg_map(out, 1);
        msg_key(out, "fetched");
        msg_array(out, q.n_fetches);
        for (size_t i = 0; i < q.n_fetches; i++)
            msg_tensor(out, &q.values[i]);
    } else if (is_askers_fault(rc)) {
        msg_begin_response(out, m->id);
        msg_map(out, 1);
        msg_refusal(out, &why);
        rc = 0;
    } else if (err != NULL) {
        *err = why;
    }
    for (size_t i = 0; i < q.n_fetches; i++)
        tensor_free(&q.values[i]);
    for (size_t i = 0; i < q.n_feeds; i++)
        tensor_free(&q.feeds[i].value);
    free(q.feeds);
    free(q.live);
    free(q.fetches);
    free(q.values);
    free(q.targets);
    return rc;
}
