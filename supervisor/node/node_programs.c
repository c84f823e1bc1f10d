#include "supervisor/node/node_programs.h"

#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/describe/program_files.h"
#include "supervisor/proc/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, MAX_PROGRAMS = 64 };
/* A run keeps a program's files, its language's package, and a description. */
#define MAX_BYTES ((uint64_t)2 * MAX_PROGRAMS * PROGRAM_MAX_FILES_BYTES)

/* ---- the supervisor's side ---- */

struct sending {
    struct channel *channel;
    const char *hash;
    struct wbuf body;
    uint8_t *piece;
};

static int send_piece(struct sending *s, const char *name, int is_executable,
                      uint64_t offset, size_t len, struct err *err)
{
    wbuf_clear(&s->body);
    wbuf_bytes(&s->body, s->hash, NODE_HASH_BYTES);
    wbuf_u8(&s->body, is_executable != 0);
    wbuf_u32(&s->body, (uint32_t)strlen(name));
    wbuf_bytes(&s->body, name, strlen(name));
    wbuf_bytes(&s->body, s->piece, len);
    return node_send(s->channel, NODE_PROGRAM, NODE_NO_WORKER, offset, s->body.data,
                     s->body.len, err);
}

static int send_file(struct sending *s, const char *path, const char *name,
                     const struct stat *st, struct err *err)
{
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    uint64_t offset = 0;
    ssize_t n = 1;
    int rc = fd < 0 ? err_errno(err, "%s", path) : 0;

    while (rc == 0 && n > 0) {
        n = pread(fd, s->piece, PIECE_BYTES, (off_t)offset);
        if (n < 0)
            rc = err_errno(err, "%s", path);
        else if (n > 0 || offset == 0) /* an empty file has one piece */
            rc =
                send_piece(s, name, (st->st_mode & S_IXUSR) != 0, offset, (size_t)n, err);
        offset += n > 0 ? (uint64_t)n : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

/* name: below the program's folder; "": that itself. */
static int send_all(struct sending *s, const char *path, const char *name,
                    struct err *err)
{
    struct dirent **entries = NULL;
    struct stat st;
    int n = 0, rc = 0;

    if (lstat(path, &st) < 0)
        return err_errno(err, "%s", path);
    if (S_ISREG(st.st_mode))
        return send_file(s, path, name, &st, err);
    if (S_ISDIR(st.st_mode) &&
        (n = beneath_scandir(path, &entries, beneath_is_entry)) < 0)
        return err_errno(err, "%s", path);
    for (int i = 0; i < n; i++) {
        char *below = xasprintf("%s/%s", path, entries[i]->d_name);
        char *its_name =
            xasprintf("%s%s%s", name, *name != '\0' ? "/" : "", entries[i]->d_name);

        if (rc == 0)
            rc = send_all(s, below, its_name, err);
        free(its_name);
        free(below);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int node_program_send(struct channel *c, const char *kept, struct err *err)
{
    struct sending s = {.channel = c, .hash = text_base_name(kept)};
    int rc;

    if (strlen(s.hash) != NODE_HASH_BYTES)
        return err_set(err, ERR_ARG, "%s is no folder of a program", kept);
    s.piece = xmalloc(PIECE_BYTES);
    rc = send_all(&s, kept, "", err);
    if (rc == 0)
        rc = send_piece(&s, "", 0, 0, 0, err);
    free(s.piece);
    wbuf_done(&s.body);
    return rc;
}

/* ---- the node's side ---- */

static int write_piece(const char *path, int is_executable, uint64_t offset,
                       const uint8_t *data, size_t len, struct err *err)
{
    char *folder = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    int rc = tree_make(folder, err), fd;

    free(folder);
    if (rc < 0)
        return rc;
    fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
              is_executable ? 0700 : 0600);
    if (fd < 0 || pwrite_all(fd, data, len, offset) < 0)
        rc = err_errno(err, "%s", path);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

/* Names are of files below the folder, and go on below it. */
static int is_name(const uint8_t *name, size_t len)
{
    size_t begin = 0;

    if (len >= PATH_MAX / 2 || memchr(name, '\0', len) != NULL)
        return 0;
    for (size_t i = 0; i <= len; i++) {
        const size_t n = i - begin;

        if (i < len && name[i] != '/')
            continue;
        if (n == 0 || n > NAME_MAX || (n == 1 && name[begin] == '.') ||
            (n == 2 && name[begin] == '.' && name[begin + 1] == '.'))
            return 0;
        begin = i + 1;
    }
    return 1;
}

static int is_hash(const uint8_t *hash)
{
    for (int i = 0; hash != NULL && i < NODE_HASH_BYTES; i++)
        if (!((hash[i] >= '0' && hash[i] <= '9') || (hash[i] >= 'a' && hash[i] <= 'f')))
            return 0;
    return hash != NULL;
}

int node_program_piece_parse(struct node_program_piece *ret, const struct node_message *m,
                             struct err *err)
{
    struct cursor c = cursor_of(m->body, m->len);
    const uint8_t *hash = cursor_bytes(&c, NODE_HASH_BYTES);
    const int is_executable = cursor_u8(&c) != 0;
    const uint32_t name_len = cursor_u32(&c);
    const uint8_t *name = cursor_bytes(&c, name_len);

    if (c.failed || !is_hash(hash) || (name_len > 0 && !is_name(name, name_len)))
        return err_set(err, ERR_PROTOCOL, "a malformed piece of a program");
    *ret = (struct node_program_piece){.is_executable = is_executable,
                                       .name = (const char *)name,
                                       .name_len = name_len,
                                       .data = c.p,
                                       .len = cursor_left(&c)};
    memcpy(ret->hash, hash, NODE_HASH_BYTES);
    return 0;
}

int node_programs_take(struct node_programs *p, const struct node_message *m,
                       struct err *err)
{
    struct node_program_piece piece;
    char *part, *path;
    int rc = node_program_piece_parse(&piece, m, err);

    if (rc < 0)
        return rc;
    if (m->number > PROGRAM_MAX_FILES_BYTES || p->bytes > MAX_BYTES ||
        m->len > MAX_BYTES - p->bytes)
        return err_set(err, ERR_LIMIT, "a program is too large");
    p->bytes += m->len;
    if (p->folder == NULL) {
        p->lock_fd = scratch_make(&p->folder, err);
        if (p->lock_fd < 0)
            return err_wrap(err, "its copies of programs");
        (void)setenv("BROOD_PROGRAMS", p->folder, 1);
    }
    part = xasprintf("%s/%s.part", p->folder, piece.hash);
    path = piece.name_len > 0
               ? xasprintf("%s/%.*s", part, (int)piece.name_len, piece.name)
               : xasprintf("%s/%s", p->folder, piece.hash);
    if (piece.name_len > 0)
        rc =
            write_piece(path, piece.is_executable, m->number, piece.data, piece.len, err);
    else if (!tree_exists(path))
        rc = tree_rename(part, path, 0, err);
    free(path);
    free(part);
    return rc;
}

void node_programs_done(struct node_programs *p)
{
    if (p->lock_fd >= 0)
        (void)close(p->lock_fd);
    *p = NODE_PROGRAMS_NONE;
}
