#!/usr/bin/env bash
# Makes the screenshots of README.md: types commands into an xterm under Xvfb and takes a picture, and
# opens pages in chromium (pages.py). Needs xvfb, xterm, imagemagick, chromium-driver,
# python3-selenium and a build; takes two minutes.   tools/screens/make.sh [BIN]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=$(realpath "${1:-build/release/tools}")
[ -x "$bin/nxd-convert" ] || { echo "make.sh: no commands in $bin" >&2; exit 3; }
for program in Xvfb xterm import mogrify chromium chromedriver; do
  command -v "$program" >/dev/null || { echo "make.sh: $program is missing" >&2; exit 3; }
done

work=$(mktemp -d)
server=
clean_up() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

# Xvfb writes the number of the display that it has found free.
Xvfb -displayfd 3 -screen 0 1280x800x24 -nolisten tcp 3>"$work/display" 2>/dev/null &
server=$!

# wait_for FILE: until it has something in it, a minute at most.
wait_for() {
  local tries
  for ((tries = 0; tries < 600; ++tries)); do
    [ -s "$1" ] && return
    sleep 0.1
  done
  echo "make.sh: $1 was not written in a minute" >&2
  exit 70
}
wait_for "$work/display"
DISPLAY=:$(cat "$work/display")
export DISPLAY

# picture NAME ROWS COLUMNS COMMAND...: each command behind a prompt, with what it prints.
picture() {
  local name=$1 rows=$2 columns=$3
  shift 3
  rm -f "$work/done"
  {
    printf 'cd %q; export PATH=%q:/usr/bin:/bin TERM=xterm-256color\n' "$work" "$bin"
    local command
    for command in "$@"; do
      printf 'printf "\\033[32m$\\033[0m %%s\\n" %q; %s\n' "$command" "$command"
    done
    printf 'printf "\\033[?25l"; sleep 0.5; echo done >%q; sleep 60\n' "$work/done"
  } >"$work/typed.sh"
  xterm -geometry "${columns}x$rows+0+0" -b 12 -bw 0 -fa 'DejaVu Sans Mono' -fs 11 +sb \
    -bg '#16181d' -fg '#d8dee9' -e bash "$work/typed.sh" 2>/dev/null &
  local terminal=$!
  wait_for "$work/done"
  import -silent -window root "$work/$name.png"
  mogrify -trim +repage -bordercolor '#16181d' -border 8 -strip \
    -define png:exclude-chunks=date,time "$work/$name.png"
  cp "$work/$name.png" "tools/screens/$name.png"
  kill "$terminal" 2>/dev/null || true
  wait "$terminal" 2>/dev/null || true
  echo "tools/screens/$name.png"
}

PATH=$bin:$PATH nxdkit-make-model -q --size "${SIZE:-tiny}" --out "$work/model"
picture convert 20 116 \
  "nxd-convert --to nxd --tp 2 model shards/step_0" \
  "neuron-export --tp 2 --bs 8 --seq 64 --target cpu model bundle" \
  "ckpt-verify bundle --against model"

# A model of 24 layers, in several files, and its shards.
(
  cd "$work"
  sed 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 24/' model/config.json >deep.json
  rm -r model shards
  "$bin/nxdkit-make-model" -q --config deep.json --max-shard-size 1MB --out model
  "$bin/nxd-convert" -q --to nxd --tp 4 model shards/step_0
)

# A run with a curve to show: six layers learn sums in 300 steps. Names in the pages are from here.
(
  cd "$work"
  PATH=$bin:$PATH
  configs=$OLDPWD/trainer/configs
  bash "$configs/arithmetic.sh" --build "$(dirname "$bin")" sums >/dev/null
  sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 6/' sums/model/config.json
  nxdkit-make-model -q --config sums/model/config.json --dtype f32 --out qwen3-6-layers
  cp sums/model/*tokenizer* sums/model/generation_config.json qwen3-6-layers/
  grpo-train --quiet --config "$configs/arithmetic.yaml" data.train_files=sums/data@train \
    data.val_files=sums/data@test worker.actor.model.model_path=qwen3-6-layers \
    trainer.project_name=arithmetic trainer.experiment_name=sums trainer.save_checkpoint_path=run \
    trainer.max_steps=300 trainer.save_freq=100 trainer.save_limit=-1 trainer.val_freq=20 \
    trainer.logger='[file]'
)
/usr/bin/python3 -B tools/screens/pages.py "$bin" "$work"
