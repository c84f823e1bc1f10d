#include "supervisor/web/files.h"

#include "common/config/changes.h"
#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/save/checkpoint_read.h"
#include "supervisor/web/growing_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_TAIL = 32 << 10, MAX_PATH = 1024 };

/* ---- configuration ---- */

struct config_list {
    struct json *j;
    const struct run_config *config; /* NULL: it has errors */
};

static int is_live(const struct config_list *list, const char *key, const char *value)
{
    struct config_setting setting;
    char *text;
    int rc;

    if (list->config == NULL)
        return 0;
    text = xasprintf("%s=%s", key, value);
    rc = config_setting_parse(&setting, list->config, text, NULL);
    free(text);
    if (rc == 0)
        free(setting.path);
    return rc == 0;
}

static void put_key(const struct config_list *list, const struct yaml_node *n,
                    const char *path)
{
    struct arena arena = ARENA_ZERO;
    const char *value = n->kind == YAML_SCALAR ? n->text : yaml_tree_text(n, &arena);

    json_array(list->j);
    json_str(list->j, path);
    json_str(list->j, value);
    json_bool(list->j, is_live(list, path, value));
    json_close(list->j);
    arena_done(&arena);
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
    struct stat st = {0};
    const int is_there = beneath_stat(path, &st) == 0;

    json_object(j);
    json_put_u64(j, "step", step);
    json_put_known(j, "time", is_there, (uint64_t)st.st_mtim.tv_sec);
    json_put_u64(j, "bytes", tree_disk_bytes(path));
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
    return e->d_name[0] != '.' && text_ends_with(e->d_name, ".log");
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

/* The length of the whole lines among these bytes. A line longer than `max` is sent in
 * pieces. */
static size_t whole_lines(const uint8_t *text, size_t n, size_t max)
{
    const uint8_t *last = n > 0 ? memrchr(text, '\n', n) : NULL;

    if (last != NULL)
        return (size_t)(last + 1 - text);
    return n == max ? n : 0;
}

static int put_tail(const struct growing_file *f, const char *file, const char *from,
                    struct json *j, struct err *err)
{
    size_t offset = 0, skipped = 0, max = FILES_MAX_TAIL, len;
    const enum growing_place place = growing_file_find(f, from, 0, &offset);
    uint8_t *text;
    ssize_t n;

    if (place != GROWING_ON) {
        max = FIRST_TAIL;
        offset = f->st.st_size > FIRST_TAIL ? (size_t)f->st.st_size - FIRST_TAIL : 0;
    }
    text = xcalloc(1, max);
    n = growing_file_read(f, offset, text, max);
    if (n < 0) {
        free(text);
        return err_errno(err, "%s", file);
    }
    len = whole_lines(text, (size_t)n, max);
    if (place != GROWING_ON && offset > 0) { /* it begins in the middle of a line */
        const uint8_t *line = memchr(text, '\n', len);

        skipped = line != NULL ? (size_t)(line + 1 - text) : 0;
    }
    json_object(j);
    growing_file_put(f, offset + len, place, j);
    json_key(j, "text");
    json_strn(j, (const char *)text + skipped, len - skipped);
    json_close(j);
    free(text);
    return 0;
}

/* Finds a log by comparing its name with those in the folder: no text of a request
 * becomes part of a path. */
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
    struct growing_file f = {.fd = -1};
    char *file;
    int rc = find_log(path, log, &file, err);

    if (rc == 0)
        rc = growing_file_open(&f, file, err);
    if (rc == 0)
        rc = put_tail(&f, file, from, j, err);
    growing_file_close(&f);
    free(file);
    return rc;
}
