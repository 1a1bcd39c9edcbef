"""The standard's sentence behind each check, in our words, and whether the standard demands or suggests it.

The standard demands the results and return codes that it specifies for a routine. A rule is only suggested if it
follows from a return code's meaning, or if the kit violates a duty of the tool: for that the standard specifies no
reaction of the library.
"""

from __future__ import annotations

from collections.abc import Mapping

from ompd.records import record

DEMANDS, SUGGESTS = "demands", "suggests"


@record
class Rule:
    """A sentence of the standard: its section, its weight and its words.

    An empty section means the section of the routine that is tried.
    """

    section: str
    level: str
    words: str


def _demands(section: str, words: str) -> Rule:
    return Rule(section, DEMANDS, words)


def _suggests(section: str, words: str) -> Rule:
    return Rule(section, SUGGESTS, words)


RULES: Mapping[str, Rule] = {
    "exported": _demands("20.1", "each routine is an external symbol with C linkage"),
    "result": _demands("", "the routine gives what its description names, and returns ok on success"),
    "owned-text": _demands("20.4.1", "what the tool has to free is allocated by the tool's callback"),
    "version-first": _demands("20.5.1", "the tool learns the library's version before it initialises the library"),
    "lasting-text": _demands("20.5.1.3", "the version's text stays valid while the library is loaded"),
    "no-callbacks": _demands("20.5.1.1", "callbacks that are invalid are bad input"),
    "no-version": _demands("20.5.1.1", "a version of the interface that cannot be provided is unsupported"),
    "newer-version": _demands(
        "20.5.1.1", "a version above the latest one, which ompd_get_api_version returns, is unsupported"
    ),
    "not-initialised": _demands("20.5.1.4", "to finalise a library that is not initialised is unsupported"),
    "each-process": _demands("20.5.1", "the library is initialised once, and each process or core file besides"),
    "null-input": _demands(
        "20.5", "a null pointer for an input argument is bad input; any code of failure is accepted"
    ),
    "thread-number": _demands("", "a number that is negative, or not below team-size-var, is bad input"),
    "thread-kind": _demands("", "a kind of native threads that the library does not know is unsupported"),
    "thread-size": _demands("", "another size than that kind of identifiers has is bad input"),
    "unknown-number": _demands("", "a number that the enumeration does not have is bad input"),
    "variable-scope": _demands(
        "", "a handle's scope that is not the variable's is incompatible; any failure is accepted"
    ),
    "enumeration": _demands("", "each step gives the next one, and whether more are left, as 1 or 0"),
    "none-outside": _demands("", "unavailable where there is none further out"),
    "order": _demands("", "the result is 0 for the same one; others have an order"),
    "known-state": _demands("20.5.8.2", "the state is one that the enumeration has"),
    "callback-error": _demands(
        "20.5", "ok says that the query succeeded; a callback's error that it fails by is passed on"
    ),
    "null-result": _suggests(
        "20.3.12", "bad input is what invalid arguments are; of null pointers for results it says nothing"
    ),
    "null-callbacks": _suggests("20.5.1.1", "invalid callbacks are bad input; which ones are invalid it does not say"),
    "not-begun": _suggests(
        "20.5.1", "the tool initialises the library first; what a library does else it does not say"
    ),
    "released": _suggests("20.5", "a stale handle is refused as such; but the tool may not use what it has released"),
    "ended": _suggests("20.5.1.4", "the end is the tool's last call; what comes after is the tool's fault"),
    "foreign-context": _suggests("20.5.2.1", "the tool names its own contexts only; its callbacks refuse any other"),
    "no-scope": _suggests("20.3.9", "the tool passes one of the scopes, and a handle that goes with it"),
    "same-process": _suggests(
        "20.5.2.1", "a session begins with this call; of a second one on the same process it says nothing"
    ),
    "state-name": _suggests("20.5.8.1", "a state's text is its name; in which spelling it does not say"),
    "variable-name": _suggests("20.5.10.1", "a variable's text is its name; that no other has it, it does not say"),
    "text-of-number": _suggests(
        "20.5.10.3", "the result is a text of the variable; unsupported is none of the codes there"
    ),
    "implicit-task-data": _suggests(
        "20.5.10.4", "data of tools is there for each scope; a task's is the implicit task's, too"
    ),
    "no-tool-data": _suggests("20.5.10.4", "OMPT keeps data for threads, regions and tasks alone"),
    "balance": _suggests("20.4.1", "the tool gives back what it owns; of what a library keeps it says nothing"),
}

DMPL_RULES: Mapping[str, Rule] = {
    "exported": _demands("4.2.2", "each function of the header is an external symbol with C linkage"),
    "version": _demands("Appendix", "the version of the interface is that of the header, 1"),
    "initialise": _demands("4.2", "initialisation takes the callback table"),
    "own-text": _demands("4.2.2", "the library has a text of its version"),
    "error-text": _demands("4.2.2", "a code of the header has a text"),
    "name-result": _demands("Appendix", "a name is demangled, and its length returned; or unchanged, or too long"),
    "name-length": _demands(
        "Appendix",
        "the length of a name that is too long is the room that it needs; nothing is written behind the buffer",
    ),
    "name-flags": _demands("4.1", "a variable was on one of the lists, or on none; it may need a dereference"),
    "routines": _demands("4.2.2", "the structure has the names of two routines"),
    "tls-result": _demands("4.1", "results are codes of the header, or the library's own, from 100 on"),
    "copies": _demands("4.2.2", "the address is that of the object in this thread"),
    "no-global-data": _demands("4", "data of a process are kept with it, and not in the library"),
    "callback-error": _demands("Appendix", "ok is success; any other result is a failure of some sort"),
    "release": _demands("4.2.2", "what the library has put with processes and threads is released"),
    "no-printing": _suggests("4.2.1", "messages are printed by the debugger's callback"),
}
"""The sentences of the white paper on DMPL (2004), with its sections."""
