/* Loads a tool's library itself, and then executes a region. */
#define LIBRARY
#include "plain.c"

#include <dlfcn.h>

int main(void)
{
    if (!dlopen(TOOL_LIBRARY, RTLD_NOW | RTLD_LOCAL))
        return fprintf(stderr, "%s\n", dlerror()), 1;
    run();
    return 0;
}
