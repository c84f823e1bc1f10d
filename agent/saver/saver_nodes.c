#include "agent/saver/saver_nodes.h"

#include "agent/graph/import.h"
#include "agent/graph/ops.h"
#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

struct nodes {
    struct graph *g;
    struct arena *arena;
    const struct saver_options *o;
    const struct saver_shard *shards;
    size_t n_shards;
    struct output prefix; /* save/Const */
};

/* ---- parts ---- */

static struct output string_constant(struct nodes *b, const char *value, const char *name)
{
    struct tensor_string s = {arena_strdup(b->arena, value), strlen(value)};
    struct tensor t = tensor_const_view(DT_STRING, SHAPE_SCALAR, &s);

    return constant(b->g, &t, name);
}

/* The names of the items, or as many empty strings (slices). */
static struct output string_list(struct nodes *b, const struct saver_shard *shard,
                                 int names, const char *name)
{
    struct tensor_string *s = ARENA_ARRAY(b->arena, struct tensor_string, shard->n);
    struct tensor t = tensor_const_view(DT_STRING, SHAPE((int64_t)shard->n), s);

    for (size_t i = 0; names && i < shard->n; i++)
        s[i] = (struct tensor_string){arena_strdup(b->arena, shard->items[i].name),
                                      strlen(shard->items[i].name)};
    return constant(b->g, &t, name);
}

static struct output with_default(struct nodes *b, struct output value, const char *name)
{
    struct op_builder *op = op_begin(b->g, "PlaceholderWithDefault", name);

    op_input(op, value);
    op_attr_shape(op, "shape", &SHAPE_SCALAR);
    return (struct output){op_finish(op), 0};
}

/* An Identity of x that runs after `after`. */
static struct output after(struct nodes *b, struct output x, struct operation *op,
                           const char *name, int colocated)
{
    struct op_builder *identity = op_begin(b->g, "Identity", name);

    op_input(identity, x);
    if (op != NULL)
        op_control_input(identity, op);
    if (colocated && output_valid(x))
        op_colocate(identity, operation_name(x.op));
    return (struct output){op_finish(identity), 0};
}

static int is_resource(const struct variable *v)
{
    return output_dtype(v->ref) == DT_RESOURCE;
}

/* "<prefix>/SaveV2", or "<prefix>/save" for V1 checkpoints, and its lists; returns the
 * prefix, available once they are written. */
static struct output build_save(struct nodes *b, struct output prefix,
                                const struct saver_shard *shard)
{
    const int is_v1 = b->o->write_version == SAVER_V1;
    struct op_builder *save;
    struct output names, slices;

    name_scope_enter(b->g, is_v1 ? "save" : "SaveV2");
    names = string_list(b, shard, 1, "tensor_names");
    slices = string_list(b, shard, 0, is_v1 ? "shapes_and_slices" : "shape_and_slices");
    save = op_begin(b->g, is_v1 ? "SaveSlices" : "SaveV2", graph_name_scope(b->g));
    op_input(save, prefix);
    op_input(save, names);
    op_input(save, slices);
    for (size_t i = 0; i < shard->n; i++) {
        struct variable *v = shard->items[i].variable;

        op_input(save, is_resource(v) ? v->read : v->ref);
    }
    name_scope_leave(b->g);
    return after(b, prefix, op_finish(save), "control_dependency", 1);
}

/* ---- saving in shards ---- */

/* "/job:ps/task:0" -> "/job:ps/task:0/device:CPU:0" */
static const char *on_cpu(struct nodes *b, const char *device)
{
    const char *kind = strstr(device, "/device:");
    int n = kind != NULL ? (int)(kind - device) : (int)strlen(device);

    return arena_printf(b->arena, "%.*s/device:CPU:0", n, device);
}

static const char *device_of(struct nodes *b, const struct saver_shard *shard)
{
    return shard->device[0] != '\0' ? on_cpu(b, shard->device) : "";
}

static struct output build_shard(struct nodes *b, size_t i, struct output temporary,
                                 struct output n_shards, struct output *ret_saved)
{
    struct output number, filename;

    device_enter(b->g, device_of(b, &b->shards[i]));
    name_scope_enter(b->g, "ShardedFilename");
    number = constant_i32(b->g, (int32_t)i, "shard");
    filename = ternary(b->g, "ShardedFilename", temporary, number, n_shards,
                       graph_name_scope(b->g));
    name_scope_leave(b->g);
    *ret_saved = build_save(b, filename, &b->shards[i]);
    device_leave(b->g);
    return filename;
}

/* Merges the shards after all are written; returns the prefix, available after that. */
static struct output build_merge(struct nodes *b, const struct output *filenames,
                                 struct operation *const *saved)
{
    struct op_builder *op;
    struct output prefixes, ret;
    struct operation *merge;

    control_dependencies_enter(b->g, saved, b->n_shards);
    device_enter(b->g, device_of(b, &b->shards[b->n_shards - 1]));
    name_scope_enter(b->g, "MergeV2Checkpoints");
    prefixes = stacked(b->g, filenames, b->n_shards, "checkpoint_prefixes");
    op = op_begin(b->g, "MergeV2Checkpoints", graph_name_scope(b->g));
    op_input(op, prefixes);
    op_input(op, b->prefix);
    merge = op_finish(op);
    name_scope_leave(b->g);
    ret = after(b, b->prefix, merge, "Identity", 0);
    device_leave(b->g);
    control_dependencies_leave(b->g);
    return ret;
}

/* V1 shards are not merged: the prefix of all, available after all are written. */
static struct output build_filespec(struct nodes *b, struct output n_shards,
                                    struct operation *const *saved)
{
    struct output ret;

    control_dependencies_enter(b->g, saved, b->n_shards);
    ret = binary(b->g, "ShardedFilespec", b->prefix, n_shards, NULL);
    control_dependencies_leave(b->g);
    return ret;
}

/* Shards that will be merged are written under a temporary name, and then merged. */
static struct output build_temporary(struct nodes *b)
{
    /* TensorFlow draws the name at random for each graph; here it is a hash of the variables'
     * names, so that equal graphs are exported equally */
    uint64_t h[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u}; /* FNV-1a */
    struct output suffix, temporary;
    char *text;

    for (size_t i = 0; i < b->n_shards; i++)
        for (size_t k = 0; k < b->shards[i].n; k++)
            for (const char *c = b->shards[i].items[k].name; *c != '\0'; c++) {
                h[0] = (h[0] ^ (unsigned char)*c) * 0x100000001b3u;
                h[1] = (h[1] ^ (unsigned char)*c ^ 0x5au) * 0x100000001b3u;
            }
    text = arena_printf(b->arena, "_temp_%016llx%016llx/part", (unsigned long long)h[0],
                        (unsigned long long)h[1]);
    name_scope_enter(b->g, "StringJoin");
    suffix = string_constant(b, text, "inputs_1");
    temporary = binary(b->g, "StringJoin", b->prefix, suffix, graph_name_scope(b->g));
    name_scope_leave(b->g);
    return temporary;
}

static struct output build_sharded_save(struct nodes *b)
{
    struct output *filenames = ARENA_ARRAY(b->arena, struct output, b->n_shards);
    struct operation **saved = ARENA_ARRAY(b->arena, struct operation *, b->n_shards);
    const int is_v1 = b->o->write_version == SAVER_V1;
    struct output temporary, n_shards;

    temporary = is_v1 ? b->prefix : build_temporary(b);
    n_shards = constant_i32(b->g, (int32_t)b->n_shards, "num_shards");
    for (size_t i = 0; i < b->n_shards; i++) {
        struct output done;

        filenames[i] = build_shard(b, i, temporary, n_shards, &done);
        if (!output_valid(done))
            return OUTPUT_NONE;
        saved[i] = done.op;
    }
    return is_v1 ? build_filespec(b, n_shards, saved) : build_merge(b, filenames, saved);
}

/* ---- restoring ---- */

static struct operation *assign_restored(struct nodes *b, struct variable *v,
                                         struct output x)
{
    struct op_builder *op;

    device_enter(b->g, operation_device(v->ref.op));
    if (b->o->reshape)
        x = reshape(b->g, x, &v->shape, NULL);
    if (is_resource(v)) {
        x = unary(b->g, "Identity", x, NULL);
        op = op_begin(b->g, "AssignVariableOp", NULL);
    } else {
        op = op_begin(b->g, "Assign", NULL);
        op_attr_bool(op, "validate_shape", !b->o->reshape);
    }
    op_input(op, v->ref);
    op_input(op, x);
    device_leave(b->g);
    return op_finish(op);
}

static struct operation *build_restore_v2(struct nodes *b,
                                          const struct saver_shard *shard)
{
    int64_t *types = ARENA_ARRAY(b->arena, int64_t, shard->n);
    struct attr dtypes = {
        .name = "dtypes", .kind = ATTR_LIST_TYPE, .list_i = types, .n = shard->n};
    struct op_builder *op;
    struct operation *ret;
    struct output names, slices;

    for (size_t i = 0; i < shard->n; i++)
        types[i] = (int64_t)shard->items[i].variable->dtype;
    device_enter(b->g, on_cpu(b, b->o->sharded ? shard->device : ""));
    name_scope_enter(b->g, "RestoreV2");
    names = string_list(b, shard, 1, "tensor_names");
    slices = string_list(b, shard, 0, "shape_and_slices");
    op = op_begin(b->g, "RestoreV2", graph_name_scope(b->g));
    op_input(op, b->prefix);
    op_input(op, names);
    op_input(op, slices);
    op_attr(op, &dtypes);
    ret = op_finish(op);
    name_scope_leave(b->g);
    device_leave(b->g);
    return ret;
}

static struct operation *build_restore(struct nodes *b, const struct saver_shard *shard,
                                       const char *name)
{
    struct operation **assigns = ARENA_ARRAY(b->arena, struct operation *, shard->n);
    struct operation *restored = build_restore_v2(b, shard), *ret;

    for (size_t i = 0; i < shard->n; i++)
        assigns[i] = assign_restored(b, shard->items[i].variable,
                                     (struct output){restored, (int)i});
    device_enter(b->g, b->o->sharded ? shard->device : "");
    ret = group(b->g, assigns, shard->n, name);
    device_leave(b->g);
    return ret;
}

static struct operation *build_restore_all(struct nodes *b)
{
    struct operation **shards, *ret;

    if (!b->o->sharded)
        return build_restore(b, &b->shards[0], "restore_all");
    shards = ARENA_ARRAY(b->arena, struct operation *, b->n_shards);
    for (size_t i = 0; i < b->n_shards; i++)
        shards[i] = build_restore(b, &b->shards[i], "restore_shard");
    device_enter(b->g, b->n_shards == 1 ? b->shards[0].device : "");
    ret = group(b->g, shards, b->n_shards, "restore_all");
    device_leave(b->g);
    return ret;
}

int saver_nodes_build(struct graph *g, struct arena *a, const struct saver_options *o,
                      const struct saver_shard *shards, size_t n_shards,
                      struct saver_def *ret, struct err *err)
{
    struct nodes b = {.g = g, .arena = a, .o = o, .shards = shards, .n_shards = n_shards};
    struct output saved;
    struct operation *restore;

    name_scope_enter(g, o->name != NULL ? o->name : "save");
    /* the file name: "save/filename/input", "save/filename", "save/Const" */
    const char *filename = b.o->filename != NULL ? b.o->filename : "model";
    struct output value;
    name_scope_enter(b.g, "filename");
    value = string_constant(&b, filename, "input");
    value = with_default(&b, value, graph_name_scope(b.g));
    name_scope_leave(b.g);
    b.prefix = with_default(&b, value, "Const");
    saved = o->sharded ? build_sharded_save(&b) : build_save(&b, b.prefix, &shards[0]);
    restore = build_restore_all(&b);
    name_scope_leave(g);
    if (!output_valid(saved) || restore == NULL)
        return err_pass(err, graph_error(g));
    *ret = (struct saver_def){
        .filename_tensor = arena_printf(a, "%s:0", operation_name(b.prefix.op)),
        .save_tensor = arena_printf(a, "%s:0", operation_name(saved.op)),
        .restore_op = arena_strdup(a, operation_name(restore)),
        .max_to_keep = o->max_to_keep,
        .sharded = o->sharded,
        .keep_every_n_hours = (float)o->keep_every_n_hours,
        .version = o->write_version,
    };
    return 0;
}

/* ---- finding the nodes of a graph that has them ---- */

static int writes_v1(const struct operation *op)
{
    return strcmp(operation_type(op), "Save") == 0 ||
           strcmp(operation_type(op), "SaveSlices") == 0;
}

/* Finds every SaveV2 (or V1 writer) that must run before the save tensor is available;
 * returns their number. */
static size_t find_saves(struct graph *g, struct operation *from,
                         struct operation **ret /* [n_operations] */)
{
    struct op_walk walk;
    size_t n = 0;

    op_walk_begin(&walk, g);
    op_walk_add(&walk, from);
    for (struct operation *op; (op = op_walk_next(&walk)) != NULL;)
        if (operation_is(op, "SaveV2") || writes_v1(op))
            ret[n++] = op;
        else
            op_walk_add_inputs(&walk, op);
    op_walk_end(&walk);
    return n;
}

/* Returns the variable whose value x is: x is its reference, or reads its resource. */
static struct variable *variable_behind(struct graph *g, struct arena *a, struct output x)
{
    struct variable *v;
    const struct attr *dtype, *shape;

    while (operation_n_inputs(x.op) == 1 &&
           (operation_is(x.op, "Identity") || operation_is(x.op, "ReadVariableOp")))
        x = operation_input(x.op, 0);
    v = variable_find(g, operation_name(x.op));
    if (v != NULL && v->ref.op == x.op)
        return v;
    dtype = operation_attr(x.op, "dtype");
    shape = operation_attr(x.op, "shape");
    if (dtype == NULL || dtype->kind != ATTR_TYPE || shape == NULL ||
        shape->kind != ATTR_SHAPE ||
        (!output_is_ref(x) && output_dtype(x) != DT_RESOURCE))
        return NULL;
    v = ARENA_NEW(a, struct variable);
    v->name = operation_name(x.op);
    v->dtype = (enum dtype)dtype->i;
    v->shape = shape->shape;
    v->ref = x;
    return v;
}

/* The strings of a Const with n of them, or NULL. */
static const struct tensor_string *strings_of(struct output x, int n)
{
    const struct attr *value = operation_attr(x.op, "value");

    if (value == NULL || value->kind != ATTR_TENSOR || value->tensor.dtype != DT_STRING ||
        tensor_elements(&value->tensor) != n)
        return NULL;
    return value->tensor.data;
}

/* A part of a partitioned variable has the shape of the node that holds it. */
static int check_part(const char *slice, const struct variable *v, struct err *err)
{
    struct bundle_slice s;
    struct shape whole;
    int rc = bundle_slice_from_text(slice, &whole, &s, err);

    for (int i = 0; rc == 0 && i < whole.rank; i++)
        if (v->shape.rank != whole.rank ||
            v->shape.dim[i] != (s.length[i] < 0 ? whole.dim[i] : s.length[i]))
            rc = err_set(err, ERR_FORMAT, "'%.80s' is not of shape %s", slice,
                         shape_text(&v->shape));
    return rc;
}

/* The value of a Const; NULL: x is none. */
static const struct tensor *constant_behind(struct output x)
{
    const struct attr *value = operation_attr(x.op, "value");

    return operation_is(x.op, "Const") && value != NULL && value->kind == ATTR_TENSOR
               ? &value->tensor
               : NULL;
}

static int add_items(struct graph *g, struct arena *a, const struct operation *save,
                     struct saver_item *items, size_t *n, struct err *err)
{
    const int first = operation_is(save, "Save") ? 2 : 3; /* the first of the tensors */
    const int n_tensors = operation_n_inputs(save) - first;
    const struct tensor_string *names, *slices = NULL;

    names = strings_of(operation_input(save, 1), n_tensors);
    if (first > 2)
        slices = strings_of(operation_input(save, 2), n_tensors);
    if (names == NULL || (first > 2 && slices == NULL))
        return err_set(err, ERR_FORMAT, "%s does not say what it saves",
                       operation_name(save));
    for (int i = 0; i < n_tensors; i++) {
        const char *name = arena_strndup(a, names[i].bytes, names[i].len_bytes);
        const struct output x = operation_input(save, first + i);
        struct variable *v = variable_behind(g, a, x);
        const struct tensor *constant = v == NULL ? constant_behind(x) : NULL;
        const char *slice = slices != NULL && slices[i].len_bytes > 0
                                ? arena_strndup(a, slices[i].bytes, slices[i].len_bytes)
                                : NULL;

        if (v == NULL && constant == NULL)
            return err_set(err, ERR_UNSUPPORTED, "%s saves %s, which is no variable",
                           operation_name(save), name);
        if (v != NULL && slice != NULL && check_part(slice, v, err) != 0)
            return err_wrap(err, "%s: %s", operation_name(save), name), ERR_FORMAT;
        items[(*n)++] = (struct saver_item){name, v, slice, constant};
    }
    return 0;
}

int saver_nodes_find(struct graph *g, struct arena *a, struct saver_def *def,
                     struct saver_item **ret, size_t *ret_n, struct err *err)
{
    struct operation **saves;
    struct output tensor;
    size_t n_saves, n = 0, most = 0;
    int rc = graph_tensor(g, def->save_tensor, &tensor, err);

    if (rc == 0)
        rc = graph_tensor(g, def->filename_tensor, &(struct output){0}, err);
    if (rc == 0 && graph_operation(g, def->restore_op) == NULL)
        rc = err_set(err, ERR_NOT_FOUND,
                     "The name '%s' refers to an Operation not in the graph.",
                     def->restore_op);
    if (rc != 0)
        return rc;
    saves = xcalloc((size_t)graph_n_operations(g), sizeof(*saves));
    n_saves = find_saves(g, tensor.op, saves);
    def->version = SAVER_V2;
    for (size_t i = 0; i < n_saves; i++) {
        most += (size_t)operation_n_inputs(saves[i]);
        def->version = writes_v1(saves[i]) ? SAVER_V1 : def->version;
    }
    *ret = ARENA_ARRAY(a, struct saver_item, most);
    for (size_t i = 0; rc == 0 && i < n_saves; i++)
        rc = add_items(g, a, saves[i], *ret, &n, err);
    free(saves);
    if (rc == 0 && n == 0)
        rc = err_set(err, ERR_NOT_FOUND, "%s: no operation before it saves variables",
                     def->save_tensor);
    *ret_n = n;
    return rc;
}
