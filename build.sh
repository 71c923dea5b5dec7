#!/usr/bin/env bash
# The door of the project: `./build.sh help` lists the words it knows. From a bare Debian 12 each word
# installs what it needs, builds and runs; a second time it only does what is new.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

BUILD_PACKAGES=(gcc libc6-dev cmake ninja-build pkg-config libyaml-dev libjansson-dev libpng-dev
                libjpeg62-turbo-dev zlib1g-dev libmicrohttpd-dev)
FORMAT_PACKAGES=(clang-format-14)
MPI_PACKAGES=(openmpi-bin libopenmpi-dev)
TEST_PACKAGES=(g++ clang lld libclang-rt-14-dev libcmocka-dev universal-ctags "${FORMAT_PACKAGES[@]}" "${MPI_PACKAGES[@]}")
PYTHON_PACKAGES=(python3 python3-venv)
BROWSER_PACKAGES=(chromium python3) # the page is tested in a real browser; 71 MB
BENCH_PACKAGES=(libopenblas0-pthread dataset-fashion-mnist "${MPI_PACKAGES[@]}")
DEMO_PACKAGES=(dataset-fashion-mnist)

# Of build/test. What its tests compile while they run serves those of the other builds too.
TEST_OPTIONS=(-DCMAKE_C_COMPILER=gcc -DTILTH_TESTS=ON -DTILTH_WERROR=ON "-DTILTH_TEST_CACHE=$PWD/build/compiled")
FUZZ_SECONDS=2 # for each target, in `test`

die()
{
    printf 'build.sh: %s\n' "$*" >&2
    exit 1
}

# --- packages -------------------------------------------------------------------------------------

missing_packages()
{
    local package
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed \
            || printf '%s\n' "$package"
    done
}

as_root()
{
    if [[ $EUID == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root or sudo: $*"
    fi
}

apt_get()
{
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@"
}

# Lists are fetched only when a package is not in them, or when they turn out to be stale.
install_packages()
{
    [[ $EUID == 0 ]] || command -v sudo >/dev/null \
        || die "these packages are missing, and there is neither root nor sudo to install them: $*"
    echo "installing: $*"
    apt-cache show --no-all-versions "$@" >/dev/null 2>&1 || apt_get update
    if ! apt_get install -y --no-install-recommends "$@"; then
        apt_get update
        apt_get install -y --no-install-recommends "$@"
    fi
}

need_packages()
{
    command -v dpkg-query >/dev/null || return 0 # another system: its owner knows what is there
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [[ ${#missing[@]} == 0 ]] || install_packages "${missing[@]}"
}

# quietly LOG COMMAND... : what it says is shown only when it fails.
quietly()
{
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 || { cat "$log"; return 1; }
}

# --- building -------------------------------------------------------------------------------------

# configure FOLDER OPTION... : unless it was done with the same options before.
configure()
{
    local folder=$1 stamp=$1/.configured
    shift
    [[ -f $folder/build.ninja && -f $stamp && $(<"$stamp") == "$*" ]] && return
    quietly "$folder/configure.txt" cmake -S . -B "$folder" -G Ninja "$@"
    printf '%s\n' "$*" >"$stamp"
}

# compile_targets TARGETS FOLDER OPTION... : configures, builds, and shows people its progress.
compile_targets()
{
    local targets
    read -ra targets <<<"$1"
    shift
    configure "$@"
    if [[ -t 1 ]]; then
        ninja -C "$1" "${targets[@]}"
    else
        ninja -C "$1" --quiet "${targets[@]}" | sed '/no work to do/d'
    fi
}

compile()
{
    compile_targets all "$@"
}

build_release()
{
    need_packages "${BUILD_PACKAGES[@]}"
    compile build -DCMAKE_C_COMPILER=gcc
}

build_fuzzers()
{
    need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    compile_targets fuzzers build/fuzz -DCMAKE_C_COMPILER=clang -DTILTH_TESTS=ON -DTILTH_WERROR=ON \
        -DTILTH_SANITIZE=fuzzer
}

# With guarded memory in place of the address sanitizer (tests/fuzz/guarded_memory.c), several times as fast.
build_fast_fuzzers()
{
    compile_targets fuzzers build/fuzz-fast -DCMAKE_C_COMPILER=clang -DTILTH_TESTS=ON -DTILTH_WERROR=ON \
        -DTILTH_SANITIZE=fuzzer -DTILTH_FUZZ_GUARDED=ON
}

# build_venv [FOLDER LIST]: a virtual environment, filled once for each state of its list.
build_venv()
{
    local folder=${1:-.venv} list=${2:-tests/interop/requirements.txt}
    local stamp=$folder/.installed
    need_packages "${PYTHON_PACKAGES[@]}"
    [[ -f $list ]] || die "$list is missing"
    [[ -x $folder/bin/python ]] || python3 -m venv "$folder"
    cmp -s "$list" "$stamp" && return
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$list"
    cp "$list" "$stamp"
}

# Model Garden, with TensorFlow.
build_original()
{
    build_venv .venv-tf tests/interop/requirements-original.txt
}

# Hugging Face's transformers, with PyTorch.
build_hugging_face()
{
    build_venv .venv-hf tests/interop/requirements-huggingface.txt
}

# What the peers of a benchmark need: PyTorch and TensorFlow are large and have environments of their own.
build_peers()
{
    local peer
    for peer in bench/peers/"$1".py bench/peers/"$1"_tf.py bench/peers/"$1"_torch.py; do
        [[ -f $peer ]] || continue
        if [[ $peer == *_tf.py ]]; then
            build_original
        elif grep -q '^import torch' "$peer"; then
            build_venv .venv-torch bench/peers/requirements.txt
            need_packages "${BENCH_PACKAGES[@]}"
        else
            build_venv
        fi
    done
}

# --- demo -----------------------------------------------------------------------------------------

# show LINES COMMAND... : prints the command, runs it, prints the first lines of what it says.
show()
{
    local lines=$1
    shift
    printf '\n$ %s\n' "$*"
    "$@" 2>&1 | awk -v lines="$lines" 'NR <= lines { print }
        END { if (NR > lines) printf "... (%d lines more)\n", NR - lines }'
}

# Trains to the end, or until somebody says Ctrl-C; the next time goes on from there.
train_demo()
{
    local run=$1 status=0
    local command=(tilth train --experiment=fashion_mnist/cnn --mode=train_and_eval "--model_dir=$run")
    [[ ! -f $run/finished ]] || rm -r "$run"
    printf '\n$ %s\n' "${command[*]}"
    "${command[@]}" --verbosity=-1 || status=$?
    [[ $status != 3 ]] || echo "stopped, and saved: ./build.sh demo goes on from there"
    [[ $status == 0 ]] || exit "$status"
    touch "$run/finished"
}

word_demo()
{
    build_release
    need_packages "${DEMO_PACKAGES[@]}"
    export PATH=$PWD/build:$PATH
    local run=build/demo/fashion_mnist status=0
    local images=/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz
    local change=trainer.optimizer_config.optimizer.adam.beta_1=0.8
    train_demo "$run"
    show 10 tilth eval "--model_dir=$run" --checkpoint=best --verbosity=-1
    [[ ! -f $images ]] || show 10 tilth predict "--model_dir=$run" --count=4 "$images" --verbosity=-1
    printf '\nwhat %s changes:\n' "$change"
    diff -U 1 <(tilth params --experiment=fashion_mnist/cnn) \
        <(tilth params --experiment=fashion_mnist/cnn "$change") | tail -n +4 || true
    show 10 tilth params --experiment=fashion_mnist/cnn "${change/beta/bata}" || status=$?
    echo "(exit code $status)"
    [[ $status != 0 ]] || die "the demo's mistake was not noticed"
}

# --- test -----------------------------------------------------------------------------------------

passed=0 # tests and checks so far
running= # the stage that ends everything when it fails

tell_failure()
{
    [[ -z $running ]] || printf 'FAILED: %s (%d passed before it)\n' "$running" "$passed"
}

# stage NAME COMMAND... : runs it and tells how long it took.
stage()
{
    local from=$SECONDS
    running=$1
    shift
    printf '== %s\n' "$running"
    "$@"
    printf '   %d s\n' $((SECONDS - from))
    running=
}

# Address space randomisation confuses the older sanitizers on newer kernels.
without_aslr()
{
    if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

# Counts the cmocka cases in CTest's log; a test that shows none counts as one.
count_cases()
{
    awk '/^[0-9]+\/[0-9]+ Testing: / { total += tests && !cases; tests++; cases = 0 }
         /^\[       OK \]/ { cases++; total++ }
         END { print total + (tests && !cases) }' "$1/Testing/Temporary/LastTest.log"
}

run_tests()
{
    local folder=$1 cases
    local which=(--label-exclude soak)
    [[ -z ${TILTH_ALL_CASES:-} ]] || which=()
    quietly "$folder/ctest.txt" without_aslr ctest --test-dir "$folder" --output-on-failure \
        --no-tests=error --parallel "$(nproc)" "${which[@]}"
    cases=$(count_cases "$folder")
    echo "   $cases cases"
    passed=$((passed + cases))
}

compile_and_test()
{
    compile "$@"
    run_tests "$1"
}

# check SCRIPT ARGUMENT... : one that prints what it found and fails.
check()
{
    "$@"
    passed=$((passed + 1))
}

run_checks()
{
    local name
    for name in layers headers sizes quotes format examples selftest; do check "tests/checks/$name.sh"; done
}

fuzz_targets()
{
    find tests/fuzz -name 'fuzz_*.c' | sed 's,.*/fuzz_,,; s,\.c$,,' | sort
}

# fuzz_one NAME OPTION... : new inputs go below build/, seeds come from the corpus. The program is one of FUZZERS, where that is set.
fuzz_one()
{
    local fuzzers=${FUZZERS:-build/fuzz}
    local name=$1 corpus=tests/fuzz/corpus/$1 new=build/fuzz/new/$1 found=build/fuzz/found/$1
    shift
    [[ -x $fuzzers/fuzz_$name ]] \
        || die "no fuzz target '$name'; there are: $(fuzz_targets | xargs)"
    [[ -d $corpus ]] || die "$corpus has no seeds"
    mkdir -p "$new" "$found"
    local options=(-timeout=10 -rss_limit_mb=2048 "-artifact_prefix=$found/")
    [[ ! -f tests/fuzz/$name.dict ]] || options+=("-dict=tests/fuzz/$name.dict")
    # Longer texts show nothing new, and take their time.
    case $name in
    text_* | tokenizer_json | vocab) options+=(-max_len=1024) ;;
    python) options+=(-max_len=512) ;; # each construct is a seed of its own; a long file is read anew for each change
    csv | table) options+=(-max_len=256) ;; # more rows of the same
    esac
    # The fuzzer looks for leaks after each input; once more at the end takes four seconds on AArch64 and shows no others.
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}leak_check_at_exit=0 \
        without_aslr "$fuzzers/fuzz_$name" "${options[@]}" "$@" "$new" "$corpus"
}

# All seeds, then a little more: the same inputs every time, for chance belongs to `fuzz` and `soak fuzz`.
fuzz_briefly()
{
    local log=build/fuzz/$1.txt
    quietly "$log" fuzz_one "$1" -seed=1 "-max_total_time=$FUZZ_SECONDS"
    echo "   $1: $(sed -n 's/^Done \([0-9]*\) runs.*/\1 inputs/p' "$log")"
}

fuzz_all()
{
    build_fuzzers
    export -f fuzz_briefly quietly fuzz_one fuzz_targets without_aslr die
    export FUZZ_SECONDS
    fuzz_targets | xargs -r -P "$(nproc)" -I{} bash -euc 'fuzz_briefly {}'
    passed=$((passed + $(fuzz_targets | wc -l)))
}

word_test()
{
    local gcc=("${TEST_OPTIONS[@]}")
    local clang=("${TEST_OPTIONS[@]/gcc/clang}" -DTILTH_COMPILE_ONLY=ON)
    SECONDS=0
    trap tell_failure EXIT
    stage "packages" need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${BROWSER_PACKAGES[@]}"
    stage "checks: layers, headers, sizes, format" run_checks
    stage "gcc" compile_and_test build/test "${gcc[@]}"
    stage "clang, warnings only" compile build/clang "${clang[@]}"
    stage "address and undefined-behaviour sanitizers" \
        compile_and_test build/asan "${gcc[@]}" -DTILTH_SANITIZE=address
    stage "thread sanitizer" compile_and_test build/tsan "${gcc[@]}" -DTILTH_SANITIZE=thread
    stage "docs/mistakes.md is what the program says" check tests/tool/mistakes.sh build/test/tilth
    stage "the page, in a browser" check python3 tests/browser/run.py build/test/tilth build/test/pictures
    stage "install" check tests/install/run.sh build/test
    stage "fuzz: seeds and a few seconds more" fuzz_all
    printf 'all done in %d s\n%d passed, 0 failed\n' "$SECONDS" "$passed"
}

# --- the other words ------------------------------------------------------------------------------

# The plug-in for mpirun. Who may install nothing has a program without it.
need_mpi()
{
    (need_packages "${MPI_PACKAGES[@]}") || {
        echo "Open MPI cannot be installed: this is built for processes of one machine, without libtilth_mpi.so"
        return
    }
    # What was configured before it was there has to look again.
    grep -qs libtilth_mpi build/build.ninja || rm -f build/.configured
}

word_build()
{
    need_packages "${BUILD_PACKAGES[@]}"
    need_mpi
    build_release
}

word_install()
{
    local prefix=${1:-/usr/local} run=()
    word_build
    mkdir -p "$prefix" 2>/dev/null || true
    [[ -w $prefix ]] || run=(as_root)
    "${run[@]}" cmake --install build --prefix "$prefix"
    case $prefix in /usr | /usr/local) as_root ldconfig ;; esac
}

# needs WORDS NAME... : whether one of these checks (all, without names) has one of the words: compares with a peer that
# is large.
needs()
{
    local words=$1 name
    shift
    [[ $# != 0 ]] || return 0
    for name in "$@"; do
        ! grep -qsE "$words" "tests/interop/check_$name.py" || return 0
    done
    return 1
}

# Where the tests were built, the program and the library are there already.
word_interop()
{
    local folder=build without= hugging_face=venv-hf
    [[ $(uname -m) == aarch64 ]] || hugging_face='venv-hf|with_torch' # tests/interop/requirements.txt
    [[ ${1:-} != --without-original ]] || { without=1; shift; }
    if [[ -f build/test/.configured ]]; then
        folder=build/test
        compile_targets "tilth_program tilth_static" "$folder" "${TEST_OPTIONS[@]}"
    else
        build_release
    fi
    build_venv
    [[ $without ]] || ! needs 'venv-tf|model_garden' "$@" || build_original
    [[ $without ]] || ! needs "$hugging_face" "$@" || build_hugging_face
    TILTH=$PWD/$folder/tilth .venv/bin/python tests/interop/run.py "$@"
}

bench_names()
{
    local file name
    for file in bench/bench_*.c bench/*.sh bench/*.py; do
        [[ -f $file ]] || continue
        name=$(basename "${file%.*}")
        printf '%s\n' "${name#bench_}"
    done | sort -u | xargs
}

word_bench()
{
    local name=${1:-} result=build/bench/${1:-}.json
    [[ " $(bench_names) " == *" $name "* && -n $name ]] \
        || die "no benchmark '$name'; there are: $(bench_names)"
    build_release
    mkdir -p build/bench
    if [[ -f bench/$name.sh ]]; then
        TILTH=$PWD/build/tilth bash "bench/$name.sh" "$result"
    elif [[ -f bench/$name.py ]]; then
        build_venv
        ! grep -q 'venv-tf' "bench/$name.py" || build_original
        TILTH=$PWD/build/tilth .venv/bin/python "bench/$name.py" "$result"
    else
        build_peers "$name"
        compile build/bench-build -DCMAKE_C_COMPILER=gcc -DTILTH_BENCH=ON
        "build/bench-build/bench/bench_$name" "$result"
    fi
    echo "wrote $result"
}

word_fuzz()
{
    [[ $# == 2 && $2 =~ ^[1-9][0-9]*$ ]] || die "usage: ./build.sh fuzz NAME SECONDS"
    build_fuzzers
    fuzz_one "$1" "-max_total_time=$2" -print_final_stats=1
}

word_soak()
{
    local script
    if [[ $# -gt 0 && ! -f tests/soak/$1.sh ]]; then
        die "no soak test '$1'; there are: $(basename -s .sh tests/soak/*.sh | xargs)"
    fi
    build_release
    for script in tests/soak/${1:-*}.sh; do bash "$script"; done
}

word_format()
{
    need_packages "${FORMAT_PACKAGES[@]}"
    tests/checks/format.sh --mend
}

word_help()
{
    cat <<'TEXT'
usage: ./build.sh WORD
  demo               build the program, train a model in a minute, and show what else there is
  test               build and run all tests and checks
  build              build the program (build/tilth) and the libraries
  install [PREFIX]   build and install, into /usr/local when nothing is said
  interop [NAME...]  run the checks against other readers of our files (Python), against Model Garden itself
                     (TensorFlow, 2 GB) and Hugging Face's transformers (PyTorch); --without-original leaves these out
  bench NAME         run a benchmark; its result is build/bench/NAME.json
  fuzz NAME SECONDS  fuzz one parser
  soak [NAME]        run the long tests, or one of them
  format             write all C files as clang-format does, which is what the checks ask for
  help               this list
TEXT
}

main()
{
    local word=${1:-help}
    [[ $# == 0 ]] || shift
    case $word in
    demo | test | build | install | interop | bench | fuzz | soak | format | help) "word_$word" "$@" ;;
    -h | --help) word_help ;;
    *)
        word_help >&2
        die "no word '$word'"
        ;;
    esac
}

# The soak tests read this file for its functions.
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
