#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`make demo-torus`: halo and bfs on two lattices, by libweft-ape and by MPI, each beside its run in one process."""
import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

LATTICES = '2x2x2', '4x2x2'
CLOSE = 1e-9


# Open MPI wants to be asked twice.
ENVIRONMENT = {**os.environ, **({} if os.geteuid() else {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'})}


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if done.returncode:
        sys.exit(f'{" ".join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}')
    return done.stdout


def result(said):
    """What does not depend on time: all lines but the last."""
    return said.splitlines()[:-1]


def is_equal(here, there):
    """The same words, and numbers to CLOSE; a residual may be any that is small enough, which the program has seen to."""
    number = re.compile(r'-?\d+\.\d+e[+-]\d+')
    lines = [re.sub(r'residual \S+', 'residual', '\n'.join(said)) for said in (here, there)]
    numbers = [[float(text) for text in number.findall(line)] for line in lines]
    return number.sub('#', lines[0]) == number.sub('#', lines[1]) and len(numbers[0]) == len(numbers[1]) and all(
        math.isclose(a, b, rel_tol=CLOSE) for a, b in zip(*numbers))


class Demo:
    def __init__(self, weft, programs):
        self.weft, self.programs, self.wrong = weft, programs, 0
        self.alone = {}

    def show(self, name, how, said):
        self.alone.setdefault(name, said)
        right = is_equal(result(self.alone[name]), result(said))
        self.wrong += not right
        print(f'{name}, {how}: {"as in one process" if right else "NOT AS IN ONE PROCESS"}; {said.splitlines()[-1]}', flush=True)
        if not right:
            print(said)

    def one_process(self):
        for name in 'halo', 'bfs':
            said = run(self.programs / name)
            print(*result(said), sep='\n')
            self.show(name, 'one process', said)

    def on(self, lattice):
        name = f'demo{os.getpid()}'
        torus = [self.weft, 'torus']
        run(*torus, 'up', lattice, '--name', name)
        try:
            for program in 'halo', 'bfs':
                self.show(program, f'{lattice} by libweft-ape',
                          run(*torus, 'run', '--name', name, '--each', '--', self.programs / f'{program}-ape'))
            if shutil.which('mpirun') and (self.programs / 'halo-mpi').exists():
                ranks = math.prod(map(int, lattice.split('x')))
                self.show('halo', f'{lattice} by MPI', run(*torus, 'run', '--name', name, '--', 'mpirun', '-n', ranks,
                                                           self.programs / 'halo-mpi', lattice))
            else:
                print('no Open MPI (openmpi-bin, libopenmpi-dev): halo by MPI is left out')
        finally:
            run(*torus, 'down', '--name', name)


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument('--weft', type=Path, required=True)
    words.add_argument('--programs', type=Path, required=True, help='the folder where they are')
    words.add_argument('lattice', nargs='*', default=LATTICES)
    words = words.parse_args()
    begun = time.monotonic()
    demo = Demo(words.weft.resolve(), words.programs.resolve())
    demo.one_process()
    for lattice in words.lattice:
        demo.on(lattice)
    print(f'{time.monotonic() - begun:.0f} s; {demo.wrong} runs are wrong')
    return demo.wrong > 0


if __name__ == '__main__':
    sys.exit(main())
