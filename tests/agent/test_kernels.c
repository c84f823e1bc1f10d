/* Every op against a naive loop, and its gradient against finite differences. */
#include "agent/ops/kernel.h"
#include "agent/ops/op_rules.h"
#include "agent/ops/op_table.h"
#include "tests/agent/kernel_cases.h"
#include "tests/agent/libm_watch.h"
#include "tests/support/test_main.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- the table is complete ---- */

/* Ops whose cases are not in the tables of kernel_cases.h. */
static const struct {
    const char *op, *why;
} elsewhere[] = {
    {"Placeholder", "every fed input of every case is one"},
    {"Const", "every capital letter of every case is one"},
    {"Assert", "test_ops.c"},
    {"NoOp", "nothing to compute; control_inputs_run in test_session.c"},
    {"VariableV2", "test_session.c"},
    {"Variable", "the old name of VariableV2"},
    {"VarHandleOp", "test_ops.c"},
    {"ReadVariableOp", "test_ops.c"},
    {"VarIsInitializedOp", "test_ops.c"},
    {"AssignVariableOp", "test_ops.c"},
    {"AssignAddVariableOp", "test_ops.c"},
    {"AssignSubVariableOp", "test_ops.c"},
    {"VariableShape", "test_parts.c"},
    {"ResourceGather", "test_parts.c"},
    {"ResourceGatherNd", "test_parts.c"},
    {"CountUpTo", "test_parts.c"},
    {"ResourceCountUpTo", "test_parts.c"},
    {"DestroyResourceOp", "test_parts.c"},
    {"HashTableV2", "tests/tensorflow/cases_tables.py"},
    {"InitializeTableV2", "tests/tensorflow/cases_tables.py"},
    {"LookupTableImportV2", "tests/tensorflow/cases_tables.py"},
    {"LookupTableFindV2", "tests/tensorflow/cases_tables.py"},
    {"LookupTableSizeV2", "tests/tensorflow/cases_tables.py"},
    {"DisableCopyOnRead", "nothing to compute; tests/tensorflow/cases_variables.py"},
    {"Switch", "test_ops.c"},
    {"RefSwitch", "test_ops.c"},
    {"Merge", "test_ops.c"},
    {"RefMerge", "test_references.c"},
    {"RefIdentity", "test_references.c"},
    {"Enter", "test_while.c"},
    {"RefEnter", "test_while.c"},
    {"Exit", "test_while.c"},
    {"NextIteration", "test_while.c"},
    {"LoopCond", "test_while.c"},
    {"ControlTrigger", "test_while.c"},
    {"TensorArrayV3", "test_while.c"},
    {"TensorArrayGradV3", "test_while.c"},
    {"TensorArrayWriteV3", "test_while.c"},
    {"TensorArrayReadV3", "test_while.c"},
    {"TensorArrayGatherV3", "test_while.c"},
    {"TensorArrayScatterV3", "test_while.c"},
    {"TensorArrayConcatV3", "test_while.c"},
    {"TensorArraySplitV3", "test_while.c"},
    {"TensorArraySizeV3", "test_while.c"},
    {"TensorArrayCloseV3", "test_while.c"},
    {"StackV2", "test_while.c"},
    {"StackPushV2", "test_while.c"},
    {"StackPopV2", "test_while.c"},
    {"StackCloseV2", "test_while.c"},
    {"EmptyTensorList", "test_lists.c"},
    {"TensorListReserve", "test_lists.c"},
    {"TensorListPushBack", "test_lists.c"},
    {"TensorListPopBack", "test_lists.c"},
    {"TensorListLength", "test_lists.c"},
    {"TensorListElementShape", "test_lists.c"},
    {"TensorListGetItem", "test_lists.c"},
    {"TensorListSetItem", "test_lists.c"},
    {"TensorListResize", "test_lists.c"},
    {"TensorListStack", "test_lists.c"},
    {"TensorListGather", "test_lists.c"},
    {"TensorListConcatV2", "test_lists.c"},
    {"TensorListFromTensor", "test_lists.c"},
    {"TensorListSplit", "test_lists.c"},
    {"TensorListScatter", "test_lists.c"},
    {"TensorListScatterV2", "test_lists.c"},
    {"TensorListScatterIntoExistingList", "test_lists.c"},
    {"OptionalFromValue", "test_lists.c"},
    {"OptionalNone", "test_lists.c"},
    {"OptionalHasValue", "test_lists.c"},
    {"OptionalGetValue", "test_lists.c"},
    {"SaveV2", "test_ops.c, test_saver.c"},
    {"RestoreV2", "test_ops.c, test_saver.c"},
    {"MergeV2Checkpoints", "test_ops.c, test_saver.c"},
    {"SaveSlices", "test_saver.c"},
    {"Save", "tests/tensorflow"},
    {"ParseExample", "tests/tensorflow"},
    {"ParseExampleV2", "tests/tensorflow"},
    {"ParseSingleExample", "tests/tensorflow"},
    {"DecodeRaw", "tests/tensorflow"},
    {"SparseToDense", "tests/tensorflow"},
    {"RestoreSlice", "test_saver.c"},
    {"Restore", "test_saver.c"},
    {"ShardedFilespec", "test_saver.c"},
    {"ShardedFilename", "test_ops.c, test_saver.c"},
    {"StringJoin", "test_ops.c, test_saver.c"},
    {"IsVariableInitialized", "test_kernels_state.c"},
    {"Assign", "test_kernels_state.c"},
    {"AssignAdd", "test_kernels_state.c"},
    {"AssignSub", "test_kernels_state.c"},
    {"RandomUniform", "test_kernels_state.c"},
    {"RandomStandardNormal", "test_kernels_state.c"},
    {"TruncatedNormal", "test_kernels_state.c"},
    {"RandomUniformInt", "test_kernels_state.c"},
    {"StatelessRandomGetKeyCounter", "test_kernels_state.c"},
    {"StatelessRandomUniformV2", "test_kernels_state.c"},
    {"StatelessRandomGetKeyCounterAlg", "test_random.c"},
    {"StatelessRandomGetAlg", "test_random.c"},
    {"StatelessRandomUniform", "test_random.c"},
    {"StatelessRandomNormal", "test_random.c"},
    {"StatelessRandomNormalV2", "test_random.c"},
    {"StatelessTruncatedNormal", "test_random.c"},
    {"StatelessTruncatedNormalV2", "test_random.c"},
    {"StatelessRandomUniformInt", "test_random.c"},
    {"StatelessRandomUniformIntV2", "test_random.c"},
    {"StatelessRandomUniformFullInt", "test_random.c"},
    {"StatelessRandomUniformFullIntV2", "test_random.c"},
    {"StatelessMultinomial", "test_random.c"},
    {"Multinomial", "test_random.c"},
    {"RandomShuffle", "test_random.c"},
    {"RandomGamma", "test_random.c"},
    {"RandomPoisson", "test_random.c"},
    {"RandomPoissonV2", "test_random.c"},
    {"ParameterizedTruncatedNormal", "test_random.c"},
    {"UniformCandidateSampler", "tests/tensorflow/cases_candidates.py"},
    {"LogUniformCandidateSampler", "tests/tensorflow/cases_candidates.py"},
    {"ScalarSummary", "test_ops.c"},
    {"HistogramSummary", "test_ops.c"},
    {"TensorSummary", "test_ops.c"},
    {"TensorSummaryV2", "test_ops.c"},
    {"StringFormat", "test_ops.c"},
    {"AsString", "test_ops.c"},
    {"RegexFullMatch", "tests/tensorflow/cases_text.py"},
    {"StaticRegexFullMatch", "tests/tensorflow/cases_text.py"},
    {"PrintV2", "test_ops.c"},
    {"MergeSummary", "test_ops.c"},
    {"LSTMBlockCellGrad", "the gradient of LSTMBlockCell; tests/tensorflow/cases_rnn.py"},
    {"BlockLSTMGrad", "the gradient of BlockLSTM; tests/tensorflow/cases_rnn.py"},
    {"BlockLSTMGradV2", "the gradient of BlockLSTMV2; tests/tensorflow/cases_rnn.py"},
    {"GRUBlockCellGrad", "the gradient of GRUBlockCell; tests/tensorflow/cases_rnn.py"},
    {"Qr", "not unique: test_kernels_state.c multiplies it out"},
};

static int has_case(const struct op_def *d)
{
    if ((d->flags & OP_WRITES_PARTS) != 0 || strstr(d->type, "Apply") != NULL)
        return 1; /* test_parts.c and test_updates.c go through the table */
    if (kernel_cases_have(d->type))
        return 1;
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        if (strcmp(elsewhere[i].op, d->type) == 0)
            return 1;
    return 0;
}

START_TEST(every_op_is_whole_and_tested)
{
    const struct op_def *d = op_def_at(&op_table, (size_t)_i);
    const enum kernel_kind kind = d->kernel.kind;

    ck_assert_msg(op_def_find(&op_table, d->type) == d, "two rows of %s", d->type);
    ck_assert_msg(d->shape != NULL, "%s has no shape rule", d->type);
    ck_assert_msg((d->grad == NULL) == ((d->flags & OP_NO_GRADIENT) != 0),
                  "%s: a gradient rule or OP_NO_GRADIENT", d->type);
    ck_assert_msg(has_case(d), "%s has no case", d->type);
    for (const char *p = d->sized_by; p != NULL && *p != '\0'; p += strspn(p, " ")) {
        const size_t len = strcspn(p, " ");
        const char *at = d->signature;

        while (at != NULL && strncmp(at, p, len) != 0)
            at = strpbrk(at, " ") != NULL ? strpbrk(at, " ") + 1 : NULL;
        ck_assert_msg(at != NULL && at[len] == ':' && at < strstr(d->signature, "->"),
                      "%s: sized_by names no input: %s", d->type, p);
        p += len;
    }
    ck_assert_msg(kind != KERNEL_NONE, "%s has no kernel", d->type);
    ck_assert_msg((d->kernel.call != NULL) ==
                      (kind == KERNEL_CALL || kind == KERNEL_GEMM),
                  "%s: a function for KERNEL_CALL and KERNEL_GEMM", d->type);
}
END_TEST

/* ---- values ---- */

static double epsilon_of(enum dtype dtype)
{
    return dtype == DT_FLOAT ? FLT_EPSILON : dtype == DT_DOUBLE ? DBL_EPSILON : 0;
}

static void compare(const struct stage *s, const struct tensor *have,
                    const struct array *want, int k)
{
    const char *op = s->c->op, *inputs = s->c->inputs;
    double limit = s->c->ulps * epsilon_of(have->dtype);

    ck_assert_msg(shape_equal(&have->shape, &want->tensor.shape), "%s %s: %s, not %s", op,
                  inputs, shape_text(&have->shape), shape_text(&want->tensor.shape));
    ck_assert_int_eq(have->dtype, want->tensor.dtype);
    for (int64_t i = 0; i < want->n; i++) {
        double h = element_get(have, i), w = want->v[i];

        element_set(&want->tensor, i, w); /* integers wrap around */
        if (epsilon_of(have->dtype) == 0)
            w = element_get(&want->tensor, i);
        if (h == w || (isnan(h) && isnan(w)))
            continue;
        ck_assert_msg(fabs(h - w) <= limit * fmax(1, fabs(w)),
                      "%s %s %s: output %d[%lld] is %.17g, not %.17g", op, inputs,
                      dtype_name(have->dtype), k, (long long)i, h, w);
    }
}

/* Returns whether it ran; a refusal must name the op. */
static int check_case(const struct kernel_case *c, enum dtype x, enum feeding feeding,
                      int must_run)
{
    struct tensor ret[MAX_OPERANDS] = {0};
    struct stage s;
    struct err err = {0};
    int ran = 0;

    stage_init(&s, c, x, feeding);
    libm_forget();
    if (s.op != NULL)
        ran = stage_run(&s, ret, &err) == 0;
    else
        err = *graph_error(s.g);
    ck_assert_msg(libm_called() == NULL || graph_first_libm(s.g) != NULL,
                  "%s %s of %s calls %s: OP_LIBM is missing", c->op, c->inputs,
                  dtype_name(x), libm_called());
    ck_assert_msg(ran || !must_run, "%s %s of %s: %s", c->op, c->inputs, dtype_name(x),
                  err.msg);
    ck_assert_msg(ran || strstr(err.msg, "tested") != NULL, "%s: %s", c->op, err.msg);
    if (ran && case_readable(x)) {
        stage_refer(&s);
        for (int i = 0; i < s.n_want; i++)
            compare(&s, &ret[i], &s.want[i], i);
    }
    for (int i = 0; i < MAX_OPERANDS; i++)
        tensor_free(&ret[i]);
    stage_done(&s);
    return ran;
}

START_TEST(values_are_those_of_a_naive_loop)
{
    const struct kernel_case *c = kernel_case_at(_i);

    if (_i % test_stride() != 0)
        return;
    for (const char *t = c->types; *t != '\0'; t++)
        for (int feeding = 0; feeding < N_FEEDINGS; feeding++)
            (void)check_case(c, case_dtype(*t), feeding, 1);
}
END_TEST

/* A type that the row does not list is either refused or gives correct values. */
START_TEST(no_type_gives_wrong_values)
{
    const struct kernel_case *c = kernel_case_at(_i);

    if (_i % test_stride() != 0)
        return;
    for (int dtype = 1; dtype <= DT_UINT64; dtype++)
        if (dtype_valid(dtype) && dtype_size((enum dtype)dtype) > 0 &&
            dtype != DT_VARIANT) /* cannot be fed */
            (void)check_case(c, (enum dtype)dtype, FEED_KNOWN, 0);
}
END_TEST

/* ---- gradients ---- */

/* The sum over outputs k and elements i of weight[k][i] output[k][i], in double. */
static double weighted_sum(struct stage *s, const struct tensor *weight)
{
    struct tensor ret[MAX_OPERANDS] = {0};
    struct err err;
    double sum = 0;

    ck_assert_msg(stage_run(s, ret, &err) == 0, "%s", err.msg);
    for (int k = 0; k < operation_n_outputs(s->op); k++) {
        for (int64_t i = 0; weight[k].data != NULL && i < tensor_elements(&ret[k]); i++)
            sum += element_get(&weight[k], i) * element_get(&ret[k], i);
        tensor_free(&ret[k]);
    }
    return sum;
}

/* Central differences: the error of the formula is about step^2, that of the sums about
 * epsilon / step; both are far below a millionth in double, and below a hundredth in
 * float.
 */
static void compare_differences(struct stage *s, const struct array *x,
                                const struct tensor *gradient,
                                const struct tensor *weight)
{
    int single = x->tensor.dtype == DT_FLOAT;
    double step = single ? 1e-2 : 1e-5, limit = single ? 1e-2 : 1e-6;

    for (int64_t i = 0; i < x->n; i++) {
        double have = gradient->data != NULL ? element_get(gradient, i) : 0, want;

        element_set(&x->tensor, i, x->v[i] + step);
        want = weighted_sum(s, weight);
        element_set(&x->tensor, i, x->v[i] - step);
        want = (want - weighted_sum(s, weight)) / (2 * step);
        element_set(&x->tensor, i, x->v[i]);
        ck_assert_msg(fabs(have - want) <= limit * fmax(1, fabs(want)),
                      "%s %s: gradient[%lld] is %.9g, by differences %.9g", s->c->op,
                      s->c->inputs, (long long)i, have, want);
    }
}

/* Adds one weight for each output, fed as the gradient of that output. */
static size_t add_weights(struct stage *s, struct output *ys, struct output *grad_ys,
                          struct tensor *weight)
{
    size_t n = 0;
    struct err err;

    stage_refer(s);
    for (int k = 0; k < s->n_want; k++) {
        struct tensor *w = &weight[k];
        struct output y = {s->op, k};

        if (!dtype_is_floating(output_dtype(y)) ||
            (k > 0 && (s->c->flags & CASE_FIRST_OUTPUT) != 0) ||
            (k < s->n_want - 1 && (s->c->flags & CASE_LAST_OUTPUT) != 0))
            continue;
        ck_assert_int_eq(tensor_alloc(w, output_dtype(y), s->want[k].tensor.shape, &err),
                         0);
        for (int64_t i = 0; i < tensor_elements(w); i++)
            element_set(w, i, 0.5 + (double)((7 * i + 3 * k) % 11) / 4);
        ys[n] = y;
        grad_ys[n] = placeholder(s->g, w->dtype, &(struct shape){.rank = -1}, NULL);
        s->feeds[s->n_feeds++] = (struct feed){grad_ys[n++], *w};
    }
    return n;
}

static struct tensor fetch(struct stage *s, struct output x)
{
    struct run_args args = {
        .feeds = s->feeds, .n_feeds = s->n_feeds, .fetches = &x, .n_fetches = 1};
    struct tensor t = TENSOR_NONE;
    struct err err;

    ck_assert_msg(session_run(s->s, &args, &t, &err) == 0, "%s %s: %s", s->c->op,
                  s->c->inputs, err.msg);
    return t;
}

static void check_gradient(const struct kernel_case *c, enum dtype x,
                           enum feeding feeding)
{
    struct output ys[MAX_OPERANDS], grad_ys[MAX_OPERANDS], grads[MAX_OPERANDS];
    struct tensor weight[MAX_OPERANDS] = {0}, d;
    struct stage s;
    struct err err;
    size_t n;

    stage_init(&s, c, x, feeding);
    n = add_weights(&s, ys, grad_ys, weight);
    ck_assert_msg(graph_gradients(s.g, ys, n, s.input, (size_t)s.n_in, grad_ys, NULL, 0,
                                  grads, &err) == 0,
                  "%s: %s", c->op, err.msg);
    for (int i = 0; i < s.n_in; i++) {
        const struct array *in = &s.in[i];

        if (in->letter != 'x' || !dtype_is_floating(in->tensor.dtype))
            continue;
        d = output_valid(grads[i]) ? fetch(&s, grads[i]) : TENSOR_NONE;
        ck_assert_msg(!output_valid(grads[i]) || shape_equal(&d.shape, &in->tensor.shape),
                      "%s %s: the gradient is %s", c->op, c->inputs,
                      shape_text(&d.shape));
        compare_differences(&s, in, &d, weight);
        tensor_free(&d);
    }
    for (int k = 0; k < MAX_OPERANDS; k++)
        tensor_free(&weight[k]);
    stage_done(&s);
}

START_TEST(gradients_are_those_of_finite_differences)
{
    const struct kernel_case *c = kernel_case_at(_i);
    const struct op_def *d = op_def_find(&op_table, c->op);
    int doubles = strchr(c->types, 'd') != NULL;

    if (_i % test_stride() != 0 || d->grad == NULL || d->grad == grad_missing ||
        (c->flags & CASE_NO_DIFFERENCE) != 0 ||
        (!doubles && strchr(c->types, 'f') == NULL))
        return;
    check_gradient(c, doubles ? DT_DOUBLE : DT_FLOAT, FEED_KNOWN);
    if ((c->flags & CASE_KNOWN_RANKS) == 0)
        check_gradient(c, doubles ? DT_DOUBLE : DT_FLOAT, FEED_UNKNOWN);
}
END_TEST

/* ---- refusals ---- */

static const struct {
    const char *op, *inputs, *attrs, *text;
} bad[] = {
    {"MatMul", "f(2,3) f(2,3)", NULL, "Dimensions must be equal"},
    {"MatMul", "f(2,3) f(3)", NULL, "must have 2 dimensions"},
    {"Conv2D", "f(1,4,4,2) f(2,2,3,1)", "strides=[1,1,1,1] padding=SAME",
     "a filter (2, 2, 3, 1) for 3 channels does not fit an image (1, 4, 4, 2)"},
    {"Conv2D", "f(1,4,4,2) f(5,2,2,1)", "strides=[1,1,1,1] padding=VALID",
     "a window of 5 does not fit into an image of 4"},
    {"Conv2D", "f(1,4,4,2) f(2,2,2,1)", "strides=[1,0,1,1] padding=VALID",
     "strides: 0, expected 1 or more"},
    {"Conv2D", "f(1,4,4,2) f(2,2,2,1)", "strides=[1,1] padding=VALID",
     "strides: 2 numbers, expected 4"},
    {"Conv2D", "f(1,4,4,2) f(2,2,2,1)", "strides=[1,1,1,1] padding=EXPLICIT",
     "explicit_paddings: 0 numbers, expected 8"},
    {"Conv2D", "f(1,4,4,2) f(2,2,2,1)",
     "strides=[1,1,1,1] padding=SAME dilations=[1,2,2,2]",
     "dilations over the batch or the channels"},
    {"Conv2D", "f(1,4,4,2) f(2,2,2,1)", "strides=[2,1,1,1] padding=SAME",
     "strides over the batch or the channels"},
    {"Conv2D", "f(1,2,4,4) f(2,2,2,1)", "strides=[1,1,1,1] padding=SAME data_format=CHWN",
     "data_format CHWN, expected NHWC or NCHW"},
    {"Conv2D", "f(1,4,4,2) f(2,2,2,1)",
     "strides=[1,1,1,1] padding=EXPLICIT explicit_paddings=[0,0,1,-1,0,0,0,0]",
     "explicit_paddings: -1, expected 0 or more"},
    {"Conv2D", "f(1,4,4,2) f(2,2,2,1)",
     "strides=[1,1,1,1] padding=SAME explicit_paddings=[0,0,1,1,0,0,0,0]",
     "explicit_paddings with padding SAME"},
    {"Conv3D", "f(1,4,4,4,2) f(2,2,2,3,1)", "strides=[1,1,1,1,1] padding=SAME",
     "does not fit an image"},
    {"Conv3D", "f(1,4,4,2) f(2,2,2,3,1)", "strides=[1,1,1,1,1] padding=SAME",
     "must have 5 dimensions"},
    {"Conv3DBackpropInputV2", "I(4)=1,4,4,2 f(2,2,2,2,1) f(1,3,4,4,1)",
     "strides=[1,1,1,1,1] padding=SAME", "input_sizes: 4 numbers, expected 5"},
    {"Conv3DBackpropFilterV2", "f(1,4,4,4,2) I(5)=2,2,2,2,1 f(1,3,4,4,1)",
     "strides=[1,1,1,1,1] padding=SAME", "for an output of shape (1, 4, 4, 4, 1)"},
    {"DepthwiseConv2dNative", "f(1,4,4,2) f(2,2,3,1)", "strides=[1,1,1,1] padding=SAME",
     "does not fit an image"},
    {"DepthwiseConv2dNativeBackpropInput", "I(4)=1,4,4,2 f(2,2,2,3) f(1,4,4,3)",
     "strides=[1,1,1,1] padding=SAME", "for an output of shape (1, 4, 4, 6)"},
    {"DepthwiseConv2dNativeBackpropFilter", "f(1,4,4,2) I(3)=2,2,2 f(1,4,4,2)",
     "strides=[1,1,1,1] padding=SAME", "filter_sizes: 3 numbers, expected 4"},
    {"Conv2DBackpropInput", "I(4)=1,4,4,2 f(2,2,2,1) f(1,3,4,1)",
     "strides=[1,1,1,1] padding=SAME", "for an output of shape (1, 4, 4, 1)"},
    {"Conv2DBackpropFilter", "f(1,4,4,2) I(4)=2,2,3,1 f(1,4,4,1)",
     "strides=[1,1,1,1] padding=SAME", "does not fit an image"},
    {"MaxPool", "f(1,4,4,2)", "ksize=[1,2,2,2] strides=[1,2,2,1] padding=SAME",
     "ksize over the batch or the channels"},
    {"MaxPoolGrad", "f(1,4,4,2) f(1,2,2,2) f(1,2,1,2)",
     "ksize=[1,2,2,1] strides=[1,2,2,1] padding=SAME", "for an output of shape"},
    {"MaxPoolGradGrad", "f(1,4,4,2) f(1,2,2,2) f(1,2,2,2)",
     "ksize=[1,2,2,1] strides=[1,2,2,1] padding=SAME", "for an image of shape"},
    {"MaxPoolV2", "f(1,4,4,2) I(3)=1,2,2 I(4)=1,2,2,1", "padding=SAME",
     "ksize: 3 numbers, expected 4"},
    {"MaxPoolV2", "f(1,4,4,2) i(4)=1,2,2,1 i(4)=1,0,2,1", "padding=SAME",
     "strides: 0, expected 1 or more"},
    {"MaxPoolGradV2", "f(1,4,4,2) f(1,2,2,2) f(1,2,1,2) i(4)=1,2,2,1 i(4)=1,2,2,1",
     "padding=SAME", "for an output of shape"},
    {"MaxPoolGradGradV2", "f(1,4,4,2) f(1,2,1,2) f(1,4,4,2) i(4)=1,2,2,1 i(4)=1,2,2,1",
     "padding=SAME", "for an output of shape"},
    {"MaxPoolWithArgmax", "f(4,4,2)", "ksize=[1,2,2,1] strides=[1,2,2,1] padding=SAME",
     "must have 4 dimensions"},
    {"MaxPoolGradWithArgmax", "f(1,2,2,1) f(1,1,1,1) l(1,1,1,1)=4",
     "ksize=[1,2,2,1] strides=[1,2,2,1] padding=SAME", "argmax 4 is not in the image"},
    {"MaxPoolGradWithArgmax", "f(2,2,2,1) f(2,1,1,1) l(2,1,1,1)=0,3",
     "ksize=[1,2,2,1] strides=[1,2,2,1] padding=SAME include_batch_in_index=true",
     "argmax 3 is not in the image"},
    {"MaxPool3D", "f(1,4,4,4,2)", "ksize=[1,2,2,1] strides=[1,2,2,1] padding=SAME",
     "ksize: 4 numbers, expected 5"},
    {"MaxPool3DGrad", "d(1,1,2,2,1) d(1,1,1,1,1) f(1,1,1,1,1)",
     "ksize=[1,1,2,2,1] strides=[1,1,2,2,1] padding=SAME", "types TInput and T differ"},
    {"MaxPool3DGradGrad", "f(1,1,2,2,1) f(1,1,1,1,1) f(1,1,1,1,1)",
     "ksize=[1,1,2,2,1] strides=[1,1,2,2,1] padding=SAME", "for an image of shape"},
    {"AvgPool", "f(1,4,4,2)", "ksize=[1,5,2,1] strides=[1,2,2,1] padding=VALID",
     "a window of 5 does not fit into an image of 4"},
    {"AvgPoolGrad", "I(3)=4,4,2 f(1,2,2,2)",
     "ksize=[1,2,2,1] strides=[1,2,2,1] padding=SAME",
     "orig_input_shape: 3 numbers, expected 4"},
    {"AvgPool3D", "f(1,4,4,2)", "ksize=[1,2,2,2,1] strides=[1,2,2,2,1] padding=SAME",
     "must have 5 dimensions"},
    {"AvgPool3DGrad", "I(5)=1,4,4,4,2 f(1,2,2,3,2)",
     "ksize=[1,2,2,2,1] strides=[1,2,2,2,1] padding=SAME", "for an output of shape"},
    {"FusedBatchNorm", "f(2,3) f(3) f(3) f(0) f(0)", NULL, "must have 4 dimensions"},
    {"FusedBatchNorm", "f(1,1,1,2,3) f(3) f(3) f(0) f(0)", NULL,
     "must have 4 dimensions"},
    {"FusedBatchNormV2", "f(1,1,2,3) f(2) f(3) f(0) f(0)", NULL,
     "input 1 is (2) for an x of 3 channels"},
    {"FusedBatchNormV2", "f(1,1,2,3) f(3) f(3) f(0) f(0)", "is_training=false",
     "input 3 is (0) for an x of 3 channels"},
    {"FusedBatchNormV3", "f(1,1,2,3) f(3) f(3) f(3) f(2)", "exponential_avg_factor=0.5",
     "input 4 is (2) for an x of 3 channels"},
    {"FusedBatchNormV3", "f(1,1,2,3) f(3) f(3) f(3) f(3)", "data_format=CHWN",
     "data_format CHWN"},
    {"FusedBatchNormGrad", "f(1,1,2,3) f(1,2,2,3) f(3) f(3) f(3)", NULL, "differ"},
    {"FusedBatchNormGradV2", "f(1,1,2,3) f(1,1,2,3) f(3) f(2) f(3)", NULL,
     "input 3 is (2) for an x of 3 channels"},
    {"FusedBatchNormGradV3", "f(1,1,2,3) f(1,1,2,3) f(3) f(3) f(3,1) f", NULL,
     "must have 1 dimensions"},
    {"LRN", "f(2,3)", NULL, "must have 4 dimensions"},
    {"LRN", "f(1,1,2,3)", "depth_radius=-1", "depth_radius: -1"},
    {"LRNGrad", "f(1,1,2,3) f(1,1,2,3) f(1,1,2,4)", NULL, "differ"},
    {"LSTMBlockCell", "f(2,3) f(2,2) f(2,2) f(6,8) f(2) f(2) f(2) f(8)", NULL,
     "dimension 0 of input 3, (6, 8), does not fit"},
    {"LSTMBlockCell", "f(2,3) f(2,2) f(3,2) f(5,8) f(2) f(2) f(2) f(8)", NULL,
     "dimension 0 of input 2, (3, 2), does not fit"},
    {"LSTMBlockCellGrad",
     "f(2,3) f(2,2) f(2,2) f(5,8) f(2) f(2) f(2) f(8) "
     "f(2,2) f(2,2) f(2,2) f(2,2) f(2,2) f(2,2) f(2,2) f(1,2)",
     "use_peephole=false", "dimension 0 of input 15, (1, 2), does not fit"},
    {"BlockLSTM", "l=2 f(3,2,3) f(2,2) f(2,2) f(5,8) f(2) f(2) f(2) f(9)", NULL,
     "dimension 0 of input 8, (9), does not fit"},
    {"BlockLSTM", "l=4 f(3,2,3) f(2,2) f(2,2) f(5,8) f(2) f(2) f(2) f(8)", NULL,
     "seq_len_max is 4 of 3 steps"},
    {"BlockLSTMV2", "l=-1 f(3,2,3) f(2,2) f(2,2) f(5,8) f(2) f(2) f(2) f(8)", NULL,
     "seq_len_max is -1 of 3 steps"},
    {"BlockLSTMGrad",
     "l=2 f(3,2,3) f(2,2) f(2,2) f(5,8) f(2) f(2) f(2) f(8) "
     "f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,1)",
     "use_peephole=false", "dimension 2 of input 17, (3, 2, 1), does not fit"},
    {"BlockLSTMGradV2",
     "l=7 f(3,2,3) f(2,2) f(2,2) f(5,8) f(2) f(2) f(2) f(8) "
     "f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2) f(3,2,2)",
     "use_peephole=false", "seq_len_max is 7 of 3 steps"},
    {"GRUBlockCell", "f(2,3) f(2,2) f(5,5) f(5,2) f(4) f(2)", NULL,
     "dimension 1 of input 2, (5, 5), does not fit"},
    {"GRUBlockCellGrad",
     "f(2,3) f(2,2) f(5,4) f(5,2) f(4) f(2) f(2,2) f(2,2) f(2,2) f(2,3)", NULL,
     "dimension 1 of input 9, (2, 3), does not fit"},
    {"CTCLoss", "f(3,2,3) l(1,2) i(1) i(3)", NULL,
     "sequence_length (3) for inputs (3, 2, 3)"},
    {"CTCLoss", "f(3,2,3) l(2,2) i(1) i(2)", NULL,
     "labels_indices (2, 2) for labels_values (1)"},
    {"CTCLoss", "f(3,0,3) l(0,2) i(0) i(0)", NULL, "inputs (3, 0, 3)"},
    {"CTCLoss", "f(3,2,3) l(2,2)=1,0,0,0 i(2)=0,1 i(2)=3,3", NULL,
     "labels_indices[1] is out of order"},
    {"CTCLoss", "f(3,2,3) l(2,2)=0,0,2,0 i(2)=0,1 i(2)=3,3", NULL,
     "labels_indices[1], (2, 0), is not in a batch of 2"},
    {"CTCLoss", "f(3,2,3) l(2,2)=0,0,1,0 i(2)=0,-1 i(2)=3,3", NULL,
     "label -1 of sequence 1 is negative"},
    {"CTCLoss", "f(3,2,3) l(2,2)=0,0,0,1 i(2)=2,1 i(2)=3,3", NULL,
     "label 1 of sequence 0 follows one of 2 or more"},
    {"CTCLoss", "f(3,2,3) l(2,2)=0,0,0,1 i(2)=0,1 i(2)=3,3", NULL,
     "sequence 1 has no labels"},
    {"CTCLoss", "f(3,1,3) l(2,2)=0,0,0,1 i(2)=0,1 i(1)=1", NULL,
     "sequence 0 has 2 labels in 1 steps"},
    {"CTCLoss", "f(3,1,3) l(2,2)=0,0,0,1 i(2)=0,1 i(1)=4", NULL,
     "sequence_length[0] is 4 of 3"},
    {"CTCGreedyDecoder", "f(3,2,3) i(1)", NULL,
     "sequence_length (1) for inputs (3, 2, 3)"},
    {"CTCGreedyDecoder", "f(3,2,3) i(2)=1,4", NULL, "sequence_length[1] is 4 of 3"},
    {"CTCGreedyDecoder", "f(3,2,3) i(2)=1,3", "blank_index=3",
     "blank_index 3 of 3 classes"},
    {"CTCGreedyDecoder", "f(3,2,0) i(2)=1,3", NULL, "inputs (3, 2, 0)"},
    {"SpaceToBatchND", "f(1,4,3) I(1)=3 I(1,2)=1,2", NULL, "is not in blocks of 3"},
    {"SpaceToBatchND", "f(1,4,3) i(1)=0 i(1,2)=0,0", NULL, "a block of 0"},
    {"SpaceToBatchND", "f(1,4,3) i(1)=2 i(1,2)=-2,2", NULL, "must not be negative: -2"},
    {"SpaceToBatchND", "f(1,4,3) i(2)=2,1 i(1,2)=0,0", NULL, "expected (2, 2)"},
    {"SpaceToBatchND", "f(4) i(1)=2 i(1,2)=0,0", NULL,
     "blocks of 1 dimensions of an array"},
    {"BatchToSpaceND", "f(3,4,3) i(1)=2 i(1,2)=0,0", NULL, "a batch of 3 in blocks of 2"},
    {"BatchToSpaceND", "f(2,2,3) i(1)=2 i(1,2)=3,2", NULL, "cropped by 3 and 2"},
    {"SpaceToBatch", "f(1,4,3,1) I(2,2)=0,0,0,0", "block_size=2",
     "is not in blocks of 2"},
    {"SpaceToBatch", "f(1,4,4,1) i(1,2)=0,0", "block_size=2", "expected (2, 2)"},
    {"BatchToSpace", "f(6,4,3,1) i(2,2)=0,0,0,0", "block_size=2", "a batch of 6"},
    {"SpaceToDepth", "f(1,4,3,1)", "block_size=2",
     "dimension 2 of (1, 4, 3, 1) in blocks of 2"},
    {"SpaceToDepth", "f(1,4,4,1)", "block_size=1", "block_size: 1, expected 2"},
    {"DepthToSpace", "f(1,4,4,6)", "block_size=2", "in blocks of 4"},
    {"DepthToSpace", "f(1,4,4,4)", "block_size=2 data_format=NCHW_VECT_C", "data_format"},
    {"ResizeBilinear", "f(1,2,2,1) I(3)=1,1,1", NULL, "a size (3), expected two numbers"},
    {"ResizeBilinear", "f(1,2,2,1) i(2)=0,3", NULL, "in a size of 0"},
    {"ResizeBilinear", "f(1,0,2,1) i(2)=2,3", NULL, "in a size of 2"},
    {"ResizeBilinear", "f(1,2,2,1) I(2)=2,3",
     "align_corners=true half_pixel_centers=true",
     "align_corners and half_pixel_centers"},
    {"ResizeBilinearGrad", "f(1,2,2,1) f(1,2,2,2)", NULL,
     "gradients (1, 2, 2, 1) of images"},
    {"ResizeNearestNeighbor", "f(2,2,1) I(2)=2,3", NULL, "must have 4 dimensions"},
    {"ResizeNearestNeighborGrad", "f(1,2,2,1) i(2)=-1,3", NULL, "in a size of -1"},
    {"Dilation2D", "f(1,4,4,2) f(2,2,1)",
     "strides=[1,1,1,1] rates=[1,1,1,1] padding=SAME", "does not fit an image"},
    {"Dilation2D", "f(1,4,4,2) f(2,2,2)",
     "strides=[1,1,1,1] rates=[1,0,1,1] padding=SAME", "rates: 0, expected 1 or more"},
    {"Dilation2DBackpropInput", "f(1,4,4,2) f(2,2,2) f(1,3,4,2)",
     "strides=[1,1,1,1] rates=[1,1,1,1] padding=SAME", "for an output of shape"},
    {"Dilation2DBackpropFilter", "f(1,4,4,2) f(2,2,2) f(1,3,4,2)",
     "strides=[1,1,1,1] rates=[1,1,1,1] padding=SAME", "for an output of shape"},
    {"BiasAddV1", "f(2,3) f(2)", NULL, "does not fit"},
    {"Add", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"AddV2", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Sub", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Mul", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"RealDiv", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"DivNoNan", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Div", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Mod", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"ReciprocalGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"SelectV2", "b(2) f(2) f(3)", NULL, "do not broadcast"},
    {"BatchMatMul", "f(2,2,3) f(2,2,3)", NULL, "does not multiply"},
    {"BatchMatMul", "f(2,2,3) f(3,3,2)", NULL, "does not multiply"},
    {"BatchMatMulV2", "f(2,2,3) f(3,3,2)", NULL, "does not multiply"},
    {"Concat", "I=2 f(2,3) f(2,3)", NULL, "axis 2"},
    {"Pad", "f(2,3) I(1,2)=1,1", NULL, "(1, 2)"},
    {"Pad", "f(3) I(1,2)=1,-1", NULL, "must not be negative"},
    {"Maximum", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Minimum", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Pow", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"SquaredDifference", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"FloorDiv", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"FloorMod", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Equal", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"NotEqual", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Greater", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"GreaterEqual", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Less", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"LessEqual", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"LogicalAnd", "b(2,3) b(2)", NULL, "do not broadcast"},
    {"LogicalOr", "b(2,3) b(2)", NULL, "do not broadcast"},
    {"SqrtGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"RsqrtGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"ReluGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"LeakyReluGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"EluGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"SoftplusGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"TanhGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"SigmoidGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"AddN", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"Select", "b(2) f(2) f(3)", NULL, "(2) and (3) differ"},
    {"Select", "b(3) f(2) f(2)", NULL, "does not fit"},
    {"ClipByValue", "f(2) f(3) f", NULL, "do not fit"},
    {"ClipByValue", "f(1) f(3) f", NULL, "do not fit"},
    {"Sum", "f(2,3) I=2", NULL, "axis 2"},
    {"Mean", "f(2,3) I=-3", NULL, "axis -3"},
    {"Max", "f(2,3) I=2", NULL, "axis 2"},
    {"Min", "f(2,3) I=2", NULL, "axis 2"},
    {"Prod", "f(2,3) I=2", NULL, "axis 2"},
    {"All", "b(2,3) I=2", NULL, "axis 2"},
    {"Any", "b(2,3) I=2", NULL, "axis 2"},
    {"Sum", "f(2,3) i=2", NULL, "axis 2"},
    {"ArgMax", "f(2,3) I=2", NULL, "axis 2"},
    {"ArgMin", "f I=0", NULL, "axis 0"},
    {"ArgMin", "f(2,0) I=1", NULL, "dimension 1 of (2, 0) has no elements"},
    {"PlaceholderWithDefault", "f(2,3)", "shape=(2)", "a default of shape"},
    {"ConcatOffset", "i=0 i", NULL, "must have 1 dimensions"},
    {"ConcatOffset", "i=2 i(2)=1,2 i(2)=1,2", NULL, "axis 2"},
    {"ConcatOffset", "i=0 i(2)=1,2 i(3)=1,2,3", NULL, "differ"},
    {"DynamicStitch", "I=0 I=1 f(2) f(3)", NULL, "(2) and (3) differ"},
    {"InvertPermutation", "i(2,2)", NULL, "must have 1 dimensions"},
    {"InvertPermutation", "i(2)=0,2", NULL, "not an index"},
    {"InvertPermutation", "i(2)=1,1", NULL, "twice"},
    {"BroadcastGradientArgs", "i(2)=2,3 i(2)=2,2", NULL, "do not broadcast"},
    {"Range", "I=0 I=1 I=0", NULL, "delta must not be 0"},
    {"Range", "I=0 I(1)=1 I=1", NULL, "must have 0 dimensions"},
    {"Range", "i=0 i=1 i=0", NULL, "delta must not be 0"},
    {"Fill", "I(1)=-2 f", NULL, "may not be -2"},
    {"Fill", "i(1)=-2 f", NULL, "may not be -2"},
    {"Fill", "I(1)=2 f(2)", NULL, "must have 0 dimensions"},
    {"DynamicStitch", "I(2)=0,1 f", NULL, "does not begin with"},
    {"DynamicStitch", "I(2)=0,-1 f(2)", NULL, "-1"},
    {"DynamicStitch", "I(2)=0,1 f(3)", NULL, "does not begin with"},
    {"ParallelDynamicStitch", "i(2)=0,-1 f(2)", NULL, "-1"},
    {"ParallelDynamicStitch", "I=0 I=1 f(2) f(3)", NULL, "(2) and (3) differ"},
    {"SegmentSum", "f(3,2) i(2)=0,1", NULL, "have (2) ids"},
    {"SegmentSum", "f i(1)=0", NULL, "data is a scalar"},
    {"SegmentSum", "f(3,2) i(3)=0,2,1", NULL, "segment id 2 is not in [0, 2)"},
    {"SegmentSum", "f(3,2) i(3)=1,0,2", NULL, "segment ids are not increasing"},
    {"SegmentSum", "f(2) i(2)=-1,-1", NULL, "-2 segments"},
    {"SegmentMean", "f(2) i(2)=-1,0", NULL, "segment id -1 is not in [0, 1)"},
    {"SegmentProd", "f(2) i(3)=0,1,1", NULL, "have (3) ids"},
    {"SegmentMax", "f(2) i(2,1)", NULL, "must have 1 dimensions"},
    {"SegmentMin", "f(2) i", NULL, "must have 1 dimensions"},
    {"UnsortedSegmentMax", "f(2) i(2)=0,2 I=2", NULL, "id 2 is not below 2"},
    {"UnsortedSegmentMin", "f(3,2) i(2)=0,1 I=2", NULL, "does not begin with"},
    {"UnsortedSegmentProd", "f(2) i(2)=0,1 I=-2", NULL, "-2"},
    {"SparseSegmentSum", "f(3,2) i(2)=0,1 i(3)=0,1,1", NULL, "(2) indices have (3) ids"},
    {"SparseSegmentSum", "f(3,2) i(2)=0,3 i(2)=0,1", NULL,
     "indices[1] == 3 out of range [0, 3)"},
    {"SparseSegmentMean", "f(3,2) i(2)=0,-1 i(2)=0,1", NULL, "indices[1] == -1"},
    {"SparseSegmentSqrtN", "f(3,2) i(2)=0,1 i(2)=1,0", NULL, "segment id 1 is not in"},
    {"SparseSegmentSumWithNumSegments", "f(3) i(1)=0 i(1)=2 I=2", NULL,
     "segment id 2 is not in [0, 2)"},
    {"SparseSegmentMeanWithNumSegments", "f(3) i(1)=0 i(1)=0 I=-1", NULL, "-1 segments"},
    {"SparseSegmentSqrtNWithNumSegments", "f(3) i(1)=0 i(1)=0 i(1)=1", NULL,
     "must have 0 dimensions"},
    {"SparseSegmentSumGrad", "f(2) i(1)=3 i(1)=0 I=3", NULL, "index 3 is not in [0, 3)"},
    {"SparseSegmentMeanGrad", "f(2) i(1)=0 i(1)=2 I=3", NULL,
     "segment id 2 is not in [0, 2)"},
    {"SparseSegmentSqrtNGrad", "f i(1)=0 i(1)=0 I=3", NULL, "data is a scalar"},
    {"SparseSegmentSumGradV2", "f(2) i(1)=3 i(1)=0 I=3", NULL,
     "index 3 is not in [0, 3)"},
    {"SparseSegmentMeanGradV2", "f(2) i(2)=0,1 i(1)=0 I=3", NULL,
     "(2) indices have (1) ids"},
    {"SparseSegmentSqrtNGradV2", "f(2) i(1)=0 i(1)=2 I=3", NULL,
     "segment id 2 is not in [0, 2)"},
    {"BatchMatMulV3", "f(2,2,3) f(3,3,2)", "Tout=@f", "does not multiply"},
    {"BatchMatMulV3", "f(2,2) f(2,2)", "Tout=@d", "no BatchMatMulV3 of float32 and"},
    {"Cross", "f(2,3) f(3)", NULL, "differ"},
    {"Cross", "f(2,2) f(2,2)", NULL, "no vectors of 3 elements"},
    {"TopK", "f(2,2)", "k=3", "the 3 largest elements of"},
    {"TopKV2", "f(2,2) i=3", NULL, "the 3 largest elements of"},
    {"TopKV2", "f i=0", NULL, "no last dimension"},
    {"TopKV2", "f(2) I=-1", NULL, "the -1 largest"},
    {"InTopK", "f(2,3) i(3)", "k=1", "3 targets for 2 predictions"},
    {"InTopKV2", "f(3) i(3) i=1", NULL, "must have 2 dimensions"},
    {"LowerBound", "f(2,3) f(1,3)", NULL, "1 rows of values for 2 sorted rows"},
    {"UpperBound", "f(3) f(1,3)", NULL, "must have 2 dimensions"},
    {"Bincount", "i(2)=0,-1 I=2 f(0)", NULL, "no integer may be negative"},
    {"Bincount", "i(2)=0,1 i=-2 f(0)", NULL, "-2 bins"},
    {"Bincount", "i(2)=0,1 I=2 f(3)", NULL, "weights (3) for (2)"},
    {"DenseBincount", "i(1,1,2) i=2 f(0)", NULL, "no vector or matrix"},
    {"DenseBincount", "i(1,2)=0,-1 i=2 f(0)", NULL, "no integer may be negative"},
    {"Einsum", "f(2,3) f(3,4)", "equation=ij,jk", "expected one term for each operand"},
    {"Einsum", "f(2,3) f(3,4)", "equation=ij->j", "expected one term for each operand"},
    {"Einsum", "f(2,3) f(4,4)", "equation=ij,jk->ik", "sizes of a label differ"},
    {"Einsum", "f(2,3)", "equation=iij->j", "another number of dimensions"},
    {"Einsum", "f(2,3)", "equation=ij->k", "a label that no operand has"},
    {"Einsum", "f(2,3)", "equation=i?->i", "a term is letters"},
    {"Einsum", "f(2,3)", "equation=i...->i", "the result lacks the ..."},
    {"Einsum", "f(2) f(2) f(2)", "equation=i,i,i->i", "at most 2 are possible"},
    {"Cholesky", "f(2,3)", NULL, "no square matrices"},
    {"BatchCholesky", "f(2)", NULL, "no square matrices"},
    {"CholeskyGrad", "f(2,2) f(1,2,2)", NULL, "differ"},
    {"BatchCholeskyGrad", "f(2,3) f(2,3)", NULL, "no square matrices"},
    {"MatrixTriangularSolve", "f(2,2) f(3,2)", NULL, "right-hand sides (3, 2)"},
    {"MatrixTriangularSolve", "f(2,2)=1,0,1,0 f(2,1)", NULL, "not invertible"},
    {"BatchMatrixTriangularSolve", "f(1,2,2) f(2,2,1)", NULL, "right-hand sides"},
    {"MatrixSolve", "f(2,2) f(2)", NULL, "right-hand sides"},
    {"MatrixSolve", "f(2,2)=1,2,2,4 f(2,1)", NULL, "not invertible"},
    {"BatchMatrixSolve", "f(1,2,2) f(2,2,1)", NULL, "right-hand sides"},
    {"MatrixInverse", "f(2,2)=1,2,2,4", NULL, "not invertible"},
    {"BatchMatrixInverse", "f(2,3)", NULL, "no square matrices"},
    {"MatrixDeterminant", "f(2,3)", NULL, "no square matrices"},
    {"BatchMatrixDeterminant", "f(2)", NULL, "no square matrices"},
    {"LogMatrixDeterminant", "f", NULL, "no square matrices"},
    {"SelfAdjointEigV2", "f(2,3)", NULL, "no square matrices"},
    {"SelfAdjointEigV2", "f(1,1)=inf", NULL, "was not successful"},
    {"BatchSelfAdjointEigV2", "f(2)", NULL, "no square matrices"},
    {"Unique", "f(2,2)", NULL, "must have 1 dimensions"},
    {"UniqueV2", "f(2,2) i(0)", NULL, "no axis to compare along"},
    {"UniqueV2", "f(2,2) I(1)=2", NULL, "axis 2"},
    {"UniqueV2", "f(2,2) i(2)=0,1", NULL, "more than one axis"},
    {"UniqueWithCounts", "f(2,2)", NULL, "must have 1 dimensions"},
    {"UniqueWithCountsV2", "f(2) i(1)=-2", NULL, "axis -2"},
    {"ResizeBicubic", "f(1,2,2,1) i(2)=0,3", NULL, "in a size of 0"},
    {"ResizeBicubicGrad", "f(1,2,2,1) f(1,2,2,2)", NULL, "of images (1, 2, 2, 2)"},
    {"CropAndResize", "f(1,2,2,1) f(1,4) i(1)=1 I(2)=2,2", NULL,
     "outside [0, batch_size)"},
    {"CropAndResize", "f(1,2,2,1) f(1,3) i(1)=0 I(2)=2,2", NULL, "boxes (1, 3)"},
    {"CropAndResize", "f(1,2,2,1) f(1,4) i(1)=0 I(2)=2,0", NULL, "in a size of 0"},
    {"CropAndResize", "f(1,2,2,1) f(1,4) i(1)=0 I(2)=2,2", "method=cubic",
     "method must be 'bilinear' or 'nearest', not 'cubic'"},
    {"CropAndResizeGradImage", "f(1,2,2,1) f(1,4) i(1)=0 I(4)=1,2,2,3", "T=@f",
     "gradients (1, 2, 2, 1) of images (1, 2, 2, 3)"},
    {"CropAndResizeGradImage", "f(1,2,2,1) f(1,4) i(1)=-1 I(4)=1,2,2,1", "T=@f",
     "outside [0, batch_size)"},
    {"CropAndResizeGradBoxes", "f(2,2,2,1) f(1,2,2,1) f(1,4) i(1)=0", NULL,
     "gradients (2, 2, 2, 1)"},
    {"ExtractImagePatches", "f(1,2,2,1)",
     "ksizes=[1,3,1,1] strides=[1,1,1,1] rates=[1,1,1,1] padding=VALID",
     "patches of 3 pixels in 2"},
    {"ExtractImagePatches", "f(1,2,2,1)",
     "ksizes=[1,1,1,1] strides=[1,0,1,1] rates=[1,1,1,1] padding=VALID",
     "strides must be [1, rows, columns, 1]"},
    {"ExtractImagePatches", "f(1,2,2,1)",
     "ksizes=[1,1,1,1] strides=[1,1,1,1] rates=[1,1,1,1] padding=FULL", "padding 'FULL'"},
    {"UnravelIndex", "i(1)=6 i(2)=2,3", NULL, "index 6 is out of bound"},
    {"UnravelIndex", "i(1,1)=0 i(2)=2,3", NULL, "can only be scalar or vector"},
    {"UnravelIndex", "i(1)=0 i(2)=-1,3", NULL, "dims[0] is -1"},
    {"Bitcast", "u(2,3)", "type=@w", "Cannot bitcast from uint8 to uint16: shape (2, 3)"},
    {"NextAfter", "f(2) f(3)", NULL, "(2)"},
    {"SparseTensorDenseMatMul", "l(1,2)=0,3 f(1) L(2)=2,3 f(3,1)", NULL,
     "indices[0, 1] = 3 is out of bounds: need 0 <= index < 3"},
    {"SparseTensorDenseMatMul", "l(1,2)=0,0 f(1) L(2)=2,3 f(2,1)", NULL,
     "inner dimension does not match: 3 vs. 2"},
    {"SparseTensorDenseMatMul", "l(1,2)=0,0 f(2) L(2)=2,2 f(2,1)", NULL,
     "indices (1, 2), shape (2), values (2)"},
    {"SparseTensorDenseMatMul", "l(1,3)=0,0,0 f(1) l(3)=2,2,2 f(2,1)", NULL,
     "a sparse tensor of 3 dimensions"},
    {"SparseReshape", "l(1,1)=0 l(1)=6 l(2)=-1,4", NULL, "6 dense values"},
    {"SparseReshape", "l(1,1)=0 l(1)=6 l(2)=-1,-1", NULL, "dimension 1 of the new shape"},
    {"SparseReshape", "l(1,1)=7 l(1)=6 l(1)=6", NULL, "out of bounds"},
    {"SparseReorder", "l(1,1)=0 f(1) l(1)=-2", NULL,
     "dimension 0 of a sparse tensor is -2"},
    {"SparseReorder", "l(0,9) f(0) l(9)=1,1,1,1,1,1,1,1,1", NULL, "9 dimensions"},
    {"SparseReduceSum", "l(1,1)=0 f(1) L(1)=2 I(1)=1", NULL,
     "Invalid reduction dimension 1, for input with 1"},
    {"SparseReduceSum", "l(1,1)=2 f(1) L(1)=2 I(1)=0", NULL, "out of bounds"},
    {"SparseFillEmptyRows", "l(1,1)=2 f(1) L(1)=2 f=0", NULL,
     "indices(0, 0) is invalid: 2 >= 2"},
    {"SparseFillEmptyRows", "l(1,0) f(1) l(0) f=0", NULL, "without rows"},
    {"SparseFillEmptyRows", "l(0,1) f(0) L(1)=-3 f=0", NULL, "-3 rows"},
    {"SparseFillEmptyRowsGrad", "l(1)=3 f(3)", NULL, "must be in [0, 3) but got 3"},
    {"SparseSoftmax", "l(1,1)=0 f(1) l(1)=2", NULL, "a sparse tensor of 1 dimensions"},
    {"SparseConcat", "l(1,1)=0 l(1,2)=0,0 f(1) f(1) l(1)=2 l(2)=2,2", "concat_dim=0 N=2",
     "sparse tensors of 1 and 2 dimensions"},
    {"SparseConcat", "l(1,1)=0 f(1) l(1)=2", "concat_dim=1 N=1",
     "in range [-1, 1), got 1"},
    {"SparseConcat", "l(0,2) l(0,2) f(0) f(0) l(2)=2,2 l(2)=3,2", "concat_dim=1 N=2",
     "expected 2 but got 3 for dimension 0"},
    {"SparseSlice", "l(1,1)=0 f(1) l(1)=2 l(1)=-1 l(1)=2", NULL, "a start of -1"},
    {"SparseSlice", "l(1,1)=0 f(1) l(1)=2 l(2)=0,0 l(1)=2", NULL,
     "a slice (2) of 1 dimensions"},
    {"SparseSliceGrad", "f(1) l(1,1)=0 l(1)=1 l(1,1)=5", NULL, "aren't all propagated"},
    {"SparseSliceGrad", "f(1) l(1,1)=0 l(2)=1,1 l(1,1)=5", NULL, "start (2)"},
    {"SparseDenseCwiseAdd", "l(1,1)=0 f(1) l(1)=2 f(2,2)", NULL, "incompatible shapes"},
    {"SparseDenseCwiseMul", "l(1,1)=0 f(1) l(1)=2 f(3)", NULL, "(2) vs. (3)"},
    {"SparseTensorDenseAdd", "l(1,1)=0 f(1) l(1)=2 f(3)", NULL,
     "sparse side (2) vs dense side (3)"},
    {"SparseTensorDenseAdd", "l(1,1)=0 f(1) l(1)=2 f(3,1)", NULL,
     "a sparse tensor of 1 dimensions, dense (3, 1)"},
    {"ListDiff", "f(2) f(1,1)", NULL, "must have 1 dimensions"},
    {"DynamicPartition", "f(3) i(2)=0,1", "num_partitions=2", "does not begin with"},
    {"DynamicPartition", "f(2) i(2)=0,2", "num_partitions=2",
     "partitions[1] = 2 is not in [0, 2)"},
    {"DynamicPartition", "f(2) i(2)=0,-1", "num_partitions=2", "-1"},
    {"Reshape", "f(2,3) I(1)=5", NULL, "cannot reshape"},
    {"Reshape", "f(2,3) i(2)=5,1", NULL, "cannot reshape"},
    {"Reshape", "f(2,3) I(2)=-1,-1", NULL, "more than one unknown"},
    {"ExpandDims", "f(2,3) I=3", NULL, "axis 3"},
    {"Squeeze", "f(2,3)", "squeeze_dims=[0]", "cannot squeeze"},
    {"Transpose", "f(2,3) I(2)=0,0", NULL, "not a permutation"},
    {"Transpose", "f(2,3) i(1)=0", NULL, "a permutation of 1"},
    {"Tile", "f(2,3) I(1)=2", NULL, "1 multiples"},
    {"Tile", "f(2,3) I(2)=2,-1", NULL, "a multiple of -1"},
    {"ConcatV2", "f(2,3) f(3,3) I=1", NULL, "differ in more than dimension 1"},
    {"ConcatV2", "f(2,3) f(2,3) I=2", NULL, "axis 2"},
    {"Pack", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"Unpack", "f(2,3)", "num=3", "3 pieces of dimension 0"},
    {"Unpack", "f", "num=1", "a scalar"},
    {"Split", "I=1 f(2,3)", "num_split=2", "does not split into 2"},
    {"Split", "I=2 f(2,3)", "num_split=2", "axis 2"},
    {"SplitV", "f(3) I(2)=1,1 I=0", "num_split=2", "do not make up"},
    {"SplitV", "f(3) i(2)=1,1 I=0", "num_split=2", "do not make up"},
    {"Slice", "f(3) I(1)=2 I(1)=2", NULL, "outside of dimension 0"},
    {"Slice", "f(3) i(1)=2 i(1)=2", NULL, "outside of dimension 0"},
    {"Slice", "f(3) I(2)=0,0 I(2)=1,1", NULL, "begin has 2"},
    {"StridedSlice", "f(3) I(1)=3 I(1)=4 I(1)=1", "shrink_axis_mask=1",
     "index 3 is outside"},
    {"StridedSlice", "f(3) i(1)=3 i(1)=4 i(1)=1", "shrink_axis_mask=1",
     "index 3 is outside"},
    {"StridedSlice", "f(3) i(1)=-4 i(1)=-3 i(1)=1", "shrink_axis_mask=1",
     "index -4 is outside"},
    {"StridedSlice", "f(3) I(1)=0 I(1)=4 I(1)=0", NULL, "strides[0]"},
    {"StridedSlice", "f(3) I(2)=0,0 I(2)=1,1 I(2)=1,1", NULL, "2 indices"},
    {"StridedSliceGrad", "I(1)=4 I(1)=0 I(1)=2 I(1)=1 f(3)", NULL, "(3)"},
    {"StridedSliceGrad", "I(1)=4 I(1)=0 I(1)=2 I(1)=0 f(2)", NULL, "strides[0]"},
    {"StridedSliceGrad", "I(1)=4 I(1)=9 I(1)=10 I(1)=1 f", "shrink_axis_mask=1",
     "index 9 is outside"},
    {"Gather", "f i", NULL, "axis 0 of ()"},
    {"Gather", "f(3) i(1)=3", NULL, "index 3 is not in [0, 3)"},
    {"GatherV2", "f(3) i(1)=-1 I=0", NULL, "index -1 is not in [0, 3)"},
    {"GatherV2", "f(3) i(1)=0 I=1", NULL, "axis 1"},
    {"GatherNd", "f(3,2) i", NULL, "indices are a scalar"},
    {"GatherNd", "f(3,2) i(1,3)", NULL, "an index of 3 into (3, 2)"},
    {"GatherNd", "f(3,2) i(1,2)=2,2", NULL, "index 2 of dimension 1 is not in [0, 2)"},
    {"GatherNd", "f(3,2) i(1,1)=-1", NULL, "index -1 of dimension 0 is not in [0, 3)"},
    {"GatherV2", "f(2,3) i(3,1) I=1", "batch_dims=1", "batch dimension 0 of (2, 3)"},
    {"GatherV2", "f(2,3) i(2,1) I=0", "batch_dims=1", "one of 1 batch dimensions"},
    {"GatherV2", "f(2,3) i(2,1) I=1", "batch_dims=3", "3 batch dimensions of"},
    {"TensorScatterUpdate", "f(3) i(1,2) f(1)", NULL, "an index of 2 into (3)"},
    {"TensorScatterAdd", "f(3) i(1,1)=3 f(1)", NULL, "index 3 of dimension 0"},
    {"TensorScatterSub", "f(3) i(2,1) f(1)", NULL, "updates (1), expected (2)"},
    {"TensorScatterMin", "f(3) i f", NULL, "indices are a scalar"},
    {"TensorScatterMax", "f(3,2) i(1,1) f(1)", NULL, "updates (1), expected (1, 2)"},
    {"ScatterNdNonAliasingAdd", "f(3) i(1,1)=-1 f(1)", NULL, "index -1 of dimension 0"},
    {"TensorStridedSliceUpdate", "f(3) I(1)=0 I(1)=2 I(1)=1 f(3)", NULL,
     "a value of shape (3) for a slice of shape (2)"},
    {"ScatterNd", "i(2,1) f(2,3) I(2)=4,2", NULL, "updates (2, 3), expected (2, 2)"},
    {"ScatterNd", "i(1,1)=4 f(1,2) I(2)=4,2", NULL, "index 4 of dimension 0"},
    {"UnsortedSegmentSum", "f(3,2) i(2)=0,1 I=2", NULL, "does not begin with"},
    {"UnsortedSegmentSum", "f(2) i(2)=0,2 I=2", NULL, "2"},
    {"UnsortedSegmentSum", "f(2) i(2)=0,1 I=-2", NULL, "-2"},
    {"OneHot", "i(2) I(1)=2 f f", NULL, "must have 0 dimensions"},
    {"OneHot", "i(2) I=2 f f", "axis=2", "axis 2"},
    {"OneHot", "i(2) I=-2 f f", NULL, "-2"},
    {"BiasAdd", "f(2,3) f(2)", NULL, "does not fit"},
    {"BiasAdd", "f(3) f(3)", NULL, "at least 2 dimensions"},
    {"BiasAddGrad", "f(3)", "data_format=NCHW", "at least 2 dimensions"},
    {"Softmax", "f", NULL, "at least one dimension"},
    {"LogSoftmax", "f", NULL, "at least one dimension"},
    {"SoftmaxCrossEntropyWithLogits", "f(2,3) f(2,4)", NULL, "do not broadcast"},
    {"SparseSoftmaxCrossEntropyWithLogits", "f(2,3) i(3)", NULL, "do not fit"},
    {"SparseSoftmaxCrossEntropyWithLogits", "f(2,3) i(2)=0,3", NULL, "label 3"},
    {"DiagPart", "f(2,3)", NULL, "not square"},
    {"DiagPart", "f(2)", NULL, "not square"},
    {"Diag", "f", NULL, "no tensor has the diagonal ()"},
    {"MatrixDiag", "f", NULL, "has no diagonals"},
    {"BatchMatrixDiag", "f", NULL, "has no diagonals"},
    {"MatrixDiagV2", "f(2) I(3)=0,1,2 I=-1 I=-1 f", NULL, "k must be a diagonal"},
    {"MatrixDiagV2", "f(2) i(2)=1,0 I=-1 I=-1 f", NULL, "k must be a diagonal"},
    {"MatrixDiagV3", "f(2) I=0 I=3 I=3 f", NULL, "do not make up (3, 3)"},
    {"MatrixDiagV3", "f(2,2) I(2)=0,2 I=-1 I=-1 f", NULL, "2 rows for diagonals 0 to 2"},
    {"MatrixDiagPart", "f(2)", NULL, "has no matrices"},
    {"BatchMatrixDiagPart", "f", NULL, "has no matrices"},
    {"MatrixDiagPartV2", "f(2,2) I=2 f", NULL, "no diagonals 2 to 2"},
    {"MatrixDiagPartV3", "f(2,2) i=-2 f", NULL, "no diagonals -2 to -2"},
    {"MatrixSetDiag", "f(2,3) f(3)", NULL, "diagonals (3) of (2, 3), which has (2)"},
    {"BatchMatrixSetDiag", "f(2) f(2)", NULL, "has no matrices"},
    {"MatrixSetDiagV2", "f(2,3) f(2) I(2)=0,1", NULL, "which has (2, "},
    {"MatrixSetDiagV3", "f(2,3) f(2) I=3", NULL, "no diagonals 3 to 3"},
    {"MatrixBandPart", "f(2) l l", NULL, "has no matrices"},
    {"MatrixBandPart", "f(2,2) l=3 l=0", NULL, "3 diagonals below"},
    {"BatchMatrixBandPart", "f(2,2) l=0 l=3", NULL, "3 above the main one"},
    {"Qr", "f(3)", NULL, "must have 2 dimensions"},
    {"StatelessRandomGetKeyCounter", "i(3)", NULL, "a seed of (3)"},
    {"StatelessRandomGetKeyCounterAlg", "i(3)", NULL, "a seed of (3)"},
    {"StatelessRandomUniform", "I(1)=2 i(3)", "dtype=@f", "a seed of (3)"},
    {"StatelessRandomUniform", "I(1)=2 i(2)", "dtype=@i", "no draws of int32"},
    {"StatelessRandomNormal", "I(1)=2 i(3)", "dtype=@f", "a seed of (3)"},
    {"StatelessTruncatedNormal", "I(1)=-2 i(2)", "dtype=@f", "may not be -2"},
    {"StatelessRandomUniformInt", "I(1)=2 i(2) i=3 i=3", NULL, "no integers in [3, 3)"},
    {"StatelessRandomUniformInt", "I(1)=2 i(1) i=3 i=4", NULL, "a seed of (1)"},
    {"StatelessRandomUniformFullInt", "I(1)=2 i(3)", "dtype=@i", "a seed of (3)"},
    {"StatelessRandomUniformFullInt", "I(1)=2 i(2)", "dtype=@f", "no draws of float32"},
    {"StatelessMultinomial", "f(1,2) I=2 i(3)", NULL, "a seed of (3)"},
    {"StatelessMultinomial", "f(1,0) I=2 i(2)", NULL, "no classes"},
    {"Multinomial", "f(1,0) I=2", NULL, "no classes"},
    {"Multinomial", "f(1,2) i=-1", NULL, "-1 draws"},
    {"RandomGamma", "I(1)=-1 f(1)", NULL, "may not be -1"},
    {"RandomPoisson", "I(2,2) f", NULL, "must be a vector"},
    {"RandomPoissonV2", "i(1)=-2 d", NULL, "may not be -2"},
    {"ParameterizedTruncatedNormal", "I(0) f f f f", NULL, "a dimension of batches"},
    {"ParameterizedTruncatedNormal", "i(1)=3 f(2) f f f", NULL,
     "parameters of shape (2)"},
    {"ParameterizedTruncatedNormal", "I(1)=1 f=0 f=1 f=2 f=1", NULL, "no normal numbers"},
    {"UniformCandidateSampler", "l(3,1)",
     "num_true=2 num_sampled=3 unique=true range_max=9",
     "1 true classes in a row, not 2"},
    {"LogUniformCandidateSampler", "l(3,1)",
     "num_true=1 num_sampled=10 unique=true range_max=9", "range is too small"},
    {"ComputeAccidentalHits", "l(3,1) l(2)", "num_true=2",
     "1 true classes in a row, not 2"},
    {"NonMaxSuppression", "f(3,4) f(2) i=1", NULL, "3 boxes, but 2 scores"},
    {"FakeQuantWithMinMaxArgs", "f(3)", "num_bits=1", "num_bits is 1, not from 2 to 16"},
    {"FakeQuantWithMinMaxArgs", "f(3)", "min=2.0 max=1.0", "is not below max 1"},
    {"FakeQuantWithMinMaxArgsGradient", "f(3) f(2)", NULL, "gradients of shape (3)"},
    {"FakeQuantWithMinMaxVars", "f(3) f=0 f=1", "num_bits=17", "num_bits is 17"},
    {"FakeQuantWithMinMaxVarsGradient", "f(3) f(2) f=0 f=1", NULL, "gradients of shape"},
    {"FakeQuantWithMinMaxVarsPerChannel", "f(2,3) f(2) f(2)", NULL, "for channels of"},
    {"FakeQuantWithMinMaxVarsPerChannelGradient", "f(2,3) f(2,3) f(2) f(3)", NULL,
     "for channels of"},
    {"NonMaxSuppressionV2", "f(3,5) f(3) i=1 f=0.5", NULL, "boxes of 5 numbers, not 4"},
    {"NonMaxSuppressionV2", "f(3,4) f(3) i=-1 f=0.5", NULL, "is -1, below 0"},
    {"NonMaxSuppressionV3", "f(3,4) f(3) i=1 f=2 f=0", NULL, "must be in [0, 1]"},
    {"NonMaxSuppressionV4", "f(3,4) f(2) i=1 f=0.5 f=0", NULL, "3 boxes, but 2 scores"},
    {"NonMaxSuppressionV5", "f(3,4) f(3) i=1 f=0.5 f=0 f=-1", NULL, "is below 0"},
    {"NonMaxSuppressionWithOverlaps", "f(3,2) f(3) i=1 f=0.5 f=0", NULL,
     "boxes of 2 numbers, not 3"},
    {"RandomUniform", "I(1)=-1", "dtype=@f", "may not be -1"},
    {"RandomStandardNormal", "i(1)=-1", "dtype=@f", "may not be -1"},
    {"TruncatedNormal", "I(2,2)", "dtype=@f", "must be a vector"},
    {"RandomUniformInt", "I(1)=2 i(1) i", NULL, "must have 0 dimensions"},
    {"RandomUniformInt", "I(1)=2 i=3 i=3", NULL, "no integers in"},
    {"CheckNumerics", "f(2)=1,nan", "message=here", "here : Tensor had NaN"},
    {"CheckNumerics", "d(2)=1,inf", "message=here", "here : Tensor had Inf"},
    {"TruncateDiv", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"TruncateMod", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"ApproximateEqual", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Atan2", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Zeta", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Polygamma", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Igamma", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Igammac", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"IgammaGradA", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Xlogy", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Xlog1py", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"Xdivy", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"MulNoNan", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"RandomGammaGrad", "f(2,3) f(2)", NULL, "do not broadcast"},
    {"StringFormat", "f f", "template=%s!", "1 placeholders '%s' for 2 inputs"},
    {"AsString", "f", "fill=x", "fill 'x', expected one of"},
    {"BitwiseAnd", "i(2,3) i(2)", NULL, "do not broadcast"},
    {"BitwiseOr", "i(2,3) i(2)", NULL, "do not broadcast"},
    {"BitwiseXor", "i(2,3) i(2)", NULL, "do not broadcast"},
    {"LeftShift", "i(2,3) i(2)", NULL, "do not broadcast"},
    {"RightShift", "i(2,3) i(2)", NULL, "do not broadcast"},
    {"InvGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"Relu6Grad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"SeluGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"SoftsignGrad", "f(2) f(3)", NULL, "(2) and (3) differ"},
    {"AccumulateNV2", "f(2) f(3)", "shape=(2)", "(2) and (3) differ"},
    {"Betainc", "f(2) f f(3)", NULL, "(2) and (3) differ"},
    {"EuclideanNorm", "f(2,3) I=2", NULL, "axis 2"},
    {"BroadcastTo", "f(2,3) I(1)=3", NULL, "does not broadcast to (3)"},
    {"BroadcastTo", "f(2) i(1)=1", NULL, "(2) does not broadcast to (1)"},
    {"BroadcastTo", "f(1) i(1)=-1", NULL, "may not be -1"},
    {"BroadcastArgs", "i(2)=2,3 i(2)=2,2", NULL, "do not broadcast"},
    {"BroadcastArgs", "i i(2)", NULL, "must have 1 dimensions"},
    {"LinSpace", "f f i", NULL, "num must be 1 or more, not 0"},
    {"Empty", "i(1)=-2", "dtype=@f", "may not be -2"},
    {"EnsureShape", "f(2,3)", "shape=(2,2)", "(2, 3) is not compatible with (2, 2)"},
    {"CheckNumericsV2", "f(2)=1,nan", "message=here", "here : Tensor had NaN"},
    {"Reverse", "f(2,3) b(3)", NULL, "3 marks for the dimensions of (2, 3)"},
    {"ReverseV2", "f(2,3) I(1)=2", NULL, "axis 2"},
    {"ReverseV2", "f(2,3) i(2)=1,-1", NULL, "axis 1 is there twice"},
    {"ReverseSequence", "f(2,3) i(3)", "seq_dim=1", "3 lengths for 2 sequences"},
    {"ReverseSequence", "f(2,3) i(2)", "seq_dim=2", "seq_dim 2 and batch_dim 0 of"},
    {"ReverseSequence", "f(2,3) i(2)", "seq_dim=0", "seq_dim 0 and batch_dim 0"},
    {"ReverseSequence", "f(2,3) i(2)=3,4", "seq_dim=1",
     "length 4 of sequence 1, not in [0, 3]"},
    {"Roll", "f i i", NULL, "a scalar cannot be rolled"},
    {"Roll", "f(3) i i=1", NULL, "axis 1"},
    {"Roll", "f(3) i(2) i", NULL, "for axes ()"},
    {"Cumsum", "f(3) i=1", NULL, "axis 1"},
    {"Cumsum", "f(3) i(1)", NULL, "must have 0 dimensions"},
    {"Cumprod", "f I=0", NULL, "axis 0"},
    {"CumulativeLogsumexp", "f(2) I=-2", NULL, "axis -2"},
    {"PadV2", "f(3) I(1,2)=1,-1 f", NULL, "must not be negative"},
    {"PadV2", "f(3) I(1,2)=1,1 f(1)", NULL, "must have 0 dimensions"},
    {"MirrorPad", "f(3) I(1,2)=3,0", "mode=REFLECT",
     "of a dimension of 3, at most 2 each"},
    {"MirrorPad", "f(3) i(1,2)=0,4", "mode=SYMMETRIC",
     "of a dimension of 3, at most 3 each"},
    {"MirrorPad", "f(3) I(1,2)=1,0", "mode=OTHER", "expected REFLECT or SYMMETRIC"},
    {"MirrorPadGrad", "f(5) I(1,2)=2,2", "mode=REFLECT",
     "of a dimension of 1, at most 0"},
    {"MirrorPadGrad", "f(3) i(1,2)=2,2", "mode=REFLECT",
     "paddings 2 and 2 of 3 elements"},
    {"MirrorPadGrad", "f(3) I(2,2)=0,0,0,0", "mode=REFLECT", "paddings (2, 2) for"},
    {"HistogramFixedWidth", "f(3) f(2)=0,1 i=0", NULL, "0 bins"},
    {"HistogramFixedWidth", "f(3) f(2)=1,1 i=2", NULL, "a range of [1, 1]"},
    {"HistogramFixedWidth", "f(3) f(3) I=2", NULL, "a range of 3 numbers"},
    {"Bucketize", "f(3)", "boundaries=[1.0,0.5]", "ascending order"},
};
enum { N_BAD = sizeof(bad) / sizeof(bad[0]) };

/* Refused at once if the shapes are known, otherwise when it runs; the message always has
 * the name. */
START_TEST(what_does_not_fit_is_refused_by_name)
{
    const struct kernel_case c = {.op = bad[_i].op,
                                  .inputs = bad[_i].inputs,
                                  .attrs = bad[_i].attrs,
                                  .low = 0,
                                  .high = 1};

    for (int feeding = 0; feeding < N_FEEDINGS; feeding++) {
        struct tensor ret[MAX_OPERANDS] = {0};
        struct err err = {0};
        struct stage s;

        stage_init(&s, &c, DT_FLOAT, feeding);
        if (s.op == NULL)
            err = *graph_error(s.g);
        else
            ck_assert_msg(stage_run(&s, ret, &err) != 0, "%s %s runs", c.op, c.inputs);
        ck_assert_msg(strstr(err.msg, "tested") != NULL, "%s", err.msg);
        ck_assert_msg(strstr(err.msg, bad[_i].text) != NULL, "%s: %s", c.op, err.msg);
        stage_done(&s);
    }
}
END_TEST

/* ---- integers of any value ---- */

static void put_everywhere(const struct tensor *t, int64_t v)
{
    for (int64_t i = 0; i < tensor_elements(t); i++)
        if (t->dtype == DT_INT64)
            ((int64_t *)t->data)[i] = v;
        else
            ((int32_t *)t->data)[i] = (int32_t)v;
}

/* Runs the case with this value everywhere in an operand. 0: the operand does not consist
 * of integers. */
static int try_integer(const struct kernel_case *c, int operand, int64_t v)
{
    struct tensor ret[MAX_OPERANDS] = {0};
    struct err err = {0};
    struct stage s;
    int tried;

    stage_init(&s, c, case_dtype(c->types != NULL ? c->types[0] : 'f'), FEED_ALL);
    tried = s.op != NULL && operand < s.n_in &&
            (s.in[operand].tensor.dtype == DT_INT32 ||
             s.in[operand].tensor.dtype == DT_INT64);
    if (tried) {
        put_everywhere(&s.in[operand].tensor, v);
        if (stage_run(&s, ret, &err) != 0)
            ck_assert_msg(err.msg[0] != '\0', "%s %s", c->op, c->inputs);
    }
    for (int i = 0; i < MAX_OPERANDS; i++)
        tensor_free(&ret[i]);
    stage_done(&s);
    return tried;
}

/* Indices, axes, sizes and labels that are known only when the op runs: it runs or is
 * refused, and writes nothing else. */
START_TEST(integers_may_be_anything)
{
    static const int64_t odd[] = {-1,        0,         7,         -1000,
                                  INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    const size_t n = sizeof(odd) / sizeof(odd[0]);

    limit_memory();
    for (int operand = 0; operand < MAX_OPERANDS; operand++)
        for (size_t k = 0; k < n && try_integer(kernel_case_at(_i), operand, odd[k]);)
            k++;
}
END_TEST

/* Only ops whose rules accept any shape may lack a row above. */
START_TEST(every_constraint_has_a_refusal)
{
    static const char *const any_shape[] = {
        "Placeholder", "Const", "VariableV2", "Variable", "MergeV2Checkpoints", "Where",
        "Shape", "ShapeN", "Cast", "IdentityN",
        /* ops of resources and branches, and of names: test_ops.c */
        "ReadVariableOp", "DisableCopyOnRead", "Switch", "RefSwitch", "Merge", "RefMerge",
        "StringJoin", "ScalarSummary", "MergeSummary", "ShardedFilename", "SaveV2",
        "RestoreV2", "SaveSlices", "Save", "RestoreSlice", "Restore", "ShardedFilespec",
        /* tests/tensorflow */
        "ParseExample", "ParseExampleV2", "ParseSingleExample", "DecodeRaw",
        "SparseToDense", "InitializeTableV2", "LookupTableImportV2", "LookupTableFindV2",
        "LookupTableSizeV2",
        /* ops of handles: test_parts.c */
        "VariableShape", "ResourceGather", "ResourceGatherNd",
        /* ops of loops, tensor arrays and stacks: test_while.c */
        "Enter", "RefEnter", "NextIteration", "LoopCond", "TensorArrayV3",
        "TensorArrayWriteV3", "TensorArrayReadV3", "TensorArrayGatherV3",
        "TensorArrayScatterV3", "TensorArrayConcatV3", "TensorArraySplitV3", "StackV2",
        "StackPushV2",
        /* tensor lists: test_lists.c */
        "EmptyTensorList", "TensorListReserve", "TensorListPushBack", "TensorListPopBack",
        "TensorListLength", "TensorListSetItem", "TensorListResize", "TensorListConcatV2",
        "TensorListFromTensor", "TensorListSplit", "TensorListScatter",
        "TensorListScatterV2", "TensorListScatterIntoExistingList", "OptionalFromValue",
        "OptionalNone", "OptionalHasValue",
        /* takes keys, which cases cannot express: test_kernels_state.c */
        "StatelessRandomUniformV2", "StatelessRandomNormalV2",
        "StatelessTruncatedNormalV2", "StatelessRandomUniformIntV2",
        "StatelessRandomUniformFullIntV2"};
    const struct op_def *d = op_def_at(&op_table, (size_t)_i);
    int told = d->shape == shape_same || d->shape == shape_scalar ||
               d->shape == shape_none ||
               (d->flags & (OP_FOREIGN | OP_WRITES)) != 0; /* writes: has_case */

    for (size_t i = 0; i < sizeof(any_shape) / sizeof(any_shape[0]); i++)
        told |= strcmp(any_shape[i], d->type) == 0;
    for (int i = 0; i < N_BAD; i++)
        told |= strcmp(bad[i].op, d->type) == 0;
    ck_assert_msg(told, "%s: no shape is refused", d->type);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("kernels");
    TCase *tc = tcase_create("kernels");
    /* Needs a memory limit that is enforced; emulated machines do not enforce it. */
    TCase *limited = tcase_create("limited");
    int n_ops = 0, n_cases = 0;

    while (op_def_at(&op_table, (size_t)n_ops) != NULL)
        n_ops++;
    while (kernel_case_at(n_cases) != NULL)
        n_cases++;
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, every_op_is_whole_and_tested, 0, n_ops);
    tcase_add_loop_test(tc, values_are_those_of_a_naive_loop, 0, n_cases);
    tcase_add_loop_test(tc, no_type_gives_wrong_values, 0, n_cases);
    tcase_add_loop_test(tc, gradients_are_those_of_finite_differences, 0, n_cases);
    tcase_add_loop_test(tc, what_does_not_fit_is_refused_by_name, 0, N_BAD);
    tcase_add_loop_test(tc, every_constraint_has_a_refusal, 0, n_ops);
    suite_add_tcase(s, tc);
    tcase_set_timeout(limited, 60);
    tcase_add_loop_test(limited, integers_may_be_anything, 0, n_cases);
    suite_add_tcase(s, limited);
    return s;
}

TEST_MAIN(make_suite)
