/* A file that looks like a vendor's library for debuggers. Nothing loads it. */
int ompd_get_api_version(long *version);
const char *DMPL_version_string(void);

int ompd_get_api_version(long *version)
{
    *version = 201811;
    return 0;
}

const char *DMPL_version_string(void)
{
    return "none";
}
