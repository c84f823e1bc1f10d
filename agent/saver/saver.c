#include "agent/saver/saver.h"

#include "agent/saver/metagraph_export.h"
#include "agent/saver/saver_nodes.h"
#include "common/ckpt/atomic_file.h"
#include "common/ckpt/bundle.h"
#include "common/ckpt/v1_writer.h"
#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/arena.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/string_slab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct kept {
    char *prefix;
    double time; /* seconds since the epoch */
};

struct saver {
    struct arena arena; /* items, shards, names */
    struct graph *graph;
    struct saver_options options;
    int built;
    struct saver_item *items; /* by name */
    size_t n_items;
    struct saver_shard *shards;
    size_t n_shards;
    struct saver_def def;
    struct kept *last; /* oldest first; [max_to_keep + 1] are possible */
    size_t n_last, cap_last;
    double next_keep; /* a checkpoint written after this time is never deleted */
};

/* ---- the variables to save ---- */

static int compare_items(const void *a, const void *b)
{
    const struct saver_item *x = a, *y = b;
    const int order = strcmp(x->name, y->name);

    if (order != 0 || x->slice == NULL || y->slice == NULL)
        return order;
    return strcmp(x->slice, y->slice);
}

static void take_all_variables(struct saver *s)
{
    const struct collection_item *items;
    size_t n = collection_get(s->graph, GLOBAL_VARIABLES, NULL, &items);

    s->items = ARENA_ARRAY(&s->arena, struct saver_item, n);
    for (size_t i = 0; i < n; i++)
        if (items[i].kind == ITEM_VARIABLE)
            s->items[s->n_items++] =
                (struct saver_item){items[i].variable->name, items[i].variable};
}

static int take_variables(struct saver *s, const struct saver_item *vars, size_t n,
                          struct err *err)
{
    s->items = ARENA_ARRAY(&s->arena, struct saver_item, n);
    for (size_t i = 0; i < n; i++) {
        const struct variable *v = vars[i].variable;

        if (v == NULL || operation_graph(v->ref.op) != s->graph)
            return err_set(err, ERR_ARG, "Tensor %s:0 is not an element of this graph.",
                           v != NULL ? v->name : "None");
        s->items[s->n_items++] = (struct saver_item){
            arena_strdup(&s->arena, vars[i].name != NULL ? vars[i].name : v->name),
            vars[i].variable};
    }
    return 0;
}

static int sort_items(struct saver *s, struct err *err)
{
    qsort(s->items, s->n_items, sizeof(*s->items), compare_items);
    for (size_t i = 1; i < s->n_items; i++)
        if (compare_items(&s->items[i - 1], &s->items[i]) == 0)
            return err_set(err, ERR_ARG, "At least two variables have the same name: %s",
                           s->items[i].name);
    return 0;
}

static const char *item_device(const struct saver_item *item)
{
    return item->variable != NULL ? operation_device(item->variable->ref.op) : "";
}

static int compare_devices(const void *a, const void *b)
{
    const struct saver_shard *x = a, *y = b;

    return strcmp(x->device, y->device);
}

/* One shard per device; a single one unless the Saver is sharded. */
static void make_shards(struct saver *s)
{
    s->shards = ARENA_ARRAY(&s->arena, struct saver_shard, s->n_items);
    for (size_t i = 0; i < s->n_items; i++) {
        const char *device = s->options.sharded ? item_device(&s->items[i]) : "";
        struct saver_item *items;
        size_t k = 0;

        while (k < s->n_shards && strcmp(s->shards[k].device, device) != 0)
            k++;
        if (k < s->n_shards)
            continue;
        items = ARENA_ARRAY(&s->arena, struct saver_item, s->n_items);
        s->shards[k] = (struct saver_shard){.device = device, .items = items};
        s->n_shards++;
        for (size_t j = i; j < s->n_items; j++)
            if (!s->options.sharded || strcmp(item_device(&s->items[j]), device) == 0)
                items[s->shards[k].n++] = s->items[j];
    }
    if (s->n_shards > 0)
        qsort(s->shards, s->n_shards, sizeof(*s->shards), compare_devices);
}

/* ---- building ---- */

/* Seconds since the epoch, by the Saver's clock. */
static double now_of(const struct saver *s)
{
    struct timespec t;

    if (s->options.now != NULL)
        return s->options.now(s->options.now_ctx);
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int build_nodes(struct saver *s, struct err *err)
{
    int rc = sort_items(s, err);

    if (rc == 0 && s->n_items == 0 && !s->options.allow_empty)
        rc = err_set(err, ERR_ARG, "No variables to save");
    if (rc != 0 || s->n_items == 0)
        return rc;
    make_shards(s);
    return saver_nodes_build(s->graph, &s->arena, &s->options, s->shards, s->n_shards,
                             &s->def, err);
}

/* For a Saver with a saver_def, the name is the scope under which it was imported. */
static int find_nodes(struct saver *s, const struct saver_def *def, struct err *err)
{
    const char *scope = s->options.name;
    const char *prefix = scope != NULL ? arena_printf(&s->arena, "%s/", scope) : "";
    int rc;

    s->def = *def;
    s->def.filename_tensor =
        arena_printf(&s->arena, "%s%s", prefix, def->filename_tensor);
    s->def.save_tensor = arena_printf(&s->arena, "%s%s", prefix, def->save_tensor);
    s->def.restore_op = arena_printf(&s->arena, "%s%s", prefix, def->restore_op);
    s->options.max_to_keep = def->max_to_keep;
    s->options.sharded = def->sharded;
    s->options.keep_every_n_hours = (double)def->keep_every_n_hours;
    rc = saver_nodes_find(s->graph, &s->arena, &s->def, &s->items, &s->n_items, err);
    if (rc == 0)
        rc = sort_items(s, err);
    if (rc == 0)
        make_shards(s);
    return rc;
}

static void mark_built(struct saver *s)
{
    s->built = 1;
    s->next_keep = now_of(s) + s->options.keep_every_n_hours * 3600.0;
}

int saver_build(struct saver *s, struct err *err)
{
    int rc;

    if (s->built)
        return err_set(err, ERR_STATE, "the Saver is built already");
    take_all_variables(s);
    rc = build_nodes(s, err);
    if (rc == 0)
        mark_built(s);
    return rc;
}

static int check_options(const struct saver_options *o, struct err *err)
{
    if (o->builder != NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "builder: a Saver builds its own nodes, no other builder is "
                       "supported");
    if (o->write_version != SAVER_V1 && o->write_version != SAVER_V2)
        return err_set(err, ERR_ARG, "write_version %d, not V1 (%d) or V2 (%d)",
                       o->write_version, SAVER_V1, SAVER_V2);
    if (o->max_to_keep < 0)
        return err_set(err, ERR_ARG, "max_to_keep is %d", o->max_to_keep);
    if (o->defer_build && o->vars != NULL)
        return err_set(err, ERR_ARG,
                       "If `var_list` is provided then build cannot be deferred. Either "
                       "set defer_build=False or var_list=None.");
    return 0;
}

int saver_new(struct saver **ret, struct graph *g, const struct saver_options *o,
              struct err *err)
{
    struct saver *s = xcalloc(1, sizeof(*s));
    int rc;

    s->graph = g;
    s->options = o != NULL ? *o : SAVER_DEFAULTS;
    s->options.name = arena_strdup(&s->arena, s->options.name);
    s->options.filename = arena_strdup(&s->arena, s->options.filename);
    rc = check_options(&s->options, err);
    if (rc == 0 && s->options.saver_def != NULL) {
        rc = find_nodes(s, s->options.saver_def, err);
    } else if (rc == 0 && !s->options.defer_build) {
        if (s->options.vars != NULL)
            rc = take_variables(s, s->options.vars, s->options.n_vars, err);
        else
            take_all_variables(s);
        if (rc == 0)
            rc = build_nodes(s, err);
    }
    if (rc != 0) {
        saver_free(s);
        return rc;
    }
    if (!s->options.defer_build || s->options.saver_def != NULL)
        mark_built(s);
    *ret = s;
    return 0;
}

void saver_free(struct saver *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_last; i++)
        free(s->last[i].prefix);
    free(s->last);
    arena_done(&s->arena);
    free(s);
}

const struct saver_def *saver_as_def(const struct saver *s)
{
    return s->built && s->n_items > 0 ? &s->def : NULL;
}

size_t saver_n_items(const struct saver *s)
{
    return s->n_items;
}

const struct saver_item *saver_item_at(const struct saver *s, size_t i)
{
    CHECK(i < s->n_items);
    return &s->items[i];
}

/* ---- the last checkpoints: the state file, which one to delete ---- */

size_t saver_n_last_checkpoints(const struct saver *s)
{
    return s->n_last;
}

const char *saver_last_checkpoint(const struct saver *s, size_t i)
{
    CHECK(i < s->n_last);
    return s->last[i].prefix;
}

static struct kept take_kept(struct saver *s, size_t i)
{
    struct kept k = s->last[i];

    s->n_last--;
    memmove(&s->last[i], &s->last[i + 1], (s->n_last - i) * sizeof(k));
    return k;
}

static void add_kept(struct saver *s, const char *prefix, double time)
{
    ARRAY_GROW(s->last, s->n_last, s->cap_last);
    s->last[s->n_last++] = (struct kept){xstrdup(prefix), time};
}

static void forget_all(struct saver *s)
{
    while (s->n_last > 0)
        free(take_kept(s, 0).prefix);
}

void saver_set_last_checkpoints(struct saver *s, const char *const *prefixes, size_t n)
{
    forget_all(s);
    for (size_t i = 0; i < n; i++)
        add_kept(s, prefixes[i], (double)INFINITY);
}

void saver_recover_last_checkpoints(struct saver *s, const char *const *prefixes,
                                    size_t n)
{
    forget_all(s);
    for (size_t i = 0; i < n; i++) {
        double time;

        if (checkpoint_mtime(prefixes[i], &time, NULL) == 0)
            add_kept(s, prefixes[i], time);
    }
}

/* Adds the checkpoint to the list. Returns 1 if *ret_old had to leave the list. */
static int record(struct saver *s, const char *prefix, struct kept *ret_old)
{
    if (s->options.max_to_keep == 0)
        return 0;
    for (size_t i = 0; i < s->n_last; i++)
        if (strcmp(s->last[i].prefix, prefix) == 0) {
            free(take_kept(s, i).prefix);
            break;
        }
    add_kept(s, prefix, now_of(s));
    if (s->n_last <= (size_t)s->options.max_to_keep)
        return 0;
    *ret_old = take_kept(s, 0);
    return 1;
}

/* Adds `prefix`, the newest checkpoint, to the list, writes the state file, and deletes
 * the checkpoint that left the list, if any. */
static int write_state(struct saver *s, const char *save_dir, const char *prefix,
                       const char *latest_filename, const char *suffix, struct err *err)
{
    struct kept old = {0};
    int has_old = record(s, prefix, &old), rc;
    const char **all = xcalloc(s->n_last + 1, sizeof(*all));
    struct checkpoint_state_update u = {
        .save_dir = save_dir,
        .newest = prefix,
        .all = all,
        .n_all = s->n_last,
        .latest_filename = latest_filename,
        .save_relative_paths = s->options.save_relative_paths,
        .durable = s->options.durable,
    };

    for (size_t i = 0; i < s->n_last; i++)
        all[i] = s->last[i].prefix;
    rc = checkpoint_state_write(&u, err);
    if (rc == 0 && has_old) {
        /* deleted, unless it is the one to keep of its keep_every_n_hours; a file that
         * cannot be deleted is no error */
        struct err why = {0};

        if (old.time > s->next_keep)
            s->next_keep += s->options.keep_every_n_hours * 3600.0;
        else if (checkpoint_remove(old.prefix, suffix, &why) != 0)
            log_warn("Ignoring: %s", why.msg);
    }
    free(old.prefix);
    free(all);
    return rc;
}

/* ---- saving ---- */

static int check_saveable(struct saver *s, struct session *session, struct err *err)
{
    if (!s->built)
        return err_set(err, ERR_STATE,
                       "`build()` should be called before save if defer_build==True");
    for (size_t i = 0; i < s->n_items; i++) {
        struct tensor ignored;
        int rc = s->items[i].variable != NULL
                     ? session_variable(session, s->items[i].variable, &ignored, err)
                     : 0;

        if (rc != 0)
            return rc;
    }
    return 0;
}

/* The writer of a checkpoint's data: in either format. */
struct data_writer {
    struct bundle_writer *v2;
    struct v1_writer *v1; /* of the current shard */
};

static int add_item(const struct data_writer *w, const struct saver_item *item,
                    const struct tensor *value, struct err *err)
{
    struct bundle_slice slice;
    struct shape whole;
    int rc;

    if (item->slice == NULL)
        return w->v1 != NULL ? v1_writer_add(w->v1, item->name, value, err)
                             : bundle_writer_add(w->v2, item->name, value, err);
    rc = bundle_slice_from_text(item->slice, &whole, &slice, err);
    if (rc < 0)
        return rc;
    return w->v1 != NULL
               ? v1_writer_add_slice(w->v1, item->name, &whole, &slice, value, err)
               : bundle_writer_add_slice(w->v2, item->name, &whole, &slice, value, err);
}

static int add_shard(const struct data_writer *w, struct session *session,
                     const struct saver_shard *shard, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < shard->n; i++) {
        struct tensor value, strings;

        if (shard->items[i].variable == NULL) {
            rc = add_item(w, &shard->items[i], shard->items[i].constant, err);
            continue;
        }
        rc = session_variable(session, shard->items[i].variable, &value, err);
        if (rc == 0 && value.dtype != DT_STRING) {
            rc = add_item(w, &shard->items[i], &value, err);
        } else if (rc == 0) {
            rc = string_slab_get(value.data, &value.shape, &strings, err);
            if (rc == 0)
                rc = add_item(w, &shard->items[i], &strings, err);
            tensor_free(&strings);
        }
    }
    return rc;
}

static int write_bundle(struct saver *s, struct session *session, const char *prefix,
                        struct err *err)
{
    struct data_writer w = {0};
    int rc = bundle_writer_new_sharded(&w.v2, prefix, (uint32_t)s->n_shards,
                                       s->options.durable, err);

    if (rc != 0)
        return rc;
    for (size_t k = 0; rc == 0 && k < s->n_shards; k++) {
        if (k > 0)
            bundle_writer_next_shard(w.v2);
        rc = add_shard(&w, session, &s->shards[k], err);
    }
    if (rc == 0)
        rc = bundle_writer_finish(w.v2, err);
    bundle_writer_free(w.v2);
    return rc;
}

/* Writes one file, or one per shard. */
static int write_v1(struct saver *s, struct session *session, const char *prefix,
                    struct err *err)
{
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < s->n_shards; k++) {
        char *path = ckpt_shard_path(prefix, (unsigned)k);
        struct data_writer w = {.v1 = v1_writer_new(path, s->options.durable)};

        rc = add_shard(&w, session, &s->shards[k], err);
        if (rc == 0)
            rc = v1_writer_finish(w.v1, err);
        v1_writer_free(w.v1);
        free(path);
    }
    return rc;
}

static int is_directory(const char *path)
{
    struct stat st;

    return stat(path[0] != '\0' ? path : ".", &st) == 0 && S_ISDIR(st.st_mode);
}

static int write_data(struct saver *s, struct session *session, const char *prefix,
                      const char *path, struct err *err)
{
    char *dir = path_directory(prefix);
    int rc;

    if (!is_directory(dir))
        (void)mkdir(dir, 0777);
    rc = s->def.version == SAVER_V1 ? write_v1(s, session, prefix, err)
                                    : write_bundle(s, session, prefix, err);
    if (rc != 0 && !is_directory(dir))
        rc = err_set(err, ERR_NOT_FOUND,
                     "Parent directory of %s doesn't exist, can't save.", path);
    free(dir);
    return rc;
}

/* The step from an option that names a tensor. */
static int evaluate_step(struct session *session, struct output step, int64_t *ret,
                         struct err *err)
{
    struct run_args args = {.fetches = &step, .n_fetches = 1};
    struct tensor value = TENSOR_NONE;
    int rc = session_run(session, &args, &value, err);

    if (rc == 0 && tensor_elements(&value) == 1 &&
        (value.dtype == DT_INT32 || value.dtype == DT_INT64))
        *ret = value.dtype == DT_INT32 ? *(const int32_t *)value.data
                                       : *(const int64_t *)value.data;
    else if (rc == 0)
        rc = err_set(err, ERR_DTYPE, "global_step %s:%d is not one integer",
                     operation_name(step.op), step.index);
    tensor_free(&value);
    return rc;
}

static int make_prefix(struct saver *s, struct session *session, const char *path,
                       const struct saver_save_options *o, char **ret, struct err *err)
{
    struct output tensor = o->step_tensor;
    int64_t step = o->step;
    int rc = 0;

    if (o->step_name != NULL)
        rc = graph_tensor(s->graph, o->step_name, &tensor, err);
    if (rc == 0 && tensor.op != NULL)
        rc = evaluate_step(session, tensor, &step, err);
    if (rc != 0)
        return rc;
    if (!o->has_step && tensor.op == NULL)
        *ret = xstrdup(path);
    else if (s->options.pad_step_number)
        *ret = xasprintf("%s-%08lld", path, (long long)step);
    else
        *ret = xasprintf("%s-%lld", path, (long long)step);
    if (s->def.version == SAVER_V1 && s->options.sharded) {
        char *base = *ret;

        *ret = xasprintf("%s-%s-of-%05zu", base, "?????", s->n_shards);
        free(base);
    }
    return 0;
}

static int check_names(const struct saver *s, const char *path,
                       const struct saver_save_options *o, struct err *err)
{
    const char *latest =
        o->latest_filename != NULL ? o->latest_filename : CHECKPOINT_STATE_FILE;
    const char *slash = strrchr(path, '/');
    int has_step = o->has_step || o->step_tensor.op != NULL || o->step_name != NULL;

    if (strchr(latest, '/') != NULL)
        return err_set(err, ERR_ARG,
                       "'latest_filename' must not contain path components");
    if (!has_step && !s->options.sharded &&
        strcmp(slash != NULL ? slash + 1 : path, latest) == 0)
        return err_set(err, ERR_ARG,
                       "'latest_filename' collides with 'save_path': '%s' and '%s'",
                       latest, path);
    return 0;
}

int saver_export_meta_graph(struct saver *s, const char *path, int strip_default_attrs,
                            int clear_devices, struct err *err)
{
    struct metagraph_export_options o = {strip_default_attrs, clear_devices};
    struct wbuf b = {0};
    int rc;

    metagraph_export(&b, s->graph, saver_as_def(s), &o);
    rc = atomic_file_write(path, b.data, b.len, s->options.durable, err);
    wbuf_done(&b);
    return rc;
}

static int write_meta_graph(struct saver *s, const char *prefix,
                            const struct saver_save_options *o, const char *suffix,
                            struct err *err)
{
    char *path = ckpt_meta_path(prefix, suffix);
    int rc = saver_export_meta_graph(s, path, o->strip_default_attrs, 0, err);

    if (rc == 0 && o->save_debug_info) {
        const size_t n = strlen(path) - strlen(suffix) - 1;
        char *debug_path = xasprintf("%.*s_debug.%s", (int)n, path, suffix);
        struct wbuf b = {0};

        graph_debug_info_export(&b, s->graph);
        rc = atomic_file_write(debug_path, b.data, b.len, s->options.durable, err);
        wbuf_done(&b);
        free(debug_path);
    }
    free(path);
    return rc;
}

int saver_save(struct saver *s, struct session *session, const char *path,
               const struct saver_save_options *o, char **ret_prefix, struct err *err)
{
    static const struct saver_save_options defaults;
    const char *suffix;
    char *prefix = NULL, *save_dir;
    int rc;

    o = o != NULL ? o : &defaults;
    suffix = o->meta_graph_suffix != NULL ? o->meta_graph_suffix : "meta";
    save_dir = path_directory(path);
    rc = check_names(s, path, o, err);
    if (rc == 0)
        rc = check_saveable(s, session, err);
    if (rc == 0)
        rc = make_prefix(s, session, path, o, &prefix, err);
    if (rc == 0 && s->n_items > 0) {
        rc = write_data(s, session, prefix, path, err);
        if (rc == 0 && !o->no_state)
            rc = write_state(s, save_dir, prefix, o->latest_filename, suffix, err);
    }
    if (rc == 0 && !o->no_meta_graph)
        rc = write_meta_graph(s, prefix, o, suffix, err);
    if (ret_prefix != NULL)
        *ret_prefix = rc == 0 && s->n_items > 0 ? prefix : NULL;
    if (ret_prefix == NULL || *ret_prefix == NULL)
        free(prefix);
    free(save_dir);
    return rc;
}

/* ---- restoring ---- */

/* "[3,4]", as TensorFlow's kernels print shapes. */
static const char *brackets(const struct shape *shape, char *buf, size_t size)
{
    size_t n = 0;

    for (int i = 0; i < shape->rank && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", i > 0 ? "," : "[",
                              (long long)shape->dim[i]);
    if (n < size)
        (void)snprintf(buf + n, size - n, shape->rank > 0 ? "]" : "[]");
    return buf;
}

static int check_entry(const struct saver *s, const struct bundle_reader *r,
                       const struct saver_item *item, struct err *err)
{
    const struct bundle_entry *e = bundle_reader_find(r, item->name);
    const struct variable *v = item->variable;
    struct shape expected = v->shape;
    struct bundle_slice slice;
    int fits, rc;

    if (e == NULL)
        return bundle_reader_missing(r, item->name, err);
    if (e->dtype != v->dtype)
        return err_set(err, ERR_DTYPE,
                       "tensor_name = %s; expected dtype %s does not equal original "
                       "dtype %s",
                       item->name, dtype_name(v->dtype), dtype_name(e->dtype));
    if (item->slice != NULL &&
        (rc = bundle_slice_from_text(item->slice, &expected, &slice, err)) != 0)
        return rc;
    fits = s->options.reshape && item->slice == NULL
               ? shape_elements(&e->shape) == shape_elements(&expected)
               : shape_equal(&e->shape, &expected);
    if (!fits)
        return err_set(err, ERR_SHAPE,
                       "Assign requires shapes of both tensors to match. lhs shape= %s "
                       "rhs shape= %s (%s)",
                       brackets(&expected, (char[SHAPE_TEXT]){0}, SHAPE_TEXT),
                       brackets(&e->shape, (char[SHAPE_TEXT]){0}, SHAPE_TEXT),
                       item->name);
    return 0;
}

static int restore_item(struct session *session, struct bundle_reader *r,
                        const struct saver_item *item, struct err *err)
{
    const struct bundle_entry *e = bundle_reader_find(r, item->name);
    struct tensor value = TENSOR_NONE;
    struct bundle_slice slice;
    struct shape whole;
    int rc = 0;

    if (item->slice == NULL)
        rc = bundle_reader_read(r, e, &value, err);
    else if ((rc = bundle_slice_from_text(item->slice, &whole, &slice, err)) == 0)
        rc = bundle_reader_read_part(r, e, &slice, &value, err);
    if (rc == 0) {
        value.shape = item->variable->shape;
        rc = session_variable_set(session, item->variable, &value, err);
    }
    tensor_free(&value);
    return rc;
}

int saver_restore(struct saver *s, struct session *session, const char *prefix,
                  struct err *err)
{
    struct bundle_reader *r;
    int rc;

    if (!s->built)
        return err_set(err, ERR_STATE,
                       "`build()` should be called before restore if defer_build==True");
    if (s->n_items == 0)
        return 0;
    if (prefix == NULL)
        return err_set(err, ERR_ARG, "Can't load save_path when it is None.");
    if (!checkpoint_exists(prefix))
        return err_set(err, ERR_NOT_FOUND,
                       "The passed save_path is not a valid checkpoint: %s", prefix);
    rc = bundle_reader_new(&r, prefix, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < s->n_items; i++)
        if (s->items[i].variable != NULL)
            rc = check_entry(s, r, &s->items[i], err);
    for (size_t i = 0; rc == 0 && i < s->n_items; i++)
        if (s->items[i].variable != NULL)
            rc = restore_item(session, r, &s->items[i], err);
    bundle_reader_free(r);
    return rc;
}

/* ---- variables without a value ---- */

static size_t add_uninitialized(struct graph *g, struct session *session, const char *key,
                                const char **ret, size_t max, size_t n)
{
    const struct collection_item *items;
    size_t n_items = collection_get(g, key, NULL, &items);

    for (size_t i = 0; i < n_items; i++) {
        if (items[i].kind != ITEM_VARIABLE ||
            session_variable_initialized(session, items[i].variable))
            continue;
        if (n < max)
            ret[n] = items[i].variable->name;
        n++;
    }
    return n;
}

size_t report_uninitialized_variables(struct graph *g, struct session *session,
                                      const char **ret, size_t max)
{
    size_t n = add_uninitialized(g, session, GLOBAL_VARIABLES, ret, max, 0);

    return add_uninitialized(g, session, LOCAL_VARIABLES, ret, max, n);
}
