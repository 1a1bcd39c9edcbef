"""``python inputs.py FOLDER`` writes the inputs for programs of registries, the same bytes each time."""

from __future__ import annotations

import random
import sys
from pathlib import Path

# One process, and a matrix that takes a minute.
_HPCC = """HPLinpack benchmark input file
-
HPL.out
8
1
3000
1
96
0
1
1
1
16.0
1
2
1
4
1
2
1
1
1
1
1
1
1
0
2
64
0
0
1
8
0
0
0
0
0
"""


def _family(chance: random.Random, letters: str, many: int, length: int, rate: float) -> str:
    # Make each sequence a copy of an earlier one with some letters changed.
    sequences = [[chance.choice(letters) for _ in range(length)]]
    while len(sequences) < many:
        one = chance.choice(sequences)
        sequences.append([chance.choice(letters) if chance.random() < rate else letter for letter in one])
    return "".join(f">s{number}\n{''.join(letters)}\n" for number, letters in enumerate(sequences))


def _alkane(carbons: int) -> str:
    atoms = [("H", -1.0, 0.6, 0.0), ("H", 1.27 * (carbons - 1) + 1.0, 0.6 if carbons % 2 else -0.15, 0.0)]
    for number in range(carbons):
        x, y, out = 1.27 * number, 0.42 * (number % 2), 0.6 if number % 2 else -0.6
        atoms += [("C", x, y, 0.0), ("H", x, y + out, 0.89), ("H", x, y + out, -0.89)]
    return f"{len(atoms)}\n\n" + "".join(f"{name} {x:.3f} {y:.3f} {z:.3f}\n" for name, x, y, z in atoms)


def main(folder: Path) -> None:
    """Write all inputs into *folder*."""
    chance = random.Random(1)
    (folder / "dna.fasta").write_text(_family(chance, "ACGT", 400, 1500, 0.03))
    (folder / "proteins.fasta").write_text(_family(chance, "ACDEFGHIKLMNPQRSTVWY", 400, 400, 0.1))
    (folder / "many.fasta").write_text(_family(chance, "ACDEFGHIKLMNPQRSTVWY", 8000, 300, 0.05))
    (folder / "noise.bin").write_bytes(chance.randbytes(48 << 20))
    (folder / "molecule.xyz").write_text(_alkane(16))
    (folder / "hpcc.hpccinf.txt").write_text(_HPCC)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
