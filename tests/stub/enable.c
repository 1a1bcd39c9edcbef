/* An otherwise empty library that enables debugger support for its program (OMPD, 2015). */
void omp_debug_enable(void);

__attribute__((constructor)) static void enable(void)
{
    omp_debug_enable();
}
