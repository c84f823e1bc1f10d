/* live_view.h - what a person sees of a run: a view that redraws itself on a terminal, a
 * line now and then elsewhere.
 *
 *     simple_spread-1  ###....   42 %  262,400 of 625,000 steps  12,400/s  0:29 left
 *     agent        pid  state        restarts   return critic loss actor loss   memory
 *     agent_0     4711  busy                0   -14.21     0.01234     1.2345   4.1 MB
 *
 * Lines of the view are cut at the terminal's width: one that wraps could not be erased.
 * Colour and redrawing only on a terminal; NO_COLOR is obeyed.
 * Owns     nothing of what it is shown.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_CLI_LIVE_VIEW_H
#define SUPERVISOR_CLI_LIVE_VIEW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct live_agent {
    const char *name;
    const char *state;
    pid_t pid; /* 0: none */
    uint64_t restarts;
    double episode_return; /* NaN: not known yet; likewise the losses */
    double critic_loss, actor_loss;
    int64_t rss_bytes; /* -1: not known */
};

struct live_status {
    const char *run;
    uint64_t env_steps, total_steps;   /* total 0: episodes decide */
    uint64_t episodes, total_episodes; /* total 0: steps decide */
    double steps_per_second;           /* lately */
    double elapsed_s;
    const struct live_agent *agents;
    size_t n_agents;
};

struct live_view; /* opaque */

/* fd: where to draw (borrowed). quiet: draws nothing; messages still come through. */
struct live_view *live_view_new(int fd, int quiet);
void live_view_free(struct live_view *v); /* leaves the last view standing */

int live_view_is_terminal(const struct live_view *v);
/* Terminal: redraws in place. Elsewhere: one line, `run: 42 %, ...`. */
void live_view_show(struct live_view *v, const struct live_status *s);
/* One line above the view, which then is drawn again. */
void live_view_message(struct live_view *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* "1:02:03" or "0:29"; returns buf. */
const char *format_duration(double seconds, char *buf, size_t size);
/* "625,000"; returns buf. */
const char *format_count(uint64_t n, char *buf, size_t size);

#endif
