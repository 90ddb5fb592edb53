"""Rewrites sources so that each fault is in them, and a number in the environment turns it on."""

from collections import defaultdict
from collections.abc import Iterable

from mutation.faults import Fault

HEADER = "ir/planted.h"
VARIABLE = "LAZULI_PLANTED"
INCLUDE = f'#include "{HEADER}"\n'

# Made only in the copy. One number for the whole process, read once.
HEADER_TEXT = f"""\
#pragma once
#include <cstdlib>

namespace lazuli {{
inline int planted_fault() {{
  static const int number = [] {{
    const char* text = std::getenv("{VARIABLE}");
    return text ? std::atoi(text) : 0;
  }}();
  return number;
}}
inline bool planted(int number) {{ return planted_fault() == number; }}
}}  // namespace lazuli
"""


def switch(fault: Fault) -> str:
    """The original and the fault, of which one is taken when the program runs."""
    test = f"::lazuli::planted({fault.code})"
    if fault.is_statement:
        return f"{{ if ({test}) {{ {fault.put} }} else {{ {fault.original} }} }}"
    return f"({test} ? ({fault.put}) : ({fault.original}))"


def plant(text: str, faults: Iterable[Fault]) -> str:
    """A file's text with all of its faults."""
    places = sorted(((*fault.find(text), fault) for fault in faults), key=lambda p: p[0])
    for begin, end, fault in reversed(places):
        text = text[:begin] + switch(fault) + text[end:]
    return INCLUDE + "#line 1\n" + text


def plant_alone(text: str, fault: Fault) -> str:
    """A file's text with the fault in the original's stead."""
    begin, end = fault.find(text)
    return text[:begin] + fault.put + text[end:]


def by_file(faults: Iterable[Fault]) -> dict[str, list[Fault]]:
    files = defaultdict(list)
    for fault in faults:
        files[fault.file].append(fault)
    return files
