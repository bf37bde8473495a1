# Runs named steps one after another, each with a time limit; read by .ci/test and .ci/run.
#
#   step SECONDS NAME COMMAND…    runs it, goes on after a failure
#   beside SECONDS NAME COMMAND…  begins it, and the steps that follow run beside it
#   joined                        waits for that, and prints what it said
#   steps_end                     prints the table, exits 1 when a step failed

export CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never
steps_table=
steps_failed=0
steps_began=$SECONDS
step_pid=
beside_pid=
beside_said=

step() {
    local limit=$1 name=$2 began=$SECONDS code=0
    shift 2
    printf '\n=== %s: %s\n' "$name" "$*"
    # In the background, so that a signal to us reaches the step at once; timeout passes it on.
    timeout --kill-after=20 "$limit" "$@" </dev/null &
    step_pid=$!
    wait "$step_pid" || code=$?
    step_pid=
    step_ended "$limit" "$name" "$began" "$code"
}

step_ended() {
    local limit=$1 name=$2 began=$3 code=$4 word=ok
    if [ "$code" != 0 ]; then
        word=FAILED
        if [ "$code" = 124 ]; then word="FAILED (over $limit s)"; fi
        steps_failed=$((steps_failed + 1))
    fi
    printf -- '--- %s: %s, %d s\n' "$name" "$word" $((SECONDS - began))
    steps_table+=$(printf '%6d s  %-34s %s' $((SECONDS - began)) "$name" "$word")$'\n'
}

beside() {
    beside_limit=$1 beside_name=$2 beside_began=$SECONDS
    shift 2
    beside_said=$(mktemp)
    printf '\n=== %s, beside what follows: %s\n' "$beside_name" "$*"
    timeout --kill-after=20 "$beside_limit" "$@" </dev/null >"$beside_said" 2>&1 &
    beside_pid=$!
}

joined() {
    local code=0
    wait "$beside_pid" || code=$?
    beside_pid=
    cat "$beside_said"
    rm -f "$beside_said"
    step_ended "$beside_limit" "$beside_name" "$beside_began" "$code"
}

steps_end() {
    printf '\n%s%6d s  in all\n' "$steps_table" $((SECONDS - steps_began))
    [ "$steps_failed" = 0 ] || { echo "$steps_failed steps failed"; exit 1; }
}

steps_stop() {
    for pid in $step_pid $beside_pid; do kill -TERM "$pid" 2>/dev/null || true; done
    [ -z "$beside_said" ] || rm -f "$beside_said"
    exit 130
}
trap steps_stop INT TERM
