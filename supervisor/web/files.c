#include "supervisor/web/files.h"

#include "common/config/changes.h"
#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/run/log_tail.h"
#include "supervisor/save/checkpoint_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_TAIL = 32 << 10, MAX_PATH = 1024 };

/* ---- configuration ---- */

struct config_list {
    struct json *j;
    const struct run_config *config; /* NULL: it could not be read as one */
};

static int is_live(const struct config_list *list, const char *key, const char *value)
{
    struct config_settings one = {0};
    struct config_setting setting;
    char *text;
    int rc;

    if (list->config == NULL)
        return 0;
    text = xasprintf("%s=%s", key, value);
    rc = config_setting_parse(&setting, list->config, text, NULL);
    free(text);
    if (rc == 0) {
        config_settings_add(&one, &setting);
        config_settings_done(&one);
    }
    return rc == 0;
}

static char *text_of(const struct yaml_node *n)
{
    char *text = NULL;
    size_t len;
    FILE *f;

    if (n->kind == YAML_SCALAR)
        return xstrdup(n->text);
    f = open_memstream(&text, &len);
    if (f == NULL)
        return xstrdup("");
    yaml_tree_write(n, f);
    (void)fclose(f);
    return text;
}

static void put_key(const struct config_list *list, const struct yaml_node *n,
                    const char *path)
{
    char *value = text_of(n);

    json_array(list->j);
    json_str(list->j, path);
    json_str(list->j, value);
    json_bool(list->j, is_live(list, path, value));
    json_close(list->j);
    free(value);
}

static void put_keys(const struct config_list *list, const struct yaml_node *map,
                     const char *prefix)
{
    for (size_t i = 0; i < map->n; i++) {
        const struct yaml_node *n = map->child[i];
        char path[MAX_PATH];

        (void)snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix != '\0' ? "." : "",
                       n->key);
        if (n->kind == YAML_MAP && n->n > 0)
            put_keys(list, n, path);
        else
            put_key(list, n, path);
    }
}

int files_put_config(const char *path, struct json *j, struct err *err)
{
    const struct config_options options = {0}; /* executes no env.command */
    char *file = xasprintf("%s/config.yaml", path);
    struct arena arena = ARENA_ZERO;
    struct yaml_node *root = NULL;
    struct wbuf text = {0};
    struct run_config config;
    const int is_read = run_config_read(&config, file, &options, NULL) == 0;
    int rc = wbuf_read_file(&text, file, YAML_MAX_BYTES, err);

    if (rc == 0)
        rc = yaml_tree_parse(&root, &arena, (const char *)text.data, text.len, file, 1,
                             err);
    if (rc == 0) {
        const struct config_list list = {j, is_read ? &config : NULL};

        json_array(j);
        if (root->kind == YAML_MAP)
            put_keys(&list, root, "");
        json_close(j);
    }
    if (is_read)
        run_config_done(&config);
    wbuf_done(&text);
    arena_done(&arena);
    free(file);
    return rc;
}

/* ---- checkpoints ---- */

static void put_checkpoint(const char *folder, uint64_t step, struct json *j)
{
    char *path = xasprintf("%s/%" PRIu64, folder, step);
    struct stat st;

    json_object(j);
    json_key(j, "step");
    json_u64(j, step);
    json_key(j, "time");
    if (beneath_stat(path, &st) == 0)
        json_i64(j, st.st_mtim.tv_sec);
    else
        json_null(j);
    json_key(j, "bytes");
    json_u64(j, tree_disk_bytes(path));
    json_close(j);
    free(path);
}

int files_put_checkpoints(const char *path, struct json *j, struct err *err)
{
    char *folder = xasprintf("%s/checkpoints", path);
    uint64_t *steps = NULL;
    size_t n = 0;
    const int rc = checkpoint_list(folder, &steps, &n, err);

    if (rc == 0) {
        json_array(j);
        for (size_t i = n; i-- > 0;)
            put_checkpoint(folder, steps[i], j);
        json_close(j);
    }
    free(steps);
    free(folder);
    return rc;
}

/* ---- logs ---- */

static int is_log(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);

    return n > 4 && e->d_name[0] != '.' && strcmp(e->d_name + n - 4, ".log") == 0;
}

int files_put_logs(const char *path, struct json *j, struct err *err)
{
    char *folder = xasprintf("%s/logs", path);
    struct dirent **list = NULL;
    const int n = beneath_scandir(folder, &list, is_log);
    int rc = 0;

    if (n < 0 && errno != ENOENT) {
        rc = err_errno(err, "%s", folder);
    } else {
        json_array(j);
        json_str(j, "journal");
        for (int i = 0; i < n; i++)
            json_strn(j, list[i]->d_name, strlen(list[i]->d_name) - 4);
        json_close(j);
    }
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
    free(folder);
    return rc;
}

/* The lines of a file from an offset on. */
static int read_lines(const char *file, size_t offset, size_t max, struct wbuf *ret,
                      struct err *err)
{
    const int fd = beneath_open(file, O_RDONLY | O_NONBLOCK, 0);
    const char *last = NULL;
    ssize_t n;

    if (fd < 0)
        return err_errno(err, "%s", file);
    wbuf_reserve(ret, max);
    n = pread(fd, ret->data, max, (off_t)offset);
    (void)close(fd);
    if (n < 0)
        return err_errno(err, "%s", file);
    last = n > 0 ? memrchr(ret->data, '\n', (size_t)n) : NULL;
    if (last != NULL)
        ret->len = (size_t)(last + 1 - (const char *)ret->data);
    else
        ret->len = (size_t)n == max ? max : 0; /* an endless line goes out in pieces */
    return 0;
}

static int read_tail(const char *file, const char *from, struct json *j, struct err *err)
{
    const int is_first = from == NULL || *from == '\0';
    uint64_t inode = 0, offset = 0;
    struct wbuf text = {0};
    struct stat st = {0};
    char next[64];
    int rc = 0, restart = 0;

    if (beneath_stat(file, &st) < 0 && errno != ENOENT)
        return err_errno(err, "%s", file);
    if (is_first || sscanf(from, "%" SCNu64 ":%" SCNu64, &inode, &offset) != 2 ||
        inode != (uint64_t)st.st_ino || offset > (uint64_t)st.st_size) {
        restart = !is_first && st.st_ino != 0;
        offset = st.st_size > FIRST_TAIL ? (uint64_t)st.st_size - FIRST_TAIL : 0;
        if (st.st_size > 0)
            rc = read_lines(file, (size_t)offset, FIRST_TAIL, &text, err);
        if (rc == 0 && offset > 0) { /* it begins in the middle of a line */
            const uint8_t *line = memchr(text.data, '\n', text.len);
            const size_t n = line != NULL ? (size_t)(line + 1 - text.data) : 0;

            offset += n;
            text.len -= n;
            memmove(text.data, text.data + n, text.len);
        }
    } else if (offset < (uint64_t)st.st_size) {
        rc = read_lines(file, (size_t)offset, FILES_MAX_TAIL, &text, err);
    }
    if (rc == 0) {
        (void)snprintf(next, sizeof(next), "%" PRIu64 ":%" PRIu64, (uint64_t)st.st_ino,
                       offset + text.len);
        json_object(j);
        json_key(j, "next");
        json_str(j, next);
        json_key(j, "restart");
        json_bool(j, restart);
        json_key(j, "text");
        json_strn(j, text.data != NULL ? (const char *)text.data : "", text.len);
        json_close(j);
    }
    wbuf_done(&text);
    return rc;
}

/* Only a name that the folder has is a log: no text of a request becomes part of a path. */
static int find_log(const char *path, const char *log, char **ret, struct err *err)
{
    char *folder = xasprintf("%s/logs", path);
    struct dirent **list = NULL;
    const int n = beneath_scandir(folder, &list, is_log);

    *ret = strcmp(log, "journal") == 0 ? xasprintf("%s/journal", path) : NULL;
    for (int i = 0; i < n; i++) {
        const size_t len = strlen(list[i]->d_name) - 4;

        if (*ret == NULL && strlen(log) == len && memcmp(log, list[i]->d_name, len) == 0)
            *ret = xasprintf("%s/%s", folder, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    free(folder);
    return *ret != NULL ? 0
                        : err_set(err, ERR_NOT_FOUND, "there is no log '%.100s'", log);
}

int files_put_tail(const char *path, const char *log, const char *from, struct json *j,
                   struct err *err)
{
    char *file;
    int rc = find_log(path, log, &file, err);

    if (rc == 0)
        rc = read_tail(file, from, j, err);
    free(file);
    return rc;
}
