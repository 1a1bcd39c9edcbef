/* An otherwise empty library that makes its program be kept ready for debuggers (OMPD, 2015). */
void omp_debug_enable(void);

__attribute__((constructor)) static void enable(void)
{
    omp_debug_enable();
}
