#include "supervisor/ask/describe.h"

#include "common/config/cluster_config.h"
#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "common/msg/algorithm_msg.h"
#include "common/msg/config_msg.h"
#include "supervisor/ask/ask.h"
#include "supervisor/describe/programs.h"
#include "supervisor/proc/binaries.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* To import a large library takes seconds. */
#define DESCRIBE_WITHIN_S 60

enum { HASH_BYTES = 16 };

/* Programs that were asked, by how they are started. */
static struct asked {
    struct asked *next;
    char *start;
    char hash[2 * HASH_BYTES + 1];
} * asked;

/* Everything that decides which program it is, as a text. */
static char *start_of(const struct agent_config *a)
{
    const struct program_place place = program_place(a->program);
    struct xstream text;
    FILE *f = xstream_begin(&text);

    yaml_tree_write(a->command, f);
    (void)fprintf(f, "\n%s\n%" PRId64 " %d %" PRId64 "\n", a->directory, a->threads,
                  a->confine.threads, device_gpu(a->device));
    if (a->confine.files != NULL)
        yaml_tree_write(a->confine.files, f);
    (void)fputc('\n', f);
    if (a->confine.devices != NULL)
        yaml_tree_write(a->confine.devices, f);
    (void)fputc('\n', f);
    if (a->environment != NULL)
        yaml_tree_write(a->environment, f);
    if (a->sources != NULL)
        yaml_tree_write(a->sources, f);
    if (place.kept != NULL)
        (void)fprintf(f, "\n%s\n", place.kept);
    return xstream_end(&text);
}

static void pack_describe(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct agent_config *a = ctx;
    const struct program_place place = program_place(a->program);

    msg_map(o, 1);
    msg_key(o, "program");
    msg_program(o, a, &place);
}

/* Adds the files that the program has not named itself, and threads, to what its bits depend
 * on. */
static void add_identity(struct algorithm_info *info, const struct agent_config *a,
                         const struct program_files *files, struct arena *arena)
{
    const char **lines;
    size_t n = 0;

    while (info->identity != NULL && info->identity[n] != NULL)
        n++;
    lines = ARENA_ARRAY(arena, const char *, n + files->n + 2);
    if (n > 0)
        memcpy(lines, info->identity, n * sizeof(*lines));
    for (size_t i = 0; i < files->n && n < ALGORITHM_MAX_IDENTITY; i++)
        if (!files->file[i].is_named)
            lines[n++] =
                arena_printf(arena, "%.200s %s", strchr(files->file[i].name, '/') + 1,
                             files->file[i].digest);
    if (a->threads > 1 && n < ALGORITHM_MAX_IDENTITY)
        lines[n++] = arena_printf(arena, "threads %" PRId64, a->threads);
    info->identity = n > 0 ? lines : NULL;
    info->within = *files->within != '\0' ? arena_strdup(arena, files->within) : NULL;
}

/* Packs the description anew, so that equal ones are equal bytes. */
static int note(const struct agent_config *a, const msgpack_object *answer,
                struct asked *ret, const struct algorithm_info **ret_info,
                struct err *err)
{
    const struct program_place place = program_place(a->program);
    struct program_files files = {.within = ""};
    const msgpack_object *list = NULL;
    unsigned char hash[HASH_BYTES];
    struct arena arena = ARENA_ZERO;
    struct algorithm_info info;
    struct msg_out out;
    const uint8_t *frame;
    size_t len;
    int rc = msg_get_array(answer, "algorithms", &list, err);

    if (rc == 0 && (list == NULL || list->via.array.size != 1))
        rc = err_set(err, ERR_PROTOCOL, "one algorithm expected");
    if (rc == 0)
        rc = msg_to_algorithm(&list->via.array.ptr[0], &info, &arena, err);
    if (rc == 0)
        rc = program_files_find(&files, answer, a, &place, err);
    if (rc < 0) {
        arena_done(&arena);
        return rc;
    }
    add_identity(&info, a, &files, &arena);
    msg_out_init(&out);
    msg_begin_response(&out, 0);
    msg_map(&out, 1);
    msg_key(&out, "algorithms");
    msg_array(&out, 1);
    msg_algorithm(&out, &info);
    msg_end(&out, &frame, &len);
    (void)crypto_generichash(hash, sizeof(hash), frame, len, NULL, 0);
    (void)sodium_bin2hex(ret->hash, sizeof(ret->hash), hash, sizeof(hash));
    rc = program_note(ret_info, ret->hash, frame, len, err);
    if (rc == 0 && program_place(a->program).kept == NULL)
        program_note_files(ret->hash, &files);
    else if (rc == 0)
        program_start_as(ret->hash, a->program);
    program_files_done(&files);
    msg_out_done(&out);
    arena_done(&arena);
    return rc;
}

/* A program that dies or answers nonsense is the configuration's fault. */
static int ask_program(struct agent_config *a, struct asked *ret,
                       const struct algorithm_info **ret_info, struct err *err)
{
    static const struct agent_limits limits = {.respond_within_s = DESCRIBE_WITHIN_S};
    const struct agent_spec spec = {.name = "program",
                                    .role = "learner",
                                    .method = "describe",
                                    .pack_configure = pack_describe,
                                    .limits = &limits,
                                    .is_trial = 1};
    struct ask_args args = {.specs = &spec, .n = 1, .ctx = a};
    struct binaries bin;
    struct ask *ask;
    struct err why = {0};
    int rc = binaries_find(&bin, err);

    if (rc < 0 || (args.agent_exe_fd = binaries_open_agent(&bin, err)) < 0)
        return rc < 0 ? rc : args.agent_exe_fd;
    rc = ask_open(&ask, &args, &why);
    (void)close(args.agent_exe_fd);
    if (rc == 0)
        rc = note(a, ask_answer(ask, 0), ret, ret_info, &why);
    if (rc < 0 && (why.from_peer || ask_process_failed(ask) || !err_is_failure(rc)))
        rc = err_set(err, ERR_CONFIG, "the program does not say what it is: %s",
                     err_cause(&why));
    else if (rc < 0)
        (void)err_pass(err, &why);
    ask_close(ask);
    return rc;
}

int describe_program(void *ctx, struct agent_config *a, struct arena *arena,
                     const struct algorithm_info **ret, struct err *err)
{
    char *start = start_of(a);
    struct asked *p = asked;
    int rc;

    while (p != NULL && strcmp(p->start, start) != 0)
        p = p->next;
    if (p == NULL) {
        p = xcalloc(1, sizeof(*p));
        rc = ask_program(a, p, ret, err);
        if (rc < 0) {
            free(start);
            free(p);
            return rc;
        }
        p->next = asked;
        p->start = start;
        asked = p;
    } else {
        free(start);
        rc = program_note(ret, p->hash, NULL, 0, err);
    }
    a->program = arena_strdup(arena, p->hash);
    if (rc == 0)
        program_expect(p->hash, (*ret)->identity);
    return rc;
}

/* ---- whether a program is still the same ---- */

static const char *line_of(const struct algorithm_info *a, size_t i)
{
    size_t k = 0;

    while (a->identity != NULL && k < i && a->identity[k] != NULL)
        k++;
    return a->identity != NULL && a->identity[k] != NULL ? a->identity[k] : "nothing";
}

/* Fails with the first difference. Settings that are gone count before what bits depend on. */
static int refuse_other(const struct agent_config *was, const struct algorithm_info *is,
                        struct err *err)
{
    const struct algorithm_info *before = was->settings.of;
    size_t i = 0;

    for (size_t k = 0; k < before->settings.n; k++) {
        const struct field *f = &before->settings.fields[k];

        if (schema_counterpart(&before->settings, f, &is->settings) == NULL)
            return err_set(
                err, ERR_CONFIG,
                "the program of %s has no setting %s any more, or another kind "
                "of it (--anyway continues)",
                was->name, f->key);
    }
    while (strcmp(line_of(before, i), line_of(is, i)) == 0 &&
           strcmp(line_of(is, i), "nothing") != 0)
        i++;
    if (strcmp(line_of(before, i), line_of(is, i)) == 0)
        return err_set(err, ERR_CONFIG,
                       "the program of %s says other things of itself than when the run "
                       "began (--anyway continues)",
                       was->name);
    return err_set(
        err, ERR_CONFIG,
        "the program of %s is not what the run began with: it had '%.100s', now "
        "it has '%.100s' (--anyway continues)",
        was->name, line_of(before, i), line_of(is, i));
}

int describe_check_same(const struct run_config *c, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    int rc = 0;

    for (size_t i = 0; i < c->n_agents && rc == 0; i++) {
        struct agent_config a = c->agents[i];
        const struct algorithm_info *is;

        if (a.command == NULL)
            continue;
        rc = describe_program(NULL, &a, &arena, &is, err);
        if (rc == 0) /* with --anyway it is another one */
            program_expect(c->agents[i].program, is->identity);
        if (rc == 0 && !a.is_inexact && strcmp(a.program, c->agents[i].program) != 0)
            rc = refuse_other(&c->agents[i], is, err);
        else if (rc < 0)
            (void)err_wrap(err, "agent %s", a.name);
    }
    arena_done(&arena);
    return rc;
}
