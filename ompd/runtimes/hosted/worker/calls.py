"""OMPD in a worker: the calls of the library's functions, and the handles that these functions make."""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_char_p, c_int, c_int64, c_uint64
from struct import Struct

from ompd.runtimes.hosted.protocol import (
    ABSENT,
    ADD,
    BAD_CODE,
    BAD_HANDLE,
    BAD_SIZE,
    BAD_TEXT,
    CALLED,
    COUNT,
    ENDLESS,
    NO_HANDLE,
    NOT_CALLED,
    RELEASE,
    in_blob,
    packed_rows,
)
from ompd.runtimes.hosted.signatures import MAX_ENUMERATED, SIGNATURES, UNWRITTEN, Function
from ompd.runtimes.hosted.worker.callbacks import Callbacks
from ompd.runtimes.hosted.worker.channel import Channel, Result, refused, started
from ompd.runtimes.hosted.worker.raw import MAX_TEXT, Blocks, RawMemory
from ompd.runtimes.hosted.worker.spaces import BAD_INPUT, ERROR, OK, CachedSpace, Spaces

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_UNSUPPORTED, _INCOMPLETE = 5, 11  # ompd_rc_t
_FIRST_VERSION = 201811
_CODES = range(14)
_UNDEFINED_STATE = 0x102
_MAX_VECTOR = 1 << 16
_MAX_ID = 64
_HANDLES = "STPK*"
_RELEASING = {
    "S": Function.REL_ADDRESS_SPACE_HANDLE,
    "T": Function.REL_THREAD_HANDLE,
    "P": Function.REL_PARALLEL_HANDLE,
    "K": Function.REL_TASK_HANDLE,
}
_TYPES: dict[str, Sequence[Any]] = {
    **dict.fromkeys("STPK*cur", (c_uint64,)),
    "w": (c_int64,),
    "i": (c_int,),
    "b": (c_uint64, c_char_p),
    "z": (c_uint64,),
}
# Bytes that are reserved for each result. No result needs more.
_PLACE = 128
_PLACES = 8
_INT = Struct("=i")
_SIGNED, _UNSIGNED, _FRAME = Struct("=q"), Struct("=Q"), Struct("=QQq")


class Held:
    """A handle of the library: its address, its letter in signatures, and the context to which it belongs."""

    __slots__ = ("context", "letter", "pointer")

    def __init__(self, pointer: int, letter: str, context: int) -> None:
        self.pointer, self.letter, self.context = pointer, letter, context


class OmpdLibrary:
    """The functions of the library, called as in C, and the handles that they have made.

    It has to be created before this process is confined, because it opens files.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._memory, self._blocks, self._spaces = RawMemory(), Blocks(), Spaces(channel)
        self._callbacks = Callbacks(channel, self._spaces, self._blocks, self._memory)
        self._functions: dict[int, Callable[..., int]] = {}
        self._buffer = (ctypes.c_ubyte * (_PLACE * _PLACES))()
        self._bytes = memoryview(self._buffer).cast("B")
        start = ctypes.addressof(self._buffer)
        self._places = [start + _PLACE * number for number in range(_PLACES)]
        self.handles: dict[int, Held] = {}
        # Codes of calls that failed to make a handle, by the number that the handle would have.
        self._failed: dict[int, int] = {}
        self._kept: list[bytes] = []  # identifiers of devices, which must stay in memory

    @property
    def allocated(self) -> int:
        """The number of blocks that the library has allocated and not freed."""
        return len(self._blocks)

    def start(self, loaded: ctypes.CDLL) -> Result:
        """Initialise the library, and return the result of its start."""
        for number, signature in SIGNATURES.items():
            function = getattr(loaded, signature.name, None)
            if function is not None and number != Function.LOAD:
                function.restype = c_int
                if "r" not in signature.gives:
                    takes = [kind for letter in signature.takes for kind in _TYPES[letter]]
                    function.argtypes = takes + [c_uint64] * len(signature.gives)
                self._functions[number] = function
        for needed in (Function.GET_API_VERSION, Function.INITIALIZE, Function.PROCESS_INITIALIZE):
            if needed not in self._functions:
                return refused(ABSENT, 0, SIGNATURES[needed].name)
        version = c_int64(_FIRST_VERSION)
        code = self.call(Function.GET_API_VERSION, ctypes.addressof(version))
        if code:
            return refused(CALLED, code, SIGNATURES[Function.GET_API_VERSION].name)
        name = c_uint64(0)
        self.call(Function.GET_VERSION_STRING, ctypes.addressof(name))
        text = self._memory.text(name.value) or b""
        code = self.call(Function.INITIALIZE, version.value, ctypes.addressof(self._callbacks.table))
        if code:
            return refused(CALLED, code, SIGNATURES[Function.INITIALIZE].name)
        return started(version.value, text, [(number, SIGNATURES[number].name) for number in self._functions])

    def call(self, number: int, *arguments: Any) -> int:
        """Call a function, and return its code, which may be any number.

        Results, if any, are stored at addresses in the arguments.
        """
        function = self._functions.get(number)
        if function is None:
            return _UNSUPPORTED
        self._channel.begin(number)
        code = function(*arguments)
        self._channel.end()
        return code

    def perform(self, number: int, words: Sequence[int], makes: int, blob: memoryview) -> Result:
        """Make a call that the host has requested, and return its result."""
        if number >= RELEASE:
            return self._keep_house(number, words, blob)
        result = self._perform(number, words, makes, blob)
        if makes and (result.code or result.outcome):
            self._failed[makes] = result.code
        return result

    def _keep_house(self, number: int, words: Sequence[int], blob: memoryview) -> Result:
        if number == ADD:
            context, ahead = words
            self._spaces.by_context[context] = CachedSpace(context, ahead)
            return Result(OK)
        for (handle_or_context,) in COUNT.iter_unpack(in_blob(blob, words[0])):
            if number == RELEASE:
                self._release(handle_or_context)
            else:
                self._forget(handle_or_context)
        return Result(OK)

    def _perform(self, number: int, words: Sequence[int], makes: int, blob: memoryview) -> Result:
        if number not in self._functions:
            return Result(_UNSUPPORTED, ABSENT)
        signature = SIGNATURES[number]
        arguments: list[Any] = []
        context = 0
        room = 0
        for letter, word in zip(signature.takes, words, strict=False):
            if letter in _HANDLES:
                held = self.handles.get(word)
                if held is None:
                    failed = self._failed.get(word)
                    return Result(BAD_INPUT, BAD_HANDLE) if failed is None else Result(failed or ERROR, NOT_CALLED)
                if letter not in ("*", held.letter):
                    return Result(BAD_INPUT, BAD_HANDLE)
                context = context or held.context
                arguments.append(held.pointer)
            elif letter == "b":
                raw = in_blob(blob, word)
                arguments += len(raw), raw
                if number == Function.DEVICE_INITIALIZE:
                    self._kept.append(raw)
            elif letter == "c":
                context = word
                arguments.append(word)
            elif letter == "i":
                arguments.append(word & 0xFFFFFFFF)
            elif letter == "z":
                room = word
                arguments.append(word)
            else:
                arguments.append(word)
        if room > _MAX_ID:
            return Result(BAD_INPUT, BAD_SIZE)
        if number == Function.DEVICE_INITIALIZE:
            context = words[1]
        if "r" in signature.gives:
            return self._with_rows(number, arguments[0])
        return self._called(number, arguments, makes, context, room)

    def _called(self, number: int, arguments: list[Any], makes: int, context: int, room: int) -> Result:
        gives = SIGNATURES[number].gives
        for place, letter in enumerate(gives):
            arguments.append(self._places[place])
            offset = place * _PLACE
            if letter == "f":
                _FRAME.pack_into(self._bytes, offset, 0, 0, UNWRITTEN)
            else:
                self._bytes[offset : offset + 64] = bytes(64)
        code = self.call(number, *arguments)
        if code not in (OK, _INCOMPLETE):
            return Result(code) if code in _CODES else Result(code, BAD_CODE)
        words: list[int] = []
        for place, letter in enumerate(gives):
            offset = place * _PLACE
            if letter in _HANDLES:
                (pointer,) = _UNSIGNED.unpack_from(self._bytes, offset)
                if not pointer:
                    return Result(ERROR, NO_HANDLE)
                self.handles[makes] = Held(pointer, letter, context)
            elif letter == "s":
                return self._text(code, _UNSIGNED.unpack_from(self._bytes, offset)[0])
            elif letter == "b":
                words.append(int.from_bytes(self._bytes[offset : offset + room], sys.byteorder))
            elif letter == "i":
                words.append(_INT.unpack_from(self._bytes, offset)[0])
            elif letter == "a":
                words.append(_UNSIGNED.unpack_from(self._bytes, offset + 8)[0])
            elif letter == "f":
                words += _FRAME.unpack_from(self._bytes, offset)[1:]
            elif letter == "d":
                (pointer,) = _UNSIGNED.unpack_from(self._bytes, offset)
                words.append(any(held.pointer == pointer for held in self.handles.values() if held.letter == "S"))
            else:
                words.append((_SIGNED if letter == "w" else _UNSIGNED).unpack_from(self._bytes, offset)[0])
        return Result(code, CALLED, words)

    def _text(self, code: int, address: int) -> Result:
        text = self.owned(address)
        if text is None:
            return Result(ERROR, BAD_TEXT)
        return Result(code, CALLED, (), packed_rows([(0, 0, text)]), 1)

    def owned(self, address: int) -> bytes | None:
        """Return the text at *address*, which a function returned, and free its memory. None if there is no text at
        *address*.

        Some libraries return a text of their own, whose memory they have not allocated with the tool's callback. Such a
        text is not freed.
        """
        text = self._memory.text(address)
        self._blocks.free(address)
        return text

    # Functions with rows

    def _with_rows(self, number: int, space: int) -> Result:
        if number == Function.GET_DISPLAY_CONTROL_VARS:
            return self._display_control_vars(number, space)
        if number == Function.GET_DEVICE_THREAD_ID_KINDS:
            return self._thread_id_kinds(number, space)
        return self._enumerated(number, space)

    def _enumerated(self, number: int, space: int) -> Result:
        # All states or variables. The functions differ in the types of two arguments; only variables have a scope.
        is_states = number == Function.ENUMERATE_STATES
        following, name, scope = c_uint64(), c_uint64(), c_int()
        more = c_int64() if is_states else c_int()
        results = (following, name, more) if is_states else (following, name, scope, more)
        addresses = [ctypes.byref(result) for result in results]
        current = _UNDEFINED_STATE if is_states else 0
        rows: dict[int, tuple[int, int, bytes]] = {}
        size = 0
        while True:
            for result in results:
                result.value = 0
            code = self.call(number, c_uint64(space), c_uint64(current), *addresses)
            if code:
                return Result(code) if code in _CODES else Result(code, BAD_CODE)
            current = following.value
            text = self.owned(name.value)
            if text is None:
                return Result(ERROR, BAD_TEXT)
            size += len(text)
            if current in rows or len(rows) >= MAX_ENUMERATED or size > MAX_TEXT:
                return Result(ERROR, ENDLESS)
            rows[current] = (current, scope.value & 0xFFFFFFFF, text)
            if not more.value:
                return Result(OK, CALLED, (), packed_rows(rows.values()), len(rows))

    def _display_control_vars(self, number: int, space: int) -> Result:
        vector = c_uint64()
        code = self.call(number, c_uint64(space), ctypes.byref(vector))
        if code:
            return Result(code) if code in _CODES else Result(code, BAD_CODE)
        pointers = self._memory.words(vector.value, _MAX_VECTOR)
        texts = [self._memory.text(pointer) for pointer in pointers or ()]
        self.call(Function.REL_DISPLAY_CONTROL_VARS, ctypes.addressof(vector))
        if pointers is None or None in texts or sum(len(text or b"") for text in texts) > MAX_TEXT:
            return Result(ERROR, BAD_TEXT)
        return Result(OK, CALLED, (), packed_rows((0, 0, text or b"") for text in texts), len(texts))

    def _thread_id_kinds(self, number: int, space: int) -> Result:
        kinds, sizes, count = c_uint64(), c_uint64(), c_int()
        code = self.call(number, c_uint64(space), *map(ctypes.byref, (kinds, sizes, count)))
        if code:
            return Result(code) if code in _CODES else Result(code, BAD_CODE)
        kind_count = count.value
        if not 0 <= kind_count <= MAX_ENUMERATED:
            return Result(ERROR, BAD_SIZE)
        arrays = [self._memory.read(where.value, 8 * kind_count) for where in (kinds, sizes)]
        for where in (kinds, sizes):
            self._blocks.free(where.value)
        if arrays[0] is None or arrays[1] is None:
            return Result(ERROR, BAD_TEXT)
        pairs = zip(*(Struct(f"={kind_count}Q").unpack(array) for array in arrays if array is not None), strict=True)
        return Result(OK, CALLED, (), packed_rows((kind, size, b"") for kind, size in pairs), kind_count)

    # Releasing

    def _release(self, number: int) -> None:
        # Release a handle, unless it was already released with its context.
        self._failed.pop(number, None)
        held = self.handles.pop(number, None)
        if held is not None:
            self.call(_RELEASING[held.letter], held.pointer)

    def _forget(self, context: int) -> None:
        # Release everything that belongs to a context, address spaces last.
        own = [number for number, held in self.handles.items() if held.context == context]
        for number in sorted(own, key=lambda number: self.handles[number].letter == "S"):
            held = self.handles.pop(number)
            self.call(_RELEASING[held.letter], held.pointer)
        self._spaces.by_context.pop(context, None)
