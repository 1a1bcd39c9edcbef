/* A program with its tool in it. */
#include "plain.c"
#include "tool.c"
