#!/usr/bin/env bash
# format.sh [--mend] [ROOT]: every C file is as clang-format 14 (Debian 12's) writes it with .clang-format, no line is
# wider than 100 columns, and none ends in what tests/CMakeLists.txt looks for: clang-format wraps comments there, too.
# Prints the files that are not, and what mends them; --mend does it.
set -euo pipefail
mend=
[[ ${1:-} != --mend ]] || { mend=1; shift; }
root=${1:-$(dirname "$0")/../..}
cd "$root"

version=14
widest=100

folders=(include src tool tests bench examples)

files()
{
    local folder
    for folder in "${folders[@]}"; do
        [[ ! -d $folder ]] || find "$folder" -name '*.[ch]' -o -name '*.inc' -o -name '*.def'
    done | sort
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
cp --parents "${sources[@]}" "$room"
[[ ! -f .clang-format ]] || cp .clang-format "$room"
(cd "$room" && printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -n 40 "$tool" -i)
found=$(for folder in "${folders[@]}"; do
    [[ -d $room/$folder ]] || continue
    diff -rq "$folder" "$room/$folder" | sed -n 's/^Files \(.*\) and .* differ$/\1/p' || true
done)
if [[ $mend && -n $found ]]; then
    while read -r file; do cat "$room/$file" >"$file"; done <<<"$found"
fi
if [[ $mend ]]; then
    [[ -z $found ]] || printf '%s\n' "$found"
elif [[ -n $found ]]; then
    sed 's/$/: not as clang-format writes it/' <<<"$found"
fi
wide=$(LC_ALL=C.UTF-8 grep -nE ".{$((widest + 1)),}" "${sources[@]}" /dev/null | cut -d: -f1,2 || true)
[[ -z $wide ]] || sed "s/\$/: wider than $widest columns/" <<<"$wide"
split=$(grep -nE '\b(needs|runs|takes):( no| address| fake)?$' "${sources[@]}" /dev/null | grep '^tests/' | cut -d: -f1,2 || true)
[[ -z $split ]] || sed 's/$/: what the test needs must stand on one line/' <<<"$split"
[[ -n $mend || -z $found ]] || echo "format: ./build.sh format mends it"
[[ -z $wide && -z $split && (-n $mend || -z $found) ]] || exit 1
echo "   format: ${#sources[@]} files"
