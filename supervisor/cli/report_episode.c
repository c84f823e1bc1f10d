#include "supervisor/cli/report_episode.h"

#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/eval_play.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/save/checkpoint_read.h"

#include <errno.h>
#include <math.h>
#include <sodium.h>
#include <stdlib.h>

static const size_t GIF_MAX_BYTES = (size_t)3 << 20, SVG_MAX_BYTES = (size_t)1 << 20;

struct pictures {
    struct wbuf gif, svg;
    double episode_return; /* of the first team; NaN: of several */
    double length;
    int is_cut;
    struct err failure;
};

static void on_result(struct eval_play *play, const struct env_spec *spec,
                      const struct evaluation_result *result)
{
    struct pictures *p = play->ctx;
    char *name = run_dir_name_of(play->path);
    const struct recording_source from = eval_play_source(play, name, spec);
    const int is_external = env_config_is_external(&play->run.config->env);

    p->length = result->length_mean;
    p->episode_return = env_team_mean(spec, 0, result->return_mean);
    for (size_t i = 1; i < spec->n_agents; i++)
        if (env_team_of(spec, i) != 0)
            p->episode_return = (double)NAN;
    p->is_cut = play->recording.episode.is_cut || p->length >= REPORT_PLAY_STEPS;
    if (recording_bytes(&play->recording, &from, DRAW_GIF, &p->gif, &p->failure) == 0 &&
        !is_external)
        (void)recording_bytes(&play->recording, &from, DRAW_SVG, &p->svg, &p->failure);
    free(name);
}

/* Returns 0 if an episode may be played; otherwise err says why not. */
static int check_play(const char *path, const char *name, const struct run_config *c,
                      enum report_play play, struct err *err)
{
    if (play == REPORT_PLAY_NEVER)
        return err_set(err, ERR_STATE, "none was asked for (--play never)");
    if (play == REPORT_PLAY_WORLDS &&
        (env_config_is_external(&c->env) || run_config_has_programs(c)))
        return err_set(err, ERR_STATE,
                       "the environment, or an agent, is a program that the run's "
                       "configuration names, and a report executes none unless asked to "
                       "(--play always)");
    if (run_dir_check_trust(path, NULL) < 0)
        return err_set(err, -EPERM,
                       "another user may have written its configuration; `brood eval %s "
                       "--trust --render FILE` plays one nevertheless",
                       name);
    return 0;
}

static void on_skipped(void *ctx, const char *line)
{
    (void)line; /* the report names the step of the checkpoint that it shows */
}

static int play_episode(struct eval_play *play, struct run_config *c, struct err *err)
{
    char *checkpoints = xasprintf("%s/checkpoints", play->path);
    int rc = eval_play_check(play, NULL, err);

    if (rc == 0)
        rc = weights_load(&play->weights, checkpoints, NULL, on_skipped, NULL, err);
    if (rc == 0) {
        c->env.draws = 1;
        if (c->evaluation.max_steps > REPORT_PLAY_STEPS)
            c->evaluation.max_steps = REPORT_PLAY_STEPS;
        rc = eval_play(play, err);
    }
    free(checkpoints);
    return rc;
}

static void put_picture(const struct wbuf *picture, size_t max, const char *type,
                        const char *alt, struct json *j)
{
    const size_t size =
        sodium_base64_ENCODED_LEN(picture->len, sodium_base64_VARIANT_ORIGINAL);
    char *text;

    if (picture->len == 0 || picture->len > max)
        return;
    text = xmalloc(size);
    (void)sodium_bin2base64(text, size, picture->data, picture->len,
                            sodium_base64_VARIANT_ORIGINAL);
    json_object(j);
    json_put_str(j, "alt", alt);
    json_put_str(j, "type", type);
    json_put_str(j, "base64", text);
    json_close(j);
    free(text);
}

static void put_pictures(const struct pictures *p, uint64_t step, struct json *j)
{
    json_put_u64(j, "step", step);
    json_put_f64(j, "length", p->length);
    json_put_f64(j, "return", p->episode_return);
    json_put_bool(j, "is_cut", p->is_cut);
    json_put_array(j, "pictures");
    put_picture(&p->gif, GIF_MAX_BYTES, "image/gif",
                "the episode, step by step, as an animation", j);
    put_picture(&p->svg, SVG_MAX_BYTES, "image/svg+xml",
                "the whole episode on one page, with tracks", j);
    json_close(j);
    json_put_bool(j, "left_out",
                  p->gif.len > GIF_MAX_BYTES || p->svg.len > SVG_MAX_BYTES);
}

void report_episode_put(const char *path, const char *name, enum report_play play,
                        struct json *j)
{
    const struct config_options options = {0};
    char *file = xasprintf("%s/config.yaml", path);
    struct pictures p = {.episode_return = (double)NAN};
    struct run_config config;
    struct eval_play args = {
        .path = path,
        .run = {.config = &config, .episodes = 1, .copies = 1, .mode = ACT_GREEDY},
        .records = 1,
        .on_result = on_result,
        .ctx = &p};
    struct err err = {0};
    int rc = run_config_read(&config, file, &options, &err);
    const int is_read = rc == 0;

    if (rc == 0)
        rc = check_play(path, name, &config, play, &err);
    if (rc == 0)
        rc = play_episode(&args, &config, &err);
    json_object(j);
    if (rc == 0 && p.gif.len > 0)
        put_pictures(&p, args.run.step, j);
    else
        json_put_str(j, "why", rc < 0 ? err.msg : p.failure.msg);
    json_close(j);
    eval_play_done(&args);
    if (is_read)
        run_config_done(&config);
    wbuf_done(&p.gif);
    wbuf_done(&p.svg);
    free(file);
}
