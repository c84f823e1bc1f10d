#include "supervisor/rollout/verdict.h"

#include "common/config/schema.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/metrics/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_VERSION = 1 };

int best_value_take(struct best_value *b, int is_min, double value, uint64_t step)
{
    if (isnan(value) || (b->is_known && (is_min ? value >= b->value : value <= b->value)))
        return 0;
    *b = (struct best_value){1, value, step};
    return 1;
}

/* NaN is beyond no limit, neither is anything beyond one that is not given. */
static int is_beyond(const struct stop_when_config *rule, double value)
{
    return value > rule->above || value < rule->below;
}

void verdict_take(struct verdict *v, const struct stop_when_config *rule, double value,
                  uint64_t step)
{
    const int counts = rule->without_best > 0
                           ? !best_value_take(&v->best, rule->is_min, value, step)
                           : is_beyond(rule, value);

    v->in_a_row = counts ? v->in_a_row + 1 : 0;
}

int verdict_ends(const struct verdict *v, const struct stop_when_config *rule)
{
    return v->in_a_row >=
           (uint64_t)(rule->without_best > 0 ? rule->without_best : rule->evaluations);
}

int verdict_keep(struct verdict *v, const struct keep_best_config *rule, double value,
                 uint64_t step)
{
    const struct best_value before = v->kept;
    const int is_new = best_value_take(&v->kept, rule->is_min, value, step);

    if (is_new)
        v->kept_before = before;
    return is_new;
}

void verdict_keep_failed(struct verdict *v, uint64_t step)
{
    if (v->kept.is_known && v->kept.step == step)
        v->kept = v->kept_before;         /* its checkpoint is still there */
    else if (v->kept_before.step == step) /* a better one came while it was written */
        v->kept_before = (struct best_value){0};
}

char *stop_when_text(const struct stop_when_config *rule)
{
    const int is_above = !field_is_unset(rule->above);
    const int64_t n = rule->without_best > 0 ? rule->without_best : rule->evaluations;
    char limit[JSON_NUMBER_MAX], row[48] = "";

    if (n > 1)
        (void)snprintf(row, sizeof(row), " for %" PRId64 " evaluations", n);
    if (rule->without_best > 0)
        return xasprintf("%s without a new %s%s", rule->metric,
                         rule->is_min ? "lowest value" : "highest value",
                         n > 1 ? row : " for 1 evaluation");
    return xasprintf("%s %s %s%s", rule->metric, is_above ? "above" : "below",
                     json_format_f64(is_above ? rule->above : rule->below, limit), row);
}

/* ---- for run.state ---- */

static void save_text(struct wbuf *b, const char *text)
{
    wbuf_u32(b, (uint32_t)strlen(text));
    wbuf_bytes(b, text, strlen(text));
}

static void save_best(struct wbuf *b, const struct best_value *best)
{
    uint64_t bits;

    memcpy(&bits, &best->value, sizeof(bits));
    wbuf_u8(b, best->is_known != 0);
    wbuf_u64(b, bits);
    wbuf_u64(b, best->step);
}

static void load_best(struct cursor *c, struct best_value *ret)
{
    uint64_t bits;

    ret->is_known = cursor_u8(c) != 0;
    bits = cursor_u64(c);
    memcpy(&ret->value, &bits, sizeof(bits));
    ret->step = cursor_u64(c);
}

/* "max eval/team_return/agent"; free(). */
static char *keep_best_text(const struct keep_best_config *rule)
{
    return xasprintf("%s %s", rule->is_min ? "min" : "max", rule->metric);
}

void verdict_save(const struct verdict *v, const struct run_config *c, struct wbuf *b)
{
    char *stop, *keep;

    if (!c->run.has_stop_when && !c->checkpoint.has_keep_best)
        return;
    stop = c->run.has_stop_when ? stop_when_text(&c->run.stop_when) : xstrdup("");
    keep = c->checkpoint.has_keep_best ? keep_best_text(&c->checkpoint.keep_best)
                                       : xstrdup("");
    wbuf_u32(b, STATE_VERSION);
    save_text(b, stop);
    wbuf_u64(b, v->in_a_row);
    save_best(b, &v->best);
    save_text(b, keep);
    save_best(b, &v->kept);
    free(stop);
    free(keep);
}

/* The state as it was saved. The rules point into the data. */
struct saved {
    struct verdict verdict;
    const uint8_t *stop, *keep;
    uint32_t stop_len, keep_len; /* 0: there was no such rule */
};

static int parse(struct saved *ret, const void *data, size_t len, struct err *err)
{
    struct cursor in = cursor_of(data, len);

    *ret = (struct saved){0};
    if (cursor_u32(&in) != STATE_VERSION)
        return err_set(err, ERR_FORMAT,
                       "the state of the evaluations has another version");
    ret->stop_len = cursor_u32(&in);
    ret->stop = cursor_bytes(&in, ret->stop_len);
    ret->verdict.in_a_row = cursor_u64(&in);
    load_best(&in, &ret->verdict.best);
    ret->keep_len = cursor_u32(&in);
    ret->keep = cursor_bytes(&in, ret->keep_len);
    load_best(&in, &ret->verdict.kept);
    if (in.failed || cursor_left(&in) > 0)
        return err_set(err, ERR_FORMAT, "the state of the evaluations: wrong length");
    return 0;
}

/* Frees the rule. */
static int is_same(char *rule, const uint8_t *was, uint32_t len)
{
    const int ret = strlen(rule) == len && memcmp(rule, was, len) == 0;

    free(rule);
    return ret;
}

int verdict_load(struct verdict *ret, const struct run_config *c, const void *data,
                 size_t len, struct err *err)
{
    struct saved was;
    const int rc = parse(&was, data, len, err);

    *ret = (struct verdict){0};
    if (rc < 0)
        return rc;
    if (c->run.has_stop_when &&
        is_same(stop_when_text(&c->run.stop_when), was.stop, was.stop_len)) {
        ret->in_a_row = was.verdict.in_a_row;
        ret->best = was.verdict.best;
    }
    if (c->checkpoint.has_keep_best &&
        is_same(keep_best_text(&c->checkpoint.keep_best), was.keep, was.keep_len))
        ret->kept = ret->kept_before = was.verdict.kept;
    return 0;
}

int verdict_load_kept(struct best_value *ret, const void *data, size_t len,
                      struct err *err)
{
    struct saved was;
    const int rc = parse(&was, data, len, err);

    *ret = was.verdict.kept;
    return rc < 0 ? rc : was.keep_len > 0;
}
