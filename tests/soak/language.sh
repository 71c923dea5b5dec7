#!/usr/bin/env bash
# A small BERT on real text, against PyTorch with the same network, recipe, batches and first weights (language_peer.py):
# pre-trained with documentation and dictionaries of Debian, then fine-tuned to judge film reviews and to sort packages
# into sections. The means over five seeds differ by at most 0.5 points, and pre-training helps. The texts are fetched into
# build/language, once. TILTH_SEEDS asks for another number of seeds. About 50 minutes on two cores.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

packages=(anarchism debian-handbook debian-policy debian-reference-en developers-reference dict-gcide fortunes maint-guide
          manpages mythes-en-us wordnet-base)
digest=5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9
texts=build/language

fetch_packages()
{
    local package
    apt-cache show --no-all-versions "${packages[@]}" >/dev/null 2>&1 || apt_get update
    (cd "$1" && apt-get -q download "${packages[@]}")
    for package in "$1"/*.deb; do dpkg -x "$package" "$1/tree"; done
}

# Sentences that people have rated; MIT licence.
fetch_ratings()
{
    .venv-hf/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$1" \
        vaderSentiment==3.3.2
    echo "$digest  $1/vaderSentiment-3.3.2.tar.gz" | sha256sum --check --quiet
    tar -xzf "$1/vaderSentiment-3.3.2.tar.gz" -C "$1" --strip-components=2 --wildcards '*/hutto_ICWSM_2014.tar.gz'
    tar -xzf "$1/hutto_ICWSM_2014.tar.gz" -C "$1"
}

fetch()
{
    rm -rf "$texts"
    mkdir -p "$texts"
    fetch_packages "$texts"
    fetch_ratings "$texts"
    apt-cache dumpavail | .venv-hf/bin/python tests/soak/language_data.py "$texts/tree" "$texts/hutto_ICWSM_2014" "$texts"
    echo "${packages[*]}" >"$texts/fetched"
}

build_release
build_hugging_face
[[ $(cat "$texts/fetched" 2>/dev/null) == "${packages[*]}" ]] || fetch
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$texts"/*.txt "$texts"/*.csv "$folder"
.venv-hf/bin/python tests/soak/language_peer.py build/tilth "$folder" "${TILTH_SEEDS:-5}" \
    || die "language: ours is not PyTorch's, or pre-training does not help, as told above"
