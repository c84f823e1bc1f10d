#include "supervisor/node/node_files.h"

#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "common/store/layout.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_LOG_BYTES (UINT64_C(1) << 62)
#define WHOLES_BYTES  ((size_t)4 << 20) /* of rows that are put together at a time */

int node_files_init(struct node_files *f, struct err *err)
{
    const char *const folders[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    char path[64];

    *f = NODE_FILES_NONE;
    for (size_t i = 0; f->log_fd < 0 && i < sizeof(folders) / sizeof(folders[0]); i++)
        if (folders[i] != NULL)
            f->log_fd = open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (f->log_fd < 0)
        f->log_fd = memfd_create("experience", MFD_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", f->log_fd);
    if (f->log_fd >= 0)
        f->log_read_fd = open(path, O_RDONLY | O_CLOEXEC);
    return f->log_read_fd < 0 ? err_errno(err, "a file for a copy of the experience log")
                              : 0;
}

void node_files_done(struct node_files *f)
{
    if (f->log_fd >= 0)
        (void)close(f->log_fd);
    if (f->log_read_fd >= 0)
        (void)close(f->log_read_fd);
    for (size_t i = 0; i < f->n_groups; i++)
        block_done(&f->groups[i].memory);
    for (size_t i = 0; i < NODE_PASS_COUNT; i++)
        row_parts_done(&f->parts[i]);
    free(f->rows);
    free(f->groups);
    *f = NODE_FILES_NONE;
}

static int write_log(struct node_files *f, const void *data, size_t len, uint64_t offset,
                     struct err *err)
{
    return pwrite_all(f->log_fd, data, len, offset) < 0
               ? err_errno(err, "its copy of the experience log")
               : 0;
}

int node_files_header(struct node_files *f, const void *data, size_t len, struct err *err)
{
    if (len > STORE_HEADER_BYTES)
        return err_set(err, ERR_PROTOCOL, "a log's header of %zu bytes", len);
    if (ftruncate(f->log_fd, STORE_HEADER_BYTES) < 0)
        return err_errno(err, "its copy of the experience log");
    return write_log(f, data, len, 0, err);
}

static int check_pass(const struct node_message *m, struct err *err)
{
    return m->worker < NODE_PASS_COUNT
               ? 0
               : err_set(err, ERR_PROTOCOL, "rows of pass %u", m->worker);
}

int node_files_columns(struct node_files *f, const struct node_message *m,
                       struct err *err)
{
    struct row_parts parts;
    int rc = check_pass(m, err);

    if (rc == 0)
        rc = row_parts_parse(&parts, m, err);
    if (rc < 0)
        return rc;
    row_parts_done(&f->parts[m->worker]);
    f->parts[m->worker] = parts;
    return 0;
}

/* Adds parts to n whole rows of the file. */
static int write_whole(struct node_files *f, const struct row_parts *p, uint64_t first,
                       size_t n, const uint8_t *packed, struct err *err)
{
    const size_t len = n * p->row_bytes;
    const uint64_t offset = STORE_HEADER_BYTES + first * p->row_bytes;
    ssize_t found = 0;

    if (len > f->rows_bytes) {
        free(f->rows);
        f->rows = xmalloc(len);
        f->rows_bytes = len;
    }
    if (first < f->end_row)
        found = pread(f->log_fd, f->rows, len, (off_t)offset);
    if (found < 0)
        return err_errno(err, "its copy of the experience log");
    memset(f->rows + found, 0, len - (size_t)found);
    row_parts_scatter(p, packed, n, f->rows);
    return write_log(f, f->rows, len, offset, err);
}

/* Few enough at a time that room for them is small, however many the message names. */
static int write_wholes(struct node_files *f, const struct row_parts *p, uint64_t first,
                        size_t n, const uint8_t *packed, struct err *err)
{
    const size_t most = 1 + WHOLES_BYTES / p->row_bytes;
    int rc = 0;

    for (size_t done = 0, some; rc == 0 && done < n; done += some) {
        some = n - done < most ? n - done : most;
        rc = write_whole(f, p, first + done, some, packed + done * p->packed_bytes, err);
    }
    return rc;
}

static int write_parts(struct node_files *f, const struct row_parts *p, uint64_t first,
                       size_t n, const uint8_t *packed, struct err *err)
{
    const uint64_t offset = STORE_HEADER_BYTES + first * p->row_bytes;
    int rc = 0;

    for (size_t row = 0; row < n; row++)
        for (size_t i = 0; rc == 0 && i < p->n; i++) {
            rc = write_log(f, packed, p->parts[i].bytes,
                           offset + row * p->row_bytes + p->parts[i].offset, err);
            packed += p->parts[i].bytes;
        }
    return rc;
}

int node_files_rows(struct node_files *f, const struct node_message *m, struct err *err)
{
    struct cursor c = cursor_of(m->body, m->len);
    const uint32_t n = cursor_u32(&c);
    const struct row_parts *p;
    int rc = check_pass(m, err);

    if (rc < 0)
        return rc;
    p = &f->parts[m->worker];
    if (c.failed || p->row_bytes == 0 || cursor_left(&c) != n * p->packed_bytes ||
        m->number > MAX_LOG_BYTES / p->row_bytes - n)
        return err_set(err, ERR_PROTOCOL, "%u rows at %llu in %zu bytes", n,
                       (unsigned long long)m->number, m->len);
    if (p->n > 0 && p->row_bytes <= ROW_PARTS_WHOLE_BYTES) {
        rc = write_wholes(f, p, m->number, n, c.p, err);
    } else {
        rc = write_parts(f, p, m->number, p->n > 0 ? n : 0, c.p, err);
        /* the file is as long as the rows, also if their last columns did not come */
        if (rc == 0 && m->number + n > f->end_row &&
            ftruncate(f->log_fd,
                      (off_t)(STORE_HEADER_BYTES + (m->number + n) * p->row_bytes)) < 0)
            rc = err_errno(err, "its copy of the experience log");
    }
    if (rc == 0 && n > 0 && m->number + n > f->end_row)
        f->end_row = m->number + n;
    return rc;
}

/* The file may lie where there are no holes: then it keeps them. */
int node_files_forget(struct node_files *f, uint64_t offset, struct err *err)
{
    if (offset > MAX_LOG_BYTES)
        return err_set(err, ERR_PROTOCOL, "rows at %llu", (unsigned long long)offset);
    if (offset > STORE_HEADER_BYTES)
        (void)fallocate(f->log_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        STORE_HEADER_BYTES, (off_t)(offset - STORE_HEADER_BYTES));
    return 0;
}

int node_files_group(struct node_files *f, uint32_t group, struct err *err)
{
    struct node_group *g;
    char name[32];
    int rc;

    for (size_t i = 0; i < f->n_groups; i++)
        if (f->groups[i].number == group)
            return f->groups[i].memory.fd;
    f->groups = xreallocarray(f->groups, f->n_groups + 1, sizeof(*f->groups));
    g = &f->groups[f->n_groups];
    *g = (struct node_group){.number = group, .memory = BLOCK_NONE};
    (void)snprintf(name, sizeof(name), "group %u", group);
    rc = block_init(&g->memory, name, err);
    if (rc < 0)
        return rc;
    f->n_groups++;
    return g->memory.fd;
}

int node_files_shared(struct node_files *f, uint32_t group, uint64_t offset,
                      const void *data, size_t len, struct err *err)
{
    const int fd = node_files_group(f, group, err);

    if (fd < 0)
        return fd;
    if (offset > BLOCK_CAPACITY_BYTES || len > BLOCK_CAPACITY_BYTES - offset)
        return err_set(err, ERR_PROTOCOL, "bytes of a group at %llu",
                       (unsigned long long)offset);
    return pwrite_all(fd, data, len, offset) < 0 ? err_errno(err, "the memory of a group")
                                                 : 0;
}
