/* Compiled once for each instruction set, with DENSE as the name of the function: see
 * dense.h.
 *
 * C is divided into panels of TILE_VECS vectors (wider ones if C has few rows), and each
 * panel into tiles of a few rows. The sums of a tile stay in registers while the loop
 * over k runs. B is not packed as long as a panel of it fits in the first-level cache.
 * For larger products k is divided into parts and the panel of B is packed for each part;
 * between two parts the sums of a tile are stored in C, which does not change their
 * bits. */
#include "agent/kernels/dense.h"

#include "agent/kernels/vec.h"

void DENSE(const struct dense *d);
void DENSE_TRANSPOSE(float *dst, const float *src, int64_t n, int64_t k, int64_t ld);

#define PANEL     (VEC * TILE_VECS)
#define MOST_ROWS (2 * TILE_ROWS) /* rows of a tile one vector wide */
/* If C has few rows, a tile is wider instead, so that enough sums are computed in
 * parallel. */
#define MOST_VECS (TILE_VECS == 2 ? 8 : TILE_VECS)
#define FLAT_ROWS (VEC == 16 ? 3 : 2) /* rows of a tile four vectors wide */
#define PART      256                 /* length of a part of k */
/* rows of B further apart than this many floats compete for a few sets of the cache */
#define FAR_APART 128
#define MANY_ROWS 64 /* packing B pays if C has at least this many rows */
#define SHORT_SUM 8  /* up to this k, storing C takes most of the time */

/* A panel of B, restricted to one part of k. */
struct panel {
    const float *b;
    int64_t ldb;
    int64_t j, width; /* the columns of C that it contributes to */
    int64_t from, to; /* the part of k */
};

/* The compiler makes code for a tile of each form. */
struct form {
    int rows, vecs;
    int partial;      /* the last vector of a row is only partly used */
    int a_transposed; /* A is stored transposed */
};

typedef vec tile_sums[MOST_ROWS][MOST_VECS];

VEC_INLINE vec load(const float *p, int v, const struct form f, int64_t width)
{
    return f.partial && v == f.vecs - 1 ? vec_load_some(p + v * VEC, width - v * VEC)
                                        : vec_load(p + v * VEC);
}

VEC_INLINE void store(float *p, vec x, int v, const struct form f, int64_t width)
{
    if (f.partial && v == f.vecs - 1)
        vec_store_some(p + v * VEC, x, width - v * VEC);
    else
        vec_store(p + v * VEC, x);
}

/* Every form of a tile is compiled separately, so that its sums stay in registers. The
 * plain C version keeps them in memory anyway, and builds for tests alone (DENSE_COMPACT) may;
 * there, one function serves all forms, and compiles in a thirtieth of the time. */
#if defined(VEC_PLAIN) || defined(DENSE_COMPACT)
#define UNROLL(n)
#define TILE_INLINE static __attribute__((noinline))
#else
#define UNROLL(n)   _Pragma(#n)
#define TILE_INLINE VEC_INLINE
#endif
#define EACH_ROW UNROLL(GCC unroll 16) for (int r = 0; r < f.rows; r++)
#define EACH_VEC UNROLL(GCC unroll 8) for (int v = 0; v < f.vecs; v++)
#define EACH     EACH_ROW EACH_VEC
#define UNROLLED UNROLL(GCC unroll 4) /* the steps of k: up to 6 % less time */

VEC_INLINE void multiply(tile_sums x, const struct dense *d, const struct panel *p,
                         int64_t i, const struct form f)
{
    const int64_t row = f.a_transposed ? 1 : d->lda, step = f.a_transposed ? d->lda : 1;
    const float *a = d->a + i * row + p->from * step, *b = p->b;

    UNROLLED
    for (int64_t l = p->from; l < p->to; l++, a += step, b += p->ldb) {
        vec y[MOST_VECS];

        EACH_VEC y[v] = load(b, v, f, p->width);
        EACH_ROW
        {
            const vec same = vec_same(a[r * row]);

            EACH_VEC x[r][v] = vec_fma(same, y[v], x[r][v]);
        }
    }
}

/* Applies bias and activation to the sums, without storing them. */
VEC_INLINE void finish(tile_sums x, const struct dense *d, const struct panel *p,
                       int64_t i, const struct form f)
{
    const vec zero = vec_same(0), alpha = vec_same(d->alpha);
    const float *c = d->c + i * d->ldc + p->j;
    const float *feature =
        d->feature + (d->feature != NULL ? i * d->ld_feature + p->j : 0);

#define FEATURE load(feature + r * d->ld_feature, v, f, p->width)

    if (d->bias != NULL) {
        vec bias[MOST_VECS];

        EACH_VEC bias[v] = load(d->bias + p->j, v, f, p->width);
        EACH x[r][v] = vec_add(x[r][v], bias[v]);
    }
    switch (d->after) {
    case DENSE_AS_IS:
        break;
    case DENSE_RELU:
        EACH x[r][v] = vec_relu(x[r][v]);
        break;
    case DENSE_LEAKY_RELU:
        EACH x[r][v] = vec_pick_positive(x[r][v], x[r][v], vec_mul(x[r][v], alpha));
        break;
    case DENSE_RELU_GRAD:
        EACH x[r][v] = vec_pick_positive(FEATURE, x[r][v], zero);
        break;
    case DENSE_LEAKY_RELU_GRAD:
        EACH x[r][v] = vec_pick_positive(FEATURE, x[r][v], vec_mul(x[r][v], alpha));
        break;
    }
    if (d->add)
        EACH x[r][v] = vec_add(load(c + r * d->ldc, v, f, p->width), x[r][v]);
#undef FEATURE
}

TILE_INLINE void tile(const struct dense *d, const struct panel *p, int64_t i, vec *sums,
                      const struct form f)
{
    float *c = d->c + i * d->ldc + p->j;
    tile_sums x;

    EACH x[r][v] = p->from == 0 ? vec_same(0) : load(c + r * d->ldc, v, f, p->width);
    multiply(x, d, p, i, f);
    if (p->to == d->k) {
        finish(x, d, p, i, f);
        if (d->column_sums != NULL)
            EACH sums[v] = vec_add(sums[v], x[r][v]);
    }
    EACH store(c + r * d->ldc, x[r][v], v, f, p->width);
}

VEC_INLINE void put_sums(const struct dense *d, const struct panel *p, const vec *sums,
                         const struct form f)
{
    float *to = d->column_sums + p->j;

    EACH_VEC
    {
        const vec x = d->add_sums ? vec_add(load(to, v, f, p->width), sums[v]) : sums[v];

        store(to, x, v, f, p->width);
    }
}

/* Computes all rows of C in a panel. The rows left after the last full tiles are divided
 * so that no tile has only one or two rows: such tiles do not keep the arithmetic units
 * busy. */
VEC_INLINE void panel(const struct dense *d, const struct panel *p, struct form f,
                      const int most)
{
    vec sums[TILE_VECS];
    int64_t i = 0;

    EACH_VEC sums[v] = vec_same(0);
#define ROWS(n) (f.rows = (n), tile(d, p, i, sums, f), i += (n))
    while (d->m - i >= most + 3 || d->m - i == most)
        ROWS(most);
    while (d->m - i > 8)
        ROWS(6);
    if (d->m - i == 7 || (d->m - i == 8 && most < 8))
        ROWS(4);
    switch (d->m - i) {
    case 1:
        ROWS(1);
        break;
    case 2:
        ROWS(2);
        break;
    case 3:
        ROWS(3);
        break;
    case 4:
        ROWS(4);
        break;
    case 5:
        ROWS(5);
        break;
    case 6:
        ROWS(6);
        break;
    case 8:
        ROWS(8);
        break;
    default:
        break;
    }
#undef ROWS
    if (d->column_sums != NULL && p->to == d->k)
        put_sums(d, p, sums, f);
}

#define PANEL_FORM(name, vecs_, partial_, a_transposed_, most_)                          \
    static void name(const struct dense *d, const struct panel *p)                       \
    {                                                                                    \
        const struct form f = {                                                          \
            .vecs = vecs_, .partial = partial_, .a_transposed = a_transposed_};          \
        panel(d, p, f, most_);                                                           \
    }
PANEL_FORM(panel_full, TILE_VECS, 0, 0, TILE_ROWS)
PANEL_FORM(panel_wide, TILE_VECS, 1, 0, TILE_ROWS)
PANEL_FORM(panel_narrow, 1, 1, 0, MOST_ROWS)
PANEL_FORM(transposed_full, TILE_VECS, 0, 1, TILE_ROWS)
PANEL_FORM(transposed_wide, TILE_VECS, 1, 1, TILE_ROWS)
PANEL_FORM(transposed_narrow, 1, 1, 1, MOST_ROWS)

#if TILE_VECS == 2
/* Computes all rows of C in a panel if C has few rows: in tiles of up to FLAT_ROWS rows
 * and four vectors, or of one row and eight vectors. */
VEC_INLINE void flat(const struct dense *d, const struct panel *p, struct form f)
{
    vec sums[MOST_VECS];

    EACH_VEC sums[v] = vec_same(0);
#define ROWS(n) (f.rows = (n), tile(d, p, 0, sums, f))
    if (d->m == 1)
        ROWS(1);
    else if (d->m == 2 && f.vecs == 4)
        ROWS(2);
    else if (f.vecs == 4)
        ROWS(3);
#undef ROWS
    if (d->column_sums != NULL && p->to == d->k)
        put_sums(d, p, sums, f);
}

#define FLAT_FORM(name, vecs_, a_transposed_)                                            \
    static void name(const struct dense *d, const struct panel *p)                       \
    {                                                                                    \
        const struct form f = {.vecs = vecs_, .a_transposed = a_transposed_};            \
        flat(d, p, f);                                                                   \
    }
FLAT_FORM(flat_four, 4, 0)
FLAT_FORM(flat_eight, 8, 0)
FLAT_FORM(transposed_four, 4, 1)
FLAT_FORM(transposed_eight, 8, 1)
#endif

static void one_panel(const struct dense *d, const struct panel *p)
{
    typedef void (*panel_fn)(const struct dense *d, const struct panel *p);
    static const panel_fn forms[2][3] = {
        {panel_narrow, panel_wide, panel_full},
        {transposed_narrow, transposed_wide, transposed_full}};
#if TILE_VECS == 2
    if (p->width == 4 * VEC) {
        (d->transposed_a ? transposed_four : flat_four)(d, p);
        return;
    }
    if (p->width == 8 * VEC) {
        (d->transposed_a ? transposed_eight : flat_eight)(d, p);
        return;
    }
#endif
    const int width = p->width == PANEL ? 2 : p->width > VEC * (TILE_VECS - 1) ? 1 : 0;

    forms[d->transposed_a != 0][width](d, p);
}

/* ---- C by panels ---- */

/* The width of the next panel: a full panel, or the columns that remain. The last vector
 * of a panel may be only partly used. */
static int64_t next_width(const struct dense *d, int64_t left, int packs)
{
    if (TILE_VECS == 2 && !packs) {
        if (d->m == 1 && left >= 8 * VEC)
            return 8 * VEC;
        if (d->m <= FLAT_ROWS && left >= 4 * VEC)
            return 4 * VEC;
    }
    if (left > VEC * (TILE_VECS - 1))
        return left < PANEL ? left : PANEL;
    return left < VEC ? left : VEC;
}

/* Packs b (k, n) to dst (k, PANEL); columns from `width` on are zero. */
static void pack(float *dst, const float *b, int64_t ldb, int64_t k, int64_t width)
{
    for (int64_t l = 0; l < k; l++, dst += PANEL, b += ldb)
        for (int v = 0; v < TILE_VECS; v++) {
            const int64_t left = width - v * VEC;

            if (left >= VEC)
                vec_store(dst + v * VEC, vec_load(b + v * VEC));
            else if (left > 0)
                vec_store(dst + v * VEC, vec_load_some(b + v * VEC, left));
        }
}

/* dst (k, n), whose rows lie `to` elements apart, becomes the transpose of src (n, k),
 * whose rows lie `ld` elements apart. */
static void transpose(float *dst, int64_t to, const float *src, int64_t ld, int64_t n,
                      int64_t k)
{
    for (int64_t j = 0; j < n; j += VEC, dst += VEC, src += VEC * ld) {
        int64_t l = 0;

        for (; j + VEC <= n && l + 4 <= k; l += 4) {
            vec x[4];

            vec_load_transposed(x, src + l, ld);
            for (int q = 0; q < 4; q++)
                vec_store(dst + (l + q) * to, x[q]);
        }
        for (; l < k; l++)
            for (int64_t c = 0; c < VEC && j + c < n; c++)
                dst[l * to + c] = src[c * ld + l];
    }
}

void DENSE_TRANSPOSE(float *dst, const float *src, int64_t n, int64_t k, int64_t ld)
{
    transpose(dst, n, src, ld, n, k);
}

static void pack_panel(float *dst, const struct dense *d, const struct panel *p)
{
    const int64_t k = p->to - p->from;

    if (d->transposed_b)
        transpose(dst, PANEL, d->b + p->j * d->ldb + p->from, d->ldb, p->width, k);
    else
        pack(dst, d->b + p->from * d->ldb + p->j, d->ldb, k, p->width);
}

/* A product that is added to C (d->add) is never divided into parts: its k is at most
 * DENSE_BLOCK. */
static void by_panels(const struct dense *d)
{
    const int packs = d->transposed_b || (d->m >= MANY_ROWS && d->ldb >= FAR_APART);

    _Alignas(64) float packed[PART * PANEL];
    struct panel p = {0};

    do {
        p.to = packs && d->k - p.from > PART ? p.from + PART : d->k;
        for (p.j = 0; p.j < d->n; p.j += p.width) {
            p.width = next_width(d, d->n - p.j, packs);
            p.b = d->b + p.from * d->ldb + p.j;
            p.ldb = d->ldb;
            if (packs) {
                pack_panel(packed, d, &p);
                p.b = packed;
                p.ldb = PANEL;
            }
            one_panel(d, &p);
        }
        p.from = p.to;
    } while (p.from < d->k);
}

/* ---- few columns ---- */

/* If C has few columns, the lanes of a vector hold rows of C, and columns of A are
 * transposed in registers. That costs less than vectors with most lanes unused. */
#define FEW 8

/* Loads one column of A; used for the last columns, of which fewer than four are left. */
VEC_INLINE vec load_column(const float *a, int64_t lda)
{
    float x[VEC];

    for (int r = 0; r < VEC; r++)
        x[r] = a[r * lda];
    return vec_load(x);
}

VEC_INLINE vec finish_column(vec x, const struct dense *d, int64_t j)
{
    if (d->bias != NULL)
        x = vec_add(x, vec_same(d->bias[j]));
    if (d->after == DENSE_RELU)
        x = vec_relu(x);
    if (d->after == DENSE_LEAKY_RELU)
        x = vec_pick_positive(x, x, vec_mul(x, vec_same(d->alpha)));
    return x;
}

VEC_INLINE void put_columns(const struct dense *d, int64_t i, const vec *x, const int n)
{
    float *c = d->c + i * d->ldc, column[FEW][VEC];

    for (int j = 0; j < n; j++)
        vec_store(n == 1 && d->ldc == 1 ? c : column[j], finish_column(x[j], d, j));
    if (n == 1 && d->ldc == 1)
        return;
    for (int r = 0; r < VEC; r++)
        for (int j = 0; j < n; j++)
            c[r * d->ldc + j] = column[j][r];
}

/* B with few columns; `down` and `across`: strides between its rows and columns. */
struct factors {
    const float *b;
    int64_t down, across;
};

/* x += the product of `count` columns y of A and as many rows of B, in order. */
VEC_INLINE void add_columns(vec *x, const vec *y, const int count, struct factors f,
                            const int n)
{
    UNROLL(GCC unroll 8)
    for (int q = 0; q < count; q++) {
        UNROLL(GCC unroll 8)
        for (int j = 0; j < n; j++)
            x[j] = vec_fma(y[q], vec_same(f.b[q * f.down + j * f.across]), x[j]);
    }
}

/* x += the product of the next 4 * `four` columns of VEC rows of A and those rows of
 * B. */
VEC_INLINE void few_steps(vec *x, const float *a, int64_t lda, struct factors f, int four,
                          const int n)
{
#if VEC == 16
    for (; four >= 2; four -= 2, a += 8, f.b += 8 * f.down) {
        vec y[8];

        vec_load_transposed_eight(y, a, lda);
        add_columns(x, y, 8, f, n);
    }
#endif
    for (; four > 0; four--, a += 4, f.b += 4 * f.down) {
        vec y[4];

        vec_load_transposed(y, a, lda);
        add_columns(x, y, 4, f, n);
    }
}

/* floats in a cache line: a group reads a whole line before the next group starts */
#define LINE 16

/* Computes `groups` * VEC rows from row i on. */
TILE_INLINE void few_rows(const struct dense *d, int64_t i, const int groups, const int n)
{
    const float *a = d->a + i * d->lda;
    const int64_t apart = VEC * d->lda;
    struct factors f = {d->b, d->transposed_b ? 1 : d->ldb, d->transposed_b ? d->ldb : 1};
    vec x[4][FEW];
    int64_t l = 0;

#define EACH_GROUP UNROLL(GCC unroll 4) for (int g = 0; g < groups; g++)
    EACH_GROUP for (int j = 0; j < n; j++) x[g][j] = vec_same(0);
    for (; l + LINE <= d->k; l += LINE, f.b += LINE * f.down)
        EACH_GROUP few_steps(x[g], a + g * apart + l, d->lda, f, LINE / 4, n);
    EACH_GROUP few_steps(x[g], a + g * apart + l, d->lda, f, (int)(d->k - l) / 4, n);
    f.b += (d->k - l) / 4 * 4 * f.down;
    for (l += (d->k - l) / 4 * 4; l < d->k; l++, f.b += f.down)
        EACH_GROUP
        {
            const vec y = load_column(a + g * apart + l, d->lda);

            for (int j = 0; j < n; j++)
                x[g][j] = vec_fma(y, vec_same(f.b[j * f.across]), x[g][j]);
        }
    EACH_GROUP put_columns(d, i + g * VEC, x[g], n);
#undef EACH_GROUP
}

/* The last group ends with the last row and may compute some rows a second time. */
VEC_INLINE void few_columns(const struct dense *d, const int groups, const int n)
{
    int64_t i = 0;

    for (; i + groups * VEC <= d->m; i += groups * VEC)
        few_rows(d, i, groups, n);
    for (; i < d->m; i += VEC)
        few_rows(d, i + VEC <= d->m ? i : d->m - VEC, 1, n);
}

/* With short vectors, several groups run at the same time, because each sum waits for the
 * one before it. With long vectors transposing takes longer than this wait, and several
 * groups would need more rows of A in the cache. */
#define GROUPS(n) (VEC == 16 ? 1 : (n))

static void columns(const struct dense *d)
{
    switch (d->n) {
    case 1:
        few_columns(d, GROUPS(4), 1);
        break;
    case 2:
        few_columns(d, GROUPS(2), 2);
        break;
    case 3:
        few_columns(d, GROUPS(2), 3);
        break;
    case 4:
        few_columns(d, GROUPS(2), 4);
        break;
    case 5:
        few_columns(d, 1, 5);
        break;
    case 6:
        few_columns(d, 1, 6);
        break;
    case 7:
        few_columns(d, 1, 7);
        break;
    default:
        few_columns(d, 1, 8);
        break;
    }
}

/* With long vectors and a short k, putting columns into rows takes longer than the sums. */
static int may_go_by_columns(const struct dense *d)
{
    return !d->transposed_a && d->n > 0 && d->n <= FEW && d->n < VEC && d->m >= VEC &&
           !d->add && (VEC < 16 || d->n < 5 || d->k > SHORT_SUM) &&
           d->column_sums == NULL && d->after != DENSE_RELU_GRAD &&
           d->after != DENSE_LEAKY_RELU_GRAD;
}

/* ---- few columns of a product with a transpose ---- */

#define STRIP 128 /* rows of C at a time */
#define DEEP  8   /* the smallest k for which exchanged() pays */

static void put_strip(const struct dense *d, int64_t i, const struct dense *t)
{
    for (int64_t r = 0; r < t->n; r++)
        for (int64_t j = 0; j < d->n; j++) {
            float *c = d->c + (i + r) * d->ldc + j;

            *c = d->add ? *c + t->c[j * t->ldc + r] : t->c[j * t->ldc + r];
        }
}

/* C^T = B^T A: the rows of A, which are contiguous, fill the lanes of the vectors. */
static void exchanged(const struct dense *d)
{
    float c[FEW * STRIP];
    struct dense t = {.m = d->n, .k = d->k, .ldc = STRIP, .c = c};

    t.a = d->b;
    t.lda = d->ldb;
    t.transposed_a = !d->transposed_b;
    t.ldb = d->lda;
    if (d->n == 1 && d->ldc == 1) { /* C is one column, which has the layout of a row */
        t.n = d->m;
        t.b = d->a;
        t.c = d->c;
        t.add = d->add;
        by_panels(&t);
        return;
    }
    for (int64_t i = 0; i < d->m; i += STRIP) {
        t.n = d->m - i < STRIP ? d->m - i : STRIP;
        t.b = d->a + i;
        by_panels(&t);
        put_strip(d, i, &t);
    }
}

static int may_be_exchanged(const struct dense *d)
{
    return d->transposed_a && d->n <= FEW && d->n < VEC && d->m > d->n &&
           (d->k >= DEEP || d->n == 1) && d->bias == NULL && d->column_sums == NULL &&
           d->after == DENSE_AS_IS;
}

/* ---- short sums, wide rows ---- */

#define WIDE        256 /* columns of C */
#define STRIP_ROWS  18  /* rows of C that are stored before the next ones */
#define TURNED_ROWS 36  /* the same if B is transposed anew for each strip */

/* If k is short, storing C takes most of the time. Storing one panel for all rows is then
 * far slower than storing all panels for a few rows, which touch only a few pages. Column
 * sums rule this out, since they would be added in another order. */
static int may_go_by_strips(const struct dense *d)
{
    return d->k <= SHORT_SUM && d->n >= WIDE && d->m > STRIP_ROWS &&
           d->column_sums == NULL;
}

static void by_strips(const struct dense *d)
{
    const int64_t rows = d->transposed_b ? TURNED_ROWS : STRIP_ROWS;
    struct dense t = *d;

    for (int64_t i = 0; i < d->m; i += t.m) {
        t.m = d->m - i < rows ? d->m - i : rows;
        by_panels(&t);
        t.a += t.m * (d->transposed_a ? 1 : d->lda);
        t.c += t.m * d->ldc;
        if (d->feature != NULL)
            t.feature += t.m * d->ld_feature;
    }
}

static void dense_choose(const struct dense *d)
{
    if (may_go_by_columns(d))
        columns(d);
    else if (may_be_exchanged(d))
        exchanged(d);
    else if (may_go_by_strips(d))
        by_strips(d);
    else
        by_panels(d);
}

/* The only row of a product x B^T is the column B x^T. */
static int is_row_of_transpose(const struct dense *d)
{
    return d->m == 1 && d->transposed_b && d->n >= VEC && d->bias == NULL && !d->add &&
           d->column_sums == NULL && d->after == DENSE_AS_IS;
}

void DENSE(const struct dense *d)
{
    struct dense one = *d;

#ifdef DENSE_CHECKED
    dense_check(d);
#endif
    if (d->n == 1 && d->transposed_b) { /* B^T has one row, so B is a contiguous column */
        one.transposed_b = 0;
        one.ldb = 1;
    } else if (d->k == 1 && d->ldb == 1 && d->transposed_b) { /* B^T is a row already */
        one.transposed_b = 0;
        one.ldb = d->n;
    } else if (is_row_of_transpose(d)) {
        one.m = d->n;
        one.n = 1;
        one.a = d->b;
        one.lda = d->ldb;
        one.b = d->a;
        one.ldb = d->transposed_a ? d->lda : 1;
        one.transposed_a = one.transposed_b = 0;
        one.ldc = 1;
    }
    dense_choose(&one);
}
