#include "odd.h"
#include <sys/auxv.h>
/* A worker stops in code of the kernel's own, the vDSO: its getcpu writes to where nothing is. The call leads there by
   the image's own symbols, as the C library's does. */
#include <elf.h>
static long (*odd_getcpu)(unsigned *, unsigned *, void *);
static void find(void) {
    const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        const char *names = image + sections[sections[i].sh_link].sh_offset;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(image + sections[i].sh_offset);
        for (unsigned n = 0; n < sections[i].sh_size / sizeof *symbols; n++)
            if (!strcmp(names + symbols[n].st_name, "__vdso_getcpu")) odd_getcpu = (void *)(image + symbols[n].st_value);
    }
    if (!odd_getcpu) _exit(72);
}
static void ask(const struct at *up) {
    odd_say(up, __func__, __LINE__ + 2, NULL);
    until_settled(2);
    odd_getcpu((unsigned *)8, NULL, NULL);
}
int main(void) {
    odd_start(1000);
    find();
    struct at one = AT(NULL);
#pragma omp parallel num_threads(3)
    if (omp_get_thread_num() == 1) ask(&one); else STAY(&one);
}
