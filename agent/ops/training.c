/* training.c - the update ops of the optimisers, which change a variable and its slots in place,
 * in the session's block: of all elements, or of the rows that `indices` names, one after the
 * other.
 *
 * An op is a row of `steps`: agent/kernels/updates.h has the formulas. */
#include "agent/graph/signature.h"
#include "agent/kernels/loops.h"
#include "agent/kernels/updates.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>

/* ---- kernels ---- */

/* What the inputs of an op are: the variable and its slots; then scalars, and among them the
 * gradient, which `indices` follow if it is sparse. */
static const struct step {
    int n_variables;
    int grad;           /* number of the input */
    const char *option; /* the attribute that is `option` of the update */
} steps[N_UPDATES] = {
    [UPDATE_DESCENT] = {1, 2, NULL},
    [UPDATE_PROXIMAL_DESCENT] = {1, 4, NULL},
    [UPDATE_MOMENTUM] = {2, 3, "use_nesterov"},
    [UPDATE_KERAS_MOMENTUM] = {2, 3, "use_nesterov"},
    [UPDATE_RMS] = {3, 7, NULL},
    [UPDATE_RMS_CENTERED] = {4, 8, NULL},
    [UPDATE_ADAGRAD] = {2, 3, "update_slots"},
    [UPDATE_ADAGRAD_V2] = {2, 4, "update_slots"},
    [UPDATE_PROXIMAL_ADAGRAD] = {2, 5, NULL},
    [UPDATE_ADAGRAD_DA] = {3, 3, NULL},
    [UPDATE_ADADELTA] = {3, 6, NULL},
    [UPDATE_FTRL] = {3, 3, "multiply_linear_by_lr"},
    [UPDATE_FTRL_V2] = {3, 3, "multiply_linear_by_lr"},
    [UPDATE_ADAM] = {3, 9, "use_nesterov"},
    [UPDATE_ADAM_AMSGRAD] = {4, 10, NULL},
    [UPDATE_ADAMAX] = {3, 8, NULL},
    [UPDATE_ADD_SIGN] = {2, 6, NULL},
    [UPDATE_POWER_SIGN] = {2, 6, NULL},
};

static int is_sparse(const struct operation *op)
{
    return operation_attr(op, "Tindices") != NULL;
}

/* float32 Adam has a loop of its own for each instruction set. */
static void adam_f32(const struct update *u)
{
    const float power1 = (float)u->scalar[0], power2 = (float)u->scalar[1];
    const struct adam_args args = {
        .rate = (float)u->scalar[2] * sqrtf(1.0f - power2) / (1.0f - power1),
        .beta1 = (float)u->scalar[3],
        .beta2 = (float)u->scalar[4],
        .epsilon = (float)u->scalar[5],
        .nesterov = u->option,
    };

    kern_loops()->adam(u->variable[0], u->variable[1], u->variable[2], u->grad, u->n,
                       &args);
}

static update_fn find_update(enum update_kind kind, enum dtype dtype)
{
    if (dtype == DT_FLOAT)
        return kind == UPDATE_ADAM ? adam_f32 : updates_float[kind];
    return dtype == DT_DOUBLE ? updates_double[kind] : NULL;
}

/* Changes u->n elements of each variable from element `at` on. */
static void update_block(const struct kernel_args *a, update_fn fn, struct update *u,
                         int n_variables, int64_t at)
{
    const size_t offset = (size_t)at * dtype_size(a->in[0]->dtype);

    for (int i = 0; i < n_variables; i++)
        u->variable[i] = (char *)a->in[i]->data + offset;
    fn(u);
    for (int i = 0; fn != adam_f32 && i < n_variables; i++) { /* that one looks itself */
        struct tensor block =
            tensor_view(a->in[0]->dtype, SHAPE((int64_t)u->n), u->variable[i]);

        tensor_canonical_nans(&block);
    }
}

/* Row k of the gradient is for row indices[k] of the variables; a row may occur twice. */
static int update_rows(const struct kernel_args *a, update_fn fn, struct update *u,
                       const struct step *step)
{
    const struct tensor *var = a->in[0], *grad = a->in[step->grad];
    const struct tensor *indices = a->in[step->grad + 1];
    const int64_t n = tensor_elements(indices), rows = var->shape.dim[0];

    u->n = (size_t)span(&var->shape, 1, var->shape.rank);
    for (int pass = 0; pass < 2; pass++) /* an index that is wrong changes nothing */
        for (int64_t k = 0; k < n; k++) {
            const int64_t row = tensor_int(indices, k);

            if (row < 0 || row >= rows)
                return err_set(a->err, ERR_ARG, "%s: index %lld is not in [0, %lld)",
                               operation_name(a->op), (long long)row, (long long)rows);
            u->grad =
                (const char *)grad->data + (size_t)k * u->n * dtype_size(grad->dtype);
            if (pass == 1)
                update_block(a, fn, u, step->n_variables, row * (int64_t)u->n);
        }
    return 0;
}

/* Whether TensorFlow checks rates and penalties: of some optimisers, and of Ftrl only where its
 * gradient is sparse. */
static int is_checked(enum update_kind kind, int sparse)
{
    return kind == UPDATE_PROXIMAL_ADAGRAD ||
           (sparse && (kind == UPDATE_FTRL || kind == UPDATE_FTRL_V2));
}

/* lr, penalties, and of Ftrl lr_power */
static int check_scalars(const struct kernel_args *a, const struct update *u,
                         int n_scalars, int has_power)
{
    const double rate = u->scalar[0], power = u->scalar[n_scalars - 1];

    if (!(rate > 0 || (u->option && rate == 0))) /* multiply_linear_by_lr: no division */
        return err_set(a->err, ERR_ARG, "%s: lr must be positive, but is %g",
                       operation_name(a->op), rate);
    for (int i = 1; i < n_scalars - has_power; i++)
        if (!(u->scalar[i] >= 0))
            return err_set(a->err, ERR_ARG,
                           "%s: l1 and l2 must not be negative, but one is %g",
                           operation_name(a->op), u->scalar[i]);
    if (has_power && !(power <= 0))
        return err_set(a->err, ERR_ARG, "%s: lr_power must not be positive, but is %g",
                       operation_name(a->op), power);
    return 0;
}

static int apply(const struct kernel_args *a, enum update_kind kind)
{
    const struct step *step = &steps[kind];
    const update_fn fn = find_update(kind, a->in[0]->dtype);
    struct update u = {.is_sparse = is_sparse(a->op), .grad = a->in[step->grad]->data};
    int n_scalars = 0;

    if (fn == NULL)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                       operation_type(a->op), dtype_name(a->in[0]->dtype));
    for (int i = step->n_variables; i < a->n_in; i++)
        if (i != step->grad && !(u.is_sparse && i == step->grad + 1))
            u.scalar[n_scalars++] = tensor_number(a->in[i], 0);
    u.option = step->option != NULL && attr_int(a->op, step->option) != 0;
    if (is_checked(kind, u.is_sparse) &&
        check_scalars(a, &u, n_scalars, kind != UPDATE_PROXIMAL_ADAGRAD) != 0)
        return ERR_ARG;
    if (u.is_sparse)
        return update_rows(a, fn, &u, step);
    u.n = (size_t)tensor_elements(a->in[0]);
    update_block(a, fn, &u, step->n_variables, 0);
    return 0;
}

#define KERNEL_OF(name, kind)                                                            \
    static int name(const struct kernel_args *a)                                         \
    {                                                                                    \
        return apply(a, kind);                                                           \
    }
KERNEL_OF(descent, UPDATE_DESCENT)
KERNEL_OF(proximal_descent, UPDATE_PROXIMAL_DESCENT)
KERNEL_OF(momentum, UPDATE_MOMENTUM)
KERNEL_OF(keras_momentum, UPDATE_KERAS_MOMENTUM)
KERNEL_OF(rms, UPDATE_RMS)
KERNEL_OF(rms_centered, UPDATE_RMS_CENTERED)
KERNEL_OF(adagrad, UPDATE_ADAGRAD)
KERNEL_OF(adagrad_v2, UPDATE_ADAGRAD_V2)
KERNEL_OF(proximal_adagrad, UPDATE_PROXIMAL_ADAGRAD)
KERNEL_OF(adagrad_da, UPDATE_ADAGRAD_DA)
KERNEL_OF(adadelta, UPDATE_ADADELTA)
KERNEL_OF(ftrl, UPDATE_FTRL)
KERNEL_OF(ftrl_v2, UPDATE_FTRL_V2)
KERNEL_OF(adam, UPDATE_ADAM)
KERNEL_OF(adam_amsgrad, UPDATE_ADAM_AMSGRAD)
KERNEL_OF(adamax, UPDATE_ADAMAX)
KERNEL_OF(add_sign, UPDATE_ADD_SIGN)
KERNEL_OF(power_sign, UPDATE_POWER_SIGN)

/* ---- shapes ---- */

/* The number of the input that is the gradient, called `grad` or `delta`. */
static int gradient_input(const struct operation *op)
{
    const struct signature_arg *in = operation_signature(op)->in;
    int i = 0;

    while (!span_is(in[i].name, "grad") && !span_is(in[i].name, "delta"))
        i++;
    return i;
}

/* A sparse gradient has a row for each index. */
static int rows_shape(const struct shape_args *args, int gradient,
                      const struct shape *var)
{
    const struct shape *indices = &args->in[gradient + 1];
    struct shape rows = *var;

    if (var->rank == 0)
        return err_set(args->err, ERR_SHAPE, "the variable is a scalar, without rows");
    if (want_rank(args, gradient + 1, 1) != 0)
        return ERR_SHAPE;
    if (var->rank < 0)
        return 0;
    rows.dim[0] = dim_of(indices, 0);
    if (shape_compatible(&args->in[gradient], &rows))
        return 0;
    return err_set(args->err, ERR_SHAPE,
                   "input %d is %s for %s indices, but the variable is %s", gradient,
                   shape_text(&args->in[gradient]), shape_text(indices), shape_text(var));
}

/* The variable, its slots and a dense gradient have the same shape; all other inputs are
 * scalars. */
static int apply_shape(const struct shape_args *args)
{
    const int gradient = gradient_input(args->op), sparse = is_sparse(args->op);
    struct shape all = SHAPE_UNKNOWN;

    for (int i = 0; i < args->n_in; i++) {
        const struct output x = operation_input(args->op, i);
        const int is_variable = output_is_ref(x) || output_dtype(x) == DT_RESOURCE;
        struct shape s = args->in[i];

        if (sparse && (i == gradient || i == gradient + 1))
            continue;
        if (i != gradient && !is_variable) {
            if (want_rank(args, i, 0) != 0)
                return ERR_SHAPE;
            continue;
        }
        if (is_variable && variable_shape(args, i, "T", &s) != 0)
            return ERR_DTYPE;
        if (shape_merge(&all, &s, &all) != 0)
            return err_set(args->err, ERR_SHAPE, "input %d is %s, but the variable is %s",
                           i, shape_text(&s), shape_text(&all));
    }
    if (sparse && rows_shape(args, gradient, &all) != 0)
        return ERR_SHAPE;
    if (operation_n_outputs(args->op) > 0)
        args->out[0] = all;
    return 0;
}

/* ---- the rows ---- */

#define WRITES_VARIABLES OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT

/* An op that is given variables by reference, and one that is given handles. */
#define BY_REFERENCE(type, flags, kernel, inputs, attrs)                                 \
    {                                                                                    \
        type, WRITES_VARIABLES | flags, apply_shape, NULL, CALL(kernel),                 \
            inputs " -> out:&T; T:number_type, " attrs                                   \
    }
#define BY_HANDLE(type, flags, kernel, inputs, attrs)                                    \
    {                                                                                    \
        "Resource" type, WRITES_VARIABLES | flags, apply_shape, NULL, CALL(kernel),      \
            inputs " ->; T:number_type, " attrs                                          \
    }
#define LOCKING         "use_locking:bool=false"
#define LOCKING_INDICES "Tindices:index_type, " LOCKING

/* variables: a macro of the type of the variables; before, after: what comes before and after
 * the gradient; attrs: besides use_locking */
#define DENSE(type, flags, kernel, variables, before, grad, after, attrs)                \
    BY_REFERENCE("Apply" type, flags, kernel, variables("&T") before grad ":T" after,    \
                 LOCKING attrs),                                                         \
        BY_HANDLE("Apply" type, flags, kernel,                                           \
                  variables("resource") before grad ":T" after, LOCKING attrs)
#define SPARSE(type, flags, kernel, variables, before, after, attrs)                     \
    BY_REFERENCE("SparseApply" type, flags | OP_WRITES_PARTS, kernel,                    \
                 variables("&T") before "grad:T, indices:Tindices" after,                \
                 LOCKING_INDICES attrs),                                                 \
        BY_HANDLE("SparseApply" type, flags | OP_WRITES_PARTS, kernel,                   \
                  variables("resource") before "grad:T, indices:Tindices" after,         \
                  LOCKING_INDICES attrs)
#define BOTH(type, flags, kernel, variables, before, after, attrs)                       \
    DENSE(type, flags, kernel, variables, before, "grad", after, attrs),                 \
        SPARSE(type, flags, kernel, variables, before, after, attrs)

#define VAR(t)           "var:" t ", "
#define VAR_ACCUM(t)     VAR(t) "accum:" t ", "
#define VAR_MS_MOM(t)    VAR(t) "ms:" t ", mom:" t ", "
#define VAR_MG_MS_MOM(t) VAR(t) "mg:" t ", ms:" t ", mom:" t ", "
#define VAR_M(t)         VAR(t) "m:" t ", "
#define VAR_M_V(t)       VAR(t) "m:" t ", v:" t ", "
#define VAR_M_V_VHAT(t)  VAR_M_V(t) "vhat:" t ", "
#define VAR_SQUARES(t)   VAR_ACCUM(t) "accum_update:" t ", "
#define VAR_LINEAR(t)    VAR_ACCUM(t) "linear:" t ", "
#define VAR_SUMS(t)                                                                      \
    VAR(t) "gradient_accumulator:" t ", gradient_squared_accumulator:" t ", "

#define NESTEROV ", use_nesterov:bool=false"
#define SLOTS    ", update_slots:bool=true"
#define BY_LR    ", multiply_linear_by_lr:bool=false"
#define RATES    "beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, epsilon:T, "
#define RMS      "lr:T, rho:T, momentum:T, epsilon:T, "

static const struct op_def rows[] = {
    DENSE("GradientDescent", 0, descent, VAR, "alpha:T, ", "delta", "", ""),
    DENSE("ProximalGradientDescent", 0, proximal_descent, VAR, "alpha:T, l1:T, l2:T, ",
          "delta", "", ""),
    SPARSE("ProximalGradientDescent", 0, proximal_descent, VAR, "alpha:T, l1:T, l2:T, ",
           "", ""),
    BOTH("Momentum", 0, momentum, VAR_ACCUM, "lr:T, ", ", momentum:T", NESTEROV),
    BY_HANDLE("ApplyKerasMomentum", 0, keras_momentum,
              VAR_ACCUM("resource") "lr:T, grad:T, momentum:T", LOCKING NESTEROV),
    BY_HANDLE("SparseApplyKerasMomentum", OP_WRITES_PARTS, keras_momentum,
              VAR_ACCUM("resource") "lr:T, grad:T, indices:Tindices, momentum:T",
              LOCKING_INDICES NESTEROV),
    BOTH("RMSProp", 0, rms, VAR_MS_MOM, RMS, "", ""),
    BOTH("CenteredRMSProp", 0, rms_centered, VAR_MG_MS_MOM, RMS, "", ""),
    BOTH("Adagrad", 0, adagrad, VAR_ACCUM, "lr:T, ", "", SLOTS),
    BOTH("AdagradV2", 0, adagrad_v2, VAR_ACCUM, "lr:T, epsilon:T, ", "", SLOTS),
    BOTH("ProximalAdagrad", 0, proximal_adagrad, VAR_ACCUM, "lr:T, l1:T, l2:T, ", "", ""),
    BOTH("AdagradDA", 0, adagrad_da, VAR_SUMS, "",
         ", lr:T, l1:T, l2:T, global_step:int64", ""),
    BOTH("Adadelta", 0, adadelta, VAR_SQUARES, "lr:T, rho:T, epsilon:T, ", "", ""),
    BOTH("Ftrl", OP_LIBM, ftrl, VAR_LINEAR, "", ", lr:T, l1:T, l2:T, lr_power:T", BY_LR),
    BOTH("FtrlV2", OP_LIBM, ftrl_v2, VAR_LINEAR, "",
         ", lr:T, l1:T, l2:T, l2_shrinkage:T, lr_power:T", BY_LR),
    DENSE("Adam", 0, adam, VAR_M_V, RATES, "grad", "", NESTEROV),
    BY_HANDLE("ApplyAdamWithAmsgrad", 0, adam_amsgrad,
              VAR_M_V_VHAT("resource") RATES "grad:T", LOCKING),
    DENSE("AdaMax", 0, adamax, VAR_M_V,
          "beta1_power:T, lr:T, beta1:T, beta2:T, epsilon:T, ", "grad", "", ""),
    DENSE("AddSign", 0, add_sign, VAR_M, "lr:T, alpha:T, sign_decay:T, beta:T, ", "grad",
          "", ""),
    DENSE("PowerSign", OP_LIBM_DOUBLE, power_sign, VAR_M,
          "lr:T, logbase:T, sign_decay:T, beta:T, ", "grad", "", ""),
};

const struct op_family ops_of_training = OP_FAMILY(rows);
