#include "agent/program.h"

#include "agent/loop/service.h"
#include "common/confine/confine.h"
#include "common/io/own_file.h"
#include "common/io/python_folder.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MAX_WORDS = 64,
    MAX_VARIABLES = 64,
    MAX_PATHS = 64,
    MAX_THREADS = 1024,
    MAX_TEXT = 4096
};

static const msgpack_object *program_of(const struct msg *request)
{
    return request->type == MSG_REQUEST ? msg_get(&request->body, "program") : NULL;
}

int program_is_wanted(const struct msg *request)
{
    return program_of(request) != NULL;
}

/* Copies a text; malloc'd. */
static int take_text(const msgpack_object *o, const char *what, char **ret,
                     struct err *err)
{
    if (o->type != MSGPACK_OBJECT_STR || o->via.str.size >= MAX_TEXT ||
        memchr(o->via.str.ptr, '\0', o->via.str.size) != NULL)
        return err_set(err, ERR_PROTOCOL, "%s: a text of less than %d bytes expected",
                       what, MAX_TEXT);
    *ret = xstrndup(o->via.str.ptr, o->via.str.size);
    return 0;
}

/* *ret: the words, NULL-terminated. */
static int take_words(const msgpack_object *map, char **ret, struct err *err)
{
    const msgpack_object *list = NULL;
    int rc = msg_get_array(map, "command", &list, err);

    if (rc < 0)
        return rc;
    if (list == NULL || list->via.array.size < 1 || list->via.array.size > MAX_WORDS)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "command"),
                          "1 to %d words expected", MAX_WORDS);
    for (uint32_t i = 0; i < list->via.array.size && rc == 0; i++)
        rc = take_text(&list->via.array.ptr[i], "command", &ret[i], err);
    return rc;
}

/* ---- the environment ---- */

static int set_given(const msgpack_object *map, struct err *err)
{
    const msgpack_object *given = NULL;
    int rc = msg_get_map(map, "environment", &given, err);

    if (rc == 0 && given != NULL && given->via.map.size > MAX_VARIABLES)
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "environment"),
                        "at most %d variables expected", MAX_VARIABLES);
    for (uint32_t i = 0; rc == 0 && given != NULL && i < given->via.map.size; i++) {
        const msgpack_object_kv *kv = &given->via.map.ptr[i];
        char *name = NULL, *value = NULL;

        rc = take_text(&kv->key, "environment", &name, err);
        if (rc == 0)
            rc = take_text(&kv->val, "environment", &value, err);
        if (rc == 0 && setenv(name, value, 1) < 0)
            rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "environment"),
                            "'%.60s' is no name of a variable", name);
        free(name);
        free(value);
    }
    return rc;
}

static int set_usual(const msgpack_object *map, uint64_t *ret_threads, struct err *err)
{
    static const char *const usual[][2] = {{"PYTHONHASHSEED", "0"},
                                           {"PYTHONDONTWRITEBYTECODE", "1"},
                                           {"PYTHONUNBUFFERED", "1"},
                                           {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}};
    static const char *const threads[] = {"OMP_NUM_THREADS", "OMP_THREAD_LIMIT",
                                          "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"};
    char number[24];
    int rc;

    rc = msg_get_u64(map, "threads", MAX_THREADS, ret_threads, err);
    (void)snprintf(number, sizeof(number), "%" PRIu64, *ret_threads);
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        (void)setenv(usual[i][0], usual[i][1], 1);
    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++)
        (void)setenv(threads[i], number, 1);
    return rc;
}

/* ---- what it may do ---- */

struct may {
    int threads;                             /* start threads and processes */
    struct confine_path path[MAX_PATHS + 1]; /* to change; they end with a NULL */
    size_t n;
};

static int take_paths(const msgpack_object *map, const char *key, int are_devices,
                      const char *directory, struct may *ret, struct err *err)
{
    const msgpack_object *list = NULL;
    int rc = msg_get_array(map, key, &list, err);

    for (uint32_t i = 0; rc == 0 && list != NULL && i < list->via.array.size; i++) {
        char *path = NULL;

        if (ret->n == MAX_PATHS)
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "confine"),
                              "at most %d paths expected", MAX_PATHS);
        rc = take_text(&list->via.array.ptr[i], key, &path, err);
        if (rc == 0 && *path != '/') {
            char *whole = xasprintf("%s/%s", directory, path);

            free(path);
            path = whole;
        }
        if (rc == 0)
            ret->path[ret->n++] = (struct confine_path){path, are_devices};
    }
    return rc;
}

/* What libraries of CUDA need: its devices, and threads of their own. */
static void add_gpu(struct may *ret)
{
    glob_t found;

    ret->threads = 1;
    if (glob("/dev/nvidia*", 0, NULL, &found) != 0)
        return; /* the library says that there is none */
    for (size_t i = 0; i < found.gl_pathc && ret->n < MAX_PATHS; i++)
        ret->path[ret->n++] = (struct confine_path){xstrdup(found.gl_pathv[i]), 1};
    globfree(&found);
}

static int take_may(const msgpack_object *map, const char *directory, uint64_t threads,
                    struct may *ret, struct err *err)
{
    int rc = msg_get_bool(map, "starts_threads", &ret->threads, err);

    if (rc == 0)
        rc = take_paths(map, "files", 0, directory, ret, err);
    if (rc == 0)
        rc = take_paths(map, "devices", 1, directory, ret, err);
    if (threads > 1)
        ret->threads = 1;
    if (rc == 0 && msg_get(map, "device") != NULL)
        add_gpu(ret);
    return rc;
}

/* What the program takes upon itself before it is built (confine_fence). */
static void set_fence(const struct may *m)
{
    char *fence = confine_fence((m->threads ? CONFINE_OPENS_THREADS : 0) |
                                (m->n > 0 ? CONFINE_OPENS_FILES : 0));

    (void)unsetenv("BROOD_FENCE");
    if (fence != NULL)
        (void)setenv("BROOD_FENCE", fence, 1);
    free(fence);
}

static int confine(const struct may *m, struct err *err)
{
    const char *bad = NULL;

    confine_calls(CONFINE_ENVIRONMENT);
    if (confine_files(CONFINE_RUNS, m->path, &bad) == 0)
        return 0;
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "confine"), "%.300s: %s", bad,
                      strerror(errno));
}

/* ---- where it is ---- */

struct place {
    char *directory; /* where the program is */
    char *kept;      /* the run's copy of it; NULL: none, or it is out of reach */
    char *start;     /* where it starts, in one of the two */
    size_t root;     /* bytes of `directory` that `kept`/files stands for */
};

/* On another machine, whose node has got the files: they are in its folder. */
static void take_from_node(struct place *p, const char *within)
{
    const char *folder = getenv("BROOD_PROGRAMS"), *slash = strrchr(p->kept, '/');
    char *kept;

    if (folder == NULL || slash == NULL)
        return;
    kept = xasprintf("%s%s", folder, slash);
    free(p->kept);
    free(p->start);
    p->kept = kept;
    p->start = xasprintf("%s/files/%s", kept, within != NULL ? within : "");
}

static int take_place(const msgpack_object *map, struct place *ret, struct err *err)
{
    const msgpack_object *directory = msg_get(map, "directory");
    const msgpack_object *kept = msg_get(map, "kept"), *at = msg_get(map, "within");
    char *within = NULL;
    int rc = directory != NULL ? take_text(directory, "directory", &ret->directory, err)
                               : err_set(err, ERR_PROTOCOL, "directory expected");

    if (rc == 0 && kept != NULL)
        rc = take_text(kept, "kept", &ret->kept, err);
    if (rc == 0 && at != NULL)
        rc = take_text(at, "within", &within, err);
    if (rc == 0 && ret->kept != NULL) {
        const size_t n = strlen(ret->directory), k = within != NULL ? strlen(within) : 0;

        ret->start = xasprintf("%s/files/%s", ret->kept, within != NULL ? within : "");
        ret->root = n > k && k > 0 ? n - k - 1 : n;
    }
    if (ret->start != NULL && access(ret->start, F_OK) < 0)
        take_from_node(ret, within);
    if (ret->start != NULL && access(ret->start, F_OK) < 0) {
        free(ret->start);
        free(ret->kept);
        ret->start = ret->kept = NULL;
    }
    if (rc == 0 && ret->start == NULL)
        ret->start = xstrdup(ret->directory);
    free(within);
    return rc;
}

/* Replaces a word by the path of the file that it means, if that is not found by the word
 * itself: the process has been started in p->start. */
static void place_word(const struct place *p, char **word, int is_first)
{
    char real[PATH_MAX], *path = NULL;

    if (p->kept == NULL)
        return;
    if (**word == '/') {
        if (realpath(*word, real) != NULL && strncmp(real, p->directory, p->root) == 0 &&
            real[p->root] == '/')
            path = xasprintf("%s/files%s", p->kept, real + p->root);
    } else if (is_first && strchr(*word, '/') != NULL && access(*word, F_OK) < 0) {
        path = xasprintf("%s/%s", p->directory, *word);
    }
    if (path != NULL && access(path, F_OK) == 0) {
        free(*word);
        *word = path;
    } else {
        free(path);
    }
}

/* ---- the requests ---- */

/* What this process has said of itself, for those that a prepared one forks. */
static int pass_hello(struct err *err)
{
    struct msg_out out;
    const uint8_t *frame;
    size_t len;
    int rc = 0;

    msg_out_init(&out);
    hello_pack(&out);
    msg_end(&out, &frame, &len);
    if (write_all(AGENT_FD_REQUEST, frame, len) < 0)
        rc = err_errno(err, "passing hello on");
    msg_out_done(&out);
    return rc;
}

static int pass_on(const struct msg *request, const void *frame, size_t len,
                   struct err *err)
{
    const int fd = memfd_create("brood-request", 0);
    int rc = 0;

    if (fd < 0)
        return err_errno(err, "memfd_create");
    if (fd != AGENT_FD_REQUEST && dup2(fd, AGENT_FD_REQUEST) < 0)
        return err_errno(err, "dup2");
    if (fd != AGENT_FD_REQUEST)
        (void)close(fd);
    if (strcmp(request->method, "prepare") == 0)
        rc = pass_hello(err);
    if (rc < 0)
        return rc;
    if (write_all(AGENT_FD_REQUEST, frame, len) < 0 ||
        lseek(AGENT_FD_REQUEST, 0, SEEK_SET) < 0)
        return err_errno(err, "passing a request on");
    return 0;
}

int program_execute(const struct msg *request, const void *frame, size_t len,
                    struct err *err)
{
    const msgpack_object *map = program_of(request);
    char *words[MAX_WORDS + 1] = {0};
    struct place place = {0};
    struct may may = {0};
    uint64_t threads = 1;
    int rc = map->type == MSGPACK_OBJECT_MAP
                 ? take_words(map, words, err)
                 : err_set(err, ERR_PROTOCOL, "program: a map expected");

    if (rc == 0)
        rc = take_place(map, &place, err);
    if (rc == 0 && chdir(place.start) < 0)
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "directory"), "%s: %s",
                        place.start, strerror(errno));
    for (size_t i = 0; rc == 0 && words[i] != NULL; i++)
        place_word(&place, &words[i], i == 0);
    own_python_environment();
    if (rc == 0)
        rc = set_usual(map, &threads, err);
    if (rc == 0)
        rc = take_may(map, place.directory, threads, &may, err);
    if (rc == 0)
        (void)setenv("BROOD_DIRECTORY", place.directory, 1);
    if (rc == 0)
        rc = set_given(map, err);
    set_fence(&may);
    /* the run's copy of the package, if there is one, in front of PYTHONPATH */
    char *copy = place.kept != NULL ? xasprintf("%s/package", place.kept) : NULL;
    python_folder_add(copy != NULL && access(copy, F_OK) == 0 ? copy : NULL);
    free(copy);
    if (rc == 0)
        rc = pass_on(request, frame, len, err);
    if (rc == 0) {
        (void)close_range(AGENT_FD_REQUEST + 1, ~0U, CLOSE_RANGE_CLOEXEC);
        rc = confine(&may, err);
    }
    if (rc == 0) {
        (void)execvp(words[0], words);
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "command"), "%.200s: %s", words[0],
                        strerror(errno));
    }
    for (size_t i = 0; words[i] != NULL; i++)
        free(words[i]);
    for (size_t i = 0; i < may.n; i++)
        free(may.path[i].path);
    free(place.directory);
    free(place.kept);
    free(place.start);
    return rc;
}
