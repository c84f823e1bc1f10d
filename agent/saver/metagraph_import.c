#include "agent/saver/metagraph_import.h"

#include "agent/graph/import.h"
#include "agent/saver/import_state.h"
#include "agent/saver/inline.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* The name in the graph, without the scope. */
static const char *own_name(struct import *im, struct arena *arena, const char *name)
{
    return arena_strdup(arena, import_scoped(im, name) + strlen(im->scope));
}

static void fill_info(struct import *im, struct metagraph_info *ret)
{
    const Tf__MetaGraphDef__MetaInfoDef *info = im->meta->meta_info_def;
    const Tf__SaverDef *s = im->meta->saver_def;

    *ret = (struct metagraph_info){.producer = im->producer, .has_saver = s != NULL};
    ret->scope = arena_strdup(&ret->arena, im->scope);
    ret->tensorflow_version =
        arena_strdup(&ret->arena, info != NULL ? info->tensorflow_version : "");
    ret->is_saved_model = info != NULL && info->n_tags > 0;
    if (s != NULL)
        ret->saver = (struct saver_def){
            .filename_tensor = own_name(im, &ret->arena, s->filename_tensor_name),
            .save_tensor = own_name(im, &ret->arena, s->save_tensor_name),
            .restore_op = own_name(im, &ret->arena, s->restore_op_name),
            .max_to_keep = s->max_to_keep > 0 ? s->max_to_keep : 0,
            .sharded = s->sharded,
            .keep_every_n_hours = s->keep_checkpoint_every_n_hours,
        };
}

static int import(struct import *im, const void *data, size_t len_bytes)
{
    int rc;

    im->meta = MESSAGE_UNPACK(&im->arena, meta_graph_def, data, len_bytes);
    if (im->meta == NULL)
        return import_fail(im, ERR_FORMAT, "not a MetaGraphDef");
    if (im->meta->graph_def == NULL)
        return import_fail(im, ERR_FORMAT, "a MetaGraphDef without a graph");
    if (im->meta->graph_def->n_node > METAGRAPH_MAX_NODES)
        return import_fail(im, ERR_LIMIT, "a graph of %zu nodes; at most %d are read",
                           im->meta->graph_def->n_node, METAGRAPH_MAX_NODES);
    if (im->meta->meta_info_def != NULL)
        im->ops = im->meta->meta_info_def->stripped_op_list;
    /* the first definition wins */
    for (size_t i = im->ops != NULL ? im->ops->n_op : 0; i-- > 0;)
        name_table_add(&im->listed, im->ops->op[i]->name)->value = im->ops->op[i];
    if (im->meta->graph_def->versions != NULL)
        im->producer = im->meta->graph_def->versions->producer;
    rc = inline_functions(im);
    if (rc == 0)
        rc = import_old_stacks(im);
    if (rc == 0)
        rc = import_nodes(im);
    if (rc == 0)
        rc = import_collections(im);
    if (rc == 0) {
        /* signatures name tensors, which have other names in a scope */
        const Tf__MetaGraphDef *m = im->meta;

        if (m->graph_def->library.len > 0)
            graph_add_part(im->g, GRAPH_LIBRARY, m->graph_def->library.data,
                           m->graph_def->library.len);
        for (size_t i = 0; i < m->n_signature_def && im->scope[0] == '\0'; i++)
            graph_add_part(im->g, GRAPH_SIGNATURE, m->signature_def[i].data,
                           m->signature_def[i].len);
        for (size_t i = 0; i < m->n_asset_file_def && im->scope[0] == '\0'; i++)
            graph_add_part(im->g, GRAPH_ASSET_FILE, m->asset_file_def[i].data,
                           m->asset_file_def[i].len);
    }
    return rc;
}

int metagraph_import(struct graph *g, const void *data, size_t len_bytes,
                     const struct metagraph_import_options *o, struct metagraph_info *ret,
                     struct err *err)
{
    static const struct metagraph_import_options defaults;
    struct err own;
    struct import im = {.g = g, .err = err != NULL ? err : &own, .scope = ""};
    int rc;

    o = o != NULL ? o : &defaults;
    im.clear_devices = o->clear_devices;
    im.constant_bytes = o->max_constant_bytes != 0 ? o->max_constant_bytes : 1u << 30;
    if (o->import_scope != NULL && o->import_scope[0] != '\0')
        im.scope = arena_printf(&im.arena, "%s/", graph_unique_name(g, o->import_scope));
    rc = graph_error(g) != NULL ? import_graph_failed(&im) : import(&im, data, len_bytes);
    if (rc == 0 && ret != NULL)
        fill_info(&im, ret);
    graph_clear_error(g);
    name_table_done(&im.by_name);
    name_table_done(&im.definitions);
    name_table_done(&im.listed);
    name_table_done(&im.reasons);
    free(im.back_edges);
    free(im.variables);
    arena_done(&im.arena);
    return rc;
}

void metagraph_info_done(struct metagraph_info *info)
{
    arena_done(&info->arena);
}

int metagraph_saver(struct saver **ret, struct graph *g,
                    const struct metagraph_info *info, struct err *err)
{
    struct saver_options o = SAVER_DEFAULTS;
    size_t n = strlen(info->scope);
    char *scope = n > 0 ? xstrndup(info->scope, n - 1) : NULL;
    int rc = 0;

    *ret = NULL;
    o.name = scope;
    if (info->has_saver)
        o.saver_def = &info->saver;
    if (info->has_saver || collection_get(g, GLOBAL_VARIABLES, NULL, NULL) > 0)
        rc = saver_new(ret, g, &o, err);
    free(scope);
    return rc;
}

/* The operation that a collection names; NULL: none. */
static struct operation *named_op(struct graph *g, const char *collection)
{
    const struct collection_item *items;

    if (collection_get(g, collection, NULL, &items) == 0)
        return NULL;
    return items[0].kind == ITEM_OPERATION ? items[0].op
           : items[0].kind == ITEM_OUTPUT  ? items[0].output.op
                                           : NULL;
}

int metagraph_run_main_op(struct graph *g, struct session *s,
                          const struct metagraph_info *info, struct rng_key key,
                          struct err *err)
{
    struct operation *op = named_op(g, "saved_model_main_op");
    struct run_args args = {.targets = &op, .n_targets = 1, .key = key};

    if (op == NULL)
        op = named_op(g, "legacy_init_op");
    return info->is_saved_model && op != NULL ? session_run(s, &args, NULL, err) : 0;
}

int import_meta_graph_bytes(struct saver **ret, struct graph *g, const void *data,
                            size_t len_bytes, const struct metagraph_import_options *o,
                            struct metagraph_info *ret_info, struct err *err)
{
    struct metagraph_info info;
    int rc = metagraph_import(g, data, len_bytes, o, &info, err);

    if (rc != 0)
        return rc;
    rc = metagraph_saver(ret, g, &info, err);
    if (rc == 0 && ret_info != NULL)
        *ret_info = info;
    else
        metagraph_info_done(&info);
    return rc;
}

int import_meta_graph(struct saver **ret, struct graph *g, const char *path,
                      const struct metagraph_import_options *o, struct err *err)
{
    struct wbuf b = {0};
    int rc = wbuf_read_file(&b, path, MESSAGE_MAX_BYTES, err);

    if (rc == 0) {
        rc = import_meta_graph_bytes(ret, g, b.data, b.len, o, NULL, err);
        if (rc != 0) {
            (void)err_wrap(err, "%s", path);
            (void)err_note(err, ERR_AT(.file = path));
        }
    }
    wbuf_done(&b);
    return rc;
}
