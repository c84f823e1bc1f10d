/* The policy of a checkpoint, as its MetaGraph computes it.
 *
 * The graph is imported, and its variables get the checkpoint's values once; from then on
 * they are this agent's own, in its block, and nothing changes them. Observations (B, O)
 * are fed into one tensor, and the policy's output is read from another one, float32:
 *
 *     collections of the graph     policy/observation, and policy/logits (the scores of
 *                                  choices) or policy/action: every algorithm of brood
 *                                  that has a policy names its tensors so; also
 *                                  policy/combinations if the scores are of those;
 *                                  of hybrid actions policy/hybrid
 *                                  of a recurrent policy policy/carry, fed, and
 *                                  policy/next_carry
 *     settings observation, action the tensors of any other graph; for discrete actions
 *                                  the second one has scores, for hybrid ones the heads'
 *                                  scores and then the numbers
 *
 * From scores the setting `choose` selects: greedy the highest of each head, sample a
 * draw from their softmax (by adding Gumbel noise: Maddison, Tarlow, Minka 2014). Numbers are
 * taken as they are.
 */
#include "agent/algo/choices.h"
#include "agent/algo/fixed.h"
#include "agent/algo/parts.h"
#include "agent/saver/metagraph_import.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_COMBINATIONS = 1 << 20 };

struct frozen {
    const char *name; /* of the agent */
    const char *prefix;
    struct saver *saver;
    struct output observation, action;
    struct output carry, next_carry; /* (B, H), of a recurrent one */
    int64_t carry_width;             /* H; 0: it carries nothing */
    float *carried;                  /* (places, H) */
    enum { GIVES_SCORES, GIVES_NUMBERS, GIVES_BOTH } gives;
    int is_of_combinations;
    int64_t width; /* W of the scores: U, or the number of the heads' combinations */
    int sample;
    float *scores, *noise; /* (places, W) */
    uint8_t *allowed;      /* (W) of one row */
    size_t places;
};

/* ---- the two tensors ---- */

static int named(struct graph *g, const char *collection, struct output *ret)
{
    const struct collection_item *items;

    if (collection_get(g, collection, NULL, &items) != 1 || items[0].kind != ITEM_OUTPUT)
        return 0;
    *ret = items[0].output;
    return 1;
}

static int find_by_collection(struct frozen *f, struct graph *g, struct err *err)
{
    const int has_scores = named(g, POLICY_LOGITS, &f->action),
              has_both = !has_scores && named(g, POLICY_HYBRID, &f->action);

    f->gives = has_scores ? GIVES_SCORES : has_both ? GIVES_BOTH : GIVES_NUMBERS;
    if (named(g, POLICY_CARRY, &f->carry) &&
        named(g, POLICY_NEXT_CARRY, &f->next_carry) && output_shape(f->carry).rank == 2 &&
        output_shape(f->carry).dim[1] > 0)
        f->carry_width = output_shape(f->carry).dim[1];
    if (collection_get(g, POLICY_ID, NULL, NULL) > 0 ||
        collection_get(g, POLICY_LAST_ACTION, NULL, NULL) > 0)
        return err_set_at(
            err, ERR_CONFIG, ERR_AT(.key = "settings.from"),
            "its policy is also told which of its team it serves, or its last "
            "action (settings.agent_id, last_action), and cannot be used here");
    if (named(g, POLICY_OBSERVATION, &f->observation) &&
        (has_scores || has_both || named(g, POLICY_ACTION, &f->action)))
        return 0;
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.from"),
                      "its graph does not say which tensors are the policy's; "
                      "settings.observation and settings.action name them (`brood graph "
                      "PREFIX --nodes` lists them)");
}

static int find_by_settings(struct frozen *f, const struct graph *g,
                            const struct algorithm_settings *set, struct err *err)
{
    struct err why;

    if (lookup_tensor(g, set->observation, &f->observation, &why) < 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.observation"), "%s",
                          why.msg);
    if (lookup_tensor(g, set->action, &f->action, &why) < 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.action"), "%s",
                          why.msg);
    return 0;
}

/* Whether the tensor is float32 and its static shape fits (rows, width). */
static int fits(struct output x, int64_t width)
{
    const struct shape shape = output_shape(x);

    return output_dtype(x) == DT_FLOAT &&
           (shape.rank < 0 ||
            (shape.rank == 2 && (shape.dim[1] < 0 || shape.dim[1] == width)));
}

/* wider: appended to the message about a tensor that is wider. */
static int check_tensor(struct output x, int64_t width, const char *what,
                        const char *wider, struct err *err)
{
    const struct shape shape = output_shape(x);
    char name[1280];

    if (fits(x, width))
        return 0;
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.from"),
                      "%s %s, is %s %s; float32 (rows, %lld) expected here%s", what,
                      output_name(x, name, sizeof(name)), dtype_name(output_dtype(x)),
                      shape_text(&shape), (long long)width,
                      shape.rank == 2 && shape.dim[1] > width ? wider : "");
}

/* Two heads of two choices have as many combinations as choices; then only the name of
 * the collection shows which of them the scores are of. */
static int find_tensors(struct frozen *f, const struct algo_args *args, struct err *err)
{
    struct graph *g = args->graph;
    const struct space *self = &args->agents[args->self];
    const struct algorithm_settings *set = args->settings;
    static const char *const kinds[] = {[GIVES_SCORES] = "discrete",
                                        [GIVES_NUMBERS] = "continuous",
                                        [GIVES_BOTH] = "hybrid"};
    const int wanted = choices_beside_numbers(self) ? GIVES_BOTH
                       : self->box                  ? GIVES_NUMBERS
                                                    : GIVES_SCORES;
    struct output named_so;
    int64_t combinations;
    int r;

    if ((set->observation == NULL) != (set->action == NULL))
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.observation"),
                          "observation and action name two tensors of one graph, "
                          "expected both or neither");
    f->gives = wanted;
    r = set->observation != NULL ? find_by_settings(f, g, set, err)
                                 : find_by_collection(f, g, err);
    if (r < 0)
        return r;
    combinations = choices_count(self, MAX_COMBINATIONS);
    f->width = self->width;
    f->is_of_combinations =
        f->gives == GIVES_SCORES && combinations > 0 && fits(f->action, combinations) &&
        (!fits(f->action, f->width) || named(g, POLICY_COMBINATIONS, &named_so));
    if (f->is_of_combinations)
        f->width = combinations;
    if ((r = check_tensor(f->observation, self->obs, "the tensor for observations,",
                          " (with settings.agent_id, a policy is also told which of "
                          "its team it serves, and cannot be used here)",
                          err)) < 0 ||
        (r = check_tensor(f->action, f->width, "the tensor of actions,", "", err)) < 0 ||
        (f->carry_width > 0 && (r = check_tensor(f->next_carry, f->carry_width,
                                                 "what it carries,", "", err)) < 0))
        return r;
    if ((int)f->gives == wanted || (f->gives == GIVES_SCORES && choices_only(self)))
        return 0;
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.from"),
                      "a policy of %s actions, but those of %s are %s", kinds[f->gives],
                      self->name, kinds[wanted]);
}

/* ---- life ---- */

static void frozen_close(void *policy)
{
    struct frozen *f = policy;

    saver_free(f->saver);
    free(f->scores);
    free(f->noise);
    free(f->allowed);
    free(f->carried);
    free(f);
}

static int64_t frozen_carry_width(const void *policy)
{
    return ((const struct frozen *)policy)->carry_width;
}

static int frozen_open(void **ret, const struct algo_args *a, struct err *err)
{
    struct frozen *f;
    struct err why;
    int r;

    if (a->metagraph == NULL)
        return err_set(err, ERR_PROTOCOL, "metagraph is missing");
    f = xcalloc(1, sizeof(*f));
    f->name = a->agents[a->self].name;
    f->prefix = a->prefix;
    f->sample = a->settings->choose == CHOOSE_SAMPLE;
    r = import_meta_graph_bytes(&f->saver, a->graph, a->metagraph, a->metagraph_bytes,
                                NULL, NULL, &why);
    if (r < 0)
        r = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.from"),
                       "its MetaGraph: %s", why.msg);
    else
        r = find_tensors(f, a, err);
    /* its settings are in the graph's constants */
    collection_clear(a->graph, SETTING_CONSTANTS);
    if (r < 0) {
        frozen_close(f);
        return r;
    }
    *ret = f;
    return 0;
}

/* Without a prefix the values arrive with the request `restore`. */
static int frozen_init(void *policy, struct session *s, struct err *err)
{
    struct frozen *f = policy;

    if (f->prefix == NULL || f->saver == NULL)
        return 0;
    return saver_restore(f->saver, s, f->prefix, err);
}

/* ---- acting ---- */

static void reserve(struct frozen *f, size_t rows)
{
    if (rows <= f->places)
        return;
    free(f->scores);
    free(f->noise);
    free(f->carried);
    f->carried = xcalloc(rows * (size_t)f->carry_width + 1, sizeof(*f->carried));
    if (f->allowed == NULL)
        f->allowed = xcalloc((size_t)f->width, 1);
    f->scores = xcalloc(rows * (size_t)f->width, sizeof(*f->scores));
    f->noise = xcalloc(rows * (size_t)f->width, sizeof(*f->noise));
    f->places = rows;
}

/* A row takes W draws, not U. */
static void add_gumbel(struct frozen *f, const struct space *self,
                       const struct act_args *args)
{
    const size_t width = (size_t)f->width;
    const size_t scores = f->gives == GIVES_BOTH ? (size_t)choices_width(self) : width;

    for (size_t i = 0; i < args->n_copies; i++)
        rng_gumbel_f32(args->key, args->counter[i],
                       args->draw_first[i] / (size_t)self->width * width,
                       f->noise + i * width, width);
    for (size_t i = 0; i < args->n_copies * width; i++)
        f->scores[i] += i % width < scores ? f->noise[i] : 0;
}

static void frozen_choose(struct frozen *f, const struct space *self,
                          const struct act_args *args, float *actions)
{
    const size_t width = (size_t)self->width;

    if (f->sample)
        add_gumbel(f, self, args);
    if (!f->is_of_combinations) {
        memcpy(actions, f->scores, args->n_copies * width * sizeof(*actions));
        choices_harden(self, actions, args->allowed, args->n_copies);
        if (f->gives == GIVES_BOTH)
            clip_to_box(actions, args->n_copies, self);
        return;
    }
    for (size_t i = 0; i < args->n_copies; i++) {
        const float *scores = f->scores + i * (size_t)f->width;

        (void)choices_allowed(self,
                              args->allowed != NULL ? args->allowed + i * width : NULL,
                              (int32_t)f->width, f->allowed);
        choice_to_action(self, choice_best_of(scores, f->allowed, (int32_t)f->width),
                         actions + i * width);
    }
}

static int frozen_decide(void *policy, const struct space *self, struct session *s,
                         const struct act_args *args, struct act_result *ret,
                         struct err *err)
{
    struct frozen *f = policy;
    const int64_t rows = (int64_t)args->n_copies;
    const struct shape carry = SHAPE(rows, f->carry_width);
    const size_t n = f->carry_width > 0 ? 2 : 1; /* feeds, and fetches */
    const struct output fetches[] = {f->action, f->next_carry};
    struct feed feeds[2] = {
        {f->observation, tensor_const_view(DT_FLOAT, SHAPE(rows, self->obs), args->obs)}};
    const struct run_args run = {.feeds = feeds,
                                 .n_feeds = n,
                                 .fetches = fetches,
                                 .n_fetches = n,
                                 .key = args->key,
                                 .counter = args->counter[0]};
    struct tensor out[2];
    int r;

    reserve(f, args->n_copies);
    out[0] = tensor_view(DT_FLOAT, SHAPE(rows, f->width),
                         f->gives == GIVES_NUMBERS ? ret->actions : f->scores);
    if (f->carry_width > 0) {
        const size_t numbers = (size_t)f->carry_width;
        const size_t bytes = numbers * sizeof(*f->carried);

        for (size_t e = 0; e < args->n_copies; e++) {
            if (args->carry == NULL || (args->first != NULL && args->first[e]))
                memset(f->carried + e * numbers, 0, bytes);
            else
                memcpy(f->carried + e * numbers, args->carry + e * numbers, bytes);
        }
        feeds[1] =
            (struct feed){f->carry, tensor_const_view(DT_FLOAT, carry, f->carried)};
        out[1] = tensor_view(DT_FLOAT, carry, ret->carry);
    }
    r = session_run(s, &run, out, err);
    if (r < 0)
        return err_wrap(err, "%s: the frozen policy", f->name), r;
    if (f->gives == GIVES_NUMBERS)
        clip_to_box(ret->actions, args->n_copies, self);
    else
        frozen_choose(f, self, args, ret->actions);
    return 0;
}

const struct fixed_policy frozen_policy = {.open = frozen_open,
                                           .close = frozen_close,
                                           .init = frozen_init,
                                           .carry_width = frozen_carry_width,
                                           .decide = frozen_decide};
