/* Values of all types of C, as gdb shows them. */
#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <uchar.h>
#include <wchar.h>

enum color { RED, GREEN, BLUE = 7 };
enum flags { FA = 1, FB = 2, FC = 4 };
enum many { MA = 1, MB = 2, MAB = 3 };
enum negative { NM = -1, NP = 3 };
struct point {
    int x, y;
};
struct node {
    int v;
    struct node *next;
};
union either {
    int i;
    float f;
    unsigned char b[4];
};
void function(int x) { (void)x; }

signed char v_sc = -5;
unsigned char v_uc = 200;
char v_c = 'a', v_c0 = 0, v_cn = '\n', v_cq = '\'', v_c8 = '\200';
short v_s = -3;
unsigned short v_us = 65535;
int v_i = -42;
unsigned v_u = 4000000000u;
long v_l = -(1L << 40);
unsigned long v_ul = ~0UL;
__int128 v_i128 = -5;
_Bool v_b = 1, v_b0;
float v_f = 0.1f, v_fn = __builtin_nanf("0x12");
double v_d = 0.1, v_d3 = 3, v_dbig = 1e300, v_dz = -0.0, v_nan = __builtin_nan(""), v_inf = __builtin_inf(),
       v_ninf = -__builtin_inf(), v_dsmall = 5e-324, v_dpi = 3.14159265358979;
long double v_ld = 0.1L, v_ldi = __builtin_infl(), v_ldn, v_ldbig = 1e4000L, v_ldneg = -1.5L;
#ifndef __clang__
_Float128 v_q = 0.1, v_qneg = -2;
#endif
float _Complex v_cf = 1.5f + 2.5f * I;
double _Complex v_cd = 1.0 / 3;
enum color v_e = BLUE, v_eu = (enum color)5;
enum flags v_fl = FA | FC, v_fl0 = 0, v_flx = FA | 64, v_flu = 64, v_fl1 = FB;
enum many v_m2 = (enum many)2, v_m3 = MAB, v_m4 = (enum many)4;
enum negative v_en = NM, v_enx = (enum negative)9;
int v_a[5] = {1, 2, 3, 4, 5}, v_a2[2][3] = {{1, 2, 3}, {4, 5, 6}}, v_z[300], v_long[400], v_two[20][20];
int v_rep[30] = {1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 4}, v_mixed[1000];
int *v_p = &v_i, *v_pn, *v_inner = &v_a[2];
void *v_pv = &v_d;
struct point v_pt = {1, 2}, *v_ppt = &v_pt, v_pa[15];
char *v_str = "hello \"world\"\n\t\001x", *v_strn, *v_wild = (char *)0x1234, *v_strs[3] = {"x", "y", 0};
const char *v_cstr = "const";
unsigned char *v_ucp = (unsigned char *)"uc";
char **v_pp = &v_str, v_chars[1000], *v_lp = v_chars;
void (*v_fp)(int) = function;
int (*v_arrp)[3], (*v_fparr[2])(void);
char v_ca[10] = "abc", v_cl[300], v_full[3] = {'a', 'b', 'c'}, v_a2c[2][4] = {"ab", "cd"}, v_same[300], v_nul[300];
char v_mix[64] = "aaaaaaaaaaaaaaaaaaaaaaaabc", v_utf[20] = "h\xc3\xa9llo", v_esc[12] = "\0011\1779\x1b[2J", v_bad[5] = "\xff\xfe" "ab";
double v_da[3] = {1, 2.5, 1e-5};
unsigned char v_uca[4] = {1, 2, 3, 4};
int8_t v_i8[3] = {1, -1, 0};
uint8_t v_u8 = 65;
_Bool v_ba[3] = {1, 0, 1};
struct node v_n2 = {2, 0}, v_n = {1, &v_n2};
union either v_un = {.i = 0x3f800000};
struct big {
    int a : 3;
    unsigned b : 5;
    long long c;
    struct {
        int in1;
        union {
            int in2;
            float in3;
        };
    };
    struct point pts[2];
    char name[16];
    char *s;
    double d;
    enum color col;
    enum flags fl;
    void (*fn)(int);
    _Bool flag;
    union either uu;
} v_big = {-1, 17, 1LL << 40, {5, {6}}, {{1, 2}, {3, 4}}, "name", "str", 2.5, GREEN, FA | FB, function, 1, {7}}, *v_pbig = &v_big;
wchar_t v_w = L'x', v_ws[5] = L"wide", *v_wp = L"wp";
char16_t v_c16 = u'q', v_c16s[4] = u"abc";
char32_t v_c32 = U'z';
volatile int v_vol = 3;
const volatile long v_cv = 8;
typedef int myint;
typedef struct {
    int k;
} unnamed_t;
typedef myint arr_t[3];
myint v_my = 5;
unnamed_t v_unnamed = {3};
arr_t v_arrt = {1, 2, 3};
struct empty {
} v_empty;
ptrdiff_t v_pd = -1;
struct within {
    struct within *self;
    char (*huge)[1ul << 60];
    int (*wide)[1ul << 29][1ul << 29];
} v_within;
typedef double v4 __attribute__((vector_size(32)));
v4 v_vec = {1, 2, 3, 4};

int main(void)
{
    v_ldn = __builtin_nanl("");
    for (int i = 0; i < 400; i++)
        v_long[i] = i;
    for (int i = 0; i < 299; i++) {
        v_cl[i] = 'a' + i % 26;
        v_same[i] = 'a';
    }
    for (int i = 0; i < 20; i++)
        v_two[i][3] = i;
    for (int i = 0; i < 1000; i++) {
        v_mixed[i] = i / 20 % 2 ? i : 0;
        v_chars[i] = i / 30 % 2 ? 97 + i % 7 : 98;
    }
    v_nul[0] = v_fparr[0] != 0;
    v_z[0] = v_b0 = 0;
    v_pa[0].x = 0;
    (void)v_cv;
    abort();
}
