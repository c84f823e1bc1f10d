/* live_view.h - shows a person how a run is doing: a view that redraws itself on a
 * terminal, and one line every ten seconds elsewhere.
 *
 *     simple_spread-1  ###....   42 %  262,400 of 625,000 steps  12,400/s  0:29 left
 *     evaluation  -14.21 _.-~=+*#
 *     agent        pid  state        restarts   return critic loss actor loss   memory
 *     agent_0     4711  busy                0   -14.21     0.01234     1.2345   4.1 MB
 *
 * view_layout.h says what is shown where there is little room. Colour and redrawing are used
 * only on a terminal; NO_COLOR is obeyed.
 * Owns     copies of the statuses and values passed to it.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_CLI_LIVE_VIEW_H
#define SUPERVISOR_CLI_LIVE_VIEW_H

#include "supervisor/cli/view_layout.h"
#include "supervisor/events/run_status.h"

#include <stddef.h>
#include <stdint.h>

struct live_view; /* opaque */

/* fd: where to draw (borrowed). quiet: draw nothing but still print messages. */
struct live_view *live_view_new(int fd, int quiet);
void live_view_free(struct live_view *v); /* the last view stays on the terminal */

/* Whether to call live_view_show now: always on a terminal, elsewhere every ten seconds. */
int live_view_is_due(struct live_view *v);
/* Shows the status: redraws the view on a terminal, elsewhere prints a line,
 * `run: 42 %, ...`. The status is copied. */
void live_view_show(struct live_view *v, const struct run_status *s);
/* Draws the last status once more with these final counts and with every agent; what is
 * printed from then on follows below. Does nothing except on a terminal, after a status that
 * had agents. */
void live_view_show_end(struct live_view *v, uint64_t env_steps, uint64_t episodes);
/* Stores a value of a metrics row for the columns `return` and `loss`, or of an evaluation.
 * NaN and metrics that the view does not show are ignored. */
void live_view_metric(struct live_view *v, const char *metric, double value);
/* Prints one line above the view and draws the view again. */
void live_view_message(struct live_view *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Whether agents are hidden now, so that keys scroll. */
int live_view_hides(const struct live_view *v);
/* Scrolls the agents by the arrow keys, page up and down, home and end among these bytes of a
 * terminal; ignores all others. */
void live_view_keys(struct live_view *v, const char *keys, size_t n);

#endif
