#!/usr/bin/env bash
# run.sh BUILD: installs what was built there into a temporary folder and uses it as a stranger would:
# pkg-config and CMake, shared and static, C and C++. Also: the library's name, and what names it takes.
set -euo pipefail
[[ $# == 1 ]] || { echo "usage: run.sh BUILD"; exit 1; }
build=$(cd "$1" && pwd)
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail()
{
    echo "install: $*"
    exit 1
}

# pkg_config PREFIX ARGUMENT...
pkg_config()
{
    local folder
    folder=$(dirname "$(find "$1" -name tilth.pc)")
    shift
    PKG_CONFIG_PATH=$folder pkg-config "$@" tilth
}

# runs WANTED PROGRAM : says the version, and is linked as WANTED (shared or static).
runs()
{
    local wanted=$1 program=$2 output linked=static
    output=$(LD_LIBRARY_PATH=$lib "$program") || fail "$program does not run"
    [[ $output == "tilth $version" ]] || fail "$program says '$output', not 'tilth $version'"
    readelf -d "$program" | grep -q 'NEEDED.*libtilth' && linked=shared
    [[ $linked == "$wanted" ]] || fail "$program is linked with the $linked library"
}

# build_with_pkg_config PREFIX PROGRAM [--static]
build_with_pkg_config()
{
    local from=$1 program=$2 flags
    shift 2
    read -r -a flags <<<"$(pkg_config "$from" --cflags --libs "$@" | xargs)"
    gcc -std=c17 -Wall -Wextra -Werror main.c "${flags[@]}" -o "$program"
}

use_pkg_config()
{
    build_with_pkg_config "$prefix" "$work/pc_shared"
    runs shared "$work/pc_shared"
    # A prefix that only has the archive, as on machines where everything is linked statically.
    cp -r "$prefix" "$work/archive"
    find "$work/archive" -name 'libtilth.so*' -delete
    build_with_pkg_config "$work/archive" "$work/pc_static" --static
    runs static "$work/pc_static"
}

# The macros of the headers, in the language that has no compound literals.
use_cxx()
{
    local compiler flags
    read -r -a flags <<<"$(pkg_config "$prefix" --cflags --libs | xargs)"
    for compiler in g++ clang++; do
        "$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Werror main.cc "${flags[@]}" -o "$work/$compiler"
        runs shared "$work/$compiler"
    done
}

use_cmake()
{
    cmake -S . -B "$work/cmake" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix" >"$work/log"
    ninja -C "$work/cmake" >>"$work/log" || { cat "$work/log"; fail "the CMake package is no use"; }
    runs static "$work/cmake/outside_static"
    runs shared "$work/cmake/outside_shared"
}

check_names()
{
    local soname others
    soname=$(readelf -d "$lib/libtilth.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
    [[ $soname == "libtilth.so.${version%%.*}" ]] || fail "the library's SONAME is '$soname'"
    [[ -e $lib/$soname ]] || fail "$soname is not installed"
    others=$(nm -D --defined-only "$lib/libtilth.so" | awk '$3 !~ /^tl_/ { print $3 }')
    [[ -z $others ]] || fail "libtilth.so exports more than tl_ names: $(xargs <<<"$others")"
    others=$(nm -g --defined-only "$lib/libtilth.a" | awk 'NF == 3 && $3 !~ /^tli?_/ { print $3 }')
    [[ -z $others ]] || fail "libtilth.a has global names other than tl_ and tli_: $(xargs <<<"$others")"
}

check_program()
{
    local file
    for file in bin/tilth share/man/man1/tilth.1 share/bash-completion/completions/tilth; do
        [[ -s $prefix/$file ]] || fail "$file is not installed"
    done
    # Found by its own path, wherever the prefix was put.
    mv "$prefix" "$work/moved"
    env -u LD_LIBRARY_PATH "$work/moved/bin/tilth" --help >/dev/null || fail "bin/tilth does not run"
}

# Every file of configs is there, and the program takes those that are for its own flags.
check_configs()
{
    local configs=$work/moved/share/tilth
    diff -r ../../configs "$configs" >"$work/log" || { cat "$work/log"; fail "share/tilth is not what configs is"; }
    env -u LD_LIBRARY_PATH "$work/moved/bin/tilth" params --experiment=bert/pretraining \
        "--config_file=$configs/nlp/bert/experiments/wiki_books_pretrain.yaml" \
        "--gin_file=$configs/nlp/gin/talking_gated_encoder.gin" >"$work/log" 2>&1 \
        || { cat "$work/log"; fail "the configurations in share/tilth cannot be read"; }
    grep -q 'vocab_size: 30522' "$work/log" || fail "share/tilth has other configurations"
}

cmake --install "$build" --prefix "$prefix" >"$work/log" || { cat "$work/log"; exit 1; }
lib=$(dirname "$(find "$prefix" -name libtilth.so)")
version=$(pkg_config "$prefix" --modversion)
check_names
use_pkg_config
use_cxx
use_cmake
check_program
check_configs
echo "   install: pkg-config and CMake, shared and static; C++20"
