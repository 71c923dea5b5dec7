#!/usr/bin/env bash
# check.sh WANTED FILES PROGRAM [ARGUMENT...]: runs an example in an empty folder of its own.
# It must end well, say something that fits the regular expression WANTED, and leave the FILES (patterns,
# with spaces between them).
set -euo pipefail
wanted=$1 files=$2
shift 2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
code=0
"$@" >said.txt 2>&1 || code=$?
cat said.txt
[[ $code -eq 0 ]] || { echo "check: the program ended with $code"; exit 1; }
grep -qE -- "$wanted" said.txt || { echo "check: it said nothing like: $wanted"; exit 1; }
for file in $files; do
    compgen -G "$file" >/dev/null || { echo "check: it left no $file"; exit 1; }
done
