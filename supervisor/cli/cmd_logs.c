/* `brood logs`: prints a run's journal and logs, with -f also while they are written. */
#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/io/line_reader.h"
#include "common/io/patience.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "common/text/scan.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/plain_output.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/rundir/run_watch.h"
#include "supervisor/study/study_dir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* A run's journal and logs, merged into one text in the order of time.
 *
 * Order    by the time at the beginning of each line. A line without a time follows the
 *          line before it in its file; if there is none, it comes last.
 * Files    journal and logs/<name>.log. Files may appear, grow and be replaced while they
 *          are read.
 */

#define LOG_LINE_MAX ((size_t)16 << 20)

struct log_source {
    const char *name; /* "journal", "supervisor" or an agent's name */
    char *path;

    struct line_reader reader; /* private from here on */
    int is_dry;                /* the last read returned nothing */
    char *line;                /* the next line; NULL: none was read yet */
    size_t len;
    char time[32];
};

struct log_merge {
    struct log_source **sources;
    size_t n;
    const char *run, *only; /* private */
    struct log_source *handed_out;
};

#define SUFFIX ".log"

/* Sorts after every time. */
#define LAST_TIME "~"

/* ---- sources ---- */

static void add(struct log_merge *m, const char *name, char *path)
{
    struct log_source *s;

    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->sources[i]->path, path) == 0) {
            free(path);
            return;
        }
    }
    s = xcalloc(1, sizeof(*s));
    s->name = xstrdup(name);
    s->path = path;
    (void)snprintf(s->time, sizeof(s->time), LAST_TIME);
    (void)line_reader_open(&s->reader, path, LOG_LINE_MAX, NULL);
    m->sources = xreallocarray(m->sources, m->n + 1, sizeof(*m->sources));
    m->sources[m->n++] = s;
}

static int is_log(const struct dirent *e)
{
    return e->d_name[0] != '.' && text_ends_with(e->d_name, SUFFIX);
}

static void find(struct log_merge *m)
{
    char *folder = xasprintf("%s/logs", m->run);
    struct dirent **found = NULL;
    int n = m->only == NULL ? beneath_scandir(folder, &found, is_log) : -1;

    for (int i = 0; i < n; i++) {
        char *name =
            xstrndup(found[i]->d_name, strlen(found[i]->d_name) - strlen(SUFFIX));

        add(m, name, xasprintf("%s/%s", folder, found[i]->d_name));
        free(name);
        free(found[i]);
    }
    if (n >= 0)
        free(found);
    free(folder);
}

/* path: the run's directory. only: the one source to read; NULL: all. Both are borrowed. */
static void log_merge_open(struct log_merge *m, const char *path, const char *only)
{
    *m = (struct log_merge){.run = path, .only = only};
    if (only == NULL || strcmp(only, "journal") == 0)
        add(m, "journal", xasprintf("%s/journal", path));
    else
        add(m, only, xasprintf("%s/logs/%s" SUFFIX, path, only));
    find(m);
}

static void log_merge_close(struct log_merge *m)
{
    for (size_t i = 0; i < m->n; i++) {
        line_reader_close(&m->sources[i]->reader);
        free((char *)(uintptr_t)m->sources[i]->name);
        free(m->sources[i]->path);
        free(m->sources[i]);
    }
    free(m->sources);
    *m = (struct log_merge){0};
}

/* Looks for new sources, and reopens files that were replaced. */
static void log_merge_refresh(struct log_merge *m)
{
    find(m);
    for (size_t i = 0; i < m->n; i++) {
        struct log_source *s = m->sources[i];

        if (s->is_dry)
            (void)line_reader_renew(&s->reader, s->path);
        s->is_dry = 0;
    }
}

/* ---- lines ---- */

/* Whether the line begins with a time such as "2026-01-31T12:00:00.123Z ". */
static int begins_with_time(const char *line)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";

    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == 'd' ? line[i] < '0' || line[i] > '9' : line[i] != form[i])
            return 0;
    }
    return 1;
}

static void fill(struct log_source *s, int last)
{
    if (s->line != NULL || (s->is_dry && !last))
        return;
    if (line_reader_next(&s->reader, &s->line, &s->len, NULL) <= 0 &&
        (!last || line_reader_rest(&s->reader, &s->line, &s->len) <= 0)) {
        s->line = NULL;
        s->is_dry = 1;
        return;
    }
    if (begins_with_time(s->line))
        (void)snprintf(s->time, sizeof(s->time), "%.24s", s->line);
}

/* Returns the source of the next line, which is valid until the next call; NULL if there is
 * no further line yet. last: also accept a final line without a newline. */
static const struct log_source *log_merge_next(struct log_merge *m, int last)
{
    struct log_source *first = NULL;

    patience_enter(m->run); /* only reading counts: who reads the output may be slow */
    if (m->handed_out != NULL)
        m->handed_out->line = NULL;
    for (size_t i = 0; i < m->n; i++) {
        struct log_source *s = m->sources[i];

        fill(s, last);
        if (s->line != NULL && (first == NULL || strcmp(s->time, first->time) < 0))
            first = s;
    }
    m->handed_out = first;
    patience_leave();
    return first;
}

static void rewind_to(struct log_source *s, off_t at)
{
    line_reader_seek(&s->reader, at);
    s->line = NULL;
    s->is_dry = 0;
    (void)snprintf(s->time, sizeof(s->time), LAST_TIME);
}

/* Goes to where the newest lines of each source begin. Returns how many lines from there on come
 * before the newest ones of all; to know that, these few are merged once more. */
static uint64_t log_merge_go_to_newest(struct log_merge *m, uint64_t lines)
{
    off_t *at = xcalloc(m->n + 1, sizeof(*at));
    uint64_t n = 0;

    patience_enter(m->run);
    for (size_t i = 0; i < m->n; i++) {
        at[i] = line_reader_find_newest(&m->sources[i]->reader, lines, begins_with_time);
        rewind_to(m->sources[i], at[i]);
    }
    patience_leave();
    while (log_merge_next(m, 1) != NULL)
        n++;
    for (size_t i = 0; i < m->n; i++)
        rewind_to(m->sources[i], at[i]);
    m->handed_out = NULL;
    free(at);
    return n > lines ? n - lines : 0;
}

struct logs_options {
    const char *run, *agent;
    int follow, is_raw;
    long long lines; /* the newest ones; -1: all */
};

/* ---- printing ---- */

static void print_json(const struct log_source *s)
{
    char *copy = xstrdup(s->line);
    const int is_event = strcmp(s->name, "journal") == 0 && journal_json_print(copy) == 0;
    struct json j = {0};

    free(copy);
    if (is_event)
        return;
    json_object(&j);
    json_put_str(&j, "log", s->name);
    json_key(&j, "text");
    json_strn(&j, s->line, s->len);
    json_print(&j, stdout);
}

/* skip: how many of the first lines are not printed. */
static void print_new(const struct cli *cli, struct log_merge *m, int all, int last,
                      uint64_t skip)
{
    const struct log_source *s;

    while ((s = log_merge_next(m, last)) != NULL) {
        if (skip > 0) {
            skip--;
            continue;
        }
        if (cli->json) {
            print_json(s);
            continue;
        }
        if (all && strcmp(s->name, "journal") != 0)
            (void)printf("%s: ", PLAIN_NAME(s->name));
        (void)fwrite(s->line, 1, s->len, stdout);
        (void)putchar('\n');
    }
    (void)fflush(stdout);
}

/* ---- following ---- */

/* Waits until something was written or the run may have ended. Returns 0 when the reader
 * of stdout is gone. */
static int wait_for_lines(const struct run_watch *w, int notify)
{
    struct pollfd fds[RUN_WATCH_FDS + 2];
    char events[4096];

    run_watch_poll(w, fds);
    fds[RUN_WATCH_FDS] = (struct pollfd){.fd = notify, .events = POLLIN};
    fds[RUN_WATCH_FDS + 1] = (struct pollfd){.fd = STDOUT_FILENO};
    (void)poll(fds, RUN_WATCH_FDS + 2, RUN_WATCH_EVERY_MS);
    while (notify >= 0 && read(notify, events, sizeof(events)) > 0)
        ;
    return (fds[RUN_WATCH_FDS + 1].revents & (POLLERR | POLLNVAL)) == 0;
}

static void follow(const struct cli *cli, const char *path, struct log_merge *m, int all)
{
    const int notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    char *journal = xasprintf("%s/journal", path), *logs = xasprintf("%s/logs", path);
    struct run_watch w;
    int code, is_over = 0, is_read = 1;

    run_watch_begin(&w, path);
    while (is_read && !is_over) {
        if (notify >= 0) {
            /* the journal as a file: its folder changes with every row of experience */
            (void)inotify_add_watch(notify, path, IN_CREATE | IN_MOVED_TO);
            (void)inotify_add_watch(notify, journal, IN_MODIFY);
            (void)inotify_add_watch(notify, logs, IN_MODIFY | IN_CREATE | IN_MOVED_TO);
        }
        is_over = run_watch_is_over(&w, &code);
        log_merge_refresh(m);
        print_new(cli, m, all, 0, 0);
        if (!is_over)
            is_read = wait_for_lines(&w, notify);
    }
    run_watch_end(&w);
    if (notify >= 0)
        (void)close(notify);
    free(journal);
    free(logs);
}

/* ---- the command ---- */

static int check_agent(const char *path, const char *agent, struct err *err)
{
    struct run_record r;
    const char **names;
    char *log = xasprintf("%s/logs/%s.log", path, agent), known[256];
    int is_known =
        strcmp(agent, "journal") == 0 || (strchr(agent, '/') == NULL && tree_exists(log));

    free(log);
    run_record_read(&r, path);
    names = xcalloc(r.status.n_agents + 1, sizeof(*names));
    for (size_t i = 0; i < r.status.n_agents; i++) {
        names[i] = r.status.agents[i].name;
        is_known |= strcmp(names[i], agent) == 0 && strchr(agent, '/') == NULL;
    }
    if (!is_known) {
        (void)err_set(err, ERR_NOT_FOUND,
                      "%s has no agent %s; there are: journal, supervisor%s%s",
                      r.status.run, agent, r.status.n_agents > 0 ? ", " : "",
                      run_agent_names(path, known, sizeof(known)));
        (void)yaml_add_nearest(err, agent, names, r.status.n_agents);
    }
    free(names);
    run_record_done(&r);
    return is_known ? 0 : ERR_NOT_FOUND;
}

static int is_study(const struct cli *cli, const char *name)
{
    char *path = study_dir_find(cli->runs_dir, name);
    const int ret = path != NULL;

    free(path);
    return ret;
}

static int check_sources(const struct log_merge *m, struct err *err)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct line_reader *r = &m->sources[i]->reader;

        if (r->failure == ERR_CORRUPT)
            return err_set(err, ERR_CORRUPT,
                           "%s: zeros instead of text from byte %lld on: left out",
                           m->sources[i]->path, (long long)r->read_bytes);
        if (r->failure == ERR_TIMEOUT)
            return err_set(err, ERR_TIMEOUT,
                           "%s: reading it takes too long: its rest is left out",
                           m->sources[i]->path);
    }
    return 0;
}

static int show(const struct cli *cli, struct logs_options *o, struct err *err)
{
    struct log_merge m;
    uint64_t skip = 0;
    char *path = NULL;
    int rc = run_dir_find(cli->runs_dir, o->run, &path, err);

    /* a single word names either a run or an agent of the newest run */
    if (rc == ERR_NOT_FOUND && o->run != NULL && o->agent == NULL &&
        !is_study(cli, o->run) && run_dir_find(cli->runs_dir, NULL, &path, NULL) == 0) {
        struct err why = {0};

        o->agent = o->run;
        rc = check_agent(path, o->agent, &why);
        if (rc < 0)
            (void)err_add(err, "%s", why.msg);
    } else if (rc == 0 && o->agent != NULL) {
        rc = check_agent(path, o->agent, err);
    }
    if (rc == 0) {
        log_merge_open(&m, path, o->agent);
        if (o->lines >= 0)
            skip = log_merge_go_to_newest(&m, (uint64_t)o->lines);
        print_new(cli, &m, o->agent == NULL, 0, skip);
        if (o->follow) {
            patience_begin(0); /* it reads for days */
            follow(cli, path, &m, o->agent == NULL);
        }
        print_new(cli, &m, o->agent == NULL, 1, 0);
        rc = check_sources(&m, err);
        log_merge_close(&m);
    }
    free(path);
    return rc;
}

static int run_logs(struct cli *cli, void *values, int argc, char **argv)
{
    struct logs_options *o = values;
    struct err err = {0};

    if (o->is_raw)
        plain_output_raw();
    if (argc > 2)
        return cli_usage(cli, "expected a run and an agent, got %d words", argc);
    if (argc > 0)
        o->run = argv[0];
    if (argc > 1)
        o->agent = argv[1];
    return show(cli, o, &err) < 0 ? cli_fail_run(cli, &err) : CLI_DONE;
}

static const struct cli_option options[] = {
    {"follow", NULL, "print new lines as they are written, until the run is over",
     CLI_FLAG(struct logs_options, follow), .letter = 'f'},
    {"lines", "N", "only the last N lines; with -f, and those that follow",
     CLI_NUMBER(struct logs_options, lines, 0, INT64_MAX), .letter = 'n'},
    {"raw", NULL,
     "print control characters as they are; by default they are\n"
     "escaped (\\x1b), because a terminal would interpret them",
     CLI_FLAG(struct logs_options, is_raw)},
    {0}};

const struct command cmd_logs = {
    .name = "logs",
    .arguments = "[RUN] [AGENT] [options]",
    .summary = "Print a run's journal and the logs of its processes",
    .options = options,
    CLI_INTO(struct logs_options, .lines = -1),
    .help =
        "\nPrints all lines in the order of time; a line of a log begins with the name "
        "of\n"
        "the process. The second argument selects one source: an agent, supervisor or\n"
        "journal. With --json an event of the journal is an object of its values; any\n"
        "other line is an object with the keys log and text.\n"
        "\nexample: brood logs simple_spread-1 agent_0 -f\n",
    .run = run_logs,
};
