#include "supervisor/describe/program_files.h"

#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/io/close_fd.h"
#include "common/io/tree.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/msg/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_BYTES = 64 << 10, MAX_DEPTH = 32 };

struct search {
    struct program_files *ret;
    size_t cap;
    const char *directory; /* without links in it */
    struct err *err;
};

/* ---- paths ---- */

/* Whether the path lies in the folder. */
static int is_below(const char *path, const char *folder)
{
    const size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

static int program_files_add(struct search *s, const char *path, const char *name,
                             int is_named)
{
    struct program_files *r = s->ret;

    if (r->n == PROGRAM_MAX_FILES)
        return err_set(s->err, ERR_CONFIG,
                       "it consists of more than %d files; list fewer under `sources`",
                       PROGRAM_MAX_FILES);
    if (r->n == s->cap) {
        s->cap = s->cap > 0 ? 2 * s->cap : 64;
        r->file = xreallocarray(r->file, s->cap, sizeof(*r->file));
    }
    r->file[r->n++] =
        (struct program_file){.path = arena_strdup(&r->arena, path),
                              .name = name != NULL ? arena_strdup(&r->arena, name) : NULL,
                              .is_named = is_named};
    return 0;
}

/* ---- what the program names ---- */

/* *ret: a text that is one line and no longer than a path. */
static int take_path(struct search *s, const msgpack_object *o, const char *key,
                     char ret[PATH_MAX])
{
    if (o->type != MSGPACK_OBJECT_STR || o->via.str.size == 0 ||
        o->via.str.size >= PATH_MAX || memchr(o->via.str.ptr, '\0', o->via.str.size))
        return err_set(s->err, ERR_PROTOCOL, "%s: a path expected", key);
    memcpy(ret, o->via.str.ptr, o->via.str.size);
    ret[o->via.str.size] = '\0';
    return 0;
}

static int add_named(struct search *s, const msgpack_object *answer)
{
    const msgpack_object *list = NULL;
    char path[PATH_MAX];
    int rc = msg_get_array(answer, "files", &list, s->err);

    for (uint32_t i = 0; rc == 0 && list != NULL && i < list->via.array.size; i++) {
        rc = take_path(s, &list->via.array.ptr[i], "files", path);
        if (rc == 0 && (*path != '/' || strstr(path, "/../") != NULL))
            rc = err_set(s->err, ERR_PROTOCOL, "files: '%.100s' is no absolute path",
                         path);
        if (rc == 0)
            rc = program_files_add(s, path, NULL, 1);
    }
    return rc;
}

/* package {folder str, files [str...]}: names below the folder. */
static int add_package(struct search *s, const msgpack_object *answer)
{
    const msgpack_object *package = NULL, *list = NULL, *at;
    char folder[PATH_MAX], name[PATH_MAX];
    int rc = msg_get_map(answer, "package", &package, s->err);

    if (rc < 0 || package == NULL)
        return rc;
    at = msg_get(package, "folder");
    rc = at != NULL ? take_path(s, at, "package.folder", folder)
                    : err_set(s->err, ERR_PROTOCOL, "package: no folder");
    if (rc == 0)
        rc = msg_get_array(package, "files", &list, s->err);
    for (uint32_t i = 0; rc == 0 && list != NULL && i < list->via.array.size; i++) {
        rc = take_path(s, &list->via.array.ptr[i], "package.files", name);
        if (rc == 0 && (*name == '/' || strstr(name, "..") != NULL))
            rc =
                err_set(s->err, ERR_PROTOCOL, "package.files: '%.100s' is no name", name);
        if (rc == 0) {
            char *path = xasprintf("%s/%s", folder, name);
            char *in = xasprintf("package/%s", name);

            rc = program_files_add(s, path, in, 1);
            free(path);
            free(in);
        }
    }
    return rc;
}

/* ---- what the configuration names ---- */

/* Whether a folder is one of those that are not the program's: a virtual environment or a
 * run. */
static int is_foreign(const char *folder)
{
    static const char *const marks[] = {"pyvenv.cfg", "provenance"};
    int found = 0;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]) && !found; i++) {
        char *path = xasprintf("%s/%s", folder, marks[i]);

        found = tree_exists(path);
        free(path);
    }
    return found;
}

/* Whether the path, which lies below the directory, is in a virtual environment or a run. */
static int is_in_foreign(const struct search *s, const char *path)
{
    char folder[PATH_MAX];
    int found = 0;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    for (char *slash = strrchr(folder, '/'); slash != NULL && !found;
         slash = strrchr(folder, '/')) {
        *slash = '\0';
        if (!is_below(folder, s->directory))
            break;
        found = is_foreign(folder);
    }
    return found;
}

/* Words of the command that are files of the directory. */
static int add_words(struct search *s, const struct yaml_node *command)
{
    int rc = 0;

    for (size_t i = 0; command != NULL && i < command->n && rc == 0; i++) {
        const char *word = command->child[i]->text;
        char *path =
            *word == '/' ? xstrdup(word) : xasprintf("%s/%s", s->directory, word);
        char real[PATH_MAX];
        struct stat st;

        if ((i > 0 || strchr(word, '/') != NULL) && realpath(path, real) != NULL &&
            is_below(real, s->directory) && stat(real, &st) == 0 && S_ISREG(st.st_mode) &&
            !is_in_foreign(s, real))
            rc = program_files_add(s, real, NULL, 0);
        free(path);
    }
    return rc;
}

static int is_shown(const struct dirent *e)
{
    return *e->d_name != '.' && strcmp(e->d_name, "__pycache__") != 0;
}

/* A file, or all files of a folder that lies below another. all: also the hidden ones. */
static int add_tree(struct search *s, const char *path, const char *top, int all,
                    int depth)
{
    struct dirent **entries = NULL;
    char real[PATH_MAX];
    struct stat st;
    int n, rc = 0;

    if (realpath(path, real) == NULL || stat(real, &st) < 0)
        return err_errno(s->err, "sources: %s", path);
    if (strcmp(real, top) != 0 && !is_below(real, top))
        return 0; /* a link that leads outside */
    if (S_ISREG(st.st_mode))
        return program_files_add(s, real, NULL, 0);
    if (!S_ISDIR(st.st_mode) || depth == MAX_DEPTH || is_foreign(real))
        return 0;
    n = beneath_scandir(real, &entries, all ? beneath_is_entry : is_shown);
    if (n < 0)
        return err_errno(s->err, "sources: %s", path);
    for (int i = 0; i < n; i++) {
        char *below = xasprintf("%s/%s", real, entries[i]->d_name);

        if (rc == 0)
            rc = add_tree(s, below, top, all, depth + 1);
        free(below);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static int add_sources(struct search *s, const struct yaml_node *sources)
{
    int rc = 0;

    for (size_t i = 0; sources != NULL && i < sources->n && rc == 0; i++) {
        const char *text = sources->child[i]->text;
        char *pattern = xasprintf("%s/%s", s->directory, text);
        glob_t found = {0};

        if (glob(pattern, GLOB_ERR, NULL, &found) != 0)
            rc = err_set(s->err, ERR_CONFIG, "sources: no file of %.200s is '%.100s'",
                         s->directory, text);
        for (size_t k = 0; rc == 0 && k < found.gl_pathc; k++)
            rc = add_tree(s, found.gl_pathv[k], s->directory, 0, 0);
        globfree(&found);
        free(pattern);
    }
    return rc;
}

/* ---- the copy ---- */

/* Reads a file, and writes what it reads to `to` unless that is -1. ret_bytes: its length. */
static int read_whole(const char *path, int to, char digest[2 * PROGRAM_DIGEST_BYTES + 1],
                      uint64_t *ret_bytes, struct err *err)
{
    unsigned char hash[PROGRAM_DIGEST_BYTES];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    crypto_generichash_state state;
    char *buffer;
    struct stat st;
    ssize_t n = 0;
    int rc = 0;

    if (fd < 0)
        return err_errno(err, "%s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return err_set(err, ERR_CONFIG, "%s is no regular file", path);
    }
    *ret_bytes = 0;
    (void)crypto_generichash_init(&state, NULL, 0, sizeof(hash));
    buffer = xmalloc(COPY_BYTES);
    while (*ret_bytes <= PROGRAM_MAX_FILES_BYTES &&
           (n = pread_all(fd, buffer, COPY_BYTES, *ret_bytes)) > 0) {
        (void)crypto_generichash_update(&state, (unsigned char *)buffer, (size_t)n);
        if (to >= 0 && write_all(to, buffer, (size_t)n) < 0) {
            n = -1;
            break;
        }
        *ret_bytes += (uint64_t)n;
    }
    (void)crypto_generichash_final(&state, hash, sizeof(hash));
    (void)sodium_bin2hex(digest, 2 * PROGRAM_DIGEST_BYTES + 1, hash, sizeof(hash));
    free(buffer);
    if (n < 0)
        rc = err_errno(err, "a copy of %s", path);
    (void)close(fd);
    return rc;
}

static int copy_file(const struct program_file *f, const char *to, struct err *err)
{
    struct stat st;
    char *path = xasprintf("%s/%s", to, f->name);
    char *folder = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    char digest[2 * PROGRAM_DIGEST_BYTES + 1];
    uint64_t bytes;
    int rc = tree_make(folder, err), fd = -1;

    if (rc == 0 && stat(f->path, &st) < 0)
        rc = err_errno(err, "%s", f->path);
    if (rc == 0)
        fd = beneath_open(path, O_WRONLY | O_CREAT | O_EXCL,
                          (st.st_mode & S_IXUSR) != 0 ? 0777 : 0666);
    if (rc == 0 && fd < 0)
        rc = err_errno(err, "%s", path);
    if (rc == 0)
        rc = read_whole(f->path, fd, digest, &bytes, err);
    close_fd(&fd);
    if (rc == 0 && strcmp(digest, f->digest) != 0)
        rc = err_set(err, ERR_STATE, "%s was changed while the run began: begin it again",
                     f->path);
    free(folder);
    free(path);
    return rc;
}

int program_files_copy(const struct program_files *f, const char *to, struct err *err)
{
    char *directory =
        xasprintf("%s/files%s%s", to, *f->within != '\0' ? "/" : "", f->within);
    int rc = tree_make(directory, err);

    free(directory);
    for (size_t i = 0; i < f->n && rc == 0; i++)
        rc = copy_file(&f->file[i], to, err);
    return rc;
}

/* ---- finding them ---- */

static int by_path(const void *a, const void *b)
{
    const struct program_file *x = a, *y = b;
    const int order = strcmp(x->path, y->path);

    return order != 0 ? order : y->is_named - x->is_named;
}

static void drop_doubles(struct program_files *f)
{
    size_t n = 0;

    if (f->n > 0)
        qsort(f->file, f->n, sizeof(*f->file), by_path);
    for (size_t i = 0; i < f->n; i++)
        if (n == 0 || strcmp(f->file[i].path, f->file[n - 1].path) != 0)
            f->file[n++] = f->file[i];
    f->n = n;
}

/* Names them below the folder that all have in common, and the directory. */
static void give_names(struct search *s)
{
    struct program_files *f = s->ret;
    char root[PATH_MAX];
    size_t n;

    (void)snprintf(root, sizeof(root), "%s", s->directory);
    for (size_t i = 0; i < f->n; i++)
        while (f->file[i].name == NULL && *root != '\0' &&
               !is_below(f->file[i].path, root))
            *strrchr(root, '/') = '\0';
    n = strlen(root);
    f->within = arena_strdup(&f->arena, s->directory + n + (s->directory[n] == '/'));
    for (size_t i = 0; i < f->n; i++)
        if (f->file[i].name == NULL)
            f->file[i].name = arena_printf(&f->arena, "files%s", f->file[i].path + n);
}

static int read_all(struct search *s)
{
    struct program_files *f = s->ret;
    uint64_t sum = 0, bytes = 0;
    int rc = 0;

    for (size_t i = 0; i < f->n && rc == 0; i++) {
        rc = read_whole(f->file[i].path, -1, f->file[i].digest, &bytes, s->err);
        if (rc == 0 && (sum += bytes) > PROGRAM_MAX_FILES_BYTES)
            rc = err_set(
                s->err, ERR_CONFIG,
                "its files are larger than %d MiB (%.200s is one of them): the run "
                "keeps them; list fewer under `sources`",
                PROGRAM_MAX_FILES_BYTES >> 20, f->file[i].path);
    }
    return rc;
}

/* Finds the directory of the program, without links in it. Of a copy adds all files. */
static int program_files_begin(struct search *s, const struct agent_config *a,
                               const struct program_place *place, char real[PATH_MAX])
{
    char *files, *directory, top[PATH_MAX];
    int rc = 0;

    s->directory = real;
    if (place->kept == NULL)
        return realpath(a->directory, real) != NULL
                   ? 0
                   : err_errno(s->err, "%s", a->directory);
    files = xasprintf("%s/files", place->kept);
    directory = xasprintf("%s/%s", files, place->within);
    if (realpath(directory, real) == NULL || realpath(files, top) == NULL)
        rc = err_errno(s->err, "%s", directory);
    if (rc == 0)
        rc = add_tree(s, top, top, 1, 0);
    free(directory);
    free(files);
    return rc;
}

int program_files_find(struct program_files *ret, const msgpack_object *answer,
                       const struct agent_config *a, const struct program_place *place,
                       struct err *err)
{
    struct search s = {.ret = ret, .err = err};
    char real[PATH_MAX];
    int rc;

    *ret = (struct program_files){.within = ""};
    rc = program_files_begin(&s, a, place, real);
    if (rc == 0 && strcmp(real, "/") == 0)
        *real = '\0';
    if (rc == 0)
        rc = add_named(&s, answer);
    if (rc == 0)
        rc = add_package(&s, answer);
    if (rc == 0)
        rc = add_words(&s, a->command);
    if (rc == 0 && place->kept == NULL)
        rc = add_sources(&s, a->sources);
    if (rc == 0) {
        drop_doubles(ret);
        give_names(&s);
        rc = read_all(&s);
    }
    if (rc < 0)
        program_files_done(ret);
    return rc;
}

void program_files_done(struct program_files *f)
{
    free(f->file);
    arena_done(&f->arena);
    *f = (struct program_files){.within = ""};
}
