/* saver_help.h - a Saver of two variables, in a folder: for the tests of agent/saver. */
#ifndef TESTS_AGENT_SAVER_HELP_H
#define TESTS_AGENT_SAVER_HELP_H

#include "agent/graph/ops.h"
#include "agent/saver/saver.h"
#include "common/mem/xmalloc.h"
#include "tests/agent/session_help.h"
#include "tests/support/temp_dir.h"

#include <string.h>

/* A graph of two variables, v1 [3] of zeros and v2 [5] of sixes, and a folder. */
struct fixture {
    struct bed bed;
    struct variable *v1, *v2;
    struct saver *saver;
    struct temp_dir dir;
    double clock;
    struct err err;
};

static inline double clock_of(void *ctx)
{
    return *(double *)ctx;
}

static inline struct variable *vector(struct graph *g, const char *name, int64_t n,
                                      double value)
{
    struct shape shape = SHAPE(n);
    struct variable *v;

    name_scope_enter(g, "values");
    v = variable_new(g,
                     binary(g, "Fill", constant_i32s(g, (int32_t[]){(int32_t)n}, 1, NULL),
                            constant_like(g, DT_FLOAT, value, NULL), NULL),
                     name, 0);
    name_scope_leave(g);
    ck_assert_msg(v != NULL && shape_equal(&v->shape, &shape), "%s",
                  graph_error(g) != NULL ? graph_error(g)->msg : "");
    return v;
}

static inline void setup_with(struct fixture *f, struct saver_options o)
{
    bed_init(&f->bed);
    name_scope_enter(f->bed.g, "");
    f->v1 = vector(f->bed.g, "v1", 3, 0.0);
    f->v2 = vector(f->bed.g, "v2", 5, 6.0);
    bed_init_variables(&f->bed);
    temp_dir_init(&f->dir);
    f->clock = 1000.0;
    o.now = clock_of;
    o.now_ctx = &f->clock;
    ck_assert_msg(saver_new(&f->saver, f->bed.g, &o, &f->err) == 0, "%s", f->err.msg);
}

static inline void setup(struct fixture *f)
{
    *f = (struct fixture){0};
    setup_with(f, SAVER_DEFAULTS);
}

static inline void teardown(struct fixture *f)
{
    saver_free(f->saver);
    bed_done(&f->bed);
    temp_dir_done(&f->dir);
}

static inline void save(struct fixture *f, const char *name,
                        const struct saver_save_options *o, const char *want_prefix)
{
    char *path = xasprintf("%s/%s", f->dir.path, name), *prefix;
    char *want = xasprintf("%s/%s", f->dir.path, want_prefix);

    ck_assert_msg(saver_save(f->saver, f->bed.s, path, o, &prefix, &f->err) == 0, "%s",
                  f->err.msg);
    ck_assert_str_eq(prefix, want);
    free(prefix);
    free(path);
    free(want);
}

static inline void save_step(struct fixture *f, int64_t step)
{
    struct saver_save_options o = {.has_step = 1, .step = step};
    char *want = xasprintf("model.ckpt-%lld", (long long)step);

    save(f, "model.ckpt", &o, want);
    free(want);
}

static inline int there(struct fixture *f, const char *name)
{
    return access(temp_dir_file(&f->dir, name), F_OK) == 0;
}

/* Checks that all four files of a checkpoint exist, or none. */
static inline void check_files(struct fixture *f, const char *prefix, int want)
{
    static const char *const suffixes[] = {".index", ".data-00000-of-00001", ".meta"};

    for (int i = 0; i < 3; i++) {
        char *name = xasprintf("%s%s", prefix, suffixes[i]);

        ck_assert_msg(there(f, name) == want, "%s", name);
        free(name);
    }
}

static inline void check_state(struct fixture *f, const char *want)
{
    char *text = temp_dir_read(temp_dir_file(&f->dir, "checkpoint"), NULL);

    ck_assert_str_eq(text, want);
    free(text);
}

static inline void check_value(struct fixture *f, struct variable *v, float want)
{
    struct tensor t;

    ck_assert_int_eq(session_variable(f->bed.s, v, &t, &f->err), 0);
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        ck_assert_float_eq(tensor_f32(&t)[i], want);
}

static inline void set(struct fixture *f, struct variable *v, float value)
{
    struct tensor t;

    ck_assert_int_eq(tensor_alloc(&t, DT_FLOAT, v->shape, NULL), 0);
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        tensor_f32(&t)[i] = value;
    ck_assert_int_eq(session_variable_set(f->bed.s, v, &t, NULL), 0);
    tensor_free(&t);
}

static inline void check_refused(struct fixture *f, int rc, int code, const char *text)
{
    ck_assert_msg(rc == code, "%d, not %d: %s", rc, code, f->err.msg);
    ck_assert_msg(strstr(f->err.msg, text) != NULL, "'%s' is not in '%s'", text,
                  f->err.msg);
}

#endif
