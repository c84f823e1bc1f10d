/* run.state: sections with checksums, see checkpoint.h. */
#include "supervisor/save/checkpoint_format.h"

#include "common/ckpt/atomic_file.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"
#include "common/wire/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, MAX_SECTIONS = 100000, MAX_NAME = 256 };
static const char magic[8] = "brodrun1";

static uint32_t section_crc(const void *name, size_t name_len, const void *data,
                            size_t len)
{
    return crc32c_mask(crc32c_extend(crc32c(name, name_len), data, len));
}

int run_state_write(const char *path, const struct checkpoint_section *sections, size_t n,
                    struct err *err)
{
    struct wbuf b = {0};
    int rc;

    wbuf_bytes(&b, magic, sizeof(magic));
    wbuf_u32(&b, VERSION);
    wbuf_u32(&b, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        const struct checkpoint_section *s = &sections[i];

        wbuf_u32(&b, (uint32_t)strlen(s->name));
        wbuf_bytes(&b, s->name, strlen(s->name));
        wbuf_u64(&b, s->len);
        wbuf_bytes(&b, s->data, s->len);
        wbuf_u32(&b, section_crc(s->name, strlen(s->name), s->data, s->len));
    }
    rc = atomic_file_write(path, b.data, b.len, 0, err);
    wbuf_done(&b);
    return rc;
}

static int read_all(int fd, uint8_t *dst, size_t len)
{
    while (len > 0) {
        ssize_t n = read(fd, dst, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno; /* shorter than it was a moment ago */
            return -1;
        }
        dst += n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_file(const char *path, uint8_t **ret, size_t *ret_len, struct err *err)
{
    int fd = beneath_open(path, O_RDONLY, 0);
    uint8_t *data = NULL;
    struct stat st;
    int rc = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        rc = err_errno(err, "%s", path);
    else if ((data = malloc((size_t)st.st_size + 1)) == NULL)
        rc = err_set(err, ERR_NOMEM, "%s: %lld bytes", path, (long long)st.st_size);
    else if (read_all(fd, data, (size_t)st.st_size) < 0)
        rc = err_errno(err, "%s: cannot read", path);
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

/* The name is terminated in place: the length before it has been read by then. */
static int read_section(struct checkpoint_section *s, struct cursor *c, uint8_t *bytes,
                        const char *path, struct err *err)
{
    uint32_t name_len = cursor_u32(c);
    const uint8_t *name = name_len <= MAX_NAME ? cursor_bytes(c, name_len) : NULL;
    uint64_t len = cursor_u64(c);
    const uint8_t *data = len <= cursor_left(c) ? cursor_bytes(c, (size_t)len) : NULL;
    uint32_t crc = cursor_u32(c);

    if (c->failed || name == NULL || data == NULL)
        return err_set(err, ERR_FORMAT, "%s: cut short or malformed", path);
    if (section_crc(name, name_len, data, (size_t)len) != crc)
        return err_set(err, ERR_CORRUPT, "%s: damaged at byte %zu", path,
                       (size_t)(name - bytes));
    memmove(bytes + (name - bytes) - 1, name, name_len);
    bytes[(name - bytes) - 1 + name_len] = '\0';
    *s = (struct checkpoint_section){(const char *)name - 1, data, (size_t)len};
    return 0;
}

static int parse(struct checkpoint_state *s, size_t len, const char *path,
                 struct err *err)
{
    struct cursor c = cursor_of(s->bytes, len);
    const uint8_t *head = cursor_bytes(&c, sizeof(magic));
    uint32_t version = cursor_u32(&c), n = cursor_u32(&c);

    if (c.failed || memcmp(head, magic, sizeof(magic)) != 0 || version != VERSION)
        return err_set(err, ERR_FORMAT, "%s: not the state of a run", path);
    if (n > MAX_SECTIONS || n > cursor_left(&c))
        return err_set(err, ERR_FORMAT, "%s: %u sections", path, n);
    s->sections = xcalloc(n, sizeof(*s->sections));
    for (; s->n < n; s->n++) {
        int rc = read_section(&s->sections[s->n], &c, s->bytes, path, err);
        if (rc < 0)
            return rc;
    }
    if (cursor_left(&c) > 0)
        return err_set(err, ERR_FORMAT, "%s: surplus bytes", path);
    return 0;
}

int run_state_read(struct checkpoint_state *ret, const char *path, struct err *err)
{
    struct checkpoint_state s = {0};
    size_t len = 0;
    int rc = read_file(path, &s.bytes, &len, err);

    if (rc == 0)
        rc = parse(&s, len, path, err);
    if (rc < 0) {
        checkpoint_state_done(&s);
        return rc;
    }
    *ret = s;
    return 0;
}

const struct checkpoint_section *checkpoint_state_find(const struct checkpoint_state *s,
                                                       const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->sections[i].name, name) == 0)
            return &s->sections[i];
    return NULL;
}

void checkpoint_state_done(struct checkpoint_state *s)
{
    free(s->sections);
    free(s->bytes);
    *s = (struct checkpoint_state){0};
}
