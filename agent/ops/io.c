/* io.c - the nodes of a Saver: checkpoints written and read from within a graph (save/SaveV2,
 * save/SaveSlices, save/RestoreV2, ...), and nodes that put file names together.
 *
 * Source   save_restore_v2_ops.cc, save_op.cc, restore_op.cc and string_join_op.cc of TensorFlow
 *          1.13. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/ckpt/bundle.h"
#include "common/ckpt/v1_writer.h"
#include "common/confine/confine.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PARTS = 99999 }; /* a checkpoint has at most this many data files */

/* Copies string i of a tensor, NUL-terminated; free(). */
static char *text_at(const struct tensor *t, int64_t i)
{
    const struct tensor_string *s = (const struct tensor_string *)t->data + i;

    return s->len_bytes > 0 ? xstrndup(s->bytes, s->len_bytes) : xstrdup("");
}

static void set_text(struct tensor *t, int64_t i, char *text)
{
    set_string(t, i, (struct tensor_string){text, strlen(text)});
}

/* ---- checkpoints ---- */

/* Checks the inputs filename, tensor_names and, unless it is NULL, shape_and_slices, which
 * belong to n tensors. */
static int check_names(const struct operation *op, const struct tensor *names,
                       const struct tensor *slices, int64_t n, struct err *err)
{
    if (tensor_elements(names) == n && (slices == NULL || tensor_elements(slices) == n))
        return 0;
    return err_set(err, ERR_SHAPE, "%s: %lld names and %lld slices for %lld tensors",
                   operation_name(op), (long long)tensor_elements(names),
                   (long long)(slices != NULL ? tensor_elements(slices) : n),
                   (long long)n);
}

/* Where a checkpoint is written to: in either format. */
struct target {
    struct bundle_writer *v2;
    struct v1_writer *v1;
};

/* slice: "" for a whole tensor. */
static int save_one(const struct target *to, const char *name, const char *text,
                    const struct tensor *t, struct err *err)
{
    struct bundle_slice slice;
    struct shape whole;
    int rc;

    if (text[0] == '\0')
        return to->v1 != NULL ? v1_writer_add(to->v1, name, t, err)
                              : bundle_writer_add(to->v2, name, t, err);
    rc = bundle_slice_from_text(text, &whole, &slice, err);
    if (rc < 0)
        return err_wrap(err, "%s", name), rc;
    return to->v1 != NULL ? v1_writer_add_slice(to->v1, name, &whole, &slice, t, err)
                          : bundle_writer_add_slice(to->v2, name, &whole, &slice, t, err);
}

static int save_all(const struct kernel_args *a, const struct target *to)
{
    const int first = operation_is(a->op, "Save") ? 2 : 3; /* the first of the tensors */
    const struct tensor *slices = first > 2 ? a->in[2] : NULL;
    int rc = check_names(a->op, a->in[1], slices, a->n_in - first, a->err);

    for (int i = 0; rc == 0 && i < a->n_in - first; i++) {
        char *name = text_at(a->in[1], i);
        char *slice = slices != NULL ? text_at(slices, i) : xstrdup("");

        rc = save_one(to, name, slice, a->in[first + i], a->err);
        free(slice);
        free(name);
    }
    return rc;
}

/* ERR_UNSUPPORTED: this process is an agent, which can write no files. */
static int want_files(const struct kernel_args *a)
{
    return confine_is_without_files()
               ? err_set(a->err, ERR_UNSUPPORTED,
                         "%s: an agent writes no files: fetch the values instead "
                         "(--fetch), or take those of the checkpoint (`brood export`)",
                         operation_name(a->op))
               : 0;
}

/* in: prefix, tensor_names, shape_and_slices, tensors */
static int kern_save(const struct kernel_args *a)
{
    struct target to = {0};
    char *prefix = text_at(a->in[0], 0);
    int rc = want_files(a);

    if (rc == 0) {
        /* As TensorFlow's writers do: a Saver of shards has its parts in a folder of their
         * own. If it cannot be made, creating the file says so. */
        const char *end = strrchr(prefix, '/');
        char *folder = xstrndup(prefix, end != NULL ? (size_t)(end - prefix) : 0);

        if (folder[0] != '\0')
            (void)tree_make(folder, NULL);
        free(folder);
        rc = bundle_writer_new(&to.v2, prefix, 0, a->err);
    }
    if (rc == 0)
        rc = save_all(a, &to);
    if (rc == 0)
        rc = bundle_writer_finish(to.v2, a->err);
    bundle_writer_free(to.v2);
    free(prefix);
    return rc;
}

/* Writes a V1 checkpoint; without shape_and_slices. */
static int kern_save_v1(const struct kernel_args *a)
{
    char *path = text_at(a->in[0], 0);
    struct target to = {.v1 = v1_writer_new(path, 0)};
    int rc = want_files(a);

    if (rc == 0)
        rc = save_all(a, &to);
    if (rc == 0)
        rc = v1_writer_finish(to.v1, a->err);
    v1_writer_free(to.v1);
    free(path);
    return rc;
}

static int open_bundle(const struct tensor *prefix, int64_t i, struct bundle_reader **ret,
                       struct err *err)
{
    char *text = text_at(prefix, i);
    int rc = bundle_reader_new(ret, text, err);

    free(text);
    return rc;
}

/* A tensor that an operation restores, or a part of one. */
struct source {
    const struct bundle_entry *entry;
    int is_part;
    struct bundle_slice slice;
    struct shape shape; /* of the part */
};

/* names, slices: inputs of a restoring operation; slices may be NULL. */
static int find_source(const struct bundle_reader *b, const struct tensor *names,
                       const struct tensor *slices, int64_t i, struct source *ret,
                       struct err *err)
{
    char *name = text_at(names, i), *text = slices != NULL ? text_at(slices, i) : NULL;
    struct shape whole;
    int rc = 0;

    *ret = (struct source){bundle_reader_find(b, name),
                           text != NULL && text[0] != '\0',
                           {{0}, {0}},
                           SHAPE_SCALAR};
    if (ret->entry == NULL)
        rc = bundle_reader_missing(b, name, err);
    else if (!ret->is_part)
        ret->shape = ret->entry->shape;
    else if ((rc = bundle_slice_from_text(text, &whole, &ret->slice, err)) < 0)
        (void)err_wrap(err, "%s", name);
    else if (!shape_equal(&whole, &ret->entry->shape))
        rc = err_set(err, ERR_SHAPE, "%s: '%s' is a part of another shape than %s", name,
                     text, shape_text(&ret->entry->shape));
    else
        rc = bundle_slice_shape(&whole, &ret->slice, &ret->shape);
    free(text);
    free(name);
    return rc;
}

static int restore_one(struct bundle_reader *b, const struct source *from,
                       struct tensor *to, struct err *err)
{
    struct tensor t = TENSOR_NONE;
    int rc;

    if (!from->is_part && from->entry->dtype != DT_STRING)
        return bundle_reader_read_into(b, from->entry, to, err);
    if (from->entry->dtype != to->dtype)
        return err_set(err, ERR_DTYPE, "%s is %s, not %s", from->entry->name,
                       dtype_name(from->entry->dtype), dtype_name(to->dtype));
    rc = from->is_part ? bundle_reader_read_part(b, from->entry, &from->slice, &t, err)
                       : bundle_reader_read(b, from->entry, &t, err);
    if (rc == 0 && !shape_equal(&t.shape, &to->shape))
        rc = err_set(err, ERR_SHAPE, "%s has shape %s, not %s", from->entry->name,
                     shape_text(&t.shape), shape_text(&to->shape));
    if (rc == 0 && t.dtype != DT_STRING && tensor_bytes(&t) > 0)
        memcpy(to->data, t.data, tensor_bytes(&t));
    for (int64_t i = 0; rc == 0 && t.dtype == DT_STRING && i < tensor_elements(&t); i++) {
        set_string(to, i, ((struct tensor_string *)t.data)[i]);
        ((struct tensor_string *)t.data)[i] = (struct tensor_string){0};
    }
    tensor_free(&t);
    return rc;
}

/* in: prefix, tensor_names and, if there are three, shape_and_slices; each of them for one
 * output, or for all. */
static int kern_restore(const struct kernel_args *a)
{
    struct bundle_reader *b = NULL;
    struct source from;
    int rc = open_bundle(a->in[0], 0, &b, a->err);

    for (int i = 0; rc == 0 && i < a->n_out; i++) {
        rc = find_source(b, a->in[1], a->n_in > 2 ? a->in[2] : NULL, i, &from, a->err);
        if (rc == 0)
            rc = restore_one(b, &from, a->out[i], a->err);
    }
    bundle_reader_free(b);
    return rc;
}

/* ---- sharded checkpoints ---- */

/* Copies a tensor, or those of its slices that this part has. */
static int copy_entry(struct bundle_writer *w, struct bundle_reader *part,
                      const struct bundle_entry *e, struct err *err)
{
    struct tensor t = TENSOR_NONE;
    int rc = 0;

    if (e->n_slices == 0) {
        rc = bundle_reader_read(part, e, &t, err);
        if (rc == 0)
            rc = bundle_writer_add(w, e->name, &t, err);
        tensor_free(&t);
    }
    for (size_t i = 0; rc == 0 && i < e->n_slices; i++) {
        rc = bundle_reader_read_slice(part, e, i, &t, err);
        if (rc == 0)
            rc = bundle_writer_add_slice(w, e->name, &e->shape, &e->slices[i], &t, err);
        tensor_free(&t);
    }
    return rc;
}

/* Removes the files of a part, and its directory if that is then empty. Errors are
 * ignored: files that are left over do no harm. */
static void remove_part(const char *prefix)
{
    static const char *const ends[] = {".index", ".data-00000-of-00001"};
    char *path;

    for (int i = 0; i < 2; i++) {
        path = xasprintf("%s%s", prefix, ends[i]);
        (void)unlink(path);
        free(path);
    }
    path = xstrdup(prefix);
    if (strrchr(path, '/') != NULL) {
        *strrchr(path, '/') = '\0';
        (void)rmdir(path);
    }
    free(path);
}

/* in: checkpoint_prefixes, destination_prefix. Writes one data file per part and one
 * index. */
static int kern_merge_checkpoints(const struct kernel_args *a)
{
    struct bundle_writer *w = NULL;
    char *to = text_at(a->in[1], 0);
    int64_t n = tensor_elements(a->in[0]);
    int rc = want_files(a);

    if (rc == 0)
        rc = n > 0 && n <= MAX_PARTS
                 ? bundle_writer_new_sharded(&w, to, (uint32_t)n, 0, a->err)
                 : err_set(a->err, ERR_ARG, "%s: %lld checkpoints to merge",
                           operation_name(a->op), (long long)n);

    for (int64_t i = 0; rc == 0 && i < n; i++) {
        struct bundle_reader *b = NULL;

        if (i > 0)
            bundle_writer_next_shard(w);
        rc = open_bundle(a->in[0], i, &b, a->err);
        if (rc == 0)
            for (size_t k = 0; rc == 0 && k < bundle_reader_count(b); k++)
                rc = copy_entry(w, b, bundle_reader_entry(b, k), a->err);
        bundle_reader_free(b);
    }
    if (rc == 0)
        rc = bundle_writer_finish(w, a->err);
    for (int64_t i = 0; rc == 0 && attr_int(a->op, "delete_old_dirs") && i < n; i++) {
        char *prefix = text_at(a->in[0], i);

        remove_part(prefix);
        free(prefix);
    }
    bundle_writer_free(w);
    free(to);
    return rc;
}

/* ---- names ---- */

/* in: basename, shard, num_shards */
static int kern_sharded_filename(const struct kernel_args *a)
{
    char *base = text_at(a->in[0], 0);

    set_text(a->out[0], 0,
             xasprintf("%s-%05lld-of-%05lld", base, (long long)tensor_int(a->in[1], 0),
                       (long long)tensor_int(a->in[2], 0)));
    free(base);
    return 0;
}

/* in: basename, num_shards. The prefix of V1 shards. */
static int kern_sharded_filespec(const struct kernel_args *a)
{
    char *base = text_at(a->in[0], 0);

    set_text(
        a->out[0], 0,
        xasprintf("%s-%s-of-%05lld", base, "?????", (long long)tensor_int(a->in[1], 0)));
    free(base);
    return 0;
}

/* Only scalars are supported, since the inputs are file names. */
static int kern_string_join(const struct kernel_args *a)
{
    const struct attr *separator = operation_attr(a->op, "separator");
    char *all = xstrdup("");

    for (int i = 0; i < a->n_in; i++) {
        char *before = all, *next = text_at(a->in[i], 0);

        all = xasprintf("%s%.*s%s", before, i > 0 ? (int)separator->s_len : 0,
                        separator->s, next);
        free(before);
        free(next);
    }
    set_text(a->out[0], 0, all);
    return 0;
}

/* ---- shapes and rows ---- */

/* Only the file has the shapes. */
static int restore_shape(const struct shape_args *args)
{
    const int n = operation_n_outputs(args->op), has_slices = args->n_in > 2;
    const struct tensor *const *value = args->value;
    struct bundle_reader *b = NULL;
    struct source from;
    int rc;

    if (!args->is_planning || value[0] == NULL || value[1] == NULL ||
        (has_slices && value[2] == NULL))
        return 0;
    rc = check_names(args->op, value[1], has_slices ? value[2] : NULL, n, args->err);
    if (rc == 0)
        rc = open_bundle(value[0], 0, &b, args->err);
    for (int i = 0; rc == 0 && i < n; i++) {
        rc = find_source(b, value[1], has_slices ? value[2] : NULL, i, &from, args->err);
        if (rc == 0)
            args->out[i] = from.shape;
    }
    bundle_reader_free(b);
    return rc;
}

static const struct op_def rows[] = {
    {"SaveV2", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL,
     CALL(kern_save),
     "prefix:string, tensor_names:string, shape_and_slices:string, tensors:dtypes ->; "
     "dtypes:list(type)",
     .ranks = "0"},
    {"RestoreV2", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT | OP_MAKES_STRINGS,
     restore_shape, NULL, CALL(kern_restore),
     "prefix:string, tensor_names:string, shape_and_slices:string -> tensors:dtypes; "
     "dtypes:list(type)",
     .ranks = "0"},
    {"SaveSlices", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL,
     CALL(kern_save_v1),
     "filename:string, tensor_names:string, shapes_and_slices:string, data:T ->; "
     "T:list(type)",
     .ranks = "0"},
    {"Save", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL,
     CALL(kern_save_v1), "filename:string, tensor_names:string, data:T ->; T:list(type)",
     .ranks = "0"},
    {"RestoreSlice", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT | OP_MAKES_STRINGS,
     restore_shape, NULL, CALL(kern_restore),
     "file_pattern:string, tensor_name:string, shape_and_slice:string -> tensor:dt; "
     "dt:type, preferred_shard:int=-1",
     .ranks = "000"},
    {"Restore", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT | OP_MAKES_STRINGS,
     restore_shape, NULL, CALL(kern_restore),
     "file_pattern:string, tensor_name:string -> tensor:dt; "
     "dt:type, preferred_shard:int=-1",
     .ranks = "00"},
    {"MergeV2Checkpoints", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL,
     CALL(kern_merge_checkpoints),
     "checkpoint_prefixes:string, destination_prefix:string ->; "
     "delete_old_dirs:bool=true",
     .ranks = "?0"},
    {"ShardedFilename", OP_NO_GRADIENT | OP_MAKES_STRINGS, shape_scalars, NULL,
     CALL(kern_sharded_filename),
     "basename:string, shard:int32, num_shards:int32 -> filename:string"},
    {"ShardedFilespec", OP_NO_GRADIENT | OP_MAKES_STRINGS, shape_scalars, NULL,
     CALL(kern_sharded_filespec), "basename:string, num_shards:int32 -> filename:string"},
    {"StringJoin", OP_NO_GRADIENT | OP_MAKES_STRINGS, shape_scalars, NULL,
     CALL(kern_string_join),
     "inputs:N*string -> output:string; N:int, separator:string="},
};

const struct op_family ops_of_io = OP_FAMILY(rows);
