#!/usr/bin/env bash
# Trains every point of a grid over a configuration, several at a time, and shows the results in one table.
#
#   scripts/sweep.sh --config CONFIG [key=v1,v2 ...] [-j N] [--dir DIR] [--dry-run]
#
#   scripts/sweep.sh --config mlp optim.lr=0.001,0.003 seed=1,2,3 -j 2
#
#   --config CONFIG  as for train: a YAML file or the name of an embedded configuration
#   key=v1,v2        values of the grid; commas inside [], {} or quotes separate nothing
#   -j N             so many processes at once (1), which share the cores evenly
#   --dir DIR        where the runs go (runs/sweep-CONFIG)
#   --dry-run        list the points and what would be done with each
#
# The same command again goes on where a sweep was stopped or killed: points that are done are skipped, others are resumed from
# their newest checkpoint or, where there is none, run anew. Ctrl-C lets the running points save; once more leaves at once.
# DIR/index.tsv maps each point to its run folder. Each point has a folder of its own, which holds its runs and output.txt.
#
# Exit codes: 0 all points are done, 1 some failed, 2 usage or configuration, 130 interrupted; others as of train.
# HALFSTEP_TRAIN names a train binary to use instead of building one.
set -uo pipefail

usage() { sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p;}' "$0"; }
fail() { local code=$1; shift; printf 'sweep: %s\n' "$@" >&2; exit "$code"; }
bad() { fail 2 "$*" "scripts/sweep.sh --help tells more"; }

# parse_args fills config, jobs, dir, dry_run, and the grid: keys, and for each a line of values.
parse_args() {
  config='' jobs=1 dir='' dry_run=false keys=() values=()
  while [ $# -gt 0 ]; do
    case $1 in
      --config | -j | --jobs | --dir) [ $# -ge 2 ] || bad "$1 wants a value" ;;
    esac
    case $1 in
      --config) config=$2; shift ;;
      --config=*) config=${1#*=} ;;
      -j | --jobs) jobs=$2; shift ;;
      --jobs=*) jobs=${1#*=} ;;
      -j*) jobs=${1#-j} ;;
      --dir) dir=$2; shift ;;
      --dir=*) dir=${1#*=} ;;
      --dry-run) dry_run=true ;;
      -h | --help) usage; exit 0 ;;
      -*) bad "unknown option $1" ;;
      *=*) add_key "${1%%=*}" "${1#*=}" ;;
      *) bad "argument \"$1\": want key=value or key=value,value" ;;
    esac
    shift
  done
  [ -n "$config" ] || bad "--config is missing"
  case $jobs in '' | *[!0-9]* | 0*) bad "-j $jobs: want a whole number from 1 on" ;; esac
  if [ -z "$dir" ]; then
    dir=$(basename "$config")
    dir=runs/sweep-${dir%.yaml}
  fi
}

add_key() {
  local key=$1 k
  [ -n "$key" ] || bad "argument \"=$2\": the key is missing"
  [ "$key" != runs_dir ] || bad "runs_dir is where the sweep keeps each point: use --dir"
  for k in ${keys[@]+"${keys[@]}"}; do
    [ "$k" != "$key" ] || bad "$key is given twice"
  done
  split_values "$key" "$2"
  keys+=("$key")
  values+=("$split")
}

# split_values puts the values, one a line, into split.
split_values() {
  local text=$2 depth=0 quote='' value='' c i several=false
  split=''
  case $text in *$'\n'*) bad "$1: a value has a line break" ;; esac
  for ((i = 0; i <= ${#text}; i++)); do
    c=${text:i:1}
    if [ -z "$quote" ] && { [ -z "$c" ] || { [ "$c" = , ] && [ $depth -eq 0 ]; }; }; then
      [ "$c" != , ] || several=true
      [ -n "$value" ] || ! $several || bad "$1=$text: a value between commas is empty"
      case $'\n'$split in *$'\n'"$value"$'\n'*) bad "$1=$text: $value is given twice" ;; esac
      split+=$value$'\n'
      value=''
      continue
    fi
    case $c in
      '[' | '{') [ -n "$quote" ] || depth=$((depth + 1)) ;;
      ']' | '}') [ -n "$quote" ] || depth=$((depth - 1)) ;;
      '"' | "'") if [ -z "$quote" ]; then quote=$c; elif [ "$quote" = "$c" ]; then quote=''; fi ;;
    esac
    value+=$c
  done
  if [ -n "$quote" ] || [ $depth -ne 0 ]; then bad "$1=$text: a bracket or quote is not closed"; fi
  split=${split%$'\n'}
}

# expand fills points: the arguments of each, one a line.
expand() {
  points=('')
  local k point value next
  for ((k = 0; k < ${#keys[@]}; k++)); do
    next=()
    for point in "${points[@]}"; do
      while IFS= read -r value; do
        next+=("$point${point:+$'\n'}${keys[k]}=$value")
      done <<<"${values[k]}"
    done
    points=("${next[@]}")
  done
}

# arguments puts the arguments of point $1 into args.
arguments() {
  args=()
  local line
  [ -z "${points[$1]}" ] || while IFS= read -r line; do args+=("$line"); done <<<"${points[$1]}"
}

# label names point $1 by the keys that have several values.
label() {
  local k=0 line text=''
  while IFS= read -r line; do
    case ${values[k]:-} in *$'\n'*) text+=" $line" ;; esac
    k=$((k + 1))
  done <<<"${points[$1]}"
  text=${text# }
  printf '%s' "${text:-$config}"
}

prepare_train() {
  scratch=$(mktemp -d) || fail 1 "no temporary folder"
  train=${HALFSTEP_TRAIN:-}
  if [ -z "$train" ]; then
    train=$scratch/train
    go build -C "$(dirname "${BASH_SOURCE[0]}")/.." -o "$train" ./cmd/train || fail 1 "train does not build"
  fi
}

# resolve gives every point its folder, whose name has a checksum of the resolved configuration: a point whose configuration
# has changed is another point.
resolve() {
  folders=()
  local p sum name code
  for ((p = 0; p < ${#points[@]}; p++)); do
    arguments $p
    "$train" --config "$config" ${args[@]+"${args[@]}"} --dry-run >"$scratch/plan" 2>"$scratch/errors"
    code=$?
    if [ $code -ne 0 ]; then
      cat "$scratch/errors" >&2
      fail $code "point $((p + 1)): $(label $p)"
    fi
    sum=$(sed -n '/^$/q; /^runs_dir:/d; s/  # .*//; p' "$scratch/plan" | cksum)
    name=$(printf '%s' "$(label $p)" | tr ' ' , | tr -c 'A-Za-z0-9._=,+-' _)
    folders+=("$dir/${name:0:100}-${sum%% *}")
  done
}

# exit_code_of prints the exit code in the summary of a run; nothing where it has not ended.
exit_code_of() { sed -n 's/^ *"exit_code": *\([0-9]*\).*/\1/p' "$1/summary.json" 2>/dev/null; }

# inspect puts the run that stands for point $1 into run, and what to do with it into state: done, resume or new. That is
# the run that is done, else the newest one.
inspect() {
  run='' state=new
  local candidate checkpoint
  for candidate in "${folders[$1]}"/*/; do # sorted by name, which starts with the time
    candidate=${candidate%/}
    [ -f "$candidate/log.jsonl" ] || continue
    run=$candidate state=new
    for checkpoint in "$candidate"/checkpoints/step-*.safetensors; do
      [ ! -f "$checkpoint" ] || state=resume
    done
    if [ "$(exit_code_of "$candidate")" = 0 ]; then
      state=done
      return
    fi
  done
}

# write_index replaces DIR/index.tsv.
write_index() {
  local p
  {
    printf 'point\trun\texit_code\targuments\n'
    for ((p = 0; p < ${#points[@]}; p++)); do
      inspect $p
      printf '%s\t%s\t%s\t%s\n' "$(basename "${folders[p]}")" "${run:+${run#"$dir"/}}" "$([ -z "$run" ] || exit_code_of "$run")" "${points[p]//$'\n'/ }"
    done
  } >"$dir/index.tsv.tmp" && mv "$dir/index.tsv.tmp" "$dir/index.tsv"
}

say() { printf '[%d/%d] %s: %s\n' $(($1 + 1)) ${#points[@]} "$(label $1)" "$2"; }

# start runs point $1 in slot $2, in a process group of its own, so that an interrupt of the terminal reaches it only
# through this script. GOMAXPROCS is its share of the cores.
start() {
  local command
  inspect $1
  case $state in
    done) say $1 "done before"; return ;;
    resume) command=(--resume "$run") ;;
    new) arguments $1; command=(--config "$config" ${args[@]+"${args[@]}"} "runs_dir=${folders[$1]}") ;;
  esac
  mkdir -p "${folders[$1]}" || fail 1 "${folders[$1]} cannot be made"
  if [ $state = resume ]; then say $1 "resumed"; else say $1 "started"; fi
  GOMAXPROCS=$share "$train" "${command[@]}" >>"${folders[$1]}/output.txt" 2>&1 </dev/null &
  pids[$2]=$! at[$2]=$1
}

# reap frees the slots whose process has ended, and tells how.
reap() {
  local slot code
  for ((slot = 0; slot < jobs; slot++)); do
    [ -n "${pids[slot]:-}" ] || continue
    ! kill -0 "${pids[slot]}" 2>/dev/null || continue
    wait "${pids[slot]}"
    code=$?
    pids[slot]=''
    inspect "${at[slot]}"
    if [ $code -eq 0 ]; then
      say "${at[slot]}" "done$(figures "$run")"
    else
      say "${at[slot]}" "exit code $code, see ${folders[${at[slot]}]}/output.txt"
    fi
    write_index
  done
}

# figures are a few numbers of a summary.
figures() {
  sed -nE 's/^ *"(test_accuracy|test_loss|seconds)": *([^,]*),*$/\1 \2/p' "$1/summary.json" 2>/dev/null |
    while read -r key value; do printf ', %s %.6s' "$key" "$value"; done
}

running() {
  local pid
  for pid in ${pids[@]+"${pids[@]}"}; do [ -z "$pid" ] || return 0; done
  return 1
}

interrupt() {
  interrupted=true
  local pid
  echo "sweep: interrupted, the running points save; once more to leave at once" >&2
  for pid in ${pids[@]+"${pids[@]}"}; do
    [ -z "$pid" ] || kill -INT "$pid" 2>/dev/null
  done
}

# run_all starts the points in order as slots come free.
run_all() {
  local cores p=0 slot
  cores=${GOMAXPROCS:-$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
  share=$((cores / jobs > 0 ? cores / jobs : 1))
  while { [ $p -lt ${#points[@]} ] && ! $interrupted; } || running; do
    reap
    for ((slot = 0; slot < jobs; slot++)); do
      while [ -z "${pids[slot]:-}" ] && [ $p -lt ${#points[@]} ] && ! $interrupted; do
        start $p $slot
        p=$((p + 1))
      done
    done
    ! running || sleep 0.1
  done
}

# claim refuses to work in a folder that another sweep works in.
claim() {
  local owner
  mkdir -p "$dir" || fail 1 "$dir cannot be made"
  owner=$(cat "$dir/sweep.pid" 2>/dev/null)
  if [ -n "$owner" ] && [ "$owner" != $$ ] && kill -0 "$owner" 2>/dev/null; then
    fail 1 "process $owner, another sweep, works in $dir; if it is none, remove $dir/sweep.pid"
  fi
  echo $$ >"$dir/sweep.pid"
}

# finish shows the table and gives the exit code.
finish() {
  local p shown=() undone=0
  for ((p = 0; p < ${#points[@]}; p++)); do
    inspect $p
    [ -z "$run" ] || shown+=("$run")
    [ $state = done ] || undone=$((undone + 1))
  done
  echo
  [ ${#shown[@]} -eq 0 ] || "$train" report "${shown[@]}"
  echo
  echo "$((${#points[@]} - undone)) of ${#points[@]} points are done; $dir/index.tsv tells their run folders"
  ! $interrupted || return 130
  [ $undone -eq 0 ] || return 1
}

main() {
  parse_args "$@"
  expand
  scratch='' interrupted=false pids=() at=()
  trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT
  prepare_train
  resolve
  if $dry_run; then
    local p
    for ((p = 0; p < ${#points[@]}; p++)); do inspect $p; say $p "$state${run:+ $run}"; done
    exit 0
  fi
  claim
  trap '[ -z "$scratch" ] || rm -rf "$scratch"; rm -f "$dir/sweep.pid"' EXIT
  trap interrupt INT TERM
  set -m # a process group for each point
  write_index
  run_all
  finish
}

main "$@"
