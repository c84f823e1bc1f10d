/* Agents that were given up, and taken back: told, written down, and made again.
 *
 * Journal  event=give-up agent= mode= position= lost= why=, or event=take-back agent=
 *          position=, on the disk before anything comes of it: a run that is resumed from
 *          before makes these turns again, at these positions (agent_table.h).
 *          event=turned agent= mode=: one was.
 */
#include "supervisor/run/training_internal.h"

#include "supervisor/run/journal_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const effects[] = {[AGENT_LEARNS] = "learns again",
                                      [AGENT_FROZEN] = "acts on, but learns no more",
                                      [AGENT_NOOP] = "does nothing any more"};

static void write_down(struct training *t, const char *event, const char *name,
                       const struct agent_event *e)
{
    char position[24], lost[24];
    struct err err = {0};

    (void)snprintf(position, sizeof(position), "%" PRIu64, e->turn->position);
    (void)snprintf(lost, sizeof(lost), "%" PRIu64, e->turn->lost);
    if (journal_commit(t->journal, &err, training_steps(t), event, "agent", name, "mode",
                       agent_mode_name(e->turn->mode), "position", position, "lost", lost,
                       e->text != NULL ? "why" : NULL, e->text, NULL) < 0)
        training_complain(t, "%s; a resume will not know of %s's %s", err.msg, name,
                          event);
}

void training_note_turn(struct training *t, const char *name, const struct agent_event *e)
{
    const char *effect = effects[e->turn->mode];

    t->gave_up = 1;
    switch (e->kind) {
    case AGENT_EVENT_GIVE_UP:
        write_down(t, "give-up", name, e);
        training_complain(t, "%s is given up and %s: %s", name, effect, e->text);
        break;
    case AGENT_EVENT_TAKE_BACK:
        write_down(t, "take-back", name, e);
        training_say(t, "%s learns again from the next round on", name);
        break;
    default:
        journal_write(t->journal, training_steps(t), "turned", "agent", name, "mode",
                      agent_mode_name(e->turn->mode), NULL);
        if (e->turn->mode != AGENT_LEARNS)
            training_say(t, "%s was given up and %s", name, effect);
        break;
    }
}

static int plan(void *ctx, uint64_t line, const struct journal_event *e)
{
    struct training *t = ctx;
    const char *name = journal_value(e, "agent"), *mode = journal_value(e, "mode");
    struct agent_turn turn = {.position = journal_number(e, "position", 0),
                              .lost = journal_number(e, "lost", 0)};
    struct agent_standing at;
    size_t agent;

    (void)line;
    if ((strcmp(e->name, "give-up") != 0 && strcmp(e->name, "take-back") != 0) ||
        name == NULL || mode == NULL)
        return 0;
    agent = agent_table_find(t->agents, name);
    if (agent == agent_table_count(t->agents))
        return 0;
    while (turn.mode < AGENT_NOOP && strcmp(mode, agent_mode_name(turn.mode)) != 0)
        turn.mode++;
    t->gave_up = 1;
    agent_table_standing(t->agents, agent, 0, &at);
    if (turn.position >= at.position)
        agent_table_plan_turn(t->agents, agent, &turn);
    return 0;
}

int training_plan_turns(struct training *t, struct err *err)
{
    int rc = journal_each(run_dir_file(t->args->dir, "journal"), plan, t, err);

    return rc == ERR_NOT_FOUND ? 0 : rc;
}
