"""x86-64 and 32-bit x86 on Linux: registers, calls, signals, and threads in cores."""

from __future__ import annotations

from collections.abc import Mapping

from ompd.binary.core.notes import NT_386_TLS
from ompd.binary.elf.elf import EM_386, EM_X86_64
from ompd.isa.architecture import (
    Architecture,
    FrameRecord,
    KernelArguments,
    KernelEntry,
    PthreadObjects,
    SignalReturn,
    SystemCalls,
    ThreadDescriptors,
)
from ompd.isa.x86.patterns import CALL, CALLS_32, CALLS_64
from ompd.isa.x86.registers import DWARF_32, DWARF_64


def _numbers(text: str) -> Mapping[int, str]:
    pairs = (word.split("=") for word in text.split())
    return {int(number): name for name, number in pairs}


# mov $15, %eax or %rax (rt_sigreturn); syscall
_SIGRETURN, _SIGRETURN_SHORT = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05"

X86_64 = Architecture(
    name="x86_64",
    machines=("x86_64",),
    gdb_name="i386:x86-64",
    multiarch="x86_64-linux-gnu",
    lldb_registers={"rflags": "eflags"},
    e_machine=EM_X86_64,
    elf_class=64,
    pointer_size=8,
    byte_order="little",
    prstatus_size=336,
    prstatus_signal=12,
    prstatus_pid=32,
    prstatus_registers=112,
    prpsinfo_pid=24,
    # struct user_regs_struct, arch/x86/include/uapi/asm/ptrace.h and <sys/user.h>
    registers=(
        *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
        *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
    ),
    never_zero="cs",
    dwarf_registers=DWARF_64,
    callee_saved=frozenset((3, 6, 7, 12, 13, 14, 15)),
    red_zone=128,
    pc="rip",
    sp="rsp",
    fp="rbp",
    thread_pointer="fs_base",
    return_address=16,
    signal_returns=(
        SignalReturn(_SIGRETURN, 0, 0),
        SignalReturn(_SIGRETURN, 7, 0),
        SignalReturn(_SIGRETURN_SHORT, 0, 0),
        SignalReturn(_SIGRETURN_SHORT, 5, 0),
    ),
    # struct ucontext, arch/x86/include/uapi/asm/sigcontext.h: r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip
    signal_context={
        number: 40 + 8 * index
        for index, number in enumerate((8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16))
    },
    frame_record=FrameRecord(0, 8, 16),
    max_call_size=7,
    call=CALL,
    edges=(
        # the linkage table's first entry: push of the module, jump to the loader; an index was pushed before
        (rb"\xff\x35(?s:....)\Z", rb"\xf2?\xff\x25", 16),
        (rb"", rb"\xff\x35(?s:....)\xf2?\xff\x25", 8),
        # its other entries: endbr64, jump through the table; push of an index, jump to the first entry
        (rb"", rb"(?:\xf3\x0f\x1e\xfa)?[\x3e\xf2]?\xff\x25", 0),
        (rb"", rb"(?:\xf3\x0f\x1e\xfa)?\x68(?s:....)\xf2?\xe9", 0),
        (rb"\x68(?s:....)\Z", rb"\xf2?\xe9", 8),
        # push %rbp; mov %rsp, %rbp
        (rb"", rb"(?:\xf3\x0f\x1e\xfa)?\x55\x48(?:\x89\xe5|\x8b\xec)", 0),
        (rb"\x55\Z", rb"\x48(?:\x89\xe5|\x8b\xec)", 8),
        # code on the stack that sets the static chain of a nested function: mov …, %r11; mov …, %r10; jmp *%r11
        (rb"", rb"(?s:\x49\xbb.{8}|\x41\xbb....)\x49\xba", 0),
        (rb"", rb"(?s:\x49\xba.{8})\x49\xff\xe3", 0),
        (rb"(?s:\x49\xba.{8})\Z", rb"\x49\xff\xe3", 0),
        # pop %rbp; ret
        (rb"", rb"[\xf2\xf3]?(?:\xc3|\xc2)", 0),
        (rb"", rb"\x5d[\xf2\xf3]?(?:\xc3|\xc2)", 8),
    ),
    landing_pad=b"\xf3\x0f\x1e\xfa",  # endbr64
    calls=CALLS_64,
    tls_variant=2,
    tcb_size=0,
    word_relocation=1,  # R_X86_64_64
    jump_slot=7,  # R_X86_64_JUMP_SLOT
    tpoff_relocation=18,  # R_X86_64_TPOFF64
    x87=True,
    # mov $number, %eax; clone and clone3
    system_calls=SystemCalls(
        *(b"\x0f\x05", rb"(?s:\xb8(..)\0\0)", 5, 4, 1, (202,), 24, 0),
        (b"\xb8\x38\0\0\0\x0f\x05", b"\xb8\xb3\x01\0\0\x0f\x05"),
    ),
    # arch/x86/entry/syscalls/syscall_64.tbl
    kernel_arguments=KernelArguments(
        "orig_rax",
        "rax",
        ("rdi", "rsi", "rdx", "r10", "r8", "r9"),
        219,
        _numbers(
            "read=0 write=1 open=2 poll=7 ioctl=16 pread64=17 pwrite64=18 readv=19 writev=20 select=23 msync=26"
            " pause=34 nanosleep=35 sendfile=40 connect=42 accept=43 sendto=44 recvfrom=45 sendmsg=46 recvmsg=47"
            " vfork=58 wait4=61 semop=65 msgsnd=69 msgrcv=70 fcntl=72 flock=73 fsync=74 fdatasync=75"
            " rt_sigtimedwait=128 rt_sigsuspend=130 sync=162 futex=202 io_getevents=208 semtimedop=220"
            " clock_nanosleep=230 epoll_wait=232"
            " mq_timedsend=242 mq_timedreceive=243 waitid=247 openat=257 pselect6=270 ppoll=271 splice=275 tee=276"
            " sync_file_range=277 vmsplice=278 epoll_pwait=281 accept4=288 preadv=295 pwritev=296 recvmmsg=299"
            " syncfs=306 sendmmsg=307 preadv2=327 pwritev2=328 io_pgetevents=333 io_uring_enter=426 epoll_pwait2=441"
            " futex_waitv=449"
        ),
    ),
    pthread_objects=PthreadObjects(16, 24),
)

# pop %eax; mov $119, %eax (sigreturn); int $0x80, and mov $173, %eax (rt_sigreturn); int $0x80
_SIGRETURN_386, _RT_SIGRETURN_386 = b"\x58\xb8\x77\0\0\0\xcd\x80", b"\xb8\xad\0\0\0\xcd\x80"
_RT_CONTEXT_386 = 160  # signal number, two pointers, siginfo of 128 bytes, 20 bytes of ucontext before the registers

I386 = Architecture(
    name="i386",
    machines=("i386", "i486", "i586", "i686"),
    gdb_name="i386",
    multiarch="i386-linux-gnu",
    lldb_registers={"rflags": "eflags"},
    e_machine=EM_386,
    elf_class=32,
    pointer_size=4,
    byte_order="little",
    prstatus_size=144,
    prstatus_signal=12,
    prstatus_pid=24,
    prstatus_registers=72,
    prpsinfo_pid=12,
    # struct user_regs_struct of <sys/user.h>, which calls the segment registers xds …
    registers=(
        *("ebx", "ecx", "edx", "esi", "edi", "ebp", "eax", "ds", "es", "fs", "gs", "orig_eax"),
        *("eip", "cs", "eflags", "esp", "ss"),
    ),
    never_zero="cs",
    dwarf_registers=DWARF_32,
    callee_saved=frozenset((3, 5, 6, 7)),
    red_zone=0,
    pc="eip",
    sp="esp",
    fp="ebp",
    thread_pointer="gs_base",
    return_address=8,
    signal_returns=(
        SignalReturn(_SIGRETURN_386, 0, 4),  # 4: the signal number
        SignalReturn(_SIGRETURN_386, 1, 0),
        SignalReturn(_SIGRETURN_386, 6, 0),
        SignalReturn(_RT_SIGRETURN_386, 0, _RT_CONTEXT_386),
        SignalReturn(_RT_SIGRETURN_386, 5, _RT_CONTEXT_386),
    ),
    # struct sigcontext_32, arch/x86/include/uapi/asm/sigcontext.h: after four segment registers come edi, esi, ebp,
    # esp, ebx, edx, ecx, eax, two words about the fault, eip
    signal_context={number: 16 + 4 * index for index, number in enumerate((7, 6, 5, 4, 3, 2, 1, 0))} | {8: 56},
    frame_record=FrameRecord(0, 4, 8),
    max_call_size=7,
    call=CALL,
    edges=(
        # the linkage table's first entry: push of the module, jump to the loader; an index was pushed before. The jump
        # is by address, or by a distance from %ebx
        (rb"\xff[\x35\xb3](?s:....)\Z", rb"\xff[\x25\xa3]", 8),
        (rb"", rb"\xff[\x35\xb3](?s:....)\xff[\x25\xa3]", 4),
        # its other entries: endbr32, jump through the table; push of an index, jump to the first entry
        (rb"", rb"(?:\xf3\x0f\x1e\xfb)?\xff[\x25\xa3]", 0),
        (rb"", rb"(?:\xf3\x0f\x1e\xfb)?\x68(?s:....)\xe9", 0),
        (rb"\x68(?s:....)\Z", rb"\xe9", 4),
        # push %ebp; mov %esp, %ebp
        (rb"", rb"(?:\xf3\x0f\x1e\xfb)?\x55(?:\x89\xe5|\x8b\xec)", 0),
        (rb"\x55\Z", rb"(?:\x89\xe5|\x8b\xec)", 4),
        # code on the stack that sets the static chain of a nested function: mov …, %ecx; jmp
        (rb"", rb"(?:\xf3\x0f\x1e\xfb)?\xb9(?s:....)\xe9", 0),
        (rb"\xb9(?s:....)\Z", rb"\xe9", 0),
        # code that gets its own address: mov (%esp), any register; ret
        (rb"", rb"\x8b[\x04\x0c\x14\x1c\x2c\x34\x3c]\x24\xc3", 0),
        # pop %ebp; ret
        (rb"", rb"[\xf2\xf3]?(?:\xc3|\xc2)", 0),
        (rb"", rb"\x5d[\xf2\xf3]?(?:\xc3|\xc2)", 4),
    ),
    landing_pad=b"\xf3\x0f\x1e\xfb",  # endbr32
    calls=CALLS_32,
    tls_variant=2,
    tcb_size=0,
    word_relocation=1,  # R_386_32
    jump_slot=7,  # R_386_JMP_SLOT
    tpoff_relocation=14,  # R_386_TLS_TPOFF
    x87=True,
    # The kernel returns behind an int $0x80, even if it was entered by sysenter. 240 and 422 are futex and
    # futex_time64. In glibc's clone(), "mov %ebx, (%ecx)" is between the load of the number and int $0x80.
    system_calls=SystemCalls(
        *(b"\xcd\x80", rb"(?s:\xb8(..)\0\0)", 3, 1, 2, (240, 422), 158, 0),
        (b"\xb8\x78\0\0\0\x89\x19\xcd\x80", b"\xb8\xb3\x01\0\0\xcd\x80"),
        "orig_eax",
    ),
    descriptors=ThreadDescriptors(NT_386_TLS, 48, "gs"),
    # arch/x86/entry/vdso/vdso32/system_call.S: push of %ecx, %edx, %ebp; mov %esp, %ebp; sysenter; int $0x80
    kernel_entry=KernelEntry(9, (5, 2, 1, 8)),
    # arch/x86/entry/syscalls/syscall_32.tbl
    kernel_arguments=KernelArguments(
        "orig_eax",
        "eax",
        ("ebx", "ecx", "edx", "esi", "edi", "ebp"),
        0,
        _numbers(
            "read=3 write=4 open=5 waitpid=7 pause=29 ioctl=54 fcntl=55 sigsuspend=72 socketcall=102 wait4=114"
            " fsync=118 _newselect=142 flock=143 readv=145 writev=146 fdatasync=148 nanosleep=162 poll=168"
            " rt_sigtimedwait=177"
            " rt_sigsuspend=179 pread64=180 pwrite64=181 sendfile=187 vfork=190 fcntl64=221 sendfile64=239 futex=240"
            " io_getevents=247 epoll_wait=256 clock_nanosleep=267 mq_timedsend=279 mq_timedreceive=280 waitid=284"
            " openat=295 pselect6=308 ppoll=309 splice=313 epoll_pwait=319 recvmmsg=337 sendmmsg=345 connect=362"
            " accept4=364 sendto=369 sendmsg=370 recvfrom=371 recvmsg=372 msgsnd=400 msgrcv=401"
            " clock_nanosleep_time64=407 pselect6_time64=413 ppoll_time64=414 recvmmsg_time64=417"
            " mq_timedsend_time64=418 mq_timedreceive_time64=419 semtimedop_time64=420 rt_sigtimedwait_time64=421"
            " futex_time64=422 io_uring_enter=426 epoll_pwait2=441 futex_waitv=449"
        ),
    ),
    pthread_objects=PthreadObjects(12, 28),
)
