/* `brood inspect`: lists tensors as tensorflow.python.tools.inspect_checkpoint does, and prints
 * their values (tensor_text.h). */
#include "common/ckpt/bundle.h"
#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/ckpt_state.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/tensor_text.h"
#include "supervisor/metrics/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct request {
    const char *path;
    const char *tensor; /* NULL: all of them */
    int values, names, state, json;
};

/* ---- tensors ---- */

static int print_entry(struct bundle_reader *r, const struct bundle_entry *e,
                       const struct request *q, struct err *err)
{
    struct tensor value = TENSOR_NONE;
    int rc;

    if (q->names && !q->json) {
        (void)puts(e->name);
        return 0;
    }
    if (q->values) {
        rc = bundle_reader_read(r, e, &value, err);
        if (rc != 0)
            return rc;
    }
    if (q->json)
        tensor_print_json(e->name, e->dtype, &e->shape, q->values ? &value : NULL);
    else if (q->values)
        tensor_print_value(e->name, &value);
    else
        tensor_print_line(e->name, e->dtype, &e->shape);
    tensor_free(&value);
    return 0;
}

/* ---- the state file ---- */

static void print_place(const char *dir, const char *what, const char *path)
{
    char *prefix = ckpt_resolve(dir, path);

    (void)printf(
        "%s: \"%s\" %s %s\n", what, PLAIN_NAME(path),
        ckpt_kind_of(prefix) != CKPT_NONE ? "is" : "is missing:", PLAIN_NAME(prefix));
    free(prefix);
}

static void put_place(struct json *j, const char *dir, const char *path)
{
    char *prefix = ckpt_resolve(dir, path);

    json_object(j);
    json_put_str(j, "path", path);
    json_put_str(j, "prefix", prefix);
    json_put_bool(j, "exists", ckpt_kind_of(prefix) != CKPT_NONE);
    json_close(j);
    free(prefix);
}

/* The folder of a file: all before the last slash. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return xstrdup(".");
    return xstrndup(path, slash > path ? (size_t)(slash - path) : 1);
}

/* Prints a line for each checkpoint that a `checkpoint` file lists, the newest first, with the
 * path as written in the file and the path where the checkpoint is now; or one JSON object.
 * path: a directory, or a state file of any name. */
static int print_state(const char *path, int json, struct err *err)
{
    struct ckpt_state s;
    struct stat st;
    const int is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    char *dir = is_file ? folder_of(path) : xstrdup(path);
    int rc =
        is_file ? ckpt_state_load_file(&s, path, err) : ckpt_state_load(&s, path, err);

    if (rc < 0) {
        free(dir);
        return rc;
    }
    if (s.newest[0] == '\0') {
        rc = err_set(err, ERR_FORMAT, "%s names no checkpoint", path);
    } else if (json) {
        struct json j = {0};

        json_object(&j);
        json_key(&j, "newest");
        put_place(&j, dir, s.newest);
        json_put_array(&j, "all");
        for (size_t i = 0; i < s.n_all; i++)
            put_place(&j, dir, s.all[i]);
        json_close(&j);
        json_print(&j, stdout);
    } else {
        print_place(dir, "newest", s.newest);
        for (size_t i = s.n_all; i > 0; i--)
            print_place(dir, "kept", s.all[i - 1]);
    }
    ckpt_state_done(&s);
    free(dir);
    return rc;
}

/* ---- the command ---- */

static int inspect(const struct request *q, struct err *err)
{
    struct bundle_reader *r;
    const struct bundle_entry *e;
    uint64_t total = 0;
    char *prefix;
    size_t n;
    int rc;

    if (q->state)
        return print_state(q->path, q->json, err);
    rc = ckpt_find_prefix(&prefix, q->path, err);
    if (rc != 0)
        return rc;
    rc = bundle_reader_new(&r, prefix, err);
    free(prefix);
    if (rc != 0)
        return rc;
    n = q->tensor == NULL ? bundle_reader_count(r) : 0;
    if (q->tensor != NULL && (rc = checkpoint_find_tensor(r, q->tensor, &e, err)) == 0)
        rc = print_entry(r, e, q, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        e = bundle_reader_entry(r, i);
        total += (uint64_t)shape_elements(&e->shape);
        rc = print_entry(r, e, q, err);
    }
    if (rc == 0 && q->tensor == NULL && !q->names && !q->json)
        (void)printf("# Total number of params: %" PRIu64 "\n", total);
    bundle_reader_free(r);
    return rc;
}

static int run_inspect(struct cli *cli, void *values, int argc, char **argv)
{
    struct request *q = values;
    struct err err = {0};
    char *path;
    int rc = cli_checkpoint(cli, argc, argv, &path);

    if (rc != 0)
        return rc;
    q->path = path;
    q->json = cli->json;
    q->values = (q->values || q->tensor != NULL) && !q->names;
    rc = inspect(q, &err);
    free(path);
    return rc == 0 ? CLI_DONE : cli_fail(cli, CLI_FAILED, &err);
}

static const struct cli_option options[] = {
    {"tensor", "NAME", "print one tensor, with its values",
     CLI_TEXT(struct request, tensor)},
    {"values", NULL, "print the values, too", CLI_FLAG(struct request, values)},
    {"names", NULL, "print only the names", CLI_FLAG(struct request, names)},
    {"state", NULL,
     "list the checkpoints that a directory's `checkpoint` file\n"
     "names, and where they are now",
     CLI_FLAG(struct request, state)},
    {0}};

const struct command cmd_inspect = {
    .name = "inspect",
    .arguments = "PREFIX | RUN[@STEP] AGENT [options]",
    .summary = "List a TensorFlow checkpoint's tensors (of a directory: its newest)",
    .options = options,
    CLI_INTO(struct request, 0),
    .help = "\nPREFIX is a path. Of a run, the newest checkpoint is taken, or that of a "
            "step.\n"
            "\nexample: brood inspect runs/simple_spread-1/checkpoints/625024/agent_0\n",
    .run = run_inspect,
};
