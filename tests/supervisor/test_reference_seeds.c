/* env.params.reference_seed: episodes begin like those of the reference, as NumPy draws
 * them. */
#include "supervisor/env/env.h"
#include "tests/supervisor/reference_seeds.h"
#include "tests/support/env_params.h"
#include "tests/support/test_main.h"

enum { N_WORLDS = sizeof(first_observations) / sizeof(first_observations[0]) };

START_TEST(test_first_observations)
{
    const struct first_observations *want = &first_observations[_i];
    struct env_params params;
    struct env_config config = {.id = want->id, .copies = 1, .max_steps = 25};
    struct vec_env *v;
    const struct env_spec *spec;
    size_t n = 0;

    config.params = env_params(&params, "reference_seed", REFERENCE_SEED);
    ck_assert_int_eq(vec_env_new(&v, &config, 5, ENV_DRAWS_TRAINING, 1, NULL), 0);
    vec_env_reset(v);
    spec = vec_env_spec(v);
    for (size_t a = 0; a < spec->n_agents; a++)
        for (int32_t i = 0; i < spec->agents[a].obs_width; i++, n++)
            ck_assert_msg(vec_env_obs(v, a)[i] == want->obs[n],
                          "%s, %s [%d]: %.9g, NumPy's %.9g", want->id,
                          spec->agents[a].name, (int)i, (double)vec_env_obs(v, a)[i],
                          (double)want->obs[n]);
    ck_assert_uint_eq(n, want->n);
    vec_env_free(v);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("reference_seeds");
    TCase *tc = tcase_create("reference_seeds");

    tcase_add_loop_test(tc, test_first_observations, 0, N_WORLDS);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
