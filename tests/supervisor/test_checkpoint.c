#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "supervisor/save/checkpoint_choose.h"
#include "supervisor/save/checkpoint_read.h"
#include "supervisor/save/checkpoint_write.h"
#include "supervisor/save/retention.h"
#include "tests/support/let_fail.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- the fault seam: this program's own calls that change the disk ---- */

enum { DIED = 42 };

static struct {
    long left; /* calls until the fault; -1: none */
    int error; /* 0: the process dies there, otherwise the call fails with it */
} fault = {.left = -1};

static int no_exchange; /* 1: the file system cannot exchange two names */

static int moved; /* 1: a folder of checkpoints/ was renamed, and not synced yet */
static int early_removals; /* calls that removed something meanwhile */

static int faulted(void)
{
    if (fault.left < 0 || fault.left-- > 0)
        return 0;
    if (fault.error == 0)
        _exit(DIED);
    fault.left = -1;
    errno = fault.error;
    return 1;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = (flags & O_CREAT) != 0 ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return (flags & O_CREAT) != 0 && faulted()
               ? -1
               : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int unlink(const char *path)
{
    return faulted() ? -1 : (int)syscall(SYS_unlink, path);
}

int mkdir(const char *path, mode_t mode)
{
    return faulted() ? -1 : (int)syscall(SYS_mkdir, path, mode);
}

size_t fwrite(const void *data, size_t size, size_t n, FILE *f)
{
    return faulted() ? 0 : fwrite_unlocked(data, size, n, f);
}

int fflush(FILE *f)
{
    return faulted() ? EOF : fflush_unlocked(f);
}

int rename(const char *from, const char *to)
{
    return faulted() ? -1 : (int)syscall(SYS_rename, from, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    if (flags != 0 && no_exchange) {
        errno = EINVAL;
        return -1;
    }
    if (faulted())
        return -1;
    moved = 1;
    return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

/* The tests kill only a process, which loses no written data, so fsync need not wait for
 * the disk. */
int fsync(int fd)
{
    (void)fd;
    moved = 0;
    return faulted() ? -1 : 0;
}

int fdatasync(int fd)
{
    return fsync(fd);
}

int unlinkat(int fd, const char *path, int flags)
{
    early_removals += moved;
    return faulted() ? -1 : (int)syscall(SYS_unlinkat, fd, path, flags);
}

/* ---- a run of two agents ---- */

static struct temp_dir dir;
static uint8_t *bytes[2]; /* bytes of the descriptions */
static struct msg description[2];
static float block[2][32];
static char checkpoints[128];
static struct store *experience; /* NULL: there is no log */

static void pack_variable(struct msg_out *o, const char *name, enum dtype dtype,
                          uint64_t rows, uint64_t offset, const char *collection)
{
    msg_array(o, 5);
    msg_str(o, name);
    msg_u64(o, dtype);
    msg_array(o, rows == 0 ? 0 : 1);
    if (rows != 0)
        msg_u64(o, rows);
    msg_u64(o, offset);
    msg_str(o, collection);
}

static void keep(struct msg_out *o, int agent)
{
    const uint8_t *frame;
    size_t len;
    struct err err = {0};

    msg_end(o, &frame, &len);
    len -= FRAME_HEADER_BYTES;
    bytes[agent] = xmalloc(len);
    memcpy(bytes[agent], frame + FRAME_HEADER_BYTES, len);
    ck_assert_int_eq(msg_parse(&description[agent], bytes[agent], len, &err), 0);
    msg_out_done(o);
}

static void setup(void)
{
    temp_dir_init(&dir);
    for (int a = 0; a < 2; a++) {
        struct msg_out o;

        msg_out_init(&o);
        msg_begin_response(&o, 1);
        msg_map(&o, 1);
        msg_key(&o, "variables");
        msg_array(&o, 3);
        pack_variable(&o, "q/w", DT_FLOAT, 4, 64, "variables");
        pack_variable(&o, "p/b", DT_FLOAT, 0, 0, "variables");
        pack_variable(&o, "rate", DT_FLOAT, 0, 4, "hyperparameters");
        keep(&o, a);
        for (int i = 0; i < 32; i++)
            block[a][i] = (float)(100 * a + i);
    }
    (void)snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", dir.path);
    ck_assert_int_eq(tree_make(checkpoints, NULL), 0);
}

static void teardown(void)
{
    no_exchange = 0;
    fault.left = -1;
    fault.error = 0;
    store_free(experience);
    experience = NULL;
    for (int a = 0; a < 2; a++) {
        msg_done(&description[a]);
        free(bytes[a]);
    }
    temp_dir_done(&dir);
}

/* A log with a window of 10 rows of 8 KB, and 100 rows. */
static struct store *make_log(void)
{
    static struct env_agent agent = {
        .name = "a", .team = "a", .obs_width = 1000, .space = {.width = 1}};
    const struct env_spec spec = {.id = "x", .n_agents = 1, .agents = &agent};
    struct store_layout layout;
    struct store *s;
    struct err err = {0};

    ck_assert_int_eq(store_create(&s, temp_dir_file(&dir, "experience"), 10, &err), 0);
    ck_assert_int_eq(store_layout_make(&layout, &spec, NULL, 0, &err), 0);
    ck_assert_int_eq(store_describe(s, &layout, &err), 0);
    memset(store_rows(s, 100), 1, 100 * store_layout(s)->row_bytes);
    ck_assert_int_eq(store_append(s, 100, &err), 0);
    return s;
}

/* What the next checkpoints say of the evaluations; len 0: nothing. */
static struct wbuf evaluations;
static uint64_t best; /* of retention */

static int commit_to(const char *folder, uint64_t step, size_t max_to_keep,
                     struct err *err)
{
    const struct checkpoint_agent agents[] = {
        {"agent_0", &description[0].body, block[0], sizeof(block[0])},
        {"agent_1", &description[1].body, block[1], sizeof(block[1])},
    };
    const struct checkpoint_section sections[] = {
        {"rollout", &step, sizeof(step)},
        {"empty", NULL, 0},
        {SECTION_EVALUATIONS, evaluations.data, evaluations.len}};
    const struct checkpoint_args args = {.dir = folder,
                                         .step = step,
                                         .agents = agents,
                                         .n_agents = 2,
                                         .sections = sections,
                                         .n_sections = evaluations.len > 0 ? 3 : 2,
                                         .log = experience};

    const struct retention keep = {.max = max_to_keep, .best = best};
    int rc = checkpoint_write(&args, err);

    if (rc == 0) /* as the saver does: a checkpoint that cannot be removed stays */
        (void)retention_drop_old(&keep, folder, NULL);
    return rc;
}

static void commit(uint64_t step, size_t max_to_keep)
{
    struct err err = {0};

    ck_assert_msg(commit_to(checkpoints, step, max_to_keep, &err) == 0, "%s", err.msg);
}

/* The checkpoint of a step must be complete, and its first agent's weights begin with
 * w. */
static void check_whole(uint64_t step, float w)
{
    struct checkpoint_state state;
    struct checkpoint_values v;
    const struct checkpoint_section *s;
    struct err err = {0};

    ck_assert_msg(checkpoint_state_read(&state, checkpoints, step, &err) == 0, "%s",
                  err.msg);
    s = checkpoint_state_find(&state, "rollout");
    ck_assert_ptr_nonnull(s);
    ck_assert_mem_eq(s->data, &step, sizeof(step));
    ck_assert_uint_eq(checkpoint_state_find(&state, "empty")->len, 0);
    ck_assert_ptr_null(checkpoint_state_find(&state, "other"));
    checkpoint_state_done(&state);
    ck_assert_msg(checkpoint_load(&v, checkpoints, step, "agent_0", &err) == 0, "%s",
                  err.msg);
    ck_assert_uint_eq(v.n, 2);
    ck_assert_str_eq(v.names[0], "p/b");
    ck_assert_str_eq(v.names[1], "q/w");
    ck_assert_int_eq(v.tensors[0].shape.rank, 0);
    ck_assert_int_eq(v.tensors[1].shape.dim[0], 4);
    ck_assert(tensor_f32(&v.tensors[1])[0] == w);
    checkpoint_values_done(&v);
    ck_assert_int_eq(checkpoint_load(&v, checkpoints, step, "agent_1", &err), 0);
    checkpoint_values_done(&v);
}

static void check_steps(const uint64_t *want, size_t n)
{
    uint64_t *steps;
    size_t got;
    struct err err = {0};

    ck_assert_int_eq(checkpoint_list(checkpoints, &steps, &got, &err), 0);
    ck_assert_uint_eq(got, n);
    if (n > 0)
        ck_assert_mem_eq(steps, want, n * sizeof(*want));
    free(steps);
}

static size_t count_hidden(void)
{
    DIR *d = opendir(checkpoints);
    struct dirent *e;
    size_t n = 0;

    while ((e = readdir(d)) != NULL)
        n += e->d_name[0] == '.' && e->d_name[1] != '\0' && e->d_name[1] != '.';
    closedir(d);
    return n;
}

/* ---- tests ---- */

START_TEST(test_commit_and_load)
{
    char *text, path[256];

    check_steps(NULL, 0);
    commit(20, 5);
    commit(100, 5);
    check_steps((uint64_t[]){20, 100}, 2);
    check_whole(20, 16);
    check_whole(100, 16);
    ck_assert_uint_eq(count_hidden(), 0);
    (void)snprintf(path, sizeof(path), "%s/100/agent_1/checkpoint", checkpoints);
    text = temp_dir_read(path, NULL);
    ck_assert_str_eq(text, "model_checkpoint_path: \"model.ckpt-100\"\n"
                           "all_model_checkpoint_paths: \"model.ckpt-100\"\n");
    free(text);
}
END_TEST

START_TEST(test_agents_are_the_folders)
{
    char **names, path[256];
    size_t n;
    struct err err = {0};

    commit(20, 5);
    (void)snprintf(path, sizeof(path), "%s/20/.hidden", checkpoints);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/20/a_link", checkpoints);
    ck_assert_int_eq(symlink("agent_1", path), 0);
    ck_assert_int_eq(checkpoint_agents(checkpoints, 20, &names, &n, &err), 0);
    ck_assert_uint_eq(n, 3); /* not run.state; what a link leads to is asked */
    ck_assert_str_eq(names[0], "a_link");
    ck_assert_str_eq(names[1], "agent_0");
    ck_assert_str_eq(names[2], "agent_1");
    checkpoint_agents_free(names, n);
    ck_assert_int_eq(checkpoint_agents(checkpoints, 30, &names, &n, &err), -ENOENT);
}
END_TEST

START_TEST(test_old_ones_go)
{
    for (uint64_t step = 0; step < 50; step += 10)
        commit(step, 3);
    check_steps((uint64_t[]){20, 30, 40}, 3);
    for (uint64_t step = 50; step < 90; step += 10)
        commit(step, 0);
    check_steps((uint64_t[]){20, 30, 40, 50, 60, 70, 80}, 7);
    ck_assert_uint_eq(count_hidden(), 0);
}
END_TEST

/* Commits the checkpoint of an evaluation with that value, as a run does that keeps the best. */
static void commit_evaluated(struct verdict *v, uint64_t step, double value)
{
    const struct run_config c = {
        .checkpoint = {.has_keep_best = 1, .keep_best = {.metric = "eval/x"}}};

    best_value_take(&v->kept, 0, value, step);
    verdict_save(v, &c, &evaluations);
    best = v->kept.step;
    commit(step, 1);
    wbuf_done(&evaluations);
    best = 0;
}

static void expect_no_best(const char *why)
{
    struct err err = {0};
    uint64_t step;

    ck_assert_int_eq(checkpoint_choose(checkpoints, "best", &step, &err), ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, why));
    ck_assert_ptr_null(strstr(err.msg, "/checkpoints has"));
}

START_TEST(test_the_best_one_stays)
{
    struct verdict v = {0};
    struct err err;
    uint64_t step;

    expect_no_best("holds no checkpoint");
    commit(5, 1);
    expect_no_best("has no best checkpoint: its checkpoint.keep_best is none");
    commit_evaluated(&v, 10, (double)NAN);
    expect_no_best("has no best checkpoint yet");
    commit_evaluated(&v, 20, 1);
    check_steps((uint64_t[]){20}, 1);
    commit_evaluated(&v, 30, 0);
    commit_evaluated(&v, 40, 1); /* the earlier one of equal ones */
    check_steps((uint64_t[]){20, 40}, 2);
    ck_assert_int_eq(checkpoint_choose(checkpoints, "best", &step, &err), 0);
    ck_assert_uint_eq(step, 20);
    ck_assert_int_eq(checkpoint_choose(checkpoints, "40", &step, &err), 0);
    ck_assert_uint_eq(step, 40);
    commit_evaluated(&v, 50, 2);
    commit_evaluated(&v, 60, -1);
    check_steps((uint64_t[]){50, 60}, 2);
    /* where the newest one cannot be read, the one before says it */
    ck_assert_int_eq(unlink(temp_dir_file(&dir, "checkpoints/60/run.state")), 0);
    ck_assert_int_eq(checkpoint_choose(checkpoints, "best", &step, &err), 0);
    ck_assert_uint_eq(step, 50);
    commit_evaluated(&v, 70, -1);
    ck_assert_int_eq(retention_drop(checkpoints, 50, &err), 0);
    expect_no_best("that of step 50 is not there");
}
END_TEST

static void set_written(uint64_t step, time_t at)
{
    const struct timespec times[2] = {{at, 0}, {at, 0}};
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%llu/run.state", checkpoints,
                   (unsigned long long)step);
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* After a pause of many intervals one stays for good, not one for each interval. */
START_TEST(test_one_stays_after_a_long_pause)
{
    const struct retention keep = {.max = 2, .every_s = 3600, .began_unix = 1e6};

    for (uint64_t step = 10; step <= 80; step += 10) {
        commit(step, 0);
        set_written(step, 1000000 + 360000 + (time_t)step);
    }
    ck_assert_int_eq(retention_drop_old(&keep, checkpoints, NULL), 0);
    check_steps((uint64_t[]){10, 70, 80}, 3);
}
END_TEST

START_TEST(test_same_step_again)
{
    no_exchange = _i;
    commit(20, 5);
    block[0][16] = 7;
    commit(20, 5);
    check_steps((uint64_t[]){20}, 1);
    check_whole(20, 7);
    ck_assert_uint_eq(count_hidden(), 0);
}
END_TEST

/* A power cut may undo what is not synced. Until the new one is in its place on the disk, the
 * old one is whole; whatever fails, one of them is there. */
START_TEST(test_same_step_again_keeps_one)
{
    no_exchange = _i;
    for (long k = 0;; k++) {
        struct checkpoint_values v;
        float w;
        int rc;

        ck_assert_int_eq(tree_empty(checkpoints, NULL, NULL), 0);
        block[0][16] = 5;
        commit(20, 5);
        block[0][16] = 7;
        moved = early_removals = 0;
        fault.left = k;
        fault.error = ENOSPC;
        rc = commit_to(checkpoints, 20, 5, NULL);
        if (fault.left >= 0)
            break; /* there were fewer calls than k */
        fault.left = -1;
        ck_assert_msg(checkpoint_load(&v, checkpoints, 20, "agent_0", NULL) == 0,
                      "call %ld", k);
        w = tensor_f32(&v.tensors[1])[0];
        ck_assert(w == 7 || (rc < 0 && w == 5));
        checkpoint_values_done(&v);
    }
    fault.left = -1;
    ck_assert_int_eq(early_removals, 0); /* of the last one, which did not fail */
}
END_TEST

static const char *const damageable[] = {"run.state", "agent_0/model.ckpt-20.index",
                                         "agent_1/model.ckpt-20.data-00000-of-00001"};

START_TEST(test_damaged_one_steps_aside)
{
    char path[256];
    FILE *f;

    commit(20, 5);
    (void)snprintf(path, sizeof(path), "%s/20/%s", checkpoints, damageable[_i]);
    f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    fseek(f, 9, SEEK_SET);
    fputc(0xff, f);
    fclose(f);
    ck_assert(checkpoint_is_damaged(checkpoints, 20));
    commit(20, 5);
    ck_assert(!checkpoint_is_damaged(checkpoints, 20));
    check_whole(20, 16);
    (void)snprintf(path, sizeof(path), "%s/.bad-20/run.state", checkpoints);
    ck_assert(tree_exists(path));
}
END_TEST

/* Equal runs write equal bytes, which depend on neither clock, process nor path. */
START_TEST(test_equal_bytes)
{
    static const char *const files[] = {"20/run.state", "20/agent_0/checkpoint",
                                        "20/agent_0/model.ckpt-20.index",
                                        "20/agent_1/model.ckpt-20.data-00000-of-00001"};
    char other[256], path[512];

    (void)snprintf(other, sizeof(other), "%s/another/place", dir.path);
    ck_assert_int_eq(tree_make(other, NULL), 0);
    commit(20, 5);
    ck_assert_int_eq(commit_to(other, 20, 5, NULL), 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        size_t n, m;
        char *a, *b;

        (void)snprintf(path, sizeof(path), "%s/%s", checkpoints, files[i]);
        a = temp_dir_read(path, &n);
        (void)snprintf(path, sizeof(path), "%s/%s", other, files[i]);
        b = temp_dir_read(path, &m);
        ck_assert_uint_eq(n, m);
        ck_assert_mem_eq(a, b, n);
        free(a);
        free(b);
    }
}
END_TEST

/* Killed at the k-th call that changes the disk, for every k: the older checkpoints are
 * complete, the new one is complete or absent, and the next commit removes leftovers. */
START_TEST(test_killed_at_every_step)
{
    int status = DIED << 8;
    long k;

    experience = make_log();
    for (k = 0; status == DIED << 8; k++) {
        uint64_t *steps;
        size_t n;
        pid_t child;

        ck_assert_int_eq(tree_empty(checkpoints, NULL, NULL), 0);
        commit(10, 3);
        commit(20, 3);
        commit(30, 3);
        child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            fault.left = k;
            _exit(commit_to(checkpoints, 40, 3, NULL) != 0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);

        ck_assert_int_eq(checkpoint_list(checkpoints, &steps, &n, NULL), 0);
        ck_assert_uint_ge(n, 3);
        ck_assert(steps[n - 1] == 30 || steps[n - 1] == 40);
        for (size_t i = 0; i < n; i++)
            check_whole(steps[i], 16);
        free(steps);

        commit(50, 3);
        ck_assert_uint_eq(count_hidden(), 0);
        check_whole(50, 16);
    }
    ck_assert_int_eq(status, 0);
    ck_assert_int_gt(k, 40); /* the number of calls at which it died */
}
END_TEST

/* The k-th call fails, for every k: the call returns an error and leaves nothing half
 * done, or, if the new checkpoint is already committed, one older checkpoint too many. */
START_TEST(test_failure_at_every_step)
{
    int n_failed = 0, n_lost = 0, n_stayed = 0;

    experience = make_log();
    for (long k = 0;; k++) {
        struct err err = {0};
        int rc;

        ck_assert_int_eq(tree_empty(checkpoints, NULL, NULL), 0);
        commit(10, 3);
        commit(20, 3);
        commit(30, 3);
        fault.left = k;
        fault.error = ENOSPC;
        rc = commit_to(checkpoints, 40, 3, &err);
        if (fault.left >= 0)
            break; /* there were fewer calls than k */
        fault.left = -1;
        if (rc == 0) {
            n_stayed++;
            check_whole(40, 16);
        } else {
            n_failed++;
            n_lost += rc == ERR_CORRUPT; /* a sync of the log */
            ck_assert(rc == -ENOSPC || rc == ERR_CORRUPT);
            ck_assert_msg(strstr(err.msg, "No space left") != NULL, "%s", err.msg);
            check_whole(10, 16);
        }
        check_whole(20, 16);
        check_whole(30, 16);
        commit(50, 3);
        ck_assert_uint_eq(count_hidden(), 0);
    }
    fault.left = -1;
    ck_assert_int_gt(n_failed, 40);
    ck_assert_int_eq(n_lost, 1);
    ck_assert_int_gt(n_stayed, 5);
}
END_TEST

/* Rows in the windows of kept checkpoints stay; those before and between them are released. */
START_TEST(test_rows_of_kept_checkpoints_stay)
{
    struct store *s = make_log();
    struct stat before, after;
    char path[256];
    struct err err = {0};

    (void)snprintf(path, sizeof(path), "%s/experience", dir.path);
    commit(0, 5);
    commit(10, 5);
    ck_assert_int_eq(store_sync(s, &err), 0);
    ck_assert_int_eq(stat(path, &before), 0);
    ck_assert_int_eq(retention_release_rows(checkpoints, 20, s, &err), 0);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_int_eq(before.st_blocks, after.st_blocks); /* 10 and 20 need rows 0 to 19 */
    commit(60, 5);
    ck_assert_int_eq(retention_release_rows(checkpoints, 100, s, &err), 0);
    ck_assert_int_eq(stat(path, &after),
                     0); /* rows 10 to 49, and 60 to 89, of 8 KB, in blocks of 8 rows */
    ck_assert_int_ge((before.st_blocks - after.st_blocks) * 512, 54 * 8000);
    ck_assert_int_le((before.st_blocks - after.st_blocks) * 512, 58 * 8200);
    ck_assert_int_eq(tree_empty(checkpoints, NULL, NULL), 0);
    commit(60, 5);
    ck_assert_int_eq(retention_release_rows(checkpoints, 100, s, &err), 0);
    ck_assert_int_eq(stat(path, &after), 0); /* and rows 0 to 9 */
    ck_assert_int_ge((before.st_blocks - after.st_blocks) * 512, 70 * 8000);
    ck_assert_int_le((before.st_blocks - after.st_blocks) * 512, 75 * 8200);
    store_free(s);
}
END_TEST

/* A resume would begin at an older one. */
START_TEST(test_folder_that_cannot_be_read)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    int status;
    const pid_t pid = fork(); /* the folder is removed later */

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        let_fail(SYS_getdents64, EIO);
        _exit(checkpoint_list(checkpoints, &steps, &n, NULL) == -EIO ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* Places outside of the block in an agent's description are refused. */
START_TEST(test_hostile_tables)
{
    static const struct {
        enum dtype dtype;
        uint64_t rows, offset;
    } cases[] = {{DT_FLOAT, 32, 4},         {DT_FLOAT, 1, 128},
                 {DT_FLOAT, UINT64_MAX, 0}, {DT_FLOAT, INT64_MAX, 0},
                 {DT_FLOAT, 1, UINT64_MAX}, {DT_RESOURCE, 1, 0},
                 {(enum dtype)99, 1, 0},    {DT_DOUBLE, (uint64_t)1 << 61, 0},
                 {DT_STRING, 1, 0},         {DT_STRING, (uint64_t)1 << 59, 0}};
    struct msg_out o;
    struct err err = {0};

    msg_out_init(&o);
    msg_begin_response(&o, 1);
    msg_map(&o, 1);
    msg_key(&o, "variables");
    msg_array(&o, 1);
    pack_variable(&o, "v", cases[_i].dtype, cases[_i].rows, cases[_i].offset,
                  "variables");
    msg_done(&description[0]);
    free(bytes[0]);
    keep(&o, 0);
    ck_assert_int_eq(commit_to(checkpoints, 20, 5, &err), ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "agent_0"));
    check_steps(NULL, 0);
    ck_assert_uint_eq(count_hidden(), 0);
}
END_TEST

/* Reading fails if any byte of run.state is changed, or its end is cut off. */
START_TEST(test_damaged_state)
{
    char path[256], *data;
    size_t len;
    struct checkpoint_state state;

    commit(20, 5);
    (void)snprintf(path, sizeof(path), "%s/20/run.state", checkpoints);
    data = temp_dir_read(path, &len);
    for (size_t i = 0; i < 2 * len; i++) {
        if (i < len)
            data[i] = (char)(data[i] ^ 0x55);
        temp_dir_write(path, data, i < len ? len : i - len);
        if (i < len)
            data[i] = (char)(data[i] ^ 0x55);
        ck_assert_int_lt(checkpoint_state_read(&state, checkpoints, 20, NULL), 0);
    }
    free(data);
}
END_TEST

/* Whether the section is found, which has *ret_len bytes of data. */
static int finds_section(const char *name, size_t *ret_len)
{
    struct checkpoint_state state;
    int is_found;

    if (checkpoint_section_read(&state, checkpoints, 20, name, 1000, NULL) < 0)
        return 0;
    is_found = state.n == 1;
    *ret_len = is_found ? state.sections[0].len : 0;
    checkpoint_state_done(&state);
    return is_found;
}

/* One section is read alone: damage to the data of others is not noticed, damage to it is. */
START_TEST(test_one_section)
{
    enum {
        BEFORE = 16 + 4 + 7 + 8
    }; /* "rollout" is the first section: before its data */
    char path[256], *data;
    size_t len, state_len, begin, end;
    struct verdict v = {0};
    struct checkpoint_state state;
    struct err err = {0};

    commit_evaluated(&v, 20, 1);
    ck_assert_int_eq(
        checkpoint_section_read(&state, checkpoints, 20, "rollout", 30, &err), ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.msg, "section 'rollout' has 31 bytes"));
    ck_assert(finds_section("rollout", &len));
    ck_assert_uint_eq(len, sizeof(uint64_t));
    ck_assert(!finds_section("none", &len));

    (void)snprintf(path, sizeof(path), "%s/20/run.state", checkpoints);
    data = temp_dir_read(path, &state_len);
    ck_assert(finds_section(SECTION_EVALUATIONS, &len));
    begin = (size_t)((char *)memmem(data, state_len, SECTION_EVALUATIONS,
                                    strlen(SECTION_EVALUATIONS)) -
                     data) -
            4;
    end = begin + 4 + strlen(SECTION_EVALUATIONS) + 8 + len + 4;
    for (size_t i = 0; i < state_len; i++) {
        int is_found;

        data[i] = (char)(data[i] ^ 0x55);
        temp_dir_write(path, data, state_len);
        data[i] = (char)(data[i] ^ 0x55);
        is_found = finds_section(SECTION_EVALUATIONS, &len);
        if (i >= BEFORE && i < BEFORE + sizeof(uint64_t))
            ck_assert(is_found);
        if (i < 12 || (i >= begin && i < end))
            ck_assert(!is_found);
        temp_dir_write(path, data, i);
        ck_assert_int_eq(finds_section(SECTION_EVALUATIONS, &len), i >= end);
    }
    free(data);
}
END_TEST

/* Of a large file, the heads of the sections are read before memory is allocated. */
START_TEST(test_large_state)
{
    enum { LEN = 70 << 20 };
    uint8_t *zeros = xcalloc(LEN, 1);
    const struct checkpoint_section sections[] = {
        {"a", "x", 1}, {"large", zeros, LEN}, {"empty", "", 0}};
    const off_t ends[] = {-1, 0, 1};
    struct checkpoint_state state;
    struct wbuf b = {0};
    char path[256];

    checkpoint_state_put(&b, sections, 3);
    (void)snprintf(path, sizeof(path), "%s/7", checkpoints);
    ck_assert_int_eq(tree_make(path, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/7/run.state", checkpoints);
    for (size_t i = 0; i < 3; i++) {
        temp_dir_write(path, b.data, b.len);
        ck_assert_int_eq(truncate(path, (off_t)b.len + ends[i]), 0);
        if (ends[i] != 0) {
            ck_assert_int_eq(checkpoint_state_read(&state, checkpoints, 7, NULL),
                             ERR_FORMAT);
            continue;
        }
        ck_assert_int_eq(checkpoint_state_read(&state, checkpoints, 7, NULL), 0);
        ck_assert_uint_eq(checkpoint_state_find(&state, "large")->len, LEN);
        ck_assert_uint_eq(checkpoint_state_find(&state, "empty")->len, 0);
        checkpoint_state_done(&state);
    }
    wbuf_done(&b);
    free(zeros);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("checkpoint");
    TCase *tc = tcase_create("checkpoint");

    tcase_set_timeout(tc, 100);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_commit_and_load);
    tcase_add_test(tc, test_agents_are_the_folders);
    tcase_add_test(tc, test_old_ones_go);
    tcase_add_test(tc, test_the_best_one_stays);
    tcase_add_test(tc, test_large_state);
    tcase_add_loop_test(tc, test_same_step_again, 0, 2);
    tcase_add_loop_test(tc, test_same_step_again_keeps_one, 0, 2);
    tcase_add_test(tc, test_one_stays_after_a_long_pause);
    tcase_add_loop_test(tc, test_damaged_one_steps_aside, 0,
                        sizeof(damageable) / sizeof(damageable[0]));
    tcase_add_test(tc, test_equal_bytes);
    tcase_add_test(tc, test_rows_of_kept_checkpoints_stay);
    tcase_add_test(tc, test_folder_that_cannot_be_read);
    tcase_add_test(tc, test_killed_at_every_step);
    tcase_add_test(tc, test_failure_at_every_step);
    tcase_add_loop_test(tc, test_hostile_tables, 0, 10);
    tcase_add_test(tc, test_damaged_state);
    tcase_add_test(tc, test_one_section);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
