/* `brood inspect`: what tensorflow.python.tools.inspect_checkpoint prints, in its words.
 */
#include "common/ckpt/bundle.h"
#include "common/ckpt/ckpt_state.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/array_text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/metrics/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct request {
    const char *path;
    const char *tensor; /* NULL: all of them */
    int values, names, json;
};

/* The prefix that `path` means: itself, or what the state file of a directory names, or
 * the files without a base name in a directory. */
static int find_prefix(const char *path, char **ret, struct err *err)
{
    size_t len = strlen(path);
    struct stat st;
    char *index;
    int is_prefix, rc;

    index = xasprintf("%s.index", path);
    is_prefix = access(index, F_OK) == 0;
    free(index);
    if (is_prefix || stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        *ret = xstrdup(path);
        return 0;
    }
    rc = ckpt_state_newest(ret, path, err);
    if (rc == ERR_NOT_FOUND && (len == 0 || path[len - 1] != '/')) {
        *ret = xasprintf("%s/", path);
        index = xasprintf("%s.index", *ret);
        if (access(index, F_OK) == 0)
            rc = 0;
        else
            free(*ret);
        free(index);
    }
    return rc;
}

/* "[2, 3]" or, tight, "[2,3]" */
static void print_shape(const struct shape *s, const char *separator)
{
    (void)putchar('[');
    for (int i = 0; i < s->rank; i++)
        (void)printf("%s%" PRId64, i > 0 ? separator : "", s->dim[i]);
    (void)putchar(']');
}

static void put_json_element(struct json *j, const struct tensor *t, int64_t i)
{
    if (t->dtype == DT_STRING) {
        const struct tensor_string *s = (const struct tensor_string *)t->data + i;

        json_strn(j, s->bytes, s->len_bytes);
    } else if (dtype_is_floating(t->dtype)) {
        json_f64(j, array_f64(t, i));
    } else if (array_is_signed(t->dtype)) {
        json_i64(j, array_i64(t, i));
    } else if (t->dtype == DT_BOOL) {
        json_bool(j, array_u64(t, i) != 0);
    } else if (dtype_is_integer(t->dtype)) {
        json_u64(j, array_u64(t, i));
    } else {
        json_null(j);
    }
}

/* `value` is NULL when it is not asked for. */
static void print_json(const struct bundle_entry *e, const struct tensor *value)
{
    struct json j = {0};
    size_t len;

    json_begin(&j);
    json_object(&j);
    json_key(&j, "name");
    json_str(&j, e->name);
    json_key(&j, "dtype");
    json_str(&j, dtype_name(e->dtype));
    json_key(&j, "shape");
    json_array(&j);
    for (int i = 0; i < e->shape.rank; i++)
        json_i64(&j, e->shape.dim[i]);
    json_close(&j);
    if (value != NULL) {
        json_key(&j, "values");
        json_array(&j);
        for (int64_t i = 0; i < tensor_elements(value); i++)
            put_json_element(&j, value, i);
        json_close(&j);
    }
    json_close(&j);
    (void)fputs(json_line(&j, &len), stdout);
    json_done(&j);
}

static void print_text(const struct bundle_entry *e, const struct tensor *value)
{
    struct wbuf b = {0};

    if (value == NULL) {
        (void)printf("%s (%s) ", e->name, dtype_symbol(e->dtype));
        print_shape(&e->shape, ",");
        (void)putchar('\n');
        return;
    }
    (void)printf("tensor: %s (%s) ", e->name, dtype_name(e->dtype));
    print_shape(&e->shape, ", ");
    array_text_put(&b, value);
    (void)putchar('\n');
    (void)fwrite(b.data, 1, b.len, stdout);
    (void)putchar('\n');
    wbuf_done(&b);
}

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
        print_json(e, q->values ? &value : NULL);
    else
        print_text(e, q->values ? &value : NULL);
    tensor_free(&value);
    return 0;
}

static void print_total(struct bundle_reader *r)
{
    uint64_t total = 0;

    for (size_t i = 0; i < bundle_reader_count(r); i++)
        total += (uint64_t)shape_elements(&bundle_reader_entry(r, i)->shape);
    (void)printf("# Total number of params: %" PRIu64 "\n", total);
}

static int print_all(struct bundle_reader *r, const struct request *q, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < bundle_reader_count(r); i++)
        rc = print_entry(r, bundle_reader_entry(r, i), q, err);
    if (rc == 0 && !q->names && !q->json)
        print_total(r);
    return rc;
}

static int print_one(struct bundle_reader *r, const struct request *q, struct err *err)
{
    const struct bundle_entry *e = bundle_reader_find(r, q->tensor);

    if (e == NULL)
        return err_set(err, ERR_NOT_FOUND, "Tensor %s not found in checkpoint",
                       q->tensor);
    return print_entry(r, e, q, err);
}

static int inspect(const struct request *q, struct err *err)
{
    struct bundle_reader *r;
    char *prefix;
    int rc = find_prefix(q->path, &prefix, err);

    if (rc != 0)
        return rc;
    rc = bundle_reader_new(&r, prefix, err);
    free(prefix);
    if (rc != 0)
        return rc;
    rc = q->tensor != NULL ? print_one(r, q, err) : print_all(r, q, err);
    bundle_reader_free(r);
    return rc;
}

static int run_inspect(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"tensor", required_argument, NULL, 't'},
        {"values", no_argument, NULL, 'V'},
        {"names", no_argument, NULL, 'N'},
        {0},
    };
    struct request q = {0};
    struct err err = {0};
    int c, code;

    while ((c = cli_option(cli, argc, argv, options, &code)) != -1) {
        if (c == CLI_OPTION_EXIT)
            return code;
        if (c == 't')
            q.tensor = optarg;
        q.values |= c == 'V' || c == 't'; /* asking for one tensor is asking for it all */
        q.names |= c == 'N';
    }
    if (optind + 1 != argc)
        return cli_usage(cli, "expected one checkpoint");
    q.path = argv[optind];
    q.json = cli->json;
    if (q.names)
        q.values = 0;
    return inspect(&q, &err) == 0 ? CLI_DONE : cli_fail(cli, CLI_FAILED, &err);
}

const struct command cmd_inspect = {
    .name = "inspect",
    .arguments = "PREFIX [options]",
    .summary = "The tensors of a TensorFlow checkpoint (of a directory: its newest)",
    .help = "  --tensor NAME    one tensor, with its values\n"
            "  --values         with the values\n"
            "  --names          names only\n"
            "\nexample: brood inspect runs/simple_spread-1/checkpoints/625000/agent_0\n",
    .run = run_inspect,
};
