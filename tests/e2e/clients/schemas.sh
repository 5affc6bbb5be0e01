#!/usr/bin/env bash
# Sends what /openapi.json allows and what it forbids, and checks each answer against it.
#
#   pip install schemathesis
#   runtime serve MODEL --max-model-len 256 --port 8000 &
#   tests/e2e/clients/schemas.sh http://127.0.0.1:8000
#
# A short context keeps answers short, whose lengths the requests leave open.
set -euo pipefail
url=${1:-http://127.0.0.1:8000}
exec schemathesis run "$url/openapi.json" \
  --checks not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance,response_headers_conformance \
  --phases examples,coverage,fuzzing --max-examples "${EXAMPLES:-60}" --max-time "${SECONDS_TO_RUN:-330}" \
  --request-timeout 60 --continue-on-failure --seed 7
