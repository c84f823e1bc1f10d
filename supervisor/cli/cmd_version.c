#include "supervisor/cli/cli.h"

#include "common/confine/confine.h"
#include "common/msg/protocol.h"
#include "common/numerics/cpu_kernels.h"
#include "common/numerics/numerics.h"
#include "supervisor/metrics/json.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/proc/run_cgroup.h"

#include <stdio.h>

static int run_version(struct cli *cli, void *values, int argc, char **argv)
{
    const char *kernels = cpu_kernels_name(cpu_kernels());
    const char *containment = run_cgroup_is_possible() ? "cgroup" : "sweeper";
    char buffer[64];
    const char *confinement = confine_describe(buffer);
    struct binaries b;
    struct err err = {0};

    if (argc > 0)
        return cli_usage(cli, "expected no arguments");
    if (binaries_find(&b, &err) < 0)
        return cli_fail(cli, CLI_FAILED, &err);
    if (cli->json) {
        struct json j = {0};

        json_object(&j);
        json_put_str(&j, "version", BROOD_VERSION);
        json_put_str(&j, "binary", b.supervisor);
        json_put_str(&j, "agent_binary", b.agent);
        json_put_str(&j, "build_id", b.build_id);
        json_put_str(&j, "blas", BROOD_BLAS);
        json_put_u64(&j, "protocol", PROTOCOL_VERSION);
        json_put_u64(&j, "numerics", NUMERICS_VERSION);
        json_put_str(&j, "kernels", kernels);
        json_put_str(&j, "containment", containment);
        json_put_str(&j, "confinement", confinement);
        json_print(&j, stdout);
    } else {
        (void)printf("brood %s (protocol %u)\n  binary        %s\n  agent binary  %s\n"
                     "  build id      %s\n  blas          %s\n"
                     "  numerics      %d\n  kernels       %s\n  containment   %s\n  "
                     "confinement   %s\n",
                     BROOD_VERSION, PROTOCOL_VERSION, b.supervisor, b.agent, b.build_id,
                     BROOD_BLAS, NUMERICS_VERSION, kernels, containment, confinement);
    }
    return CLI_DONE;
}

const struct command cmd_version = {
    .name = "version",
    .arguments = "[options]",
    .summary = "Print the build, its numerics version, and what the kernel offers",
    .help =
        "\nNumerics: builds and CPUs with the same numerics version give the same "
        "bytes.\n"
        "Kernels: those that this CPU runs; BROOD_KERNELS=portable, avx2, avx512 or\n"
        "neon selects others.\n"
        "Containment: how a run's processes are found when keeper and supervisor are\n"
        "both killed: by a control group, or by marks that each process carries.\n"
        "Confinement: what keeps agents from other files, processes and machines.\n"
        "\nexample: brood version --json\n",
    .run = run_version,
};
