/* The algorithms of the brood-agent that was built with this brood (algorithms.h). */
#include "supervisor/describe/packed.h"
#include "supervisor/describe/programs.h"

#include "common/config/algorithms.h"
#include "common/err/check.h"
#include "common/msg/algorithm_msg.h"
#include "common/msg/frame.h"
#include "common/wire/cursor.h"

#include <errno.h>
#include <pthread.h>
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
    struct algorithm_info info;
    uint8_t *frame;
    size_t len;
};
static struct noted *noted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list and the arena */

static struct noted *find_noted(const char *hash)
{
    struct noted *p;

    (void)pthread_mutex_lock(&lock);
    p = noted;
    while (p != NULL && strcmp(p->hash, hash) != 0)
        p = p->next;
    (void)pthread_mutex_unlock(&lock);
    return p;
}

const void *program_frame(const char *hash, size_t *ret_len)
{
    const struct noted *p = find_noted(hash);

    if (p == NULL)
        return NULL;
    *ret_len = p->len;
    return p->frame;
}

static struct noted *add_noted(const char *hash, const struct algorithm_info *info,
                               const void *frame, size_t len)
{
    struct noted *p = ARENA_NEW(&arena, struct noted);

    *p = (struct noted){noted, arena_strdup(&arena, hash), *info,
                        arena_alloc(&arena, len), len};
    memcpy(p->frame, frame, len);
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

int algorithm_load(const struct algorithm_info **ret, const char *hash, const char *file,
                   struct err *err)
{
    struct wbuf frame = {0};
    int rc;

    if (find_noted(hash) != NULL)
        return program_note(ret, hash, NULL, 0, err);
    if (file == NULL)
        return err_set(err, ERR_NOT_FOUND, "the program %s is not known", hash);
    rc = wbuf_read_file(&frame, file, PROGRAM_MAX_BYTES, err);
    if (rc == -ENOENT)
        rc = err_set(err, ERR_NOT_FOUND, "%s: there is no such file", file);
    if (rc == 0)
        rc = program_note(ret, hash, frame.data, frame.len, err);
    wbuf_done(&frame);
    return rc;
}

/* ---- the algorithms of brood-agent ---- */

const struct algorithm_info *algorithm_at(size_t i)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    CHECK(pthread_once(&once, unpack) == 0);
    return i < MAX_ALGORITHMS && all[i].name != NULL ? &all[i] : NULL;
}
