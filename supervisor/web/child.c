#include "supervisor/web/child.h"

#include "common/mem/words.h"
#include "common/text/scan.h"
#include "supervisor/web/web.h"

#include <stdlib.h>
#include <unistd.h>

enum { LOOK_MS = 20 };

/* The thread that starts commands with the priority of runs. The loop waits for it, so that never
 * two threads start or end a command. */
static struct {
    uv_thread_t thread;
    uv_sem_t wanted, done;
    struct asked_command *command; /* NULL: the thread ends */
    int timeout_ms;
} starter;

static void serve_starts(void *arg)
{
    for (uv_sem_wait(&starter.wanted); starter.command != NULL;
         uv_sem_wait(&starter.wanted)) {
        (void)command_begin(starter.command, starter.timeout_ms);
        uv_sem_post(&starter.done);
    }
}

int children_keep_priority(struct err *err)
{
    int rc = uv_sem_init(&starter.wanted, 0);

    if (rc == 0)
        rc = uv_sem_init(&starter.done, 0);
    if (rc == 0)
        rc = uv_thread_create(&starter.thread, serve_starts, NULL);
    return rc == 0 ? 0 : err_set(err, rc, "starting a thread: %s", uv_strerror(rc));
}

void children_end(void)
{
    starter.command = NULL;
    uv_sem_post(&starter.wanted);
    (void)uv_thread_join(&starter.thread);
    uv_sem_destroy(&starter.wanted);
    uv_sem_destroy(&starter.done);
}

static void start(struct child *c, int timeout_ms)
{
    if (c->priority == CHILD_AS_SERVER) {
        (void)command_begin(&c->command, timeout_ms);
        return;
    }
    starter.command = &c->command;
    starter.timeout_ms = timeout_ms;
    uv_sem_post(&starter.wanted);
    uv_sem_wait(&starter.done);
}

static void on_closed(uv_handle_t *handle)
{
    struct child *c = handle->data;

    c->end(c);
}

static void on_look(uv_timer_t *look)
{
    struct child *c = look->data;

    if (command_look(&c->command))
        uv_close((uv_handle_t *)look, on_closed);
}

int child_begin(struct child *c, struct web *w, const char *runs_dir,
                const char *const *words, int timeout_ms, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct words argv = {.arena = &arena};

    /* brood-web --child-of: the kernel kills the child when this server dies. */
    words_add(&argv, "/proc/self/exe", "--child-of",
              arena_printf(&arena, "%d", (int)getpid()), w->program, NULL);
    words_add(&argv, words[0], "--runs-dir", runs_dir, NULL);
    for (words++; *words != NULL; words++)
        words_add(&argv, *words, NULL);
    c->command.argv = argv.list;
    start(c, timeout_ms);
    arena_done(&arena);
    if (c->command.err.code != 0)
        return err_pass(err, &c->command.err);
    (void)uv_timer_init(&w->loop, &c->look);
    c->look.data = c;
    (void)uv_timer_start(&c->look, on_look, LOOK_MS, LOOK_MS);
    return 0;
}

void child_kill(struct child *c)
{
    program_kill(&c->command.program);
}

void child_close(struct child *c)
{
    command_cancel(&c->command);
    if (!uv_is_closing((uv_handle_t *)&c->look))
        uv_close((uv_handle_t *)&c->look, on_closed);
}

const char *child_says(struct child *c, const char *command, struct err *err)
{
    const char *line = command_last_line(c->command.output);
    const char *rest = text_after(line, "brood ");

    if (c->command.err.code == 0)
        return line;
    rest = rest != NULL ? text_after(rest, command) : NULL;
    rest = rest != NULL ? text_after(rest, ": ") : NULL;
    if (c->command.err.code == ERR_TIMEOUT)
        (void)err_set(err, ERR_TIMEOUT, "`brood %s` took longer than %d s: it was ended",
                      command, c->command.timeout_ms / 1000);
    else if (*line != '\0')
        (void)err_set(err, ERR_STATE, "%s", rest != NULL ? rest : line);
    else
        (void)err_set(err, ERR_STATE, "`brood %s` failed", command);
    return NULL;
}

void child_done(struct child *c)
{
    free(c->command.output);
}
