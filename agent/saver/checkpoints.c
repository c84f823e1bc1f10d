#include "agent/saver/checkpoints.h"

#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- paths, as in Python's os.path ---- */

char *path_directory(const char *path)
{
    size_t n = (size_t)(text_base_name(path) - path), all = n;

    while (n > 0 && path[n - 1] == '/')
        n--;
    return xstrndup(path, n > 0 ? n : all);
}

static char *join(const char *dir, const char *name)
{
    size_t n = strlen(dir);

    if (name[0] == '/' || n == 0)
        return xstrdup(name);
    return xasprintf("%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}

/* Appends the parts of a path to `to`, "/a/b" or "" for the root, resolving "." and
 * "..". */
static void append_parts(char *to, const char *path)
{
    size_t n;

    for (; *path != '\0'; path += n) {
        path += strspn(path, "/");
        n = strcspn(path, "/");
        if (n == 2 && memcmp(path, "..", 2) == 0) {
            char *last = strrchr(to, '/');

            *(last != NULL ? last : to) = '\0';
        } else if (n > 0 && !(n == 1 && *path == '.')) {
            (void)strncat(strcat(to, "/"), path, n);
        }
    }
}

/* An absolute path, computed without looking at the file system. */
static char *absolute(const char *path)
{
    char *cwd = path[0] != '/' ? getcwd(NULL, 0) : NULL;
    char *ret = xcalloc(1, strlen(path) + (cwd != NULL ? strlen(cwd) : 0) + 3);

    if (cwd != NULL)
        append_parts(ret, cwd);
    append_parts(ret, path);
    free(cwd);
    return ret;
}

/* The length of the parts that two absolute paths have in common. */
static size_t common_parts(const char *a, const char *b)
{
    size_t n = 0, i = 0;

    for (;; i++) {
        int end_a = a[i] == '/' || a[i] == '\0', end_b = b[i] == '/' || b[i] == '\0';

        if (end_a && end_b)
            n = i;
        if (a[i] != b[i] || a[i] == '\0')
            return n;
    }
}

static char *relative_path(const char *path, const char *start)
{
    char *to = absolute(path), *from = absolute(start), *ret;
    size_t n = common_parts(to, from);
    const char *rest = to[n] == '/' ? to + n + 1 : to + n;

    ret = xcalloc(1, 3 * strlen(from) + strlen(rest) + 2);
    for (const char *p = from + n; *p != '\0'; p++)
        if (*p == '/')
            (void)strcat(ret, "../");
    (void)strcat(ret, rest);
    if (*rest == '\0' && ret[0] != '\0')
        ret[strlen(ret) - 1] = '\0';
    if (ret[0] == '\0')
        (void)strcpy(ret, ".");
    free(to);
    free(from);
    return ret;
}

/* ---- existing files ---- */

static char *index_path(const char *prefix)
{
    return xasprintf("%s.index", prefix);
}

int checkpoint_exists(const char *prefix)
{
    return ckpt_kind_of(prefix) != CKPT_NONE;
}

int checkpoint_mtime(const char *prefix, double *ret_time, struct err *err)
{
    char *index = index_path(prefix), *shard = ckpt_shard_path(prefix, 0);
    struct stat st;
    int there = stat(index, &st) == 0 || stat(shard, &st) == 0;

    free(shard);
    free(index);
    if (!there)
        return err_set(err, ERR_NOT_FOUND, "there is no checkpoint %s", prefix);
    *ret_time = (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
    return 0;
}

int get_checkpoint_state(struct ckpt_state *ret, const char *dir,
                         const char *latest_filename, struct err *err)
{
    char *path =
        join(dir, latest_filename != NULL ? latest_filename : CHECKPOINT_STATE_FILE);
    struct ckpt_state s;
    int rc = ckpt_state_load_file(&s, path, err);

    free(path);
    if (rc != 0)
        return rc;
    if (s.newest[0] == '\0') {
        ckpt_state_done(&s);
        return err_set(err, ERR_FORMAT, "Invalid checkpoint state loaded from %s", dir);
    }
    for (size_t i = 0; i <= s.n_all; i++) {
        char **name = i < s.n_all ? &s.all[i] : &s.newest;
        char *resolved = ckpt_resolve(dir[0] != '\0' ? dir : ".", *name);

        free(*name);
        *name = resolved;
    }
    *ret = s;
    return 0;
}

int latest_checkpoint(char **ret_prefix, const char *dir, const char *latest_filename,
                      struct err *why)
{
    struct ckpt_state s;
    int there;

    if (get_checkpoint_state(&s, dir, latest_filename, why) != 0)
        return 0;
    there = checkpoint_exists(s.newest);
    if (there)
        *ret_prefix = xstrdup(s.newest);
    else
        (void)err_set(why, ERR_NOT_FOUND, "Couldn't match files for checkpoint %s",
                      s.newest);
    ckpt_state_done(&s);
    return there;
}

/* ---- removing ---- */

static int remove_file(const char *path, struct err *err)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return err_errno(err, "%s: remove", path);
    return 0;
}

/* "<base>.data-?????-of-?????" */
static int is_data_file(const char *name, const char *base)
{
    size_t n = strlen(base);

    return strncmp(name, base, n) == 0 && strlen(name + n) == 20 &&
           memcmp(name + n, ".data-", 6) == 0 && memcmp(name + n + 11, "-of-", 4) == 0;
}

static int remove_data_files(const char *prefix, struct err *err)
{
    char *dir = path_directory(prefix);
    DIR *d = opendir(dir[0] != '\0' ? dir : ".");
    struct dirent *e;
    int rc = 0;

    while (d != NULL && rc == 0 && (e = readdir(d)) != NULL) {
        char *path;

        if (!is_data_file(e->d_name, text_base_name(prefix)))
            continue;
        path = join(dir, e->d_name);
        rc = remove_file(path, err);
        free(path);
    }
    if (d != NULL)
        (void)closedir(d);
    free(dir);
    return rc;
}

int checkpoint_remove(const char *prefix, const char *meta_graph_suffix, struct err *err)
{
    char *meta = ckpt_meta_path(prefix, meta_graph_suffix);
    char *index = index_path(prefix);
    int rc = remove_file(meta, err);

    if (rc == 0 && ckpt_kind_of(prefix) == CKPT_V1) {
        const unsigned n = ckpt_n_shards(prefix);

        for (unsigned i = 0; i < n && rc == 0; i++) {
            char *path = ckpt_shard_path(prefix, i);

            rc = remove_file(path, err);
            free(path);
        }
    }
    if (rc == 0)
        rc = remove_file(index, err);
    if (rc == 0)
        rc = remove_data_files(prefix, err);
    free(index);
    free(meta);
    return rc;
}

/* ---- the state file ---- */

/* A path as TensorFlow writes it to the state file, relative or absolute. */
static char *recorded_path(const struct checkpoint_state_update *u, const char *path)
{
    int absolute_dir = u->save_dir[0] == '/';

    if (path[0] == '/' ? u->save_relative_paths : !absolute_dir)
        return relative_path(path, u->save_dir);
    return xstrdup(path);
}

int checkpoint_state_write(const struct checkpoint_state_update *u, struct err *err)
{
    const char *name =
        u->latest_filename != NULL ? u->latest_filename : CHECKPOINT_STATE_FILE;
    char *path = join(u->save_dir, name);
    int add = u->n_all == 0 || strcmp(u->all[u->n_all - 1], u->newest) != 0;
    struct ckpt_state s = {.newest = recorded_path(u, u->newest)};
    struct wbuf text = {0};
    int rc;

    s.all = xcalloc(u->n_all + 1, sizeof(*s.all));
    for (size_t i = 0; i < u->n_all; i++)
        s.all[s.n_all++] = recorded_path(u, u->all[i]);
    if (add)
        s.all[s.n_all++] = xstrdup(s.newest);
    ckpt_state_put(&text, &s);
    if (strcmp(path, s.newest) == 0)
        rc = err_set(err, ERR_ARG,
                     "Save path '%s' conflicts with path used for checkpoint state.  "
                     "Please use a different save path.",
                     u->newest);
    else
        rc = atomic_file_write(path, text.data, text.len, u->durable, err);
    wbuf_done(&text);
    ckpt_state_done(&s);
    free(path);
    return rc;
}
