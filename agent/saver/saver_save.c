#include "agent/saver/saver_internal.h"

#include "agent/saver/metagraph_export.h"
#include "common/ckpt/atomic_file.h"
#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int check_saveable(struct saver *s, struct session *session, struct err *err)
{
    if (!s->built)
        return err_set(err, ERR_STATE,
                       "`build()` should be called before save if defer_build==True");
    for (size_t i = 0; i < s->n_items; i++) {
        struct tensor ignored;
        int rc = session_variable(session, s->items[i].variable, &ignored, err);

        if (rc != 0)
            return rc;
    }
    return 0;
}

static int add_item(struct bundle_writer *w, const struct saver_item *item,
                    const struct tensor *value, struct err *err)
{
    struct bundle_slice slice;
    struct shape whole;
    int rc;

    if (item->slice == NULL)
        return bundle_writer_add(w, item->name, value, err);
    rc = bundle_slice_from_text(item->slice, &whole, &slice, err);
    return rc == 0 ? bundle_writer_add_slice(w, item->name, &whole, &slice, value, err)
                   : rc;
}

static int write_bundle(struct saver *s, struct session *session, const char *prefix,
                        struct err *err)
{
    struct bundle_writer *w;
    int rc = bundle_writer_new_sharded(&w, prefix, (uint32_t)s->n_shards,
                                       s->options.durable, err);

    if (rc != 0)
        return rc;
    for (size_t k = 0; rc == 0 && k < s->n_shards; k++) {
        const struct saver_shard *shard = &s->shards[k];

        if (k > 0)
            bundle_writer_next_shard(w);
        for (size_t i = 0; rc == 0 && i < shard->n; i++) {
            struct tensor value;

            rc = session_variable(session, shard->items[i].variable, &value, err);
            if (rc == 0)
                rc = add_item(w, &shard->items[i], &value, err);
        }
    }
    if (rc == 0)
        rc = bundle_writer_finish(w, err);
    bundle_writer_free(w);
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
    rc = write_bundle(s, session, prefix, err);
    if (rc != 0 && !is_directory(dir))
        rc = err_set(err, ERR_NOT_FOUND,
                     "Parent directory of %s doesn't exist, can't save.", path);
    free(dir);
    return rc;
}

static int integer_of(const struct tensor *t, int64_t *ret)
{
    if (tensor_elements(t) != 1 || (t->dtype != DT_INT32 && t->dtype != DT_INT64))
        return -1;
    *ret = t->dtype == DT_INT32 ? *(const int32_t *)t->data : *(const int64_t *)t->data;
    return 0;
}

/* The step from an option that names a tensor. */
static int evaluate_step(struct session *session, struct output step, int64_t *ret,
                         struct err *err)
{
    struct run_args args = {.fetches = &step, .n_fetches = 1};
    struct tensor value = TENSOR_NONE;
    int rc = session_run(session, &args, &value, err);

    if (rc == 0 && integer_of(&value, ret) != 0)
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

static int write_debug_info(struct saver *s, const char *meta_path, const char *suffix,
                            struct err *err)
{
    const size_t n = strlen(meta_path) - strlen(suffix) - 1;
    char *path = xasprintf("%.*s_debug.%s", (int)n, meta_path, suffix);
    struct wbuf b = {0};
    int rc;

    graph_debug_info_export(&b, s->graph);
    rc = atomic_file_write(path, b.data, b.len, s->options.durable, err);
    wbuf_done(&b);
    free(path);
    return rc;
}

static int write_meta_graph(struct saver *s, const char *prefix,
                            const struct saver_save_options *o, const char *suffix,
                            struct err *err)
{
    char *path = meta_graph_filename(prefix, suffix);
    int rc = saver_export_meta_graph(s, path, o->strip_default_attrs, 0, err);

    if (rc == 0 && o->save_debug_info)
        rc = write_debug_info(s, path, suffix, err);
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
            rc = saver_write_state(s, save_dir, prefix, o->latest_filename, suffix, err);
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
