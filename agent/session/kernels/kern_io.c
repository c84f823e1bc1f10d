/* Kernels of a graph's checkpoint nodes (save/SaveV2, save/RestoreV2, ...), and of the
 * nodes that put file names together.
 *
 * Source   save_restore_v2_ops.cc and string_join_op.cc of TensorFlow 1.13. */
#include "agent/session/kernels/kernel.h"
#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PARTS = 99999 }; /* a checkpoint has at most this many data files */

/* String i of a tensor, NUL-terminated; the caller frees it. */
static char *text_at(const struct tensor *t, int64_t i)
{
    const struct tensor_string *s = (const struct tensor_string *)t->data + i;

    return s->len_bytes > 0 ? xstrndup(s->bytes, s->len_bytes) : xstrdup("");
}

static void set_text(struct tensor *t, int64_t i, char *text)
{
    ((struct tensor_string *)t->data)[i] = (struct tensor_string){text, strlen(text)};
}

/* Checks the inputs prefix, tensor_names and shape_and_slices, which n tensors follow. */
static int check_names(const struct operation *op, const struct tensor *names,
                       const struct tensor *slices, int64_t n, struct err *err)
{
    if (tensor_elements(names) != n || tensor_elements(slices) != n)
        return err_set(err, ERR_SHAPE, "%s: %lld names and %lld slices for %lld tensors",
                       operation_name(op), (long long)tensor_elements(names),
                       (long long)tensor_elements(slices), (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (((const struct tensor_string *)slices->data)[i].len_bytes > 0)
            return err_set(err, ERR_UNSUPPORTED, "%s: slices of partitioned variables",
                           operation_name(op));
    return 0;
}

/* in: prefix, tensor_names, shape_and_slices, tensors */
int kern_save(const struct kernel_args *a)
{
    struct bundle_writer *w = NULL;
    char *prefix = text_at(a->in[0], 0);
    int rc = check_names(a->op, a->in[1], a->in[2], a->n_in - 3, a->err);

    if (rc == 0)
        rc = bundle_writer_new(&w, prefix, 0, a->err);
    for (int i = 3; rc == 0 && i < a->n_in; i++) {
        char *name = text_at(a->in[1], i - 3);
        rc = bundle_writer_add(w, name, a->in[i], a->err);
        free(name);
    }
    if (rc == 0)
        rc = bundle_writer_finish(w, a->err);
    bundle_writer_free(w);
    free(prefix);
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

static int find_entry(const struct bundle_reader *b, const struct tensor *names,
                      int64_t i, const struct bundle_entry **ret, struct err *err)
{
    char *name = text_at(names, i);
    int rc = 0;

    *ret = bundle_reader_find(b, name);
    if (*ret == NULL)
        rc = err_set(err, ERR_NOT_FOUND, "Key %s not found in checkpoint", name);
    free(name);
    return rc;
}

/* in: prefix, tensor_names, shape_and_slices */
int kern_restore(const struct kernel_args *a)
{
    struct bundle_reader *b = NULL;
    const struct bundle_entry *entry;
    int rc = open_bundle(a->in[0], 0, &b, a->err);

    for (int i = 0; rc == 0 && i < a->n_out; i++) {
        rc = find_entry(b, a->in[1], i, &entry, a->err);
        if (rc == 0)
            rc = bundle_reader_read_into(b, entry, a->out[i], a->err);
    }
    bundle_reader_free(b);
    return rc;
}

int restored_shapes(const struct operation *op, const struct tensor *const *value,
                    struct shape *out, struct err *err)
{
    struct bundle_reader *b = NULL;
    const struct bundle_entry *entry;
    int n = operation_n_outputs(op);
    int rc = check_names(op, value[1], value[2], n, err);

    if (rc == 0)
        rc = open_bundle(value[0], 0, &b, err);
    for (int i = 0; rc == 0 && i < n; i++) {
        rc = find_entry(b, value[1], i, &entry, err);
        if (rc == 0)
            out[i] = entry->shape;
    }
    bundle_reader_free(b);
    return rc;
}

/* ---- sharded checkpoints ---- */

/* Copies every tensor of one part to the current shard. */
static int copy_part(struct bundle_writer *w, struct bundle_reader *part, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < bundle_reader_count(part); i++) {
        const struct bundle_entry *entry = bundle_reader_entry(part, i);
        struct tensor t = TENSOR_NONE;
        rc = bundle_reader_read(part, entry, &t, err);
        if (rc == 0)
            rc = bundle_writer_add(w, entry->name, &t, err);
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
int kern_merge_checkpoints(const struct kernel_args *a)
{
    struct bundle_writer *w = NULL;
    char *to = text_at(a->in[1], 0);
    int64_t n = tensor_elements(a->in[0]);
    int rc = n > 0 && n <= MAX_PARTS
                 ? bundle_writer_new_sharded(&w, to, (uint32_t)n, 0, a->err)
                 : err_set(a->err, ERR_ARG, "%s: %lld checkpoints to merge",
                           operation_name(a->op), (long long)n);

    for (int64_t i = 0; rc == 0 && i < n; i++) {
        struct bundle_reader *b = NULL;
        if (i > 0)
            bundle_writer_next_shard(w);
        rc = open_bundle(a->in[0], i, &b, a->err);
        if (rc == 0)
            rc = copy_part(w, b, a->err);
        bundle_reader_free(b);
    }
    if (rc == 0)
        rc = bundle_writer_finish(w, a->err);
    for (int64_t i = 0; rc == 0 && int_attr(a->op, "delete_old_dirs", 1) && i < n; i++) {
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
int kern_sharded_filename(const struct kernel_args *a)
{
    char *base = text_at(a->in[0], 0);

    set_text(a->out[0], 0,
             xasprintf("%s-%05lld-of-%05lld", base, (long long)tensor_int(a->in[1], 0),
                       (long long)tensor_int(a->in[2], 0)));
    free(base);
    return 0;
}

/* Only scalars are supported, since the inputs are file names. */
int kern_string_join(const struct kernel_args *a)
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
