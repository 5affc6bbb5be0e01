#!/usr/bin/env bash
# Measures a server by aiperf with synthetic prompts.
#
#   pip install aiperf
#   runtime serve MODEL --served-model-name m --port 8000 &
#   tests/e2e/clients/aiperf.sh http://127.0.0.1:8000 m TOKENIZER_FOLDER
set -euo pipefail
url=${1:-http://127.0.0.1:8000} model=${2:-m} tokenizer=${3:?a folder with the tokenizer}
exec aiperf profile --model "$model" --tokenizer "$tokenizer" --url "$url" --endpoint-type chat \
  --streaming --synthetic-input-tokens-mean 64 --synthetic-input-tokens-stddev 0 \
  --output-tokens-mean 32 --concurrency 4 --request-count 32 --warmup-request-count 2
