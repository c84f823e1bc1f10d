/* The algorithms of the brood-agent that was built with this brood (algorithms.h). */
#include "supervisor/describe/packed.h"
#include "supervisor/describe/programs.h"

#include "common/ckpt/atomic_file.h"
#include "common/config/algorithms.h"
#include "common/err/check.h"
#include "common/io/copy_file.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/msg/algorithm_msg.h"
#include "common/msg/frame.h"
#include "common/wire/cursor.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ALGORITHMS = 64 };

/* Lives as long as the process, as the descriptions do. Any thread may ask for them. */
static struct arena arena;
static struct algorithm_info all[MAX_ALGORITHMS + 1]; /* up to one without a name */

static int unpack_all(struct err *err)
{
    const msgpack_object *list = NULL;
    struct msg answer;
    int rc = msg_parse(&answer, described_frame + FRAME_HEADER_BYTES,
                       described_frame_bytes - FRAME_HEADER_BYTES, err);

    if (rc < 0)
        return rc;
    rc = msg_get_array(&answer.body, "algorithms", &list, err);
    for (uint32_t i = 0; rc == 0 && list != NULL && i < list->via.array.size; i++) {
        CHECK(i < MAX_ALGORITHMS);
        rc = msg_to_algorithm(&list->via.array.ptr[i], &all[i], &arena, err);
    }
    msg_done(&answer);
    return rc;
}

static void unpack(void)
{
    struct err err = {0};

    CHECK(unpack_all(&err) == 0, "brood-agent describe: %s", err.msg);
}

/* ---- programs ---- */

/* They live as long as the process, too. */
struct noted {
    struct noted *next;
    const char *hash;
    struct algorithm_info info, as_policy;
    uint8_t *frame;
    size_t len;
    struct program_files files;
    char *kept; /* the folder that it is started from; NULL: its own */
    const char *const *identity;
};
static struct noted *noted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list and the arena */

/* The caller holds the lock. */
static struct noted *described_find(const char *hash)
{
    struct noted *p = noted;

    while (p != NULL && strcmp(p->hash, hash) != 0)
        p = p->next;
    return p;
}

static struct noted *find_noted(const char *hash)
{
    struct noted *p;

    (void)pthread_mutex_lock(&lock);
    p = described_find(hash);
    (void)pthread_mutex_unlock(&lock);
    return p;
}

static struct noted *add_noted(const char *hash, const struct algorithm_info *info,
                               const void *frame, size_t len)
{
    struct noted *p = ARENA_NEW(&arena, struct noted);

    *p = (struct noted){.next = noted,
                        .hash = arena_strdup(&arena, hash),
                        .info = *info,
                        .frame = arena_memdup(&arena, frame, len),
                        .len = len};
    p->as_policy = *info;
    p->as_policy.fixed = 1;
    p->as_policy.central = p->as_policy.shares = p->as_policy.team_reward = 0;
    p->as_policy.scalars = NULL;
    p->as_policy.episodes_if = NULL;
    p->info.as_policy = p->as_policy.as_policy = &p->as_policy;
    noted = p;
    return p;
}

int program_note(const struct algorithm_info **ret, const char *hash, const void *frame,
                 size_t len, struct err *err)
{
    const msgpack_object *list = NULL;
    struct noted *p = find_noted(hash);
    struct algorithm_info info;
    struct msg answer;
    int rc = 0;

    if (p != NULL) {
        *ret = &p->info;
        return 0;
    }
    if (len <= FRAME_HEADER_BYTES)
        return err_set(err, ERR_FORMAT, "no description");
    rc = msg_parse(&answer, (const uint8_t *)frame + FRAME_HEADER_BYTES,
                   len - FRAME_HEADER_BYTES, err);
    if (rc < 0)
        return rc;
    rc = msg_get_array(&answer.body, "algorithms", &list, err);
    if (rc == 0 && (list == NULL || list->via.array.size != 1))
        rc = err_set(err, ERR_PROTOCOL, "the description of one program expected");
    (void)algorithm_at(0); /* unpacks into the arena */
    (void)pthread_mutex_lock(&lock);
    if (rc == 0)
        rc = msg_to_algorithm(&list->via.array.ptr[0], &info, &arena, err);
    msg_done(&answer);
    if (rc == 0)
        p = add_noted(hash, &info, frame, len);
    (void)pthread_mutex_unlock(&lock);
    if (rc == 0)
        *ret = &p->info;
    return rc;
}

/* ---- what runs keep of them ---- */

void program_note_files(const char *hash, struct program_files *files)
{
    struct noted *p = find_noted(hash);

    (void)pthread_mutex_lock(&lock);
    if (p->files.n == 0) {
        program_files_done(&p->files);
        p->files = *files;
        *files = (struct program_files){.within = ""};
    }
    (void)pthread_mutex_unlock(&lock);
    program_files_done(files);
}

void program_expect(const char *hash, const char *const *identity)
{
    struct noted *p = find_noted(hash);

    (void)pthread_mutex_lock(&lock);
    p->identity = identity;
    (void)pthread_mutex_unlock(&lock);
}

struct program_place program_place(const char *hash)
{
    const struct noted *p = hash != NULL ? find_noted(hash) : NULL;
    struct program_place ret = {0};

    if (p == NULL)
        return ret;
    (void)pthread_mutex_lock(&lock);
    ret = (struct program_place){.kept = p->kept,
                                 .within = p->info.within != NULL ? p->info.within : "",
                                 .identity = p->identity};
    (void)pthread_mutex_unlock(&lock);
    return ret;
}

/* Takes the folder as the one that the program is started from, if it has files. */
static void start_from(struct noted *p, const char *folder)
{
    char *files = xasprintf("%s/files", folder), real[PATH_MAX];

    if (tree_exists(files) && realpath(folder, real) != NULL) {
        (void)pthread_mutex_lock(&lock);
        if (p->kept == NULL || strcmp(p->kept, real) != 0)
            p->kept = arena_strdup(&arena, real); /* the last one may be in use */
        (void)pthread_mutex_unlock(&lock);
    }
    free(files);
}

void program_start_as(const char *hash, const char *other)
{
    struct noted *p = find_noted(hash);

    (void)pthread_mutex_lock(&lock);
    if (p->kept == NULL)
        p->kept = described_find(other)->kept;
    (void)pthread_mutex_unlock(&lock);
}

void program_start_from(const char *hash, const char *run)
{
    struct noted *p = find_noted(hash);
    char *folder = xasprintf("%s/programs/%s", run, hash);

    if (p != NULL)
        start_from(p, folder);
    free(folder);
}

/* Makes the folder whole: it gets its name when everything is in it. */
static int keep(const struct noted *p, const char *folder, struct err *err)
{
    char *part = xasprintf("%s.part", folder);
    char *description = xasprintf("%s/description", part);
    int rc = tree_remove(part, err);

    if (rc == 0 && p->files.n == 0 && p->kept != NULL) {
        char *parent = xstrndup(folder, (size_t)(strrchr(folder, '/') - folder));

        rc = tree_make(parent, err);
        free(parent);
        if (rc == 0)
            rc = copy_tree(p->kept, part, err);
    } else if (rc == 0) {
        rc = tree_make(part, err);
        if (rc == 0 && p->files.n > 0)
            rc = program_files_copy(&p->files, part, err);
    }
    if (rc == 0)
        rc = atomic_file_write(description, p->frame, p->len, 1, err);
    if (rc == 0)
        rc = tree_sync_all(part, NULL, err);
    if (rc == 0)
        rc = tree_rename(part, folder, 0, err);
    free(description);
    free(part);
    return rc;
}

int program_keep(const char *hash, const char *run, struct err *err)
{
    const struct noted *p = find_noted(hash);
    char *folder = xasprintf("%s/programs/%s", run, hash);
    int rc = 0;

    if (p != NULL && !tree_exists(folder))
        rc = keep(p, folder, err);
    free(folder);
    return rc;
}

int algorithm_load(const struct algorithm_info **ret, const char *hash,
                   const char *folder, struct err *err)
{
    struct wbuf frame = {0};
    char *file;
    int rc;

    if (find_noted(hash) != NULL)
        return program_note(ret, hash, NULL, 0, err);
    if (folder == NULL)
        return err_set(err, ERR_NOT_FOUND, "the program %s is not known", hash);
    file = xasprintf("%s/description", folder);
    rc = wbuf_read_file(&frame, file, PROGRAM_MAX_BYTES, err);
    if (rc == -ENOENT)
        rc = err_set(err, ERR_NOT_FOUND, "%s: there is no such file", file);
    if (rc == 0)
        rc = program_note(ret, hash, frame.data, frame.len, err);
    if (rc == 0)
        start_from(find_noted(hash), folder);
    wbuf_done(&frame);
    free(file);
    return rc;
}

/* ---- the algorithms of brood-agent ---- */

const struct algorithm_info *algorithm_at(size_t i)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    CHECK(pthread_once(&once, unpack) == 0);
    return i < MAX_ALGORITHMS && all[i].name != NULL ? &all[i] : NULL;
}
