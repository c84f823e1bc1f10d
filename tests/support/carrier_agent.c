/* brood-agent with a recurrent test policy, whatever algorithm the configuration
 * names. */
#include "agent/agent.h"
#include "tests/support/carrier.h"

int main(int argc, char **argv)
{
    return agent_main(argc, argv, &carrier_ops);
}
