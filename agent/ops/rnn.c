/* rnn.c - recurrent cells as one operation: LSTMBlockCell, BlockLSTM (a whole sequence),
 * GRUBlockCell, and their gradients.
 *
 * LSTM (Hochreiter & Schmidhuber 1997; peepholes: Gers & Schmidhuber 2000), for a batch x
 * (batch, inputs) and states cs_prev, h_prev (batch, cells):
 *     gates = [x h_prev] w + b,  (batch, 4 cells): i, ci, f, o; of BlockLSTMV2: i, f, ci, o
 *     i = sigmoid(i + cs_prev wci), f = sigmoid(f + forget_bias + cs_prev wcf), ci = tanh(ci)
 *     cs = ci i + cs_prev f, clipped to cell_clip if that is above 0
 *     o = sigmoid(o + cs wco), co = tanh(cs), h = o co
 * GRU (Cho et al. 2014):
 *     [r u] = sigmoid([x h_prev] w_ru + b_ru), c = tanh([x (h_prev r)] w_c + b_c)
 *     h = u h_prev + (1 - u) c
 *
 * Gradients after TensorFlow 1.13's contrib/rnn/python/ops/lstm_ops.py and gru_ops.py; those
 * of BlockLSTM after version 2's python/ops/rnn_grad.py.
 */
#include "agent/graph/import.h"
#include "agent/kernels/loops.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

/* ---- pieces of cells ---- */

static void apply(const char *type, float *x, int64_t n)
{
    kern_loop_find(type, DT_FLOAT)->fn(x, x, NULL, NULL, (size_t)n, 0);
}

/* to (batch, a + b) = [x y] */
static void join(float *to, const float *x, int64_t a, const float *y, int64_t b,
                 int64_t batch)
{
    for (int64_t i = 0; i < batch; i++, to += a + b) {
        memcpy(to, x + i * a, (size_t)a * sizeof(*to));
        memcpy(to + a, y + i * b, (size_t)b * sizeof(*to));
    }
}

/* y (batch, n) = x (batch, k) w (k, n) + bias; back: y = x w^T, of a w (n, k). */
static void multiply(float *y, const float *x, const float *w, const float *bias,
                     int64_t batch, int64_t n, int64_t k, int back)
{
    const struct dense d = {.m = batch,
                            .n = n,
                            .k = k,
                            .a = x,
                            .lda = k,
                            .b = w,
                            .ldb = back ? k : n,
                            .transposed_b = back,
                            .c = y,
                            .ldc = n,
                            .bias = bias};

    kern_loops()->dense(&d);
}

/* ---- LSTM ---- */

/* The outputs of a step, in the order of the operation's. */
enum { LSTM_I, LSTM_CS, LSTM_F, LSTM_O, LSTM_CI, LSTM_CO, LSTM_H, LSTM_OUTPUTS };

struct lstm {
    int64_t batch, inputs, cells;
    int peephole;
    float forget_bias, clip;
    int64_t at_ci,
        at_f; /* of these gates in a row of all gates; i and o are at 0 and 3 cells */
    const float *w, *wci, *wcf, *wco, *b;
    /* scratch */
    float *xh;    /* (batch, inputs + cells) */
    float *gates; /* (batch, 4 cells) */
    float *carry; /* (2, batch, cells): gradients of cs and h at the step before */
};

static int64_t lstm_floats(int64_t batch, int64_t inputs, int64_t cells, int carries)
{
    int64_t row, all;

    /* the sizes of w and of the states bound these numbers, but their product may not fit */
    if (__builtin_mul_overflow(carries ? 7 : 5, cells, &row) ||
        __builtin_add_overflow(inputs, row, &row) ||
        __builtin_mul_overflow(row, batch, &all))
        return -1;
    return all;
}

/* Inputs of all operations: x, cs_prev, h_prev, w, wci, wcf, wco, b from input `first` on. */
static int lstm_init(const struct kernel_args *a, int first, struct lstm *ret)
{
    struct tensor *const *in = a->in + first;
    const int own = operation_n_outputs(a->op);
    const struct shape *x = &in[0]->shape;
    struct lstm l = {.batch = x->dim[x->rank - 2],
                     .inputs = x->dim[x->rank - 1],
                     .cells = in[1]->shape.dim[1],
                     .peephole = (int)attr_int(a->op, "use_peephole"),
                     .forget_bias = float_attr(a->op, "forget_bias", 0),
                     .clip = float_attr(a->op, "cell_clip", 0),
                     .w = in[3]->data,
                     .wci = in[4]->data,
                     .wcf = in[5]->data,
                     .wco = in[6]->data,
                     .b = in[7]->data};
    const char *type = operation_type(a->op);
    const int is_v2 = type[strlen(type) - 1] == '2';

    l.at_ci = is_v2 ? 2 * l.cells : l.cells;
    l.at_f = is_v2 ? l.cells : 2 * l.cells;
    if (a->n_out > own) {
        l.xh = a->out[own]->data;
        l.gates = l.xh + l.batch * (l.inputs + l.cells);
        l.carry = l.gates + l.batch * 4 * l.cells;
    }
    *ret = l;
    return want_f32(a);
}

/* One row of a step, from its gates; out: of the row. */
static void lstm_row(const struct lstm *l, float *gates, const float *cs_prev,
                     float *const out[LSTM_OUTPUTS])
{
    const int64_t n = l->cells;
    float *cs = out[LSTM_CS];

    memcpy(out[LSTM_I], gates, (size_t)n * sizeof(float));
    memcpy(out[LSTM_CI], gates + l->at_ci, (size_t)n * sizeof(float));
    memcpy(out[LSTM_O], gates + 3 * n, (size_t)n * sizeof(float));
    for (int64_t c = 0; c < n; c++) {
        out[LSTM_F][c] = gates[l->at_f + c] + l->forget_bias;
        if (l->peephole) {
            out[LSTM_I][c] += cs_prev[c] * l->wci[c];
            out[LSTM_F][c] += cs_prev[c] * l->wcf[c];
        }
    }
    apply("Sigmoid", out[LSTM_I], n);
    apply("Sigmoid", out[LSTM_F], n);
    apply("Tanh", out[LSTM_CI], n);
    for (int64_t c = 0; c < n; c++) {
        cs[c] = out[LSTM_CI][c] * out[LSTM_I][c] + cs_prev[c] * out[LSTM_F][c];
        if (l->clip > 0)
            cs[c] = cs[c] > l->clip ? l->clip : cs[c] < -l->clip ? -l->clip : cs[c];
        if (l->peephole)
            out[LSTM_O][c] += cs[c] * l->wco[c];
    }
    memcpy(out[LSTM_CO], cs, (size_t)n * sizeof(float));
    apply("Sigmoid", out[LSTM_O], n);
    apply("Tanh", out[LSTM_CO], n);
    for (int64_t c = 0; c < n; c++)
        out[LSTM_H][c] = out[LSTM_O][c] * out[LSTM_CO][c];
}

/* A step of the whole batch; out: (batch, cells) each. */
static void lstm_step(const struct lstm *l, const float *x, const float *cs_prev,
                      const float *h_prev, float *const out[LSTM_OUTPUTS])
{
    float *row[LSTM_OUTPUTS];

    join(l->xh, x, l->inputs, h_prev, l->cells, l->batch);
    multiply(l->gates, l->xh, l->w, l->b, l->batch, 4 * l->cells, l->inputs + l->cells,
             0);
    for (int64_t i = 0; i < l->batch; i++) {
        for (int k = 0; k < LSTM_OUTPUTS; k++)
            row[k] = out[k] + i * l->cells;
        lstm_row(l, l->gates + i * 4 * l->cells, cs_prev + i * l->cells, row);
    }
}

static int kern_lstm_cell(const struct kernel_args *a)
{
    float *out[LSTM_OUTPUTS];
    struct lstm l;
    int rc = lstm_init(a, 0, &l);

    if (rc < 0 || tensor_elements(a->out[0]) == 0)
        return rc;
    for (int k = 0; k < LSTM_OUTPUTS; k++)
        out[k] = a->out[k]->data;
    lstm_step(&l, a->in[0]->data, a->in[1]->data, a->in[2]->data, out);
    return 0;
}

/* The number of steps that are computed: input seq_len_max, of `time`. */
static int64_t lstm_steps(const struct kernel_args *a, int64_t time)
{
    const int64_t n = tensor_int(a->in[0], 0);

    return n < 0 || n > time
               ? err_set(a->err, ERR_ARG, "%s: seq_len_max is %lld of %lld steps",
                         operation_name(a->op), (long long)n, (long long)time)
               : n;
}

static int kern_lstm_sequence(const struct kernel_args *a)
{
    const int64_t steps = lstm_steps(a, a->in[1]->shape.dim[0]);
    float *out[LSTM_OUTPUTS];
    struct lstm l;
    int rc = lstm_init(a, 1, &l);

    if (rc < 0 || steps < 0)
        return rc < 0 ? rc : ERR_ARG;
    for (int k = 0; k < LSTM_OUTPUTS; k++)
        clear(a->out[k]);
    for (int64_t t = 0; t < steps && tensor_elements(a->out[0]) > 0; t++) {
        const int64_t step = l.batch * l.cells;
        const float *cs = a->in[2]->data, *h = a->in[3]->data;

        for (int k = 0; k < LSTM_OUTPUTS; k++)
            out[k] = tensor_f32(a->out[k]) + t * step;
        lstm_step(&l, tensor_f32(a->in[1]) + t * l.batch * l.inputs,
                  t > 0 ? out[LSTM_CS] - step : cs, t > 0 ? out[LSTM_H] - step : h, out);
    }
    return 0;
}

/* ---- gradients of LSTM ---- */

struct lstm_back {
    const float *cs_prev, *out[LSTM_OUTPUTS]; /* of the step, (batch, cells) */
    const float *dcs, *dh, *more_dcs,
        *more_dh;              /* gradients; the latter are added, or NULL */
    float *dcs_prev, *dgates;  /* (batch, cells), (batch, 4 cells) */
    float *dwci, *dwcf, *dwco; /* added to, with peepholes */
};

/* The gradients of the gates and of cs_prev. */
static void lstm_step_back(const struct lstm *l, const struct lstm_back *s)
{
    for (int64_t i = 0; i < l->batch * l->cells; i++) {
        const int64_t c = i % l->cells;
        const float in = s->out[LSTM_I][i], f = s->out[LSTM_F][i], o = s->out[LSTM_O][i];
        const float ci = s->out[LSTM_CI][i], co = s->out[LSTM_CO][i];
        const float dh = s->dh[i] + (s->more_dh != NULL ? s->more_dh[i] : 0);
        const float d_o = o * (1 - o) * dh * co;
        float *gates = s->dgates + i / l->cells * 4 * l->cells;
        float dcs = (1 - co * co) * dh * o + s->dcs[i], di, df;

        if (s->more_dcs != NULL)
            dcs += s->more_dcs[i];
        if (l->peephole)
            dcs += d_o * l->wco[c];
        di = in * (1 - in) * dcs * ci;
        df = f * (1 - f) * dcs * s->cs_prev[i];
        gates[c] = di;
        gates[l->at_ci + c] = (1 - ci * ci) * dcs * in;
        gates[l->at_f + c] = df;
        gates[3 * l->cells + c] = d_o;
        s->dcs_prev[i] = dcs * f;
        if (!l->peephole)
            continue;
        s->dcs_prev[i] += di * l->wci[c] + df * l->wcf[c];
        s->dwci[c] += di * s->cs_prev[i];
        s->dwcf[c] += df * s->cs_prev[i];
        s->dwco[c] += d_o * s->out[LSTM_CS][i];
    }
}

/* in: the cell's 8 inputs, its outputs but h, cs_grad, h_grad; out: cs_prev_grad, dicfo,
 * wci_grad, wcf_grad, wco_grad */
static int kern_lstm_cell_grad(const struct kernel_args *a)
{
    struct lstm l;
    struct lstm_back s = {.cs_prev = a->in[1]->data,
                          .dcs = a->in[14]->data,
                          .dh = a->in[15]->data,
                          .dcs_prev = a->out[0]->data,
                          .dgates = a->out[1]->data,
                          .dwci = a->out[2]->data,
                          .dwcf = a->out[3]->data,
                          .dwco = a->out[4]->data};

    if (lstm_init(a, 0, &l) < 0)
        return ERR_UNSUPPORTED;
    for (int k = 0; k < LSTM_H; k++)
        s.out[k] = a->in[8 + k]->data;
    for (int k = 2; k < 5; k++)
        clear(a->out[k]);
    lstm_step_back(&l, &s);
    return 0;
}

/* Adds the gradients of w and b from those of the gates; xh is of the step. */
static void lstm_add_weights(const struct lstm *l, float *dw, float *db)
{
    const int64_t n = 4 * l->cells, k = l->inputs + l->cells;

    for (int64_t first = 0; first < l->batch; first += DENSE_BLOCK) {
        const int64_t rows =
            l->batch - first < DENSE_BLOCK ? l->batch - first : DENSE_BLOCK;
        const struct dense d = {.m = k,
                                .n = n,
                                .k = rows,
                                .a = l->xh + first * k,
                                .lda = k,
                                .transposed_a = 1,
                                .b = l->gates + first * n,
                                .ldb = n,
                                .c = dw,
                                .ldc = n,
                                .add = 1};

        kern_loops()->dense(&d);
    }
    for (int64_t i = 0; i < l->batch * n; i++)
        db[i % n] += l->gates[i];
}

/* in: seq_len_max, the 8 inputs, the 7 outputs, cs_grad, h_grad; out: the gradients of the 8
 * inputs, scratch */
static int kern_lstm_sequence_grad(const struct kernel_args *a)
{
    const int64_t time = a->in[1]->shape.dim[0], steps = lstm_steps(a, time);
    float *dx = a->out[0]->data;
    struct lstm l;
    struct lstm_back s = {.dcs_prev = a->out[1]->data,
                          .dwci = a->out[4]->data,
                          .dwcf = a->out[5]->data,
                          .dwco = a->out[6]->data};
    int rc = lstm_init(a, 1, &l);
    const int64_t step = l.batch * l.cells;

    if (rc < 0 || steps < 0)
        return rc < 0 ? rc : ERR_ARG;
    for (int k = 0; k < 8; k++)
        clear(a->out[k]);
    s.dgates = l.gates;
    for (int64_t t = steps - 1; t >= 0 && step > 0; t--) {
        const float *x = tensor_f32(a->in[1]) + t * l.batch * l.inputs, *h_prev;

        for (int k = 0; k < LSTM_OUTPUTS; k++)
            s.out[k] = tensor_f32(a->in[9 + k]) + t * step;
        s.cs_prev = t > 0 ? s.out[LSTM_CS] - step : a->in[2]->data;
        h_prev = t > 0 ? s.out[LSTM_H] - step : a->in[3]->data;
        s.dcs = tensor_f32(a->in[16]) + t * step;
        s.dh = tensor_f32(a->in[17]) + t * step;
        s.more_dcs = t < steps - 1 ? l.carry : NULL;
        s.more_dh = t < steps - 1 ? l.carry + step : NULL;
        lstm_step_back(&l, &s);
        memcpy(l.carry, s.dcs_prev, (size_t)step * sizeof(float));
        join(l.xh, x, l.inputs, h_prev, l.cells, l.batch);
        lstm_add_weights(&l, a->out[3]->data, a->out[7]->data);
        multiply(l.xh, l.gates, l.w, NULL, l.batch, l.inputs + l.cells, 4 * l.cells, 1);
        for (int64_t i = 0; i < l.batch; i++) {
            const float *row = l.xh + i * (l.inputs + l.cells);

            memcpy(dx + (t * l.batch + i) * l.inputs, row,
                   (size_t)l.inputs * sizeof(float));
            memcpy(l.carry + step + i * l.cells, row + l.inputs,
                   (size_t)l.cells * sizeof(float));
        }
    }
    if (steps > 0 && step > 0)
        memcpy(a->out[2]->data, l.carry + step, (size_t)step * sizeof(float));
    return 0;
}

/* ---- GRU ---- */

struct gru {
    int64_t batch, inputs, cells;
    float *joined; /* (batch, inputs + cells) */
    float *both;   /* (batch, 2 cells): r and u, or their gradients */
};

/* Inputs of both operations: x, h_prev, w_ru, w_c, b_ru, b_c. */
static int gru_init(const struct kernel_args *a, struct gru *ret)
{
    const int own = operation_n_outputs(a->op);

    *ret = (struct gru){.batch = a->in[0]->shape.dim[0],
                        .inputs = a->in[0]->shape.dim[1],
                        .cells = a->in[1]->shape.dim[1]};
    if (a->n_out > own) {
        ret->joined = a->out[own]->data;
        ret->both = ret->joined + ret->batch * (ret->inputs + ret->cells);
    }
    return want_f32(a);
}

static int64_t gru_scratch(const struct shape_args *args)
{
    return lstm_floats(args->in[0].dim[0], args->in[0].dim[1], args->in[1].dim[1], 0);
}

/* out: r, u, c, h, scratch */
static int kern_gru_cell(const struct kernel_args *a)
{
    const float *x = a->in[0]->data, *h_prev = a->in[1]->data;
    float *r = a->out[0]->data, *u = a->out[1]->data, *c = a->out[2]->data;
    float *h = a->out[3]->data;
    struct gru g;
    int rc = gru_init(a, &g);
    const int64_t n = g.cells, k = g.inputs + n;

    if (rc < 0 || tensor_elements(a->out[3]) == 0)
        return rc;
    join(g.joined, x, g.inputs, h_prev, n, g.batch);
    multiply(g.both, g.joined, a->in[2]->data, a->in[4]->data, g.batch, 2 * n, k, 0);
    apply("Sigmoid", g.both, g.batch * 2 * n);
    for (int64_t i = 0; i < g.batch * n; i++) {
        r[i] = g.both[i / n * 2 * n + i % n];
        u[i] = g.both[i / n * 2 * n + n + i % n];
        h[i] = h_prev[i] * r[i];
    }
    join(g.joined, x, g.inputs, h, n, g.batch);
    multiply(c, g.joined, a->in[3]->data, a->in[5]->data, g.batch, n, k, 0);
    apply("Tanh", c, g.batch * n);
    for (int64_t i = 0; i < g.batch * n; i++)
        h[i] = u[i] * h_prev[i] + (1 - u[i]) * c[i];
    return 0;
}

/* in: the cell's 6 inputs, r, u, c, d_h; out: d_x, d_h_prev, d_c_bar, d_r_bar_u_bar, scratch */
static int kern_gru_cell_grad(const struct kernel_args *a)
{
    const float *h_prev = a->in[1]->data, *r = a->in[6]->data, *u = a->in[7]->data;
    const float *c = a->in[8]->data, *dh = a->in[9]->data;
    float *dx = a->out[0]->data, *dh_prev = a->out[1]->data, *dc = a->out[2]->data;
    float *dru = a->out[3]->data;
    struct gru g;
    int rc = gru_init(a, &g);
    const int64_t n = g.cells, k = g.inputs + n;

    if (rc < 0 || g.batch == 0)
        return rc;
    for (int64_t i = 0; i < g.batch * n; i++)
        dc[i] = dh[i] * (1 - u[i]) * (1 - c[i] * c[i]);
    multiply(g.joined, dc, a->in[3]->data, NULL, g.batch, k, n, 1);
    for (int64_t i = 0; i < g.batch * n; i++) {
        const float d_hr = g.joined[i / n * k + g.inputs + i % n];
        float *row = dru + i / n * 2 * n;

        row[i % n] = d_hr * h_prev[i] * r[i] * (1 - r[i]);
        row[n + i % n] = dh[i] * (h_prev[i] - c[i]) * u[i] * (1 - u[i]);
        dh_prev[i] = d_hr * r[i] + dh[i] * u[i];
    }
    for (int64_t i = 0; i < g.batch * g.inputs; i++)
        dx[i] = g.joined[i / g.inputs * k + i % g.inputs];
    multiply(g.joined, dru, a->in[2]->data, NULL, g.batch, k, 2 * n, 1);
    for (int64_t i = 0; i < g.batch * n; i++)
        dh_prev[i] += g.joined[i / n * k + g.inputs + i % n];
    for (int64_t i = 0; i < g.batch * g.inputs; i++)
        dx[i] += g.joined[i / g.inputs * k + i % g.inputs];
    return 0;
}

/* ---- shapes ---- */

/* What the dimensions of the inputs stand for; -1: not known yet. */
struct sizes {
    int64_t time, batch, inputs, cells;
};

/* Dimension d of input i is `factor` times *size plus `more` (-1: unknown), which becomes
 * known by the first input that has it. */
static int agree(const struct shape_args *args, int i, int d, int64_t factor,
                 int64_t more, int64_t *size)
{
    const int64_t have = dim_of(&args->in[i], d), n = (have - more) / factor;

    if (have < 0 || more < 0)
        return 0;
    if (*size < 0 && have >= more)
        *size = n;
    return n == *size && (have - more) % factor == 0
               ? 0
               : err_set(args->err, ERR_SHAPE,
                         "dimension %d of input %d, %s, does not fit", d, i,
                         shape_text(&args->in[i]));
}

/* A letter for each dimension: t time, b batch, i inputs, c cells, 1, 2, 4: so many times
 * cells, w: inputs plus cells. */
static int agree_all(const struct shape_args *args, int first, const char *const *letters,
                     int n, struct sizes *s)
{
    int rc = 0;

    for (int i = 0; i < n; i++)
        for (int d = 0; rc == 0 && letters[i][d] != '\0'; d++)
            switch (letters[i][d]) {
            case 't':
                rc = agree(args, first + i, d, 1, 0, &s->time);
                break;
            case 'b':
                rc = agree(args, first + i, d, 1, 0, &s->batch);
                break;
            case 'i':
                rc = agree(args, first + i, d, 1, 0, &s->inputs);
                break;
            case 'w':
                rc = agree(args, first + i, d, 1, s->inputs, &s->cells);
                break;
            default:
                rc = agree(args, first + i, d, letters[i][d] - '0', 0, &s->cells);
            }
    return rc;
}

static const char *const cell_letters[] = {"bi", "b1", "b1", "w4", "1",  "1",
                                           "1",  "4",  "b1", "b1", "b1", "b1",
                                           "b1", "b1", "b1", "b1"};
static const char *const sequence_letters[] = {"tbi", "b1",  "b1",  "w4",  "1",   "1",
                                               "1",   "4",   "tb1", "tb1", "tb1", "tb1",
                                               "tb1", "tb1", "tb1", "tb1", "tb1"};
static const char *const gru_letters[] = {"bi", "b1", "w2", "w1", "2",
                                          "1",  "b1", "b1", "b1", "b1"};

static int fits(const struct shape_args *args, int carries, const struct sizes *s)
{
    return !args->is_planning || lstm_floats(s->batch, s->inputs, s->cells, carries) >= 0
               ? 0
               : err_set(args->err, ERR_SHAPE, "inputs %s are too large",
                         shape_text(&args->in[0]));
}

/* n times the number of cells; -1: unknown. */
static int64_t times(int64_t n, int64_t cells)
{
    return cells >= 0 && cells <= INT64_MAX / n ? n * cells : -1;
}

/* All results have a row of cells for each of the batch. */
static int cells_shape(const struct shape_args *args, const char *const *letters)
{
    struct sizes s = {-1, -1, -1, -1};
    int rc = agree_all(args, 0, letters, args->n_in, &s);

    for (int i = 0; i < operation_n_outputs(args->op); i++)
        args->out[i] = SHAPE(s.batch, s.cells);
    return rc < 0 ? rc : fits(args, 0, &s);
}

static int lstm_cell_shape(const struct shape_args *args)
{
    return cells_shape(args, cell_letters);
}

static int lstm_cell_grad_shape(const struct shape_args *args)
{
    struct sizes s = {-1, -1, -1, -1};
    int rc = agree_all(args, 0, cell_letters, args->n_in, &s);

    args->out[0] = SHAPE(s.batch, s.cells);
    args->out[1] = SHAPE(s.batch, times(4, s.cells));
    for (int i = 2; i < 5; i++)
        args->out[i] = SHAPE(s.cells);
    return rc;
}

static int lstm_sequence_shape(const struct shape_args *args)
{
    struct sizes s = {-1, -1, -1, -1};
    int rc = agree_all(args, 1, sequence_letters, args->n_in - 1, &s);

    for (int i = 0; i < LSTM_OUTPUTS; i++)
        args->out[i] = SHAPE(s.time, s.batch, s.cells);
    return rc < 0 ? rc : fits(args, 0, &s);
}

static int lstm_sequence_grad_shape(const struct shape_args *args)
{
    struct sizes s = {-1, -1, -1, -1};
    int rc = agree_all(args, 1, sequence_letters, args->n_in - 1, &s);

    for (int i = 0; i < 8; i++)
        args->out[i] = args->in[i + 1];
    return rc < 0 ? rc : fits(args, 1, &s);
}

static int64_t lstm_cell_scratch(const struct shape_args *args)
{
    return lstm_floats(args->in[0].dim[0], args->in[0].dim[1], args->in[1].dim[1], 0);
}

static int64_t lstm_sequence_scratch(const struct shape_args *args)
{
    return lstm_floats(args->in[1].dim[1], args->in[1].dim[2], args->in[2].dim[1],
                       operation_n_inputs(args->op) > 9);
}

static int gru_cell_shape(const struct shape_args *args)
{
    return cells_shape(args, gru_letters);
}

static int gru_cell_grad_shape(const struct shape_args *args)
{
    struct sizes s = {-1, -1, -1, -1};
    int rc = agree_all(args, 0, gru_letters, args->n_in, &s);

    args->out[0] = SHAPE(s.batch, s.inputs);
    args->out[1] = args->out[2] = SHAPE(s.batch, s.cells);
    args->out[3] = SHAPE(s.batch, times(2, s.cells));
    return rc < 0 ? rc : fits(args, 0, &s);
}

/* ---- gradients ---- */

static struct output grad_or_zeros(struct graph *g, struct operation *op, int i,
                                   const struct output *grad_out)
{
    return output_valid(grad_out[i]) ? grad_out[i] : zeros_as(g, output_of(op, i));
}

/* x^T y, the sum of the rows of y, and [x y] */
static struct output outer(struct graph *g, struct output x, struct output y)
{
    return matmul(g, x, y, 1, 0, NULL);
}

static struct output row_sums(struct graph *g, struct output x)
{
    return unary(g, "BiasAddGrad", x, NULL);
}

static struct output joined(struct graph *g, struct output x, struct output y)
{
    return concat(g, (const struct output[]){x, y}, 2, 1, NULL);
}

/* Columns first .. first + n - 1 of x (batch, ...); -1: a number that is not known. */
static struct output columns(struct graph *g, struct output x, int64_t batch,
                             int64_t first, int64_t n)
{
    const int32_t from[] = {0, (int32_t)first}, size[] = {(int32_t)batch, (int32_t)n};
    struct output begin = constant_i32s(g, from, 2, "Slice/begin");
    struct output sizes = constant_i32s(g, size, 2, "Slice/size");

    return ternary(g, "Slice", x, begin, sizes, NULL);
}

GRAD(lstm_cell_grad)
{
    const struct shape x = output_shape(input_of(op, 0)),
                       cs = output_shape(input_of(op, 1));
    struct output dcs = grad_or_zeros(g, op, LSTM_CS, grad_out), dxh, xh, dgates;
    struct output dh = grad_or_zeros(g, op, LSTM_H, grad_out);
    struct op_builder *b;
    struct operation *d;

    if (dim_of(&x, 1) < 0 || dim_of(&cs, 1) < 0)
        return graph_fail(g, ERR_SHAPE,
                          "%s: a gradient needs the numbers of inputs and cells",
                          operation_name(op));
    b = op_begin(g, "LSTMBlockCellGrad", NULL);
    for (int i = 0; i < 8; i++)
        op_input(b, input_of(op, i));
    for (int i = 0; i < LSTM_H; i++)
        op_input(b, output_of(op, i));
    op_input(b, dcs);
    op_input(b, dh);
    op_attr(b, operation_attr(op, "use_peephole"));
    d = op_finish(b);
    if (d == NULL)
        return -1;
    dgates = output_of(d, 1);
    dxh = matmul(g, dgates, input_of(op, 3), 0, 1, NULL);
    grad_in[0] = columns(g, dxh, dim_of(&x, 0), 0, dim_of(&x, 1));
    grad_in[1] = output_of(d, 0);
    grad_in[2] = columns(g, dxh, dim_of(&x, 0), dim_of(&x, 1), dim_of(&cs, 1));
    xh = joined(g, input_of(op, 0), input_of(op, 2));
    grad_in[3] = outer(g, xh, dgates);
    for (int i = 4; i < 7; i++)
        grad_in[i] = output_of(d, i - 2);
    grad_in[7] = row_sums(g, dgates);
    return grad_done(grad_in, 8);
}

/* All 18 inputs in their order: the rule of BlockLSTM and of BlockLSTMV2. */
GRAD(lstm_sequence_grad)
{
    const int is_v2 = operation_is(op, "BlockLSTMV2");
    struct output dcs = grad_or_zeros(g, op, LSTM_CS, grad_out);
    struct output dh = grad_or_zeros(g, op, LSTM_H, grad_out);
    struct op_builder *b = op_begin(g, is_v2 ? "BlockLSTMGradV2" : "BlockLSTMGrad", NULL);
    struct operation *d;

    for (int i = 0; i < 9; i++)
        op_input(b, input_of(op, i));
    for (int i = 0; i < LSTM_OUTPUTS; i++)
        op_input(b, output_of(op, i));
    op_input(b, dcs);
    op_input(b, dh);
    op_attr(b, operation_attr(op, "use_peephole"));
    d = op_finish(b);
    if (d == NULL)
        return -1;
    for (int i = 0; i < 8; i++)
        grad_in[i + 1] = output_of(d, i);
    return grad_done(grad_in + 1, 8);
}

GRAD(gru_cell_grad)
{
    struct output h_prev = input_of(op, 1), r = output_of(op, 0), xh, reset;
    struct output dh = grad_or_zeros(g, op, 3, grad_out);
    struct op_builder *b = op_begin(g, "GRUBlockCellGrad", NULL);
    struct operation *d;

    for (int i = 0; i < 6; i++)
        op_input(b, input_of(op, i));
    for (int i = 0; i < 3; i++)
        op_input(b, output_of(op, i));
    op_input(b, dh);
    d = op_finish(b);
    if (d == NULL)
        return -1;
    grad_in[0] = output_of(d, 0);
    grad_in[1] = output_of(d, 1);
    xh = joined(g, input_of(op, 0), h_prev);
    grad_in[2] = outer(g, xh, output_of(d, 3));
    grad_in[4] = row_sums(g, output_of(d, 3));
    reset = binary(g, "Mul", h_prev, r, "mul");
    grad_in[3] = outer(g, joined(g, input_of(op, 0), reset), output_of(d, 2));
    grad_in[5] = row_sums(g, output_of(d, 2));
    return grad_done(grad_in, 6);
}

/* ---- the rows ---- */

#define WEIGHTS "cs_prev:T, h_prev:T, w:T, wci:T, wcf:T, wco:T, b:T"
#define STATES  "i:T, cs:T, f:T, o:T, ci:T, co:T"
#define BACK    "cs_grad:T, h_grad:T"
#define CLIP    "cell_clip:float=3, use_peephole:bool=false, T:float_type"
#define SEQUENCE_GRAD                                                                    \
    "seq_len_max:int64, x:T, " WEIGHTS ", " STATES ", h:T, " BACK                        \
    " -> x_grad:T, cs_prev_grad:T, h_prev_grad:T, w_grad:T, wci_grad:T, wcf_grad:T, "    \
    "wco_grad:T, b_grad:T; use_peephole:bool, T:float_type"
#define GRU "x:T, h_prev:T, w_ru:T, w_c:T, b_ru:T, b_c:T"

static const struct op_def rows[] = {
    {"LSTMBlockCell", 0, lstm_cell_shape, lstm_cell_grad, CALL(kern_lstm_cell),
     "x:T, " WEIGHTS " -> " STATES ", h:T; forget_bias:float=1, " CLIP,
     .ranks = "22221111", .scratch = lstm_cell_scratch},
    {"LSTMBlockCellGrad", OP_NO_GRADIENT, lstm_cell_grad_shape, NULL,
     CALL(kern_lstm_cell_grad),
     "x:T, " WEIGHTS ", " STATES ", " BACK " -> cs_prev_grad:T, dicfo:T, wci_grad:T, "
     "wcf_grad:T, wco_grad:T; use_peephole:bool, "
     "T:float_type",
     .ranks = "2222111122222222"},
    {"BlockLSTM", 0, lstm_sequence_shape, lstm_sequence_grad, CALL(kern_lstm_sequence),
     "seq_len_max:int64, x:T, " WEIGHTS " -> " STATES ", h:T; forget_bias:float=1, " CLIP,
     .ranks = "032221111", .scratch = lstm_sequence_scratch},
    {"BlockLSTMV2", 0, lstm_sequence_shape, lstm_sequence_grad, CALL(kern_lstm_sequence),
     "seq_len_max:int64, x:T, " WEIGHTS " -> " STATES
     ", h:T; cell_clip:float=0, use_peephole:bool=false, T:float_type",
     .ranks = "032221111", .scratch = lstm_sequence_scratch},
    {"BlockLSTMGrad", OP_NO_GRADIENT, lstm_sequence_grad_shape, NULL,
     CALL(kern_lstm_sequence_grad), SEQUENCE_GRAD, .ranks = "032221111333333333",
     .scratch = lstm_sequence_scratch},
    {"BlockLSTMGradV2", OP_NO_GRADIENT, lstm_sequence_grad_shape, NULL,
     CALL(kern_lstm_sequence_grad), SEQUENCE_GRAD, .ranks = "032221111333333333",
     .scratch = lstm_sequence_scratch},
    {"GRUBlockCell", 0, gru_cell_shape, gru_cell_grad, CALL(kern_gru_cell),
     GRU " -> r:T, u:T, c:T, h:T; T:float_type", .ranks = "222211",
     .scratch = gru_scratch},
    {"GRUBlockCellGrad", OP_NO_GRADIENT, gru_cell_grad_shape, NULL,
     CALL(kern_gru_cell_grad),
     GRU ", r:T, u:T, c:T, d_h:T -> d_x:T, d_h_prev:T, d_c_bar:T, d_r_bar_u_bar:T; "
         "T:float_type",
     .ranks = "2222112222", .scratch = gru_scratch},
};

const struct op_family ops_of_rnn = OP_FAMILY(rows);
