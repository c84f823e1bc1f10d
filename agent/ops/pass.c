/* pass.c - operations whose outputs are their inputs: copies, checks, prints.
 *
 * Gradients after TensorFlow's python/ops/{array,logging}_grad.py.
 */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/log/log.h"

#include <stdio.h>
#include <string.h>

/* ---- kernels ---- */

static int kern_copy_each(const struct kernel_args *a)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < a->n_out; i++) {
        struct kernel_args one = *a;

        one.in = a->in + i;
        one.out = a->out + i;
        one.row_stride = NULL;
        rc = kern_copy(&one);
    }
    return rc;
}

/* Stands for an operation that planning refused. */
int kern_refuse(const struct kernel_args *a)
{
    return err_pass(a->err, a->refusal);
}

enum { TEXT_BYTES = 480 }; /* of a line of the log */

/* Appends element i of a tensor. */
static void put_element(char *text, const struct tensor *t, int64_t i)
{
    const size_t len = strlen(text), room = TEXT_BYTES - len;
    const struct tensor_string *s = t->data;

    if (t->dtype == DT_FLOAT)
        (void)snprintf(text + len, room, "%.9g", (double)tensor_f32(t)[i]);
    else if (t->dtype == DT_DOUBLE)
        (void)snprintf(text + len, room, "%.17g", ((const double *)t->data)[i]);
    else if (t->dtype == DT_INT32 || t->dtype == DT_INT64)
        (void)snprintf(text + len, room, "%lld", (long long)tensor_int(t, i));
    else if (t->dtype == DT_BOOL || t->dtype == DT_UINT8)
        (void)snprintf(text + len, room, "%d", ((const uint8_t *)t->data)[i]);
    else if (t->dtype == DT_STRING && s[i].bytes != NULL)
        (void)snprintf(text + len, room, "%.*s",
                       (int)(s[i].len_bytes < 100 ? s[i].len_bytes : 100), s[i].bytes);
    else
        (void)snprintf(text + len, room, "?");
}

static void pass_put_text(char *text, const char *more)
{
    (void)strncat(text, more, TEXT_BYTES - 1 - strlen(text));
}

/* Logs the message and the first elements of each input after the first, in the first runs. */
static int kern_print(const struct kernel_args *a)
{
    const struct attr *message = operation_attr(a->op, "message");
    const int64_t first_n = attr_int(a->op, "first_n");
    const int64_t summarize = attr_int(a->op, "summarize");
    char text[TEXT_BYTES] = "";

    pass_put_text(text, message->s);
    for (int i = 1; i < a->n_in; i++) {
        const int64_t n = tensor_elements(a->in[i]);

        pass_put_text(text, "[");
        for (int64_t k = 0; k < n && (summarize < 0 || k < summarize); k++) {
            pass_put_text(text, k > 0 ? " " : "");
            put_element(text, a->in[i], k);
        }
        pass_put_text(text, summarize >= 0 && n > summarize ? "...]" : "]");
    }
    if (first_n < 0 || a->counter < (uint64_t)first_n)
        log_info("%s: %s", operation_name(a->op), text);
    return kern_copy(a);
}

/* ---- shapes and gradients ---- */

static int same_each_shape(const struct shape_args *args)
{
    for (int i = 0; i < args->n_in; i++)
        args->out[i] = args->in[i];
    return 0;
}

static int ensure_shape_shape(const struct shape_args *args)
{
    const struct shape *shape = attr_shape(args->op, "shape");

    if (shape_merge(&args->in[0], shape, &args->out[0]) != 0)
        return err_set(args->err, ERR_SHAPE, "shape %s is not compatible with %s",
                       shape_text(&args->in[0]), shape_text(shape));
    return 0;
}

GRAD(pass_grad)
{
    for (int i = 0; i < operation_n_outputs(op); i++)
        grad_in[i] = grad_out[i];
    return 0;
}

GRAD(prevent_gradient_grad)
{
    return graph_fail(g, ERR_UNSUPPORTED, "%s: Gradient explicitly disabled. Reason: %s",
                      operation_name(op), operation_attr(op, "message")->s);
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"IdentityN", 0, same_each_shape, pass_grad, CALL(kern_copy_each),
     "input:T -> output:T; T:list(type)"},
    {"Snapshot", 0, shape_same, grad_missing, CALL(kern_copy),
     "input:T -> output:T; T:type"},
    {"DeepCopy", 0, shape_same, grad_missing, CALL(kern_copy), "x:T -> y:T; T:type"},
    {"PreventGradient", 0, shape_same, prevent_gradient_grad, ALIAS,
     "input:T -> output:T; T:type, message:string="},
    {"EnsureShape", 0, ensure_shape_shape, pass_grad, ALIAS,
     "input:T -> output:T; shape:shape, T:type"},
    {"Print", OP_STATEFUL | OP_AWAITED, shape_same, pass_grad, CALL(kern_print),
     "input:T, data:U -> output:T; T:type, U:list(type), message:string=, "
     "first_n:int=-1, summarize:int=3"},
};

const struct op_family ops_of_pass = OP_FAMILY(rows);
