/* report_episode.h - the episode of a run that a report shows. */
#ifndef SUPERVISOR_CLI_REPORT_EPISODE_H
#define SUPERVISOR_CLI_REPORT_EPISODE_H

#include "supervisor/metrics/json.h"

enum report_play {
    REPORT_PLAY_WORLDS, /* only brood's own worlds */
    REPORT_PLAY_ALWAYS, /* also external ones: executes what the configuration names */
    REPORT_PLAY_NEVER,
};

/* path: of a run's directory, which has that name in messages. Plays episode 0 of the newest
 * checkpoint, greedily, REPORT_PLAY_STEPS steps at most, and puts {"step", "length", "return",
 * "is_cut", "pictures": [{"alt", "type", "base64"}, ...], "left_out"}; or {"why"} there is none.
 * return null: of several teams; left_out: a picture was too large. */
enum { REPORT_PLAY_STEPS = 400 };
void report_episode_put(const char *path, const char *name, enum report_play play,
                        struct json *j);

#endif
