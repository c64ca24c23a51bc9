"""The instruction set of a module's loops: included by every module whose header has HERD_LOOP."""

cdef extern from "simd.h" nogil:
    int HERD_SETS
    int herd_runs(int number) noexcept
    const char *herd_set_name(int number) noexcept
    void herd_take_set(int number) noexcept
    int herd_set_used() noexcept


def instruction_sets():
    """Instruction sets that this machine runs, the one taken by itself first."""
    return [herd_set_name(i).decode() for i in reversed(range(HERD_SETS)) if herd_runs(i)]


def instruction_set():
    """The instruction set in use."""
    return herd_set_name(herd_set_used()).decode()


def use_instruction_set(str name):
    """Take an instruction set.  Raises ValueError if the machine does not have it."""
    for i in range(HERD_SETS):
        if herd_set_name(i).decode() == name and herd_runs(i):
            herd_take_set(i)
            return
    raise ValueError(f"this machine runs {', '.join(instruction_sets())}, not {name}")


use_instruction_set(instruction_sets()[0])
