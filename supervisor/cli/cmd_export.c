/* `brood export`: writes a checkpoint's tensors for programs that cannot read
 * TensorFlow's format. */
#include "common/ckpt/ckpt_find.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/tensor_export.h"
#include "supervisor/cli/tensor_text.h"
#include "supervisor/metrics/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct format {
    const char *suffix;
    int (*write)(const struct tensor_export *x, struct err *err);
} formats[] = {
    {".safetensors", tensor_export_safetensors},
    {".npz", tensor_export_npz},
};

struct request {
    const char *path;
    const char *out;          /* NULL: a name derived from the prefix */
    struct cli_texts tensors; /* none: all */
    const struct format *format;
};

static const struct format *format_of(const char *path)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (text_ends_with(path, formats[i].suffix))
            return &formats[i];
    return NULL;
}

/* The default output file, in the current directory: the prefix's base name or, for a
 * prefix "dir/", the directory's name. */
static char *default_out(const char *prefix)
{
    size_t end = strlen(prefix), begin;

    while (end > 0 && prefix[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && prefix[begin - 1] != '/';)
        begin--;
    return xasprintf("%.*s.safetensors", (int)(end - begin), prefix + begin);
}

static int choose(struct bundle_reader *r, const struct request *q,
                  const struct bundle_entry **ret, size_t *ret_n, struct err *err)
{
    *ret_n = q->tensors.n > 0 ? q->tensors.n : bundle_reader_count(r);
    for (size_t i = 0; i < *ret_n; i++) {
        int rc = 0;

        if (q->tensors.n == 0)
            ret[i] = bundle_reader_entry(r, i);
        else
            rc = checkpoint_find_tensor(r, q->tensors.text[i], &ret[i], err);
        /* the names are the keys of both formats */
        for (size_t k = 0; rc == 0 && q->tensors.n > 0 && k < i; k++)
            if (strcmp(q->tensors.text[k], q->tensors.text[i]) == 0)
                rc = err_set(err, ERR_ARG, "--tensor %s is given twice",
                             q->tensors.text[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void print_written(const struct cli *cli, const char *out, size_t n)
{
    struct json j = {0};

    if (cli->json) {
        json_object(&j);
        json_put_str(&j, "file", out);
        json_put_u64(&j, "tensors", n);
        json_print(&j, stdout);
    } else if (!cli->quiet) {
        (void)printf("%s: %zu tensors\n", out, n);
    }
}

static int export(const struct cli *cli, const struct request *q, struct err *err)
{
    struct bundle_reader *r = NULL;
    const struct bundle_entry **entries = NULL;
    struct tensor_export x;
    char *prefix = NULL, *out = NULL;
    int rc = ckpt_find_prefix(&prefix, q->path, err);

    if (rc == 0)
        rc = bundle_reader_new(&r, prefix, err);
    if (rc == 0) {
        entries = xcalloc(bundle_reader_count(r) + q->tensors.n, sizeof(*entries));
        out = q->out != NULL ? xstrdup(q->out) : default_out(prefix);
        x = (struct tensor_export){.from = r, .entries = entries, .path = out};
        rc = choose(r, q, entries, &x.n, err);
    }
    if (rc == 0)
        rc = q->format->write(&x, err);
    if (rc == 0)
        print_written(cli, out, x.n);
    bundle_reader_free(r);
    free(entries);
    free(out);
    free(prefix);
    return rc;
}

static int run_export(struct cli *cli, void *values, int argc, char **argv)
{
    struct request *q = values;
    struct err err = {0};

    if (argc != 1)
        return cli_usage(cli, "expected one checkpoint");
    q->path = argv[0];
    if (q->out != NULL && (q->format = format_of(q->out)) == NULL)
        return cli_usage(cli,
                         "--out %s: expected a name that ends in .safetensors or "
                         ".npz",
                         q->out);
    switch (export(cli, q, &err)) {
    case 0:
        return CLI_DONE;
    case ERR_ARG:
        return cli_fail(cli, CLI_USAGE, &err);
    default:
        return cli_fail(cli, CLI_FAILED, &err);
    }
}

static const struct cli_option options[] = {
    {"out", "FILE",
     ".safetensors or .npz (default: the prefix's base name with\n"
     ".safetensors, in the current directory)",
     CLI_TEXT(struct request, out)},
    {"tensor", "NAME", "write only this tensor (repeatable)",
     CLI_TEXTS(struct request, tensors)},
    {0}};

const struct command cmd_export = {
    .name = "export",
    .arguments = "PREFIX [options]",
    .summary = "Write a checkpoint's tensors as safetensors or npz",
    .options = options,
    CLI_INTO(struct request, .format = &formats[0]),
    .help = "\nexample: brood export model.ckpt --out weights.npz\n",
    .run = run_export,
};
