#include "common/io/own_file.h"
#include "supervisor/cli/cli.h"

int main(int argc, char **argv)
{
    own_python_environment();
    return cli_main(argc, argv);
}
