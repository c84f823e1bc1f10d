#include "common/ckpt/ckpt_find.h"

#include "common/ckpt/ckpt_state.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_file(const char *prefix, const char *suffix)
{
    char *path = xasprintf("%s%s", prefix, suffix);
    struct stat st;
    int there = beneath_stat(path, &st) == 0 && S_ISREG(st.st_mode);

    free(path);
    return there;
}

/* ---- graphs alone ---- */

enum { HEAD_BYTES = 4096 }; /* a longer name of a first node is not looked through */
/* keys of fields that have a length */
enum { FIRST_FIELD = 0x0a, SECOND_FIELD = 0x12 };

/* Whether the bytes begin with a NodeDef {1: name, 2: operation} in field 1. A MetaGraphDef has
 * {1: version, 2: OpList} there, whose bytes are a message and no word. */
static int begins_with_node(struct cursor c)
{
    const uint8_t *word;

    if (cursor_u8(&c) != FIRST_FIELD)
        return 0;
    (void)cursor_varint64(&c);
    if (cursor_u8(&c) != FIRST_FIELD || cursor_bytes(&c, cursor_varint32(&c)) == NULL ||
        cursor_u8(&c) != SECOND_FIELD || cursor_varint32(&c) == 0)
        return 0;
    word = cursor_bytes(&c, 1);
    return word != NULL && (word[0] == '_' || (word[0] >= 'A' && word[0] <= 'Z') ||
                            (word[0] >= 'a' && word[0] <= 'z'));
}

int ckpt_is_graph_def(const char *path)
{
    uint8_t head[HEAD_BYTES];
    const int fd = is_file(path, "") ? beneath_open(path, O_RDONLY, 0) : -1;
    const ssize_t n = fd >= 0 ? read(fd, head, sizeof(head)) : -1;

    if (fd >= 0)
        (void)close(fd);
    return n > 0 && begins_with_node(cursor_of(head, (size_t)n));
}

/* ---- shards of V1 checkpoints ---- */

static const char SHARD_FORM[] = "-ddddd-of-ddddd", SAVED_MODEL[] = "saved_model.pb";
enum { SHARD_BYTES = sizeof(SHARD_FORM) - 1 };

/* Whether `end` is "-SSSSS-of-NNNNN"; is_pattern: instead "-?????-of-NNNNN". */
static int is_shard_suffix(const char *end, int is_pattern)
{
    if (strlen(end) != SHARD_BYTES)
        return 0;
    for (size_t i = 0; i < SHARD_BYTES; i++) {
        const int is_digit = end[i] >= '0' && end[i] <= '9';

        if (SHARD_FORM[i] != 'd'  ? end[i] != SHARD_FORM[i]
            : is_pattern && i < 6 ? end[i] != '?'
                                  : !is_digit)
            return 0;
    }
    return 1;
}

static int is_pattern(const char *prefix)
{
    const size_t len = strlen(prefix);

    return len >= SHARD_BYTES && is_shard_suffix(prefix + len - SHARD_BYTES, 1);
}

unsigned ckpt_n_shards(const char *prefix)
{
    return is_pattern(prefix) ? (unsigned)strtoul(prefix + strlen(prefix) - 5, NULL, 10)
                              : 1;
}

char *ckpt_shard_path(const char *prefix, unsigned i)
{
    const size_t len = strlen(prefix);

    if (!is_pattern(prefix))
        return xstrdup(prefix);
    return xasprintf("%.*s%05u%s", (int)(len - 14), prefix, i, prefix + len - 9);
}

char *ckpt_meta_path(const char *prefix, const char *suffix)
{
    const size_t len = strlen(prefix);
    const int is_shard =
        is_pattern(prefix) ||
        (len > SHARD_BYTES && is_shard_suffix(prefix + len - SHARD_BYTES, 0));

    return xasprintf("%.*s.%s", (int)(is_shard ? len - SHARD_BYTES : len), prefix,
                     suffix);
}

/* Whether the first shard, "m-00000-of-00002", exists. */
static int has_shards(const char *prefix)
{
    char *first = is_pattern(prefix) ? ckpt_shard_path(prefix, 0) : NULL;
    int there = first != NULL && is_file(first, "");

    free(first);
    return there;
}

enum ckpt_kind ckpt_kind_of(const char *prefix)
{
    if (is_file(prefix, ".index"))
        return CKPT_V2;
    if (is_file(prefix, ""))
        return ckpt_is_graph_def(prefix) ? CKPT_NONE : CKPT_V1;
    return has_shards(prefix) ? CKPT_V1 : CKPT_NONE;
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
    if (is_file(prefix, ".meta") || ckpt_is_graph_def(prefix))
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

/* ---- graphs ---- */

char *ckpt_graph_path(const char *prefix)
{
    static const char VARIABLES[] = "variables/variables";
    const size_t len = strlen(prefix), n = sizeof(VARIABLES) - 1;
    char *meta = ckpt_meta_path(prefix, "meta"), *model;

    if (!is_file(meta, "") && ckpt_is_graph_def(prefix)) {
        free(meta);
        return xstrdup(prefix);
    }
    if (is_file(meta, "") || len < n || strcmp(prefix + len - n, VARIABLES) != 0 ||
        (len > n && prefix[len - n - 1] != '/'))
        return meta;
    model = xasprintf("%.*s%s", (int)(len - n), prefix, SAVED_MODEL);
    if (!is_file(model, "")) {
        free(model);
        return meta;
    }
    free(meta);
    return model;
}

/* ---- paths given by users ---- */

/* If `path` is a SavedModel's directory or its saved_model.pb, returns the prefix of its
 * variables, which the caller frees. NULL: it is neither. */
static char *saved_model_prefix(const char *path)
{
    const char *base = base_name(path);
    const size_t len = strlen(path);
    const char *slash = len > 0 && path[len - 1] != '/' ? "/" : "";
    char *model;
    int there;

    if (strcmp(base, SAVED_MODEL) == 0)
        return is_file(path, "")
                   ? xasprintf("%.*svariables/variables", (int)(base - path), path)
                   : NULL;
    model = xasprintf("%s%s%s", path, slash, SAVED_MODEL);
    there = is_file(model, "");
    free(model);
    return there ? xasprintf("%s%svariables/variables", path, slash) : NULL;
}

/* Finds, in a folder, the shards of `path`, whose name begins at `base`. */
static int find_shards(char **ret, const char *path, const char *base, struct err *err)
{
    char *dir = base > path ? xstrndup(path, (size_t)(base - path)) : xstrdup(".");
    const size_t len = strlen(base);
    DIR *d = beneath_opendir(dir);
    struct dirent *e;
    int rc = 0;

    if (d == NULL && errno != ENOENT && errno != ENOTDIR)
        rc = err_errno(err, "%s", dir);
    while (d != NULL && *ret == NULL && (e = beneath_readdir(d)) != NULL)
        if (strncmp(e->d_name, base, len) == 0 && is_shard_suffix(e->d_name + len, 0))
            *ret = xasprintf("%s-?????%s", path, e->d_name + len + 6);
    if (d != NULL && *ret == NULL && errno != 0)
        rc = err_errno(err, "%s", dir);
    if (d != NULL)
        (void)closedir(d);
    free(dir);
    return rc;
}

/* If `path` has no files of its own but V1 shards, "m-00000-of-00002" for "m", or is one of
 * several shards, *ret is their prefix, which the caller frees; otherwise NULL. An error: the
 * folder cannot be listed. */
static int shards_prefix(char **ret, const char *path, struct err *err)
{
    const char *base = base_name(path);
    const size_t len = strlen(base), at = len > SHARD_BYTES ? len - SHARD_BYTES : 0;

    *ret = NULL;
    if (at > 0 && is_shard_suffix(base + at, 0) && is_file(path, "")) {
        *ret = xstrdup(path);
        memset(*ret + strlen(path) - SHARD_BYTES + 1, '?', 5);
        return 0;
    }
    if (len == 0 || ckpt_kind_of(path) != CKPT_NONE)
        return 0;
    return find_shards(ret, path, base, err);
}

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

int ckpt_is_there(const char *path, struct err *err)
{
    char *state = xasprintf("%s/checkpoint", path), *nameless = NULL;
    char *other = saved_model_prefix(path);
    int there = rank(path) > 0 || is_file(state, "") || other != NULL ||
                find_nameless(&nameless, path);

    if (!there) {
        there = shards_prefix(&other, path, err);
        there = there == 0 ? other != NULL : there;
    }
    free(state);
    free(nameless);
    free(other);
    return there;
}

/* *ret: the prefix of the shards, for one without values of its own; otherwise `prefix`, which
 * is freed if it is not that. */
static int with_shards(char **ret, char *prefix, struct err *err)
{
    char *shards;
    const int rc = shards_prefix(&shards, prefix, err);

    if (rc == 0)
        *ret = shards != NULL ? shards : prefix;
    if (rc != 0 || shards != NULL)
        free(prefix);
    return rc;
}

int ckpt_find_prefix(char **ret_prefix, const char *path, struct err *err)
{
    const size_t n = prefix_of_file(path);
    struct stat st;
    char *prefix = rank(path) < 2 ? saved_model_prefix(path) : NULL;
    int rc;

    if (prefix != NULL) {
        *ret_prefix = prefix;
        return 0;
    }
    if (rank(path) < 2 && n > 0)
        return with_shards(ret_prefix, xstrndup(path, n), err);
    if (rank(path) >= 2 || beneath_stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return with_shards(ret_prefix, xstrdup(path), err);
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
