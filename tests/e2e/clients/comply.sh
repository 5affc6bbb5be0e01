#!/usr/bin/env bash
# Checks answers against the schemas of OpenAI's chat completions and of Anthropic's messages.
#
#   pip install llm-comply
#   runtime serve MODEL --served-model-name m --enable-auto-tool-choice --tool-call-parser hermes &
#   tests/e2e/clients/comply.sh http://127.0.0.1:8000 m
#
# Images are refused by models of text, and a request without a model's name is answered. A small
# model may talk on until max_tokens, where the check of the system prompt wants it to end.
set -uo pipefail
url=${1:-http://127.0.0.1:8000} model=${2:-m}
for format in openai-chat anthropic; do
  llm-comply --format "$format" --base-url "$url/v1" --model "$model" --api-key any
done
