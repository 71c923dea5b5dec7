"""Small C programs beside the checks, which do with the library what a check asks of it."""

import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
NEEDED = ('yaml-0.1', 'jansson', 'libpng', 'libjpeg', 'zlib')  # by the static library


def compile_driver(name, folder):
    """NAME.c against the static library beside TILTH; gives the path of the program."""
    library = pathlib.Path(os.environ['TILTH']).resolve().parent / 'libtilth.a'
    flags = subprocess.run(['pkg-config', '--cflags', '--libs', *NEEDED], check=True, text=True,
                           capture_output=True).stdout.split()
    program = str(pathlib.Path(folder) / name)
    subprocess.run([os.environ.get('CC', 'cc'), '-std=c17', '-D_GNU_SOURCE', f'-I{HERE.parent.parent / "include"}',
                    str(HERE / f'{name}.c'), '-o', program, str(library), *flags, '-lpthread', '-lm', '-ldl'],
                   check=True)
    return program
