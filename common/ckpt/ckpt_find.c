#include "common/ckpt/ckpt_find.h"

#include "common/ckpt/bundle_reader.h"
#include "common/ckpt/ckpt_state.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int is_file(const char *prefix, const char *suffix)
{
    char *path = xasprintf("%s%s", prefix, suffix);
    struct stat st;
    int there = beneath_stat(path, &st) == 0 && S_ISREG(st.st_mode);

    free(path);
    return there;
}

/* Whether the first shard, "m-00000-of-00002", exists. */
static int has_shards(const char *prefix)
{
    const size_t len = strlen(prefix);
    char *first;
    int there;

    if (!bundle_is_pattern(prefix))
        return 0;
    first = xstrdup(prefix);
    memset(first + len - strlen("00000-of-00002"), '0', strlen("00000"));
    there = is_file(first, "");
    free(first);
    return there;
}

enum ckpt_kind ckpt_kind_of(const char *prefix)
{
    if (is_file(prefix, ".index"))
        return CKPT_V2;
    return is_file(prefix, "") || has_shards(prefix) ? CKPT_V1 : CKPT_NONE;
}

/* ---- paths of state files ---- */

/* Returns the part after the last slash or backslash. */
static const char *base_name(const char *path)
{
    const char *base = path;

    for (; *path != '\0'; path++) {
        if (*path == '/' || *path == '\\')
            base = path + 1;
    }
    return base;
}

/* Returns how useful the files of a prefix are: 3 V2 values, 2 a graph alone, 1 a V1
 * checkpoint, 0 nothing. */
static int rank(const char *prefix)
{
    enum ckpt_kind kind = ckpt_kind_of(prefix);

    if (kind == CKPT_V2)
        return 3;
    if (is_file(prefix, ".meta"))
        return 2;
    return kind == CKPT_V1;
}

char *ckpt_resolve(const char *dir, const char *path)
{
    const char *base = base_name(path);
    const int is_dot = strcmp(base, ".") == 0;
    const size_t n = strlen(dir);
    const char *slash = n == 0 || dir[n - 1] == '/' ? "" : "/";
    char *there = path[0] == '/' ? xstrdup(path) : xasprintf("%s%s%s", dir, slash, path);
    char *here = xasprintf("%s%s%s", dir, slash, is_dot ? "" : base);

    if (is_dot)
        there[strlen(there) - 1] = '\0';
    if (rank(here) > rank(there)) {
        free(there);
        return here;
    }
    free(here);
    return there;
}

int ckpt_find_newest(char **ret_prefix, const char *dir, struct err *err)
{
    struct ckpt_state s;
    int rc = ckpt_state_load(&s, dir, err);

    if (rc != 0)
        return rc;
    if (s.newest[0] == '\0')
        rc = err_set(err, ERR_FORMAT, "%s/checkpoint names no checkpoint", dir);
    else
        *ret_prefix = ckpt_resolve(dir, s.newest);
    ckpt_state_done(&s);
    return rc;
}

/* ---- paths given by users ---- */

/* Finds, in a directory, a checkpoint whose files have no base name: ".index". */
static int find_nameless(char **ret, const char *dir)
{
    const size_t len = strlen(dir);
    char *prefix = xasprintf("%s%s", dir, len > 0 && dir[len - 1] == '/' ? "" : "/");

    if (rank(prefix) < 2) {
        free(prefix);
        return 0;
    }
    *ret = prefix;
    return 1;
}

/* Whether the n bytes of `end` are ".data-SSSSS-of-NNNNN". */
static int is_data_suffix(const char *end, size_t n)
{
    static const char FORM[] = ".data-ddddd-of-ddddd";

    if (n != sizeof(FORM) - 1)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (FORM[i] == 'd' && i > 5 ? end[i] < '0' || end[i] > '9' : end[i] != FORM[i])
            return 0;
    return 1;
}

/* Returns the length of the prefix that `path` is a file of, such as "m.ckpt-7.meta"; 0
 * if it is none. */
static size_t prefix_of_file(const char *path)
{
    const char *end = strrchr(base_name(path), '.');

    if (end == NULL || !is_file(path, ""))
        return 0;
    if (strcmp(end, ".meta") != 0 && strcmp(end, ".index") != 0 &&
        !is_data_suffix(end, strlen(end)))
        return 0;
    return (size_t)(end - path);
}

int ckpt_is_there(const char *path)
{
    char *state = xasprintf("%s/checkpoint", path), *nameless = NULL;
    int there = rank(path) > 0 || is_file(state, "") || find_nameless(&nameless, path);

    free(state);
    free(nameless);
    return there;
}

int ckpt_find_prefix(char **ret_prefix, const char *path, struct err *err)
{
    const size_t n = prefix_of_file(path);
    struct stat st;
    char *prefix = NULL;
    int rc;

    if (rank(path) < 2 && n > 0) {
        *ret_prefix = xstrndup(path, n);
        return 0;
    }
    if (rank(path) >= 2 || beneath_stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        *ret_prefix = xstrdup(path);
        return 0;
    }
    rc = ckpt_find_newest(&prefix, path, err);
    if (rc == ERR_NOT_FOUND && find_nameless(ret_prefix, path))
        return 0;
    if (rc != 0)
        return rc;
    if (rank(prefix) == 0) {
        rc = err_set(err, ERR_NOT_FOUND,
                     "%s/checkpoint names %s: there are no such files", path, prefix);
        free(prefix);
        return rc;
    }
    *ret_prefix = prefix;
    return 0;
}
