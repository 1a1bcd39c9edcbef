"""Programs with many kinds of debug information: C in two files, C++ with everything that can have a name, Fortran."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import clean_environment, intel_runtime, require
from tests.support.cache import entry, key_of
from tests.support.samples import run

# A function with a cold part, a partly inlined function, nested calls, and a structure in each file.
C_1 = """\
#include <stdio.h>
#include <stdlib.h>
struct first { int a; struct { long x, y; } in; char text[7]; };
struct first of_first;
int other(int); int cold_path(int);
static inline int leaf(int x) { return x * 3 + of_first.a; }
static int __attribute__((noinline)) part(int x)
{
    if (x > 3) {
        printf("%d", x);
        return leaf(x);
    }
    for (int i = 0; i < x; i++)
        if (other(i) == 77)
            abort();
    return x;
}
int main(int c, char **v)
{
    int t = 0;
    for (int i = 0; i < c; i++)
        t += leaf(other(i)) + part(i);
    #pragma omp parallel for reduction(+ : t)
    for (int i = 0; i < 10; i++)
        t += leaf(i) + cold_path(i);
    return t + (v[0] != NULL);
}
"""
C_2 = """\
#include <stdio.h>
struct second { unsigned bits : 5; double d; struct second *next; };
struct second of_second;
static inline int leaf(int x) { return x * 5; }
static inline int middle(int x) { of_second.d += x; return leaf(x) + leaf(x + 1); }
int other(int x) { return middle(x) + of_second.bits; }
__attribute__((cold)) int cold_path(int x)
{
    if (x > 5)
        fprintf(stderr, "cold %d", leaf(x));
    return x;
}
"""
CXX = """\
#include <algorithm>
#include <functional>
#include <vector>
volatile int sink;
#define NOINLINE __attribute__((noinline))
namespace {
struct Hidden { NOINLINE int go(int x) { sink += x; return sink; } };
NOINLINE int hid(int x) { return Hidden().go(x) + 1; }
namespace inner { NOINLINE int deep(int x) { sink += x; return sink * 2; } }
}
namespace ns {
inline namespace v1 { NOINLINE int inl(int x) { sink += x; return x + sink; } }
template <class T> struct Box {
    T v;
    Box(T t) : v(t) { sink = 9; }
    ~Box() NOINLINE { sink = 3; }
    NOINLINE T get(T x) const { sink += (int)x; return v + x; }
    template <class U> NOINLINE U conv(U u) { sink += (int)u; return u + (U)v; }
    static NOINLINE int stat(int x) { sink += x; return sink + 1; }
    operator int() const NOINLINE { return sink; }
    bool operator<(const Box &o) const NOINLINE { sink = sink + 1; return v < o.v; }
};
template <class T, int N> NOINLINE T twice(T x) { sink += N; return x + N; }
template <class F> NOINLINE int call(F f) { return f(3) + sink; }
}
struct Base { virtual int v(int x); virtual ~Base() {} };
struct Local : Base { int v(int x) override; };
int Base::v(int x) { sink += x; return 1; }
int Local::v(int x) { sink -= x; return 2; }
extern "C" NOINLINE int cfun(int x)
{
    struct In { static NOINLINE int f(int y) { sink += y; return sink; } };
    return In::f(x) + 1;
}
int main(int argc, char **argv)
{
    int r = hid(argc) + inner::deep(argc) + ns::inl(argc) + (argv[0] != nullptr);
    ns::Box<double> b(2.0);
    r += (int)b.get(2) + b.conv<float>(2.f) + ns::Box<char>::stat(argc) + (int)b + (b < b) + ns::twice<short, 5>(argc);
    r += ns::call([&](int x) NOINLINE {
        auto second = [&](int y) NOINLINE { sink += y; return argc + y; };
        return second(x) + x;
    });
    std::vector<int> v(argc + 10);
    std::sort(v.begin(), v.end(), [](int a, int b) { sink = sink + 1; return a > b; });
    std::function<int(int)> f = [=](int q) { return q + argc + sink; };
    Base *base = argc > 1 ? new Base : new Local;
    r += f(2) + base->v(2) + cfun(2);
    #pragma omp parallel
    sink += r;
    return r;
}
"""
FORTRAN = """\
module shapes
  implicit none
  type :: box
    real :: w
  contains
    procedure :: area => box_area
  end type
contains
  function box_area(self) result(a)
    class(box), intent(in) :: self
    real :: a
    a = self%w * self%w
  end function
  subroutine fill(x, n)
    integer, intent(in) :: n
    real, intent(inout) :: x(n)
    integer :: i
    !$omp parallel do
    do i = 1, n
      x(i) = twice(x(i)) + i
    end do
  contains
    real function twice(y)
      real, intent(in) :: y
      twice = 2 * y + n
    end function
  end subroutine
end module
program p
  use shapes
  real :: x(100)
  type(box) :: b
  x = 1
  b%w = 3
  call fill(x, 100)
  print *, sum(x) + b%area()
  call inner()
contains
  subroutine inner()
    print *, x(1)
  end subroutine
end program
"""
SOURCES = {"c": {"one.c": C_1, "two.c": C_2}, "c++": {"all.cc": CXX}, "fortran": {"shapes.f90": FORTRAN}}
_COMPILERS = {"c": ("gcc", "clang"), "c++": ("g++", "clang"), "fortran": ("gfortran", "")}
_LIBRARIES = {"c": [], "c++": ["-lstdc++"], "fortran": ["-lgfortran", "-lm"]}


def built(language: str, *flags: str, clang: bool = False, folder: Path | None = None) -> Path:
    """Return the program of a language, compiled and linked in separate steps, both with *flags*.

    :param folder: the folder to build in, instead of the tests' cache
    """
    compiler = require(_COMPILERS[language][clang])
    linker = require("gcc")
    runtime = intel_runtime() / "lib" if clang else None
    libraries = ["-fopenmp"] if runtime is None else [str(runtime / "libiomp5.so"), f"-Wl,-rpath,{runtime}"]
    libraries += _LIBRARIES[language]
    texts = SOURCES[language]

    def make(here: Path) -> None:
        for name, text in texts.items():
            (here / name).write_text(text)
            compiling = [str(compiler), "-g", "-w", "-fopenmp", *flags, "-c", name]
            subprocess.run(compiling, cwd=here, env=clean_environment(), check=True)
        objects = sorted(path.name for path in here.glob("*.o"))
        linking = [flag for flag in flags if flag.startswith(("-Wl,", "-flto", "-O", "-gz"))]
        command = [str(linker), *objects, "-o", "program", *linking, *libraries]
        subprocess.run(command, cwd=here, env=clean_environment(), check=True)

    if folder is not None:
        make(folder)
        return folder / "program"
    version = run(compiler, "--version").splitlines()[0]
    return entry("samples", key_of("debug", texts, version, flags, libraries), make) / "program"


def tool(name: str) -> Path:
    """Return a command of binutils."""
    return require("readelf").with_name(name)


def changed(command: Sequence[str | Path], folder: Path) -> None:
    """Run a command that changes files in *folder*; it must succeed."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
