"""Confine a worker's process to the needs of a library for debuggers, with the rights of an ordinary user.

There are four layers, each in force only if the kernel and the system support it: resource limits; no new privileges;
Landlock (landlock(7), Linux 5.13), which permits only reading, and only files of the system and of Python; and a list
of allowed system calls, through libseccomp if it is installed. Layers that are not in force are reported.

This module runs in the worker's process. The interpreter there may not find ompd, so only Python's own library is
imported. As a program, it confines itself and then executes another program: ``python -I sandbox.py --exec MEMORY
PROGRAM [ARGUMENT …]``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import stat
import struct
import sys

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Address space that a worker maps without using it, in addition to the library's limit.
_ADDRESS_SPACE = 1 << 30
_FREE_FILES = 32
_SECONDS = 3600  # the limit of processor time, which ends a worker whose debugger was killed

_OWN_FAULT = 70  # as in ompd.runtimes.hosted.protocol

_PR_SET_NO_NEW_PRIVS = 38
# landlock(7). These numbers are the same on all processors.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH = 1, 1
_PT_INTERP = 3
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
# Operations to forbid on files, on networks, and across the sandbox's border, by version of the interface.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_NET_RIGHTS = {4: 3}
_SCOPES = {6: 3}

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/dev/null", "/dev/urandom")
_LOADERS = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64")

# Names and numbers of libseccomp: <seccomp.h>
LIBSECCOMP = "libseccomp.so.2"
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EQUAL, _MASKED_EQUAL = 4, 7
_UNKNOWN = -1  # __NR_SCMP_ERROR
_NARROW = {"x86_64": 0x40000003}  # SCMP_ARCH_X86, for the 32-bit programs that a worker may execute
_CALLS = (
    *("read", "write", "readv", "writev", "pread64", "pwrite64", "recvfrom", "recvmsg", "recvmmsg", "sendto"),
    *("sendmsg", "poll", "ppoll", "select", "pselect6", "_newselect", "epoll_create1", "epoll_ctl", "epoll_wait"),
    *("epoll_pwait", "lseek", "_llseek", "close", "close_range", "dup", "fcntl", "fcntl64", "fstat", "fstat64"),
    *("newfstatat", "fstatat64", "stat", "stat64", "lstat", "lstat64", "statx", "access", "faccessat", "faccessat2"),
    *("readlink", "readlinkat", "getcwd", "getdents", "getdents64", "mmap", "mmap2", "munmap", "mprotect", "mremap"),
    *("madvise", "brk", "futex", "futex_time64", "set_robust_list", "rseq", "set_tid_address", "rt_sigaction"),
    *("rt_sigprocmask", "rt_sigreturn", "sigreturn", "sigaltstack", "rt_sigpending", "restart_syscall", "exit"),
    *("exit_group", "getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getuid32", "geteuid32"),
    *("getgid32", "getegid32", "gettimeofday", "clock_gettime", "clock_gettime64", "clock_getres", "clock_nanosleep"),
    *("clock_nanosleep_time64", "nanosleep", "time", "getrandom", "sched_yield", "sched_getaffinity", "uname"),
    *("sysinfo", "getrusage", "getrlimit", "ugetrlimit", "times", "arch_prctl", "set_thread_area", "setitimer"),
    *("getitimer", "alarm", "membarrier"),
)
# System calls that fail with ENOSYS, as if the kernel did not have them. The C library then falls back to other system
# calls.
_ABSENT = ("clone3", "openat2", "io_uring_setup")
_OPEN_FLAGS = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_BECOMING = ("execve", "execveat")


UNCONFINED = "runs with all your rights: this system has neither Landlock nor libseccomp to confine it (`ompd doctor`)"


def protects(report: Mapping[str, str]) -> bool:
    """Return whether a layer that protects the user's files is in force. *report* is a result of :func:`confine`."""
    return not (report.get("Landlock") and report.get("seccomp"))


def confine(memory: int, *, becomes: str | None = None) -> dict[str, str]:
    """Confine this process and its children permanently. Return, for each layer, ``""`` or the reason why it is not in
    force.

    The process must have imported its modules and started its threads, because no new ones are possible. Open files and
    pipes continue to work. The current folder is ``/`` afterwards.

    :param memory: bytes of further memory that the process may allocate
    :param becomes: the program that the process is about to execute, if any
    :raises ValueError: if the loader that this program needs cannot be determined
    """
    # The program's loader must stay executable, or Landlock could not be used at all.
    executables = _executables(becomes) if becomes is not None else ()
    os.chdir("/")
    os.umask(0o077)
    report = dict.fromkeys(("limits", "no new privileges", "Landlock", "seccomp"), "")
    seccomp_filter: _Filter | None = None
    with _Layer(report, "seccomp"):
        seccomp_filter = _Filter(becomes is not None)  # libseccomp can be loaded only here
    with _Layer(report, "limits"):
        _limit(memory)
    with _Layer(report, "no new privileges"):
        _refuse_privileges()
    with _Layer(report, "Landlock"):
        _restrict_files(executables)
    if seccomp_filter is not None:
        with _Layer(report, "seccomp"):
            seccomp_filter.load()
    return report


class _Layer:
    # The ``with`` statement puts one layer into force. If it fails, the report gets the reason.

    def __init__(self, report: dict[str, str], name: str) -> None:
        self._report, self._name = report, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> bool:
        if not isinstance(error, (OSError, ValueError, AttributeError, struct.error)):
            return False
        self._report[self._name] = str(error) or type(error).__name__
        return True


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _refuse_privileges() -> None:
    _check(_libc().prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *(ctypes.c_ulong(0),) * 3))


# Resources


def _limit(memory: int) -> None:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
        pages = [int(word) for word in file.read().split()]
    page = resource.getpagesize()
    files = max(map(int, os.listdir("/proc/self/fd"))) + 1  # noqa: PTH208
    for which, most in (
        # A core handler that is a program receives cores whatever the limit, unless the limit is 1 byte.
        (resource.RLIMIT_CORE, 1),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NOFILE, files + _FREE_FILES),
        (resource.RLIMIT_CPU, _SECONDS),
        (resource.RLIMIT_DATA, pages[5] * page + memory),
        (resource.RLIMIT_AS, pages[0] * page + memory + _ADDRESS_SPACE),
    ):
        hard = resource.getrlimit(which)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))


# Files


def landlock_version() -> int:
    """Return the version of Landlock's interface in the kernel, 0 if there is none."""
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)))


def _restrict_files(executables: Sequence[str]) -> None:
    libc, version = _libc(), landlock_version()
    if version < 1:
        raise OSError("the kernel does not offer it")
    rights = _of_version(_FILE_RIGHTS, version)
    wanted = struct.pack("=QQQ", rights, _of_version(_NET_RIGHTS, version), _of_version(_SCOPES, version))
    # Older kernels know only the first fields, and accept further fields if these are zeros.
    ruleset = _check(libc.syscall(_CREATE_RULESET, wanted, ctypes.c_size_t(len(wanted)), 0))
    try:
        for path in (*_SYSTEM, os.path.dirname(os.__file__), "/proc/self"):  # noqa: PTH120
            _allow(libc, ruleset, path, _READ_FILE | _READ_DIR)
        for path in executables:
            _allow(libc, ruleset, path, _READ_FILE | _READ_DIR | _EXECUTE)
        _refuse_privileges()
        _check(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _executables(program: str) -> Sequence[str]:
    # The program's loader, and the C library beside it, may belong to another installation.
    try:
        return (program, os.path.dirname(_interpreter(program)), *_LOADERS)  # noqa: PTH120
    except (OSError, struct.error) as error:
        raise ValueError(f"{program} is no program that can be confined: {error}") from error


def _interpreter(program: str) -> str:
    # The loader that a program names (PT_INTERP), "" if the program names none.
    with open(program, "rb") as file:  # noqa: PTH123
        head = file.read(4096)
    if head[:4] != b"\x7fELF":
        raise OSError("not in ELF format")
    is_wide = head[4:5] == b"\2"
    place, size, count = struct.unpack_from("=32xQ14xHH" if is_wide else "=28xI10xHH", head)
    if size < 32 or place + size * count > len(head):
        raise OSError("program headers that are not at its start")
    for offset in range(place, place + size * count, size):
        if struct.unpack_from("=I", head, offset)[0] == _PT_INTERP:
            start, length = struct.unpack_from("=8x Q 16x Q" if is_wide else "=4x I 8x I", head, offset)
            if not 1 < length <= len(head) - start:
                raise OSError("the name of its loader is not at its start")
            return os.fsdecode(head[start : start + length].rstrip(b"\0"))
    return ""


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing file needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            rights &= ~_READ_DIR
        rule = struct.pack("=Qi", rights, folder)
        _check(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
    finally:
        os.close(folder)


def _of_version(rights: Mapping[int, int], version: int) -> int:
    versions = [since for since in rights if since <= version]
    return rights[max(versions)] if versions else 0


# System calls


class _Comparison(ctypes.Structure):
    # struct scmp_arg_cmp
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


class _Filter:
    """The list of allowed system calls. It is made early, because libseccomp may not be loadable once files are
    restricted.
    """

    def __init__(self, becomes: bool) -> None:
        try:
            self._library = library = ctypes.CDLL(LIBSECCOMP)
        except OSError as error:
            raise OSError(f"{LIBSECCOMP} is not installed") from error
        library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ERRNO | errno.EPERM)))
        if not self._context:
            raise OSError(f"{LIBSECCOMP} fails")
        narrow = _NARROW.get(os.uname().machine) if becomes else None
        if narrow is not None:
            self._check(library.seccomp_arch_add(self._context, ctypes.c_uint32(narrow)))
        for name in (*_CALLS, *(_BECOMING if becomes else ())):
            self._add(_ALLOW, name)
        for name in _ABSENT:
            self._add(_ERRNO | errno.ENOSYS, name)
        self._add(_ALLOW, "open", (1, _MASKED_EQUAL, _OPEN_FLAGS, os.O_RDONLY))
        self._add(_ALLOW, "openat", (2, _MASKED_EQUAL, _OPEN_FLAGS, os.O_RDONLY))
        self._add(_ALLOW, "prlimit64", (0, _EQUAL, 0, 0), (2, _EQUAL, 0, 0))
        for name in ("kill", "tgkill"):  # abort() and raise()
            self._add(_ALLOW, name, (0, _EQUAL, os.getpid(), 0))

    def load(self) -> None:
        """Put the list in force."""
        self._check(self._library.seccomp_load(self._context))
        self._library.seccomp_release(self._context)

    def _add(self, action: int, name: str, *conditions: tuple[int, int, int, int]) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number == _UNKNOWN:
            return  # this release of libseccomp does not know the call, which is then refused
        array = (_Comparison * len(conditions))(*(_Comparison(*condition) for condition in conditions))
        self._check(
            self._library.seccomp_rule_add_array(
                *(self._context, ctypes.c_uint32(action), ctypes.c_int(number)),
                *(ctypes.c_uint(len(conditions)), array),
            )
        )

    def _check(self, result: int) -> None:
        if result < 0:
            raise OSError(-result, os.strerror(-result))


def _become(memory: int, arguments: Sequence[str]) -> None:
    program = arguments[0]
    try:
        report = confine(memory, becomes=program)
    except ValueError as error:
        os.write(2, f"{error}\n".encode())
        sys.exit(_OWN_FAULT)
    if not protects(report):
        os.write(2, f"{UNCONFINED}\n".encode())  # the host reads this line from the library's output
    try:
        os.execv(program, list(arguments))
    except OSError as error:
        # The program's loader may also be missing, because the 32-bit loader is in a separate package.
        os.write(2, f"{program}, or the loader that it needs, cannot be run: {error.strerror}\n".encode())
        sys.exit(_OWN_FAULT)


if __name__ == "__main__":
    given = [*sys.argv[1:4], "", "", ""]
    if given[0] != "--exec" or not given[1].isdigit() or not given[2].startswith("/"):
        sys.exit("usage: sandbox.py --exec MEMORY /PATH/OF/PROGRAM [ARGUMENT ...]")
    _become(int(given[1]), sys.argv[3:])
