#!/usr/bin/env bash
# headers.sh [ROOT]: every public header compiles alone, and twice, as C17 and as C++17, with both
# compilers, without a warning and without any macro of ours being set first. In C++ a header alone meets the <math.h> of
# the C library, for that of the C++ library takes longer to read than all else: all together meet this one.
set -euo pipefail
root=${1:-$(dirname "$0")/../..}
cd "$root/include"

mapfile -t headers < <(find tilth -name '*.h' | sort)
[[ ${#headers[@]} -gt 0 ]] || { echo "headers: none below $root/include"; exit 1; }

compile_alone()
{
    local header=$1 compiler failed=0 c_math=-D_GLIBCXX_INCLUDE_NEXT_C_HEADERS
    for compiler in "gcc -x c -std=c17" "clang -x c -std=c17" \
        "g++ -x c++ -std=c++17 $c_math" "clang++ -x c++ -std=c++17 $c_math"; do
        # shellcheck disable=SC2086 # the compiler and its options
        printf '#include <%s>\n#include <%s>\nextern int alone;\n' "$header" "$header" \
            | ${compiler%% *} -I. ${compiler#* } -Wall -Wextra -Wpedantic -Werror -fsyntax-only - \
            || { echo "$header does not compile alone: $compiler"; failed=1; }
    done
    return "$failed"
}
export -f compile_alone

compile_together()
{
    printf '#include <%s>\n' "${headers[@]}" "${headers[@]}" \
        | "$1" -I. -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only - \
        || { echo "the headers do not compile together: $1"; return 1; }
}

printf '%s\n' "${headers[@]}" | xargs -P "$(nproc)" -I{} bash -c 'compile_alone {}'
for compiler in g++ clang++; do compile_together "$compiler"; done
echo "   headers: ${#headers[@]} compile alone"
