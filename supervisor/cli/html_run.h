/* html_run.h - what a page has of one run: read from its directory, and written as parts of
 * the page (html_page.h).
 *
 * Executes   nothing, but to play an episode: see html_run_play.
 * Bounds     of long lists the first and the newest entries are kept, and the page says how
 *            many there are.
 */
#ifndef SUPERVISOR_CLI_HTML_RUN_H
#define SUPERVISOR_CLI_HTML_RUN_H

#include "common/config/run_config.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/metrics/progress.h"

/* A line of the journal, as the page shows it. */
struct html_event {
    char *time, *what, *detail; /* detail "": none */
    uint64_t env_steps;         /* JOURNAL_NO_STEP: not known */
};

enum { HTML_EVENTS_FIRST = 50, HTML_EVENTS_NEWEST = 150 };
struct html_events {
    struct html_event first[HTML_EVENTS_FIRST], newest[HTML_EVENTS_NEWEST]; /* a ring */
    size_t n; /* how many there were */
};

struct html_run {
    char *path; /* its directory; owned */
    char *name; /* owned */
    struct run_facts facts;
    struct run_config config; /* without asking the environment for names */
    int has_config;
    struct err config_why;     /* why it could not be read */
    struct wbuf text;          /* config.yaml */
    struct wbuf provenance;    /* its lines */
    struct progress *progress; /* NULL: there is none */
    char began[32];            /* as in the journal; "": not known */
    double seconds;            /* of all its supervisors together */
    char *failure;             /* why the newest supervisor gave up; NULL: it did not */
    size_t sessions;           /* supervisors */
    size_t deaths;             /* of its processes */
    struct html_events changes, ends;
};

/* Reads what there is; what is missing or damaged is left out of the page. path: of a run's
 * directory, which should be held (beneath.h). */
void html_run_read(struct html_run *ret, const char *path);
void html_run_done(struct html_run *r);

/* A line of the file `provenance` without its key, in the arena; "-": there is none. */
const char *html_run_provenance(const struct html_run *r, const char *key,
                                struct arena *arena);
/* The algorithms of its agents, "maddpg, random", in the arena. */
const char *html_run_algorithms(const struct html_run *r, struct arena *arena);

/* The largest value of a column, or the newest one, and its step. NaN: there is none. */
double html_run_best(const struct html_run *r, const char *column, uint64_t *ret_step);
double html_run_last(const struct html_run *r, const char *column, uint64_t *ret_step);

enum html_play {
    HTML_PLAY_WORLDS, /* only brood's own worlds */
    HTML_PLAY_ALWAYS, /* also external ones: executes what the configuration names */
    HTML_PLAY_NEVER,
};
/* Plays episode 0 of the newest checkpoint, greedily, and writes its pictures or a sentence
 * that says why there are none. An episode is cut after HTML_PLAY_STEPS. */
enum { HTML_PLAY_STEPS = 400 };
void html_run_play(struct html_run *r, enum html_play play, FILE *f);

/* Tables, or a sentence without any entries. columns: n of them, shown as they were at each
 * checkpoint. */
void html_run_put_changes(const struct html_run *r, FILE *f);
void html_run_put_ends(const struct html_run *r, FILE *f);
void html_run_put_checkpoints(const struct html_run *r, const char *const *columns,
                              size_t n, FILE *f);

#endif
