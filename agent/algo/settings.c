#include "agent/algo/settings.h"

#include "common/config/algorithms.h"

#include <math.h>
#include <string.h>

#define FROM            SCHEMA_FROM
#define WITHIN          SCHEMA_WITHIN
#define SETTING(member) SCHEMA_AT(struct algorithm_settings, member)
#define ABOVE           SCHEMA_ABOVE
#define LIVE            .change = CHANGE_LIVE
#define SETTABLE        .change = CHANGE_SETTING
#define RESPAWN         .change = CHANGE_RESPAWN
#define NAMES           SCHEMA_NAMES

static const struct field settings_fields[] = {
    {"logit_penalty", FIELD_F64, SETTING(logit_penalty), FROM(0), .default_text = "0.001",
     SETTABLE, .doc = "weight of the policy's mean squared logits in its loss"},
    {"temperature", FIELD_SCHEDULE, SETTING(temperature), ABOVE(0), .default_text = "1.0",
     SETTABLE, .doc = "of the Gumbel softmax"},
    {"policy", FIELD_ENUM, SETTING(policy), NAMES("auto", "gumbel", "deterministic"),
     .default_text = "auto", RESPAWN, .doc = "auto takes what suits the action space"},
    {"execute", FIELD_ENUM, SETTING(execute), .flags = FIELD_BOX_ONLY,
     NAMES("hard", "soft"), .default_text = "hard", RESPAWN,
     .doc = "what the environment gets: the one-hot choice or the soft vector"},
    {"own_batches", FIELD_BOOL, SETTING(own_batches), .flags = FIELD_OWN_ROWS,
     .default_text = "false", LIVE,
     .doc = "each agent draws its own rows instead of one batch for all"},
    {"clip_by", FIELD_ENUM, SETTING(clip_by), .flags = FIELD_CENTRAL,
     NAMES("variable", "global"), .default_text = "variable", RESPAWN,
     .doc = "the norm that clip_norm bounds"},
    {"exploration_noise", FIELD_SCHEDULE, SETTING(exploration_noise), FROM(0),
     .default_text = "0.1", SETTABLE,
     .doc = "deterministic policies: deviation, in half ranges"},
    {"target_policy_noise", FIELD_SCHEDULE, SETTING(target_policy_noise), FROM(0),
     .default_text = "0.2", SETTABLE,
     .doc = "the same of the noise on actions that targets are computed for"},
    {"target_noise_clip", FIELD_F64, SETTING(target_noise_clip), FROM(0),
     .default_text = "0.5", SETTABLE, .doc = "largest such noise, in half ranges"},
    {"policy_delay", FIELD_I64, SETTING(policy_delay), WITHIN(1, 1e6),
     .default_text = "2", RESPAWN,
     .doc = "updates of the critics for one of the policy and the targets"},
    {"epsilon", FIELD_SCHEDULE, SETTING(epsilon), WITHIN(0, 1), .default_text = "0.1",
     SETTABLE, .doc = "share of the choices that explore"},
    {"hysteresis", FIELD_F64, SETTING(hysteresis), WITHIN(0, 1), .default_text = "1.0",
     SETTABLE, .doc = "weight of being worse than expected against being better"},
    {"agent_id", FIELD_BOOL, SETTING(agent_id), .flags = FIELD_VARIABLES,
     .default_text = "false",
     .doc = "networks see which of its team the agent is, as a one-hot vector"},
    {"gae", FIELD_F64, SETTING(gae), WITHIN(0, 1), .default_text = "0.95", SETTABLE,
     .doc = "lambda of generalised advantage estimation; 1: whole returns"},
    {"n_step", FIELD_I64, SETTING(n_step), WITHIN(0, 1e6),
     .flags = FIELD_CENTRAL | FIELD_TARGETS | FIELD_VARIABLES, .default_text = "0",
     .doc = "rewards that a target counts before the next value; 0: one (policies: gae)"},
    {"clip_ratio", FIELD_F64_OR_NONE, SETTING(clip_ratio), ABOVE(0),
     .default_text = "0.2", SETTABLE,
     .doc = "how far a choice's new probability may differ from its old one"},
    {"entropy", FIELD_SCHEDULE, SETTING(entropy), FROM(0), .default_text = "0.01",
     SETTABLE, .doc = "weight of the policy's entropy in its loss"},
    {"initial_alpha", FIELD_F64, SETTING(initial_alpha), ABOVE(0), .default_text = "1.0",
     .doc = "weight of the policy's entropy at the beginning; it is learnt"},
    {"target_entropy_share", FIELD_F64, SETTING(target_entropy_share), WITHIN(0, 1),
     .default_text = "0.2", SETTABLE,
     .doc = "discrete: the entropy it is learnt to reach, in log(possible choices)"},
    {"target_entropy_each", FIELD_F64, SETTING(target_entropy_each), WITHIN(-20, 0.6931),
     .default_text = "-1.0", SETTABLE,
     .doc = "continuous: the same, per number of an action scaled to -1 to 1"},
    {"epochs", FIELD_I64, SETTING(epochs), .flags = FIELD_REPEATS, WITHIN(1, 1000),
     .default_text = "10", RESPAWN, .doc = "passes over each window of rows"},
    {"minibatches", FIELD_I64, SETTING(minibatches), .flags = FIELD_REPEATS | FIELD_PARTS,
     WITHIN(1, 1000), .default_text = "1", RESPAWN,
     .doc = "steps of the optimisers in a pass"},
    {"normalize_observations", FIELD_ENUM, SETTING(normalize_observations),
     NAMES("none", "running"), .flags = FIELD_VARIABLES, .default_text = "none",
     .doc = "running: networks see them by their mean and deviation so far"},
    {"target_kl", FIELD_F64_OR_NONE, SETTING(target_kl), ABOVE(0), .default_text = "none",
     RESPAWN, .doc = "a pass whose mean approx_kl is above ends an update"},
    {"value_norm", FIELD_ENUM, SETTING(value_norm), NAMES("none", "running", "popart"),
     .flags = FIELD_VARIABLES, .default_text = "running",
     .doc = "how the critic's targets are normalised"},
    {"reward_scale", FIELD_ENUM, SETTING(reward_scale),
     NAMES("none", "running", "standard"),
     .flags = FIELD_CENTRAL | FIELD_TARGETS | FIELD_VARIABLES, .default_text = "none",
     .doc = "rewards over their deviation; standard: less the mean"},
    {"advantage_norm", FIELD_BOOL, SETTING(advantage_norm), .default_text = "true",
     RESPAWN, .doc = "advantages of a window get mean 0 and deviation 1"},
    {"huber", FIELD_F64_OR_NONE, SETTING(huber), ABOVE(0), .default_text = "10", RESPAWN,
     .doc = "errors of the critic beyond this count linearly (none: squared)"},
    {"symmetry", FIELD_ENUM, SETTING(symmetry), .flags = FIELD_SYMMETRY,
     NAMES("none", "env"), .default_text = "none",
     .doc = "env: rows are seen under random symmetries of the environment"},
    {"last_action", FIELD_BOOL, SETTING(last_action), .flags = FIELD_VARIABLES,
     .default_text = "false", .doc = "networks see the agent's last action"},
    {"recurrent", FIELD_I64, SETTING(recurrent), .flags = FIELD_UNITS | FIELD_VARIABLES,
     WITHIN(0, 4096), .default_text = "0",
     .doc = "units of a recurrent layer behind the hidden ones; 0: none"},
    {"recurrent_critic", FIELD_I64, SETTING(recurrent_critic),
     .flags = FIELD_UNITS | FIELD_VARIABLES, WITHIN(0, 4096), .default_text = "0",
     .doc = "units of a recurrent layer of the critic; 0: none"},
    {"cell", FIELD_ENUM, SETTING(cell), NAMES("gru", "lstm"), .flags = FIELD_VARIABLES,
     .default_text = "gru", .doc = "of the recurrent layers"},
    {"chunk", FIELD_I64, SETTING(chunk), WITHIN(1, 4096), .default_text = "10", RESPAWN,
     .doc = "steps that gradients go back through a recurrent layer (windows)"},
    {"lambda", FIELD_F64, SETTING(lambda), .flags = FIELD_CENTRAL | FIELD_TARGETS,
     WITHIN(0, 1), .default_text = "0", SETTABLE,
     .doc = "targets of all steps, decaying with this; 0: of n_step"},
    {"double_q", FIELD_BOOL, SETTING(double_q), .default_text = "true", RESPAWN,
     .doc = "targets: the network that learns chooses the next action (episodes)"},
    {"target_every", FIELD_I64, SETTING(target_every), .flags = FIELD_CENTRAL,
     WITHIN(0, 1e9), .default_text = "0", RESPAWN,
     .doc = "updates between copies to the target network; 0: polyak after each"},
    {"from", FIELD_TEXT, SETTING(from), .flags = FIELD_CHECKPOINT | FIELD_VARIABLES,
     .doc = "frozen, graph: RUN, RUN@STEP, or a checkpoint's prefix or folder"},
    {"agent", FIELD_NAME, SETTING(agent),
     .flags = FIELD_CHECKPOINT_AGENT | FIELD_SKIP_ZERO | FIELD_VARIABLES,
     .doc = "frozen, graph: whose of that run (the agent's of the same name)"},
    {"observation", FIELD_TEXT, SETTING(observation),
     .flags = FIELD_FOREIGN | FIELD_VARIABLES,
     .doc = "frozen: the tensor of its MetaGraph that takes observations"},
    {"action", FIELD_TEXT, SETTING(action), .flags = FIELD_VARIABLES,
     .doc = "frozen: the tensor with actions, or the choices' scores"},
    {"choose", FIELD_ENUM, SETTING(choose), NAMES("greedy", "sample"),
     .default_text = "greedy", RESPAWN,
     .doc = "frozen: the best choice, or a draw by the scores"},
};
const struct schema algorithm_settings_schema = {SCHEMA_TABLE(settings_fields)};

void algorithm_settings_read(struct algorithm_settings *ret,
                             const struct agent_config *config)
{
    const struct schema *rows = &algorithm_settings_schema;
    const struct algorithm_info *of = config->settings.of;
    struct arena unused = ARENA_ZERO; /* no default is a text */

    *ret = (struct algorithm_settings){0};
    schema_defaults(rows, ret, &unused);
    arena_done(&unused);
    for (size_t i = 0; of != NULL && i < rows->n; i++) {
        const struct field *f = &rows->fields[i];
        const struct field *its = schema_counterpart(rows, f, &of->settings);

        if (its != NULL)
            memcpy((char *)ret + f->offset, config->settings.value + its->offset,
                   schema_value_size(f->type));
    }
}
