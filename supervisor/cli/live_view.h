/* live_view.h - what a person sees of a run: a view that redraws itself on a terminal, a
 * line now and then elsewhere.
 *
 *     simple_spread-1  ###....   42 %  262,400 of 625,000 steps  12,400/s  0:29 left
 *     agent        pid  state        restarts   return critic loss actor loss   memory
 *     agent_0     4711  busy                0   -14.21     0.01234     1.2345   4.1 MB
 *
 * Lines of the view are cut at the terminal's width: one that wraps could not be erased.
 * Colour and redrawing only on a terminal; NO_COLOR is obeyed.
 * Owns     copies of what it is shown.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_CLI_LIVE_VIEW_H
#define SUPERVISOR_CLI_LIVE_VIEW_H

#include "supervisor/events/run_status.h"

#include <stddef.h>
#include <stdint.h>

struct live_view; /* opaque */

/* fd: where to draw (borrowed). quiet: draws nothing; messages still come through. */
struct live_view *live_view_new(int fd, int quiet);
void live_view_free(struct live_view *v); /* leaves the last view standing */

int live_view_is_terminal(const struct live_view *v);
/* Whether to show it now: on a terminal always, elsewhere every ten seconds. */
int live_view_is_due(struct live_view *v);
/* Shows where the run stands: on a terminal it redraws in place, elsewhere it adds a line,
 * `run: 42 %, ...`. The status is copied. */
void live_view_show(struct live_view *v, const struct run_status *s);
/* The last one once more, as far as the run came; on a terminal only, and if there was one
 * with agents. */
void live_view_show_end(struct live_view *v, uint64_t env_steps, uint64_t episodes);
/* A value of a row, for the agents' returns and losses; those that the view does not show,
 * and NaN, change nothing. */
void live_view_metric(struct live_view *v, const char *metric, double value);
/* One line above the view, which then is drawn again. */
void live_view_message(struct live_view *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* "1:02:03" or "0:29"; returns buf. */
const char *format_duration(double seconds, char *buf, size_t size);
/* "625,000"; returns buf. */
const char *format_count(uint64_t n, char *buf, size_t size);

#endif
