#!/usr/bin/env bash
# format.sh [--mend] [ROOT]: every C file is as clang-format 14 (Debian 12's) writes it with .clang-format, and no line is
# wider than 100 columns. Prints the files that are not, and what mends them; --mend does it.
set -euo pipefail
mend=
[[ ${1:-} != --mend ]] || { mend=1; shift; }
root=${1:-$(dirname "$0")/../..}
cd "$root"

version=14
widest=100

files()
{
    local folder
    for folder in include src tool tests bench examples; do
        [[ ! -d $folder ]] || find "$folder" -name '*.[ch]' -o -name '*.inc' -o -name '*.def'
    done | sort
}

# The name says to clang-format that it is C, for it takes some headers for Objective-C.
formatted()
{
    "$tool" --assume-filename="$PWD/x.c" <"$1"
}

# strange FILE... : prints those that are not formatted; with `mend` formats them.
strange()
{
    local file
    for file in "$@"; do
        formatted "$file" >"$room/$BASHPID" || exit 1
        cmp -s "$room/$BASHPID" "$file" && continue
        if [[ $mend ]]; then cat "$room/$BASHPID" >"$file"; fi
        printf '%s\n' "$file"
    done
}

# Prints a clang-format of the version.
find_tool()
{
    local name
    for name in "clang-format-$version" clang-format; do
        if command -v "$name" >/dev/null && [[ $("$name" --version) == *"version $version."* ]]; then
            printf '%s\n' "$name"
            return
        fi
    done
    return 1
}

mapfile -t sources < <(files)
[[ ${#sources[@]} -gt 0 ]] || { echo "format: no C files below $root"; exit 1; }
if ! tool=$(find_tool); then
    echo "   format: SKIPPED, it needs clang-format $version (there is $(clang-format --version 2>/dev/null || echo none))"
    [[ -z $mend ]] || exit 1
    exit 0
fi

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
export tool room mend
export -f formatted strange
found=$(printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -n 20 bash -euc 'strange "$@"' format | sort)
if [[ $mend ]]; then
    [[ -z $found ]] || printf '%s\n' "$found"
elif [[ -n $found ]]; then
    sed 's/$/: not as clang-format writes it/' <<<"$found"
fi
wide=$(LC_ALL=C.UTF-8 grep -nE ".{$((widest + 1)),}" "${sources[@]}" /dev/null | cut -d: -f1,2 || true)
[[ -z $wide ]] || sed "s/\$/: wider than $widest columns/" <<<"$wide"
[[ -n $mend || -z $found ]] || echo "format: ./build.sh format mends it"
[[ -z $wide && (-n $mend || -z $found) ]] || exit 1
echo "   format: ${#sources[@]} files"
