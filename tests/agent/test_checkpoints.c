/* The files that Savers write, keep, delete and find. */
#include "agent/saver/checkpoints.h"
#include "agent/saver/message.h"
#include "agent/saver/saver.h"
#include "common/ckpt/bundle.h"
#include "common/ckpt/table_format.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"
#include "tests/agent/saver_help.h"
#include "tests/support/checkpoints.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

/* ---- files and names ---- */

/* Every node has its stack trace. */
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
    /* for a relative directory TensorFlow records ".", which means it again */
    ck_assert_int_eq(chdir(f.dir.path), 0);
    ck_assert_int_eq(saver_save(f.saver, f.bed.s, "policy/", NULL, &prefix, &f.err), 0);
    ck_assert_str_eq(prefix, "policy/");
    ck_assert_int_eq(latest_checkpoint(&newest, "policy", NULL, &f.err), 1);
    ck_assert_str_eq(newest, "policy/");
    ck_assert_int_eq(saver_restore(f.saver, f.bed.s, newest, &f.err), 0);
    free(newest);
    free(prefix);
    /* a bare name means the current directory; one missing folder is created */
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
    /* saving the same name again moves it to the end and deletes nothing */
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

/* Two are kept, and one for every hour: the Saver is built at 1000 s, so the first one
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
    /* checkpoints that are only set count as too recent to be deleted */
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

/* ---- finding checkpoints ---- */

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
    /* paths of another machine: the same base name in this directory is found */
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
    /* a V1 checkpoint is a file with the prefix as its name */
    write_text(&f, "old", "anything");
    v1 = xasprintf("%s/old", f.dir.path);
    ck_assert_int_eq(checkpoint_exists(v1), 1);
    check_refused(&f, saver_restore(f.saver, f.bed.s, v1, &f.err), ERR_FORMAT, "V1");
    free(v1);
    teardown(&f);
}
END_TEST

/* ---- files of other programs ---- */

/* Writes a `checkpoint` file that was copied here from another machine. */
static void name_newest(struct fixture *f, const char *name)
{
    char *text =
        xasprintf("model_checkpoint_path: \"/home/some one/my runs/%s\"\n", name);

    write_text(f, "checkpoint", text);
    free(text);
}

/* Writes an index whose only block is of this kind. */
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
    check_newest_refused(&f, "old model", ERR_FORMAT, "V1 checkpoint");
    write_text(&f, "m-00000-of-00002", "anything");
    check_newest_refused(&f,
                         "m-????"
                         "?-of-00002",
                         ERR_FORMAT, "V1 checkpoint");
    write_index(&f, "my snappy model.index", TABLE_BLOCK_SNAPPY);
    check_newest_refused(&f, "my snappy model", ERR_FORMAT, "compressed block");
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
        char *name = ckpt_meta_path(names[i].prefix, "meta");

        ck_assert_str_eq(name, names[i].want);
        free(name);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("checkpoints");
    TCase *files = tcase_create("files"), *old = tcase_create("deletion");
    TCase *newest = tcase_create("newest");

    tcase_add_test(files, files_and_their_names);
    tcase_add_test(files, steps_are_padded_and_read_from_tensors);
    tcase_add_test(files, a_prefix_may_end_in_a_slash);
    tcase_add_test(files, the_state_file_has_tensorflow_s_paths);
    tcase_add_test(files, names_of_meta_graphs);
    tcase_add_test(old, the_oldest_is_deleted);
    tcase_add_test(old, nothing_is_deleted_without_a_limit);
    tcase_add_test(old, one_of_every_hour_stays);
    tcase_add_test(old, a_new_saver_takes_up_the_old_list);
    tcase_add_test(newest, the_newest_checkpoint_of_a_directory);
    tcase_add_test(newest, the_newest_may_be_another_s);
    suite_add_tcase(s, files);
    suite_add_tcase(s, old);
    suite_add_tcase(s, newest);
    return s;
}

TEST_MAIN(make_suite)
