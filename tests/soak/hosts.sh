#!/usr/bin/env bash
# hosts.sh [TILTH]: two "hosts", network namespaces with a name and an address each, and MPI between them. Their ranks
# exchange and train; the bytes are those of one process with as many lanes. When the cable is cut, all leave within 30
# seconds, the chief with a message that names the rank; once it is mended the same command ends with the same bytes.
# Needs root, `ip` (iproute2) and Open MPI.
set -euo pipefail
cd "$(dirname "$0")/../.."
tilth=$(realpath "${1:-build/tilth}")
[[ -x $tilth ]] || { echo "hosts.sh: there is no $tilth: ./build.sh build makes build/tilth" >&2; exit 1; }
place=$(mktemp -d)
one=tilth-one-$$ two=tilth-two-$$
export TILTH_NUM_THREADS=1 HWLOC_COMPONENTS=-gl

clear_up()
{
    ip netns pids "$one" 2>/dev/null | xargs -r kill -KILL || true
    ip netns pids "$two" 2>/dev/null | xargs -r kill -KILL || true
    ip netns del "$one" 2>/dev/null || true
    ip netns del "$two" 2>/dev/null || true
    rm -rf "$place"
}
trap clear_up EXIT

ip netns add "$one"
ip netns add "$two"
ip link add one netns "$one" type veth peer name two netns "$two"
ip -n "$one" addr add 10.77.0.1/24 dev one
ip -n "$two" addr add 10.77.0.2/24 dev two
for side in "$one one" "$two two"; do
    # shellcheck disable=SC2086
    set -- $side
    ip -n "$1" link set lo up
    ip -n "$1" link set "$2" up
done

# What mpirun calls instead of ssh: HOST COMMAND...
cat >"$place/agent" <<AGENT
#!/usr/bin/env bash
shift
exec ip netns exec $two unshare --uts bash -c 'hostname two; exec "\$@"' sh bash -c "\$*"
AGENT
chmod +x "$place/agent"

each=1 # ranks of a host
# over COMMAND... : on both hosts
over()
{
    timeout 300 ip netns exec "$one" unshare --uts bash -c 'hostname one; exec "$@"' sh \
        mpirun --allow-run-as-root --bind-to none -H "10.77.0.1:$each,10.77.0.2:$each" --mca plm_rsh_agent "$place/agent" \
        --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
        -x TILTH_NUM_THREADS -x HWLOC_COMPONENTS "$@"
}
# logged FILE COMMAND... : what it says is shown when it fails
logged()
{
    local to=$1
    shift
    "$@" >"$to" 2>&1 || { cat "$to"; exit 1; }
}
# knock HOST ADDRESS : what is said by a host where nobody listens
knock()
{
    LC_ALL=C ip netns exec "$1" timeout 1 bash -c "exec 3<>/dev/tcp/$2/9" 2>&1 || true
}
# Behind a cable that was cut it takes hosts a second or two to find each other.
meet_again()
{
    local tries=0 there back
    while [[ $tries -lt 60 ]]; do
        there=$(knock "$one" 10.77.0.2)
        back=$(knock "$two" 10.77.0.1)
        [[ $there != *refused* || $back != *refused* ]] || return 0
        tries=$((tries + 1))
        sleep 0.1
    done
    echo "the cable is mended, and the hosts do not find each other"
    exit 1
}
wanted()
{
    grep -q "$1" "$2" || { printf 'expected "%s" in:\n' "$1"; cat "$2"; exit 1; }
}

logged "$place/check.txt" over "$tilth" launch --check --seconds=2
wanted 'over mpi' "$place/check.txt"
wanted '^0 *one ' "$place/check.txt"
wanted '^1 *two ' "$place/check.txt"
echo "   two hosts exchange"

# ranks: how many are still there
ranks()
{
    (ip netns pids "$one"; ip netns pids "$two") | xargs -r ps -o comm= -p | grep -c '^tilth$' || true
}
# cut COMMAND... : runs it, cuts the cable after a while, and waits until the ranks have left; mpirun itself waits for
# the other host for ever
cut_cable()
{
    local begin
    over "$@" >"$place/cut.txt" 2>&1 &
    while [[ $(ranks) -lt 2 && -n $(jobs -r) ]]; do sleep 0.1; done
    sleep 3
    [[ $(ranks) -eq 2 ]] || { echo "the run is not there when the cable is cut"; cat "$place/cut.txt"; exit 1; }
    ip -n "$one" link set one down
    begin=$SECONDS
    while [[ $(ranks) -gt 0 && $((SECONDS - begin)) -lt 40 ]]; do sleep 0.5; done
    took=$((SECONDS - begin))
    ip netns pids "$one" | xargs -r kill -KILL
    ip netns pids "$two" | xargs -r kill -KILL
    wait || true
    ip -n "$one" link set one up
    meet_again
    wanted 'rank 1 (host two' "$place/cut.txt"
    [[ $took -le 30 ]] || { echo "$took s after the cable was cut somebody was still there"; exit 1; }
    echo "   the cable is cut, all have left after $took s: $(grep -o 'rank 1 (host two.*' "$place/cut.txt" | head -n 1)"
}

words=(train --experiment=mock --mode=train tilth.seed=7 task.train_data.is_training=true trainer.steps_per_loop=500
    trainer.summary_interval=500 trainer.checkpoint_interval=5000 trainer.optimizer_config.optimizer.type=adam
    trainer.optimizer_config.learning_rate.type=constant
    trainer.optimizer_config.learning_rate.constant.learning_rate=0.01 tilth.lanes=2 runtime.distribution_strategy=multi_worker_mirrored
    task.train_data.global_batch_size=16 trainer.max_to_keep=100)
logged "$place/alone.txt" "$tilth" "${words[@]}" --model_dir="$place/alone" trainer.train_steps=200000
logged "$place/both.txt" over "$tilth" "${words[@]}" --model_dir="$place/both" trainer.train_steps=5000
echo "   two hosts train"

cut_cable "$tilth" "${words[@]}" --model_dir="$place/both" trainer.train_steps=200000
# To the next checkpoint: all the way takes minutes where the machine is busy.
last=$(find "$place/both" -name 'ckpt-*.safetensors' -printf '%f\n' | tr -dc '0-9\n' | sort -n | tail -n 1)
last=$((last < 195000 ? last + 5000 : 200000))
logged "$place/again.txt" over "$tilth" "${words[@]}" --model_dir="$place/both" trainer.train_steps=$last
cmp "$place/alone/ckpt-$last.safetensors" "$place/both/ckpt-$last.safetensors"
echo "   mended, the same command ends with the bytes of one process"

# With two ranks each, hosts add what they have before it travels.
each=2
words=(train --experiment=vision/local --mode=train tilth.seed=7 tilth.lanes=4 trainer.steps_per_loop=20
    trainer.summary_interval=20 trainer.checkpoint_interval=20 trainer.train_steps=40
    'task.model.backbone.cnn.units=[256,64]' runtime.all_reduce_alg=hierarchical_copy
    runtime.distribution_strategy=multi_worker_mirrored task.train_data.global_batch_size=32)
logged "$place/alone.txt" "$tilth" "${words[@]}" --model_dir="$place/levels-1"
logged "$place/levels.txt" over "$tilth" "${words[@]}" --model_dir="$place/levels-2"
! grep 'adds at one level' "$place/levels.txt" || exit 1
cmp "$place/levels-1/ckpt-40.safetensors" "$place/levels-2/ckpt-40.safetensors"
echo "   in two levels: the bytes of one process"
