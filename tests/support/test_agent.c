/* brood-agent with a test's algorithm: whatever the configuration names, it runs
 * threestage. */
#include "agent/agent.h"
#include "tests/support/threestage.h"

int main(int argc, char **argv)
{
    return agent_main(argc, argv, &threestage_ops);
}
