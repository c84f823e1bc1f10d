/* Imports a MetaGraph, restores its variables and performs the runs requested on stdin:
 *
 *     run_meta PREFIX [SAVE_AS]
 *
 * stdin and stdout are one framed message each. In: {"runs": [{"feeds": {name: tensor},
 * "fetches": [name], "targets": [name], "counter": n}, ...]}. Out: {"results": [[tensor,
 * ...], ...]}, the fetched tensors of each run. SAVE_AS: where to save a checkpoint of
 * the variables after the last run.
 */
#include "agent/saver/metagraph_import.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/msg.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_NAMES = 256, MAX_REQUEST = 1 << 24 };

struct runner {
    struct graph *g;
    struct session *s;
    struct msg_out out;
};

static void must(int rc, const struct err *err)
{
    if (rc == 0)
        return;
    (void)fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

static void copy_name(const msgpack_object *o, char name[256])
{
    CHECK(o->type == MSGPACK_OBJECT_STR && o->via.str.size < 256);
    (void)snprintf(name, 256, "%.*s", (int)o->via.str.size, o->via.str.ptr);
}

static size_t read_feeds(struct runner *r, const msgpack_object *map, struct feed *feeds)
{
    struct err err = {0};

    CHECK(map->type == MSGPACK_OBJECT_MAP && map->via.map.size <= MAX_NAMES);
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];
        char name[256];

        copy_name(&kv->key, name);
        must(graph_tensor(r->g, name, &feeds[i].output, &err), &err);
        must(msg_to_tensor(&kv->val, name, &feeds[i].value, &err), &err);
    }
    return map->via.map.size;
}

static const msgpack_object_array *names_of(const msgpack_object *run, const char *key)
{
    const msgpack_object *o = msg_get(run, key);

    CHECK(o != NULL && o->type == MSGPACK_OBJECT_ARRAY && o->via.array.size <= MAX_NAMES);
    return &o->via.array;
}

static void run(struct runner *r, const msgpack_object *request)
{
    const msgpack_object_array *fetches = names_of(request, "fetches");
    const msgpack_object_array *targets = names_of(request, "targets");
    struct feed feeds[MAX_NAMES];
    struct output outputs[MAX_NAMES];
    struct operation *ops[MAX_NAMES];
    struct tensor ret[MAX_NAMES] = {0};
    struct run_args args = {.feeds = feeds,
                            .fetches = outputs,
                            .n_fetches = fetches->size,
                            .targets = ops,
                            .n_targets = targets->size,
                            .key = rng_key_make(5, "test", "run")};
    struct err err = {0};
    char name[256];

    args.n_feeds = read_feeds(r, msg_get(request, "feeds"), feeds);
    must(msg_get_u64(request, "counter", UINT64_MAX, &args.counter, &err), &err);
    for (uint32_t i = 0; i < fetches->size; i++) {
        copy_name(&fetches->ptr[i], name);
        must(graph_tensor(r->g, name, &outputs[i], &err), &err);
    }
    for (uint32_t i = 0; i < targets->size; i++) {
        copy_name(&targets->ptr[i], name);
        ops[i] = graph_operation(r->g, name);
        CHECK(ops[i] != NULL, "there is no %s", name);
    }
    must(session_run(r->s, &args, ret, &err), &err);
    msg_array(&r->out, fetches->size);
    for (uint32_t i = 0; i < fetches->size; i++) {
        msg_tensor(&r->out, &ret[i]);
        tensor_free(&ret[i]);
    }
}

static void answer(struct runner *r)
{
    uint8_t *data = xmalloc(MAX_REQUEST);
    const size_t len = fread(data, 1, MAX_REQUEST, stdin);
    const msgpack_object_array *runs;
    const uint8_t *frame;
    struct msg m = {0};
    struct err err = {0};
    size_t frame_len;

    CHECK(len > 4 && len < MAX_REQUEST);
    must(msg_parse(&m, data + 4, len - 4, &err), &err);
    runs = names_of(&m.body, "runs");
    msg_out_init(&r->out);
    msg_begin_notification(&r->out, "results");
    msg_map(&r->out, 1);
    msg_key(&r->out, "results");
    msg_array(&r->out, runs->size);
    for (uint32_t i = 0; i < runs->size; i++)
        run(r, &runs->ptr[i]);
    msg_end(&r->out, &frame, &frame_len);
    CHECK(fwrite(frame, 1, frame_len, stdout) == frame_len);
    msg_out_done(&r->out);
    msg_done(&m);
    free(data);
}

int main(int argc, char **argv)
{
    struct runner r = {.g = graph_new()};
    struct saver *saver;
    struct err err = {0};
    char *meta;

    CHECK(argc == 2 || argc == 3, "run_meta PREFIX [SAVE_AS]");
    meta = xasprintf("%s.meta", argv[1]);
    must(import_meta_graph(&saver, r.g, meta, NULL, &err), &err);
    must(session_new(&r.s, r.g, NULL, &err), &err);
    must(saver_restore(saver, r.s, argv[1], &err), &err);
    answer(&r);
    if (argc == 3)
        must(saver_save(saver, r.s, argv[2], NULL, NULL, &err), &err);
    session_free(r.s);
    saver_free(saver);
    graph_free(r.g);
    free(meta);
    return 0;
}
