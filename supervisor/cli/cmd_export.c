/* `brood export`: writes a checkpoint's tensors, or an agent's policy, for programs that cannot read
 * TensorFlow's format.
 *
 * safetensors  u64 length of the header; the header, JSON: name -> {dtype, shape,
 *              data_offsets from the end of the header}, padded with blanks to a
 *              multiple of 8; the tensors one after another in that order.
 * npz          npy.h; up to 4 GiB.
 * Both         little-endian, row-major; the file is written completely or not at all; one
 *              tensor is in memory at a time. A dtype that the format lacks is refused, and
 *              the message names it.
 * Errors       ERR_UNSUPPORTED, ERR_LIMIT, those of reading the checkpoint, -errno.
 * Source       github.com/huggingface/safetensors, README "Format"
 */
#include "common/ckpt/atomic_file.h"
#include "common/ckpt/bundle.h"
#include "common/ckpt/ckpt_find.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/tensor_text.h"
#include "supervisor/export/npy.h"
#include "supervisor/export/policy.h"
#include "supervisor/metrics/json.h"
#include "supervisor/rundir/run_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESERVED_NAME "__metadata__"

enum { HEADER_ALIGN = 8 };

struct tensor_export { /* all borrowed */
    struct bundle_reader *from;
    const struct bundle_entry *const *entries;
    size_t n;
    const char *path; /* the file to write; an existing one is replaced */
};

/* ---- formats ---- */

static const char *dtype_text(enum dtype dtype)
{
    static const struct {
        enum dtype dtype;
        const char *text;
    } texts[] = {
        {DT_FLOAT, "F32"},     {DT_DOUBLE, "F64"}, {DT_HALF, "F16"},   {DT_INT8, "I8"},
        {DT_INT16, "I16"},     {DT_INT32, "I32"},  {DT_INT64, "I64"},  {DT_UINT8, "U8"},
        {DT_UINT16, "U16"},    {DT_UINT32, "U32"}, {DT_UINT64, "U64"}, {DT_BOOL, "BOOL"},
        {DT_BFLOAT16, "BF16"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].dtype == dtype)
            return texts[i].text;
    return NULL;
}

static int check_entry(const struct bundle_entry *e, struct err *err)
{
    char label[DTYPE_LABEL_BYTES];

    if (dtype_text(e->dtype) == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s is %s, which safetensors has no type for", e->name,
                       dtype_label(e->dtype, label));
    if (strcmp(e->name, RESERVED_NAME) == 0)
        return err_set(err, ERR_UNSUPPORTED, "%s: safetensors keeps that name for itself",
                       e->name);
    return 0;
}

static void put_header(struct wbuf *b, const struct tensor_export *x)
{
    struct json j = {0};
    const char *text;
    size_t len, padded;
    uint64_t at = 0;

    json_object(&j);
    for (size_t i = 0; i < x->n; i++) {
        const struct bundle_entry *e = x->entries[i];

        json_put_object(&j, e->name);
        json_put_str(&j, "dtype", dtype_text(e->dtype));
        json_put_array(&j, "shape");
        for (int d = 0; d < e->shape.rank; d++)
            json_i64(&j, e->shape.dim[d]);
        json_close(&j);
        json_put_array(&j, "data_offsets");
        json_u64(&j, at);
        at += (uint64_t)shape_elements(&e->shape) * dtype_size(e->dtype);
        json_u64(&j, at);
        json_close(&j);
        json_close(&j);
    }
    json_close(&j);
    text = json_line(&j, &len);
    len--; /* the end of the line */
    padded = (len + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    wbuf_u64(b, padded);
    wbuf_bytes(b, text, len);
    while (len++ < padded)
        wbuf_u8(b, ' ');
    json_done(&j);
}

static int write_safetensors(const struct tensor_export *x, struct err *err)
{
    struct atomic_file *f = NULL;
    struct wbuf header = {0};
    int rc = 0;

    for (size_t i = 0; i < x->n && rc == 0; i++)
        rc = check_entry(x->entries[i], err);
    if (rc == 0)
        rc = atomic_file_new(&f, x->path, 0, err);
    if (rc < 0)
        return rc;
    put_header(&header, x);
    rc = atomic_file_append(f, header.data, header.len, err);
    for (size_t i = 0; i < x->n && rc == 0; i++) {
        struct tensor t = TENSOR_NONE;

        rc = bundle_reader_read(x->from, x->entries[i], &t, err);
        if (rc == 0)
            rc = atomic_file_append(f, t.data, tensor_bytes(&t), err);
        tensor_free(&t);
    }
    if (rc == 0)
        rc = atomic_file_commit(f, err);
    atomic_file_free(f);
    wbuf_done(&header);
    return rc;
}

static int write_npz(const struct tensor_export *x, struct err *err)
{
    struct npz *z;
    int rc = npz_begin(&z, x->path, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < x->n && rc == 0; i++) {
        struct tensor t = TENSOR_NONE;

        rc = bundle_reader_read(x->from, x->entries[i], &t, err);
        if (rc == 0)
            rc = npz_add(z, x->entries[i]->name, &t, err);
        tensor_free(&t);
    }
    return npz_end(z, rc, err);
}

/* Says which types the file has in place of those of the checkpoint. */
static void say_widened(const struct cli *cli, const struct tensor_export *x)
{
    size_t n = 0;

    for (size_t i = 0; i < x->n; i++)
        n += (size_t)npz_widens(x->entries[i]->dtype);
    if (n > 0 && !cli->quiet)
        (void)fprintf(stderr,
                      "brood export: %zu of the tensors %s bfloat16, which NumPy lacks: "
                      "written as float32, with the same values\n",
                      n, n == 1 ? "is" : "are");
}

static const struct format {
    const char *suffix;
    int (*write)(const struct tensor_export *x, struct err *err);
} formats[] = {
    {".safetensors", write_safetensors},
    {".npz", write_npz},
};

/* ---- the command ---- */

struct request {
    const char *path;
    const char *out;          /* NULL: a name derived from the prefix */
    struct cli_texts tensors; /* none: all */
    const struct format *format;
    const char *onnx, *torch; /* the policy, to these files; NULL: not */
    int trust;
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
    if (rc == 0 && q->format->write == write_npz)
        say_widened(cli, &x);
    if (rc == 0 && cli->json) {
        struct json j = {0};

        json_object(&j);
        json_put_str(&j, "file", out);
        json_put_u64(&j, "tensors", x.n);
        json_print(&j, stdout);
    } else if (rc == 0 && !cli->quiet) {
        (void)printf("%s: %zu tensors\n", out, x.n);
    }
    bundle_reader_free(r);
    free(entries);
    free(out);
    free(prefix);
    return rc;
}

/* ---- an agent's policy ---- */

static void report_policy(const struct cli *cli, const struct request *q,
                          const struct network *net)
{
    struct json j = {0};

    if (!cli->json && !cli->quiet && q->onnx != NULL)
        (void)printf("%s: %zu operations\n", q->onnx, net->n_nodes);
    if (!cli->json && !cli->quiet && q->torch != NULL)
        (void)printf("%s, and beside it the module: %zu tensors\n", q->torch,
                     net->n_parameters);
    if (!cli->json)
        return;
    json_object(&j);
    if (q->onnx != NULL)
        json_put_str(&j, "onnx", q->onnx);
    if (q->torch != NULL)
        json_put_str(&j, "torch", q->torch);
    json_put_u64(&j, "operations", net->n_nodes);
    json_put_u64(&j, "tensors", net->n_parameters);
    json_print(&j, stdout);
}

static int export_policy(const struct cli *cli, const struct request *q,
                         const struct policy_of *of, struct err *err)
{
    struct network net = {0};
    int rc = policy_network(&net, of, err);

    if (rc == 0 && q->onnx != NULL)
        rc = network_write_onnx(&net, q->onnx, err);
    if (rc == 0 && q->torch != NULL)
        rc = network_write_torch(&net, q->torch, err);
    if (rc == 0)
        report_policy(cli, q, &net);
    network_done(&net);
    return rc;
}

/* With the environment's spaces, which the network's outputs are made for. */
static int export_for_env(const struct cli *cli, const struct request *q,
                          const struct run_config *config, const char *run,
                          const char *agent, struct err *err)
{
    struct policy_of of = {.prefix = NULL, .run = run};
    struct vec_env *world = NULL;
    char *prefix = NULL;
    int rc = vec_env_new(&world, &config->env, 0, ENV_DRAWS_EVALUATION, 1, err);

    if (rc < 0)
        return rc;
    of.spec = vec_env_spec(world);
    while (of.agent < of.spec->n_agents &&
           strcmp(of.spec->agents[of.agent].name, agent) != 0)
        of.agent++;
    if (of.agent == of.spec->n_agents)
        rc = err_set(err, ERR_UNSUPPORTED, "%s does not act, so that it has no policy",
                     agent);
    if (rc == 0)
        rc = ckpt_find_prefix(&prefix, q->path, err);
    of.prefix = prefix;
    if (rc == 0)
        rc = export_policy(cli, q, &of, err);
    free(prefix);
    vec_env_free(world);
    return rc;
}

/* argv: RUN[@STEP] AGENT, whose checkpoint is q->path. */
static int run_export_policy(const struct cli *cli, const struct request *q, char **argv)
{
    const struct config_options co = {.env_names = env_agent_names};
    const char *step;
    struct run_config config;
    struct err err = {0};
    char *run = run_dir_split(argv[0], &step), *path = NULL, *file = NULL;
    int rc = run_dir_find(cli->runs_dir, run, &path, &err), code = CLI_NOT_THERE;

    if (rc == 0) {
        file = xasprintf("%s/config.yaml", path);
        code = CLI_USAGE;
        rc = q->trust ? 0 : run_dir_check_trust(path, &err);
    }
    if (rc == 0) {
        code = CLI_FAILED;
        rc = run_config_read(&config, file, &co, &err);
    }
    if (rc == 0) {
        rc = export_for_env(cli, q, &config, argv[0], argv[1], &err);
        run_config_done(&config);
    }
    free(file);
    free(path);
    free(run);
    return rc < 0 ? cli_fail(cli, code, &err) : CLI_DONE;
}

static int run_export(struct cli *cli, void *values, int argc, char **argv)
{
    struct request *q = values;
    const int of_policy = q->onnx != NULL || q->torch != NULL;
    struct err err = {0};
    char *path;
    int rc;

    if (of_policy && argc != 2)
        return cli_usage(cli, "--%s is for the agent of a run: RUN[@STEP] AGENT",
                         q->onnx != NULL ? "onnx" : "torch");
    if (of_policy && (q->out != NULL || q->tensors.n > 0))
        return cli_usage(cli, "--%s is for tensors; --onnx and --torch write a policy",
                         q->out != NULL ? "out" : "tensor");
    if (q->torch != NULL && !text_ends_with(q->torch, ".npz"))
        return cli_usage(cli, "--torch %s: expected a name that ends in .npz", q->torch);
    if (q->onnx != NULL && !text_ends_with(q->onnx, ".onnx"))
        return cli_usage(cli, "--onnx %s: expected a name that ends in .onnx", q->onnx);
    if (q->out != NULL && (q->format = format_of(q->out)) == NULL)
        return cli_usage(cli,
                         "--out %s: expected a name that ends in .safetensors or "
                         ".npz",
                         q->out);
    rc = cli_checkpoint(cli, argc, argv, &path);
    if (rc != 0)
        return rc;
    q->path = path;
    if (of_policy) {
        rc = run_export_policy(cli, q, argv);
        free(path);
        return rc;
    }
    rc = export(cli, q, &err);
    free(path);
    if (rc < 0)
        return cli_fail(cli, rc == ERR_ARG ? CLI_USAGE : CLI_FAILED, &err);
    return CLI_DONE;
}

static const struct cli_option options[] = {
    {"out", "FILE",
     ".safetensors or .npz (default: the prefix's base name with\n"
     ".safetensors, in the current directory)",
     CLI_TEXT(struct request, out)},
    {"tensor", "NAME", "write only this tensor (repeatable)",
     CLI_TEXTS(struct request, tensors)},
    {"onnx", "FILE",
     "the agent's policy as a model of ONNX: observation, mask and\n"
     "state in, logits, action and next_state out",
     CLI_TEXT(struct request, onnx)},
    {"torch", "FILE",
     "the agent's policy for PyTorch: FILE.npz has its tensors, and\n"
     "FILE.py the module that loads them",
     CLI_TEXT(struct request, torch)},
    {"trust", NULL,
     "although the run is another user's: what its configuration\n"
     "names is executed (--onnx, --torch)",
     CLI_FLAG(struct request, trust)},
    {0}};

const struct command cmd_export = {
    .name = "export",
    .arguments = "PREFIX | RUN[@STEP] AGENT [options]",
    .summary = "Write tensors as safetensors or npz, a policy for ONNX or PyTorch",
    .options = options,
    CLI_INTO(struct request, .format = &formats[0]),
    .help = "\nPREFIX is a path. Of a run, the newest checkpoint is taken, or that of a "
            "step. A tensor of bfloat16 is written to an .npz as float32, with the same\n"
            "values, because NumPy lacks the type; safetensors keep it.\n"
            "\nexample: brood export simple_spread-1 agent_0 --out weights.npz\n"
            "         brood export simple_spread-1 agent_0 --onnx policy.onnx\n",
    .run = run_export,
};
