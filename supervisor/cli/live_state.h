/* live_state.h - what the live view shows, as it comes together: from the run itself, or
 * from what it answers and tells. */
#ifndef SUPERVISOR_CLI_LIVE_STATE_H
#define SUPERVISOR_CLI_LIVE_STATE_H

#include "supervisor/cli/live_view.h"

struct live_state { /* all-zero: nothing is known */
    struct live_status status;
    struct live_agent *agents; /* [status.n_agents] */
    char **names;              /* private from here on */
    double last_shown;
};

void live_state_done(struct live_state *s);
/* One more agent, of which only the name (copied) is known. */
void live_state_add_agent(struct live_state *s, const char *name);
/* A value of a row; those that the view does not show, and NaN, change nothing. */
void live_state_metric(struct live_state *s, const char *metric, double value);
/* Whether to show it now: on a terminal always, elsewhere now and then. */
int live_state_is_due(struct live_state *s, const struct live_view *v);

#endif
