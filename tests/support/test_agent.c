/* brood-agent with the algorithm threestage, whatever algorithm the configuration
 * names. */
#include "agent/agent.h"
#include "tests/support/threestage.h"

int main(int argc, char **argv)
{
    return agent_main(argc, argv, &threestage_ops);
}
