"""Small C programs beside the checks, which do with the library what a check asks of it."""

import importlib.util
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NEEDED = ('yaml-0.1', 'jansson', 'libpng', 'libjpeg', 'zlib', 'libmicrohttpd')  # by the static library


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


def under_python_of(folder, what, script):
    """A large peer has an environment of its own: runs the script again with that one's Python."""
    python = HERE.parent.parent / folder / 'bin/python'
    if pathlib.Path(sys.prefix).name == folder:
        return
    if not python.exists():
        print(f'SKIPPED: {what} is not installed; `./build.sh interop` does that')
        sys.exit(0)
    os.environ.update(CUDA_VISIBLE_DEVICES='', HF_HUB_OFFLINE='1', TRANSFORMERS_VERBOSITY='error')
    os.execv(python, [str(python), script, *sys.argv[1:]])


def with_torch(script):
    """PyTorch is small, and where every check is, on aarch64 alone (requirements.txt)."""
    if not importlib.util.find_spec('torch'):
        under_python_of('.venv-hf', 'PyTorch', script)
