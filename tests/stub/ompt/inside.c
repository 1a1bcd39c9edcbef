/* A program that contains its tool. */
#include "plain.c"
#include "tool.c"
