/* libomp_debug.so: an otherwise empty library that makes its process be kept ready for debuggers, where neither its
 * program nor its environment says so (OMPD, 2015): it is preloaded, or linked with the program.
 *
 * The reference is weak: it may be in a process whose runtime does not have the routine, or that has no runtime. */
extern void omp_debug_enable(void) __attribute__((weak));

__attribute__((constructor)) static void enable(void)
{
    if (omp_debug_enable)
        omp_debug_enable();
}
