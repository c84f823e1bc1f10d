#include "supervisor/save/checkpoint_read.h"

#include "common/ckpt/bundle.h"
#include "common/io/beneath.h"
#include "common/io/patience.h"
#include "common/io/tree.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/tensor/string_slab.h"
#include "common/text/scan.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- listing checkpoints ---- */

static int by_step(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The next checkpoint of the folder: one to which checkpoint_path gives that name. What somebody
 * else has put beside the checkpoints is left alone. Returns 1; 0: there is none; or -errno. */
static int next_checkpoint(DIR *d, uint64_t *ret_step)
{
    struct dirent *e;
    struct stat st;

    while ((e = beneath_readdir(d)) != NULL) {
        if (!text_u64(e->d_name, ret_step) ||
            (e->d_name[0] == '0' && e->d_name[1] != '\0'))
            continue;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            if (S_ISDIR(st.st_mode))
                return 1;
        } else if (errno != ENOENT) {
            return -errno;
        }
    }
    return -errno;
}

int checkpoint_list(const char *dir, uint64_t **ret, size_t *ret_n, struct err *err)
{
    DIR *d = beneath_opendir(dir);
    uint64_t *steps = NULL, step;
    size_t n = 0, cap = 0;
    int rc, found = 0;

    if (d == NULL)
        return err_errno(err, "%s", dir);
    while ((rc = patience_check(err)) == 0 && (found = next_checkpoint(d, &step)) == 1) {
        ARRAY_GROW(steps, n, cap);
        steps[n++] = step;
    }
    (void)closedir(d);
    if (rc == 0 && found < 0)
        rc = err_set(err, found, "%s: %s", dir, strerror(-found));
    if (rc < 0) {
        free(steps);
        return rc;
    }
    if (n > 1)
        qsort(steps, n, sizeof(*steps), by_step);
    *ret = steps;
    *ret_n = n;
    return 0;
}

int checkpoint_is_there(const char *dir, uint64_t step)
{
    char *path = checkpoint_path(dir, "", step);
    const int ret = tree_exists(path);

    free(path);
    return ret;
}

/* ---- the agents of a checkpoint ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The folder itself is asked: some file systems do not say in a list what an entry is. */
static int is_folder(int dir, const char *name)
{
    struct stat st;

    return *name != '.' && fstatat(dir, name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

int checkpoint_agents(const char *dir, uint64_t step, char ***ret, size_t *ret_n,
                      struct err *err)
{
    char *path = checkpoint_path(dir, "", step), **names = NULL;
    DIR *d = opendir(path);
    size_t n = 0, cap = 0;
    const struct dirent *e;
    int rc = 0;

    while (d != NULL && (e = beneath_readdir(d)) != NULL)
        if (is_folder(dirfd(d), e->d_name)) {
            ARRAY_GROW(names, n, cap);
            names[n++] = xstrdup(e->d_name);
        }
    if (d == NULL || errno != 0)
        rc = err_errno(err, "%s", path);
    if (d != NULL)
        (void)closedir(d);
    free(path);
    if (rc < 0) {
        checkpoint_agents_free(names, n);
        return rc;
    }
    if (n > 1)
        qsort(names, n, sizeof(*names), by_name);
    *ret = names;
    *ret_n = n;
    return 0;
}

void checkpoint_agents_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* ---- run.state ---- */

enum { PIECE_BYTES = 16 << 20, STATE_HEAD = 16 };
enum {
    LARGE_BYTES = 64 << 20
}; /* from here on, memory is allocated only for what is sound */

/* Where a section lies in run.state, with its head and its checksum. */
struct place {
    uint64_t at, bytes;
};

/* Reads the head of the section at p->at, and no data. Returns 0: it is malformed, or the section
 * does not end within the file. */
static int read_head(int fd, uint64_t size, struct place *p,
                     char ret_name[CHECKPOINT_SECTION_NAME + 1])
{
    uint8_t bytes[4 + CHECKPOINT_SECTION_NAME + 8];
    const ssize_t n = pread_all(fd, bytes, sizeof(bytes), p->at);
    struct cursor c = cursor_of(bytes, n > 0 ? (size_t)n : 0);
    const uint32_t name_len = cursor_u32(&c);
    const uint8_t *name =
        name_len <= CHECKPOINT_SECTION_NAME ? cursor_bytes(&c, name_len) : NULL;
    const uint64_t len = cursor_u64(&c), left = size - p->at, head = 4 + name_len + 8;

    if (p->at > size || c.failed || name == NULL || left < head || left - head < len ||
        left - head - len < 4)
        return 0;
    memcpy(ret_name, name, name_len);
    ret_name[name_len] = '\0';
    p->bytes = head + len + 4;
    return 1;
}

/* Finds a section by the heads. Returns 1, or 0: there is none, and the last one ends where the file
 * does. name: NULL: none. ERR_FORMAT, ERR_TIMEOUT. */
static int find_section(struct place *ret, int fd, uint64_t size, const char *name,
                        const char *path, struct err *err)
{
    char found[CHECKPOINT_SECTION_NAME + 1];
    uint8_t head[STATE_HEAD] = {0};
    struct cursor c = cursor_of(head + STATE_HEAD - 4, 4);
    uint32_t n;
    int rc = pread_all(fd, head, STATE_HEAD, 0) == STATE_HEAD ? 0 : ERR_FORMAT;

    *ret = (struct place){.at = STATE_HEAD};
    n = rc == 0 ? cursor_u32(&c) : 0;
    if (n > CHECKPOINT_MAX_SECTIONS)
        rc = ERR_FORMAT;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        if ((rc = patience_check(err)) < 0)
            return rc;
        if (!read_head(fd, size, ret, found))
            rc = ERR_FORMAT;
        else if (name != NULL && strcmp(found, name) == 0)
            return 1;
        else
            ret->at += ret->bytes;
    }
    if (rc == 0 && ret->at != size)
        rc = ERR_FORMAT;
    return rc < 0 ? err_set(err, rc, "%s: cut short or malformed", path) : 0;
}

/* Before memory is allocated for all of the file. */
static int check_size(int fd, uint64_t size, uint64_t max, const char *path,
                      struct err *err)
{
    struct place end;
    int rc = 0;

    if (size > max)
        return err_set(err, ERR_LIMIT, "%s: %" PRIu64 " bytes", path, size);
    if (max == UINT64_MAX && size > LARGE_BYTES)
        rc = find_section(&end, fd, size, NULL, path, err);
    return rc;
}

/* pread in pieces: the file may be another user's, and sparse. */
static ssize_t read_whole(int fd, uint8_t *data, size_t size, struct err *err)
{
    size_t at = 0;

    while (at < size) {
        const size_t left = size - at, piece = left < PIECE_BYTES ? left : PIECE_BYTES;
        const ssize_t n = pread_all(fd, data + at, piece, (off_t)at);

        if (n < 0 || patience_check(err) < 0)
            return -1;
        at += (size_t)n;
        if ((size_t)n < piece)
            break;
    }
    return (ssize_t)at;
}

/* *ret: malloc'd. ERR_LIMIT: the file is longer than max. */
static int read_file(const char *path, uint64_t max, uint8_t **ret, size_t *ret_len,
                     struct err *err)
{
    int fd = beneath_open(path, O_RDONLY, 0);
    uint8_t *data = NULL;
    struct stat st;
    ssize_t n;
    int rc = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        rc = err_errno(err, "%s", path);
    else
        rc = check_size(fd, (uint64_t)st.st_size, max, path, err);
    if (rc == 0 && (data = malloc((size_t)st.st_size + 1)) == NULL)
        rc = err_set(err, ERR_NOMEM, "%s: %lld bytes", path, (long long)st.st_size);
    else if (rc == 0 && (n = read_whole(fd, data, (size_t)st.st_size, err)) < 0)
        rc = patience_check(err) < 0 ? ERR_TIMEOUT
                                     : err_errno(err, "%s: cannot read", path);
    else if (rc == 0 && n < st.st_size)
        rc = err_set(err, -EIO, "%s: it became shorter", path);
    if (fd >= 0)
        (void)close(fd);
    if (rc < 0) {
        free(data);
        return rc;
    }
    *ret = data;
    *ret_len = (size_t)st.st_size;
    return 0;
}

int checkpoint_state_read(struct checkpoint_state *ret, const char *dir, uint64_t step,
                          struct err *err)
{
    char *path = xasprintf("%s/%" PRIu64 "/run.state", dir, step);
    uint8_t *bytes = NULL;
    size_t len = 0;
    int rc = read_file(path, UINT64_MAX, &bytes, &len, err);

    if (rc == 0)
        rc = checkpoint_state_parse(ret, bytes, len, path, err);
    free(path);
    return rc;
}

/* The file of these sections alone: the head of run.state, the number of sections, the section. */
static int read_alone(int fd, const struct place *section, uint8_t *ret)
{
    const uint32_t n = htole32(section->bytes > 0);
    const ssize_t bytes = (ssize_t)section->bytes;

    if (pread_all(fd, ret, STATE_HEAD, 0) != STATE_HEAD ||
        pread_all(fd, ret + STATE_HEAD, section->bytes, section->at) != bytes)
        return -EIO;
    memcpy(ret + STATE_HEAD - sizeof(n), &n, sizeof(n));
    return 0;
}

int checkpoint_section_read(struct checkpoint_state *ret, const char *dir, uint64_t step,
                            const char *name, uint64_t max_bytes, struct err *err)
{
    char *path = xasprintf("%s/%" PRIu64 "/run.state", dir, step);
    const int fd = beneath_open(path, O_RDONLY, 0);
    struct place section = {0};
    struct stat st;
    int rc;

    if (fd < 0 || fstat(fd, &st) < 0)
        rc = err_errno(err, "%s", path);
    else
        rc = find_section(&section, fd, (uint64_t)st.st_size, name, path, err);
    if (rc == 0)
        section.bytes = 0;
    if (rc == 1 && section.bytes > max_bytes)
        rc = err_set(err, ERR_LIMIT, "%s: section '%s' has %" PRIu64 " bytes", path, name,
                     section.bytes);
    if (rc >= 0) {
        uint8_t *bytes = xcalloc(1, STATE_HEAD + section.bytes);

        rc = read_alone(fd, &section, bytes);
        if (rc == 0) {
            rc =
                checkpoint_state_parse(ret, bytes, STATE_HEAD + section.bytes, path, err);
        } else {
            free(bytes);
            (void)err_set(err, rc, "%s: it cannot be read, or became shorter", path);
        }
    }
    if (fd >= 0)
        (void)close(fd);
    free(path);
    return rc;
}

/* ---- an agent's bundle ---- */

static int read_values(struct checkpoint_values *ret, struct bundle_reader *r,
                       struct err *err)
{
    size_t n = bundle_reader_count(r);

    ret->names = xcalloc(n, sizeof(*ret->names));
    ret->tensors = xcalloc(n, sizeof(*ret->tensors));
    for (; ret->n < n; ret->n++) {
        const struct bundle_entry *e = bundle_reader_entry(r, ret->n);
        int rc = patience_check(err);

        if (rc == 0)
            rc = bundle_reader_read(r, e, &ret->tensors[ret->n], err);
        if (rc < 0)
            return rc;
        ret->names[ret->n] = xstrdup(e->name);
    }
    return 0;
}

static char *bundle_prefix(const char *dir, uint64_t step, const char *agent)
{
    char *folder = checkpoint_path(dir, "", step);
    char *prefix = checkpoint_bundle_prefix(folder, step, agent);

    free(folder);
    return prefix;
}

int checkpoint_load(struct checkpoint_values *ret, const char *dir, uint64_t step,
                    const char *agent, struct err *err)
{
    char *prefix = bundle_prefix(dir, step, agent);
    const int rc = checkpoint_load_from(ret, prefix, err);

    free(prefix);
    return rc;
}

int checkpoint_load_from(struct checkpoint_values *ret, const char *prefix,
                         struct err *err)
{
    struct checkpoint_values values = {0};
    struct bundle_reader *r = NULL;
    int rc = bundle_reader_new(&r, prefix, err);

    if (rc == 0)
        rc = read_values(&values, r, err);
    bundle_reader_free(r);
    if (rc < 0)
        checkpoint_values_done(&values);
    else
        *ret = values;
    return rc;
}

void checkpoint_values_rename(struct checkpoint_values *v, const char *from,
                              const char *to)
{
    const size_t len = strlen(from);

    for (size_t i = 0; i < v->n && strcmp(from, to) != 0; i++) {
        char *name = v->names[i];

        if (strncmp(name, from, len) != 0 || name[len] != '/')
            continue;
        v->names[i] = xasprintf("%s%s", to, name + len);
        free(name);
    }
}

int checkpoint_values_copy(struct checkpoint_values *ret,
                           const struct checkpoint_values *from, struct err *err)
{
    struct checkpoint_values v = {.names = xcalloc(from->n + 1, sizeof(*v.names)),
                                  .tensors = xcalloc(from->n + 1, sizeof(*v.tensors))};
    int rc = 0;

    for (; v.n < from->n && rc == 0; v.n++) {
        v.names[v.n] = xstrdup(from->names[v.n]);
        rc = tensor_copy(&v.tensors[v.n], &from->tensors[v.n], err);
    }
    if (rc < 0)
        checkpoint_values_done(&v);
    else
        *ret = v;
    return rc;
}

void checkpoint_values_done(struct checkpoint_values *v)
{
    for (size_t i = 0; i < v->n; i++) {
        free(v->names[i]);
        tensor_free(&v->tensors[i]);
    }
    free(v->names);
    free(v->tensors);
    *v = (struct checkpoint_values){0};
}

/* ---- an agent's block ---- */

/* dst: the slab in the block */
static int read_strings(struct bundle_reader *r, const struct bundle_entry *e,
                        const struct tensor *dst, struct err *err)
{
    struct tensor strings = TENSOR_NONE;
    int rc = e->dtype == DT_STRING && shape_equal(&e->shape, &dst->shape)
                 ? bundle_reader_read(r, e, &strings, err)
                 : err_set(err, ERR_CORRUPT, "%s has another type or shape", e->name);

    if (rc == 0)
        rc = string_slab_put(dst->data, &strings, err);
    tensor_free(&strings);
    return rc;
}

static int read_bundle(const struct agent_section *section, struct bundle_reader *r,
                       uint8_t *block, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < section->table.n && rc == 0; i++) {
        const struct block_variable *v = &section->table.variables[i];
        const struct bundle_entry *e = bundle_reader_find(r, v->name);
        struct tensor dst;

        if (!v->in_bundle)
            continue;
        if (e == NULL)
            return err_set(err, ERR_CORRUPT, "%s is missing", v->name);
        dst = tensor_view(v->dtype, v->shape, block + v->offset);
        rc = v->dtype == DT_STRING ? read_strings(r, e, &dst, err)
                                   : bundle_reader_read_into(r, e, &dst, err);
    }
    return rc;
}

int checkpoint_block_load(struct checkpoint_block *ret, const char *dir, uint64_t step,
                          const struct checkpoint_section *section, struct err *err)
{
    struct checkpoint_block b = {.agent = section->name + strlen(SECTION_AGENT)};
    struct bundle_reader *r = NULL;
    int rc = agent_section_parse(&b.section, section->data, section->len, err);

    if (rc == 0) {
        char *prefix = bundle_prefix(dir, step, b.agent);

        rc = bundle_reader_new(&r, prefix, err);
        free(prefix);
    }
    if (rc == 0) {
        b.bytes = mem_aligned(b.section.block_bytes);
        if (b.bytes == NULL && b.section.block_bytes > 0)
            rc = err_set(err, ERR_NOMEM, "a block of %zu bytes", b.section.block_bytes);
    }
    if (rc == 0)
        rc = read_bundle(&b.section, r, b.bytes, err);
    if (rc == 0)
        agent_section_fill(&b.section, b.bytes);
    bundle_reader_free(r);
    if (rc < 0) {
        (void)err_wrap(err, "%s", b.agent);
        checkpoint_block_done(&b);
        return rc;
    }
    *ret = b;
    return 0;
}

void checkpoint_block_done(struct checkpoint_block *b)
{
    agent_section_done(&b->section);
    free(b->bytes);
    *b = (struct checkpoint_block){0};
}

/* ---- an agent's graph ---- */

int checkpoint_graph_read(uint8_t **ret, size_t *ret_len, const char *dir, uint64_t step,
                          const struct checkpoint_state *state, const char *agent,
                          struct err *err)
{
    char *name = xasprintf(SECTION_GRAPH "%s", agent);
    const struct checkpoint_section *s = checkpoint_state_find(state, name);
    char *prefix = bundle_prefix(dir, step, agent);
    char *path = xasprintf("%s.meta", prefix);
    uint8_t *meta = NULL;
    size_t len = 0;
    int rc = 0;

    if (s != NULL) /* the agent sent the graph in a response, so it fits in a frame */
        rc = read_file(path, FRAME_MAX_BYTES, &meta, &len, err);
    if (s != NULL && rc == 0)
        rc = graph_section_check(s, meta, len, path, err);
    if (rc < 0) {
        free(meta);
        meta = NULL;
        len = 0;
    }
    *ret = meta;
    *ret_len = len;
    free(path);
    free(prefix);
    free(name);
    return rc;
}

int checkpoint_agent_load(struct checkpoint_block *ret, const char *dir, uint64_t step,
                          const struct checkpoint_state *state,
                          const struct checkpoint_section *section, struct err *err)
{
    uint8_t *meta;
    size_t len;
    const int rc = checkpoint_graph_read(&meta, &len, dir, step, state,
                                         section->name + strlen(SECTION_AGENT), err);

    free(meta);
    return rc < 0 ? rc : checkpoint_block_load(ret, dir, step, section, err);
}

/* ---- the whole checkpoint ---- */

int checkpoint_is_damaged(const char *dir, uint64_t step)
{
    struct checkpoint_state state = {0};
    struct checkpoint_block block = {0};
    int rc = checkpoint_state_read(&state, dir, step, NULL);

    for (size_t i = 0; rc == 0 && i < state.n; i++) {
        const struct checkpoint_section *s = &state.sections[i];

        if (text_after(s->name, SECTION_AGENT) == NULL)
            continue;
        rc = checkpoint_agent_load(&block, dir, step, &state, s, NULL);
        checkpoint_block_done(&block);
    }
    checkpoint_state_done(&state);
    return rc < 0;
}
