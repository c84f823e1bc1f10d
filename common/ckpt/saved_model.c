#include "common/ckpt/saved_model.h"

#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/protowire.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of the messages' fields. */
enum {
    MODEL_METAGRAPH = 2,
    METAGRAPH_INFO = 1,
    METAGRAPH_GRAPH = 2,
    METAGRAPH_SIGNATURE = 5, /* map */
    INFO_TAG = 4,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    SIGNATURE_INPUT = 1,  /* map */
    SIGNATURE_OUTPUT = 2, /* map */
    SIGNATURE_METHOD = 3,
    TENSOR_NAME = 1,
};

/* ---- choosing a MetaGraph by its tags ---- */

static int next_tag(struct cursor *infos, struct cursor *info, struct cursor *ret)
{
    while (!pw_next_bytes(info, INFO_TAG, ret))
        if (!pw_next_bytes(infos, METAGRAPH_INFO, info))
            return 0;
    return 1;
}

#define EACH_TAG(metagraph, tag)                                                         \
    for (struct cursor all_ = (metagraph), info_ = cursor_of(NULL, 0), tag;              \
         next_tag(&all_, &info_, &(tag));)

static int is_in_list(const struct cursor *tag, const char *list)
{
    const size_t n = cursor_left(tag);

    for (size_t len; list[0] != '\0'; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        if (len == n && memcmp(list, tag->p, n) == 0)
            return 1;
    }
    return 0;
}

/* Whether the MetaGraph's tags are those of the list, "serve,gpu". */
static int has_tags(struct cursor metagraph, const char *list)
{
    size_t len;

    for (const char *at = list; at[0] != '\0'; at += len + (at[len] == ',')) {
        int found = 0;

        len = strcspn(at, ",");
        EACH_TAG(metagraph, tag)
        found |= cursor_left(&tag) == len && memcmp(at, tag.p, len) == 0;
        if (!found)
            return 0;
    }
    EACH_TAG(metagraph, tag)
    if (!is_in_list(&tag, list))
        return 0;
    return 1;
}

/* "serve", "serve,gpu" */
static void list_tags(struct cursor model, char *ret, size_t size)
{
    struct cursor metagraph;
    size_t n = 0;

    ret[0] = '\0';
    while (pw_next_bytes(&model, MODEL_METAGRAPH, &metagraph)) {
        const char *separator = n > 0 ? "; " : "";

        EACH_TAG(metagraph, tag)
        {
            if (n < size)
                n += (size_t)snprintf(ret + n, size - n, "%s%.*s", separator,
                                      (int)cursor_left(&tag), (const char *)tag.p);
            separator = ",";
        }
    }
}

int saved_model_find(struct cursor model, const char *tags, struct cursor *ret,
                     struct err *err)
{
    struct cursor c = model, metagraph;
    char there[160];
    size_t n = 0;
    int n_fitting = 0;

    while (pw_next_bytes(&c, MODEL_METAGRAPH, &metagraph)) {
        n++;
        if (n_fitting == 0) /* the first that fits, or the only one */
            *ret = metagraph;
        n_fitting += has_tags(metagraph, tags != NULL ? tags : "serve");
    }
    if (c.failed || n == 0)
        return err_set(err, ERR_FORMAT, "not a SavedModel");
    if (n_fitting > 0 || (tags == NULL && n == 1))
        return 0;
    list_tags(model, there, sizeof(there));
    return tags != NULL
               ? err_set(err, ERR_NOT_FOUND, "no graph has the tags %s, but these: %s",
                         tags, there)
               : err_set(err, ERR_NOT_FOUND,
                         "%zu graphs, none of the tag serve: choose one with --tags (%s)",
                         n, there);
}

int ckpt_read_graph(struct wbuf *b, const char *prefix, const char *tags, size_t max,
                    struct err *err)
{
    char *path = ckpt_graph_path(prefix);
    const int is_graph = strcmp(path, prefix) == 0;
    const int is_model = !is_graph && !text_ends_with(path, ".meta");
    struct cursor metagraph;
    struct wbuf file = {0};
    int rc = wbuf_read_file(&file, path, max, err);

    if (rc == -ENOENT)
        rc = err_set(err, ERR_NOT_FOUND, "there is no %s: no graph to show", path);
    else if (rc == 0 && is_model)
        rc = saved_model_find(cursor_of(file.data, file.len), tags, &metagraph, err);
    else if (rc == 0 && tags != NULL)
        rc = err_set(err, ERR_ARG, "%s has no tags",
                     is_graph ? "a GraphDef" : "the graph of a checkpoint");
    if (rc == 0 && is_graph)
        pw_put_bytes(b, METAGRAPH_GRAPH, file.data, file.len);
    else if (rc == 0 && is_model)
        wbuf_bytes(b, metagraph.p, cursor_left(&metagraph));
    else if (rc == 0)
        wbuf_bytes(b, file.data, file.len);
    if (rc < 0 && (is_model || rc != ERR_NOT_FOUND)) /* which names the file itself */
        (void)err_wrap(err, "%s", path);
    wbuf_done(&file);
    free(path);
    return rc;
}

/* ---- signatures ---- */

static const char *text_of(struct arena *a, struct cursor c)
{
    return arena_strndup(a, (const char *)c.p, cursor_left(&c));
}

/* Key and value of an entry of a map. */
static void read_entry(struct cursor entry, struct cursor *ret_key,
                       struct cursor *ret_value)
{
    struct pw_field f;

    *ret_key = *ret_value = cursor_of(NULL, 0);
    while (pw_next(&entry, &f))
        if (f.type == PW_LEN && f.number == MAP_KEY)
            *ret_key = f.bytes;
        else if (f.type == PW_LEN && f.number == MAP_VALUE)
            *ret_value = f.bytes;
}

static int compare_tensors(const void *a, const void *b)
{
    const struct signature_tensor *x = a, *y = b;

    return strcmp(x->key, y->key);
}

static struct signature_tensor *read_tensors(struct cursor c, uint32_t number,
                                             struct arena *a, size_t *ret_n)
{
    struct signature_tensor *ret;
    struct cursor again = c, entry, key, value, name;
    size_t n = 0;

    while (pw_next_bytes(&again, number, &entry))
        n++;
    ret = ARENA_ARRAY(a, struct signature_tensor, n + 1);
    *ret_n = 0;
    while (pw_next_bytes(&c, number, &entry)) {
        read_entry(entry, &key, &value);
        if (pw_next_bytes(&value, TENSOR_NAME, &name) && cursor_left(&name) > 0)
            ret[(*ret_n)++] =
                (struct signature_tensor){text_of(a, key), text_of(a, name)};
    }
    qsort(ret, *ret_n, sizeof(*ret), compare_tensors);
    return ret;
}

static int compare_signatures(const void *a, const void *b)
{
    const struct signature *x = a, *y = b;

    return strcmp(x->name, y->name);
}

int signatures_read(struct signatures *ret, struct arena *a, const void *metagraph,
                    size_t len_bytes, struct err *err)
{
    const struct cursor all = cursor_of(metagraph, len_bytes);
    struct cursor c = all, entry, key, value, method;
    size_t n = 0;

    while (pw_next_bytes(&c, METAGRAPH_SIGNATURE, &entry))
        n++;
    if (c.failed)
        return err_set(err, ERR_FORMAT, "not a MetaGraphDef");
    *ret = (struct signatures){ARENA_ARRAY(a, struct signature, n + 1), n};
    c = all;
    for (struct signature *s = ret->at; pw_next_bytes(&c, METAGRAPH_SIGNATURE, &entry);
         s++) {
        read_entry(entry, &key, &value);
        *s = (struct signature){.name = text_of(a, key), .method = ""};
        s->inputs = read_tensors(value, SIGNATURE_INPUT, a, &s->n_inputs);
        s->outputs = read_tensors(value, SIGNATURE_OUTPUT, a, &s->n_outputs);
        if (pw_next_bytes(&value, SIGNATURE_METHOD, &method))
            s->method = text_of(a, method);
    }
    qsort(ret->at, n, sizeof(*ret->at), compare_signatures);
    return 0;
}

const struct signature *signatures_find(const struct signatures *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->at[i].name, name) == 0)
            return &s->at[i];
    return NULL;
}
