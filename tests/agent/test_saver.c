#include "agent/graph/ops.h"
#include "agent/saver/message.h"
#include "agent/saver/metagraph_import.h"
#include "agent/saver/saver.h"
#include "common/ckpt/bundle.h"
#include "common/ckpt/table_format.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"
#include "tests/agent/session_help.h"
#include "tests/support/checkpoints.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* A graph of two variables, v1 [3] of zeros and v2 [5] of sixes, and a folder. */
struct fixture {
    struct bed bed;
    struct variable *v1, *v2;
    struct saver *saver;
    struct temp_dir dir;
    double clock;
    struct err err;
};

static double clock_of(void *ctx)
{
    return *(double *)ctx;
}

static struct variable *vector(struct graph *g, const char *name, int64_t n, double value)
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

static void setup_with(struct fixture *f, struct saver_options o)
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

static void setup(struct fixture *f)
{
    *f = (struct fixture){0};
    setup_with(f, SAVER_DEFAULTS);
}

static void teardown(struct fixture *f)
{
    saver_free(f->saver);
    bed_done(&f->bed);
    temp_dir_done(&f->dir);
}

static void save(struct fixture *f, const char *name, const struct saver_save_options *o,
                 const char *want_prefix)
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

static void save_step(struct fixture *f, int64_t step)
{
    struct saver_save_options o = {.has_step = 1, .step = step};
    char *want = xasprintf("model.ckpt-%lld", (long long)step);

    save(f, "model.ckpt", &o, want);
    free(want);
}

static int there(struct fixture *f, const char *name)
{
    return access(temp_dir_file(&f->dir, name), F_OK) == 0;
}

/* All four files of a checkpoint, or none. */
static void check_files(struct fixture *f, const char *prefix, int want)
{
    static const char *const suffixes[] = {".index", ".data-00000-of-00001", ".meta"};

    for (int i = 0; i < 3; i++) {
        char *name = xasprintf("%s%s", prefix, suffixes[i]);

        ck_assert_msg(there(f, name) == want, "%s", name);
        free(name);
    }
}

static void check_state(struct fixture *f, const char *want)
{
    char *text = temp_dir_read(temp_dir_file(&f->dir, "checkpoint"), NULL);

    ck_assert_str_eq(text, want);
    free(text);
}

static void check_value(struct fixture *f, struct variable *v, float want)
{
    struct tensor t;

    ck_assert_int_eq(session_variable(f->bed.s, v, &t, &f->err), 0);
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        ck_assert_float_eq(tensor_f32(&t)[i], want);
}

static void set(struct fixture *f, struct variable *v, float value)
{
    struct tensor t;

    ck_assert_int_eq(tensor_alloc(&t, DT_FLOAT, v->shape, NULL), 0);
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        tensor_f32(&t)[i] = value;
    ck_assert_int_eq(session_variable_set(f->bed.s, v, &t, NULL), 0);
    tensor_free(&t);
}

static void check_refused(struct fixture *f, int rc, int code, const char *text)
{
    ck_assert_int_eq(rc, code);
    ck_assert_msg(strstr(f->err.msg, text) != NULL, "'%s' is not in '%s'", text,
                  f->err.msg);
}

/* ---- files and names ---- */

/* Every node has its trace. */
static void check_debug_info(struct fixture *f, const char *name)
{
    struct arena a = {0};
    size_t len;
    unsigned char *data = test_read_file(temp_dir_file(&f->dir, name), &len);
    const Tf__GraphDebugInfo *p = MESSAGE_UNPACK(&a, graph_debug_info, data, len);
    char *first = xasprintf("%s@", operation_name(graph_operation_at(f->bed.g, 0)));

    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq((int)p->n_traces, graph_n_operations(f->bed.g));
    ck_assert_str_eq(p->traces[0]->key, first);
    ck_assert_ptr_nonnull(p->traces[0]->value);
    free(first);
    free(data);
    arena_done(&a);
}

START_TEST(files_and_their_names)
{
    struct fixture f;
    struct saver_save_options o = {0};
    DIR *d;
    struct dirent *e;
    int n = 0;

    setup(&f);
    save(&f, "m", NULL, "m");
    check_files(&f, "m", 1);
    save_step(&f, 10);
    check_files(&f, "model.ckpt-10", 1);
    o = (struct saver_save_options){.has_step = 1,
                                    .step = 7,
                                    .meta_graph_suffix = "graph",
                                    .latest_filename = "newest",
                                    .save_debug_info = 1};
    save(&f, "with some spaces", &o, "with some spaces-7");
    ck_assert(there(&f, "with some spaces-7.graph"));
    ck_assert(there(&f, "with some spaces-7_debug.graph"));
    check_debug_info(&f, "with some spaces-7_debug.graph");
    ck_assert(there(&f, "newest"));
    o = (struct saver_save_options){.no_meta_graph = 1, .no_state = 1};
    save(&f, "alone", &o, "alone");
    ck_assert(!there(&f, "alone.meta"));
    ck_assert_uint_eq(saver_n_last_checkpoints(f.saver), 3);
    d = opendir(f.dir.path);
    while ((e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    closedir(d);
    ck_assert_int_eq(n, 3 + 3 + 4 + 2 + 2); /* no temporary file is left */
    teardown(&f);
}
END_TEST

START_TEST(steps_are_padded_and_read_from_tensors)
{
    struct fixture f = {0};
    struct saver_options padded = SAVER_DEFAULTS;
    struct saver_save_options o = {.has_step = 1, .step = 10};
    int64_t step = 123456789;
    struct tensor value = tensor_scalar_i64(&step);
    struct variable *v;

    padded.pad_step_number = 1;
    setup_with(&f, padded);
    v = variable_new_constant(f.bed.g, &value, "global_step", VARIABLE_NOT_TRAINABLE);
    bed_target(&f.bed, v->initializer);
    save(&f, "m", &o, "m-00000010");
    o = (struct saver_save_options){.step_name = "global_step:0"};
    save(&f, "m", &o, "m-123456789");
    o = (struct saver_save_options){.step_tensor = v->read};
    save(&f, "m", &o, "m-123456789");
    o = (struct saver_save_options){.step_tensor = f.v1->read};
    check_refused(&f, saver_save(f.saver, f.bed.s, "m", &o, NULL, &f.err), ERR_DTYPE,
                  "v1/read:0 is not one integer");
    o = (struct saver_save_options){.step_name = "nothing:0"};
    check_refused(&f, saver_save(f.saver, f.bed.s, "m", &o, NULL, &f.err), ERR_NOT_FOUND,
                  "'nothing:0'");
    teardown(&f);
}
END_TEST

START_TEST(a_prefix_may_end_in_a_slash)
{
    struct fixture f;
    char *prefix = NULL, *newest = NULL, *cwd = getcwd(NULL, 0);

    setup(&f);
    ck_assert_int_eq(mkdir(temp_dir_file(&f.dir, "policy"), 0777), 0);
    save(&f, "policy/", NULL, "policy/");
    ck_assert(there(&f, "policy/.index") && there(&f, "policy/.meta") &&
              there(&f, "policy/.data-00000-of-00001") && there(&f, "policy/checkpoint"));
    saver_set_last_checkpoints(f.saver, NULL, 0);
    /* With a relative directory TensorFlow records ".", which stands for it again. */
    ck_assert_int_eq(chdir(f.dir.path), 0);
    ck_assert_int_eq(saver_save(f.saver, f.bed.s, "policy/", NULL, &prefix, &f.err), 0);
    ck_assert_str_eq(prefix, "policy/");
    ck_assert_int_eq(latest_checkpoint(&newest, "policy", NULL, &f.err), 1);
    ck_assert_str_eq(newest, "policy/");
    ck_assert_int_eq(saver_restore(f.saver, f.bed.s, newest, &f.err), 0);
    free(newest);
    free(prefix);
    /* A bare name means the current directory; one missing level is made. */
    ck_assert_int_eq(saver_save(f.saver, f.bed.s, "bare", NULL, NULL, &f.err), 0);
    check_files(&f, "bare", 1);
    check_state(&f, "model_checkpoint_path: \"bare\"\n"
                    "all_model_checkpoint_paths: \"policy\"\n"
                    "all_model_checkpoint_paths: \"bare\"\n");
    ck_assert_int_eq(saver_save(f.saver, f.bed.s, "new/m", NULL, NULL, &f.err), 0);
    check_refused(&f, saver_save(f.saver, f.bed.s, "a/b/m", NULL, NULL, &f.err),
                  ERR_NOT_FOUND, "Parent directory of a/b/m doesn't exist, can't save.");
    ck_assert_int_eq(chdir(cwd), 0);
    free(cwd);
    teardown(&f);
}
END_TEST

START_TEST(the_state_file_has_tensorflow_s_paths)
{
    struct fixture f = {0};
    struct saver_options relative = SAVER_DEFAULTS;
    char *cwd = getcwd(NULL, 0), *want;

    setup(&f);
    save_step(&f, 1);
    save_step(&f, 2);
    want = xasprintf("model_checkpoint_path: \"%s/model.ckpt-2\"\n"
                     "all_model_checkpoint_paths: \"%s/model.ckpt-1\"\n"
                     "all_model_checkpoint_paths: \"%s/model.ckpt-2\"\n",
                     f.dir.path, f.dir.path, f.dir.path);
    check_state(&f, want);
    free(want);
    teardown(&f);

    relative.save_relative_paths = 1;
    f = (struct fixture){0};
    setup_with(&f, relative);
    save_step(&f, 1);
    check_state(&f, "model_checkpoint_path: \"model.ckpt-1\"\n"
                    "all_model_checkpoint_paths: \"model.ckpt-1\"\n");
    teardown(&f);

    setup(&f);
    ck_assert_int_eq(chdir(f.dir.path), 0);
    ck_assert_int_eq(saver_save(f.saver, f.bed.s, "a/../run/m", NULL, NULL, &f.err),
                     ERR_NOT_FOUND);
    ck_assert_int_eq(mkdir("run", 0777), 0);
    ck_assert_int_eq(saver_save(f.saver, f.bed.s, "./run/m", NULL, NULL, &f.err), 0);
    ck_assert_int_eq(rename("run/checkpoint", "checkpoint"), 0);
    check_state(&f, "model_checkpoint_path: \"m\"\nall_model_checkpoint_paths: \"m\"\n");
    ck_assert_int_eq(chdir(cwd), 0);
    free(cwd);
    teardown(&f);
}
END_TEST

/* ---- deletion ---- */

START_TEST(the_oldest_is_deleted)
{
    struct fixture f;

    setup(&f);
    for (int64_t i = 1; i <= 7; i++)
        save_step(&f, i);
    check_files(&f, "model.ckpt-1", 0);
    check_files(&f, "model.ckpt-2", 0);
    for (int i = 3; i <= 7; i++) {
        char *name = xasprintf("model.ckpt-%d", i);

        check_files(&f, name, 1);
        free(name);
    }
    ck_assert_uint_eq(saver_n_last_checkpoints(f.saver), 5);
    /* The same name again moves to the end and pushes nothing out. */
    save_step(&f, 3);
    check_files(&f, "model.ckpt-4", 1);
    save_step(&f, 8);
    check_files(&f, "model.ckpt-4", 0);
    check_files(&f, "model.ckpt-3", 1);
    teardown(&f);
}
END_TEST

START_TEST(nothing_is_deleted_without_a_limit)
{
    struct fixture f = {0};
    struct saver_options all = SAVER_DEFAULTS;
    char *want;

    all.max_to_keep = 0;
    setup_with(&f, all);
    for (int64_t i = 1; i <= 7; i++)
        save_step(&f, i);
    check_files(&f, "model.ckpt-1", 1);
    want = xasprintf("model_checkpoint_path: \"%s/model.ckpt-7\"\n"
                     "all_model_checkpoint_paths: \"%s/model.ckpt-7\"\n",
                     f.dir.path, f.dir.path);
    check_state(&f, want);
    free(want);
    teardown(&f);
}
END_TEST

/* Two are kept, and one of every hour: the Saver is built at 1000 s, so the first one
 * younger than 4600 s stays, then the first one younger than 8200 s. */
START_TEST(one_of_every_hour_stays)
{
    struct fixture f = {0};
    struct saver_options o = SAVER_DEFAULTS;
    static const int kept[] = {0, 0, 0, 1, 0, 1, 0, 0, 1, 1};

    o.max_to_keep = 2;
    o.keep_every_n_hours = 1.0;
    setup_with(&f, o);
    for (int64_t i = 0; i < 10; i++) {
        f.clock = 1000.0 + 1500.0 * (double)i;
        save_step(&f, i);
    }
    for (int i = 0; i < 10; i++) {
        char *name = xasprintf("model.ckpt-%d", i);

        check_files(&f, name, kept[i]);
        free(name);
    }
    teardown(&f);
}
END_TEST

START_TEST(a_new_saver_takes_up_the_old_list)
{
    struct fixture f = {0};
    struct saver_options two = SAVER_DEFAULTS;
    const char *prefixes[3];
    char *a, *b, *gone;

    two.max_to_keep = 2;
    two.keep_every_n_hours = 1e9;
    setup_with(&f, two);
    save_step(&f, 1);
    save_step(&f, 2);
    a = xasprintf("%s/model.ckpt-1", f.dir.path);
    b = xasprintf("%s/model.ckpt-2", f.dir.path);
    gone = xasprintf("%s/model.ckpt-0", f.dir.path);
    prefixes[0] = gone;
    prefixes[1] = a;
    prefixes[2] = b;
    saver_recover_last_checkpoints(f.saver, prefixes, 3);
    ck_assert_uint_eq(saver_n_last_checkpoints(f.saver), 2);
    ck_assert_str_eq(saver_last_checkpoint(f.saver, 0), a);
    save_step(&f, 3);
    check_files(&f, "model.ckpt-1", 0);
    /* Those that are only set count as too young to be deleted. */
    saver_set_last_checkpoints(f.saver, &prefixes[2], 1);
    save_step(&f, 3);
    save_step(&f, 4);
    check_files(&f, "model.ckpt-2", 1);
    free(a);
    free(b);
    free(gone);
    teardown(&f);
}
END_TEST

/* ---- restoring ---- */

START_TEST(what_is_restored_is_what_was_saved)
{
    struct fixture f;
    char *newest = NULL;

    setup(&f);
    save(&f, "m", NULL, "m");
    set(&f, f.v1, 1.0f);
    set(&f, f.v2, 2.0f);
    ck_assert_int_eq(latest_checkpoint(&newest, f.dir.path, NULL, &f.err), 1);
    ck_assert_int_eq(saver_restore(f.saver, f.bed.s, newest, &f.err), 0);
    check_value(&f, f.v1, 0.0f);
    check_value(&f, f.v2, 6.0f);
    free(newest);
    teardown(&f);
}
END_TEST

START_TEST(part_of_the_variables)
{
    struct fixture f;
    struct saver *part;
    struct saver_item items[] = {{"other", NULL}};
    struct saver_options o = SAVER_DEFAULTS;
    struct session *fresh;
    const char *names[2];
    char *path;

    setup(&f);
    items[0].variable = f.v2;
    o.vars = items;
    o.n_vars = 1;
    ck_assert_int_eq(saver_new(&part, f.bed.g, &o, &f.err), 0);
    ck_assert_str_eq(saver_as_def(part)->save_tensor, "save_1/control_dependency:0");
    ck_assert_str_eq(saver_as_def(f.saver)->restore_op, "save/restore_all");
    path = xasprintf("%s/part", f.dir.path);
    ck_assert_int_eq(saver_save(part, f.bed.s, path, NULL, NULL, &f.err), 0);
    ck_assert_int_eq(session_new(&fresh, f.bed.g, NULL, &f.err), 0);
    ck_assert_uint_eq(report_uninitialized_variables(f.bed.g, fresh, names, 2), 2);
    ck_assert_int_eq(saver_restore(part, fresh, path, &f.err), 0);
    ck_assert_uint_eq(report_uninitialized_variables(f.bed.g, fresh, names, 2), 1);
    ck_assert_str_eq(names[0], f.v1->name);
    check_refused(&f, saver_restore(f.saver, fresh, path, &f.err), ERR_NOT_FOUND,
                  "not found in checkpoint");
    check_refused(&f, saver_save(f.saver, fresh, path, NULL, NULL, &f.err),
                  ERR_UNINITIALIZED, "Attempting to use uninitialized value");
    session_free(fresh);
    saver_free(part);
    free(path);
    teardown(&f);
}
END_TEST

/* Writes one tensor as the whole checkpoint. */
static char *write_one(struct fixture *f, const char *name, const struct tensor *t)
{
    char *prefix = xasprintf("%s/one", f->dir.path);
    struct bundle_writer *w;

    ck_assert_int_eq(bundle_writer_new(&w, prefix, 0, &f->err), 0);
    ck_assert_int_eq(bundle_writer_add(w, name, t, &f->err), 0);
    ck_assert_int_eq(bundle_writer_finish(w, &f->err), 0);
    bundle_writer_free(w);
    return prefix;
}

START_TEST(what_does_not_fit_is_refused)
{
    static const float six[6] = {1, 2, 3, 4, 5, 6};
    static const int32_t ints[3];
    struct fixture f;
    struct saver *s, *reshaping;
    struct saver_item items[1];
    struct saver_options o = SAVER_DEFAULTS;
    struct variable *v;
    struct tensor t;
    char *prefix;

    setup(&f);
    items[0] = (struct saver_item){"v", f.v1};
    o.vars = items;
    o.n_vars = 1;
    ck_assert_int_eq(saver_new(&s, f.bed.g, &o, &f.err), 0);
    check_refused(&f, saver_restore(s, f.bed.s, "/nowhere/m", &f.err), ERR_NOT_FOUND,
                  "The passed save_path is not a valid checkpoint: /nowhere/m");
    t = tensor_const_view(DT_FLOAT, SHAPE(2, 3), six);
    prefix = write_one(&f, "v", &t);
    check_refused(&f, saver_restore(s, f.bed.s, prefix, &f.err), ERR_SHAPE,
                  "Assign requires shapes of both tensors to match. lhs shape= [3] rhs "
                  "shape= [2,3]");
    saver_free(s);

    v = vector(f.bed.g, "six", 6, 0.0);
    items[0].variable = v;
    o.reshape = 1;
    ck_assert_int_eq(saver_new(&reshaping, f.bed.g, &o, &f.err), 0);
    ck_assert_int_eq(saver_restore(reshaping, f.bed.s, prefix, &f.err), 0);
    ck_assert_int_eq(session_variable(f.bed.s, v, &t, &f.err), 0);
    ck_assert_mem_eq(t.data, six, sizeof(six));
    free(prefix);
    t = tensor_const_view(DT_INT32, SHAPE(3), ints);
    prefix = write_one(&f, "v", &t);
    check_refused(&f, saver_restore(reshaping, f.bed.s, prefix, &f.err), ERR_DTYPE,
                  "expected dtype float32 does not equal original dtype int32");
    free(prefix);
    saver_free(reshaping);
    teardown(&f);
}
END_TEST

START_TEST(shards_by_device)
{
    struct bed bed;
    struct temp_dir dir;
    struct saver *s;
    struct saver_options o = SAVER_DEFAULTS;
    struct err err = {0};
    struct variable *v[3];
    char *prefix, *other;
    struct tensor t;

    bed_init(&bed);
    temp_dir_init(&dir);
    for (int i = 0; i < 3; i++) {
        char name[8];

        device_enter(bed.g, i == 1 ? "/job:ps/task:0" : "/job:ps/task:1");
        (void)snprintf(name, sizeof(name), "v%d", i);
        v[i] = bed_variable(&bed, (float)i, name);
        device_leave(bed.g);
    }
    bed_init_variables(&bed);
    o.sharded = 1;
    ck_assert_int_eq(saver_new(&s, bed.g, &o, &err), 0);
    ck_assert_str_eq(saver_as_def(s)->save_tensor, "save/Identity:0");
    ck_assert_str_eq(operation_device(graph_operation(bed.g, "save/SaveV2_1")),
                     "/job:ps/task:1/device:CPU:0");
    prefix = xasprintf("%s/m", dir.path);
    ck_assert_msg(saver_save(s, bed.s, prefix, NULL, NULL, &err) == 0, "%s", err.msg);
    ck_assert(access(temp_dir_file(&dir, "m.data-00001-of-00002"), F_OK) == 0);
    for (int i = 0; i < 3; i++) {
        float nine = 9.0f;
        struct tensor value = tensor_scalar_f32(&nine);

        ck_assert_int_eq(session_variable_set(bed.s, v[i], &value, &err), 0);
    }
    ck_assert_int_eq(saver_restore(s, bed.s, prefix, &err), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(session_variable(bed.s, v[i], &t, &err), 0);
        ck_assert_float_eq(*tensor_f32(&t), (float)i);
    }
    other = xasprintf("%s/m", dir.path);
    ck_assert_int_eq(checkpoint_remove(other, "meta", &err), 0);
    ck_assert(access(temp_dir_file(&dir, "m.data-00001-of-00002"), F_OK) != 0);
    free(other);
    free(prefix);
    saver_free(s);
    bed_done(&bed);
    temp_dir_done(&dir);
}
END_TEST

/* ---- the constructor ---- */

START_TEST(a_saver_needs_something_to_save)
{
    struct bed b;
    struct saver *s = NULL;
    struct saver_options o = SAVER_DEFAULTS;
    struct err err = {0};
    char *prefix;

    bed_init(&b);
    ck_assert_int_eq(saver_new(&s, b.g, NULL, &err), ERR_ARG);
    ck_assert_str_eq(err.msg, "No variables to save");
    o.allow_empty = 1;
    ck_assert_int_eq(saver_new(&s, b.g, &o, &err), 0);
    ck_assert_ptr_null(saver_as_def(s));
    ck_assert_int_eq(graph_n_operations(b.g), 0);
    ck_assert_int_eq(saver_restore(s, b.s, "/nowhere/m", &err), 0);
    ck_assert_int_eq(saver_save(s, b.s, "/tmp/m",
                                &(struct saver_save_options){.no_meta_graph = 1}, &prefix,
                                &err),
                     0);
    ck_assert_ptr_null(prefix);
    saver_free(s);
    bed_done(&b);
}
END_TEST

START_TEST(what_the_constructor_refuses)
{
    struct fixture f;
    struct saver *s;
    struct saver_item items[2];
    struct saver_options o = SAVER_DEFAULTS;

    setup(&f);
    items[0] = (struct saver_item){"same", f.v1};
    items[1] = (struct saver_item){"same", f.v2};
    o.vars = items;
    o.n_vars = 2;
    check_refused(&f, saver_new(&s, f.bed.g, &o, &f.err), ERR_ARG,
                  "At least two variables have the same name: same");
    o.defer_build = 1;
    check_refused(&f, saver_new(&s, f.bed.g, &o, &f.err), ERR_ARG,
                  "If `var_list` is provided then build cannot be deferred.");
    o = SAVER_DEFAULTS;
    o.write_version = SAVER_V1;
    check_refused(&f, saver_new(&s, f.bed.g, &o, &f.err), ERR_UNSUPPORTED, "V1");
    o = SAVER_DEFAULTS;
    o.builder = &f;
    check_refused(&f, saver_new(&s, f.bed.g, &o, &f.err), ERR_UNSUPPORTED, "builder");
    o = SAVER_DEFAULTS;
    o.defer_build = 1;
    ck_assert_int_eq(saver_new(&s, f.bed.g, &o, &f.err), 0);
    check_refused(&f, saver_save(s, f.bed.s, "m", NULL, NULL, &f.err), ERR_STATE,
                  "`build()` should be called before save if defer_build==True");
    ck_assert_int_eq(saver_build(s, &f.err), 0);
    ck_assert_str_eq(saver_as_def(s)->filename_tensor, "save_1/Const:0");
    saver_free(s);
    check_refused(&f,
                  saver_save(f.saver, f.bed.s, "m",
                             &(struct saver_save_options){.latest_filename = "a/b"}, NULL,
                             &f.err),
                  ERR_ARG, "'latest_filename' must not contain path components");
    check_refused(&f, saver_save(f.saver, f.bed.s, "d/checkpoint", NULL, NULL, &f.err),
                  ERR_ARG,
                  "'latest_filename' collides with 'save_path': 'checkpoint' and "
                  "'d/checkpoint'");
    teardown(&f);
}
END_TEST

/* name, filename, restore_sequentially: what they make of the graph. */
START_TEST(nodes_are_named_as_asked)
{
    struct fixture f;
    struct saver *s;
    struct saver_options o = SAVER_DEFAULTS;
    const struct attr *value;
    const struct tensor_string *text;

    setup(&f);
    o.name = "keep";
    o.filename = "somewhere else";
    o.restore_sequentially = 1;
    ck_assert_msg(saver_new(&s, f.bed.g, &o, &f.err) == 0, "%s", f.err.msg);
    ck_assert_str_eq(saver_as_def(s)->filename_tensor, "keep/Const:0");
    ck_assert_str_eq(saver_as_def(s)->save_tensor, "keep/control_dependency:0");
    ck_assert_str_eq(saver_as_def(s)->restore_op, "keep/restore_all");
    value = operation_attr(graph_operation(f.bed.g, "keep/filename/input"), "value");
    text = value->tensor.data;
    ck_assert_uint_eq(text->len_bytes, strlen("somewhere else"));
    ck_assert_mem_eq(text->bytes, "somewhere else", text->len_bytes);
    saver_free(s);
    teardown(&f);
}
END_TEST

/* The attribute of a node in a file's graph; NULL: it is not there. */
static const Tf__AttrValue *attr_in(const Tf__MetaGraphDef *m, const char *node,
                                    const char *attr)
{
    for (size_t i = 0; i < m->graph_def->n_node; i++) {
        const Tf__NodeDef *n = m->graph_def->node[i];

        for (size_t k = 0; strcmp(n->name, node) == 0 && k < n->n_attr; k++)
            if (strcmp(n->attr[k]->key, attr) == 0)
                return n->attr[k]->value;
    }
    return NULL;
}

START_TEST(default_attributes_may_be_left_out)
{
    struct fixture f;
    struct saver_save_options o = {.strip_default_attrs = 1};
    struct saver *again;
    struct graph *g = graph_new();
    struct arena a = {0};
    size_t len[2];

    setup(&f);
    save(&f, "whole", NULL, "whole");
    save(&f, "stripped", &o, "stripped");
    for (int stripped = 0; stripped < 2; stripped++) {
        const char *name = stripped ? "stripped.meta" : "whole.meta";
        unsigned char *data = test_read_file(temp_dir_file(&f.dir, name), &len[stripped]);
        const Tf__MetaGraphDef *m =
            MESSAGE_UNPACK(&a, meta_graph_def, data, len[stripped]);

        ck_assert_ptr_nonnull(m);
        ck_assert_int_eq(m->meta_info_def->stripped_default_attrs, stripped);
        ck_assert_ptr_nonnull(attr_in(m, f.v1->name, "dtype"));
        ck_assert_int_eq(attr_in(m, f.v1->name, "container") == NULL, stripped);
        free(data);
    }
    ck_assert_uint_lt(len[1], len[0]);
    ck_assert_msg(import_meta_graph(&again, g, temp_dir_file(&f.dir, "stripped.meta"),
                                    NULL, &f.err) == 0,
                  "%s", f.err.msg);
    ck_assert_ptr_nonnull(operation_attr(graph_operation(g, f.v1->name), "container"));
    saver_free(again);
    graph_free(g);
    arena_done(&a);
    teardown(&f);
}
END_TEST

START_TEST(a_saver_def_finds_its_nodes)
{
    struct fixture f;
    struct saver *again;
    struct saver_options o = SAVER_DEFAULTS;
    int n;
    char *path;

    setup(&f);
    n = graph_n_operations(f.bed.g);
    o.saver_def = saver_as_def(f.saver);
    ck_assert_msg(saver_new(&again, f.bed.g, &o, &f.err) == 0, "%s", f.err.msg);
    ck_assert_int_eq(graph_n_operations(f.bed.g), n);
    ck_assert_uint_eq(saver_n_items(again), 2);
    ck_assert_ptr_eq(saver_item_at(again, 0)->variable, f.v1);
    path = xasprintf("%s/m", f.dir.path);
    ck_assert_int_eq(saver_save(again, f.bed.s, path, NULL, NULL, &f.err), 0);
    ck_assert_int_eq(saver_restore(f.saver, f.bed.s, path, &f.err), 0);
    free(path);
    saver_free(again);
    teardown(&f);
}
END_TEST

/* ---- what is there ---- */

static void write_text(struct fixture *f, const char *name, const char *text)
{
    FILE *file = fopen(temp_dir_file(&f->dir, name), "w");

    ck_assert_ptr_nonnull(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

START_TEST(the_newest_checkpoint_of_a_directory)
{
    struct fixture f;
    struct ckpt_state state;
    char *newest = NULL, *v1;

    setup(&f);
    ck_assert_int_eq(latest_checkpoint(&newest, f.dir.path, NULL, &f.err), 0);
    ck_assert_msg(strstr(f.err.msg, "there is no") != NULL, "%s", f.err.msg);
    save_step(&f, 3);
    /* Paths of another machine: the same base name in this directory. */
    write_text(&f, "checkpoint", "model_checkpoint_path: \"C:/x/tmp\\\\model.ckpt-3\"\n");
    ck_assert_int_eq(latest_checkpoint(&newest, f.dir.path, NULL, &f.err), 1);
    ck_assert_int_eq(saver_restore(f.saver, f.bed.s, newest, &f.err), 0);
    free(newest);
    write_text(&f, "checkpoint", "model_checkpoint_path: \"/elsewhere/model.ckpt-4\"\n");
    ck_assert_int_eq(latest_checkpoint(&newest, f.dir.path, NULL, &f.err), 0);
    ck_assert_msg(strstr(f.err.msg, "Couldn't match files for checkpoint "
                                    "/elsewhere/model.ckpt-4") != NULL,
                  "%s", f.err.msg);
    write_text(&f, "checkpoint", "model_checkpoint_path: \"\"\n");
    check_refused(&f, get_checkpoint_state(&state, f.dir.path, NULL, &f.err), ERR_FORMAT,
                  "Invalid checkpoint state loaded from");
    write_text(&f, "checkpoint", "not { a state");
    ck_assert_int_eq(latest_checkpoint(&newest, f.dir.path, NULL, &f.err), 0);
    /* A V1 checkpoint is a file of that very name. */
    write_text(&f, "old", "anything");
    v1 = xasprintf("%s/old", f.dir.path);
    ck_assert_int_eq(checkpoint_exists(v1), 1);
    check_refused(&f, saver_restore(f.saver, f.bed.s, v1, &f.err), ERR_UNSUPPORTED, "V1");
    free(v1);
    teardown(&f);
}
END_TEST

/* ---- what others left ---- */

/* A `checkpoint` file that names a checkpoint of another machine, here. */
static void name_newest(struct fixture *f, const char *name)
{
    char *text =
        xasprintf("model_checkpoint_path: \"/home/some one/my runs/%s\"\n", name);

    write_text(f, "checkpoint", text);
    free(text);
}

/* An index whose only block is of that kind. */
static void write_index(struct fixture *f, const char *name, uint8_t kind)
{
    static const char entry[] = "\0\1\1kv\0\0\0\0\1\0\0\0";
    struct wbuf b = {0};
    struct table_handle at = {.offset = 0, .size = sizeof(entry) - 1};
    FILE *file = fopen(temp_dir_file(&f->dir, name), "wb");

    wbuf_bytes(&b, entry, at.size);
    wbuf_u8(&b, kind);
    wbuf_u32(&b, crc32c_mask(crc32c(b.data, b.len)));
    table_put_footer(&b, at, at);
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(b.data, 1, b.len, file), b.len);
    (void)fclose(file);
    wbuf_done(&b);
}

static void check_newest_refused(struct fixture *f, const char *name, int code,
                                 const char *says)
{
    char *newest = NULL;

    name_newest(f, name);
    ck_assert_int_eq(latest_checkpoint(&newest, f->dir.path, NULL, &f->err), 1);
    check_refused(f, saver_restore(f->saver, f->bed.s, newest, &f->err), code, says);
    check_value(f, f->v1, 1.0f);
    check_value(f, f->v2, 2.0f);
    free(newest);
}

START_TEST(the_newest_may_be_another_s)
{
    struct fixture f;
    struct saver_save_options with_step = {.has_step = 1, .step = 7, .no_state = 1};
    struct bundle_writer *w;
    const float x = 1;
    const struct tensor one = tensor_scalar_f32(&x);
    char *newest = NULL, *tf2;

    setup(&f);
    save(&f, "my best model", &with_step, "my best model-7");
    set(&f, f.v1, 1.0f);
    set(&f, f.v2, 2.0f);
    write_text(&f, "old model", "anything");
    check_newest_refused(&f, "old model", ERR_UNSUPPORTED, "V1 checkpoint");
    write_text(&f, "m-00000-of-00002", "anything");
    check_newest_refused(&f,
                         "m-????"
                         "?-of-00002",
                         ERR_UNSUPPORTED, "V1 checkpoint");
    write_index(&f, "my snappy model.index", TABLE_BLOCK_SNAPPY);
    check_newest_refused(&f, "my snappy model", ERR_UNSUPPORTED, "snappy-compressed");
    tf2 = xasprintf("%s/my ckpt-1", f.dir.path);
    ck_assert_int_eq(bundle_writer_new(&w, tf2, 0, &f.err), 0);
    ck_assert_int_eq(bundle_writer_add(w, "_CHECKPOINTABLE_OBJECT_GRAPH", &one, &f.err),
                     0);
    ck_assert_int_eq(bundle_writer_finish(w, &f.err), 0);
    bundle_writer_free(w);
    free(tf2);
    check_newest_refused(&f, "my ckpt-1", ERR_UNSUPPORTED,
                         "object-based checkpoint of TensorFlow 2");
    name_newest(&f, "my best model-7");
    ck_assert_int_eq(latest_checkpoint(&newest, f.dir.path, NULL, &f.err), 1);
    ck_assert_int_eq(saver_restore(f.saver, f.bed.s, newest, &f.err), 0);
    check_value(&f, f.v1, 0.0f);
    check_value(&f, f.v2, 6.0f);
    free(newest);
    teardown(&f);
}
END_TEST

START_TEST(names_of_meta_graphs)
{
    static const struct {
        const char *prefix, *want;
    } names[] = {
        {"d/m-10", "d/m-10.meta"},
        {"d/m-00001-of-00002", "d/m.meta"},
        {"d/m-????"
         "?-of-00002",
         "d/m.meta"},
        {"d/m-of-2", "d/m-of-2.meta"},
        {"d/", "d/.meta"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *name = meta_graph_filename(names[i].prefix, "meta");

        ck_assert_str_eq(name, names[i].want);
        free(name);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("saver");
    TCase *files = tcase_create("files"), *old = tcase_create("deletion");
    TCase *restore = tcase_create("restore"), *make = tcase_create("constructor");

    tcase_add_test(files, files_and_their_names);
    tcase_add_test(files, steps_are_padded_and_read_from_tensors);
    tcase_add_test(files, a_prefix_may_end_in_a_slash);
    tcase_add_test(files, the_state_file_has_tensorflow_s_paths);
    tcase_add_test(files, the_newest_checkpoint_of_a_directory);
    tcase_add_test(files, the_newest_may_be_another_s);
    tcase_add_test(files, names_of_meta_graphs);
    tcase_add_test(old, the_oldest_is_deleted);
    tcase_add_test(old, nothing_is_deleted_without_a_limit);
    tcase_add_test(old, one_of_every_hour_stays);
    tcase_add_test(old, a_new_saver_takes_up_the_old_list);
    tcase_add_test(restore, what_is_restored_is_what_was_saved);
    tcase_add_test(restore, part_of_the_variables);
    tcase_add_test(restore, what_does_not_fit_is_refused);
    tcase_add_test(restore, shards_by_device);
    tcase_add_test(make, a_saver_needs_something_to_save);
    tcase_add_test(make, what_the_constructor_refuses);
    tcase_add_test(make, nodes_are_named_as_asked);
    tcase_add_test(make, default_attributes_may_be_left_out);
    tcase_add_test(make, a_saver_def_finds_its_nodes);
    suite_add_tcase(s, files);
    suite_add_tcase(s, old);
    suite_add_tcase(s, restore);
    suite_add_tcase(s, make);
    return s;
}

TEST_MAIN(make_suite)
