#!/usr/bin/env bash
# selftest.sh: the checks can fail. Each is given small trees with one mistake in them and must name
# it; and a tree without mistakes, which it must take.
set -euo pipefail
checks=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cases=0

# A fresh tree in which all is well.
good_tree()
{
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/include/tilth/{base,core,sys/base} "$tree"/src/{base/inner,core/inner,nn,data,io/file} "$tree"/{tool,docs,tests/{base,checks}}
    put include/tilth/tilth.h '#include <tilth/base/a.h>' '#include <tilth/core/b.h>'
    put include/tilth/base/a.h '#ifndef A_H' '#define A_H' '#include <stddef.h>' \
        'typedef struct a {' '    size_t size;' '} a;' '#endif'
    put include/tilth/core/b.h '#ifndef B_H' '#define B_H' '#include <tilth/base/a.h>' \
        'typedef struct b {' '    a inner;' '} b;' '#endif'
    put include/tilth/sys/base/s.h '#ifndef S_H' '#define S_H' 'int s(void);' '#endif'
    put src/base/a_private.h 'int tli_a(void);'
    put src/base/inner/a_shown.h 'int tli_b(void);'
    put src/base/a.c '#include <tilth/base/a.h>' '#include <yaml.h>' '#include "a_private.h"'
    put src/core/b.c '#include "base/inner/a_shown.h"' '#include <tilth/core/b.h>' '#include <tilth/sys/base/s.h>'
    put src/nn/n.c '#include <tilth/core/b.h>'
    put src/nn/n.h ''
    put src/data/d.c '#include "../core/inner/b.h"'
    put src/core/inner/b.h ''
    put src/core/b.h ''
    put tool/main.c '#include <tilth/tilth.h>'
    put tests/checks/examples.h '#include <tilth/tilth.h>' 'typedef int tl_status;' 'enum { TL_OK };' \
        '// include/tilth/base/a.h' 'a whole;'
    put docs/adding.md '[a](../tool/main.c)' '```c src/base/a.c' '#include <yaml.h>' '#include "a_private.h"' '```'
}

# put FILE LINE...
put()
{
    local file=$tree/$1
    shift
    printf '%s\n' "$@" >"$file"
}

# takes CHECK : the check passes. A fresh tree follows, as after `refuses`.
takes()
{
    local output
    cases=$((cases + 1))
    if ! output=$("$checks/$1.sh" "$tree" 2>&1); then
        printf 'selftest: %s.sh refuses a tree without mistakes:\n%s\n' "$1" "$output"
        exit 1
    fi
    good_tree
}

# refuses CHECK TEXT : the check fails and says the text.
refuses()
{
    local output
    cases=$((cases + 1))
    if output=$("$checks/$1.sh" "$tree" 2>&1); then
        echo "selftest: $1.sh does not see a mistake; it should say: $2"
        exit 1
    fi
    if [[ $output != *"$2"* ]]; then
        printf 'selftest: %s.sh does not say "%s" but:\n%s\n' "$1" "$2" "$output"
        exit 1
    fi
    good_tree
}

# lines COUNT : that many lines of C.
lines()
{
    awk -v count="$1" 'BEGIN { for (i = 1; i <= count; i++) printf "    x += %d;\n", i }'
}

# function_of COUNT : a function of that many lines.
function_of()
{
    echo 'int f(int x)'
    echo '{'
    lines $(($1 - 3))
    echo '}'
}

layers_cases()
{
    takes layers
    put src/base/x.c '' '  #  include <tilth/core/b.h>'
    refuses layers 'src/base/x.c:2: base (layer 1) includes core (layer 3): tilth/core/b.h'
    put include/tilth/base/x.h '#include <tilth/core/b.h>'
    refuses layers 'include/tilth/base/x.h:1: base (layer 1) includes core'
    put src/base/x.c '#include "core/b.h"'
    refuses layers 'src/base/x.c:1: base (layer 1) includes core'
    put src/base/x.c '#include "../core/b.h"'
    refuses layers 'src/base/x.c:1: base (layer 1) includes core'
    put src/io/file/x.c '#include "core/b.h"'
    refuses layers 'src/io/file/x.c:1: io includes core/b.h, a private header of core'
    put include/tilth/sys/base/x.h '#include <tilth/core/b.h>'
    refuses layers 'include/tilth/sys/base/x.h:1: base (layer 1) includes core'
    put include/tilth/core/x.h '#include <tilth/sys/base/s.h>'
    refuses layers 'include/tilth/core/x.h:1: tilth/sys/base/s.h is for authors of backends'
    put src/data/x.c '#include "nn/n.h"'
    refuses layers 'src/data/x.c:1: data includes nn (nn/n.h), its neighbour'
    put src/io/x.c '#include <tilth/tilth.h>'
    refuses layers 'src/io/x.c:1: io includes tilth/tilth.h'
    mkdir "$tree/src/misc"
    put src/misc/x.c ''
    refuses layers 'the folder "misc" is in no layer'
    put src/io/x.c '#include <tilth/misc/x.h>'
    refuses layers '"tilth/misc/x.h" is in no layer'
    rm -rf "${tree:?}"/*
    refuses layers 'no source files'
}

headers_cases()
{
    takes headers
    put include/tilth/base/x.h 'size_t count(void);'
    refuses headers 'tilth/base/x.h does not compile alone: gcc -x c'
    put include/tilth/base/x.h 'typedef struct x { int y; } x;'
    refuses headers 'tilth/base/x.h does not compile alone' # no guard
    put include/tilth/base/x.h 'int twice(int new);'
    refuses headers 'tilth/base/x.h does not compile alone: g++ -x c++'
    put include/tilth/base/x.h '#ifdef __clang__' '#error' '#endif'
    refuses headers 'tilth/base/x.h does not compile alone: clang -x c'
    put include/tilth/base/x.h 'static int unused(void) { return 1; }'
    refuses headers 'unused'
    rm -rf "$tree/include/tilth"
    refuses headers 'none below'
}

sizes_cases()
{
    takes sizes
    lines 900 >"$tree/src/base/x.c"
    takes sizes
    lines 901 >"$tree/src/base/x.c"
    refuses sizes 'src/base/x.c: 901 lines'
    { echo '/* table: of numbers */' && lines 2000; } >"$tree/src/base/x.c"
    takes sizes
    { lines 20 && echo '/* table: too late */' && lines 900; } >"$tree/src/base/x.c"
    refuses sizes 'src/base/x.c: 921 lines'
    function_of 120 >"$tree/src/base/x.c"
    takes sizes
    function_of 121 >"$tree/src/base/x.c"
    refuses sizes 'src/base/x.c:1: f has 121 lines'
    { echo '/* table: */' && function_of 121; } >"$tree/src/base/x.c"
    refuses sizes 'src/base/x.c:2: f has 121 lines'
    rm -rf "${tree:?}"/*
    refuses sizes 'no files'
}

# page LINE... : a page with one block of C, of src/base/a.c.
page()
{
    put docs/adding.md '```c src/base/a.c' "$@" '```'
}

quotes_cases()
{
    takes quotes
    page '#include <tilth/base/a.h>' ... '#include "a_private.h"'
    takes quotes
    put docs/adding.md '1. one' '   ```c src/base/a.c' '   #include <yaml.h>' '   ```'
    takes quotes
    page '#include <yaml.h>' '#include "b_private.h"'
    refuses quotes 'docs/adding.md:3: src/base/a.c does not say here: #include "b_private.h"'
    page '#include <tilth/base/a.h>' '#include "a_private.h"'
    refuses quotes 'docs/adding.md:3: src/base/a.c does not say here'
    page '#include "a_private.h"' ... '#include <yaml.h>'
    refuses quotes 'docs/adding.md:4: src/base/a.c does not say here'
    put docs/adding.md '```c' 'int x;' '```'
    refuses quotes 'docs/adding.md:1: a block of C names no file'
    put docs/adding.md '```c src/base/none.c' 'int x;' '```'
    refuses quotes 'docs/adding.md:1: there is no src/base/none.c'
    put docs/adding.md '[a](../tool/none.c)'
    refuses quotes 'docs/adding.md: there is no ../tool/none.c'
    rm -rf "${tree:?}"/*
    refuses quotes 'no pages'
}

# example LINE... : a header whose comment has these lines.
example()
{
    put include/tilth/base/a.h '/* What it is for.' ' *' "$@" ' */' '#ifndef A_H' '#define A_H' \
        'typedef struct a { int size; } a;' 'int use(const a *x);' '#endif'
}

examples_cases()
{
    takes examples
    example ' *     a x = {3};' ' *     if (!use(&x)) ...' ' *     ...' ' *     goto done;' ' * done:' ' *     use(&whole);'
    takes examples
    example ' *     static int f(const a *x)' ' *     {' ' *         return use(x);' ' *     }' ' *     f(&(a){...});' ' *' \
        ' *     size   what it is; a word in a table' ' *     other  no code'
    takes examples
    example ' *     a x = {3};' ' *' ' *     used(&x);'
    refuses examples 'include/tilth/base/a.h:5:1: error: implicit declaration of function'
    example ' *     nobody x = {3};' ' *     return TL_OK;'
    refuses examples 'include/tilth/base/a.h:3:1: error: unknown type name'
    example ' *     a x = {.length = 3};'
    refuses examples "'a' has no member named 'length'"
    example ' *     return use(&nothing);'
    refuses examples "'nothing' undeclared"
    put tests/checks/examples.h 'typedef int tl_status;' 'enum { TL_OK };' '// include/tilth/base/gone.h' 'int x;'
    refuses examples 'there is no include/tilth/base/gone.h any more'
    rm -rf "$tree/include/tilth"
    refuses examples 'no headers'
}

# Where clang-format 14 is missing, the check says so and nothing more; build.sh installs it.
format_cases()
{
    if [[ $("$checks/format.sh" "$tree") == *SKIPPED* ]]; then return; fi
    cp "$checks/../../.clang-format" "$tree"
    put src/base/a_private.h 'int tli_a(void);' 'int tli_c(int a, int b);'
    takes format
    put src/base/x.c 'int f(int a,int b);'
    refuses format 'src/base/x.c: not as clang-format writes it'
    put src/base/x.inc 'int  f(void);'
    refuses format './build.sh format mends it'
    put src/base/x.h '// clang-format off' 'int  f(void);' '// clang-format on'
    takes format
    put src/base/x.c "/* $(printf 'a%.0s' {1..94}) */"
    takes format
    put src/base/x.c "/* $(printf 'ä%.0s' {1..95}) */"
    refuses format 'src/base/x.c:1: wider than 100 columns'
    put tests/base/test_x.c '/* What it is for.' ' *' ' * needs: no sanitizer; runs: fake device */'
    takes format
    put tests/base/test_x.c '/* What it is for. needs: no' ' * sanitizer */'
    refuses format 'tests/base/test_x.c:1: what the test needs must stand on one line'
    put tests/base/test_x.c '/* What it is for. runs:' ' * fake device */'
    refuses format 'tests/base/test_x.c:1: what the test needs must stand on one line'
    put src/base/x.c 'int f(int a,int b);'
    "$checks/format.sh" --mend "$tree" >/dev/null
    takes format
    rm -rf "${tree:?}"/*
    refuses format 'no C files'
}

good_tree
layers_cases
headers_cases
sizes_cases
quotes_cases
examples_cases
format_cases
echo "   selftest: $cases cases"
