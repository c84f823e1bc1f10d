/* The life of a configuration, played against a reference: every word of letters such as set,
 * cancel, round, checkpoint, die, resume and fork, up to a depth.
 *
 * BROOD_LIFE_DEPTH=N plays all words of N letters (default 4; 5 takes half a minute).
 *
 * The run plays rounds of four steps; three keys change: a number that is changed at once, one
 * that waits for a respawn, and the length. The reference knows only a list of what was accepted:
 * the value of a key at a boundary is that of the last accepted change for it or for a step
 * before it. After every letter
 *     - the live configuration, its plan and its wanted form are what the list says;
 *     - a resume and a fork from every checkpoint have the same ahead of them, and config.yaml is
 *       as they expect: nothing is recorded, cancelled or refused;
 *     - a run ends where its length in force is reached, and a resume then changes nothing.
 * Words that lead to the same state continue in the same way, and are played once. */
#include "common/config/run_length.h"
#include "common/mem/xmalloc.h"
#include "supervisor/begin/change_proposal.h"
#include "supervisor/begin/fork_changes.h"
#include "supervisor/begin/resume_config.h"
#include "tests/support/test_main.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__
enum { DEPTH = 3 };
#else
enum { DEPTH = 4 };
#endif
enum { ROUND = 4, MAX_EVENTS = 32, MAX_ENTRIES = 24, MAX_CHECKPOINTS = 8, MAX_DEPTH = 8 };
enum key { POLYAK, OWN, LENGTH, BETA, N_KEYS };

static const char *const keys[N_KEYS] = {"defaults.polyak", "agents.agent_1.polyak",
                                         "run.env_steps",
                                         "agents.agent_0.optimizer.beta1"};
static const char letters[] = "staAlmnwpcbrkqdDuvxfg";
enum { N_LETTERS = sizeof(letters) - 1 };

static char word[MAX_DEPTH + 1]; /* the one that is being played */
static struct err err;

/* Without Check's note of each assertion that holds, which is a system call. */
#define ASSERT(x)                                                                        \
    do {                                                                                 \
        if (!(x))                                                                        \
            ck_abort_msg("%s: " #x " %s", word, err.msg);                                \
    } while (0)

/* ---- the reference ---- */

struct entry {
    enum key key;
    int64_t at;
    double value;
};

struct reference {
    struct entry
        list[MAX_ENTRIES]; /* accepted and not cancelled, in the order of acceptance */
    size_t n;
    double base[N_KEYS];
    double beta;  /* the wanted one */
    int64_t made; /* changes for steps up to this one are in force */
};

/* Stores the changes for steps after `after` up to `until` in their order; returns how many. */
static size_t sort(const struct reference *r, int64_t after, int64_t until,
                   struct entry ret[MAX_ENTRIES])
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        size_t k = n;

        if (r->list[i].at <= after || r->list[i].at > until)
            continue;
        for (; k > 0 && ret[k - 1].at > r->list[i].at; k--)
            ret[k] = ret[k - 1];
        ret[k] = r->list[i];
        n++;
    }
    return n;
}

/* The value at a boundary; INT64_MAX: the last one. An agent that has the value of the default
 * follows it. */
static double value_at(const struct reference *r, enum key key, int64_t boundary)
{
    struct entry e[MAX_ENTRIES];
    const size_t n = sort(r, INT64_MIN, boundary, e);
    double v[N_KEYS];

    memcpy(v, r->base, sizeof(v));
    for (size_t i = 0; i < n; i++) {
        if (e[i].key == POLYAK && v[OWN] == v[POLYAK])
            v[OWN] = e[i].value;
        v[e[i].key] = e[i].value;
    }
    return v[key];
}

/* Whether the key, which agents and defaults share, has a change that is not in force yet. */
static int is_ahead(const struct reference *r, enum key key)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->list[i].at > r->made && (key == LENGTH) == (r->list[i].key == LENGTH) &&
            r->list[i].key != BETA)
            return 1;
    return 0;
}

static void add_entry(struct reference *r, enum key key, int64_t at, double value)
{
    ASSERT(r->n < MAX_ENTRIES);
    r->list[r->n++] = (struct entry){key, at, value};
}

/* Removes the changes of a key (N_KEYS: of all that need no respawn) for steps after `at`. */
static void take_back(struct reference *r, enum key key, int64_t at)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        const struct entry e = r->list[i];
        const int is = key == N_KEYS ? e.key != BETA : e.key == key;

        if (!is || e.at <= at)
            r->list[n++] = e;
    }
    r->n = n;
}

static int64_t boundary_of(int64_t step)
{
    return (step + ROUND - 1) / ROUND * ROUND;
}

/* Whether the run gets to every length. now: the boundary at which it is, or where its round
 * ends. */
static int reaches_all(const struct reference *r, int64_t now)
{
    int64_t end = now;

    while ((double)end < value_at(r, LENGTH, end))
        end += ROUND;
    for (size_t i = 0; i < r->n; i++)
        if (r->list[i].key == LENGTH && boundary_of(r->list[i].at) > end)
            return 0;
    return 1;
}

/* ---- the run ---- */

struct event {
    enum run_event_kind kind;
    uint64_t at;
    char changes[256];
};

struct checkpoint {
    uint64_t step;
    const struct run_config *saved; /* owned by the world of the letter that made it */
};

struct world {
    int is_alive, in_round;
    uint64_t steps;
    struct run_config config, wanted; /* the latter: config.yaml */
    struct change_plan plan;
    struct checkpoint checkpoint[MAX_CHECKPOINTS];
    size_t n_checkpoints;
    struct event journal[MAX_EVENTS];
    size_t n_events;
    struct reference ref;
    struct run_config *own; /* the checkpoint that its letter made; NULL: none */
};

static double value_of(const struct run_config *c, enum key key)
{
    switch (key) {
    case POLYAK:
        return c->defaults.polyak;
    case OWN:
        return c->agents[1].polyak;
    case LENGTH:
        return (double)c->run.env_steps;
    default:
        return c->agents[0].optimizer.beta1;
    }
}

static int agents(void *ctx, const struct env_config *env, const char *const **ret,
                  struct err *e)
{
    static const char *const names[] = {"agent_0", "agent_1"};

    *ret = names;
    return 2;
}

static const char text[] = "run: {env_steps: 8}\n"
                           "env: {id: simple_spread, copies: 4}\n"
                           "defaults: {actor: {hidden: [4]}, critic: {hidden: [4]}}\n";

static void begin(struct world *w)
{
    static const struct config_options options = {.env_names = agents};

    *w = (struct world){.is_alive = 1};
    ASSERT(run_config_parse(&w->config, text, strlen(text), "f", &options, &err) == 0);
    run_config_copy(&w->wanted, &w->config);
    w->ref.made = -ROUND;
    for (enum key k = 0; k < N_KEYS; k++)
        w->ref.base[k] = value_of(&w->config, k);
    w->ref.beta = w->ref.base[BETA];
    w->own = xcalloc(1, sizeof(*w->own));
    run_config_copy(w->own, &w->config);
    w->checkpoint[w->n_checkpoints++] = (struct checkpoint){0, w->own};
}

static void copy(struct world *ret, const struct world *w)
{
    *ret = *w;
    ret->own = NULL;
    run_config_copy(&ret->config, &w->config);
    run_config_copy(&ret->wanted, &w->wanted);
    change_plan_copy(&ret->plan, &w->plan);
}

static void release(struct world *w)
{
    run_config_done(&w->config);
    run_config_done(&w->wanted);
    change_plan_done(&w->plan);
    if (w->own != NULL)
        run_config_done(w->own);
    free(w->own);
}

/* ---- the journal ---- */

static void record(struct world *w, enum run_event_kind kind, uint64_t at,
                   const char *changes)
{
    struct event *e = &w->journal[w->n_events++];

    ASSERT(w->n_events <= MAX_EVENTS);
    ASSERT(strlen(changes) < sizeof(e->changes));
    *e = (struct event){.kind = kind, .at = at};
    memcpy(e->changes, changes, strlen(changes));
}

static void record_settings(struct world *w, uint64_t at, const struct config_settings *s)
{
    char *changes = config_settings_text(s);

    if (s->n > 0)
        record(w, RUN_EVENT_SET, at, changes);
    free(changes);
}

static int each_event(const void *from, journal_run_event_fn fn, void *ctx, struct err *e)
{
    const struct world *w = from;
    int rc = 0;

    for (size_t i = 0; i < w->n_events && rc == 0; i++)
        rc = fn(ctx, i + 1,
                &(struct run_event){.kind = w->journal[i].kind,
                                    .change = {.at = w->journal[i].at,
                                               .changes = w->journal[i].changes}});
    return rc;
}

static struct resume_from from_checkpoint(const struct world *w,
                                          const struct run_config *wanted, size_t i)
{
    return (struct resume_from){.saved = w->checkpoint[i].saved,
                                .step = w->checkpoint[i].step,
                                .wanted = wanted,
                                .journal = {each_event, w, "journal"}};
}

/* ---- the invariants ---- */

/* Checks that a plan has the changes of the list after step `made`, in their order. */
static void check_plan(const struct change_plan *p, const struct reference *r,
                       int64_t made)
{
    struct entry e[MAX_ENTRIES];
    const size_t n = sort(r, made, INT64_MAX, e);

    ASSERT(change_plan_waiting(p) == n);
    for (size_t i = 0; i < n; i++) {
        const struct config_setting *set = &p->list[i].set;

        ASSERT((int64_t)p->list[i].at == e[i].at);
        ASSERT(strcmp(set->path, keys[e[i].key]) == 0);
        ASSERT((e[i].key == LENGTH ? (double)set->value.whole : set->value.real) ==
               e[i].value);
    }
}

static void check_wanted(const struct run_config *c, const struct reference *r)
{
    ASSERT(value_of(c, POLYAK) == value_at(r, POLYAK, INT64_MAX));
    ASSERT(value_of(c, OWN) == value_at(r, OWN, INT64_MAX));
    ASSERT(value_of(c, LENGTH) == value_at(r, LENGTH, INT64_MAX));
    ASSERT(value_of(c, BETA) == r->beta);
    ASSERT(c->agents[0].polyak == c->defaults.polyak);
}

static void check_live(const struct world *w)
{
    struct run_config now;

    ASSERT(change_plan_fold(&w->plan, w->steps, &w->config, &now, &err) == 0);
    for (enum key k = 0; k < N_KEYS; k++)
        ASSERT(value_of(&now, k) == value_at(&w->ref, k, (int64_t)w->steps));
    run_config_done(&now);
    check_plan(&w->plan, &w->ref, w->ref.made);
    check_wanted(&w->wanted, &w->ref);
    ASSERT(change_plan_fold(&w->plan, CHANGE_AT_RESPAWN, &w->config, &now, &err) == 0);
    check_wanted(&now, &w->ref);
    run_config_done(&now);
}

static void check_checkpoint(const struct world *w, size_t i)
{
    const struct resume_from from = from_checkpoint(w, &w->wanted, i);
    const int64_t made = (int64_t)from.step - ROUND;
    struct resume_config c;
    struct fork_changes f;

    ASSERT(resume_config_check(&c, &from, &err) == 0);
    ASSERT(c.given.n == 0 && c.cancelled == NULL);
    for (enum key k = 0; k < N_KEYS; k++)
        ASSERT(value_of(&c.config, k) == value_at(&w->ref, k, made));
    check_plan(&c.plan, &w->ref, made);
    check_wanted(&c.wanted, &w->ref);
    ASSERT(fork_changes_make(&f, &c, from.step, NULL, 0, "x", &err) == 0);
    check_plan(&f.plan, &w->ref, made);
    check_wanted(&f.wanted, &w->ref);
    fork_changes_done(&f);
    resume_config_done(&c);
}

/* was: the world before the letter; NULL: there was none. A checkpoint has nothing else ahead
 * while journal and config.yaml are as they were. */
static void check(const struct world *w, const struct world *was)
{
    int is_same = was != NULL && w->n_events == was->n_events;

    for (enum key k = 0; k < N_KEYS && is_same; k++)
        is_same = value_of(&w->wanted, k) == value_of(&was->wanted, k);
    if (w->is_alive)
        check_live(w);
    for (size_t i = 0; i < w->n_checkpoints; i++)
        if (!is_same || i >= was->n_checkpoints ||
            w->checkpoint[i].saved != was->checkpoint[i].saved)
            check_checkpoint(w, i);
}

/* ---- the letters; 0: the letter is impossible here, or changed nothing ---- */

static struct live_config live_of(const struct world *w)
{
    return (struct live_config){.config = &w->config,
                                .wanted = &w->wanted,
                                .plan = &w->plan,
                                .steps = w->steps,
                                .next = w->steps + (w->in_round ? ROUND : 0),
                                .run = "x"};
}

/* Sets a key; is_lost: the supervisor dies before it writes config.yaml. */
static int set(struct world *w, enum key key, double value, uint64_t at, int is_lost)
{
    const struct live_config live = live_of(w);
    const int64_t step = (int64_t)(at == PROPOSAL_SOON ? live.next : at);
    struct reference r = w->ref;
    struct proposal p = {0};
    struct run_config is = {0};
    char *change = xasprintf("%s=%g", keys[key], value);
    const char *const list[] = {change};
    int is_new, can = 1, rc;

    is_new = key == BETA ? value != r.beta
                         : value != value_at(&r, key, INT64_MAX) || is_ahead(&r, key);
    if (key == BETA)
        r.beta = value;
    else if (is_new)
        add_entry(&r, key, step, value);
    if (key == LENGTH && is_new)
        can = value > (double)step && step >= (int64_t)live.next &&
              reaches_all(&r, (int64_t)live.next);
    else
        can = step >= (int64_t)live.next;
    err = (struct err){0};
    rc = proposal_set(&p, &live, list, 1, at, &is, &err);
    ASSERT((rc == 0) == can);
    is_new = rc == 0 && is_new;
    ASSERT(rc < 0 || is_new == (p.changes.n + p.waits.n > 0));
    if (is_new) {
        record_settings(w, p.at, &p.changes);
        w->ref = r;
    }
    if (is_new && !is_lost) {
        change_plan_done(&w->plan);
        w->plan = p.plan;
        p.plan = (struct change_plan){0};
        run_config_done(&w->wanted);
        w->wanted = p.wanted;
        p.wanted = (struct run_config){0};
    }
    if (is_lost)
        w->is_alive = w->in_round = 0;
    proposal_done(&p);
    run_config_done(&is);
    free(change);
    return is_new || is_lost;
}

static void on_cancelled(void *ctx, const struct planned_change *c)
{
    char *list = ctx;

    ASSERT(strlen(list) + strlen(c->set.path) + 24 <
           sizeof(((struct event *)0)->changes));
    (void)sprintf(list + strlen(list), "%s%s", *list != '\0' ? "," : "", c->set.path);
    if (c->at != CHANGE_AT_RESPAWN)
        (void)sprintf(list + strlen(list), "@%" PRIu64, c->at);
}

static int cancel(struct world *w)
{
    const struct live_config live = live_of(w);
    char list[sizeof(((struct event *)0)->changes)] = "";
    struct proposal p = {0};
    struct reference r = w->ref;
    int can, rc;

    take_back(&r, N_KEYS, r.made);
    r.beta = value_at(&r, BETA, INT64_MAX);
    can = (double)w->steps < value_at(&r, LENGTH, (int64_t)w->steps);
    err = (struct err){0};
    rc = proposal_cancel(&p, &live, NULL, 0, NULL, on_cancelled, list, &err);
    ASSERT((rc == 0) == can);
    if (rc == 0 && *list != '\0') {
        record(w, RUN_EVENT_CANCEL, MEMBER_NO_U64, list);
        change_plan_done(&w->plan);
        w->plan = p.plan;
        p.plan = (struct change_plan){0};
        run_config_done(&w->wanted);
        w->wanted = p.wanted;
        p.wanted = (struct run_config){0};
        w->ref = r;
    }
    proposal_done(&p);
    return rc == 0 && *list != '\0';
}

static int respawn(struct world *w)
{
    const struct live_config live = live_of(w);
    struct config_settings waits = {0};
    const int does_wait = w->ref.beta != value_at(&w->ref, BETA, INT64_MAX);

    change_plan_take_waiting(&w->plan, 0, &waits);
    ASSERT((waits.n > 0) == does_wait);
    if (does_wait) {
        add_entry(&w->ref, BETA, (int64_t)live.next, w->ref.beta);
        record_settings(w, live.next, &waits);
        change_plan_add_all(&w->plan, live.next, &waits);
    }
    config_settings_done(&waits);
    return does_wait;
}

static void save(struct world *w)
{
    if (w->checkpoint[w->n_checkpoints - 1].step == w->steps)
        return;
    ASSERT(w->n_checkpoints < MAX_CHECKPOINTS);
    w->own = xcalloc(1, sizeof(*w->own));
    run_config_copy(w->own, &w->config);
    w->checkpoint[w->n_checkpoints++] = (struct checkpoint){w->steps, w->own};
}

static int begin_round(struct world *w)
{
    struct run_config next;

    if (w->in_round)
        return 0;
    ASSERT(change_plan_fold(&w->plan, w->steps, &w->config, &next, &err) == 0);
    run_config_done(&w->config);
    w->config = next;
    change_plan_drop(&w->plan, w->steps);
    w->ref.made = (int64_t)w->steps;
    w->in_round = 1;
    return 1;
}

static int end_round(struct world *w)
{
    struct run_length length;

    (void)begin_round(w);
    w->steps += ROUND;
    w->in_round = 0;
    length = change_plan_length(&w->plan, &w->config, w->steps);
    ASSERT((double)length.env_steps == value_at(&w->ref, LENGTH, (int64_t)w->steps));
    if (run_length_is_reached(length, w->steps, 0)) {
        save(w);
        w->is_alive = 0;
    }
    return 1;
}

/* set: a new length, or 0. */
static int resume(struct world *w, size_t i, double length)
{
    struct resume_from from;
    struct run_config wanted;
    struct resume_config c;
    struct reference r = w->ref;
    const int64_t step = (int64_t)w->checkpoint[i].step;
    int is_over;

    run_config_copy(&wanted, &w->wanted);
    from = from_checkpoint(w, &wanted, i);
    if (length > 0) {
        wanted.run.env_steps = (int64_t)length;
        from.is_length_given = 1;
        take_back(&r, LENGTH, step);
        if (length != value_at(&r, LENGTH, step))
            add_entry(&r, LENGTH, step, length);
    }
    ASSERT(resume_config_check(&c, &from, &err) == 0);
    is_over = run_length_is_reached(change_plan_length(&c.plan, &c.config, from.step),
                                    from.step, 0);
    ASSERT(is_over == ((double)step >= value_at(&r, LENGTH, step)));
    if (!is_over) {
        record_settings(w, from.step, &c.given);
        if (c.cancelled != NULL)
            record(w, RUN_EVENT_CANCEL, MEMBER_NO_U64, c.cancelled);
        run_config_done(&w->config);
        run_config_done(&w->wanted);
        change_plan_done(&w->plan);
        run_config_copy(&w->config, &c.config);
        run_config_copy(&w->wanted, &c.wanted);
        change_plan_copy(&w->plan, &c.plan);
        ASSERT(change_plan_wait(&w->plan, &w->config, &w->wanted, &err) == 0);
        w->n_checkpoints = i + 1;
        w->steps = from.step;
        w->is_alive = 1;
        w->ref = r;
        w->ref.made = step - ROUND;
    }
    resume_config_done(&c);
    run_config_done(&wanted);
    return !is_over;
}

static void record_plan(struct world *w, const struct change_plan *p)
{
    const struct planned_change **requests;
    size_t n;

    requests = change_plan_requests(p, &n);
    for (size_t i = 0; i < n; i++) {
        struct config_setting s = requests[i]->set;

        record_settings(w, requests[i]->at,
                        &(struct config_settings){.list = &s, .n = 1});
    }
    free(requests);
}

/* Goes on as a fork of the run's newest checkpoint. */
static int fork_off(struct world *w, const char *assign, double polyak)
{
    const size_t newest = w->n_checkpoints - 1;
    const struct resume_from from = from_checkpoint(w, &w->wanted, newest);
    const int64_t made = (int64_t)from.step - ROUND;
    struct reference r = w->ref;
    struct resume_config was;
    struct fork_changes f;
    int is_over;

    r.n = 0;
    for (enum key k = 0; k < N_KEYS; k++)
        r.base[k] = value_at(&w->ref, k, made);
    for (size_t i = 0; i < w->ref.n; i++)
        if (w->ref.list[i].at > made)
            r.list[r.n++] = w->ref.list[i];
    if (assign != NULL) {
        take_back(&r, POLYAK, made);
        if (r.base[OWN] == r.base[POLYAK]) /* it follows */
            take_back(&r, OWN, made);
        if (polyak != r.base[POLYAK])
            add_entry(&r, POLYAK, (int64_t)from.step, polyak);
    }
    ASSERT(resume_config_make(&was, &from, &err) == 0);
    ASSERT(fork_changes_make(&f, &was, from.step, &assign, assign != NULL, "x", &err) ==
           0);
    is_over = run_length_is_reached(change_plan_length(&f.plan, &was.config, from.step),
                                    from.step, 0);
    if (!is_over) {
        w->is_alive = w->in_round = 0;
        w->checkpoint[0] = w->checkpoint[newest];
        w->n_checkpoints = 1;
        w->n_events = 0;
        record_plan(w, &f.plan);
        run_config_done(&w->wanted);
        w->wanted = f.wanted;
        f.wanted = (struct run_config){0};
        w->ref = r;
    }
    fork_changes_done(&f);
    resume_config_done(&was);
    return !is_over && resume(w, 0, 0);
}

static int play_dead(struct world *w, char letter)
{
    switch (letter) {
    case 'u':
        return resume(w, w->n_checkpoints - 1, 0);
    case 'v': /* --from the oldest */
        return w->n_checkpoints > 1 && resume(w, 0, 0);
    case 'x':
        return resume(w, w->n_checkpoints - 1, 20);
    default:
        return 0;
    }
}

static int play(struct world *w, char letter)
{
    const uint64_t next = w->steps + (w->in_round ? ROUND : 0);

    if (letter == 'f')
        return fork_off(w, NULL, 0);
    if (letter == 'g')
        return fork_off(w, "defaults.polyak=0.25", 0.25);
    if (!w->is_alive)
        return play_dead(w, letter);
    switch (letter) {
    case 's':
        return set(w, POLYAK, 0.2, PROPOSAL_SOON, 0);
    case 't':
        return set(w, POLYAK, 0.3, next + 6, 0);
    case 'a':
        return set(w, OWN, 0.2, PROPOSAL_SOON, 0);
    case 'A': /* the default that it may have already */
        return set(w, OWN, 0.01, next + 6, 0);
    case 'l':
        return set(w, LENGTH, 12, PROPOSAL_SOON, 0);
    case 'm': /* the run may not get there */
        return set(w, LENGTH, 16, next + 5, 0);
    case 'n': /* for a boundary at which it may end */
        return set(w, LENGTH, 10, 8, 0);
    case 'w':
        return set(w, BETA, 0.5, PROPOSAL_SOON, 0);
    case 'p':
        return respawn(w);
    case 'c':
        return cancel(w);
    case 'b':
        return begin_round(w);
    case 'r':
        return end_round(w);
    case 'k':
        if (w->in_round)
            return 0;
        save(w);
        return 1;
    case 'q':
        if (w->in_round)
            return 0;
        save(w);
        w->is_alive = 0;
        return 1;
    case 'd':
        w->is_alive = w->in_round = 0;
        return 1;
    case 'D': /* after the journal, before config.yaml */
        return set(w, POLYAK, 0.4, PROPOSAL_SOON, 1);
    default:
        return 0;
    }
}

/* ---- all words ---- */

struct seen { /* open addressing; 0: free */
    uint64_t *keys;
    size_t n, cap;
};

static uint64_t hash(uint64_t h, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Of all that decides how a world goes on. */
static uint64_t hash_of(const struct world *w, int depth)
{
    uint64_t h = 0xcbf29ce484222325u;
    const int flags[] = {depth, w->is_alive, w->in_round};

    h = hash(h, flags, sizeof(flags));
    h = hash(h, &w->steps, sizeof(w->steps));
    for (enum key k = 0; k < N_KEYS; k++) {
        const double v[] = {value_of(&w->config, k), value_of(&w->wanted, k),
                            w->ref.base[k]};

        h = hash(h, v, sizeof(v));
        for (size_t i = 0; i < w->n_checkpoints; i++) {
            const double saved = value_of(w->checkpoint[i].saved, k);

            h = hash(h, &saved, sizeof(saved));
        }
    }
    for (size_t i = 0; i < w->n_checkpoints; i++)
        h = hash(h, &w->checkpoint[i].step, sizeof(w->checkpoint[i].step));
    for (size_t i = 0; i < w->n_events; i++) {
        h = hash(h, &w->journal[i].at, sizeof(w->journal[i].at));
        h = hash(h, w->journal[i].changes, strlen(w->journal[i].changes) + 1);
    }
    h = hash(h, &w->ref.made, sizeof(w->ref.made));
    return h != 0 ? h : 1;
}

/* Returns 1 if it was there already. */
static int note(struct seen *s, uint64_t key)
{
    if (2 * s->n >= s->cap) {
        struct seen old = *s;

        s->cap = s->cap > 0 ? 2 * s->cap : 1024;
        s->keys = xcalloc(s->cap, sizeof(*s->keys));
        s->n = 0;
        for (size_t i = 0; i < old.cap; i++)
            if (old.keys[i] != 0)
                (void)note(s, old.keys[i]);
        free(old.keys);
    }
    for (size_t i = key % s->cap;; i = (i + 1) % s->cap) {
        if (s->keys[i] == key)
            return 1;
        if (s->keys[i] == 0) {
            s->keys[i] = key;
            s->n++;
            return 0;
        }
    }
}

static uint64_t n_played;

static void play_all(const struct world *w, int depth, int left, struct seen *seen)
{
    if (left == 0 || note(seen, hash_of(w, left)))
        return;
    for (size_t i = 0; i < N_LETTERS; i++) {
        struct world next;

        word[depth] = letters[i];
        copy(&next, w);
        n_played++;
        if (play(&next, letters[i])) {
            check(&next, w);
            play_all(&next, depth + 1, left - 1, seen);
        }
        release(&next);
    }
    word[depth] = '\0';
}

START_TEST(every_life_is_as_the_reference_says)
{
    const char *text_depth = getenv("BROOD_LIFE_DEPTH");
    const int depth = text_depth != NULL ? atoi(text_depth) : DEPTH;
    struct timespec from, to;
    struct seen seen = {0};
    struct world w;
    double s, n = 1;

    ck_assert_int_le(depth, MAX_DEPTH);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    begin(&w);
    check(&w, NULL);
    play_all(&w, 0, depth, &seen);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
    for (int i = 0; i < depth; i++)
        n *= N_LETTERS;
    (void)printf("# %.0f words of %d letters, %" PRIu64
                 " letters played, %.1f s of a processor, %.0f words/s\n",
                 n, depth, n_played, s, n / s);
    release(&w);
    free(seen.keys);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("config_life");
    TCase *tc = tcase_create("config_life");

    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, every_life_is_as_the_reference_says);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
