/* A network as a module of PyTorch: an .npz with its parameters, and the module, a few lines of
 * Python that compute the same. */
#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/export/network.h"
#include "supervisor/export/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE = 76 }; /* an expression that is longer is no part of another one */

struct printer {
    const struct network *net;
    struct arena arena;
    struct wbuf out;
    struct printed { /* the values that have their text: a name, or an expression */
        const struct net_value *value;
        const char *text;
    } * done;
    size_t n_done, cap_done;
};

__attribute__((format(printf, 2, 3))) static void put(struct wbuf *b, const char *fmt,
                                                      ...)
{
    char *text;
    va_list ap;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    wbuf_bytes(b, text, strlen(text));
    free(text);
}

/* ---- values ---- */

static void put_ints(struct wbuf *b, const int64_t *x, size_t n)
{
    wbuf_u8(b, '(');
    for (size_t i = 0; i < n; i++)
        put(b, "%s%" PRId64, i > 0 ? ", " : "", x[i]);
    put(b, "%s", n == 1 ? ",)" : ")");
}

static void put_float(struct wbuf *b, float x)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.9g", (double)x);
    if (!isfinite(x))
        put(b, "float(\"%s\")", text);
    else
        put(b, "%s%s", text, strspn(text, "-0123456789") == strlen(text) ? ".0" : "");
}

/* A number, or a tuple of integers; floats of any shape otherwise. */
static void put_constant(struct wbuf *b, const struct tensor *t)
{
    const size_t n = (size_t)tensor_elements(t);

    if (t->dtype == DT_INT64 && t->shape.rank == 0) {
        put(b, "%" PRId64, *(const int64_t *)t->data);
    } else if (t->dtype == DT_INT64) {
        put_ints(b, t->data, n);
    } else if (t->shape.rank == 0) {
        put_float(b, *tensor_f32(t));
    } else {
        put(b, "torch.tensor([");
        for (size_t i = 0; i < n; i++) {
            put(b, "%s", i > 0 ? ", " : "");
            put_float(b, tensor_f32(t)[i]);
        }
        put(b, "], device=observation.device).reshape");
        put_ints(b, t->shape.dim, (size_t)t->shape.rank);
    }
}

/* The module of a parameter "module.leaf"; 0: it has none. */
static size_t module_length(const struct net_value *v)
{
    const char *dot = strchr(v->name, '.');

    return dot != NULL ? (size_t)(dot - v->name) : 0;
}

/* Whether a layer of PyTorch has these parameters: those of one module, of these names. */
static int is_layer(const struct net_node *node)
{
    const size_t n = module_length(node->in[1]);

    return n > 0 && strcmp(node->in[1]->name + n, ".weight") == 0 &&
           (node->n_in < 3 || (module_length(node->in[2]) == n &&
                               strncmp(node->in[1]->name, node->in[2]->name, n) == 0 &&
                               strcmp(node->in[2]->name + n, ".bias") == 0));
}

/* The first layer of a parameter's module; NULL: there is none. */
static const struct net_node *layer_of(const struct network *net,
                                       const struct net_value *v)
{
    const size_t len = module_length(v);

    for (size_t i = 0; len > 0 && i < net->n_nodes; i++) {
        const struct net_node *node = net->nodes[i];

        if ((node->op == NET_GEMM || node->op == NET_CONV) && is_layer(node) &&
            strncmp(node->in[1]->name, v->name, len + 1) == 0)
            return node;
    }
    return NULL;
}

static void put_value(struct printer *p, struct wbuf *b, const struct net_value *v)
{
    const size_t len = module_length(v);

    if (v->is_parameter && len > 0 && layer_of(p->net, v) == NULL) {
        put(b, "self.%.*s[\"%s\"]", (int)len, v->name, v->name + len + 1);
    } else if (v->is_parameter) {
        put(b, "self.%s", v->name);
    } else if (v->value.data != NULL) {
        put_constant(b, &v->value);
    } else {
        const char *text = v->name;

        for (size_t i = 0; i < p->n_done; i++)
            if (p->done[i].value == v)
                text = p->done[i].text;
        put(b, "%s", text);
    }
}

/* ---- expressions ---- */

static void put_attribute(struct wbuf *b, const struct net_attr *a)
{
    if (a->n == -2)
        put_float(b, a->f);
    else if (a->n == -1)
        put(b, "%" PRId64, a->ints[0]);
    else
        put_ints(b, a->ints, (size_t)a->n);
}

static void put_inputs(struct printer *p, struct wbuf *b, const struct net_node *node)
{
    for (size_t i = 0; i < node->n_in; i++) {
        put(b, "%s", i > 0 ? ", " : "");
        put_value(p, b, node->in[i]);
    }
}

/* ":, 2:7" */
static void put_slice(struct wbuf *b, const struct net_node *node)
{
    const int64_t begin = *(const int64_t *)node->in[1]->value.data;
    const int64_t end = *(const int64_t *)node->in[2]->value.data;
    const int64_t axis = *(const int64_t *)node->in[3]->value.data;

    for (int64_t i = 0; i < axis; i++)
        put(b, ":, ");
    put(b, "%" PRId64 ":", begin);
    if (end != INT64_MAX)
        put(b, "%" PRId64, end);
}

static void put_layer(struct printer *p, struct wbuf *b, const struct net_node *node)
{
    const struct net_node *layer = is_layer(node) ? layer_of(p->net, node->in[1]) : NULL;

    /* another operation may have the same weights with another bias */
    if (layer != NULL && layer->op == node->op && layer->n_in == node->n_in &&
        layer->in[node->n_in - 1] == node->in[node->n_in - 1]) {
        put(b, "self.%.*s(", (int)module_length(node->in[1]), node->in[1]->name);
        put_value(p, b, node->in[0]);
    } else {
        put(b, "%s", node->op == NET_GEMM ? "F.linear(" : "F.conv2d(");
        put_inputs(p, b, node);
        if (node->op == NET_CONV) {
            put(b, ", stride=");
            put_attribute(b, net_node_attr(node, "strides", strlen("strides")));
        }
    }
    wbuf_u8(b, ')');
}

static char *expression(struct printer *p, const struct net_node *node)
{
    struct wbuf b = {0};
    char *ret;

    for (const char *c = net_op_rows[node->op].torch; *c != '\0'; c++) {
        if (*c == '@') {
            const size_t n = strspn(c + 1, "abcdefghijklmnopqrstuvwxyz");

            put_attribute(&b, net_node_attr(node, c + 1, n));
            c += n;
        } else if (*c != '$') {
            wbuf_u8(&b, (uint8_t)*c);
        } else if (*++c == '*') {
            put_inputs(p, &b, node);
        } else if (*c == 'l') {
            put_layer(p, &b, node);
        } else if (*c == 's') {
            put_slice(&b, node);
        } else if (*c == 'n') {
            put(&b, "%zu", node->n_out);
        } else {
            put_value(p, &b, node->in[*c - '0']);
        }
    }
    ret = arena_strndup(&p->arena, (const char *)b.data, b.len);
    wbuf_done(&b);
    return ret;
}

/* A short expression that is used once is written where it is used. */
static void print_node(struct printer *p, const struct net_node *node)
{
    const char *text = expression(p, node);

    if (node->n_out == 1 && node->out[0]->uses == 1 && strlen(text) < LINE) {
        ARRAY_GROW(p->done, p->n_done, p->cap_done);
        p->done[p->n_done++] = (struct printed){node->out[0], text};
        return;
    }
    put(&p->out, "        ");
    for (size_t i = 0; i < node->n_out; i++)
        put(&p->out, "%s%s", i > 0 ? ", " : "", node->out[i]->name);
    put(&p->out, " = %s\n", text);
}

/* ---- the module ---- */

static void print_layer(struct wbuf *b, const struct net_node *node)
{
    const int64_t *dim = node->in[1]->value.shape.dim;

    put(b, "        self.%.*s = nn.", (int)module_length(node->in[1]), node->in[1]->name);
    if (node->op == NET_GEMM) {
        put(b, "Linear(%" PRId64 ", %" PRId64, dim[1], dim[0]);
    } else {
        put(b, "Conv2d(%" PRId64 ", %" PRId64 ", ", dim[1], dim[0]);
        put_ints(b, dim + 2, 2);
        put(b, ", stride=");
        put_attribute(b, net_node_attr(node, "strides", strlen("strides")));
    }
    put(b, "%s", node->n_in < 3 ? ", bias=False)\n" : ")\n");
}

static void print_empty(struct wbuf *b, const struct net_value *v)
{
    put(b, "torch.empty");
    put_ints(b, v->value.shape.dim, (size_t)v->value.shape.rank);
}

/* The module that parameter i is the first one of. */
static void print_module(struct wbuf *b, const struct network *net, size_t i)
{
    const struct net_value *v = net->parameters[i];
    const struct net_node *layer = layer_of(net, v);
    const size_t len = module_length(v);

    for (size_t k = 0; len > 0 && k < i; k++)
        if (strncmp(net->parameters[k]->name, v->name, len + 1) == 0)
            return;
    if (layer != NULL) {
        print_layer(b, layer);
        return;
    }
    if (len == 0) {
        put(b, "        self.%s = nn.Parameter(", v->name);
        print_empty(b, v);
        put(b, ")\n");
        return;
    }
    put(b, "        self.%.*s = nn.ParameterDict({", (int)len, v->name);
    for (size_t k = i; k < net->n_parameters; k++) {
        if (strncmp(net->parameters[k]->name, v->name, len + 1) != 0)
            continue;
        put(b, "%s\"%s\": ", k > i ? ", " : "", net->parameters[k]->name + len + 1);
        print_empty(b, net->parameters[k]);
    }
    put(b, "})\n");
}

static void print_ports(struct wbuf *b, const struct net_port *ports, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(b, "%s%s (N, %" PRId64 ")", i > 0 ? ", " : "", ports[i].name, ports[i].width);
}

static void print_program(struct printer *p)
{
    const struct network *net = p->net;
    struct wbuf *b = &p->out;

    put(b, "\"\"\"");
    for (const char *c = net->about; *c != '\0';
         c++) /* a run's name may have any character */
        wbuf_u8(b, *c == '\\' || *c == '"' || (uint8_t)*c < ' ' ? '_' : (uint8_t)*c);
    put(b, "\"\"\"\n"
           "import os\n\nimport numpy\nimport torch\nfrom torch import nn\n"
           "from torch.nn import functional as F\n\n\n"
           "class Policy(nn.Module):\n    \"\"\"");
    print_ports(b, net->input, net->n_inputs);
    put(b, " -> ");
    print_ports(b, net->output, net->n_outputs);
    put(b, "\"\"\"\n\n    def __init__(self, file=os.path.splitext(__file__)[0] + "
           "\".npz\"):\n        super().__init__()\n");
    for (size_t i = 0; i < net->n_parameters; i++)
        print_module(b, net, i);
    put(b, "        self.load_state_dict({k: torch.from_numpy(x) for k, x in "
           "numpy.load(file).items()})\n\n    def forward(self");
    for (size_t i = 0; i < net->n_inputs; i++)
        put(b, ", %s", net->input[i].name);
    put(b, "):\n");
    for (size_t i = 0; i < net->n_nodes; i++)
        print_node(p, net->nodes[i]);
    put(b, "        return ");
    for (size_t i = 0; i < net->n_outputs; i++) {
        put(b, "%s", i > 0 ? ", " : "");
        put_value(p, b, net->output[i].value);
    }
    put(b, "\n");
}

/* Writes the tensors, and the program only if they have been written: a program and the tensors
 * of another export do not fit. */
int network_write_torch(const struct network *net, const char *path, struct err *err)
{
    struct printer p = {.net = net};
    struct atomic_file *f = NULL;
    struct npz *z;
    struct stat st;
    char *program;
    int rc;

    if (!text_ends_with(path, ".npz"))
        return err_set(err, ERR_ARG, "%s: expected a name that ends in .npz", path);
    print_program(&p);
    program = xasprintf("%.*s.py", (int)(strlen(path) - strlen(".npz")), path);
    rc = stat(program, &st) == 0 && S_ISDIR(st.st_mode)
             ? err_set(err, -EISDIR, "%s: is a folder", program)
             : atomic_file_new(&f, program, 0, err);
    if (rc == 0)
        rc = atomic_file_append(f, p.out.data, p.out.len, err);
    if (rc == 0)
        rc = atomic_file_flush(f, err);
    if (rc == 0)
        rc = npz_begin(&z, path, err);
    if (rc == 0) {
        for (size_t i = 0; i < net->n_parameters && rc == 0; i++)
            rc = npz_add(z, net->parameters[i]->name, &net->parameters[i]->value, err);
        rc = npz_end(z, rc, err);
    }
    if (rc == 0)
        rc = atomic_file_commit(f, err);
    atomic_file_free(f);
    free(program);
    free(p.done);
    wbuf_done(&p.out);
    arena_done(&p.arena);
    return rc;
}
