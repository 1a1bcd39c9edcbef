"""All crafted cases of all formats."""

from __future__ import annotations

from tests.crafted import compression as compression
from tests.crafted import cores as cores
from tests.crafted import dwarf as dwarf
from tests.crafted import memory as memory
from tests.crafted import modules as modules
from tests.crafted import stored as stored
from tests.crafted import unwinding as unwinding
from tests.crafted.cases import CASES as CASES
