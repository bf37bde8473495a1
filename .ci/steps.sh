# Runs named steps one after another, each with a time limit; read by .ci/test and .ci/run.
#
#   step SECONDS NAME COMMAND…   runs it, goes on after a failure
#   steps_end                    prints the table, exits 1 when a step failed

export CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never
steps_table=
steps_failed=0
steps_began=$SECONDS
step_pid=

step() {
    local limit=$1 name=$2 began=$SECONDS code=0 word=ok
    shift 2
    printf '\n=== %s: %s\n' "$name" "$*"
    # In the background, so that a signal to us reaches the step at once; timeout passes it on.
    timeout --kill-after=20 "$limit" "$@" </dev/null &
    step_pid=$!
    wait "$step_pid" || code=$?
    step_pid=
    if [ "$code" != 0 ]; then
        word=FAILED
        if [ "$code" = 124 ]; then word="FAILED (over $limit s)"; fi
        steps_failed=$((steps_failed + 1))
    fi
    printf -- '--- %s: %s, %d s\n' "$name" "$word" $((SECONDS - began))
    steps_table+=$(printf '%6d s  %-34s %s' $((SECONDS - began)) "$name" "$word")$'\n'
}

steps_end() {
    printf '\n%s%6d s  in all\n' "$steps_table" $((SECONDS - steps_began))
    [ "$steps_failed" = 0 ] || { echo "$steps_failed steps failed"; exit 1; }
}

steps_stop() {
    [ -z "$step_pid" ] || kill -TERM "$step_pid" 2>/dev/null || true
    exit 130
}
trap steps_stop INT TERM
