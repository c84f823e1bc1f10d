#include "supervisor/facts/files.h"

#include "common/config/changes.h"
#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/mem/words.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/save/checkpoint_choose.h"
#include "supervisor/save/checkpoint_read.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_PATH = 1024 };

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

static void put_keys(const struct config_list *list, const struct yaml_node *map,
                     const char *prefix)
{
    for (size_t i = 0; i < map->n; i++) {
        const struct yaml_node *n = map->child[i];
        struct arena arena = ARENA_ZERO;
        char path[MAX_PATH];
        const char *value;

        (void)snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix != '\0' ? "." : "",
                       n->key);
        if (n->kind == YAML_MAP && n->n > 0) {
            put_keys(list, n, path);
            continue;
        }
        value = n->kind == YAML_SCALAR ? n->text : yaml_tree_text(n, &arena);
        json_array(list->j);
        json_str(list->j, path);
        json_str(list->j, value);
        json_bool(list->j, is_live(list, path, value));
        json_close(list->j);
        arena_done(&arena);
    }
}

int files_read_config(struct run_config *ret, const char *path, struct err *err)
{
    const struct config_options options = {0}; /* executes no env.command */
    char *file = xasprintf("%s/config.yaml", path);
    const int rc = run_config_read(ret, file, &options, err);

    free(file);
    return rc;
}

int files_put_config(const char *path, struct json *j, struct err *err)
{
    char *file = xasprintf("%s/config.yaml", path);
    struct arena arena = ARENA_ZERO;
    struct yaml_node *root = NULL;
    struct wbuf text = {0};
    struct run_config config;
    const int is_read = files_read_config(&config, path, NULL) == 0;
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

/* The sum of the sizes of a checkpoint's files, whatever space they take on the disk. */
static uint64_t bytes_of(const char *path)
{
    struct dirent **list = NULL;
    struct stat st;
    uint64_t sum = 0;
    int n;

    if (beneath_stat(path, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return 0;
    if (S_ISREG(st.st_mode))
        return (uint64_t)st.st_size;
    n = beneath_scandir(path, &list, NULL);
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0) {
            char *child = xasprintf("%s/%s", path, list[i]->d_name);

            sum += bytes_of(child);
            free(child);
        }
        free(list[i]);
    }
    free(list);
    return sum;
}

/* The newest values of the teams' returns at a step. */
static void put_returns(const struct progress *p, uint64_t step, struct json *j)
{
    const size_t n = p != NULL ? progress_n_columns(p) : 0;
    const size_t usual = n > 0 ? progress_find_return(p, progress_n_rows(p)) : n;
    size_t n_put = 0;

    json_put_object(j, "returns");
    for (size_t c = 0; usual < n && c < n && n_put < FILES_MAX_RETURNS; c++) {
        const char *name = progress_name(p, usual);

        if (strncmp(progress_name(p, c), name, (size_t)(strrchr(name, '/') + 1 - name)) !=
            0)
            continue;
        json_put_f64(j, progress_name(p, c), progress_value_at(p, c, step));
        n_put++;
    }
    json_close(j);
}

int files_put_checkpoints_with(const char *path, const struct progress *p, size_t max,
                               struct json *j, struct err *err)
{
    char *folder = xasprintf("%s/checkpoints", path);
    struct best_value best = {0};
    uint64_t *steps = NULL;
    size_t n = 0;
    const int rc = checkpoint_list(folder, &steps, &n, err);
    const int has_best = rc == 0 && checkpoint_find_best(folder, &best, NULL) == 0;

    if (rc == 0) {
        json_array(j);
        for (size_t i = n; i-- > 0 && n - i <= max;) {
            char *one = xasprintf("%s/%" PRIu64, folder, steps[i]);
            struct stat st = {0};
            const int is_there = beneath_stat(one, &st) == 0;

            json_object(j);
            json_put_u64(j, "step", steps[i]);
            json_put_known(j, "time", is_there, (uint64_t)st.st_mtim.tv_sec);
            json_put_u64(j, "bytes", bytes_of(one));
            json_put_bool(j, "best", has_best && best.step == steps[i]);
            if (p != NULL)
                put_returns(p, steps[i], j);
            json_close(j);
            free(one);
        }
        json_close(j);
    }
    free(steps);
    free(folder);
    return rc;
}

int files_put_checkpoints(const char *path, struct json *j, struct err *err)
{
    return files_put_checkpoints_with(path, NULL, FILES_MAX_CHECKPOINTS, j, err);
}

/* ---- logs ---- */

static int is_log(const char *name)
{
    return name[0] != '.' && text_ends_with(name, ".log");
}

/* A picture of an evaluation: "480.gif". */
static int is_picture(const char *name)
{
    const char *end = name + strspn(name, "0123456789");

    return end > name && (strcmp(end, ".gif") == 0 || strcmp(end, ".svg") == 0 ||
                          strcmp(end, ".jsonl") == 0);
}

/* The names of files in one of its folders, at most FILES_MAX_LOGS of them. A run without the folder
 * has none. */
static int list_files(const char *path, const char *name, int (*is_wanted)(const char *),
                      struct words *ret, struct err *err)
{
    char *folder = xasprintf("%s/%s", path, name);
    DIR *dir = beneath_opendir(folder);
    const struct dirent *e;
    const int rc = dir == NULL && errno != ENOENT ? err_errno(err, "%s", folder) : 0;

    for (int seen = 0; dir != NULL && seen < FILES_MAX_LOGS && (e = readdir(dir)) != NULL;
         seen++)
        if (is_wanted(e->d_name))
            words_add(ret, arena_strdup(ret->arena, e->d_name), NULL);
    if (dir != NULL)
        (void)closedir(dir);
    free(folder);
    return rc;
}

/* The names of its logs without ".log". */
static int list_logs(const char *path, struct words *ret, struct err *err)
{
    const int rc = list_files(path, "logs", is_log, ret, err);

    for (size_t i = 0; i < ret->n; i++)
        ret->list[i] = arena_strndup(ret->arena, ret->list[i], strlen(ret->list[i]) - 4);
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int files_put_logs(const char *path, struct json *j, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct words logs = {.arena = &arena};
    const int rc = list_logs(path, &logs, err);

    if (rc == 0) {
        if (logs.n > 0)
            qsort(logs.list, logs.n, sizeof(logs.list[0]), compare_names);
        json_array(j);
        json_str(j, "journal");
        for (size_t i = 0; i < logs.n; i++)
            json_str(j, logs.list[i]);
        json_close(j);
    }
    arena_done(&arena);
    return rc;
}

static int compare_steps(const void *a, const void *b)
{
    const unsigned long long x = strtoull(*(const char *const *)a, NULL, 10),
                             y = strtoull(*(const char *const *)b, NULL, 10);

    return (x < y) - (x > y);
}

int files_put_pictures(const char *path, struct json *j, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct words names = {.arena = &arena};
    const int rc = list_files(path, "renders", is_picture, &names, err);

    if (rc == 0) {
        if (names.n > 0)
            qsort(names.list, names.n, sizeof(names.list[0]), compare_steps);
        json_array(j);
        for (size_t i = 0; i < names.n; i++)
            json_str(j, names.list[i]);
        json_close(j);
    }
    arena_done(&arena);
    return rc;
}

/* Compares the name with those in the folder: no text of a request becomes part of a path. */
int files_find(const char *path, const char *name, char **ret, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct words names = {.arena = &arena};
    const char *picture = text_after(name, "renders/");
    int rc = 0;

    *ret = strcmp(name, FILES_ROWS) == 0 || strcmp(name, "journal") == 0
               ? xasprintf("%s/%s", path, name)
               : NULL;
    if (*ret == NULL && picture != NULL)
        rc = list_files(path, "renders", is_picture, &names, err);
    else if (*ret == NULL)
        rc = list_logs(path, &names, err);
    for (size_t i = 0; *ret == NULL && i < names.n; i++) {
        if (picture != NULL && strcmp(picture, names.list[i]) == 0)
            *ret = xasprintf("%s/renders/%s", path, names.list[i]);
        else if (picture == NULL && strcmp(name, names.list[i]) == 0)
            *ret = xasprintf("%s/logs/%s.log", path, names.list[i]);
    }
    arena_done(&arena);
    if (rc == 0 && *ret == NULL)
        rc = err_set(err, ERR_NOT_FOUND, "there is no %s '%.100s'",
                     picture != NULL ? "picture" : "log", name);
    return rc;
}
