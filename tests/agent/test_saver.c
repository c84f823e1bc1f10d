#include "agent/graph/ops.h"
#include "agent/saver/message.h"
#include "agent/saver/metagraph_import.h"
#include "agent/saver/saver.h"
#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"
#include "tests/agent/saver_help.h"
#include "tests/support/checkpoints.h"
#include "tests/support/test_main.h"

#include <string.h>

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

static struct output texts(struct graph *g, const char *const *text, int n,
                           const char *name)
{
    struct tensor_string s[2];
    struct tensor value = tensor_view(DT_STRING, n > 1 ? SHAPE(n) : SHAPE_SCALAR, s);

    for (int i = 0; i < n; i++)
        s[i] = (struct tensor_string){(char *)(uintptr_t)text[i], strlen(text[i])};
    return constant(g, &value, name);
}

/* The nodes of a Saver that saves v1 and v2 as parts of one variable. */
static struct saver_def parts_def(struct fixture *f, const char *const *slices)
{
    struct graph *g = f->bed.g;
    const char *const names[] = {"w", "w"}, *const model[] = {"model"};
    struct operation *save_op;
    struct output in[3];
    struct op_builder *o;

    in[0] = texts(g, model, 1, "parts/Const");
    in[1] = texts(g, names, 2, "parts/names");
    in[2] = texts(g, slices, 2, "parts/slices");
    o = op_begin(g, "SaveV2", "parts/SaveV2");
    for (int i = 0; i < 3; i++)
        op_input(o, in[i]);
    op_input(o, f->v1->ref);
    op_input(o, f->v2->ref);
    save_op = op_finish(o);
    o = op_begin(g, "Identity", "parts/control");
    op_input(o, in[0]);
    op_control_input(o, save_op);
    (void)op_finish(o);
    (void)op_finish(op_begin(g, "NoOp", "parts/restore_all"));
    return (struct saver_def){.filename_tensor = "parts/Const:0",
                              .save_tensor = "parts/control:0",
                              .restore_op = "parts/restore_all",
                              .max_to_keep = 5};
}

/* As TensorFlow 2 saves the graph of its objects with the variables. */
START_TEST(constants_are_saved_and_not_restored)
{
    static const char *const whole[] = {"", ""}, *const names[] = {"objects", "v"},
                             *const model[] = {"model"};
    struct fixture f;
    struct saver_options o = SAVER_DEFAULTS;
    struct saver_def def = {.filename_tensor = "own/Const:0",
                            .save_tensor = "own/control:0",
                            .restore_op = "own/restore_all",
                            .max_to_keep = 5};
    struct output prefix;
    struct op_builder *b;
    struct operation *save_op;
    struct saver *own;
    struct bundle_reader *r;
    struct bundle_writer *w;
    struct tensor value;
    float sevens[3] = {7, 7, 7};
    char *path;

    setup(&f);
    prefix = texts(f.bed.g, model, 1, "own/Const");
    b = op_begin(f.bed.g, "SaveV2", "own/SaveV2");
    op_input(b, prefix);
    op_input(b, texts(f.bed.g, names, 2, "own/names"));
    op_input(b, texts(f.bed.g, whole, 2, "own/slices"));
    op_input(b, texts(f.bed.g, model, 1, "own/objects"));
    op_input(b, f.v1->ref);
    save_op = op_finish(b);
    b = op_begin(f.bed.g, "Identity", "own/control");
    op_input(b, prefix);
    op_control_input(b, save_op);
    (void)op_finish(b);
    (void)op_finish(op_begin(f.bed.g, "NoOp", "own/restore_all"));
    o.saver_def = &def;
    ck_assert_msg(saver_new(&own, f.bed.g, &o, &f.err) == 0, "%s", f.err.msg);
    path = xasprintf("%s/own", f.dir.path);
    ck_assert_msg(saver_save(own, f.bed.s, path, NULL, NULL, &f.err) == 0, "%s",
                  f.err.msg);
    ck_assert_int_eq(bundle_reader_new(&r, path, &f.err), 0);
    ck_assert_uint_eq(bundle_reader_count(r), 2);
    ck_assert_int_eq(
        bundle_reader_read(r, bundle_reader_find(r, "objects"), &value, &f.err), 0);
    ck_assert_uint_eq(((const struct tensor_string *)value.data)->len_bytes, 5);
    ck_assert_mem_eq(((const struct tensor_string *)value.data)->bytes, "model", 5);
    tensor_free(&value);
    bundle_reader_free(r);
    set(&f, f.v1, 3);
    ck_assert_int_eq(saver_restore(own, f.bed.s, path, &f.err), 0);
    check_value(&f, f.v1, 0);
    /* nor need a checkpoint have it */
    ck_assert_int_eq(bundle_writer_new(&w, path, 0, &f.err), 0);
    value = tensor_view(DT_FLOAT, SHAPE(3), sevens);
    ck_assert_int_eq(bundle_writer_add(w, "v", &value, &f.err), 0);
    ck_assert_int_eq(bundle_writer_finish(w, &f.err), 0);
    bundle_writer_free(w);
    set(&f, f.v1, 3);
    ck_assert_int_eq(saver_restore(own, f.bed.s, path, &f.err), 0);
    check_value(&f, f.v1, 7);
    free(path);
    saver_free(own);
    teardown(&f);
}
END_TEST

/* As for variables of a partitioner: the checkpoint has one tensor of all parts, and each
 * part is restored from it, even if the tensor was saved as a whole. */
START_TEST(parts_of_one_variable)
{
    static const char *const slices[] = {"8 0,3", "8 3,5"};
    struct fixture f;
    struct saver_options o = SAVER_DEFAULTS;
    struct saver_def def;
    struct saver *parts;
    struct bundle_reader *r;
    struct bundle_writer *w;
    struct tensor value;
    float all[8] = {1, 1, 1, 2, 2, 2, 2, 2};
    char *path;

    setup(&f);
    def = parts_def(&f, slices);
    o.saver_def = &def;
    ck_assert_msg(saver_new(&parts, f.bed.g, &o, &f.err) == 0, "%s", f.err.msg);
    path = xasprintf("%s/parts", f.dir.path);
    ck_assert_msg(saver_save(parts, f.bed.s, path, NULL, NULL, &f.err) == 0, "%s",
                  f.err.msg);
    ck_assert_int_eq(bundle_reader_new(&r, path, &f.err), 0);
    ck_assert_uint_eq(bundle_reader_count(r), 1);
    ck_assert_msg(bundle_reader_read(r, bundle_reader_find(r, "w"), &value, &f.err) == 0,
                  "%s", f.err.msg);
    ck_assert_int_eq(value.shape.dim[0], 8);
    for (int i = 0; i < 8; i++)
        ck_assert_float_eq(tensor_f32(&value)[i], i < 3 ? 0 : 6);
    tensor_free(&value);
    bundle_reader_free(r);
    set(&f, f.v1, 7);
    set(&f, f.v2, 7);
    ck_assert_int_eq(saver_restore(parts, f.bed.s, path, &f.err), 0);
    check_value(&f, f.v1, 0);
    check_value(&f, f.v2, 6);
    ck_assert_int_eq(bundle_writer_new(&w, path, 0, &f.err), 0);
    value = tensor_view(DT_FLOAT, SHAPE(8), all);
    ck_assert_int_eq(bundle_writer_add(w, "w", &value, &f.err), 0);
    ck_assert_int_eq(bundle_writer_finish(w, &f.err), 0);
    bundle_writer_free(w);
    ck_assert_int_eq(saver_restore(parts, f.bed.s, path, &f.err), 0);
    check_value(&f, f.v1, 1);
    check_value(&f, f.v2, 2);
    saver_free(parts);
    free(path);
    teardown(&f);
}
END_TEST

START_TEST(parts_that_do_not_fit)
{
    static const char *const bad[] = {
        "8 0,2", "8 6,3", "8",     "8 0,3:-",
        "8 ",    "8 0,",  "x 0,3", "99999999999999999999 0,3"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *const slices[] = {bad[i], "8 3,5"};
        struct saver_options o = SAVER_DEFAULTS;
        struct fixture f;
        struct saver_def def;
        struct saver *parts;

        setup(&f);
        def = parts_def(&f, slices);
        o.saver_def = &def;
        ck_assert_int_eq(saver_new(&parts, f.bed.g, &o, &f.err), ERR_FORMAT);
        ck_assert_msg(strstr(f.err.msg, "parts/SaveV2: w: ") != NULL, "%s", f.err.msg);
        teardown(&f);
    }
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

/* ---- V1 checkpoints ---- */

static struct fixture *with_v1(struct fixture *f, int sharded)
{
    struct saver_options o = SAVER_DEFAULTS;

    *f = (struct fixture){0};
    o.write_version = SAVER_V1;
    o.sharded = sharded;
    o.max_to_keep = 2;
    setup_with(f, o);
    return f;
}

static void check_restores(struct fixture *f, struct saver *s, const char *prefix)
{
    char *path = xasprintf("%s/%s", f->dir.path, prefix);

    set(f, f->v1, 1.0f);
    set(f, f->v2, 2.0f);
    ck_assert_msg(saver_restore(s, f->bed.s, path, &f->err) == 0, "%s", f->err.msg);
    check_value(f, f->v1, 0.0f);
    check_value(f, f->v2, 6.0f);
    free(path);
}

START_TEST(v1_checkpoints_are_one_file)
{
    struct saver_options o = SAVER_DEFAULTS;
    struct saver *again;
    struct fixture f;

    with_v1(&f, 0);
    for (int i = 1; i <= 3; i++)
        save_step(&f, i);
    check_restores(&f, f.saver, "model.ckpt-3");
    ck_assert(there(&f, "model.ckpt-2") && there(&f, "model.ckpt-2.meta"));
    ck_assert(!there(&f, "model.ckpt-1") && !there(&f, "model.ckpt-1.meta"));
    ck_assert(!there(&f, "model.ckpt-3.index"));
    /* by the nodes alone */
    o.saver_def = saver_as_def(f.saver);
    ck_assert_msg(saver_new(&again, f.bed.g, &o, &f.err) == 0, "%s", f.err.msg);
    ck_assert_int_eq(saver_as_def(again)->version, SAVER_V1);
    check_restores(&f, again, "model.ckpt-3");
    saver_free(again);
    teardown(&f);
}
END_TEST

START_TEST(v1_checkpoints_in_shards)
{
    static const char *const files[] = {"m-00000-of-00001", "m.meta"};
    struct fixture f;
    char *all;

    with_v1(&f, 1);
    ck_assert_str_eq(saver_as_def(f.saver)->save_tensor, "save/ShardedFilespec:0");
    save(&f, "m", NULL,
         "m-?????"
         "-of-00001");
    check_restores(&f, f.saver,
                   "m-?????"
                   "-of-00001");
    for (int i = 0; i < 2; i++)
        ck_assert_msg(there(&f, files[i]), "%s", files[i]);
    all = xasprintf("%s/m-%s-of-00001", f.dir.path, "?????");
    ck_assert_int_eq(checkpoint_remove(all, "meta", &f.err), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(!there(&f, files[i]), "%s", files[i]);
    free(all);
    teardown(&f);
}
END_TEST

/* The nodes themselves, run as a client runs them. */
START_TEST(v1_nodes_save_and_restore)
{
    for (int sharded = 0; sharded < 2; sharded++) {
        struct tensor_string path = {0};
        struct saver_def def;
        struct output file, saved;
        struct operation *restored;
        struct fixture f;
        struct tensor t;

        with_v1(&f, sharded);
        def = *saver_as_def(f.saver);
        path.bytes = xasprintf("%s/nodes", f.dir.path);
        path.len_bytes = strlen(path.bytes);
        ck_assert_int_eq(graph_tensor(f.bed.g, def.filename_tensor, &file, &f.err), 0);
        ck_assert_int_eq(graph_tensor(f.bed.g, def.save_tensor, &saved, &f.err), 0);
        restored = graph_operation(f.bed.g, def.restore_op);
        f.bed.feeds[f.bed.n_feeds++] =
            (struct feed){file, tensor_view(DT_STRING, SHAPE_SCALAR, &path)};
        t = bed_fetch(&f.bed, saved);
        ck_assert_uint_eq(((struct tensor_string *)t.data)->len_bytes,
                          path.len_bytes + (sharded ? strlen("-00000-of-00001") : 0));
        ck_assert_ptr_nonnull(restored);
        set(&f, f.v1, 1.0f);
        if (sharded) { /* the file to read is another one than that to write */
            free(path.bytes);
            path = *(struct tensor_string *)t.data;
            *(struct tensor_string *)t.data = (struct tensor_string){0};
        }
        bed_target(&f.bed, restored);
        check_value(&f, f.v1, 0.0f);
        check_value(&f, f.v2, 6.0f);
        tensor_free(&t);
        free(path.bytes);
        teardown(&f);
    }
}
END_TEST

/* TensorFlow before 1.0 wrote an operation for each variable it restored, of one part. */
START_TEST(restore_slice_reads_a_part)
{
    static const char *const part[] = {"5 1,2"}, *const bad[] = {"6 1,2"};
    struct tensor_string path = {0};
    struct fixture f;
    struct output file;
    struct tensor t;

    with_v1(&f, 0);
    save(&f, "m", NULL, "m");
    path.bytes = xasprintf("%s/m", f.dir.path);
    path.len_bytes = strlen(path.bytes);
    file = placeholder(f.bed.g, DT_STRING, &SHAPE_SCALAR, "file");
    f.bed.feeds[f.bed.n_feeds++] =
        (struct feed){file, tensor_view(DT_STRING, SHAPE_SCALAR, &path)};
    for (int i = 0; i < 3; i++) {
        struct op_builder *o =
            op_begin(f.bed.g, i == 0 ? "Restore" : "RestoreSlice", NULL);
        struct output x;

        op_input(o, file);
        op_input(o, texts(f.bed.g, (const char *const *)&f.v2->name, 1, NULL));
        if (i > 0)
            op_input(o, texts(f.bed.g, i == 1 ? part : bad, 1, NULL));
        op_attr_type(o, "dt", DT_FLOAT);
        x = (struct output){op_finish(o), 0};
        ck_assert(output_valid(x));
        if (i == 2) {
            ck_assert_int_eq(bed_try(&f.bed, x), ERR_SHAPE);
            continue;
        }
        t = bed_fetch(&f.bed, x);
        ck_assert_int_eq(t.shape.dim[0], i == 0 ? 5 : 2);
        ck_assert_float_eq(tensor_f32(&t)[1], 6);
        tensor_free(&t);
    }
    free(path.bytes);
    teardown(&f);
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
    o.write_version = 3;
    check_refused(&f, saver_new(&s, f.bed.g, &o, &f.err), ERR_ARG, "write_version 3");
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

/* The options name, filename and restore_sequentially determine the nodes. */
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

/* The attribute of a node in the graph of a file; NULL: not present. */
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

static Suite *make_suite(void)
{
    Suite *s = suite_create("saver");
    TCase *restore = tcase_create("restore"), *make = tcase_create("constructor");
    TCase *v1 = tcase_create("v1");

    tcase_add_test(restore, what_is_restored_is_what_was_saved);
    tcase_add_test(restore, part_of_the_variables);
    tcase_add_test(restore, parts_of_one_variable);
    tcase_add_test(restore, parts_that_do_not_fit);
    tcase_add_test(restore, constants_are_saved_and_not_restored);
    tcase_add_test(restore, what_does_not_fit_is_refused);
    tcase_add_test(restore, shards_by_device);
    tcase_add_test(v1, v1_checkpoints_are_one_file);
    tcase_add_test(v1, v1_checkpoints_in_shards);
    tcase_add_test(v1, v1_nodes_save_and_restore);
    tcase_add_test(v1, restore_slice_reads_a_part);
    tcase_add_test(make, a_saver_needs_something_to_save);
    tcase_add_test(make, what_the_constructor_refuses);
    tcase_add_test(make, nodes_are_named_as_asked);
    tcase_add_test(make, default_attributes_may_be_left_out);
    tcase_add_test(make, a_saver_def_finds_its_nodes);
    suite_add_tcase(s, restore);
    suite_add_tcase(s, v1);
    suite_add_tcase(s, make);
    return s;
}

TEST_MAIN(make_suite)
